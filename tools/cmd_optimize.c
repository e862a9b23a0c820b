// weir optimize: rounds of rewrites over what inference knows, and the types and shapes of what is left.
//
//   infer (only with --set-shape, --set-dim) ──▶ opset (with --opset) ──▶ rounds ──▶ what comes last ──▶ infer
#include "commands.h"
#include "optimize_steps.h"
#include "pass_job.h"

static const char *escaped(struct pipeline *p, const char *text) {
  char *out = arena_alloc(&p->arena, 2 * strlen(text) + 1), *to = out;
  for (; *text; text++) {
    if (strchr(",:=+\\", *text)) *to++ = '\\';
    *to++ = *text;
  }
  *to = '\0';
  return out;
}

static const char *list_key(struct pipeline *p, const char *key, const char *const *list,
                            uint32_t n) {
  const char *text = "";
  for (uint32_t i = 0; i < n; i++)
    text = arena_printf(&p->arena, "%s%s%s", text, i ? "+" : "", escaped(p, list[i]));
  return n ? arena_printf(&p->arena, ",%s=%s", key, text) : "";
}

// "infer:set_shape=…,set_dim=…"; "infer" without them.
static const char *infer_text(struct pipeline *p, const struct cli_args *args) {
  uint32_t n_shapes, n_dims;
  const char *const *shapes = cli_list(args, OPT_SET_SHAPE, &n_shapes);
  const char *const *dims = cli_list(args, OPT_SET_DIM, &n_dims);
  char *text = arena_printf(&p->arena, "infer%s%s", list_key(p, "set_shape", shapes, n_shapes),
                            list_key(p, "set_dim", dims, n_dims));
  char *comma = strchr(text, ',');
  if (comma) *comma = ':';
  return text;
}

int cmd_optimize(const struct cli_args *args, struct err *err) {
  struct pass_job pj;
  struct optimize_asked asked = {.goal = optimize_goal_of(cli_string(args, OPT_GOAL)),
                                 .rounds = cli_count(args, OPT_ROUNDS)};
  pass_job_init(&pj);
  asked.only = cli_list(args, OPT_ONLY, &asked.n_only);
  asked.skip = cli_list(args, OPT_SKIP, &asked.n_skip);
  int rc = pass_job_take_inputs(&pj, args, err);
  const char *infer = infer_text(&pj.pipeline, args);
  if (rc == 0 && strcmp(infer, "infer") != 0) rc = pipeline_add_text(&pj.pipeline, infer, err);
  if (rc == 0 && cli_given(args, OPT_OPSET))
    rc = pipeline_add_text(
        &pj.pipeline,
        arena_printf(&pj.pipeline.arena, "opset:version=%u", (unsigned)cli_count(args, OPT_OPSET)),
        err);
  if (rc == 0) rc = optimize_steps_add(&pj.pipeline, &asked, err);
  if (rc == 0) rc = pipeline_add_text(&pj.pipeline, "infer", err);
  pass_job_take_exactness(&pj, args);
  if (rc == 0) rc = pass_job_command(&pj, args, err);
  pass_job_free(&pj);
  return rc;
}
