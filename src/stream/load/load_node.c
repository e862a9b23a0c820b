// Node and attribute rows.
//
// A node gets its id when it begins (file order), its attributes theirs when it ends: a node's
// attributes are one run of rows, but a subgraph inside one of them has nodes with attributes of
// its own. Until then they wait in the node's frame, and what hangs on them (tensors, graphs,
// sparse tensors) is told its owner afterwards.
//
//   If ─┬─ then_branch ─ GraphProto ─ Constant ─ value      attrs: value (of Constant),
//       └─ else_branch ─ GraphProto ─ Identity                     then_branch, else_branch (of If)
//
// Inputs are name ids at this point: what they mean is known when all graphs are (load_finish.c).
#include "stream/load/inside/loader.h"

#include <assert.h>

// ---- attributes: what they hold -----------------------------------------------------------------

// Rows hanging on one attribute are a run. Reserves the run for `graphs`, whose members may have
// graphs inside, and refuses what cannot be one.
int load_begin_child(struct loader *l, struct frame *f, const struct wire_field *wf) {
  struct frame *attr = frame_above(l);
  const char *name = f->field->name;
  const bool single = wf->number == ONNX_ATTRIBUTE_t || wf->number == ONNX_ATTRIBUTE_g ||
                      wf->number == ONNX_ATTRIBUTE_sparse_tensor;
  if (attr->child_field && attr->child_field != f->field)
    return load_fatal(l, f->start, "an AttributeProto contains both %s and %s",
                      attr->child_field->name, name);
  if (attr->child_field && single) {
    load_fatal(l, f->start,
               "AttributeProto.%s is given twice (protobuf would merge the two; weir does not)",
               name);
    return err_hint(l->err, "loading and saving the model with the onnx package merges them");
  }
  if (!attr->child_field && wf->number == ONNX_ATTRIBUTE_graphs) {
    uint32_t n;
    if (load_count_ahead(l, attr, wf, &n)) return -1;
    if (load_room(l, l->m->n_graphs, n, "graphs")) return -1;
    attr->reserved_children = n;
    attr->first_child = TABLE_ADD(l->m, graphs, n);
  }
  attr->child_field = f->field;
  return 0;
}

// What fields beside scalars hold.
static const enum attr_type held_types[] = {
    [ONNX_ATTRIBUTE_s] = ATTR_STRING,
    [ONNX_ATTRIBUTE_floats] = ATTR_FLOATS,
    [ONNX_ATTRIBUTE_ints] = ATTR_INTS,
    [ONNX_ATTRIBUTE_strings] = ATTR_STRINGS,
    [ONNX_ATTRIBUTE_t] = ATTR_TENSOR,
    [ONNX_ATTRIBUTE_g] = ATTR_GRAPH,
    [ONNX_ATTRIBUTE_tensors] = ATTR_TENSORS,
    [ONNX_ATTRIBUTE_graphs] = ATTR_GRAPHS,
    [ONNX_ATTRIBUTE_sparse_tensor] = ATTR_SPARSE_TENSOR,
    [ONNX_ATTRIBUTE_sparse_tensors] = ATTR_SPARSE_TENSORS,
};

static bool is_list(enum attr_type t) {
  return t == ATTR_FLOATS || t == ATTR_INTS || t == ATTR_STRINGS;
}

static bool has_rows(enum attr_type t) {
  return t == ATTR_TENSOR || t == ATTR_TENSORS || t == ATTR_GRAPH || t == ATTR_GRAPHS ||
         t == ATTR_SPARSE_TENSOR || t == ATTR_SPARSE_TENSORS;
}

static int check_attr(struct loader *l, const struct frame *f, const Pb__Attribute *a,
                      struct model_attr *row) {
  const struct row_name who = {"attribute", load_text(a->name), f->start};
  const struct schema_field *field = f->payload.field ? f->payload.field : f->child_field;
  const struct schema_field *second = f->payload.other   ? f->payload.other
                                      : f->payload.field ? f->child_field
                                                         : NULL;
  const enum attr_type held = field ? held_types[field->number] : ATTR_UNDEFINED;
  // Files of the first IR version had no `type`: what is there says it.
  const int64_t type = a->has_type ? a->type
                       : field     ? (int64_t)held
                       : a->has_f  ? ATTR_FLOAT
                       : a->has_i  ? ATTR_INT
                                   : ATTR_UNDEFINED;
  if (type < 0 || type > ATTR_TYPE_PROTOS)
    return load_fault(l, FAULT_ERROR, row_place(&who).s, "type %d does not exist", a->type);
  if (second)
    return load_fault(l, FAULT_ERROR, row_place(&who).s, "holds both %s and %s",
                      f->payload.field->name, second->name);
  if (held != ATTR_UNDEFINED && held != (enum attr_type)type)
    return load_fault(l, FAULT_ERROR, row_place(&who).s, "declares type %d, but contains %s",
                      (int)type, field->name);
  const bool single = type == ATTR_TENSOR || type == ATTR_GRAPH || type == ATTR_SPARSE_TENSOR;
  if (single && held == ATTR_UNDEFINED && a->ref_attr_name.len == 0)
    return load_fault(l, FAULT_ERROR, row_place(&who).s, "declares type %d, but contains nothing",
                      (int)type);
  row->type = (uint8_t)type;
  return 0;
}

