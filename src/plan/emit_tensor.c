// TensorProto, SparseTensorProto and AttributeProto as protobuf.
//
// A re-encoded message is: the fields that the model's rows hold, in field order, with the kept
// fields (doc_string, metadata_props, unknown fields) copied from the source behind the names.
// Payloads come last, so that what a reader wants first is first.
#include "plan/emit_parts.h"

#include <assert.h>
#include <stdio.h>

void emit_kept_fields(struct emission *e, struct rope *to, enum kept_of of, uint32_t id) {
  uint32_t n;
  const struct model_kept_field *kept = model_kept_fields(e->m, of, id, &n);
  for (uint32_t i = 0; i < n; i++)
    rope_copy(e->pool, to, kept[i].at);
}

void emit_name(struct emission *e, struct rope *to, uint32_t field, uint32_t name) {
  if (name != e->m->empty) rope_bytes_field(e->pool, to, field, model_name(e->m, name));
}

void emit_entry(struct emission *e, struct rope *to, uint32_t field, struct span key,
                struct span value) {
  struct rope entry = rope_empty();
  rope_bytes_field(e->pool, &entry, ONNX_ENTRY_key, key);
  rope_bytes_field(e->pool, &entry, ONNX_ENTRY_value, value);
  rope_message_field(e->pool, to, field, entry);
}

// ---- tensors -----------------------------------------------------------------------------------

static void emit_sidecar(struct emission *e, struct rope *to, uint32_t id) {
  char offset[24], length[24];
  snprintf(offset, sizeof offset, "%s", decimal(e->x->off[id]).s);
  snprintf(length, sizeof length, "%s", decimal(e->m->tensors[id].bytes).s);
  emit_entry(e, to, ONNX_TENSOR_external_data, span_str("location"),
             span_str(e->x->data_names[e->x->data[id]]));
  emit_entry(e, to, ONNX_TENSOR_external_data, span_str("offset"), span_str(offset));
  emit_entry(e, to, ONNX_TENSOR_external_data, span_str("length"), span_str(length));
  rope_varint_field(e->pool, to, ONNX_TENSOR_data_location, 1);
}

static void emit_raw_data(struct emission *e, struct rope *to, uint32_t id) {
  struct rope payload = rope_empty();
  const struct recipes *r = e->pool->plan->recipes;
  uint32_t recipe = e->x->recipe[id];
  struct extent at;
  if (r->rows[recipe].kind == RECIPE_BYTES)
    rope_payload(e->pool, &payload, span_of(r->bytes + r->rows[recipe].at, r->rows[recipe].n), id);
  else if (recipe_is_copy(r, recipe, &at))
    rope_extent(e->pool, &payload, at, id);
  else
    rope_recipe(e->pool, &payload, recipe, r->rows[recipe].bytes, id);
  rope_message_field(e->pool, to, ONNX_TENSOR_raw_data, payload);
}

// Strings (of a tensor that was renamed) are copied field by field as they stand, tags included.
static void emit_strings(struct emission *e, struct rope *to, uint32_t id) {
  uint32_t n;
  const struct piece *pieces = model_pieces(e->m, id, &n);
  for (uint32_t i = 0; i < n; i++)
    rope_extent(e->pool, to, pieces[i].at, NO_ID);
}

void emit_tensor_as(struct emission *e, struct rope *to, uint32_t field, uint32_t id,
                    uint32_t name) {
  const struct model_tensor *t = &e->m->tensors[id];
  struct rope body = rope_empty();
  const int64_t *dims = model_dims(e->m, t);
  for (uint32_t i = 0; i < t->rank; i++)
    rope_varint_field(e->pool, &body, ONNX_TENSOR_dims, (uint64_t)dims[i]);
  rope_varint_field(e->pool, &body, ONNX_TENSOR_data_type, t->dtype);
  emit_name(e, &body, ONNX_TENSOR_name, name);
  // An empty name that the source spells out is kept too, and would be the last one to count.
  if (name == t->name) emit_kept_fields(e, &body, KEPT_TENSOR, id);
  if (e->x->of[id] == PLACE_SIDECAR)
    emit_sidecar(e, &body, id);
  else if (e->x->recipe[id] == NO_ID)
    emit_strings(e, &body, id);
  else
    emit_raw_data(e, &body, id);
  rope_message_field(e->pool, to, field, body);
}

