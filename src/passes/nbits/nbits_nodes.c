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
#include "nbits.h"

#include "dead_ends.h"

#include <assert.h>

static const char *text(struct nbits_work *w, const char *stem, const char *suffix) {
  return arena_printf(w->env->site_scratch, "%s%s", stem, suffix);
}

// "_Q4", "_DQ_Q4"
static const char *bits_suffix(struct nbits_work *w, const char *before) {
  return arena_printf(w->env->site_scratch, "%s%u", before, w->site->scheme.bits);
}

// What the existing tool calls a node made of this one (add_at sees to it that names differ):
// nothing if it had no name.
static struct span node_name(struct nbits_work *w, const char *before) {
  if (*w->node_name == 0) return span_str("");
  return span_str(text(w, w->node_name, bits_suffix(w, before)));
}

static struct edit_output fresh_output(struct nbits_work *w, const char *wanted) {
  return (struct edit_output){NO_ID,
                              fresh_name(&w->fresh, w->env->m, w->env->site_scratch, wanted)};
}

static struct edit_output existing(uint32_t value) {
  return (struct edit_output){.value = value};
}

// An existing value's name, safe from edits.
static const char *value_name(struct nbits_work *w, uint32_t value) {
  return arena_string(w->env->site_scratch, model_value_name(w->env->m, value));
}

static uint32_t add_at(struct nbits_work *w, struct edit_node *spec, uint32_t graph,
                       uint32_t before) {
  spec->graph = graph;
  spec->before = before;
  spec->n_out = 1;
  spec->name = nbits_names_new(&w->names, w->env->m, w->env->site_scratch, graph, spec->name);
  uint32_t node = edit_add_node(w->env->edits, spec);
  nbits_names_add(&w->names, w->env->m, node);
  return model_output(w->env->m, &w->env->m->nodes[node], 0);
}

static uint32_t add(struct nbits_work *w, struct edit_node *spec) {
  return add_at(w, spec, w->graph, w->anchor);
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
  struct nbits_work *w = c->w;
  uint32_t recipe = recipe_bytes(w->env->edits->r, DTYPE_INT64, &one, rank, span_of(&x, sizeof x));
  struct edit_output name = fresh_output(w, text(w, c->prefix, suffix));
  return edit_add_tensor(w->env->edits, c->home, name.name, recipe);
}

static uint32_t chain_node(struct chain *c, const char *op, const char *node, const char *out,
                           const uint32_t *in, uint32_t n_in, const struct edit_attr *attr) {
  struct edit_output to = fresh_output(c->w, text(c->w, c->prefix, out));
  struct edit_node spec = {.name = span_str(text(c->w, c->prefix, node)),
                           .op_type = span_str(op),
                           .in = in,
                           .n_in = n_in,
                           .out = &to,
                           .attrs = attr,
                           .n_attrs = attr ? 1 : 0};
  return add(c->w, &spec);
}

static uint32_t chain_ones(struct chain *c, uint32_t count) {
  static const int64_t one = 1;
  struct edit_attr value = {
      .name = "value",
      .type = ATTR_TENSOR,
      .recipe = recipe_bytes(c->w->env->edits->r, DTYPE_INT64, &one, 1, span_of(&one, sizeof one))};
  return chain_node(c, "ConstantOfShape", "_const_ones", "_extra_ones", &count, 1, &value);
}

