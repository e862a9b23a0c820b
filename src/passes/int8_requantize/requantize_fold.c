// What training with simulated quantization, and converted modules, leave becomes stored codes:
//
//   w ─▶ QuantizeLinear ─▶ DequantizeLinear ─▶         w_quantized ─▶ DequantizeLinear ─▶
//            s, z              s, z                                      s, z
//
// w is constant: an initializer or Constant, after Identity, after a Cast to the type that it has, what nodes make of one without
// arithmetic (kit_weight), or what ConstantOfShape makes. The codes are a recipe with the parameters that are there (recipe_quantize_linear), the same that
// the node computes, bit for bit. Weights of one recipe and the same parameters have one tensor for all.
//
// Between codes and DequantizeLinear a Cast to the type that they have goes, and so does a Clip that lets
// every code through; a narrower one (codes 0 .. 127 of uint8, which PyTorch's default for AVX2 is) stays. Scales and zero
// points that are constant in the same wide sense become initializers, so that who comes next finds them.
//
// Before operators on codes, what moves the elements of a weight after its DequantizeLinear moves its codes instead; the axis of its
// scales goes with it. So PyTorch has linear layers of three dims:
//
//   w_quantized ─▶ DequantizeLinear ─▶ Transpose ─▶ MatMul          w_quantized, transposed ─▶ DequantizeLinear ─▶ MatMul
//
// Activations are left: their QuantizeLinear is part of the form.
#include "passes/int8_requantize/inside/requantize.h"

#include "passes/int8_requantize/inside/requantize_forms.h"
#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"

// ---- constants in the wide sense ---------------------------------------------------------------

// One number, as an element of a type; NO_ID if it is not one.
static uint32_t fill_of(struct kit *k, enum dtype to, const struct kit_number *x,
                        const int64_t *dims, uint32_t rank) {
  uint8_t element[8];
  if (!dtype_is_plain_number(to)) return NO_ID;
  const size_t n = kit_number_put(to, x->d, element);
  uint64_t count, bytes;
  if (n == 0 || !dims_product(dims, rank, &count) || !dtype_bytes(to, count, &bytes)) return NO_ID;
  return recipe_fill(k->r, to, dims, rank, span_of(element, n));
}

// What ConstantOfShape makes of a constant shape.
static uint32_t of_shape(struct kit *k, uint32_t node) {
  const int64_t *dims;
  uint32_t n, tensor;
  uint64_t all = 1;
  struct kit_number x = {.dtype = DTYPE_FLOAT};
  if (!kit_const_ints(k, kit_in(k, node, 0), &dims, &n) || n > RECIPE_MAX_RANK) return NO_ID;
  for (uint32_t i = 0; i < n; i++)
    if (dims[i] < 0 || mul_overflows(all, (uint64_t)dims[i], &all)) return NO_ID;
  if (kit_attr_tensor(k, node, "value", &tensor)) {
    if (!edit_tensor_readable(k->e, tensor)) return NO_ID;
    const uint32_t one = edit_tensor_recipe(k->e, tensor);
    const struct span element = recipe_elements(k->r, one);
    if (k->r->rows[one].count != 1 ||
        element.n * 8 != dtype_bits((enum dtype)k->r->rows[one].dtype) ||
        !kit_number_at((enum dtype)k->r->rows[one].dtype, element.at, 0, &x))
      return NO_ID;
  }
  return fill_of(k, x.dtype, &x, dims, n);
}

enum { CASTS = 8, NUMBERS = 1 << 16 }; // of a constant, one after another; of elements

// One element in another type, where that is exactly the same number.
static size_t same_number(enum dtype from, const uint8_t *raw, uint64_t i, enum dtype to,
                          uint8_t out[8]) {
  struct kit_number x, y;
  if (!dtype_is_plain_number(to) || !kit_number_at(from, raw, i, &x)) return 0;
  const size_t n = kit_number_put(to, x.d, out);
  return n > 0 && kit_number_at(to, out, 0, &y) && x.d == y.d ? n : 0;
}

