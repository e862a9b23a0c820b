// The compiler from its entry: checks texts as bytes, then calls the steps in order. What all steps share is
// here too: words, which are kept once each, so that equal ones have equal numbers; errors, which say
// where; and the tables of operators and functions, whose rows are those that the engine is made of.
//
// Trees and terms are walked by functions that call themselves. That is bounded, since no tree is higher
// than COMPILE_HEIGHT: the readers refuse what is, before anything walks it.
#include "passes/rules/compile/inside/compile_inside.h"

#include "base/table.h"

#include <stdarg.h>
#include <stdio.h>

const char *const compile_comparisons[7] = {"==", "!=", "<", "<=", ">", ">=", "in"};

const struct compile_op rules_compile_ops[] = {
    [OP_NONE] = {"", "", KIT_ONNX, 0, 0, false, false, true},
#define KIT_OP(id, domain, name, min_in, max_in, flags)                                            \
  [OP_##id] = {#id,                                                                                \
               name,                                                                               \
               KIT_##domain,                                                                       \
               min_in,                                                                             \
               max_in,                                                                             \
               ((flags)&KIT_COMMUTATIVE) != 0,                                                     \
               ((flags)&KIT_JUMPS) != 0,                                                           \
               ((flags)&KIT_UNROUNDED) == 0},
#include "kit_ops.def"
#undef KIT_OP
};

const struct compile_function rules_compile_functions[] = {
#define RULES_FUNCTION(name, arguments, result) {#name, arguments, result},
#include "passes/rules/compile/rules_functions.def"
    {NULL, NULL, NULL},
};

// ---- words ----------------------------------------------------------------------------------------

static uint32_t slot_of(const struct compile *c, struct span word) {
  uint32_t slot = (uint32_t)span_hash(word) & (c->n_slots - 1);
  while (c->slots[slot] != NO_ID && !span_eq(c->words[c->slots[slot]], word))
    slot = (slot + 1) & (c->n_slots - 1);
  return slot;
}

static void grow_slots(struct compile *c) {
  const uint32_t more = c->n_slots ? c->n_slots : 1024;
  TABLE_ADD(c, slots, more);
  memset(c->slots, 0xff, c->n_slots * sizeof *c->slots);
  for (uint32_t i = 0; i < c->n_words; i++)
    c->slots[slot_of(c, c->words[i])] = i;
}

uint32_t rules_compile_word(struct compile *c, struct span word) {
  if (2 * c->n_words >= c->n_slots) grow_slots(c);
  const uint32_t slot = slot_of(c, word);
  if (c->slots[slot] != NO_ID) return c->slots[slot];
  const struct span kept = span_of(arena_string(&c->own, word), word.n);
  const uint32_t id = c->n_words;
  *TABLE_PUSH(c, words) = kept;
  c->slots[slot] = id;
  return id;
}

// ---- errors ---------------------------------------------------------------------------------------

static void place_of(const struct compile *c, uint32_t at, uint32_t *line, uint32_t *column) {
  const struct span text = c->texts[c->file].text;
  *line = *column = 1;
  for (uint32_t i = 0; i < at && i < text.n; i++)
    if (text.at[i] == '\n')
      ++*line, *column = 1;
    else if ((text.at[i] & 0xc0) != 0x80)
      ++*column;
}

static int fail(struct compile *c, uint32_t at, const char *fmt, va_list args) {
  char what[640];
  uint32_t line, column;
  vsnprintf(what, sizeof what, fmt, args);
  place_of(c, at, &line, &column);
  return err_set(c->err, ERR_USAGE, "%s:%u:%u: %s", c->texts[c->file].name, line, column, what);
}

int rules_compile_fail(struct compile *c, uint32_t at, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  fail(c, at, fmt, args);
  va_end(args);
  return -1;
}

int rules_compile_fail_rule(struct compile *c, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  c->file = c->rule->file;
  fail(c, c->rule->at, fmt, args);
  va_end(args);
  return -1;
}

// ---- rows of a template ---------------------------------------------------------------------------

static uint32_t value_of(const struct compile *c, const struct compile_rule *r, uint32_t row,
                         struct span var) {
  for (uint32_t i = 0; i < r->n_vars; i++)
    if (span_eq(c->words[c->cells[r->vars + i]], var))
      return c->cells[r->rows + row * r->n_vars + i];
  return NO_ID;
}

static bool is_word(uint8_t x) {
  return (x >= 'a' && x <= 'z') || (x >= 'A' && x <= 'Z') || (x >= '0' && x <= '9') || x == '_';
}

