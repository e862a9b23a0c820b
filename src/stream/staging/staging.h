// Room: the staging folder that outputs grow in, its records, and artifacts.
//
// The staging folder `.<OUT>.<plan_id[0:16]>.weir/` beside the destination, where outputs grow
// under their final names:
//
//   plan.json plan.bin   the plan
//   header.json          version of weir, source folder, destination, source fingerprints, command line
//   lock                 writers hold a shared flock, seal and clean an exclusive one; says who
//   records.<n>          unit records, one file a writer, one line a unit, appended after fdatasync
//   seal.json            written first by the seal: the renames to be made (an unfinished seal)
//   sealed.json          the same once all of them are made: the folder is finished, and only to be removed
//   report.json          what the run's report says, and its digest, for who completes a seal (by the caller)
//   report.html          the same as a page
//   <outputs>            preallocated
//
// Every record carries the SHA-256 of header.json, so records made over other sources never count.
// sealed.json goes last, from a folder that is called `.<OUT>.<plan_id[0:16]>.done.weir` by then: so what a kill leaves of a finished folder can
// be told from a run that has just begun. Files are closed before they are moved or removed, and so is all that is in a folder which gets
// another name: Windows refuses to move what is open, and a file that was removed while it was open keeps its name there (on NFS it gets
// another one) until it is closed.
#ifndef WEIR_STAGING_H
#define WEIR_STAGING_H

#include "base/arena.h"
#include "base/digest.h"
#include "base/table.h"
#include "plan/plan.h"
#include "stream/io/sources.h"
#include "stream/staging/figure_sums.h"
#include "stream/sys/reread.h"

enum { STAGING_NAME_MAX = 256 };
enum { STAGING_FILE_MAX = 250 }; // bytes of a file's name: the folder takes 255, ".tmp" among them
// Is `name` one that a file of the staging folder itself bears or may come to bear?
bool staging_name_reserved(const char *name);

#define STAGING_INTENT "seal.json"
#define STAGING_FINISHED "sealed.json"
#define STAGING_REPORT "report.json"
#define STAGING_PAGE "report.html"
#define STAGING_PROVENANCE "provenance.json"

// What another record says of a unit that has one.
struct staging_other {
  uint32_t unit;
  uint8_t digest[DIGEST_BYTES];
  struct figure_sums errors;
};
struct staging_others {
  TABLE(struct staging_other, rows);
};

struct staging {
  struct folder folder;        // the staging folder; none: null engine, nothing on disk
  struct folder dest;          // the destination folder
  char name[STAGING_NAME_MAX]; // of the staging folder, inside dest
  char dest_path[4096];        // as the user gave it, for messages
  struct file lock;
  uint8_t header_sha256[DIGEST_BYTES];
  uint8_t (*digests)[DIGEST_BYTES]; // per unit
  uint8_t *done;                    // per unit
  struct figure_sums errors;        // of all units that are done
  struct staging_others others; // records that contradict those: nobody knows yet which are right
  uint32_t n_units;
  bool null;            // units are made and hashed, and nothing of them is written
  const uint8_t *leave; // per unit: another member of the plan makes it; NULL: none does
  uint32_t first_record, record_step; // numbers of records files that this process tries
  // The rest is staging's own.
  struct folder unnamed_in; // null engine: the folder for staging_unnamed_file, or none
  struct arena arena;
  struct file *outputs; // in the plan's order
  uint32_t n_outputs;
  struct file records;
};

enum staging_resume {
  STAGING_FRESH,   // made new (or emptied a dead one: says so through *note, if it held anything)
  STAGING_RESUMED, // records of an earlier run taken over: staging.done says which
  STAGING_SEALED,  // an unfinished seal of this plan was found: only seal_finish is left to do
};

struct staging_options {
  const char *dest_folder;
  const char *onnx_name;      // OUT's base name
  const char *resume_command; // printed and kept in header.json
  const char *asked;     // what else the command read, in words of the caller, kept too; or NULL
  const char *version;   // of weir: another one's folder is refused
  uint64_t beside_bytes; // of files that a seal will put beside the outputs
  bool null;             // outputs are not made
  // What an interrupted run of this plan left is taken over if the sources are what they were, also
  // without --resume. With it changed sources are refused, and a note says that nothing was left.
  bool resume;    // --resume
  bool fresh;     // --fresh: what was left is thrown away
  bool took_over; // what a stage before the plan had left: there was something to resume
};

// Opens or makes the folder for this plan, checks free space against what the plan needs
// (ERR_NOSPACE with needed and free bytes) and preallocates outputs. A live lock is ERR_RETRY, and
// so is an unfinished seal of another plan for the same OUT. Resume over changed sources is
// ERR_INPUT. A folder that another version of weir left is ERR_USAGE, one in which somebody else has
// put something ERR_PERMISSION, unless it is thrown away. p->id must be set. note: sentences for the
// user, one a line, or "". STAGING_SEALED comes without options->resume too, if the sources are still
// those of the run that began to seal. After STAGING_RESUMED, staging_check_units.
// On failure nothing stays open, and a folder that this call made is gone again.
int staging_open(struct staging *st, const struct plan *p, struct sources *s,
                 const struct staging_options *options, enum staging_resume *how, char *note,
                 size_t note_bytes, struct err *err);
// What staging_open would find on the destination's file system.
struct staging_space {
  // Outputs, plan and beside_bytes, less what an interrupted run of this plan occupies.
  uint64_t needed_bytes;
  uint64_t free_bytes; // for us
  bool known;          // not every file system can tell
};
// A look ahead, without a change: fills *space (as far as the folder can be opened), and refuses
// what staging_open without `resume` would refuse, in the same words. What goes wrong later (a disk
// that fills up meanwhile) it cannot know.
int staging_foresee(const struct plan *p, const struct staging_options *options,
                    struct staging_space *space, struct err *err);
