// Pipeline files: libyaml's events in, steps of a pipeline out.
//
//   passes:                      {  key "passes"
//     - conv2matmul              [    a pass without options
//     - quantize:                {      or with: one key, the name
//         bits: 4                {        options by key
//         exclude: ["*head*"]    [          lists
//     - tidy                          or a family: a step for each of its passes, its options for
//                                       those that have them
//     - repeat: [tidy, fuse]     {    or a list of such, until it changes nothing
//       rounds: 8                       at most so often
//   exactness: zero                 key "exactness", before or behind
//
// A small grammar read top-down, one function a level, so nesting is bounded by the grammar: what
// is deeper than it, or another kind than it expects, is refused where it stands. No document is
// built. Anchors, aliases, tags, merge keys and second documents are refused: there is nothing here
// that would need them, and an alias can make a small file large. Scalars are taken as text, quoted
// or not, and pass_values.c says what fits; so `yes` is no flag, and 04 no number of another base.
//
// Every refusal names file, line and column, both from 1. yaml.h is included here and nowhere else.
#include "passes.h"
#include "pipeline.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

struct reader {
  struct pipeline *p;
  const char *name;
  struct span text;
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

// Where the current event stands.
#define refuse(r, ...) refuse_at(r, (r)->event.start_mark, __VA_ARGS__)

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
  return refuse(r, "expected %s here, found %s", wanted, kind_of(&r->event));
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

// Tabs are what people mistake for an indent; libyaml speaks of a character that starts no token.
static bool is_indented_by_tab(const struct reader *r, size_t line) {
  size_t at = 0;
  for (; line > 0 && at < r->text.n; at++)
    if (r->text.at[at] == '\n') line--;
  while (at < r->text.n && r->text.at[at] == ' ')
    at++;
  return at < r->text.n && r->text.at[at] == '\t';
}

static int next(struct reader *r) {
  yaml_event_delete(&r->event);
  if (!yaml_parser_parse(&r->parser, &r->event)) {
    const char *problem = r->parser.problem ? r->parser.problem : "not YAML";
    if (r->parser.error == YAML_READER_ERROR) // it has an offset, but no place
      return err_set(r->err, ERR_USAGE, "%s: byte %zu: %s", quote_str(r->name).s,
                     r->parser.problem_offset, problem);
    const yaml_mark_t at = r->parser.problem_mark;
    const bool tab = strstr(problem, "cannot start any token") && is_indented_by_tab(r, at.line);
    (void)refuse_at(r, at, "%s", tab ? "the line is indented with a tab" : problem);
    return tab ? err_hint(r->err, "YAML takes spaces for that") : -1;
  }
  if (!has_extras(&r->event)) return 0;
  (void)refuse(r, "anchors, aliases and tags are not allowed in a pipeline");
  return err_hint(r->err, "write the values out");
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

// An option of a pass, or of those of a family that have it.
struct option {
  struct pass_values **of;
  uint32_t *o; // of each, NO_ID: it has none of that name
  uint32_t n;
  const struct pass_option *row; // of the first that has it
};

// The current scalar as the value, or one more element, of an option.
static int put_word(struct reader *r, const struct option *x) {
  struct err why = {0};
  if (is_null(r) || word(r).n == 0)
    return refuse(r, "option '%s' has no value", pass_values_key(x->row, &r->p->arena));
  for (uint32_t i = 0; i < x->n; i++)
    if (x->o[i] != NO_ID && pass_values_put(x->of[i], x->o[i], word(r), &r->p->arena, &why))
      return refuse_word(r, r->event.start_mark, &why);
  return next(r);
}

static int read_value(struct reader *r, const struct option *x) {
  if (at_event(r, YAML_SCALAR_EVENT)) return put_word(r, x);
  if (!at_event(r, YAML_SEQUENCE_START_EVENT)) return refuse_kind(r, "the value of an option");
  for (uint32_t i = 0; i < x->n; i++) {
    if (x->o[i] == NO_ID) continue;
    if (x->of[i]->pass->options[x->o[i]].kind != PASS_LIST)
      return refuse(r, "option '%s' takes one value, not a list",
                    pass_values_key(x->row, &r->p->arena));
    x->of[i]->of[x->o[i]].n_list = 0; // the preset goes also for an empty list
    x->of[i]->of[x->o[i]].given = true;
  }
  if (next(r)) return -1;
  while (!at_event(r, YAML_SEQUENCE_END_EVENT)) {
    if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "a word");
    if (put_word(r, x)) return -1;
  }
  return next(r);
}

static int read_option(struct reader *r, struct pass_values **list, uint32_t n, bool family) {
  struct err why = {0};
  struct option x = {.of = list, .n = n};
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the name of an option");
  const bool known = family ? pass_values_find_family(list, n, word(r), &why) == 0
                            : pass_values_find(list[0]->pass, word(r), &why) != NO_ID;
  if (!known) return refuse_word(r, r->event.start_mark, &why);
  x.o = arena_alloc(&r->p->arena, n * sizeof *x.o);
  for (uint32_t i = 0; i < n; i++) {
    x.o[i] = pass_values_option(list[i]->pass, word(r));
    if (x.o[i] == NO_ID) continue;
    if (!x.row) x.row = &list[i]->pass->options[x.o[i]];
    if (list[i]->of[x.o[i]].given) return refuse(r, "option '%s' is given twice", x.row->name);
  }
  return next(r) ? -1 : read_value(r, &x);
}

static int read_options(struct reader *r, struct pass_values **list, uint32_t n, bool family) {
  if (is_null(r)) return next(r);
  if (!at_event(r, YAML_MAPPING_START_EVENT)) return refuse_kind(r, "a mapping of options");
  if (next(r)) return -1;
  while (!at_event(r, YAML_MAPPING_END_EVENT))
    if (read_option(r, list, n, family)) return -1;
  return next(r);
}

// ---- verification ------------------------------------------------------------------------------
//
//   verify: equality | tolerance | promise | off
//   verify: {tolerance: {rtol: 1e-5, atol: 1e-8}}
//   verify: {metric: {cosine: [0.99, 1], max_abs: [0, 1e-3]}}

static int read_number(struct reader *r, double *out) {
  char text[64], *end;
  const struct span w = at_event(r, YAML_SCALAR_EVENT) ? word(r) : span_of("", 0);
  snprintf(text, sizeof text, "%.*s", (int)(w.n < sizeof text ? w.n : sizeof text - 1),
           (const char *)w.at);
  const bool least = strcmp(text, "-.inf") == 0 || strcmp(text, "-inf") == 0;
  const bool most = strcmp(text, ".inf") == 0 || strcmp(text, "inf") == 0;
  *out = least ? -INFINITY : most ? INFINITY : strtod(text, &end);
  if (!least && !most && (w.n == 0 || *end != '\0' || isnan(*out)))
    return refuse_kind(r, "a number");
  return next(r);
}

static int read_tolerance(struct reader *r, struct compare_bounds *b) {
  b->rtol = 1e-5; // NumPy's
  b->atol = 1e-8;
  if (is_null(r)) return next(r);
  if (!at_event(r, YAML_MAPPING_START_EVENT))
    return refuse_kind(r, "a mapping with 'rtol' and 'atol'");
  if (next(r)) return -1;
  while (!at_event(r, YAML_MAPPING_END_EVENT)) {
    const bool rtol = at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "rtol");
    if (!rtol && !(at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "atol")))
      return refuse(r, "a tolerance has 'rtol' and 'atol'");
    double *to = rtol ? &b->rtol : &b->atol;
    if (next(r)) return -1;
    const yaml_mark_t at = r->event.start_mark;
    if (read_number(r, to)) return -1;
    if (!isfinite(*to) || *to < 0) return refuse_at(r, at, "a tolerance is a number from 0 on");
  }
  return next(r);
}

