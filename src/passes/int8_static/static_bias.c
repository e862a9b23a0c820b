// Biases in int32, with the scale that products of codes have:
//
//   b ─▶ node       becomes       b_quantized ─▶ DQ(x_scale · w_scale) ─▶ b ─▶ node
//
// Gemm multiplies the product by alpha and the bias by beta. Codes are RHE(beta·b / (alpha·x_scale·w_scale)), and beta
// goes: so the node computes the same whether it runs as it stands or on codes, where nothing multiplies the bias. (The
// existing tool has beta in the scale and in the node's place 1, and forgets alpha.)
//
// Where such a scale is so small that a code would overflow int32, the weight's scale is enlarged beforehand; of a stored weight that
// other nodes take too, that of a copy (static_apart.c). Biases whose shape does not go with the scales stay floats.
#include "passes/int8_static/inside/static_apart.h"
#include "passes/int8_static/inside/static_put.h"

#include "passes/kit/weights.h"

#include <math.h>
#include <stdlib.h>

static uint32_t times(struct recipes *r, uint32_t of, double by) {
  if (by == 1) return of;
  const uint32_t both[2] = {of, int8_floats(r, (enum dtype)r->rows[of].dtype, &by, NO_ID)};
  return recipe_map(r, RECIPE_MAP_MUL, both);
}

// Does the bias stay float, so that ONNX Runtime makes its codes? It does so by the scales alone, whatever alpha and beta are: more room for
// them is no harm, as long as it leaves codes.
static const double MOST_ROOM = 1024;

static bool is_left(const struct static_run *s, const struct static_bias *b) {
  return b->computed || (s->o->keep_float_bias && !s->o->compat && !b->summed);
}

bool static_drops_bias(const struct static_run *s, double beta) {
  return s->o->compat == COMPAT_ORT_1_32 && beta == 0;
}

static double alpha_of(const struct static_run *s, const struct static_bias *b) {
  const double least = 1 / MOST_ROOM;
  return is_left(s, b) ? fmax(fmin(fabs(b->alpha), 1), least) : fabs(b->alpha);
}

// The largest product of two codes of 8 bits, their zero points taken off.
static double largest_product(const struct static_run *s) {
  const bool is_symmetric = s->n_overrides == 0 && static_is_weight_symmetric(s->o, s->o->weight);
  return 255.0 * (is_symmetric ? 128 : 255);
}

// The sum of all products is added to the code of a bias in int32, where the node computes on codes. At most half is left to them: sums of
// more elements do not fit without a bias. A few fit beside every bias (recipe_roomy_scales leaves 0.0001 of the codes).
double static_sum_room(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t w = kit_in(k, node, 1);
  const enum op op = kit_op(k, node);
  int64_t transposed = 0;
  uint32_t rank;
  if (s->o->compat || (op != OP_Conv && op != OP_Gemm && op != OP_MatMul)) return 1;
  if (!kit_rank(k, w, &rank) || !kit_attr_int(k, node, "transB", 0, &transposed)) return 2;
  const uint32_t channel = op == OP_Conv || transposed ? 0 : 1;
  double sum = largest_product(s) / 0x1p31;
  for (uint32_t i = 0; i < rank; i++) {
    const struct model_dim dim = kit_dim(k, w, i);
    if (dim.value < 1) return 2;
    if (i != channel) sum *= (double)dim.value;
  }
  return sum <= 0.0001 ? 1 : 1 / (1 - fmin(sum, 0.5));
}

static double beta_of(const struct static_run *s, const struct static_bias *b) {
  if (static_drops_bias(s, b->beta)) return 1; // codes of it are 0, but its weight has room for it
  return is_left(s, b) ? fmin(fmax(fabs(b->beta), 1), MOST_ROOM) : b->beta;
}

// Of one that is computed, as many times as there are scales: the largest number that it had.
static uint32_t bias_recipe(struct static_run *s, const struct static_bias *b, uint32_t scales) {
  struct model_constant c;
  if (b->computed) {
    const struct int8_range *range = &s->range[b->value];
    const struct recipe of = s->k.r->rows[scales];
    const double most = fmax(-range->least, range->most);
    const int64_t dims[1] = {(int64_t)of.count};
    uint8_t number[8];
    kit_number_put((enum dtype)of.dtype, most, number);
    const struct span bytes = span_of(number, dtype_bits((enum dtype)of.dtype) / 8);
    return times(s->k.r, recipe_fill(s->k.r, (enum dtype)of.dtype, dims, 1, bytes), beta_of(s, b));
  }
  model_resolve_constant(s->k.m, b->value, &c);
  return times(s->k.r, edit_tensor_recipe(s->k.e, c.tensor), beta_of(s, b));
}

