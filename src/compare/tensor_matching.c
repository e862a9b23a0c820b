// What became of every tensor.
//
//   twins (by name, or at the same slot)      bytes side by side; memory suffices for small ones
//   what is left on both sides
//     of equal size and sample                bytes side by side: a rename
//     matrices and their transposes           likewise, with one side transposed
//     what twin nodes compute with            codes that stand for a float weight, casts: by values
//     at the same slot of twins               replaced by another one
//   what is left                              on one side only
//
// Bytes are compared up to the first that differs. With --weights values those that differ are read
// once more, whole, for their figures; also where types differ but elements can be compared.
#include "compare/diffing.h"

#include "stream/run/engine.h"

#include <stdlib.h>

enum { RENAME_LEAST_BYTES = 64, STEMS_MAX = 6 };

struct matching {
  struct diffing *x;
  struct work_options options;
  struct contrast_side side[DIFF_SIDES];
  struct manifest_digests digests;
  struct arena arena;
  TABLE(struct contrast_pair, pairs);
  TABLE(uint32_t, of); // by pair: its row
  uint32_t *row_of;    // by A's tensor: the row of twins
};

// ---- rows --------------------------------------------------------------------------------------

static const struct model_tensor *tensor_of(const struct diffing *x, uint32_t side, uint32_t t) {
  return &x->side[side].model.tensors[t];
}

static bool same_dims(const struct diffing *x, uint32_t a, uint32_t b) {
  return model_same_dims(&x->side[0].model, tensor_of(x, 0, a), &x->side[1].model,
                         tensor_of(x, 1, b));
}

static struct matched_tensor *add_row(struct matching *w, uint32_t a, uint32_t b,
                                      enum matched_by by) {
  struct diffing *x = w->x;
  struct matched_tensor *row = TABLE_PUSH(x, rows);
  *row = (struct matched_tensor){
      .tensor = {a, b}, .by = (uint8_t)by, .verdict = MATCHED_UNKNOWN, .recipe = {NO_ID, NO_ID}};
  memset(row->roots, 0xff, sizeof row->roots);
  if (a == NO_ID || b == NO_ID) return row;
  const struct model_tensor *p = tensor_of(x, 0, a), *q = tensor_of(x, 1, b);
  row->renamed =
      !span_eq(diff_tensor_name(&x->side[0].model, a), diff_tensor_name(&x->side[1].model, b));
  row->moved = (p->flags & TENSOR_EXTERNAL) != (q->flags & TENSOR_EXTERNAL);
  row->rehomed = p->home != q->home;
  row->dtype = p->dtype != q->dtype;
  row->dims = !same_dims(x, a, b);
  return row;
}

static void ask(struct matching *w, uint32_t row, uint32_t a, uint32_t b, bool figures) {
  *TABLE_PUSH(w, pairs) = (struct contrast_pair){.of = {a, b}, .figures = figures};
  *TABLE_PUSH(w, of) = row;
}

// Compares what was asked about. The progress of each turn is its own.
static int answer(struct matching *w, struct err *err) {
  struct diffing *x = w->x;
  struct contrast_found *found = arena_zalloc(&w->arena, (w->n_pairs + (size_t)1) * sizeof *found);
  int rc = 0;
  if (w->n_pairs) {
    observer_begin(x->work.observer, "comparing");
    rc = contrast_run(w->side, w->pairs, w->n_pairs, &w->options, found, &x->stats, err);
    observer_end(x->work.observer);
  }
  for (uint32_t i = 0; i < w->n_pairs && rc == 0; i++) {
    struct matched_tensor *row = &x->rows[w->of[i]];
    row->verdict = found[i].differs ? MATCHED_DIFFERS : MATCHED_SAME;
    row->figures = w->pairs[i].figures;
    if (row->figures) row->found = found[i];
  }
  w->n_pairs = w->n_of = 0;
  return rc;
}

// ---- recipes of whole tensors ------------------------------------------------------------------

