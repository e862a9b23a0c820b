// Refusals, places, words and numbers of pipeline files (config.h).
//
// Words are taken as text, quoted or not; what a word means depends on who asks. So 04 is no number of another base, and
// `yes` is true only where a key of onnx-passes wants a truth.
#include "pipeline/config/inside/config.h"

#include "base/guess.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- refusals ----------------------------------------------------------------------------------

const char *config_place(const struct config *c, const struct config_event *at) {
  return arena_printf(&c->p->arena, "%s:%u:%u", quote_str(c->name).s, at->line, at->column);
}

int config_refuse_at(struct config *c, const struct config_event *at, const char *fmt, ...) {
  char text[768];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return err_set(c->err, ERR_USAGE, "%s: %s", config_place(c, at), text);
}

int config_refuse_word(struct config *c, const struct config_event *at, const struct err *why) {
  (void)config_refuse_at(c, at, "%s", why->msg);
  err_fill_hint_of(c->err, why);
  return -1;
}

static const char *kind_of(const struct config_event *e) {
  switch (e->kind) {
  case CONFIG_WORD: return "a word";
  case CONFIG_LIST: return "a list";
  case CONFIG_MAPPING: return "a mapping";
  default: return "nothing";
  }
}

int config_refuse_kind(struct config *c, const char *wanted) {
  return config_refuse(c, "expected %s here, found %s", wanted, kind_of(c->at));
}

void config_note(struct config *c, const struct config_event *at, const char *hint, const char *fmt,
                 ...) {
  char text[768];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  *TABLE_PUSH(c->p, notes) =
      (struct pipeline_note){arena_printf(&c->p->arena, "%s: %s", config_place(c, at), text), hint};
}

// ---- events ------------------------------------------------------------------------------------

static int check_fault(struct config *c) {
  const struct config_event *e = c->at;
  if (e->kind != CONFIG_FAULT) return 0;
  if (e->line)
    (void)config_refuse(c, "%s", e->fault);
  else
    (void)err_set(c->err, ERR_USAGE, "%s: %s", quote_str(c->name).s, e->fault);
  return e->hint ? err_hint(c->err, "%s", e->hint) : -1;
}

int config_next(struct config *c) {
  c->at++;
  return check_fault(c);
}

int config_skip(struct config *c) {
  c->at = config_events_behind(c->at);
  return check_fault(c);
}

bool config_is(const struct config *c, enum config_kind kind) {
  return c->at->kind == kind;
}

bool config_is_word(const struct config *c, const char *word) {
  return c->at->kind == CONFIG_WORD && span_is(c->at->word, word);
}

bool config_is_null(const struct config *c) {
  if (!config_is(c, CONFIG_WORD) || !c->at->plain) return false;
  return c->at->word.n == 0 || config_is_word(c, "~") || config_is_word(c, "null");
}

// ---- words -------------------------------------------------------------------------------------

int config_number(struct config *c, double *out) {
  char text[64], *end = text;
  const struct span w = config_is(c, CONFIG_WORD) ? c->at->word : span_of("", 0);
  snprintf(text, sizeof text, "%.*s", (int)min_u64(w.n, sizeof text - 1), (const char *)w.at);
  const bool least = strcmp(text, "-.inf") == 0 || strcmp(text, "-inf") == 0;
  const bool most = strcmp(text, ".inf") == 0 || strcmp(text, "inf") == 0;
  *out = least ? -INFINITY : most ? INFINITY : strtod(text, &end);
  if (!least && !most && (w.n == 0 || *end != '\0' || isnan(*out)))
    return config_refuse_kind(c, "a number");
  return config_next(c);
}

bool config_is_bool(const struct config *c, bool *out) {
  static const char *const words[2][10] = {
      {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", NULL},
      {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", NULL}};
  for (int truth = 0; truth < 2; truth++)
    for (const char *const *w = words[truth]; *w; w++)
      if (config_is_word(c, *w)) {
        *out = truth == 1;
        return true;
      }
  return false;
}

int config_bool(struct config *c, bool *out) {
  if (!config_is_bool(c, out)) return config_refuse_kind(c, "true or false");
  return config_next(c);
}

int config_text(struct config *c, const char *wanted, const char **out) {
  if (!config_is(c, CONFIG_WORD) || c->at->word.n == 0 || config_is_null(c))
    return config_refuse_kind(c, wanted);
  *out = arena_string(&c->p->arena, c->at->word);
  return config_next(c);
}

// ---- mappings ----------------------------------------------------------------------------------

static int unknown_key(struct config *c, const char *what, const struct config_key *keys,
                       uint32_t n) {
  struct guess g = guess_start(arena_string(&c->p->arena, c->at->word));
  const char *list = "";
  for (uint32_t k = 0; k < n; k++) {
    guess_try(&g, keys[k].name);
    list = arena_printf(&c->p->arena, "%s%s'%s'", list, *list ? ", " : "", keys[k].name);
  }
  (void)config_refuse(c, "%s has no key '%s'", what, quote(c->at->word).s);
  if (g.best) return err_hint(c->err, "did you mean '%s'?", g.best);
  return err_hint(c->err, n == 1 ? "its only key is %s" : "its keys are %s", list);
}

int config_mapping(struct config *c, const char *what, const struct config_key *keys, uint32_t n,
                   const struct config_event **seen) {
  if (config_is_null(c)) return config_next(c);
  if (!config_is(c, CONFIG_MAPPING)) {
    (void)config_refuse_kind(c, "a mapping");
    return err_hint(c->err, "%s has keys, each with a value", what);
  }
  const struct config_event **were = seen ? seen : arena_zalloc(&c->p->arena, n * sizeof *were);
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_MAPPING)) {
    uint32_t k = 0;
    if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "a key");
    while (k < n && !config_is_word(c, keys[k].name))
      k++;
    if (k == n) return unknown_key(c, what, keys, n);
    if (were[k]) return config_refuse(c, "a second key '%s'", keys[k].name);
    were[k] = c->at;
    if (config_next(c) || keys[k].read(c)) return -1;
  }
  return config_next(c);
}
