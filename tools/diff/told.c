// What both ways of telling share: words for attributes, graphs, tensors, and what counts as a
// difference. Where bytes lie (inside the .onnx or in a data file) and in which of several valid
// orders nodes stand is told, but makes no model different.
#include "diffing.h"

#include <stdio.h>
#include <stdlib.h>

enum { LIST_SHOWN = 8 };

const char *told_type(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  return arena_printf(&x->arena, "%s%s", dtype_name((enum dtype)t->dtype),
                      quote_dims(model_dims(m, t), t->rank).s);
}

const char *told_tensor(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  const struct span name = diff_tensor_name(m, tensor);
  if (t->home != HOME_ATTRIBUTE || diff_tensor_value(m, tensor) != NO_ID || t->owner == NO_ID ||
      m->attrs[t->owner].node == NO_ID)
    return arena_string(&x->arena, name);
  const struct model_attr *a = &m->attrs[t->owner];
  const struct model_node *n = &m->nodes[a->node];
  const uint32_t out = model_output(m, n, 0);
  const struct span of =
      n->name != m->empty || out == NO_ID ? model_name(m, n->name) : model_value_name(m, out);
  return arena_printf(&x->arena, "%.*s.%s", (int)of.n, (const char *)of.at,
                      model_name_str(m, a->name));
}

const char *told_layer(struct diffing *x, const struct weighed *row) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = &x->side[s].model;
    const uint32_t value = row->tensor[s] == NO_ID ? NO_ID : diff_tensor_value(m, row->tensor[s]);
    const uint32_t use = value == NO_ID ? NO_ID : m->values[value].first_use;
    if (use != NO_ID && m->nodes[m->refs[use].node].name != m->empty)
      return model_name_str(m, m->nodes[m->refs[use].node].name);
  }
  return "";
}

// "" for the main graph; else the node or function that it lies in.
const char *told_graph(struct diffing *x, uint32_t side, uint32_t graph) {
  const struct model *m = &x->side[side].model;
  const struct model_graph *g = &m->graphs[graph];
  if (g->kind == GRAPH_FUNCTION && g->owner != NO_ID)
    return arena_printf(&x->arena, "function %s", model_name_str(m, m->functions[g->owner].name));
  if (g->kind == GRAPH_TRAINING) return "training";
  if (g->kind != GRAPH_SUB || g->owner == NO_ID || m->attrs[g->owner].node == NO_ID) return "";
  const struct model_attr *a = &m->attrs[g->owner];
  const struct model_node *n = &m->nodes[a->node];
  const uint32_t out = model_output(m, n, 0);
  const struct span of =
      n->name != m->empty || out == NO_ID ? model_name(m, n->name) : model_value_name(m, out);
  return arena_printf(&x->arena, "%s of %.*s", model_name_str(m, a->name), (int)of.n,
                      (const char *)of.at);
}

// ---- attributes --------------------------------------------------------------------------------

static const char *join(struct diffing *x, const char *so_far, const char *word) {
  return arena_printf(&x->arena, "%s%s%s", so_far, *so_far ? "," : "", word);
}

static const char *small_elements(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  struct span s;
  if (!model_small_value(m, tensor, &s) || s.n == 0) return "";
  const char *list = "";
  for (uint32_t i = 0; i < LIST_SHOWN; i++) {
    int64_t wide;
    float single;
    double real;
    const char *word = NULL;
    if (t->dtype == DTYPE_INT64 && (i + 1) * sizeof wide <= s.n) {
      memcpy(&wide, s.at + i * sizeof wide, sizeof wide);
      word = arena_printf(&x->arena, "%lld", (long long)wide);
    } else if (t->dtype == DTYPE_FLOAT && (i + 1) * sizeof single <= s.n) {
      memcpy(&single, s.at + i * sizeof single, sizeof single);
      word = arena_printf(&x->arena, "%.9g", (double)single);
    } else if (t->dtype == DTYPE_DOUBLE && (i + 1) * sizeof real <= s.n) {
      memcpy(&real, s.at + i * sizeof real, sizeof real);
      word = arena_printf(&x->arena, "%.17g", real);
    } else if (t->dtype == DTYPE_BOOL && i < s.n) {
      word = s.at[i] ? "true" : "false";
    }
    if (!word) return i ? arena_printf(&x->arena, " = %s", list) : "";
    list = join(x, list, word);
  }
  return arena_printf(&x->arena, " = %s…", list);
}

