// The tables behind struct kit. For kit*.c and weights.c only.
#ifndef WEIR_KIT_INSIDE_H
#define WEIR_KIT_INSIDE_H

#include "passes/kit/kit.h"

// From ids to small numbers: open addressing, at most half full. Starts zeroed.
struct kit_map_slot {
  uint32_t key, value; // key: id + 1, 0 is free
};
struct kit_map {
  struct kit_map_slot *slots;
  uint32_t n_slots, n;
  size_t cap;
};
// The number of an id, made 0 where it is new. Valid until the next call.
uint32_t *kit_map_at(struct kit_map *map, uint32_t id);
uint32_t kit_map_get(const struct kit_map *map, uint32_t id); // 0 if it is not there
void kit_map_done(struct kit_map *map);
// Says what kit_report counted.
void kit_report_done(struct kit *k);

struct kit_op_slot {
  uint64_t key; // (name id, domain) + 1
  enum op op;
};
enum { KIT_OP_SLOTS = 1024 };

// What a value of a chain is (kit_chains.c).
struct kit_chain;
struct schema_signature;

struct kit_order {
  bool looked, unsorted; // it was numbered; nodes stand before what makes their inputs
  uint16_t numbered; // how often, where they do; one more: that it was wanted again has been said
};

struct kit_inside {
  struct arena arena; // until kit_done
  uint32_t n_graphs;  // at kit_init
  struct err err;     // of the first weight that could not be read
  // operators
  struct kit_op_slot op_slots[KIT_OP_SLOTS];
  uint32_t names_known; // names below this are looked up
  uint32_t domain[KIT_DOMAINS], ai_onnx;
  const struct schema_signature *signature[OPS]; // that was asked for last, and for which opset
  int64_t signature_opset[OPS];
  struct model_types types; // where env has none
  bool types_filled;        // by inference
  // elements that were read: by tensor id, row + 1
  struct kit_map read_of;
  TABLE(struct kit_read, reads);
  // chains: by value id, row + 1
  struct kit_map chain_of;
  TABLE(struct kit_chain, chains);
  uint64_t chain_steps; // nodes evaluated so far (for tests)
  // order: by node id, 0: not numbered
  TABLE(uint64_t, position);
  TABLE(uint32_t, waits); // by node id, while its graph is numbered: for how many uses it waits
  TABLE(uint32_t, ready); // nodes that wait for none
  uint64_t order_steps;   // nodes numbered so far (for tests)
  TABLE(struct kit_order, orders); // by graph
  // reports: of weights that a caller may replace; by node id, its place in its graph's source
  uint64_t n_overridable;
  TABLE(uint32_t, source_index);
  // weights.c: by graph, the node before which new ones go, as id + 1; 0: not asked yet, or none
  TABLE(uint32_t, fronts);
};

struct kit_read {
  uint32_t recipe; // of the tensor when it was read (NO_ID: as loaded)
  const uint8_t *at;
};

// The elements of a tensor, if at hand.
bool kit_tensor_elements(struct kit *k, uint32_t tensor, struct span *raw);
// The value as far as chains know it: elements in the site arena. False: not all are known.
bool kit_chain_ints(struct kit *k, uint32_t value, enum dtype *dtype, const int64_t **list,
                    uint32_t *n);
void kit_chains_done(struct kit *k);
// A node was put into its graph: its number, if there is room.
void kit_order_put(struct kit *k, uint32_t node);

// What kit_put copies (kit_attrs.c). Says the node's attribute i what its absence means, and have nodes of `op` no such attribute?
bool kit_attr_is_idle(struct kit *k, uint32_t node, uint32_t i, enum op op);
// What the node means by not saying it, and a node of `op` would mean otherwise: at most KIT_IMPLIED_MOST; gives how many.
enum { KIT_IMPLIED_MOST = 64 };
uint32_t kit_attrs_implied(struct kit *k, uint32_t node, enum op op, struct edit_attr *list);

#endif
