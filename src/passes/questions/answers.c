// Answers of stages as text: the lines, and the way of a question. What stands in a line is a form of
// measured.c, likenesses.c or findings.c.
#include "passes/questions/answers.h"

#include <assert.h>

static void write_field(struct json_out *j, const struct answer_field *f, const void *at) {
  switch (f->kind) {
  case ANSWER_COUNT: json_put_uint(j, f->name, *(const uint64_t *)at); break;
  case ANSWER_NUMBER: json_put_double(j, f->name, *(const double *)at); break;
  case ANSWER_TRUTH: json_put_bool(j, f->name, *(const bool *)at); break;
  }
}

static bool read_field(const struct json_value *line, const struct answer_field *f, void *at) {
  const struct json_value *v = json_get(line, f->name);
  return f->kind == ANSWER_COUNT    ? json_as_uint(v, at)
         : f->kind == ANSWER_NUMBER ? json_as_double(v, at)
                                    : json_as_bool(v, at);
}

void answers_write(const struct answer_form *form, struct json_out *j, struct edits *e,
                   const uint32_t *of, uint32_t n, const void *rows) {
  for (uint32_t i = 0; i < n; i++) {
    json_object(j);
    json_key(j, "of");
    edit_artifact_recipe(e, j, of[form->pairs ? 2 * i : i]);
    if (form->pairs) {
      json_key(j, "by");
      edit_artifact_recipe(e, j, of[2 * i + 1]);
    }
    const uint8_t *row = (const uint8_t *)rows + i * form->row.bytes;
    for (uint32_t f = 0; f < form->row.n_fields; f++)
      write_field(j, &form->row.fields[f], row + form->row.fields[f].at);
    if (form->write) form->write(j, row);
    json_end_object(j);
    json_newline(j);
  }
}

// Takes the next line off `rest`; false: there is none that ends.
static bool next_line(struct span *rest, struct span *line) {
  const uint8_t *end = rest->n ? memchr(rest->at, '\n', rest->n) : NULL;
  if (!end) return false;
  *line = span_of(rest->at, (size_t)(end - rest->at));
  *rest = span_of(end + 1, rest->n - line->n - 1);
  return true;
}

bool answers_read(const struct answer_form *form, struct span text, uint32_t n, void *rows) {
  _Alignas(max_align_t) uint8_t row[ANSWER_ROW_MAX];
  struct span line;
  assert(form->row.bytes <= sizeof row);
  bool whole = next_line(&text, &line); // the head
  for (uint32_t i = 0; i < n && whole; i++) {
    struct err malformed = {0};
    struct json_value *v =
        next_line(&text, &line) ? json_parse(line, "artifact", &malformed) : NULL;
    memset(row, 0, form->row.bytes);
    whole = v != NULL;
    for (uint32_t f = 0; f < form->row.n_fields && whole; f++)
      whole = read_field(v, &form->row.fields[f], row + form->row.fields[f].at);
    if (whole && form->read) whole = form->read(v, row);
    if (rows && whole) memcpy((uint8_t *)rows + i * form->row.bytes, row, form->row.bytes);
    if (v) json_free(v);
  }
  return whole && text.n == 0;
}

int answers_ask(const struct answer_form *form, const struct pass_env *env, const char *stage,
                const uint32_t *of, uint32_t n, void *rows, struct err *err) {
  const struct pass_question question = {.stage = stage, .of = of, .n = form->pairs ? 2 * n : n};
  struct pass_answer answer;
  if (env->ask(env->ask_ctx, &question, &answer, err)) return -1;
  if (answers_read(form, answer.text, n, rows)) return 0;
  return err_set(err, ERR_INTERNAL, "the stage '%s' did not answer %u questions", stage, n);
}
