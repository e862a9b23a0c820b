// Which constants say sizes, and are no weights, whatever their type:
//
//   scales ─────────────────────────▶ Resize        n ─▶ Cast ─▶ Mul(0.5) ─▶ Floor ─▶ Cast ─▶ Reshape
//
// A constant does if a node takes it where sizes stand (weights_sizes.def), or if it has few elements and what is
// computed with it, element by element or as a product of matrices, comes there or where only integers stand. No more uses of
// that are looked at than STEPS.
#include "passes/kit/weights.h"

#include "passes/kit/inside/kit_inside.h"

#include "schema/schema.h"

enum { FEW = 64, STEPS = 256 };

static const struct {
  enum op op;
  uint32_t first, last;
} slots[] = {
#define SIZES(op, first, last) {OP_##op, first, last},
#include "passes/kit/weights_sizes.def"
#undef SIZES
};

static bool is_size_slot(enum op op, uint32_t slot) {
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
    if (slots[i].op == op && slot >= slots[i].first && slot <= slots[i].last) return true;
  return false;
}

// Does the operator take nothing but integers there?
static bool is_whole_slot(const struct kit *k, uint32_t node, uint32_t slot) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  const struct schema_signature *s =
      schema_signature_of(model_name(m, n->domain), model_name(m, n->op_type),
                          model_opset_version(m, n->graph, model_name(m, n->domain)));
  const struct schema_formal *f = s ? schema_input(s, slot) : NULL;
  const uint32_t whole = 1u << DTYPE_INT64 | 1u << DTYPE_INT32;
  return f && f->types->dtypes[SCHEMA_TENSOR] && (f->types->dtypes[SCHEMA_TENSOR] & ~whole) == 0;
}

// Are elements of what it makes those of the slot, or computed with one of them?
static bool passes_on(enum op op, uint32_t slot) {
  switch (op) {
  case OP_Cast:
  case OP_Identity:
  case OP_Gather:
  case OP_Slice:
  case OP_Squeeze:
  case OP_Unsqueeze:
  case OP_Transpose:
  case OP_Reshape: return slot == 0;
  case OP_Concat:
  case OP_MatMul:
  case OP_Gemm: return true;
  default: return kit_op_has(op, KIT_ELEMENTWISE) && !kit_op_has(op, KIT_COMPARES);
  }
}

static bool is_few(const struct kit *k, uint32_t tensor) {
  const struct model_tensor *t = &k->m->tensors[tensor];
  uint64_t n;
  return dims_product(model_dims(k->m, t), t->rank, &n) && n <= FEW;
}

bool weights_says_sizes(struct kit *k, uint32_t weight, uint32_t tensor) {
  uint32_t waiting[STEPS], n = 0, seen = 0, steps = 0;
  const bool follows = is_few(k, tensor);
  waiting[n++] = weight;
  while (seen < n) {
    const uint32_t value = waiting[seen++];
    for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);) {
      const enum op op = kit_op(k, u.node);
      if (value != weight && ++steps > STEPS) return false;
      if (is_size_slot(op, u.slot)) return true;
      if (value != weight && is_whole_slot(k, u.node, u.slot)) return true;
      const bool goes_on = follows ? passes_on(op, u.slot) : op == OP_Identity;
      if (goes_on && n < STEPS && kit_out(k, u.node, 0) != NO_ID)
        waiting[n++] = kit_out(k, u.node, 0);
    }
  }
  return false;
}
