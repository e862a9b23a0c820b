// What was declared equal.
//
// A symbol that can be isolated from a - b = 0 is replaced: its atom says by what (`is`), and
// every expression that it occurs in has, from then on, another that stands for it (`same`): made
// when it is asked for. What replaces a symbol holds no symbol that was replaced by then, so
// nothing goes in circles. Where no symbol can be isolated (b*s = 2*h*k), one expression is joined
// with the other:
//
//   same   b*s ──▶ 2*h*k ──▶ NO_ID         as a forest: roots stand for all below
//
// A root in which a symbol is replaced later is joined with what it becomes. So is what lies
// below, at once: of b*h = 24 and then b = 6 comes h = 4. The first JOINED_MOST are looked through
// for that.
#include "dims/inside/dims_parts.h"

enum { ROUNDS = 64, JOINED_MOST = 256, FOLLOW_MOST = 16 };

static dim_id root_of(struct dims *d, dim_id e) {
  dim_id root = e;
  while (d->expressions[root].same != NO_ID)
    root = d->expressions[root].same;
  while (e != root) {
    const dim_id next = d->expressions[e].same;
    d->expressions[e].same = root;
    e = next;
  }
  return root;
}

// The symbol at the end of symbols that each are replaced by the next, all moved to the end.
static dim_id end_of_chain(struct dims *d, dim_id e) {
  dim_id end = e;
  for (uint32_t a; (a = dims_lone_atom(d, end)) != NO_ID && d->atoms[a].is != NO_ID;)
    end = d->atoms[a].is;
  for (uint32_t a; e != end && (a = dims_lone_atom(d, e)) != NO_ID;) {
    e = d->atoms[a].is;
    d->atoms[a].is = end;
  }
  return end;
}

// With what replaced symbols, one step; NO_ID: a step divides by 0.
static dim_id replaced_once(struct dims *d, dim_id e) {
  const bool united = d->united;
  d->united = false; // operands are taken as they are
  const dim_id end = end_of_chain(d, e);
  const dim_id now = end != e ? end : dims_rebuild(d, e, NO_ID, NO_ID);
  d->united = united;
  return now;
}

dim_id dims_find(struct dims *d, dim_id e) {
  if (!d->united || e == NO_ID) return e;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    const dim_id root = root_of(d, e);
    const struct dims_expression *x = &d->expressions[root];
    if (!(x->known.symbols & d->replaced) || x->checked == d->n_replaced) return root;
    const dim_id now = replaced_once(d, root);
    if (now == root || now == NO_ID) return root;
    if (root_of(d, now) == root) { // joined before, the other way round
      d->expressions[now].same = NO_ID;
      d->expressions[root].same = now;
      e = now;
    } else {
      e = d->expressions[root].same = root_of(d, now);
    }
  }
  return e;
}

// ---- declared equal --------------------------------------------------------------------------------------

static bool is_symbol(const struct dims_atom *a) {
  return a->kind == DIMS_SYMBOL || a->kind == DIMS_OPAQUE;
}

static bool occurs(const struct dims *d, dim_id e, uint32_t atom) {
  struct dims_walk w;
  dims_walk(d, e, d->atoms[atom].known.symbols, &w);
  for (uint32_t i = 0; i < w.n; i++)
    if (w.atoms[i] == atom) return true;
  return false;
}

static bool has_name(const struct dims *d, uint32_t atom) {
  return d->atoms[atom].name.at != NULL;
}

// Which of two symbols shall be replaced?
static bool goes_before(const struct dims *d, uint32_t a, uint32_t b) {
  if (has_name(d, a) != has_name(d, b)) return has_name(d, b);
  return a > b;
}

// The symbol that the term is, with a sign at most; NO_ID: it is something else.
static uint32_t symbol_of(const struct dims *d, struct dims_term t) {
  const struct dims_product *p = &d->products[t.product];
  if ((t.coefficient != 1 && t.coefficient != -1) || p->n != 1) return NO_ID;
  const uint32_t atom = d->factors[p->first];
  return is_symbol(&d->atoms[atom]) ? atom : NO_ID;
}

// What term i of the sum, a symbol, equals if the sum is 0; NO_ID: it cannot be isolated.
static dim_id isolate(struct dims *d, const struct dims_sum *s, uint32_t i, uint32_t atom) {
  const struct dims_term t = s->of[i];
  const struct dims_sum x = {.n = 1, .of = {t}};
  struct dims_sum rest;
  dims_sum_number(&rest, 0);
  if (!dims_sum_add(d, &rest, -t.coefficient, 0, s) ||
      !dims_sum_add(d, &rest, t.coefficient, 0, &x))
    return NO_ID;
  const dim_id e = dims_sum_write(d, &rest);
  return e != NO_ID && !occurs(d, e, atom) ? e : NO_ID;
}

