// Row by row, as the format has it; the plan of a model (src/plan) copies what load saw instead,
// and here nothing was loaded.
#include "made_file.h"

#include "mutate_tree.h"

enum { MOST_ELEMENTS = 1 << 16, TYPE_TENSOR = ONNX_TYPE_tensor_type };

struct making {
  const struct model *m;
  struct tree t;
};

static void put_text(struct making *k, struct field *in, uint32_t number, struct span text) {
  tree_put(in, NULL, tree_text(&k->t, number, text));
}

static void put_name(struct making *k, struct field *in, uint32_t number, uint32_t name) {
  if (name != k->m->empty) put_text(k, in, number, model_name(k->m, name));
}

static void put_number(struct making *k, struct field *in, uint32_t number, uint64_t x) {
  tree_put(in, NULL, tree_number(&k->t, number, x));
}

static void put_float(struct making *k, struct field *in, uint32_t number, float x) {
  struct field *f = tree_new(&k->t, number, WIRE_FIXED32);
  memcpy(&f->x, &x, sizeof x);
  tree_put(in, NULL, f);
}

static struct field *put_message(struct making *k, struct field *in, uint32_t number,
                                 enum message holds) {
  struct field *f = tree_message(&k->t, number, holds);
  tree_put(in, NULL, f);
  return f;
}

// ---- tensors and types --------------------------------------------------------------------------

static struct span elements(struct making *k, uint32_t id) {
  static const float few[] = {0.5f, -1, 0.25f, 2, 0, -0.75f, 1};
  struct span small;
  if (model_small_value(k->m, id, &small)) return small;
  const size_t n = (size_t)min_u64(k->m->tensors[id].bytes, MOST_ELEMENTS * sizeof *few);
  uint8_t *at = arena_zalloc(k->t.a, n + 1);
  for (size_t i = 0; i + sizeof *few <= n; i += sizeof *few)
    memcpy(at + i, &few[i / sizeof *few % 7], sizeof *few);
  return span_of(at, n);
}

static void put_tensor(struct making *k, struct field *in, uint32_t number, uint32_t id) {
  const struct model_tensor *t = &k->m->tensors[id];
  struct field *f = put_message(k, in, number, MESSAGE_TENSOR);
  uint64_t n = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    put_number(k, f, ONNX_TENSOR_dims, (uint64_t)model_dims(k->m, t)[i]);
    n *= (uint64_t)model_dims(k->m, t)[i];
  }
  put_number(k, f, ONNX_TENSOR_data_type, t->dtype);
  put_name(k, f, ONNX_TENSOR_name, t->name);
  if (t->dtype != DTYPE_STRING)
    put_text(k, f, ONNX_TENSOR_raw_data, elements(k, id));
  else
    for (uint64_t i = 0; i < n && i < MOST_ELEMENTS; i++)
      put_text(k, f, ONNX_TENSOR_string_data, span_str("s"));
}

static void put_info(struct making *k, struct field *in, uint32_t number, uint32_t value,
                     uint32_t info) {
  const struct model_info *row = info == NO_ID ? NULL : &k->m->infos[info];
  struct field *f = put_message(k, in, number, MESSAGE_INFO);
  put_text(k, f, ONNX_INFO_name, model_value_name(k->m, value));
  if (!row || !(row->flags & INFO_TENSOR)) return;
  struct field *type = put_message(k, f, ONNX_INFO_type, MESSAGE_TYPE);
  struct field *tensor = put_message(k, type, TYPE_TENSOR, MESSAGE_TYPE_TENSOR);
  put_number(k, tensor, ONNX_TYPE_TENSOR_elem_type, row->dtype);
  if (!(row->flags & INFO_SHAPED)) return;
  struct field *shape = put_message(k, tensor, ONNX_TYPE_TENSOR_shape, MESSAGE_SHAPE);
  for (uint32_t i = 0; i < row->rank; i++) {
    const struct model_dim *d = &k->m->info_dims[row->dims + i];
    struct field *dim = put_message(k, shape, ONNX_SHAPE_dim, MESSAGE_DIM);
    if (d->value >= 0)
      put_number(k, dim, ONNX_DIM_dim_value, (uint64_t)d->value);
    else
      put_name(k, dim, ONNX_DIM_dim_param, d->param);
  }
}

