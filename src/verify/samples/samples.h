// Room: samples for calibration: each has a value for every required input of a model, and one is read at a time.
//
//   DIR of *.npz                 a sample each, in order of names; members are inputs by name
//   DIR of *.npy                 a sample each, of a model with one input
//   DIR of test_data_set_*       a sample each: input_<i>.pb
//   FILE.npz, FILE.npy, DIR/test_data_set_0
//                                one sample
//   FILE:name:dtype:2x3x4        raw elements of the input `name`: as many samples as it holds arrays of this shape, one after
//                                the other; given for every input
//   drawn                        from a seed, as 'weir verify' draws (draw.h)
//
// Several may be named: their samples follow one another. All are looked at when they are opened (names, types, ranks, fixed dims),
// before the model is run once, and have a digest, which does not depend on how they lie in files. What changed in
// between is refused.
//
// A sample is in memory, or in files, one at a time: memory does not grow with their number.
#ifndef WEIR_SAMPLES_H
#define WEIR_SAMPLES_H

#include "base/digest.h"
#include "infer/infer.h"
#include "verify/arrays/array.h"
#include "verify/draw/draw.h"

enum { SAMPLES_DEFAULT = 128, SAMPLES_MOST = 1 << 20 };

struct samples_options {
  const char *const *data; // as above
  uint32_t n_data;
  uint64_t generate;        // so many are drawn, behind those of `data`
  struct draw_options draw; // how: sample i with seed + i
  uint64_t most; // samples that are taken; 0: SAMPLES_DEFAULT. Those behind it are not looked at
  uint64_t most_bytes; // of the elements of one sample; 0: 1 GiB
  const char *scratch; // a folder for files without a name, of what is large and compressed
};

struct samples; // opaque

// `m` and `in` (inferred) are kept until samples_close, and so is what the options name.
// ERR_INPUT for what cannot be read, has no sample, or does not fit the model; ERR_MODEL for a malformed file; ERR_USAGE for words
// of `data` that mean nothing.
int samples_open(struct samples **out, const struct model *m, struct infer *in,
                 const struct samples_options *o, struct err *err);
void samples_close(struct samples *s); // may be NULL

// How many there are, and how many were left out since there are more than `most`.
uint64_t samples_count(const struct samples *s);
uint64_t samples_left_out(const struct samples *s);
// Of all samples in order: names, types, dims and elements of their inputs, in the model's order.
void samples_sha256(const struct samples *s, uint8_t sha256[DIGEST_BYTES]);

// The next sample: its inputs, each under its name, in the model's order, valid until the next call. *ended: there is none,
// and the next call gives the first one again. *name: of its file or folder, for messages.
int samples_next(struct samples *s, const struct arrays **inputs, const char **name, bool *ended,
                 struct err *err);
// The first one comes next.
void samples_rewind(struct samples *s);

#endif
