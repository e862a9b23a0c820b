// What ONNX Runtime does with nodes around which there are Q and DQ, when it loads a model: it puts a Q and a DQ after those that move
// elements, and takes away those that do nothing.
//
//   DQ ─▶ Transpose ─▶ t              DQ ─▶ Transpose ─▶ Q ─▶ DQ ─▶ t
//   DQ ─▶ Identity ─▶ Transpose       DQ ─▶ Transpose
//
// With int8 and from opset 21 on the Q of the first kind does not load: such nodes are quantized here (not with compat), with those that
// only pass their input on to them. One that stays float, since it is excluded, takes the value before its Q:
//
//   v ─┬─▶ Q ─▶ DQ ─▶ others
//      └─▶ Transpose ─▶ t
//
// or, of a value that is there as codes alone, what com.microsoft's DequantizeLinear makes of them: the Q after it says no type.
#include "static.h"

bool static_moves(const struct static_run *s, uint32_t node) {
  const struct static_op *op = static_op_named(model_name(s->k.m, s->k.m->nodes[node].op_type));
  return op && (op->qdq == STATIC_Q_SHARE || op->qdq == STATIC_Q_MAXPOOL) &&
         op->qop != STATIC_O_POOL;
}

bool static_is_moved_past(const struct static_run *s, uint32_t node) {
  return !s->o->compat && s->o->activation == DTYPE_INT8 && s->opset >= 21 && static_moves(s, node);
}

static bool is_number(struct static_run *s, uint32_t value, double number) {
  double x;
  return value != NO_ID && kit_const_scalar(&s->k, value, &x) && x == number;
}

// The operand of arithmetic that a number next to it does not change; NO_ID: neither.
static uint32_t unchanged(struct static_run *s, uint32_t node) {
  const uint32_t a = kit_in(&s->k, node, 0), b = kit_in(&s->k, node, 1);
  const enum op op = kit_op(&s->k, node);
  const double number = op == OP_Add || op == OP_Sub ? 0 : 1;
  const char *why;
  uint32_t passed = NO_ID;
  if (is_number(s, b, number))
    passed = a;
  else if ((op == OP_Add || op == OP_Mul) && is_number(s, a, number))
    passed = b;
  // Among operators on codes one that is asked for stays float where its input does.
  const bool is_float = s->o->format == STATIC_QOPERATOR && static_is_left(s, passed);
  return passed == NO_ID || (static_takes(s, node, &why) && !is_float) ? NO_ID : passed;
}

uint32_t static_vanishes(struct static_run *s, uint32_t node) {
  struct kit *k = &s->k;
  const uint32_t in = kit_in(k, node, 0);
  int64_t to;
  switch (kit_op(k, node)) {
  case OP_Identity: return in;
  case OP_Dropout: // not while it trains
    return kit_in(k, node, 2) == NO_ID || is_number(s, kit_in(k, node, 2), 0) ? in : NO_ID;
  case OP_Cast:
    return in != NO_ID && kit_attr_int(k, node, "to", 0, &to) && to == (int64_t)kit_dtype(k, in)
               ? in
               : NO_ID;
  case OP_Add:
  case OP_Sub:
  case OP_Mul:
  case OP_Div: return unchanged(s, node);
  default: return NO_ID;
  }
}

void static_find_passed(struct static_run *s) {
  struct kit *k = &s->k;
  struct {
    TABLE(uint32_t, nodes);
  } at = {0};
  if (s->o->compat || s->o->activation != DTYPE_INT8 || s->opset < 21) return;
  TABLE_ADD(s, moved_past, k->m->n_values);
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
    *TABLE_PUSH(&at, nodes) = n;
  for (uint32_t i = at.n_nodes; i > 0; i--) {
    const uint32_t n = at.nodes[i - 1], out = kit_out(k, n, 0);
    const char *why;
    const bool moves = static_is_moved_past(s, n) && static_takes(s, n, &why);
    const uint32_t in = moves ? kit_in(k, n, 0) : static_vanishes(s, n);
    if (in != NO_ID && (moves || (out != NO_ID && s->moved_past[out]))) s->moved_past[in] = true;
  }
  TABLE_FREE(&at, nodes);
}

