#include "compare/diff_summary.h"

#include "base/table.h"

#include <math.h>
#include <stdlib.h>

uint64_t diff_summary_live_nodes(const struct model *m) {
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    n += !(m->nodes[i].flags & NODE_DEAD);
  return n;
}

// ---- operators ---------------------------------------------------------------------------------

static int by_name(const void *pa, const void *pb) {
  return strcmp(((const struct diff_summary_op *)pa)->name,
                ((const struct diff_summary_op *)pb)->name);
}

struct diff_summary_op *diff_summary_ops(struct diffing *x, uint32_t *n) {
  uint64_t *count[DIFF_SIDES];
  struct diff_summary_op *ops = NULL;
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
      ops[k++] = (struct diff_summary_op){model_name_str(m, m->nodes[i].op_type),
                                          {count[0][at], count[1][at]}};
      count[0][at] = count[1][at] = 0;
    }
  }
  qsort(ops, k, sizeof *ops, by_name);
  return ops;
}

// ---- verdict -----------------------------------------------------------------------------------

bool diff_summary_node_alone(const struct diffing *x, uint32_t side, uint32_t node) {
  const struct model *m = &x->side[side].model;
  const struct model_node *n = &m->nodes[node];
  if (n->flags & NODE_DEAD || x->d.nodes[side][node] != NO_ID) return false;
  if (x->d.graphs[side][n->graph] == NO_ID) return false;
  // The value of a Constant is told as a tensor.
  return !diff_node_is_constant(m, node) || diff_value_tensor(m, model_output(m, n, 0)) == NO_ID;
}

bool diff_summary_row_differs(const struct matched_tensor *row) {
  return row->verdict == MATCHED_DIFFERS || row->renamed || row->rehomed || row->dtype ||
         row->dims || row->by == MATCHED_TRANSPOSED;
}

bool diff_summary_equal(const struct diffing *x) {
  if (x->d.n_lines || x->d.n_changes || x->d.renamed_values) return false;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t i = 0; i < x->side[s].model.n_nodes; i++)
      if (diff_summary_node_alone(x, s, i)) return false;
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (diff_summary_row_differs(&x->rows[i])) return false;
  return true;
}

// ---- counts ------------------------------------------------------------------------------------

bool diff_summary_only_renamed(const struct diffing *x, const struct diff_change *c) {
  return c->n == 1 && x->d.details[c->first].what == DIFF_RENAMED;
}

bool diff_summary_is_info(const struct diff_line *l) {
  return strcmp(l->what, "value_info") == 0;
}

struct diff_summary diff_summary_of(const struct diffing *x) {
  struct diff_summary s = {0};
  for (uint32_t i = 0; i < x->d.n_lines; i++)
    s.infos += diff_summary_is_info(&x->d.lines[i]);
  s.lines = x->d.n_lines - s.infos;
  for (uint32_t i = 0; i < x->d.n_changes; i++) {
    const bool renamed = diff_summary_only_renamed(x, &x->d.changes[i]);
    s.renamed_only += renamed;
    s.changed += !renamed;
  }
  for (uint32_t k = 0; k < DIFF_SIDES; k++)
    for (uint32_t i = 0; i < x->side[k].model.n_nodes; i++)
      s.alone[k] += diff_summary_node_alone(x, k, i);
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

void diff_summary_changes(struct diffing *x, bool each_alone,
                          void (*told)(void *ctx, const uint32_t *changes, uint32_t n), void *ctx) {
  const size_t room = x->d.n_changes + (size_t)1;
  struct group *g = arena_alloc(&x->arena, room * sizeof *g);
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->d.n_changes; i++)
    if (!diff_summary_only_renamed(x, &x->d.changes[i]))
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

static enum diff_tensor_kind kind_of_tensor(const struct matched_tensor *row) {
  if (row->by == MATCHED_NOTHING)
    return row->tensor[0] == NO_ID ? DIFF_TENSOR_IN_SECOND : DIFF_TENSOR_IN_FIRST;
  if (row->by == MATCHED_RECAST) return DIFF_TENSOR_RECAST;
  if (row->by == MATCHED_TRANSPOSED) return DIFF_TENSOR_TRANSPOSED;
  if (row->verdict == MATCHED_DIFFERS || row->dtype || row->dims) return DIFF_TENSOR_CHANGED;
  return diff_summary_row_differs(row) ? DIFF_TENSOR_RENAMED : DIFF_TENSOR_SAME;
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

const uint32_t *diff_summary_tensors(struct diffing *x, enum diff_tensor_kind kind, bool by_loss,
                                     uint32_t *n) {
  uint32_t *rows = arena_alloc(&x->arena, (x->n_rows + (size_t)1) * sizeof *rows);
  *n = 0;
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (kind_of_tensor(&x->rows[i]) == kind) rows[(*n)++] = i;
  if (diff_tensor_kind_has_figures(kind) && by_loss)
    table_sort(rows, *n, sizeof *rows, worse_first, x);
  return rows;
}
