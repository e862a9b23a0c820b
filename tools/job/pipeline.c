// The steps of a pipeline, and their canonical words. A pipeline of one pass is recorded as the
// command of that pass would be, so that both ways to say the same thing give the same plan.
#include "pipeline.h"

#include "json.h"

void pipeline_free(struct pipeline *p) {
  table_free(p->steps, p->cap, sizeof *p->steps);
  arena_free(&p->arena);
  *p = (struct pipeline){0};
}

struct pipeline_step *pipeline_add(struct pipeline *p, enum pass_id pass, struct err *err) {
  if (p->n == PIPELINE_MAX_STEPS) {
    err_fill(err, ERR_USAGE, "a pipeline of more than %d passes", PIPELINE_MAX_STEPS);
    return NULL;
  }
  p->steps = table_grow(p->steps, &p->cap, (size_t)p->n + 1, sizeof *p->steps);
  struct pipeline_step *step = &p->steps[p->n++];
  step->pass = pass;
  pass_values_start(pass, step->values, &p->arena);
  return step;
}

int pipeline_add_text(struct pipeline *p, const char *text, struct err *err) {
  struct pipeline_step step;
  if (pass_values_parse(text, &step.pass, step.values, &p->arena, err) ||
      pass_row(step.pass)->check(step.values, err))
    return -1;
  struct pipeline_step *added = pipeline_add(p, step.pass, err);
  if (!added) return -1;
  *added = step;
  return 0;
}

const char *pipeline_command(const struct pipeline *p) {
  return p->n == 1 ? pass_row(p->steps[0].pass)->name : "run";
}

const char *pipeline_options(struct pipeline *p) {
  if (p->n == 1) return pass_values_json(p->steps[0].pass, p->steps[0].values, &p->arena);
  struct json_out j = {0};
  json_object(&j);
  json_put_array(&j, "passes");
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pipeline_step *step = &p->steps[i];
    json_object(&j);
    json_put_text(&j, "name", pass_row(step->pass)->name);
    json_put_raw(&j, "options", span_str(pass_values_json(step->pass, step->values, &p->arena)));
    json_end_object(&j);
  }
  json_end_array(&j);
  json_end_object(&j);
  const char *text = arena_string(&p->arena, span_of(j.text, j.n));
  json_done(&j);
  return text;
}
