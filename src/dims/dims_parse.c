// Expressions as exporters write them.
//
//   text ──▶ words ──▶ postfix ──▶ value          (((t - 1)//8)) + 1   ──▶   t 1 - 8 // 1 +
//
// A text becomes postfix by two stacks (operators that wait, and what is open), without recursion,
// and is no expression if anything does not fit: then nothing was made yet, and it is a name.
// Operators bind as in Python: ** first, then signs, then * / // %, then + and -.
//
// Values are fractions of two expressions, since floor(t/2 - 1/2) is a quotient of (t - 1) by 2.
// What is a fraction at the end is an exact one: dims are integers.
#include "dims/inside/dims_parts.h"

#include <ctype.h>

enum word {
  END,
  NUMBER,
  NAME,
  PLUS,
  MINUS,
  TIMES,
  OVER,
  FLOOR,
  REST,
  POWER,
  SIGN_PLUS,
  SIGN_MINUS,
  OPEN,
  CLOSE,
  COMMA,
  CALL,
  WRONG,
};

enum call {
  CALL_FLOOR,
  CALL_CEIL,
  CALL_TRUNC,
  CALL_MAX,
  CALL_MIN,
  CALL_MOD,
  CALL_FLOOR_DIV,
  CALL_CEIL_DIV,
  CALL_EXACT
};

static const struct {
  const char *name;
  uint8_t call, least, most; // operands
} calls[] = {
    {"floor", CALL_FLOOR, 1, 1},
    {"ceiling", CALL_CEIL, 1, 1},
    {"ceil", CALL_CEIL, 1, 1},
    {"trunc", CALL_TRUNC, 1, 2},
    {"Max", CALL_MAX, 1, 255},
    {"max", CALL_MAX, 1, 255},
    {"Min", CALL_MIN, 1, 255},
    {"min", CALL_MIN, 1, 255},
    {"Mod", CALL_MOD, 2, 2},
    {"PythonMod", CALL_MOD, 2, 2},
    {"FloorDiv", CALL_FLOOR_DIV, 2, 2},
    {"CeilDiv", CALL_CEIL_DIV, 2, 2},
    {"CleanDiv", CALL_EXACT, 2, 2},
    {"IntTrueDiv", CALL_EXACT, 2, 2},
    {"exact", CALL_EXACT, 2, 2},
};
enum { N_CALLS = sizeof calls / sizeof calls[0], POWER_MOST = 64 };

struct token {
  uint8_t word, call; // call: the row of the table
  uint32_t operands;  // of a call
  int64_t number;
  struct span name; // with its quotes
};

struct postfix {
  struct token of[DIMS_TEXT + 1];
  uint32_t n;
};

// ---- words -------------------------------------------------------------------------------------------

static bool begins_name(uint8_t c) {
  return isalpha(c) || c == '_' || c >= 0x80;
}

static bool continues_name(uint8_t c) {
  return begins_name(c) || isdigit(c) || c == '.' || c == ':' || c == '$' || c == '#' || c == '@';
}

bool dims_is_plain_name(struct span name) {
  if (name.n == 0 || !begins_name(name.at[0])) return false;
  for (size_t i = 1; i < name.n; i++)
    if (!continues_name(name.at[i])) return false;
  return true;
}

static struct token word_of(enum word w) {
  return (struct token){.word = (uint8_t)w};
}

static struct token read_number(struct span text, size_t *at) {
  struct token t = word_of(NUMBER);
  for (; *at < text.n && isdigit(text.at[*at]); ++*at)
    if (__builtin_mul_overflow(t.number, 10, &t.number) ||
        __builtin_add_overflow(t.number, text.at[*at] - '0', &t.number))
      return word_of(WRONG);
  return *at < text.n && continues_name(text.at[*at]) ? word_of(WRONG) : t;
}