// ---- nodes --------------------------------------------------------------------------------------

static void put_graph(struct making *k, struct field *in, uint32_t number, uint32_t graph);

static void put_list(struct making *k, struct field *f, const struct model_attr *a) {
  for (uint32_t i = 0; i < a->count; i++)
    switch (a->type) {
    case ATTR_INTS:
      put_number(k, f, ONNX_ATTRIBUTE_ints, (uint64_t)k->m->longs[a->first + i]);
      break;
    case ATTR_FLOATS: put_float(k, f, ONNX_ATTRIBUTE_floats, k->m->floats[a->first + i]); break;
    case ATTR_STRINGS:
      put_text(k, f, ONNX_ATTRIBUTE_strings, model_name(k->m, k->m->strings[a->first + i]));
      break;
    default: break;
    }
}

static void put_attribute(struct making *k, struct field *in, uint32_t number,
                          const struct model_attr *a) {
  const bool made =
      model_attr_is_constant(k->m, a); // a Constant's list, of which a tensor was made
  struct field *f = put_message(k, in, number, MESSAGE_ATTRIBUTE);
  if (made)
    put_text(k, f, ONNX_ATTRIBUTE_name, span_str("value"));
  else
    put_name(k, f, ONNX_ATTRIBUTE_name, a->name);
  put_number(k, f, ONNX_ATTRIBUTE_type, made ? ATTR_TENSOR : a->type);
  put_name(k, f, ONNX_ATTRIBUTE_ref_attr_name, a->ref_name);
  if (a->ref_name != k->m->empty) return;
  if (made || a->type == ATTR_TENSOR)
    put_tensor(k, f, ONNX_ATTRIBUTE_t, a->first);
  else if (a->type == ATTR_INT)
    put_number(k, f, ONNX_ATTRIBUTE_i, (uint64_t)a->u.i);
  else if (a->type == ATTR_FLOAT)
    put_float(k, f, ONNX_ATTRIBUTE_f, a->u.f);
  else if (a->type == ATTR_STRING)
    put_text(k, f, ONNX_ATTRIBUTE_s, model_name(k->m, a->u.s));
  else if (a->type == ATTR_GRAPH)
    put_graph(k, f, ONNX_ATTRIBUTE_g, a->first);
  else
    put_list(k, f, a);
}

static void put_nodes(struct making *k, struct field *in, uint32_t number, uint32_t graph) {
  for (uint32_t id = k->m->graphs[graph].first_node; id != NO_ID; id = k->m->nodes[id].next) {
    const struct model_node *n = &k->m->nodes[id];
    struct field *f = put_message(k, in, number, MESSAGE_NODE);
    for (uint32_t i = 0; i < n->n_in + n->n_out; i++)
      put_text(k, f, i < n->n_in ? ONNX_NODE_input : ONNX_NODE_output,
               model_value_name(k->m, k->m->refs[n->refs + i].value));
    put_name(k, f, ONNX_NODE_name, n->name);
    put_name(k, f, ONNX_NODE_op_type, n->op_type);
    put_name(k, f, ONNX_NODE_domain, n->domain);
    put_name(k, f, ONNX_NODE_overload, n->overload);
    for (uint32_t i = 0; i < n->n_attrs; i++)
      put_attribute(k, f, ONNX_NODE_attribute, &k->m->attrs[n->attrs + i]);
  }
}

// ---- graphs, functions, the model ---------------------------------------------------------------

