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
//
// Before an If, Loop or Scan whose bodies take the output it aborts (1.31.1) when it puts a Q and a DQ there, of any type:
//
//   DQ ─▶ Reshape ─▶ t ─▶ If { Relu(t) }
//
// Such nodes take the value before its Q as well; of operators on codes, who makes it stays float (not with compat).
#include "passes/int8_static/inside/static.h"

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

static bool is_quantized_for_that(struct static_run *s, uint32_t node) {
  const char *why;
  return static_is_moved_past(s, node) && static_takes(s, node, &why);
}

// The node of the graph that makes the value; NO_ID: none.
static uint32_t maker_here(const struct static_run *s, uint32_t value) {
  const uint32_t maker = value == NO_ID ? NO_ID : kit_maker(&s->k, value);
  return maker != NO_ID && s->k.m->nodes[maker].graph == s->graph ? maker : NO_ID;
}

// The value, and those that become it by nodes that vanish. (By who makes what, not by the list of nodes: that may not be sorted.)
static void note_passed(struct static_run *s, uint32_t value) {
  while (value != NO_ID && !s->moved_past[value]) {
    const uint32_t maker = maker_here(s, value);
    s->moved_past[value] = true;
    if (maker == NO_ID || kit_out(&s->k, maker, 0) != value || is_quantized_for_that(s, maker))
      return;
    value = static_vanishes(s, maker);
  }
}

void static_find_passed(struct static_run *s) {
  struct kit *k = &s->k;
  if (s->o->compat || s->o->activation != DTYPE_INT8 || s->opset < 21) return;
  TABLE_ADD(s, moved_past, k->m->n_values);
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
    if (is_quantized_for_that(s, n)) note_passed(s, kit_in(k, n, 0));
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

// Which nodes are such ones follows from who takes their outputs: each is asked again when one that does has become one, in whatever
// order the graph lists them.
struct bare_search {
  TABLE(uint32_t, others); // by value: how many slots of other nodes hold it
  TABLE(uint32_t, again);  // nodes
};

// Do such nodes alone take the value, so that it gets no Q?
static bool goes_to_bare_alone(struct static_run *s, const struct bare_search *b, uint32_t value) {
  return s->goes_to_bare[value] && b->others[value] == 0 && !kit_is_output(&s->k, value);
}

// Does a Q alone take the value, or will it?
static bool goes_to_q(struct static_run *s, const struct bare_search *b, uint32_t value) {
  const enum op op = kit_op(&s->k, kit_sole_user(&s->k, value));
  if (static_is_marked(s, value)) return !goes_to_bare_alone(s, b, value);
  return op == OP_QuantizeLinear || op == OP_ms_QuantizeLinear;
}

static void note_bare(struct static_run *s, struct bare_search *b, uint32_t node, uint32_t in) {
  s->bare[node] = s->goes_to_bare[in] = true;
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++) {
    const uint32_t value = kit_in(&s->k, node, i), maker = maker_here(s, value);
    if (value == NO_ID) continue;
    b->others[value]--;
    if (maker != NO_ID) *TABLE_PUSH(b, again) = maker;
  }
}

static void find_bare_at(struct static_run *s, struct bare_search *b, uint32_t node) {
  const uint32_t out = kit_out(&s->k, node, 0);
  if (s->bare[node] || out == NO_ID || goes_to_q(s, b, out)) return;
  uint32_t in = NO_ID;
  if (is_of_those(s, node))
    in = kit_in(&s->k, node, 0);
  else if (s->goes_to_bare[out])
    in = static_vanishes(s, node);
  if (in != NO_ID) note_bare(s, b, node, in);
}

void static_find_bare(struct static_run *s) {
  struct kit *k = &s->k;
  if (s->opset < OPSET_SAYS_TYPE) return;
  TABLE_ADD(s, bare, k->m->n_nodes);
  TABLE_ADD(s, goes_to_bare, k->m->n_values);
  struct bare_search b = {0};
  TABLE_ADD(&b, others, k->m->n_values);
  for (uint32_t v = 0; v < b.n_others; v++)
    for (struct kit_use u = kit_uses(k, v); kit_use(k, &u);)
      b.others[v]++;
  for (uint32_t n = k->m->graphs[s->graph].last_node; n != NO_ID; n = k->m->nodes[n].prev) {
    find_bare_at(s, &b, n);
    while (b.n_again > 0)
      find_bare_at(s, &b, b.again[--b.n_again]);
  }
  TABLES_FREE(&b, others, again);
}

bool static_is_bare(const struct static_run *s, uint32_t node, bool int8) {
  return (int8 && node < s->n_bare && s->bare[node]) || (node < s->n_raw && s->raw[node]);
}

bool static_goes_to_bare(const struct static_run *s, uint32_t value) {
  return value < s->n_goes_to_bare && s->goes_to_bare[value];
}

// ---- those whose outputs bodies take -----------------------------------------------------------------

// What a body takes, or what becomes that.
struct body_search {
  TABLE(uint8_t, seen);   // by value: bits of `enum before`
  TABLE(uint32_t, queue); // pairs (value, one of these)
  TABLE(bool, codes);     // by node: it gives codes (of operators on codes)
};
// `MOVED`: a node comes between, after which it puts a Q and a DQ.
enum before { UNMOVED = 1, MOVED = 2 };

static bool is_in_a_body(struct static_run *s, uint32_t value) {
  for (struct kit_use u = kit_uses(&s->k, value); kit_use(&s->k, &u);)
    if (s->k.m->nodes[u.node].graph != s->graph) return true;
  return false;
}