static struct token read_quoted(struct span text, size_t *at) {
  const size_t start = (*at)++;
  for (; *at < text.n; ++*at) {
    if (text.at[*at] != '`') continue;
    ++*at;
    if (*at == text.n || text.at[*at] != '`')
      return (struct token){.word = NAME, .name = span_of(text.at + start, *at - start)};
  }
  return word_of(WRONG);
}

static struct token read_word(struct span text, size_t *at) {
  const size_t start = *at;
  while (*at < text.n && continues_name(text.at[*at]))
    ++*at;
  struct token t = {.word = NAME, .name = span_of(text.at + start, *at - start)};
  size_t next = *at;
  while (next < text.n && text.at[next] == ' ')
    next++;
  if (next == text.n || text.at[next] != '(') return t;
  for (t.call = 0; t.call < N_CALLS && !span_is(t.name, calls[t.call].name);)
    t.call++;
  t.word = t.call < N_CALLS ? CALL : WRONG;
  *at = next + 1;
  return t;
}

static struct token next_token(struct span text, size_t *at) {
  static const char signs[] = "+-*/%(),";
  static const uint8_t words[] = {PLUS, MINUS, TIMES, OVER, REST, OPEN, CLOSE, COMMA};
  while (*at < text.n && text.at[*at] == ' ')
    ++*at;
  if (*at == text.n) return word_of(END);
  const uint8_t c = text.at[*at];
  if (isdigit(c)) return read_number(text, at);
  if (c == '`') return read_quoted(text, at);
  if (begins_name(c)) return read_word(text, at);
  const char *sign = c ? strchr(signs, c) : NULL;
  if (!sign) return word_of(WRONG);
  ++*at;
  if ((c == '*' || c == '/') && *at < text.n && text.at[*at] == c) {
    ++*at;
    return word_of(c == '*' ? POWER : FLOOR);
  }
  return word_of(words[sign - signs]);
}

// ---- postfix -------------------------------------------------------------------------------------------

static uint32_t binds(uint8_t word) {
  switch (word) {
  case PLUS:
  case MINUS: return 1;
  case TIMES:
  case OVER:
  case FLOOR:
  case REST: return 2;
  case SIGN_PLUS:
  case SIGN_MINUS: return 3;
  case POWER: return 4;
  default: return 0;
  }
}

struct waiting {
  struct token of[DIMS_TEXT];
  uint32_t n, open;
  bool after_operand;
};

static void add(struct postfix *p, struct token t) {
  if (t.word != SIGN_PLUS && t.word != OPEN) p->of[p->n++] = t;
}

// Moves what binds at least so firmly.
static void release(struct waiting *w, struct postfix *p, uint32_t least) {
  while (w->n > 0 && binds(w->of[w->n - 1].word) >= least && binds(w->of[w->n - 1].word) > 0)
    add(p, w->of[--w->n]);
}

// A parenthesis, with the operand in it behind it.
static bool end_group(struct waiting *w, struct postfix *p) {
  release(w, p, 1);
  if (w->n == 0) return false;
  const struct token t = w->of[--w->n];
  w->open--;
  if (t.word == CALL && (t.operands < calls[t.call].least || t.operands > calls[t.call].most))
    return false;
  add(p, t);
  return true;
}

static bool take_operand(struct waiting *w, struct postfix *p, struct token t) {
  switch (t.word) {
  case NUMBER:
  case NAME:
    add(p, t);
    w->after_operand = true;
    return true;
  case PLUS:
  case MINUS:
    t.word = t.word == PLUS ? SIGN_PLUS : SIGN_MINUS;
    w->of[w->n++] = t;
    return true;
  case OPEN:
  case CALL:
    t.operands = 1;
    w->of[w->n++] = t;
    return ++w->open <= DIMS_NESTING;
  default: return false;
  }
}

static bool take_operator(struct waiting *w, struct postfix *p, struct token t) {
  switch (t.word) {
  case CLOSE: return end_group(w, p);
  case COMMA:
    release(w, p, 1);
    w->after_operand = false;
    return w->n > 0 && w->of[w->n - 1].word == CALL && w->of[w->n - 1].operands++ < 255;
  default:
    if (binds(t.word) == 0) return false;
    release(w, p, t.word == POWER ? 5 : binds(t.word)); // of powers, the last comes first
    w->of[w->n++] = t;
    w->after_operand = false;
    return true;
  }
}

