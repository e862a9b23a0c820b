// Points: steps of a pipeline that change nothing, but look at the model as it is there.
//
//   … ─▶ cleanup ─▶ checker/Checker ─▶ streamline ─▶ verify/VerifyTolerance ─▶ …
//                   here                             here
//
// Checker looks itself. What the model computes is not known to a pass: the steps of `verify` are marks, and whoever runs
// models (tools/points) takes the model at each of them and runs it.
#include "check.h"
#include "kit.h"

static int refuse(struct pass_env *env, const struct err *why, struct err *err) {
  if (env->refuse) return env->refuse(env->refuse_ctx, why, err);
  *err = *why;
  return -1;
}

static int run_checker(struct pass_env *env, void *options, struct pass_result *result,
                       struct err *err) {
  struct err flaw = {0}, why = {0};
  (void)options;
  (void)result;
  int rc = check_structure(env->m, NULL, NULL, &flaw);
  if (rc == 0) rc = check_operators(env->m, NULL, &flaw);
  if (rc == 0 && env->types) rc = check_dtypes(env->m, env->types, NULL, &flaw);
  if (rc == 0) return 0;
  err_fill(&why, ERR_FAIL, "%s found an invalid model: %s", env->pass->name, flaw.msg);
  err_fill_hint(&why, "'weir check' says the same of the source, if that is where it comes from");
  return refuse(env, &why, err);
}

static int run_mark(struct pass_env *env, void *options, struct pass_result *result,
                    struct err *err) {
  (void)env;
  (void)options;
  (void)result;
  (void)err;
  return 0;
}

static const struct pass checker = {
    .name = "checker/Checker",
    .summary = "stop if the model is not well-formed here",
    .about =
        "Looks at names, order, operators and their versions, counts of inputs and outputs, "
        "attributes and types, as 'weir check' does, of the model as the passes before it left "
        "it. Ends the run if there is an error; nothing is written then.",
    .needs = "nothing",
    .promises = "the model stays as it is",
    .exactness = EXACTNESS_EXACT,
    .run = run_checker,
};

static const struct pass equality = {
    .name = "verify/VerifyEquality",
    .summary = "stop if the model does not give the source's numbers here",
    .about = "Runs the source and the model as the passes before it left it, whole and on the same "
             "inputs, in ONNX Runtime, and compares all outputs, which must be equal. Nothing is "
             "written if they are not.",
    .needs = "ONNX Runtime, which can hold the model",
    .promises = "the model stays as it is",
    .exactness = EXACTNESS_EXACT,
    .run = run_mark,
};

static const struct pass tolerance = {
    .name = "verify/VerifyTolerance",
    .summary = "stop if the model is off by more than the tolerance here",
    .about = "Runs the source and the model as the passes before it left it, whole and on the same "
             "inputs, in ONNX Runtime, and compares all outputs, by the tolerance of the pipeline "
             "file. Nothing is written if one is off by more.",
    .needs = "ONNX Runtime, which can hold the model",
    .promises = "the model stays as it is",
    .exactness = EXACTNESS_EXACT,
    .run = run_mark,
};

static const struct pass metric = {
    .name = "verify/VerifyMetric",
    .summary = "stop if a metric of the task is out of range here",
    .about =
        "Runs the model as the passes before it left it, whole and on the inputs of the "
        "pipeline file, in ONNX Runtime, and holds its outputs beside those that are expected, "
        "by the metrics of the file. Nothing is written if one is out of its range.",
    .needs = "ONNX Runtime, which can hold the model; metrics and expected outputs",
    .promises = "the model stays as it is",
    .exactness = EXACTNESS_EXACT,
    .run = run_mark,
};

const struct pass *const points_passes[] = {&checker, &equality, &tolerance, &metric, NULL};
