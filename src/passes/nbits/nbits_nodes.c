// The nodes that take the place of one that is quantized, in the order and with the names of the
// existing tool ([…] only where needed; the chain restores leading dims of 1 that W had and x has
// not):
//
//   MatMul   MatMulNBits <name>_Q4 [chain]
//            DequantizeLinear <name>_DQ_Q4 · [Transpose] · MatMul <name>_matmul_Q4 [chain]     qdq
//   Gemm     MatMulNBits <name>_Q4 · [Mul alpha] · [Mul(c, beta)] · [Add]
//            DequantizeLinear <name>_DQ_Q4 · Gemm as it was                                    qdq
//   Gather   GatherBlockQuantized <name>_Q4
//            DequantizeLinear <name>_DQ_Q4 · Gather as it was                                  qdq
//
// A DequantizeLinear serves all nodes that use the weight: the existing tool writes one for each
// node, all with one output name, which makes the model invalid.
#include "passes/nbits/inside/nbits.h"

#include "passes/kit/dead_ends.h"

static const char *text(struct nbits_work *w, const char *stem, const char *suffix) {
  return arena_printf(&w->k.site, "%s%s", stem, suffix);
}

// "_Q4", "_DQ_Q4"
static const char *bits_suffix(struct nbits_work *w, const char *before) {
  return arena_printf(&w->k.site, "%s%u", before, w->site->scheme.bits);
}

// What the existing tool calls a node made of this one (the kit sees to it that names differ):
// nothing if it had no name.
static struct span node_name(struct nbits_work *w, const char *before) {
  if (*w->node_name == 0) return span_str("");
  return span_str(text(w, w->node_name, bits_suffix(w, before)));
}

struct span nbits_value_name(struct nbits_work *w, const char *stem, const char *suffix) {
  return kit_names_free(&w->k.names, KIT_VALUES, w->k.graph, span_str(text(w, stem, suffix)),
                        &w->k.site);
}

static struct edit_output named(struct nbits_work *w, const char *stem, const char *suffix) {
  return (struct edit_output){NO_ID, nbits_value_name(w, stem, suffix)};
}

static struct edit_output existing(uint32_t value) {
  return (struct edit_output){.value = value};
}

// An existing value's name, safe from edits.
static const char *value_name(struct nbits_work *w, uint32_t value) {
  return arena_string(&w->k.site, model_value_name(w->k.m, value));
}

static struct edit_attr int_attr(const char *name, int64_t i) {
  return (struct edit_attr){.name = name, .type = ATTR_INT, .i = i};
}

// ---- the chain behind weights with leading dims of 1 -------------------------------------------

struct chain {
  struct nbits_work *w;
  const char *prefix;
  uint32_t home; // graph of its constants
};

static uint32_t chain_constant(struct chain *c, const char *suffix, int64_t x, uint32_t rank) {
  static const int64_t one = 1;
  struct kit *k = &c->w->k;
  const uint32_t recipe = recipe_bytes(k->r, DTYPE_INT64, &one, rank, span_of(&x, sizeof x));
  return edit_add_tensor(k->e, c->home, nbits_value_name(c->w, c->prefix, suffix), recipe);
}

// A node called <prefix><node> with the output <prefix><out>.
#define CHAIN(c, op, node, out, ...)                                                               \
  kit_make(&(c)->w->k, OP_##op, KIT_CALLED(span_str(text((c)->w, (c)->prefix, node))),             \
           KIT_OUT(named((c)->w, (c)->prefix, out)), __VA_ARGS__)

