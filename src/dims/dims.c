// Tables of symbolic dims, each row once, and the way that all operations take.
//
//   expression   (t + 1)//2 - 1     constant -1, terms ──▶ 1 * product ──▶ factors ──▶ atom
//   atom         (t + 1)//2         floor of two expressions: t + 1 and 2
//
// Rows are never changed or removed, but for what a symbol was replaced by and what an expression
// was joined with. What a row is made of is older than the row: ids are an order in which all can
// be computed, and nothing needs to recurse.
//
// An operation whose result is past a limit makes an opaque atom, which is named by operation and
// operands: the same operands give the same one. It has no depth, however deep its operands are.
//
// Results are remembered in a table of one place for each hash: what is asked again and again (the
// same window over the same dim) costs one look; what was forgotten is made again and gets the
// same id.
#include "dims/inside/dims_parts.h"

#include <assert.h>
#include <stdlib.h>

enum { SLOTS_MIN = 64, MEMO_MIN = 256, MEMO_MAX = 1 << 16 };

// ---- hash tables ---------------------------------------------------------------------------------

uint32_t dims_mix(uint32_t hash, uint64_t with) {
  const uint64_t x = (hash ^ with) * UINT64_C(0x9e3779b97f4a7c15) + with;
  return (uint32_t)(x >> 32) ^ (uint32_t)x;
}

uint32_t dims_set_next(const struct dims_set *s, uint32_t hash, uint32_t *at) {
  const uint32_t mask = s->n_slots - 1;
  if (s->n_slots == 0) return NO_ID;
  for (uint32_t i = *at & mask; s->slots[i].id != NO_ID; i = (i + 1) & mask)
    if (s->slots[i].hash == hash) {
      *at = i + 1;
      return s->slots[i].id;
    }
  return NO_ID;
}

static void put_slot(struct dims_set *s, struct dims_slot slot) {
  const uint32_t mask = s->n_slots - 1;
  uint32_t at = slot.hash & mask;
  while (s->slots[at].id != NO_ID)
    at = (at + 1) & mask;
  s->slots[at] = slot;
}

void dims_set_add(struct dims_set *s, uint32_t hash, uint32_t id) {
  if (s->n_slots / 2 <= s->n) {
    const struct dims_set old = *s;
    assert(s->n_slots < 1u << 31);
    s->n_slots = old.n_slots ? old.n_slots * 2 : SLOTS_MIN;
    s->cap = 0;
    s->slots = table_grow(NULL, &s->cap, s->n_slots, sizeof *s->slots);
    memset(s->slots, 0xff, s->n_slots * sizeof *s->slots);
    for (uint32_t i = 0; i < old.n_slots; i++)
      if (old.slots[i].id != NO_ID) put_slot(s, old.slots[i]);
    table_free(old.slots, old.cap, sizeof *s->slots);
  }
  put_slot(s, (struct dims_slot){id, hash});
  s->n++;
}

static void free_set(struct dims_set *s) {
  table_free(s->slots, s->cap, sizeof *s->slots);
}

// ---- beginning and end -----------------------------------------------------------------------------

struct dims *dims_new(void) {
  size_t one = 0;
  struct dims *d = table_grow(NULL, &one, 1, sizeof *d);
  *d = (struct dims){0};
  d->cap = one;
  const uint32_t unit = dims_product_of(d, NULL, 0);
  assert(unit == 0);
  return d;
}

void dims_free(struct dims *d) {
  if (!d) return;
  TABLES_FREE(d, expressions, terms, products, factors, atoms, members, joined, printed);
  free_set(&d->expression_set);
  free_set(&d->product_set);
  free_set(&d->atom_set);
  free_set(&d->printed_set);
  table_free(d->memo, d->memo_cap, sizeof *d->memo);
  arena_free(&d->names);
  table_free(d, d->cap, sizeof *d);
}

uint32_t dims_count(const struct dims *d) {
  return d->n_expressions + d->n_terms + d->n_products + d->n_factors + d->n_atoms + d->n_members;
}

uint64_t dims_bytes(const struct dims *d) {
  return d->expressions_cap * sizeof *d->expressions + d->terms_cap * sizeof *d->terms +
         d->products_cap * sizeof *d->products + d->factors_cap * sizeof *d->factors +
         d->atoms_cap * sizeof *d->atoms + d->members_cap * sizeof *d->members +
         (d->expression_set.cap + d->product_set.cap + d->atom_set.cap) * sizeof(struct dims_slot) +
         d->memo_cap * sizeof *d->memo;
}