// A Cast of known elements: to the same type, or of known numbers that the other type has too (zero points,
// which PyTorch keeps as int32). `value`: where the recipe is from, NO_ID: it is a fill.
static uint32_t cast_of(struct kit *k, uint32_t of, uint32_t value, enum dtype to) {
  const struct recipe row = k->r->rows[of];
  enum dtype from = (enum dtype)row.dtype;
  int64_t dims[RECIPE_MAX_RANK];
  uint8_t element[8];
  struct span raw = recipe_elements(k->r, of);
  if (from == to) return of;
  if (row.rank) memcpy(dims, recipe_dims(k->r, of), row.rank * sizeof *dims);
  if (row.kind == RECIPE_FILL) {
    const size_t n = same_number(from, raw.at, 0, to, element);
    return n ? recipe_fill(k->r, to, dims, row.rank, span_of(element, n)) : NO_ID;
  }
  if (row.count > NUMBERS || value == NO_ID || !kit_elements(k, value, &from, &raw) ||
      from != (enum dtype)row.dtype)
    return NO_ID;
  const size_t width = dtype_bits(to) / 8;
  uint8_t *list = arena_alloc(&k->site, row.count * width + 1);
  for (uint64_t i = 0; i < row.count; i++) {
    if (same_number(from, raw.at, i, to, element) == 0) return NO_ID;
    memcpy(list + i * width, element, width);
  }
  return recipe_bytes(k->r, to, dims, row.rank, span_of(list, row.count * width));
}

struct source {
  uint32_t recipe;
  uint32_t tensor; // NO_ID: a ConstantOfShape made it
  uint32_t value;  // that has the name
};

// The elements of a value that is constant in the wide sense.
static bool find_source(struct kit *k, uint32_t value, struct source *out) {
  enum dtype to[CASTS];
  uint32_t n = 0;
  const uint32_t whole = value;
  struct model_constant c;
  *out = (struct source){.recipe = NO_ID, .tensor = NO_ID, .value = value};
  for (uint32_t steps = 0; value != NO_ID && steps <= k->m->n_nodes; steps++) {
    const uint32_t maker = kit_maker(k, value);
    const enum op op = kit_op(k, maker);
    int64_t type;
    if (model_resolve_constant(k->m, value, &c)) {
      *out = (struct source){.recipe = kit_recipe(k, value), .tensor = c.tensor, .value = c.value};
      break;
    }
    if (op == OP_ConstantOfShape) {
      *out = (struct source){.recipe = of_shape(k, maker), .tensor = NO_ID, .value = value};
      break;
    }
    if (op != OP_Cast && op != OP_Identity) break;
    if (op == OP_Cast) {
      if (n == CASTS || !kit_attr_int(k, maker, "to", 0, &type)) break;
      to[n++] = (enum dtype)type;
    }
    value = kit_in(k, maker, 0);
  }
  const bool one = n == 1 && out->tensor != NO_ID; // else they are not the value's own elements
  while (n > 0 && out->recipe != NO_ID)
    out->recipe = cast_of(k, out->recipe, one ? out->value : NO_ID, to[--n]);
  if (out->recipe == NO_ID && kit_weight(k, whole, &c) && c.value == whole)
    *out = (struct source){k->m->tensors[c.tensor].recipe, c.tensor, c.value};
  return out->recipe != NO_ID;
}

// A new constant called after the value, which had these elements.
static uint32_t new_constant(struct kit *k, uint32_t named, const char *what, uint32_t recipe) {
  const struct span before = k->stem;
  k->stem = kit_stem_of(k, named);
  const uint32_t made = kit_new_tensor(k, what, recipe);
  k->stem = before;
  return made;
}

// ---- codes of constants ------------------------------------------------------------------------

struct folded {
  uint32_t graph, value;
  uint32_t next; // of the same recipe, in another graph: + 1
};

struct fold {
  struct kit *k;
  TABLE(struct folded, made);
  TABLE(uint32_t, of_recipe); // the last of `made` + 1
  TABLE(uint32_t, nodes);     // those that there were
};

