// What the files of the rule engine share: the state of a run, and of the match at hand.
#ifndef WEIR_RULES_INSIDE_H
#define WEIR_RULES_INSIDE_H

#include "passes/kit/kit.h"
#include "passes/questions/findings.h"
#include "passes/rules/compile/rules_tables.h"
#include "passes/rules/rules.h"

// What a register or the stack holds. UNKNOWN goes through every computation; a condition that is
// unknown does not hold.
enum rules_kind {
  RULES_ABSENT, // nothing bound; an operand left out; none
  RULES_UNKNOWN,
  RULES_INT,     // i; truth too
  RULES_FLOAT,   // d
  RULES_LIST,    // n numbers at `list`; dims that are symbols: rules_symbol
  RULES_PAIR,    // two lists, n numbers in all: each has half of them
  RULES_TEXTS,   // n name ids at `list`: an attribute that is a list of strings
  RULES_STRING,  // n bytes at `text`: rules_text
  RULES_WORD,    // literal
  RULES_TENSOR,  // id: a value of the model
  RULES_TERM,    // id: one of run->terms
  RULES_NODE,    // id: whose attributes
  RULES_MANY,    // n values at `many`, NO_ID where left out
  RULES_EACH,    // n elements at `each`, `fields` registers for each
  RULES_ELEMENT, // the registers of one, at `each`
  RULES_MARK,
};
struct rules_value { // 16 bytes: it travels in registers
  uint8_t kind;
  uint8_t fields;
  uint32_t n;
  union {
    int64_t i;
    double d;
    uint32_t id;
    const uint8_t *text;
    const int64_t *list;
    const uint32_t *many;
    const struct rules_value *each;
    const struct rules_literal *literal;
  };
};

// What a dim is, as a number of a list: the length; or a symbol, which is like itself only; or
// nowhere known.
#define RULES_NO_DIM INT64_MIN
static inline int64_t rules_symbol(uint32_t name) {
  return INT64_MIN / 2 + (int64_t)name;
}
static inline bool rules_is_number(int64_t dim) {
  return dim > INT64_MIN / 4;
}

// A type as the engine keeps it: of values of the model and of terms. ranked false: rank 0, no
// dims.
struct rules_type {
  enum dtype dtype;
  bool ranked;
  uint32_t rank;
  const int64_t *dims;
};

// What a result will be made of: constants, and nodes over them. Nothing of the model changes until
// all of it is there.
struct rules_term {
  enum { RULES_IS_CONST, RULES_IS_NODE } what;
  struct rules_type type;
  struct span raw;                // CONST: its elements, n 0 where they are not at hand
  uint32_t recipe;                // CONST
  enum op op;                     // NODE
  const struct rules_value *args; // ABSENT, TENSOR, TERM
  uint32_t n_args;
  const struct edit_attr *attrs;
  uint32_t n_attrs;
  uint32_t attrs_of;
  uint32_t value; // once made: the value; else NO_ID
};

// What is known of all elements of a recipe, or is to be asked (rules_facts.c).
struct rules_fact {
  uint32_t recipe;
  bool known, wants_multiples, has_multiples;
  struct tensor_stats facts;
};
enum rules_assumption { RULES_ASSUME_NOTHING, RULES_ASSUME_YES, RULES_ASSUME_NO };

// Of a recipe: how many lie one within another, and how many there are, shared ones for every use.
struct rules_size {
  uint16_t depth, parts;
};
// Folds no further than this: evaluation has 32 levels, and other passes come on top.
enum { RULES_DEEP = 16, RULES_PARTS = 256 };

struct rules_candidate {
  uint32_t key; // operator and what makes its first two operands; NO_ID: free
  uint32_t first, n;
};

struct rules_run {
  const struct rules_book *book;
  const struct rules_options *options;
  struct kit k;
  struct arena match; // of the node being looked at
  struct arena lists; // of the run

  // The graph at hand.
  uint32_t graph;
  int64_t opset;

  // Which entries a node is worth: by its operator and what makes its operands (rules_run.c).
  TABLE(struct rules_candidate, candidates); // a hash table
  uint32_t n_keys;
  TABLE(uint32_t, kept); // entries
  const bool *entry_on;

  // The match at hand (rules_match.c).
  const struct rules_rule *rule;
  uint32_t row, first_row; // first_row: as the entry has it
  struct rules_value registers[RULES_REGISTERS];
  uint32_t nodes[RULES_NODES], n_nodes; // NO_ID: of an alternative that was not taken
  bool flipped[RULES_NODES];
  uint8_t choices[RULES_CHOICES], limits[RULES_CHOICES];
  uint32_t n_choices, at_choice;
  uint32_t ways;            // tried of one rule at one node: at most RULES_WAYS
  bool too_many;            // there were more
  uint64_t steps;           // words of patterns that were run
  TABLE(uint32_t, touched); // all nodes of the match but the first, where there are filters

