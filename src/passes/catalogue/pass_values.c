// Words to values: what a user writes behind a flag, in --pass NAME:key=value or in a pipeline file
// becomes a struct pass_value of the kind of its row; values become canonical JSON, and the struct
// that the pass takes, member by member as its rows say.
//
//   quantize:bits=4,exclude=*lm_head*+re:emb\,[0-9],symmetric
//   name        key=val key     element element         key alone: a flag
//
//   word ──put──▶ struct pass_value ──read──▶ member of struct matmulnbits_options ──check──▶ run
//                          └──────json──▶ edit log, plan, report
//
// Each value is checked alone against its row. What needs several of them, or the model, is the
// pass's to refuse.
#include "passes/catalogue/pass_values.h"

#include "base/guess.h"
#include "json/json.h"
#include "passes/catalogue/passes.h"

#include <assert.h>
#include <ctype.h>

// ---- names -------------------------------------------------------------------------------------

const char *pass_values_key(const struct pass_option *row, struct arena *a) {
  char *key = arena_string(a, span_str(row->name));
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

uint32_t pass_values_option(const struct pass *pass, struct span key) {
  for (uint32_t o = 0; o < pass->n_options; o++)
    if (is_key(key, pass->options[o].name)) return o;
  return NO_ID;
}

uint32_t pass_values_find(const struct pass *pass, struct span key, struct err *err) {
  const uint32_t o = pass_values_option(pass, key);
  if (o != NO_ID) return o;
  struct arena scratch = {0};
  struct guess g = guess_start(arena_string(&scratch, key));
  for (uint32_t i = 0; i < pass->n_options; i++)
    guess_try(&g, pass_values_key(&pass->options[i], &scratch));
  err_fill(err, ERR_USAGE, "pass '%s' has no option '%s'", pass->name, quote(key).s);
  for (uint32_t i = 0; i < pass->n_options; i++)
    if (pass->options[i].kind == PASS_FLAG && guess_is_opposite(g.word, pass->options[i].name))
      err_fill_hint(err, "'%s' is off by default: omit it",
                    pass_values_key(&pass->options[i], &scratch));
  if (g.best)
    err_fill_hint(err, "did you mean '%s'?", g.best);
  else
    err_fill_hint(err, "'weir passes %s' lists them", pass->name);
  arena_free(&scratch);
  return NO_ID;
}

int pass_values_find_family(struct pass_values *const *list, uint32_t n, struct span key,
                            struct err *err) {
  struct arena scratch = {0};
  struct guess g = guess_start(arena_string(&scratch, key));
  const struct span family = passes_family(list[0]->pass);
  bool found = false;
  for (uint32_t i = 0; i < n && !found; i++) {
    const struct pass *pass = list[i]->pass;
    found = pass_values_option(pass, key) != NO_ID;
    for (uint32_t o = 0; o < pass->n_options; o++)
      guess_try(&g, pass_values_key(&pass->options[o], &scratch));
  }
  if (!found) {
    err_fill(err, ERR_USAGE, "no pass of the family '%.*s' has an option '%s'", (int)family.n,
             (const char *)family.at, quote(key).s);
    if (g.best)
      err_fill_hint(err, "did you mean '%s'?", g.best);
    else
      err_fill_hint(err, "'weir passes %.*s' lists its passes", (int)family.n,
                    (const char *)family.at);
  }
  arena_free(&scratch);
  return found ? 0 : -1;
}

static struct span rest_of(struct span text, size_t used) {
  return span_of(text.at + used, text.n - used);
}

// ---- values ------------------------------------------------------------------------------------

// The option is called what the user typed.
static int bad_value(const struct pass_values *v, const struct pass_option *row, struct span text,
                     const char *wanted, struct err *err) {
  struct arena scratch = {0};
  err_fill(err, ERR_USAGE, "invalid value '%s' for %s%s: use %s", quote(text).s,
           v->by_flags ? "--" : "", v->by_flags ? row->name : pass_values_key(row, &scratch),
           wanted);
  arena_free(&scratch);
  return -1;
}

struct span pass_values_word(const char *metavar, char between, uint32_t k) {
  const char ends[] = {between, '\0'};
  for (;; k--) {
    size_t n = strcspn(metavar, ends);
    if (k == 0) return span_of(metavar, n);
    metavar += n;
    if (*metavar == '\0') return span_of(metavar, 0);
    metavar++;
  }
}

static int plain_letter(uint8_t c) {
  return c == '_' ? '-' : tolower(c);
}

// Case does not count, and - and _ are one letter.
static bool same_letters(struct span a, struct span b) {
  for (size_t i = 0; a.n == b.n && i < a.n; i++)
    if (plain_letter(a.at[i]) != plain_letter(b.at[i])) return false;
  return a.n == b.n;
}

bool pass_values_means(const char *also, struct span text, struct span word) {
  if (same_letters(text, word)) return true;
  struct span pair;
  for (uint32_t k = 0; also && (pair = pass_values_word(also, ' ', k)).n > 0; k++) {
    const size_t n = pass_values_up_to(pair, "=");
    if (same_letters(text, span_of(pair.at, n)) && span_eq(rest_of(pair, n + 1), word)) return true;
  }
  return false;
}

// The word as the row has it, and its position; NULL: it takes others.
static const char *known_word(const struct pass_option *row, char between, struct span text,
                              uint32_t *at, struct arena *a) {
  struct span word;
  for (*at = 0; (word = pass_values_word(row->metavar, between, *at)).n > 0; ++*at)
    if (pass_values_means(row->also, text, word)) return arena_string(a, word);
  return NULL;
}

// What the word stands for today.
static struct span resolved(const struct pass_option *row, struct span text) {
  struct span pair;
  for (uint32_t k = 0; row->resolves && (pair = pass_values_word(row->resolves, ' ', k)).n > 0;
       k++) {
    const size_t n = pass_values_up_to(pair, "=");
    if (same_letters(text, span_of(pair.at, n))) return rest_of(pair, n + 1);
  }
  return text;
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

static int put_words(struct pass_values *v, uint32_t option, struct span text, struct arena *a,
                     struct err *err) {
  const struct pass_option *row = &v->pass->options[option];
  uint32_t at;
  while (text.n > 0) {
    const uint8_t *comma = memchr(text.at, ',', text.n);
    struct span word = span_of(text.at, comma ? (size_t)(comma - text.at) : text.n);
    const char *name = known_word(row, ',', word, &at, a);
    if (!name) return bad_value(v, row, word, row->metavar, err);
    add_element(&v->of[option], name, a);
    size_t used = word.n + (comma != NULL);
    text = span_of(text.at + used, text.n - used);
  }
  return 0;
}

static int put_elements(struct pass_values *v, uint32_t option, struct span text, struct arena *a,
                        struct err *err) {
  const struct pass_option *row = &v->pass->options[option];
  for (size_t at = 0, end; at <= text.n; at = end + 1) {
    for (end = at; end < text.n && text.at[end] != ',';)
      end++;
    if (end == at) return bad_value(v, row, text, row->metavar, err);
    add_element(&v->of[option], arena_string(a, span_of(text.at + at, end - at)), a);
  }
  return 0;
}

const char *pass_values_whole(struct span text, uint64_t least, uint64_t most, uint64_t *n,
                              struct arena *a) {
  const bool is_number = span_decimal(text, n);
  size_t digits = 0;
  if (is_number && *n >= least && *n <= most) return NULL;
  while (digits < text.n && text.at[digits] >= '0' && text.at[digits] <= '9')
    digits++;
  const bool too_large = is_number ? *n > most : digits > 0 && digits == text.n;
  if (!too_large && most == INT32_MAX)
    return arena_printf(a, "a whole number from %s", decimal(least).s);
  return arena_printf(a, "a whole number from %s to %s", decimal(least).s, decimal(most).s);
}

int pass_values_put(struct pass_values *v, uint32_t option, struct span text, struct arena *a,
                    struct err *err) {
  const struct pass_option *row = &v->pass->options[option];
  struct pass_value *x = &v->of[option];
  const bool no_text = text.n == 0 || span_has_nul(text);
  const char *wanted = NULL; // what it takes, where that is something else
  uint64_t n;
  int rc = 0;
  switch (row->kind) {
  case PASS_FLAG:
    if (text.n > 0 && !span_is(text, "true") && !span_is(text, "false")) wanted = "true or false";
    x->number = !span_is(text, "false");
    break;
  case PASS_COUNT:
  case PASS_NUMBER:
    wanted = pass_values_whole(text, row->kind == PASS_COUNT, INT32_MAX, &n, a);
    if (!wanted) x->number = n;
    break;
  case PASS_CHOICE:
    x->text = known_word(row, '|', v->recorded ? text : resolved(row, text), &x->choice, a);
    if (!x->text && row->listed)
      wanted = arena_printf(a, "a name that '%s' lists", row->listed);
    else if (!x->text)
      wanted = row->metavar;
    break;
  case PASS_TEXT:
    if (no_text)
      wanted = row->metavar;
    else
      x->text = arena_string(a, text);
    break;
  case PASS_LIST:
    if (!x->given) x->n_list = 0; // the preset
    if (no_text)
      wanted = row->metavar;
    else if (strchr(row->metavar, ','))
      rc = put_words(v, option, text, a, err);
    else if (row->commas)
      rc = put_elements(v, option, text, a, err);
    else
      add_element(x, arena_string(a, text), a);
    break;
  }
  x->given = true;
  return wanted ? bad_value(v, row, text, wanted, err) : rc;
}

void pass_values_start(struct pass_values *v, const struct pass *pass, struct arena *a) {
  struct err impossible = {0};
  *v = (struct pass_values){.pass = pass};
  v->of = arena_zalloc(a, (pass->n_options + (size_t)1) * sizeof *v->of);
  for (uint32_t o = 0; o < pass->n_options; o++) {
    const char *preset = pass->options[o].preset;
    if (!preset) continue;
    int rc = pass_values_put(v, o, span_str(preset), a, &impossible);
    assert(rc == 0); // a preset is a value of its own option
    (void)rc;
    v->of[o].given = false;
  }
}

// ---- values to options -------------------------------------------------------------------------

static void set_member(const struct pass_option *row, const struct pass_value *v,
                       uint8_t *options) {
  if (row->kind == PASS_LIST) {
    memcpy(options + row->member.at, &v->list, sizeof v->list);
    memcpy(options + row->member.count_at, &v->n_list, sizeof v->n_list);
    return;
  }
  const bool alone = row->kind == PASS_CHOICE && !strchr(row->metavar, '|');
  const uint64_t number = alone                      ? v->text != NULL
                          : row->member.means        ? v->text ? row->member.means[v->choice] : 0
                          : row->from_one            ? v->text ? v->choice + (uint64_t)1 : 0
                          : row->kind == PASS_CHOICE ? v->choice
                                                     : v->number;
  const uint32_t half = (uint32_t)number; // below 2^31
  const bool flag = number != 0;
  const void *from = row->member.bytes == sizeof flag   ? (const void *)&flag
                     : row->kind == PASS_TEXT           ? (const void *)&v->text
                     : row->member.bytes == sizeof half ? (const void *)&half
                                                        : (const void *)&number;
  memcpy(options + row->member.at, from, row->member.bytes);
}

int pass_values_state(struct pass_values *v, uint32_t option, const char *text, struct arena *a,
                      struct err *err) {
  const int rc = pass_values_put(v, option, span_str(text), a, err);
  v->of[option].given = false;
  v->of[option].stated = true;
  return rc;
}

// What an option says for others that were not given.
static int state(struct pass_values *v, struct arena *a, struct err *err) {
  for (uint32_t o = 0; v->pass->instead && o < v->pass->n_options; o++) {
    const char *text = v->of[o].given || v->of[o].stated ? NULL : v->pass->instead(v->of, o);
    if (!text) continue;
    if (pass_values_state(v, o, text, a, err)) return -1;
  }
  return 0;
}

int pass_values_read(struct pass_values *v, struct arena *a, struct err *err) {
  const struct pass *pass = v->pass;
  if (state(v, a, err)) return -1;
  v->options = arena_zalloc(a, pass->options_bytes + 1);
  for (uint32_t o = 0; o < pass->n_options; o++) {
    const struct pass_option *row = &pass->options[o];
    if (row->read && row->read(&v->of[o], v->options, a, err)) return -1;
    if (!row->read) set_member(row, &v->of[o], v->options);
  }
  return pass->check ? pass->check(v->options, v->of, err) : 0;
}

void pass_values_done(struct pass_values *v) {
  if (v->options && v->pass->done) v->pass->done(v->options);
  v->options = NULL;
}

// ---- key=value,… -------------------------------------------------------------------------------

static bool is_escape(struct span text, size_t at) {
  return text.at[at] == '\\' && at + 1 < text.n && strchr(",:=+\\", text.at[at + 1]);
}

size_t pass_values_up_to(struct span text, const char *ends) {
  size_t i = 0;
  while (i < text.n && !strchr(ends, text.at[i]))
    i += is_escape(text, i) ? 2 : 1;
  return i;
}

struct span pass_values_plain(struct span text, struct arena *a) {
  uint8_t *out = arena_alloc(a, text.n + 1);
  size_t n = 0;
  for (size_t i = 0; i < text.n; i++) {
    i += is_escape(text, i);
    out[n++] = text.at[i];
  }
  return span_of(out, n);
}

static int parse_value(struct pass_values *v, uint32_t o, struct span text, struct arena *a,
                       struct err *err) {
  if (v->pass->options[o].kind != PASS_LIST)
    return pass_values_put(v, o, pass_values_plain(text, a), a, err);
  for (;;) {
    size_t n = pass_values_up_to(text, "+");
    if (pass_values_put(v, o, pass_values_plain(span_of(text.at, n), a), a, err)) return -1;
    if (n == text.n) return 0;
    text = rest_of(text, n + 1);
  }
}

static int parse_pair(struct pass_values *v, struct span text, struct arena *a, struct err *err) {
  size_t n = pass_values_up_to(text, "=");
  uint32_t o = pass_values_find(v->pass, pass_values_plain(span_of(text.at, n), a), err);
  if (o == NO_ID) return -1;
  const struct pass_option *row = &v->pass->options[o];
  if (n == text.n && row->kind != PASS_FLAG) {
    err_fill(err, ERR_USAGE, "option '%s' of pass '%s' needs a value: %s", pass_values_key(row, a),
             v->pass->name, row->metavar);
    return err_hint(err, "write %s=...", pass_values_key(row, a));
  }
  if (n == text.n) return pass_values_put(v, o, span_of(text.at, 0), a, err);
  if (n + 1 == text.n) return bad_value(v, row, span_of(text.at, 0), "a value after '='", err);
  return parse_value(v, o, rest_of(text, n + 1), a, err);
}

// A pair for those of a family that have its option.
static int parse_shared(struct pass_values *const *list, uint32_t n, struct span text,
                        struct arena *a, struct err *err) {
  const struct span key = pass_values_plain(span_of(text.at, pass_values_up_to(text, "=")), a);
  if (pass_values_find_family(list, n, key, err)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (pass_values_option(list[i]->pass, key) != NO_ID && parse_pair(list[i], text, a, err))
      return -1;
  return 0;
}

// `name`: of the pass, or of the family.
static int parse_pairs(struct pass_values *const *list, uint32_t n, struct span name,
                       struct span text, struct arena *a, struct err *err) {
  const struct span whole = text;
  const bool family = !span_is(name, list[0]->pass->name);
  for (;;) {
    const size_t up_to = pass_values_up_to(text, ",");
    const struct span pair = span_of(text.at, up_to);
    if (up_to == 0) {
      err_fill(err, ERR_USAGE, "in '%.*s:%s' an option is missing after ':' or ','", (int)name.n,
               (const char *)name.at, quote(whole).s);
      return err_hint(err, "the form is NAME:key=value,key=value");
    }
    if (family ? parse_shared(list, n, pair, a, err) : parse_pair(list[0], pair, a, err)) return -1;
    if (up_to == text.n) return 0;
    text = rest_of(text, up_to + 1);
  }
}

int pass_values_parse(struct pass_values *v, struct span text, struct arena *a, struct err *err) {
  return parse_pairs(&v, 1, span_str(v->pass->name), text, a, err);
}

int pass_values_parse_family(struct pass_values *const *list, uint32_t n, struct span text,
                             struct arena *a, struct err *err) {
  return parse_pairs(list, n, passes_family(list[0]->pass), text, a, err);
}

// ---- values to words ----------------------------------------------------------------------------

const char *pass_values_text(const struct pass_values *v, uint32_t option, struct arena *a) {
  const struct pass_value *x = &v->of[option];
  const char *text = "";
  switch (v->pass->options[option].kind) {
  case PASS_FLAG: return x->number ? "true" : "false";
  case PASS_COUNT:
  case PASS_NUMBER: return arena_printf(a, "%s", decimal(x->number).s);
  case PASS_CHOICE:
  case PASS_TEXT: return x->text;
  case PASS_LIST:
    for (uint32_t i = 0; i < x->n_list; i++)
      text = arena_printf(a, "%s%s%s", text, i ? "," : "", x->list[i]);
  }
  return text;
}

const char *pass_values_typed(const struct pass_values *v, uint32_t option, struct arena *a) {
  const struct pass_option *row = &v->pass->options[option];
  const char *text = pass_values_text(v, option, a);
  if (!v->by_flags) return arena_printf(a, "%s=%s", pass_values_key(row, a), text);
  if (row->kind != PASS_FLAG) return arena_printf(a, "--%s %s", row->name, text);
  return arena_printf(a, v->of[option].number ? "--%s" : "--%s=false", row->name);
}

// ---- JSON --------------------------------------------------------------------------------------

// A file by what is in it, not by where it lies.
static void write_file(struct json_out *j, const struct pass_value *v) {
  json_object(j);
  json_put_text(j, "name", path_base(v->text));
  json_put_text(j, "sha256", v->sha256);
  if (v->about) json_put_raw(j, "calibration", span_str(v->about));
  json_end_object(j);
}

static void write_value(struct json_out *j, enum pass_kind kind, const struct pass_value *v) {
  switch (kind) {
  case PASS_FLAG: json_bool(j, v->number != 0); break;
  case PASS_COUNT:
  case PASS_NUMBER: json_uint(j, v->number); break;
  case PASS_CHOICE: json_text(j, v->text); break;
  case PASS_TEXT:
    if (v->sha256)
      write_file(j, v);
    else
      json_text(j, v->text);
    break;
  case PASS_LIST:
    json_array(j);
    for (uint32_t i = 0; i < v->n_list; i++)
      json_text(j, v->list[i]);
    json_end_array(j);
  }
}

bool pass_values_has_effect(const struct pass_values *v, uint32_t option) {
  const struct pass_option *row = &v->pass->options[option];
  if (!row->only_with) return true;
  const struct span with = span_str(row->only_with);
  const size_t n = pass_values_up_to(with, "=");
  const uint32_t o = pass_values_option(v->pass, span_of(with.at, n));
  assert(o != NO_ID);
  const struct pass_value *x = &v->of[o];
  if (n < with.n) return x->text && span_is(rest_of(with, n + 1), x->text);
  return x->text || x->n_list > 0 || (v->pass->options[o].kind == PASS_FLAG && x->number);
}

const char *pass_values_option_json(const struct pass_values *v, uint32_t option, struct arena *a) {
  struct json_out j = {0};
  write_value(&j, v->pass->options[option].kind, &v->of[option]);
  return json_take(&j, a);
}

const char *pass_values_json(const struct pass_values *v, struct arena *a) {
  struct json_out j = {0};
  json_object(&j);
  for (uint32_t o = 0; o < v->pass->n_options; o++) {
    const struct pass_option *row = &v->pass->options[o];
    const bool recorded = row->preset || row->kind == PASS_FLAG;
    if (!v->of[o].given && !v->of[o].stated && (!recorded || row->later)) continue;
    if (!pass_values_has_effect(v, o)) continue;
    json_key(&j, pass_values_key(row, a));
    write_value(&j, row->kind, &v->of[o]);
  }
  json_end_object(&j);
  const char *text = arena_string(a, span_of(j.text, j.n));
  json_done(&j);
  return text;
}
