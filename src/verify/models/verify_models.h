// Room: verification of whole models. verify_models.c describes it; here is what its files share. Callers use verify.h,
// which declares verify_models.
#ifndef WEIR_VERIFY_MODELS_H
#define WEIR_VERIFY_MODELS_H

#include "infer/infer.h"
#include "verify/arrays/array_files.h"
#include "verify/models/verify_random.h"
#include "verify/run/verify.h"
#include "verify/run/verify_top1.h"

// A model as far as its metadata goes.
struct verify_side {
  const char *path;
  struct sources *sources;
  struct model model;
  struct arrays *results; // by case
  const char **why;       // by case: it did not run; NULL
  bool lacks_kernel;      // the runtime has none for an operator
  enum dtype half;        // that its nodes compute in; UNDEFINED
};

struct verify_run {
  struct verify *v;
  bool allow_links;
  struct verify_side side[2]; // source, result
  struct infer *infer;        // of the source
  struct infer *infer_result; // once it was wanted
  struct array_files *files;
  struct array_case *cases;
  uint32_t n_cases;
  const char **undrawn; // by case: why there are no inputs for it; NULL: all were given
  struct verify_bounds bounds;
  struct compare_bounds judged;
  // The models alone say that something was lost: outputs that all meet these bounds show that nothing was. No words: not asked.
  struct verify_bounds equal;
  uint32_t n_unequal;             // outputs that do not
  uint32_t first_row;             // of this run in `found`
  bool given, theirs;             // inputs; bounds, by the user
  bool loses;                     // so that `unjudged` counts, if the bounds are not theirs
  const char *unjudged;           // why numbers are not judged; NULL: they are
  struct verify_output *outputs;  // of the source
  struct verify_output *expected; // the same of what is expected of it
  struct verify_output *listed;   // and of what a pipeline expects of the result
  struct verify_random random[2]; // of the source; of the result, where the source draws numbers
  uint8_t *wholes; // by output of the source: 1 + enum verify_whole; 0: not asked yet
  // By output of the source: 1 + does it store whole numbers as floats; 0: not asked yet.
  uint8_t *stored;
  struct verify_places *places; // verify_places.c; NULL: not asked yet
};

struct verify_output_row {
  uint32_t row;             // of `found`
  struct compare_rows rows; // of this case
  const struct verify_output_row *before;
};

// An output in all cases.
struct verify_output {
  enum verify_top1 top1;
  double least; // bound of the user's; NaN: none
  struct compare_rows rows;
  uint32_t last, worst; // row of `found`: the last one, and that in which most rows changed; NO_ID
  double most;          // the share that changed there
  const struct verify_output_row *rows_of; // the last one in `found`; NULL: it has none
  bool whole; // of whole numbers (a length, a shape): where all are equal, no rows are wanted
};

// Were the arrays listed by a pipeline? Those of the command line count for more.
bool verify_models_listed(const struct verify_options *o);

// verify_cases.c: what the models are given. find: every case with inputs of its own, given or drawn. inferred: of a whole model.
// cast: the elements in another float type; *to stays in *a.
struct infer *verify_cases_inferred(const struct model *m);
int verify_cases_find(struct verify_run *r, struct err *err);
int verify_cases_cast(const struct array *x, enum dtype dtype, struct arena *a, struct array *to,
                      struct err *err);

// The inputs of a case in the types that the model takes, as far as these are known; in *a.
int verify_models_cast(const struct arrays *from, const struct runtime_model *model,
                       struct arena *a, struct arrays *out, struct err *err);

// verify_rows.c: what they give, judged: a row for each output of each case. begin: once the source has run, before any other.
// case, expected, listed, metrics: the rows of one case. end: top-1, by the rows of all cases.
void verify_rows_begin(struct verify_run *r);
int verify_rows_case(struct verify_run *r, uint32_t i, struct err *err);
int verify_rows_expected(struct verify_run *r, uint32_t i, struct err *err);
int verify_rows_listed(struct verify_run *r, uint32_t i, struct err *err);
int verify_rows_metrics(struct verify_run *r, uint32_t i, struct err *err);
void verify_rows_end(struct verify_run *r);

// ---- layer by layer (verify_layers.c) ----
//
// The values that both models have under one name, as further outputs of both, a chunk at a time. Shows where an error comes
// from and how it grows.

struct verify_layers {
  struct verify *v;
  const struct model *source, *result;
  const char *paths[2];
  struct infer *infer; // of the source
  const struct arrays *inputs;
};

// Adds to v->found.layers, in the order of the source's graph. A chunk that one of the models does not run with is left
// out, with a notice.
int verify_layers_run(const struct verify_layers *l, struct err *err);

// ---- outputs that hold places (verify_places.c) ----
//
// An ArgMax, ArgMin or TopK found them. The distance of two places means nothing: they are near each other if the elements at
// them are.

struct verify_places;
// Is output `place` of the source one of these, with the places in the order in which its node found them?
bool verify_places_has(struct verify_run *r, uint32_t place);
// Were they found among whole numbers? These may be a step apart too.
bool verify_places_step(struct verify_run *r, uint32_t place);
// *near: for each pair of places in `a` and `b`, are the elements there within a relative error of `most`? The source runs once more on
// that case; *near is false if it does not run. Both arrays have the same dims; their types may be two types of floats.
// -1: stopped, or something could not be read.
int verify_places_near(struct verify_run *r, const struct array_case *c, uint32_t place,
                       const struct array *a, const struct array *b, double most, bool *is_near,
                       struct err *err);
void verify_places_close(struct verify_places *p); // may be NULL

#endif
