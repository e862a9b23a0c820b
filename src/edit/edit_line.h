// The lines of the edit log, written. Every function does nothing when nobody records. For this
// room only; edit_replay.c is the other direction.
#ifndef WEIR_EDIT_LINE_H
#define WEIR_EDIT_LINE_H

#include "edit.h"

bool edit_line_begin(struct edits *e, const char *kind); // false: not recorded
void edit_line_end(struct edits *e);                     // hands the line to the sink

// Keys with addresses; NO_ID: the key is left out.
void edit_line_node(struct edits *e, const char *key, uint32_t node);
// "name" of a node that has one: for the reader; replay checks it.
void edit_line_node_name(struct edits *e, uint32_t node);
void edit_line_value(struct edits *e, const char *key, uint32_t value);
void edit_line_graph(struct edits *e, const char *key, uint32_t graph);
void edit_line_text(struct edits *e, const char *key, struct span text); // left out if empty
void edit_line_string(struct edits *e, const char *key, struct span text);
void edit_line_int(struct edits *e, const char *key, int64_t x);
// "in" and "out": value addresses, null for what is left out.
void edit_line_slots(struct edits *e, const char *key, uint32_t first_ref, uint32_t n);
// "tensor", "dtype", "dims", "recipe" of a tensor made by an edit.
void edit_line_tensor(struct edits *e, uint32_t tensor);
void edit_line_tensor_address(struct edits *e, uint32_t tensor);
// A recipe in place, to any text.
void edit_line_recipe(struct edits *e, struct json_out *j, uint32_t recipe);
// {"int":1}, {"tensor":…}, … of an attribute row; null for a dead one.
void edit_line_attr_value(struct edits *e, uint32_t attr);
// "dtype" and "dims" of a value.
void edit_line_type(struct edits *e, enum dtype dtype, const struct model_dim *dims, uint32_t rank);

#endif
