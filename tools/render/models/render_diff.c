// What both ways of telling share: words for attributes, graphs, tensors, and what counts as a
// difference. The place of bytes (inside the .onnx or in a data file) and the order of nodes, where
// several are valid, are told, but make no model different.
#include "render/models/render_diff.h"

#include "base/table.h"

#include <math.h>
#include <stdlib.h>

enum { LIST_SHOWN = 8, VALUE_SHOWN = 60 };

const char *render_diff_type(struct diffing *x, uint32_t side, uint32_t tensor) {
  const struct model *m = &x->side[side].model;
  const struct model_tensor *t = &m->tensors[tensor];
  return arena_printf(&x->arena, "%s%s", dtype_name((enum dtype)t->dtype),
                      quote_dims(model_dims(m, t), t->rank).s);
}

const char *render_diff_tensor(struct diffing *x, uint32_t side, uint32_t tensor) {
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

const char *render_diff_layer(struct diffing *x, const struct matched_tensor *row) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = &x->side[s].model;
    const uint32_t value = row->tensor[s] == NO_ID ? NO_ID : diff_tensor_value(m, row->tensor[s]);
    const uint32_t use = value == NO_ID ? NO_ID : m->values[value].first_use;
    if (use != NO_ID && m->nodes[m->refs[use].node].name != m->empty)
      return model_name_str(m, m->nodes[m->refs[use].node].name);
  }
  return "";
}

// "" for the main graph; else the node or function that has it.
const char *render_diff_graph(struct diffing *x, uint32_t side, uint32_t graph) {
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
      word = arena_printf(&x->arena, "%s", integer(wide).s);
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
  if (a->first == NO_ID) return arena_printf(&x->arena, "%u element%s", a->count, plural(a->count));
  for (uint32_t i = 0; i < a->count && i < LIST_SHOWN; i++)
    list = join(
        x, list,
        a->type == ATTR_INTS     ? arena_printf(&x->arena, "%s", integer(m->longs[a->first + i]).s)
        : a->type == ATTR_FLOATS ? arena_printf(&x->arena, "%.9g", (double)m->floats[a->first + i])
                                 : quote(model_name(m, m->strings[a->first + i])).s);
  return arena_printf(&x->arena, "[%s%s]", list, a->count > LIST_SHOWN ? ",…" : "");
}

const char *render_diff_attr(struct diffing *x, uint32_t side, uint32_t attr) {
  const struct model *m = &x->side[side].model;
  const struct model_attr *a = &m->attrs[attr];
  if (a->ref_name != m->empty)
    return arena_printf(&x->arena, "the function's %s", quote(model_name(m, a->ref_name)).s);
  if (model_attr_is_constant(m, a)) return "a constant";
  switch ((enum attr_type)a->type) {
  case ATTR_INT: return arena_printf(&x->arena, "%s", integer(a->u.i).s);
  case ATTR_FLOAT: return arena_printf(&x->arena, "%.9g", (double)a->u.f);
  case ATTR_STRING:
    return a->u.s == NO_ID ? "a long string"
                           : arena_printf(&x->arena, "'%s'", quote(model_name(m, a->u.s)).s);
  case ATTR_INTS:
  case ATTR_FLOATS:
  case ATTR_STRINGS: return list_of(x, m, a);
  case ATTR_TENSOR:
    return a->first == NO_ID ? "a tensor"
                             : arena_printf(&x->arena, "%s%s", render_diff_type(x, side, a->first),
                                            small_elements(x, side, a->first));
  case ATTR_GRAPH: return "a graph";
  case ATTR_GRAPHS: return arena_printf(&x->arena, "%u graph%s", a->count, plural(a->count));
  default: return "another value";
  }
}

const char *render_diff_counted(struct diffing *x, uint64_t n, const char *what) {
  return arena_printf(&x->arena, "%s %s%s", decimal(n).s, what, plural(n));
}

const char *render_diff_cut(struct diffing *x, const char *value) {
  if (!value) return "-";
  const struct quoted q = quote_str(value);
  size_t n = strlen(q.s), at = n < VALUE_SHOWN ? n : VALUE_SHOWN;
  while (at > 0 && at < n && ((unsigned char)q.s[at] & 0xc0) == 0x80)
    at--; // not within a character
  return arena_printf(&x->arena, "%.*s%s", (int)at, q.s, at < n ? "…" : "");
}

uint64_t render_diff_live_nodes(const struct model *m) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    n += !(m->nodes[i].flags & NODE_DEAD);
  return n;
}

// ---- operators ---------------------------------------------------------------------------------

static int by_name(const void *pa, const void *pb) {
  return strcmp(((const struct render_diff_op *)pa)->name,
                ((const struct render_diff_op *)pb)->name);
}

struct render_diff_op *render_diff_ops(struct diffing *x, uint32_t *n) {
  uint64_t *count[DIFF_SIDES];
  struct render_diff_op *ops = NULL;
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
      ops[k++] = (struct render_diff_op){model_name_str(m, m->nodes[i].op_type),
                                         {count[0][at], count[1][at]}};
      count[0][at] = count[1][at] = 0;
    }
  }
  qsort(ops, k, sizeof *ops, by_name);
  return ops;
}

