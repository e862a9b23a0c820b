// The pass optimize/shapes: computations of shapes become shorter.
//
//   Reshape(x, Concat(Shape(x)[0], Shape(x)[1], 8, 64))   ──▶  Reshape(x, {0, 0, 8, 64})
//   Unsqueeze(Gather(Shape(x), 1))                        ──▶  Shape<start=1, end=2>(x)
//   Where(Equal(s, -1), ones, s), where no s is -1        ──▶  s
//
// targets   what Reshape is to make is known but for one dim (-1) and those that it copies (0), and what Expand
//           is to make but for those that stay (1): a constant. Reshapes and their like in front of a Reshape, which nothing else
//           uses, go. A Slice that ends where its axis does or behind ends at INT64_MAX.
// same      a small value has, element for element, the expressions of one before it: that one. It must be as
//           long and of the same type.
// parts     a list of dims that lie side by side in a value: Shape with start and end (opset 15), if that is not
//           what it is already. Values that lie far back keep their memory for it no longer than for a Shape.
// Cast      Shape(Cast(x)) is Shape(x). Where(Not(c), a, b) is Where(c, b, a), for floats but for the sign of 0: ONNX
//           Runtime's Where adds what it picks to 0.
//
// Expressions are equal in every run if their ids are (dims.h); in the bodies of Loops, in every trip.
#include "passes/optimize/optimize.h"

#include "passes/optimize/inside/known.h"
#include "passes/questions/name_filter.h"
#include "passes/questions/value_set.h"

enum { MOST = 64, PLACES = 4 };

// A dim of a value, by the dim.
struct spot {
  dim_id dim; // NO_ID: free
  uint32_t value, axis;
};

struct shaper {
  struct kit k;
  const struct name_filter *nodes;
  uint32_t graph;
  uint64_t held_back;
  TABLE(struct spot, places); // hash table of the graph at hand; at most PLACES of a dim
  TABLE(uint32_t, filled);    // its places that are not free
  struct value_set lists;     // small values of the graph at hand
};

// ---- tables ------------------------------------------------------------------------------------

static uint64_t mixed(uint64_t h, uint64_t x) {
  h = (h ^ x) * 0x9e3779b97f4a7c15u;
  return h ^ h >> 29;
}

static void enter_place(struct shaper *s, struct spot p) {
  uint32_t seen = 0;
  for (uint64_t at = mixed(0, p.dim);; at++) {
    struct spot *slot = &s->places[at & (s->n_places - 1)];
    if (slot->dim == p.dim && ++seen == PLACES) return;
    if (slot->dim != NO_ID) continue;
    *slot = p;
    *TABLE_PUSH(s, filled) = (uint32_t)(slot - s->places);
    return;
  }
}

static void grow_places(struct shaper *s) {
  struct spot *old = s->places;
  const uint32_t n = s->n_places;
  const size_t cap = s->places_cap;
  s->places = NULL;
  s->n_places = s->n_filled = 0;
  s->places_cap = 0;
  const uint32_t room = n > 0 ? 2 * n : 256;
  TABLE_ADD(s, places, room);
  for (uint32_t i = 0; i < s->n_places; i++)
    s->places[i].dim = NO_ID;
  for (uint32_t i = 0; i < n; i++)
    if (old[i].dim != NO_ID) enter_place(s, old[i]);
  table_free(old, cap, sizeof *old);
}

// The dims of a value that are no numbers.
static void enter_value(struct shaper *s, uint32_t value) {
  struct infer_type t;
  int64_t d;
  if (!known_dims(&s->k, value, &t) || kit_may_be_left_out(s->k.m, value)) return;
  for (uint32_t i = 0; i < t.rank; i++) {
    if (t.dims[i] == NO_ID) continue;
    const dim_id dim = dims_find(infer_dims(s->k.env->infer), t.dims[i]);
    if (dims_is_number(infer_dims(s->k.env->infer), dim, &d)) continue;
    if (s->n_filled >= s->n_places / 2) grow_places(s);
    enter_place(s, (struct spot){dim, value, i});
  }
}

static void empty(struct shaper *s, uint32_t graph) {
  s->graph = graph;
  while (s->n_filled > 0)
    s->places[s->filled[--s->n_filled]].dim = NO_ID;
  value_set_clear(&s->lists);
}

