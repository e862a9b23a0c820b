// Expressions as text, which dims_parse reads again.
//
//   2*b*s + (t + 1)//2 - 3      what is added, then what is subtracted, then the constant
//   2*((t + 1)//2)              a quotient is a factor in parentheses
//   exact(b*s, h)  Max(0, n - 3)
//
// A stack holds the expressions, parts and words that are not written yet, the next one on top.
// A text that would be longer than DIMS_TEXT is given up, and the expression gets a number
// instead, as symbols without a name do. A number is taken when it is printed first, and taken
// anew if its text has become the name of a symbol since: in the final texts, no two
// things have one name.
#include "dims/inside/dims_parts.h"

#include <inttypes.h>
#include <stdio.h>

enum what { WORD, NUMBER, SUM, FACTOR, ATOM };

struct item {
  uint8_t what;
  const char *word;
  int64_t number; // or the id
};

struct writer {
  struct dims *d;
  TABLE(struct item, todo);
  char text[DIMS_TEXT];
  size_t n;
  bool full;
};

static void later(struct writer *w, enum what what, int64_t number) {
  *TABLE_PUSH(w, todo) = (struct item){.what = (uint8_t)what, .number = number};
}

static void later_word(struct writer *w, const char *word) {
  *TABLE_PUSH(w, todo) = (struct item){.what = WORD, .word = word};
}

// What was put on the stack from `first` on is to be written in the order in which it was put.
static void in_order(struct writer *w, uint32_t first) {
  for (uint32_t i = first, k = w->n_todo; i + 1 < k; i++) {
    const struct item swap = w->todo[i];
    w->todo[i] = w->todo[--k];
    w->todo[k] = swap;
  }
}

static void put(struct writer *w, const void *at, size_t n) {
  if (n > sizeof w->text - w->n) {
    w->full = true;
    return;
  }
  memcpy(w->text + w->n, at, n);
  w->n += n;
}

static void put_word(struct writer *w, const char *word) {
  put(w, word, strlen(word));
}

static void put_number(struct writer *w, int64_t n) {
  char digits[32];
  if (n == INT64_MIN) { // no number of the grammar
    put_word(w, "(-9223372036854775807 - 1)");
    return;
  }
  put(w, digits, (size_t)snprintf(digits, sizeof digits, "%" PRId64, n));
}

static void put_quoted(struct writer *w, struct span name) {
  put_word(w, "`");
  for (size_t i = 0; i < name.n && !w->full; i++) {
    if (name.at[i] == '`') put_word(w, "`");
    put(w, name.at + i, 1);
  }
  put_word(w, "`");
}

// ---- what has no name --------------------------------------------------------------------------------

struct numbered {
  char text[16];
};

// "?1"
static struct numbered numbered(struct dims *d, dim_id e) {
  const uint32_t hash = dims_mix(0, e);
  struct numbered text;
  uint32_t at = hash, row;
  do
    row = dims_set_next(&d->printed_set, hash, &at);
  while (row != NO_ID && d->printed[row].e != e);
  if (row == NO_ID) {
    row = TABLE_ADD(d, printed, 1);
    d->printed[row] = (struct dims_printed){e, ++d->last_number};
    dims_set_add(&d->printed_set, hash, row);
  }
  for (;; d->printed[row].number = ++d->last_number) {
    snprintf(text.text, sizeof text.text, "?%" PRIu32, d->printed[row].number);
    if (dims_symbol_named(d, span_str(text.text)) == NO_ID) return text;
  }
}

// ---- parts -----------------------------------------------------------------------------------------------

// Names and calls need no parentheses.
static bool is_quotient(const struct dims *d, uint32_t atom) {
  return d->atoms[atom].kind == DIMS_FLOOR;
}

// |coefficient| * product; after a minus if the term is subtracted.
static void write_term(struct writer *w, struct dims_term t, bool behind_sign) {
  const struct dims *d = w->d;
  const struct dims_product *p = &d->products[t.product];
  const bool least = t.coefficient == INT64_MIN;
  const int64_t c = t.coefficient < 0 && !least ? -t.coefficient : t.coefficient;
  if (!behind_sign && t.coefficient < 0 && !least) later_word(w, "-");
  if (c != 1) {
    later(w, NUMBER, c);
    later_word(w, "*");
  }
  const bool alone = c == 1 && p->n == 1 && (behind_sign || t.coefficient > 0);
  for (uint32_t i = 0, power; i < p->n; i += power) {
    const uint32_t atom = d->factors[p->first + i];
    for (power = 1; i + power < p->n && d->factors[p->first + i + power] == atom;)
      power++;
    const bool parentheses = is_quotient(d, atom) && !alone;
    if (i > 0) later_word(w, "*");
    if (parentheses) later_word(w, "(");
    later(w, ATOM, atom);
    if (parentheses) later_word(w, ")");
    if (power == 1) continue;
    later_word(w, "**");
    later(w, NUMBER, power);
  }
}