dim_id dims_next(const struct dims *d) {
  return d->n_expressions;
}

// ---- products --------------------------------------------------------------------------------------

// What is known of a product; false if it is too large.
static bool know_product(const struct dims *d, const uint32_t *atoms, uint32_t n,
                         struct dims_known *known) {
  uint32_t weight = 1;
  *known = (struct dims_known){.range = {1, 1}};
  for (uint32_t i = 0, power; i < n; i += power) {
    const struct dims_atom *a = &d->atoms[atoms[i]];
    for (power = 1; i + power < n && atoms[i + power] == atoms[i];)
      power++;
    known->range = dims_range_mul(known->range, dims_range_power(a->known.range, power));
    known->symbols |= a->known.symbols;
    known->exact |= a->kind == DIMS_EXACT;
    if (a->known.level > known->level) known->level = a->known.level;
    weight += a->known.weight * power;
  }
  known->weight = (uint16_t)weight;
  return weight <= DIMS_SIZE;
}

uint32_t dims_product_of(struct dims *d, const uint32_t *atoms, uint32_t n) {
  uint32_t hash = n, id, at;
  if (n > DIMS_FACTORS) return NO_ID;
  for (uint32_t i = 0; i < n; i++)
    hash = dims_mix(hash, atoms[i]);
  for (at = hash; (id = dims_set_next(&d->product_set, hash, &at)) != NO_ID;) {
    const struct dims_product *p = &d->products[id];
    if (p->n == n && (n == 0 || memcmp(d->factors + p->first, atoms, n * sizeof *atoms) == 0))
      return id;
  }
  struct dims_known known;
  if (!know_product(d, atoms, n, &known)) return NO_ID;
  const uint32_t first = TABLE_ADD(d, factors, n);
  if (n > 0) memcpy(d->factors + first, atoms, n * sizeof *atoms);
  id = TABLE_ADD(d, products, 1);
  d->products[id] = (struct dims_product){.known = known, .first = first, .n = (uint8_t)n};
  dims_set_add(&d->product_set, hash, id);
  return id;
}

// ---- atoms -----------------------------------------------------------------------------------------

// A new row; gives the expression that it is alone.
static dim_id add_atom(struct dims *d, struct dims_atom row, uint32_t hash) {
  const uint32_t atom = TABLE_ADD(d, atoms, 1);
  if (row.kind == DIMS_SYMBOL || row.kind == DIMS_OPAQUE) {
    row.known.symbols = UINT64_C(1) << atom % 64;
    row.known.weight = 1;
  }
  row.is = NO_ID;
  d->atoms[atom] = row;
  if (hash) dims_set_add(&d->atom_set, hash, atom);
  struct dims_sum s = {.n = 1, .of = {{1, dims_product_of(d, &atom, 1)}}};
  const dim_id alone = dims_sum_write(d, &s);
  assert(alone != NO_ID);
  return d->atoms[atom].alone = alone;
}

// Hashes are never 0: that is an atom that is not looked for.
static uint32_t hash_pair(uint32_t kind, uint32_t a, uint32_t b) {
  return dims_mix(dims_mix(kind + 1, a), b) | 1;
}

dim_id dims_opaque(struct dims *d, enum dims_op op, dim_id a, dim_id b, struct dims_range range) {
  const uint32_t hash = hash_pair(DIMS_OPAQUE + op * 16u, a, b);
  uint32_t at = hash, id;
  while ((id = dims_set_next(&d->atom_set, hash, &at)) != NO_ID) {
    const struct dims_atom *x = &d->atoms[id];
    if (x->kind == DIMS_OPAQUE && x->op == op && x->a == a && x->b == b) return x->alone;
  }
  const struct dims_atom row = {
      .known.range = range, .kind = DIMS_OPAQUE, .op = (uint8_t)op, .a = a, .b = b};
  return add_atom(d, row, hash);
}

// Adds what is known of a part of an atom; false: the atom is too large.
static bool contain(struct dims_known *known, const struct dims_known *part) {
  const uint32_t weight = known->weight + (uint32_t)part->weight;
  known->symbols |= part->symbols;
  if (part->level >= known->level) known->level = (uint8_t)(part->level + 1);
  // Room for the product and the sum that the atom is alone.
  if (weight > DIMS_SIZE - 4 || known->level > DIMS_LEVELS) return false;
  known->weight = (uint16_t)weight;
  return true;
}

