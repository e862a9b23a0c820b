// Pointwise Conv -> MatMul: the rewrite. Before and after, for spatial rank 1 (2 and 3 alike):
//
//   x [N,C,T] ─ Conv(W [M,C,1], b, pads, strides) ─ y [N,M,T']
//
//   x ─ Pad ─ Slice ─ Transpose [N,T',C] ─ MatMul(Wᵀ [C,M]) ─ Add(b) ─ Transpose ─ y      batched
//   x ─ Pad ─ Slice ─ Transpose ─ Reshape [-1,C] ─ MatMul ─ Add ─ Reshape [N,T',M] ─ Transpose ─ y   flat
//
// Pad and Slice only where pads and strides ask for them. The flat form needs the output's shape: a
// constant where x's shape is static, else the chain Shape, Gather, Concat of the existing tool.
//
// Transposes that undo each other go: one that feeds the Conv with exactly our way back, and those
// behind it that are exactly our way in. Wᵀ is one tensor however many Convs share W, it lies in
// the graph that holds W, and what nothing uses afterwards (W, its Constant or Identity) is
// removed.
//
// strict_compat emits what onnx-conv2matmul 0.1.1 emits, name by name, and removes nothing.
#include "conv2matmul.h"
#include "dead_ends.h"
#include "numbers.h"
#include "weights.h"

#include <assert.h>

enum { SLICE_STEPS_OPSET = 10, PAD_INPUTS_OPSET = 11, MAX_NAMES = 32 };

struct rewriting {
  struct pass_env *env;
  const struct conv2matmul_options *options;
  uint32_t *transposed; // value id of Wᵀ by tensor id, NO_ID: not made yet
  uint32_t n_transposed;
  struct numbers numbers; // tried so far: many Convs may share one name, or have none
  // of the node at hand
  struct conv2matmul_match match;
  uint32_t graph, anchor; // new nodes go before anchor
  uint32_t x, y;          // value ids
  struct span prefix;     // of new names
  int64_t opset;
  struct {
    const char *suffix;
    struct span name;
  } names[MAX_NAMES];
  uint32_t n_names;
};

// ---- names -------------------------------------------------------------------------------------

static struct span unique_name(struct rewriting *w, const char *suffix) {
  struct model *m = w->env->m;
  char *stem = arena_printf(w->env->site_scratch, "%.*s_%s", (int)w->prefix.n,
                            (const char *)w->prefix.at, suffix);
  char *name = stem;
  uint32_t id = model_find_name(m, span_str(stem));
  if (id != NO_ID) {
    uint32_t *number = numbers_behind(&w->numbers, id);
    do
      name = arena_printf(w->env->site_scratch, "%s_%u", stem, ++*number);
    while (model_find_name(m, span_str(name)) != NO_ID);
  }
  model_intern(m, span_str(name)); // reserved from now on, used or not
  return span_str(name);
}

static void reserve(struct rewriting *w, const char *suffix) {
  assert(w->n_names < MAX_NAMES);
  struct span name = unique_name(w, suffix);
  w->names[w->n_names].suffix = suffix;
  w->names[w->n_names++].name = name;
}

static struct span name_of(struct rewriting *w, const char *suffix) {
  for (uint32_t i = 0; i < w->n_names; i++)
    if (strcmp(w->names[i].suffix, suffix) == 0) return w->names[i].name;
  reserve(w, suffix);
  return w->names[w->n_names - 1].name;
}

// The existing tool takes these names in this order for every Conv, whether it needs them or not.
static void reserve_as_existing_tool(struct rewriting *w) {
  static const char *const common[] = {"x_flat", "w_t",       "mm",       "mm_bias", "shape_x",
                                       "n",      "out_shape", "idx0",     "idx2",    "flat_shape",
                                       "m",      "pad_spec",  "pad_value"};
  static const char *const one[] = {"x_nwc", "nwc_out", "w"};
  static const char *const two[] = {"x_nhwc",
                                    "h",
                                    "w",
                                    "nhwc_out",
                                    "idx3",
                                    "slice_starts_hw",
                                    "slice_ends_hw",
                                    "slice_axes_hw",
                                    "slice_steps_hw"};
  for (size_t i = 0; i < sizeof common / sizeof common[0]; i++)
    reserve(w, common[i]);
  for (size_t i = 0; w->match.rank == 1 && i < sizeof one / sizeof one[0]; i++)
    reserve(w, one[i]);
  for (size_t i = 0; w->match.rank == 2 && i < sizeof two / sizeof two[0]; i++)
    reserve(w, two[i]);
}

