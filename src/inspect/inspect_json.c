// The facts of inspect as JSON.
//
// Keys are stable: programs read them; new ones may be added. Graphs are a flat list, each with its
// own nodes, that refers to parents and subgraphs by id: JSON readers limit nesting, and models
// need not. Long lists go out as they grow, so that a model of millions of nodes is never held as
// text.
#include "inspect/inspect_json.h"

#include "inspect/inspect_shapes.h"
#include "targets/runtime_needs.h"

static void name(struct json_out *j, const char *key, const struct model *m, uint32_t id) {
  json_put_string(j, key, model_name(m, id));
}

// ---- model --------------------------------------------------------------------------------------

static void put_files(struct json_out *j, const struct inspect *in) {
  json_put_object(j, "file");
  json_put_text(j, "name", in->files[0].name);
  json_put_uint(j, "bytes", in->files[0].size);
  json_end_object(j);
  json_put_array(j, "data_files");
  for (uint32_t f = 1; f < in->m->n_files; f++) {
    const struct inspect_file *file = &in->files[f];
    json_object(j);
    json_put_text(j, "name", file->name);
    json_put_uint(j, "bytes", file->size);
    if (file->missing) json_put_bool(j, "missing", true);
    if (file->unreadable) json_put_text(j, "unreadable", file->unreadable->msg);
    if (file->needed > file->size) json_put_uint(j, "bytes_needed", file->needed);
    json_put_uint(j, "tensors", file->use.places);
    json_put_uint(j, "used_bytes", file->use.used);
    json_put_uint(j, "padding_bytes", file->use.padding);
    json_end_object(j);
  }
  json_end_array(j);
}

static void put_versions(struct json_out *j, const struct inspect *in) {
  const struct model *m = in->m;
  json_put_int(j, "ir_version", m->ir_version);
  json_put_array(j, "opsets");
  for (uint32_t i = 0; i < m->n_model_opsets; i++) {
    json_object(j);
    name(j, "domain", m, m->opsets[i].domain);
    json_put_int(j, "version", m->opsets[i].version);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_text(j, "producer_name", in->producer_name);
  json_put_text(j, "producer_version", in->producer_version);
  json_put_array(j, "metadata");
  for (uint32_t i = 0; i < m->n_metadata; i++) {
    json_object(j);
    name(j, "key", m, m->metadata[i].key);
    name(j, "value", m, m->metadata[i].value);
    json_end_object(j);
  }
  json_end_array(j);
}

static void put_values(struct json_out *j, const char *key, const struct model *m, uint32_t first,
                       uint32_t n) {
  json_put_array(j, key);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t value = m->graph_io[first + i];
    if (value == NO_ID) continue;
    const struct model_value *v = &m->values[value];
    const struct model_info *info = v->info == NO_ID ? NULL : &m->infos[v->info];
    json_object(j);
    json_put_string(j, "name", model_value_name(m, value));
    json_put_bool(j, "initializer", v->kind == VALUE_INITIALIZER);
    const bool tensor = info && info->flags & INFO_TENSOR;
    json_put_text(j, "dtype", tensor ? dtype_name(info->dtype) : NULL);
    const bool shaped = info && info->flags & INFO_SHAPED;
    if (shaped) json_put_array(j, "dims");
    for (uint32_t d = 0; shaped && d < info->rank; d++) {
      const struct model_dim *dim = &m->info_dims[info->dims + d];
      if (dim->value >= 0)
        json_int(j, dim->value);
      else if (dim->param != m->empty)
        json_string(j, model_name(m, dim->param));
      else
        json_null(j);
    }
    if (shaped) json_end_array(j);
    json_end_object(j);
  }
  json_end_array(j);
}

// ---- summaries ----------------------------------------------------------------------------------

static void put_sum(struct json_out *j, const char *key, struct inspect_sum sum) {
  json_put_object(j, key);
  json_put_uint(j, "count", sum.tensors);
  json_put_uint(j, "bytes", sum.bytes);
  json_end_object(j);
}

static void put_tensor(struct json_out *j, struct inspect *in, uint32_t id) {
  const struct model *m = in->m;
  const struct model_tensor *t = &m->tensors[id];
  struct extent at = {0};
  bool placed = inspect_place(m, id, &at);
  json_object(j);
  json_put_text(j, "name", inspect_tensor_name(in, id));
  json_put_uint(j, "tensor", id);
  json_put_uint(j, "graph", t->graph);
  json_put_text(j, "dtype", dtype_name(t->dtype));
  json_put_ints(j, "dims", model_dims(m, t), t->rank);
  json_put_uint(j, "bytes", t->bytes);
  json_put_text(j, "file", m->files[at.file].name);
  json_put_known(j, "offset", placed, at.off);
  json_put_uint(j, "uses", inspect_uses(m, id));
  json_end_object(j);
}