// A metric's name, and [least, most]: of those that are better when they are larger the least counts, of
// others the most.
static int read_metric(struct reader *r, struct compare_bounds *b) {
  static const struct {
    const char *name, *ours;
    bool larger;
  } metrics[] = {{"cosine", "cosine", true},
                 {"sqnr", "sqnr", true},
                 {"top1", "top1", true},
                 {"accuracy", "top1", true},
                 {"relative", "relative", false},
                 {"p99", "p99", false},
                 {"p999", "p999", false},
                 {"max_abs", "max_abs", false},
                 {"max_abs_error", "max_abs", false},
                 {"mean_abs", "mean_abs", false}};
  const yaml_mark_t at = r->event.start_mark;
  struct err why = {0};
  double range[2];
  size_t k = 0;
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the name of a metric");
  while (k < sizeof metrics / sizeof *metrics && !span_is(word(r), metrics[k].name))
    k++;
  if (k == sizeof metrics / sizeof *metrics) {
    (void)refuse(r, "there is no metric '%s'", quote(word(r)).s);
    return err_hint(r->err, "cosine, sqnr, top1, relative, p99, p999, max_abs, mean_abs");
  }
  if (next(r)) return -1;
  if (!at_event(r, YAML_SEQUENCE_START_EVENT))
    return refuse_kind(r, "a list of the least and the most");
  if (next(r) || read_number(r, &range[0]) || read_number(r, &range[1])) return -1;
  if (!at_event(r, YAML_SEQUENCE_END_EVENT)) return refuse_kind(r, "the end of the list");
  const double bound = metrics[k].larger ? range[0] : range[1];
  if (!isfinite(bound))
    return refuse_at(r, at, "the range of '%s' has no %s, so it would allow everything",
                     metrics[k].name, metrics[k].larger ? "least" : "most");
  if (compare_take_metric(b, arena_printf(&r->p->arena, "%s=%.17g", metrics[k].ours, bound), &why))
    return refuse_word(r, at, &why);
  return next(r);
}

