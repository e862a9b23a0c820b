// Whole numbers, truth values and strings of a model: where no float has a part in them, the same model gives the same ones. A float
// that is computed in another order differs in its last bits, and what is made of it may differ by a step, or be another place:
//
//   x ─▶ Conv ─▶ Mul ─▶ Cast to int32 ─▶ y       Conv rounds, Cast jumps: one step
//   x ─▶ Conv ─▶ ArgMax ─▶ y                     another place, of two that are nearly as large
//   x ─▶ Conv ─▶ Cast to int32 ─▶ ArgMax ─▶ y    likewise
//   ids ─▶ Add ─▶ y     x ─▶ Cast to int64 ─▶ z  equal
//
// The same holds where these are stored as floats:  x ─▶ Conv ─▶ ArgMax ─▶ Cast to float ─▶ Transpose ─▶ y
//
// The schema says which operators jump and which round nothing.
#include "verify/models/verify_random.h"

#include "verify/models/verify_walk.h"

static enum dtype type_of(struct infer *in, uint32_t value) {
  struct infer_type t;
  return infer_type_of(in, value, &t) ? t.dtype : DTYPE_UNDEFINED;
}

static bool may_be_float(enum dtype t) {
  return t == DTYPE_UNDEFINED || dtype_is_float(t);
}

// Is one of the values that the node reads a float, as far as is known?
static bool reads_floats(const struct model *m, struct infer *in, uint32_t node) {
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t value = model_input(m, &m->nodes[node], i);
    if (value != NO_ID && may_be_float(type_of(in, value))) return true;
  }
  return false;
}

// What it makes: floats, something else, or either where that is not known. An attribute may say it where nothing else does.
struct makes {
  bool floats, others, said;
};

static struct makes makes_of(struct schema_names *names, struct infer *in, uint32_t node) {
  const struct model *m = names->m;
  const struct schema_signature *s = schema_of_node_at(names, node);
  struct makes made = {.floats = false};
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++) {
    const uint32_t value = model_output(m, &m->nodes[node], i);
    if (value == NO_ID) continue;
    const enum dtype said = s ? schema_attribute_type(m, node, s, i) : DTYPE_UNDEFINED;
    const enum dtype known = type_of(in, value);
    const enum dtype t = known == DTYPE_UNDEFINED ? said : known;
    made.floats = made.floats || may_be_float(t);
    made.others = made.others || !dtype_is_float(t);
    made.said = made.said || dtype_is_float(said);
  }
  return made;
}

// Does output `slot` hold places, whatever the type of the elements? These are int64 in any node.
static bool holds_places(const struct model *m, uint32_t node, uint32_t slot) {
  const struct schema_operator *op = schema_operator_of(model_name(m, m->nodes[node].domain),
                                                        model_name(m, m->nodes[node].op_type));
  if (!op || !op->n_versions || !(op->flags & SCHEMA_JUMPS) || !(op->flags & SCHEMA_UNROUNDED))
    return false;
  const struct schema_formal *out = schema_output(&op->versions[op->n_versions - 1], slot);
  return out && out->types->dtypes[SCHEMA_TENSOR] == UINT32_C(1) << DTYPE_INT64;
}

static bool chooses(const struct model *m, uint32_t node) {
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++)
    if (model_output(m, &m->nodes[node], i) != NO_ID && holds_places(m, node, i)) return true;
  return false;
}

uint8_t verify_whole_does(struct schema_names *names, struct infer *in, uint32_t node) {
  const struct schema_operator *op = schema_of_node(names, node);
  const struct makes made = makes_of(names, in, node);
  const unsigned flags = op ? op->flags : SCHEMA_JUMPS; // what nobody knows may do anything
  const bool casts = op && span_is(span_str(schema_rule_row(op->rule)->family), "cast");
  unsigned does = made.said ? VERIFY_FLOATS : 0;
  if (flags & SCHEMA_DIMS) does |= VERIFY_BY_DIMS;
  if (!(flags & SCHEMA_UNROUNDED) && made.floats) does |= VERIFY_ROUNDS;
  if (!(flags & SCHEMA_JUMPS) || !made.others) return (uint8_t)does;
  if (!reads_floats(names->m, in, node))
    return (uint8_t)(chooses(names->m, node) ? does | VERIFY_CHOOSES : does);
  does |= VERIFY_JUMPS;
  if (!(flags & SCHEMA_UNROUNDED) && !casts) does |= VERIFY_COMPUTES;
  if ((flags & SCHEMA_UNROUNDED) && !casts) does |= VERIFY_PICKS;
  return (uint8_t)does;
}

// A function does nothing with floats where it is given none and makes none.
static unsigned does(const struct verify_random *r, uint32_t node) {
  const unsigned all = r->does[node];
  return r->calls[node] && !(all & VERIFY_FLOATS) && !reads_floats(r->m, r->in, node) ? 0 : all;
}

// May it be a place, if floats decide it?
static bool is_place(enum dtype t) {
  return !dtype_is_float(t) && t != DTYPE_BOOL;
}

// A node that picks makes places alone, or the elements there first (TopK): then it is up to which of them is read.
static bool picks_places(const struct verify_random *r, uint32_t node) {
  const struct model *m = r->m;
  const uint32_t first = m->nodes[node].n_out ? model_output(m, &m->nodes[node], 0) : NO_ID;
  return first != NO_ID && does(r, node) & VERIFY_PICKS && is_place(type_of(r->in, first));
}

static bool reads_place(const struct verify_random *r, uint32_t value) {
  if (value == NO_ID || r->m->values[value].kind != VALUE_NODE_OUTPUT) return false;
  return does(r, r->m->values[value].def) & VERIFY_PICKS && is_place(type_of(r->in, value));
}