// ---- room ----------------------------------------------------------------------------------------

static const struct static_op *op_of(const struct static_run *s, uint32_t node) {
  return static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
}

// Have the codes that the node gives the scale of its first input, among operators on codes? One without a range that is then float is
// taken for one that has.
static bool shares_on_codes(struct static_run *s, uint32_t node, enum static_qop kind) {
  struct static_params p;
  switch (kind) {
  case STATIC_O_RELU: return kit_op(&s->k, node) == OP_Relu;
  case STATIC_O_GLOBAL_POOL: return !static_params_of(s, kit_out(&s->k, node, 0), &p);
  case STATIC_O_FLOAT: return static_is_moved_past(s, node);
  case STATIC_O_DIRECT:
  case STATIC_O_MAXPOOL:
  case STATIC_O_RESIZE:
  case STATIC_O_SPLIT:
  case STATIC_O_PAD: return true;
  default: return false;
  }
}

// The input whose scale the node's outputs have; NO_ID: none. A Clip whose scale would grow stays, and its input has a scale of its own.
static uint32_t shared_by(struct static_run *s, uint32_t node) {
  const struct static_op *op = op_of(s, node);
  const char *why;
  if (s->k.m->nodes[node].graph != s->graph) return NO_ID;
  if (static_passes_codes(s, node) != NO_ID) return static_passes_codes(s, node);
  if (!op || !static_takes(s, node, &why)) return NO_ID;
  const bool shares =
      s->o->format == STATIC_QOPERATOR ? shares_on_codes(s, node, op->qop) : static_shares(s, node);
  return shares ? kit_in(&s->k, node, 0) : NO_ID;
}

// A scale that an override gives is what it is for all.
static bool is_taken_by_others(struct static_run *s, uint32_t value) {
  struct static_params p;
  return kit_use_count(&s->k, value, 2) > 1 && !static_override_of(s, value) &&
         (static_is_constant(s, value) || static_params_of(s, value, &p));
}

// Has a node outputs that share one scale, as those of a Split?
static bool has_other_outputs(struct static_run *s, uint32_t node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node) && n < 2; i++) {
    const uint32_t out = kit_out(&s->k, node, i);
    n += static_holds_floats(s, out) && !kit_unused(&s->k, out);
  }
  return n > 1;
}

void static_find_growing(struct static_run *s) {
  struct kit *k = &s->k;
  TABLE_ADD(s, grows, k->m->n_values);
  for (uint32_t n = 0; n < k->m->n_nodes; n++) {
    if (k->m->nodes[n].flags & NODE_DEAD) continue;
    const struct static_op *op = op_of(s, n);
    if (!op || op->qdq < STATIC_Q_CONV || op->qdq > STATIC_Q_NORM || kit_in(k, n, 2) == NO_ID)
      continue;
    if (static_is_constant(s, kit_in(k, n, 1))) continue; // it has codes for itself
    for (uint32_t value = kit_in(k, n, 1);
         value != NO_ID && !s->grows[value] && !is_taken_by_others(s, value);) {
      const uint32_t maker = kit_maker(k, value);
      s->grows[value] = true;
      value = maker == NO_ID || has_other_outputs(s, maker) ? NO_ID : shared_by(s, maker);
    }
  }
}

bool static_may_grow(const struct static_run *s, uint32_t value) {
  return value < s->n_grows && s->grows[value];
}

bool static_grows_alone(struct static_run *s, uint32_t value, uint32_t provider) {
  struct static_params p;
  return static_may_grow(s, value) && !static_may_grow(s, provider) &&
         static_params_of(s, value, &p);
}

