// One walk over the main graph, in its order.
//
//   x ─▶ Conv ─▶ a ─▶ Reshape ─▶ b ─▶ MatMul ─▶ c ─▶ Div ─▶ d
//   input        checked          same as a     checked     checked
//
// ReduceMin and ReduceMax of the runtime may drop a NaN, depending on its place, so a value that may have one is checked by its
// sum. Outputs of operators that make no NaN from finite numbers are not checked: an Add of two finite numbers may be an
// infinity, which is refused, but never a NaN.
#include "calibrate/calibrate_values.h"

#include "passes/kit/weights.h"
#include "platform/patterns.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const why_codes[] = {"in_subgraph", "in_function", "excluded", "infinite"};
static const char *const why_words[] = {"in bodies of If, Loop or Scan",
                                        "in functions of the model", "left out by --exclude",
                                        "with infinite elements"};

const char *calibrate_why_code(enum calibrate_why why) {
  assert(why < CALIBRATE_WHYS);
  return why_codes[why];
}

const char *calibrate_why_words(enum calibrate_why why) {
  assert(why < CALIBRATE_WHYS);
  return why_words[why];
}

// Finite numbers in, no NaN out. In order, for bsearch.
static const char *const tame[] = {
    "Abs",      "Add",         "Ceil",      "Clip",      "Concat",  "DepthToSpace",
    "Erf",      "Expand",      "Flatten",   "Floor",     "Gather",  "GatherElements",
    "GatherND", "HardSigmoid", "Identity",  "Max",       "MaxPool", "Min",
    "Mul",      "Neg",         "ReduceMax", "ReduceMin", "Relu",    "Reshape",
    "Round",    "Sigmoid",     "Sign",      "Slice",     "Softmax", "SpaceToDepth",
    "Split",    "Squeeze",     "Sub",       "Tanh",      "Tile",    "Transpose",
    "Trilu",    "Unsqueeze",   "Where"};
static const char *const unmoved[] = {"Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"};

static int by_word(const void *a, const void *b) {
  return strcmp(a, *(const char *const *)b);
}

#define IS_ONE_OF(words, word)                                                                     \
  (bsearch(word, words, sizeof words / sizeof *words, sizeof *words, by_word) != NULL)

struct walk {
  struct calibrate_values *v;
  const struct model *m;
  struct infer *in;
  enum calibrate_statistics statistics;
  const char *const *excluded;
  uint32_t n_excluded;
};

static enum dtype type_of(struct walk *w, uint32_t value) {
  struct infer_type t;
  if (!infer_type_of(w->in, value, &t)) return DTYPE_UNDEFINED;
  return t.kind == INFER_TENSOR ? t.dtype : DTYPE_STRING; // what is no tensor is no float
}

static bool is_ours(const struct model *m, uint32_t node) {
  const struct span domain = model_name(m, m->nodes[node].domain);
  return domain.n == 0 || span_is(domain, "ai.onnx");
}

static const char *op_of(const struct model *m, uint32_t node) {
  return model_name_str(m, m->nodes[node].op_type);
}

// ---- NaN ----------------------------------------------------------------------------------------

// Is it a constant in memory with finite elements?
static bool is_finite_constant(const struct model *m, uint32_t value) {
  struct model_constant c;
  struct span elements;
  float x;
  if (!model_resolve_constant(m, value, &c)) return false;
  if (m->tensors[c.tensor].dtype != DTYPE_FLOAT || !model_small_value(m, c.tensor, &elements))
    return false;
  for (size_t i = 0; i + sizeof x <= elements.n; i += sizeof x) {
    memcpy(&x, elements.at + i, sizeof x);
    if (!isfinite(x)) return false;
  }
  return true;
}

static bool gives_numbers(struct walk *w, uint32_t node) {
  const struct model *m = w->m;
  if (!is_ours(m, node) || !IS_ONE_OF(tame, op_of(m, node))) return false;
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t value = model_input(m, &m->nodes[node], i);
    if (value == NO_ID || w->v->place[value] || is_finite_constant(m, value)) continue;
    const enum dtype t = type_of(w, value);
    if (t == DTYPE_UNDEFINED || dtype_is_float(t)) return false;
  }
  return true;
}

// ---- what consumers contract over -----------------------------------------------------------------

// The axis, if the node contracts over one of its input 0 with a constant weight; else 0, which no such node has.
static int32_t contracted(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  if (!is_ours(m, node) || !weights_lead_to(m, model_input(m, n, 1))) return 0;
  if (model_op_is(m, node, "MatMul")) return -1;
  if (model_op_is(m, node, "Conv")) return 1;
  int64_t transposed = 0;
  if (!model_op_is(m, node, "Gemm")) return 0;
  return model_attr_int(m, node, "transA", 0, &transposed) && transposed == 0 ? -1 : 0;
}

static void see_consumers(const struct walk *w, struct calibrate_value *x) {
  const struct model *m = w->m;
  for (uint32_t ref = m->values[x->value].first_use; ref != NO_ID; ref = m->refs[ref].next) {
    const struct model_node *n = &m->nodes[m->refs[ref].node];
    if (ref != n->refs) continue; // not its input 0
    const int32_t axis = contracted(m, m->refs[ref].node);
    if (axis == 0 || (x->by_channel && axis > 0)) continue; // rows count for more than maps
    x->by_channel = true;
    x->axis = axis;
    x->gram = w->statistics == CALIBRATE_GRAM && axis < 0;
  }
  if (w->statistics == CALIBRATE_RANGES || (x->axis > 0 && x->rank == NO_ID))
    x->by_channel = x->gram = false;
}

