// Numbers that bound or mask, and are no numbers themselves: they may become others that mean the same in float16.
//
//   x ── Clip(-1e20, 1e20) ──▶                            -65504, 65504
//   Where(keep, x, -1e9) ── Softmax ──▶                   -65504
//   logits ── Add(mask: 0 and -1e9) ── Softmax ──▶        0 and -1e4: a sum of two masks and a logit stays finite
//   (1 - keep) ── Mul(-1e9) ── Add(logits) ── Softmax     -1e4
//
// All readers of a constant decide its meaning, and all readers of the values that they make from it. A bound: nodes clip by it, on the side
// where nothing is beyond it, or fill with it or choose it, and the result is only compared, or is an output. A mask: the result is far below 0,
// is added to another value, and ends in a Softmax, an exponential or an attention. Any other reader makes it a number, which stays one.
//
//   state   a value, how it has the constant in it (alone; multiplied with flags; in some places, chosen; added to something), and on which
//           side of 0 it is there
//   edge    from the state of a node's input to that of its output
//
// The search starts at the constants and visits each state once; the answers of the nodes at the ends flow back along the edges. So the work
// grows with the model, however many constants, readers and layers it has.
//
// Small constants are read. The elements of a bound that float16 does not hold must be one number but for their signs; those of a mask may
// differ, but if float16 holds all of them they must be one number too: others are a bias. A large mask is not read here; it has at
// least two dims of more than one element, and its elements are tested while it is converted.
//
// -1e4 is what converters write: far enough below a logit for exp to be 0, and six of them fit.
#include "passes/cast/inside/cast_graph_masks.h"

#include "base/table.h"
#include "model/model_calls.h"
#include "passes/cast/cast.h"

#include <math.h>

enum { BELOW, ABOVE, SIDES };
// How a value has the constant in it.
enum way { ALONE, FACTOR, CHOSEN, ADDED, WAYS };
// The answers about a state.
enum {
  SAYS_NUMBER = 1,
  SAYS_BOUND = 2,
  SAYS_MASK = 4,
  SAYS_SCALED = 8, // what it becomes is multiplied on the way, so -65504 may not do
  SAYS_SHOWN = 16, // it is an output, in some places
};

struct state {
  uint32_t value, first_in, first_out; // edges
  uint8_t way, side, says;
  bool queued, distant;
};

struct edge {
  uint32_t from, to, next_in, next_out;
};

struct cast_graph_masks {
  struct kit *k;
  const struct model_calls *calls;
  uint32_t *state_of; // by value, way and side: 1 + which one
  uint32_t n_values;
  uint8_t *distant; // by value
  uint8_t *may_be;  // by value: SAYS_BOUND, SAYS_MASK, as far as the elements of a constant go
  TABLE(struct state, states);
  TABLE(struct edge, edges);
  TABLE(uint32_t, list); // states that are to be looked at
};

// ---- states --------------------------------------------------------------------------------------

static uint32_t *state_at(const struct cast_graph_masks *g, uint32_t value, unsigned way,
                          unsigned side) {
  return &g->state_of[((size_t)value * WAYS + way) * SIDES + side];
}

static uint32_t add_state(struct cast_graph_masks *g, uint32_t value, unsigned way, unsigned side) {
  uint32_t *at = state_at(g, value, way, side);
  if (*at) return *at - 1;
  *TABLE_PUSH(g, states) = (struct state){.value = value,
                                          .first_in = NO_ID,
                                          .first_out = NO_ID,
                                          .way = (uint8_t)way,
                                          .side = (uint8_t)side};
  *at = g->n_states;
  *TABLE_PUSH(g, list) = g->n_states - 1;
  return g->n_states - 1;
}

static void say(struct cast_graph_masks *g, uint32_t state, unsigned what) {
  g->states[state].says |= (uint8_t)what;
}

// The state continues in a value.
static void lead(struct cast_graph_masks *g, uint32_t from, uint32_t value, unsigned way,
                 unsigned side) {
  if (value == NO_ID) return;
  if (value >= g->n_values || kit_dtype(g->k, value) != DTYPE_FLOAT) {
    say(g, from, SAYS_NUMBER);
    return;
  }
  const uint32_t to = add_state(g, value, way, side);
  *TABLE_PUSH(g, edges) = (struct edge){.from = from,
                                        .to = to,
                                        .next_in = g->states[to].first_in,
                                        .next_out = g->states[from].first_out};
  g->states[to].first_in = g->states[from].first_out = g->n_edges - 1;
}

