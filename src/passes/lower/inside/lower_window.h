// What a convolution and pooling have in common: a window that slides over the spatial axes, written as Im2Col, which
// gathers the elements of every window from a channels-last tensor.
//
//   x [N,C,I…] ─ Pad ─ Transpose [N,I'…,C] ─ Im2Col(index [O…,K…·C]) ─▶ [N,O…,K…·C]
//
// I' is I with its pads. The index says, for every place O… of the window, every place K… in it and every channel, which
// element of [I'…,C] stands there: a sum of one term for each axis, and so a recipe of any size that nobody ever holds.
#ifndef WEIR_LOWER_WINDOW_H
#define WEIR_LOWER_WINDOW_H

#include "passes/kit/kit.h"
#include "passes/questions/name_filter.h"

enum { LOWER_WINDOW_AXES = 6 }; // spatial ones, at most

struct lower_options {
  struct name_filter nodes;
  uint64_t index_limit; // bytes of one index
};
#define LOWER_OPTIONS                                                                              \
  .options = lower_window_rows, .n_options = 3, .options_bytes = sizeof(struct lower_options),     \
  .done = name_filter_done
extern const struct pass_option lower_window_rows[3];

// A constant that nodes of a graph share.
struct lower_shared {
  uint32_t graph, value;
  uint32_t next; // + 1: of the same recipe, in another graph
};

// One run of a pass of the family.
struct lower {
  struct kit k;
  const struct lower_options *options;
  TABLE(struct lower_shared, shared);
  TABLE(uint32_t, of_recipe); // by recipe id: the first in `shared`, + 1
};

// The window of one node. All numbers are below 2^31, and those of `out`, `in`, `kernel`, `strides` and `dilations` above 0.
struct lower_window {
  uint32_t rank; // spatial axes
  enum dtype dtype;
  struct model_dim batch; // as kit_dim
  int64_t channels;
  int64_t in[LOWER_WINDOW_AXES], out[LOWER_WINDOW_AXES];
  int64_t kernel[LOWER_WINDOW_AXES], strides[LOWER_WINDOW_AXES], dilations[LOWER_WINDOW_AXES];
  int64_t before[LOWER_WINDOW_AXES], after[LOWER_WINDOW_AXES]; // pads; what auto_pad makes of them
  int64_t beyond[LOWER_WINDOW_AXES]; // what the last window has behind these (ceil_mode)
};

// A pass of the family: calls `visit` for every node of the operator, after inference. `visit` gives the reason why the
// node stays, or NULL where it took its place.
int lower_window_walk(struct pass_env *env, const struct lower_options *options, enum op op,
                      const char *(*visit)(struct lower *l, uint32_t node), struct err *err);

// Fills *w for a node whose first input and output are [N,C,…]. NULL, or a stable word: what is not known, or cannot be
// written so.
const char *lower_window_of(struct kit *k, uint32_t node, struct lower_window *w);

// How many elements of the input the window's place `at` along the axis has; `pads`: those of the pads too.
int64_t lower_window_count(const struct lower_window *w, uint32_t axis, int64_t at, bool pads);

// Has every place of the window an element of the input?
bool lower_window_is_filled(const struct lower_window *w);

// Can the index of so many channels be written, and how many bytes has it?
bool lower_window_index_fits(const struct lower_window *w, int64_t channels, uint64_t limit);

// Do the pads of one element of the batch fit in so many bytes? What no runtime can allocate is better not written: a Conv
// makes no tensor of its pads.
bool lower_window_pads_fit(const struct lower_window *w, uint64_t limit);

// The parts, before k->before. x padded with the element, if there is something to pad, and transposed.
uint32_t lower_window_last(struct lower *l, const struct lower_window *w, uint32_t x,
                           double element);
uint32_t lower_window_index(struct lower *l, const struct lower_window *w, int64_t channels);
uint32_t lower_window_columns(struct kit *k, const struct lower_window *w, uint32_t x,
                              uint32_t index);
// The node's place is taken by a Transpose of `last`, whose channels become axis 1 again.
void lower_window_back(struct kit *k, const struct lower_window *w, uint32_t node, uint32_t last);

// Constants of the graph at hand, each made once: of a recipe, and a list.
uint32_t lower_window_constant(struct lower *l, const char *what, uint32_t recipe);
uint32_t lower_window_ints(struct lower *l, const char *what, const int64_t *list, uint32_t n);
int64_t lower_window_product(const int64_t *list, uint32_t n);

#endif
