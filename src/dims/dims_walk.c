// Over all atoms of an expression: their values, and the expression with others in their place.
//
// What an atom is made of is older than the atom, so ascending ids are an order in which each
// finds its parts done. An expression has at most DIMS_SIZE atoms, counted as often as they occur.
#include "dims/inside/dims_parts.h"

#include <assert.h>
#include <stdlib.h>

// ---- the walk ----------------------------------------------------------------------------------------

static void push(struct dims_walk *w, const struct dims *d, dim_id e, uint64_t symbols) {
  const struct dims_expression *x = &d->expressions[e];
  for (uint32_t i = 0; i < x->n; i++) {
    const struct dims_product *p = &d->products[d->terms[x->first + i].product];
    for (uint32_t k = 0; k < p->n; k++) {
      const uint32_t atom = d->factors[p->first + k];
      // Numbers in quotients hold no symbols, and no atoms.
      if (!(d->atoms[atom].known.symbols & symbols)) continue;
      assert(w->n < DIMS_SIZE);
      w->atoms[w->n++] = atom;
    }
  }
}

static bool is_quotient(const struct dims_atom *a) {
  return a->kind == DIMS_FLOOR || a->kind == DIMS_EXACT || a->kind == DIMS_TRUNC;
}

static bool is_choice(const struct dims_atom *a) {
  return a->kind == DIMS_MOST_OF || a->kind == DIMS_LEAST_OF;
}

// As often as they occur.
static void collect(const struct dims *d, dim_id e, uint64_t symbols, struct dims_walk *w) {
  w->n = 0;
  push(w, d, e, symbols);
  for (uint32_t i = 0; i < w->n; i++) {
    const struct dims_atom *a = &d->atoms[w->atoms[i]];
    if (is_quotient(a)) {
      push(w, d, a->a, symbols);
      push(w, d, a->b, symbols);
    } else if (is_choice(a)) {
      for (uint32_t k = 0; k < a->b; k++)
        push(w, d, d->members[a->a + k], symbols);
    }
  }
}

static void in_order(struct dims_walk *w) {
  uint32_t kept = 0;
  qsort(w->atoms, w->n, sizeof *w->atoms, dims_by_id);
  for (uint32_t i = 0; i < w->n; i++)
    if (i == 0 || w->atoms[i] != w->atoms[i - 1]) w->atoms[kept++] = w->atoms[i];
  w->n = kept;
}

void dims_walk(const struct dims *d, dim_id e, uint64_t symbols, struct dims_walk *w) {
  collect(d, e, symbols, w);
  in_order(w);
}

// The place of an atom in the walk; NO_ID: it is not there.
static uint32_t place_of(const struct dims_walk *w, uint32_t atom) {
  const uint32_t *at = bsearch(&atom, w->atoms, w->n, sizeof *w->atoms, dims_by_id);
  return at ? (uint32_t)(at - w->atoms) : NO_ID;
}

// ---- values --------------------------------------------------------------------------------------------

static bool value_of_sum(const struct dims *d, dim_id e, const struct dims_walk *w,
                         const int64_t *values, int64_t *value) {
  const struct dims_expression *x = &d->expressions[e];
  dims_wide sum = x->constant;
  for (uint32_t i = 0; i < x->n; i++) {
    const struct dims_term t = d->terms[x->first + i];
    const struct dims_product *p = &d->products[t.product];
    int64_t product = t.coefficient;
    for (uint32_t k = 0; k < p->n; k++)
      if (__builtin_mul_overflow(product, values[place_of(w, d->factors[p->first + k])], &product))
        return false;
    sum += product;
  }
  *value = (int64_t)sum;
  return sum >= INT64_MIN && sum <= INT64_MAX;
}

static bool value_of_quotient(enum dims_kind kind, int64_t a, int64_t b, int64_t *value) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  if (kind == DIMS_EXACT && a % b != 0) return false;
  *value = a / b;
  if (kind == DIMS_FLOOR && a % b != 0 && (a % b < 0) != (b < 0)) --*value;
  return true;
}

static bool value_of_atom(const struct dims *d, uint32_t atom, const struct dims_walk *w,
                          const int64_t *values, int64_t *value) {
  const struct dims_atom *a = &d->atoms[atom];
  int64_t x, y;
  if (is_quotient(a))
    return value_of_sum(d, a->a, w, values, &x) && value_of_sum(d, a->b, w, values, &y) &&
           value_of_quotient(a->kind, x, y, value);
  for (uint32_t k = 0; k < a->b; k++) {
    if (!value_of_sum(d, d->members[a->a + k], w, values, &x)) return false;
    if (k == 0 || (a->kind == DIMS_MOST_OF ? x > *value : x < *value)) *value = x;
  }
  return true;
}

// The number of the binding of an atom's symbol; n: it has none.
static uint32_t binding_of(const struct dims_atom *a, const struct dims_binding *of, uint32_t n) {
  uint32_t k = 0;
  while (k < n && of[k].symbol != a->alone)
    k++;
  return k;
}