dim_id dims_quotient(struct dims *d, enum dims_kind kind, dim_id a, dim_id b,
                     struct dims_range range) {
  const uint32_t hash = hash_pair(kind, a, b);
  uint32_t at = hash, id;
  while ((id = dims_set_next(&d->atom_set, hash, &at)) != NO_ID) {
    const struct dims_atom *x = &d->atoms[id];
    if (x->kind == kind && x->a == a && x->b == b) return x->alone;
  }
  struct dims_atom row = {
      .known = {.range = range, .weight = 1}, .kind = (uint8_t)kind, .a = a, .b = b};
  if (!contain(&row.known, &d->expressions[a].known) ||
      !contain(&row.known, &d->expressions[b].known))
    return NO_ID;
  return add_atom(d, row, hash);
}

int dims_by_id(const void *a, const void *b) {
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x > y) - (x < y);
}

// At least two members, all different; they are sorted.
dim_id dims_choice(struct dims *d, enum dims_kind kind, dim_id *members, uint32_t n) {
  if (n > DIMS_MEMBERS) return NO_ID;
  qsort(members, n, sizeof *members, dims_by_id);
  uint32_t hash = hash_pair(kind, n, 0), id;
  for (uint32_t i = 0; i < n; i++)
    hash = dims_mix(hash, members[i]);
  hash |= 1;
  for (uint32_t at = hash; (id = dims_set_next(&d->atom_set, hash, &at)) != NO_ID;) {
    const struct dims_atom *x = &d->atoms[id];
    if (x->kind == kind && x->b == n &&
        memcmp(d->members + x->a, members, n * sizeof *members) == 0)
      return x->alone;
  }
  struct dims_atom row = {.known = {.range = d->expressions[members[0]].known.range, .weight = 1},
                          .kind = (uint8_t)kind,
                          .b = n};
  for (uint32_t i = 0; i < n; i++) {
    const struct dims_known *k = &d->expressions[members[i]].known;
    if (!contain(&row.known, k)) return NO_ID;
    row.known.range = kind == DIMS_MOST_OF ? dims_range_max(row.known.range, k->range)
                                           : dims_range_min(row.known.range, k->range);
  }
  row.a = TABLE_ADD(d, members, n);
  memcpy(d->members + row.a, members, n * sizeof *members);
  return add_atom(d, row, hash);
}

// ---- numbers and symbols ---------------------------------------------------------------------------

dim_id dims_number(struct dims *d, int64_t n) {
  struct dims_sum s;
  dims_sum_number(&s, n);
  return dims_sum_write(d, &s);
}

static uint32_t hash_name(struct span name) {
  return (uint32_t)(span_hash(name) >> 32) | 1;
}

dim_id dims_symbol_named(const struct dims *d, struct span name) {
  const uint32_t hash = hash_name(name);
  uint32_t at = hash, id;
  while ((id = dims_set_next(&d->atom_set, hash, &at)) != NO_ID) {
    const struct dims_atom *x = &d->atoms[id];
    if (x->kind == DIMS_SYMBOL && x->name.at && span_eq(x->name, name)) return x->alone;
  }
  return NO_ID;
}

dim_id dims_symbol(struct dims *d, struct span name, int64_t least) {
  const dim_id e = dims_symbol_named(d, name);
  if (e != NO_ID) return e;
  const struct dims_atom row = {
      .known.range = {least, INT64_MAX},
      .kind = DIMS_SYMBOL,
      .name = span_of(arena_string(&d->names, name), name.n),
  };
  return add_atom(d, row, hash_name(name));
}

dim_id dims_fresh(struct dims *d, int64_t least) {
  const struct dims_atom row = {.known.range = {least, INT64_MAX}, .kind = DIMS_SYMBOL};
  return add_atom(d, row, 0);
}

bool dims_is_number(const struct dims *d, dim_id e, int64_t *n) {
  if (e == NO_ID || d->expressions[e].n != 0) return false;
  *n = d->expressions[e].constant;
  return true;
}

uint32_t dims_lone_atom(const struct dims *d, dim_id e) {
  const struct dims_expression *x = &d->expressions[e];
  if (x->n != 1 || x->constant != 0 || d->terms[x->first].coefficient != 1) return NO_ID;
  const struct dims_product *p = &d->products[d->terms[x->first].product];
  return p->n == 1 ? d->factors[p->first] : NO_ID;
}

// ---- operations ------------------------------------------------------------------------------------