// ---- what nodes do with it -----------------------------------------------------------------------

struct reader {
  struct cast_graph_masks *g;
  uint32_t state, node, slot;
  enum op op;
  unsigned way, side;
};

static void lead_on(const struct reader *r, unsigned way, unsigned side) {
  for (uint32_t i = 0; i < kit_n_out(r->g->k, r->node); i++)
    lead(r->g, r->state, kit_out(r->g->k, r->node, i), way, side);
}

static unsigned chosen(const struct reader *r) {
  return r->way == ADDED ? ADDED : CHOSEN;
}

static bool is_exponential(enum op op) {
  return op == OP_Softmax || op == OP_LogSoftmax || op == OP_Hardmax || op == OP_Exp;
}

// Is the input a mask that the operator adds to the scores itself?
static bool is_mask_of_attention(enum op op, uint32_t slot) {
  return (op == OP_Attention && slot == 3) || (op == OP_ms_Attention && slot == 5) ||
         (op == OP_ms_MultiHeadAttention && slot == 5);
}

// Does the node copy elements of the input unchanged?
static bool hands_on(enum op op, uint32_t slot) {
  if (op == OP_Concat || op == OP_Identity || op == OP_Cast) return slot == 0 || op == OP_Concat;
  if (op == OP_Scatter || op == OP_ScatterElements || op == OP_ScatterND) return slot != 1;
  return slot == 0 && kit_op_has(op, KIT_UNROUNDED) && !kit_op_has(op, KIT_JUMPS) &&
         !kit_op_has(op, KIT_ELEMENTWISE);
}

static bool tells_nothing(enum op op) {
  return op == OP_Shape || op == OP_Size || op == OP_IsInf || op == OP_IsNaN;
}

// Does the operator make no more of a number far off on the side than of any other?
static bool levels(enum op op, unsigned side) {
  if (tells_nothing(op)) return true;
  switch (op) {
  case OP_ArgMax:
  case OP_ArgMin:
  case OP_TopK:
  case OP_Sigmoid:
  case OP_HardSigmoid:
  case OP_Tanh:
  case OP_Erf:
  case OP_Softsign: return true;
  case OP_MaxPool:
  case OP_GlobalMaxPool:
  case OP_ReduceMax:
  case OP_Relu:
  case OP_Softplus: return side == BELOW;
  case OP_ReduceMin: return side == ABOVE;
  default: return false;
  }
}

static bool is_near(struct kit *k, uint32_t value) {
  double x;
  return value != NO_ID && kit_const_scalar(k, value, &x) && fabs(x) < (double)CAST_MASK_MOST / 2;
}

static void look_at_bound(const struct reader *r) {
  const bool low = r->op == OP_Max || (r->op == OP_Clip && r->slot == 1);
  const bool beyond = r->side == (low ? ABOVE : BELOW);
  say(r->g, r->state, SAYS_BOUND);
  // Nothing is left on the other side of it; and what has such numbers in it may keep them.
  if (beyond || r->way != ALONE) lead_on(r, r->way == ALONE ? CHOSEN : r->way, r->side);
}

static void look_at_sum(const struct reader *r) {
  const bool flips = r->op == OP_Sub && r->slot == 1;
  const unsigned side = flips ? !r->side : r->side;
  if (side == ABOVE)
    say(r->g, r->state, SAYS_NUMBER);
  else
    lead_on(r, ADDED, side);
}

// Is the value made by arithmetic with weights? Flags, and numbers that scale, do not.
static bool is_signal(struct kit *k, uint32_t value) {
  enum { MOST = 16 };
  uint32_t list[MOST], n = 0;
  list[n++] = value;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t node = kit_maker(k, list[i]);
    const enum op op = node == NO_ID ? OP_NONE : kit_op(k, node);
    if (node == NO_ID || op == OP_Constant || op == OP_ConstantOfShape) continue;
    if (op != OP_Cast && !kit_op_has(op, KIT_ELEMENTWISE) && !kit_op_has(op, KIT_UNROUNDED) &&
        !kit_op_has(op, KIT_REDUCES))
      return true;
    for (uint32_t s = 0; s < kit_n_in(k, node) && n < MOST; s++)
      if (kit_in(k, node, s) != NO_ID && kit_dtype(k, kit_in(k, node, s)) == DTYPE_FLOAT)
        list[n++] = kit_in(k, node, s);
  }
  return false;
}

