// protobuf-c, behind a wall: the one file that sees the generated header.
//
// protobuf-c recurses without a limit, copies every bytes field and expands packed varints. None of
// that can hurt here: load.c hands over one unit at a time (nesting checked, payloads left
// out), and the memory comes from a scratch arena that is reset after every unit, so freeing does
// nothing and a million units cost no malloc.
#include "decode.h"

#include "onnx.pb-c.h"

static void *take(void *scratch, size_t n) {
  return arena_alloc(scratch, n);
}

static void keep(void *scratch, void *at) {
  (void)scratch;
  (void)at;
}

static struct ProtobufCAllocator from(struct arena *scratch) {
  return (struct ProtobufCAllocator){.alloc = take, .free = keep, .allocator_data = scratch};
}

static struct span text(ProtobufCBinaryData d) {
  return span_of(d.data, d.len);
}

static const struct span *texts(struct arena *scratch, const ProtobufCBinaryData *d, size_t n) {
  struct span *list = arena_alloc(scratch, n * sizeof *list);
  for (size_t i = 0; i < n; i++)
    list[i] = text(d[i]);
  return list;
}

bool decode_ir_version(struct arena *scratch, struct span bytes, int64_t *version) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Model *p = pb__model__unpack(&a, bytes.n, bytes.at);
  if (p) *version = p->ir_version;
  return p != NULL;
}

bool decode_graph_name(struct arena *scratch, struct span bytes, struct span *name) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Graph *p = pb__graph__unpack(&a, bytes.n, bytes.at);
  if (p) *name = text(p->name);
  return p != NULL;
}

bool decode_node(struct arena *scratch, struct span bytes, struct decoded_node *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Node *p = pb__node__unpack(&a, bytes.n, bytes.at);
  if (!p) return false;
  *out = (struct decoded_node){.name = text(p->name),
                               .op_type = text(p->op_type),
                               .domain = text(p->domain),
                               .overload = text(p->overload),
                               .in = texts(scratch, p->input, p->n_input),
                               .n_in = p->n_input,
                               .out = texts(scratch, p->output, p->n_output),
                               .n_out = p->n_output};
  return true;
}

bool decode_attr(struct arena *scratch, struct span bytes, struct decoded_attr *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Attribute *p = pb__attribute__unpack(&a, bytes.n, bytes.at);
  if (!p) return false;
  *out = (struct decoded_attr){.name = text(p->name),
                               .ref_name = text(p->ref_attr_name),
                               .s = text(p->s),
                               .has_s = p->has_s,
                               .i = p->i,
                               .has_i = p->has_i,
                               .f = p->f,
                               .has_f = p->has_f,
                               .type = p->type,
                               .has_type = p->has_type,
                               .ints = p->ints,
                               .n_ints = p->n_ints,
                               .floats = p->floats,
                               .n_floats = p->n_floats,
                               .strings = texts(scratch, p->strings, p->n_strings),
                               .n_strings = p->n_strings};
  return true;
}

static struct decoded_entry location(const Pb__Location *p) {
  return (struct decoded_entry){text(p->key), text(p->value)};
}

bool decode_tensor(struct arena *scratch, struct span bytes, struct decoded_tensor *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Tensor *p = pb__tensor__unpack(&a, bytes.n, bytes.at);
  if (!p) return false;
  struct decoded_entry *list = NULL;
  if (p->n_external_data) list = arena_alloc(scratch, p->n_external_data * sizeof *list);
  for (size_t i = 0; i < p->n_external_data; i++)
    list[i] = location(p->external_data[i]);
  *out = (struct decoded_tensor){.name = text(p->name),
                                 .dims = p->dims,
                                 .n_dims = p->n_dims,
                                 .data_type = p->data_type,
                                 .data_location = p->data_location,
                                 .has_segment = p->segment != NULL,
                                 .entries = list,
                                 .n_entries = p->n_external_data};
  return true;
}

static struct decoded_dim dim(const Pb__Dim *p) {
  struct decoded_dim d = {0};
  d.has_value = p->choice_case == PB__DIM__CHOICE_DIM_VALUE;
  if (d.has_value) d.value = p->dim_value;
  if (p->choice_case == PB__DIM__CHOICE_DIM_PARAM) d.param = text(p->dim_param);
  return d;
}

static void take_type(struct arena *scratch, const Pb__Type *type, struct decoded_info *out) {
  if (!type || !type->tensor_type) return;
  // Two kinds of type at once are no type.
  if (type->sequence_type || type->map_type || type->opaque_type || type->sparse_tensor_type ||
      type->optional_type)
    return;
  const Pb__TypeTensor *t = type->tensor_type;
  out->is_tensor = true;
  out->elem_type = t->elem_type;
  out->is_shaped = t->shape != NULL;
  if (!t->shape) return;
  struct decoded_dim *dims = arena_alloc(scratch, t->shape->n_dim * sizeof *dims);
  for (size_t i = 0; i < t->shape->n_dim; i++)
    dims[i] = dim(t->shape->dim[i]);
  out->dims = dims;
  out->n_dims = t->shape->n_dim;
}

bool decode_info(struct arena *scratch, struct span bytes, struct decoded_info *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Info *p = pb__info__unpack(&a, bytes.n, bytes.at);
  if (!p) return false;
  *out = (struct decoded_info){.name = text(p->name)};
  take_type(scratch, p->type, out);
  return true;
}

bool decode_function(struct arena *scratch, struct span bytes, struct decoded_function *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Function *p = pb__function__unpack(&a, bytes.n, bytes.at);
  if (!p) return false;
  *out = (struct decoded_function){.name = text(p->name),
                                   .domain = text(p->domain),
                                   .overload = text(p->overload),
                                   .in = texts(scratch, p->input, p->n_input),
                                   .n_in = p->n_input,
                                   .out = texts(scratch, p->output, p->n_output),
                                   .n_out = p->n_output};
  return true;
}

bool decode_opset(struct arena *scratch, struct span bytes, struct decoded_opset *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Opset *p = pb__opset__unpack(&a, bytes.n, bytes.at);
  if (p) *out = (struct decoded_opset){text(p->domain), p->version};
  return p != NULL;
}

bool decode_entry(struct arena *scratch, struct span bytes, struct decoded_entry *out) {
  struct ProtobufCAllocator a = from(scratch);
  const Pb__Entry *p = pb__entry__unpack(&a, bytes.n, bytes.at);
  if (p) *out = (struct decoded_entry){text(p->key), text(p->value)};
  return p != NULL;
}