bool dims_value(struct dims *d, dim_id e, const struct dims_binding *of, uint32_t n,
                int64_t *value) {
  struct dims_walk w;
  int64_t values[DIMS_SIZE];
  if (e == NO_ID) return false;
  dims_walk(d, e, UINT64_MAX, &w);
  for (uint32_t i = 0; i < w.n; i++) {
    const struct dims_atom *a = &d->atoms[w.atoms[i]];
    const uint32_t k = binding_of(a, of, n);
    if (k < n)
      values[i] = of[k].value;
    else if (!(is_quotient(a) || is_choice(a)) ||
             !value_of_atom(d, w.atoms[i], &w, values, &values[i]))
      return false;
  }
  return value_of_sum(d, e, &w, values, value);
}

dim_id dims_unbound(struct dims *d, dim_id e, const struct dims_binding *of, uint32_t n) {
  struct dims_walk w;
  if (e == NO_ID) return NO_ID;
  dims_walk(d, e, UINT64_MAX, &w);
  for (uint32_t i = 0; i < w.n; i++) {
    const struct dims_atom *a = &d->atoms[w.atoms[i]];
    if (binding_of(a, of, n) == n && !is_quotient(a) && !is_choice(a)) return a->alone;
  }
  return NO_ID;
}

// ---- with others in their place --------------------------------------------------------------------------

static dim_id rebuild_sum(struct dims *d, dim_id e, const struct dims_walk *w, const dim_id *by) {
  const struct dims_expression x = d->expressions[e];
  dim_id sum = dims_number(d, x.constant);
  for (uint32_t i = 0; i < x.n; i++) {
    const struct dims_term t = d->terms[x.first + i];
    const struct dims_product p = d->products[t.product];
    dim_id product = dims_number(d, t.coefficient);
    for (uint32_t k = 0; k < p.n; k++) {
      const uint32_t atom = d->factors[p.first + k], place = place_of(w, atom);
      product = dims_mul(d, product, place == NO_ID ? d->atoms[atom].alone : by[place]);
    }
    sum = dims_add(d, sum, product);
  }
  return sum;
}

static dim_id rebuild_atom(struct dims *d, uint32_t atom, const struct dims_walk *w,
                           const dim_id *by) {
  const struct dims_atom a = d->atoms[atom];
  if (is_quotient(&a)) {
    const enum dims_op op = a.kind == DIMS_FLOOR   ? DIMS_FLOOR_DIV
                            : a.kind == DIMS_EXACT ? DIMS_EXACT_DIV
                                                   : DIMS_TRUNC_DIV;
    return dims_do(d, op, rebuild_sum(d, a.a, w, by), rebuild_sum(d, a.b, w, by));
  }
  if (!is_choice(&a)) return a.alone;
  dim_id e = NO_ID;
  for (uint32_t k = 0; k < a.b; k++) {
    const dim_id x = rebuild_sum(d, d->members[a.a + k], w, by);
    e = k == 0 ? x : dims_do(d, a.kind == DIMS_MOST_OF ? DIMS_MAX : DIMS_MIN, e, x);
  }
  return e;
}

// Many symbols share a bit of `replaced`.
static bool holds_replaced(const struct dims *d, const struct dims_walk *w) {
  for (uint32_t i = 0; i < w->n; i++)
    if (d->atoms[w->atoms[i]].is != NO_ID) return true;
  return false;
}

dim_id dims_rebuild(struct dims *d, dim_id e, uint32_t atom, dim_id by) {
  struct dims_walk w;
  dim_id others[DIMS_SIZE];
  const uint64_t symbols = atom == NO_ID ? d->replaced : d->atoms[atom].known.symbols;
  if (!(d->expressions[e].known.symbols & symbols)) return e;
  collect(d, e, symbols, &w);
  if (atom == NO_ID && !holds_replaced(d, &w)) {
    d->expressions[e].checked = d->n_replaced;
    return e;
  }
  in_order(&w);
  for (uint32_t i = 0; i < w.n; i++) {
    if (w.atoms[i] == atom)
      others[i] = by;
    else if (atom == NO_ID && d->atoms[w.atoms[i]].is != NO_ID)
      others[i] = d->atoms[w.atoms[i]].is;
    else
      others[i] = rebuild_atom(d, w.atoms[i], &w, others);
  }
  return rebuild_sum(d, e, &w, others);
}
// ---- symbols -------------------------------------------------------------------------------------------

bool dims_is_symbol(const struct dims *d, dim_id e, struct span *name) {
  const uint32_t atom = dims_lone_atom(d, e);
  if (name) *name = span_of(NULL, 0);
  if (atom == NO_ID || (d->atoms[atom].kind != DIMS_SYMBOL && d->atoms[atom].kind != DIMS_OPAQUE))
    return false;
  if (name && d->atoms[atom].kind == DIMS_SYMBOL) *name = d->atoms[atom].name;
  return true;
}

bool dims_uses_from(const struct dims *d, dim_id e, dim_id first) {
  struct dims_walk w;
  if (e == NO_ID || e < first) return false;
  dims_walk(d, e, UINT64_MAX, &w);
  for (uint32_t i = 0; i < w.n; i++) {
    const struct dims_atom *a = &d->atoms[w.atoms[i]];
    if ((a->kind == DIMS_SYMBOL || a->kind == DIMS_OPAQUE) && a->alone >= first) return true;
  }
  return false;
}