// A name that the existing tool varies with the spatial rank.
static struct span name_by_rank(struct rewriting *w, const char *one, const char *two,
                                const char *three) {
  return name_of(w, w->match.rank == 1 ? one : w->match.rank == 2 ? two : three);
}

// ---- pieces of graph ---------------------------------------------------------------------------

// The existing tool leaves its nodes unnamed.
static uint32_t put_node(struct rewriting *w, const char *op, const uint32_t *in, uint32_t n_in,
                         struct edit_output out, const struct edit_attr *attrs, uint32_t n_attrs) {
  struct edit_node spec = {.graph = w->graph,
                           .before = w->anchor,
                           .op_type = span_str(op),
                           .in = in,
                           .n_in = n_in,
                           .out = &out,
                           .n_out = 1,
                           .attrs = attrs,
                           .n_attrs = n_attrs};
  if (!w->options->strict_compat) spec.name = unique_name(w, op);
  uint32_t node = edit_add_node(w->env->edits, &spec);
  return model_output(w->env->m, &w->env->m->nodes[node], 0);
}

static struct edit_output named(struct span name) {
  return (struct edit_output){NO_ID, name};
}

static uint32_t put_longs(struct rewriting *w, struct span name, const int64_t *x, uint32_t n) {
  int64_t dim = n;
  uint32_t recipe = recipe_bytes(w->env->edits->r, DTYPE_INT64, &dim, 1, span_of(x, n * sizeof *x));
  return edit_add_tensor(w->env->edits, w->graph, name, recipe);
}

static uint32_t put_transpose(struct rewriting *w, uint32_t x, const int64_t *perm,
                              struct edit_output out) {
  struct edit_attr attr = {.name = "perm", .type = ATTR_INTS, .ints = perm, .n = w->match.rank + 2};
  return put_node(w, "Transpose", &x, 1, out, &attr, 1);
}

// [0,2,…,r,1] moves the channels last, [0,r,1,…] moves them back.
static void perms(uint32_t rank, int64_t in[5], int64_t back[5]) {
  uint32_t n = rank + 2;
  in[0] = back[0] = 0;
  for (uint32_t i = 1; i < n; i++) {
    in[i] = i + 1 < n ? i + 1 : 1;
    back[i] = i == 1 ? n - 1 : i - 1;
  }
}

static bool nonzero(const int64_t *x, uint32_t n, int64_t usual) {
  for (uint32_t i = 0; i < n; i++)
    if (x[i] != usual) return true;
  return false;
}

static bool padded(const struct rewriting *w) {
  return nonzero(w->match.pads, 2 * w->match.rank, 0);
}

static bool strided(const struct rewriting *w) {
  return nonzero(w->match.strides, w->match.rank, 1);
}

// ---- Pad and Slice -----------------------------------------------------------------------------

static uint32_t put_pad(struct rewriting *w, uint32_t x) {
  static const uint8_t zero[8] = {0};
  uint32_t r = w->match.rank, n = r + 2;
  enum dtype dtype = (enum dtype)w->env->m->tensors[w->match.weight.tensor].dtype;
  int64_t spec[10] = {0};
  for (uint32_t i = 0; i < r; i++) {
    spec[2 + i] = w->match.pads[i];
    spec[n + 2 + i] = w->match.pads[r + i];
  }
  struct edit_attr attrs[3] = {{.name = "mode", .type = ATTR_STRING, .s = span_str("constant")}};
  struct edit_output out = named(name_of(w, "x_padded"));
  if (w->opset < PAD_INPUTS_OPSET && !w->options->strict_compat) {
    attrs[1] = (struct edit_attr){.name = "pads", .type = ATTR_INTS, .ints = spec, .n = 2 * n};
    attrs[2] = (struct edit_attr){.name = "value", .type = ATTR_FLOAT, .f = 0};
    return put_node(w, "Pad", &x, 1, out, attrs, 3);
  }
  uint32_t pads = put_longs(w, name_of(w, "pad_spec"), spec, 2 * n);
  uint32_t fill =
      recipe_bytes(w->env->edits->r, dtype, NULL, 0, span_of(zero, dtype_bits(dtype) / 8));
  uint32_t value = edit_add_tensor(w->env->edits, w->graph, name_of(w, "pad_value"), fill);
  uint32_t in[3] = {x, pads, value};
  return put_node(w, "Pad", in, 3, out, attrs, 1);
}