// Which of the units that are recorded: each, or those whose records contradict each other.
enum staging_which { STAGING_EVERY_UNIT, STAGING_CONTRARY_UNITS };
struct staging_checked {
  uint32_t read;      // units that were hashed
  uint32_t contrary;  // of these, with records that contradict each other
  uint32_t forgotten; // and that no record is right of: they are made again
};
// Compares the bytes of units with their records. Of several records of one unit the one that is right holds; units
// of which none is are forgotten. ERR_RETRY if it was stopped. work->done and its ctx are not used.
int staging_check_units(struct staging *st, const struct plan *p, enum staging_which which,
                        const struct reread_work *work, struct staging_checked *out,
                        struct err *err);
// Was an output changed when, or after, the last record was written? Whoever writes a unit records it after that, so
// something else did then (a clock that counts slowly says it too). Times of change are asked, which nobody sets.
bool staging_is_newer_than_records(const struct staging *st, const struct plan *p);
// Looks at the folder and everything in it: ERR_PERMISSION, by name, for what is not a plain file of ours with
// this one name. (A file that a seal is just moving may have its final name too.)
int staging_check_entries(const struct staging *st, struct err *err);
// A staging that exists in memory only, for the null engine. dest_folder (NULL, or not there:
// none): where staging_unnamed_file makes its file.
int staging_open_null(struct staging *st, const struct plan *p, const char *dest_folder,
                      struct err *err);
// For eval_cache_file: a new file without a name on the file system of the outputs, to read and
// write; none: there cannot be one. It belongs to the caller. Several processes that work in one
// folder have one each.
struct file staging_unnamed_file(void *staging);
// Makes its records file now, if it has none: its age says when the work began.
int staging_open_records(struct staging *st, struct err *err);
// Records a finished, durable unit, and its error figures. One call at a time.
int staging_record(struct staging *st, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                   const struct figure_sums *errors, struct err *err);
// Makes them durable, so that a power cut does not take them. (A kill never does.)
int staging_sync_records(const struct staging *st, struct err *err);
// Are the bytes of units written, so that they can be read back?
bool staging_writes(const struct staging *st);
// A read-write descriptor of an output; belongs to the staging, any thread may use it.
struct file staging_output_fd(const struct staging *st, uint32_t output);
uint32_t staging_done_count(const struct staging *st);
uint64_t staging_done_bytes(const struct staging *st, const struct plan *p); // of those units
// Closes outputs and records, for who moves or removes them: nothing is written to the folder any more.
void staging_close_files(struct staging *st);
void staging_close(struct staging *st); // keeps the folder
// Removes the folder and closes the staging, also when it fails. A half-sealed folder is kept: it
// alone knows what is left to do.
int staging_remove(struct staging *st, struct err *err);

// ---- unfinished seals ----

enum staging_seal {
  STAGING_SEAL_NONE,
  STAGING_SEAL_UNFINISHED, // outputs are partly in place
  STAGING_SEAL_FINISHED,   // all in place, only the folder is left over
};
// Is there a seal of OUT (base name `onnx_name` in dest_folder) that did not end? To be asked
// before anything is planned: names that the unfinished seal has taken would change the plan.
// *name: its folder.
int staging_find_seal(const char *dest_folder, const char *onnx_name, char name[STAGING_NAME_MAX],
                      enum staging_seal *state, struct err *err);
// The same in a folder that is open; `dest_folder` is for messages.
int staging_find_seal_in(struct folder dest, const char *dest_folder, const char *onnx_name,
                         char name[STAGING_NAME_MAX], enum staging_seal *state, struct err *err);
// Opens such a folder for seal_finish, under the exclusive lock. ERR_RETRY if that is taken.
int staging_open_sealed(struct staging *st, const char *dest_folder, const char *name,
                        struct err *err);
// Was it left by this version of weir? ERR_USAGE otherwise.
int staging_check_version(const struct staging *st, const char *version, struct err *err);
// Was it left by this very command line (resume_command) that read the same files (asked; NULL: not known), over sources that are
// still there as they were? inplace: they may be gone. False also for a folder that another version left.
struct staging_job {
  const char *version, *command, *asked, *source_folder;
  bool inplace;
};
bool staging_is_of_job(const struct staging *st, const struct staging_job *job);
// For the seal: the exclusive lock, after making sure that the folder is still ours.
int staging_lock_exclusive(struct staging *st, struct err *err);
// For the seal: marks the folder as finished (sealed.json), removes it and closes the staging, also where it cannot be removed.
int staging_retire(struct staging *st, struct err *err);
// Removes what a kill left of a seal that was through. False: it is still there, for `weir clean`.
bool staging_put_away(const char *dest_folder, const char *name);

// ---- `weir clean` ----

// Calls `each` for every staging folder and orphaned sidecar in `dir`. Strings hold during the
// call.
struct staging_found {
  const char *name;
  uint64_t bytes;
  bool locked, half_sealed;
  bool finished;              // the output is all in place: a kill left the folder, or a part of it
  bool planned, begun;        // the folder of a plan (staging_join.h); a member has worked on it
  const char *resume_command; // or NULL
  const char *orphan_of; // an orphaned fresh-named sidecar: the .onnx it was made for; else NULL
};
int staging_scan(const char *dir, int (*each)(void *ctx, const struct staging_found *found),
                 void *ctx, struct err *err);
// Removes one of them. ERR_RETRY if it is locked or half-sealed, ERR_USAGE if it is neither a
// staging folder nor an orphan, ERR_PERMISSION if there is a folder in it that weir did not make: that
// stays, all else goes.
int staging_remove_named(const char *dir, const char *name, struct err *err);

#endif