// ---- attributes: rows ---------------------------------------------------------------------------

static void take_list(struct loader *l, const struct frame *f, const Pb__Attribute *a,
                      struct model_attr *row) {
  struct model *m = l->m;
  row->count = (uint32_t)f->payload.entries;
  if (!f->payload.held && row->count > 0) return; // first stays NO_ID
  if (row->type == ATTR_FLOATS) {
    row->first = TABLE_ADD(m, floats, row->count);
    if (row->count) memcpy(m->floats + row->first, a->floats, row->count * sizeof(float));
  } else if (row->type == ATTR_INTS) {
    row->first = TABLE_ADD(m, longs, row->count);
    if (row->count) memcpy(m->longs + row->first, a->ints, row->count * sizeof(int64_t));
  } else {
    row->first = TABLE_ADD(m, strings, row->count);
    for (uint32_t i = 0; i < row->count; i++)
      m->strings[row->first + i] = model_intern(m, load_text(a->strings[i]));
  }
}

int load_end_attr(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  struct frame *around = frame_above(l);
  const Pb__Attribute *a = load_decode(l, f, &pb__attribute__descriptor);
  if (!a) return -1;
  if (load_room(l, (uint64_t)m->n_attrs + around->n_attrs, 1, "attributes")) return -1;
  if (load_room(l, (uint64_t)m->n_longs + m->n_floats + m->n_strings, f->payload.entries,
                "attribute values"))
    return -1;
  struct pending_attr p = {.row = {.name = load_name(l, load_text(a->name)),
                                   .node = NO_ID,
                                   .ref_name = load_name(l, load_text(a->ref_attr_name)),
                                   .first = NO_ID,
                                   .src = frame_place(f)},
                           .first_kept = m->n_kept_fields,
                           .n_kept = f->n_kept};
  if (check_attr(l, f, a, &p.row)) return -1;
  struct model_attr *row = &p.row;
  const enum attr_type type = row->type;
  if (type == ATTR_FLOAT) row->u.f = a->f;
  if (type == ATTR_INT) row->u.i = a->i;
  if (type == ATTR_STRING) row->u.s = f->payload.held ? model_intern(m, load_text(a->s)) : NO_ID;
  if (is_list(type)) take_list(l, f, a, row);
  if (has_rows(type)) {
    row->first = f->first_child;
    row->count = f->n_children;
  }
  if (f->n_kept) p.row.flags |= ATTR_HAS_KEPT;
  load_flush_kept_fields(l, f, KEPT_ATTR, NO_ID);
  // It may be a Constant's.
  if (a->name.len >= 9 && memcmp(a->name.data, "value_", 6) == 0 &&
      (is_list(type) || type == ATTR_STRING)) {
    p.n_pieces = f->payload.n_pieces;
    p.pieces = load_payload_commit(l, &f->payload);
  }
  *TABLE_PUSH(around, attrs) = p;
  if (around->message == MESSAGE_FUNCTION)
    load_add_other(l, around, ITEM_FUNCTION_ATTRS, frame_place(f));
  return 0;
}

