// What became of each node, value and tensor of one model (A, side 0) in another (B, side 1).
//
// Pure: nothing is read but what load keeps at hand. Twins are found by structure, names and order
// (diff_match.c); what differs between twins is a list of details. Names are compared as bytes, so
// that no hash decides about equality.
//
// All of it is linear in the rows of both models (`steps` counts, for tests).
#ifndef WEIR_DIFF_H
#define WEIR_DIFF_H

#include "base/err.h"
#include "model/model.h"

enum { DIFF_A, DIFF_B, DIFF_SIDES };

// How a twin was found.
enum diff_by {
  DIFF_BY_NOTHING,   // it has none
  DIFF_BY_STRUCTURE, // same operator, attributes and inputs, or the same users
  DIFF_BY_OUTPUT,    // the name of its first output
  DIFF_BY_NAME,
  DIFF_BY_PLACE, // what its neighbours' twins have beside them, or the order of nodes
};

enum diff_what {
  DIFF_OP,      // a, b: nodes
  DIFF_RENAMED, // the node's name
  DIFF_ATTR,    // a, b: attributes; NO_ID: absent on that side
  DIFF_INPUT,   // a, b: slots; NO_ID: past the end
  DIFF_OUTPUT,  // likewise: there or not, or another name
  DIFF_NOTES,   // fields that no row holds (doc_string, metadata_props …): a, b: nodes
};

struct diff_detail {
  uint32_t what; // enum diff_what
  uint32_t a, b;
};

// A pair of nodes that are not the same.
struct diff_change {
  uint32_t node[DIFF_SIDES];
  uint32_t first, n; // of d->details
};

// Things of the model as a whole: texts, made when they are found. Nothing in them is quoted.
struct diff_line {
  const char *what; // "opset", "metadata", "input" …
  const char *name; // of the domain, the key, the value; "": there is only one
  const char *was;  // NULL: not there
  const char *is;
};

struct diff {
  const struct model *m[DIFF_SIDES];
  // Bytes of the .onnx of a side, for what rows do not hold; 0 or -1 with *err.
  int (*read)(void *ctx, uint32_t side, uint64_t off, void *buf, size_t n, struct err *err);
  void *ctx;

  struct arena arena;
  uint32_t *names[DIFF_SIDES]; // by name id: the name's number in both models
  uint32_t n_names;
  uint32_t *nodes[DIFF_SIDES]; // by id, the twin's or NO_ID
  uint32_t *values[DIFF_SIDES];
  uint32_t *graphs[DIFF_SIDES];
  uint32_t *tensors[DIFF_SIDES];
  uint32_t *functions[DIFF_SIDES];
  uint32_t *sparses;                      // by A's id, the twin's or NO_ID
  uint8_t *node_by;                       // enum diff_by, by A's id
  uint64_t moved;                         // nodes that stand elsewhere in the order of their graph
  uint64_t renamed_nodes, renamed_values; // of twins that are the same otherwise
  uint64_t steps;

  struct diff_scratch *scratch; // of matching

  TABLE(struct diff_detail, details);
  TABLE(struct diff_change, changes);
  TABLE(struct diff_line, lines);
};

// Both models loaded; read and ctx set; the rest zero. Finds all twins: graphs, nodes, values, and
// the tensors that their names or nodes tell.
void diff_match(struct diff *d);
// Instead of it: the caller has the twins, by A's ids (NO_ID: no twin). Functions, sparse tensors and tensors follow from them.
struct diff_twins {
  const uint32_t *graphs, *nodes, *values;
};
void diff_take(struct diff *d, const struct diff_twins *t);
// After one of them (and after who pairs more tensors by what they hold): what differs.
int diff_compare(struct diff *d, struct err *err);
void diff_done(struct diff *d);

// Makes two values twins, or two tensors and the values that they define.
void diff_pair_values(struct diff *d, uint32_t a, uint32_t b);
void diff_pair_tensors(struct diff *d, uint32_t a, uint32_t b);

// Is the tensor one that has a name of its own: an initializer, or what a Constant node holds? Its
// value then, else NO_ID.
uint32_t diff_tensor_value(const struct model *m, uint32_t tensor);
// The name that people know it by; empty for tensors of attributes.
struct span diff_tensor_name(const struct model *m, uint32_t tensor);
// The tensor that defines a value: an initializer's or a Constant's; NO_ID.
uint32_t diff_value_tensor(const struct model *m, uint32_t value);

// Fields that no row holds, of a pair of tensors (its doc_string and metadata) or of sparse ones (dims): do they differ?
int diff_kept_differs(struct diff *d, enum kept_of of, uint32_t a, uint32_t b, bool *differ,
                      struct err *err);

bool diff_node_is_constant(const struct model *m, uint32_t node);

#endif
