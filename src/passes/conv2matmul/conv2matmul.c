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
#include "passes/conv2matmul/conv2matmul.h"
#include "infer/infer.h"
#include "passes/kit/dead_ends.h"
#include "passes/kit/kit.h"
#include "passes/kit/weights.h"

#include <assert.h>

enum { SLICE_STEPS_OPSET = 10, PAD_INPUTS_OPSET = 11, MAX_NAMES = 32 };

struct site {
  uint32_t node, index; // index: its position in its graph
};

// The Cast of Wᵀ in the graph that had the last one.
struct widened {
  uint32_t graph, value; // value + 1
};

struct rewriting {
  struct kit k;
  const struct conv2matmul_options *options;
  bool converted;                 // any
  int64_t opset_wanted;           // strict_compat: of what was written, where the model's is older
  TABLE(uint32_t, transposed);    // 1 + value id of Wᵀ by tensor id
  TABLE(struct widened, widened); // by tensor id
  TABLE(struct site, sites);      // of the graph at hand
  // of the node at hand
  struct conv2matmul_match match;
  uint32_t x, y; // value ids
  bool known;    // the product's shape: what the flat form is shaped to
  int64_t shape[5];
  struct { // taken before they are needed (strict_compat)
    const char *suffix;
    struct span name;
  } names[MAX_NAMES];
  uint32_t n_names;
};

// ---- names -------------------------------------------------------------------------------------

static void reserve(struct rewriting *w, const char *const *suffixes, size_t n) {
  assert(w->n_names + n <= MAX_NAMES);
  for (size_t i = 0; i < n; i++) {
    const struct span name = kit_name(&w->k, suffixes[i]);
    model_intern(w->k.m, name); // taken from now on, used or not
    w->names[w->n_names].suffix = suffixes[i];
    w->names[w->n_names++].name = name;
  }
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
  reserve(w, common, sizeof common / sizeof common[0]);
  if (w->match.rank == 1) reserve(w, one, sizeof one / sizeof one[0]);
  if (w->match.rank == 2) reserve(w, two, sizeof two / sizeof two[0]);
}

static struct span name_of(struct rewriting *w, const char *suffix) {
  for (uint32_t i = 0; i < w->n_names; i++)
    if (strcmp(w->names[i].suffix, suffix) == 0) return w->names[i].name;
  return kit_name(&w->k, suffix);
}

static struct edit_output named(struct rewriting *w, const char *suffix) {
  return (struct edit_output){NO_ID, name_of(w, suffix)};
}

// A name that the existing tool varies with the spatial rank.
static const char *by_rank(const struct rewriting *w, const char *one, const char *two,
                           const char *three) {
  return w->match.rank == 1 ? one : w->match.rank == 2 ? two : three;
}

// ---- pieces of graph ---------------------------------------------------------------------------

static uint32_t put_longs(struct rewriting *w, const char *suffix, const int64_t *x, uint32_t n) {
  const int64_t dim = n;
  const uint32_t recipe = recipe_bytes(w->k.r, DTYPE_INT64, &dim, 1, span_of(x, n * sizeof *x));
  return edit_add_tensor(w->k.e, w->k.graph, name_of(w, suffix), recipe);
}

