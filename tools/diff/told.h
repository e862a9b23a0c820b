// What weir diff says of two models (diffing.h): for people, for pull requests and for programs.
#ifndef WEIR_TOLD_H
#define WEIR_TOLD_H

#include "diffing.h"

// Does anything differ?
bool told_equal(const struct diffing *x);
// A node that has no twin, in a graph that has one; and a tensor that is not the same.
bool told_node_alone(const struct diffing *x, uint32_t side, uint32_t node);
bool told_row_differs(const struct matched_tensor *row);
// Of the text: no line is left out; in colours.
struct told_look {
  bool all, colour;
};
void told_text(struct diffing *x, struct told_look look);
void told_json(struct diffing *x);
void told_markdown(struct diffing *x);
// Shared by all: what an attribute holds, and where a graph is.
const char *told_attr(struct diffing *x, uint32_t side, uint32_t attr);
const char *told_graph(struct diffing *x, uint32_t side, uint32_t graph);
const char *told_tensor(struct diffing *x, uint32_t side, uint32_t tensor);
// The name of the first node that uses it: people know layers, not tensors. "": none has one.
const char *told_layer(struct diffing *x, const struct matched_tensor *row);
const char *told_type(struct diffing *x, uint32_t side, uint32_t tensor);

// "3 nodes"; a value's beginning, quoted ("-": NULL); and nodes that are left.
const char *told_counted(struct diffing *x, uint64_t n, const char *what);
const char *told_cut(struct diffing *x, const char *value);
uint64_t told_live_nodes(const struct model *m);
// A declared type, of which there may be one a value; a node that has another name and is the same.
bool told_is_info(const struct diff_line *l);
bool told_only_renamed(const struct diffing *x, const struct diff_change *c);

struct told_sums {
  uint64_t lines, infos; // of the model as a whole, without declared types; these
  uint64_t changed, renamed_only, alone[DIFF_SIDES];
  uint64_t same, differ, renamed, transposed, recast, tensors_alone[DIFF_SIDES], unknown, moved,
      rehomed;
};
struct told_sums told_sum_up(const struct diffing *x);
// "different: 3 nodes changed, 1 tensor renamed": one sentence without its end.
const char *told_answer(struct diffing *x, const struct told_sums *s);

// Changed nodes, renamed ones aside: those that changed alike (the same operators, attributes and slots) at once, in the
// order of the first of each; or each alone.
void told_changes(struct diffing *x, bool each_alone,
                  void (*told)(void *ctx, const uint32_t *changes, uint32_t n), void *ctx);
// What became of a tensor, in the order in which it is told; the last are not.
enum told_kind {
  TOLD_CHANGED,
  TOLD_RECAST, // stored in another form
  TOLD_TRANSPOSED,
  TOLD_RENAMED, // and the like
  TOLD_IN_FIRST,
  TOLD_IN_SECOND,
  TOLD_SAME,
};
// Up to there values may have changed, so there are figures.
static inline bool told_has_figures(enum told_kind kind) {
  return kind <= TOLD_RECAST;
}
// Rows of tensors of one kind. by_loss: where there are figures, those that lost most come first.
const uint32_t *told_tensors_of(struct diffing *x, enum told_kind kind, bool by_loss, uint32_t *n);

// Operators and how many of each, by name.
struct told_op {
  const char *name;
  uint64_t n[DIFF_SIDES];
};
struct told_op *told_ops(struct diffing *x, uint32_t *n);

#endif
