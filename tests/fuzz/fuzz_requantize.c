// requantize in both directions, over a model of the bytes (fuzzed.h).
#include "fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int steps(struct pipeline *p, uint32_t how, struct err *err) {
  static const char *const ways[] = {"requantize:to=qoperator",
                                     "requantize:to=qdq",
                                     "requantize",
                                     "requantize:format=int32-bias",
                                     "requantize:format=fp32-bias,execution=qlinear",
                                     "requantize:format=fp32-bias-qdq"};
  return fuzzed_add(p, ways, sizeof ways / sizeof *ways, how, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzzed_run(&(struct fuzzed){"requantize", steps}, data, size);
}
