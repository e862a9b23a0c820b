// Inside of diff: what its files share.
#ifndef WEIR_DIFF_PARTS_H
#define WEIR_DIFF_PARTS_H

#include "base/err.h"
#include "compare/diff.h"

static inline uint64_t diff_mix(uint64_t h, uint64_t x) {
  h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h *= 0xff51afd7ed558ccdu;
  return h ^ h >> 32;
}

// The number of a name in both models; equal exactly for equal names.
static inline uint32_t diff_name(const struct diff *d, uint32_t side, uint32_t name) {
  return d->names[side][name];
}

// ---- attributes (diff_attrs.c) -----------------------------------------------------------------

// Of a node, or the defaults of a function's.
struct diff_attrs {
  uint32_t first, n;
};
// Twins have one name; of several on a side the k-th is the twin of the other side's k-th. of[s]: by place in the list of side s, the id of
// the twin or NO_ID, in d->arena. Dead ones have none.
void diff_attrs_pair(struct diff *d, const struct diff_attrs list[DIFF_SIDES],
                     uint32_t *of[DIFF_SIDES]);
// Of a Constant: the one that holds its tensor; NO_ID, also of other nodes.
uint32_t diff_constant_attr(const struct model *m, uint32_t node);
// Do two attributes of one name hold something else?
int diff_attrs_differ(struct diff *d, uint32_t a, uint32_t b, bool *differ, struct err *err);

// ---- keys (diff_keys.c) ------------------------------------------------------------------------

// Of the operator and its attributes (without their bodies): equal ones have equal keys.
uint64_t diff_keys_op(const struct diff *d, uint32_t side, uint32_t node);
uint64_t diff_keys_node(struct diff *d, uint32_t side, uint32_t node);
// Of a constant that has no twin yet: what its metadata says.
uint64_t diff_keys_tensor(const struct diff *d, uint32_t side, uint32_t tensor);

// ---- pairs of graphs (diff_match.c) ------------------------------------------------------------

// What lasts from graph to graph, so that many small ones cost no more than one large one.
struct diff_ready {
  uint64_t key;
  uint32_t node;
};
struct diff_list {
  TABLE(uint32_t, nodes); // of the graph, without Constants
  TABLE(struct diff_ready, now);
  TABLE(struct diff_ready, next);
};
struct diff_scratch {
  struct diff_list side[DIFF_SIDES];
  uint32_t *pending[DIFF_SIDES]; // by node: what it waits for
  uint64_t *key[DIFF_SIDES];     // by node, of this graph
  uint64_t *listed[DIFF_SIDES];  // by value: of the twin outputs that list it
  TABLE(uint32_t, lengths);      // of alignments
  TABLE(uint32_t, order);
};
struct diff_scratch *diff_match_scratch(struct diff *d);
void diff_match_scratch_done(struct diff_scratch *s);

// Pairs two graphs and what is in them.
void diff_match_graphs(struct diff *d, uint32_t a, uint32_t b);

// ---- other parts of a model (diff_lines.c) -----------------------------------------------------

int diff_lines_compare(struct diff *d, struct err *err);
// A line; and one where two texts differ (NULL: not there).
void diff_line(struct diff *d, const char *what, const char *name, const char *was, const char *is);
void diff_texts(struct diff *d, const char *what, const char *name, const char *was,
                const char *is);
const char *diff_number(struct diff *d, int64_t n); // as text

// ---- fields of the model that no row holds (diff_fields.c) ------------------------------------

// A line for each that differs. Texts of lines are cut; what differs after that is found too.
int diff_fields_compare(struct diff *d, struct err *err);

// Is there something in the types of two infos that rows do not hold, and is it another? Both: tensors, or sequences or
// optionals of them.
int diff_types_differ(struct diff *d, uint32_t a, uint32_t b, bool *differ, struct err *err);
// A line where value_infos of two graphs differ that are about no value.
int diff_stale_infos_compare(struct diff *d, uint32_t a, uint32_t b, struct err *err);

// ---- bytes of the .onnx (diff_bytes.c) ---------------------------------------------------------

// Are these the same bytes?
int diff_bytes_differ(struct diff *d, struct place a, struct place b, bool *differ,
                      struct err *err);
// Are lists of places the same bytes, however they are divided into places? Places of items of that kind.
int diff_bytes_items(struct diff *d, const struct model_item *const items[DIFF_SIDES],
                     const uint32_t n[DIFF_SIDES], uint32_t kind, bool *differ, struct err *err);

#endif