// ---- what a value's elements are ---------------------------------------------------------------

// Its type with dims that are numbers, and its elements; not all of these are numbers.
struct small {
  enum dtype dtype;
  uint32_t rank, n;
  dim_id list[MOST];
};

static bool small_of(struct shaper *s, uint32_t value, struct small *out) {
  struct infer_type t;
  struct dims *d = infer_dims(s->k.env->infer);
  int64_t x;
  bool open = false;
  if (!known_dims(&s->k, value, &t) || t.rank > 1 ||
      (!dtype_is_integer(t.dtype) && t.dtype != DTYPE_BOOL))
    return false;
  if (!known_list(&s->k, value, out->list, MOST, &out->n)) return false;
  for (uint32_t i = 0; i < out->n; i++)
    open = open || !dims_is_number(d, out->list[i], &x);
  out->dtype = t.dtype;
  out->rank = t.rank;
  return open;
}

static bool same_small(const struct small *a, const struct small *b) {
  return a->dtype == b->dtype && a->rank == b->rank && a->n == b->n &&
         memcmp(a->list, b->list, a->n * sizeof *a->list) == 0;
}

static uint64_t hash_small(const struct small *x) {
  uint64_t h = mixed(x->dtype, x->rank);
  for (uint32_t i = 0; i < x->n; i++)
    h = mixed(h, x->list[i]);
  return h;
}

static bool small_start(void *ctx, uint32_t value, uint64_t *at) {
  struct small x;
  if (!small_of(ctx, value, &x)) return false;
  *at = hash_small(&x);
  return true;
}

// A value before the node with these elements; else NO_ID, and `value` is one from now on. It takes the place of a
// dead one on the way, if there is any: a list that thousands of targets have dies with each of them.
static uint32_t find_list(struct shaper *s, const struct small *x, uint32_t node, uint32_t value) {
  value_set_room(&s->lists, small_start, s);
  uint32_t *dead = NULL;
  struct small y;
  for (uint64_t at = hash_small(x);; at++, s->k.m->work.lists_seen++) {
    uint32_t *slot = value_set_slot(&s->lists, at);
    if (*slot == 0) {
      value_set_fill(&s->lists, dead ? dead : slot, value);
      return NO_ID;
    }
    const uint32_t other = *slot - 1;
    if (s->k.m->values[other].flags & VALUE_DEAD) {
      if (!dead) dead = slot;
      continue;
    }
    if (!small_of(s, other, &y)) continue;
    if (other != value && same_small(x, &y) && kit_available(&s->k, other, s->graph, node))
      return other;
  }
}

// A value before the node that has these dims side by side, and the axis where they begin.
static uint32_t find_dims(struct shaper *s, const dim_id *list, uint32_t n, uint32_t node,
                          uint32_t *axis) {
  struct dims *d = infer_dims(s->k.env->infer);
  struct infer_type t;
  int64_t x;
  uint32_t first = 0;
  while (first < n && dims_is_number(d, list[first], &x))
    first++;
  if (first == n || s->n_places == 0) return NO_ID;
  for (uint64_t at = mixed(0, list[first]);; at++) {
    const struct spot *p = &s->places[at & (s->n_places - 1)];
    if (p->dim == NO_ID) return NO_ID;
    if (p->dim != list[first] || p->axis < first || s->k.m->values[p->value].flags & VALUE_DEAD)
      continue;
    *axis = p->axis - first;
    if (!known_dims(&s->k, p->value, &t) || *axis + n > t.rank) continue;
    bool same = kit_available(&s->k, p->value, s->graph, node);
    for (uint32_t i = 0; i < n && same; i++)
      same = t.dims[*axis + i] != NO_ID && dims_find(d, t.dims[*axis + i]) == list[i];
    if (same) return p->value;
  }
}

// ---- targets -----------------------------------------------------------------------------------

static bool computed(struct kit *k, uint32_t value) {
  uint32_t tensor;
  return value != NO_ID && !kit_constant(k, value, &tensor) && !kit_is_overridable(k->m, value) &&
         k->m->values[value].kind == VALUE_NODE_OUTPUT;
}

