// The rules of the house, and those of the unit tests, over random graphs (made_rules.h).
#include "made_rules.h"

extern const struct rules_book rules_sample, rules_folds;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  if (n > 512) return 0;
  made_rules_run(&rules_house, false, span_of(data, n));
  made_rules_run(&rules_sample, false, span_of(data, n));
  made_rules_run(&rules_folds, true, span_of(data, n));
  return 0;
}