static bool is_expression(struct span text, struct postfix *p) {
  struct waiting w = {.n = 0};
  size_t at = 0;
  p->n = 0;
  if (text.n == 0 || text.n > DIMS_TEXT) return false;
  for (;;) {
    const struct token t = next_token(text, &at);
    if (t.word == END) break;
    if (!(w.after_operand ? take_operator(&w, p, t) : take_operand(&w, p, t))) return false;
  }
  release(&w, p, 1);
  return w.n == 0 && w.after_operand;
}

// A name with hyphens, each in front of a letter: what no exporter writes as a difference.
static bool is_hyphenated(struct span text) {
  bool hyphen = false;
  if (text.n == 0 || !begins_name(text.at[0])) return false;
  for (size_t i = 1; i < text.n; i++) {
    if (text.at[i] == '-') {
      if (i + 1 == text.n || !begins_name(text.at[i + 1])) return false;
      hyphen = true;
    } else if (!continues_name(text.at[i])) {
      return false;
    }
  }
  return hyphen;
}

static bool is_anonymous(struct span text) {
  return text.n == 0 || span_is(text, "?");
}

static struct span without_blanks(struct span text) {
  while (text.n > 0 && text.at[0] == ' ')
    text = span_of(text.at + 1, text.n - 1);
  while (text.n > 0 && text.at[text.n - 1] == ' ')
    text.n--;
  return text;
}

// Is it read as the symbol of that name, whatever it looks like?
static bool is_name(struct span text, struct postfix *p) {
  return dims_is_plain_name(text) || is_hyphenated(text) || !is_expression(text, p);
}

bool dims_is_name(struct span text) {
  struct postfix p;
  return !is_anonymous(text) && without_blanks(text).n == text.n && is_name(text, &p);
}

// ---- values --------------------------------------------------------------------------------------------

struct fraction {
  dim_id over, by;
};

struct machine {
  struct dims *d;
  int64_t least;
  bool known; // only symbols that there are
  dim_id one;
  struct fraction of[DIMS_TEXT + 1];
  uint32_t n;
};

static struct fraction quotient(struct machine *m, struct fraction a, struct fraction b,
                                dim_id (*divide)(struct dims *, dim_id, dim_id)) {
  const dim_id over = dims_mul(m->d, a.over, b.by), by = dims_mul(m->d, a.by, b.over);
  return (struct fraction){divide(m->d, over, by), m->one};
}

// Both over one divisor.
static void align(struct machine *m, struct fraction *a, struct fraction *b) {
  const struct fraction x = *a, y = *b;
  if (x.by == y.by) return;
  a->by = b->by = dims_mul(m->d, x.by, y.by);
  a->over = dims_mul(m->d, x.over, y.by);
  b->over = dims_mul(m->d, y.over, x.by);
}

static bool calculate(struct machine *m, uint8_t word) {
  if (word == SIGN_MINUS) {
    m->of[m->n - 1].over = dims_neg(m->d, m->of[m->n - 1].over);
    return true;
  }
  const struct fraction right = m->of[--m->n];
  struct fraction *a = &m->of[m->n - 1], b = right;
  int64_t power, one;
  switch (word) {
  case PLUS:
  case MINUS:
    align(m, a, &b);
    a->over = word == PLUS ? dims_add(m->d, a->over, b.over) : dims_sub(m->d, a->over, b.over);
    return true;
  case TIMES:
    *a = (struct fraction){dims_mul(m->d, a->over, b.over), dims_mul(m->d, a->by, b.by)};
    return true;
  case OVER:
    *a = (struct fraction){dims_mul(m->d, a->over, b.by), dims_mul(m->d, a->by, b.over)};
    return !dims_is_number(m->d, a->by, &power) || power != 0;
  case FLOOR: *a = quotient(m, *a, b, dims_floor_div); return true;
  case REST:
    align(m, a, &b);
    a->over = dims_mod(m->d, a->over, b.over);
    return true;
  default:
    if (!dims_is_number(m->d, b.over, &power) || !dims_is_number(m->d, b.by, &one) || one != 1 ||
        power < 0 || power > POWER_MOST)
      return false;
    for (b = *a, *a = (struct fraction){m->one, m->one}; power > 0; power--)
      *a = (struct fraction){dims_mul(m->d, a->over, b.over), dims_mul(m->d, a->by, b.by)};
    return true;
  }
}

