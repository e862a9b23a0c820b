// The model as edited -> the bytes of its .onnx, as a rope.
#ifndef WEIR_EMIT_H
#define WEIR_EMIT_H

#include "placement.h"
#include "rope.h"

// The whole ModelProto. What no edit and no placement touched is a copy of its source bytes.
struct rope emit_model(struct rope_pool *pool, const struct model *m, const struct placement *x);

#endif
