// What a verification found: built once, rendered as text, JSON (docs/schema/verify.json) and HTML.
#ifndef WEIR_VERIFIED_H
#define WEIR_VERIFIED_H

#include "base/table.h"
#include "verify/compare/compare.h"

enum verified_end {
  VERIFIED_PASSED,
  VERIFIED_FAILED,
  VERIFIED_NOT,      // it was not looked at: `why` says why
  VERIFIED_UNJUDGED, // it has figures, but no bound for them: `why`
};

// A site (scope sites), or an output of a case (scope model).
struct verified_row {
  const char *name;   // of the site or the output, for people
  const char *of;     // the passes and rules of the site, joined by ", "; or the case
  const char *bounds; // what was asked: "equal", "max abs 3e-05, mean abs 2e-06"
  enum verified_end end;
  struct compare_figures figures; // of the worst output; count 0: there are none
  const char *why;                // NULL where it passed
  bool stopped;                   // a model or part does not run on these inputs
  bool unmet;                     // NOT, and a bound that was asked for could not be judged
  // FAILED: the edit group that alone is at fault, as "group 17 (fuse/bn)"; NULL: not known.
  const char *fault;
  // Its passes store less or quantize, so that how much is lost may be a matter of taste.
  bool loses;
  // A site that failed by the sums of int8 products that this processor cuts off (verify_products.h);
  // PASSED: with whole ones it did not.
  bool cut_off;
  // A site that failed by activations that an optimized session rounds (verify_rounded.h); PASSED:
  // without that it did not.
  bool rounded;
  bool output;                      // of whole models; else a site
  bool listed;                      // compared with reference.out of a pipeline
  bool drawn;                       // its inputs were; those of sites always are
  uint64_t top1_rows, top1_changed; // of an output, in all cases; 0: top-1 is not told of this row
  uint64_t top1_ties; // rows that do not count: their two largest elements are too close
  uint64_t case_rows,
      case_changed; // of this case alone, where top-1 is told of a row of the output
  bool top1_asked;  // of the row that tells of it: by a bound, top1_least
  double top1_least;
  double seconds; // of both runs
  bool has_value; // it is a metric of the task
  double value;
};

// A value that both models have, in the order of the graph (--layers).
struct verified_layer {
  const char *node;  // the node people know: /layers.3/self_attn/linear_out/MatMul
  const char *value; // the tensor
  struct compare_figures figures;
};

struct verified {
  const char *scope;   // "sites", "model"
  const char *runtime; // version
  // The pass whose result was compared with, since no runtime has this operator of the source; NULL: the source was.
  const char *against, *lacking;
  bool cuda; // that computed; else the processor
  // How inputs were drawn.
  struct {
    uint64_t seed;
    const int64_t *lengths; // that were asked for; in the options
    uint32_t n_lengths;
    const char *sizes; // "batch=1, time=64"; NULL
  } drawn;
  TABLE(struct verified_row, rows);
  TABLE(struct verified_layer, layers);
  uint64_t n_passed, n_failed, n_not, n_unjudged;
  // Something computes in float16 or bfloat16, and the runtime did not round to it.
  bool half_unseen;
  // An optimized session cuts off sums on this processor, which the runs that were made do not (verify_products.h).
  bool products_unseen;
  // Of whole models, optimized: nodes of the result whose activations the session rounds to 8 bits (verify_rounded.h); and whether
  // weir turned that off, since passes that lose nothing are judged.
  uint64_t n_rounded;
  bool kept_floats;
  // Why the second of two models counts as a lossy result of the first; NULL: it does not, or
  // passes are known.
  const char *lossy;
  bool lossy_more; // both are quantized: the last line says why
  uint64_t n_left; // sites that were left out (--sites, verify: off): they have no row
  // Everything that no edit is about, compared with the source (verify_rest.c): how much differs, and the first in words.
  struct {
    bool asked;
    uint64_t differs;
    const char *first, *of; // of: base name of the source
  } rest;
  uint64_t peak_memory[2]; // bytes: of weir, and of weir-ort, all of its processes together
  uint32_t n_helpers;      // processes of weir-ort after the first
  double seconds;
  struct arena arena;
};

// Counts a row whose end is known.
void verified_count(struct verified *v, enum verified_end end);
uint64_t verified_all(const struct verified *v);
// What n of its rows are called: "outputs".
const char *verified_things(const struct verified *v, uint64_t n);

// What was shown, beyond how many passed.
struct verified_shown {
  // Sites whose passes lose passed, and no output of whole models on given inputs: accuracy was not
  // measured.
  bool as_computed;
  bool on_drawn; // outputs that lose passed, by bounds of the user, on inputs that were drawn
  // Why the first of those was not judged, or the first with elements that are not finite any more;
  // NULL: all were.
  const char *unjudged;
  uint64_t cut_off;                // sites that passed with whole sums alone
  uint64_t rounded;                // sites that passed without rounded activations alone
  const struct verified_row *top1; // of which top-1 changes most, below TOP1_TOLD; NULL: none
};
struct verified_shown verified_shown(const struct verified *v);
// " (24 ties left out)", for what follows a share of rows; empty: there are none.
struct verified_ties {
  char s[48];
};
struct verified_ties verified_ties(uint64_t n);
// An output of a model that a pass which loses has made failed for its numbers.
bool verified_differs(const struct verified_row *r);
// The verdict of a row: "passed", "failed", "differs", "not verified", "not judged".
const char *verified_word(const struct verified_row *r);

#endif
