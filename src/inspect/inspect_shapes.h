// What is known of every value before the model runs, one value at a time.
//
// Values are the inputs of the main graph and what the nodes of it and of its subgraphs make; those of functions mean
// another thing in every call.
#ifndef WEIR_INSPECT_SHAPES_H
#define WEIR_INSPECT_SHAPES_H

#include "infer/infer.h"
#include "model/model.h"

struct inspect_value {
  uint32_t value;
  struct infer_type type;
  const char *const
      *dims;       // their texts, if it is ranked; one that only the run will tell has a '?'
  const char *why; // the code of the reason why not all is known; NULL: all is
};

struct inspect_shapes {
  const struct model *m;
  struct infer *infer;                  // for more: elements (infer_numbers)
  uint64_t values, whole, ranked, none; // that were told; whole: every dim is known; none: no rank
  uint64_t why[INFER_WHYS];
};

// Infers the model's values. inspect_shapes_done frees what it took.
void inspect_shapes_init(struct inspect_shapes *s, const struct model *m);
void inspect_shapes_done(struct inspect_shapes *s);
// Calls `tell` for each value, until it gives false, and sums up. *v lives as long as the call.
void inspect_shapes_each(struct inspect_shapes *s,
                         bool (*tell)(void *ctx, const struct inspect_value *v), void *ctx);

// The element of a small value as text: "N", "(t + 1)//2", "0.5", "(N)/2", "?"; and the kind of a type: "float", "sequence"; NULL: not known.
const char *inspect_shapes_element(const struct inspect_shapes *s, struct infer_number e,
                                   struct arena *a);
const char *inspect_shapes_kind(const struct infer_type *t);

#endif
