// All that rewrites graphs (optimize for any goal, preprocess, cast with graph, a raise of the
// opset) over a model of the bytes (fuzzed.h). Rounds end.
//
//   the length says how: goal, exactness and what runs before or behind
#include "fuzzed.h"
#include "pipeline/optimize_steps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int steps(struct pipeline *p, uint32_t how, struct err *err) {
  static const enum optimize_goal goals[] = {GOAL_ONNX, GOAL_QUANTIZATION, GOAL_ONNXRUNTIME};
  static const char *const before[] = {NULL, "infer:min_dim=0", "opset:version=23",
                                       "cast:to=float16,graph=true"};
  const struct optimize_asked asked = {.goal = goals[how % 3], .rounds = OPTIMIZE_ROUNDS};
  p->exactness = how / 3 % 4 == 3 ? EXACTNESS_EXACT : EXACTNESS_ROUNDING;
  if (before[how / 12 % 4] && pipeline_add_text(p, before[how / 12 % 4], err)) return -1;
  if (optimize_steps_add(p, &asked, err) || pipeline_add_text(p, "infer", err)) return -1;
  return how % 3 == 1 ? pipeline_add_text(p, "mark-preprocessed", err) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return fuzzed_run(&(struct fuzzed){"optimize", steps}, data, size);
}
