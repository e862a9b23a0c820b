// Two models side by side, without a log: has the second lost what the first has?
//
//   float → codes               operators that compute with quantized weights or activations, or many small integers
//   32 → 16 bits                types of weights, and of what nodes give
//   codes → fewer or others     both are quantized:
//       weights                 more elements in 2, 3, 4 or 8 bits than before
//       groups of weights       codes of so many bits with a scale for so many of them, which the source has nowhere
//       activations             rounded at more places to so many bits, by given scales or by those of each run
//
// A model in the other form (QDQ nodes for operators on codes, MatMulNBits for a DequantizeLinear with the same blocks) has lost
// nothing, and neither has one with fewer of them. Other codes or scales in the same places are not seen: such a pair is held to the bounds
// of models that are equal. Nodes of functions and their constants count once for each call.
#include "verify_losses.h"

#include "model_calls.h"
#include "verify_half.h"

#include <stdlib.h>
#include <string.h>

// ---- operators ---------------------------------------------------------------------------------

enum part {
  WEIGHTS = 1, // codes with scales; `slot` has the codes
  STATIC = 2,  // rounds activations, by scales that it is given
  DYNAMIC = 4, // the same, by scales of what comes
};

// bits, block: the attributes for them, with their values where they are not written; NULL: the type of the codes says the bits, and
// the blocks are rows, columns or whole tensors.
struct operator{
  const char *name;
  uint8_t parts, slot;
  const char *bits;
  uint8_t bits_unwritten;
  const char *block;
  uint8_t block_unwritten;
};

static const struct operator operators[] = {
    {"MatMulNBits", WEIGHTS, 1, "bits", 4, "block_size", 0},
    {"GatherBlockQuantized", WEIGHTS, 0, "bits", 4, "block_size", 128},
    {"QMoE", WEIGHTS, 2, "expert_weight_bits", 4, "block_size", 0},
    {"MatMulBnb4", WEIGHTS, 1, NULL, 4, "block_size", 0},
    {"DequantizeLinear", WEIGHTS, 0, NULL, 0, "block_size", 0},
    {"MatMulInteger", WEIGHTS, 1, NULL, 0, NULL, 0},
    {"ConvInteger", WEIGHTS, 1, NULL, 0, NULL, 0},
    {"MatMulIntegerToFloat", WEIGHTS, 1, NULL, 0, NULL, 0},
    {"DynamicQuantizeMatMul", WEIGHTS | DYNAMIC, 1, NULL, 0, NULL, 0},
    {"DynamicQuantizeLinear", DYNAMIC, 0, NULL, 0, NULL, 0},
    {"QuantizeLinear", STATIC, 0, NULL, 0, NULL, 0},
    {"QGemm", WEIGHTS | STATIC, 3, NULL, 0, NULL, 0},
};
// Those that compute on codes and round their result: QLinearConv, QLinearAdd …
static const struct operator on_codes = {"QLinear", WEIGHTS | STATIC, 3, NULL, 0, NULL, 0};

static const struct operator* operator_of(const struct model *m, uint32_t node) {
  const struct span op = model_name(m, m->nodes[node].op_type);
  const size_t n = strlen(on_codes.name);
  if (m->nodes[node].flags & NODE_DEAD) return NULL;
  if (op.n > n && memcmp(op.at, on_codes.name, n) == 0) return &on_codes;
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (span_is(op, operators[i].name)) return &operators[i];
  return NULL;
}

// ---- functions ---------------------------------------------------------------------------------

// A node of a function, and a constant there, counts as often as it is called, as if all calls were written out.
enum { CALLS_MOST = 1 << 16 };

struct call {
  uint32_t caller, callee; // functions; NO_ID: outside of all
};

static uint32_t function_of(const struct model *m, uint32_t graph) {
  const struct model_graph *root = &m->graphs[model_root_graph(m, graph)];
  return root->kind == GRAPH_FUNCTION ? root->owner : NO_ID;
}