// A target that makes of `from` what the node makes. One that has 0s copies dims, whatever allowzero is.
static bool reshape_target(struct kit *k, uint32_t node, uint32_t from, int64_t *list,
                           uint32_t *n) {
  struct infer_type x = {0}, y;
  uint32_t open = 0, copied = 0, at = 0;
  if (!known_dims(k, kit_out(k, node, 0), &y) || y.rank > RECIPE_MAX_RANK) return false;
  const bool ranked = known_dims(k, from, &x);
  *n = y.rank;
  for (uint32_t i = 0; i < y.rank; i++) {
    if (known_size(k, y.dims[i], &list[i])) {
      if (list[i] == 0) return false;
      continue;
    }
    list[i] = -1;
    const bool copies = ranked && i < x.rank && known_same(k, x.dims[i], y.dims[i]);
    if (copies)
      list[i] = 0, copied++;
    else
      open++;
    at = i;
  }
  // One alone is what is left, whatever it is: others may look at a target without its operand.
  if (open == 0 && copied == 1) list[at] = -1;
  return open <= 1;
}

static bool expand_target(struct kit *k, uint32_t node, int64_t *list, uint32_t *n) {
  struct infer_type x, y;
  if (!known_dims(k, kit_in(k, node, 0), &x) || !known_dims(k, kit_out(k, node, 0), &y) ||
      y.rank > RECIPE_MAX_RANK || x.rank > y.rank)
    return false;
  *n = y.rank;
  for (uint32_t i = 0; i < y.rank; i++) {
    if (known_size(k, y.dims[i], &list[i])) continue;
    const uint32_t more = y.rank - x.rank;
    if (i < more || !known_same(k, x.dims[i - more], y.dims[i])) return false;
    list[i] = 1;
  }
  return true;
}

static void set_input(struct kit *k, uint32_t node, uint32_t slot, uint32_t value,
                      const char *reason) {
  const uint32_t before = kit_in(k, node, slot), maker = kit_maker(k, before);
  kit_converted(k, node, reason);
  edit_set_input(k->e, node, slot, value);
  if (maker != NO_ID) kit_sweep(k, maker);
}

// What only a Reshape uses, and is itself but another form of a value: that one, or NO_ID.
static uint32_t form_of(struct shaper *s, uint32_t value) {
  struct kit *k = &s->k;
  const enum op op = kit_maker_op(k, value);
  if ((op != OP_Reshape && op != OP_Flatten && op != OP_Squeeze && op != OP_Unsqueeze) ||
      kit_sole_user(k, value) == NO_ID)
    return NO_ID;
  const uint32_t of = kit_in(k, kit_maker(k, value), 0);
  return of != NO_ID && !kit_may_be_left_out(k->m, of) && kit_sees(k, s->graph, of) ? of : NO_ID;
}

static bool fix_reshape(struct shaper *s, uint32_t node) {
  enum { STEPS = 8 };
  struct kit *k = &s->k;
  const uint32_t x = kit_in(k, node, 0), target = kit_in(k, node, 1);
  int64_t list[RECIPE_MAX_RANK], try[RECIPE_MAX_RANK], keeps;
  uint32_t n = 0, from = NO_ID, steps = 0;
  if (x == NO_ID || target == NO_ID || !kit_attr_int(k, node, "allowzero", 0, &keeps)) return false;
  for (uint32_t at = x; at != NO_ID && steps < STEPS; at = form_of(s, at), steps++) {
    if (!reshape_target(k, node, at, try, &n)) continue;
    memcpy(list, try, sizeof list);
    from = at;
  }
  if (from == NO_ID || (from == x && !computed(k, target))) return false;
  bool copies = false;
  for (uint32_t i = 0; i < n; i++)
    copies = copies || list[i] == 0;
  kit_site(k, node, "target");
  const uint32_t shape = kit_new_ints(k, "shape", list, n);
  if (from == x && !(keeps && copies)) {
    set_input(k, node, 1, shape, "target");
    return true;
  }
  const uint32_t made[2] = {kit_maker(k, x), kit_maker(k, target)};
  kit_converted(k, node, "target");
  kit_replace(k, node, OP_Reshape, KIT_IN(from, shape));
  for (uint32_t i = 0; i < 2; i++)
    if (made[i] != NO_ID) kit_sweep(k, made[i]);
  return true;
}

