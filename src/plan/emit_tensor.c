// TensorProto, SparseTensorProto and AttributeProto as protobuf.
//
// A re-encoded message is: the fields that the model's rows hold, in field order, with the `rest`
// (doc_string, metadata_props, unknown fields) copied from the source behind the names. Payloads
// come last, so that what a reader wants first is first.
#include "emit_parts.h"

#include <assert.h>
#include <stdio.h>

enum { // TensorProto
  TENSOR_DIMS = 1,
  TENSOR_DATA_TYPE = 2,
  TENSOR_NAME = 8,
  TENSOR_RAW_DATA = 9,
  TENSOR_EXTERNAL_DATA = 13,
  TENSOR_DATA_LOCATION = 14,
};
enum { ENTRY_KEY = 1, ENTRY_VALUE = 2 };
enum { SPARSE_VALUES = 1, SPARSE_INDICES = 2, SPARSE_DIMS = 3 };
enum { // AttributeProto
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_F = 2,
  ATTRIBUTE_I = 3,
  ATTRIBUTE_S = 4,
  ATTRIBUTE_T = 5,
  ATTRIBUTE_G = 6,
  ATTRIBUTE_FLOATS = 7,
  ATTRIBUTE_INTS = 8,
  ATTRIBUTE_STRINGS = 9,
  ATTRIBUTE_TENSORS = 10,
  ATTRIBUTE_GRAPHS = 11,
  ATTRIBUTE_TYPE = 20,
  ATTRIBUTE_REF_NAME = 21,
  ATTRIBUTE_SPARSE_TENSOR = 22,
  ATTRIBUTE_SPARSE_TENSORS = 23,
};

void emit_rests(struct emission *e, struct rope *to, char kind, uint32_t id) {
  uint32_t n;
  const struct model_rest *rest = model_rests(e->m, kind, id, &n);
  for (uint32_t i = 0; i < n; i++)
    rope_copy(e->pool, to, rest[i].at);
}

void emit_name(struct emission *e, struct rope *to, uint32_t field, uint32_t name) {
  if (name != e->m->empty) rope_bytes_field(e->pool, to, field, model_name(e->m, name));
}

void emit_entry(struct emission *e, struct rope *to, uint32_t field, struct span key,
                struct span value) {
  struct rope entry = rope_empty();
  rope_bytes_field(e->pool, &entry, ENTRY_KEY, key);
  rope_bytes_field(e->pool, &entry, ENTRY_VALUE, value);
  rope_message_field(e->pool, to, field, entry);
}

// ---- tensors -----------------------------------------------------------------------------------

static void emit_sidecar(struct emission *e, struct rope *to, uint32_t id) {
  char offset[24], length[24];
  snprintf(offset, sizeof offset, "%llu", (unsigned long long)e->x->off[id]);
  snprintf(length, sizeof length, "%llu", (unsigned long long)e->m->tensors[id].bytes);
  emit_entry(e, to, TENSOR_EXTERNAL_DATA, span_str("location"), span_str(e->x->data_name));
  emit_entry(e, to, TENSOR_EXTERNAL_DATA, span_str("offset"), span_str(offset));
  emit_entry(e, to, TENSOR_EXTERNAL_DATA, span_str("length"), span_str(length));
  rope_varint_field(e->pool, to, TENSOR_DATA_LOCATION, 1);
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
  rope_message_field(e->pool, to, TENSOR_RAW_DATA, payload);
}

// Strings (of a tensor that was renamed) are copied field by field as they stand, tags included.
static void emit_strings(struct emission *e, struct rope *to, uint32_t id) {
  uint32_t n;
  const struct piece *pieces = model_pieces(e->m, id, &n);
  for (uint32_t i = 0; i < n; i++)
    rope_extent(e->pool, to, pieces[i].at, NO_ID);
}

struct rope emit_tensor_body(struct emission *e, uint32_t id) {
  const struct model_tensor *t = &e->m->tensors[id];
  struct rope body = rope_empty();
  const int64_t *dims = model_dims(e->m, t);
  for (uint32_t i = 0; i < t->rank; i++)
    rope_varint_field(e->pool, &body, TENSOR_DIMS, (uint64_t)dims[i]);
  rope_varint_field(e->pool, &body, TENSOR_DATA_TYPE, t->dtype);
  emit_name(e, &body, TENSOR_NAME, t->name);
  emit_rests(e, &body, 't', id);
  if (e->x->of[id] == PLACE_SIDECAR)
    emit_sidecar(e, &body, id);
  else if (e->x->recipe[id] == NO_ID)
    emit_strings(e, &body, id);
  else
    emit_raw_data(e, &body, id);
  return body;
}

