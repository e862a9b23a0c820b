// What passes read besides the model: ranges and texts, in files of the user's.
//
// Files that options of passes name (pass_option.reads): read before the first pass, each once, and handed to the
// passes as what they hold. Records name them with their SHA-256, so that a log says what its edits were decided
// by; a replay needs none of them.
#ifndef WEIR_SIDE_INPUTS_H
#define WEIR_SIDE_INPUTS_H

#include "pass_values.h"
#include "ranges.h"

#include <sys/stat.h>

enum { GIVEN_TEXT_BYTES = 16 << 20 };

struct given_file {
  const char *path;   // as it was given
  const char *opened; // where it was read
  enum pass_reads reads;
  struct ranges ranges; // of PASS_READS_RANGES
  struct span text;     // of PASS_READS_TEXT
  uint8_t sha256[DIGEST_BYTES];
};

// Starts zeroed.
struct given_files {
  struct given_file **list;
  uint32_t n;
  struct arena arena;
};

// Reads what the options of a step name and was not read yet, and notes the digests in its values. Paths are those of the
// folder (NULL: as they are). ERR_INPUT, ERR_MODEL.
int given_files_take(struct given_files *g, struct pass_values *v, const char *folder,
                     struct err *err);
// Is it one of them?
bool given_files_has(const struct given_files *g, const struct stat *st);
void given_files_done(struct given_files *g);

// Is every file of ranges of this model, which is as it was loaded? ERR_INPUT for one of another model, with both digests:
// one whose head names other metadata and that has values which are not there, or one without a head that has no value in
// common with it. A file of other metadata, but all of whose values are there, is told to `warn`.
int given_files_fit(const struct given_files *g, const struct model *m,
                    void (*warn)(void *ctx, const char *sentence, const char *hint), void *ctx,
                    struct err *err);

// What passes call (pass_env): ctx is the struct given_files.
int given_files_ranges(void *ctx, const char *path, const struct ranges **out, struct err *err);
int given_files_text(void *ctx, const char *path, struct span *out, struct err *err);

#endif