// ---- verdict -----------------------------------------------------------------------------------

bool render_diff_node_alone(const struct diffing *x, uint32_t side, uint32_t node) {
  const struct model *m = &x->side[side].model;
  const struct model_node *n = &m->nodes[node];
  if (n->flags & NODE_DEAD || x->d.nodes[side][node] != NO_ID) return false;
  if (x->d.graphs[side][n->graph] == NO_ID) return false;
  // The value of a Constant is told as a tensor.
  return !diff_node_is_constant(m, node) || diff_value_tensor(m, model_output(m, n, 0)) == NO_ID;
}

bool render_diff_row_differs(const struct matched_tensor *row) {
  return row->verdict == MATCHED_DIFFERS || row->renamed || row->rehomed || row->dtype ||
         row->dims || row->by == MATCHED_TRANSPOSED;
}

bool render_diff_equal(const struct diffing *x) {
  if (x->d.n_lines || x->d.n_changes || x->d.renamed_values) return false;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t i = 0; i < x->side[s].model.n_nodes; i++)
      if (render_diff_node_alone(x, s, i)) return false;
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (render_diff_row_differs(&x->rows[i])) return false;
  return true;
}

// ---- counts ------------------------------------------------------------------------------------

bool render_diff_only_renamed(const struct diffing *x, const struct diff_change *c) {
  return c->n == 1 && x->d.details[c->first].what == DIFF_RENAMED;
}

bool render_diff_is_info(const struct diff_line *l) {
  return strcmp(l->what, "value_info") == 0;
}

struct render_diff_sums render_diff_sum_up(const struct diffing *x) {
  struct render_diff_sums s = {0};
  for (uint32_t i = 0; i < x->d.n_lines; i++)
    s.infos += render_diff_is_info(&x->d.lines[i]);
  s.lines = x->d.n_lines - s.infos;
  for (uint32_t i = 0; i < x->d.n_changes; i++) {
    const bool renamed = render_diff_only_renamed(x, &x->d.changes[i]);
    s.renamed_only += renamed;
    s.changed += !renamed;
  }
  for (uint32_t k = 0; k < DIFF_SIDES; k++)
    for (uint32_t i = 0; i < x->side[k].model.n_nodes; i++)
      s.alone[k] += render_diff_node_alone(x, k, i);
  for (uint32_t i = 0; i < x->n_rows; i++) {
    const struct matched_tensor *row = &x->rows[i];
    s.moved += row->moved && row->by != MATCHED_RECAST;
    s.rehomed += row->rehomed;
    if (row->by == MATCHED_NOTHING)
      s.tensors_alone[row->tensor[0] == NO_ID]++;
    else if (row->by == MATCHED_RECAST)
      s.recast++;
    else if (row->by == MATCHED_TRANSPOSED)
      s.transposed++;
    else if (row->verdict == MATCHED_DIFFERS || row->dtype || row->dims)
      s.differ++;
    else if (row->renamed)
      s.renamed++;
    else if (row->verdict == MATCHED_UNKNOWN)
      s.unknown++;
    else
      s.same++;
  }
  return s;
}

static void add_of(struct diffing *x, const char **list, uint64_t n, const char *noun,
                   const char *rest) {
  if (n)
    *list = arena_printf(&x->arena, "%s%s%s %s", *list, **list ? ", " : "",
                         render_diff_counted(x, n, noun), rest);
}

static bool is_listed(const char *kinds, const char *kind) {
  const size_t n = strlen(kind);
  for (const char *at = kinds; *at; at += strspn(at, ", ")) {
    const size_t length = strcspn(at, ",");
    if (length == n && memcmp(at, kind, n) == 0) return true;
    at += length;
  }
  return false;
}

// "opset, metadata": the kinds of the lines but value_info, each once. There are few kinds.
static const char *line_kinds(struct diffing *x) {
  const char *kinds = "";
  for (uint32_t i = 0; i < x->d.n_lines; i++) {
    const struct diff_line *l = &x->d.lines[i];
    if (render_diff_is_info(l) || is_listed(kinds, l->what)) continue;
    kinds = arena_printf(&x->arena, "%s%s%s", kinds, *kinds ? ", " : "", l->what);
  }
  return kinds;
}

const char *render_diff_answer(struct diffing *x, const struct render_diff_sums *s) {
  const char *list = "";
  if (render_diff_equal(x)) {
    if (!s->unknown) return "the models are the same";
    return arena_printf(&x->arena, "the models have the same structure; %s not compared",
                        render_diff_counted(x, s->unknown, "tensor"));
  }
  add_of(x, &list, s->lines, "model field", arena_printf(&x->arena, "changed (%s)", line_kinds(x)));
  add_of(x, &list, s->infos, "value", "declared differently");
  add_of(x, &list, s->changed, "node", "changed");
  add_of(x, &list, s->alone[0], "node", "only in the first");
  add_of(x, &list, s->alone[1], "node", "only in the second");
  add_of(x, &list, s->renamed_only, "node", "renamed");
  add_of(x, &list, x->d.renamed_values, "value", "renamed");
  add_of(x, &list, s->differ, "tensor", "changed");
  add_of(x, &list, s->recast, "tensor", "stored in another form");
  add_of(x, &list, s->transposed, "tensor", "transposed");
  add_of(x, &list, s->renamed, "tensor", "renamed");
  add_of(x, &list, s->rehomed, "constant", "moved between nodes and initializers");
  add_of(x, &list, s->tensors_alone[0], "tensor", "only in the first");
  add_of(x, &list, s->tensors_alone[1], "tensor", "only in the second");
  return arena_printf(&x->arena, "different: %s", list);
}