// Of what is multiplied with it: 1, -1 if it changes the sign, 0 if it is not known to leave or to change it.
static int sign_of(struct kit *k, uint32_t other) {
  const uint32_t node = kit_maker(k, other);
  struct span raw;
  const double *x;
  uint32_t n, tensor, negative = 0, positive = 0;
  double one;
  if (kit_constant(k, other, &tensor)) {
    if (!model_small_value(k->m, tensor, &raw) || !kit_const_floats(k, other, &x, &n)) return 1;
    for (uint32_t i = 0; i < n; i++) {
      if (x[i] < 0) negative++;
      if (x[i] > 0) positive++;
    }
    return negative && positive ? 0 : negative ? -1 : 1;
  }
  if (node == NO_ID) return 1;
  // keep - 1, and its like
  const bool from_one =
      kit_op(k, node) == OP_Sub && kit_const_scalar(k, kit_in(k, node, 1), &one) && one > 0;
  return from_one || kit_op(k, node) == OP_Neg ? -1 : 1;
}

static void look_at_product(const struct reader *r) {
  struct kit *k = r->g->k;
  const double least = 0.01, most = 6;
  const uint32_t other = kit_in(k, r->node, 1 - r->slot);
  double x;
  arena_reset(&k->site);
  bool number =
      other == NO_ID || other == r->g->states[r->state].value || (r->op == OP_Div && r->slot == 1);
  if (!number && kit_const_scalar(k, other, &x)) {
    x = r->op == OP_Div ? 1 / fabs(x) : fabs(x);
    number = !(x >= least && x <= most);
  } else if (!number && r->way != ADDED) {
    number = is_signal(k, other) || (r->op == OP_Div && r->way != CHOSEN);
  }
  const int sign = number ? 0 : sign_of(k, other);
  if (sign == 0) {
    say(r->g, r->state, SAYS_NUMBER);
    return;
  }
  say(r->g, r->state, SAYS_SCALED);
  lead_on(r, r->way == ALONE ? FACTOR : r->way, sign < 0 ? !r->side : r->side);
}

// What a function is given; all of its calls share it.
static void look_into(const struct reader *r, uint32_t function) {
  const struct model *m = r->g->k->m;
  const struct model_graph *body = &m->graphs[m->functions[function].graph];
  if (r->slot < body->n_inputs)
    lead(r->g, r->state, m->graph_io[body->inputs + r->slot], r->way, r->side);
}

static void look_at_reader(const struct reader *r) {
  struct cast_graph_masks *g = r->g;
  struct kit *k = g->k;
  const enum op op = r->op;
  const uint32_t function = model_calls_callee(g->calls, r->node);
  struct span how = span_str("none");
  if (function != NO_ID) {
    look_into(r, function);
  } else if (is_mask_of_attention(op, r->slot)) {
    say(g, r->state, r->side == BELOW ? SAYS_MASK : SAYS_NUMBER);
  } else if (is_exponential(op) && r->way >= CHOSEN && r->slot == 0 &&
             (r->side == BELOW || op != OP_Exp)) {
    say(g, r->state, r->way == ADDED ? SAYS_MASK : SAYS_BOUND);
  } else if (levels(op, r->side) && r->slot == 0 && (r->way != FACTOR || tells_nothing(op))) {
    say(g, r->state, SAYS_BOUND);
  } else if (kit_op_has(op, KIT_COMPARES) && is_near(k, kit_in(k, r->node, 1 - r->slot))) {
    say(g, r->state, SAYS_BOUND);
  } else if ((op == OP_Clip && r->slot > 0) || op == OP_Max || op == OP_Min) {
    look_at_bound(r);
  } else if ((op == OP_Pad && r->slot == 2) || (op == OP_Where && r->slot > 0)) {
    say(g, r->state, SAYS_BOUND);
    lead_on(r, chosen(r), r->side);
  } else if (op == OP_Add || op == OP_Sum || op == OP_Sub) {
    look_at_sum(r);
  } else if (op == OP_Mul || op == OP_Div) {
    look_at_product(r);
  } else if (op == OP_Neg) {
    lead_on(r, r->way, !r->side);
  } else if (op == OP_Clip || op == OP_Relu) {
    lead_on(r, r->way, r->side);
  } else if (hands_on(op, r->slot) && kit_attr_string(k, r->node, "reduction", "none", &how) &&
             span_is(how, "none")) {
    lead_on(r, (op == OP_Concat || r->slot > 0) && r->way == ALONE ? CHOSEN : r->way, r->side);
  } else {
    say(g, r->state, SAYS_NUMBER);
  }
}

