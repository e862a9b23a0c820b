// Questions of the stages that measure, and their answers as text and as figures. The stages themselves are
// the caller's (pass_env.ask): here is what both sides must agree on.
#include "passes/questions/measured.h"

#include "tensor_stats/figures.h"

static const struct answer_field fields[] = {
    ANSWER_FIELD(figures, elements), ANSWER_FIELD(figures, nonfinite),
    ANSWER_FIELD(figures, vv),       ANSWER_FIELD(figures, ee),
    ANSWER_FIELD(figures, ve),       ANSWER_FIELD(figures, max_error)};
const struct answer_form measured_form = {
    .row = {fields, sizeof fields / sizeof *fields, sizeof(struct figures)}};

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
  return answers_ask(&measured_form, env, stage_for(env->edits->r, codes, n), codes, n, out, err);
}