static uint32_t put_transpose(struct rewriting *w, uint32_t x, const int64_t *perm,
                              struct edit_output out) {
  return kit_make(&w->k, OP_Transpose, KIT_IN(x), KIT_OUT(out),
                  KIT_INTS("perm", perm, w->match.rank + 2));
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

// ---- Pad and Slice -----------------------------------------------------------------------------

// As the existing tool, strict_compat does not look at the opset; it says so in the end.
static void note_opset(struct rewriting *w, int64_t needed) {
  if (!w->options->strict_compat || kit_opset(&w->k, w->k.graph) >= needed) return;
  if (w->opset_wanted < needed) w->opset_wanted = needed;
}

static void warn_of_opset(struct rewriting *w) {
  if (w->opset_wanted == 0) return;
  kit_warn(&w->k,
           arena_printf(&w->k.site,
                        "Pad or Slice were written as in opset %s, but the model has opset "
                        "%s: runtimes refuse the result (onnx-conv2matmul writes the same)",
                        integer(w->opset_wanted).s,
                        integer(kit_opset(&w->k, w->k.m->main_graph)).s),
           "without --strict-compat, weir writes them for the model's opset");
}

static uint32_t put_pad(struct rewriting *w, uint32_t x) {
  static const uint8_t zero[8] = {0};
  struct kit *k = &w->k;
  const uint32_t r = w->match.rank, n = r + 2;
  const enum dtype dtype = (enum dtype)k->m->tensors[w->match.weight.tensor].dtype;
  const struct span mode = span_str("constant");
  int64_t spec[10] = {0};
  for (uint32_t i = 0; i < r; i++) {
    spec[2 + i] = w->match.pads[i];
    spec[n + 2 + i] = w->match.pads[r + i];
  }
  const struct edit_output out = named(w, "x_padded");
  note_opset(w, PAD_INPUTS_OPSET);
  if (kit_opset(k, k->graph) < PAD_INPUTS_OPSET && !w->options->strict_compat)
    return kit_make(k, OP_Pad, KIT_IN(x), KIT_OUT(out), KIT_STRING("mode", mode),
                    KIT_INTS("pads", spec, 2 * n), KIT_FLOAT("value", 0));
  const uint32_t pads = put_longs(w, "pad_spec", spec, 2 * n);
  const uint32_t fill = recipe_bytes(k->r, dtype, NULL, 0, span_of(zero, dtype_bits(dtype) / 8));
  const uint32_t value = edit_add_tensor(k->e, k->graph, name_of(w, "pad_value"), fill);
  return kit_make(k, OP_Pad, KIT_IN(x, pads, value), KIT_OUT(out), KIT_STRING("mode", mode));
}

static uint32_t put_slice(struct rewriting *w, uint32_t x) {
  static const int64_t ones[3] = {1, 1, 1}, starts[3] = {0, 0, 0}, axes[3] = {2, 3, 4};
  static const int64_t ends[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  struct kit *k = &w->k;
  const uint32_t r = w->match.rank;
  note_opset(w, SLICE_STEPS_OPSET);
  // Slice takes steps from opset 10; before, a MaxPool over a window of one element strides.
  if (kit_opset(k, k->graph) < SLICE_STEPS_OPSET && !w->options->strict_compat)
    return kit_make(k, OP_MaxPool, KIT_IN(x), KIT_OUT(named(w, "x_strided")),
                    KIT_INTS("kernel_shape", ones, r), KIT_INTS("strides", w->match.strides, r));
  uint32_t in[5] = {x};
  in[1] =
      put_longs(w, by_rank(w, "slice_starts_w", "slice_starts_hw", "slice_starts_dhw"), starts, r);
  in[2] = put_longs(w, by_rank(w, "slice_ends_w", "slice_ends_hw", "slice_ends_dhw"), ends, r);
  in[3] = put_longs(w, by_rank(w, "slice_axes_w", "slice_axes_hw", "slice_axes_dhw"), axes, r);
  in[4] = put_longs(w, by_rank(w, "slice_steps_w", "slice_steps_hw", "slice_steps_dhw"),
                    w->match.strides, r);
  return kit_make(k, OP_Slice, KIT_INPUTS(in, 5), KIT_OUT(named(w, "x_strided")));
}

// ---- the weight --------------------------------------------------------------------------------

static uint32_t put_weight(struct rewriting *w) {
  static const int64_t swap[2] = {1, 0};
  const uint32_t tensor = w->match.weight.tensor;
  const uint32_t home = w->k.m->values[w->match.weight.value].graph;
  if (tensor >= w->n_transposed) TABLE_ADD(w, transposed, tensor + 1 - w->n_transposed);
  const uint32_t own = edit_tensor_recipe(w->k.e, tensor), stored = kit_stored(&w->k, tensor);
  uint32_t made = w->options->strict_compat ? 0 : w->transposed[tensor];
  if (made == 0) {
    const int64_t dims[2] = {w->match.channels_out, w->match.channels_in};
    const uint32_t flat = stored == own ? edit_tensor_recipe_as(w->k.e, tensor, dims, 2)
                                        : recipe_reshape(w->k.r, stored, dims, 2);
    const uint32_t recipe = recipe_transpose(w->k.r, flat, swap);
    made = 1 + edit_add_tensor_for(w->k.e, home, name_of(w, "w_t"), recipe, tensor, w->k.m->empty);
    w->transposed[tensor] = made;
  }
  if (stored == own) return made - 1;
  // What is stored in fewer bits stays so.
  if (tensor >= w->n_widened) TABLE_ADD(w, widened, tensor + 1 - w->n_widened);
  struct widened *wide = &w->widened[tensor];
  if (wide->value == 0 || wide->graph != w->k.graph)
    *wide = (struct widened){
        w->k.graph, 1 + kit_make(&w->k, OP_Cast, KIT_IN(made - 1), KIT_OUT(named(w, "w_t_cast")),
                                 KIT_INT("to", w->k.m->tensors[tensor].dtype))};
  return wide->value - 1;
}

// ---- the flat form's shapes --------------------------------------------------------------------

// Does what is declared of x follow? A number that an exporter wrote about one run does not, and pass_run.c takes
// it back then: a Shape of x is folded by it in ONNX Runtime. What the pass made itself is declared by it. Only what is declared
// makes a shape static. The channels do not count.
static bool is_sure(struct rewriting *w) {
  struct infer *facts = kit_facts(&w->k);
  struct infer_type t;
  int64_t n;
  infer_more(facts); // x may be new
  if (!infer_type_of(facts, w->x, &t)) return true;
  bool sure = t.ranked && t.rank == w->match.rank + 2;
  for (uint32_t i = 0; sure && i < t.rank; i++)
    sure = i == 1 || dims_is_number(infer_dims(facts), dims_find(infer_dims(facts), t.dims[i]), &n);
  return sure;
}

// The shape of the product, channels last, if the model knows x's shape but for its channels. Asks inference: the graph is whole.
static bool static_shape(struct rewriting *w, int64_t out[5]) {
  const uint32_t r = w->match.rank;
  uint32_t rank;
  if (!kit_rank(&w->k, w->x, &rank) || rank != r + 2) return false;
  out[0] = kit_dim(&w->k, w->x, 0).value;
  bool known = out[0] > 0;
  for (uint32_t i = 0; i < r && known; i++) {
    int64_t in = kit_dim(&w->k, w->x, 2 + i).value;
    known = in > 0 && !__builtin_add_overflow(in, w->match.pads[i], &in) &&
            !__builtin_add_overflow(in, w->match.pads[r + i], &in);
    out[1 + i] = (in - 1) / w->match.strides[i] + 1;
  }
  out[1 + r] = w->match.channels_out;
  return known && is_sure(w);
}

static uint32_t put_gather(struct rewriting *w, uint32_t shape, uint32_t index, const char *out) {
  return kit_make(&w->k, OP_Gather, KIT_IN(shape, index), KIT_OUT(named(w, out)),
                  KIT_INT("axis", 0));
}

// Declares y's shape where nobody did: a Conv behind this one may be the next to be rewritten.
static void declare_shape(struct rewriting *w, const int64_t channels_last[5]) {
  const struct model *m = w->k.m;
  const uint32_t rank = w->match.rank + 2;
  struct model_dim dims[5];
  struct model_type known;
  if (m->values[w->y].flags & VALUE_DEAD || kit_type(&w->k, w->y, &known)) return;
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t at = i == 0 ? 0 : i == 1 ? rank - 1 : i - 1;
    dims[i] = (struct model_dim){channels_last[at], m->empty};
  }
  enum dtype dtype = (enum dtype)m->tensors[w->match.weight.tensor].dtype;
  edit_retype_value(w->k.e, w->y, dtype, dims, rank);
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
    c->index[i] = put_longs(w, names[axis], &axis, 1);
  }
  c->flat_shape = put_longs(w, "flat_shape", flat, 2);
  c->channels = put_longs(w, "m", &w->match.channels_out, 1);
}

