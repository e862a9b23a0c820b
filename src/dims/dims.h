// Symbolic dims: integers of which a model says only that they are equal, or follow from others.
//
//   (t + 1)//2    Max(0, n - 3)    b*s
//
// An expression is a number (its id). Expressions are kept in one normal form, each once: those that
// are known to be equal for all values of their symbols have, nearly always, the same id, whatever
// way they came about ((t - 1)//2 + 1 and (t + 1)//2). `//` rounds down. The normal form:
//
//   sum        int64 coefficients times products of atoms, sorted, and a constant
//   atom       a symbol with a lower bound; E//m; exact(N, D), which is N/D where D divides N in
//              every valid run; Max{…}; Min{…}; trunc(N, D), ONNX's Div of integers
//
// Limits: at most DIMS_TERMS terms, DIMS_LEVELS levels of atoms in atoms, coefficients and constants
// of 64 bits. What would be larger becomes a symbol of its own, of which nothing is known but its
// bounds: an answer may be "not known", never wrong. Nothing recurses; work is bounded for each call.
#ifndef WEIR_DIMS_H
#define WEIR_DIMS_H

#include "arena.h"
#include "span.h"
#include "table.h"

enum { DIMS_TERMS = 64, DIMS_LEVELS = 16, DIMS_TEXT = 256, DIMS_NESTING = 32 };

typedef uint32_t dim_id; // NO_ID: not known

enum dims_answer { DIMS_NO, DIMS_YES, DIMS_MAYBE };

struct dims; // dims_new; inside: tables of expressions, symbols, what was declared equal

struct dims *dims_new(void);
void dims_free(struct dims *d);

dim_id dims_number(struct dims *d, int64_t n);
// The symbol of that name: made with the lower bound when it is first asked for (then `least` of later
// calls only raises it … or is ignored: say which).
dim_id dims_symbol(struct dims *d, struct span name, int64_t least);
// A symbol without a name, equal to nothing but itself.
dim_id dims_fresh(struct dims *d, int64_t least);

bool dims_is_symbol(const struct dims *d, dim_id e); // nothing but one
// Does it speak of a symbol that has this id or a later one? Ids are given in the order in which expressions are made.
bool dims_uses_from(struct dims *d, dim_id e, dim_id first);
bool dims_is_number(const struct dims *d, dim_id e, int64_t *n);

dim_id dims_add(struct dims *d, dim_id a, dim_id b);
dim_id dims_sub(struct dims *d, dim_id a, dim_id b);
dim_id dims_mul(struct dims *d, dim_id a, dim_id b);
dim_id dims_neg(struct dims *d, dim_id a);
dim_id dims_max(struct dims *d, dim_id a, dim_id b);
dim_id dims_min(struct dims *d, dim_id a, dim_id b);
// Quotients. By 0, and INT64_MIN by -1: NO_ID.
dim_id dims_floor_div(struct dims *d, dim_id a, dim_id b); // rounds down
dim_id dims_ceil_div(struct dims *d, dim_id a, dim_id b);  // rounds up
dim_id dims_trunc_div(struct dims *d, dim_id a, dim_id b); // toward zero, as ONNX's Div
dim_id dims_exact_div(struct dims *d, dim_id a, dim_id b); // b divides a in every valid run
dim_id dims_mod(struct dims *d, dim_id a, dim_id b);       // a - b * floor(a/b)

// What is known, for all values that the symbols may have.
int64_t dims_least(struct dims *d, dim_id e); // INT64_MIN: no bound
int64_t dims_most(struct dims *d, dim_id e);  // INT64_MAX: no bound
enum dims_answer dims_equal(struct dims *d, dim_id a, dim_id b);
enum dims_answer dims_at_least(struct dims *d, dim_id a, dim_id b); // a >= b

// Two expressions that must be equal in every valid run of the model: later answers use it where it is
// of the form that can be used (a symbol and an expression without it; otherwise both are joined as
// they are). False if they are known to be different: nothing is noted.
bool dims_unite(struct dims *d, dim_id a, dim_id b);
// The one that stands for all that were declared equal with it: a number before an expression of
// inputs' symbols before others.
dim_id dims_find(struct dims *d, dim_id e);

// Text. Readable, and read again by dims_parse to the same id; symbols without a name are printed as
// "?1". Lives in the arena.
struct span dims_text(struct dims *d, dim_id e, struct arena *a);
// An expression as exporters write it: names, integers, + - * / // % **, floor(), ceiling(), Max(),
// Min(), Mod(), FloorDiv… , parentheses. What is longer than DIMS_TEXT bytes or deeper than
// DIMS_NESTING, or no expression of this grammar, is a symbol of that whole name. A name of ONNX that holds
// blanks or other signs is a symbol too.
dim_id dims_parse(struct dims *d, struct span text, int64_t least);

// The value for given values of symbols (by the order in which they were made); false if a symbol has
// none, or a step overflows or divides by 0. For tests, and for who binds inputs.
struct dims_binding {
  dim_id symbol;
  int64_t value;
};
bool dims_value(struct dims *d, dim_id e, const struct dims_binding *of, uint32_t n, int64_t *value);

// Puts expressions in place of symbols: for `--set-dim name=8` and bodies of functions. NO_ID: a step
// divides by 0.
dim_id dims_replace(struct dims *d, dim_id e, dim_id symbol, dim_id by);

// Rows held, for tests of what must stay bounded.
uint32_t dims_count(const struct dims *d);

#endif