// Slice takes steps from opset 10; before, a MaxPool over a window of one element strides.
static uint32_t put_pool(struct rewriting *w, uint32_t x) {
  static const int64_t ones[3] = {1, 1, 1};
  struct edit_attr attrs[2] = {
      {.name = "kernel_shape", .type = ATTR_INTS, .ints = ones, .n = w->match.rank},
      {.name = "strides", .type = ATTR_INTS, .ints = w->match.strides, .n = w->match.rank}};
  return put_node(w, "MaxPool", &x, 1, named(name_of(w, "x_strided")), attrs, 2);
}

static uint32_t put_slice(struct rewriting *w, uint32_t x) {
  static const int64_t starts[3] = {0, 0, 0}, axes[3] = {2, 3, 4};
  static const int64_t ends[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  uint32_t r = w->match.rank;
  if (w->opset < SLICE_STEPS_OPSET && !w->options->strict_compat) return put_pool(w, x);
  uint32_t in[5] = {x};
  in[1] = put_longs(w, name_by_rank(w, "slice_starts_w", "slice_starts_hw", "slice_starts_dhw"),
                    starts, r);
  in[2] = put_longs(w, name_by_rank(w, "slice_ends_w", "slice_ends_hw", "slice_ends_dhw"), ends, r);
  in[3] = put_longs(w, name_by_rank(w, "slice_axes_w", "slice_axes_hw", "slice_axes_dhw"), axes, r);
  in[4] = put_longs(w, name_by_rank(w, "slice_steps_w", "slice_steps_hw", "slice_steps_dhw"),
                    w->match.strides, r);
  return put_node(w, "Slice", in, 5, named(name_of(w, "x_strided")), NULL, 0);
}

// ---- the weight --------------------------------------------------------------------------------

static uint32_t put_weight(struct rewriting *w) {
  static const int64_t swap[2] = {1, 0};
  struct edits *e = w->env->edits;
  uint32_t tensor = w->match.weight.tensor;
  const struct model *m = w->env->m;
  uint32_t home = m->values[w->match.weight.value].graph;
  assert(tensor < w->n_transposed);
  if (!w->options->strict_compat && w->transposed[tensor] != NO_ID) return w->transposed[tensor];
  int64_t dims[2] = {w->match.channels_out, w->match.channels_in};
  uint32_t flat = edit_tensor_recipe_as(e, tensor, dims, 2);
  uint32_t value = edit_add_tensor_for(e, home, name_of(w, "w_t"),
                                       recipe_transpose(e->r, flat, swap), tensor, m->empty);
  w->transposed[tensor] = value;
  return value;
}

// ---- the flat form's shapes --------------------------------------------------------------------

// The shape of the product, channels last, if the model knows x's shape entirely.
static bool static_shape(const struct rewriting *w, int64_t out[5]) {
  const struct model *m = w->env->m;
  uint32_t r = w->match.rank;
  for (uint32_t i = m->values[w->x].info; i != NO_ID; i = m->infos[i].next) {
    const struct model_info *info = &m->infos[i];
    if (info->flags & INFO_DEAD || !(info->flags & INFO_SHAPED) || info->rank != r + 2) continue;
    const struct model_dim *d = m->info_dims + info->dims;
    bool known = d[0].value > 0;
    out[0] = d[0].value;
    for (uint32_t k = 0; k < r && known; k++) {
      int64_t in = d[2 + k].value;
      known = in > 0 && !__builtin_add_overflow(in, w->match.pads[k], &in) &&
              !__builtin_add_overflow(in, w->match.pads[r + k], &in);
      out[1 + k] = (in - 1) / w->match.strides[k] + 1;
    }
    out[1 + r] = w->match.channels_out;
    if (known) return true;
  }
  return false;
}

static uint32_t put_gather(struct rewriting *w, uint32_t shape, uint32_t index, struct span out) {
  uint32_t in[2] = {shape, index};
  struct edit_attr axis = {.name = "axis", .type = ATTR_INT, .i = 0};
  return put_node(w, "Gather", in, 2, named(out), &axis, 1);
}

// Declares y's shape where nobody did: a Conv behind this one may be the next to be rewritten.
static void declare_shape(struct rewriting *w, const int64_t channels_last[5]) {
  const struct model *m = w->env->m;
  uint32_t rank = w->match.rank + 2;
  struct model_dim dims[5];
  if (m->values[w->y].flags & VALUE_DEAD) return;
  for (uint32_t i = m->values[w->y].info; i != NO_ID; i = m->infos[i].next)
    if (!(m->infos[i].flags & INFO_DEAD)) return;
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t at = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    dims[i] = (struct model_dim){channels_last[at], m->empty};
  }
  enum dtype dtype = (enum dtype)m->tensors[w->match.weight.tensor].dtype;
  edit_retype_value(w->env->edits, w->y, dtype, dims, rank);
}