static uint32_t whole(struct diffing_model *m, uint32_t tensor) {
  if (edit_tensor_readable(&m->edits, tensor))
    return m->model.tensors[tensor].bytes ? edit_tensor_recipe(&m->edits, tensor) : NO_ID;
  return m->model.tensors[tensor].encoding == ENCODING_STRINGS
             ? edit_tensor_fields(&m->edits, tensor)
             : NO_ID;
}

// Elements that contrast takes: those below a byte as floats.
static uint32_t as_numbers(struct diffing_model *m, uint32_t recipe) {
  const enum dtype t = (enum dtype)m->recipes.rows[recipe].dtype;
  if (contrast_takes(t)) return recipe;
  if (!recipe_can_convert(t, DTYPE_FLOAT)) return NO_ID;
  return recipe_cast(&m->recipes, recipe, DTYPE_FLOAT);
}

static void ask_figures(struct matching *w, uint32_t row, uint32_t a, uint32_t b) {
  struct diffing *x = w->x;
  if (x->side[0].recipes.rows[a].count != x->side[1].recipes.rows[b].count) return;
  const uint32_t p = as_numbers(&x->side[0], a), q = as_numbers(&x->side[1], b);
  if (p != NO_ID && q != NO_ID) ask(w, row, p, q, true);
}

// ---- twins -------------------------------------------------------------------------------------

// The same bytes of the same file.
static bool same_place(const struct diffing *x, uint32_t a, uint32_t b) {
  struct extent p, q;
  if (!model_plain_place(&x->side[0].model, a, &p) ||
      !model_plain_place(&x->side[1].model, b, &q) || p.off != q.off || p.len != q.len)
    return false;
  const struct fingerprint f = sources_fingerprint(x->side[0].sources, p.file),
                           g = sources_fingerprint(x->side[1].sources, q.file);
  return f.ino == g.ino && f.dev == g.dev && f.size == g.size && f.mtime_ns == g.mtime_ns;
}

static bool by_manifests(struct matching *w, struct matched_tensor *row) {
  const uint32_t a = row->tensor[0], b = row->tensor[1];
  if (!w->x->trusts || !w->digests.of[0][a] || !w->digests.of[1][b]) return false;
  const uint32_t n = w->digests.n[0][a];
  const bool same = n == w->digests.n[1][b] && memcmp(w->digests.of[0][a], w->digests.of[1][b],
                                                      n * sizeof **w->digests.of[0]) == 0;
  row->verdict = same ? MATCHED_SAME : MATCHED_DIFFERS;
  row->trusted = true;
  w->x->by_manifest++;
  return true;
}

// What is known without reading. False: bytes are to be compared.
static bool known(struct matching *w, uint32_t i) {
  struct diffing *x = w->x;
  struct matched_tensor *row = &x->rows[i];
  const uint32_t a = row->tensor[0], b = row->tensor[1];
  const struct model_tensor *p = tensor_of(x, 0, a), *q = tensor_of(x, 1, b);
  struct span s, t;
  if (row->dtype || p->bytes != q->bytes) {
    row->verdict = MATCHED_DIFFERS;
    return true;
  }
  if (model_small_value(&x->side[0].model, a, &s) && model_small_value(&x->side[1].model, b, &t)) {
    row->verdict = span_eq(s, t) ? MATCHED_SAME : MATCHED_DIFFERS;
    return true;
  }
  if (x->weights == WEIGHTS_NONE) return true;
  if (same_place(x, a, b)) {
    row->verdict = MATCHED_SAME;
    x->same_place++;
    return true;
  }
  return by_manifests(w, row);
}

static void weigh_twins(struct matching *w, uint32_t first) {
  struct diffing *x = w->x;
  for (uint32_t i = first; i < x->n_rows; i++) {
    if (known(w, i)) continue;
    const uint32_t a = whole(&x->side[0], x->rows[i].tensor[0]),
                   b = whole(&x->side[1], x->rows[i].tensor[1]);
    if (a == NO_ID && b == NO_ID)
      x->rows[i].verdict = MATCHED_SAME; // no elements
    else if (a == NO_ID || b == NO_ID ||
             x->side[0].recipes.rows[a].bytes != x->side[1].recipes.rows[b].bytes)
      x->rows[i].verdict = MATCHED_DIFFERS;
    else
      ask(w, i, a, b, false);
  }
}

