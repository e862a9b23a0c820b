// Words to values: what a user writes behind a flag, in --pass NAME:key=value or in a pipeline file
// becomes a struct pass_value of the kind of its row, and values become canonical JSON.
//
//   matmulnbits:bits=4,exclude=*lm_head*+re:emb\,[0-9],symmetric
//   name        key=val key     element element         key alone: a flag
//
// Each value is checked alone against its row. What needs several of them, or the model, is the
// pass's to refuse.
#include "pass.h"

#include "guess.h"
#include "json.h"

#include <assert.h>

// ---- names -------------------------------------------------------------------------------------

enum pass_id pass_values_pass(struct span name, struct err *err) {
  struct arena scratch = {0};
  enum pass_id pass = pass_by_name(name);
  if (pass != PASSES) return pass;
  struct guess g = guess_start(arena_string(&scratch, name));
  for (uint32_t p = 0; p < PASSES; p++)
    guess_try(&g, pass_row(p)->name);
  err_fill(err, ERR_USAGE, "there is no pass '%s'", quote(name).s);
  if (g.best)
    err_fill_hint(err, "did you mean '%s'?", g.best);
  else
    err_fill_hint(err, "'weir passes' lists them");
  arena_free(&scratch);
  return PASSES;
}

const char *pass_values_key(enum pass_option_id option, struct arena *a) {
  char *key = arena_string(a, span_str(pass_option(option)->name));
  for (char *c = key; *c; c++)
    if (*c == '-') *c = '_';
  return key;
}

static bool is_key(struct span text, const char *name) {
  size_t n = strlen(name);
  if (text.n != n) return false;
  for (size_t i = 0; i < n; i++)
    if (text.at[i] != name[i] && !(text.at[i] == '_' && name[i] == '-')) return false;
  return true;
}

enum pass_option_id pass_values_find(enum pass_id pass, struct span key, struct err *err) {
  for (uint32_t o = 0; o < PASS_OPTIONS; o++)
    if (pass_option_belongs(o, pass) && is_key(key, pass_option(o)->name)) return o;
  struct arena scratch = {0};
  struct guess g = guess_start(arena_string(&scratch, key));
  for (uint32_t o = 0; o < PASS_OPTIONS; o++)
    if (pass_option_belongs(o, pass)) guess_try(&g, pass_values_key(o, &scratch));
  err_fill(err, ERR_USAGE, "pass '%s' has no option '%s'", pass_row(pass)->name, quote(key).s);
  if (g.best)
    err_fill_hint(err, "did you mean '%s'?", g.best);
  else
    err_fill_hint(err, "'weir passes %s' lists them", pass_row(pass)->name);
  arena_free(&scratch);
  return PASS_OPTIONS;
}

// ---- values ------------------------------------------------------------------------------------

static int bad_value(enum pass_option_id o, struct span text, const char *wanted, struct err *err) {
  return err_set(err, ERR_USAGE, "'%s' is no value for %s: it takes %s", quote(text).s,
                 pass_option(o)->name, wanted);
}

// The k-th of the words that a metavar lists, or n 0.
static struct span word_of(const char *list, char between, uint32_t k) {
  const char ends[] = {between, '\0'};
  for (;; k--) {
    size_t n = strcspn(list, ends);
    if (k == 0) return span_of(list, n);
    list += n;
    if (*list == '\0') return span_of(list, 0);
    list++;
  }
}

// The same word as the row has it, so that it lives as long as the program; NULL: it takes others.
static const char *known_word(const char *list, char between, struct span text, struct arena *a) {
  struct span word;
  for (uint32_t k = 0; (word = word_of(list, between, k)).n > 0; k++)
    if (span_eq(word, text)) return arena_string(a, word);
  return NULL;
}

// A list moves to twice the room where its length is a power of two: the arena keeps what it
// leaves.
static void add_element(struct pass_value *v, const char *text, struct arena *a) {
  if ((v->n_list & (v->n_list - 1)) == 0) {
    const char **list = arena_alloc(a, 2 * (v->n_list + 1) * sizeof *list);
    if (v->n_list) memcpy(list, v->list, v->n_list * sizeof *list);
    v->list = list;
  }
  v->list[v->n_list++] = text;
}

