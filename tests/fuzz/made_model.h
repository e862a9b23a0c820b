// Models that fuzz targets make of bytes. The same bytes, the same model.
#ifndef WEIR_MADE_MODEL_H
#define WEIR_MADE_MODEL_H

#include "model_builder.h"

struct made_bytes {
  const uint8_t *at, *end;
};

// The next byte, below n (0: any); 0 if there is none.
uint32_t made_choose(struct made_bytes *in, uint32_t n);
// A model that begins *m, of what is left of the bytes; to be given to model_free. Names, types and counts may be
// anything that the tables can hold. `rewritten`: half of the nodes are of operators that passes look for, each
// mostly over what the one before it made.
void made_model(struct model *m, struct made_bytes *in, bool rewritten);

#endif