// Max and Min of fractions, which must have divisors above 0.
static bool choose(struct machine *m, struct fraction *a, struct fraction b, bool max) {
  align(m, a, &b);
  if (dims_least(m->d, a->by) < 1) return false;
  a->over = max ? dims_max(m->d, a->over, b.over) : dims_min(m->d, a->over, b.over);
  return true;
}

static bool call(struct machine *m, const struct token *t) {
  m->n -= t->operands;
  struct fraction *a = &m->of[m->n++];
  const struct fraction none = {m->one, m->one}, b = t->operands > 1 ? a[1] : none;
  switch (calls[t->call].call) {
  case CALL_FLOOR:
  case CALL_FLOOR_DIV: *a = quotient(m, *a, b, dims_floor_div); return true;
  case CALL_CEIL:
  case CALL_CEIL_DIV: *a = quotient(m, *a, b, dims_ceil_div); return true;
  case CALL_TRUNC: *a = quotient(m, *a, b, dims_trunc_div); return true;
  case CALL_EXACT: *a = quotient(m, *a, b, dims_exact_div); return true;
  case CALL_MOD: m->of[m->n++] = b; return calculate(m, REST);
  default:
    for (uint32_t i = 1; i < t->operands; i++)
      if (!choose(m, a, a[i], calls[t->call].call == CALL_MAX)) return false;
    return true;
  }
}

static dim_id symbol_of(struct machine *m, struct span name) {
  uint8_t bare[DIMS_TEXT];
  size_t n = 0;
  for (size_t i = 1; name.at[0] == '`' && i + 1 < name.n; i++) {
    bare[n++] = name.at[i];
    if (name.at[i] == '`') i++;
  }
  if (name.at[0] == '`') name = span_of(bare, n);
  if (m->known && dims_symbol_named(m->d, name) == NO_ID) return NO_ID;
  return dims_symbol(m->d, name, m->least);
}

static dim_id evaluate(struct machine *m, const struct postfix *p) {
  for (uint32_t i = 0; i < p->n; i++) {
    const struct token *t = &p->of[i];
    if (t->word == NUMBER)
      m->of[m->n++] = (struct fraction){dims_number(m->d, t->number), m->one};
    else if (t->word == NAME)
      m->of[m->n++] = (struct fraction){symbol_of(m, t->name), m->one};
    else if (!(t->word == CALL ? call(m, t) : calculate(m, t->word)))
      return NO_ID;
    if (m->of[m->n - 1].over == NO_ID || m->of[m->n - 1].by == NO_ID) return NO_ID;
  }
  return dims_exact_div(m->d, m->of[0].over, m->of[0].by);
}

static dim_id parse(struct dims *d, struct span text, int64_t least, bool known) {
  struct postfix p;
  text = without_blanks(text);
  if (is_anonymous(text)) return dims_fresh(d, least);
  if (is_name(text, &p)) return dims_find(d, dims_symbol(d, text, least));
  struct machine m = {.d = d, .least = least, .known = known, .one = dims_number(d, 1)};
  const dim_id e = evaluate(&m, &p);
  return e != NO_ID ? e : dims_find(d, dims_symbol(d, text, least));
}

dim_id dims_parse(struct dims *d, struct span text, int64_t least) {
  return parse(d, text, least, false);
}

dim_id dims_parse_known(struct dims *d, struct span text, int64_t least) {
  return parse(d, text, least, true);
}