// `field` is what the tensor's holder calls it.
void emit_tensor(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  if (e->x->of[id] == PLACE_COPY)
    rope_copy(e->pool, to, e->m->tensors[id].src);
  else
    rope_message_field(e->pool, to, field, emit_tensor_body(e, id));
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
  if (s->values != NO_ID) emit_tensor(e, &body, SPARSE_VALUES, s->values);
  if (s->indices != NO_ID) emit_tensor(e, &body, SPARSE_INDICES, s->indices);
  emit_rests(e, &body, 's', id);
  rope_message_field(e->pool, to, field, body);
}

// ---- attributes --------------------------------------------------------------------------------

static void emit_lists(struct emission *e, struct rope *to, const struct model_attr *a) {
  const struct model *m = e->m;
  for (uint32_t i = 0; i < a->count; i++) {
    if (a->type == ATTR_INTS)
      rope_varint_field(e->pool, to, ATTRIBUTE_INTS, (uint64_t)m->longs[a->first + i]);
    else if (a->type == ATTR_FLOATS)
      rope_fixed32_field(e->pool, to, ATTRIBUTE_FLOATS, &m->floats[a->first + i]);
    else
      rope_bytes_field(e->pool, to, ATTRIBUTE_STRINGS, model_name(m, m->strings[a->first + i]));
  }
}

static void emit_rows(struct emission *e, struct rope *to, const struct model_attr *a) {
  for (uint32_t i = 0; i < a->count; i++) {
    uint32_t id = a->first + i;
    switch ((enum attr_type)a->type) {
    case ATTR_TENSOR: emit_tensor(e, to, ATTRIBUTE_T, id); break;
    case ATTR_TENSORS: emit_tensor(e, to, ATTRIBUTE_TENSORS, id); break;
    case ATTR_GRAPH: rope_message_field(e->pool, to, ATTRIBUTE_G, emit_graph_body(e, id)); break;
    case ATTR_GRAPHS:
      rope_message_field(e->pool, to, ATTRIBUTE_GRAPHS, emit_graph_body(e, id));
      break;
    case ATTR_SPARSE_TENSOR: emit_sparse(e, to, ATTRIBUTE_SPARSE_TENSOR, id); break;
    default: emit_sparse(e, to, ATTRIBUTE_SPARSE_TENSORS, id); break;
    }
  }
}

static void emit_value(struct emission *e, struct rope *to, const struct model_attr *a) {
  switch ((enum attr_type)a->type) {
  case ATTR_UNDEFINED:
  case ATTR_TYPE_PROTO:
  case ATTR_TYPE_PROTOS: break; // copied with the rest
  case ATTR_FLOAT: rope_fixed32_field(e->pool, to, ATTRIBUTE_F, &a->u.f); break;
  case ATTR_INT: rope_varint_field(e->pool, to, ATTRIBUTE_I, (uint64_t)a->u.i); break;
  case ATTR_STRING: rope_bytes_field(e->pool, to, ATTRIBUTE_S, model_name(e->m, a->u.s)); break;
  case ATTR_INTS:
  case ATTR_FLOATS:
  case ATTR_STRINGS: emit_lists(e, to, a); break;
  default: emit_rows(e, to, a);
  }
}

struct rope emit_attr_body(struct emission *e, uint32_t id) {
  const struct model_attr *a = &e->m->attrs[id];
  struct rope body = rope_empty();
  emit_name(e, &body, ATTRIBUTE_NAME, a->name);
  if (a->ref_name != e->m->empty)
    emit_name(e, &body, ATTRIBUTE_REF_NAME, a->ref_name);
  else
    emit_value(e, &body, a);
  emit_rests(e, &body, 'a', id);
  rope_varint_field(e->pool, &body, ATTRIBUTE_TYPE, a->type);
  return body;
}

void emit_attr(struct emission *e, struct rope *to, uint32_t field, uint32_t id) {
  const struct model_attr *a = &e->m->attrs[id];
  if (a->flags & ATTR_DEAD) return;
  if (emit_attr_changes(e, id))
    rope_message_field(e->pool, to, field, emit_attr_body(e, id));
  else
    rope_copy(e->pool, to, a->src);
}