void emit_tensor(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  const struct model_tensor *t = &e->m->tensors[id];
  if (e->x->of[id] == PLACE_COPY)
    rope_copy(e->pool, to, t->src);
  else
    emit_tensor_as(e, to, field, id, t->name);
}

void emit_sparse(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  const struct model_sparse *s = &e->m->sparses[id];
  bool values = s->values != NO_ID && e->x->of[s->values] != PLACE_COPY;
  bool indices = s->indices != NO_ID && e->x->of[s->indices] != PLACE_COPY;
  if (!values && !indices) {
    rope_copy(e->pool, to, s->src);
    return;
  }
  struct rope body = rope_empty();
  if (s->values != NO_ID) emit_tensor(e, &body, ONNX_SPARSE_values, s->values);
  if (s->indices != NO_ID) emit_tensor(e, &body, ONNX_SPARSE_indices, s->indices);
  emit_kept_fields(e, &body, KEPT_SPARSE, id);
  rope_message_field(e->pool, to, field, body);
}

// ---- attributes --------------------------------------------------------------------------------

static void emit_lists(struct emission *e, struct rope *to, const struct model_attr *a) {
  const struct model *m = e->m;
  for (uint32_t i = 0; i < a->count; i++) {
    if (a->type == ATTR_INTS)
      rope_varint_field(e->pool, to, ONNX_ATTRIBUTE_ints, (uint64_t)m->longs[a->first + i]);
    else if (a->type == ATTR_FLOATS)
      rope_fixed32_field(e->pool, to, ONNX_ATTRIBUTE_floats, &m->floats[a->first + i]);
    else
      rope_bytes_field(e->pool, to, ONNX_ATTRIBUTE_strings,
                       model_name(m, m->strings[a->first + i]));
  }
}

static void emit_rows(struct emission *e, struct rope *to, const struct model_attr *a) {
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t id = a->first + i;
    switch ((enum attr_type)a->type) {
    case ATTR_TENSOR: emit_tensor(e, to, ONNX_ATTRIBUTE_t, id); break;
    case ATTR_TENSORS: emit_tensor(e, to, ONNX_ATTRIBUTE_tensors, id); break;
    case ATTR_GRAPH:
      rope_message_field(e->pool, to, ONNX_ATTRIBUTE_g, emit_graph_body(e, id));
      break;
    case ATTR_GRAPHS:
      rope_message_field(e->pool, to, ONNX_ATTRIBUTE_graphs, emit_graph_body(e, id));
      break;
    case ATTR_SPARSE_TENSOR: emit_sparse(e, to, ONNX_ATTRIBUTE_sparse_tensor, id); break;
    default: emit_sparse(e, to, ONNX_ATTRIBUTE_sparse_tensors, id); break;
    }
  }
}

static void emit_value(struct emission *e, struct rope *to, const struct model_attr *a) {
  switch ((enum attr_type)a->type) {
  case ATTR_UNDEFINED:
  case ATTR_TYPE_PROTO:
  case ATTR_TYPE_PROTOS: break; // copied with the rest
  case ATTR_FLOAT: rope_fixed32_field(e->pool, to, ONNX_ATTRIBUTE_f, &a->u.f); break;
  case ATTR_INT: rope_varint_field(e->pool, to, ONNX_ATTRIBUTE_i, (uint64_t)a->u.i); break;
  case ATTR_STRING:
    rope_bytes_field(e->pool, to, ONNX_ATTRIBUTE_s, model_name(e->m, a->u.s));
    break;
  case ATTR_INTS:
  case ATTR_FLOATS:
  case ATTR_STRINGS: emit_lists(e, to, a); break;
  default: emit_rows(e, to, a);
  }
}

void emit_attr(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  const struct model_attr *a = &e->m->attrs[id];
  struct rope body = rope_empty();
  if (a->flags & ATTR_DEAD) return;
  if (!emit_attr_changes(e, id)) {
    rope_copy(e->pool, to, a->src);
    return;
  }
  emit_name(e, &body, ONNX_ATTRIBUTE_name, a->name);
  if (a->ref_name != e->m->empty)
    emit_name(e, &body, ONNX_ATTRIBUTE_ref_attr_name, a->ref_name);
  else
    emit_value(e, &body, a);
  emit_kept_fields(e, &body, KEPT_ATTR, id);
  rope_varint_field(e->pool, &body, ONNX_ATTRIBUTE_type, a->type);
  rope_message_field(e->pool, to, field, body);
}