// Are all elements 0? False where they are not known.
static bool all_zero(struct kit *k, uint32_t value, uint32_t recipe) {
  enum dtype dtype;
  struct span raw = recipe_elements(k->r, recipe);
  if (raw.n == 0 && !kit_elements(k, value, &dtype, &raw)) return false;
  for (size_t i = 0; i < raw.n; i++)
    if (raw.at[i] != 0) return false;
  return true;
}

// Parameters of a QuantizeLinear as the recipe takes them; else a stable word.
static const char *parameters_of(struct kit *k, uint32_t node, uint32_t of,
                                 struct recipe_linear *q) {
  struct source scale, zero = {.recipe = NO_ID};
  const struct recipe x = k->r->rows[of]; // what follows makes rows
  int64_t axis, block, type, saturates, precision;
  const uint32_t zero_value = kit_in(k, node, 2);
  if (!find_source(k, kit_in(k, node, 1), &scale)) return "parameters";
  if (zero_value != NO_ID && !find_source(k, zero_value, &zero)) return "parameters";
  if (!kit_attr_int(k, node, "axis", 1, &axis) || !kit_attr_int(k, node, "block_size", 0, &block) ||
      !kit_attr_int(k, node, "output_dtype", 0, &type) ||
      !kit_attr_int(k, node, "saturate", 1, &saturates) ||
      !kit_attr_int(k, node, "precision", 0, &precision))
    return "attributes";
  if (saturates != 1 || block < 0 || (precision != 0 && precision != DTYPE_FLOAT))
    return "attributes";
  *q = (struct recipe_linear){.type = DTYPE_UINT8, .scales = scale.recipe, .zeros = zero.recipe};
  if (type > 0 && dtype_known(type)) q->type = (enum dtype)type;
  if (zero.recipe != NO_ID) q->type = (enum dtype)k->r->rows[zero.recipe].dtype;
  const uint64_t n = k->r->rows[scale.recipe].count;
  if (axis < 0) axis += x.rank;
  q->axis = axis >= 0 && axis < x.rank ? (uint32_t)axis : RECIPE_PER_TENSOR;
  q->block = (uint64_t)block;
  if (q->axis == RECIPE_PER_TENSOR && (n != 1 || block != 0)) return "axis";
  if (n == 1 && block == 0) {
    q->axis = RECIPE_PER_TENSOR;
    q->scales = recipe_reshape(k->r, q->scales, NULL, 0);
    if (zero.recipe != NO_ID && k->r->rows[zero.recipe].count == 1)
      q->zeros = recipe_reshape(k->r, q->zeros, NULL, 0);
  }
  if (zero.recipe != NO_ID && all_zero(k, zero_value, zero.recipe)) q->zeros = NO_ID;
  return recipe_can_quantize_linear(k->r, of, q) ? NULL : "type";
}

static uint32_t codes_value(struct fold *f, uint32_t named, const char *what, uint32_t recipe) {
  struct kit *k = f->k;
  if (recipe >= f->n_of_recipe) TABLE_ADD(f, of_recipe, recipe + 1 - f->n_of_recipe);
  for (uint32_t i = f->of_recipe[recipe]; i != 0; i = f->made[i - 1].next)
    if (f->made[i - 1].graph == k->graph) return f->made[i - 1].value;
  const uint32_t value = new_constant(k, named, what, recipe);
  *TABLE_PUSH(f, made) = (struct folded){k->graph, value, f->of_recipe[recipe]};
  f->of_recipe[recipe] = f->n_made;
  return value;
}