static void figures_of_twins(struct matching *w) {
  struct diffing *x = w->x;
  for (uint32_t i = 0; i < x->n_rows && x->weights == WEIGHTS_VALUES; i++) {
    const struct matched_tensor *row = &x->rows[i];
    if (row->by > MATCHED_PLACE || row->verdict != MATCHED_DIFFERS) continue;
    const uint32_t a = row->tensor[0], b = row->tensor[1];
    if (!edit_tensor_readable(&x->side[0].edits, a) || !edit_tensor_readable(&x->side[1].edits, b))
      continue;
    const uint32_t p = whole(&x->side[0], a), q = whole(&x->side[1], b);
    if (p != NO_ID && q != NO_ID) ask_figures(w, i, p, q);
  }
}

// ---- candidates --------------------------------------------------------------------------------

struct candidate {
  uint64_t key, sample;
  uint32_t tensor, recipe;
};

struct candidates {
  TABLE(struct candidate, at);
};

static int by_key(const void *pa, const void *pb) {
  const struct candidate *a = pa, *b = pb;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  if (a->sample != b->sample) return a->sample < b->sample ? -1 : 1;
  return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static void sort(struct candidates *c) {
  if (c->n_at) qsort(c->at, c->n_at, sizeof *c->at, by_key);
}

// Leaves those whose key (and sample) the other side has too.
static void keep_common(struct candidates c[DIFF_SIDES]) {
  struct candidates kept[DIFF_SIDES] = {0};
  uint32_t at[DIFF_SIDES] = {0};
  while (at[0] < c[0].n_at && at[1] < c[1].n_at) {
    const struct candidate *p = &c[0].at[at[0]], *q = &c[1].at[at[1]];
    const struct candidate k = *p;
    if (p->key != q->key || p->sample != q->sample) {
      const bool first = p->key != q->key ? p->key < q->key : p->sample < q->sample;
      at[first ? 0 : 1]++;
      continue;
    }
    for (uint32_t s = 0; s < DIFF_SIDES; s++)
      for (; at[s] < c[s].n_at && c[s].at[at[s]].key == k.key && c[s].at[at[s]].sample == k.sample;
           at[s]++)
        *TABLE_PUSH(&kept[s], at) = c[s].at[at[s]];
  }
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    TABLE_FREE(&c[s], at);
    c[s] = kept[s];
  }
}

static int take_samples(struct matching *w, uint32_t side, struct candidates *c, struct err *err) {
  uint32_t *of = arena_alloc(&w->arena, (c->n_at + (size_t)1) * sizeof *of);
  uint64_t *out = arena_alloc(&w->arena, (c->n_at + (size_t)1) * sizeof *out);
  for (uint32_t i = 0; i < c->n_at; i++)
    of[i] = c->at[i].recipe;
  if (c->n_at && contrast_samples(&w->side[side], of, c->n_at, &w->options, out, &w->x->stats, err))
    return -1;
  for (uint32_t i = 0; i < c->n_at; i++)
    c->at[i].sample = out[i];
  sort(c);
  return 0;
}

static int by_tensor(const void *pa, const void *pb) {
  const struct matched_tensor *a = pa, *b = pb;
  return (a->tensor[0] > b->tensor[0]) - (a->tensor[0] < b->tensor[0]);
}

