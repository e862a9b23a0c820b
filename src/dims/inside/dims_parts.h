// What the files of this room share: the tables, sums that are being made, ranges.
#ifndef WEIR_DIMS_PARTS_H
#define WEIR_DIMS_PARTS_H

#include "dims/dims.h"

__extension__ typedef __int128 dims_wide;

// ---- rows --------------------------------------------------------------------------------------

// INT64_MIN and INT64_MAX: no bound.
struct dims_range {
  int64_t least, most;
};

// What is known of an atom, a product or an expression.
struct dims_known {
  struct dims_range range;
  uint64_t symbols; // bit i % 64 for each symbol that is atom i, and occurs anywhere in it
  uint16_t weight;  // at most DIMS_SIZE
  uint8_t level;    // of its highest atom; a symbol has 0
  bool exact;       // exact(N, D) is a factor in it: more may cancel
};

enum dims_kind {
  DIMS_SYMBOL,
  DIMS_FLOOR,
  DIMS_EXACT,
  DIMS_TRUNC,
  DIMS_MOST_OF,  // Max
  DIMS_LEAST_OF, // Min
  DIMS_OPAQUE,   // an operation whose result is past a limit
};

enum dims_op {
  DIMS_ADD,
  DIMS_SUB,
  DIMS_MUL,
  DIMS_MAX,
  DIMS_MIN,
  DIMS_FLOOR_DIV,
  DIMS_CEIL_DIV,
  DIMS_TRUNC_DIV,
  DIMS_EXACT_DIV,
  DIMS_MOD,
  DIMS_EQUAL,
  DIMS_AT_LEAST,
};

struct dims_atom {
  struct dims_known known;
  uint8_t kind, op; // op: of DIMS_OPAQUE
  uint32_t a, b;    // N and D; of Max and Min, the first and the number of `members`
  struct span name; // of a symbol; at NULL: none
  dim_id alone;     // the expression that is this atom and nothing else
  dim_id is;        // of a symbol: what has replaced it, or NO_ID
};

// Atoms, ascending, as often as they are factors. Product 0 has none: it is 1, and in no sum.
struct dims_product {
  struct dims_known known;
  uint32_t first; // in `factors`
  uint8_t n;
};

struct dims_term {
  int64_t coefficient; // never 0
  uint32_t product;
};

struct dims_expression {
  struct dims_known known;
  int64_t constant;
  uint32_t first; // in `terms`, by order_of (dims_sum.c)
  dim_id same; // one that it was joined with, on the way to the one that stands for all; or NO_ID
  uint32_t checked; // n_replaced when no symbol in it was replaced
  uint8_t n;
};

// A hash table of ids: open addressing, at most half full; what the ids are is known by who looks.
struct dims_slot {
  uint32_t id, hash;
};
struct dims_set {
  struct dims_slot *slots;
  size_t cap;
  uint32_t n_slots, n; // n_slots: a power of two, or 0
};

struct dims_memo {
  uint32_t op; // one more than an enum dims_op; 0: free
  dim_id a, b;
  uint32_t result;
};

struct dims_printed {
  dim_id e;
  uint32_t number;
};

struct dims {
  TABLE(struct dims_expression, expressions);
  TABLE(struct dims_term, terms);
  TABLE(struct dims_product, products);
  TABLE(uint32_t, factors);
  TABLE(struct dims_atom, atoms);
  TABLE(dim_id, members);
  TABLE(dim_id, joined); // those with `same`, by the order in which they got it
  TABLE(struct dims_printed, printed);
  struct dims_set expression_set, product_set, atom_set, printed_set;
  struct dims_memo *memo;
  size_t memo_cap;
  uint32_t memo_n;   // a power of two
  uint64_t replaced; // the bits (dims_known.symbols) of symbols that were replaced
  uint32_t n_replaced;
  bool united;
  size_t cap;           // of this struct as a table of one row
  uint32_t last_number; // of what was printed without a name
  struct arena names;
};

// ---- tables (dims.c) ---------------------------------------------------------------------------

// Each gives the id of the one row that is so, made if need be. NO_ID: past a limit.
uint32_t dims_product_of(struct dims *d, const uint32_t *atoms, uint32_t n);
dim_id dims_quotient(struct dims *d, enum dims_kind kind, dim_id a, dim_id b,
                     struct dims_range range);
dim_id dims_choice(struct dims *d, enum dims_kind kind, dim_id *members, uint32_t n);
// The symbol that stands for the result of an operation that is past a limit; always the same for
// the same operands.
dim_id dims_opaque(struct dims *d, enum dims_op op, dim_id a, dim_id b, struct dims_range range);
// NO_ID: there is no symbol of that name.
dim_id dims_symbol_named(const struct dims *d, struct span name);

