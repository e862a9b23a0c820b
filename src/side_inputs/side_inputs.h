// Room: files of a user that passes read in addition to the model: ranges and texts.
//
// Files that options of passes name (pass_option.reads): read before the first pass, each once, and handed to the
// passes as what they hold. Records name them with their SHA-256, so that a log says what its edits were decided
// by; a replay needs none of them.
#ifndef WEIR_SIDE_INPUTS_H
#define WEIR_SIDE_INPUTS_H

#include "passes/catalogue/pass_values.h"
#include "platform/files.h"
#include "ranges/ranges.h"

enum { SIDE_INPUTS_TEXT_BYTES = 16 << 20 };

struct side_input {
  const char *path;   // as it was given
  const char *opened; // where it was read
  enum pass_reads reads;
  struct ranges ranges; // of PASS_READS_RANGES
  struct span text;     // of PASS_READS_TEXT
  uint8_t sha256[DIGEST_BYTES];
};

// Starts zeroed.
struct side_inputs {
  struct side_input **list;
  uint32_t n;
  struct arena arena;
};

// Reads what the options of a step name and was not read yet, and notes the digests in its values. Paths are those of the
// folder (NULL: as they are). ERR_INPUT, ERR_MODEL.
int side_inputs_take(struct side_inputs *g, struct pass_values *v, const char *folder,
                     struct err *err);
// Is it one of them?
bool side_inputs_has(const struct side_inputs *g, const struct entry_facts *st);
void side_inputs_done(struct side_inputs *g);

// Is every file of ranges of this model, which is as it was loaded? ERR_INPUT for one of another model, with both digests:
// one whose head names other metadata and that has values which are not there, or one without a head that has no value in
// common with it. A file of other metadata, but all of whose values are there, is told to `warn`.
int side_inputs_fit(const struct side_inputs *g, const struct model *m,
                    void (*warn)(void *ctx, const char *sentence, const char *hint), void *ctx,
                    struct err *err);

// What passes call (pass_env): ctx is the struct side_inputs.
int side_inputs_ranges(void *ctx, const char *path, const struct ranges **out, struct err *err);
int side_inputs_text(void *ctx, const char *path, struct span *out, struct err *err);

#endif