uint32_t static_own_weight(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t w = kit_in(k, node, 1);
  if (s->o->compat || w == NO_ID || kit_in(k, node, 2) == NO_ID || static_may_grow(s, w) ||
      static_is_constant(s, w) || !is_taken_by_others(s, w) || static_is_left(s, w) ||
      !static_is_float(s, w))
    return w;
  kit_site(k, node, "own_weight");
  const struct span stem = model_value_name(k->m, w);
  k->graph = s->graph;
  k->before = node;
  const struct edit_output out = {
      NO_ID, int8_value_name(k, span_of(arena_string(&k->site, stem), stem.n), "_weight")};
  const uint32_t made = kit_make(k, OP_Identity, KIT_IN(w), KIT_OUT(out)),
                 maker = kit_maker(k, made);
  kit_note_like(k, made, w);
  edit_set_input(k->e, node, 1, made);
  if (made >= s->n_range) TABLE_ADD(s, range, made + 1 - s->n_range);
  if (made >= s->n_grows) TABLE_ADD(s, grows, made + 1 - s->n_grows);
  if (maker >= s->n_raw) TABLE_ADD(s, raw, maker + 1 - s->n_raw);
  s->range[made] = s->range[w];
  s->grows[made] = s->raw[maker] = true;
  return made;
}

// The entry whose parameters a value has: what it shares them with, or its own. Parameters of a table by channel are none for what
// is picked from it.
static struct static_entry *owner_of(struct static_run *s, uint32_t value) {
  struct static_entry *const first = static_entry_of(s, value), *e = first;
  for (uint32_t i = 0; e && !e->owner && e->provider != NO_ID && i < s->n_entries; i++) {
    struct static_entry *from = static_entry_of(s, e->provider);
    if (!from || from->per_channel) break;
    e = from;
  }
  if (!e) return NULL;
  const uint32_t owner = e->owner ? e->owner : (uint32_t)(e - s->entries) + 1;
  for (struct static_entry *at = first; at != e; at = static_entry_of(s, at->provider))
    at->owner = owner;
  return &s->entries[owner - 1];
}

// The factor of the input's scale that leaves the room that the bias needs.
static double reach_of(struct static_run *s, const struct static_bias *b) {
  return alpha_of(s, b) / static_sum_room(s, b->node);
}

// The scale of the node's input, times that; NO_ID: none is known.
static uint32_t input_scale(struct static_run *s, const struct static_bias *b, enum dtype type) {
  struct static_params p;
  const struct static_entry *owner = s->o->compat ? NULL : owner_of(s, b->input);
  const uint32_t value = owner ? owner->value : b->input;
  if (owner && static_is_constant(s, value) && owner->scales != NO_ID && !owner->per_channel)
    return times(s->k.r, owner->scales, reach_of(s, b));
  if (!static_params_of(s, value, &p)) return NO_ID;
  const bool converted = static_receives(s, p.with, b->node);
  const double scale = (converted ? p.converted.scale : p.own.scale) * reach_of(s, b);
  return int8_floats(s->k.r, type, &scale, NO_ID);
}

// The scales of the bias's weight with room for it; NO_ID: it needs none.
static uint32_t roomy(struct static_run *s, const struct static_bias *b, uint32_t scales) {
  struct recipes *r = s->k.r;
  const uint32_t bias = bias_recipe(s, b, scales),
                 x = input_scale(s, b, (enum dtype)r->rows[bias].dtype);
  if (x == NO_ID) return NO_ID;
  return recipe_can_have_roomy_scales(r, scales, x, bias)
             ? recipe_roomy_scales(r, scales, x, bias, s->o->compat == COMPAT_ORT_1_32)
             : NO_ID;
}

// Scales for a weight that is no constant, by its range. False: nothing can be enlarged.
static bool has_scales(struct static_run *s, struct static_entry *w) {
  struct static_params p;
  if (w->scales != NO_ID) return true;
  if (static_is_constant(s, w->value) || !static_params_of(s, w->value, &p) || p.with) return false;
  w->as = (struct int8_weight_as){.type = p.type, .axis = RECIPE_PER_TENSOR};
  w->scales = int8_floats(s->k.r, p.scale_type, &p.own.scale, NO_ID);
  return true;
}

// The weight of a bias that may need room: of integers, not in blocks; quantize_static has it for symmetric constants of 8 and 16 bits
// with a sign alone. (Codes come nearer to a zero point that stays.) A bias of zeros needs none.
static struct static_entry *weight_of(struct static_run *s, const struct static_bias *b) {
  struct static_entry *w = s->o->compat ? static_entry_of(s, b->weight) : owner_of(s, b->weight);
  if (!w || !static_entry_of(s, b->input) || b->is_zero) return NULL;
  if (s->o->compat)
    return w->scales != NO_ID && !w->as.block && w->as.symmetric &&
                   (w->as.type == DTYPE_INT8 || w->as.type == DTYPE_INT16)
               ? w
               : NULL;
  return has_scales(s, w) && !w->as.block && w->as.type != DTYPE_FLOAT8E4M3FN ? w : NULL;
}

