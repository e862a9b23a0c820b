// The edits of nodes, and what all edits share: groups, life, the sink.
//
// Every edit has the same four steps: the promise (edit_check.c), the change (edit_apply_…, made of
// edit_rows.h and edit_make.h), the line (edit_line.c), the count. A renaming writes its line before
// the change, because lines speak of what was there. The edits of tensors are in edit_tensor.c, those of
// values and of the graphs' inputs and outputs in edit_value.c, those of the model in edit_model.c.
#include "edit/edit_asked.h"
#include "edit/edit_groups.h"
#include "edit/edit_make.h"
#include "edit/edit_rows.h"

#include <stdio.h>
#include <stdlib.h>

const struct edit_kind_row edit_kinds[EDIT_KINDS] = {
#define FIELD(what, words, member)                                                                 \
  { .keys = words, .type = FIELD_##what, .at = offsetof(struct edit_asked, member) }
#define MAY(what, words, member)                                                                   \
  {                                                                                                \
    .keys = words, .type = FIELD_##what, .may_lack = true,                                         \
    .at = offsetof(struct edit_asked, member)                                                      \
  }
#define EDIT(id, word, stem, ...)                                                                  \
  [EDIT_##id] = {word, edit_check_##stem, edit_apply_##stem, {__VA_ARGS__}},
#include "edit/edit_kinds.def"
};

void edits_init(struct edits *e, struct model *m, struct recipes *r) {
  *e = (struct edits){.m = m, .r = r};
}

void edits_free(struct edits *e) {
  json_done(&e->line);
  TABLES_FREE(e, origin, source_of, looked);
  edit_groups_done(e);
  arena_free(&e->scratch);
  *e = (struct edits){0};
}

int edits_finish(struct edits *e, struct err *err) {
  if (e->deep) {
    err_fill(err, ERR_MODEL, "a weight is computed in %u nested steps; the limit is %d", e->deep,
             RECIPE_MAX_DEPTH);
    return err_hint(err, "run the passes one at a time, each on the output of the one before");
  }
  if (!e->failed) return 0;
  return err_set(err, ERR_IO, "the edit log could not be written (%s edit%s made)", decimal(e->n).s,
                 e->n == 1 ? " was" : "s were");
}

// ---- the four steps ----------------------------------------------------------------------------

void edit_ask(struct edits *e, struct edit_asked *x) {
  struct err err;
  err.kind = ERR_NONE;
  if (edit_kinds[x->kind].check(e, x, &err)) {
    fprintf(stderr, "weir: an edit broke its promise: %s\n", err.msg);
    abort();
  }
  edit_take(e, x);
}

void edit_take(struct edits *e, struct edit_asked *x) {
  const struct edit_kind_row *kind = &edit_kinds[x->kind];
  const bool early = x->kind == EDIT_VALUE_RENAME || x->kind == EDIT_NODE_RENAME;
  // Names and dims may be stored in the model's own tables, which move.
  for (const struct edit_field *f = kind->fields; f->keys; f++) {
    struct span *text = (void *)((uint8_t *)x + f->at);
    if (f->type == FIELD_STRING || f->type == FIELD_TEXT) *text = edit_make_copy(e, *text);
    if (f->type == FIELD_TYPE && x->rank != NO_ID && x->rank > 0)
      x->dims = arena_copy(&e->scratch, x->dims, x->rank * sizeof *x->dims);
  }
  if (early) edit_line(e, x);
  kind->apply(e, x);
  if (!early) edit_line(e, x);
  arena_reset(&e->scratch);
  e->n += x->kind > EDIT_SEE;
}

// Lines have a node's name beside its address, whether the name was given or not.
static struct span name_of_node(const struct edits *e, uint32_t node) {
  return node == NO_ID ? span_of("", 0) : model_name(e->m, e->m->nodes[node].name);
}

void edit_group(struct edits *e, const char *pass, uint32_t site_node, const char *reason) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_GROUP,
                                   .number = (int64_t)e->group + 1,
                                   .pass = span_str(pass),
                                   .node = site_node,
                                   .reason = span_str(reason)});
}