// [1] * max(rank(W) - max(rank(x), 2), 0) + shape(x)[:-1] + [N], as the existing tool builds it.
static void put_chain(struct chain *c, uint32_t rank, int64_t n, uint32_t product) {
  static const int64_t dim = 1;
  struct nbits_work *w = c->w;
  const uint32_t zero = chain_constant(c, "_zero", 0, 0), one = chain_constant(c, "_one", 1, 0);
  const uint32_t two = chain_constant(c, "_two", 2, 0);
  const uint32_t one_vec = chain_constant(c, "_one_vec", 1, 1);
  const uint32_t rank_b = chain_constant(c, "_rank_b", rank, 0);
  const uint32_t n_vec = chain_constant(c, "_n_vec", n, 1);
  const uint32_t zero_vec = chain_constant(c, "_zero_vec", 0, 1);
  const uint32_t ones_of = recipe_bytes(w->k.r, DTYPE_INT64, &dim, 1, span_of(&dim, sizeof dim));
  const uint32_t shape = CHAIN(c, Shape, "_shape_a", "_a_shape", KIT_IN(w->x));
  const uint32_t ranks = CHAIN(c, Shape, "_shape_of_a_shape", "_a_shape_of_shape", KIT_IN(shape));
  const uint32_t rank_a = CHAIN(c, Gather, "_gather_rank", "_a_rank", KIT_IN(ranks, zero));
  const uint32_t effective = CHAIN(c, Max, "_max_rank_eff", "_a_rank_eff", KIT_IN(rank_a, two));
  const uint32_t raw = CHAIN(c, Sub, "_sub", "_extra_raw", KIT_IN(rank_b, effective));
  const uint32_t extra = CHAIN(c, Max, "_max", "_extra_count", KIT_IN(raw, zero));
  const uint32_t count =
      CHAIN(c, Reshape, "_reshape_extra", "_extra_count_vec", KIT_IN(extra, one_vec));
  const uint32_t ones = CHAIN(c, ConstantOfShape, "_const_ones", "_extra_ones", KIT_IN(count),
                              KIT_TENSOR("value", ones_of));
  const uint32_t last = CHAIN(c, Sub, "_sub_one", "_a_rank_m1", KIT_IN(rank_a, one));
  const uint32_t last_vec =
      CHAIN(c, Reshape, "_reshape_rank_m1", "_a_rank_m1_vec", KIT_IN(last, one_vec));
  const uint32_t front = CHAIN(c, Slice, "_slice_a_prefix", "_a_prefix_shape",
                               KIT_IN(shape, zero_vec, last_vec, zero_vec));
  const uint32_t target = CHAIN(c, Concat, "_concat_target", "_target_shape",
                                KIT_IN(ones, front, n_vec), KIT_INT("axis", 0));
  kit_make(&w->k, OP_Reshape, KIT_CALLED(span_str(text(w, c->prefix, "_reshape_out"))),
           KIT_OUT(existing(w->y)), KIT_IN(product, target));
}

bool nbits_needs_chain(const struct model *m, uint32_t weight, uint32_t x) {
  const uint32_t rank = m->tensors[weight].rank;
  struct model_type of_x;
  if (rank == 2) return false;
  model_types_get(NULL, m, x, &of_x);
  return !of_x.ranked || of_x.rank < rank;
}

// The node `spec` gives the site's output, through the chain where that is needed.
static void put_last(struct nbits_work *w, struct kit_new *spec, const char *before) {
  const struct model *m = w->k.m;
  const bool chained = nbits_needs_chain(m, w->site->weight.tensor, w->x);
  const char *out = value_name(w, w->y);
  const struct edit_output to = chained ? named(w, out, "_pre_reshape") : existing(w->y);
  spec->out = &to;
  const uint32_t product = kit_out(&w->k, kit_put(&w->k, spec), 0);
  if (!chained) return;
  const struct model_tensor *t = &m->tensors[w->site->weight.tensor];
  const int64_t n = model_dims(m, t)[t->rank - 1];
  const char *stem = *w->node_name ? w->node_name : w->weight_name;
  struct chain c = {.w = w,
                    .prefix =
                        arena_printf(&w->k.site, "%s%s_%s", stem, bits_suffix(w, before), out),
                    .home = m->values[w->site->weight.value].graph};
  put_chain(&c, t->rank, n, product);
}

// ---- qoperator ---------------------------------------------------------------------------------

// Is the matrix stored [N,K]?
static bool is_trans_b(const struct nbits_work *w) {
  int64_t trans_b = 0;
  if (w->site->op == MATMULNBITS_GEMM) model_attr_int(w->k.m, w->site->node, "transB", 0, &trans_b);
  return trans_b != 0;
}

enum nbits_form nbits_form(const struct nbits_work *w, bool *transposed) {
  const struct matmulnbits_scheme *s = &w->site->scheme;
  const bool qdq = w->options->qdq;
  *transposed = w->site->transposed;
  if (w->site->op == MATMULNBITS_GATHER) {
    if (qdq) return NBITS_ROWS; // blocks lie along axis 1
    *transposed = false;
    return s->bits != 4 ? NBITS_PACKED : NBITS_TABLE;
  }
  if (!qdq) {
    *transposed ^= is_trans_b(w);
    return NBITS_BLOB;
  }
  if (w->site->op == MATMULNBITS_GEMM) return is_trans_b(w) ? NBITS_ROWS : NBITS_COLUMNS;
  return s->block == 0 && s->symmetric ? NBITS_SWAPPED : NBITS_COLUMNS;
}

static uint32_t site_tensor(struct nbits_work *w) {
  bool transposed;
  const enum nbits_form form = nbits_form(w, &transposed);
  return nbits_tensor(w, form, transposed);
}