static uint32_t put_dynamic_shape(struct rewriting *w, uint32_t x, const struct flat_constants *c) {
  static const char *const dims[3][3] = {{"w", NULL, NULL}, {"h", "w", NULL}, {"d", "h", "w"}};
  uint32_t r = w->match.rank, parts[5];
  uint32_t shape = kit_make(&w->k, OP_Shape, KIT_IN(x), KIT_OUT(named(w, "shape_x")));
  parts[0] = put_gather(w, shape, c->index[0], "n");
  for (uint32_t i = 0; i < r; i++)
    parts[1 + i] = put_gather(w, shape, c->index[1 + i], dims[r - 1][i]);
  parts[1 + r] = c->channels;
  return kit_make(&w->k, OP_Concat, KIT_INPUTS(parts, r + 2), KIT_OUT(named(w, "out_shape")),
                  KIT_INT("axis", 0));
}

// ---- the product -------------------------------------------------------------------------------

static uint32_t put_product(struct rewriting *w, uint32_t x, uint32_t weight) {
  const uint32_t y = kit_make(&w->k, OP_MatMul, KIT_IN(x, weight), KIT_OUT(named(w, "mm")));
  if (w->match.bias == NO_ID) return y;
  return kit_make(&w->k, OP_Add, KIT_IN(y, w->match.bias), KIT_OUT(named(w, "mm_bias")));
}

static uint32_t put_reshape(struct rewriting *w, uint32_t x, uint32_t shape, const char *out) {
  return kit_make(&w->k, OP_Reshape, KIT_IN(x, shape), KIT_OUT(named(w, out)));
}

