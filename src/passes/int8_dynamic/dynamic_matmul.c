// MatMul and Gemm over a constant matrix.
//
//   fused     x ─▶ DynamicQuantizeMatMul(W_quantized, W_scale [N], bias of the Add after it) ─▶ y
//   integer   x ─▶ DynamicQuantizeLinear ─▶ MatMulInteger ─▶ Cast ─▶ Mul(Mul(x_scale, W_scale)) ─▶ y
//
// The first is what ONNX Runtime makes of the second and of the Add after it. Without zero points (int8) it takes the
// kernels that are fast. A matrix has a scale a column; a batch of matrices and a vector have one scale, since
// MatMulInteger reads zero points of matrices only.
//
// Gemm with alpha = beta = 1 and no transA is MatMul and Add: <node>_MatMul, <node>_Add. quantize_dynamic makes all of
// them so, before it looks at names, and those that it does not quantize stay that.
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/kit/dead_ends.h"

// ---- which -------------------------------------------------------------------------------------

static bool is_floats(struct dynamic *d, uint32_t value) {
  enum dtype t = kit_dtype(&d->k, value);
  if (t == DTYPE_UNDEFINED) t = d->o->default_type;
  return t == DTYPE_FLOAT || t == DTYPE_FLOAT16;
}

static const char *no_weight(struct dynamic *d, const struct dynamic_site *s, const char *why) {
  struct model_constant left;
  const uint32_t x = kit_in(&d->k, s->node, 0);
  if (strcmp(why, "non_constant_weight") != 0 || !model_resolve_constant(d->k.m, x, &left))
    return why;
  return "weight_on_the_left";
}

static const char *match(struct dynamic *d, struct dynamic_site *s) {
  struct kit *k = &d->k;
  const char *why;
  if (kit_in(k, s->node, 0) == NO_ID || kit_in(k, s->node, 1) == NO_ID ||
      kit_out(k, s->node, 0) == NO_ID || kit_may_be_left_out(k->m, kit_in(k, s->node, 0)))
    return "signature";
  if (!dynamic_weights_find(d, s->node, 1, true, &s->weights[0], &why)) {
    if (!d->o->any_matmul || kit_is_overridable(k->m, kit_in(k, s->node, 1)))
      return no_weight(d, s, why);
    if (!is_floats(d, kit_in(k, s->node, 0)) && !is_floats(d, kit_in(k, s->node, 1)))
      return "type_unknown";
    if (dynamic_types_differ(d, kit_in(k, s->node, 0), kit_in(k, s->node, 1)))
      return "weight_dtype";
    s->half = kit_dtype(k, kit_in(k, s->node, 0)) == DTYPE_FLOAT16;
    return NULL;
  }
  s->n_weights = 1;
  s->half = k->m->tensors[s->weights[0].tensor].dtype == DTYPE_FLOAT16;
  const uint32_t rank = dynamic_weights_rank(d, &s->weights[0]);
  if (rank == 0) return "weight_rank";
  const int64_t rows = dynamic_weights_dim(d, &s->weights[0], rank < 2 ? 0 : rank - 2);
  return rows > DYNAMIC_DEEPEST && !d->o->compat ? "too_many_rows" : NULL;
}

const char *dynamic_matmul_match(struct dynamic *d, struct dynamic_site *s) {
  return match(d, s);
}

// A Gemm that is a product and a sum.
static const char *match_factors(struct kit *k, uint32_t node) {
  float alpha, beta;
  int64_t trans_a, trans_b;
  const uint32_t c = kit_in(k, node, 2);
  if (kit_refers(k->m, node)) return "attribute_reference";
  if (!kit_attr_float(k, node, "alpha", 1, &alpha) || !kit_attr_float(k, node, "beta", 1, &beta) ||
      !kit_attr_int(k, node, "transA", 0, &trans_a) ||
      !kit_attr_int(k, node, "transB", 0, &trans_b))
    return "attributes";
  if (trans_a) return "transposed_activation";
  if (alpha != 1 || beta != 1) return "factors";
  if (c != NO_ID && kit_may_be_left_out(k->m, c)) return "optional_bias";
  return c != NO_ID && kit_opset(k, k->m->nodes[node].graph) < 7 ? "opset_too_old" : NULL;
}