static int read_metrics(struct reader *r, struct compare_bounds *b) {
  if (!at_event(r, YAML_MAPPING_START_EVENT)) return refuse_kind(r, "a mapping of metrics");
  if (next(r)) return -1;
  if (at_event(r, YAML_MAPPING_END_EVENT)) return refuse(r, "no metric is named");
  while (!at_event(r, YAML_MAPPING_END_EVENT))
    if (read_metric(r, b)) return -1;
  return next(r);
}

static int read_verify(struct reader *r, struct pipeline_verify *v) {
  *v = (struct pipeline_verify){PIPELINE_PROOF_BOUNDS, compare_nothing()};
  if (at_event(r, YAML_SCALAR_EVENT)) {
    v->bounds.equal = span_is(word(r), "equality");
    if (span_is(word(r), "off") || span_is(word(r), "false") || is_null(r))
      v->proof = PIPELINE_PROOF_OFF;
    else if (span_is(word(r), "promise"))
      v->proof = PIPELINE_PROOF_PROMISE;
    else if (span_is(word(r), "tolerance"))
      v->bounds.rtol = 1e-5, v->bounds.atol = 1e-8;
    else if (!v->bounds.equal)
      return refuse(r, "'verify' is equality, tolerance, metric, promise or off");
    return next(r);
  }
  if (!at_event(r, YAML_MAPPING_START_EVENT)) return refuse_kind(r, "how to verify");
  if (next(r)) return -1;
  if (at_event(r, YAML_MAPPING_END_EVENT))
    return refuse(r, "'verify' is equality, tolerance, metric, promise or off");
  while (!at_event(r, YAML_MAPPING_END_EVENT)) {
    const bool tolerance = at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "tolerance");
    if (!tolerance && !(at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "metric")))
      return refuse(r, "'verify' is equality, tolerance, metric, promise or off");
    if (next(r) || (tolerance ? read_tolerance : read_metrics)(r, &v->bounds)) return -1;
  }
  return next(r);
}

// ---- passes ------------------------------------------------------------------------------------

// Behind the key of a mapping of one pass, or of a repeat.
static int end_mapping(struct reader *r) {
  if (at_event(r, YAML_MAPPING_END_EVENT)) return next(r);
  (void)refuse(r, "a second name in the mapping of one pass");
  return err_hint(r->err,
                  "options go below the name, indented further; the next pass begins with '-'");
}