static int by_caller(const void *pa, const void *pb) {
  const struct call *a = pa, *b = pb;
  return (a->caller > b->caller) - (a->caller < b->caller);
}

static uint32_t find_calls(const struct model *m, struct call *list) {
  struct model_calls calls = {.m = NULL};
  uint32_t n = 0;
  model_calls_init(&calls, m);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (m->nodes[i].flags & NODE_DEAD) continue;
    const uint32_t callee = model_calls_callee(&calls, i);
    if (callee != NO_ID) list[n++] = (struct call){function_of(m, m->nodes[i].graph), callee};
  }
  model_calls_done(&calls);
  if (n) qsort(list, n, sizeof *list, by_caller);
  return n;
}

// By function; callers come before what they call, and functions that call themselves count for nothing.
static uint32_t *count_calls(const struct model *m, struct arena *a) {
  const uint32_t n = m->n_functions;
  struct call *list = arena_alloc(a, (m->n_nodes + (size_t)1) * sizeof *list);
  uint32_t *times = arena_zalloc(a, (n + (size_t)1) * sizeof *times);
  if (n == 0) return times;
  const uint32_t n_calls = find_calls(m, list);
  // Calls in functions that are not counted yet; the first call of each function in the list; functions that are counted.
  uint32_t *waits = arena_zalloc(a, (n + (size_t)1) * sizeof *waits);
  uint32_t *first = arena_zalloc(a, (n + (size_t)2) * sizeof *first);
  uint32_t *ready = arena_alloc(a, (n + (size_t)1) * sizeof *ready), n_ready = 0;
  for (uint32_t i = 0; i < n_calls; i++) {
    const struct call *c = &list[i];
    if (c->caller != NO_ID) first[c->caller + 1]++, waits[c->callee]++;
    if (c->caller == NO_ID && times[c->callee] < CALLS_MOST) times[c->callee]++;
  }
  for (uint32_t f = 0; f < n; f++) {
    first[f + 1] += first[f];
    if (waits[f] == 0) ready[n_ready++] = f;
  }
  for (uint32_t i = 0; i < n_ready; i++) {
    const uint32_t f = ready[i];
    for (uint32_t k = first[f]; k < first[f + 1]; k++) {
      const uint32_t callee = list[k].callee;
      times[callee] = (uint32_t)min_u64(CALLS_MOST, (uint64_t)times[callee] + times[f]);
      if (--waits[callee] == 0) ready[n_ready++] = callee;
    }
  }
  return times;
}

// How often what is in the graph counts.
static uint32_t times_of(const struct model *m, const uint32_t *calls, uint32_t graph) {
  const uint32_t function = graph == NO_ID ? NO_ID : function_of(m, graph);
  return function == NO_ID ? 1 : calls[function];
}

// ---- one model ---------------------------------------------------------------------------------

static const uint32_t steps[] = {2, 3, 4, 8, 16};
enum { STEPS = sizeof steps / sizeof *steps, KINDS = 2 };

struct group {
  uint32_t bits, block;
};

struct profile {
  const struct model *m;
  struct infer *in;
  const uint32_t *calls; // by function: how often
  bool quantized;
  uint64_t elements;              // of all weights
  uint64_t weights[STEPS];        // elements in so many bits or fewer
  uint64_t rounded[KINDS][STEPS]; // places; static, dynamic
  TABLE(struct group, groups);    // sorted, each once
  uint8_t *counted;               // by tensor
};

static void add_weights(struct profile *p, uint64_t elements, uint32_t bits) {
  p->elements += elements;
  for (uint32_t i = 0; i < STEPS; i++)
    if (bits <= steps[i]) p->weights[i] += elements;
}