// The atom of a symbol that the sum isolates, and what it equals. The first to be replaced is asked first: what a symbol
// equals is an expression of nearly all of the sum.
static uint32_t best_symbol(struct dims *d, const struct dims_sum *s, dim_id *equals) {
  bool asked[DIMS_TERMS] = {false};
  for (;;) {
    uint32_t best = NO_ID, at = 0;
    for (uint32_t i = 0; i < s->n; i++) {
      const uint32_t atom = asked[i] ? NO_ID : symbol_of(d, s->of[i]);
      if (atom == NO_ID || (best != NO_ID && !goes_before(d, atom, best))) continue;
      best = atom;
      at = i;
    }
    if (best == NO_ID) return NO_ID;
    *equals = isolate(d, s, at, best);
    if (*equals != NO_ID) return best;
    asked[at] = true;
  }
}

// The atom is at least that from now on. Rows that it is in keep the bounds that they have.
static void raise_least(struct dims *d, uint32_t atom, int64_t least) {
  struct dims_atom *a = &d->atoms[atom];
  struct dims_expression *e = &d->expressions[a->alone];
  struct dims_product *p = &d->products[d->terms[e->first].product];
  if (least <= a->known.range.least) return;
  a->known.range.least = p->known.range.least = e->known.range.least = least;
}

static void replace_symbol(struct dims *d, uint32_t atom, dim_id by) {
  const uint32_t other = dims_lone_atom(d, by);
  if (other != NO_ID) raise_least(d, other, d->atoms[atom].known.range.least);
  d->atoms[atom].is = by;
  d->replaced |= d->atoms[atom].known.symbols;
  d->n_replaced++;
  d->united = true;
}

// How little an expression is fit to stand for others.
static uint32_t rank_of(const struct dims *d, dim_id e) {
  struct dims_walk w;
  uint32_t rank = d->expressions[e].known.weight;
  dims_walk(d, e, UINT64_MAX, &w);
  for (uint32_t i = 0; i < w.n; i++)
    if (is_symbol(&d->atoms[w.atoms[i]]) && !has_name(d, w.atoms[i])) return rank + DIMS_SIZE;
  return rank;
}

// One root below the other.
static void join(struct dims *d, dim_id a, dim_id b) {
  const uint32_t rank_a = rank_of(d, a), rank_b = rank_of(d, b);
  const bool first = rank_a != rank_b ? rank_a < rank_b : a < b;
  d->expressions[first ? b : a].same = first ? a : b;
  *TABLE_PUSH(d, joined) = first ? b : a;
  d->united = true;
}

// Sets the bits of the symbol that was replaced, if one was.
static bool unite_one(struct dims *d, dim_id a, dim_id b, uint64_t *symbols) {
  struct dims_sum s, x;
  a = dims_find(d, a);
  b = dims_find(d, b);
  const enum dims_answer equal = dims_equal(d, a, b);
  if (a == b || equal == DIMS_NO) return a == b;
  dims_sum_read(d, a, &s);
  dims_sum_read(d, b, &x);
  if (equal == DIMS_MAYBE && dims_sum_add(d, &s, -1, 0, &x)) {
    dims_sum_settle(d, &s);
    const uint64_t g = dims_common_factor(&s, 0, true);
    if (g > 1 && g <= INT64_MAX) dims_sum_divide_by(&s, (int64_t)g);
    dim_id equals = NO_ID;
    const uint32_t atom = best_symbol(d, &s, &equals);
    if (atom != NO_ID) {
      replace_symbol(d, atom, equals);
      *symbols |= d->atoms[atom].known.symbols;
      return true;
    }
  }
  join(d, a, b);
  return true;
}

bool dims_unite(struct dims *d, dim_id a, dim_id b) {
  uint64_t symbols = 0;
  if (a == NO_ID || b == NO_ID) return true;
  if (!unite_one(d, a, b, &symbols)) return false;
  for (uint32_t round = 0; symbols != 0 && round < FOLLOW_MOST; round++) {
    const uint64_t of = symbols;
    symbols = 0;
    for (uint32_t i = 0; i < d->n_joined && i < JOINED_MOST; i++) {
      const dim_id e = d->joined[i];
      if (!(d->expressions[e].known.symbols & of)) continue;
      const dim_id now = replaced_once(d, e);
      // If they are known to be different, the file contradicts itself: what was first holds.
      if (now != e && now != NO_ID) unite_one(d, now, e, &symbols);
    }
  }
  return true;
}

dim_id dims_replace(struct dims *d, dim_id e, dim_id symbol, dim_id by) {
  if (e == NO_ID || symbol == NO_ID || by == NO_ID) return NO_ID;
  const uint32_t atom = dims_lone_atom(d, symbol);
  e = dims_find(d, e);
  if (atom == NO_ID || !is_symbol(&d->atoms[atom])) return e;
  return dims_find(d, dims_rebuild(d, e, atom, by));
}