// A pass or a family, as new steps; what options mean together has the place of the name.
static int read_pass(struct reader *r, bool has_options) {
  struct err why = {0};
  const yaml_mark_t at = r->event.start_mark;
  uint32_t n;
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the name of a pass");
  struct pipeline_step *steps = pipeline_add(r->p, word(r), &n, &why);
  if (!steps) return refuse_word(r, at, &why);
  const bool family = !passes_called(steps->values.pass, word(r));
  if (next(r)) return -1;
  if (has_options && read_options(r, pipeline_values(r->p, steps, n), n, family)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (pass_values_read(&steps[i].values, &r->p->arena, &why)) return refuse_word(r, at, &why);
  if (has_options && at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "verify")) {
    if (next(r) || read_verify(r, &steps->verify)) return -1;
    for (uint32_t i = 1; i < n; i++)
      steps[i].verify = steps->verify;
  }
  return has_options ? end_mapping(r) : 0;
}

static int read_steps(struct reader *r, bool inside);

// Behind the key "repeat".
static int read_repeat(struct reader *r) {
  if (next(r)) return -1;
  const uint32_t repeat = r->p->n_repeats;
  uint64_t rounds;
  pipeline_begin(r->p, PIPELINE_ROUNDS);
  if (read_steps(r, true)) return -1;
  pipeline_end(r->p);
  if (at_event(r, YAML_MAPPING_END_EVENT)) return next(r);
  if (!at_event(r, YAML_SCALAR_EVENT) || !span_is(word(r), "rounds"))
    return refuse(r, "next to 'repeat' only 'rounds' is allowed");
  if (next(r)) return -1;
  const struct span number = at_event(r, YAML_SCALAR_EVENT) ? word(r) : span_of("", 0);
  const char *wanted = pass_values_whole(number, 1, INT32_MAX, &rounds, &r->p->arena);
  if (wanted) return refuse(r, "'rounds' must be %s", wanted);
  r->p->repeats[repeat].rounds = (uint32_t)rounds;
  return next(r) ? -1 : end_mapping(r);
}

static int read_steps(struct reader *r, bool inside) {
  if (!at_event(r, YAML_SEQUENCE_START_EVENT)) return refuse_kind(r, "a list of passes");
  yaml_mark_t start = r->event.start_mark;
  if (next(r)) return -1;
  if (at_event(r, YAML_SEQUENCE_END_EVENT))
    return refuse_at(r, start, "the list of passes is empty");
  while (!at_event(r, YAML_SEQUENCE_END_EVENT)) {
    const bool mapping = at_event(r, YAML_MAPPING_START_EVENT);
    if (mapping && next(r)) return -1;
    const bool repeat = mapping && at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "repeat");
    if (repeat && inside) return refuse(r, "a repeat inside a repeat");
    if (repeat ? read_repeat(r) : read_pass(r, mapping)) return -1;
  }
  return next(r);
}

static int read_exactness(struct reader *r) {
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "a word");
  r->p->exactness = exactness_by_name(word(r));
  if (r->p->exactness == EXACTNESSES)
    return refuse_at(r, r->event.start_mark,
                     "invalid value '%s' for exactness: use exact|zero|rounding|finite",
                     quote(word(r)).s);
  return next(r);
}

static int read_target(struct reader *r) {
  struct err why = {0};
  if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "a word");
  const struct target *target = targets_find(word(r));
  if (!target) {
    (void)refuse(r, "there is no target '%s'", quote(word(r)).s);
    return err_hint(r->err, "'weir targets' lists them");
  }
  if (pipeline_take_target(r->p, target, &why)) return refuse_word(r, r->event.start_mark, &why);
  return next(r);
}

static int read_verify_on(struct reader *r) {
  const bool model = at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "model");
  if (!model && !(at_event(r, YAML_SCALAR_EVENT) && span_is(word(r), "sites")))
    return refuse(r, "'verify_on' is sites or model");
  r->p->verify_models = model;
  return next(r);
}

