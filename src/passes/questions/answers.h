// Room: the questions that passes ask about weights, their answers as texts, and patterns of names.
//
// What the answers of all stages have in common: a text, asked for and read back, in which every
// question has a line of JSON.
//
//   {…head…}                        as the artifact has it (pass.h)
//   {"of":{…recipe…}, …}            a line a question, in order
//
// To add a stage over the weights (a pass asks through pass_env.ask, and never reads; NULL: there are no weights):
//   1. in src/tensor_stats (figures.h, content_hash.h, tensor_stats.h): the struct of an answer, and the tensors that can
//      be asked about;
//   2. measure_<stem>_run in src/stream/measure, over the team of measure_parts.h; its answer must not depend on the workers;
//   3. a file here: an answer_form, and a function that asks. A question is a list of recipes and nothing else;
//   4. a row in the table of execution_stage.c: name, words, check of its recipes (an edit log is untrusted), its functions;
//   5. tests/unit/threads/test_measure_<stem>.c, a replay that refuses other weights, and the artifact in docs/edit-log.md.
#ifndef WEIR_ANSWERS_H
#define WEIR_ANSWERS_H

#include "passes/pass.h"

enum { ANSWER_ROW_MAX = 256 };

// A member of a line, and of the struct that is read of it: a uint64_t, a double, a bool.
enum answer_kind { ANSWER_COUNT, ANSWER_NUMBER, ANSWER_TRUTH };
struct answer_field {
  const char *name;
  enum answer_kind kind;
  size_t at;
};
// clang-format off
#define ANSWER_FIELD(type, member)                                                                 \
  { #member,                                                                                       \
    _Generic(((struct type *)NULL)->member,                                                        \
             uint64_t: ANSWER_COUNT, double: ANSWER_NUMBER, bool: ANSWER_TRUTH),                   \
    offsetof(struct type, member) }
// clang-format on

// How a line is written and read: its members behind "of", and a struct of row.bytes. What fields cannot say does `write`, and
// `read`, which is false if a member is missing; else NULL.
struct answer_form {
  struct {
    const struct answer_field *fields;
    uint32_t n_fields;
    size_t bytes;
  } row;
  void (*write)(struct json_out *j, const void *row);
  bool (*read)(const struct json_value *line, void *row);
  // A question is two recipes: lists of n questions are twice as long, and a line has "by" behind "of".
  bool pairs;
};

// The lines behind the head: what was found of n questions.
void answers_write(const struct answer_form *form, struct json_out *j, struct edits *e,
                   const uint32_t *of, uint32_t n, const void *rows);
// All of a text, with its head. False if it does not hold n answers; `rows` may be NULL.
bool answers_read(const struct answer_form *form, struct span text, uint32_t n, void *rows);
// Asks the stage of n recipes, through env->ask, which must not be NULL.
int answers_ask(const struct answer_form *form, const struct pass_env *env, const char *stage,
                const uint32_t *of, uint32_t n, void *rows, struct err *err);

#endif
