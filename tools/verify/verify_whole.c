// Whole numbers, truth values and strings of a model: where no float has a part in them, the same model gives the same ones. A float
// that is computed in another order differs in its last bits, and what is made of it may differ by a step, or be another place:
//
//   x ─▶ Conv ─▶ Mul ─▶ Cast to int32 ─▶ y       Conv rounds, Cast jumps: one step
//   x ─▶ Conv ─▶ ArgMax ─▶ y                     another place, of two that are nearly as large
//   ids ─▶ Add ─▶ y     x ─▶ Cast to int64 ─▶ z  equal
//
// The schema says which operators jump and which round nothing.
#include "verify_random.h"

#include "verify_walk.h"

// The type of a value; UNDEFINED: not known.
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

uint8_t verify_whole_does(struct schema_names *names, struct infer *in, uint32_t node) {
  const struct schema_operator *op = schema_of_node(names, node);
  const struct makes made = makes_of(names, in, node);
  const unsigned flags = op ? op->flags : SCHEMA_JUMPS; // what nobody knows may do anything
  const bool casts = op && span_is(span_str(schema_rule_row(op->rule)->family), "cast");
  unsigned does = made.said ? VERIFY_FLOATS : 0;
  if (flags & SCHEMA_DIMS) does |= VERIFY_BY_DIMS;
  if (!(flags & SCHEMA_UNROUNDED) && made.floats) does |= VERIFY_ROUNDS;
  if (!(flags & SCHEMA_JUMPS) || !made.others || !reads_floats(names->m, in, node))
    return (uint8_t)does;
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

// Does something round before the nodes that `w` has seen?
static bool is_rounded(struct verify_walk *w) {
  while (w->n_list > 0) {
    const uint32_t node = w->list[--w->n_list];
    const unsigned all = does(w->r, node);
    if (all & VERIFY_ROUNDS) return true;
    if (!verify_walk_ends(w->r, node)) verify_walk_see_before(w, node);
  }
  return false;
}

enum verify_whole verify_whole_of(const struct verify_random *r, uint32_t place) {
  struct verify_walk after, before; // up to what jumps; what is before that
  const uint32_t value = verify_walk_output(r, place);
  bool rounded = false, picks = false, places = reads_place(r, value);
  if (value == NO_ID) return VERIFY_WHOLE_EQUAL;
  verify_walk_begin(&after, r);
  verify_walk_begin(&before, r);
  verify_walk_see(&after, value);
  while (after.n_list > 0) {
    const uint32_t node = after.list[--after.n_list];
    const unsigned all = does(r, node);
    if (all & VERIFY_JUMPS) verify_walk_see_before(&before, node);
    rounded = rounded || all & VERIFY_COMPUTES ||
              (all & VERIFY_JUMPS && all & VERIFY_ROUNDS && r->calls[node]);
    picks = picks || all & VERIFY_PICKS;
    if (verify_walk_ends(r, node)) continue;
    places = places || picks_places(r, node) || reads_places(r, node);
    verify_walk_see_before(&after, node);
  }
  rounded = rounded || is_rounded(&before);
  verify_walk_end(&before);
  verify_walk_end(&after);
  if (!rounded) return VERIFY_WHOLE_EQUAL;
  return places ? VERIFY_WHOLE_PLACE : picks ? VERIFY_WHOLE_CLOSE : VERIFY_WHOLE_STEP;
}
