// What the parts of this room share: where samples are, and whether one fits the model.
#ifndef WEIR_SAMPLES_PARTS_H
#define WEIR_SAMPLES_PARTS_H

#include "verify/samples/samples.h"

// A file of raw elements of one input, as many samples as it has arrays of the shape.
struct samples_raw {
  const char *path, *input;
  enum dtype dtype;
  uint32_t rank;
  const int64_t *dims;
  uint64_t bytes, count; // of one sample; samples
  struct file file;
};

enum samples_kind { SAMPLES_FILE, SAMPLES_RAW, SAMPLES_DRAWN };

struct samples_item {
  const char *path, *name; // of a file or folder; for messages
  enum samples_kind kind;
  uint64_t at; // which of those in the raw files, or drawn
  uint8_t sha256[DIGEST_BYTES];
};

// samples_list.c: all samples that `data` names, in order, without opening them.
struct samples_list {
  TABLE(struct samples_item, items);
  TABLE(struct samples_raw, raws); // one sample has an array of each
};
int samples_list_data(struct samples_list *l, const char *data, struct arena *a, struct err *err);
// Once all are named: the samples of raw files.
int samples_list_raws(struct samples_list *l, struct arena *a, struct err *err);

// samples_fit.c. Arrays that a sample has become those of the model's inputs, in its order, under their names. ERR_INPUT.
int samples_fit(const struct model *m, struct infer *in, const char *sample,
                const struct arrays *has, struct arena *a, struct arrays *out, struct err *err);

#endif
