// Which values of a model calibration looks at: every float that a node of the main graph makes, or that the model is given.
#ifndef WEIR_CALIBRATE_VALUES_H
#define WEIR_CALIBRATE_VALUES_H

#include "infer/infer.h"
#include "model/model.h"

// What is wanted beside ranges: of what a MatMul, Gemm or Conv with a constant weight reads.
enum calibrate_statistics { CALIBRATE_RANGES, CALIBRATE_CHANNELS, CALIBRATE_GRAM };

struct calibrate_value {
  uint32_t value;   // of the model
  const char *name; // its own
  // FLOAT, FLOAT16, BFLOAT16, DOUBLE; UNDEFINED: inference does not know it, the runtime will.
  enum dtype type;
  uint32_t same;   // which earlier one of the list has the same elements in the same order; NO_ID
  bool input;      // of the model: its elements are those of the samples
  bool output;     // of the model
  bool checked;    // a NaN may come about here. Of the others none has one where no value has
  bool by_channel; // along `axis`
  bool gram;
  int32_t axis;  // below 0: from the end
  uint32_t rank; // NO_ID: not known
};

enum calibrate_why {
  CALIBRATE_IN_BODY,
  CALIBRATE_IN_FUNCTION,
  CALIBRATE_EXCLUDED,
  CALIBRATE_INFINITE,
  CALIBRATE_WHYS
};
// "in_subgraph" and so on; and in words: "in the body of an If, Loop or Scan".
const char *calibrate_why_code(enum calibrate_why why);
const char *calibrate_why_words(enum calibrate_why why);

struct calibrate_uncovered {
  const char *name;
  enum calibrate_why why;
};

struct calibrate_values {
  TABLE(struct calibrate_value, list); // in the model's order, inputs first
  TABLE(struct calibrate_uncovered, uncovered);
  uint32_t *place; // by value of the model: 1 + where it is in the list; 0: it is not
  struct arena arena;
};

// `in`: inferred. excluded: patterns of names that are left out (globs).
void calibrate_values_find(struct calibrate_values *v, const struct model *m, struct infer *in,
                           enum calibrate_statistics statistics, const char *const *excluded,
                           uint32_t n_excluded);
void calibrate_values_free(struct calibrate_values *v);
// Those whose type the runtime knows to be no float go.
void calibrate_values_drop(struct calibrate_values *v);

#endif