const char *dynamic_matmul_match_gemm(struct dynamic *d, struct dynamic_site *s) {
  int64_t turned;
  const char *why = match_factors(&d->k, s->node);
  if (!why) why = match(d, s);
  if (why || s->n_weights == 0) return why; // of two activations: a product and a sum by then
  if (dynamic_weights_rank(d, &s->weights[0]) != 2) return "weight_rank";
  if (kit_attr_int(&d->k, s->node, "transB", 0, &turned) && turned)
    s->weights[0].transposed = !s->weights[0].transposed;
  return NULL;
}

// ---- integer -----------------------------------------------------------------------------------

static uint32_t put_product(struct dynamic *d, const struct dynamic_codes *a,
                            const struct dynamic_codes *b) {
  struct kit *k = &d->k;
  const bool named = d->node_name.n > 0;
  if (a->scale >= d->n_of_scale) TABLE_ADD(d, of_scale, a->scale + 1 - d->n_of_scale);
  for (uint32_t i = named ? 0 : d->of_scale[a->scale]; i; i = d->products[i - 1].next)
    if (d->products[i - 1].b == b->scale && d->products[i - 1].graph == k->graph)
      return d->products[i - 1].out;
  struct span name = kit_names_join(d->node_name, "_quant_scales_mul", &k->site);
  if (!named) {
    const char *first = arena_string(&k->site, model_value_name(k->m, a->scale));
    const char *second = arena_string(&k->site, model_value_name(k->m, b->scale));
    name = span_str(arena_printf(&k->site, "%s_%s_mul", first, second));
  }
  const uint32_t out =
      kit_make(k, OP_Mul, KIT_IN(a->scale, b->scale), KIT_CALLED(dynamic_codes_called(d, name, "")),
               KIT_OUT(dynamic_codes_output(d, k->graph, name, ":0")));
  if (named) return out;
  *TABLE_PUSH(d, products) =
      (struct dynamic_product){b->scale, k->graph, out, d->of_scale[a->scale]};
  d->of_scale[a->scale] = d->n_products;
  return out;
}

void dynamic_matmul_scaled(struct dynamic *d, uint32_t sums, const struct dynamic_codes *a,
                           const struct dynamic_codes *b, const struct dynamic_result *to,
                           bool half) {
  struct kit *k = &d->k;
  const struct span cast = kit_names_join(d->y_name, "_output_quantized_cast", &k->site);
  const uint32_t floats =
      kit_make(k, OP_Cast, KIT_IN(sums), KIT_INT("to", DTYPE_FLOAT), KIT_CALLED(cast),
               KIT_OUT(dynamic_codes_output(d, k->graph, cast, "_output")));
  const uint32_t in[2] = {floats, put_product(d, a, b)};
  const struct kit_new spec = {
      .op = OP_Mul,
      .in = in,
      .n_in = 2,
      .attrs_of = NO_ID,
      .name = dynamic_codes_called(d, d->node_name, "_quant_output_scale_mul")};
  dynamic_codes_put(d, &spec, to, half);
}

static struct dynamic_codes weight_of(struct dynamic *d, const struct dynamic_site *s) {
  const bool matrix = s->n_weights && dynamic_weights_rank(d, &s->weights[0]) == 2;
  const struct dynamic_as as =
      dynamic_weights_as(d, s, matrix ? 1 : RECIPE_PER_TENSOR, DYNAMIC_PLAIN);
  return s->n_weights ? dynamic_weights_store(d, &s->weights[0], &as)
                      : dynamic_codes_of(d, kit_in(&d->k, s->node, 1));
}