int load_flush_attrs(struct loader *l, struct frame *f, uint32_t node) {
  struct model *m = l->m;
  if (f->n_attrs == 0) return 0;
  const uint32_t first = TABLE_ADD(m, attrs, f->n_attrs);
  for (uint32_t i = 0; i < f->n_attrs; i++) {
    const struct pending_attr *p = &f->attrs[i];
    m->attrs[first + i] = p->row;
    m->attrs[first + i].node = node;
    for (uint32_t k = 0; k < p->n_kept; k++)
      m->kept_fields[p->first_kept + k].id = first + i;
    const uint32_t attr = first + i;
    const struct model_attr *a = &m->attrs[attr];
    for (uint32_t n = 0; has_rows(a->type) && n < a->count; n++) {
      const uint32_t id = a->first + n;
      if (a->type == ATTR_TENSOR || a->type == ATTR_TENSORS) {
        m->tensors[id].owner = attr;
      } else if (a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS) {
        m->graphs[id].owner = attr;
      } else {
        if (m->sparses[id].values != NO_ID) m->tensors[m->sparses[id].values].owner = attr;
        if (m->sparses[id].indices != NO_ID) m->tensors[m->sparses[id].indices].owner = attr;
      }
    }
  }
  if (node == NO_ID) return 0;
  m->nodes[node].attrs = first;
  m->nodes[node].n_attrs = (uint16_t)f->n_attrs;
  for (uint32_t i = 0; i < f->n_attrs; i++) {
    struct model_attr *a = &m->attrs[first + i];
    const enum attr_type t = a->type;
    if (!model_attr_is_constant(m, a)) continue;
    // A Constant's value_… becomes a tensor.
    if (is_list(t) || t == ATTR_FLOAT || t == ATTR_INT || t == ATTR_STRING) {
      if (load_constant_tensor(l, first + i, &f->attrs[i])) return -1;
      continue;
    }
    a->first = NO_ID;
    if (load_fault(l, FAULT_ERROR, load_place("attribute", model_name(m, a->name), a->src.off).s,
                   "a Constant's value cannot be of type %d", (int)t))
      return -1;
  }
  return 0;
}

// ---- nodes --------------------------------------------------------------------------------------

int load_begin_node(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  if (load_room(l, m->n_nodes, 1, "nodes")) return -1;
  const uint32_t id = f->row = TABLE_ADD(m, nodes, 1);
  struct model_graph *g = &m->graphs[f->graph];
  struct model_node *n = &m->nodes[id];
  n->graph = f->graph;
  n->prev = g->last_node;
  n->next = NO_ID;
  n->src = frame_place(f);
  if (g->last_node == NO_ID)
    g->first_node = id;
  else
    m->nodes[g->last_node].next = id;
  g->last_node = id;
  return 0;
}

static void take_outputs(struct loader *l, uint32_t node, uint32_t first,
                         const ProtobufCBinaryData *names, size_t n) {
  struct model *m = l->m;
  for (size_t i = 0; i < n; i++) {
    const uint32_t ref = first + (uint32_t)i;
    m->refs[ref] = (struct model_ref){NO_ID, node, NO_ID, NO_ID};
    if (names[i].len == 0) continue;
    l->last_output = model_intern(m, load_text(names[i]));
    const uint32_t value = load_value(l, m->nodes[node].graph, l->last_output);
    struct model_value *v = &m->values[value];
    m->refs[ref].value = value;
    if (v->kind != VALUE_UNDEFINED) continue; // made twice: check.c reports it
    v->kind = VALUE_NODE_OUTPUT;
    v->def = node;
  }
}

int load_end_node(struct loader *l, struct frame *f) {
  struct model *m = l->m;
  const Pb__Node *d = load_decode(l, f, &pb__node__descriptor);
  if (!d) return -1;
  if (f->n_attrs > UINT16_MAX)
    return load_fatal(l, f->start, "a node has more than %d attributes", UINT16_MAX);
  const uint32_t node = f->row;
  if (load_room(l, m->n_refs, d->n_input + d->n_output, "inputs and outputs of nodes")) return -1;
  if (load_room(l, m->n_values, d->n_output, "values")) return -1;
  const uint32_t first = TABLE_ADD(m, refs, d->n_input + d->n_output);
  for (size_t i = 0; i < d->n_input; i++) {
    const struct span in = load_text(d->input[i]);
    const uint32_t name = in.n ? load_name_like(l, in, l->last_output) : NO_ID;
    m->refs[first + i] = (struct model_ref){name, node, NO_ID, NO_ID};
  }
  m->nodes[node].refs = first;
  m->nodes[node].n_in = (uint32_t)d->n_input;
  m->nodes[node].n_out = (uint32_t)d->n_output;
  take_outputs(l, node, first + (uint32_t)d->n_input, d->output, d->n_output);
  struct model_node *n = &m->nodes[f->row];
  n->name = load_name(l, load_text(d->name));
  n->op_type = l->last_op = load_name_like(l, load_text(d->op_type), l->last_op);
  n->domain = load_name(l, load_text(d->domain));
  n->overload = load_name(l, load_text(d->overload));
  n->attrs = m->n_attrs;
  if (f->n_kept) n->flags |= NODE_HAS_KEPT;
  load_flush_kept_fields(l, f, KEPT_NODE, f->row);
  load_add_item(frame_above(l), ITEM_NODES, f->row);
  return load_flush_attrs(l, f, f->row);
}