  // The result at hand (rules_build.c).
  TABLE(struct rules_term, terms);
  TABLE(struct rules_size, sizes); // by recipe id

  // Questions about large constants (rules_facts.c).
  TABLE(uint32_t, fact_of); // by recipe id: fact + 1
  TABLE(struct rules_fact, facts);
  TABLE(uint32_t, wanted); // facts of the condition at hand that are not known
  TABLE(uint32_t, asking); // those that the next question is about
  enum rules_assumption assume;

  // By node id (rules_run.c).
  TABLE(uint8_t, marks);
  TABLE(uint8_t, burnt);
  TABLE(uint32_t, queue);
  TABLE(uint32_t, stack);
  TABLE(uint32_t, late);   // places that wait
  TABLE(uint64_t, hashes); // by value id, zero between two digests (rules_digest.c)
  TABLE(uint64_t, seen);   // digests of earlier turns
  uint32_t fuel;
  uint64_t fired;
  bool *recent, *hot; // by pass: fired in this turn; fired where much was rewritten
  bool *lost;         // by pass: had more ways than were tried
  bool *worn;         // by pass: would have fired in some graph after its budget was spent
  const struct pass_graphs *resting; // by pass: graphs in which it was worn before this run
  bool *stopped;                     // by graph: what it computes came round
  bool out_of_fuel, over_budget;
  bool is_late;      // what waited is being visited
  uint64_t *budgets; // by graph: rewrites of that which are left
  bool missed;       // a place that should be looked at again was not put down
};

static inline struct rules_value rules_unknown(void) {
  return (struct rules_value){.kind = RULES_UNKNOWN};
}
static inline struct rules_value rules_int(int64_t i) {
  return (struct rules_value){.kind = RULES_INT, .i = i};
}
static inline struct rules_value rules_list(const int64_t *list, uint32_t n) {
  return (struct rules_value){.kind = RULES_LIST, .n = n, .list = list};
}
static inline struct span rules_text(const struct rules_value *v) {
  return span_of(v->text, v->n);
}
static inline struct rules_value rules_tensor(uint32_t value) {
  return (struct rules_value){.kind = value == NO_ID ? RULES_ABSENT : RULES_TENSOR, .id = value};
}
static inline struct rules_value rules_term(uint32_t term) {
  return (struct rules_value){.kind = RULES_TERM, .id = term};
}
// A node of the model over these operands, for rules_fold. `args` is kept.
static inline struct rules_term rules_node_term(struct rules_run *run, uint32_t node,
                                                const struct rules_value *args, uint32_t n) {
  return (struct rules_term){.what = RULES_IS_NODE,
                             .op = kit_op(&run->k, node),
                             .args = args,
                             .n_args = n,
                             .attrs_of = node,
                             .recipe = NO_ID};
}
static inline bool rules_const(const struct rules_run *run, uint32_t value) {
  uint32_t tensor;
  return kit_constant(&run->k, value, &tensor);
}
// The cell of a word that may be a column.
static inline uint16_t rules_cell(const struct rules_run *run, uint16_t word) {
  if (!(word & RULES_COLUMN)) return word;
  const struct rules_rule *r = run->rule;
  return run->book->cells[r->cells + run->row * r->n_columns + (word & (RULES_COLUMN - 1u))];
}
// Is that operator, at the version of the graph at hand, what rules take it for? `first`: the dtype of
// its first operand.
static inline bool rules_floor(const struct rules_run *run, enum op op, enum dtype first) {
  if (kit_op_row(op)->domain != KIT_ONNX || run->opset >= run->book->floors[op]) return true;
  return run->opset >= run->book->real_floors[op] && dtype_is_float(first);
}
// The same of a node that a pattern has.
static inline bool rules_meant(struct rules_run *run, enum op op, uint32_t node) {
  if (run->rule->since && kit_op_row(op)->domain == KIT_ONNX) return run->opset >= run->rule->since;
  return rules_floor(run, op, DTYPE_UNDEFINED) ||
         rules_floor(run, op, kit_dtype(&run->k, kit_in(&run->k, node, 0)));
}

// ---- digests (rules_digest.c) ------------------------------------------------------------------

// Of what the graph at hand computes, whatever its inner values are called and in which order its nodes stand.
uint64_t rules_digest(struct rules_run *run);

