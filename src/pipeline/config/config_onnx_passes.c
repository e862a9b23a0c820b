// The keys of onnx-passes' configurations that are not about verification.
//
//   imports: [onnx_passes.passes.imports.qonnx, base.yaml]   modules whose passes are built in; files
//   exhaustive: true
//   logging: {verbose: true, checkpoint: last.onnx, keep_intermediates: steps}
//   fold_constants: {output_size_limit: 1000000}             sections: config_keys.def
//
// A value of a section is kept until all steps are there, those of the command line too, and goes to the steps of its pass
// that say nothing of it themselves. What weir has nothing for is a warning with its place, and never silence.
#include "pipeline/config/inside/config.h"

#include "base/guess.h"

#include <string.h>

// ---- imports -----------------------------------------------------------------------------------

// Those of the package, behind its name.
static const char *const modules[] = {
    "",
    "ops",
    "ops.argsort",
    "ops.im2col",
    "ops.inverse_swish",
    "ops.lambertw",
    "ops.layouts",
    "ops.qonnx",
    "ops.round",
    "ops.swish",
    "ops.thresholds",
    "ops.ulp",
    "passes",
    "passes.analysis",
    "passes.analysis.checker",
    "passes.annotation",
    "passes.annotation.layouts",
    "passes.annotation.range",
    "passes.annotation.shapes",
    "passes.base",
    "passes.cleanup",
    "passes.cleanup.constants",
    "passes.cleanup.names",
    "passes.cleanup.remove",
    "passes.cleanup.sort",
    "passes.compose",
    "passes.constants",
    "passes.convert",
    "passes.eliminate",
    "passes.eliminate.common_subexpression",
    "passes.eliminate.identity",
    "passes.eliminate.where",
    "passes.fusion",
    "passes.fusion.silu",
    "passes.fusion.thresholds",
    "passes.imports",
    "passes.imports.qonnx",
    "passes.inline",
    "passes.inline.batchnorm",
    "passes.inline.functions",
    "passes.inline.gemm",
    "passes.inline.qonnx",
    "passes.inline.thresholds",
    "passes.lowering",
    "passes.lowering.conv",
    "passes.lowering.pooling",
    "passes.lowering.sigmoid",
    "passes.runtime",
    "passes.streamline",
    "passes.streamline.algebraic",
    "passes.streamline.algebraic.bitwise",
    "passes.streamline.algebraic.boolean",
    "passes.streamline.algebraic.comparison",
    "passes.streamline.algebraic.matmul",
    "passes.streamline.algebraic.numeric",
    "passes.streamline.algebraic.reduce",
    "passes.streamline.factorize",
    "passes.streamline.reorder",
    "passes.streamline.reorder.concat",
    "passes.streamline.reorder.im2col",
    "passes.streamline.reorder.shapes",
    "passes.streamline.reorder.slice",
    "passes.streamline.reorder.split",
    "passes.streamline.reorder.transpose",
    "passes.streamline.thresholds",
    "passes.streamline.unbroadcast",
    "passes.util",
    "passes.verify",
    "traits",
    "traits.elementwise",
    "traits.pooling",
    "traits.reduction",
    "utils",
    "utils.networkx",
};

bool config_is_file(struct span word) {
  static const char *const ends[] = {".yaml", ".yml", ".json"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    const size_t n = strlen(ends[i]);
    if (word.n > n && memcmp(word.at + word.n - n, ends[i], n) == 0) return true;
  }
  return false;
}

static int read_module(struct config *c) {
  static const char package[] = "onnx_passes";
  const char *word;
  const struct config_event *at = c->at;
  if (config_text(c, "the name of a module, or of a file", &word)) return -1;
  if (config_is_file(at->word) && !c->alone) return 0; // it was read before this one
  if (config_is_file(at->word))
    return config_refuse_at(c, at, "a pipeline that is not a file cannot import '%s'",
                            quote_str(word).s);
  const size_t n = sizeof package - 1;
  if (strncmp(word, package, n) != 0 || (word[n] != '.' && word[n] != '\0')) {
    (void)config_refuse_at(c, at, "'%s' is a Python module, and weir does not run Python",
                           quote_str(word).s);
    return err_hint(c->err, "leave it out if its passes are built in ('weir passes' lists them); "
                            "rewrites of your own can be rules of a file (--rules)");
  }
  const char *rest = word[n] ? word + n + 1 : "";
  struct guess g = guess_start(rest);
  for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
    if (strcmp(rest, modules[i]) == 0) return 0;
    guess_try(&g, modules[i]);
  }
  (void)config_refuse_at(c, at, "onnx-passes has no module '%s'", quote_str(word).s);
  if (g.best && *g.best) return err_hint(c->err, "did you mean '%s.%s'?", package, g.best);
  return err_hint(c->err, "its passes are built in: leave it out");
}