static void fold_codes(struct fold *f, uint32_t node) {
  struct kit *k = f->k;
  struct source w;
  struct recipe_linear q;
  if (!find_source(k, kit_in(k, node, 0), &w)) return;
  kit_site(k, node, "folded");
  const char *why = parameters_of(k, node, w.recipe, &q);
  if (!why && !recipe_can_grow(k->r, w.recipe)) why = "tensor";
  if (!why && !edit_can_forward(k->e, kit_out(k, node, 0), kit_in(k, node, 0))) why = "hidden";
  if (kit_skips(k, node, why)) return;
  const uint32_t recipe = recipe_quantize_linear(k->r, w.recipe, &q);
  const uint32_t codes = codes_value(f, w.value, "quantized", recipe);
  const bool weight = w.tensor != NO_ID;
  edit_forward(k->e, kit_out(k, node, 0), codes);
  kit_report(k, &(struct kit_report){.node = node,
                                     .reason = "folded",
                                     .weight = weight ? w.value + 1 : 0,
                                     .codes = weight ? recipe + 1 : 0,
                                     .of = weight ? w.tensor : 0});
  kit_sweep(k, node);
}

// ---- what stands between codes and DequantizeLinear --------------------------------------------

// Does a Clip let every code of the type through?
static bool clips_nothing(struct kit *k, uint32_t node, enum dtype type) {
  int64_t lo, hi;
  const uint32_t bits = dtype_bits(type);
  if (!dtype_is_integer(type) || bits > 32 || type == DTYPE_BOOL) return false;
  const bool is_signed = dtype_is_signed(type);
  const int64_t least = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
  const int64_t most = ((int64_t)1 << (bits - is_signed)) - 1;
  if (kit_in(k, node, 1) != NO_ID && !(kit_const_int(k, kit_in(k, node, 1), &lo) && lo <= least))
    return false;
  return kit_in(k, node, 2) == NO_ID || (kit_const_int(k, kit_in(k, node, 2), &hi) && hi >= most);
}

// From the codes of a DequantizeLinear back to where they are made.
static bool straighten(struct kit *k, uint32_t node) {
  bool changed = false;
  for (uint32_t steps = 0; steps <= k->m->n_nodes; steps++) {
    const uint32_t codes = kit_in(k, node, 0), maker = kit_maker(k, codes);
    const enum op op = kit_op(k, maker);
    const uint32_t before = kit_in(k, maker, 0);
    const enum dtype type = kit_dtype(k, before);
    int64_t to;
    const bool same = op == OP_Cast && kit_attr_int(k, maker, "to", 0, &to) &&
                      type != DTYPE_UNDEFINED && (enum dtype)to == type;
    if (op == OP_Clip && !clips_nothing(k, maker, type)) { // it stays; before it may stand a Cast
      node = maker;
      continue;
    }
    if (!same && op != OP_Clip) break;
    edit_set_input(k->e, node, 0, before);
    kit_sweep(k, maker);
    changed = true;
  }
  return changed;
}

// An input that is constant only in the wide sense: a constant for all who use it.
static bool settle(struct kit *k, uint32_t node, uint32_t slot) {
  const uint32_t value = kit_in(k, node, slot);
  struct source s;
  uint32_t tensor;
  if (value == NO_ID || kit_constant(k, value, &tensor) || !find_source(k, value, &s)) return false;
  const uint32_t maker = kit_maker(k, value);
  if (!edit_can_forward(k->e, value, kit_in(k, maker, 0))) return false;
  const uint32_t made = new_constant(k, value, "constant", s.recipe);
  edit_forward(k->e, value, made);
  kit_sweep(k, maker);
  return true;
}

// ---- what stands after DequantizeLinear --------------------------------------------------------

// Is the value the weight of an operator that there is on codes?
static bool is_product_weight(struct kit *k, uint32_t value) {
  for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);) {
    const enum op op = kit_op(k, u.node);
    if (u.slot == 1 && (op == OP_MatMul || op == OP_Gemm || op == OP_Conv)) return true;
  }
  return false;
}

// The axis of the scales after the node: known of one scale, and after a Transpose.
static bool moved_axis(struct kit *k, uint32_t node, const struct form *f, uint32_t rank,
                       int64_t *axis) {
  const int64_t *perm;
  uint32_t n;
  *axis = f->axis < 0 ? f->axis + rank : f->axis;
  if (f->n == 1) return true;
  if (kit_op(k, node) != OP_Transpose || !kit_perm(k, node, &perm, &n) || n != rank) return false;
  for (uint32_t i = 0; i < n; i++)
    if (perm[i] == *axis) {
      *axis = i;
      return true;
    }
  return false;
}