static int put_words(enum pass_option_id o, struct pass_value *v, struct span text, struct arena *a,
                     struct err *err) {
  const char *known = pass_option(o)->metavar;
  while (text.n > 0) {
    const uint8_t *comma = memchr(text.at, ',', text.n);
    struct span word = span_of(text.at, comma ? (size_t)(comma - text.at) : text.n);
    const char *name = known_word(known, ',', word, a);
    if (!name) return bad_value(o, word, known, err);
    add_element(v, name, a);
    size_t used = word.n + (comma != NULL);
    text = span_of(text.at + used, text.n - used);
  }
  return 0;
}

static int put_list(enum pass_option_id o, struct pass_value *v, struct span text, struct arena *a,
                    struct err *err) {
  const char *metavar = pass_option(o)->metavar;
  if (!v->given) v->n_list = 0; // the preset
  if (text.n == 0 || memchr(text.at, 0, text.n)) return bad_value(o, text, metavar, err);
  if (strchr(metavar, ',')) return put_words(o, v, text, a, err);
  add_element(v, arena_string(a, text), a);
  return 0;
}

static int put_flag(enum pass_option_id o, struct pass_value *v, struct span text,
                    struct err *err) {
  if (text.n > 0 && !span_is(text, "true") && !span_is(text, "false"))
    return bad_value(o, text, "true or false", err);
  v->number = !span_is(text, "false");
  return 0;
}

static int put_number(enum pass_option_id o, struct pass_value *v, struct span text, uint64_t least,
                      struct err *err) {
  uint64_t n;
  if (!span_decimal(text, &n) || n < least || n > INT32_MAX)
    return bad_value(o, text, least ? "a whole number from 1" : "a whole number from 0", err);
  v->number = n;
  return 0;
}

static int put_choice(enum pass_option_id o, struct pass_value *v, struct span text,
                      struct arena *a, struct err *err) {
  const char *list = pass_option(o)->metavar, *word = known_word(list, '|', text, a);
  if (!word) return bad_value(o, text, list, err);
  v->text = word;
  return 0;
}

static int put_text(enum pass_option_id o, struct pass_value *v, struct span text, struct arena *a,
                    struct err *err) {
  if (text.n == 0 || memchr(text.at, 0, text.n))
    return bad_value(o, text, pass_option(o)->metavar, err);
  v->text = arena_string(a, text);
  return 0;
}

int pass_values_put(enum pass_option_id o, struct pass_value values[PASS_OPTIONS], struct span text,
                    struct arena *a, struct err *err) {
  struct pass_value *v = &values[o];
  int rc = 0;
  switch (pass_option(o)->kind) {
  case PASS_FLAG: rc = put_flag(o, v, text, err); break;
  case PASS_COUNT: rc = put_number(o, v, text, 1, err); break;
  case PASS_NUMBER: rc = put_number(o, v, text, 0, err); break;
  case PASS_CHOICE: rc = put_choice(o, v, text, a, err); break;
  case PASS_TEXT: rc = put_text(o, v, text, a, err); break;
  case PASS_LIST: rc = put_list(o, v, text, a, err); break;
  }
  v->given = true;
  return rc;
}

void pass_values_start(enum pass_id pass, struct pass_value values[PASS_OPTIONS], struct arena *a) {
  struct err impossible = {0};
  memset(values, 0, PASS_OPTIONS * sizeof *values);
  for (uint32_t o = 0; o < PASS_OPTIONS; o++) {
    const char *preset = pass_option(o)->preset;
    if (!preset || !pass_option_belongs(o, pass)) continue;
    int rc = pass_values_put(o, values, span_str(preset), a, &impossible);
    assert(rc == 0); // a preset is a value of its own option
    (void)rc;
    values[o].given = false;
  }
}

// ---- NAME:key=value,… --------------------------------------------------------------------------

static bool is_escape(struct span text, size_t at) {
  return text.at[at] == '\\' && at + 1 < text.n && strchr(",:=+\\", text.at[at + 1]);
}

// How far the text goes up to one of `ends` that no backslash stands before.
static size_t unescaped(struct span text, const char *ends) {
  size_t i = 0;
  while (i < text.n && !strchr(ends, text.at[i]))
    i += is_escape(text, i) ? 2 : 1;
  return i;
}

