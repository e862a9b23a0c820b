// Pipeline files: libyaml's events in, steps of a pipeline out.
//
//   passes:                      {  key "passes"
//     - conv2matmul              [    a pass without options
//     - matmulnbits:             {      or with: one key, the name
//         bits: 4                {        options by key
//         exclude: ["*head*"]    [          lists
//
// A small grammar read top-down, one function a level, so nesting is bounded by the grammar: what
// is deeper than it, or another kind than it expects, is refused where it stands. No document is
// built. Anchors, aliases, tags, merge keys and second documents are refused: there is nothing here
// that would need them, and an alias can make a small file large. Scalars are taken as text, quoted
// or not, and pass_values.c says what fits; so `yes` is no flag, and 04 no number of another base.
//
// Every refusal names file, line and column, both from 1. yaml.h is included here and nowhere else.
#include "pipeline.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

struct reader {
  struct pipeline *p;
  const char *name;
  yaml_parser_t parser;
  yaml_event_t event; // the current one, or NO_EVENT
  struct err *err;
};

// ---- refusals ----------------------------------------------------------------------------------

static int refuse_at(struct reader *r, yaml_mark_t at, const char *fmt, ...) ERR_PRINTF(3, 4);
static int refuse_at(struct reader *r, yaml_mark_t at, const char *fmt, ...) {
  char text[768];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return err_set(r->err, ERR_USAGE, "%s:%zu:%zu: %s", quote_str(r->name).s, at.line + 1,
                 at.column + 1, text);
}

// Passes on what was wrong with a word, with its place.
static int refuse_word(struct reader *r, yaml_mark_t at, const struct err *why) {
  (void)refuse_at(r, at, "%s", why->msg);
  err_fill_hint_of(r->err, why);
  return -1;
}

static const char *kind_of(const yaml_event_t *e) {
  switch (e->type) {
  case YAML_SCALAR_EVENT: return "a word";
  case YAML_SEQUENCE_START_EVENT: return "a list";
  case YAML_MAPPING_START_EVENT: return "a mapping";
  case YAML_ALIAS_EVENT: return "an alias";
  default: return "nothing";
  }
}

static int refuse_kind(struct reader *r, const char *wanted) {
  return refuse_at(r, r->event.start_mark, "%s is expected here, but this is %s", wanted,
                   kind_of(&r->event));
}

// ---- events ------------------------------------------------------------------------------------

static bool at_event(const struct reader *r, yaml_event_type_t type) {
  return r->event.type == type;
}

static bool has_extras(const yaml_event_t *e) {
  switch (e->type) {
  case YAML_SCALAR_EVENT: return e->data.scalar.anchor || e->data.scalar.tag;
  case YAML_SEQUENCE_START_EVENT:
    return e->data.sequence_start.anchor || e->data.sequence_start.tag;
  case YAML_MAPPING_START_EVENT: return e->data.mapping_start.anchor || e->data.mapping_start.tag;
  case YAML_ALIAS_EVENT: return true;
  default: return false;
  }
}

static int next(struct reader *r) {
  yaml_event_delete(&r->event);
  if (!yaml_parser_parse(&r->parser, &r->event)) {
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";
    if (r->parser.error == YAML_READER_ERROR) // it has an offset, but no place
      return err_set(r->err, ERR_USAGE, "%s: byte %zu: %s", quote_str(r->name).s,
                     r->parser.problem_offset, problem);
    return refuse_at(r, r->parser.problem_mark, "%s", problem);
  }
  if (!has_extras(&r->event)) return 0;
  (void)refuse_at(r, r->event.start_mark, "anchors, aliases and tags have no place in a pipeline");
  return err_hint(r->err, "write the words out");
}

static struct span word(const struct reader *r) {
  return span_of(r->event.data.scalar.value, r->event.data.scalar.length);
}

static bool is_null(const struct reader *r) {
  if (!at_event(r, YAML_SCALAR_EVENT) || r->event.data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
    return false;
  struct span w = word(r);
  return w.n == 0 || span_is(w, "~") || span_is(w, "null");
}

// ---- the grammar -------------------------------------------------------------------------------

// The current scalar as the value, or one more element, of an option.
static int put_word(struct reader *r, struct pipeline_step *step, enum pass_option_id o) {
  struct err why = {0};
  if (is_null(r) || word(r).n == 0)
    return refuse_at(r, r->event.start_mark, "option '%s' has no value", pass_option(o)->name);
  if (pass_values_put(o, step->values, word(r), &r->p->arena, &why))
    return refuse_word(r, r->event.start_mark, &why);
  return next(r);
}

static int read_value(struct reader *r, struct pipeline_step *step, enum pass_option_id o) {
  if (at_event(r, YAML_SCALAR_EVENT)) return put_word(r, step, o);
  if (!at_event(r, YAML_SEQUENCE_START_EVENT)) return refuse_kind(r, "the value of an option");
  if (pass_option(o)->kind != PASS_LIST)
    return refuse_at(r, r->event.start_mark, "option '%s' takes one value, and this is a list",
                     pass_option(o)->name);
  if (next(r)) return -1;
  step->values[o].n_list = 0; // the preset goes also for an empty list
  step->values[o].given = true;
  while (!at_event(r, YAML_SEQUENCE_END_EVENT)) {
    if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "a word");
    if (put_word(r, step, o)) return -1;
  }
  return next(r);
}

