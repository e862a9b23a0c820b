// Pipeline files: a YAML text in, steps of a pipeline out.
//
//   passes:                      {  key "passes"
//     - conv2matmul              [    a pass without options
//     - quantize:                {      or with: one key, the name
//         bits: 4                {        options by key
//         exclude: ["*head*"]    [          lists
//     - tidy                          or a family, a set, a group: a step for each of its passes, its
//                                       options for those that have them
//     - [tidy, fuse]             [    a list inside the list: as if it were written out
//     - repeat: [tidy, fuse]     {    or a list of such, until it changes nothing
//       rounds: 8                       at most so often
//   exactness: zero                 key "exactness", before or behind
//   imports: [base.yaml]            a file that is read before this one
//
// A small grammar read top-down, one function a level (config.h), so nesting is bounded by the grammar and by
// PIPELINE_DEPTH: what is deeper, or another kind than is expected, is refused where it stands.
//
// A file of onnx-passes is one of ours, with keys of its own; what it is decides two things only, at its end: the cap on
// exactness where none is named, and whom a tolerance is for. It is one by a key that onnx-passes alone has, or because
// onnx-passes knows every name in its list.
//
// Files that a file imports are read before it, each once:
//
//   a.yaml: imports [b.yaml, c.yaml]     b.yaml: imports [d.yaml]     d, b, c, a
//
// so their passes come first, and what a later one says counts for more.
#include "pipeline/config/pipeline_yaml.h"
#include "base/again.h"
#include "base/guess.h"
#include "json/plain_file.h"
#include "passes/catalogue/passes.h"
#include "pipeline/config/inside/config.h"
#include "pipeline/groups.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

// ---- the grammar -------------------------------------------------------------------------------

// An option of a pass, or of those of a family that have it.
struct option {
  struct pass_values **of;
  uint32_t *o; // of each, NO_ID: it has none of that name
  uint32_t n;
  const struct pass_option *row; // of the first that has it
};

// The current scalar as the value, or one more element, of an option.
static int put_word(struct config *c, const struct option *x) {
  struct err why = {0};
  if (config_is_null(c) || c->at->word.n == 0)
    return config_refuse(c, "option '%s' has no value", pass_values_key(x->row, &c->p->arena));
  for (uint32_t i = 0; i < x->n; i++)
    if (x->o[i] != NO_ID && pass_values_put(x->of[i], x->o[i], c->at->word, &c->p->arena, &why))
      return config_refuse_word(c, c->at, &why);
  return config_next(c);
}

static int read_value(struct config *c, const struct option *x) {
  if (config_is(c, CONFIG_WORD)) return put_word(c, x);
  if (!config_is(c, CONFIG_LIST)) return config_refuse_kind(c, "the value of an option");
  for (uint32_t i = 0; i < x->n; i++) {
    if (x->o[i] == NO_ID) continue;
    if (x->of[i]->pass->options[x->o[i]].kind != PASS_LIST)
      return config_refuse(c, "option '%s' takes one value, not a list",
                           pass_values_key(x->row, &c->p->arena));
    x->of[i]->of[x->o[i]].n_list = 0; // the preset goes also for an empty list
    x->of[i]->of[x->o[i]].given = true;
  }
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_LIST)) {
    if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "a word");
    if (put_word(c, x)) return -1;
  }
  return config_next(c);
}

static int read_option(struct config *c, struct pass_values **list, uint32_t n, bool family) {
  struct err why = {0};
  struct option x = {.of = list, .n = n};
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "the name of an option");
  const bool known = family ? pass_values_find_family(list, n, c->at->word, &why) == 0
                            : pass_values_find(list[0]->pass, c->at->word, &why) != NO_ID;
  if (!known) return config_refuse_word(c, c->at, &why);
  x.o = arena_alloc(&c->p->arena, n * sizeof *x.o);
  for (uint32_t i = 0; i < n; i++) {
    x.o[i] = pass_values_option(list[i]->pass, c->at->word);
    if (x.o[i] == NO_ID) continue;
    if (!x.row) x.row = &list[i]->pass->options[x.o[i]];
    if (list[i]->of[x.o[i]].given)
      return config_refuse(c, "option '%s' is given twice", x.row->name);
  }
  return config_next(c) ? -1 : read_value(c, &x);
}