// From the transposed activation to the flat product, shaped again. strict: the constants that the
// existing tool puts first; it takes Shape of x, which keeps the way back to x alive.
static uint32_t put_flat(struct rewriting *w, uint32_t x, uint32_t channels_last, uint32_t weight,
                         const struct flat_constants *strict) {
  int64_t flat[2] = {-1, w->match.channels_in};
  struct flat_constants c = {0};
  if (strict)
    c = *strict;
  else if (w->known)
    c.flat_shape = put_longs(w, "flat_shape", flat, 2);
  else
    put_flat_constants(w, &c);
  uint32_t rows = put_reshape(w, channels_last, c.flat_shape, "x_flat");
  uint32_t product = put_product(w, rows, weight);
  uint32_t to = w->known ? put_longs(w, "out_shape", w->shape, w->match.rank + 2)
                         : put_dynamic_shape(w, strict ? x : channels_last, &c);
  if (w->known) declare_shape(w, w->shape);
  return put_reshape(w, product, to, by_rank(w, "nwc_out", "nhwc_out", "ndhwc_out"));
}

// ---- transposes that undo each other -----------------------------------------------------------

static bool is_transpose(struct rewriting *w, uint32_t node, const int64_t *perm) {
  const int64_t *list;
  uint32_t n;
  return kit_op(&w->k, node) == OP_Transpose && kit_perm(&w->k, node, &list, &n) &&
         n == w->match.rank + 2 && memcmp(list, perm, n * sizeof *perm) == 0;
}

// The channels-last value that x was transposed from, or NO_ID. In a body, a value of the same name
// can hide it.
static uint32_t untransposed(struct rewriting *w, uint32_t x, const int64_t back[5]) {
  const uint32_t node = kit_maker(&w->k, x);
  if (w->options->strict_compat || !is_transpose(w, node, back)) return NO_ID;
  const uint32_t before = kit_in(&w->k, node, 0);
  return kit_sees(&w->k, w->k.graph, before) ? before : NO_ID;
}

// Lets the transposes behind y that only undo ours read the channels-last value instead.
static void skip_transposes_behind(struct rewriting *w, uint32_t channels_last,
                                   const int64_t in[5]) {
  struct kit *k = &w->k;
  for (struct kit_use u = kit_uses(k, w->y); kit_use(k, &u);) {
    if (!is_transpose(w, u.node, in)) continue;
    const uint32_t out = kit_out(k, u.node, 0);
    if (out == NO_ID || kit_is_output(k, out)) continue;
    edit_replace_uses(k->e, out, channels_last);
    if (u.node == k->before) k->before = k->m->nodes[u.node].next;
    edit_remove_node(k->e, u.node);
  }
}

// ---- one Conv ----------------------------------------------------------------------------------

static bool takes_flat(const struct rewriting *w) {
  if (w->options->strict_compat) return true;
  if (w->options->form != CONV2MATMUL_FLAT) return false;
  return weights_takes_integers(w->k.m, w->k.graph); // shapes
}

static uint32_t put_body(struct rewriting *w, const int64_t in[5], const int64_t back[5]) {
  uint32_t x = w->x;
  if (w->match.padded) x = put_pad(w, x);
  if (w->match.strided) x = put_slice(w, x);
  uint32_t weight = put_weight(w);
  struct flat_constants constants;
  if (w->options->strict_compat) put_flat_constants(w, &constants);
  uint32_t last = untransposed(w, x, back);
  if (last == NO_ID)
    last = put_transpose(w, x, in, named(w, by_rank(w, "x_nwc", "x_nhwc", "x_ndhwc")));
  if (!takes_flat(w)) return put_product(w, last, weight);
  return put_flat(w, x, last, weight, w->options->strict_compat ? &constants : NULL);
}

static void rewrite(struct rewriting *w, uint32_t node) {
  int64_t in[5], back[5];
  struct kit *k = &w->k;
  const struct model *m = k->m;
  const uint32_t old_weight = kit_in(k, node, 1);
  kit_site(k, node, w->match.reason);
  if (m->nodes[node].name == m->empty) k->stem = span_str("conv1x1");
  k->before = m->nodes[node].next;
  w->x = kit_in(k, node, 0);
  w->y = kit_out(k, node, 0);
  w->n_names = 0;
  perms(w->match.rank, in, back);
  if (w->options->strict_compat) reserve_as_existing_tool(w);
  // Before anything is taken away: what is inferred of a graph that lacks a node stays as little. The existing tool takes
  // no number from declarations.
  w->known = !w->options->strict_compat && takes_flat(w) && static_shape(w, w->shape);
  edit_remove_node(k->e, node);
  const uint32_t last = put_body(w, in, back);
  if (!w->options->strict_compat) skip_transposes_behind(w, last, in);
  if (w->options->strict_compat || !kit_unused(k, w->y))
    put_transpose(w, last, back, (struct edit_output){.value = w->y});
  if (w->options->strict_compat) return;
  dead_ends_drop(k->e, w->x);
  dead_ends_drop(k->e, old_weight);
}

