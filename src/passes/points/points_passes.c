// Room: points: steps of a pipeline that change nothing, but look at the model between two passes.
//
//   … ─▶ cleanup ─▶ checker/Checker ─▶ streamline ─▶ verify/VerifyTolerance ─▶ …
//                   here                             here
//
// Checker looks itself. What the model computes is not known to a pass: the steps of `verify` are marks, and whoever runs
// models (src/verify/watch) takes the model at each of them and runs it.
#include "check/check.h"
#include "passes/kit/kit.h"

static int run_checker(struct pass_env *env, void *options, struct err *err) {
  struct err flaw = {0}, why = {0};
  (void)options;
  int rc = check_structure(env->m, NULL, NULL, &flaw);
  if (rc == 0) rc = check_operators(env->m, NULL, &flaw);
  if (rc == 0 && env->types) rc = check_dtypes(env->m, env->types, NULL, &flaw);
  if (rc == 0) return 0;
  err_fill(&why, ERR_FAIL, "%s found an invalid model: %s", env->pass->name, flaw.msg);
  err_fill_hint(&why, "if the source has this error too, 'weir check' reports it");
  return pass_refuse(env, &why, err);
}

static int run_mark(struct pass_env *env, void *options, struct err *err) {
  (void)env, (void)options, (void)err;
  return 0;
}

static const struct pass checker = {
    .name = "checker/Checker",
    .summary = "stop if the model is not well-formed at this point",
    .about =
        "Checks the output of the passes before it as 'weir check' does: names, order, operators "
        "and their versions, numbers of inputs and outputs, attributes and types. If there is an "
        "error, the run ends and nothing is written.",
    .promises = "the model is unchanged",
    .exactness = EXACTNESS_EXACT,
    .run = run_checker,
};

static const struct pass equality = {
    .name = "verify/VerifyEquality",
    .summary = "stop if the model's outputs differ from the source's at this point",
    .about = "Runs the source and the output of the passes before it in ONNX Runtime, as whole "
             "models and on the same inputs, and compares all outputs. If any outputs are not "
             "equal, nothing is written.",
    .needs = "ONNX Runtime, and memory for the whole model",
    .promises = "the model is unchanged",
    .exactness = EXACTNESS_EXACT,
    .run = run_mark,
};

static const struct pass tolerance = {
    .name = "verify/VerifyTolerance",
    .summary = "stop if the model's outputs differ by more than the tolerance at this point",
    .about = "Runs the source and the output of the passes before it in ONNX Runtime, as whole "
             "models and on the same inputs, and compares all outputs with the tolerance of the "
             "pipeline file. If an output differs by more, nothing is written.",
    .needs = "ONNX Runtime, and memory for the whole model",
    .promises = "the model is unchanged",
    .exactness = EXACTNESS_EXACT,
    .run = run_mark,
};

static const struct pass metric = {
    .name = "verify/VerifyMetric",
    .summary = "stop if a metric of the task is out of range at this point",
    .about = "Runs the output of the passes before it in ONNX Runtime, as a whole model and on the "
             "inputs of the pipeline file. Compares its outputs with the expected outputs by the "
             "metrics of the file. If a metric is out of its range, nothing is written.",
    .needs = "ONNX Runtime, and memory for the whole model; metrics and expected outputs",
    .promises = "the model is unchanged",
    .exactness = EXACTNESS_EXACT,
    .run = run_mark,
};

const struct pass *const points_passes[] = {&checker, &equality, &tolerance, &metric, NULL};
