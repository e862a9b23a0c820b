// What the readers of pipeline files share: where they are in the text, refusals with a place, words and numbers.
//
//   pipeline_yaml.c        the file as a whole, passes, their options, repeats; files that import files
//   config_verify.c        verify, verify_on, reference
//   config_onnx_passes.c   the other keys of onnx-passes' configurations
//
// A grammar read top-down, one function a level: each begins at its value, and ends behind it. -1: *err says what is
// wrong there.
#ifndef WEIR_CONFIG_H
#define WEIR_CONFIG_H

#include "pipeline/config/inside/config_events.h"
#include "pipeline/pipeline.h"

struct config {
  struct pipeline *p;
  const char *name; // of the file, in messages
  const struct config_event *at;
  // What the file says of itself.
  bool theirs;     // a key, or a form of one, that onnx-passes alone has
  bool named;      // a pass by a name that it alone has
  bool other_name; // one by a name that onnx-passes has not
  bool alone;      // it is no file, and cannot import one
  bool said_exactness, said_verify;
  struct err *err;
};

// "file:line:column: …", ERR_USAGE; -1.
int config_refuse_at(struct config *c, const struct config_event *at, const char *fmt, ...)
    ERR_PRINTF(3, 4);
#define config_refuse(c, ...) config_refuse_at(c, (c)->at, __VA_ARGS__)
// What was wrong with a word, with its place.
int config_refuse_word(struct config *c, const struct config_event *at, const struct err *why);
// "expected … here, found a list".
int config_refuse_kind(struct config *c, const char *wanted);
// "file:line:column", in the pipeline's arena.
const char *config_place(const struct config *c, const struct config_event *at);
// Keeps a sentence, with that place before it, that is a warning once the run begins.
void config_note(struct config *c, const struct config_event *at, const char *hint, const char *fmt,
                 ...) ERR_PRINTF(4, 5);

// To the next event: -1 if that is a fault. config_skip: behind the value.
int config_next(struct config *c);
int config_skip(struct config *c);
bool config_is(const struct config *c, enum config_kind kind);
bool config_is_word(const struct config *c, const char *word);
// "~", "null" or nothing, without quotes.
bool config_is_null(const struct config *c);

// A number, infinite ones too; true or false, as YAML 1.1 has them (yes, on …); a text that is not empty, which lies in
// the pipeline's arena.
int config_number(struct config *c, double *out);
int config_bool(struct config *c, bool *out);
bool config_is_bool(const struct config *c, bool *out); // without going on
int config_text(struct config *c, const char *wanted, const char **out);

// A mapping of keys that a table has: `read` is called at the value of each, with what it is called.
struct config_key {
  const char *name;
  int (*read)(struct config *c);
};
// what: "'logging'", for messages. A key that is twice, or that is none of the n, is refused with the nearest; *seen
// (NULL or n of them): which there were. Null is an empty mapping.
int config_mapping(struct config *c, const char *what, const struct config_key *keys, uint32_t n,
                   const struct config_event **seen);

// config_verify.c
int config_verify(struct config *c, struct pipeline_verify *v); // of a pass
int config_all_verify(struct config *c);                        // of all
int config_verify_on(struct config *c);
int config_reference(struct config *c);
// What the file said of verification, all together: after its end.
int config_verify_end(struct config *c, const struct config_event *verify_on,
                      const struct config_event *reference);

// config_onnx_passes.c
// Imports are done with before (config_imports); here modules are looked at.
int config_imports(struct config *c);
int config_exhaustive(struct config *c);
int config_logging(struct config *c);
// A section by its name (fold_constants …): 1 if it was one. The k-th name; NULL past the last.
int config_section(struct config *c, struct span name);
const char *config_section_at(uint32_t k);
// Is that word of `imports` a file, and not a module?
bool config_is_file(struct span word);

#endif