struct flat_constants {
  uint32_t index[4]; // of N and the spatial dims in the value whose Shape is taken
  uint32_t flat_shape, channels;
};

static void put_flat_constants(struct rewriting *w, struct flat_constants *c) {
  static const char *const names[4] = {"idx0", "idx1", "idx2", "idx3"};
  int64_t flat[2] = {-1, w->match.channels_in};
  bool channels_first = w->options->strict_compat;
  for (uint32_t i = 0; i <= w->match.rank; i++) {
    int64_t axis = channels_first && i > 0 ? i + 1 : i;
    c->index[i] = put_longs(w, name_of(w, names[axis]), &axis, 1);
  }
  c->flat_shape = put_longs(w, name_of(w, "flat_shape"), flat, 2);
  c->channels = put_longs(w, name_of(w, "m"), &w->match.channels_out, 1);
}

static uint32_t put_dynamic_shape(struct rewriting *w, uint32_t x, const struct flat_constants *c) {
  static const char *const dims[3][3] = {{"w", NULL, NULL}, {"h", "w", NULL}, {"d", "h", "w"}};
  uint32_t r = w->match.rank, parts[5];
  struct edit_attr axis = {.name = "axis", .type = ATTR_INT, .i = 0};
  uint32_t shape = put_node(w, "Shape", &x, 1, named(name_of(w, "shape_x")), NULL, 0);
  parts[0] = put_gather(w, shape, c->index[0], name_of(w, "n"));
  for (uint32_t i = 0; i < r; i++)
    parts[1 + i] = put_gather(w, shape, c->index[1 + i], name_of(w, dims[r - 1][i]));
  parts[1 + r] = c->channels;
  return put_node(w, "Concat", parts, r + 2, named(name_of(w, "out_shape")), &axis, 1);
}

// ---- the product -------------------------------------------------------------------------------

static uint32_t put_product(struct rewriting *w, uint32_t x, uint32_t weight) {
  uint32_t in[2] = {x, weight};
  uint32_t product = put_node(w, "MatMul", in, 2, named(name_of(w, "mm")), NULL, 0);
  if (w->match.bias == NO_ID) return product;
  uint32_t sum[2] = {product, w->match.bias};
  return put_node(w, "Add", sum, 2, named(name_of(w, "mm_bias")), NULL, 0);
}

static uint32_t put_reshape(struct rewriting *w, uint32_t x, uint32_t shape, struct span out) {
  uint32_t in[2] = {x, shape};
  return put_node(w, "Reshape", in, 2, named(out), NULL, 0);
}

// From the transposed activation to the flat product, shaped again. strict: the constants that the
// existing tool puts first; it takes Shape of x, which keeps the way back to x alive.
static uint32_t put_flat(struct rewriting *w, uint32_t x, uint32_t channels_last, uint32_t weight,
                         const struct flat_constants *strict) {
  int64_t shape[5], flat[2] = {-1, w->match.channels_in};
  bool known = strict == NULL && static_shape(w, shape);
  struct flat_constants c = {0};
  if (strict)
    c = *strict;
  else if (known)
    c.flat_shape = put_longs(w, name_of(w, "flat_shape"), flat, 2);
  else
    put_flat_constants(w, &c);
  uint32_t rows = put_reshape(w, channels_last, c.flat_shape, name_of(w, "x_flat"));
  uint32_t product = put_product(w, rows, weight);
  uint32_t to = known ? put_longs(w, name_of(w, "out_shape"), shape, w->match.rank + 2)
                      : put_dynamic_shape(w, strict ? x : channels_last, &c);
  if (known) declare_shape(w, shape);
  return put_reshape(w, product, to, name_by_rank(w, "nwc_out", "nhwc_out", "ndhwc_out"));
}