static int read_options(struct config *c, struct pass_values **list, uint32_t n, bool family) {
  if (config_is_null(c)) return config_next(c);
  if (!config_is(c, CONFIG_MAPPING)) return config_refuse_kind(c, "a mapping of options");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_MAPPING))
    if (read_option(c, list, n, family)) return -1;
  return config_next(c);
}

// ---- passes ------------------------------------------------------------------------------------

// Behind the key of a mapping of one pass, or of a repeat.
static int end_mapping(struct config *c) {
  if (config_is(c, CONFIG_END_MAPPING)) return config_next(c);
  (void)config_refuse(c, "a second name in the mapping of one pass");
  return err_hint(c->err,
                  "options go below the name, indented further; the next pass begins with '-'");
}

// Who has that name: onnx-passes (a class, or a key of its registry, which families of classes are), weir alone, or both (a
// pass without a family that does what a class does).
enum owner { THEIRS, OURS, BOTH };
static enum owner owner_of(const struct pipeline *p, struct span name) {
  const struct pass *pass = passes_named(pipeline_own(p), name, 0);
  if (groups_find(name)) return THEIRS;
  if (!pass || span_is(name, "optimize")) return OURS;
  if (!passes_called(pass, name))
    return span_eq(name, passes_family(pass)) && passes_class(pass).n == 0 ? OURS : THEIRS;
  if (passes_class(pass).n > 0) return THEIRS;
  if (pass->also && span_is(name, pass->also)) return OURS;
  if (!span_is(name, pass->name)) return THEIRS;
  return pass->classes && !strchr(pass->name, '/') ? BOTH : OURS;
}

// A pass or a family, as new steps; what options mean together has the place of the name.
static int read_pass(struct config *c, bool has_options) {
  struct err why = {0};
  const struct config_event *at = c->at;
  uint32_t n;
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "the name of a pass");
  struct pipeline_step *steps = pipeline_add(c->p, c->at->word, &n, &why);
  if (!steps) return config_refuse_word(c, at, &why);
  const bool family = !passes_called(steps->values.pass, c->at->word);
  const enum owner owner = owner_of(c->p, c->at->word);
  c->named = c->named || owner == THEIRS;
  c->other_name = c->other_name || owner == OURS;
  if (config_next(c)) return -1;
  if (has_options && read_options(c, pipeline_values(c->p, steps, n), n, family)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (pass_values_read(&steps[i].values, &c->p->arena, &why))
      return config_refuse_word(c, at, &why);
  if (has_options && config_is_word(c, "verify")) {
    if (config_next(c) || config_verify(c, &steps->verify)) return -1;
    for (uint32_t i = 1; i < n; i++)
      steps[i].verify = steps->verify;
  }
  return has_options ? end_mapping(c) : 0;
}

// Behind the list of a repeat.
static int end_repeat(struct config *c, uint32_t repeat) {
  uint64_t rounds;
  pipeline_end(c->p);
  if (config_is(c, CONFIG_END_MAPPING)) return config_next(c);
  if (!config_is_word(c, "rounds"))
    return config_refuse(c, "next to 'repeat' only 'rounds' is allowed");
  if (config_next(c)) return -1;
  const struct span number = config_is(c, CONFIG_WORD) ? c->at->word : span_of("", 0);
  const char *wanted = pass_values_whole(number, 1, INT32_MAX, &rounds, &c->p->arena);
  if (wanted) return config_refuse(c, "'rounds' must be %s", wanted);
  c->p->repeats[repeat].rounds = (uint32_t)rounds;
  return config_next(c) ? -1 : end_mapping(c);
}

// A list that is read: of a repeat, or written inside another one (NO_ID).
struct level {
  uint32_t repeat;
};