// ---- matching (rules_match.c) -------------------------------------------------------------------

// Matches the rule at a node: the first way, or after a call that gave true the next. False: no
// more. `row` RULES_NOTHING: to be told from the pattern.
bool rules_match_first(struct rules_run *run, const struct rules_rule *rule, uint32_t row,
                       uint32_t node);
bool rules_match_next(struct rules_run *run);
// Are two attributes or lists equal? 1, 0, -1: not known.
int rules_equal(const struct rules_value *a, const struct rules_value *b);

// ---- evaluating (rules_eval.c; rules_functions.h) -----------------------------------------------

// Runs a program over the registers. UNKNOWN where something is not known or cannot be made.
struct rules_value rules_eval(struct rules_run *run, uint32_t program);
// 1, 0, -1: not known.
int rules_truth(const struct rules_value *v);

// ---- facts (rules_facts.c) ----------------------------------------------------------------------

// What holds of all elements of a constant that is not at hand. False: not known, or not yet (then it
// is noted in `wanted`). `multiples`: whether they are multiples of the finest one too.
bool rules_facts(struct rules_run *run, const struct rules_value *v, bool multiples,
                 struct tensor_stats *out);
// What a question has for an answer that is not known: what is assumed, if anything.
struct rules_value rules_assumed(const struct rules_run *run);
// The condition of the match at hand is not known, and questions are wanted: would it hold if all of
// them had one answer? Then they are put down to be asked.
bool rules_facts_decide(struct rules_run *run);
// The same of a result that could not be built: could it, if all of them were answered by yes?
bool rules_facts_complete(struct rules_run *run);
// Asks all that was put down. 1: something is known now that was not, 0: there was nothing to ask; -1
// with *err.
int rules_facts_ask(struct rules_run *run, struct err *err);

// ---- terms (rules_build.c, rules_fold.c) --------------------------------------------------------

// Of a TENSOR or TERM; all unknown for others. Dims lie in run->match.
struct rules_type rules_type_of(struct rules_run *run, const struct rules_value *v);
// Elements of a constant TENSOR or TERM in RAW form, if they are at hand.
bool rules_elements(struct rules_run *run, const struct rules_value *v, struct rules_type *type,
                    struct span *raw);
bool rules_is_constant(struct rules_run *run, const struct rules_value *v);
// Recipe of a constant's elements, NO_ID: none can be made.
uint32_t rules_recipe_of(struct rules_run *run, const struct rules_value *v);
// The integers of a constant TENSOR or TERM: kit_const_ints.
bool rules_constant_ints(struct rules_run *run, const struct rules_value *v, const int64_t **list,
                         uint32_t *n);
// An attribute that a node will be given; NULL: none of that name. And an int as the node will mean
// it: given, copied, or `fallback`, the operator's default. False: not known.
const struct edit_attr *rules_attr(const struct rules_term *node, const char *name);
bool rules_attr_int(struct rules_run *run, const struct rules_term *node, const char *name,
                    int64_t fallback, int64_t *out);
// New terms. `raw` is kept.
struct rules_value rules_new_const(struct rules_run *run, enum dtype dtype, const int64_t *dims,
                                   uint32_t rank, struct span raw);
// UNKNOWN for one that is too deep (RULES_DEEP, RULES_PARTS).
struct rules_value rules_new_recipe(struct rules_run *run, uint32_t recipe);
struct rules_value rules_new_ints(struct rules_run *run, const int64_t *list, uint32_t n);
struct rules_value rules_new_scalar(struct rules_run *run, enum dtype dtype,
                                    const struct rules_literal *number);
// A node of that operator, or what it folds to. UNKNOWN where it cannot be. Attributes as edit.h
// has them; `args` is copied.
struct rules_value rules_new_node(struct rules_run *run, enum op op, const struct rules_value *args,
                                  uint32_t n_args, uint32_t attrs_of, const struct edit_attr *attrs,
                                  uint32_t n_attrs);
// Takes the place of the node that was matched: makes the terms that the result is made of, and
// sweeps what nothing uses any more. False, and nothing changed, where it cannot be.
bool rules_place(struct rules_run *run, const struct rules_value *result);

// What an operator over constants becomes (rules_fold.c). FOLDED: *out. LEFT: it may stay a node.
// STUCK: it cannot be computed, or not as exactly as the rule says, and must not become a node of
// constants: the rule does not fire.
enum rules_folded { RULES_FOLDED, RULES_LEFT, RULES_STUCK };
enum rules_folded rules_fold(struct rules_run *run, const struct rules_term *node,
                             struct rules_value *out);
