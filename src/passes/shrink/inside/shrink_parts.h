// What the files of the pass `shrink` share. For them only.
#ifndef WEIR_SHRINK_PARTS_H
#define WEIR_SHRINK_PARTS_H

#include "passes/kit/kit.h"
#include "passes/kit/weights.h"
#include "passes/shrink/shrink.h"

enum { SHRINK_BROADCAST_OPSET = 7, SHRINK_DEQUANTIZE_OPSET = 10 };

struct shrinking {
  struct kit k;
  const struct shrink_options *options;
  bool adds; // new initializers were made
};

// shrink_quantize.c: one weight of at least SHRINK_MIN_ELEMENTS to codes and what turns them back.
// Why it cannot be, a stable word, or NULL.
const char *shrink_quantize_obstacle(const struct shrinking *s, const struct weight *w);
// How the weight is to be quantized under the options (float_weights too).
struct recipe_quantization shrink_quantize_format(const struct shrinking *s,
                                                  const struct weight *w);
// `of`: the recipe of its elements.
void shrink_quantize_weight(struct shrinking *s, const struct weight *w, uint32_t of,
                            const struct recipe_quantization *q);

// shrink.c: a weight whose place another tensor takes, of its dtype or another: in place where its
// name is a promise, else as a new initializer called by the weight's name and `suffix`.
void shrink_exchange(struct shrinking *s, const struct weight *w, uint32_t recipe,
                     const char *suffix);
// What new tensors of a weight are called by: a Constant's node name, else the value's.
struct span shrink_base_name(const struct shrinking *s, const struct weight *w);

// Is it one that the method takes?
bool shrink_takes(struct shrinking *s, uint32_t tensor, struct weight *w);

// shrink_axes.c: finds out the axes for per_channel, by one stage over the weights; they lie in *a.
int shrink_axes(struct shrinking *s, struct shrink_options *options, struct arena *a,
                struct err *err);

// shrink_widen.c: all of f16_to_f32.
int shrink_widen_model(struct shrinking *s, struct err *err);

#endif
