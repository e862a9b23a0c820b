//   form      initializers                      tensors in attributes, sparse parts
//   inline    inline                            inline
//   external  data file from inline_below bytes as in the source; data file only with `all`
//
// A tensor that stays inline and was inline is copied as it stands, whatever its encoding. What is
// re-encoded spreads upwards: tensor → attribute → node → graph → the attribute that holds it … Edits
// have left marks of their own in the model's rows (edit_rows.c), spread likewise; those here are of
// what moves though no edit touched it.
#include "plan/placement.h"

#include "model/model_live.h"

#include <assert.h>

bool placement_has_payload(const struct model_tensor *t) {
  return t->encoding != ENCODING_STRINGS && dtype_bits((enum dtype)t->dtype) != 0;
}

// Tensors that stand for a list attribute (Constant's value_floats …) have no TensorProto to move.
bool placement_is_list(const struct model *m, const struct model_tensor *t) {
  if (t->home != HOME_ATTRIBUTE || t->owner == NO_ID) return false;
  switch ((enum attr_type)m->attrs[t->owner].type) {
  case ATTR_TENSOR:
  case ATTR_TENSORS:
  case ATTR_SPARSE_TENSOR:
  case ATTR_SPARSE_TENSORS: return false;
  default: return true;
  }
}

// Runtimes read axes, sizes, scales of a Resize and ends of a Range before they read data files. ONNX Runtime loads no model that has such a
// tensor in one, so it stays, whatever threshold was asked for.
static bool is_read_early(const struct model_tensor *t) {
  enum { BYTES = 1024, ELEMENTS = 8 };
  const enum dtype dtype = (enum dtype)t->dtype;
  if (t->bytes >= BYTES) return false;
  return dtype_is_integer(dtype) || dtype == DTYPE_BOOL ||
         (t->rank <= 1 && t->bytes * 8 <= (uint64_t)ELEMENTS * dtype_bits(dtype));
}

static enum tensor_place place_of(const struct model *m, const struct model_tensor *t,
                                  const struct plan_layout *layout, bool all) {
  if (placement_is_list(m, t)) return PLACE_COPY;
  bool made = t->flags & (TENSOR_NEW | TENSOR_REPLACED | TENSOR_DIRTY);
  bool external = t->flags & TENSOR_EXTERNAL;
  if (!made && !placement_has_payload(t)) return PLACE_COPY;
  bool large = t->bytes >= max_u64(layout->inline_below, 1) && !is_read_early(t);
  bool may = t->home == HOME_INITIALIZER || external || all;
  if (layout->form == PLAN_DATA_EXTERNAL && large && may) return PLACE_SIDECAR;
  return made || external ? PLACE_INLINE : PLACE_COPY;
}

// ---- what is dirty -----------------------------------------------------------------------------

// Of what holds an attribute or a tensor, up to the outermost graph.
static void dirty_graph(struct placement *x, const struct model *m, uint32_t graph);

static void dirty_attr(struct placement *x, const struct model *m, uint32_t attr) {
  const uint32_t node = m->attrs[attr].node;
  x->attr_dirty[attr] = true;
  if (node != NO_ID) {
    x->node_dirty[node] = true;
    dirty_graph(x, m, m->nodes[node].graph);
    return;
  }
  const uint32_t function = model_live_function(m, &m->attrs[attr]);
  if (function != NO_ID) x->graph_dirty[m->functions[function].graph] = true;
}

// Depth is that of the graphs' nesting, which the border bounds (100).
static void dirty_graph(struct placement *x, const struct model *m, uint32_t graph) {
  const struct model_graph *g = &m->graphs[graph];
  if (x->graph_dirty[graph]) return;
  x->graph_dirty[graph] = true;
  if (g->kind == GRAPH_SUB && g->owner != NO_ID) dirty_attr(x, m, g->owner);
}

// ---- recipes -----------------------------------------------------------------------------------

// The first operand that has no number yet, or NO_ID.
static uint32_t missing_operand(const struct plan *p, uint32_t id) {
  const struct recipe *x = &p->recipes->rows[id];
  for (uint32_t k = 0; k < x->n_args; k++) {
    const uint32_t of = p->recipes->args[x->args + k];
    if (p->numbers[of] == NO_ID) return of;
  }
  return NO_ID;
}

