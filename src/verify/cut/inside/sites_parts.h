// What the files of sites say to each other.
#ifndef WEIR_SITES_PARTS_H
#define WEIR_SITES_PARTS_H

#include "base/table.h"
#include "verify/cut/sites.h"

enum { BEFORE, AFTER };

// In place of an element: in a function's body, where calls stand for what changed.
#define SITES_IN_FUNCTION (NO_ID - 1)

// A value of the source and one of the result that took its place: equal, if a site is right.
struct sites_claim {
  uint32_t before, after;
  uint32_t next; // of the same `before`
  bool demanded; // by what is not in its site
};

// Rows of lists.
struct sites_call {
  uint32_t node, next;
};
struct sites_guest {
  uint32_t site, next;
};
struct sites_alias {
  uint32_t claim, next;
};

// A site in the making.
struct sites_draft {
  const uint32_t *nodes[2]; // in order
  uint32_t n[2];
  const uint32_t *claims; // demanded ones
  uint32_t n_claims;
  uint32_t root, graph;
};

// Elements are what sites are unions of: nodes by id, and behind them claims.
struct sites_cut {
  const struct model *m[2];
  const struct edit_groups *groups;
  struct arena scratch;
  uint64_t looked; // at rows: for tests of what must stay linear
  // By value of the result: what took its place in the end, or NO_ID; and one of those that it took
  // the place of.
  uint32_t *to, *from;
  const bool *live;    // graphs of the result
  const bool *retyped; // by value of the source; NULL: none
  bool *forced;        // by node: counts as changed, for what changed in its body or function
  uint32_t *cover[2];  // by graph: the element that it is a body of, or NO_ID
  uint32_t *el[2];     // by node: its element, or NO_ID: unchanged
  uint32_t *place[2];  // by node: in the order of its graph
  // By node: its place in the source, or of a new one that of what stands before it.
  uint32_t *rank[2];
  uint32_t *calls_of; // by function: its calls
  uint32_t *lent;     // by function: the last group that its calls were said to be of
  TABLE(struct sites_call, calls);
  uint32_t *guest_of; // by node: sites that it is in the parts of
  TABLE(struct sites_guest, guests);
  uint32_t *alias_of; // by value: claims about what Identity nodes make of it
  TABLE(struct sites_alias, aliases);
  bool lifted; // something was forced: all is to be found again
  // The partition.
  TABLE(uint32_t, parent);
  TABLE(uint32_t, graph); // by root: that its nodes lie in, or NO_ID
  TABLE(struct sites_claim, claims);
  uint32_t *claim_of; // by value before: the first claim
  bool *demanded;     // by value: it is in both, and used outside of the site that makes it
  TABLE(uint32_t,
        torn); // elements that no node is around together with another that they belong to
  struct sites_draft *drafts;
  uint32_t *draft_of; // by site
  struct sites_boundary *boundary;
  TABLE(uint32_t, reads);  // what sites_reads found
  TABLE(uint32_t, bodies); // work list
  uint32_t reading;        // how often anything was read
  uint32_t *within;        // by graph: the last reading that it was a body in
};

// ---- sites_changed.c ----
void sites_changed_forwards(struct sites_cut *c);
// What changed: cover, el and place, by what is forced.
void sites_changed_find(struct sites_cut *c);
// Forces calls of functions whose bodies changed.
void sites_changed_calls(struct sites_cut *c);
// Is the value made, given or an initializer on that side?
bool sites_there(const struct sites_cut *c, int side, uint32_t value);
// The element that makes it on that side; NO_ID: none does.
uint32_t sites_maker(const struct sites_cut *c, int side, uint32_t value);
// What took the value's place and is there; NO_ID: nothing.
uint32_t sites_forward(const struct sites_cut *c, uint32_t value);
// Values that a node reads from outside of itself, bodies included: into c->reads.
void sites_reads(struct sites_cut *c, int side, uint32_t node);
bool sites_constant(struct sites_cut *c, int side, uint32_t value, struct model_constant *out);
// The function that the graph lies in, or NO_ID.
uint32_t sites_function_of(const struct model *m, uint32_t graph);

// ---- sites_join.c ----
uint32_t sites_join_root(struct sites_cut *c, uint32_t element);
// All that must be one site, and what is demanded of it.
void sites_join_all(struct sites_cut *c);

// ---- sites_boundary.c ----
struct sites_boundary;
struct sites_boundary *sites_boundary_new(struct sites_cut *c);
void sites_boundary_free(struct sites_boundary *b);
// Inputs, outputs and constants of the site, and nodes of its surroundings where only they say how its
// inputs hang together; besides, the nodes that make its inputs, `layers` deep. In *a.
void sites_boundary_find(struct sites_boundary *b, const struct sites_draft *draft, uint32_t layers,
                         struct arena *a, struct site *out);

#endif