static int begin_list(struct config *c) {
  if (!config_is(c, CONFIG_LIST)) return config_refuse_kind(c, "a list of passes");
  const struct config_event *start = c->at;
  if (config_next(c)) return -1;
  if (config_is(c, CONFIG_END_LIST))
    return config_refuse_at(c, start, "the list of passes is empty");
  return 0;
}

static int read_steps(struct config *c) {
  struct level levels[PIPELINE_DEPTH];
  uint32_t depth = 0;
  if (begin_list(c)) return -1;
  while (depth > 0 || !config_is(c, CONFIG_END_LIST)) {
    if (config_is(c, CONFIG_END_LIST)) {
      const uint32_t repeat = levels[--depth].repeat;
      if (config_next(c) || (repeat != NO_ID && end_repeat(c, repeat))) return -1;
      continue;
    }
    const bool mapping = config_is(c, CONFIG_MAPPING), list = config_is(c, CONFIG_LIST);
    if (mapping && config_next(c)) return -1;
    const bool repeat = mapping && config_is_word(c, "repeat");
    if (!repeat && !list) {
      if (read_pass(c, mapping)) return -1;
      continue;
    }
    if (depth == PIPELINE_DEPTH)
      return config_refuse(c, "lists are nested more than %d deep", PIPELINE_DEPTH);
    levels[depth++].repeat = repeat ? c->p->n_repeats : NO_ID;
    if (repeat) pipeline_begin(c->p, PIPELINE_ROUNDS);
    if ((repeat && config_next(c)) || begin_list(c)) return -1;
  }
  return config_next(c);
}

// ---- the file ----------------------------------------------------------------------------------

static int read_exactness(struct config *c) {
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "a word");
  c->p->exactness = exactness_by_name(c->at->word);
  if (c->p->exactness == EXACTNESSES)
    return config_refuse(c, "invalid value '%s' for exactness: use exact|zero|rounding|finite",
                         quote(c->at->word).s);
  c->said_exactness = true;
  return config_next(c);
}

static int read_target(struct config *c) {
  struct err why = {0};
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "a word");
  const struct target *target = targets_find(c->at->word);
  if (!target) {
    (void)config_refuse(c, "there is no target '%s'", quote(c->at->word).s);
    const char *ours = targets_meant(arena_string(&c->p->arena, c->at->word));
    if (ours) return err_hint(c->err, "did you mean %s?", ours);
    return err_hint(c->err, "'weir targets' lists them");
  }
  if (pipeline_take_target(c->p, target, &why)) return config_refuse_word(c, c->at, &why);
  return config_next(c);
}

enum { PASSES, VERIFY_ON, REFERENCE }; // places of keys that are looked at again
static const struct config_key top_keys[] = {
    {"passes", read_steps},          {"verify_on", config_verify_on},
    {"reference", config_reference}, {"exactness", read_exactness},
    {"target", read_target},         {"verify", config_all_verify},
    {"imports", config_imports},     {"exhaustive", config_exhaustive},
    {"logging", config_logging},
};
enum { TOP_KEYS = sizeof top_keys / sizeof *top_keys };

static int unknown_key(struct config *c) {
  struct guess g = guess_start(arena_string(&c->p->arena, c->at->word));
  const char *section;
  for (uint32_t k = 0; k < TOP_KEYS; k++)
    guess_try(&g, top_keys[k].name);
  for (uint32_t k = 0; (section = config_section_at(k)); k++)
    guess_try(&g, section);
  (void)config_refuse(c, "unknown key '%s'", quote(c->at->word).s);
  if (g.best) return err_hint(c->err, "did you mean '%s'?", g.best);
  return err_hint(c->err, "the keys are 'passes', 'exactness', 'target', 'verify', 'verify_on', "
                          "'reference', and those of onnx-passes (pipelines.md)");
}