uint32_t rules_compile_fill(struct compile *c, const struct compile_rule *r, uint32_t row,
                            uint32_t word, uint32_t at) {
  if (!compile_is_template(c, word)) return word;
  const struct span s = c->words[word];
  char made[COMPILE_STATEMENT];
  size_t n = 0;
  for (size_t i = 0; i < s.n;) {
    size_t end = i + 1;
    while (s.at[i] == '{' && end < s.n && is_word(s.at[end]))
      end++;
    struct span put = span_of(s.at + i, 1);
    if (s.at[i] == '{' && end > i + 1 && end < s.n && s.at[end] == '}') {
      const struct span var = span_of(s.at + i + 1, end - i - 1);
      const uint32_t value = value_of(c, r, row, var);
      if (value == NO_ID) {
        rules_compile_fail(c, at, "'{%s}' is undefined: there is no 'for %s'", quote(var).s,
                           quote(var).s);
        return NO_ID;
      }
      put = c->words[value];
      i = end;
    }
    i++;
    if (n + put.n > sizeof made) {
      rules_compile_fail(c, at, "a word is too long after {} is replaced");
      return NO_ID;
    }
    memcpy(made + n, put.at, put.n);
    n += put.n;
  }
  return rules_compile_word(c, span_of(made, n));
}

// ---- operators and functions ----------------------------------------------------------------------

enum op rules_compile_op(const struct compile *c, uint32_t domain, uint32_t name) {
  const struct span in = c->words[domain], id = c->words[name];
  for (uint32_t op = OP_NONE + 1; op < OPS; op++) {
    const struct span known = span_str(rules_compile_ops[op].id);
    if (in.n == 0 ? span_eq(known, id)
                  : known.n == in.n + 1 + id.n && known.at[in.n] == '_' &&
                        memcmp(known.at, in.at, in.n) == 0 &&
                        memcmp(known.at + in.n + 1, id.at, id.n) == 0)
      return (enum op)op;
  }
  return OP_NONE;
}

enum op rules_compile_op_of(struct compile *c, const struct compile_rule *r, uint32_t row,
                            uint32_t tree) {
  const struct compile_tree *t = &c->trees[tree];
  const uint32_t name = rules_compile_fill(c, r, row, t->text, t->at);
  return name == NO_ID ? OP_NONE : rules_compile_op(c, t->domain, name);
}

uint32_t rules_compile_function(const struct compile *c, uint32_t name) {
  for (uint32_t f = 0; rules_compile_functions[f].name; f++)
    if (span_is(c->words[name], rules_compile_functions[f].name)) return f;
  return NO_ID;
}

// ---- the entry ------------------------------------------------------------------------------------

// No byte of a text may steer the terminal that an error or a report is shown on.
static int check_bytes(struct compile *c) {
  const struct span text = c->texts[c->file].text;
  for (size_t i = 0; i < text.n;) {
    uint32_t point;
    const size_t n = utf8_length(span_of(text.at + i, text.n - i), &point);
    if (n == 0) return rules_compile_fail(c, (uint32_t)i, "the file is not UTF-8 text");
    if (point != '\n' && point != '\t' && point != '\r' && utf8_steers_terminal(point))
      return rules_compile_fail(c, (uint32_t)i, "a control character (U+%04X) is not allowed here",
                                point);
    i += n;
  }
  return 0;
}

static int read_texts(struct compile *c) {
  uint64_t bytes = 0;
  for (c->file = 0; c->file < c->n_texts; c->file++) {
    bytes += c->texts[c->file].text.n;
    if (bytes > RULES_TEXT_BYTES)
      return err_set(c->err, ERR_USAGE, "%s: more than %d MiB of rules", c->texts[c->file].name,
                     RULES_TEXT_BYTES >> 20);
    if (check_bytes(c) || compile_text_read(c, c->file)) return -1;
  }
  return 0;
}

static int compile_all(struct compile *c, struct rules_book *book) {
  if (read_texts(c)) return -1;
  for (uint32_t i = 0; i < c->n_rules; i++) {
    c->rule = &c->rules[i];
    c->file = c->rule->file;
    if (compile_check(c) || compile_cases_read(c)) return -1;
  }
  if (compile_proof(c)) return -1;
  return compile_book(c, book);
}

static void start(struct compile *c, const struct rules_text *texts, uint32_t n, struct arena *a,
                  struct err *err) {
  *c = (struct compile){.texts = texts, .n_texts = n, .out = a, .err = err};
  c->empty = rules_compile_word(c, span_str(""));
  c->none = rules_compile_word(c, span_str("none"));
  c->star = rules_compile_word(c, span_str("*"));
}

static void end(struct compile *c) {
  TABLES_FREE(c, words, slots, named, text, where, tokens, keys, lists, spell, cells);
  TABLES_FREE(c, trees, rules, bound, cases, known, concrete, cached, terms, operands, env);
  arena_free(&c->own);
}

// The rule that an error is about, where nothing better is said.
static void hint_rule(struct compile *c) {
  if (!c->rule || c->err->hint[0]) return;
  const struct span text = span_str(c->rule->text);
  err_hint(c->err, "the rule is: %.*s%s", (int)min_u64(text.n, 300), c->rule->text,
           text.n > 300 ? " ..." : "");
}

int rules_compile(const struct rules_text *texts, uint32_t n, const struct rules_naming *naming,
                  struct arena *a, struct rules_book *book, struct err *err) {
  struct compile c;
  start(&c, texts, n, a, err);
  if (naming) c.naming = *naming;
  const int rc = compile_all(&c, book);
  if (rc) hint_rule(&c);
  end(&c);
  return rc;
}
