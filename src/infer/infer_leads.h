// Values that lead somewhere: those that the value of a node, or the outputs of its bodies, are made of, in their own graphs and
// in the graphs around them.
#ifndef WEIR_INFER_LEADS_H
#define WEIR_INFER_LEADS_H

#include "model/model.h"

// Starts zeroed. Linear in nodes and their operands, however often it is followed.
struct infer_leads {
  TABLE(uint8_t, is);       // by value id
  TABLE(uint8_t, visited);  // by node id
  TABLE(uint32_t, waiting); // values
};

// The value itself (NO_ID: nothing); the inputs and the outputs of a node, and the outputs of its bodies; the outputs of its
// bodies from number `from` on.
void infer_leads_add(struct infer_leads *l, const struct model *m, uint32_t value);
void infer_leads_add_node(struct infer_leads *l, const struct model *m, uint32_t node);
void infer_leads_add_bodies(struct infer_leads *l, const struct model *m, uint32_t node,
                            uint32_t from);
// Adds all that leads to what was added.
void infer_leads_follow(struct infer_leads *l, const struct model *m);
bool infer_leads_has(const struct infer_leads *l, uint32_t value);
void infer_leads_free(struct infer_leads *l);

#endif