// The places of top_keys that are there go to at[].
static int read_top(struct config *c, const struct config_event **at) {
  struct {
    struct span name;
  } sections[32];
  uint32_t n_sections = 0;
  if (!config_is(c, CONFIG_MAPPING))
    return config_refuse_kind(c, "a mapping with the key 'passes'");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_MAPPING)) {
    uint32_t k = 0, s = 0;
    const struct config_event *key = c->at;
    if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "the key 'passes'");
    while (k < TOP_KEYS && !config_is_word(c, top_keys[k].name))
      k++;
    while (s < n_sections && !span_eq(sections[s].name, key->word))
      s++;
    if (s < n_sections || (k < TOP_KEYS && at[k]))
      return config_refuse(c, "a second key '%s'", quote(key->word).s);
    if (k == TOP_KEYS) {
      const int was = config_section(c, key->word);
      if (was < 0) return -1;
      if (was == 0) return unknown_key(c);
      sections[n_sections++].name = key->word;
      continue;
    }
    at[k] = key;
    if (config_next(c) || top_keys[k].read(c)) return -1;
  }
  return config_next(c);
}

// One text, of one or of several files. last: the one that was asked for, which the others are imported by.
static int read_text(struct config *c, const char *name, const struct config_events *e, bool last) {
  const struct config_event *at[TOP_KEYS] = {NULL};
  c->name = name;
  c->at = e->list - 1;
  if (config_next(c)) return -1;
  const struct config_event *start = c->at;
  if (read_top(c, at)) return -1;
  if (!last) return 0;
  c->theirs = c->theirs || (c->named && !c->other_name);
  if (c->theirs && !c->said_exactness) c->p->exactness = EXACTNESS_FINITE;
  c->p->nothing = c->p->n_steps ? NULL
                                : arena_printf(&c->p->arena, "%s: the key 'passes' is missing",
                                               config_place(c, start));
  return config_verify_end(c, at[VERIFY_ON], at[REFERENCE]);
}

static int check_size(struct span text, const char *name, struct err *err) {
  if (text.n <= PIPELINE_MAX_BYTES) return 0;
  return err_set(err, ERR_USAGE, "the pipeline '%s' has more than %d bytes", quote_str(name).s,
                 PIPELINE_MAX_BYTES);
}

int pipeline_parse(struct pipeline *p, struct span text, const char *name, struct err *err) {
  struct config c = {.p = p, .alone = true, .err = err};
  struct config_events e;
  if (check_size(text, name, err)) return -1;
  config_events_read(&e, text, &p->arena);
  const int rc = read_text(&c, name, &e, true);
  config_events_free(&e);
  return rc;
}

// ---- files that import files -------------------------------------------------------------------

enum { FILES = 64, NESTED = 16 }; // in all; inside one another

struct yaml_file {
  const char *path;
  struct entry_facts is;       // what it is, by whatever name; of standard input nothing
  struct config_events events; // in place of which `scan` is the next word of its imports
  const struct config_event *scan;
};

struct files {
  struct yaml_file list[FILES];
  uint32_t n;
  uint32_t open[NESTED], depth; // those that wait for what they import
  struct arena *a;
};

// One digest after the other, so that the order counts too.
static void note_text(struct pipeline *p, const uint8_t *text, size_t n) {
  uint8_t both[2][DIGEST_BYTES];
  memcpy(both[0], p->read_sha256, DIGEST_BYTES);
  digest_of(text, n, both[1]);
  digest_of(both, sizeof both, p->read_sha256);
}

static int read_file(struct files *f, struct pipeline *p, const char *path, struct err *err) {
  const bool is_stdin = strcmp(path, "-") == 0;
  struct yaml_file *file = &f->list[f->n];
  FILE *in = is_stdin ? stdin : plain_file_open(path, "the pipeline ", err);
  *file = (struct yaml_file){.path = path};
  if (!in) return -1;
  uint8_t *text = arena_alloc(f->a, PIPELINE_MAX_BYTES + 1);
  const size_t n = again_fread(text, PIPELINE_MAX_BYTES + 1, in);
  int rc = ferror(in) ? err_errno(err, errno ? errno : EIO, ERR_INPUT,
                                  "the pipeline '%s' cannot be read", quote_str(path).s)
                      : check_size(span_of(text, n), path, err);
  if (!is_stdin) {
    (void)entry_look(HERE, path, 0, &file->is);
    stream_close(in);
  }
  if (rc) return -1;
  note_text(p, text, n);
  config_events_read(&file->events, span_of(text, n), f->a);
  f->n++;
  return 0;
}

