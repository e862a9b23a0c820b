// The staging folder `.<OUT>.<plan_id[0:16]>.weir/` beside the destination, where outputs grow under
// their final names:
//
//   plan.json plan.bin   the plan
//   header.json          source folder, destination, source fingerprints, command line to resume
//   lock                 writers hold a shared flock, seal and clean an exclusive one
//   records.<n>          unit records, one file a writer, one line a unit, appended after fdatasync
//   seal.json            written first by the seal: which renames are to be made (an unfinished seal)
//   <outputs>            preallocated
//
// Every record carries the SHA-256 of header.json, so records made over other sources never count.
#ifndef WEIR_STAGING_H
#define WEIR_STAGING_H

#include "digest.h"
#include "plan.h"
#include "sources.h"

struct staging {
  int folder;             // descriptor of the staging folder, -1: null engine, nothing on disk
  int dest;               // descriptor of the destination folder
  char name[512];         // of the staging folder, inside dest
  char dest_path[4096];   // as the user gave it, for messages
  int lock;
  uint8_t header_sha256[DIGEST_BYTES];
  uint8_t (*digests)[DIGEST_BYTES]; // per unit
  uint8_t *done;                    // per unit
  uint32_t n_units;
};

enum staging_resume {
  STAGING_FRESH,    // made new (or emptied a dead one: says so through *note)
  STAGING_RESUMED,  // records of an earlier run taken over: staging.done says which
  STAGING_SEALED,   // an unfinished or finished seal was found: only the seal is left to do
};

struct staging_options {
  const char *dest_folder;
  const char *onnx_name;      // OUT's base name
  const char *resume_command; // printed and kept in header.json
  bool resume;
};

// Opens or makes the folder for this plan, checks free space against what the plan needs
// (ERR_NOSPACE with needed and free bytes) and preallocates outputs. A live lock is ERR_RETRY.
// Resume over changed sources is ERR_INPUT.
int staging_open(struct staging *st, const struct plan *p, struct sources *s,
                 const struct staging_options *options, enum staging_resume *how, char *note,
                 size_t note_bytes, struct err *err);
// A staging that exists in memory only, for the null engine.
int staging_open_null(struct staging *st, const struct plan *p, struct err *err);
// Records a finished, durable unit.
int staging_record(struct staging *st, uint32_t writer, uint32_t unit,
                   const uint8_t digest[DIGEST_BYTES], struct err *err);
int staging_output_fd(struct staging *st, const struct plan *p, uint32_t output, struct err *err);
uint64_t staging_disk_bytes(const struct staging *st, const struct plan *p); // what it occupies
void staging_close(struct staging *st);          // keeps the folder
int staging_remove(struct staging *st, struct err *err); // removes it

// For `weir clean`: calls `each` for every staging folder and orphaned sidecar in `dir`.
struct staging_found {
  const char *name;
  uint64_t bytes;
  bool locked, half_sealed;
  const char *resume_command; // or NULL
  const char *orphan_of;      // an orphaned fresh-named sidecar: the .onnx it was made for; else NULL
};
int staging_scan(const char *dir, int (*each)(void *ctx, const struct staging_found *found),
                 void *ctx, struct err *err);
int staging_remove_named(const char *dir, const char *name, struct err *err);

#endif
