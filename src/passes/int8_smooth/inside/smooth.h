// Room: SmoothQuant: which activations are divided, by which factors, and which node takes the factors.
#ifndef WEIR_SMOOTH_H
#define WEIR_SMOOTH_H

#include "passes/kit/kit.h"
#include "passes/questions/compat.h"
#include "passes/questions/name_filter.h"
#include "ranges/ranges.h"

struct smooth_options {
  struct name_filter nodes;
  const char *ranges;
  double alpha;
  bool is_auto;       // alpha is to be found, site by site
  bool no_folding;    // a Mul everywhere
  enum compat compat; // as ONNX Neural Compressor
};

// A node that multiplies a value with a constant weight.
struct smooth_use {
  uint32_t node, site;
  uint32_t weight; // value in slot 1
  uint32_t axis;   // of the weight: that of the value's channels
  uint32_t next;   // of the same site; NO_ID ends it
  uint32_t tensor; // of the weight, when `same` is found
  uint32_t same;   // the first of the site that has this weight, along this axis
};

// A value, and the nodes of one graph that read it so.
struct smooth_site {
  uint32_t value, graph;
  int32_t axis; // of its channels, from the end: -1 is the last
  uint32_t channels;
  enum dtype dtype;
  uint32_t first, last, n; // uses
  uint32_t next;           // site of the same value + 1
  // By channel: of x, of |x|, and the mean of |x| (NULL: RANGES does not say it).
  const float *least, *most, *largest, *mean;
  float alpha;
  uint32_t scales; // recipe, float32 [channels]: x is divided by these; NO_ID: there is none
};

struct smooth {
  struct kit k;
  const struct smooth_options *options;
  const struct ranges *ranges;
  TABLE(struct smooth_use, uses);
  TABLE(struct smooth_site, sites);
  TABLE(uint32_t, of_value); // by value: its newest site + 1
  struct arena arena;        // of the run
};

// ---- smooth_scales.c ---------------------------------------------------------------------------

// What RANGES says of the value by channel: of its own name, or of that which it was made of by nodes that move elements and
// keep channels whole. NULL, or a stable word. Fills least, most, largest and mean.
const char *smooth_statistics(struct smooth *s, struct smooth_site *site);
// The scales of a site by its alpha, as a recipe, or NO_ID: it would be too deep.
uint32_t smooth_scales(struct smooth *s, const struct smooth_site *site);
// The formula alone: of the largest |x| by channel, a recipe, and the site's weights.
uint32_t smooth_formula(struct smooth *s, const struct smooth_site *site, uint32_t a, float alpha);

// ---- smooth_auto.c -----------------------------------------------------------------------------

// Finds each site's alpha. -1: the stage failed.
int smooth_auto(struct smooth *s, struct err *err);
// What reports say of a site: "smoothed_0.45", "smoothed_folded_0.45".
const char *smooth_auto_word(float alpha, bool folded);

// ---- smooth_fold.c -----------------------------------------------------------------------------

// Divides the value by the site's scales in what makes it, with constants that have them in. False, and nothing changed, where
// that cannot be.
bool smooth_fold(struct smooth *s, const struct smooth_site *site);

// ---- smooth.c ----------------------------------------------------------------------------------

// The site's scales (or with `inverse` 1 over them) with dims [channels, 1, …]: `behind` axes of length 1; of `dtype`.
uint32_t smooth_spread(struct smooth *s, const struct smooth_site *site, bool inverse,
                       uint32_t behind, enum dtype dtype);
// c * by, or c / by, computed in float32 and of c's type.
uint32_t smooth_times(struct smooth *s, enum recipe_map_op op, uint32_t c, uint32_t by);
// The recipe of a weight's elements; NO_ID: it is no constant that can be read.
uint32_t smooth_recipe(struct smooth *s, uint32_t weight);
// Puts a recipe in place of the constant in a node's slot: in its tensor if `uses` (not 0) are all its uses, and the dims are
// the same; else in a tensor of its own. Gives the value that has it.
uint32_t smooth_put(struct smooth *s, uint32_t node, uint32_t slot, uint32_t recipe, uint32_t uses);

#endif