// Codes that a node computes with, and how they are grouped.
static void take_codes(struct profile *p, uint32_t node, const struct operator* op,
                       uint32_t times) {
  const struct model *m = p->m;
  const uint32_t value = model_input(m, &m->nodes[node], op->slot);
  struct model_constant c;
  int64_t bits = op->bits_unwritten, block = op->block_unwritten;
  if (value == NO_ID || !model_resolve_constant(m, value, &c)) return;
  const struct model_tensor *t = &m->tensors[c.tensor];
  if (op->bits && !model_attr_int(m, node, op->bits, bits, &bits)) return;
  if (op->block && !model_attr_int(m, node, op->block, block, &block)) return;
  if (bits == 0) bits = dtype_bits((enum dtype)t->dtype);
  if (bits <= 0 || bits > 16 || block < 0 || block > UINT32_MAX || p->counted[c.tensor]) return;
  p->counted[c.tensor] = 1;
  add_weights(p, t->bytes * 8 / (uint64_t)bits * times, (uint32_t)bits);
  *TABLE_PUSH(p, groups) = (struct group){(uint32_t)bits, (uint32_t)block};
}

static void take_rounding(struct profile *p, uint32_t node, uint32_t kind, uint32_t times) {
  const uint32_t value = model_output(p->m, &p->m->nodes[node], 0);
  struct infer_type t;
  uint32_t bits = 8;
  if (value != NO_ID && infer_type_of(p->in, value, &t) && t.kind == INFER_TENSOR &&
      dtype_bits(t.dtype) > 0 && dtype_bits(t.dtype) <= 16 && !dtype_is_float(t.dtype))
    bits = dtype_bits(t.dtype);
  for (uint32_t i = 0; i < STEPS; i++)
    p->rounded[kind][i] += bits <= steps[i] ? times : 0;
}

static int by_bits(const void *pa, const void *pb) {
  const struct group *a = pa, *b = pb;
  if (a->bits != b->bits) return a->bits < b->bits ? -1 : 1;
  return (a->block > b->block) - (a->block < b->block);
}

static void sort_groups(struct profile *p) {
  uint32_t kept = 0;
  if (p->n_groups) qsort(p->groups, p->n_groups, sizeof *p->groups, by_bits);
  for (uint32_t i = 0; i < p->n_groups; i++)
    if (i == 0 || by_bits(&p->groups[i], &p->groups[i - 1]) != 0) p->groups[kept++] = p->groups[i];
  p->n_groups = kept;
}

// Weights of some size; shapes and axes are not weights.
static void take_tensors(struct profile *p) {
  for (uint32_t i = 0; i < p->m->n_tensors; i++) {
    const struct model_tensor *t = &p->m->tensors[i];
    const uint32_t bits = dtype_bits((enum dtype)t->dtype);
    if (t->flags & TENSOR_DEAD || p->counted[i] || bits == 0 || t->bytes < 16 ||
        t->dtype == DTYPE_BOOL || (bits > 16 && !dtype_is_float((enum dtype)t->dtype)))
      continue;
    add_weights(p, t->bytes * 8 / bits * times_of(p->m, p->calls, t->graph), bits);
  }
}

static void take_model(struct profile *p, struct arena *a) {
  p->counted = arena_zalloc(a, p->m->n_tensors + (size_t)1);
  for (uint32_t i = 0; i < p->m->n_nodes; i++) {
    const struct operator* op = operator_of(p->m, i);
    if (!op) continue;
    const uint32_t times = times_of(p->m, p->calls, p->m->nodes[i].graph);
    if (times == 0) continue;
    p->quantized = true;
    if (op->parts & WEIGHTS) take_codes(p, i, op, times);
    if (op->parts & STATIC) take_rounding(p, i, 0, times);
    if (op->parts & DYNAMIC) take_rounding(p, i, 1, times);
  }
  take_tensors(p);
  sort_groups(p);
}

// ---- both --------------------------------------------------------------------------------------

