// Room: symbolic dims: integer expressions in normal form, and the facts that are known about them.
//
// Symbolic dims: integers of which a model says only that they are equal, or follow from others.
//
//   (t + 1)//2    Max(0, n - 3)    b*s
//
// An expression is a number (its id). Each is kept once, in one normal form: those that are equal
// for all values of their symbols have, nearly always, the same id, whatever way they came about
// ((t - 1)//2 + 1 and (t + 1)//2). The normal form:
//
//   sum        int64 coefficients times products of atoms, sorted, and a constant
//   atom       a symbol with a lower bound; N//D, rounded down; exact(N, D), which is N/D where D
//              divides N in every valid run; Max(...); Min(...); trunc(N, D), ONNX's integer Div
//
// Limits: those below, and 64 bits for coefficients and constants. What would be larger becomes a
// symbol of its own, of which nothing is known but its bounds: an answer may be "not known", never
// wrong. Nothing recurses; the work of each call is bounded, and so is what it adds.
//
// NO_ID stands for what is not known. Every operation takes it, and gives it back.
#ifndef WEIR_DIMS_H
#define WEIR_DIMS_H

#include "base/arena.h"
#include "base/span.h"
#include "base/table.h"

enum {
  DIMS_TERMS = 64,   // of a sum
  DIMS_MEMBERS = 16, // of a Max or Min
  DIMS_FACTORS = 16, // of a product
  DIMS_LEVELS = 16,  // of atoms in atoms
  DIMS_SIZE = 1024,  // sums, terms and atoms of an expression, counted as often as they occur
  DIMS_TEXT = 256,   // bytes of a text that is read as an expression
  DIMS_NESTING = 32, // of parentheses there
};

typedef uint32_t dim_id;

enum dims_answer { DIMS_NO, DIMS_YES, DIMS_MAYBE };

struct dims; // tables of expressions, and what was declared equal

struct dims *dims_new(void);
void dims_free(struct dims *d); // may be NULL

dim_id dims_number(struct dims *d, int64_t n);
// The symbol of that name. The lower bound is that of the first call; later ones are ignored,
// since answers were given by then.
dim_id dims_symbol(struct dims *d, struct span name, int64_t least);
// A symbol without a name, equal to nothing but itself.
dim_id dims_fresh(struct dims *d, int64_t least);

bool dims_is_number(const struct dims *d, dim_id e, int64_t *n);
// Is it one symbol and nothing else? *name (may be NULL): its name, at NULL if it has none.
bool dims_is_symbol(const struct dims *d, dim_id e, struct span *name);
// The id that the next new expression will have: ids are given in order.
dim_id dims_next(const struct dims *d);
// Does it hold a symbol that has this id or a later one?
bool dims_uses_from(const struct dims *d, dim_id e, dim_id first);

// From here on, operands are taken as what they are known to be (dims_find), and so is the result.
// The functions above take and give an expression as it is.
dim_id dims_add(struct dims *d, dim_id a, dim_id b);
dim_id dims_sub(struct dims *d, dim_id a, dim_id b);
dim_id dims_mul(struct dims *d, dim_id a, dim_id b);
dim_id dims_neg(struct dims *d, dim_id a);
dim_id dims_max(struct dims *d, dim_id a, dim_id b);
dim_id dims_min(struct dims *d, dim_id a, dim_id b);
// Quotients. NO_ID: by 0, INT64_MIN by -1, or an exact one with a remainder. A divisor that is no
// number is taken to be none of 0 in every valid run.
dim_id dims_floor_div(struct dims *d, dim_id a, dim_id b); // rounds down
dim_id dims_ceil_div(struct dims *d, dim_id a, dim_id b);  // rounds up
dim_id dims_trunc_div(struct dims *d, dim_id a, dim_id b); // toward zero, as ONNX's Div
dim_id dims_exact_div(struct dims *d, dim_id a, dim_id b); // b divides a in every valid run
dim_id dims_mod(struct dims *d, dim_id a, dim_id b); // a - b * floor(a/b), ONNX's Mod (fmod 0)

// What holds for all values that the symbols may have.
int64_t dims_least(struct dims *d, dim_id e);                       // INT64_MIN: no bound
int64_t dims_most(struct dims *d, dim_id e);                        // INT64_MAX: no bound
enum dims_answer dims_equal(struct dims *d, dim_id a, dim_id b);    // NO: never
enum dims_answer dims_at_least(struct dims *d, dim_id a, dim_id b); // a >= b; NO: a < b always

// Two expressions that are equal in every valid run of the model. If their difference has a symbol
// that can be isolated, it is replaced by what it equals from now on: one without a name before
// one with, a newer one before an older. Otherwise the two are joined as they are. False if they
// are known to be different: nothing is noted.
bool dims_unite(struct dims *d, dim_id a, dim_id b);
// The one that stands for all that were declared equal with it: a number before an expression of
// symbols with names before others, small before large, old before new.
dim_id dims_find(struct dims *d, dim_id e);

// Text, in the arena. Symbols without a name, and expressions whose text would be longer than
// DIMS_TEXT, are "?1", "?2" ..., by the order in which they were first printed and without those
// that are names of symbols. dims_parse gives the same id for every text without these; for them
// it makes symbols of those names, so that no name in a file is ever taken for a symbol without
// one.
struct span dims_text(struct dims *d, dim_id e, struct arena *a);
// An expression as exporters write it: integers, names, + - * / // % **, parentheses, and
// functions: floor ceiling ceil trunc Max Min max min Mod FloorDiv CeilDiv CleanDiv exact. What is
// / at the end is exact. Names have letters, digits and _.:$#@; others stand in `backquotes`,
// doubled inside. A text that is longer than DIMS_TEXT, deeper than DIMS_NESTING or no expression
// of this grammar is the symbol of that name, and so is a lone name with hyphens in front of
// letters (batch-size). Blanks at both ends do not count; "" and "?" are symbols without a name.
dim_id dims_parse(struct dims *d, struct span text, int64_t least);
// The same, but an expression may only speak of symbols that there are already; else the text is a symbol of
// that name: of "dim-1" and "dim-2" nobody knows that they are differences.
dim_id dims_parse_known(struct dims *d, struct span text, int64_t least);

struct dims_binding {
  dim_id symbol;
  int64_t value;
};
// The value for given values of symbols. False if a symbol has none, or a step overflows, divides
// by 0 or leaves a remainder where it must not. The expression is taken as it is, not as dims_find
// has it.
bool dims_value(struct dims *d, dim_id e, const struct dims_binding *of, uint32_t n,
                int64_t *value);
// A symbol of the expression, as it is, that has no value among these; NO_ID: they all have one.
dim_id dims_unbound(struct dims *d, dim_id e, const struct dims_binding *of, uint32_t n);

// Puts an expression in place of a symbol: for values of symbols that a user gives, and bodies of
// functions. NO_ID: a step divides by 0.
dim_id dims_replace(struct dims *d, dim_id e, dim_id symbol, dim_id by);

// Rows held, and bytes of them, for tests of what must stay bounded.
uint32_t dims_count(const struct dims *d);
uint64_t dims_bytes(const struct dims *d);

#endif
