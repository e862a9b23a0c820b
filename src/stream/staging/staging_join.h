// A plan that several processes carry out, on one machine or many that see one folder:
//
//   staging_open ─▶ staging_give_orders ─▶ staging_close         prepares it, alone
//   staging_join, as a member ─▶ run_plan ─▶ staging_close       makes units; any number at a time
//   staging_join, as the last ─▶ the seal                        alone again
//   staging_join, as a viewer                                    looks at the records
//
// Beside plan and header lie
//
//   orders.json   what members and the last one are told, with its own digest and that of header.json
//   small.jsonl   tensors that the plan's file leaves out (plan_file.h), where they are wanted
//
// No correctness rests on a lock, or on one writer for a unit: whoever makes a unit makes the same bytes, and a
// record says which bytes are durable. The lock keeps the last one from sealing while members write.
#ifndef WEIR_STAGING_JOIN_H
#define WEIR_STAGING_JOIN_H

#include "stream/staging/staging.h"

#define STAGING_ORDERS "orders.json"

struct staging_orders {
  uint32_t shards; // into how many parts the units are divided, unless somebody says otherwise
  bool null;       // nothing is written: units are made, hashed and recorded
  bool replace, manifest, tensor_digests, hash_inputs; // of the seal
  bool allow_links;                                    // of the sources
  const char *edits_sha256;                            // in hex; NULL: there was no log
  const char *layout_asked; // JSON, as the manifest is to have it; or NULL
  const char *const
      *companions; // paths of sources that are no data files, in the order of their rows
  uint32_t n_companions;
};

// Writes them, durably, once all else is in the folder: a folder without orders is not ready.
int staging_give_orders(const struct staging *st, const struct plan *p,
                        const struct staging_orders *orders, struct err *err);

enum staging_as {
  STAGING_AS_VIEWER, // takes no lock
  STAGING_AS_MEMBER, // a shared one
  STAGING_AS_LAST,   // the exclusive one
};

struct staging_source {
  const char *name;
  uint64_t size;
  int64_t mtime_ns;
};

// A folder that was joined, and all that it says.
struct staging_joined {
  struct staging st; // done, digests and errors: by the records
  struct plan plan;
  struct staging_orders orders;
  const char *onnx_name, *source_folder, *resume_command;
  struct staging_source *sources; // of the plan, as they were then
  uint32_t n_sources;
  int64_t planned_ns; // when the folder was prepared
  int64_t began_ns; // when its first member began; 0: none did, or the file system does not keep it
  bool sealed;      // its seal has begun
  uint32_t bad_records; // lines in records files that are none: torn, or damaged
  struct arena arena;
};

// Opens the folder at `path` (or at the folder of the plan.json that `path` is). ERR_INPUT: there is none, or it is not
// one of these, or of another version of weir, or it was damaged; ERR_PERMISSION: something in it is not
// ours; ERR_RETRY: its lock is taken. version: ours. On failure nothing stays open.
int staging_join(struct staging_joined *j, const char *path, const char *version,
                 enum staging_as as, struct err *err);
// Is it over, its folder finished or gone?
bool staging_joined_over(const char *path, struct arena *a);
// Its folder is gone: what would it have been? Gives the destination and the .onnx's name (both in *a), and the digits of
// the plan's id that it was named by. false: that path is no staging folder's.
bool staging_joined_name(const char *path, struct arena *a, const char **dest, const char **onnx,
                         const char **id);
// The sources, as the plan names them, in `folder` (NULL: where they were then). ERR_INPUT: one is missing, or not what it
// was by size and time of change. (Inodes differ from machine to machine.)
int staging_join_sources(const struct staging_joined *j, const char *folder, struct sources **out,
                         struct err *err);
// Reads the records again: what other members made meanwhile.
int staging_join_again(struct staging_joined *j, struct err *err);
void staging_leave(struct staging_joined *j);

#endif