static void put_integer(struct dynamic *d, const struct dynamic_site *s, uint32_t x,
                        const struct dynamic_result *to) {
  struct kit *k = &d->k;
  const struct dynamic_codes a = dynamic_codes_of(d, x), b = weight_of(d, s);
  const uint32_t sums =
      kit_make(k, OP_MatMulInteger, KIT_IN(a.codes, b.codes, a.zero, b.zero),
               KIT_CALLED(dynamic_codes_called(d, d->node_name, "_quant")),
               KIT_OUT(dynamic_codes_output(d, k->graph, d->y_name, "_output_quantized")));
  dynamic_matmul_scaled(d, sums, &a, &b, to, s->half);
}

// ---- fused -------------------------------------------------------------------------------------

// Is it a constant vector with an element for each column?
static bool is_bias(struct dynamic *d, const struct dynamic_site *s, uint32_t value) {
  struct kit *k = &d->k;
  struct model_constant c;
  if (s->half || value == NO_ID || dynamic_weights_rank(d, &s->weights[0]) != 2 ||
      !model_resolve_constant(k->m, value, &c) || !kit_available(k, value, k->graph, s->node))
    return false;
  const struct model_tensor *t = &k->m->tensors[c.tensor];
  return t->dtype == DTYPE_FLOAT && t->rank == 1 &&
         model_dims(k->m, t)[0] == dynamic_weights_dim(d, &s->weights[0], 1);
}

// The Add of such a vector after the product, if that is all that reads it; else NO_ID.
static uint32_t add_behind(struct dynamic *d, const struct dynamic_site *s, uint32_t *bias) {
  struct kit *k = &d->k;
  const uint32_t y = kit_out(k, s->node, 0), add = kit_sole_user(k, y);
  if (kit_op(k, add) != OP_Add || k->m->nodes[add].graph != k->graph) return NO_ID;
  *bias = kit_in(k, add, kit_in(k, add, 0) == y);
  return is_bias(d, s, *bias) ? add : NO_ID;
}

static void put_fused(struct dynamic *d, const struct dynamic_site *s, uint32_t x, uint32_t bias,
                      const struct dynamic_result *to) {
  struct kit *k = &d->k;
  const struct dynamic_codes b = weight_of(d, s);
  const uint32_t in[5] = {dynamic_codes_widen(d, dynamic_codes_floats(d, x), s->half), b.codes,
                          b.scale, b.zero, bias};
  const struct kit_new spec = {.op = OP_ms_DynamicQuantizeMatMul,
                               .in = in,
                               .n_in = bias != NO_ID     ? 5
                                       : b.zero != NO_ID ? 4
                                                         : 3,
                               .attrs_of = NO_ID,
                               .name = dynamic_codes_called(d, d->node_name, "_quant")};
  kit_import(k, k->graph, "com.microsoft", 1);
  dynamic_codes_put(d, &spec, to, s->half);
}

// ---- one node ----------------------------------------------------------------------------------

// The fused operator reads floats: not where there are only codes, and not without a constant.
static bool is_fused(const struct dynamic *d, const struct dynamic_site *s) {
  return d->o->form == DYNAMIC_FUSED && s->n_weights > 0;
}

void dynamic_matmul_convert(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  const uint32_t x = kit_in(k, s->node, 0), w = kit_in(k, s->node, 1);
  struct dynamic_result to = {.as = s->node};
  uint32_t bias = NO_ID;
  if (!is_fused(d, s)) {
    put_integer(d, s, x, &to);
  } else {
    const uint32_t add = add_behind(d, s, &bias);
    if (add != NO_ID) {
      to.as = add;
    } else {
      bias = NO_ID;
    }
    put_fused(d, s, x, bias, &to);
    if (add != NO_ID) edit_remove_node(k->e, s->node);
  }
  dead_ends_drop(k->e, w);
}

// Product and sum of a Gemm. The sum takes the Gemm's place.
static void put_sum(struct dynamic *d, uint32_t node, uint32_t product, uint32_t c,
                    struct span name) {
  const uint32_t in[2] = {product, dynamic_codes_floats(d, c)};
  kit_replace(&d->k, node, OP_Add, KIT_INPUTS(in, 2), KIT_CALLED(name));
}