static bool fix_target(struct shaper *s, uint32_t node) {
  struct kit *k = &s->k;
  int64_t list[RECIPE_MAX_RANK];
  uint32_t n;
  const enum op op = kit_op(k, node);
  if (op == OP_Reshape) return fix_reshape(s, node);
  if (op != OP_Expand || !computed(k, kit_in(k, node, 1)) || !expand_target(k, node, list, &n))
    return false;
  kit_site(k, node, "target");
  set_input(k, node, 1, kit_new_ints(k, "shape", list, n), "target");
  return true;
}

// The ends of a Slice, where each is a number or lies behind its axis.
static bool fix_ends(struct shaper *s, uint32_t node) {
  struct kit *k = &s->k;
  struct dims *d = infer_dims(k->env->infer);
  struct infer_type x;
  const uint32_t ends = kit_in(k, node, 2);
  dim_id end[RECIPE_MAX_RANK], axes[RECIPE_MAX_RANK], steps[RECIPE_MAX_RANK];
  int64_t list[RECIPE_MAX_RANK], axis, step;
  uint32_t n, n_axes = 0, n_steps = 0;
  if (kit_op(k, node) != OP_Slice || !computed(k, ends) || kit_dtype(k, ends) != DTYPE_INT64 ||
      !known_dims(k, kit_in(k, node, 0), &x) || !known_list(k, ends, end, RECIPE_MAX_RANK, &n))
    return false;
  const bool has_axes = kit_in(k, node, 3) != NO_ID, has_steps = kit_in(k, node, 4) != NO_ID;
  if ((has_axes &&
       (!known_list(k, kit_in(k, node, 3), axes, RECIPE_MAX_RANK, &n_axes) || n_axes != n)) ||
      (has_steps &&
       (!known_list(k, kit_in(k, node, 4), steps, RECIPE_MAX_RANK, &n_steps) || n_steps != n)))
    return false;
  for (uint32_t i = 0; i < n; i++) {
    axis = i;
    step = 1;
    if (dims_is_number(d, end[i], &list[i])) continue;
    if ((has_axes && !dims_is_number(d, axes[i], &axis)) ||
        (has_steps && !dims_is_number(d, steps[i], &step)) || step < 1)
      return false;
    if (axis < 0) axis += x.rank;
    if (axis < 0 || axis >= x.rank || x.dims[axis] == NO_ID ||
        dims_at_least(d, end[i], x.dims[axis]) != DIMS_YES)
      return false;
    list[i] = INT64_MAX;
  }
  kit_site(k, node, "ends");
  set_input(k, node, 2, kit_new_ints(k, "ends", list, n), "ends");
  return true;
}

// ---- nodes -------------------------------------------------------------------------------------

static bool fix_where(struct shaper *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t c = kit_in(k, node, 0);
  if (kit_op(k, node) != OP_Where || kit_maker_op(k, c) != OP_Not) return false;
  const uint32_t not = kit_maker(k, c), of = kit_in(k, not, 0);
  const uint32_t a = kit_in(k, node, 1), b = kit_in(k, node, 2);
  if (of == NO_ID || a == NO_ID || b == NO_ID || !kit_sees(k, s->graph, of)) return false;
  // Of the two, ONNX Runtime makes 0 of -0 in one.
  if (dtype_is_float(kit_dtype(k, a)) && k->env->exactness < EXACTNESS_ZERO) {
    s->held_back++;
    return false;
  }
  kit_site(k, node, "not");
  edit_set_input(k->e, node, 1, b);
  edit_set_input(k->e, node, 2, a);
  set_input(k, node, 0, of, "not");
  return true;
}

static bool fix_shape(struct shaper *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t y = kit_in(k, node, 0);
  if (kit_op(k, node) != OP_Shape || kit_maker_op(k, y) != OP_Cast) return false;
  const uint32_t x = kit_in(k, kit_maker(k, y), 0);
  if (x == NO_ID || !kit_sees(k, s->graph, x)) return false;
  kit_site(k, node, "cast");
  set_input(k, node, 0, x, "cast");
  return true;
}

static bool one_output(struct kit *k, uint32_t node) {
  const uint32_t value = kit_out(k, node, 0);
  if (value == NO_ID || (kit_unused(k, value) && !kit_is_output(k, value))) return false;
  for (uint32_t i = 1; i < k->m->nodes[node].n_out; i++)
    if (!kit_unused(k, kit_out(k, node, i))) return false;
  const enum op op = kit_op(k, node);
  return op != OP_NONE && !kit_op_has(op, KIT_RANDOM) && !kit_op_has(op, KIT_GRAPHS);
}

