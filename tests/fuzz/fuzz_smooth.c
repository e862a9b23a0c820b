// smooth in its forms, over a model of the bytes with a range for most values, by channel for some
// (fuzzed.h).
#include "fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int steps(struct pipeline *p, uint32_t how, struct err *err) {
  static const char *const ways[] = {
      "smooth:ranges=made", "smooth:ranges=made,alpha=auto", "smooth:ranges=made,no_folding=true",
      "smooth:ranges=made,compat=onnxruntime", "smooth:ranges=made,alpha=0.9"};
  return fuzzed_add(p, ways, sizeof ways / sizeof *ways, how, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzzed_run(&(struct fuzzed){"smooth", steps}, data, size);
}
