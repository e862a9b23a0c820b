// Room: type and shape inference: the type of every value before the model runs, its dims as expressions of the
// inputs' symbols, the elements of small values.
//
//   x float[1,128,t] ── Conv s=2 ──▶ float[1,256,(t + 1)//2] ── Shape ── Gather(2) ──▶ int64[] {(t + 1)//2}
//
// Every operator has a rule (its row in the table of operators names it: src/schema/*.ops,
// infer_rules.def). Nothing is guessed: what a rule gives holds in every run of the model that ends
// without an error, for all inputs that fit the declarations of the graph's inputs. Where it cannot
// say more, a dim is a symbol of its own, or the value's rank is not known; then there is a reason.
//
// Facts lie in a side table by value id, which no file and no log ever sees. Nodes that passes made
// since are inferred by infer_more. Rows are never
// wrong about a value that lives: ids are never given again, and what a pass makes of a value means
// the same.
//
// Linear in nodes; bodies and functions are entered with a stack of our own. Bodies of Loop and
// Scan are walked five times at most (ROUNDS of rules_control.c), a function once for every kind of
// call of it.
#ifndef WEIR_INFER_H
#define WEIR_INFER_H

#include "dims/dims.h"
#include "model/model_types.h"

// What becomes of the shapes that the model declares for what nodes make. REFINE: both count; where
// they contradict each other, inference. KEEP: declarations win. OVERRIDE: they are not looked at.
// FACTS: a declaration makes no dim known (an exporter wrote it about one run, perhaps), only the
// dtype, and the rank where inference found none that is not up to the data. Who changes what a model
// computes asks for these; the others are for who writes declarations or shows them.
// Declarations of inputs always hold.
enum infer_declared { INFER_REFINE, INFER_KEEP, INFER_OVERRIDE, INFER_FACTS };

struct infer_options {
  enum infer_declared declared;
  int64_t least_dim; // no dim of an input is less, where it is not a number: 1, or 0
  // A Slice that ends here or behind ends where its axis does, and Min with a larger number is its other operand;
  // INT64_MAX: none.
  int64_t to_end;
  // What an operator without a rule makes has the type of its first input, and its rank.
  bool guess_rank;
};

enum infer_kind { INFER_TENSOR, INFER_SEQUENCE, INFER_OPTIONAL, INFER_OTHER };

// A type. Of sequences and optionals: of what they hold.
struct infer_type {
  enum infer_kind kind;
  enum dtype dtype; // UNDEFINED: not known
  bool ranked;
  uint32_t rank;
  const dim_id *dims;
};

// An element of a small value: a number as an expression over a whole divisor, so that shapes may be
// computed in floats. Booleans are 0 and 1. num NO_ID: not known.
struct infer_number {
  dim_id num;
  int64_t den; // > 0
};

// Why not all is known of a value.
enum infer_why {
#define INFER_WHY(id, code, words) INFER_WHY_##id,
#include "infer/infer_why.def"
  INFER_WHYS,
};
const char *infer_why_code(enum infer_why why);
const char *infer_why_words(enum infer_why why);

struct infer;

// The model is kept; `o` NULL: {INFER_FACTS, 1, INT64_MAX, false}. Nothing is inferred yet.
struct infer *infer_new(const struct model *m, const struct infer_options *o);
void infer_free(struct infer *in);

// Sets the dims of an input of the main graph, before infer_all: for --set-shape. False: the declared ones
// contradict them.
bool infer_set_input(struct infer *in, uint32_t value, const dim_id *dims, uint32_t rank);

// Infers the whole model. A contradiction between declarations and inference is told to `told`, which
// may be NULL, as is a node whose inputs its operator cannot take: when all is inferred, in the order
// in which they were met.
struct infer_told {
  void (*say)(void *ctx, uint32_t node, uint32_t value, const char *sentence);
  void *ctx;
  // Of a declared dtype that is another one; NULL: say.
  void (*mistyped)(void *ctx, uint32_t node, uint32_t value, const char *sentence);
};
void infer_all(struct infer *in, const struct infer_told *told);
// The nodes that came since, or whose values have no row; their order does not matter.
void infer_more(struct infer *in);
// Is a declared dim against what was found: never equal, or a number where the dim follows from dims of
// inputs that are none?
bool infer_is_against(struct infer *in, dim_id found, dim_id said);
// The words for it, of both as texts (dims_text).
void infer_is_against_words(char *sentence, size_t room, struct span said, struct span found);
// The values whose declared dims or rank infer_all found to be wrong, in order; each once.
const uint32_t *infer_misdeclared(struct infer *in, uint32_t *n);
// Has a Loop, the node, no trip in some run, as far as is known?
bool infer_may_be_idle(struct infer *in, uint32_t loop);
// From now on as with FACTS. False: a declaration has made something known that FACTS leaves open.
bool infer_keep_facts(struct infer *in);

// A question: before infer_all, on a table of its own. Takes it that a value of one element, which a node makes,
// is that, and says afterwards whether some node of the same graph cannot take what it is then given: then no
// run that gets there and ends without an error has it.
void infer_assume(struct infer *in, uint32_t value, bool is);
bool infer_contradicted(const struct infer *in);

// What is known of a value; false if nothing is. The dims belong to the table and stay where they are.
bool infer_type_of(struct infer *in, uint32_t value, struct infer_type *out);
// The elements of a small one in row-major order, n of them, some of them perhaps unknown. False:
// there is no such list. Until the next call that infers.
bool infer_numbers(struct infer *in, uint32_t value, const struct infer_number **list, uint32_t *n);
enum infer_why infer_why(const struct infer *in, uint32_t value);
// Can the node not run with its inputs, in any run that gets there?
bool infer_cannot_run(const struct infer *in, uint32_t node);
// Does the value lead to such a node in a body? A runtime that knows as little of it as before loads the model as before, and
// one that knows more may refuse it: who would tell the runtime more by what is known of the value leaves it alone.
bool infer_leads_to_stuck(struct infer *in, uint32_t value);
// The same of its dims alone: the runtime reads the declarations too, so dims that are declared as they are known tell nothing.
bool infer_dims_lead_to_stuck(struct infer *in, uint32_t value);

struct dims *infer_dims(struct infer *in);
// What a declared dim means. NO_ID: an anonymous one.
dim_id infer_declared_dim(struct infer *in, struct model_dim d);

// Puts what is known of values, and is not in the table yet, into `t`: what passes ask (kit.h). Dims that are
// no numbers are symbols there, named by the text of their expression; equal names, equal dims.
void infer_fill(struct infer *in, struct model *m, struct model_types *t);
// The next infer_fill puts all of it into its table, which is another one.
void infer_fill_anew(struct infer *in);

// Nodes visited so far, rows given to infer_fill, and bytes held by the table: for tests of what must stay linear.
uint64_t infer_visits(const struct infer *in);
uint64_t infer_fills(const struct infer *in);
uint64_t infer_bytes(const struct infer *in);

#endif
