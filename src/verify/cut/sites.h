// Room: sites: the parts of source and result that edits changed, with the same boundary, and parts as files.
//
//   source (as loaded)          result (as edited: its first rows are those of the source)
//   x ─▶ Conv ─▶ Relu ─▶ y      x ─▶ Transpose ─▶ MatMul ─▶ Transpose ─▶ Relu ─▶ y
//        └before┘                   └──────────after───────────┘
//
// A node is changed if it died, came, or has other inputs, outputs or attributes than it was loaded with. Nodes are
// one site where they meet at a value that only one of the two models has, until every boundary value is in both, or
// one took the place of the other (a forward). Groups of edits (edit_groups.h) say what a site is for: a site may be of
// several, and a group may have had a hand in several sites. A constant whose elements are another recipe is a site too,
// of no nodes: its elements are compared. What changed in a body is a site of the body, in a function one of each call.
//
// The models are equal if all sites are: what lies between them did not change.
#ifndef WEIR_SITES_H
#define WEIR_SITES_H

#include "edit/edit_groups.h"
#include "model/model.h"

// Values of the source and of the result. Pairs of inputs that share a value are given one array. Of an input
// NO_ID: that side has none.
struct site_pair {
  uint32_t before, after;
};

struct site {
  const uint32_t *groups; // numbers from 1 on, ascending; of the edit log; those of guests too
  uint32_t n_groups;
  uint32_t graph;
  const uint32_t *before, *after; // nodes in topological order
  uint32_t n_before, n_after;
  const struct site_pair *inputs, *outputs; // boundary
  uint32_t n_inputs, n_outputs;
  // That the nodes before and after read. One that is an input too is its default: an initializer that callers of the
  // model may override. (Edits may hold for what it is and not for anything else: left out of what the part is given,
  // it is that.)
  const struct model_constant *constants[2];
  uint32_t n_constants[2];
  const char *why_not; // it cannot be verified alone: a reason for people; NULL: it can
  // Its parts may differ though the edits are right, for what the inputs have to do with each other: if they
  // do, this is why that proves nothing. NULL: none.
  const char *doubt;
};

struct sites {
  struct site *list; // in the order of the first node of each in the source
  uint32_t n;
  uint32_t unchanged_groups; // that changed no computation: types, metadata, what nothing used
  uint64_t looked;           // at rows: for tests of what must stay linear
  struct sites_cut *cut;     // what was found on the way, for sites_widen
};

// `source` and `result` have equal rows as far as the source goes, and outlive *out, as `groups` does. All in *a but
// what sites_done frees. Linear in what changed, and one walk over both.
// retyped: by value of the source, whether the result computes it in another type, so that a node that reads or makes it
// changed too; NULL: none is.
void sites_find(const struct model *source, const struct model *result,
                const struct edit_groups *groups, const bool *retyped, struct arena *a,
                struct sites *out);
void sites_done(struct sites *s);
// The site again, with more of what is around it in both parts: the nodes that make its inputs, `layers` deep. For
// parts that differ, or cannot run, since the edits were right for what those nodes can make alone (an Abs behind a
// Relu), or since nothing is known of an input. False: there is nothing more to take in. In *a.
bool sites_widen(struct sites *s, uint32_t site, uint32_t layers, struct arena *a,
                 struct site *out);
// Names for people: of the first node that people know (named, before), else of the output. In *a.
const char *site_name(const struct model *source, const struct site *s, struct arena *a);

#endif