// ---- long lists ---------------------------------------------------------------------------------

static void put_slots(struct json_out *j, const char *key, const struct model *m, uint32_t first,
                      uint32_t n) {
  json_put_array(j, key);
  for (uint32_t i = 0; i < n; i++)
    json_string(j, model_value_name(m, m->refs[first + i].value));
  json_end_array(j);
}

static void put_nodes(struct json_out *j, const struct model *m, uint32_t graph) {
  json_put_array(j, "nodes");
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID && json_is_read(j);
       i = m->nodes[i].next) {
    const struct model_node *node = &m->nodes[i];
    json_object(j);
    json_put_uint(j, "node", i);
    name(j, "name", m, node->name);
    name(j, "domain", m, node->domain);
    name(j, "op_type", m, node->op_type);
    put_slots(j, "inputs", m, node->refs, node->n_in);
    put_slots(j, "outputs", m, node->refs + node->n_in, node->n_out);
    json_put_array(j, "subgraphs");
    for (uint32_t n = 0; n < node->n_attrs; n++) {
      const struct model_attr *a = &m->attrs[node->attrs + n];
      if ((a->flags & ATTR_DEAD) || (a->type != ATTR_GRAPH && a->type != ATTR_GRAPHS)) continue;
      for (uint32_t k = 0; k < a->count; k++)
        json_uint(j, a->first + k);
    }
    json_end_array(j);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
}

static void put_graphs(struct json_out *j, const struct model *m, bool tree) {
  static const char *const kinds[] = {"main", "subgraph", "function", "training"};
  json_put_array(j, "graphs");
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    const struct model_graph *graph = &m->graphs[g];
    if (graph->flags & GRAPH_DEAD) continue;
    json_object(j);
    json_put_uint(j, "graph", g);
    name(j, "name", m, graph->name);
    json_put_text(j, "kind", kinds[graph->kind]);
    json_put_known(j, "parent", graph->parent != NO_ID, graph->parent);
    if (graph->kind == GRAPH_FUNCTION && graph->owner < m->n_functions) {
      name(j, "function_domain", m, m->functions[graph->owner].domain);
      name(j, "function_name", m, m->functions[graph->owner].name);
    }
    if (tree) put_nodes(j, m, g);
    json_end_object(j);
    json_flush(j);
  }
  json_end_array(j);
}

// ---- shapes -------------------------------------------------------------------------------------

struct shapes {
  struct inspect_shapes found;
  struct json_out *j;
  bool elements;
  struct arena line;
};

static void put_dim(struct shapes *s, dim_id e, const char *words) {
  int64_t n;
  if (dims_is_number(infer_dims(s->found.infer), e, &n))
    json_int(s->j, n);
  else
    json_text(s->j, words);
}

static void put_value(struct shapes *s, const struct inspect_value *v) {
  const struct model *m = s->found.m;
  const struct infer_type *t = &v->type;
  const struct infer_number *list;
  uint32_t n;
  json_object(s->j);
  json_put_string(s->j, "name", model_value_name(m, v->value));
  json_put_uint(s->j, "graph", m->values[v->value].graph);
  json_put_text(s->j, "dtype", inspect_shapes_kind(t));
  json_key(s->j, "dims");
  if (t->ranked) {
    json_array(s->j);
    for (uint32_t d = 0; d < t->rank; d++)
      put_dim(s, t->dims[d], v->dims[d]);
    json_end_array(s->j);
  } else {
    json_null(s->j);
  }
  json_put_text(s->j, "why", v->why);
  if (s->elements && infer_numbers(s->found.infer, v->value, &list, &n)) {
    json_put_array(s->j, "elements");
    for (uint32_t i = 0; i < n; i++)
      if (list[i].num != NO_ID && list[i].den == 1)
        put_dim(s, list[i].num, inspect_shapes_element(&s->found, list[i], &s->line));
      else
        json_text(s->j, list[i].num == NO_ID
                            ? NULL
                            : inspect_shapes_element(&s->found, list[i], &s->line));
    json_end_array(s->j);
  }
  json_end_object(s->j);
  json_flush(s->j);
}

static void put_totals(struct shapes *s) {
  const struct inspect_shapes *found = &s->found;
  json_put_object(s->j, "totals");
  json_put_uint(s->j, "values", found->values);
  json_put_uint(s->j, "known", found->whole);
  json_put_uint(s->j, "some_dims_unknown", found->ranked);
  json_put_uint(s->j, "no_shape", found->none);
  json_put_object(s->j, "reasons");
  for (uint32_t i = 0; i < INFER_WHYS; i++)
    if (found->why[i]) json_put_uint(s->j, infer_why_code((enum infer_why)i), found->why[i]);
  json_end_object(s->j);
  json_end_object(s->j);
}