// ---- transposes that undo each other -----------------------------------------------------------

static bool is_transpose(const struct model *m, uint32_t node, const int64_t *perm, uint32_t n) {
  const int64_t *list;
  uint32_t count;
  if (m->nodes[node].flags & NODE_DEAD || !model_op_is(m, node, "Transpose")) return false;
  if (m->nodes[node].n_out != 1) return false;
  if (!model_attr_ints(m, node, "perm", &list, &count) || count != n) return false;
  return memcmp(list, perm, n * sizeof *perm) == 0;
}

// The channels-last value that x was transposed from, or NO_ID. In a body, a value of the same name
// can hide it.
static uint32_t untransposed(const struct rewriting *w, uint32_t x, const int64_t back[5]) {
  const struct model *m = w->env->m;
  if (w->options->strict_compat || x == NO_ID || m->values[x].kind != VALUE_NODE_OUTPUT)
    return NO_ID;
  uint32_t node = m->values[x].def;
  if (!is_transpose(m, node, back, w->match.rank + 2)) return NO_ID;
  uint32_t before = model_input(m, &m->nodes[node], 0);
  bool seen = before != NO_ID && model_lookup(m, w->graph, m->values[before].name) == before;
  return seen ? before : NO_ID;
}

// Lets the transposes behind y that only undo ours read the channels-last value instead.
static void skip_transposes_behind(struct rewriting *w, uint32_t channels_last,
                                   const int64_t in[5]) {
  struct model *m = w->env->m;
  uint32_t next;
  for (uint32_t ref = m->values[w->y].first_use; ref != NO_ID; ref = next) {
    next = m->refs[ref].next;
    uint32_t node = m->refs[ref].node;
    if (!is_transpose(m, node, in, w->match.rank + 2)) continue;
    uint32_t out = model_output(m, &m->nodes[node], 0);
    if (out == NO_ID || m->values[out].n_graph_outputs) continue;
    edit_replace_uses(w->env->edits, out, channels_last);
    if (node == w->anchor) w->anchor = m->nodes[node].next;
    edit_remove_node(w->env->edits, node);
  }
}

// ---- one Conv ----------------------------------------------------------------------------------

static bool takes_flat(const struct rewriting *w) {
  if (w->options->strict_compat) return true;
  if (w->options->form != CONV2MATMUL_FLAT) return false;
  return weights_takes_integers(w->env->m, w->graph); // shapes
}

static uint32_t put_body(struct rewriting *w, const int64_t in[5], const int64_t back[5]) {
  uint32_t x = w->x;
  if (padded(w)) x = put_pad(w, x);
  if (strided(w)) x = put_slice(w, x);
  uint32_t weight = put_weight(w);
  struct flat_constants constants;
  if (w->options->strict_compat) put_flat_constants(w, &constants);
  uint32_t last = untransposed(w, x, back);
  if (last == NO_ID)
    last = put_transpose(w, x, in, named(name_by_rank(w, "x_nwc", "x_nhwc", "x_ndhwc")));
  if (!takes_flat(w)) return put_product(w, last, weight);
  return put_flat(w, x, last, weight, w->options->strict_compat ? &constants : NULL);
}