static int read_option(struct reader *r, struct pipeline_step *step) {
  struct err why = {0};
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the name of an option");
  enum pass_option_id o = pass_values_find(step->pass, word(r), &why);
  if (o == PASS_OPTIONS) return refuse_word(r, r->event.start_mark, &why);
  if (step->values[o].given)
    return refuse_at(r, r->event.start_mark, "option '%s' is given twice", pass_option(o)->name);
  return next(r) ? -1 : read_value(r, step, o);
}

static int read_options(struct reader *r, struct pipeline_step *step) {
  if (is_null(r)) return next(r);
  if (!at_event(r, YAML_MAPPING_START_EVENT)) return refuse_kind(r, "a mapping of options");
  if (next(r)) return -1;
  while (!at_event(r, YAML_MAPPING_END_EVENT))
    if (read_option(r, step)) return -1;
  return next(r);
}

// The pass that the current scalar names, as a new step.
static int read_name(struct reader *r, struct pipeline_step **step) {
  struct err why = {0};
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the name of a pass");
  enum pass_id pass = pass_values_pass(word(r), &why);
  if (pass == PASSES) return refuse_word(r, r->event.start_mark, &why);
  *step = pipeline_add(r->p, pass, &why);
  if (!*step) return refuse_word(r, r->event.start_mark, &why);
  return next(r);
}

// What the options mean together, with the place of the pass's name.
static int check_step(struct reader *r, const struct pipeline_step *step, yaml_mark_t at) {
  struct err why = {0};
  return pass_row(step->pass)->check(step->values, &why) ? refuse_word(r, at, &why) : 0;
}

static int read_step(struct reader *r) {
  struct pipeline_step *step = NULL;
  const bool has_options = at_event(r, YAML_MAPPING_START_EVENT);
  if (has_options && next(r)) return -1;
  const yaml_mark_t at = r->event.start_mark;
  if (read_name(r, &step) || (has_options && read_options(r, step)) || check_step(r, step, at))
    return -1;
  if (!has_options) return 0;
  if (at_event(r, YAML_MAPPING_END_EVENT)) return next(r);
  (void)refuse_at(r, r->event.start_mark, "a second name in the mapping of one pass");
  return err_hint(r->err,
                  "options stand below the name, indented further; a next pass begins with '-'");
}

static int read_steps(struct reader *r) {
  if (!at_event(r, YAML_SEQUENCE_START_EVENT)) return refuse_kind(r, "a list of passes");
  yaml_mark_t start = r->event.start_mark;
  if (next(r)) return -1;
  if (at_event(r, YAML_SEQUENCE_END_EVENT))
    return refuse_at(r, start, "the list of passes is empty");
  while (!at_event(r, YAML_SEQUENCE_END_EVENT))
    if (read_step(r)) return -1;
  return next(r);
}

static int read_top(struct reader *r) {
  if (!at_event(r, YAML_MAPPING_START_EVENT))
    return refuse_kind(r, "a mapping with the key 'passes'");
  yaml_mark_t start = r->event.start_mark;
  bool seen = false;
  if (next(r)) return -1;
  for (; !at_event(r, YAML_MAPPING_END_EVENT); seen = true) {
    if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the key 'passes'");
    if (!span_is(word(r), "passes") || seen) {
      (void)refuse_at(r, r->event.start_mark, seen ? "a second key '%s'" : "unknown key '%s'",
                      quote(word(r)).s);
      return err_hint(r->err, "the only key is 'passes'");
    }
    if (next(r) || read_steps(r)) return -1;
  }
  if (!seen) return refuse_at(r, start, "the key 'passes' is missing");
  return next(r);
}

static int read_stream(struct reader *r) {
  if (next(r) || next(r)) return -1; // the start of the stream
  if (at_event(r, YAML_STREAM_END_EVENT))
    return refuse_at(r, r->event.start_mark, "the file holds no pipeline");
  if (next(r) || read_top(r)) return -1; // the start of the document
  if (next(r)) return -1;                // its end
  if (at_event(r, YAML_STREAM_END_EVENT)) return 0;
  return refuse_at(r, r->event.start_mark, "a second document");
}

int pipeline_parse(struct pipeline *p, struct span text, const char *name, struct err *err) {
  struct reader r = {.p = p, .name = name, .err = err};
  if (text.n > PIPELINE_MAX_BYTES)
    return err_set(err, ERR_USAGE, "the pipeline '%s' has more than %d bytes", quote_str(name).s,
                   PIPELINE_MAX_BYTES);
  if (!yaml_parser_initialize(&r.parser))
    return err_set(err, ERR_FAIL, "no memory to read '%s'", quote_str(name).s);
  yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
  yaml_parser_set_input_string(&r.parser, text.at, text.n);
  int rc = read_stream(&r);
  yaml_event_delete(&r.event);
  yaml_parser_delete(&r.parser);
  return rc;
}

int pipeline_read(struct pipeline *p, const char *path, struct err *err) {
  struct arena scratch = {0};
  FILE *f = fopen(path, "re");
  if (!f)
    return err_errno(err, errno, ERR_INPUT, "the pipeline '%s' cannot be read", quote_str(path).s);
  uint8_t *text = arena_alloc(&scratch, PIPELINE_MAX_BYTES + 1);
  errno = 0;
  size_t n = fread(text, 1, PIPELINE_MAX_BYTES + 1, f);
  int rc = ferror(f) ? err_errno(err, errno ? errno : EIO, ERR_INPUT,
                                 "the pipeline '%s' cannot be read", quote_str(path).s)
                     : pipeline_parse(p, span_of(text, n), path, err);
  fclose(f);
  arena_free(&scratch);
  return rc;
}
