// Questions of the stages "facts" and "multiples", and their answers as text and as facts. The stages
// themselves are the caller's (pass_env.ask): here is what both sides must agree on.
#include "findings.h"

#include "answer_lines.h"

void findings_write(struct json_out *j, struct edits *e, const uint32_t *of, uint32_t n,
                    bool multiples, const struct facts *facts) {
  for (uint32_t i = 0; i < n; i++) {
    const struct facts *f = &facts[i];
    json_object(j);
    json_key(j, "of");
    edit_artifact_recipe(e, j, of[i]);
    json_put_uint(j, "elements", f->elements);
    json_put_uint(j, "zeros", f->zeros);
    json_put_uint(j, "nans", f->nans);
    json_put_uint(j, "infinities", f->infinities);
    json_put_double(j, "least", f->least);
    json_put_double(j, "most", f->most);
    json_put_double(j, "finest", f->finest);
    json_put_bool(j, "alike", f->alike);
    json_put_bool(j, "identity", f->identity);
    if (multiples) json_put_bool(j, "multiples", f->multiples);
    json_end_object(j);
    json_newline(j);
  }
}

static bool read_row(struct span line, bool multiples, struct facts *f) {
  struct err malformed = {0};
  struct json_value *v = json_parse(line, "artifact", &malformed);
  *f = (struct facts){0};
  const bool whole = v && json_as_uint(json_get(v, "elements"), &f->elements) &&
                     json_as_uint(json_get(v, "zeros"), &f->zeros) &&
                     json_as_uint(json_get(v, "nans"), &f->nans) &&
                     json_as_uint(json_get(v, "infinities"), &f->infinities) &&
                     json_as_double(json_get(v, "least"), &f->least) &&
                     json_as_double(json_get(v, "most"), &f->most) &&
                     json_as_double(json_get(v, "finest"), &f->finest) &&
                     json_as_bool(json_get(v, "alike"), &f->alike) &&
                     json_as_bool(json_get(v, "identity"), &f->identity) &&
                     (!multiples || json_as_bool(json_get(v, "multiples"), &f->multiples));
  if (v) json_free(v);
  return whole;
}

bool findings_read(struct span text, uint32_t n, bool multiples, struct facts *out) {
  struct span line;
  struct facts row;
  bool whole = answer_line(&text, &line); // the head
  for (uint32_t i = 0; i < n && whole; i++) {
    whole = answer_line(&text, &line) && read_row(line, multiples, &row);
    if (out && whole) out[i] = row;
  }
  return whole && text.n == 0;
}

int findings_ask(const struct pass_env *env, const uint32_t *of, uint32_t n, bool multiples,
                 struct facts *out, struct err *err) {
  const struct pass_question question = {
      .stage = multiples ? FINDINGS_STAGE_MULTIPLES : FINDINGS_STAGE, .of = of, .n = n};
  struct pass_answer answer;
  if (env->ask(env->ask_ctx, &question, &answer, err)) return -1;
  if (findings_read(answer.text, n, multiples, out)) return 0;
  return err_set(err, ERR_INTERNAL, "the stage '%s' did not answer %u questions", question.stage,
                 n);
}
