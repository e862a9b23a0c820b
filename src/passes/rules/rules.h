// Room: the rewrite engine: rules of one line each, run to a fixpoint over every graph, subgraph and
// function body of a model.
//
//   tidy/mul-one exact : Mul(x,1)@o -> expand(x,o) ;
//
// The language is README.md beside this file; compile_rules.py makes a book of tables of *.rules
// files at build time. The house's own book is rules_house. Results are one for one model: nodes
// are visited in topological order, rules tried in the order of the files, operands of commutative
// operators left first.
#ifndef WEIR_RULES_H
#define WEIR_RULES_H

#include "passes/exactness.h"
#include "passes/pass.h"
#include "passes/questions/name_filter.h"

struct kit;
struct rules_book;
extern const struct rules_book rules_house;

// ---- what there is in a book --------------------------------------------------------------------

struct rules_about {
  const char *name, *summary; // "tidy/identity"
  const char *keys;           // the sets it belongs to, separated by blanks
  enum exactness exactness;   // of its least exact rule
};
uint32_t rules_n_passes(const struct rules_book *book);
struct rules_about rules_about(const struct rules_book *book, uint32_t pass);
// NO_ID for a name that no pass has.
uint32_t rules_named(const struct rules_book *book, struct span name);
// Where the first rule of a pass stands. Passes with the same place come from one template.
const char *rules_template(const struct rules_book *book, uint32_t pass);

// The rules in the order of their files: "tidy.rules:12". One that is written for several operators
// may be several.
uint32_t rules_count(const struct rules_book *book);
const char *rules_place_of(const struct rules_book *book, uint32_t rule);

// ---- a run --------------------------------------------------------------------------------------

struct rules_counts {
  uint64_t fired;
  uint64_t held; // sites where it would have fired, but is less exact than the cap
  // Graphs where it would have fired on and on at the same places, and was stopped, or where a rule that fires once
  // did. It fires in none that is in here before the run. In env->scratch where the run adds one.
  struct pass_graphs worn;
};

struct rules_options {
  const bool *passes; // by number, which may fire; NULL: all
  // By number, of which nodes: the one that a rule is about must be included, and none that its
  // pattern has be excluded. Where a rule would have fired, the site is skipped. NULL, here or for a
  // pass: any.
  const struct name_filter *const *filters;
  enum exactness cap;          // what is less exact is held back and counted
  bool infers;                 // types and shapes are inferred first, where no pass before did
  bool once;                   // one walk: no second look at what was visited before
  uint32_t fuel;               // rewrites at one place; 0: RULES_FUEL
  struct rules_counts *counts; // by pass, added to; may be NULL
  uint64_t *by_rule;           // how often each rule fired, added to; may be NULL
  uint64_t *steps;             // what matching cost, in words of patterns, added to; may be NULL
};
enum { RULES_FUEL = 64 };

// Rewrites the model until no rule fires. Every rewrite is a group of edits and a converted site,
// both named after its pass. Where rules undo one another it stops and warns, naming them: when the
// outputs are what they were after an earlier round, or when one place was rewritten `fuel` times,
// or when all places of a graph that were rewritten before took a number of rewrites for each of its nodes.
// `name` is the whole run's, and kept. -1 if a weight could not be read.
int rules_run(const struct rules_book *book, struct pass_env *env, const char *name,
              const struct rules_options *options, struct err *err);

// ---- constants without rules ---------------------------------------------------------------------

struct rules_fold_limits {
  uint64_t bytes; // a result may have so many, or as many as the constants that go with its node
  const struct name_filter *nodes;
};

// Replaces nodes of ai.onnx over constants by constants, as far as env->exactness allows what they compute: recipes,
// for which nothing is read. Not DequantizeLinear.
int rules_fold_constants(struct pass_env *env, const struct rules_fold_limits *limits,
                         struct err *err);

// ---- constants of constants, for passes in C -------------------------------------------------------

// Recipes: elements are computed at once where all are at hand and the result is small, as rules do it. NO_ID
// where there is no such recipe, as for a slice that is not within its axis.
uint32_t
rules_constant(struct kit *k,
               uint32_t value); // of a constant value: with its elements where they are at hand
uint32_t rules_constant_slice(struct kit *k, uint32_t of, uint32_t axis, int64_t start,
                              int64_t count);
uint32_t rules_constant_concat(struct kit *k, const uint32_t *of, uint32_t n, uint32_t axis);
uint32_t rules_constant_expand(struct kit *k, uint32_t of, const int64_t *dims, uint32_t rank);
uint32_t rules_constant_reshape(struct kit *k, uint32_t of, const int64_t *dims, uint32_t rank);

#endif
