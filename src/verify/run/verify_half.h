// Whole models that compute in float16 or bfloat16, run with every value rounded to it.
//
// ONNX Runtime has no kernels in float16 for most operators of a CPU: it computes them in float32, and the numbers in between are
// never rounded. x · 1000 · 0.001 gives x there, and infinity where float16 is what is computed in.
#ifndef WEIR_VERIFY_HALF_H
#define WEIR_VERIFY_HALF_H

#include "verify/run/verify.h"

// The type of 16 bits that nodes compute in, those in bodies too; UNDEFINED: none does. float16 counts for more.
enum dtype verify_half_computed(const struct model *m, struct infer *in);

struct verify_half;
// The model at `path`, whose weights stay where they are, with values that are kept: a small model in the folder for temporary
// files until it is closed. -1: it cannot be made.
int verify_half_open(struct verify_half **out, struct verify *v, const char *path, bool allow_links,
                     struct err *err);
enum runtime_end verify_half_load(struct verify_half *h, struct runtime_model *out,
                                  struct err *err);
void verify_half_close(struct verify_half *h); // may be NULL

#endif