static struct kit_new nbits_node(struct nbits_work *w, uint32_t id, uint32_t in[4],
                                 struct edit_attr attrs[5]) {
  const struct model *m = w->k.m;
  const struct nbits_tensor *t = &w->tensors[id];
  const struct model_tensor *source = &m->tensors[t->tensor];
  const int64_t *dims = model_dims(m, source) + source->rank - 2;
  uint32_t n_attrs = 0;
  attrs[n_attrs++] = int_attr("K", dims[t->transposed]);
  attrs[n_attrs++] = int_attr("N", dims[!t->transposed]);
  if (w->options->accuracy_level && (!w->options->level_of_target || t->scheme.bits == 4))
    attrs[n_attrs++] = int_attr("accuracy_level", w->options->accuracy_level);
  attrs[n_attrs++] = int_attr("bits", t->scheme.bits);
  attrs[n_attrs++] = int_attr("block_size", t->scheme.block);
  in[0] = w->x;
  in[1] = t->codes;
  in[2] = t->scales;
  in[3] = t->zeros;
  return (struct kit_new){.op = OP_ms_MatMulNBits,
                          .in = in,
                          .n_in = t->zeros == NO_ID ? 3 : 4,
                          .attrs = attrs,
                          .n_attrs = n_attrs,
                          .attrs_of = NO_ID,
                          .as = NO_ID,
                          .name = node_name(w, "_Q"),
                          .called = true};
}

static uint32_t rewrite_matmul(struct nbits_work *w) {
  uint32_t in[4], id = site_tensor(w);
  struct edit_attr attrs[5];
  struct kit_new spec = nbits_node(w, id, in, attrs);
  edit_remove_node(w->k.e, w->site->node);
  put_last(w, &spec, "_Q");
  return id;
}

// ---- Gemm --------------------------------------------------------------------------------------

static uint32_t put_scalar(struct nbits_work *w, const char *stem, const char *suffix, float x) {
  struct recipes *r = w->k.r;
  enum dtype dtype = (enum dtype)w->k.m->tensors[w->site->weight.tensor].dtype;
  uint32_t recipe = recipe_bytes(r, DTYPE_FLOAT, NULL, 0, span_of(&x, sizeof x));
  if (dtype != DTYPE_FLOAT) recipe = recipe_cast(r, recipe, dtype);
  return edit_add_tensor(w->k.e, w->k.graph, nbits_value_name(w, stem, suffix), recipe);
}

// Mul or Add of two values; into the site's output if it is the last.
static uint32_t put_pair(struct nbits_work *w, enum op op, const char *what, uint32_t a, uint32_t b,
                         struct edit_output out) {
  return kit_make(&w->k, op, KIT_CALLED(node_name(w, what)), KIT_OUT(out), KIT_IN(a, b));
}

static uint32_t rewrite_gemm(struct nbits_work *w) {
  struct kit *k = &w->k;
  const uint32_t node = w->site->node, id = site_tensor(w), old_c = kit_in(k, node, 2);
  uint32_t in[4];
  struct edit_attr attrs[5];
  struct kit_new spec = nbits_node(w, id, in, attrs);
  float alpha, beta;
  kit_attr_float(k, node, "alpha", 1, &alpha);
  kit_attr_float(k, node, "beta", 1, &beta);
  const char *out = value_name(w, w->y);
  const bool scaled = alpha != 1, added = old_c != NO_ID && beta != 0;
  // The bias may lose its last use with the node; what makes it is still there.
  const uint32_t factor = scaled ? put_scalar(w, out, "_alpha", alpha) : NO_ID;
  const uint32_t weight_of_c = added && beta != 1 ? put_scalar(w, out, "_beta", beta) : NO_ID;
  edit_remove_node(k->e, node);
  const struct edit_output to = scaled || added ? named(w, out, "_product") : existing(w->y);
  spec.out = &to;
  uint32_t product = kit_out(k, kit_put(k, &spec), 0), c = old_c;
  if (scaled)
    product = put_pair(w, OP_Mul, "_alpha_Q", product, factor,
                       added ? named(w, out, "_scaled") : existing(w->y));
  if (weight_of_c != NO_ID)
    c = put_pair(w, OP_Mul, "_beta_Q", c, weight_of_c, named(w, out, "_bias"));
  if (added) put_pair(w, OP_Add, "_bias_Q", product, c, existing(w->y));
  if (!added) dead_ends_drop(k->e, old_c);
  return id;
}

// ---- Gather ------------------------------------------------------------------------------------