// [1] * max(rank(W) - max(rank(x), 2), 0) + shape(x)[:-1] + [N], as the existing tool builds it.
static void put_chain(struct chain *c, uint32_t rank, int64_t n, uint32_t product) {
  struct edit_attr axis = int_attr("axis", 0);
  uint32_t zero = chain_constant(c, "_zero", 0, 0), one = chain_constant(c, "_one", 1, 0);
  uint32_t two = chain_constant(c, "_two", 2, 0), one_vec = chain_constant(c, "_one_vec", 1, 1);
  uint32_t rank_b = chain_constant(c, "_rank_b", rank, 0);
  uint32_t n_vec = chain_constant(c, "_n_vec", n, 1),
           zero_vec = chain_constant(c, "_zero_vec", 0, 1);
  uint32_t shape = chain_node(c, "Shape", "_shape_a", "_a_shape", &c->w->x, 1, NULL);
  uint32_t ranks =
      chain_node(c, "Shape", "_shape_of_a_shape", "_a_shape_of_shape", &shape, 1, NULL);
  uint32_t a[] = {ranks, zero};
  uint32_t rank_a = chain_node(c, "Gather", "_gather_rank", "_a_rank", a, 2, NULL);
  uint32_t b[] = {rank_a, two};
  uint32_t effective = chain_node(c, "Max", "_max_rank_eff", "_a_rank_eff", b, 2, NULL);
  uint32_t d[] = {rank_b, effective};
  uint32_t raw = chain_node(c, "Sub", "_sub", "_extra_raw", d, 2, NULL);
  uint32_t f[] = {raw, zero};
  uint32_t extra = chain_node(c, "Max", "_max", "_extra_count", f, 2, NULL);
  uint32_t g[] = {extra, one_vec};
  uint32_t count = chain_node(c, "Reshape", "_reshape_extra", "_extra_count_vec", g, 2, NULL);
  uint32_t ones = chain_ones(c, count);
  uint32_t h[] = {rank_a, one};
  uint32_t last = chain_node(c, "Sub", "_sub_one", "_a_rank_m1", h, 2, NULL);
  uint32_t i[] = {last, one_vec};
  uint32_t last_vec = chain_node(c, "Reshape", "_reshape_rank_m1", "_a_rank_m1_vec", i, 2, NULL);
  uint32_t j[] = {shape, zero_vec, last_vec, zero_vec};
  uint32_t front = chain_node(c, "Slice", "_slice_a_prefix", "_a_prefix_shape", j, 4, NULL);
  uint32_t k[] = {ones, front, n_vec};
  uint32_t target = chain_node(c, "Concat", "_concat_target", "_target_shape", k, 3, &axis);
  uint32_t l[] = {product, target};
  struct edit_output out = existing(c->w->y);
  struct edit_node spec = {.name = span_str(text(c->w, c->prefix, "_reshape_out")),
                           .op_type = span_str("Reshape"),
                           .in = l,
                           .n_in = 2,
                           .out = &out};
  add(c->w, &spec);
}

// The declared rank of a value, or NO_ID.
static uint32_t declared_rank(const struct model *m, uint32_t value) {
  for (uint32_t i = m->values[value].info; i != NO_ID; i = m->infos[i].next)
    if (!(m->infos[i].flags & INFO_DEAD) && m->infos[i].flags & INFO_SHAPED)
      return m->infos[i].rank;
  return NO_ID;
}

bool nbits_needs_chain(const struct model *m, uint32_t weight, uint32_t x) {
  uint32_t rank = m->tensors[weight].rank;
  if (rank == 2) return false;
  uint32_t of_x = declared_rank(m, x);
  return of_x == NO_ID || of_x < rank;
}

// The node `spec` gives the site's output, through the chain where that is needed.
static void put_last(struct nbits_work *w, struct edit_node *spec, const char *before) {
  bool chained = nbits_needs_chain(w->env->m, w->site->weight.tensor, w->x);
  const char *out = value_name(w, w->y);
  struct edit_output to = chained ? fresh_output(w, text(w, out, "_pre_reshape")) : existing(w->y);
  spec->out = &to;
  uint32_t product = add(w, spec);
  if (!chained) return;
  const struct model_tensor *t = &w->env->m->tensors[w->site->weight.tensor];
  const int64_t n = model_dims(w->env->m, t)[t->rank - 1];
  const char *stem = *w->node_name ? w->node_name : w->weight_name;
  struct chain c = {
      .w = w,
      .prefix = arena_printf(w->env->site_scratch, "%s%s_%s", stem, bits_suffix(w, before), out),
      .home = w->env->m->values[w->site->weight.value].graph};
  put_chain(&c, t->rank, n, product);
}

// ---- qoperator ---------------------------------------------------------------------------------

// Is the matrix stored [N,K]?
static bool is_trans_b(const struct nbits_work *w) {
  int64_t trans_b = 0;
  if (w->site->op == MATMULNBITS_GEMM)
    model_attr_int(w->env->m, w->site->node, "transB", 0, &trans_b);
  return trans_b != 0;
}

