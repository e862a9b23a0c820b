// The edits of nodes, and what all edits share: groups, life, the sink.
//
// Every call has the same four steps: the promise (edit_check.h), the change (edit_rows.h,
// edit_make.h), the line (edit_line.h), the count. A renaming writes its line before the change,
// because lines speak of what was there. The edits of tensors are in edit_tensor.c, those of
// values and of the graphs' inputs and outputs in edit_value.c, those of the model in edit_model.c.
#include "edit.h"

#include "edit_check.h"
#include "edit_groups.h"
#include "edit_line.h"
#include "edit_make.h"
#include "edit_rows.h"

void edits_init(struct edits *e, struct model *m, struct recipes *r) {
  *e = (struct edits){.m = m, .r = r};
}

void edits_free(struct edits *e) {
  json_done(&e->line);
  TABLE_FREE(e, origin);
  TABLE_FREE(e, source_of);
  TABLE_FREE(e, looked);
  edit_groups_done(e);
  arena_free(&e->scratch);
  *e = (struct edits){0};
}

int edits_finish(struct edits *e, struct err *err) {
  if (!e->failed) return 0;
  return err_set(err, ERR_IO, "the edit log could not be written (%lu edits were made)", e->n);
}

void edit_done(struct edits *e) {
  edit_line_end(e);
  arena_reset(&e->scratch);
  e->n++;
}

void edit_group(struct edits *e, const char *pass, uint32_t site_node, const char *reason) {
  struct err err = {0};
  edit_check_promise(edit_check_group(e, site_node, &err), &err);
  e->group++;
  edit_groups_begin(e, pass, site_node, reason);
  if (edit_line_begin(e, "group")) {
    edit_line_int(e, "group", e->group);
    edit_line_text(e, "pass", span_str(pass));
    edit_line_node(e, "site", site_node);
    edit_line_node_name(e, site_node);
    edit_line_text(e, "reason", span_str(reason));
  }
  edit_line_end(e);
  arena_reset(&e->scratch);
}

static void write_attrs(struct edits *e, const struct model_node *n) {
  if (n->n_attrs == 0) return;
  json_put_object(&e->line, "attrs");
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    json_key(&e->line, model_name_str(e->m, e->m->attrs[n->attrs + i].name));
    edit_line_attr_value(e, n->attrs + i);
  }
  json_end_object(&e->line);
}

uint32_t edit_add_node(struct edits *e, const struct edit_node *spec) {
  struct err err = {0};
  edit_check_promise(edit_check_add_node(e, spec, &err), &err);
  const uint32_t before = spec->before;
  const uint32_t node = edit_make_node(e, spec);
  edit_groups_made(e, node);
  const struct model_node *n = &e->m->nodes[node];
  if (edit_line_begin(e, "node.add")) {
    edit_line_node(e, "node", node);
    edit_line_text(e, "name", model_name(e->m, n->name));
    edit_line_string(e, "op", model_name(e->m, n->op_type));
    edit_line_text(e, "domain", model_name(e->m, n->domain));
    edit_line_slots(e, "in", n->refs, n->n_in);
    edit_line_slots(e, "out", n->refs + n->n_in, n->n_out);
    write_attrs(e, n);
    edit_line_node(e, "before", before);
  }
  edit_done(e);
  return node;
}

void edit_remove_node(struct edits *e, uint32_t node) {
  struct err err = {0};
  edit_check_promise(edit_check_node(e, node, &err), &err);
  edit_groups_removing(e, node);
  edit_kill_node(e->m, node);
  if (edit_line_begin(e, "node.remove")) {
    edit_line_node(e, "node", node);
    edit_line_node_name(e, node);
    edit_line_string(e, "op", model_name(e->m, e->m->nodes[node].op_type));
  }
  edit_done(e);
}

void edit_move_node(struct edits *e, uint32_t node, uint32_t before) {
  struct err err = {0};
  edit_check_promise(edit_check_move_node(e, node, before, &err), &err);
  edit_rows_unlink_node(e->m, node);
  edit_rows_link_node(e->m, node, before);
  edit_rows_mark_graph(e->m, e->m->nodes[node].graph, GRAPH_DIRTY);
  if (edit_line_begin(e, "node.move")) {
    edit_line_node(e, "node", node);
    edit_line_node(e, "before", before);
  }
  edit_done(e);
}

void edit_set_input(struct edits *e, uint32_t node, uint32_t slot, uint32_t value) {
  struct err err = {0};
  edit_check_promise(edit_check_set_input(e, node, slot, value, &err), &err);
  edit_rows_set_input(e->m, node, slot, value);
  edit_groups_changed(e, node);
  if (edit_line_begin(e, "node.set_input")) {
    edit_line_node(e, "node", node);
    edit_line_int(e, "slot", slot);
    edit_line_value(e, "value", value);
  }
  edit_done(e);
}

void edit_set_output(struct edits *e, uint32_t node, uint32_t slot, struct edit_output to) {
  struct err err = {0};
  edit_check_promise(edit_check_set_output(e, node, slot, to, &err), &err);
  const uint32_t value = edit_make_output(e, e->m->nodes[node].graph, to);
  edit_rows_set_output(e->m, node, slot, value);
  edit_groups_changed(e, node);
  if (edit_line_begin(e, "node.set_output")) {
    edit_line_node(e, "node", node);
    edit_line_int(e, "slot", slot);
    edit_line_value(e, "value", value);
  }
  edit_done(e);
}

static uint32_t remove_attr(struct model *m, uint32_t node, const char *name) {
  const uint32_t attr = (uint32_t)(model_attr_named(m, node, name) - m->attrs);
  edit_kill_attr(m, attr);
  edit_rows_mark_node(m, node);
  return attr;
}

void edit_set_attr(struct edits *e, uint32_t node, const struct edit_attr *attr) {
  struct err err = {0};
  edit_check_promise(edit_check_set_attr(e, node, attr, &err), &err);
  const uint32_t row = attr->type == ATTR_UNDEFINED ? remove_attr(e->m, node, attr->name)
                                                    : edit_make_attr(e, node, attr);
  edit_groups_changed(e, node);
  if (edit_line_begin(e, "node.set_attr")) {
    edit_line_node(e, "node", node);
    edit_line_string(e, "attr", model_name(e->m, e->m->attrs[row].name));
    json_key(&e->line, "value");
    edit_line_attr_value(e, row);
  }
  edit_done(e);
}