static bool show(void *ctx, const struct inspect_value *v) {
  struct shapes *s = ctx;
  put_value(s, v);
  arena_reset(&s->line);
  return json_is_read(s->j);
}

static void put_shapes(struct json_out *j, const struct model *m, bool elements) {
  struct shapes s = {.j = j, .elements = elements};
  inspect_shapes_init(&s.found, m);
  json_put_object(j, "shapes");
  json_put_array(j, "values");
  inspect_shapes_each(&s.found, show, &s);
  json_end_array(j);
  put_totals(&s);
  json_end_object(j);
  arena_free(&s.line);
  inspect_shapes_done(&s.found);
}

// ---- all of it ----------------------------------------------------------------------------------

void inspect_json(struct inspect *in, const struct inspect_lists *lists, struct json_out *j) {
  const bool tensors = lists->tensors, tree = lists->tree;
  put_files(j, in);
  json_put_known(j, "gzip_bytes", in->packed > 0, in->packed);
  put_versions(j, in);
  const struct model *m = in->m;
  struct model_graph none = {0};
  const struct model_graph *g = m->main_graph == NO_ID ? &none : &m->graphs[m->main_graph];
  put_values(j, "inputs", m, g->inputs, g->n_inputs);
  put_values(j, "outputs", m, g->outputs, g->n_outputs);
  put_graphs(j, in->m, tree);
  const struct runtime_needs needs = runtime_needs_of(in->m, &in->arena);
  runtime_needs_write(&needs, j);
  json_put_uint(j, "nodes", in->n_nodes);
  json_put_array(j, "operators");
  for (uint32_t i = 0; i < in->n_ops; i++) {
    json_object(j);
    name(j, "domain", in->m, in->ops[i].domain);
    name(j, "op_type", in->m, in->ops[i].op_type);
    json_put_uint(j, "count", in->ops[i].count);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_uint(j, "parameters", in->parameters);
  json_put_array(j, "quantized");
  for (uint32_t i = 0; i < in->n_quantized; i++) {
    const struct inspect_quantized *q = &in->quantized[i];
    json_object(j);
    json_put_text(j, "op_type", q->op_type);
    json_put_uint(j, "bits", q->bits);
    json_put_known(j, "block", q->block > 0, q->block);
    json_put_uint(j, "weights", q->weights);
    json_put_uint(j, "parameters", q->parameters);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_object(j, "tensors");
  put_sum(j, "all", in->sums.all);
  put_sum(j, "in_data_files", in->sums.external);
  put_sum(j, "in_model_file", in->sums.inlined);
  put_sum(j, "in_nodes", in->sums.in_nodes);
  put_sum(j, "unused", in->sums.unused);
  json_put_object(j, "by_dtype");
  for (uint32_t t = 0; t < 256; t++)
    if (in->sums.by_dtype[t].tensors && (dtype_known(t) || t == DTYPE_UNDEFINED))
      put_sum(j, dtype_name(t), in->sums.by_dtype[t]);
  json_end_object(j);
  json_end_object(j);
  json_put_array(j, "largest_tensors");
  for (uint32_t i = 0; i < in->n_largest; i++)
    put_tensor(j, in, in->largest[i]);
  json_end_array(j);
  json_put_array(j, "advice");
  for (uint32_t i = 0; i < in->n_advice; i++) {
    json_object(j);
    json_put_text(j, "command", in->advice[i].command);
    json_put_uint(j, "sites", in->advice[i].sites);
    json_put_text(j, "text", in->advice[i].text);
    json_put_known(j, "bytes", in->advice[i].bytes > 0, in->advice[i].bytes);
    json_put_text(j, "run", in->advice[i].run);
    json_end_object(j);
  }
  json_end_array(j);
  if (in->next.command) {
    json_put_object(j, "next");
    json_put_text(j, "command", in->next.command);
    json_put_uint(j, "bytes", in->next.bytes);
    json_put_text(j, "check", in->next.check);
    json_end_object(j);
  } else {
    json_put_null(j, "next");
  }
  if (tensors) json_put_array(j, "tensor_list");
  for (uint32_t i = 0; tensors && i < m->n_tensors && json_is_read(j); i++) {
    if (m->tensors[i].flags & TENSOR_DEAD) continue;
    put_tensor(j, in, i);
    json_flush(j);
  }
  if (tensors) json_end_array(j);
  if (lists->shapes) put_shapes(j, m, lists->elements);
}