static int read_reference(struct reader *r) {
  if (!at_event(r, YAML_SCALAR_EVENT) || word(r).n == 0)
    return refuse_kind(r, "a file or folder of arrays");
  r->p->reference = arena_string(&r->p->arena, word(r));
  return next(r);
}

static int read_all_verify(struct reader *r) {
  return read_verify(r, &r->p->verify);
}

static int read_all_steps(struct reader *r) {
  return read_steps(r, false);
}

// Does the key stand anywhere, be it as "off"?
static bool says_verify(const struct pipeline *p) {
  bool said = p->verify.proof != PIPELINE_PROOF_OPEN;
  for (uint32_t i = 0; i < p->n_steps && !said; i++)
    said = p->steps[i].verify.proof != PIPELINE_PROOF_OPEN;
  return said;
}

static int read_top(struct reader *r) {
  static const struct {
    const char *name;
    int (*read)(struct reader *r);
    bool of_verify; // says more of what 'verify' asks for
  } keys[] = {{"passes", read_all_steps, false},   {"exactness", read_exactness, false},
              {"target", read_target, false},      {"verify", read_all_verify, false},
              {"verify_on", read_verify_on, true}, {"reference", read_reference, true}};
  enum { KEYS = sizeof keys / sizeof *keys };
  if (!at_event(r, YAML_MAPPING_START_EVENT))
    return refuse_kind(r, "a mapping with the key 'passes'");
  yaml_mark_t start = r->event.start_mark;
  bool seen[KEYS] = {false};
  yaml_mark_t at[KEYS];
  if (next(r)) return -1;
  while (!at_event(r, YAML_MAPPING_END_EVENT)) {
    size_t k = 0;
    if (!at_event(r, YAML_SCALAR_EVENT)) return refuse_kind(r, "the key 'passes'");
    while (k < KEYS && !span_is(word(r), keys[k].name))
      k++;
    if (k == KEYS || seen[k]) {
      (void)refuse(r, k < KEYS ? "a second key '%s'" : "unknown key '%s'", quote(word(r)).s);
      return err_hint(
          r->err,
          "the keys are 'passes', 'exactness', 'target', 'verify', 'verify_on' and 'reference'");
    }
    seen[k] = true;
    at[k] = r->event.start_mark;
    if (next(r) || keys[k].read(r)) return -1;
  }
  if (!seen[0]) return refuse_at(r, start, "the key 'passes' is missing");
  for (size_t k = 0; k < KEYS; k++)
    if (seen[k] && keys[k].of_verify && !says_verify(r->p)) {
      (void)refuse_at(r, at[k], "'%s' has no effect without 'verify'", keys[k].name);
      return err_hint(r->err, "'verify: promise' asks of every pass what it promises");
    }
  return next(r);
}

static int read_stream(struct reader *r) {
  if (next(r) || next(r)) return -1; // the start of the stream
  if (at_event(r, YAML_STREAM_END_EVENT)) return refuse(r, "the file contains no pipeline");
  if (next(r) || read_top(r) || next(r)) return -1; // the start of the document … its end
  return at_event(r, YAML_STREAM_END_EVENT) ? 0 : refuse(r, "a second document");
}

int pipeline_parse(struct pipeline *p, struct span text, const char *name, struct err *err) {
  struct reader r = {.p = p, .name = name, .text = text, .err = err};
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
  const bool is_stdin = strcmp(path, "-") == 0;
  FILE *f = is_stdin ? stdin : fopen(path, "re");
  if (!f)
    return err_errno(err, errno, ERR_INPUT, "the pipeline '%s' cannot be read", quote_str(path).s);
  uint8_t *text = arena_alloc(&scratch, PIPELINE_MAX_BYTES + 1);
  errno = 0;
  size_t n = fread(text, 1, PIPELINE_MAX_BYTES + 1, f);
  int rc = ferror(f) ? err_errno(err, errno ? errno : EIO, ERR_INPUT,
                                 "the pipeline '%s' cannot be read", quote_str(path).s)
                     : pipeline_parse(p, span_of(text, n), path, err);
  if (!is_stdin) fclose(f);
  arena_free(&scratch);
  return rc;
}