static struct span rest_of(struct span text, size_t used) {
  return span_of(text.at + used, text.n - used);
}

// Without the backslashes that escape something.
static struct span plain(struct span text, struct arena *a) {
  uint8_t *out = arena_alloc(a, text.n + 1);
  size_t n = 0;
  for (size_t i = 0; i < text.n; i++) {
    i += is_escape(text, i);
    out[n++] = text.at[i];
  }
  return span_of(out, n);
}

static int parse_value(enum pass_option_id o, struct pass_value values[PASS_OPTIONS],
                       struct span text, struct arena *a, struct err *err) {
  if (pass_option(o)->kind != PASS_LIST) return pass_values_put(o, values, plain(text, a), a, err);
  for (;;) {
    size_t n = unescaped(text, "+");
    if (pass_values_put(o, values, plain(span_of(text.at, n), a), a, err)) return -1;
    if (n == text.n) return 0;
    text = rest_of(text, n + 1);
  }
}

static int parse_pair(enum pass_id pass, struct pass_value values[PASS_OPTIONS], struct span text,
                      struct arena *a, struct err *err) {
  size_t n = unescaped(text, "=");
  enum pass_option_id o = pass_values_find(pass, plain(span_of(text.at, n), a), err);
  if (o == PASS_OPTIONS) return -1;
  if (n == text.n && pass_option(o)->kind != PASS_FLAG) {
    err_fill(err, ERR_USAGE, "option '%s' of pass '%s' needs a value: %s", pass_option(o)->name,
             pass_row(pass)->name, pass_option(o)->metavar);
    return err_hint(err, "write %s=...", pass_values_key(o, a));
  }
  if (n == text.n) return pass_values_put(o, values, span_of(text.at, 0), a, err);
  if (n + 1 == text.n) return bad_value(o, span_of(text.at, 0), "something behind the '='", err);
  return parse_value(o, values, rest_of(text, n + 1), a, err);
}

int pass_values_parse(const char *text, enum pass_id *pass, struct pass_value values[PASS_OPTIONS],
                      struct arena *a, struct err *err) {
  struct span rest = span_str(text);
  size_t n = unescaped(rest, ":");
  *pass = pass_values_pass(span_of(rest.at, n), err);
  if (*pass == PASSES) return -1;
  pass_values_start(*pass, values, a);
  for (bool more = n < rest.n; more;) {
    rest = rest_of(rest, n + 1);
    n = unescaped(rest, ",");
    if (n == 0) {
      err_fill(err, ERR_USAGE, "in '%s' an option is missing behind ':' or ','", quote_str(text).s);
      return err_hint(err, "the form is NAME:key=value,key=value");
    }
    if (parse_pair(*pass, values, span_of(rest.at, n), a, err)) return -1;
    more = n < rest.n;
  }
  return 0;
}

// ---- JSON --------------------------------------------------------------------------------------

static void write_list(struct json_out *j, const struct pass_value *v) {
  json_array(j);
  for (uint32_t i = 0; i < v->n_list; i++)
    json_text(j, v->list[i]);
  json_end_array(j);
}

static void write_value(struct json_out *j, enum pass_option_id o, const struct pass_value *v) {
  switch (pass_option(o)->kind) {
  case PASS_FLAG: json_bool(j, v->number != 0); break;
  case PASS_COUNT:
  case PASS_NUMBER: json_uint(j, v->number); break;
  case PASS_CHOICE:
  case PASS_TEXT: json_text(j, v->text); break;
  case PASS_LIST: write_list(j, v); break;
  }
}

const char *pass_values_json(enum pass_id pass, const struct pass_value values[PASS_OPTIONS],
                             struct arena *a) {
  struct json_out j = {0};
  json_object(&j);
  for (uint32_t o = 0; o < PASS_OPTIONS; o++) {
    const struct pass_option *row = pass_option(o);
    bool has = values[o].given || row->preset || row->kind == PASS_FLAG;
    if (!has || !pass_option_belongs(o, pass)) continue;
    json_key(&j, pass_values_key(o, a));
    write_value(&j, o, &values[o]);
  }
  json_end_object(&j);
  const char *text = arena_string(a, span_of(j.text, j.n));
  json_done(&j);
  return text;
}
