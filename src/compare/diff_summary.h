// The verdict about two models that were compared (diffing.h), and its parts counted and grouped. Where bytes are stored (in
// the .onnx or in a data file) and the order of nodes, where several are valid, are counted, but make no model different.
#ifndef WEIR_DIFF_SUMMARY_H
#define WEIR_DIFF_SUMMARY_H

#include "compare/diffing.h"

// Does nothing differ? Tensors that were not compared do not count.
bool diff_summary_equal(const struct diffing *x);
// A node that has no twin, in a graph that has one; and a tensor that is not the same.
bool diff_summary_node_alone(const struct diffing *x, uint32_t side, uint32_t node);
bool diff_summary_row_differs(const struct matched_tensor *row);
// A declared type, of which there may be one a value; a node that has another name and is the same.
bool diff_summary_is_info(const struct diff_line *l);
bool diff_summary_only_renamed(const struct diffing *x, const struct diff_change *c);
uint64_t diff_summary_live_nodes(const struct model *m);

struct diff_summary {
  uint64_t lines, infos; // of the model as a whole, without declared types; these
  uint64_t changed, renamed_only, alone[DIFF_SIDES];
  uint64_t same, differ, renamed, transposed, recast, tensors_alone[DIFF_SIDES], unknown, moved,
      rehomed;
};
struct diff_summary diff_summary_of(const struct diffing *x);

// Calls `told` with changed nodes, renamed ones aside: those that changed alike (the same operators, attributes and slots)
// at once, in the order of the first of each; or each alone.
void diff_summary_changes(struct diffing *x, bool each_alone,
                          void (*told)(void *ctx, const uint32_t *changes, uint32_t n), void *ctx);

// How a tensor differs, in the order in which renderers list them; they leave out the last.
enum diff_tensor_kind {
  DIFF_TENSOR_CHANGED,
  DIFF_TENSOR_RECAST, // stored in another form
  DIFF_TENSOR_TRANSPOSED,
  DIFF_TENSOR_RENAMED, // and the like
  DIFF_TENSOR_IN_FIRST,
  DIFF_TENSOR_IN_SECOND,
  DIFF_TENSOR_SAME,
};
// Up to there values may have changed, so there are figures.
static inline bool diff_tensor_kind_has_figures(enum diff_tensor_kind kind) {
  return kind <= DIFF_TENSOR_RECAST;
}
// Places in x->rows of tensors of one kind. by_loss: where there are figures, those that lost most come first.
const uint32_t *diff_summary_tensors(struct diffing *x, enum diff_tensor_kind kind, bool by_loss,
                                     uint32_t *n);

// Operators and how many of each, by name.
struct diff_summary_op {
  const char *name;
  uint64_t n[DIFF_SIDES];
};
struct diff_summary_op *diff_summary_ops(struct diffing *x, uint32_t *n);

#endif
