// What a pass is given and what it says of itself. A pass decides and emits edits; it never opens a
// file, prints or keeps state between calls. Rows: passes.def.
#ifndef WEIR_PASS_H
#define WEIR_PASS_H

#include "edit.h"
#include "err.h"
#include "model.h"
#include "recipe.h"

// One looked-at node, for reports: why it was changed or left.
struct pass_site {
  uint32_t node;  // id
  uint32_t index; // position among its graph's nodes in the source
  uint32_t graph;
  const char *op_type;   // as in the source
  const char *status;    // "converted", "skipped"
  const char *reason;    // a stable word
  bool flag;             // pass-specific (conv2matmul: used_extended_mode)
  struct span node_name; // as in the source; valid as long as the model
};

struct pass_env {
  struct model *m;
  struct edits *edits;
  struct arena *scratch;                                 // reset after the pass
  void (*site)(void *ctx, const struct pass_site *site); // may be NULL
  void *site_ctx;
};

#endif