void dynamic_matmul_convert_gemm(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  const uint32_t x = kit_in(k, s->node, 0), w = kit_in(k, s->node, 1), c = kit_in(k, s->node, 2);
  const bool fused = is_fused(d, s), sums = c != NO_ID && !(fused && is_bias(d, s, c));
  const struct span add = dynamic_codes_called(d, d->node_name, "_Add");
  struct dynamic_result to = {.as = s->node};
  if (sums) {
    d->node_name = dynamic_codes_called(d, d->node_name, "_MatMul");
    to.as = NO_ID;
    to.out = dynamic_codes_output(d, k->graph, d->y_name, "_MatMul");
    d->y_name = to.out.name;
  }
  if (fused)
    put_fused(d, s, x, sums ? NO_ID : c, &to);
  else
    put_integer(d, s, x, &to);
  if (sums)
    put_sum(d, s->node, model_lookup(k->m, k->graph, model_find_name(k->m, to.out.name)), c, add);
  dead_ends_drop(k->e, w);
}

// ---- Gemms of a whole model (compat) -----------------------------------------------------------

// A name that no value of the model has, with the suffixes that quantized tensors get neither.
static struct span turned_name(struct dynamic *d, uint32_t graph, struct span own) {
  static const char *const suffixes[4] = {"", "_quantized", "_scale", "_zero_point"};
  struct kit *k = &d->k;
  const struct span name =
      kit_names_family(&k->names, KIT_VALUES, graph, kit_names_join(own, "_Transposed", &k->site),
                       suffixes, 4, &k->site);
  kit_names_reserve(&k->names, name);
  return name;
}

// The transpose of a constant as an initializer. Up to 1.31 all Gemms share it, and it takes the constant's name where nothing else
// reads that; from 1.32 on each graph has its own, with a name of its own.
static uint32_t turned_constant(struct dynamic *d, uint32_t b, uint32_t tensor) {
  static const int64_t swap[2] = {1, 0};
  struct kit *k = &d->k;
  const bool own_names = d->o->compat == COMPAT_ORT_1_32;
  const uint32_t graph = own_names ? k->graph : k->m->values[b].graph;
  if (tensor >= d->n_turned_of) TABLE_ADD(d, turned_of, tensor + 1 - d->n_turned_of);
  for (uint32_t i = d->turned_of[tensor]; i; i = d->turned[i - 1].next)
    if (d->turned[i - 1].graph == graph) return d->turned[i - 1].value;
  const uint32_t recipe = recipe_transpose(k->r, edit_tensor_recipe(k->e, tensor), swap);
  const struct span own = kit_stem_of(k, b);
  struct span name = own_names ? turned_name(d, graph, own)
                               : dynamic_codes_output(d, graph, own, "_Transposed").name;
  if (!own_names && kit_use_count(k, b, 2) == 1 && kit_can_stand_in(k, b)) {
    edit_rename_value(k->e, b, name);
    name = own;
  }
  const uint32_t made = edit_add_tensor_for(k->e, graph, name, recipe, tensor, k->m->empty);
  *TABLE_PUSH(d, turned) = (struct dynamic_turned){tensor, graph, made, d->turned_of[tensor]};
  d->turned_of[tensor] = d->n_turned;
  return made;
}

static uint32_t turned_input(struct dynamic *d, uint32_t b) {
  struct kit *k = &d->k;
  struct model_constant c;
  if (k->m->values[b].kind == VALUE_INITIALIZER && model_resolve_constant(k->m, b, &c) &&
      c.value == b && k->m->tensors[c.tensor].rank == 2 && edit_tensor_readable(k->e, c.tensor))
    return turned_constant(d, b, c.tensor);
  const struct span own = kit_stem_of(k, b);
  return kit_make(k, OP_Transpose, KIT_IN(b),
                  KIT_CALLED(dynamic_codes_called(d, d->node_name, "_Transpose")),
                  KIT_OUT(dynamic_codes_output(d, k->graph, own, "_Transposed")));
}