// ---- all of them -------------------------------------------------------------------------------

static void rewrite_graph(struct rewriting *w, uint32_t graph) {
  const struct conv2matmul_match *match = &w->match;
  struct kit *k = &w->k;
  const struct model *m = k->m;
  // The Convs of the graph, before any edit moves them.
  uint32_t index = 0;
  w->n_sites = 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next, index++)
    if (conv2matmul_looks_at(m, i, w->options)) *TABLE_PUSH(w, sites) = (struct site){i, index};
  for (uint32_t i = 0; i < w->n_sites; i++) {
    const struct site *s = &w->sites[i];
    struct model_constant c;
    kit_weight(k, kit_in(k, s->node, 1), &c); // for conv2matmul_match, which has no kit
    conv2matmul_match(m, s->node, w->options, &w->match);
    struct kit_report report = {.node = s->node,
                                .reason = match->reason,
                                .skipped = !match->converts,
                                .fact = {"used_extended_mode", match->used_extended_mode},
                                .place = s->index + 1};
    if (match->converts) report.tensor = model_name(m, m->tensors[match->weight.tensor].name);
    kit_report(k, &report);
    if (!match->converts) continue;
    // Ahead of the first rewrite: transposed weights are initializers without an input.
    if (!w->converted && !w->options->strict_compat && m->ir_version < WEIGHTS_FREE_IR) {
      kit_site(k, NO_ID, "versions");
      weights_free_initializers(k->e);
    }
    w->converted = true;
    rewrite(w, s->node);
  }
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct conv2matmul_options *options = with;
  const struct model *m = env->m;
  const uint32_t n_graphs = m->n_graphs;
  struct rewriting w = {.options = options};
  kit_init(&w.k, env, "conv2matmul");
  w.k.nameless = options->strict_compat; // the existing tool leaves its nodes so
  for (uint32_t g = 0; g < n_graphs; g++)
    if (options->strict_compat ? g == m->main_graph : m->graphs[g].kind != GRAPH_TRAINING)
      rewrite_graph(&w, g);
  TABLES_FREE(&w, sites, transposed, widened);
  warn_of_opset(&w);
  return kit_done(&w.k, err);
}

// ---- the row of the catalogue ------------------------------------------------------------------

static const struct pass_option options[] = {
    {"extended-conv1x1", PASS_FLAG, NULL, NULL,
     "also rewrite convolutions with padding or strides\n"
     "weir adds Pad and Slice before the MatMul.",
     PASS_MEMBER(conv2matmul_options, extended)},
    {"allow-non-unit-dilation", PASS_FLAG, NULL, NULL,
     "also rewrite convolutions with dilations above 1\n"
     "A dilation has no effect on a 1x1 kernel.",
     PASS_MEMBER(conv2matmul_options, allow_dilation)},
    {"max-dilation", PASS_COUNT, "N", NULL, "do not rewrite convolutions with a dilation above N",
     PASS_MEMBER(conv2matmul_options, max_dilation)},
    {"form", PASS_CHOICE, "flat|batched|auto", "auto",
     "form of the MatMul\n"
     "flat: over [rows, channels], with Reshape before and after. batched: on the transposed "
     "activation. auto: batched where that is exact, else flat.",
     PASS_MEMBER(conv2matmul_options, form)},
    {"strict-compat", PASS_FLAG, NULL, NULL, "decide and report exactly as onnx-conv2matmul 0.1.1",
     PASS_MEMBER(conv2matmul_options, strict_compat)},
};

static const struct pass conv2matmul = {
    .name = "conv2matmul",
    .summary = "pointwise (1x1) Conv -> MatMul on the transposed activation",
    .about =
        "Rewrites every Conv whose kernel is 1x1 (or 1, or 1x1x1) as Transpose, MatMul, Add and "
        "Transpose; the weight is transposed while it is copied.",
    .needs = "constant weights: initializers or Constant nodes, directly or through nodes that "
             "move or convert them",
    .promises = "the same results up to rounding (the order of summation differs)",
    .exactness = EXACTNESS_ROUNDING,
    PASS_OPTIONS(options, conv2matmul_options),
    .run = run,
};

const struct pass *const conv2matmul_passes[] = {&conv2matmul, NULL};