// ---- lists -------------------------------------------------------------------------------------

// Changes of one kind are listed together: the same operators, attributes and slots.
struct group {
  uint64_t key;
  uint32_t change;
};

static uint64_t mix(uint64_t h, uint64_t x) {
  return (h ^ x) * 0x9e3779b97f4a7c15u ^ h >> 29;
}

static uint64_t kind_of(const struct diffing *x, const struct diff_change *c) {
  uint64_t h = 1;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    h = mix(h, x->d.names[s][x->side[s].model.nodes[c->node[s]].op_type]);
  for (uint32_t i = 0; i < c->n; i++) {
    const struct diff_detail *e = &x->d.details[c->first + i];
    h = mix(h, e->what);
    if (e->what == DIFF_ATTR) {
      const uint32_t s = e->a == NO_ID;
      h = mix(h, x->d.names[s][x->side[s].model.attrs[s ? e->b : e->a].name]);
    } else if (e->what == DIFF_INPUT || e->what == DIFF_OUTPUT) {
      h = mix(h, e->a == NO_ID ? e->b : e->a);
    }
  }
  return h;
}

static int by_kind(const void *pa, const void *pb) {
  const struct group *a = pa, *b = pb;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->change > b->change) - (a->change < b->change);
}

void render_diff_changes(struct diffing *x, bool each_alone,
                         void (*told)(void *ctx, const uint32_t *changes, uint32_t n), void *ctx) {
  const size_t room = x->d.n_changes + (size_t)1;
  struct group *g = arena_alloc(&x->arena, room * sizeof *g);
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->d.n_changes; i++)
    if (!render_diff_only_renamed(x, &x->d.changes[i]))
      g[n++] = (struct group){each_alone ? i : kind_of(x, &x->d.changes[i]), i};
  qsort(g, n, sizeof *g, by_kind);
  // Groups in the order of their first changes.
  uint32_t *size = arena_zalloc(&x->arena, room * sizeof *size);
  uint32_t *first = arena_zalloc(&x->arena, room * sizeof *first);
  for (uint32_t i = 0, k; i < n; i = k) {
    for (k = i; k < n && g[k].key == g[i].key; k++)
      ;
    size[g[i].change] = k - i;
    first[g[i].change] = i;
  }
  uint32_t *changes = arena_alloc(&x->arena, room * sizeof *changes);
  for (uint32_t i = 0; i < n; i++)
    changes[i] = g[i].change;
  for (uint32_t i = 0; i < x->d.n_changes; i++)
    if (size[i]) told(ctx, changes + first[i], size[i]);
}

static enum render_diff_kind kind_of_tensor(const struct matched_tensor *row) {
  if (row->by == MATCHED_NOTHING)
    return row->tensor[0] == NO_ID ? RENDER_DIFF_IN_SECOND : RENDER_DIFF_IN_FIRST;
  if (row->by == MATCHED_RECAST) return RENDER_DIFF_RECAST;
  if (row->by == MATCHED_TRANSPOSED) return RENDER_DIFF_TRANSPOSED;
  if (row->verdict == MATCHED_DIFFERS || row->dtype || row->dims) return RENDER_DIFF_CHANGED;
  return render_diff_row_differs(row) ? RENDER_DIFF_RENAMED : RENDER_DIFF_SAME;
}

// Those that lost most come first; of the others the order of the model stays.
static int worse_first(const void *pa, const void *pb, const void *ctx) {
  const struct diffing *x = ctx;
  const uint32_t i = *(const uint32_t *)pa, k = *(const uint32_t *)pb;
  const struct matched_tensor *a = &x->rows[i], *b = &x->rows[k];
  double p = a->figures ? figures_sqnr_db(&a->found.figures) : INFINITY;
  double q = b->figures ? figures_sqnr_db(&b->found.figures) : INFINITY;
  if (isnan(p)) p = -INFINITY;
  if (isnan(q)) q = -INFINITY;
  if (p != q) return p < q ? -1 : 1;
  return (i > k) - (i < k);
}

const uint32_t *render_diff_tensors_of(struct diffing *x, enum render_diff_kind kind, bool by_loss,
                                       uint32_t *n) {
  uint32_t *rows = arena_alloc(&x->arena, (x->n_rows + (size_t)1) * sizeof *rows);
  *n = 0;
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (kind_of_tensor(&x->rows[i]) == kind) rows[(*n)++] = i;
  if (render_diff_has_figures(kind) && by_loss) table_sort(rows, *n, sizeof *rows, worse_first, x);
  return rows;
}