static bool reads_places(const struct verify_random *r, uint32_t node) {
  for (uint32_t i = 0; i < r->m->nodes[node].n_in; i++)
    if (reads_place(r, model_input(r->m, &r->m->nodes[node], i))) return true;
  return false;
}

// Is the value made of places of whole numbers? Those that a function makes have no slot here.
static bool is_chosen(const struct verify_random *r, uint32_t value) {
  const struct model *m = r->m;
  if (value == NO_ID || m->values[value].kind != VALUE_NODE_OUTPUT) return false;
  const uint32_t node = m->values[value].def;
  if (!(does(r, node) & VERIFY_CHOOSES)) return false;
  if (r->calls[node]) return type_of(r->in, value) == DTYPE_INT64;
  for (uint32_t i = 0; i < m->nodes[node].n_out; i++)
    if (model_output(m, &m->nodes[node], i) == value) return holds_places(m, node, i);
  return false;
}

// The nodes of places that the node reads, or makes for a body to give. Dims of places are no places, but counts.
static void see_chosen(struct verify_walk *w, uint32_t node) {
  const struct model *m = w->r->m;
  const struct model_node *n = &m->nodes[node];
  const bool inner = m->graphs[n->graph].kind == GRAPH_SUB;
  if (does(w->r, node) & VERIFY_BY_DIMS) return;
  for (uint32_t i = 0; i < n->n_in; i++)
    if (is_chosen(w->r, model_input(m, n, i))) verify_walk_see(w, model_input(m, n, i));
  for (uint32_t i = 0; inner && i < n->n_out; i++) {
    const uint32_t value = model_output(m, n, i);
    if (is_chosen(w->r, value) && m->values[value].n_graph_outputs) verify_walk_see(w, value);
  }
}

// Does a node do `what` before those that `w` has seen, or in functions that they call?
static bool is_done_before(struct verify_walk *w, unsigned what) {
  while (w->n_list > 0) {
    const uint32_t node = w->list[--w->n_list];
    if (does(w->r, node) & what) return true;
    if (!verify_walk_ends(w->r, node)) verify_walk_see_before(w, node);
  }
  return false;
}

enum verify_whole verify_whole_of(const struct verify_random *r, uint32_t place) {
  struct verify_walk after, before; // up to what jumps; what is before that
  struct verify_walk chosen;        // places of whole numbers, and what is before them
  const uint32_t value = verify_walk_output(r, place);
  bool rounded = false, picks = false, places = reads_place(r, value);
  if (value == NO_ID) return VERIFY_WHOLE_EQUAL;
  verify_walk_begin(&after, r);
  verify_walk_begin(&before, r);
  verify_walk_begin(&chosen, r);
  verify_walk_see(&after, value);
  if (is_chosen(r, value)) verify_walk_see(&chosen, value);
  while (after.n_list > 0) {
    const uint32_t node = after.list[--after.n_list];
    const unsigned all = does(r, node);
    if (all & VERIFY_JUMPS) verify_walk_see_before(&before, node);
    rounded = rounded || all & VERIFY_COMPUTES ||
              (all & VERIFY_JUMPS && all & VERIFY_ROUNDS && r->calls[node]);
    picks = picks || all & VERIFY_PICKS;
    if (verify_walk_ends(r, node)) continue;
    places = places || picks_places(r, node) || reads_places(r, node);
    see_chosen(&chosen, node);
    verify_walk_see_before(&after, node);
  }
  rounded = rounded || is_done_before(&before, VERIFY_ROUNDS);
  places = places || is_done_before(&chosen, VERIFY_JUMPS);
  verify_walk_end(&chosen);
  verify_walk_end(&before);
  verify_walk_end(&after);
  if (!rounded) return VERIFY_WHOLE_EQUAL;
  return places ? VERIFY_WHOLE_PLACE : picks ? VERIFY_WHOLE_CLOSE : VERIFY_WHOLE_STEP;
}

// ---- whole numbers that are stored as floats -----------------------------------------------------

static bool is_cast(const struct model *m, uint32_t node) {
  return model_op_is(m, node, "Cast") || model_op_is(m, node, "CastLike");
}

// What makes the value is looked at, if it may be a float. False: it is one that nothing stored.
static bool see_stored(struct verify_walk *w, uint32_t value) {
  const struct verify_random *r = w->r;
  if (value == NO_ID || !may_be_float(type_of(r->in, value))) return true;
  if (r->m->values[value].kind != VALUE_NODE_OUTPUT) return false;
  verify_walk_see(w, value);
  return true;
}

// Does the node only move or cast elements, as far as can be told here?
static bool is_storing(const struct verify_random *r, uint32_t node) {
  if (r->calls[node] || r->inner[node] || r->m->nodes[node].n_in == 0) return false;
  return is_cast(r->m, node) || !(r->does[node] & (VERIFY_ROUNDS | VERIFY_DRAWS));
}

bool verify_whole_stored(const struct verify_random *r, uint32_t place) {
  struct verify_walk w;
  verify_walk_begin(&w, r);
  bool stored = see_stored(&w, verify_walk_output(r, place));
  while (stored && w.n_list > 0) {
    const uint32_t node = w.list[--w.n_list];
    stored = is_storing(r, node);
    const uint32_t n = is_cast(r->m, node) ? 1 : r->m->nodes[node].n_in;
    for (uint32_t i = 0; stored && i < n; i++)
      stored = see_stored(&w, model_input(r->m, &r->m->nodes[node], i));
  }
  verify_walk_end(&w);
  return stored;
}