// All operations: takes what operands are known to be, remembers results.
dim_id dims_do(struct dims *d, enum dims_op op, dim_id a, dim_id b);
int dims_by_id(const void *a, const void *b); // ascending

uint32_t dims_mix(uint32_t hash, uint64_t with);
// The next row with that hash behind *at (begin with the hash itself); NO_ID: there is no more.
uint32_t dims_set_next(const struct dims_set *s, uint32_t hash, uint32_t *at);
void dims_set_add(struct dims_set *s, uint32_t hash, uint32_t id);

// The atom that the expression is, alone; NO_ID: it is no lone atom.
uint32_t dims_lone_atom(const struct dims *d, dim_id e);

// ---- sums that are being made (dims_sum.c) ------------------------------------------------------

struct dims_sum {
  int64_t constant;
  uint32_t n;
  struct dims_term of[DIMS_TERMS];
};

void dims_sum_read(const struct dims *d, dim_id e, struct dims_sum *s);
void dims_sum_number(struct dims_sum *s, int64_t n);
// s += factor * product * x. False: past a limit; s is then as before.
bool dims_sum_add(struct dims *d, struct dims_sum *s, int64_t factor, uint32_t product,
                  const struct dims_sum *x);
// D * exact(N, D) = N wherever it occurs. False: nothing has changed.
bool dims_sum_settle(struct dims *d, struct dims_sum *s);
// The greatest common divisor of g (0: none yet), the coefficients and, if asked, the constant.
uint64_t dims_common_factor(const struct dims_sum *s, uint64_t g, bool with_constant);
// By what divides all coefficients; the constant is rounded down. g > 0
void dims_sum_divide_by(struct dims_sum *s, int64_t g);
struct dims_range dims_sum_range(const struct dims *d, const struct dims_sum *s);
// The expression. NO_ID: it is too large.
dim_id dims_sum_write(struct dims *d, struct dims_sum *s);
// Quotient and nothing left: a = q * b. False: something is left, or a limit was met.
bool dims_sum_divide(struct dims *d, const struct dims_sum *a, const struct dims_sum *b,
                     struct dims_sum *q);

uint32_t dims_product_div(struct dims *d, uint32_t p, uint32_t q); // NO_ID: q is not in p

dim_id dims_make_sum(struct dims *d, enum dims_op op, dim_id a, dim_id b);
dim_id dims_make_mul(struct dims *d, dim_id a, dim_id b);

// ---- quotients (dims_quotient.c) -----------------------------------------------------------------

dim_id dims_make_quotient(struct dims *d, enum dims_op op, dim_id a, dim_id b);
int64_t dims_floor_of(int64_t a, int64_t b); // b > 0

// ---- ranges and comparisons (dims_range.c, dims_bounds.c) ------------------------------------------

struct dims_range dims_range_add(struct dims_range a, struct dims_range b);
struct dims_range dims_range_mul(struct dims_range a, struct dims_range b);
struct dims_range dims_range_scale(struct dims_range a, int64_t by);
struct dims_range dims_range_power(struct dims_range a, uint32_t n);
struct dims_range dims_range_quotient(enum dims_kind kind, struct dims_range a,
                                      struct dims_range b);
struct dims_range dims_range_max(struct dims_range a, struct dims_range b);
struct dims_range dims_range_min(struct dims_range a, struct dims_range b);

// Is it proven that the sum is never negative?
bool dims_never_negative(struct dims *d, const struct dims_sum *s);
enum dims_answer dims_compare(struct dims *d, enum dims_op op, dim_id a, dim_id b);
dim_id dims_make_choice(struct dims *d, enum dims_op op, dim_id a, dim_id b);

// ---- atoms of an expression (dims_walk.c) ----------------------------------------------------------

// All atoms in an expression, each once; those that an atom is made of come before it.
struct dims_walk {
  uint32_t n;
  uint32_t atoms[DIMS_SIZE];
};
// Those alone that hold one of the symbols of that mask (dims_known); UINT64_MAX: all.
void dims_walk(const struct dims *d, dim_id e, uint64_t symbols, struct dims_walk *w);
// The expression with `by` in place of the symbol that is this atom; atom NO_ID: every symbol that
// was replaced, by what replaced it. NO_ID: a step divides by 0.
dim_id dims_rebuild(struct dims *d, dim_id e, uint32_t atom, dim_id by);

// ---- text (dims_parse.c) -----------------------------------------------------------------------------

// Does dims_parse take the text for the name of a symbol, as it is?
bool dims_is_name(struct span text);
// Can the name stand in an expression without quotes?
bool dims_is_plain_name(struct span name);

#endif
