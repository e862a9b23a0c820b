// streamline and what goes with it (thresholds, QONNX, layouts), over a model of the bytes
// (fuzzed.h). Rounds end.
#include "fuzzed.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int steps(struct pipeline *p, uint32_t how, struct err *err) {
  static const char *const ways[] = {"streamline", "streamline-thresholds", "import-qonnx",
                                     "streamline", "convert-layouts",       "cleanup"};
  return fuzzed_add(p, ways, sizeof ways / sizeof *ways, how, err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzzed_run(&(struct fuzzed){"streamline", steps}, data, size);
}
