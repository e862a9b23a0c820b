// Questions of the stage "measure", and its answers as text and as figures. The stage itself is the
// caller's (pass_env.ask): here is what both sides must agree on.
#include "measured.h"

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

static bool next_line(struct span *rest, struct span *line) {
  const uint8_t *end = rest->n ? memchr(rest->at, '\n', rest->n) : NULL;
  if (!end) return false;
  *line = span_of(rest->at, (size_t)(end - rest->at));
  *rest = span_of(end + 1, rest->n - line->n - 1);
  return true;
}

bool measured_read(struct span text, uint32_t n, struct figures *figures) {
  struct span line;
  struct figures row;
  bool whole = next_line(&text, &line); // the head
  for (uint32_t i = 0; i < n && whole; i++) {
    whole = next_line(&text, &line) && read_row(line, &row);
    if (figures && whole) figures[i] = row;
  }
  return whole && text.n == 0;
}

int measured_ask(const struct pass_env *env, const uint32_t *codes, uint32_t n, struct figures *out,
                 struct err *err) {
  const struct pass_question question = {.stage = MEASURED_STAGE, .of = codes, .n = n};
  struct pass_answer answer;
  if (env->ask(env->ask_ctx, &question, &answer, err)) return -1;
  if (measured_read(answer.text, n, out)) return 0;
  return err_set(err, ERR_INTERNAL, "the stage '%s' did not answer %u questions", MEASURED_STAGE,
                 n);
}
