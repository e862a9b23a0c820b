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
// of models that are equal. All counts are those of the model as it would be written out (verify_uses.h): a constant that several nodes share
// and one that a function has for each of its calls count alike. Weights in fewer bits are a loss only where others have become fewer: more of
// them alone is a form of the same that the counts do not see through.
#include "verify/run/verify_losses.h"

#include "verify/run/verify_half.h"
#include "verify/run/verify_uses.h"

#include <stdlib.h>
#include <string.h>

// ---- operators ---------------------------------------------------------------------------------

enum part {
  WEIGHTS = 1, // codes with scales; `slot` has the codes
  STATIC = 2,  // rounds activations, by scales that it is given
  DYNAMIC = 4, // the same, by scales of what comes
};

// bits, block: the attributes for them, with their values where they are not written; NULL: the type of the codes says the bits, and
// the blocks are rows, columns or whole tensors. zeros: the slot of zero points, which are no weights: one form packs them in bytes; 0: none.
struct operator{
  const char *name;
  uint8_t parts, slot;
  const char *bits;
  uint8_t bits_unwritten;
  const char *block;
  uint8_t block_unwritten;
  uint8_t zeros;
};

static const struct operator operators[] = {
    {"MatMulNBits", WEIGHTS, 1, "bits", 4, "block_size", 0, 3},
    {"GatherBlockQuantized", WEIGHTS, 0, "bits", 4, "block_size", 128, 3},
    {"QMoE", WEIGHTS, 2, "expert_weight_bits", 4, "block_size", 0, 0},
    {"MatMulBnb4", WEIGHTS, 1, NULL, 4, "block_size", 0, 0},
    {"DequantizeLinear", WEIGHTS, 0, NULL, 0, "block_size", 0, 2},
    {"MatMulInteger", WEIGHTS, 1, NULL, 0, NULL, 0, 0},
    {"ConvInteger", WEIGHTS, 1, NULL, 0, NULL, 0, 0},
    {"MatMulIntegerToFloat", WEIGHTS, 1, NULL, 0, NULL, 0, 0},
    {"DynamicQuantizeMatMul", WEIGHTS | DYNAMIC, 1, NULL, 0, NULL, 0, 0},
    {"DynamicQuantizeLinear", DYNAMIC, 0, NULL, 0, NULL, 0, 0},
    {"QuantizeLinear", STATIC, 0, NULL, 0, NULL, 0, 2},
    {"QGemm", WEIGHTS | STATIC, 3, NULL, 0, NULL, 0, 0},
};
// Those that compute on codes and round their result: QLinearConv, QLinearAdd …
static const struct operator on_codes = {"QLinear", WEIGHTS | STATIC, 3, NULL, 0, NULL, 0, 0};

static const struct operator* operator_of(const struct model *m, uint32_t node) {
  const struct span op = model_name(m, m->nodes[node].op_type);
  const size_t n = strlen(on_codes.name);
  if (m->nodes[node].flags & NODE_DEAD) return NULL;
  if (op.n > n && memcmp(op.at, on_codes.name, n) == 0) return &on_codes;
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
    if (span_is(op, operators[i].name)) return &operators[i];
  return NULL;
}

// ---- one model ---------------------------------------------------------------------------------

static const uint32_t steps[] = {2, 3, 4, 8, 16};
enum { STEPS = sizeof steps / sizeof *steps, KINDS = 2 };

struct group {
  uint32_t bits, block;
};

struct codes {
  bool are;
  int64_t bits, block; // bits: 0: those of the type
};

struct profile {
  const struct model *m;
  struct infer *in;
  struct verify_uses uses;
  bool quantized;
  uint64_t elements;              // of all weights
  uint64_t weights[STEPS];        // elements in so many bits or fewer
  uint64_t rounded[KINDS][STEPS]; // places; static, dynamic
  uint64_t reads[KINDS][STEPS];   // of what is rounded there
  TABLE(struct group, groups);    // sorted, each once
  uint8_t *counted;               // by tensor
  struct codes *given;            // by value, of inputs of functions; NULL: there are no functions
};

static void add_weights(struct profile *p, uint64_t elements, uint32_t bits) {
  p->elements += elements;
  for (uint32_t i = 0; i < STEPS; i++)
    if (bits <= steps[i]) p->weights[i] += elements;
}