// Numbers a row and all below it, operands first, by the order in which tensors ask for them: what
// else is in the table, and when it came there, leaves no trace in the plan. A row on the way has
// those above it at hand: they have greater ids, so none is met twice.
static uint32_t use_recipe(struct plan *p, uint32_t id) {
  uint32_t *way = NULL, n = 0;
  size_t cap = 0;
  if (p->n_numbers < p->recipes->n_rows) {
    const uint32_t more = p->recipes->n_rows - p->n_numbers;
    TABLE_ROOM(p, numbers, more);
    memset(p->numbers + p->n_numbers, 0xff, more * sizeof *p->numbers);
    p->n_numbers += more;
  }
  for (uint32_t at = id; p->numbers[id] == NO_ID;) {
    const uint32_t below = missing_operand(p, at);
    if (below != NO_ID) {
      way = table_grow(way, &cap, (size_t)n + 1, sizeof *way);
      way[n++] = at;
      at = below;
      continue;
    }
    p->numbers[at] = p->n_used;
    *TABLE_PUSH(p, used) = at;
    if (n > 0) at = way[--n];
  }
  table_free(way, cap, sizeof *way);
  return id;
}

uint32_t placement_plain_recipe(struct recipes *to, const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  int64_t flat = 0;
  uint64_t count;
  uint32_t rank = t->rank, n_pieces;
  const int64_t *dims = model_dims(m, t);
  if (rank > RECIPE_MAX_RANK && dims_product(dims, rank, &count)) {
    flat = (int64_t)count;
    dims = &flat;
    rank = 1;
  }
  const struct piece *pieces = model_pieces(m, tensor, &n_pieces);
  struct span small;
  if (model_small_value(m, tensor, &small))
    return recipe_bytes(to, (enum dtype)t->dtype, dims, rank, small);
  return recipe_extent(to, (enum dtype)t->dtype, dims, rank, (enum encoding)t->encoding, pieces,
                       n_pieces, m->checkpoints);
}

// ---- the data files ----------------------------------------------------------------------------

// Where the next tensor goes: behind the last one, or at the start of another file if it would pass
// the end of this one.
struct cursor {
  uint64_t split, align; // as in struct plan_layout
  bool each;
  uint32_t file;
  uint64_t end; // of what lies in that
};

static uint64_t take_room(struct cursor *c, uint64_t bytes) {
  const uint64_t to = c->align ? c->align : model_data_alignment(bytes);
  uint64_t at = round_up(c->end, to);
  if (c->end > 0 && (c->each || (c->split && !range_fits(at, bytes, c->split)))) {
    c->file++;
    at = 0;
  }
  c->end = at + bytes;
  return at;
}

// The files that the tensors laid out so far would fill, if they had at most `split` bytes each.
static uint32_t files_of(const uint64_t *sizes, uint32_t n, uint64_t split, uint64_t align) {
  struct cursor c = {.split = split, .align = align};
  for (uint32_t i = 0; i < n; i++)
    take_room(&c, sizes[i]);
  return n > 0 ? c.file + 1 : 0;
}

// A size from `least` on that makes no more files than there may be.
static uint64_t enough(const uint64_t *sizes, uint32_t n, uint64_t least, uint64_t align) {
  uint64_t split = least;
  while (files_of(sizes, n, split, align) > PLAN_DATA_FILES_MAX)
    split += split / 16 + 1;
  return split;
}

// All of them at once: what is too large or too many is known before anything is written.
static int check_split(const struct placement *x, const struct model *m,
                       const struct plan_layout *layout, const uint64_t *sizes, uint32_t n,
                       struct err *err) {
  const struct model_tensor *largest = NULL;
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (x->of[i] == PLACE_SIDECAR && (!largest || m->tensors[i].bytes > largest->bytes))
      largest = &m->tensors[i];
  if (!largest || (largest->bytes <= layout->split && x->n_data <= PLAN_DATA_FILES_MAX)) return 0;
  if (largest->bytes > layout->split)
    err_set(err, ERR_FAIL, "tensor '%s' has %s bytes, more than the %s that a data file may have",
            quote(model_name(m, largest->name)).s, decimal(largest->bytes).s,
            decimal(layout->split).s);
  else
    err_set(err, ERR_FAIL,
            "with at most %s bytes each, the output would have %u data files; the limit is %d",
            decimal(layout->split).s, x->n_data, PLAN_DATA_FILES_MAX);
  return err_hint(
      err, "weir does not divide tensors; %s bytes for each data file are enough",
      decimal(enough(sizes, n, max_u64(layout->split, largest->bytes), layout->align)).s);
}