uint32_t static_largest(struct recipes *r, const uint32_t *lists, uint32_t n) {
  const struct recipe first = r->rows[lists[0]];
  const int64_t dims[2] = {1, (int64_t)first.count};
  struct arena a = {0};
  uint32_t *rows = arena_alloc(&a, n * sizeof *rows);
  for (uint32_t i = 0; i < n; i++)
    rows[i] = recipe_reshape(r, lists[i], dims, 1 + first.rank);
  const struct recipe_reduction q = {.op = RECIPE_MAX, .axes = 1};
  const uint32_t all = recipe_concat(r, rows, n, 0);
  arena_free(&a);
  return recipe_reduce(r, all, &q);
}

static int by_need(const void *a, const void *b) {
  const struct static_need *x = a, *y = b;
  if (x->bias != y->bias) return x->bias < y->bias ? -1 : 1;
  if (x->x != y->x) return x->x < y->x ? -1 : 1;
  return x->row < y->row ? -1 : x->row > y->row;
}

static int by_row(const void *a, const void *b) {
  const struct static_need *x = a, *y = b;
  return x->row < y->row ? -1 : x->row > y->row;
}

uint32_t static_least_needs(struct static_need *needs, uint32_t n) {
  uint32_t kept = 0;
  qsort(needs, n, sizeof *needs, by_need);
  for (uint32_t i = 0; i < n; i++)
    if (needs[i].x <= 0 || kept == 0 || needs[kept - 1].bias != needs[i].bias ||
        needs[kept - 1].x <= 0)
      needs[kept++] = needs[i];
  qsort(needs, kept, sizeof *needs, by_row);
  return kept;
}

// The scale of the node's input as a number; 0: it is not one.
static double input_number(struct static_run *s, const struct static_bias *b) {
  struct static_params p;
  const struct static_entry *owner = s->o->compat ? NULL : owner_of(s, b->input);
  const uint32_t value = owner ? owner->value : b->input;
  if ((owner && static_is_constant(s, value)) || !static_params_of(s, value, &p) || p.with)
    return 0;
  return p.own.scale * reach_of(s, b);
}

static void make_room(struct static_run *s, struct static_entry *w, uint32_t *biases, uint32_t n) {
  struct arena a = {0};
  if (n > STATIC_NESTED) {
    struct static_need *needs = arena_alloc(&a, n * sizeof *needs);
    for (uint32_t i = 0; i < n; i++)
      needs[i] = (struct static_need){.bias = bias_recipe(s, &s->biases[biases[i]], w->scales),
                                      .row = biases[i],
                                      .x = input_number(s, &s->biases[biases[i]])};
    n = static_least_needs(needs, n);
    for (uint32_t i = 0; i < n; i++)
      biases[i] = needs[i].row;
  }
  uint32_t *lists = arena_alloc(&a, (n + (size_t)1) * sizeof *lists), count = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t with = roomy(s, &s->biases[biases[i]], w->scales);
    if (with == NO_ID) continue;
    if (n <= STATIC_NESTED) w->scales = with;
    lists[count++] = with;
  }
  if (n > STATIC_NESTED && count > 0) w->scales = static_largest(s->k.r, lists, count);
  arena_free(&a);
}

void static_make_room(struct static_run *s) {
  if (s->o->disable_weight_adjust) return;
  struct arena a = {0};
  const size_t room = s->n_biases + s->n_entries + (size_t)1;
  uint32_t *first = arena_alloc(&a, room * sizeof *first); // by entry: its first bias + 1
  uint32_t *last = arena_alloc(&a, room * sizeof *last),
           *next = arena_alloc(&a, room * sizeof *next),
           *list = arena_alloc(&a, room * sizeof *list);
  for (size_t i = 0; i < room; i++)
    first[i] = last[i] = next[i] = 0;
  for (uint32_t i = 0; i < s->n_biases; i++) {
    const struct static_entry *w = weight_of(s, &s->biases[i]);
    if (!w) continue;
    const size_t e = (size_t)(w - s->entries);
    if (last[e])
      next[last[e] - 1] = i + 1;
    else
      first[e] = i + 1;
    last[e] = i + 1;
  }
  for (uint32_t e = 0; e < s->n_entries; e++) {
    uint32_t n = 0;
    for (uint32_t i = first[e]; i; i = next[i - 1])
      list[n++] = i - 1;
    if (n) make_room(s, &s->entries[e], list, n);
  }
  arena_free(&a);
}