static void write_sum(struct writer *w, dim_id e) {
  const struct dims_expression *x = &w->d->expressions[e];
  const uint32_t start = w->n_todo;
  bool first = true;
  for (uint32_t i = 0; i < x->n; i++) {
    const struct dims_term t = w->d->terms[x->first + i];
    if (t.coefficient < 0 && t.coefficient != INT64_MIN) continue;
    if (!first) later_word(w, " + ");
    write_term(w, t, true);
    first = false;
  }
  const bool leads = x->n == 0 || (first && x->constant > 0); // the constant: 3 - t
  if (leads) later(w, NUMBER, x->constant);
  first = first && !leads;
  for (uint32_t i = 0; i < x->n; i++) {
    const struct dims_term t = w->d->terms[x->first + i];
    if (t.coefficient > 0 || t.coefficient == INT64_MIN) continue;
    if (!first) later_word(w, " - ");
    write_term(w, t, !first);
    first = false;
  }
  if (!leads && x->constant != 0) {
    const bool negate = x->constant < 0 && x->constant != INT64_MIN;
    later_word(w, negate ? " - " : " + ");
    later(w, NUMBER, negate ? -x->constant : x->constant);
  }
  in_order(w, start);
}

// A sum as an operand of //.
static void write_factor(struct writer *w, dim_id e) {
  const uint32_t start = w->n_todo, atom = dims_lone_atom(w->d, e);
  int64_t n;
  const bool simple =
      dims_is_number(w->d, e, &n) ? n >= 0 : atom != NO_ID && !is_quotient(w->d, atom);
  if (!simple) later_word(w, "(");
  later(w, SUM, e);
  if (!simple) later_word(w, ")");
  in_order(w, start);
}

static void write_name(struct writer *w, const struct dims_atom *a) {
  if (!a->name.at)
    put_word(w, numbered(w->d, a->alone).text);
  else if (dims_is_plain_name(a->name))
    put(w, a->name.at, a->name.n);
  else
    put_quoted(w, a->name);
}

static void write_atom(struct writer *w, uint32_t atom) {
  static const char *const calls[] = {[DIMS_EXACT] = "exact(",
                                      [DIMS_TRUNC] = "trunc(",
                                      [DIMS_MOST_OF] = "Max(",
                                      [DIMS_LEAST_OF] = "Min("};
  const struct dims_atom *a = &w->d->atoms[atom];
  const uint32_t start = w->n_todo;
  switch (a->kind) {
  case DIMS_SYMBOL:
  case DIMS_OPAQUE: write_name(w, a); return;
  case DIMS_FLOOR:
    later(w, FACTOR, a->a);
    later_word(w, "//");
    later(w, FACTOR, a->b);
    break;
  case DIMS_EXACT:
  case DIMS_TRUNC:
    later_word(w, calls[a->kind]);
    later(w, SUM, a->a);
    later_word(w, ", ");
    later(w, SUM, a->b);
    later_word(w, ")");
    break;
  default:
    later_word(w, calls[a->kind]);
    for (uint32_t i = 0; i < a->b; i++) {
      if (i > 0) later_word(w, ", ");
      later(w, SUM, w->d->members[a->a + i]);
    }
    later_word(w, ")");
  }
  in_order(w, start);
}

static void write_all(struct writer *w) {
  while (w->n_todo > 0 && !w->full) {
    const struct item i = w->todo[--w->n_todo];
    switch (i.what) {
    case WORD: put_word(w, i.word); break;
    case NUMBER: put_number(w, i.number); break;
    case SUM: write_sum(w, (dim_id)i.number); break;
    case FACTOR: write_factor(w, (dim_id)i.number); break;
    default: write_atom(w, (uint32_t)i.number);
    }
  }
}

struct span dims_text(struct dims *d, dim_id e, struct arena *a) {
  if (e == NO_ID) return span_str("?");
  const uint32_t atom = dims_lone_atom(d, e);
  if (atom != NO_ID && d->atoms[atom].name.at && dims_is_name(d->atoms[atom].name))
    return d->atoms[atom].name;
  struct writer w = {.d = d};
  later(&w, SUM, e);
  write_all(&w);
  TABLE_FREE(&w, todo);
  if (w.full) put_word((w.n = 0, &w), numbered(d, e).text);
  return span_of(arena_string(a, span_of(w.text, w.n)), w.n);
}
