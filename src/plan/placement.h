// Which tensor's payload goes where: the decisions that emission and layout share.
#ifndef WEIR_PLACEMENT_H
#define WEIR_PLACEMENT_H

#include "plan/plan.h"

enum tensor_place {
  PLACE_COPY,    // the source's TensorProto as it stands
  PLACE_INLINE,  // re-encoded, payload as raw_data
  PLACE_SIDECAR, // re-encoded, payload in a data file
};

struct placement {
  struct arena arena; // of what follows
  uint8_t *of;        // enum tensor_place per tensor id
  uint32_t *recipe;   // INLINE, SIDECAR: recipe id of its bytes; NO_ID: strings
  uint32_t *data;     // SIDECAR: number of its data file
  uint64_t *off;      // SIDECAR: offset in that
  bool *graph_dirty;  // per graph: must be re-encoded, though no edit marked it
  bool *attr_dirty;   // per attribute
  bool *node_dirty;   // per node
  uint32_t n_data;    // data files; 0: there is none
  const char **data_names;
};

// Decides the places for layout->form and marks what that makes dirty. `all`: tensors in attributes
// go to a data file too. Plain tensors get recipes; all that are needed are noted in p->used and
// p->numbers. The data files are still to be named. ERR_FAIL if layout->split cannot be kept.
int placement_decide(struct placement *x, struct plan *p, const struct model *m,
                     const struct plan_layout *layout, bool all, struct err *err);
void placement_free(struct placement *x);

// Has it elements that a recipe gives: not so strings.
bool placement_has_payload(const struct model_tensor *t);
// Does it stand for a list attribute (Constant's value_floats …)? Then there is no TensorProto to move.
bool placement_is_list(const struct model *m, const struct model_tensor *t);
// The recipe of a tensor's elements as loaded.
uint32_t placement_plain_recipe(struct recipes *to, const struct model *m, uint32_t tensor);

#endif