// Which nodes give codes: those that are taken, and of those that move elements the ones that take codes.
static void find_codes(struct static_run *s, struct body_search *b) {
  struct kit *k = &s->k;
  uint32_t *nodes;
  const uint32_t n_nodes = static_nodes(s, &nodes);
  TABLE_ADD(b, codes, k->m->n_nodes);
  for (uint32_t i = 0; i < n_nodes; i++) {
    const uint32_t n = nodes[i], maker = maker_here(s, kit_in(k, n, 0));
    const char *why;
    b->codes[n] = static_op_of(s, n)->qop != STATIC_O_FLOAT && static_takes(s, n, &why) &&
                  !static_kept(s, n) &&
                  (!static_moves(s, n) || (maker != NO_ID && b->codes[maker]));
  }
}

// Do a Q and a DQ follow the value, or are there codes of it, so that it puts none after it?
static bool has_codes(struct static_run *s, const struct body_search *b, uint32_t node,
                      uint32_t out) {
  return s->o->format == STATIC_QOPERATOR ? b->codes[node] : static_is_marked(s, out);
}

static void queue_value(struct body_search *b, uint32_t value, enum before how) {
  if (value == NO_ID || b->seen[value] & how) return;
  b->seen[value] |= (uint8_t)how;
  *TABLE_PUSH(b, queue) = value;
  *TABLE_PUSH(b, queue) = how;
}

static void stay_float(struct static_run *s, uint32_t node, uint32_t in) {
  if (s->o->format == STATIC_QOPERATOR) {
    const uint32_t maker = maker_here(s, in);
    if (maker == NO_ID)
      static_leave_value(s, in, "fused_operator");
    else
      static_keep(s, maker, "fused_operator");
    return;
  }
  if (node >= s->n_raw) TABLE_ADD(s, raw, node + 1 - s->n_raw);
  s->raw[node] = true;
}

static void look_before(struct static_run *s, struct body_search *b, uint32_t value,
                        enum before how) {
  const uint32_t maker = maker_here(s, value);
  if (maker == NO_ID || kit_out(&s->k, maker, 0) != value) return;
  const bool moves = is_of_those(s, maker);
  const uint32_t in = moves ? kit_in(&s->k, maker, 0) : static_vanishes(s, maker);
  if (in == NO_ID) return;
  if (moves) how = MOVED;
  if (how == MOVED) stay_float(s, maker, in);
  queue_value(b, in, how);
}

void static_find_before_bodies(struct static_run *s) {
  struct kit *k = &s->k;
  struct body_search b = {0};
  if (s->o->compat || k->m->n_graphs < 2) return;
  TABLE_ADD(&b, seen, k->m->n_values);
  if (s->o->format == STATIC_QOPERATOR) find_codes(s, &b);
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next) {
    const uint32_t out = kit_out(k, n, 0);
    if (out != NO_ID && is_in_a_body(s, out) && !has_codes(s, &b, n, out))
      queue_value(&b, out, UNMOVED);
  }
  while (b.n_queue > 0) {
    const enum before how = b.queue[--b.n_queue];
    look_before(s, &b, b.queue[--b.n_queue], how);
  }
  TABLES_FREE(&b, seen, codes, queue);
}

// ---- constants -----------------------------------------------------------------------------------

// As for those that are bare, each node is asked again when an input is found to be folded.
struct fold_search {
  TABLE(uint32_t, waits);  // by node: how many slots hold what is no constant, and not found yet
  TABLE(uint32_t, values); // found, whose users were not asked yet
};

// How many inputs has the node, constants or not?
static uint32_t count_waits(struct static_run *s, struct fold_search *f, uint32_t node) {
  uint32_t n = 0, tensor;
  for (uint32_t i = 0; i < kit_n_in(&s->k, node); i++) {
    const uint32_t in = kit_in(&s->k, node, i);
    if (in == NO_ID) continue;
    n++;
    if (!kit_constant(&s->k, in, &tensor)) f->waits[node]++;
  }
  return n;
}

static void note_folded(struct static_run *s, struct fold_search *f, uint32_t node) {
  uint32_t tensor;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++) {
    const uint32_t out = kit_out(&s->k, node, i);
    if (out == NO_ID) continue;
    s->folded[out] = true;
    if (!kit_constant(&s->k, out, &tensor)) *TABLE_PUSH(f, values) = out;
  }
}

static void find_folded(struct static_run *s) {
  struct kit *k = &s->k;
  struct fold_search f = {0};
  TABLE_ADD(s, folded, k->m->n_values);
  TABLE_ADD(&f, waits, k->m->n_nodes);
  for (uint32_t n = k->m->graphs[s->graph].first_node; n != NO_ID; n = k->m->nodes[n].next)
    if (count_waits(s, &f, n) > 0 && f.waits[n] == 0) note_folded(s, &f, n);
  while (f.n_values > 0)
    for (struct kit_use u = kit_uses(k, f.values[--f.n_values]); kit_use(k, &u);)
      if (k->m->nodes[u.node].graph == s->graph && --f.waits[u.node] == 0)
        note_folded(s, &f, u.node);
  TABLES_FREE(&f, waits, values);
}

bool static_is_folded(struct static_run *s, uint32_t value) {
  if (s->n_folded == 0) find_folded(s);
  return value < s->n_folded && s->folded[value];
}
