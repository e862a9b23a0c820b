// New rows, made from what edits are given. Neither checked nor recorded here. For this room only.
#ifndef WEIR_EDIT_MAKE_H
#define WEIR_EDIT_MAKE_H

#include "edit/edit.h"

// Its names lie outside of the model.
uint32_t edit_make_node(struct edits *e, const struct edit_node *spec);
// The value that an output stands for: revived, new, or NO_ID.
uint32_t edit_make_output(struct edits *e, uint32_t graph, struct edit_output to);
// Sets (or adds) an attribute; gives its row.
uint32_t edit_make_attr(struct edits *e, uint32_t node, const struct edit_attr *a);
// Attributes of a function, in a run of their own; gives the first.
uint32_t edit_make_defaults(struct edits *e, const struct edit_attr *attrs, uint32_t n);
// A tensor row whose elements are the recipe's; name: an id.
uint32_t edit_make_tensor(struct edits *e, uint32_t graph, uint32_t name, uint32_t recipe);
// Gives an existing row the recipe's elements, dtype and dims.
void edit_make_data(struct edits *e, uint32_t tensor, uint32_t recipe);
// The recipe of a loaded tensor's elements as they are in the source, whatever became of it.
uint32_t edit_make_source_recipe(struct edits *e, uint32_t tensor);
// The same with other dims (same count).
uint32_t edit_make_source_recipe_as(struct edits *e, uint32_t tensor, const int64_t *dims,
                                    uint32_t rank);
// A copy that outlives whatever the edit does to the model's tables.
struct span edit_make_copy(struct edits *e, struct span s);

#endif
