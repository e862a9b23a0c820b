// The giver of free names: for all nodes, values and tensors that passes make.
//
//   wanted            the name itself where it is free
//   wanted_1, …       else, with the first number that is free; a number is tried once
//   family            one stem for several names: stem_scale, stem_zero, … are all free
//
// What "free" means depends on who asks (enum kit_space). A name that was given is not yet taken:
// it is once the edit made it, or where it was reserved. All calls together cost time in proportion
// to the names given, also where a million ask for one name.
#ifndef WEIR_KIT_NAMES_H
#define WEIR_KIT_NAMES_H

#include "model/model.h"

enum kit_space {
  KIT_EVERYWHERE, // no name of any kind in the model: the strictest, and free of thoughts of scope
  KIT_VALUES,     // no value of any graph has it (nodes may)
  KIT_NODES,      // no live node of the graph has it (values may, and nodes of other graphs)
  KIT_SPACES,
};

struct kit_names_tried; // internal
struct kit_names {
  const struct model *m;
  struct arena arena;
  TABLE(struct kit_names_tried, tried); // names with numbers behind them, by space
  TABLE(uint32_t, tried_slots);
  TABLE(struct span, reserved);
  TABLE(uint32_t, reserved_slots);
  TABLE(uint32_t, node_slots); // KIT_NODES: (graph, name) of live nodes
  TABLE(uint8_t, going);       // by node id: its name is free already
  uint32_t n_node_names;       // entries of node_slots
  uint32_t nodes_seen;         // nodes below this are in it
  uint64_t tries;              // candidates looked at so far (for tests)
};

// Starts with kit_names_init. Names it gives lie in `a`, or are `wanted` itself.
void kit_names_init(struct kit_names *n, const struct model *m);
void kit_names_done(struct kit_names *n);

// The first free one of wanted, wanted_1, wanted_2, … (KIT_NODES: `graph` is the node's; an empty
// name is always free.) Not reserved.
struct span kit_names_free(struct kit_names *n, enum kit_space space, uint32_t graph,
                           struct span wanted, struct arena *a);
// The same, and nobody else gets it from this giver, in any space. It is not interned.
struct span kit_names_take(struct kit_names *n, enum kit_space space, uint32_t graph,
                           struct span wanted, struct arena *a);
void kit_names_reserve(struct kit_names *n, struct span name);
// The first of base, base_1, base_2, … such that it is free with each of the suffixes behind it
// (the suffix "" is the stem itself). Nothing is reserved.
struct span kit_names_family(struct kit_names *n, enum kit_space space, uint32_t graph,
                             struct span base, const char *const *suffixes, uint32_t n_suffixes,
                             struct arena *a);
// Stem and suffix as one text in `a`.
struct span kit_names_join(struct span stem, const char *suffix, struct arena *a);
// KIT_NODES: the node is going to be replaced, its name counts as free from now on.
void kit_names_leave(struct kit_names *n, uint32_t node);

#endif
