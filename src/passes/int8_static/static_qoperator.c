// Static quantization in the form of operators on codes.
//
//   x ─▶ Q ─▶ QLinearConv ─▶ QLinearAdd ─▶ Reshape ─▶ DQ ─▶ y
//
// One walk over the nodes of the main graph, in order. Each becomes an operator on codes (static_qoperator_nodes.c), or stays what it is;
// then values that are there as codes alone, and are wanted as floats, get a DQ each, after what makes the codes. All of this, names
// too, is what onnxruntime's ONNXQuantizer does.
//
// A constant that is wanted as floats too stays. (compat: for those who come after the first that took its codes, a DQ takes
// its name.)
#include "passes/int8_static/inside/static_qoperator.h"

#include "base/table.h"
#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"

// ---- the walk ----------------------------------------------------------------------------------

// Takes the node's operator floats, as far as that is asked before it is looked at?
static bool takes_floats(struct static_qoperator_run *q, uint32_t node, enum static_qop kind) {
  struct kit *k = &q->s->k;
  const uint32_t a = kit_in(k, node, 0), b = kit_in(k, node, 1);
  if (kind == STATIC_O_MATMUL || kind == STATIC_O_GEMM)
    return static_is_float(q->s, a) || static_is_float(q->s, b);
  if (kind == STATIC_O_WHERE) return static_holds_floats(q->s, b);
  return kind == STATIC_O_EMBED || static_is_float(q->s, a);
}

// Who stays float wants floats of constants that are codes already.
static void stay(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  for (uint32_t i = 0; q->s->o->compat && i < kit_n_in(k, node); i++) {
    struct static_held *h = static_qoperator_held(q, kit_in(k, node, i));
    if (h && h->constant) h->wanted = true;
    struct static_bias_codes *b = static_qoperator_bias_of(q, kit_in(k, node, i));
    if (b) b->wanted = true;
  }
}

// A node that only passes codes on, to one that is moved past, goes. False: it does not.
static bool passes(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  const uint32_t passed = static_passes_codes(q->s, node), mask = kit_out(k, node, 1);
  const struct static_held *held = passed == NO_ID ? NULL : static_qoperator_held(q, passed);
  if (!held || held->constant || held->axis != RECIPE_PER_TENSOR ||
      (mask != NO_ID && !kit_unused(k, mask)))
    return false;
  const struct static_held y = *held; // held values move
  const uint32_t out = kit_out(k, node, 0);
  kit_converted(k, node, "quantized");
  kit_site(k, node, "quantized");
  static_qoperator_hold(q, out, &y);
  edit_remove_node(k->e, node);
  return true;
}

// Where an input has no codes: why not, if that is known.
static const char *told(struct static_qoperator_run *q, uint32_t node, const char *why) {
  const char *left = static_left_input(q->s, node);
  return strcmp(why, "input_not_quantized") == 0 && left && *left ? left : why;
}

static void visit(struct static_qoperator_run *q, uint32_t node) {
  struct kit *k = &q->s->k;
  const struct static_op *op = static_op_named(model_name(k->m, k->m->nodes[node].op_type));
  const char *why = "";
  if (passes(q, node)) return;
  bool takes = static_takes(q->s, node, &why);
  // Where need not be asked for, if it is forced.
  if (q->s->o->compat && q->s->o->force_quantize_no_input_check && op && op->qop == STATIC_O_WHERE)
    takes = true;
  if (takes && kit_out(k, node, 0) == NO_ID) takes = false;
  if (takes && (!op || kit_op(k, node) == OP_NONE || !takes_floats(q, node, op->qop)))
    takes = false;
  if (takes && static_kept(q->s, node)) {
    takes = false;
    why = static_kept(q->s, node);
  }
  q->node = node;
  q->reported = false;
  if (takes && static_skips_overridable(q->s, node)) {
    takes = false;
    why = "";
  }
  if (takes) {
    why = static_qoperator_compute(q, node, op->qop);
    if (!why && !q->reported) kit_converted(k, node, "quantized");
    if (!why) return;
  }
  stay(q, node);
  if (why && *why) kit_skipped(k, node, told(q, node, why));
}

// ---- floats that are wanted --------------------------------------------------------------------

static void put_dequantize(struct static_qoperator_run *q, uint32_t value) {
  struct static_run *s = q->s;
  struct kit *k = &s->k;
  const struct static_held h = q->held[value];
  const uint32_t maker = kit_maker(k, h.codes);
  kit_site(k, maker, "dequantized");
  k->graph = s->graph;
  k->before = maker == NO_ID ? k->m->graphs[s->graph].first_node : k->m->nodes[maker].next;
  const struct span stem = kit_stem_of(k, value);
  const struct static_form f = {.scale = h.scale,
                                .zero = h.zero,
                                .axis = h.axis,
                                .contrib = h.type == DTYPE_INT8 && static_goes_to_bare(s, value)};
  if (f.contrib) kit_import(k, s->graph, "com.microsoft", 1);
  static_qoperator_dequantized(q, &f, h.codes, stem, (struct edit_output){.value = value},
                               static_dtype(s, value));
}

