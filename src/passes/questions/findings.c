// Questions of the stages "facts" and "multiples", and their answers as text and as facts. The stages
// themselves are the caller's (pass_env.ask): here is what both sides must agree on.
#include "findings.h"

#include "answers.h"

static void write_facts(struct json_out *j, const void *row) {
  const struct tensor_stats *f = row;
  json_put_uint(j, "elements", f->elements);
  json_put_uint(j, "zeros", f->zeros);
  json_put_uint(j, "nans", f->nans);
  json_put_uint(j, "infinities", f->infinities);
  json_put_double(j, "least", f->least);
  json_put_double(j, "most", f->most);
  json_put_double(j, "finest", f->finest);
  json_put_bool(j, "alike", f->alike);
  json_put_bool(j, "identity", f->identity);
}

static void write_multiples(struct json_out *j, const void *row) {
  const struct tensor_stats *f = row;
  write_facts(j, f);
  json_put_bool(j, "multiples", f->multiples);
}

static bool read_facts(const struct json_value *v, void *row) {
  struct tensor_stats *f = row;
  return json_as_uint(json_get(v, "elements"), &f->elements) &&
         json_as_uint(json_get(v, "zeros"), &f->zeros) &&
         json_as_uint(json_get(v, "nans"), &f->nans) &&
         json_as_uint(json_get(v, "infinities"), &f->infinities) &&
         json_as_double(json_get(v, "least"), &f->least) &&
         json_as_double(json_get(v, "most"), &f->most) &&
         json_as_double(json_get(v, "finest"), &f->finest) &&
         json_as_bool(json_get(v, "alike"), &f->alike) &&
         json_as_bool(json_get(v, "identity"), &f->identity);
}

static bool read_multiples(const struct json_value *v, void *row) {
  struct tensor_stats *f = row;
  return read_facts(v, f) && json_as_bool(json_get(v, "multiples"), &f->multiples);
}

static const struct answer_form *form_of(bool multiples) {
  static const struct answer_form forms[] = {
      {.write = write_facts, .read = read_facts, .row_bytes = sizeof(struct tensor_stats)},
      {.write = write_multiples, .read = read_multiples, .row_bytes = sizeof(struct tensor_stats)}};
  return &forms[multiples];
}

void findings_write(struct json_out *j, struct edits *e, const uint32_t *of, uint32_t n,
                    bool multiples, const struct tensor_stats *facts) {
  answers_write(form_of(multiples), j, e, of, n, facts);
}

bool findings_read(struct span text, uint32_t n, bool multiples, struct tensor_stats *out) {
  return answers_read(form_of(multiples), text, n, out);
}

int findings_ask(const struct pass_env *env, const uint32_t *of, uint32_t n, bool multiples,
                 struct tensor_stats *out, struct err *err) {
  return answers_ask(form_of(multiples), env, multiples ? FINDINGS_STAGE_MULTIPLES : FINDINGS_STAGE,
                     of, n, out, err);
}