// The first word of the list "imports" of the file; NULL: there is none.
static const struct config_event *first_import(const struct config_events *e) {
  const struct config_event *at = e->list;
  if (at->kind != CONFIG_MAPPING) return NULL;
  for (at++; at->kind == CONFIG_WORD; at = config_events_behind(at + 1)) {
    if (!span_is(at->word, "imports")) continue;
    return at[1].kind == CONFIG_LIST ? at + 2 : NULL;
  }
  return NULL;
}

static bool is_same(const struct yaml_file *a, const struct yaml_file *b) {
  return a->is.number != 0 && entry_is_same(&a->is, &b->is);
}

// "a.yaml -> b.yaml -> a.yaml"
static const char *circle(const struct files *f, uint32_t from) {
  const char *words = "";
  for (uint32_t k = from; k < f->depth; k++)
    words = arena_printf(f->a, "%s%s -> ", words, quote_str(f->list[f->open[k]].path).s);
  return arena_printf(f->a, "%s%s", words, quote_str(f->list[f->open[from]].path).s);
}

// Opens what the word names, from the folder of the file that it stands in.
static int open_import(struct files *f, struct config *c, const struct config_event *at) {
  const struct yaml_file *from = &f->list[f->open[f->depth - 1]];
  const char *slash = strrchr(from->path, '/'), *word = arena_string(f->a, at->word);
  const int above = *word == '/' || !slash ? 0 : (int)(slash + 1 - from->path);
  struct err why = {0};
  c->name = from->path;
  if (f->n == FILES || f->depth == NESTED)
    return config_refuse_at(c, at,
                            f->n == FILES ? "more than %d files are imported"
                                          : "imports are nested more than %d files deep",
                            f->n == FILES ? FILES : NESTED);
  if (read_file(f, c->p, arena_printf(f->a, "%.*s%s", above, from->path, word), &why)) {
    config_refuse_at(c, at, "%s", why.msg);
    c->err->kind = why.kind;
    return -1;
  }
  const uint32_t new = f->n - 1;
  for (uint32_t k = 0; k < f->depth; k++)
    if (is_same(&f->list[f->open[k]], &f->list[new])) {
      (void)config_refuse_at(c, at, "the file imports itself: %s", circle(f, k));
      return err_hint(c->err, "move the common part to a file that both import");
    }
  for (uint32_t k = 0; k < new; k++)
    if (is_same(&f->list[k], &f->list[new])) return 0; // it was read already
  *TABLE_PUSH(&c->p->read, list) = f->list[new].path;
  f->list[new].scan = first_import(&f->list[new].events);
  f->open[f->depth++] = new;
  return 0;
}

// The innermost file: another import of it, or itself.
static int go_on(struct files *f, struct config *c) {
  struct yaml_file *file = &f->list[f->open[f->depth - 1]];
  for (; file->scan && file->scan->kind == CONFIG_WORD; file->scan++)
    if (config_is_file(file->scan->word)) return open_import(f, c, file->scan++);
  const bool last = f->depth == 1;
  f->depth--;
  return read_text(c, file->path, &file->events, last);
}

int pipeline_read(struct pipeline *p, const char *path, struct err *err) {
  struct files *f = arena_zalloc(&p->arena, sizeof *f);
  struct config c = {.p = p, .err = err};
  f->a = &p->arena;
  int rc = read_file(f, p, path, err);
  if (rc == 0) {
    *TABLE_PUSH(&p->read, list) = path;
    f->list[0].scan = first_import(&f->list[0].events);
    f->open[f->depth++] = 0;
  }
  while (rc == 0 && f->depth > 0)
    rc = go_on(f, &c);
  for (uint32_t i = 0; i < f->n; i++)
    config_events_free(&f->list[i].events);
  return rc;
}