static const char *list_of(struct diffing *x, const struct model *m, const struct model_attr *a) {
  const char *list = "";
  if (a->first == NO_ID) return arena_printf(&x->arena, "%u elements", a->count);
  for (uint32_t i = 0; i < a->count && i < LIST_SHOWN; i++)
    list = join(
        x, list,
        a->type == ATTR_INTS ? arena_printf(&x->arena, "%lld", (long long)m->longs[a->first + i])
        : a->type == ATTR_FLOATS ? arena_printf(&x->arena, "%.9g", (double)m->floats[a->first + i])
                                 : quote(model_name(m, m->strings[a->first + i])).s);
  return arena_printf(&x->arena, "[%s%s]", list, a->count > LIST_SHOWN ? ",…" : "");
}

const char *told_attr(struct diffing *x, uint32_t side, uint32_t attr) {
  const struct model *m = &x->side[side].model;
  const struct model_attr *a = &m->attrs[attr];
  if (a->ref_name != m->empty)
    return arena_printf(&x->arena, "the function's %s", quote(model_name(m, a->ref_name)).s);
  if (model_attr_is_constant(m, a)) return "a constant";
  switch ((enum attr_type)a->type) {
  case ATTR_INT: return arena_printf(&x->arena, "%lld", (long long)a->u.i);
  case ATTR_FLOAT: return arena_printf(&x->arena, "%.9g", (double)a->u.f);
  case ATTR_STRING:
    return a->u.s == NO_ID ? "a long string"
                           : arena_printf(&x->arena, "'%s'", quote(model_name(m, a->u.s)).s);
  case ATTR_INTS:
  case ATTR_FLOATS:
  case ATTR_STRINGS: return list_of(x, m, a);
  case ATTR_TENSOR:
    return a->first == NO_ID ? "a tensor"
                             : arena_printf(&x->arena, "%s%s", told_type(x, side, a->first),
                                            small_elements(x, side, a->first));
  case ATTR_GRAPH: return "a graph";
  case ATTR_GRAPHS: return arena_printf(&x->arena, "%u graphs", a->count);
  default: return "another value";
  }
}

// ---- operators ---------------------------------------------------------------------------------

static int by_name(const void *pa, const void *pb) {
  return strcmp(((const struct told_op *)pa)->name, ((const struct told_op *)pb)->name);
}

struct told_op *told_ops(struct diffing *x, uint32_t *n) {
  uint64_t *count[DIFF_SIDES];
  struct told_op *ops = NULL;
  *n = 0;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    count[s] = arena_zalloc(&x->arena, (x->d.n_names + (size_t)1) * sizeof **count);
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = &x->side[s].model;
    for (uint32_t i = 0; i < m->n_nodes; i++) {
      if (m->nodes[i].flags & NODE_DEAD) continue;
      uint64_t *at = &count[s][x->d.names[s][m->nodes[i].op_type]];
      if (count[0][at - count[s]] + count[1][at - count[s]] == 0) ++*n;
      ++*at;
    }
  }
  ops = arena_zalloc(&x->arena, (*n + (size_t)1) * sizeof *ops);
  uint32_t k = 0;
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = &x->side[s].model;
    for (uint32_t i = 0; i < m->n_nodes; i++) {
      if (m->nodes[i].flags & NODE_DEAD) continue;
      const uint32_t at = x->d.names[s][m->nodes[i].op_type];
      if (count[0][at] + count[1][at] == 0) continue;
      ops[k++] =
          (struct told_op){model_name_str(m, m->nodes[i].op_type), {count[0][at], count[1][at]}};
      count[0][at] = count[1][at] = 0;
    }
  }
  qsort(ops, k, sizeof *ops, by_name);
  return ops;
}

// ---- verdict -----------------------------------------------------------------------------------

bool told_node_alone(const struct diffing *x, uint32_t side, uint32_t node) {
  const struct model *m = &x->side[side].model;
  const struct model_node *n = &m->nodes[node];
  if (n->flags & NODE_DEAD || x->d.nodes[side][node] != NO_ID) return false;
  if (x->d.graphs[side][n->graph] == NO_ID) return false;
  // What a Constant holds is told as a tensor.
  return !diff_node_is_constant(m, node) || diff_value_tensor(m, model_output(m, n, 0)) == NO_ID;
}

bool told_row_differs(const struct weighed *row) {
  return row->verdict == WEIGHED_DIFFERS || row->renamed || row->rehomed || row->dtype ||
         row->dims || row->by == WEIGHED_TRANSPOSED;
}

bool told_equal(const struct diffing *x) {
  if (x->d.n_lines || x->d.n_changes || x->d.renamed_values) return false;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t i = 0; i < x->side[s].model.n_nodes; i++)
      if (told_node_alone(x, s, i)) return false;
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (told_row_differs(&x->rows[i])) return false;
  return true;
}