static void split(struct dynamic *d, uint32_t node) {
  struct kit *k = &d->k;
  int64_t turned;
  kit_site(k, node, "gemm");
  d->node_name = span_str(arena_string(&k->site, model_name(k->m, k->m->nodes[node].name)));
  d->y_name = span_str(arena_string(&k->site, model_value_name(k->m, kit_out(k, node, 0))));
  const uint32_t x = kit_in(k, node, 0), b = kit_in(k, node, 1), c = kit_in(k, node, 2);
  kit_attr_int(k, node, "transB", 0, &turned);
  const uint32_t w = turned ? turned_input(d, b) : b;
  const struct span name = dynamic_codes_called(d, d->node_name, "_MatMul");
  if (c == NO_ID) {
    kit_replace(k, node, OP_MatMul, KIT_IN(x, w), KIT_CALLED(name));
  } else {
    const uint32_t product =
        kit_make(k, OP_MatMul, KIT_IN(x, w), KIT_CALLED(name),
                 KIT_OUT(dynamic_codes_output(d, k->graph, d->y_name, "_MatMul")));
    put_sum(d, node, product, c, dynamic_codes_called(d, d->node_name, "_Add"));
  }
  dead_ends_drop(k->e, b);
}

static bool is_split(struct kit *k, uint32_t n) {
  return kit_op(k, n) == OP_Gemm && kit_out(k, n, 0) != NO_ID && kit_in(k, n, 1) != NO_ID &&
         kit_in(k, n, 0) != NO_ID && !match_factors(k, n);
}

// Where the walk is in a graph: at an attribute of a node.
struct walk_place {
  uint32_t graph, node, attr;
};

static struct walk_place begin_walk(const struct model *m, uint32_t graph) {
  return (struct walk_place){graph, m->graphs[graph].first_node, 0};
}

// Nothing of the graph is split any more.
static void end_walk(struct dynamic *d, uint32_t graph) {
  for (; d->n_turned > 0 && d->turned[d->n_turned - 1].graph == graph; d->n_turned--) {
    const struct dynamic_turned *last = &d->turned[d->n_turned - 1];
    d->turned_of[last->tensor] = last->next;
  }
}

// The next graph in the node's attributes; NO_ID: there is none left.
static uint32_t next_body(const struct model *m, struct walk_place *at) {
  const struct model_node *n = &m->nodes[at->node];
  while (at->attr < n->n_attrs) {
    const struct model_attr *a = &m->attrs[n->attrs + at->attr++];
    if (!(a->flags & ATTR_DEAD) && a->type == ATTR_GRAPH && a->first != NO_ID) return a->first;
  }
  return NO_ID;
}

// In the order in which 1.32 meets them, since names of transposes are given then: the graphs of a node come before what follows it.
static void split_as_met(struct dynamic *d) {
  struct kit *k = &d->k;
  struct {
    TABLE(struct walk_place, list);
  } stack = {0};
  if (k->m->main_graph == NO_ID) return;
  *TABLE_PUSH(&stack, list) = begin_walk(k->m, k->m->main_graph);
  while (stack.n_list > 0) {
    struct walk_place *at = &stack.list[stack.n_list - 1];
    if (at->node == NO_ID) {
      end_walk(d, at->graph);
      stack.n_list--;
      continue;
    }
    const uint32_t body = next_body(k->m, at), node = at->node;
    if (body != NO_ID) {
      *TABLE_PUSH(&stack, list) = begin_walk(k->m, body);
      continue;
    }
    at->node = k->m->nodes[node].next;
    at->attr = 0;
    if (is_split(k, node)) split(d, node);
  }
  TABLE_FREE(&stack, list);
}

void dynamic_matmul_split_all(struct dynamic *d) {
  struct kit *k = &d->k;
  if (d->o->compat == COMPAT_ORT_1_32) {
    split_as_met(d);
    return;
  }
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node, next; n != NO_ID; n = next) {
      next = k->m->nodes[n].next;
      if (is_split(k, n)) split(d, n);
    }
}