// Codes that something computes with, and how they are grouped. Those that a function is given are found where it is called.
static void take_codes(struct profile *p, uint32_t value, struct codes of) {
  const struct model *m = p->m;
  struct model_constant c;
  if (value == NO_ID) return;
  const struct model_value *v = &m->values[value];
  if (v->kind == VALUE_INPUT && m->graphs[v->graph].kind == GRAPH_FUNCTION) p->given[value] = of;
  if (!model_resolve_constant(m, value, &c)) return;
  const struct model_tensor *t = &m->tensors[c.tensor];
  if (of.bits == 0) of.bits = dtype_bits((enum dtype)t->dtype);
  if (of.bits <= 0 || of.bits > 16 || of.block < 0 || of.block > UINT32_MAX || p->counted[c.tensor])
    return;
  p->counted[c.tensor] = 1;
  add_weights(p, t->bytes * 8 / (uint64_t)of.bits * verify_uses_of_tensor(&p->uses, c.tensor),
              (uint32_t)of.bits);
  *TABLE_PUSH(p, groups) = (struct group){(uint32_t)of.bits, (uint32_t)of.block};
}

static void take_zeros(struct profile *p, uint32_t node, const struct operator* op) {
  const struct model_node *n = &p->m->nodes[node];
  const uint32_t value = op->zeros && n->n_in > op->zeros ? model_input(p->m, n, op->zeros) : NO_ID;
  struct model_constant c;
  if (value != NO_ID && model_resolve_constant(p->m, value, &c)) p->counted[c.tensor] = 1;
}

static void take_operand(struct profile *p, uint32_t node, const struct operator* op) {
  const struct model *m = p->m;
  struct codes of = {true, op->bits_unwritten, op->block_unwritten};
  if (op->bits && !model_attr_int(m, node, op->bits, of.bits, &of.bits)) return;
  if (op->block && !model_attr_int(m, node, op->block, of.block, &of.block)) return;
  take_codes(p, model_input(m, &m->nodes[node], op->slot), of);
}

static void take_call(struct profile *p, uint32_t node) {
  const struct model_node *n = &p->m->nodes[node];
  for (uint32_t k = 0; k < n->n_in; k++) {
    const uint32_t inside = verify_uses_inside(&p->uses, node, k);
    if (inside != NO_ID && p->given[inside].are)
      take_codes(p, model_input(p->m, n, k), p->given[inside]);
  }
}

// Operators that round what they compute with have one reader of it.
static void take_rounding(struct profile *p, uint32_t node, uint32_t kind, bool computes) {
  const uint32_t times = verify_uses_of_graph(&p->uses, p->m->nodes[node].graph);
  const uint32_t value = model_output(p->m, &p->m->nodes[node], 0);
  struct infer_type t;
  uint32_t bits = 8;
  if (value != NO_ID && infer_type_of(p->in, value, &t) && t.kind == INFER_TENSOR &&
      dtype_bits(t.dtype) > 0 && dtype_bits(t.dtype) <= 16 && !dtype_is_float(t.dtype))
    bits = dtype_bits(t.dtype);
  const uint32_t reads = computes || value == NO_ID ? times : verify_uses_of_value(&p->uses, value);
  for (uint32_t i = 0; i < STEPS; i++) {
    p->rounded[kind][i] += bits <= steps[i] ? times : 0;
    p->reads[kind][i] += bits <= steps[i] ? reads : 0;
  }
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

// Elements of a weight, 0: it is none, as shapes and axes.
static uint64_t elements_of(const struct profile *p, uint32_t tensor) {
  const struct model_tensor *t = &p->m->tensors[tensor];
  const uint32_t bits = dtype_bits((enum dtype)t->dtype);
  if (t->flags & TENSOR_DEAD || bits == 0 || t->dtype == DTYPE_BOOL ||
      (bits > 16 && !dtype_is_float((enum dtype)t->dtype)))
    return 0;
  return t->bytes * 8 / bits * verify_uses_of_tensor(&p->uses, tensor);
}

// Weights of some size.
static void take_tensors(struct profile *p) {
  for (uint32_t i = 0; i < p->m->n_tensors; i++) {
    const struct model_tensor *t = &p->m->tensors[i];
    const uint64_t elements = elements_of(p, i);
    if (p->counted[i] || elements == 0 || t->bytes < 16) continue;
    add_weights(p, elements, dtype_bits((enum dtype)t->dtype));
  }
}

static void take_model(struct profile *p, struct arena *a) {
  p->counted = arena_zalloc(a, p->m->n_tensors + (size_t)1);
  if (p->m->n_functions)
    p->given = arena_zalloc(a, (p->m->n_values + (size_t)1) * sizeof *p->given);
  for (uint32_t k = 0; k < p->uses.n_order; k++) {
    const uint32_t i = p->uses.order[k];
    if (verify_uses_of_graph(&p->uses, p->m->nodes[i].graph) == 0) continue;
    take_call(p, i);
    const struct operator* op = operator_of(p->m, i);
    if (!op) continue;
    p->quantized = true;
    take_zeros(p, i, op);
    if (op->parts & WEIGHTS) take_operand(p, i, op);
    if (op->parts & STATIC) take_rounding(p, i, 0, false);
    if (op->parts & DYNAMIC) take_rounding(p, i, 1, op->parts & WEIGHTS);
  }
  take_tensors(p);
  sort_groups(p);
}

// ---- both --------------------------------------------------------------------------------------

// How many more weights are in the narrow form, if others became fewer. A quarter of them: with codes come scales, which are weights too.
static uint64_t narrowed(const uint64_t before[2], const uint64_t after[2]) {
  const uint64_t more = after[0] > before[0] ? after[0] - before[0] : 0;
  return after[1] < before[1] && before[1] - after[1] > more / 4 ? more : 0;
}

static const char *fewer_bits(const struct profile *a, const struct profile *b,
                              struct arena *arena) {
  for (uint32_t i = 0; i < STEPS; i++) {
    const uint64_t before[] = {a->weights[i], a->elements - a->weights[i]},
                   after[] = {b->weights[i], b->elements - b->weights[i]};
    if (narrowed(before, after) > b->elements / 64)
      return arena_printf(arena, "more weights of %u bits or fewer than in SRC", steps[i]);
  }
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
               ? arena_printf(arena, "weights of %u bits in blocks of %u, which SRC does not have",
                              g->bits, g->block)
               : arena_printf(arena, "weights of %u bits without blocks, which SRC does not have",
                              g->bits);
  }
  return NULL;
}