static enum nbits_form qdq_form(const struct nbits_work *w) {
  const struct matmulnbits_scheme *s = &w->site->scheme;
  switch (w->site->op) {
  case MATMULNBITS_MATMUL: return s->block == 0 && s->symmetric ? NBITS_SWAPPED : NBITS_COLUMNS;
  case MATMULNBITS_GEMM: return is_trans_b(w) ? NBITS_ROWS : NBITS_COLUMNS;
  case MATMULNBITS_GATHER: break;
  }
  return NBITS_ROWS; // a Gather's blocks lie along axis 1
}

enum nbits_form nbits_form(const struct nbits_work *w, bool *transposed) {
  *transposed = w->site->transposed;
  if (w->options->qdq) return qdq_form(w);
  if (w->site->op == MATMULNBITS_GATHER) {
    *transposed = false;
    return w->site->scheme.bits != 4 ? NBITS_PACKED : NBITS_TABLE;
  }
  if (is_trans_b(w)) *transposed = !*transposed;
  return NBITS_BLOB;
}

static struct edit_node nbits_node(struct nbits_work *w, uint32_t id, bool swapped, uint32_t in[4],
                                   struct edit_attr attrs[5]) {
  const struct model *m = w->env->m;
  const struct nbits_tensor *t = &w->tensors[id];
  const struct model_tensor *source = &m->tensors[t->tensor];
  const int64_t *dims = model_dims(m, source) + source->rank - 2;
  uint32_t n_attrs = 0;
  attrs[n_attrs++] = int_attr("K", dims[swapped]);
  attrs[n_attrs++] = int_attr("N", dims[!swapped]);
  if (w->options->accuracy_level)
    attrs[n_attrs++] = int_attr("accuracy_level", w->options->accuracy_level);
  attrs[n_attrs++] = int_attr("bits", t->scheme.bits);
  attrs[n_attrs++] = int_attr("block_size", t->scheme.block);
  in[0] = w->x;
  in[1] = t->codes;
  in[2] = t->scales;
  in[3] = t->zeros;
  return (struct edit_node){.name = node_name(w, "_Q"),
                            .op_type = span_str("MatMulNBits"),
                            .domain = span_str("com.microsoft"),
                            .in = in,
                            .n_in = t->zeros == NO_ID ? 3 : 4,
                            .attrs = attrs,
                            .n_attrs = n_attrs};
}

static uint32_t rewrite_matmul(struct nbits_work *w) {
  uint32_t in[4], id = nbits_tensor(w, NBITS_BLOB, w->site->transposed);
  struct edit_attr attrs[5];
  struct edit_node spec = nbits_node(w, id, w->site->transposed, in, attrs);
  edit_remove_node(w->env->edits, w->site->node);
  put_last(w, &spec, "_Q");
  return id;
}

// ---- Gemm --------------------------------------------------------------------------------------

static uint32_t put_scalar(struct nbits_work *w, const char *wanted, float x) {
  struct recipes *r = w->env->edits->r;
  enum dtype dtype = (enum dtype)w->env->m->tensors[w->site->weight.tensor].dtype;
  uint32_t recipe = recipe_bytes(r, DTYPE_FLOAT, NULL, 0, span_of(&x, sizeof x));
  if (dtype != DTYPE_FLOAT) recipe = recipe_cast(r, recipe, dtype);
  struct edit_output name = fresh_output(w, wanted);
  return edit_add_tensor(w->env->edits, w->graph, name.name, recipe);
}

struct gemm {
  float alpha, beta;
  uint32_t c; // NO_ID: nothing is added
  const char *out;
};

static struct gemm read_gemm(struct nbits_work *w) {
  const struct model *m = w->env->m;
  const struct model_attr *alpha = model_attr_named(m, w->site->node, "alpha");
  const struct model_attr *beta = model_attr_named(m, w->site->node, "beta");
  struct gemm g = {.alpha = alpha ? alpha->u.f : 1,
                   .beta = beta ? beta->u.f : 1,
                   .c = model_input(m, &m->nodes[w->site->node], 2),
                   .out = value_name(w, w->y)};
  if (g.beta == 0) g.c = NO_ID;
  return g;
}

