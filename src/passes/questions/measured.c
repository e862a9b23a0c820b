// Questions of the stages that measure, and their answers as text and as figures. The stages themselves are
// the caller's (pass_env.ask): here is what both sides must agree on.
#include "measured.h"

#include "answer_lines.h"
#include "figures.h"

static void put_figures(struct json_out *j, const struct figures *f) {
  json_put_uint(j, "elements", f->elements);
  json_put_uint(j, "nonfinite", f->nonfinite);
  json_put_double(j, "vv", f->vv);
  json_put_double(j, "ee", f->ee);
  json_put_double(j, "ve", f->ve);
  json_put_double(j, "max_error", f->max_error);
}

void measured_write(struct json_out *j, struct edits *e, const uint32_t *codes, uint32_t n,
                    const struct figures *figures) {
  for (uint32_t i = 0; i < n; i++) {
    json_object(j);
    json_key(j, "of");
    edit_artifact_recipe(e, j, codes[i]);
    put_figures(j, &figures[i]);
    json_end_object(j);
    json_newline(j);
  }
}

static bool read_row(struct span line, struct figures *f) {
  struct err malformed = {0};
  struct json_value *v = json_parse(line, "artifact", &malformed);
  *f = (struct figures){0};
  const bool whole = v && json_as_uint(json_get(v, "elements"), &f->elements) &&
                     json_as_uint(json_get(v, "nonfinite"), &f->nonfinite) &&
                     json_as_double(json_get(v, "vv"), &f->vv) &&
                     json_as_double(json_get(v, "ee"), &f->ee) &&
                     json_as_double(json_get(v, "ve"), &f->ve) &&
                     json_as_double(json_get(v, "max_error"), &f->max_error);
  if (v) json_free(v);
  return whole;
}

bool measured_read(struct span text, uint32_t n, struct figures *figures) {
  struct span line;
  struct figures row;
  bool whole = answer_line(&text, &line); // the head
  for (uint32_t i = 0; i < n && whole; i++) {
    whole = answer_line(&text, &line) && read_row(line, &row);
    if (figures && whole) figures[i] = row;
  }
  return whole && text.n == 0;
}

// That which answers questions about all of these.
static const char *stage_for(const struct recipes *r, const uint32_t *codes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t id = codes[i];
    while (r->rows[id].kind != RECIPE_QUANTIZE)
      id = r->args[r->rows[id].args];
    const enum recipe_format format = recipe_quantization_of(r, id).format;
    if (format == FORMAT_QDQ || format == FORMAT_GATHER) return MEASURED_STAGE_FIGURES;
  }
  return MEASURED_STAGE;
}

int measured_ask(const struct pass_env *env, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err) {
  const char *stage = stage_for(env->edits->r, codes, n);
  const struct pass_question question = {.stage = stage, .of = codes, .n = n};
  struct pass_answer answer;
  if (env->ask(env->ask_ctx, &question, &answer, err)) return -1;
  if (measured_read(answer.text, n, out)) return 0;
  return err_set(err, ERR_INTERNAL, "the stage '%s' did not answer %u questions", stage, n);
}