static void rewrite(struct rewriting *w, uint32_t node) {
  int64_t in[5], back[5];
  struct model *m = w->env->m;
  const struct model_node *n = &m->nodes[node];
  uint32_t old_weight = model_input(m, n, 1);
  arena_reset(w->env->site_scratch); // names are of one Conv: edits keep copies
  w->graph = n->graph;
  w->anchor = n->next;
  w->x = model_input(m, n, 0);
  w->y = model_output(m, n, 0);
  w->prefix = n->name == m->empty
                  ? span_str("conv1x1")
                  : span_str(arena_string(w->env->site_scratch, model_name(m, n->name)));
  w->opset = model_opset_version(m, w->graph, span_str(""));
  w->n_names = 0;
  perms(w->match.rank, in, back);
  edit_group(w->env->edits, "conv2matmul", node, w->match.reason);
  if (w->options->strict_compat) reserve_as_existing_tool(w);
  edit_remove_node(w->env->edits, node);
  uint32_t last = put_body(w, in, back);
  if (w->options->strict_compat) {
    put_transpose(w, last, back, (struct edit_output){.value = w->y});
    return;
  }
  skip_transposes_behind(w, last, in);
  if (!dead_ends_unused(m, w->y)) put_transpose(w, last, back, (struct edit_output){.value = w->y});
  dead_ends_drop(w->env->edits, w->x);
  dead_ends_drop(w->env->edits, old_weight);
}

// ---- all of them -------------------------------------------------------------------------------

struct site {
  uint32_t node, index;
};

static void report(struct rewriting *w, const struct site *s) {
  const struct model *m = w->env->m;
  const struct model_node *n = &m->nodes[s->node];
  struct pass_site out = {.node = s->node,
                          .index = s->index,
                          .graph = n->graph,
                          .op_type = "Conv",
                          .status = w->match.converts ? "converted" : "skipped",
                          .reason = w->match.reason,
                          .flag = w->match.used_extended_mode,
                          .node_name = model_name(m, n->name),
                          .codes = NO_ID};
  if (w->match.converts) out.tensor = model_name(m, m->tensors[w->match.weight.tensor].name);
  if (w->env->site) w->env->site(w->env->site_ctx, &out);
}

// The Convs of a graph with their positions in the source, before any edit moves them.
static uint32_t collect(const struct rewriting *w, uint32_t graph, struct site **sites,
                        size_t *cap) {
  const struct model *m = w->env->m;
  uint32_t n = 0, index = 0, conv = model_find_name(m, span_str("Conv"));
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next, index++) {
    if (m->nodes[i].op_type != conv || !conv2matmul_looks_at(m, i, w->options)) continue;
    *sites = table_grow(*sites, cap, (size_t)n + 1, sizeof **sites);
    (*sites)[n++] = (struct site){i, index};
  }
  return n;
}

// Ahead of the first rewrite: transposed weights are initializers without an input.
static void make_way(struct rewriting *w) {
  if (w->options->strict_compat || w->env->m->ir_version >= WEIGHTS_FREE_IR) return;
  edit_group(w->env->edits, "conv2matmul", NO_ID, "versions");
  weights_free_initializers(w->env->edits);
}

static void rewrite_graph(struct rewriting *w, uint32_t graph, struct conv2matmul_result *result) {
  struct site *sites = NULL;
  size_t cap = 0;
  uint32_t n = collect(w, graph, &sites, &cap);
  for (uint32_t i = 0; i < n; i++) {
    conv2matmul_match(w->env->m, sites[i].node, w->options, &w->match);
    report(w, &sites[i]);
    if (w->match.converts && result->converted == 0) make_way(w);
    if (w->match.converts) rewrite(w, sites[i].node);
    result->converted += w->match.converts;
    result->skipped += !w->match.converts;
  }
  table_free(sites, cap, sizeof *sites);
}

void pass_conv2matmul(struct pass_env *env, const struct conv2matmul_options *options,
                      struct conv2matmul_result *result) {
  struct model *m = env->m;
  struct rewriting w = {.env = env, .options = options, .n_transposed = m->n_tensors};
  size_t cap = 0;
  *result = (struct conv2matmul_result){0};
  w.transposed = table_grow(NULL, &cap, (size_t)m->n_tensors + 1, sizeof *w.transposed);
  memset(w.transposed, 0xff, m->n_tensors * sizeof *w.transposed);
  uint32_t n_graphs = m->n_graphs;
  for (uint32_t g = 0; g < n_graphs; g++)
    if (options->strict_compat ? g == m->main_graph : m->graphs[g].kind != GRAPH_TRAINING)
      rewrite_graph(&w, g, result);
  table_free(w.transposed, cap, sizeof *w.transposed);
  numbers_done(&w.numbers);
}