// Of equal keys and samples the k-th of A with the k-th of B; those that are the same become twins.
static int pair_candidates(struct matching *w, struct candidates c[DIFF_SIDES], enum matched_by by,
                           struct err *err) {
  struct diffing *x = w->x;
  const uint32_t first = x->n_rows;
  sort(&c[0]);
  sort(&c[1]);
  keep_common(c);
  if (take_samples(w, 0, &c[0], err) || take_samples(w, 1, &c[1], err)) return -1;
  keep_common(c);
  for (uint32_t i = 0, k = 0; i < c[0].n_at && k < c[1].n_at;) {
    const struct candidate *p = &c[0].at[i], *q = &c[1].at[k];
    if (p->key != q->key || p->sample != q->sample) {
      const bool less = p->key != q->key ? p->key < q->key : p->sample < q->sample;
      if (less)
        i++;
      else
        k++;
      continue;
    }
    i++, k++;
    // Keys of long sides may meet by chance.
    if (x->side[0].recipes.rows[p->recipe].bytes != x->side[1].recipes.rows[q->recipe].bytes)
      continue;
    add_row(w, p->tensor, q->tensor, by);
    ask(w, x->n_rows - 1, p->recipe, q->recipe, false);
  }
  if (answer(w, err)) return -1;
  uint32_t kept = first;
  for (uint32_t i = first; i < x->n_rows; i++) {
    if (x->rows[i].verdict != MATCHED_SAME) continue;
    if (by == MATCHED_BYTES) {
      diff_pair_tensors(&x->d, x->rows[i].tensor[0], x->rows[i].tensor[1]);
    } else { // values that are not each other's
      x->d.tensors[0][x->rows[i].tensor[0]] = x->rows[i].tensor[1];
      x->d.tensors[1][x->rows[i].tensor[1]] = x->rows[i].tensor[0];
    }
    x->rows[kept++] = x->rows[i];
  }
  x->n_rows = kept;
  if (kept > first) qsort(x->rows + first, kept - first, sizeof *x->rows, by_tensor);
  return 0;
}

static bool is_free(const struct diffing *x, uint32_t side, uint32_t tensor) {
  return !(tensor_of(x, side, tensor)->flags & TENSOR_DEAD) && x->d.tensors[side][tensor] == NO_ID;
}

static bool may_be_renamed(struct diffing *x, uint32_t side, uint32_t t) {
  return is_free(x, side, t) && tensor_of(x, side, t)->bytes >= RENAME_LEAST_BYTES &&
         diff_tensor_value(&x->side[side].model, t) != NO_ID &&
         edit_tensor_readable(&x->side[side].edits, t);
}

static int weigh_renames(struct matching *w, struct err *err) {
  struct diffing *x = w->x;
  struct candidates c[DIFF_SIDES] = {0};
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t t = 0; t < x->side[s].model.n_tensors; t++) {
      if (!may_be_renamed(x, s, t)) continue;
      const struct model_tensor *m = tensor_of(x, s, t);
      *TABLE_PUSH(&c[s], at) = (struct candidate){
          .key = m->bytes << 8 | m->dtype, .tensor = t, .recipe = whole(&x->side[s], t)};
    }
  const int rc = pair_candidates(w, c, MATCHED_BYTES, err);
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    TABLE_FREE(&c[s], at);
  return rc;
}

// The matrix that a tensor is without its axes of length 1, with more than one row and column.
static bool matrix_of(const struct diffing *x, uint32_t side, uint32_t t, int64_t dims[2]) {
  const struct model_tensor *m = tensor_of(x, side, t);
  const int64_t *all = model_dims(&x->side[side].model, m);
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->rank; i++) {
    if (all[i] == 1) continue;
    if (n == 2) return false;
    dims[n++] = all[i];
  }
  return n == 2 && dims[0] < INT32_MAX && dims[1] < INT32_MAX;
}

static int weigh_transposes(struct matching *w, struct err *err) {
  static const int64_t swap[] = {1, 0};
  struct diffing *x = w->x;
  struct candidates c[DIFF_SIDES] = {0};
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t t = 0; t < x->side[s].model.n_tensors; t++) {
      int64_t dims[2];
      if (!may_be_renamed(x, s, t) || !matrix_of(x, s, t, dims)) continue;
      uint32_t recipe = edit_tensor_recipe_as(&x->side[s].edits, t, dims, 2);
      if (s == DIFF_B) {
        const int64_t rows = dims[1];
        recipe = recipe_transpose(&x->side[s].recipes, recipe, swap);
        dims[1] = dims[0];
        dims[0] = rows;
      }
      *TABLE_PUSH(&c[s], at) = (struct candidate){
          .key = (uint64_t)dims[0] << 40 ^ (uint64_t)dims[1] << 8 ^ tensor_of(x, s, t)->dtype,
          .tensor = t,
          .recipe = recipe};
    }
  const int rc = pair_candidates(w, c, MATCHED_TRANSPOSED, err);
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    TABLE_FREE(&c[s], at);
  return rc;
}