static uint32_t perform(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  switch (op) {
  case DIMS_ADD:
  case DIMS_SUB: return dims_make_sum(d, op, a, b);
  case DIMS_MUL: return dims_make_mul(d, a, b);
  case DIMS_MAX:
  case DIMS_MIN: return dims_make_choice(d, op, a, b);
  case DIMS_FLOOR_DIV:
  case DIMS_CEIL_DIV:
  case DIMS_TRUNC_DIV:
  case DIMS_EXACT_DIV: return dims_make_quotient(d, op, a, b);
  case DIMS_MOD: return dims_sub(d, a, dims_mul(d, b, dims_floor_div(d, a, b)));
  case DIMS_EQUAL:
  case DIMS_AT_LEAST: return dims_compare(d, op, a, b);
  }
  return NO_ID;
}

// Of two numbers, what fits 64 bits; false: not that simple.
static bool is_simple(enum dims_op op, int64_t a, int64_t b, int64_t *result) {
  switch (op) {
  case DIMS_ADD: return !__builtin_add_overflow(a, b, result);
  case DIMS_SUB: return !__builtin_sub_overflow(a, b, result);
  case DIMS_MUL: return !__builtin_mul_overflow(a, b, result);
  case DIMS_MAX: *result = a > b ? a : b; return true;
  case DIMS_MIN: *result = a < b ? a : b; return true;
  default: return false;
  }
}

// Grows with the number of expressions, up to a bound; what it held is forgotten then.
static void grow_memo(struct dims *d) {
  table_free(d->memo, d->memo_cap, sizeof *d->memo);
  d->memo_n = d->memo_n ? d->memo_n * 4 : MEMO_MIN;
  d->memo_cap = 0;
  d->memo = table_grow(NULL, &d->memo_cap, d->memo_n, sizeof *d->memo);
  memset(d->memo, 0, d->memo_n * sizeof *d->memo);
}

dim_id dims_do(struct dims *d, enum dims_op op, dim_id a, dim_id b) {
  if (a == NO_ID || b == NO_ID) return NO_ID;
  if (d->united) {
    a = dims_find(d, a);
    b = dims_find(d, b);
  }
  int64_t x, y;
  if (dims_is_number(d, a, &x) && dims_is_number(d, b, &y) && is_simple(op, x, y, &x))
    return dims_number(d, x);
  if (d->memo_n < MEMO_MAX && d->n_expressions >= d->memo_n) grow_memo(d);
  const uint32_t hash = dims_mix(dims_mix(op, a), b);
  const struct dims_memo *m = &d->memo[hash & (d->memo_n - 1)];
  uint32_t result;
  if (m->op == op + 1u && m->a == a && m->b == b) {
    result = m->result;
  } else {
    result = perform(d, op, a, b);
    // Others may have been remembered meanwhile, in a larger table.
    d->memo[hash & (d->memo_n - 1)] = (struct dims_memo){op + 1u, a, b, result};
  }
  return op < DIMS_EQUAL && d->united ? dims_find(d, result) : result;
}

// An operation by its name.
#define OPERATION(name, op)                                                                        \
  dim_id name(struct dims *d, dim_id a, dim_id b) {                                                \
    return dims_do(d, op, a, b);                                                                   \
  }
OPERATION(dims_add, DIMS_ADD)
OPERATION(dims_sub, DIMS_SUB)
OPERATION(dims_mul, DIMS_MUL)
OPERATION(dims_max, DIMS_MAX)
OPERATION(dims_min, DIMS_MIN)
OPERATION(dims_floor_div, DIMS_FLOOR_DIV)
OPERATION(dims_ceil_div, DIMS_CEIL_DIV)
OPERATION(dims_trunc_div, DIMS_TRUNC_DIV)
OPERATION(dims_exact_div, DIMS_EXACT_DIV)
OPERATION(dims_mod, DIMS_MOD)

dim_id dims_neg(struct dims *d, dim_id a) {
  return dims_do(d, DIMS_SUB, dims_number(d, 0), a);
}

enum dims_answer dims_equal(struct dims *d, dim_id a, dim_id b) {
  const uint32_t answer = dims_do(d, DIMS_EQUAL, a, b);
  return answer == NO_ID ? DIMS_MAYBE : (enum dims_answer)answer;
}

enum dims_answer dims_at_least(struct dims *d, dim_id a, dim_id b) {
  const uint32_t answer = dims_do(d, DIMS_AT_LEAST, a, b);
  return answer == NO_ID ? DIMS_MAYBE : (enum dims_answer)answer;
}
