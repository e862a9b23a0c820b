// Questions of the stages that measure, and their answers as text and as figures. The stages themselves are
// the caller's (pass_env.ask): here is what both sides must agree on.
#include "measured.h"

#include "answers.h"
#include "figures.h"

static void write_figures(struct json_out *j, const void *row) {
  const struct figures *f = row;
  json_put_uint(j, "elements", f->elements);
  json_put_uint(j, "nonfinite", f->nonfinite);
  json_put_double(j, "vv", f->vv);
  json_put_double(j, "ee", f->ee);
  json_put_double(j, "ve", f->ve);
  json_put_double(j, "max_error", f->max_error);
}

static bool read_figures(const struct json_value *v, void *row) {
  struct figures *f = row;
  return json_as_uint(json_get(v, "elements"), &f->elements) &&
         json_as_uint(json_get(v, "nonfinite"), &f->nonfinite) &&
         json_as_double(json_get(v, "vv"), &f->vv) && json_as_double(json_get(v, "ee"), &f->ee) &&
         json_as_double(json_get(v, "ve"), &f->ve) &&
         json_as_double(json_get(v, "max_error"), &f->max_error);
}

static const struct answer_form form = {.write = write_figures, .read = read_figures, .row_bytes = sizeof(struct figures)};

void measured_write(struct json_out *j, struct edits *e, const uint32_t *codes, uint32_t n,
                    const struct figures *figures) {
  answers_write(&form, j, e, codes, n, figures);
}

bool measured_read(struct span text, uint32_t n, struct figures *figures) {
  return answers_read(&form, text, n, figures);
}

// That which answers questions about all of these.
static const char *stage_for(const struct recipes *r, const uint32_t *codes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t id = codes[i];
    while (!recipe_quantizes(r, id))
      id = r->args[r->rows[id].args];
    const enum recipe_format format = recipe_quantization_of(r, id).format;
    if (format == FORMAT_QDQ || format == FORMAT_GATHER) return MEASURED_STAGE_FIGURES;
  }
  return MEASURED_STAGE;
}

int measured_ask(const struct pass_env *env, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err) {
  return answers_ask(&form, env, stage_for(env->edits->r, codes, n), codes, n, out, err);
}