static uint32_t rewrite_gather(struct nbits_work *w) {
  const uint32_t id = site_tensor(w);
  const struct nbits_tensor *t = &w->tensors[id];
  const bool packed = t->form == NBITS_PACKED;
  int64_t axis;
  kit_attr_int(&w->k, w->site->node, "axis", 0, &axis);
  if (packed) axis = 0; // the only one there, and not to be counted from the end
  const uint32_t in[4] = {t->codes, w->x, t->scales, t->zeros};
  const struct edit_attr attrs[4] = {int_attr("bits", t->scheme.bits),
                                     int_attr("block_size", t->scheme.block),
                                     int_attr("gather_axis", axis), int_attr("quantize_axis", 1)};
  const struct edit_output to = existing(w->y);
  edit_remove_node(w->k.e, w->site->node);
  kit_make(&w->k, OP_ms_GatherBlockQuantized, KIT_INPUTS(in, t->zeros == NO_ID ? 3 : 4),
           KIT_ATTRS(packed ? attrs : attrs + 1, packed ? 4 : 3), KIT_CALLED(node_name(w, "_Q")),
           KIT_OUT(to));
  return id;
}

// ---- qdq ---------------------------------------------------------------------------------------

// The weight as floats again: a DequantizeLinear in the graph that holds the weight, before the
// site's node or the one around it. (Beside a node of an inner graph, ONNX Runtime 1.31 would not
// find the codes.)
static uint32_t dequantized(struct nbits_work *w, uint32_t id) {
  static const int64_t swap[2] = {1, 0};
  struct kit *k = &w->k;
  struct nbits_tensor *t = &w->tensors[id];
  if (t->dequantized != NO_ID) return t->dequantized;
  const uint32_t graph = k->graph, before = k->before;
  k->graph = k->m->values[w->site->weight.value].graph;
  k->before = kit_node_around(k, w->site->node, k->graph);
  const char *name = value_name(w, t->codes);
  const uint32_t in[3] = {t->codes, t->scales, t->zeros};
  t->dequantized = kit_make(
      k, OP_DequantizeLinear, KIT_CALLED(node_name(w, "_DQ_Q")), KIT_OUT(named(w, name, "_output")),
      KIT_INPUTS(in, t->zeros == NO_ID ? 2 : 3), KIT_INT("axis", t->form == NBITS_COLUMNS ? 0 : 1),
      KIT_INT("block_size", t->scheme.block ? t->scheme.block : t->axis_length));
  if (t->form == NBITS_SWAPPED)
    t->dequantized = kit_make(k, OP_Transpose, KIT_IN(t->dequantized), KIT_INTS("perm", swap, 2),
                              KIT_OUT(named(w, name, "_output_transposed")));
  k->graph = graph;
  k->before = before;
  return t->dequantized;
}

static uint32_t dequantize_matmul(struct nbits_work *w) {
  const uint32_t id = site_tensor(w), in[2] = {w->x, dequantized(w, id)};
  struct kit_new spec = {.op = OP_MatMul,
                         .in = in,
                         .n_in = 2,
                         .attrs_of = NO_ID,
                         .as = NO_ID,
                         .name = node_name(w, "_matmul_Q"),
                         .called = true};
  edit_remove_node(w->k.e, w->site->node);
  put_last(w, &spec, "_DQ_Q");
  return id;
}

// Gemm and Gather: the same node reads the floats from elsewhere.
static uint32_t dequantize_input(struct nbits_work *w) {
  const uint32_t id = site_tensor(w);
  edit_set_input(w->k.e, w->site->node, w->site->slot, dequantized(w, id));
  return id;
}

// ---- one site ----------------------------------------------------------------------------------

bool nbits_stays(const struct matmulnbits_options *options, const struct nbits_site *site) {
  return options->qdq && site->op != MATMULNBITS_MATMUL;
}

uint32_t nbits_rewrite(struct nbits_work *w, const struct nbits_site *site) {
  struct kit *k = &w->k;
  const struct model_node *n = &k->m->nodes[site->node];
  const uint32_t old = kit_in(k, site->node, site->slot);
  kit_site(k, site->node, site->reason);
  w->site = site;
  w->x = kit_in(k, site->node, 1 - site->slot);
  w->y = kit_out(k, site->node, 0);
  w->node_name = arena_string(&k->site, model_name(k->m, n->name));
  w->weight_name = arena_string(&k->site, model_name(k->m, site->name));
  if (site->share != NO_ID) w->x = nbits_scaled(w, w->x);
  // Nodes that replace this one go where it was, those for its input before it.
  if (!nbits_stays(w->options, site)) k->before = k->m->nodes[site->node].next;
  const uint32_t id = nbits_stays(w->options, site)    ? dequantize_input(w)
                      : w->options->qdq                ? dequantize_matmul(w)
                      : site->op == MATMULNBITS_MATMUL ? rewrite_matmul(w)
                      : site->op == MATMULNBITS_GEMM   ? rewrite_gemm(w)
                                                       : rewrite_gather(w);
  dead_ends_drop(k->e, old);
  return w->tensors[id].recipe;
}