// Whoever reads an output of the model may take it for a number, but where it was filled in. A branch of an If hands it on.
static void look_at_output(struct cast_graph_masks *g, uint32_t state) {
  struct kit *k = g->k;
  const struct model *m = k->m;
  const struct state s = g->states[state];
  const uint32_t graph = m->values[s.value].graph;
  const struct model_graph *b = &m->graphs[graph];
  const uint32_t node = model_graph_node(m, graph);
  if (graph == m->main_graph) {
    say(g, state, s.way == CHOSEN ? SAYS_SHOWN : SAYS_NUMBER);
  } else if (node != NO_ID && kit_op(k, node) == OP_If) {
    for (uint32_t i = 0; i < b->n_outputs; i++)
      if (m->graph_io[b->outputs + i] == s.value)
        lead(g, state, kit_out(k, node, i), s.way == ALONE ? CHOSEN : s.way, s.side);
  } else {
    say(g, state, SAYS_NUMBER);
  }
}

static void look_at(struct cast_graph_masks *g, uint32_t state) {
  const struct state s = g->states[state];
  if (kit_is_output(g->k, s.value)) look_at_output(g, state);
  for (struct kit_use u = kit_uses(g->k, s.value); kit_use(g->k, &u);) {
    // A number stays one, whatever else reads it.
    if (g->states[state].says & SAYS_NUMBER) return;
    look_at_reader(&(struct reader){.g = g,
                                    .state = state,
                                    .node = u.node,
                                    .slot = u.slot,
                                    .op = kit_op(g->k, u.node),
                                    .way = s.way,
                                    .side = s.side});
  }
}

// ---- elements ------------------------------------------------------------------------------------

static bool is_beyond(double x, double most) {
  return isfinite(x) && fabs(x) > most;
}

struct elements {
  const double *x;
  uint32_t n;
  bool known;
};

// Are the elements beyond it one number, but for the sign?
static bool are_alike(const struct elements *e, double most) {
  double distant = 0;
  for (uint32_t i = 0; i < e->n; i++) {
    if (!is_beyond(e->x[i], most)) continue;
    if (distant != 0 && fabs(e->x[i]) != distant) return false;
    distant = fabs(e->x[i]);
  }
  return distant != 0;
}

static bool any_beyond(const struct elements *e, double most) {
  for (uint32_t i = 0; i < e->n; i++)
    if (is_beyond(e->x[i], most)) return true;
  return false;
}

static struct elements elements_of(struct kit *k, uint32_t tensor) {
  struct span raw;
  if (!model_small_value(k->m, tensor, &raw)) return (struct elements){.known = false};
  const uint32_t n = (uint32_t)(raw.n / sizeof(float));
  double *out = arena_alloc(&k->site, (n + (size_t)1) * sizeof *out);
  for (uint32_t i = 0; i < n; i++) {
    float x;
    memcpy(&x, raw.at + i * sizeof x, sizeof x);
    out[i] = (double)x;
  }
  return (struct elements){.x = out, .n = n, .known = true};
}

// ---- all of them ---------------------------------------------------------------------------------

static bool is_long_mask(const struct model *m, uint32_t tensor) {
  const struct model_tensor *t = &m->tensors[tensor];
  uint32_t longer = 0;
  for (uint32_t i = 0; i < t->rank; i++)
    longer += model_dims(m, t)[i] > 1;
  return longer > 1;
}