// ---- what twins compute with -------------------------------------------------------------------

static bool any_free(const struct diffing *x, uint32_t side, const struct dequant_expr *e) {
  for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS && e->roots[i] != NO_ID; i++)
    if (is_free(x, side, e->roots[i])) return true;
  return false;
}

// Both in one direction, with the same dims. False: they cannot be compared.
static bool line_up(struct diffing *x, struct dequant_expr e[DIFF_SIDES]) {
  static const int64_t swap[] = {1, 0};
  if (e[0].transposed != e[1].transposed) {
    const uint32_t s = e[0].transposed ? DIFF_B : DIFF_A; // the plain one
    struct recipes *r = &x->side[s].recipes;
    if (r->rows[e[s].recipe].rank != 2) return false;
    e[s].recipe = recipe_transpose(r, e[s].recipe, swap);
  }
  const struct recipe *p = &x->side[0].recipes.rows[e[0].recipe],
                      *q = &x->side[1].recipes.rows[e[1].recipe];
  return p->rank == q->rank &&
         recipe_has_dims(&x->side[1].recipes, e[1].recipe,
                         recipe_dims(&x->side[0].recipes, e[0].recipe), p->rank);
}

static void settle(struct matching *w, struct dequant_expr e[DIFF_SIDES]) {
  struct diffing *x = w->x;
  if (!line_up(x, e)) return;
  struct matched_tensor *row = add_row(w, e[0].roots[0], e[1].roots[0], MATCHED_RECAST);
  const uint32_t at = x->n_rows - 1;
  row->verdict = MATCHED_DIFFERS;
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    memcpy(row->roots[s], e[s].roots, sizeof e[s].roots);
    row->form[s] = e[s].form;
    row->recipe[s] = e[s].recipe;
    for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS && e[s].roots[i] != NO_ID; i++)
      if (is_free(x, s, e[s].roots[i])) x->d.tensors[s][e[s].roots[i]] = e[!s].roots[0];
  }
  if (x->weights == WEIGHTS_VALUES) ask_figures(w, at, e[0].recipe, e[1].recipe);
}

static bool is_weight(const struct diffing *x, uint32_t side, const struct dequant_expr *e) {
  const struct recipe *r = &x->side[side].recipes.rows[e->recipe];
  return r->count > 1 && r->rank > 0;
}

// Codes of the same names on both sides were compared as they are, not as what they stand for.
static bool codes_differ(const struct matching *w, const struct dequant_expr e[DIFF_SIDES]) {
  if (e[0].roots[1] == NO_ID && e[1].roots[1] == NO_ID) return false; // a Cast at most
  for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS && e[0].roots[i] != NO_ID; i++) {
    const uint32_t row = w->row_of[e[0].roots[i]];
    if (row != NO_ID && w->x->rows[row].by != MATCHED_RECAST &&
        w->x->rows[row].verdict == MATCHED_DIFFERS)
      return true;
  }
  return false;
}

static void weigh_slots(struct matching *w, uint32_t a, uint32_t b) {
  struct diffing *x = w->x;
  const struct model *ma = &x->side[0].model, *mb = &x->side[1].model;
  const uint32_t ca = dequant_expr_codes_slot(ma, a), cb = dequant_expr_codes_slot(mb, b);
  for (uint32_t k = 0; k < ma->nodes[a].n_in && k < mb->nodes[b].n_in; k++) {
    struct dequant_expr e[DIFF_SIDES];
    if ((ca != NO_ID && k != ca) || (cb != NO_ID && k != cb)) continue;
    if (!dequant_expr_slot(
            &(struct dequant_model){&x->side[0].model, &x->side[0].recipes, &x->side[0].edits}, a,
            k, &x->arena, &e[0]) ||
        !dequant_expr_slot(
            &(struct dequant_model){&x->side[1].model, &x->side[1].recipes, &x->side[1].edits}, b,
            k, &x->arena, &e[1]))
      continue;
    if (!any_free(x, 0, &e[0]) && !any_free(x, 1, &e[1]) && !codes_differ(w, e)) continue;
    if (is_weight(x, 0, &e[0]) && is_weight(x, 1, &e[1])) settle(w, e);
  }
}