static bool take_same(struct shaper *s, uint32_t node, const struct small *x) {
  struct kit *k = &s->k;
  const uint32_t other = find_list(s, x, node, kit_out(k, node, 0));
  if (other == NO_ID || kit_may_be_left_out(k->m, other) || !kit_can_bypass(k, node, other))
    return false;
  kit_begin(k, node, "same");
  kit_bypass(k, node, other);
  return true;
}

static bool take_part(struct shaper *s, uint32_t node, const struct small *x) {
  struct kit *k = &s->k;
  uint32_t axis;
  if (x->rank != 1 || x->dtype != DTYPE_INT64 || kit_op(k, node) == OP_Shape ||
      kit_n_in(k, node) < 2 || kit_opset(k, s->graph) < 15)
    return false;
  const uint32_t value = find_dims(s, x->list, x->n, node, &axis);
  if (value == NO_ID) return false;
  kit_begin(k, node, "part");
  const uint32_t n_in = kit_n_in(k, node);
  uint32_t makers[MOST], n = 0;
  for (uint32_t i = 0; i < n_in && n < MOST; i++)
    if (kit_in(k, node, i) != NO_ID && kit_maker(k, kit_in(k, node, i)) != NO_ID)
      makers[n++] = kit_maker(k, kit_in(k, node, i));
  kit_replace(k, node, OP_Shape, KIT_IN(value), KIT_INT("start", axis),
              KIT_INT("end", (int64_t)axis + x->n));
  for (uint32_t i = 0; i < n; i++)
    kit_sweep(k, makers[i]);
  return true;
}

static void visit(struct shaper *s, uint32_t node) {
  struct kit *k = &s->k;
  struct small x;
  if (kit_op(k, node) == OP_NONE ||
      name_filter_refuses(s->nodes, model_name_str(k->m, k->m->nodes[node].name)))
    return;
  if (fix_target(s, node) || fix_ends(s, node)) return;
  fix_where(s, node);
  fix_shape(s, node);
  if (!one_output(k, node) || !small_of(s, kit_out(k, node, 0), &x)) return;
  if (!take_same(s, node, &x)) take_part(s, node, &x);
}

// Nodes that go with what only they used stand before the node at hand.
static void walk(struct shaper *s, uint32_t graph) {
  const struct model *m = s->k.m;
  empty(s, graph);
  for (uint32_t i = 0; i < m->graphs[graph].n_inputs; i++)
    enter_value(s, m->graph_io[m->graphs[graph].inputs + i]);
  for (uint32_t n = m->graphs[graph].first_node, next; n != NO_ID; n = next) {
    next = m->nodes[n].next;
    visit(s, n);
    if (m->nodes[n].flags & NODE_DEAD) continue;
    for (uint32_t i = 0; i < m->nodes[n].n_out; i++)
      if (kit_out(&s->k, n, i) != NO_ID) enter_value(s, kit_out(&s->k, n, i));
    if (next != NO_ID && m->nodes[next].flags & NODE_DEAD) return; // a graph that is not sorted
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct shaper s = {.nodes = with};
  kit_init(&s.k, env, env->pass->name);
  kit_infer(&s.k);
  name_filter_warn(&s.nodes, 1, env);
  for (uint32_t g = 0; kit_graph(&s.k, &g); g++)
    walk(&s, g);
  env->result->held_back = s.held_back;
  TABLES_FREE(&s, places, filled);
  value_set_free(&s.lists);
  return kit_done(&s.k, err);
}

const struct pass optimize_shapes = {
    .name = "optimize/shapes",
    .summary = "simplify computations of shapes",
    .about =
        "Makes the target shape of a Reshape or Expand constant, if inference knows every dim "
        "except those that the target copies from the input, and one more for a Reshape (-1). "
        "Merges small values with the same elements. Reads neighboring dims of a value with one "
        "Shape with start and end (from opset 15).",
    .exactness = EXACTNESS_EXACT,
    .loosest = EXACTNESS_ZERO,
    NAME_FILTER_ALONE,
    .run = run,
};