// Mul or Add of two values; into the site's output if it is the last.
static uint32_t put_pair(struct nbits_work *w, const char *op, const char *what, uint32_t a,
                         uint32_t b, struct edit_output out) {
  uint32_t in[2] = {a, b};
  struct edit_node spec = {.op_type = span_str(op), .in = in, .n_in = 2, .out = &out};
  if (*w->node_name)
    spec.name = span_str(
        arena_printf(w->env->site_scratch, "%s_%s%s", w->node_name, what, bits_suffix(w, "_Q")));
  return add(w, &spec);
}

static uint32_t rewrite_gemm(struct nbits_work *w) {
  bool swapped;
  enum nbits_form form = nbits_form(w, &swapped);
  uint32_t in[4], id = nbits_tensor(w, form, swapped);
  struct edit_attr attrs[5];
  struct edit_node spec = nbits_node(w, id, swapped, in, attrs);
  struct gemm g = read_gemm(w);
  bool scaled = g.alpha != 1, added = g.c != NO_ID;
  // The bias may lose its last use with the node; what makes it is still there.
  uint32_t factor = scaled ? put_scalar(w, text(w, g.out, "_alpha"), g.alpha) : NO_ID;
  uint32_t beta = added && g.beta != 1 ? put_scalar(w, text(w, g.out, "_beta"), g.beta) : NO_ID;
  uint32_t old_c = model_input(w->env->m, &w->env->m->nodes[w->site->node], 2);
  edit_remove_node(w->env->edits, w->site->node);
  struct edit_output to = existing(w->y);
  if (scaled || added) to = fresh_output(w, text(w, g.out, "_product"));
  spec.out = &to;
  uint32_t product = add(w, &spec);
  if (scaled)
    product = put_pair(w, "Mul", "alpha", product, factor,
                       added ? fresh_output(w, text(w, g.out, "_scaled")) : existing(w->y));
  if (beta != NO_ID)
    g.c = put_pair(w, "Mul", "beta", g.c, beta, fresh_output(w, text(w, g.out, "_bias")));
  if (added) put_pair(w, "Add", "bias", product, g.c, existing(w->y));
  if (!added) dead_ends_drop(w->env->edits, old_c);
  return id;
}

// ---- Gather ------------------------------------------------------------------------------------

static uint32_t rewrite_gather(struct nbits_work *w) {
  bool transposed;
  enum nbits_form form = nbits_form(w, &transposed);
  bool packed = form == NBITS_PACKED;
  uint32_t id = nbits_tensor(w, form, transposed);
  const struct nbits_tensor *t = &w->tensors[id];
  int64_t axis;
  model_attr_int(w->env->m, w->site->node, "axis", 0, &axis);
  if (packed) axis = 0; // the only one there, and not to be counted from the end
  uint32_t in[4] = {t->codes, w->x, t->scales, t->zeros};
  struct edit_attr attrs[4] = {int_attr("bits", t->scheme.bits),
                               int_attr("block_size", t->scheme.block),
                               int_attr("gather_axis", axis), int_attr("quantize_axis", 1)};
  struct edit_output to = existing(w->y);
  struct edit_node spec = {.name = node_name(w, "_Q"),
                           .op_type = span_str("GatherBlockQuantized"),
                           .domain = span_str("com.microsoft"),
                           .in = in,
                           .n_in = t->zeros == NO_ID ? 3 : 4,
                           .out = &to,
                           .attrs = packed ? attrs : attrs + 1,
                           .n_attrs = packed ? 4 : 3};
  edit_remove_node(w->env->edits, w->site->node);
  add(w, &spec);
  return id;
}

// ---- qdq ---------------------------------------------------------------------------------------

// Where a DequantizeLinear goes: into the graph that holds the weight, before the site's node or
// the one around it. (Beside a node of an inner graph, ONNX Runtime 1.31 would not find the codes.)
struct spot {
  uint32_t graph, before;
};

static struct spot home_of(const struct nbits_work *w) {
  const struct model *m = w->env->m;
  uint32_t home = m->values[w->site->weight.value].graph;
  struct spot at = {w->graph, w->site->node};
  while (at.graph != home) {
    at.before = m->attrs[m->graphs[at.graph].owner].node;
    at.graph = m->nodes[at.before].graph;
  }
  return at;
}