// A constant by the name that it had.
static void put_constant(struct static_qoperator_run *q, uint32_t value,
                         const struct static_form *f, uint32_t codes) {
  struct static_run *s = q->s;
  struct kit *k = &s->k;
  struct model_constant c;
  struct weight w;
  if (!model_resolve_constant(k->m, value, &c) || !weights_at(k->m, c.tensor, &w)) return;
  const struct span stem = kit_stem_of(k, value);
  const struct edit_output out = weights_output(k, &w, int8_value_name(k, stem, "_dequantized"),
                                                int8_value_name(k, stem, "_replaced"), true);
  const uint32_t made = static_qoperator_dequantized(q, f, codes, stem, out,
                                                     (enum dtype)k->m->tensors[w.tensor].dtype);
  weights_replace(k, &w, made);
}

// False: no node uses it.
static bool begin_before_users(struct static_qoperator_run *q, uint32_t value) {
  struct kit *k = &q->s->k;
  if (k->m->values[value].flags & VALUE_DEAD || k->m->values[value].kind != VALUE_INITIALIZER)
    return false;
  const uint32_t user = static_first_user(q->s, value);
  if (user == NO_ID) return false;
  kit_site(k, user, "dequantized");
  k->graph = q->s->graph;
  k->before = user;
  return true;
}

static void put_bias(struct static_qoperator_run *q, const struct static_bias_codes *b) {
  struct kit *k = &q->s->k;
  struct static_form f = {.axis = RECIPE_PER_TENSOR};
  if (!b->wanted || !begin_before_users(q, b->value)) return;
  const struct span stem = kit_stem_of(k, b->value);
  f.scale = int8_tensor(k, stem, "_quantized_scale", b->scales, NO_ID);
  f.zero = int8_tensor(k, stem, "_quantized_zero_point", b->zeros, NO_ID);
  if (k->r->rows[b->scales].count > 1) f.axis = 0;
  put_constant(q, b->value, &f, b->codes);
}

static void finish(struct static_qoperator_run *q) {
  struct kit *k = &q->s->k;
  static_find_bare(q->s);
  for (uint32_t i = 0; i < q->n_order; i++) {
    const uint32_t value = q->order[i];
    const struct static_held *h = &q->held[value];
    const struct model_value *v = &k->m->values[value];
    if (v->flags & VALUE_DEAD) continue;
    if (h->constant && h->wanted && begin_before_users(q, value))
      put_constant(
          q, value,
          &(struct static_form){
              .scale = h->scale, .zero = h->zero, .axis = h->axis, .from_end = h->from_end},
          h->codes);
    else if (!h->constant && v->kind == VALUE_UNDEFINED && !kit_unused(k, value))
      put_dequantize(q, value);
  }
  for (uint32_t i = 0; i < q->n_biases; i++)
    put_bias(q, &q->biases[i]);
}

// Constants that no node uses any more.
static void drop_constants(struct static_qoperator_run *q, const uint32_t *list, uint32_t n) {
  struct kit *k = &q->s->k;
  for (uint32_t i = 0; i < n; i++)
    if (!(k->m->values[list[i]].flags & VALUE_DEAD)) {
      kit_site(k, NO_ID, "unused");
      dead_ends_drop(k->e, list[i]);
    }
}

int static_qoperator(struct static_run *s, struct err *err) {
  struct static_qoperator_run q = {.s = s, .err = err};
  struct kit *k = &s->k;
  struct {
    TABLE(uint32_t, constants);
  } at = {0};
  uint32_t *nodes;
  const uint32_t n_nodes = static_nodes(s, &nodes);
  for (uint32_t at_node = 0; at_node < n_nodes; at_node++) {
    const uint32_t n = nodes[at_node];
    for (uint32_t i = 0; i < kit_n_in(k, n); i++)
      if (static_is_constant(s, kit_in(k, n, i))) *TABLE_PUSH(&at, constants) = kit_in(k, n, i);
  }
  for (uint32_t i = 0; i < n_nodes && !q.failed; i++)
    if (!(k->m->nodes[nodes[i]].flags & NODE_DEAD)) visit(&q, nodes[i]);
  if (!q.failed && static_qoperator_make_room(&q)) q.failed = true;
  if (!q.failed) {
    finish(&q);
    drop_constants(&q, at.constants, at.n_constants);
  }
  TABLE_FREE(&at, constants);
  TABLES_FREE(&q, held, order, coded, coded_of, biased, padded, biases, bias_of);
  return q.failed ? -1 : 0;
}
