// Questions of the stage "equal", and its answers as text and as digests. The stage itself is the
// caller's (pass_env.ask): here is what both sides must agree on.
#include "likenesses.h"

#include "answer_lines.h"

void likenesses_write(struct json_out *j, struct edits *e, const uint32_t *of, uint32_t n,
                      const struct likeness *likenesses) {
  for (uint32_t i = 0; i < n; i++) {
    json_object(j);
    json_key(j, "of");
    edit_artifact_recipe(e, j, of[i]);
    json_put_hex(j, "sample", likenesses[i].sample, DIGEST_BYTES);
    if (likenesses[i].whole) json_put_hex(j, "all", likenesses[i].all, DIGEST_BYTES);
    json_end_object(j);
    json_newline(j);
  }
}

static bool read_digest(const struct json_value *v, uint8_t out[DIGEST_BYTES]) {
  struct span hex;
  return json_as_string(v, &hex) && hex_decode(hex, out, DIGEST_BYTES);
}

static bool read_row(struct span line, struct likeness *x) {
  struct err malformed = {0};
  struct json_value *v = json_parse(line, "artifact", &malformed);
  *x = (struct likeness){0};
  bool good = v && read_digest(json_get(v, "sample"), x->sample);
  if (good && json_get(v, "all")) x->whole = good = read_digest(json_get(v, "all"), x->all);
  if (v) json_free(v);
  return good;
}

bool likenesses_read(struct span text, uint32_t n, struct likeness *out) {
  struct span line;
  struct likeness row;
  bool whole = answer_line(&text, &line); // the head
  for (uint32_t i = 0; i < n && whole; i++) {
    whole = answer_line(&text, &line) && read_row(line, &row);
    if (out && whole) out[i] = row;
  }
  return whole && text.n == 0;
}

int likenesses_ask(const struct pass_env *env, const uint32_t *of, uint32_t n, struct likeness *out,
                   struct err *err) {
  const struct pass_question question = {.stage = LIKENESSES_STAGE, .of = of, .n = n};
  struct pass_answer answer;
  if (env->ask(env->ask_ctx, &question, &answer, err)) return -1;
  if (likenesses_read(answer.text, n, out)) return 0;
  return err_set(err, ERR_INTERNAL, "the stage '%s' did not answer %u questions", LIKENESSES_STAGE,
                 n);
}
