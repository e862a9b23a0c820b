// A model of a fuzzer's bytes through passes: as an .onnx where they begin as one, else a model
// that is made of them (made_model.h), mostly of what passes look for.
#ifndef WEIR_FUZZED_H
#define WEIR_FUZZED_H

#include "pipeline/pipeline.h"

// Of a target: its word, for names of files, and the steps that it runs. `how` is the length of the
// bytes, so that one byte more is another way. Words for the files of options: "ranges=made" are
// those of made_ranges.h.
struct fuzzed {
  const char *name;
  int (*steps)(struct pipeline *p, uint32_t how, struct err *err);
};

// Adds the text of row `how % n` of a table: each is a pass with options, as behind --pass.
int fuzzed_add(struct pipeline *p, const char *const *texts, uint32_t n, uint32_t how,
               struct err *err);

// Aborts unless, whatever the model says, passes end with a sentence or leave it whole and as valid
// as it was, the edits replay to the same model, and what is written loads again. 0.
int fuzzed_run(const struct fuzzed *f, const uint8_t *data, size_t size);

#endif