static uint32_t put_swap(struct nbits_work *w, struct spot at, uint32_t value, const char *name) {
  static const int64_t swap[2] = {1, 0};
  struct edit_attr perm = {.name = "perm", .type = ATTR_INTS, .ints = swap, .n = 2};
  struct edit_output to = fresh_output(w, text(w, name, "_output_transposed"));
  struct edit_node spec = {.op_type = span_str("Transpose"),
                           .in = &value,
                           .n_in = 1,
                           .out = &to,
                           .attrs = &perm,
                           .n_attrs = 1};
  return add_at(w, &spec, at.graph, at.before);
}

// The weight as floats again.
static uint32_t dequantized(struct nbits_work *w, uint32_t id) {
  struct nbits_tensor *t = &w->tensors[id];
  if (t->dequantized != NO_ID) return t->dequantized;
  struct spot at = home_of(w);
  const char *name = value_name(w, t->codes);
  uint32_t in[3] = {t->codes, t->scales, t->zeros};
  struct edit_attr attrs[2] = {
      int_attr("axis", t->form == NBITS_COLUMNS ? 0 : 1),
      int_attr("block_size", t->scheme.block ? t->scheme.block : t->axis_length)};
  struct edit_output to = fresh_output(w, text(w, name, "_output"));
  struct edit_node spec = {.name = node_name(w, "_DQ_Q"),
                           .op_type = span_str("DequantizeLinear"),
                           .in = in,
                           .n_in = t->zeros == NO_ID ? 2 : 3,
                           .out = &to,
                           .attrs = attrs,
                           .n_attrs = 2};
  t->dequantized = add_at(w, &spec, at.graph, at.before);
  if (t->form == NBITS_SWAPPED) t->dequantized = put_swap(w, at, t->dequantized, name);
  return t->dequantized;
}

static uint32_t dequantize_matmul(struct nbits_work *w) {
  bool transposed;
  enum nbits_form form = nbits_form(w, &transposed);
  uint32_t id = nbits_tensor(w, form, transposed);
  uint32_t in[2] = {w->x, dequantized(w, id)};
  struct edit_node spec = {
      .name = node_name(w, "_matmul_Q"), .op_type = span_str("MatMul"), .in = in, .n_in = 2};
  edit_remove_node(w->env->edits, w->site->node);
  put_last(w, &spec, "_DQ_Q");
  return id;
}

// Gemm and Gather: the same node reads the floats from elsewhere.
static uint32_t dequantize_input(struct nbits_work *w) {
  bool transposed;
  enum nbits_form form = nbits_form(w, &transposed);
  uint32_t id = nbits_tensor(w, form, transposed);
  edit_set_input(w->env->edits, w->site->node, w->site->slot, dequantized(w, id));
  return id;
}

// ---- one site ----------------------------------------------------------------------------------

static uint32_t rewrite(struct nbits_work *w) {
  switch (w->site->op) {
  case MATMULNBITS_MATMUL: return w->options->qdq ? dequantize_matmul(w) : rewrite_matmul(w);
  case MATMULNBITS_GEMM: return w->options->qdq ? dequantize_input(w) : rewrite_gemm(w);
  default: return w->options->qdq ? dequantize_input(w) : rewrite_gather(w);
  }
}

bool nbits_stays(const struct matmulnbits_options *options, const struct nbits_site *site) {
  return options->qdq && site->op != MATMULNBITS_MATMUL;
}

uint32_t nbits_rewrite(struct nbits_work *w, const struct nbits_site *site) {
  struct model *m = w->env->m;
  const struct model_node *n = &m->nodes[site->node];
  uint32_t old = model_input(m, n, site->slot);
  arena_reset(w->env->site_scratch); // names are of one site: edits keep copies
  w->site = site;
  w->graph = n->graph;
  w->x = model_input(m, n, 1 - site->slot);
  w->y = model_output(m, n, 0);
  w->node_name = arena_string(w->env->site_scratch, model_name(m, n->name));
  w->weight_name = arena_string(w->env->site_scratch, model_name(m, site->name));
  // Nodes that replace this one go where it was, those for its input before it.
  w->anchor = nbits_stays(w->options, site) ? site->node : n->next;
  edit_group(w->env->edits, "matmulnbits", site->node, site->reason);
  uint32_t id = rewrite(w);
  dead_ends_drop(w->env->edits, old);
  return w->tensors[id].recipe;
}
