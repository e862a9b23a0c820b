// Staging folders as such, whatever lies in them: their names, how one is opened, locked, emptied.
// For who makes them (staging.c, artifact.c), finds them (staging_scan.c) or ends them (seal.c).
#ifndef WEIR_STAGING_INSIDE_H
#define WEIR_STAGING_INSIDE_H

#include "stream/staging/staging.h"

// The folder's name for (OUT, plan id). OUT is cut where it would pass the system's 255 bytes.
void staging_name(char name[STAGING_NAME_MAX], const char *onnx_name,
                  const uint8_t plan_id[DIGEST_BYTES]);
// Is `name` a staging folder's name, of OUT `onnx_name` (NULL: any)?
bool staging_name_is(const char *name, const char *onnx_name);
// OUT's name and the id in such a name. False: it is none. A name that was cut is as it is there.
bool staging_name_parts(const char *name, char onnx[STAGING_NAME_MAX], char id[17]);
// How far the seal of the staging folder `name` in `dest` is.
enum staging_seal staging_seal_in(struct folder dest, const char *name);

// An empty staging: nothing open. p: for its units and outputs; NULL: none.
void staging_reset(struct staging *st, const struct plan *p, const char *dest_folder);
// Fills done, digests and errors from the records that carry st->header_sha256. *unusable: lines passed over.
int staging_take_records(struct staging *st, const struct plan *p, uint32_t *unusable,
                         struct err *err);
void staging_others_free(struct staging_others *o);
// Opens the destination folder into *dest.
int staging_open_dest(const char *path, struct folder *dest, struct err *err);
// Opens `name` in dest and takes its lock exclusively, without waiting; fills folder and lock of
// st. MAKE makes the folder if there is none, and *made says whether it did; FOUND without one is
// -1 with an empty err. LOOK asks what would keep MAKE from entering, and makes neither folder nor
// lock. ERR_RETRY if the lock is taken.
enum staging_entry { STAGING_FOUND, STAGING_MAKE, STAGING_LOOK };
int staging_enter(struct staging *st, enum staging_entry how, bool *made, struct err *err);
// ERR_PERMISSION where the folder is another user's: who can write to it can change all that is in it.
int staging_check_owner(const struct staging *st, struct err *err);
// Does somebody work in it? Looks at the lock without taking part in it for longer than the look.
bool staging_is_locked(struct folder folder);
// Are the folder, and the lock that is held in it, still those that bear their names?
bool staging_still_there(const struct staging *st);
// Opens the folder that OUT has for this id as staging_enter does, FOUND or MAKE, and looks at nothing
// in it. On failure nothing stays open.
int staging_open_bare(struct staging *st, const char *dest_folder, const char *onnx_name,
                      const uint8_t id[DIGEST_BYTES], enum staging_entry how, bool *made,
                      struct err *err);
// Empties the folder but for the lock and sealed.json. What this process has open in it is to be closed before. ERR_RETRY where names stay that were removed, since another process has the files open.
int staging_empty(struct folder folder, const char *what, struct err *err);
// Removes a file that may be gone already. `what` names the folder in messages.
int staging_remove_file(struct folder folder, const char *name, const char *what, struct err *err);
// Bytes on disk of a folder's files.
uint64_t staging_folder_bytes(struct folder folder);
bool staging_has(struct folder folder, const char *name);

#endif