static void move_codes(struct fold *f, uint32_t node) {
  struct kit *k = f->k;
  const uint32_t before = kit_in(k, node, 0), sizes = kit_in(k, node, 1);
  const uint32_t dequantize = kit_maker(k, before);
  struct form w;
  uint32_t tensor;
  int64_t axis;
  if (!weights_moved_by(k->m, node) || kit_op(k, node) == OP_Cast ||
      !requantize_is_dequantize(kit_op(k, dequantize)) || requantize_form_of(k, dequantize, &w) ||
      !kit_constant(k, w.codes, &tensor) || !edit_tensor_readable(k->e, tensor) ||
      !kit_attrs_copyable(k, dequantize) || !is_product_weight(k, kit_out(k, node, 0)))
    return;
  uint32_t recipe = edit_tensor_recipe(k->e, tensor);
  const uint32_t rank = k->r->rows[recipe].rank;
  kit_site(k, node, "folded");
  if (!moved_axis(k, node, &w, rank, &axis) || !kit_moved(k, node, &recipe) ||
      !recipe_can_grow(k->r, recipe))
    return;
  const uint32_t codes = codes_value(f, w.codes, "moved", recipe);
  const uint32_t in[3] = {codes, w.scale, w.zero};
  const struct edit_attr attr = {.name = "axis", .type = ATTR_INT, .i = axis};
  kit_replace(k, node, kit_op(k, dequantize), KIT_INPUTS(in, w.zero == NO_ID ? 2 : 3),
              KIT_ATTRS(&attr, w.n > 1), KIT_ATTRS_OF(dequantize));
  kit_converted(k, node, "folded");
  dead_ends_drop(k->e, sizes);
  if (kit_unused(k, before)) kit_sweep(k, dequantize);
}

// ---- the walk ----------------------------------------------------------------------------------

static bool is_left(struct kit *k, const struct requantize_options *options, uint32_t node) {
  return name_filter_refuses(&options->nodes, model_name_str(k->m, k->m->nodes[node].name)) != NULL;
}

static void settle_node(struct kit *k, const struct requantize_options *options, uint32_t node) {
  const enum op op = kit_op(k, node);
  if (!requantize_is_quantize(op) && !requantize_is_dequantize(op)) return;
  if (is_left(k, options, node)) return;
  kit_site(k, node, "folded");
  bool changed = false;
  if (requantize_is_dequantize(op)) {
    changed = straighten(k, node);
    changed |= settle(k, node, 0);
  }
  changed |= settle(k, node, 1);
  changed |= settle(k, node, 2);
  if (changed) kit_converted(k, node, "folded");
}

void requantize_fold(struct kit *k, const struct requantize_options *options) {
  struct fold f = {.k = k};
  struct arena a = {0};
  uint32_t *nodes;
  const uint32_t n = requantize_nodes(k, &a, &nodes);
  for (uint32_t i = 0; i < n; i++)
    if (requantize_is_quantize(kit_op(k, nodes[i])) && !is_left(k, options, nodes[i]))
      *TABLE_PUSH(&f, nodes) = nodes[i];
  arena_free(&a);
  for (uint32_t i = 0; i < f.n_nodes; i++) {
    arena_reset(&k->site);
    if (!(k->m->nodes[f.nodes[i]].flags & NODE_DEAD)) fold_codes(&f, f.nodes[i]);
  }
  requantize_walk(k, options, settle_node);
  const uint32_t n_left = requantize_makes_codes(options) ? requantize_nodes(k, &a, &nodes) : 0;
  for (uint32_t i = 0; i < n_left; i++) {
    arena_reset(&k->site);
    if (!(k->m->nodes[nodes[i]].flags & NODE_DEAD) && !is_left(k, options, nodes[i]))
      move_codes(&f, nodes[i]);
  }
  arena_free(&a);
  TABLES_FREE(&f, made, of_recipe, nodes);
}
