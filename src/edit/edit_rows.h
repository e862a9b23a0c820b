// Changes to rows that keep the model's invariants: what all edits are made of. They neither check
// nor record; edit.h does. For this room only.
#ifndef WEIR_EDIT_ROWS_H
#define WEIR_EDIT_ROWS_H

#include "model/model.h"

// Marks for emission: the row, its graph, and upwards every attribute, node and graph around it.
void edit_rows_mark_graph(struct model *m, uint32_t graph, uint8_t flags);
void edit_rows_mark_node(struct model *m, uint32_t node);
void edit_rows_mark_attr(struct model *m, uint32_t attr);

// The order list of a graph. before NO_ID: at the end.
void edit_rows_link_node(struct model *m, uint32_t node, uint32_t before);
void edit_rows_unlink_node(struct model *m, uint32_t node);

// Slots of a node; n_in (n_out) appends. The old value dies if nothing holds it any more.
void edit_rows_set_input(struct model *m, uint32_t node, uint32_t slot, uint32_t value);
void edit_rows_set_output(struct model *m, uint32_t node, uint32_t slot, uint32_t value);

// The producer of a value is gone: it stays UNDEFINED (or an INPUT) while something holds it.
void edit_rows_release(struct model *m, uint32_t value);
// A value lost a use: it dies if it is UNDEFINED and this was the last.
void edit_rows_forget(struct model *m, uint32_t value);
// It is listed as an output once more (1) or once less (-1).
void edit_rows_count_output(struct model *m, uint32_t value, int change);

// value_info rows. The new row has no type; set_type gives one (rank NO_ID: unknown shape).
uint32_t edit_rows_add_info(struct model *m, uint32_t value, enum info_home home);
void edit_rows_move_info(struct model *m, uint32_t info, uint32_t value);
void edit_rows_set_type(struct model *m, uint32_t info, enum dtype dtype,
                        const struct model_dim *dims, uint32_t rank);

// The first live INFO_VALUE about the value, or NO_ID. That there is none is remembered: an output of
// a graph listed a thousand times over is asked about as often.
uint32_t edit_rows_inner_info(struct model *m, uint32_t value);

// Takes the value, which is there, out of the graph's inputs.
void edit_rows_remove_input(struct model *m, struct model_graph *g, uint32_t value);
// One more id behind a run in m->graph_io. `room`: entries that lie free behind it. A run without
// room moves to the table's end and gets room for as many again, so that all moves together cost
// no more than the entries (counted in m->work).
void edit_rows_append_io(struct model *m, uint32_t *first, uint32_t *n, uint32_t *room,
                         uint32_t value);

// Appends to the list tables; the lists lie outside of them (small: may lie inside). Gives the
// first.
uint32_t edit_rows_longs(struct model *m, const int64_t *list, uint32_t n);
uint32_t edit_rows_floats(struct model *m, const float *list, uint32_t n);
uint32_t edit_rows_small(struct model *m, struct span bytes); // as model_tensor.small

// Removal with all that hangs below: graphs in attributes, tensors, values, value_infos.
void edit_kill_node(struct model *m, uint32_t node);
void edit_kill_attr(struct model *m, uint32_t attr);
void edit_kill_graph(struct model *m, uint32_t graph);

#endif
