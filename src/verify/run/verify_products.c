// An optimized session multiplies codes where the model says floats:
//
//   x ─▶ Q ─▶ DQ ─▶ MatMul ─▶ …        x ─▶ Q ─▶ MatMulIntegerToFloat ─▶ …
//   w (int8) ─▶ DQ ──▲                 w (int8) ────▲
//
// A verification runs the first, unless it is told to optimize. On x86 without VNNI the second cuts off sums of two products beyond 16
// bits, so that nothing was seen of the accuracy there. Operators on codes that the model has itself are run as they are. Weights of 7 bits
// (--reduce-range) leave room for any sum.
#include "verify/run/verify_products.h"

// ---- this processor ------------------------------------------------------------------------------

#if defined __x86_64__
#include <cpuid.h>

static bool has_vnni(void) {
  enum { AVX512_VNNI = 1 << 11, AVX_VNNI = 1 << 4 };
  unsigned a, b, c, d;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && c & AVX512_VNNI) return true;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & AVX_VNNI;
}
#else
static bool has_vnni(void) {
  return true; // or no need of it
}
#endif

// A constant matrix of int8, or one of more dims, that is no table and is not dequantized first.
static bool multiplies_int8(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  if (model_op_is(m, node, "Gather") || span_is(model_name(m, n->op_type), "DequantizeLinear"))
    return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t value = model_input(m, n, i);
    if (value != NO_ID && model_resolve_constant(m, value, &c) &&
        m->tensors[c.tensor].dtype == DTYPE_INT8 && m->tensors[c.tensor].rank >= 2)
      return true;
  }
  return false;
}

bool verify_products_cut_at(const struct model *result, const struct site *s) {
  for (uint32_t i = 0; i < s->n_after && !has_vnni(); i++)
    if (multiplies_int8(result, s->after[i])) return true;
  return false;
}

enum {
  MOVES_MOST = 64,  // nodes between codes and their product that move elements
  LARGEST_HELD = 64 // two products of it with 255 fit 16 bits
};

// What may be cut off, by tensor.
enum seen { UNSEEN, HELD, LARGE };

struct products {
  const struct model *m;
  struct sources *sources;
  const struct recipes *recipes;
  uint8_t *seen;
  uint8_t *buffer;
};
enum { BUFFER_BYTES = 1 << 16 };

// Of ONNX, or of com.microsoft, which has these operators too.
static bool is_op(const struct model *m, uint32_t node, const char *op_type) {
  const struct model_node *n = &m->nodes[node];
  return model_op_is(m, node, op_type) || (span_is(model_name(m, n->op_type), op_type) &&
                                           span_is(model_name(m, n->domain), "com.microsoft"));
}

static bool is_one_of(const struct model *m, uint32_t node, const char *const *words) {
  while (*words && !is_op(m, node, *words))
    words++;
  return *words != NULL;
}

// The value whose elements it has, before nodes that move them, or that a runtime takes away; NO_ID: they are left out.
static uint32_t unmoved(const struct model *m, uint32_t value) {
  static const char *const moving[] = {"Identity",  "Flatten",   "Reshape", "Squeeze", "Slice",
                                       "Transpose", "Unsqueeze", "Dropout", "Cast",    NULL};
  for (uint32_t i = 0; i < MOVES_MOST && value != NO_ID; i++) {
    if (m->values[value].kind != VALUE_NODE_OUTPUT) break;
    const uint32_t node = m->values[value].def;
    if (m->nodes[node].n_in == 0 || !is_one_of(m, node, moving)) break;
    value = model_input(m, &m->nodes[node], 0);
  }
  return value;
}

uint32_t verify_products_codes(const struct model *m, uint32_t value) {
  value = unmoved(m, value);
  if (value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT) return NO_ID;
  const struct model_node *n = &m->nodes[m->values[value].def];
  const bool dequantizes = is_op(m, m->values[value].def, "DequantizeLinear") && n->n_in > 0;
  return dequantizes ? unmoved(m, model_input(m, n, 0)) : NO_ID;
}