// Files and offsets in source order. Tensors of equal bytes (aliases, shared weights) share one range:
// as flat lists of elements, whatever their dims, they have equal ids.
static int lay_out(struct placement *x, struct plan *p, const struct model *m,
                   const struct plan_layout *layout, struct arena *scratch, struct err *err) {
  uint32_t *flat = arena_alloc(scratch, (m->n_tensors + 1) * sizeof *flat);
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (x->of[i] == PLACE_SIDECAR) {
      const int64_t count = (int64_t)p->recipes->rows[x->recipe[i]].count;
      flat[i] = use_recipe(p, recipe_reshape(p->recipes, x->recipe[i], &count, 1));
    }
  // By recipe: the first tensor with these bytes, or NO_ID.
  uint32_t *first = arena_alloc(scratch, (p->recipes->n_rows + 1) * sizeof *first);
  memset(first, 0xff, (p->recipes->n_rows + 1) * sizeof *first);
  // Of those laid out.
  uint64_t *sizes = layout->split ? arena_alloc(scratch, (m->n_tensors + 1) * sizeof *sizes) : NULL;
  uint32_t n = 0;
  struct cursor c = {.split = layout->split, .align = layout->align, .each = layout->each};
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    if (x->of[i] != PLACE_SIDECAR) continue;
    if (first[flat[i]] == NO_ID) {
      first[flat[i]] = i;
      x->off[i] = take_room(&c, m->tensors[i].bytes);
      x->data[i] = c.file;
      if (sizes) sizes[n] = m->tensors[i].bytes;
      n++;
    } else {
      x->off[i] = x->off[first[flat[i]]];
      x->data[i] = x->data[first[flat[i]]];
    }
  }
  x->n_data = n > 0 ? c.file + 1 : 0;
  if (layout->each && x->n_data > PLAN_TENSOR_FILES_MAX) {
    err_set(err, ERR_FAIL,
            "the output would have %u data files, one for each tensor; the limit is %d", x->n_data,
            PLAN_TENSOR_FILES_MAX);
    return err_hint(err, "--external-threshold keeps smaller tensors in the .onnx");
  }
  return sizes ? check_split(x, m, layout, sizes, n, err) : 0;
}

void placement_free(struct placement *x) {
  arena_free(&x->arena);
  *x = (struct placement){0};
}

int placement_decide(struct placement *x, struct plan *p, const struct model *m,
                     const struct plan_layout *layout, bool all, struct err *err) {
  struct arena scratch = {0};
  placement_free(x);
  x->of = arena_zalloc(&x->arena, m->n_tensors + 1);
  x->recipe = arena_alloc(&x->arena, (m->n_tensors + 1) * sizeof *x->recipe);
  x->data = arena_alloc(&x->arena, (m->n_tensors + 1) * sizeof *x->data);
  x->off = arena_alloc(&x->arena, (m->n_tensors + 1) * sizeof *x->off);
  x->graph_dirty = arena_zalloc(&x->arena, m->n_graphs + 1);
  x->attr_dirty = arena_zalloc(&x->arena, m->n_attrs + 1);
  x->node_dirty = arena_zalloc(&x->arena, m->n_nodes + 1);
  const bool *graphs = model_live_graphs(m, &scratch);
  // Edits mark all around them but the function that an attribute's default belongs to.
  for (uint32_t i = 0; i < m->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[i];
    if (a->node == NO_ID && a->flags & ATTR_DIRTY && !(a->flags & ATTR_DEAD)) dirty_attr(x, m, i);
  }
  for (uint32_t i = 0; i < m->n_tensors && p->recipes->n_rows > 0; i++)
    if (m->tensors[i].recipe != NO_ID && !(m->tensors[i].flags & TENSOR_DEAD))
      use_recipe(p, m->tensors[i].recipe);
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (!model_live_tensor(m, graphs, i)) continue;
    x->of[i] = (uint8_t)place_of(m, t, layout, all);
    if (x->of[i] == PLACE_COPY) continue;
    x->recipe[i] = t->recipe != NO_ID ? t->recipe
                   : placement_has_payload(t)
                       ? use_recipe(p, placement_plain_recipe(p->recipes, m, i))
                       : NO_ID;
    if (t->home == HOME_ATTRIBUTE)
      dirty_attr(x, m, t->owner);
    else if (t->graph != NO_ID)
      dirty_graph(x, m, t->graph);
  }
  const int rc = lay_out(x, p, m, layout, &scratch, err);
  arena_free(&scratch);
  return rc;
}
