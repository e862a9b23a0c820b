// What each edit promises, said once: edit.h's calls assert it, replay reports it (ERR_MODEL). The
// functions look and change nothing. For this room only.
#ifndef WEIR_EDIT_CHECK_H
#define WEIR_EDIT_CHECK_H

#include "edit.h"

int edit_check_node(const struct edits *e, uint32_t node, struct err *err); // exists and lives
int edit_check_value(const struct edits *e, uint32_t value, struct err *err);
int edit_check_graph(const struct edits *e, uint32_t graph, struct err *err);
int edit_check_tensor(const struct edits *e, uint32_t tensor, struct err *err);

int edit_check_group(const struct edits *e, uint32_t site, struct err *err);
int edit_check_add_node(const struct edits *e, const struct edit_node *spec, struct err *err);
int edit_check_move_node(const struct edits *e, uint32_t node, uint32_t before, struct err *err);
int edit_check_set_input(const struct edits *e, uint32_t node, uint32_t slot, uint32_t value,
                         struct err *err);
int edit_check_set_output(const struct edits *e, uint32_t node, uint32_t slot,
                          struct edit_output to, struct err *err);
int edit_check_set_attr(const struct edits *e, uint32_t node, const struct edit_attr *attr,
                        struct err *err);
int edit_check_add_tensor(const struct edits *e, uint32_t graph, struct span name, uint32_t recipe,
                          struct err *err);
int edit_check_replace_tensor(const struct edits *e, uint32_t tensor, uint32_t recipe,
                              struct err *err);
int edit_check_remove_tensor(const struct edits *e, uint32_t tensor, struct err *err);
int edit_check_rename_value(const struct edits *e, uint32_t value, struct span name,
                            struct err *err);
int edit_check_retype_value(const struct edits *e, uint32_t value, const struct model_dim *dims,
                            uint32_t rank, struct err *err);
int edit_check_replace_uses(const struct edits *e, uint32_t from, uint32_t to, struct err *err);
int edit_check_add_graph_input(const struct edits *e, uint32_t graph, struct span name,
                               const struct model_dim *dims, uint32_t rank, struct err *err);
int edit_check_remove_graph_input(const struct edits *e, uint32_t value, struct err *err);
int edit_check_set_graph_output(const struct edits *e, uint32_t graph, uint32_t position,
                                uint32_t value, struct err *err);
int edit_check_add_subgraph(const struct edits *e, uint32_t parent, struct span name,
                            struct err *err);
int edit_check_add_function(const struct edits *e, struct span domain, struct span name,
                            struct err *err);
int edit_check_remove_function(const struct edits *e, uint32_t function, struct err *err);
int edit_check_set_opset(const struct edits *e, struct span domain, int64_t version,
                         struct err *err);
int edit_check_set_function_opset(const struct edits *e, uint32_t function, struct span domain,
                                  int64_t version, struct err *err);
int edit_check_set_ir_version(const struct edits *e, int64_t version, struct err *err);
int edit_check_set_metadata(const struct edits *e, struct span key, struct span value,
                            struct err *err);

// A check of our own caller: says what was broken and aborts, as assert does.
void edit_check_promise(int rc, const struct err *err);

#endif