// The type of codes: their constant's, that of the zero point they were made with, or uint8, which QuantizeLinear makes without one.
enum dtype verify_products_type(const struct model *m, uint32_t value) {
  struct model_constant c;
  struct model_type t;
  if (value == NO_ID) return DTYPE_UNDEFINED;
  if (model_resolve_constant(m, value, &c)) return m->tensors[c.tensor].dtype;
  if (m->values[value].kind == VALUE_NODE_OUTPUT &&
      is_op(m, m->values[value].def, "DynamicQuantizeLinear"))
    return DTYPE_UINT8;
  if (m->values[value].kind == VALUE_NODE_OUTPUT &&
      is_op(m, m->values[value].def, "QuantizeLinear")) {
    const struct model_node *n = &m->nodes[m->values[value].def];
    const uint32_t zero = n->n_in > 2 ? model_input(m, n, 2) : NO_ID;
    if (zero == NO_ID) return DTYPE_UINT8;
    return model_resolve_constant(m, zero, &c) ? m->tensors[c.tensor].dtype : DTYPE_UNDEFINED;
  }
  return model_types_get(NULL, m, value, &t) ? t.dtype : DTYPE_UNDEFINED;
}

static bool is_large(const uint8_t *codes, size_t n) {
  for (size_t i = 0; i < n; i++)
    if ((int8_t)codes[i] > LARGEST_HELD || (int8_t)codes[i] < -LARGEST_HELD) return true;
  return false;
}

// Will codes that no file has yet be of 7 bits?
static bool is_reduced(const struct products *p, const struct model_tensor *t) {
  struct recipe_quantization q;
  if (!p->recipes || !(t->flags & (TENSOR_NEW | TENSOR_REPLACED)) || t->recipe == NO_ID)
    return false;
  const uint32_t codes = recipe_unmoved(p->recipes, t->recipe);
  return p->recipes->rows[codes].kind == RECIPE_QUANTIZE_LINEAR &&
         recipe_quantize_linear_found(p->recipes, codes, &q) && q.reduced;
}

// Has the constant a code whose products may be cut off? It is read once.
static int look_at(struct products *p, uint32_t tensor, bool *large, struct err *err) {
  struct extent at = {0};
  struct span small;
  enum seen seen = (enum seen)p->seen[tensor];
  if (seen == UNSEEN && model_small_value(p->m, tensor, &small))
    seen = is_large(small.at, small.n) ? LARGE : HELD;
  else if (seen == UNSEEN && (!p->sources || !model_plain_place(p->m, tensor, &at)))
    seen = is_reduced(p, &p->m->tensors[tensor]) ? HELD : LARGE;
  for (uint64_t done = 0; seen == UNSEEN && done < at.len;) {
    const size_t n = (size_t)min_u64(BUFFER_BYTES, at.len - done);
    if (sources_read(p->sources, at.file, at.off + done, p->buffer, n, err)) return -1;
    if (is_large(p->buffer, n)) seen = LARGE;
    done += n;
  }
  if (seen == UNSEEN) seen = HELD;
  p->seen[tensor] = (uint8_t)seen;
  *large = seen == LARGE;
  return 0;
}

// *cut: does an optimized session multiply codes at the node, and may it cut sums off?
static int look_at_node(struct products *p, uint32_t node, bool *cut, struct err *err) {
  static const char *const products[] = {"Conv", "Gemm", "MatMul", NULL};
  const struct model *m = p->m;
  const struct model_node *n = &m->nodes[node];
  struct model_constant c;
  *cut = false;
  if (n->flags & NODE_DEAD || n->n_in < 2 || !is_one_of(m, node, products)) return 0;
  const uint32_t codes = verify_products_codes(m, model_input(m, n, 1));
  const enum dtype first = verify_products_type(m, verify_products_codes(m, model_input(m, n, 0)));
  if (verify_products_type(m, codes) != DTYPE_INT8 || (first != DTYPE_UINT8 && first != DTYPE_INT8))
    return 0;
  if (model_resolve_constant(m, codes, &c)) return look_at(p, c.tensor, cut, err);
  *cut = true;
  return 0;
}

int verify_products_see(struct verify *v, const struct model *m, struct sources *s,
                        const struct recipes *recipes, struct err *err) {
  struct arena a = {0};
  struct products p = {.m = m, .sources = s, .recipes = recipes};
  bool cut = false;
  int rc = 0;
  if (v->options.runtime.optimized || v->found.products_unseen || v->found.cuda || has_vnni())
    return 0;
  p.seen = arena_zalloc(&a, m->n_tensors + (size_t)1);
  p.buffer = arena_alloc(&a, BUFFER_BYTES);
  for (uint32_t i = 0; i < m->n_nodes && rc == 0 && !cut; i++)
    rc = look_at_node(&p, i, &cut, err);
  v->found.products_unseen = cut;
  arena_free(&a);
  return rc;
}
