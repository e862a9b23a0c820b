// What edits changed, as parts of the source and of the result with the same boundary.
//
//   source (as loaded)          result (as edited: its first rows are those of the source)
//   x ─▶ Conv ─▶ Relu ─▶ y      x ─▶ Transpose ─▶ MatMul ─▶ Transpose ─▶ Relu ─▶ y
//        └before┘                   └──────────after───────────┘
//
// A node is changed if it died, came, or has other inputs, outputs or attributes than it was loaded with. Groups of
// edits (edit_groups.h) say which belong together and why. Groups that share a node, or meet at a value that only one
// of the two models has, are one site: until every boundary value is in both. A constant whose elements are another
// recipe is a site too, of no nodes: its elements are compared.
#ifndef WEIR_SITES_H
#define WEIR_SITES_H

#include "edit_groups.h"
#include "infer.h"
#include "model.h"

// Values of the source and of the result. Pairs of inputs that share a value are given one array. Of an input
// NO_ID: that side has none.
struct site_pair {
  uint32_t before, after;
};

struct site {
  const uint32_t *groups; // numbers from 1 on, ascending; of the edit log
  uint32_t n_groups;
  uint32_t graph;
  const uint32_t *before, *after; // nodes in topological order
  uint32_t n_before, n_after;
  const struct site_pair *inputs, *outputs; // boundary; constants are none of the inputs
  uint32_t n_inputs, n_outputs;
  const struct model_constant *constants[2]; // that the nodes before and after read
  uint32_t n_constants[2];
  const char *why_not; // it cannot be verified alone: a reason for people; NULL: it can
  // Its parts may differ though the edits are right, for what the inputs have to do with each other: if they
  // do, this is why that proves nothing. NULL: none.
  const char *doubt;
};

struct sites {
  struct site *list; // in the order of the first node of each in the source
  uint32_t n;
  uint32_t
      unchanged_groups; // groups that changed no computation (value_info, metadata, order, what nothing used)
  uint64_t looked; // at rows: for tests of what must stay linear
  // For sites_grow: by node of the source, whether the result has it unchanged; by node of each, its place in its graph.
  const bool *same;
  const uint32_t *place[2];
  const uint32_t *to,
      *from; // by value: what took its place in the result, and what it took the place of; or NO_ID
};

// `source` and `result` have equal rows as far as the source goes. All in *a. Linear in what changed, and one walk over both.
void sites_find(const struct model *source, const struct model *result,
                const struct edit_groups *groups, struct arena *a, struct sites *out);
// The site with the nodes around it that make its inputs, `levels` of them one behind the other, as far as they are the same in
// both models: a rewrite may rest on how its inputs hang together, which arrays that are drawn one by one do not know. False: there
// is nothing to add, or too much.
bool sites_grow(const struct model *source, const struct model *result, const struct sites *all,
                const struct site *s, uint32_t levels, struct arena *a, struct site *out);
// Names for people: of the first node that people know (named, before), else of the output. In *a.
const char *site_name(const struct model *source, const struct site *s, struct arena *a);

#endif
