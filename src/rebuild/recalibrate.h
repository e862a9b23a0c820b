// Ranges that passes read, found again: 'weir calibrate' as it was told when the manifest's were, on the source, behind the
// passes that had changed it then, and on samples that are given.
#ifndef WEIR_RECALIBRATE_H
#define WEIR_RECALIBRATE_H

#include "base/digest.h"
#include "base/table.h"
#include "passes/catalogue/pass_values.h"
#include "stream/sys/scratch.h"

struct recorded_places;
struct calibrate_record; // calibrate_job.h

struct recalibrated {
  struct scratch folder;
  const char *path; // in the arena below
  uint8_t sha256[DIGEST_BYTES];
  bool made; // else it is on the way
};

struct recalibrate {
  // Runs a command line of 'weir calibrate'.
  int (*run)(const char *const *words, int n, const struct calibrate_record *record,
             struct err *err);
  // As the user gave them to 'weir rebuild'; NULL: not.
  const char *library, *jobs, *memory;
  const char *const *data;
  uint32_t n_data;
  bool allow_links;
  const char *source;
  // Files that were made, each in a folder of its own, since two may have one name; until recalibrate_end.
  TABLE(struct recalibrated, files);
  struct arena arena;
};
void recalibrate_end(struct recalibrate *r); // also one that is all zero

// Makes the file that `v` recorded and sets v->text to where it lies. ERR_MODEL where the manifest does not say how it was
// made; ERR_FAIL where another one comes out, with what is different. places: of files that passes before it read.
int recalibrate(struct recalibrate *r, struct pass_value *v, const struct recorded_places *places,
                struct err *err);

#endif
