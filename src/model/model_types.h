// What is known of values' types beside the model's own declarations: a side table that passes and
// inference fill, and that no file and no log ever sees.
//
// A row says of one value what its dtype is and, where it is ranked, its dims. Rows are never wrong
// about a value that lives: a value id is never given again, and what a pass makes of a value means
// the same. Who changes a value's type notes the new one.
#ifndef WEIR_MODEL_TYPES_H
#define WEIR_MODEL_TYPES_H

#include "model/model.h"

// A type as it is known. dtype UNDEFINED: not known. Not ranked: rank 0 and no dims. Dims are in one
// of two forms: `dims` (numbers and symbols) or `sizes` (all static).
struct model_type {
  enum dtype dtype;
  bool ranked;
  uint32_t rank;
  const struct model_dim *dims;
  const int64_t *sizes;
};

// Dim i of a ranked type. What is nowhere known is {-1, NO_ID}; an anonymous unknown too.
struct model_dim model_type_dim(const struct model *m, const struct model_type *t, uint32_t i);

struct model_types_row {
  uint32_t dims; // first in t->dims
  uint16_t rank;
  uint8_t dtype;
  bool ranked;
};

struct model_types {
  TABLE(struct model_types_row, rows);
  TABLE(struct model_dim, dims);
  TABLE(uint32_t, of); // by value id: row + 1
};

// Starts zeroed.
void model_types_done(struct model_types *t);

// What is known of a value: its constant's own type; what was noted; its declarations. Of several
// declarations the one that knows most dims counts. An initializer that callers may override has
// the type that its input declares. The dims belong to the model or the table: valid until either
// grows. False if nothing is known (then *out is all unknown). `t` may be NULL.
bool model_types_get(const struct model_types *t, const struct model *m, uint32_t value,
                     struct model_type *out);
// Notes a type. What the new one leaves open and what was known before stays: dtype, rank, single
// dims; where both know, the new one holds. Dims may lie in the model or the table.
void model_types_note(struct model_types *t, const struct model *m, uint32_t value,
                      const struct model_type *type);
// The same of what inference found, which has looked at the declarations: of these only the dtype counts.
void model_types_found(struct model_types *t, const struct model *m, uint32_t value,
                       const struct model_type *type);

#endif
