// weir diff: two models, what became of their nodes and tensors, and who tells it.
//
//   diffing_load ──▶ diff_match ──▶ weigh ──▶ diff_compare ──▶ told_text, told_json
//   two models       twins          tensors   what differs
#ifndef WEIR_DIFFING_H
#define WEIR_DIFFING_H

#include "contrast.h"
#include "diff.h"
#include "edit.h"
#include "express.h"
#include "observer.h"
#include "work.h"

enum diffing_weights { WEIGHTS_NONE, WEIGHTS_DIGEST, WEIGHTS_VALUES };

struct diffing_model {
  const char *path;
  struct sources *sources;
  struct model model;
  struct recipes recipes;
  struct edits edits;  // none is made: what gives tensors their recipes
  uint64_t bytes;      // of all files
  bool loaded, absent; // absent: a data file is
};

// How a tensor was found on the other side.
enum weighed_by {
  WEIGHED_NAME,
  WEIGHED_PLACE,      // at the same slot of twin nodes
  WEIGHED_BYTES,      // the same bytes under another name
  WEIGHED_TRANSPOSED, // of a matrix, the same elements transposed
  WEIGHED_RECAST,     // what twins compute with, after casts, dequantization and the like
  WEIGHED_NOTHING,    // on one side only
};

enum weighed_verdict { WEIGHED_SAME, WEIGHED_DIFFERS, WEIGHED_UNKNOWN };

// A tensor and what became of it.
struct weighed {
  uint32_t tensor[DIFF_SIDES];               // NO_ID: not there
  uint8_t by, verdict;                       // enums above
  bool renamed, moved;                       // moved: from inside the .onnx to a data file, or back
  bool rehomed;                              // from a Constant node to an initializer, or back
  bool dtype, dims;                          // they differ
  bool figures;                              // `found` has them
  bool trusted;                              // told by manifests
  uint32_t roots[DIFF_SIDES][WEIGHED_ROOTS]; // RECAST: codes, scales, zero points …; NO_ID behind
  const char *form[DIFF_SIDES];              // RECAST: how they stand for elements, or NULL: plain
  uint32_t recipe[DIFF_SIDES];
  struct contrast_found found;
};

struct diffing {
  struct work_options work; // its mode is chosen only if weights are compared
  const char *io_name;      // of that choice, for messages: "--io"
  const char *weights_word; // as the user names `weights`
  bool allow_links;
  bool all, colour; // of the text: no line is left out
  struct diffing_model side[DIFF_SIDES];
  struct diff d;
  struct arena arena;
  enum diffing_weights weights;
  double began;
  bool same_file;     // both names are one file
  bool trusts;        // --trust-manifests
  const char *unread; // why weights were not compared, or NULL
  struct contrast_stats stats;
  uint64_t same_place, by_manifest; // tensors that were not read
  TABLE(struct weighed, rows);
};

int diffing_load(struct diffing *x, struct err *err);
void diffing_done(struct diffing *x);

// Finds all rows, and pairs tensors in x->d that hold the same under other names.
int weigh(struct diffing *x, struct err *err);

// Digests per tensor that manifests have: fills, by tensor id, offsets into `digests` + 1.
struct trusted {
  struct arena arena;
  const uint8_t (**of[DIFF_SIDES])[32]; // by tensor id: one for each 64 MiB, or NULL
  uint32_t *n[DIFF_SIDES];
};
int trusted_read(struct trusted *t, struct diffing *x, struct err *err);
void trusted_done(struct trusted *t);

// Does anything differ?
bool told_equal(const struct diffing *x);
// A node that has no twin, in a graph that has one; and a tensor that is not the same.
bool told_node_alone(const struct diffing *x, uint32_t side, uint32_t node);
bool told_row_differs(const struct weighed *row);
void told_text(struct diffing *x);
void told_json(struct diffing *x);
void told_markdown(struct diffing *x);
// Shared by all: what an attribute holds, and where a graph is.
const char *told_attr(struct diffing *x, uint32_t side, uint32_t attr);
const char *told_graph(struct diffing *x, uint32_t side, uint32_t graph);
const char *told_tensor(struct diffing *x, uint32_t side, uint32_t tensor);
// The name of the first node that uses it: people know layers, not tensors. "": none has one.
const char *told_layer(struct diffing *x, const struct weighed *row);
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