// ---- copies --------------------------------------------------------------------------------------

// The scales of a stored weight that the bias wants; false: of another kind of weight, or no more than its elements do.
static bool claims(struct static_run *s, uint32_t row, struct static_claim *c) {
  const struct static_bias *b = &s->biases[row];
  const struct static_entry *w = weight_of(s, b);
  if (!w || w->value != b->weight || !static_is_constant(s, w->value)) return false;
  *c =
      (struct static_claim){.weight = (uint32_t)(w - s->entries), .row = row, .natural = w->scales};
  c->roomy = roomy(s, b, w->scales);
  return c->roomy != NO_ID;
}

// The weight of a bias, copied, with an entry like that of the weight.
static uint32_t copy_weight(struct static_run *s, uint32_t entry, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t w = s->entries[entry].value;
  struct model_constant c;
  model_resolve_constant(k->m, w, &c);
  kit_site(k, node, "own_weight");
  const struct span stem = model_value_name(k->m, w);
  const uint32_t made = edit_add_tensor(
      k->e, s->graph, int8_value_name(k, span_of(arena_string(&k->site, stem), stem.n), "_weight"),
      edit_tensor_recipe(k->e, c.tensor));
  static_mark_like(s, made, entry);
  return made;
}

int static_part_weights(struct static_run *s, struct err *err) {
  if (s->o->compat || s->o->disable_weight_adjust) return 0;
  struct arena a = {0};
  struct static_claim *list = arena_alloc(&a, (s->n_biases + (size_t)1) * sizeof *list);
  bool *others = arena_alloc(&a, (s->n_entries + (size_t)1) * sizeof *others);
  uint32_t *taken = arena_zalloc(&a, (s->n_entries + (size_t)1) * sizeof *taken), n = 0;
  for (uint32_t i = 0; i < s->n_biases; i++)
    if (claims(s, i, &list[n])) taken[list[n++].weight]++;
  for (uint32_t i = 0; i < s->n_entries; i++)
    others[i] = taken[i] && kit_use_count(&s->k, s->entries[i].value, taken[i] + 1) > taken[i];
  const int rc = static_part_claims(s, list, n, others, err);
  for (uint32_t i = 0, made = NO_ID; i < n && rc == 0; i++) {
    struct static_bias *b = &s->biases[list[i].row];
    if (list[i].copy == 0) continue;
    if (i == 0 || list[i - 1].weight != list[i].weight || list[i - 1].copy != list[i].copy)
      made = copy_weight(s, list[i].weight, b->node);
    edit_set_input(s->k.e, b->node, 1, made);
    b->weight = made;
  }
  arena_free(&a);
  return rc;
}

// ---- biases --------------------------------------------------------------------------------------

// The recipe of a scale that a node sees: of the Q that was written here, or by the DQ of the model that makes it. NO_ID: none.
static uint32_t scale_recipe(struct static_run *s, uint32_t value, uint32_t node) {
  struct kit *k = &s->k;
  uint32_t scale = static_scale_for(s, value, node, NULL);
  if (scale == NO_ID && kit_maker_op(k, value) == OP_DequantizeLinear)
    scale = kit_in(k, kit_maker(k, value), 1);
  return scale == NO_ID ? NO_ID : kit_recipe(k, scale);
}

static void put_cast(struct static_run *s, const struct weight *w, uint32_t bias) {
  struct kit *k = &s->k;
  const enum dtype type = (enum dtype)k->m->tensors[w->tensor].dtype;
  const struct span stem = kit_stem_of(k, w->value);
  const uint32_t wide =
      int8_tensor(k, stem, "_quantized", recipe_cast(k->r, bias, DTYPE_FLOAT), w->tensor);
  const struct edit_output out =
      weights_output(k, w, int8_value_name(k, stem, "_DequantizeLinear_Output"),
                     int8_value_name(k, stem, "_replaced"), true);
  const uint32_t made = kit_make(k, OP_Cast, KIT_IN(wide), KIT_INT("to", type), KIT_OUT(out),
                                 KIT_CALLED(int8_node_name(k, stem, "_DequantizeLinear")));
  weights_replace(k, w, made);
}

static bool gets_codes(struct static_run *s, const struct static_bias *b) {
  return !b->computed && !b->summed && static_made_of(s, b->value)->scale == NO_ID;
}