static void put_values(struct making *k, struct field *f, uint32_t graph) {
  const struct model_graph *g = &k->m->graphs[graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = k->m->graph_io[g->inputs + i];
    put_info(k, f, ONNX_GRAPH_input, value, model_info_at(k->m, value, INFO_INPUT));
  }
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const uint32_t value = k->m->graph_io[g->outputs + i];
    put_info(k, f, ONNX_GRAPH_output, value, model_info_at(k->m, value, INFO_OUTPUT));
  }
  for (uint32_t i = 0; i < k->m->n_infos; i++) {
    const struct model_info *row = &k->m->infos[i];
    if (row->home == INFO_VALUE && row->value != NO_ID && k->m->values[row->value].graph == graph)
      put_info(k, f, ONNX_GRAPH_value_info, row->value, i);
  }
}

static void put_graph(struct making *k, struct field *in, uint32_t number, uint32_t graph) {
  struct field *f = put_message(k, in, number, MESSAGE_GRAPH);
  put_nodes(k, f, ONNX_GRAPH_node, graph);
  put_name(k, f, ONNX_GRAPH_name, k->m->graphs[graph].name);
  for (uint32_t id = 0; id < k->m->n_tensors; id++)
    if (k->m->tensors[id].home == HOME_INITIALIZER && k->m->tensors[id].graph == graph)
      put_tensor(k, f, ONNX_GRAPH_initializer, id);
  put_values(k, f, graph);
}

static void put_opsets(struct making *k, struct field *in, uint32_t number, uint32_t first,
                       uint32_t n) {
  for (uint32_t i = first; i < first + n; i++) {
    struct field *f = put_message(k, in, number, MESSAGE_OPSET);
    put_name(k, f, ONNX_OPSET_domain, k->m->opsets[i].domain);
    put_number(k, f, ONNX_OPSET_version, (uint64_t)k->m->opsets[i].version);
  }
}

static void put_function(struct making *k, const struct model_function *row) {
  const struct model_graph *g = &k->m->graphs[row->graph];
  struct field *f = put_message(k, k->t.root, ONNX_MODEL_functions, MESSAGE_FUNCTION);
  put_name(k, f, ONNX_FUNCTION_name, row->name);
  put_name(k, f, ONNX_FUNCTION_domain, row->domain);
  put_name(k, f, ONNX_FUNCTION_overload, row->overload);
  put_opsets(k, f, ONNX_FUNCTION_opset_import, row->opsets, row->n_opsets);
  for (uint32_t i = 0; i < g->n_inputs; i++)
    put_text(k, f, ONNX_FUNCTION_input, model_value_name(k->m, k->m->graph_io[g->inputs + i]));
  for (uint32_t i = 0; i < g->n_outputs; i++)
    put_text(k, f, ONNX_FUNCTION_output, model_value_name(k->m, k->m->graph_io[g->outputs + i]));
  for (uint32_t i = 0; i < row->n_attrs; i++) {
    const struct model_attr *a = &k->m->attrs[row->attrs + i];
    if (a->type == ATTR_UNDEFINED)
      put_name(k, f, ONNX_FUNCTION_attribute, a->name);
    else
      put_attribute(k, f, ONNX_FUNCTION_attribute_proto, a);
  }
  put_nodes(k, f, ONNX_FUNCTION_node, row->graph);
}

struct span made_file(const struct model *m, struct arena *a) {
  struct making k = {.m = m};
  tree_read(&k.t, span_of("", 0), a);
  put_number(&k, k.t.root, ONNX_MODEL_ir_version, (uint64_t)m->ir_version);
  put_opsets(&k, k.t.root, ONNX_MODEL_opset_import, 0, m->n_model_opsets);
  put_graph(&k, k.t.root, ONNX_MODEL_graph, m->main_graph);
  for (uint32_t i = 0; i < m->n_functions; i++)
    put_function(&k, &m->functions[i]);
  for (uint32_t i = 0; i < m->n_metadata; i++) {
    struct field *f = put_message(&k, k.t.root, ONNX_MODEL_metadata_props, MESSAGE_ENTRY);
    put_name(&k, f, ONNX_ENTRY_key, m->metadata[i].key);
    put_name(&k, f, ONNX_ENTRY_value, m->metadata[i].value);
  }
  const struct span made = tree_write(&k.t);
  tree_free(&k.t);
  return made;
}