// ---- the list -------------------------------------------------------------------------------------

static bool is_excluded(const struct walk *w, const char *name) {
  for (uint32_t i = 0; i < w->n_excluded; i++)
    if (pattern_glob(w->excluded[i], name)) return true;
  return false;
}

static void leave_out(struct walk *w, const char *name, enum calibrate_why why) {
  *TABLE_PUSH(w->v, uncovered) = (struct calibrate_uncovered){name, why};
}

static void add(struct walk *w, uint32_t value, uint32_t node) {
  const enum dtype type = type_of(w, value);
  struct model_constant c;
  struct infer_type t;
  if (type != DTYPE_UNDEFINED && !dtype_is_plain_float(type)) return;
  // Small Constant nodes are looked at as all that nodes make, since quantizers take them for activations.
  if (node != NO_ID && model_resolve_constant(w->m, value, &c) &&
      (c.value != value || !is_finite_constant(w->m, value)))
    return;
  const char *name = arena_string(&w->v->arena, model_value_name(w->m, value));
  if (is_excluded(w, name)) {
    leave_out(w, name, CALIBRATE_EXCLUDED);
    return;
  }
  struct calibrate_value x = {.value = value,
                              .name = name,
                              .type = type,
                              .same = NO_ID,
                              .input = node == NO_ID,
                              .output = w->m->values[value].n_graph_outputs > 0,
                              .rank = infer_type_of(w->in, value, &t) && t.ranked ? t.rank : NO_ID};
  if (node != NO_ID) {
    const uint32_t from = model_input(w->m, &w->m->nodes[node], 0);
    const bool moves = is_ours(w->m, node) && IS_ONE_OF(unmoved, op_of(w->m, node));
    if (moves && from != NO_ID && w->v->place[from] && type != DTYPE_UNDEFINED) {
      const struct calibrate_value *of = &w->v->list[w->v->place[from] - 1];
      if (of->type == type) x.same = of->same != NO_ID ? of->same : w->v->place[from] - 1;
    }
    x.checked = !gives_numbers(w, node);
  }
  see_consumers(w, &x);
  if (x.by_channel) x.same = NO_ID;
  *TABLE_PUSH(w->v, list) = x;
  w->v->place[value] = w->v->n_list;
}

// Names of values in subgraphs are for people: several bodies may have the same name.
static void list_inside(struct walk *w) {
  const struct model *m = w->m;
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    const struct model_graph *graph = &m->graphs[g];
    if (g == m->main_graph || graph->flags & GRAPH_DEAD || graph->kind == GRAPH_TRAINING) continue;
    const bool function = m->graphs[model_root_graph(m, g)].kind == GRAPH_FUNCTION;
    for (uint32_t node = graph->first_node; node != NO_ID; node = m->nodes[node].next)
      for (uint32_t k = 0; k < m->nodes[node].n_out; k++) {
        const uint32_t value = model_output(m, &m->nodes[node], k);
        if (value == NO_ID || model_op_is(m, node, "Constant")) continue;
        if (!function && !dtype_is_plain_float(type_of(w, value))) continue;
        leave_out(w, arena_string(&w->v->arena, model_value_name(m, value)),
                  function ? CALIBRATE_IN_FUNCTION : CALIBRATE_IN_BODY);
      }
  }
}

void calibrate_values_find(struct calibrate_values *v, const struct model *m, struct infer *in,
                           enum calibrate_statistics statistics, const char *const *excluded,
                           uint32_t n_excluded) {
  struct walk w = {v, m, in, statistics, excluded, n_excluded};
  *v = (struct calibrate_values){.n_list = 0};
  v->place = arena_zalloc(&v->arena, (m->n_values + (size_t)1) * sizeof *v->place);
  if (m->main_graph != NO_ID) {
    const struct model_graph *g = &m->graphs[m->main_graph];
    for (uint32_t i = 0; i < g->n_inputs; i++) {
      const uint32_t value = m->graph_io[g->inputs + i];
      if (m->values[value].kind == VALUE_INPUT) add(&w, value, NO_ID);
    }
    for (uint32_t node = g->first_node; node != NO_ID; node = m->nodes[node].next)
      for (uint32_t k = 0; k < m->nodes[node].n_out; k++) {
        const uint32_t value = model_output(m, &m->nodes[node], k);
        if (value != NO_ID) add(&w, value, node);
      }
  }
  list_inside(&w);
}

void calibrate_values_free(struct calibrate_values *v) {
  TABLES_FREE(v, list, uncovered);
  arena_free(&v->arena);
}

// Drops values that cannot be measured. A value comes after the one that it equals, and none equals a dropped one.
void calibrate_values_drop(struct calibrate_values *v) {
  struct arena scratch = {0};
  uint32_t *to = arena_alloc(&scratch, (v->n_list + (size_t)1) * sizeof *to), n = 0;
  for (uint32_t i = 0; i < v->n_list; i++) {
    to[i] = n;
    v->place[v->list[i].value] = 0;
    if (!dtype_is_plain_float(v->list[i].type)) continue;
    v->list[n] = v->list[i];
    v->place[v->list[n].value] = n + 1;
    if (v->list[n].same != NO_ID) v->list[n].same = to[v->list[n].same];
    n++;
  }
  v->n_list = n;
  arena_free(&scratch);
}