int config_imports(struct config *c) {
  c->theirs = true;
  if (config_is_null(c)) return config_next(c);
  if (!config_is(c, CONFIG_LIST)) return config_refuse_kind(c, "a list of modules");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_LIST))
    if (read_module(c)) return -1;
  return config_next(c);
}

// ---- exhaustive, logging -----------------------------------------------------------------------

int config_exhaustive(struct config *c) {
  c->theirs = true;
  return config_bool(c, &c->p->exhaustive);
}

static int read_verbose(struct config *c) {
  return config_bool(c, &c->p->verbose);
}

// A path, or false.
static int read_path(struct config *c, const char *wanted, const char **path) {
  bool on = false;
  *path = NULL;
  if (config_is_null(c) || (config_is_bool(c, &on) && !on)) return config_next(c);
  if (on) return config_refuse_kind(c, wanted);
  return config_text(c, wanted, path);
}

static int read_checkpoint(struct config *c) {
  return read_path(c, "the name of a file, or false", &c->p->checkpoint);
}

static int read_intermediates(struct config *c) {
  return read_path(c, "the name of a folder, or false", &c->p->intermediates);
}

int config_logging(struct config *c) {
  static const struct config_key keys[] = {{"verbose", read_verbose},
                                           {"checkpoint", read_checkpoint},
                                           {"keep_intermediates", read_intermediates}};
  c->theirs = true;
  return config_mapping(c, "'logging'", keys, sizeof keys / sizeof *keys, NULL);
}

// ---- sections ----------------------------------------------------------------------------------

// Each reads a value, and gives it as words of an option: one, or those of a list.
struct value {
  TABLE(const char *, words);
};

static int form_flag(struct config *c, struct value *v) {
  bool on;
  if (config_bool(c, &on)) return -1;
  *TABLE_PUSH(v, words) = on ? "true" : "false";
  return 0;
}

static int form_number(struct config *c, struct value *v) {
  uint64_t n;
  const struct span word = config_is(c, CONFIG_WORD) ? c->at->word : span_str("");
  const char *wanted = pass_values_whole(word, 0, INT64_MAX, &n, &c->p->arena);
  if (wanted) return config_refuse_kind(c, wanted);
  *TABLE_PUSH(v, words) = arena_printf(&c->p->arena, "%s", decimal(n).s);
  return config_next(c);
}

static int form_anything(struct config *c, struct value *v) {
  *TABLE_PUSH(v, words) = "";
  return config_skip(c);
}

// A list of words as one, with dots between them, or a word: "N.C.H.W" of [N, C, H, W].
static int joined(struct config *c, const char *wanted, const char **out) {
  const char *word;
  *out = "";
  if (config_is(c, CONFIG_WORD)) return config_text(c, wanted, out);
  if (!config_is(c, CONFIG_LIST)) return config_refuse_kind(c, wanted);
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_LIST)) {
    if (config_text(c, wanted, &word)) return -1;
    *out = arena_printf(&c->p->arena, "%s%s%s", *out, **out ? "." : "", word);
  }
  return config_next(c);
}

// {assumes: [N, C, H, W], perm: [0, 2, 3, 1]} as "N.C.H.W/0.2.3.1", nothing as "-".
static int read_layout(struct config *c, const char **out) {
  const struct config_event *at = c->at;
  const char *assumes = NULL, *perm = NULL;
  *out = "-";
  if (config_is_null(c)) return config_next(c);
  if (!config_is(c, CONFIG_MAPPING))
    return config_refuse_kind(c, "a mapping with 'assumes' and 'perm', or null");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_MAPPING)) {
    const bool is_perm = config_is_word(c, "perm");
    if (!is_perm && !config_is_word(c, "assumes"))
      return config_refuse(c, "a layout has 'assumes' and 'perm'");
    if (is_perm ? perm : assumes) return config_refuse(c, "it is given twice");
    if (config_next(c)) return -1;
    if (is_perm ? joined(c, "a list of axes", &perm)
                : joined(c, "a list of letters, one for each axis", &assumes))
      return -1;
  }
  if (!assumes || !perm) return config_refuse_at(c, at, "a layout has 'assumes' and 'perm'");
  *out = arena_printf(&c->p->arena, "%s/%s", assumes, perm);
  return config_next(c);
}