bool static_bias_parts(struct static_run *s, const struct static_bias *b,
                       struct static_bias_parts *out) {
  struct model_constant c;
  if (!gets_codes(s, b) || !model_resolve_constant(s->k.m, b->value, &c)) return false;
  out->bias = bias_recipe(s, b, NO_ID);
  if (static_drops_bias(s, b->beta)) out->bias = int8_zeros_like(s->k.r, out->bias);
  const uint32_t x = scale_recipe(s, b->input, b->node);
  out->x = x == NO_ID ? NO_ID : times(s->k.r, x, b->alpha);
  out->w = scale_recipe(s, b->weight, b->node);
  return out->x != NO_ID && out->w != NO_ID;
}

static struct int8_parts codes_of(struct static_run *s, const struct static_bias *b,
                                  const struct static_bias_parts *p) {
  struct recipes *r = s->k.r;
  if (b->wide) return static_wide_bias(r, p);
  const bool theirs = s->o->compat == COMPAT_ORT_1_32;
  return int8_bias(r, p->bias, p->x, p->w, 1, theirs ? NO_ID : static_least_half(r, p->bias));
}

static void put_beta(struct static_run *s, const struct static_bias *b) {
  edit_set_attr(s->k.e, b->node, &(struct edit_attr){.name = "beta", .type = ATTR_FLOAT, .f = 1});
}

static void put_bias(struct static_run *s, const struct static_bias *b) {
  struct kit *k = &s->k;
  struct model_constant c;
  struct weight w;
  struct static_bias_parts p;
  if (!model_resolve_constant(k->m, b->value, &c) || !weights_at(k->m, c.tensor, &w)) return;
  const bool float8 = s->o->weight == DTYPE_FLOAT8E4M3FN;
  if (!static_bias_parts(s, b, &p) || (float8 && !s->o->compat)) {
    kit_skipped(k, b->node, "float_bias");
    return;
  }
  uint32_t user = static_first_user(s, b->value);
  kit_site(k, user, "bias");
  // Where the node reads it through an Identity, others may read it before that node does.
  const uint32_t first = static_first_user(s, w.value);
  if (first != NO_ID && kit_before(k, first, user)) user = first;
  k->graph = s->graph;
  k->before = user;
  if (float8) {
    put_cast(s, &w, p.bias);
    if (static_drops_bias(s, b->beta)) put_beta(s, b);
    return;
  }
  const struct int8_parts parts = codes_of(s, b, &p);
  if (parts.codes == NO_ID) {
    kit_skipped(k, b->node, "float_bias");
    return;
  }
  const struct span stem = kit_stem_of(k, b->value);
  struct static_form f = {.axis = RECIPE_PER_TENSOR};
  const uint32_t codes = int8_tensor(k, stem, "_quantized", parts.codes, c.tensor);
  f.scale = int8_tensor(k, stem, "_quantized_scale", parts.scales, c.tensor);
  f.zero = int8_tensor(k, stem, "_quantized_zero_point", parts.zeros, c.tensor);
  if (k->r->rows[parts.scales].count > 1) f.axis = k->r->rows[parts.codes].rank - 1u;
  const struct edit_output dequantized = {NO_ID,
                                          int8_value_name(k, stem, "_DequantizeLinear_Output")};
  const struct span name = b->wide ? int8_value_name(k, stem, "_Cast_Output") : dequantized.name;
  const struct edit_output last =
      weights_output(k, &w, name, int8_value_name(k, stem, "_replaced"), true);
  uint32_t made = static_put_node(s, OP_DequantizeLinear, &f, codes, b->wide ? dequantized : last,
                                  kit_names_join(stem, "_DequantizeLinear", &k->site));
  if (b->wide)
    made = kit_make(k, OP_Cast, KIT_IN(made), KIT_INT("to", DTYPE_FLOAT16), KIT_OUT(last),
                    KIT_CALLED(int8_node_name(k, stem, "_Cast")));
  kit_note_like(k, made, b->value);
  weights_replace(k, &w, made);
  if (b->beta != 1) put_beta(s, b);
}

int static_put_biases(struct static_run *s, struct err *err) {
  if (static_find_wide(s, err)) return -1;
  for (uint32_t i = 0; i < s->n_biases; i++)
    if (gets_codes(s, &s->biases[i])) put_bias(s, &s->biases[i]);
  return 0;
}