// A constant with elements on a side that are, or may be, far from 0.
static void begin_at(struct cast_graph_masks *g, uint32_t value, uint32_t tensor) {
  const struct model *m = g->k->m;
  bool sides[SIDES] = {false};
  if (m->tensors[tensor].dtype != DTYPE_FLOAT) return;
  const struct elements e = elements_of(g->k, tensor);
  if (!e.known) sides[BELOW] = sides[ABOVE] = is_long_mask(m, tensor);
  for (uint32_t i = 0; i < e.n; i++)
    if (is_beyond(e.x[i], (double)CAST_MASK_MOST)) sides[e.x[i] > 0 ? ABOVE : BELOW] = true;
  const bool fits = e.known && !any_beyond(&e, dtype_largest(DTYPE_FLOAT16));
  if (!fits || are_alike(&e, (double)CAST_MASK_MOST)) g->may_be[value] |= SAYS_MASK;
  if (fits || are_alike(&e, dtype_largest(DTYPE_FLOAT16))) g->may_be[value] |= SAYS_BOUND;
  for (unsigned side = 0; side < SIDES; side++)
    if (sides[side]) add_state(g, value, ALONE, side);
}

static void begin(struct cast_graph_masks *g) {
  struct kit *k = g->k;
  for (uint32_t v = 0; v < g->n_values; v++) {
    const struct model_value *row = &k->m->values[v];
    uint32_t tensor;
    arena_reset(&k->site);
    if (row->flags & VALUE_DEAD || kit_dtype(k, v) != DTYPE_FLOAT) continue;
    if (row->kind == VALUE_INITIALIZER)
      begin_at(g, v, row->def);
    else if (kit_maker_op(k, v) == OP_Constant && kit_constant(k, v, &tensor))
      begin_at(g, v, tensor);
    else if (kit_maker_op(k, v) == OP_ConstantOfShape &&
             kit_attr_tensor(k, kit_maker(k, v), "value", &tensor))
      begin_at(g, v, tensor);
  }
}

static void flow_back(struct cast_graph_masks *g) {
  g->n_list = 0;
  for (uint32_t s = 0; s < g->n_states; s++) {
    *TABLE_PUSH(g, list) = s;
    g->states[s].queued = true;
  }
  while (g->n_list > 0) {
    const uint32_t s = g->list[--g->n_list];
    g->states[s].queued = false;
    for (uint32_t e = g->states[s].first_in; e != NO_ID; e = g->edges[e].next_in) {
      struct state *from = &g->states[g->edges[e].from];
      const uint8_t says = from->says | g->states[s].says;
      if (says == from->says) continue;
      from->says = says;
      if (!from->queued) *TABLE_PUSH(g, list) = g->edges[e].from;
      from->queued = true;
    }
  }
}

// What the constant is on a side: SAYS_NUMBER, SAYS_BOUND, SAYS_MASK; SAYS_NUMBER too of one that has no such elements.
static unsigned meaning(const struct cast_graph_masks *g, uint32_t value, unsigned side) {
  const uint32_t at = value < g->n_values ? *state_at(g, value, ALONE, side) : 0;
  const unsigned says = at ? g->states[at - 1].says : 0;
  if (says == 0 || says & SAYS_NUMBER) return SAYS_NUMBER;
  const bool masks = says & (SAYS_MASK | SAYS_SCALED);
  if (masks && says & SAYS_SHOWN) return SAYS_NUMBER;
  return g->may_be[value] & (masks ? SAYS_MASK : SAYS_BOUND) ? masks ? SAYS_MASK : SAYS_BOUND
                                                             : SAYS_NUMBER;
}

// Marks the values that constants reach which bound or mask.
static void flow_on(struct cast_graph_masks *g) {
  g->n_list = 0;
  for (uint32_t v = 0; v < g->n_values; v++)
    for (unsigned side = 0; side < SIDES; side++)
      if (meaning(g, v, side) != SAYS_NUMBER)
        *TABLE_PUSH(g, list) = *state_at(g, v, ALONE, side) - 1;
  while (g->n_list > 0) {
    struct state *s = &g->states[g->list[--g->n_list]];
    if (s->distant) continue;
    s->distant = true;
    g->distant[s->value] |= s->side == BELOW ? CAST_GRAPH_BELOW : CAST_GRAPH_ABOVE;
    for (uint32_t e = s->first_out; e != NO_ID; e = g->edges[e].next_out)
      *TABLE_PUSH(g, list) = g->edges[e].to;
  }
}

struct cast_graph_masks *cast_graph_masks_of(struct kit *k, const struct model_calls *calls) {
  struct arena *a = k->env->scratch;
  struct cast_graph_masks *g = arena_zalloc(a, sizeof *g);
  g->k = k;
  g->calls = calls;
  g->n_values = k->m->n_values;
  g->distant = arena_zalloc(a, g->n_values + (size_t)1);
  g->may_be = arena_zalloc(a, g->n_values + (size_t)1);
  g->state_of = arena_zalloc(a, (g->n_values + (size_t)1) * WAYS * SIDES * sizeof *g->state_of);
  begin(g);
  while (g->n_list > 0)
    look_at(g, g->list[--g->n_list]);
  flow_back(g);
  flow_on(g);
  return g;
}