static int form_layouts(struct config *c, struct value *v) {
  const char *word;
  if (!config_is(c, CONFIG_LIST))
    return config_refuse_kind(c, "a list of layouts, one for each input");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_LIST)) {
    if (read_layout(c, &word)) return -1;
    *TABLE_PUSH(v, words) = word;
  }
  return config_next(c);
}

static const struct section_key {
  const char *section, *key;
  int (*form)(struct config *c, struct value *v);
  const char *pass, *option, *same, *why;
} section_keys[] = {
#define KEY(section, key, form, pass, option, same, why)                                           \
  {#section, #key, form_##form, pass, option, same, why},
#include "pipeline/config/config_keys.def"
#undef KEY
};
enum { SECTION_KEYS = sizeof section_keys / sizeof *section_keys };

const char *config_section_at(uint32_t k) {
  for (uint32_t i = 0; i < SECTION_KEYS; i++) {
    if (i > 0 && strcmp(section_keys[i - 1].section, section_keys[i].section) == 0) continue;
    if (k-- == 0) return section_keys[i].section;
  }
  return NULL;
}

// A later file's value counts.
static void keep(struct config *c, const struct section_key *row, const struct config_event *at,
                 const struct value *v) {
  struct pipeline *p = c->p;
  const char **list = arena_zalloc(&p->arena, (v->n_words + (size_t)1) * sizeof *list);
  if (v->n_words) memcpy(list, v->words, v->n_words * sizeof *list);
  const struct pipeline_setting s = {
      row->pass,  row->option,         list,
      v->n_words, config_place(c, at), arena_printf(&p->arena, "%s.%s", row->section, row->key)};
  for (uint32_t i = 0; i < p->n_settings; i++)
    if (strcmp(p->settings[i].key, s.key) == 0) {
      p->settings[i] = s;
      return;
    }
  *TABLE_PUSH(p, settings) = s;
}

static int read_key(struct config *c, const char *section, bool *seen) {
  struct value v = {.n_words = 0};
  struct guess g;
  const struct config_event *at = c->at;
  const char *list = "";
  uint32_t k = 0;
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "a key");
  g = guess_start(arena_string(&c->p->arena, c->at->word));
  for (; k < SECTION_KEYS; k++) {
    if (strcmp(section_keys[k].section, section) != 0) continue;
    if (config_is_word(c, section_keys[k].key)) break;
    guess_try(&g, section_keys[k].key);
    list = arena_printf(&c->p->arena, "%s%s'%s'", list, *list ? ", " : "", section_keys[k].key);
  }
  if (k == SECTION_KEYS) {
    (void)config_refuse(c, "'%s' has no key '%s'", section, quote(c->at->word).s);
    if (g.best) return err_hint(c->err, "did you mean '%s'?", g.best);
    return err_hint(c->err, "its keys are %s", list);
  }
  const struct section_key *row = &section_keys[k];
  if (seen[k]) return config_refuse(c, "a second key '%s'", row->key);
  seen[k] = true;
  if (config_next(c)) return -1;
  const int rc = row->form(c, &v);
  if (rc == 0 && *row->pass)
    keep(c, row, at, &v);
  else if (rc == 0 && (v.n_words != 1 || strcmp(v.words[0], row->same) != 0 || !*row->same))
    config_note(c, at, NULL, "'%s.%s' has no effect: %s", section, row->key, row->why);
  TABLE_FREE(&v, words);
  return rc;
}

int config_section(struct config *c, struct span name) {
  const char *section;
  bool seen[SECTION_KEYS] = {false};
  uint32_t k = 0;
  while ((section = config_section_at(k)) && !span_is(name, section))
    k++;
  if (!section) return 0;
  c->theirs = true;
  if (config_next(c)) return -1;
  if (config_is_null(c)) return config_next(c) ? -1 : 1;
  if (!config_is(c, CONFIG_MAPPING)) return config_refuse_kind(c, "a mapping");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_MAPPING))
    if (read_key(c, section, seen)) return -1;
  return config_next(c) ? -1 : 1;
}