// The axes of a reduction of t as a set; how many elements come together. False: not known, or nothing is reduced.
bool rules_reduced_axes(struct rules_run *run, const struct rules_term *node,
                        const struct rules_type *t, uint64_t *axes, uint64_t *count);
// Resize of a constant (rules_fold_resize.c); UNKNOWN where it cannot be computed.
struct rules_value rules_fold_resize(struct rules_run *run, const struct rules_term *node);
// A node over what ConstantOfShape fills becomes a ConstantOfShape (rules_filled.c). False: it is no such node, and stays.
bool rules_fold_filled(struct rules_run *run, uint32_t node);
// The type of a node's output, as far as it follows.
struct rules_type rules_infer(struct rules_run *run, const struct rules_term *node);

// ---- steps (rules_steps.c) ----------------------------------------------------------------------

// What one recipe makes of constants whose dims are known: computed at once where all elements are
// at hand and the result has no more than so many bytes, else a recipe. UNKNOWN where there is no
// such recipe, or the rule at hand does not allow what it makes. Lists as recipe.h has them.
enum { RULES_FOLD_BYTES = 65536 };
struct rules_value rules_step_reshape(struct rules_run *run, const struct rules_value *of,
                                      const int64_t *dims, uint32_t rank); // as many elements
struct rules_value rules_step_transpose(struct rules_run *run, const struct rules_value *of,
                                        const int64_t *perm);
struct rules_value rules_step_slice(struct rules_run *run, const struct rules_value *of,
                                    const int64_t *starts, const int64_t *steps,
                                    const int64_t *dims);
struct rules_value rules_step_concat(struct rules_run *run, const struct rules_value *of,
                                     uint32_t n, uint32_t axis);
struct rules_value rules_step_pad(struct rules_run *run, const struct rules_value *of,
                                  const int64_t *befores, const int64_t *afters,
                                  struct span element);
struct rules_value rules_step_gather(struct rules_run *run, const struct rules_value *of,
                                     const struct rules_value *by, uint32_t axis);
struct rules_value rules_step_cast(struct rules_run *run, const struct rules_value *of,
                                   const struct recipe_conversion *c);
struct rules_value rules_step_map(struct rules_run *run, enum recipe_map_op op,
                                  const struct rules_value *of);
struct rules_value rules_step_reduce(struct rules_run *run, const struct rules_value *of,
                                     const struct recipe_reduction *q);
// zeros ABSENT: none.
struct rules_value rules_step_dequantize(struct rules_run *run, const struct rules_value *codes,
                                         const struct rules_value *scales,
                                         const struct rules_value *zeros, uint32_t axis,
                                         uint64_t block);
// Without recipes: small ones only. Broadcasts to dims that are wider or equal; the product of an
// array of matrices and one.
struct rules_value rules_step_expand(struct rules_run *run, const struct rules_value *of,
                                     const int64_t *dims, uint32_t rank);
struct rules_value rules_step_matmul(struct rules_run *run, const struct rules_value *of);

// ---- ranges (rules_range.c) ---------------------------------------------------------------------

// Have the results of arithmetic over n elements at hand a place in their type: finite where the operands are, and not
// below the normal numbers with digits lost? True of what the model computes itself.
struct kernels_operand;
bool rules_range_kept(const struct rules_run *run, enum recipe_map_op op, enum dtype t,
                      const struct kernels_operand *in, const uint8_t *raw, uint64_t n);
// The same of a sum of products that was rounded once; `terms`: of those that are finite, without their signs.
bool rules_range_of_sum(enum dtype t, double terms, double sum, double rounded);
// Will they have one, where not all elements are at hand? Asks (rules_facts).
bool rules_range_keeps(struct rules_run *run, enum recipe_map_op op, enum dtype t,
                       const struct rules_value *of);

// ---- numbers (rules_numbers.c) -----------------------------------------------------------------

// Element i as a double (floats) or as an int64 (integers, bool; uint64 by its bits), and back with
// one rounding, integers wrapped. Types: plain numbers (dtype.h).
double rules_number_least_normal(enum dtype t); // the least above 0 that has all digits of its type
double rules_number_get(enum dtype t, const uint8_t *raw, uint64_t i);
int64_t rules_number_get_int(enum dtype t, const uint8_t *raw, uint64_t i);
void rules_number_put(enum dtype t, uint8_t *raw, uint64_t i, double x);
void rules_number_put_int(enum dtype t, uint8_t *raw, uint64_t i, int64_t x);

#endif