void cast_graph_masks_free(struct cast_graph_masks *g) {
  TABLES_FREE(g, states, edges, list);
}

unsigned cast_graph_far(const struct cast_graph_masks *g, uint32_t value) {
  return value < g->n_values ? g->distant[value] : 0;
}

// ---- what it becomes -----------------------------------------------------------------------------

static uint32_t number(struct kit *k, float x) {
  return recipe_bytes(k->r, DTYPE_FLOAT, NULL, 0, span_of(&x, sizeof x));
}

// Finite elements beyond ±1e4 on the sides of masks become that; infinite ones stay. For a small constant:
static uint32_t masked_numbers(struct kit *k, uint32_t of, const struct elements *e,
                               const bool *held) {
  int64_t dims[RECIPE_MAX_RANK];
  const uint32_t rank = k->r->rows[of].rank;
  float *out = arena_alloc(&k->site, (e->n + (size_t)1) * sizeof *out);
  memcpy(dims, recipe_dims(k->r, of), rank * sizeof *dims);
  for (uint32_t i = 0; i < e->n; i++) {
    const float x = (float)e->x[i];
    const bool beyond = is_beyond(e->x[i], (double)CAST_MASK_MOST) && held[x > 0 ? ABOVE : BELOW];
    out[i] = beyond ? copysignf(CAST_MASK_MOST, x) : x;
  }
  return recipe_bytes(k->r, DTYPE_FLOAT, dims, rank, span_of(out, e->n * sizeof *out));
}

// The same, on one side, of others.
static uint32_t masked(struct kit *k, uint32_t of, float most) {
  const enum recipe_map_op beyond = most < 0 ? RECIPE_MAP_LESS : RECIPE_MAP_GREATER;
  const enum recipe_map_op within = most < 0 ? RECIPE_MAP_GREATER : RECIPE_MAP_LESS;
  const uint32_t distant = recipe_map(k->r, beyond, (const uint32_t[]){of, number(k, most)});
  const uint32_t finite =
      recipe_map(k->r, within, (const uint32_t[]){of, number(k, most < 0 ? -INFINITY : INFINITY)});
  const uint32_t both = recipe_map(k->r, RECIPE_MAP_AND, (const uint32_t[]){distant, finite});
  return recipe_map(k->r, RECIPE_MAP_WHERE, (const uint32_t[]){both, number(k, most), of});
}

static uint32_t held_mask(struct kit *k, uint32_t of, const struct elements *e, const bool *held) {
  if (e->known) return recipe_cast(k->r, masked_numbers(k, of, e, held), DTYPE_FLOAT16);
  if (!recipe_can_grow(k->r, of)) return NO_ID;
  if (held[BELOW]) of = masked(k, of, -CAST_MASK_MOST);
  if (held[ABOVE]) of = masked(k, of, CAST_MASK_MOST);
  return recipe_cast(k->r, of, DTYPE_FLOAT16);
}

uint32_t cast_graph_bounded(const struct cast_graph_masks *g, uint32_t value, uint32_t tensor,
                            uint32_t of, bool *mask) {
  struct kit *k = g->k;
  bool held[SIDES], bounds = true;
  *mask = false;
  if (k->r->rows[of].dtype != DTYPE_FLOAT) return NO_ID;
  for (unsigned side = 0; side < SIDES; side++) {
    const unsigned is = meaning(g, value, side);
    held[side] = is == SAYS_MASK;
    // A side without such elements has no state.
    bounds = bounds && (is == SAYS_BOUND || *state_at(g, value, ALONE, side) == 0);
  }
  const struct elements e = elements_of(k, tensor);
  if (held[BELOW] || held[ABOVE]) {
    const uint32_t recipe = held_mask(k, of, &e, held);
    *mask = recipe != NO_ID;
    return recipe;
  }
  return bounds && are_alike(&e, dtype_largest(DTYPE_FLOAT16))
             ? recipe_cast_clipped(k->r, of, DTYPE_FLOAT16)
             : NO_ID;
}