static void weigh_operands(struct matching *w) {
  struct diffing *x = w->x;
  for (uint32_t n = 0; n < x->side[0].model.n_nodes; n++)
    if (x->d.nodes[0][n] != NO_ID && !diff_node_is_constant(&x->side[0].model, n))
      weigh_slots(w, n, x->d.nodes[0][n]);
}

// ---- codes whose node has no twin that holds the weight ----------------------------------------

// A free float matrix of the other side that a name belongs to: its own, or of a node that uses it.
static uint32_t weight_called(struct diffing *x, uint32_t side, struct span name,
                              const uint32_t *nodes) {
  const struct model *m = &x->side[side].model;
  const uint32_t id = model_find_name(m, name);
  if (id == NO_ID || m->main_graph == NO_ID) return NO_ID;
  const uint32_t tensor = diff_value_tensor(m, model_value_in(m, m->main_graph, id));
  if (tensor != NO_ID && is_free(x, side, tensor)) return tensor;
  const uint32_t node = nodes[id];
  if (node == NO_ID) return NO_ID;
  const uint32_t used = diff_value_tensor(m, model_input(m, &m->nodes[node], 1));
  return used != NO_ID && is_free(x, side, used) ? used : NO_ID;
}

static uint32_t user_of(const struct model *m, uint32_t tensor) {
  const uint32_t value = diff_tensor_value(m, tensor);
  const uint32_t use = value == NO_ID ? NO_ID : m->values[value].first_use;
  return use == NO_ID ? NO_ID : m->refs[use].node;
}

// Names of what rewrites make begin with that of what they rewrote: "w_Q4", "Conv_w_t_Q4".
static void weigh_stems(struct matching *w, uint32_t side) {
  struct diffing *x = w->x;
  const struct model *m = &x->side[side].model, *other = &x->side[!side].model;
  uint32_t *nodes = arena_alloc(&w->arena, (other->n_name_at + (size_t)1) * sizeof *nodes);
  memset(nodes, 0xff, (other->n_name_at + (size_t)1) * sizeof *nodes);
  for (uint32_t n = 0; n < other->n_nodes; n++)
    if (!(other->nodes[n].flags & NODE_DEAD)) nodes[other->nodes[n].name] = n;
  nodes[other->empty] = NO_ID;
  for (uint32_t n = 0; n < m->n_nodes; n++) {
    const uint32_t slot = dequant_expr_codes_slot(m, n);
    const uint32_t codes =
        slot == NO_ID ? NO_ID : diff_value_tensor(m, model_input(m, &m->nodes[n], slot));
    if (codes == NO_ID || !is_free(x, side, codes)) continue;
    struct span name = diff_tensor_name(m, codes);
    for (uint32_t i = 0; i < STEMS_MAX && name.n > 0; i++) {
      while (name.n > 0 && name.at[name.n - 1] != '_')
        name.n--;
      if (name.n > 0) name.n--;
      const uint32_t weight = weight_called(x, !side, name, nodes);
      const uint32_t user = weight == NO_ID ? NO_ID : user_of(other, weight);
      if (user == NO_ID) continue;
      struct dequant_expr e[DIFF_SIDES];
      const uint32_t at =
          model_input(other, &other->nodes[user], 1) == diff_tensor_value(other, weight);
      if (!dequant_expr_slot(&(struct dequant_model){&x->side[side].model, &x->side[side].recipes,
                                                     &x->side[side].edits},
                             n, slot, &x->arena, &e[side]) ||
          !dequant_expr_slot(&(struct dequant_model){&x->side[!side].model, &x->side[!side].recipes,
                                                     &x->side[!side].edits},
                             user, at, &x->arena, &e[!side]))
        continue;
      settle(w, e);
      break;
    }
  }
}

// ---- what is left ------------------------------------------------------------------------------