void edit_apply_group(struct edits *e, struct edit_asked *x) {
  e->group++;
  x->name = name_of_node(e, x->node);
  edit_groups_begin(e, (const char *)x->pass.at, x->node, (const char *)x->reason.at);
}

// ---- nodes -------------------------------------------------------------------------------------

uint32_t edit_add_node(struct edits *e, const struct edit_node *spec) {
  struct edit_asked x = {.kind = EDIT_NODE_ADD, .spec = *spec};
  edit_ask(e, &x);
  return x.node;
}

void edit_apply_add_node(struct edits *e, struct edit_asked *x) {
  x->node = edit_make_node(e, &x->spec);
  edit_groups_made(e, x->node);
}

void edit_remove_node(struct edits *e, uint32_t node) {
  struct edit_asked x = {.kind = EDIT_NODE_REMOVE, .node = node};
  if (node < e->m->n_nodes) x.op = model_name(e->m, e->m->nodes[node].op_type);
  edit_ask(e, &x);
}

void edit_apply_remove_node(struct edits *e, struct edit_asked *x) {
  x->name = name_of_node(e, x->node);
  edit_groups_removing(e, x->node);
  edit_kill_node(e->m, x->node);
}

void edit_move_node(struct edits *e, uint32_t node, uint32_t before) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_NODE_MOVE, .node = node, .before = before});
}

void edit_apply_move_node(struct edits *e, struct edit_asked *x) {
  edit_rows_unlink_node(e->m, x->node);
  edit_rows_link_node(e->m, x->node, x->before);
  edit_rows_mark_graph(e->m, e->m->nodes[x->node].graph, GRAPH_DIRTY);
}

void edit_rename_node(struct edits *e, uint32_t node, struct span name) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_NODE_RENAME, .node = node, .name = name});
}

void edit_apply_rename_node(struct edits *e, struct edit_asked *x) {
  const uint32_t name = model_intern(e->m, x->name);
  e->m->nodes[x->node].name = name;
  edit_rows_mark_node(e->m, x->node);
}

void edit_set_input(struct edits *e, uint32_t node, uint32_t slot, uint32_t value) {
  edit_ask(e, &(struct edit_asked){
                  .kind = EDIT_NODE_SET_INPUT, .node = node, .slot = slot, .value = value});
}

void edit_apply_set_input(struct edits *e, struct edit_asked *x) {
  edit_rows_set_input(e->m, x->node, x->slot, x->value);
  edit_groups_changed(e, x->node);
}

void edit_set_output(struct edits *e, uint32_t node, uint32_t slot, struct edit_output to) {
  edit_ask(
      e, &(struct edit_asked){.kind = EDIT_NODE_SET_OUTPUT, .node = node, .slot = slot, .out = to});
}

void edit_apply_set_output(struct edits *e, struct edit_asked *x) {
  x->value = edit_make_output(e, e->m->nodes[x->node].graph, x->out);
  edit_rows_set_output(e->m, x->node, x->slot, x->value);
  edit_groups_changed(e, x->node);
}

void edit_set_attr(struct edits *e, uint32_t node, const struct edit_attr *attr) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_NODE_SET_ATTR,
                                   .node = node,
                                   .name = span_str(attr->name),
                                   .attr_value = *attr});
}

void edit_apply_set_attr(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  if (x->attr_value.type != ATTR_UNDEFINED) {
    x->attr = edit_make_attr(e, x->node, &x->attr_value);
  } else {
    const struct model_attr *a; // a file may have the attribute twice
    while ((a = model_attr_named(m, x->node, x->attr_value.name)) != NULL) {
      x->attr = (uint32_t)(a - m->attrs);
      edit_kill_attr(m, x->attr);
    }
    edit_rows_mark_node(m, x->node);
  }
  edit_groups_changed(e, x->node);
}