// At more places, for more readers: a number that is rounded for each of its readers is the same as one that they share.
static const char *more_rounding(const struct profile *a, const struct profile *b,
                                 struct arena *arena) {
  for (uint32_t kind = 0; kind < KINDS; kind++)
    for (uint32_t i = 0; i < STEPS; i++)
      if (b->rounded[kind][i] > a->rounded[kind][i] && b->reads[kind][i] > a->reads[kind][i])
        return arena_printf(arena, "activations rounded to %u bits at more places than in SRC",
                            steps[i]);
  return NULL;
}

// Weights of these two types, and all others.
static void by_type(const struct profile *p, enum dtype a, enum dtype b, uint64_t out[2]) {
  out[0] = out[1] = 0;
  for (uint32_t i = 0; i < p->m->n_tensors; i++) {
    const enum dtype t = (enum dtype)p->m->tensors[i].dtype;
    out[t == a || t == b ? 0 : 1] += elements_of(p, i);
  }
}

// Small integers that stand for weights, as `shrink` stores them.
static bool has_codes(const struct profile *source, const struct profile *result) {
  uint64_t before[2], after[2], floats[2];
  by_type(source, DTYPE_INT8, DTYPE_UINT8, before);
  by_type(result, DTYPE_INT8, DTYPE_UINT8, after);
  by_type(source, DTYPE_FLOAT, DTYPE_DOUBLE, floats);
  return narrowed(before, after) > floats[0] / 16;
}

struct verify_losses verify_losses_of(const struct model *source, const struct model *result,
                                      struct infer *const in[2], struct arena *a) {
  struct profile p[2] = {{.m = source, .in = in[0]}, {.m = result, .in = in[1]}};
  struct arena scratch = {0};
  for (int side = 0; side < 2; side++)
    verify_uses_find(&p[side].uses, p[side].m, &scratch);
  uint64_t stored[2], stores[2];
  by_type(&p[0], DTYPE_FLOAT16, DTYPE_BFLOAT16, stored);
  by_type(&p[1], DTYPE_FLOAT16, DTYPE_BFLOAT16, stores);
  const enum dtype before = verify_half_computed(source, in[0]),
                   after = verify_half_computed(result, in[1]);
  struct verify_losses l = {.halved = narrowed(stored, stores) > 0 ||
                                      (after != DTYPE_UNDEFINED && after != before),
                            .half = stores[0] > 0 || before != DTYPE_UNDEFINED,
                            .half_before = stored[0] > 0 || before != DTYPE_UNDEFINED};
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