// At the same slot of twins, whatever it is: replaced.
static void weigh_places(struct matching *w) {
  struct diffing *x = w->x;
  const struct model *ma = &x->side[0].model, *mb = &x->side[1].model;
  for (uint32_t n = 0; n < ma->n_nodes; n++) {
    const uint32_t twin = x->d.nodes[0][n];
    if (twin == NO_ID) continue;
    const struct model_node *p = &ma->nodes[n], *q = &mb->nodes[twin];
    for (uint32_t k = 0; k < p->n_in && k < q->n_in; k++) {
      const uint32_t a = diff_value_tensor(ma, model_input(ma, p, k)),
                     b = diff_value_tensor(mb, model_input(mb, q, k));
      if (a == NO_ID || b == NO_ID || !is_free(x, 0, a) || !is_free(x, 1, b)) continue;
      if (dequant_expr_codes_slot(ma, n) != dequant_expr_codes_slot(mb, twin)) continue;
      diff_pair_tensors(&x->d, a, b);
      add_row(w, a, b, MATCHED_PLACE);
    }
  }
}

static void weigh_rest(struct matching *w) {
  struct diffing *x = w->x;
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    for (uint32_t t = 0; t < x->side[s].model.n_tensors; t++) {
      if (!is_free(x, s, t)) continue;
      const struct model_tensor *m = tensor_of(x, s, t);
      // What lies in attributes of a node that is gone goes with it.
      if (m->home == HOME_ATTRIBUTE && diff_tensor_value(&x->side[s].model, t) == NO_ID) continue;
      add_row(w, s ? NO_ID : t, s ? t : NO_ID, MATCHED_NOTHING)->verdict = MATCHED_DIFFERS;
    }
}

// ---- the whole ---------------------------------------------------------------------------------

static void list_twins(struct matching *w) {
  struct diffing *x = w->x;
  const size_t n = x->side[0].model.n_tensors + (size_t)1;
  w->row_of = arena_alloc(&w->arena, n * sizeof *w->row_of);
  memset(w->row_of, 0xff, n * sizeof *w->row_of);
  for (uint32_t t = 0; t < x->side[0].model.n_tensors; t++) {
    const uint32_t twin = x->d.tensors[0][t];
    if (twin == NO_ID || tensor_of(x, 0, t)->flags & TENSOR_DEAD) continue;
    const bool same =
        span_eq(diff_tensor_name(&x->side[0].model, t), diff_tensor_name(&x->side[1].model, twin));
    add_row(w, t, twin, same ? MATCHED_NAME : MATCHED_PLACE);
    w->row_of[t] = x->n_rows - 1;
  }
}

static int weigh_all(struct matching *w, struct err *err) {
  struct diffing *x = w->x;
  list_twins(w);
  weigh_twins(w, 0);
  if (answer(w, err)) return -1;
  if (x->weights != WEIGHTS_NONE) {
    if (weigh_renames(w, err) || weigh_transposes(w, err)) return -1;
  }
  weigh_operands(w);
  weigh_stems(w, DIFF_B);
  weigh_stems(w, DIFF_A);
  const uint32_t first = x->n_rows;
  weigh_places(w);
  weigh_twins(w, first);
  if (answer(w, err)) return -1; // figures of recasts, too
  figures_of_twins(w);
  if (answer(w, err)) return -1;
  weigh_rest(w);
  return 0;
}

int match_tensors(struct diffing *x, struct err *err) {
  struct matching w = {.x = x};
  w.options = x->work;
  w.options.stop = observer_stop(x->work.observer);
  for (uint32_t s = 0; s < DIFF_SIDES; s++)
    w.side[s] = (struct contrast_side){&x->side[s].recipes, x->side[s].sources};
  int rc = 0;
  if (x->weights != WEIGHTS_NONE)
    rc = engine_pick(&w.options.mode, x->io_name, x->work.observer, err);
  if (rc == 0 && x->trusts) rc = manifest_digests_read(&w.digests, x, err);
  if (rc == 0) rc = weigh_all(&w, err);
  manifest_digests_done(&w.digests);
  TABLES_FREE(&w, pairs, of);
  arena_free(&w.arena);
  return rc;
}