static const char *fewer_bits(const struct profile *a, const struct profile *b,
                              struct arena *arena) {
  for (uint32_t i = 0; i < STEPS; i++)
    if (b->weights[i] > a->weights[i] && b->weights[i] - a->weights[i] > b->elements / 64)
      return arena_printf(arena, "more weights of %u bits or fewer than in SRC", steps[i]);
  return NULL;
}

static const char *other_groups(const struct profile *a, const struct profile *b,
                                struct arena *arena) {
  for (uint32_t i = 0, k = 0; i < b->n_groups; i++) {
    const struct group *g = &b->groups[i];
    while (k < a->n_groups && by_bits(&a->groups[k], g) < 0)
      k++;
    if (k < a->n_groups && by_bits(&a->groups[k], g) == 0) continue;
    return g->block
               ? arena_printf(arena, "weights of %u bits in blocks of %u, and none of these in SRC",
                              g->bits, g->block)
               : arena_printf(arena, "weights of %u bits without blocks, and none of these in SRC",
                              g->bits);
  }
  return NULL;
}

static const char *more_rounding(const struct profile *a, const struct profile *b,
                                 struct arena *arena) {
  for (uint32_t kind = 0; kind < KINDS; kind++)
    for (uint32_t i = 0; i < STEPS; i++)
      if (b->rounded[kind][i] > a->rounded[kind][i])
        return arena_printf(arena, "activations rounded to %u bits at more places than in SRC",
                            steps[i]);
  return NULL;
}

static uint64_t bytes_of(const struct profile *p, enum dtype a, enum dtype b) {
  const struct model *m = p->m;
  uint64_t n = 0;
  for (uint32_t i = 0; i < m->n_tensors; i++)
    if (!(m->tensors[i].flags & TENSOR_DEAD) &&
        (m->tensors[i].dtype == a || m->tensors[i].dtype == b))
      n += m->tensors[i].bytes * times_of(m, p->calls, m->tensors[i].graph);
  return n;
}

// Small integers that stand for weights, as `shrink` stores them.
static bool has_codes(const struct profile *source, const struct profile *result) {
  const uint64_t before = bytes_of(source, DTYPE_INT8, DTYPE_UINT8),
                 after = bytes_of(result, DTYPE_INT8, DTYPE_UINT8);
  const uint64_t floats = bytes_of(source, DTYPE_FLOAT, DTYPE_DOUBLE);
  return after > before && after - before > floats / 64;
}

struct verify_losses verify_losses_of(const struct model *source, const struct model *result,
                                      struct infer *const in[2], struct arena *a) {
  struct profile p[2] = {{.m = source, .in = in[0]}, {.m = result, .in = in[1]}};
  struct arena scratch = {0};
  for (int side = 0; side < 2; side++)
    p[side].calls = count_calls(p[side].m, &scratch);
  const uint64_t half_before = bytes_of(&p[0], DTYPE_FLOAT16, DTYPE_BFLOAT16),
                 half_after = bytes_of(&p[1], DTYPE_FLOAT16, DTYPE_BFLOAT16);
  const enum dtype before = verify_half_computed(source, in[0]),
                   after = verify_half_computed(result, in[1]);
  struct verify_losses l = {.halved = half_after > half_before ||
                                      (after != DTYPE_UNDEFINED && after != before),
                            .half = half_after > 0 || before != DTYPE_UNDEFINED,
                            .half_before = half_before > 0 || before != DTYPE_UNDEFINED};
  for (int side = 0; side < 2; side++)
    take_model(&p[side], &scratch);
  const bool both = p[0].quantized && p[1].quantized;
  l.quantized = !both && (p[1].quantized || has_codes(&p[0], &p[1]));
  if (both) l.more = fewer_bits(&p[0], &p[1], a);
  if (both && !l.more) l.more = more_rounding(&p[0], &p[1], a);
  if (both && !l.more) l.more = other_groups(&p[0], &p[1], a);
  for (int side = 0; side < 2; side++)
    TABLE_FREE(&p[side], groups);
  arena_free(&scratch);
  return l;
}