uint32_t static_passes_codes(struct static_run *s, uint32_t node) {
  const uint32_t out = kit_out(&s->k, node, 0);
  const char *why;
  if (out >= s->n_moved_past || !s->moved_past[out] || static_takes(s, node, &why) || *why)
    return NO_ID;
  return static_is_left(s, out) || static_refused(s, node) ? NO_ID : static_vanishes(s, node);
}

// ---- those that stay float -----------------------------------------------------------------------

enum { OPSET_SAYS_TYPE = 21 }; // from there on a Q that it puts says its type

// Does it put a Q and a DQ after such a node? (static_moves knows more of them.)
static bool is_of_those(struct static_run *s, uint32_t node) {
  switch (kit_op(&s->k, node)) {
  case OP_MaxPool:
  case OP_Reshape:
  case OP_Slice:
  case OP_Squeeze:
  case OP_Transpose:
  case OP_Unsqueeze: return true;
  default: return false;
  }
}

// Do such nodes alone take the value, so that it gets no Q?
static bool goes_to_bare_alone(struct static_run *s, uint32_t value) {
  if (!s->goes_to_bare[value] || kit_is_output(&s->k, value)) return false;
  for (struct kit_use u = kit_uses(&s->k, value); kit_use(&s->k, &u);)
    if (!s->bare[u.node]) return false;
  return true;
}

// Does a Q alone take the value, or will it?
static bool goes_to_q(struct static_run *s, uint32_t value) {
  const enum op op = kit_op(&s->k, kit_sole_user(&s->k, value));
  if (static_is_marked(s, value)) return !goes_to_bare_alone(s, value);
  return op == OP_QuantizeLinear || op == OP_ms_QuantizeLinear;
}

void static_find_bare(struct static_run *s) {
  struct kit *k = &s->k;
  if (s->opset < OPSET_SAYS_TYPE) return;
  TABLE_ADD(s, bare, k->m->n_nodes);
  TABLE_ADD(s, goes_to_bare, k->m->n_values);
  for (uint32_t n = k->m->graphs[s->graph].last_node; n != NO_ID; n = k->m->nodes[n].prev) {
    const uint32_t out = kit_out(k, n, 0);
    if (out == NO_ID || goes_to_q(s, out)) continue;
    uint32_t in = NO_ID;
    if (is_of_those(s, n))
      in = kit_in(k, n, 0);
    else if (s->goes_to_bare[out])
      in = static_vanishes(s, n);
    if (in != NO_ID) s->bare[n] = s->goes_to_bare[in] = true;
  }
}

bool static_is_bare(const struct static_run *s, uint32_t node, bool int8) {
  return (int8 && node < s->n_bare && s->bare[node]) || (node < s->n_raw && s->raw[node]);
}

bool static_goes_to_bare(const struct static_run *s, uint32_t value) {
  return value < s->n_goes_to_bare && s->goes_to_bare[value];
}

// ---- constants -----------------------------------------------------------------------------------

static bool is_of_constants(struct static_run *s, uint32_t node) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++) {
    const uint32_t in = kit_in(&s->k, node, i);
    uint32_t tensor;
    if (in == NO_ID) continue;
    if (!kit_constant(&s->k, in, &tensor) && !(in < s->n_folded && s->folded[in])) return false;
    n++;
  }
  return n > 0;
}

bool static_is_folded(struct static_run *s, uint32_t value) {
  struct kit *k = &s->k;
  if (s->n_folded == 0) {
    TABLE_ADD(s, folded, k->m->n_values);
    for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
      for (uint32_t i = 0; i < kit_n_out(k, n); i++) {
        const uint32_t out = kit_out(k, n, i);
        if (out != NO_ID && out < s->n_folded) s->folded[out] = is_of_constants(s, n);
      }
  }
  return value < s->n_folded && s->folded[value];
}
