// What weir diff says of two models (diffing.h): for people, for pull requests and for programs.
#ifndef WEIR_RENDER_DIFF_H
#define WEIR_RENDER_DIFF_H

#include "compare/diffing.h"

// Does anything differ?
bool render_diff_equal(const struct diffing *x);
// A node that has no twin, in a graph that has one; and a tensor that is not the same.
bool render_diff_node_alone(const struct diffing *x, uint32_t side, uint32_t node);
bool render_diff_row_differs(const struct matched_tensor *row);
// Of the text: no line is left out; in colours.
struct render_diff_look {
  bool all, colour;
};
void render_diff_text(struct diffing *x, struct render_diff_look look);
void render_diff_json(struct diffing *x);
void render_diff_markdown(struct diffing *x);
// Shared by all: what an attribute holds, and where a graph is.
const char *render_diff_attr(struct diffing *x, uint32_t side, uint32_t attr);
const char *render_diff_graph(struct diffing *x, uint32_t side, uint32_t graph);
const char *render_diff_tensor(struct diffing *x, uint32_t side, uint32_t tensor);
// The name of the first node that uses it: people know layers, not tensors. "": none has one.
const char *render_diff_layer(struct diffing *x, const struct matched_tensor *row);
const char *render_diff_type(struct diffing *x, uint32_t side, uint32_t tensor);

// "3 nodes"; a value's beginning, quoted ("-": NULL); and nodes that are left.
const char *render_diff_counted(struct diffing *x, uint64_t n, const char *what);
const char *render_diff_cut(struct diffing *x, const char *value);
uint64_t render_diff_live_nodes(const struct model *m);
// A declared type, of which there may be one a value; a node that has another name and is the same.
bool render_diff_is_info(const struct diff_line *l);
bool render_diff_only_renamed(const struct diffing *x, const struct diff_change *c);

struct render_diff_sums {
  uint64_t lines, infos; // of the model as a whole, without declared types; these
  uint64_t changed, renamed_only, alone[DIFF_SIDES];
  uint64_t same, differ, renamed, transposed, recast, tensors_alone[DIFF_SIDES], unknown, moved,
      rehomed;
};
struct render_diff_sums render_diff_sum_up(const struct diffing *x);
// "different: 3 nodes changed, 1 tensor renamed": one sentence without its end.
const char *render_diff_answer(struct diffing *x, const struct render_diff_sums *s);

// Changed nodes, renamed ones aside: those that changed alike (the same operators, attributes and slots) at once, in the
// order of the first of each; or each alone.
void render_diff_changes(struct diffing *x, bool each_alone,
                         void (*told)(void *ctx, const uint32_t *changes, uint32_t n), void *ctx);
// What became of a tensor, in the order in which it is told; the last are not.
enum render_diff_kind {
  RENDER_DIFF_CHANGED,
  RENDER_DIFF_RECAST, // stored in another form
  RENDER_DIFF_TRANSPOSED,
  RENDER_DIFF_RENAMED, // and the like
  RENDER_DIFF_IN_FIRST,
  RENDER_DIFF_IN_SECOND,
  RENDER_DIFF_SAME,
};
// Up to there values may have changed, so there are figures.
static inline bool render_diff_has_figures(enum render_diff_kind kind) {
  return kind <= RENDER_DIFF_RECAST;
}
// Rows of tensors of one kind. by_loss: where there are figures, those that lost most come first.
const uint32_t *render_diff_tensors_of(struct diffing *x, enum render_diff_kind kind, bool by_loss,
                                       uint32_t *n);

// Operators and how many of each, by name.
struct render_diff_op {
  const char *name;
  uint64_t n[DIFF_SIDES];
};
struct render_diff_op *render_diff_ops(struct diffing *x, uint32_t *n);

#endif
