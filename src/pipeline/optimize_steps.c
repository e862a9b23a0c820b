// The rows of optimize.def as steps of a pipeline, in two repeats, so that a second run finds nothing that the first one left:
//
//   repeat(repeat(ROUND …), LAST …), END …
#include "pipeline/optimize_steps.h"

#include "base/guess.h"
#include "platform/patterns.h"

enum { ROUND = OPTIMIZE_ROUND, LAST = OPTIMIZE_LAST, END = OPTIMIZE_END };
enum { ONNX = GOAL_ONNX, QUANTIZATION = GOAL_QUANTIZATION, ONNXRUNTIME = GOAL_ONNXRUNTIME };

static const struct step {
  const char *pass;
  uint8_t when, goals;
} steps[] = {
#define STEP(when, pass, goals) {pass, when, goals},
#include "pipeline/optimize.def"
#undef STEP
};
enum { STEPS = sizeof steps / sizeof *steps };

enum optimize_goal optimize_goal_of(const char *word) {
  return strcmp(word, "onnx") == 0           ? GOAL_ONNX
         : strcmp(word, "quantization") == 0 ? GOAL_QUANTIZATION
                                             : GOAL_ONNXRUNTIME;
}

static bool matches(const char *pattern, const char *name) {
  const size_t n = strcspn(name, "/");
  // The name of a family stands for its passes.
  if (strlen(pattern) == n && strncmp(pattern, name, n) == 0) return true;
  return pattern_glob(pattern, name);
}

static bool named(const char *const *patterns, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (matches(patterns[i], name)) return true;
  return false;
}

// "gelu" of "optimize/gelu".
static const char *behind_family(const char *name) {
  const char *slash = strchr(name, '/');
  return slash ? slash + 1 : name;
}

static int check_patterns(const char *const *patterns, uint32_t n, const char *option,
                          struct err *err) {
  for (uint32_t i = 0; i < n; i++) {
    struct guess g = guess_start(patterns[i]);
    const char *meant = NULL;
    bool found = false;
    for (uint32_t k = 0; k < STEPS && !found; k++) {
      found = matches(patterns[i], steps[k].pass);
      guess_try(&g, steps[k].pass);
      if (strcmp(patterns[i], behind_family(steps[k].pass)) == 0 && !meant) meant = steps[k].pass;
    }
    if (found) continue;
    err_fill(err, ERR_USAGE, "--%s %s: 'weir optimize' has no such step", option,
             quote_str(patterns[i]).s);
    if (meant || g.best) return err_hint(err, "did you mean '%s'?", meant ? meant : g.best);
    return err_hint(err, "'weir passes optimize' lists the steps");
  }
  return 0;
}

// --only names no step that is for the goal, or --skip takes all of them away.
static int no_step_is_left(const struct optimize_asked *asked, struct err *err) {
  uint32_t others = 0;
  for (uint32_t i = 0; i < STEPS; i++)
    if (named(asked->only, asked->n_only, steps[i].pass) &&
        !named(asked->skip, asked->n_skip, steps[i].pass))
      others |= steps[i].goals;
  err_fill(err, ERR_USAGE, "--only leaves no step for this goal");
  if (others)
    return err_hint(err, "these steps are for --goal %s",
                    others & GOAL_ONNX ? "onnx" : "onnxruntime");
  return err_hint(err, "--skip removes all steps that --only names");
}

// What the user asked for and one step has an option for.
static int set_limit(struct pipeline *p, struct pass_values *values,
                     const struct optimize_asked *asked, struct err *err) {
  const uint32_t option = pass_values_option(values->pass, span_str("fold-limit"));
  if (option == NO_ID || !asked->fold_limit) return 0;
  return pass_values_put(values, option, span_str(asked->fold_limit), &p->arena, err);
}

static bool is_asked(const struct optimize_asked *asked, const struct step *s, int when) {
  return s->when == when && (s->goals & asked->goal) &&
         (asked->n_only == 0 || named(asked->only, asked->n_only, s->pass)) &&
         !named(asked->skip, asked->n_skip, s->pass);
}

static bool has_any(const struct optimize_asked *asked, int when) {
  for (uint32_t i = 0; i < STEPS; i++)
    if (is_asked(asked, &steps[i], when)) return true;
  return false;
}

static int add(struct pipeline *p, const struct optimize_asked *asked, int when, struct err *err) {
  for (uint32_t i = 0, n; i < STEPS; i++) {
    if (!is_asked(asked, &steps[i], when)) continue;
    struct pipeline_step *step = pipeline_add(p, span_str(steps[i].pass), &n, err);
    if (!step || set_limit(p, &step->values, asked, err)) return -1;
  }
  return 0;
}

int optimize_steps_list(struct pipeline *p, const struct optimize_asked *asked, struct err *err) {
  const bool inside = p->open != NO_ID;
  const bool again = !inside && asked->rounds > 1 && has_any(asked, ROUND) && has_any(asked, LAST);
  if (again) pipeline_begin(p, asked->rounds);
  if (!inside) pipeline_begin(p, asked->rounds);
  int rc = add(p, asked, ROUND, err);
  if (!inside) pipeline_end(p);
  if (rc == 0) rc = add(p, asked, LAST, err);
  if (again) pipeline_end(p);
  return rc ? -1 : add(p, asked, END, err);
}

int optimize_steps_raise(struct pipeline *p, uint32_t version, struct err *err) {
  return pipeline_add_text(p, arena_printf(&p->arena, "opset:version=%u", version), err);
}

int optimize_steps_add(struct pipeline *p, const struct optimize_asked *asked, struct err *err) {
  const uint32_t before = p->n_steps;
  if (check_patterns(asked->only, asked->n_only, "only", err) ||
      check_patterns(asked->skip, asked->n_skip, "skip", err) || optimize_steps_list(p, asked, err))
    return -1;
  if (asked->n_only && p->n_steps == before) return no_step_is_left(asked, err);
  for (uint32_t i = before; i < p->n_steps; i++)
    if (pass_values_read(&p->steps[i].values, &p->arena, err)) return -1;
  return 0;
}

const char *optimize_steps_name(uint32_t i, enum optimize_when *when, uint32_t *goals) {
  if (i >= STEPS) return NULL;
  *when = (enum optimize_when)steps[i].when;
  *goals = steps[i].goals;
  return steps[i].pass;
}
