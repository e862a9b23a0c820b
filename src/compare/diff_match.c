// Twins among the nodes of two graphs.
//
//   forward     a node whose inputs all have twins is the twin of one with the same operator,
//               attributes and inputs: from the graph's inputs on, as far as nothing changed
//   backward    the same from the outputs, by who uses a node
//   names       of what lies between two changes: the name of the first output, the node's own
//   neighbours  the only user of its operator at that slot of a twin's output, and the like
//   order       runs of nodes between two twins, aligned by what they are
//
// After each step forward and backward go on from the new twins. Names come before neighbours where
// they can be believed: exporters number nodes, so that behind one that went every name is that of
// another node. Whether they can is seen from the twins that structure has found.
//
// Constants are values here, not nodes: whether a weight is an initializer or in a Constant node
// changes nothing for those that use it. One without a twin counts by its dtype and dims, so that
// renamed weights do not hide their users.
//
//   A   x ─ MatMul(w1) ─ Relu ─ Add ─ y          MatMul: forward; Add: backward
//   B   x ─ MatMul(w1) ─ Gelu ─ Add ─ y          Relu and Gelu: by name, or by what is around them
//
// Every step looks at each row a bounded number of times (and sorts).
#include "compare/inside/diff_parts.h"

#include <stdlib.h>

enum { USES_LOOKED_AT = 64, CELLS_MAX = 4096, TRUST_LEAST = 8, RUN = 4, AHEAD = 48, LOOKS = 64 };

struct pairing {
  struct diff *d;
  struct diff_scratch *s;
  uint32_t graph[DIFF_SIDES];
  enum { IDLE, FORWARD, BACKWARD } sweep;
  bool proven; // names are known to hold: nodes of other names are other nodes
};

struct diff_scratch *diff_match_scratch(struct diff *d) {
  struct diff_scratch *s = arena_zalloc(&d->arena, sizeof *s);
  for (uint32_t k = 0; k < DIFF_SIDES; k++) {
    const struct model *m = d->m[k];
    s->pending[k] = arena_zalloc(&d->arena, (m->n_nodes + (size_t)1) * sizeof *s->pending[k]);
    s->key[k] = arena_zalloc(&d->arena, (m->n_nodes + (size_t)1) * sizeof *s->key[k]);
    s->listed[k] = arena_zalloc(&d->arena, (m->n_values + (size_t)1) * sizeof *s->listed[k]);
  }
  return s;
}

void diff_match_scratch_done(struct diff_scratch *s) {
  for (uint32_t k = 0; k < DIFF_SIDES; k++) {
    TABLES_FREE(&s->side[k], nodes, now, next);
  }
  TABLES_FREE(s, lengths, order);
}

// ---- values ------------------------------------------------------------------------------------

static bool has_twin(const struct pairing *p, uint32_t side, uint32_t node) {
  return p->d->nodes[side][node] != NO_ID;
}

// The node of this graph that makes a value, unless it is a Constant; else NO_ID.
static uint32_t maker(const struct pairing *p, uint32_t side, uint32_t value) {
  const struct model *m = p->d->m[side];
  if (value == NO_ID) return NO_ID;
  const struct model_value *v = &m->values[value];
  if (v->kind != VALUE_NODE_OUTPUT || v->graph != p->graph[side]) return NO_ID;
  return diff_node_is_constant(m, v->def) ? NO_ID : v->def;
}

// The same for a value and its twin: its number in A.
static uint64_t value_key(const struct pairing *p, uint32_t side, uint32_t value) {
  const struct diff *d = p->d;
  if (value == NO_ID) return 1;
  const uint32_t twin = d->values[side][value];
  if (twin != NO_ID) return diff_mix(2, side == DIFF_A ? value : twin);
  const uint32_t tensor = diff_value_tensor(d->m[side], value);
  if (tensor != NO_ID) return diff_mix(3, diff_keys_tensor(d, side, tensor));
  return diff_mix(4, diff_name(d, side, d->m[side]->values[value].name));
}

static uint32_t first_output_name(const struct model *m, uint32_t node) {
  const uint32_t out = model_output(m, &m->nodes[node], 0);
  return out == NO_ID ? m->empty : m->values[out].name;
}

// The value of B's graph that has the name of one of A's; NO_ID.
static uint32_t twin_named(const struct pairing *p, uint32_t value) {
  const struct model *b = p->d->m[DIFF_B];
  const uint32_t name = model_find_name(b, model_value_name(p->d->m[DIFF_A], value));
  return name == NO_ID ? NO_ID : model_value_in(b, p->graph[DIFF_B], name);
}

// ---- pairs -------------------------------------------------------------------------------------

static void get_ready(struct pairing *p, uint32_t side, uint32_t node) {
  *TABLE_PUSH(&p->s->side[side], next) = (struct diff_ready){0, node};
}

static void value_is_known(struct pairing *p, uint32_t side, uint32_t value) {
  const struct model *m = p->d->m[side];
  for (uint32_t r = m->values[value].first_use; r != NO_ID; r = m->refs[r].next) {
    const uint32_t user = m->refs[r].node;
    p->d->steps++;
    if (m->nodes[user].graph != p->graph[side] || has_twin(p, side, user)) continue;
    if (--p->s->pending[side][user] == 0) get_ready(p, side, user);
  }
}

static void user_is_known(struct pairing *p, uint32_t side, uint32_t node) {
  const struct model *m = p->d->m[side];
  for (uint32_t i = 0; i < m->nodes[node].n_in; i++) {
    const uint32_t from = maker(p, side, model_input(m, &m->nodes[node], i));
    p->d->steps++;
    if (from == NO_ID || has_twin(p, side, from)) continue;
    if (--p->s->pending[side][from] == 0) get_ready(p, side, from);
  }
}

static void pair_nodes(struct pairing *p, uint32_t a, uint32_t b, enum diff_by by) {
  struct diff *d = p->d;
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  const struct model_node *x = &ma->nodes[a], *y = &mb->nodes[b];
  d->nodes[DIFF_A][a] = b;
  d->nodes[DIFF_B][b] = a;
  d->node_by[a] = (uint8_t)by;
  for (uint32_t i = 0; i < x->n_out && i < y->n_out; i++) {
    const uint32_t va = model_output(ma, x, i), vb = model_output(mb, y, i);
    if (va == NO_ID || vb == NO_ID) continue;
    if (d->values[DIFF_A][va] != NO_ID || d->values[DIFF_B][vb] != NO_ID) continue;
    diff_pair_values(d, va, vb);
    if (p->sweep == FORWARD) {
      value_is_known(p, DIFF_A, va);
      value_is_known(p, DIFF_B, vb);
    }
  }
  if (p->sweep == BACKWARD) {
    user_is_known(p, DIFF_A, a);
    user_is_known(p, DIFF_B, b);
  }
}

// ---- lists of nodes with keys ------------------------------------------------------------------

static int by_key(const void *pa, const void *pb) {
  const struct diff_ready *a = pa, *b = pb;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->node > b->node) - (a->node < b->node);
}

static bool repeats(const struct diff_list *l, uint32_t i) {
  return (i > 0 && l->now[i - 1].key == l->now[i].key) ||
         (i + 1 < l->n_now && l->now[i + 1].key == l->now[i].key);
}

// What moves or joins values, of which many stand around whatever computes: no twin of that.
static bool only_moves(const struct model *m, uint32_t node) {
  static const char *const words[] = {"Transpose",      "Reshape",         "Squeeze", "Unsqueeze",
                                      "Flatten",        "Identity",        "Cast",    "Concat",
                                      "Split",          "Slice",           "Add",     "Mul",
                                      "QuantizeLinear", "DequantizeLinear"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (model_op_is(m, node, words[i])) return true;
  return false;
}

// Rows of equal keys become twins in their order; key 0 stands for none. `alone`: only where each
// side has one.
static void pair_equal_keys(struct pairing *p, bool alone, bool any_op, enum diff_by by) {
  struct diff_list *a = &p->s->side[DIFF_A], *b = &p->s->side[DIFF_B];
  if (a->n_now == 0 || b->n_now == 0) return;
  if (a->n_now > 1) qsort(a->now, a->n_now, sizeof *a->now, by_key);
  if (b->n_now > 1) qsort(b->now, b->n_now, sizeof *b->now, by_key);
  p->d->steps += a->n_now + b->n_now;
  for (uint32_t i = 0, k = 0; i < a->n_now && k < b->n_now;) {
    const struct diff_ready x = a->now[i], y = b->now[k];
    if (x.key != y.key) {
      if (x.key < y.key)
        i++;
      else
        k++;
      continue;
    }
    const bool fits =
        x.key != 0 && !(alone && (repeats(a, i) || repeats(b, k))) &&
        (!any_op || only_moves(p->d->m[DIFF_A], x.node) == only_moves(p->d->m[DIFF_B], y.node));
    if (fits) pair_nodes(p, x.node, y.node, by);
    i++, k++;
  }
}

static void drop_pairs(struct pairing *p) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    struct diff_list *l = &p->s->side[s];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < l->n_now; i++)
      if (!has_twin(p, s, l->now[i].node)) l->now[kept++] = l->now[i];
    l->n_now = kept;
  }
}

// ---- forward and backward ----------------------------------------------------------------------

static uint64_t forward_key(const struct pairing *p, uint32_t side, uint32_t node) {
  const struct model *m = p->d->m[side];
  const struct model_node *n = &m->nodes[node];
  uint64_t h = p->s->key[side][node];
  for (uint32_t i = 0; i < n->n_in; i++)
    h = diff_mix(h, value_key(p, side, model_input(m, n, i)));
  return h | 1;
}

// Of who uses its outputs; 0: nobody that is known.
static uint64_t users_key(const struct pairing *p, uint32_t side, uint32_t node) {
  const struct model *m = p->d->m[side];
  const struct model_node *n = &m->nodes[node];
  uint64_t h = 0, known = 0;
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t v = model_output(m, n, i);
    uint64_t users = 0;
    for (uint32_t r = v == NO_ID ? NO_ID : m->values[v].first_use; r != NO_ID;
         r = m->refs[r].next) {
      const uint32_t user = m->refs[r].node, twin = p->d->nodes[side][user];
      p->d->steps++;
      if (m->nodes[user].graph != p->graph[side] || twin == NO_ID) continue;
      users += diff_mix(side == DIFF_A ? user : twin, r - m->nodes[user].refs) | 1;
      known++;
    }
    if (v != NO_ID && p->s->listed[side][v]) {
      users += p->s->listed[side][v];
      known++;
    }
    h = diff_mix(h, users);
  }
  return known ? h | 1 : 0;
}

static void key_round(struct pairing *p) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    struct diff_list *l = &p->s->side[s];
    for (uint32_t i = 0; i < l->n_now; i++) {
      const uint32_t node = l->now[i].node;
      p->d->steps += p->d->m[s]->nodes[node].n_in + p->d->m[s]->nodes[node].n_out + 1u;
      if (p->sweep == FORWARD) {
        l->now[i].key = forward_key(p, s, node);
      } else {
        const uint64_t users = users_key(p, s, node);
        l->now[i].key = users ? diff_mix(users, p->s->key[s][node]) | 1 : 0;
      }
    }
  }
}

// Those of equal keys that also have a name in common come first.
static void with_names(struct pairing *p, bool own) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = p->d->m[s];
    struct diff_list *l = &p->s->side[s];
    for (uint32_t i = 0; i < l->n_now; i++) {
      const uint32_t node = l->now[i].node;
      const uint32_t name = own ? m->nodes[node].name : first_output_name(m, node);
      const bool usable = l->now[i].key && name != m->empty;
      l->now[i].key = usable ? diff_mix(l->now[i].key, diff_name(p->d, s, name)) | 1 : 0;
    }
  }
}

static void sweep_round(struct pairing *p) {
  key_round(p);
  if (p->s->side[DIFF_A].n_now > 1 || p->s->side[DIFF_B].n_now > 1) {
    for (int own = 0; own < 2; own++) {
      with_names(p, own);
      pair_equal_keys(p, false, false, DIFF_BY_STRUCTURE);
      drop_pairs(p);
      key_round(p);
    }
  }
  pair_equal_keys(p, false, false, DIFF_BY_STRUCTURE);
}

static uint32_t waits_for(const struct pairing *p, uint32_t side, uint32_t node) {
  const struct model *m = p->d->m[side];
  const struct model_node *n = &m->nodes[node];
  uint32_t count = 0;
  if (p->sweep == FORWARD) {
    for (uint32_t i = 0; i < n->n_in; i++) {
      const uint32_t v = model_input(m, n, i);
      count += maker(p, side, v) != NO_ID && p->d->values[side][v] == NO_ID;
    }
    return count;
  }
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t v = model_output(m, n, i);
    for (uint32_t r = v == NO_ID ? NO_ID : m->values[v].first_use; r != NO_ID;
         r = m->refs[r].next) {
      const uint32_t user = m->refs[r].node;
      p->d->steps++;
      count += m->nodes[user].graph == p->graph[side] && !has_twin(p, side, user);
    }
  }
  return count;
}

static void sweep(struct pairing *p, int way) {
  p->sweep = way == FORWARD ? FORWARD : BACKWARD;
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    struct diff_list *l = &p->s->side[s];
    l->n_next = 0;
    for (uint32_t i = 0; i < l->n_nodes; i++) {
      const uint32_t node = l->nodes[i];
      if (has_twin(p, s, node)) continue;
      p->s->pending[s][node] = waits_for(p, s, node);
      p->d->steps++;
      if (p->s->pending[s][node] == 0) get_ready(p, s, node);
    }
  }
  while (p->s->side[DIFF_A].n_next && p->s->side[DIFF_B].n_next) {
    for (uint32_t s = 0; s < DIFF_SIDES; s++) {
      struct diff_list *l = &p->s->side[s];
      l->n_now = 0;
      TABLE_ROOM(l, now, l->n_next);
      memcpy(l->now, l->next, l->n_next * sizeof *l->next);
      l->n_now = l->n_next;
      l->n_next = 0;
    }
    sweep_round(p);
  }
  p->sweep = IDLE;
}

static void sweeps(struct pairing *p) {
  sweep(p, FORWARD);
  sweep(p, BACKWARD);
}

// ---- names -------------------------------------------------------------------------------------

// Do twins that structure has found bear the same names? Few twins say nothing.
enum trust { NAMES_CHANGED, NAMES_UNTRIED, NAMES_HOLD };
static enum trust names_hold(const struct pairing *p, bool own) {
  const struct diff *d = p->d;
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  const struct diff_list *l = &p->s->side[DIFF_A];
  uint64_t both = 0, same = 0;
  for (uint32_t i = 0; i < l->n_nodes; i++) {
    const uint32_t x = l->nodes[i], y = d->nodes[DIFF_A][x];
    if (y == NO_ID || d->node_by[x] != DIFF_BY_STRUCTURE) continue;
    const uint32_t p1 = own ? a->nodes[x].name : first_output_name(a, x),
                   p2 = own ? b->nodes[y].name : first_output_name(b, y);
    if (p1 == a->empty || p2 == b->empty) continue;
    both++;
    same += diff_name(d, DIFF_A, p1) == diff_name(d, DIFF_B, p2);
  }
  if (both < TRUST_LEAST) return NAMES_UNTRIED;
  return same * 10 >= both * 9 ? NAMES_HOLD : NAMES_CHANGED;
}

enum of_what { NAME_OF_OUTPUT, NAME_OWN, AROUND };

static uint64_t around_key(const struct pairing *p, uint32_t side, uint32_t node) {
  const struct model *m = p->d->m[side];
  const struct model_node *n = &m->nodes[node];
  uint64_t h = 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t v = model_input(m, n, i);
    if (v == NO_ID || p->d->values[side][v] == NO_ID || diff_value_tensor(m, v) != NO_ID) continue;
    h += value_key(p, side, v);
  }
  const uint64_t users = users_key(p, side, node);
  return h && users ? diff_mix(h, users) | 1 : 0;
}

static void by_names(struct pairing *p, enum of_what what, bool any_op) {
  static const enum diff_by by[] = {DIFF_BY_OUTPUT, DIFF_BY_NAME, DIFF_BY_PLACE};
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct model *m = p->d->m[s];
    struct diff_list *l = &p->s->side[s];
    l->n_now = 0;
    for (uint32_t i = 0; i < l->n_nodes; i++) {
      const uint32_t node = l->nodes[i];
      if (has_twin(p, s, node)) continue;
      const uint32_t name = what == NAME_OWN ? m->nodes[node].name : first_output_name(m, node);
      uint64_t key = what == AROUND     ? around_key(p, s, node)
                     : name == m->empty ? 0
                                        : diff_mix(5, diff_name(p->d, s, name)) | 1;
      if (key && !any_op) key = diff_mix(key, diff_keys_op(p->d, s, node)) | 1;
      if (key) *TABLE_PUSH(l, now) = (struct diff_ready){key, node};
    }
    p->d->steps += l->n_nodes;
  }
  pair_equal_keys(p, true, any_op, by[what]);
}

// Two nodes that each have names, of which none is the other's, where names hold.
static bool are_others(const struct pairing *p, uint32_t a, uint32_t b) {
  const struct model *ma = p->d->m[DIFF_A], *mb = p->d->m[DIFF_B];
  const uint32_t own_a = ma->nodes[a].name, own_b = mb->nodes[b].name;
  const uint32_t out_a = first_output_name(ma, a), out_b = first_output_name(mb, b);
  if (!p->proven || own_a == ma->empty || own_b == mb->empty) return false;
  return diff_name(p->d, DIFF_A, own_a) != diff_name(p->d, DIFF_B, own_b) &&
         diff_name(p->d, DIFF_A, out_a) != diff_name(p->d, DIFF_B, out_b);
}

// Values of one name are the same to who uses them, whatever makes them now.
static void values_by_names(struct pairing *p) {
  struct diff *d = p->d;
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  const struct diff_list *l = &p->s->side[DIFF_A];
  for (uint32_t i = 0; i < l->n_nodes; i++) {
    const struct model_node *n = &a->nodes[l->nodes[i]];
    for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
      const uint32_t v = a->refs[n->refs + k].value;
      d->steps++;
      if (v == NO_ID || d->values[DIFF_A][v] != NO_ID || a->values[v].graph != p->graph[DIFF_A])
        continue;
      const uint32_t twin = twin_named(p, v);
      if (twin != NO_ID && d->values[DIFF_B][twin] == NO_ID &&
          !(b->values[twin].flags & VALUE_DEAD))
        diff_pair_values(d, v, twin);
    }
  }
}

// ---- neighbours --------------------------------------------------------------------------------

// The only user without a twin of this value at this slot with this operator; NO_ID: none, or many.
static uint32_t only_user(const struct pairing *p, uint32_t side, uint32_t value, uint32_t slot,
                          uint64_t op) {
  const struct model *m = p->d->m[side];
  uint32_t found = NO_ID, looked = 0;
  for (uint32_t r = m->values[value].first_use; r != NO_ID; r = m->refs[r].next) {
    const uint32_t user = m->refs[r].node;
    p->d->steps++;
    if (++looked > USES_LOOKED_AT) return NO_ID;
    if (m->nodes[user].graph != p->graph[side] || has_twin(p, side, user) ||
        r - m->nodes[user].refs != slot || diff_keys_op(p->d, side, user) != op)
      continue;
    if (found != NO_ID) return NO_ID;
    found = user;
  }
  return found;
}

static void pair_users(struct pairing *p, uint32_t va, uint32_t vb) {
  const struct model *m = p->d->m[DIFF_A];
  uint32_t looked = 0;
  for (uint32_t r = m->values[va].first_use; r != NO_ID; r = m->refs[r].next) {
    const uint32_t user = m->refs[r].node;
    p->d->steps++;
    if (++looked > USES_LOOKED_AT) return;
    if (m->nodes[user].graph != p->graph[DIFF_A] || has_twin(p, DIFF_A, user)) continue;
    const uint64_t op = diff_keys_op(p->d, DIFF_A, user);
    const uint32_t slot = r - m->nodes[user].refs;
    const uint32_t twin = only_user(p, DIFF_B, vb, slot, op);
    if (twin == NO_ID || only_user(p, DIFF_A, va, slot, op) != user || are_others(p, user, twin))
      continue;
    pair_nodes(p, user, twin, DIFF_BY_PLACE);
    *TABLE_PUSH(p->s, order) = user;
  }
}

static void pair_makers(struct pairing *p, uint32_t va, uint32_t vb) {
  const uint32_t a = maker(p, DIFF_A, va), b = maker(p, DIFF_B, vb);
  p->d->steps++;
  if (a == NO_ID || b == NO_ID || has_twin(p, DIFF_A, a) || has_twin(p, DIFF_B, b)) return;
  if (diff_keys_op(p->d, DIFF_A, a) != diff_keys_op(p->d, DIFF_B, b) || are_others(p, a, b)) return;
  pair_nodes(p, a, b, DIFF_BY_PLACE);
  *TABLE_PUSH(p->s, order) = a;
}

static void by_neighbours(struct pairing *p) {
  const struct model *a = p->d->m[DIFF_A], *b = p->d->m[DIFF_B];
  const struct diff_list *l = &p->s->side[DIFF_A];
  p->s->n_order = 0;
  for (uint32_t i = 0; i < l->n_nodes; i++)
    if (has_twin(p, DIFF_A, l->nodes[i])) *TABLE_PUSH(p->s, order) = l->nodes[i];
  for (uint32_t i = 0; i < p->s->n_order; i++) {
    const struct model_node *x = &a->nodes[p->s->order[i]],
                            *y = &b->nodes[p->d->nodes[DIFF_A][p->s->order[i]]];
    for (uint32_t k = 0; k < x->n_out && k < y->n_out; k++) {
      const uint32_t va = model_output(a, x, k), vb = model_output(b, y, k);
      if (va != NO_ID && vb != NO_ID) pair_users(p, va, vb);
    }
    for (uint32_t k = 0; k < x->n_in && k < y->n_in; k++)
      pair_makers(p, model_input(a, x, k), model_input(b, y, k));
  }
}

// ---- order -------------------------------------------------------------------------------------

static bool alike(const struct pairing *p, uint32_t a, uint32_t b, bool exactly) {
  if (are_others(p, a, b)) return false;
  if (exactly) return p->s->key[DIFF_A][a] == p->s->key[DIFF_B][b];
  return diff_keys_op(p->d, DIFF_A, a) == diff_keys_op(p->d, DIFF_B, b);
}

// Do the next few of both follow each other alike?
static bool run_alike(const struct pairing *p, const uint32_t *a, uint32_t na, const uint32_t *b,
                      uint32_t nb, bool exactly) {
  const uint32_t n = na < nb ? na : nb;
  for (uint32_t i = 0; i < n && i < RUN; i++)
    if (!alike(p, a[i], b[i], exactly)) return false;
  return n > 0;
}

// Long runs, side by side: where they part, the nearest place at which they come together again. Looks
// at no more than so many places for each node, however different they are.
static void align_long(struct pairing *p, const uint32_t *a, uint32_t na, const uint32_t *b,
                       uint32_t nb, bool exactly) {
  const uint64_t budget = (uint64_t)LOOKS * ((uint64_t)na + nb);
  uint64_t looks = 0;
  for (uint32_t i = 0, k = 0; i < na && k < nb && looks < budget;) {
    uint32_t skip_a = 0, skip_b = 0;
    looks++;
    if (alike(p, a[i], b[k], exactly)) {
      pair_nodes(p, a[i++], b[k++], DIFF_BY_PLACE);
      continue;
    }
    bool found = false;
    for (uint32_t steps = 1; steps <= AHEAD && !found; steps++)
      for (uint32_t da = 0; da <= steps && !found; da++) {
        const uint32_t db = steps - da;
        if (i + da >= na || k + db >= nb) continue;
        looks++;
        found = run_alike(p, a + i + da, na - i - da, b + k + db, nb - k - db, exactly);
        skip_a = da;
        skip_b = db;
      }
    i += found ? skip_a : 1;
    k += found ? skip_b : 1;
  }
  p->d->steps += looks;
}

// The longest common subsequence of two runs.
static void align(struct pairing *p, const uint32_t *a, uint32_t na, const uint32_t *b, uint32_t nb,
                  bool exactly) {
  if ((uint64_t)na * nb > CELLS_MAX) {
    align_long(p, a, na, b, nb, exactly);
    return;
  }
  const uint32_t width = nb + 1;
  p->s->n_lengths = 0;
  const uint32_t cells = (na + 1) * width;
  (void)TABLE_ADD(p->s, lengths, cells);
  uint32_t *best = p->s->lengths;
  p->d->steps += (uint64_t)na * nb;
  for (uint32_t i = na; i-- > 0;)
    for (uint32_t k = nb; k-- > 0;) {
      const uint32_t down = best[(i + 1) * width + k], right = best[i * width + k + 1];
      best[i * width + k] = alike(p, a[i], b[k], exactly) ? best[(i + 1) * width + k + 1] + 1
                            : down > right                ? down
                                                          : right;
    }
  for (uint32_t i = 0, k = 0; i < na && k < nb;) {
    if (alike(p, a[i], b[k], exactly))
      pair_nodes(p, a[i++], b[k++], DIFF_BY_PLACE);
    else if (best[(i + 1) * width + k] >= best[i * width + k + 1])
      i++;
    else
      k++;
  }
}

// Runs without twins behind a pair of twins (or behind the beginning of both).
static void by_order(struct pairing *p, bool exactly) {
  const struct diff_list *la = &p->s->side[DIFF_A], *lb = &p->s->side[DIFF_B];
  for (uint32_t i = 0; i < lb->n_nodes; i++)
    p->s->pending[DIFF_B][lb->nodes[i]] = i; // its place
  for (uint32_t i = 0; i <= la->n_nodes;) {
    const bool begins = i == 0;
    if (!begins && !has_twin(p, DIFF_A, la->nodes[i - 1])) {
      i++;
      continue;
    }
    uint32_t k = begins ? 0 : p->s->pending[DIFF_B][p->d->nodes[DIFF_A][la->nodes[i - 1]]] + 1;
    uint32_t end_a = i, end_b = k;
    while (end_a < la->n_nodes && !has_twin(p, DIFF_A, la->nodes[end_a]))
      end_a++;
    while (end_a > i && end_b < lb->n_nodes && !has_twin(p, DIFF_B, lb->nodes[end_b]))
      end_b++;
    p->d->steps += end_a - i + end_b - k + 1u;
    if (end_a > i && end_b > k)
      align(p, la->nodes + i, end_a - i, lb->nodes + k, end_b - k, exactly);
    i = end_a + 1;
  }
}

// How many nodes must move to stand in A's order: all but the longest rising sequence.
static void count_moved(struct pairing *p) {
  struct diff *d = p->d;
  const struct diff_list *la = &p->s->side[DIFF_A], *lb = &p->s->side[DIFF_B];
  uint32_t twins = 0;
  for (uint32_t i = 0; i < lb->n_nodes; i++)
    p->s->pending[DIFF_B][lb->nodes[i]] = i;
  p->s->n_order = 0; // the least end of rising sequences of each length
  for (uint32_t i = 0; i < la->n_nodes; i++) {
    if (!has_twin(p, DIFF_A, la->nodes[i])) continue;
    const uint32_t at = p->s->pending[DIFF_B][d->nodes[DIFF_A][la->nodes[i]]];
    uint32_t k;
    twins++;
    BISECT(k, p->s->n_order, p->s->order[k] < at);
    if (k == p->s->n_order) (void)TABLE_PUSH(p->s, order);
    p->s->order[k] = at;
  }
  d->moved += twins - p->s->n_order;
}

// ---- inputs, outputs, constants ----------------------------------------------------------------

static bool is_plain_input(const struct model *m, uint32_t value) {
  return value != NO_ID && m->values[value].kind != VALUE_INITIALIZER;
}

static void pair_inputs(struct pairing *p) {
  struct diff *d = p->d;
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  const struct model_graph *ga = &a->graphs[p->graph[DIFF_A]], *gb = &b->graphs[p->graph[DIFF_B]];
  for (uint32_t i = 0; i < ga->n_inputs; i++) {
    const uint32_t x = a->graph_io[ga->inputs + i];
    if (!is_plain_input(a, x)) continue;
    const uint32_t y = twin_named(p, x);
    if (y != NO_ID && b->values[y].flags & VALUE_IS_INPUT && is_plain_input(b, y) &&
        d->values[DIFF_B][y] == NO_ID)
      diff_pair_values(d, x, y);
  }
  uint32_t k = 0;
  for (uint32_t i = 0; i < ga->n_inputs; i++) { // the others in their order
    const uint32_t x = a->graph_io[ga->inputs + i];
    if (!is_plain_input(a, x) || d->values[DIFF_A][x] != NO_ID) continue;
    for (; k < gb->n_inputs; k++) {
      const uint32_t y = b->graph_io[gb->inputs + k];
      if (is_plain_input(b, y) && d->values[DIFF_B][y] == NO_ID) break;
    }
    if (k == gb->n_inputs) break;
    diff_pair_values(d, x, b->graph_io[gb->inputs + k++]);
  }
  d->steps += ga->n_inputs + gb->n_inputs;
}

// Outputs are listed as the same where their names are; with no name in common, by their place.
static void pair_outputs(struct pairing *p) {
  struct diff *d = p->d;
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  const struct model_graph *ga = &a->graphs[p->graph[DIFF_A]], *gb = &b->graphs[p->graph[DIFF_B]];
  uint32_t common = 0;
  for (int named = 1; named >= 0; named--) {
    if (!named && common) break;
    for (uint32_t i = 0; i < ga->n_outputs; i++) {
      const uint32_t x = a->graph_io[ga->outputs + i];
      if (x == NO_ID) continue;
      const uint32_t y = named               ? twin_named(p, x)
                         : i < gb->n_outputs ? b->graph_io[gb->outputs + i]
                                             : NO_ID;
      if (y == NO_ID || !(b->values[y].flags & VALUE_IS_OUTPUT)) continue;
      const uint64_t key = diff_mix(6, i) | 1;
      common++;
      p->s->listed[DIFF_A][x] += key;
      p->s->listed[DIFF_B][y] += key;
    }
  }
  d->steps += ga->n_outputs + gb->n_outputs;
}

static bool same_form(const struct diff *d, uint32_t a, uint32_t b) {
  const struct model_tensor *x = &d->m[DIFF_A]->tensors[a], *y = &d->m[DIFF_B]->tensors[b];
  return model_same_dims(d->m[DIFF_A], x, d->m[DIFF_B], y);
}

static void pair_constant(struct pairing *p, uint32_t a, uint32_t b) {
  struct diff *d = p->d;
  const struct model *ma = d->m[DIFF_A], *mb = d->m[DIFF_B];
  diff_pair_tensors(d, a, b);
  const uint32_t va = diff_tensor_value(ma, a), vb = diff_tensor_value(mb, b);
  if (va == NO_ID || vb == NO_ID) return;
  if (ma->values[va].kind != VALUE_NODE_OUTPUT || mb->values[vb].kind != VALUE_NODE_OUTPUT) return;
  d->nodes[DIFF_A][ma->values[va].def] = mb->values[vb].def;
  d->nodes[DIFF_B][mb->values[vb].def] = ma->values[va].def;
  d->node_by[ma->values[va].def] = DIFF_BY_OUTPUT;
}

static void offer_constant(struct pairing *p, uint32_t tensor, bool same_dims, uint32_t count[2]) {
  struct diff *d = p->d;
  const uint32_t value = diff_tensor_value(d->m[DIFF_A], tensor);
  if (value == NO_ID) return;
  const uint32_t other = twin_named(p, value), twin = diff_value_tensor(d->m[DIFF_B], other);
  d->steps++;
  if (twin == NO_ID) return;
  const bool fits = same_form(d, tensor, twin);
  count[0]++;
  count[1] += fits;
  if (count[0] && same_dims && !fits) return;
  if (d->tensors[DIFF_A][tensor] == NO_ID && d->tensors[DIFF_B][twin] == NO_ID)
    pair_constant(p, tensor, twin);
}

static void each_constant(struct pairing *p, bool same_dims, uint32_t count[2]) {
  const struct model *a = p->d->m[DIFF_A];
  const struct model_graph *g = &a->graphs[p->graph[DIFF_A]];
  for (uint32_t i = 0; i < g->n_items; i++) {
    const struct model_item *item = &a->items[g->items + i];
    for (uint32_t k = 0; item->kind == ITEM_TENSORS && k < item->count; k++)
      offer_constant(p, item->first + k, same_dims, count);
  }
  for (uint32_t n = g->first_node; n != NO_ID; n = a->nodes[n].next) {
    if (!diff_node_is_constant(a, n)) continue;
    const uint32_t tensor = diff_value_tensor(a, model_output(a, &a->nodes[n], 0));
    if (tensor != NO_ID) offer_constant(p, tensor, same_dims, count);
  }
}

// Names of constants are believed unless most of them are of other dims: then they were numbered.
// Those of one form come first, so that it does not matter which it is.
static void pair_constants(struct pairing *p) {
  uint32_t count[2] = {0}, again[2] = {0};
  each_constant(p, true, count);
  if (count[1] * 2 >= count[0]) each_constant(p, false, again);
}

// What is left at the same slot of twins, of one form.
static void constants_by_users(struct pairing *p) {
  struct diff *d = p->d;
  const struct model *a = d->m[DIFF_A], *b = d->m[DIFF_B];
  const struct diff_list *l = &p->s->side[DIFF_A];
  for (uint32_t i = 0; i < l->n_nodes; i++) {
    if (!has_twin(p, DIFF_A, l->nodes[i])) continue;
    const struct model_node *x = &a->nodes[l->nodes[i]],
                            *y = &b->nodes[d->nodes[DIFF_A][l->nodes[i]]];
    for (uint32_t k = 0; k < x->n_in && k < y->n_in; k++) {
      const uint32_t ta = diff_value_tensor(a, model_input(a, x, k)),
                     tb = diff_value_tensor(b, model_input(b, y, k));
      d->steps++;
      if (ta == NO_ID || tb == NO_ID || d->tensors[DIFF_A][ta] != NO_ID ||
          d->tensors[DIFF_B][tb] != NO_ID || a->tensors[ta].dtype != b->tensors[tb].dtype ||
          !same_form(d, ta, tb))
        continue;
      pair_constant(p, ta, tb);
    }
  }
}

// ---- a pair of graphs --------------------------------------------------------------------------

static void list_nodes(struct pairing *p, uint32_t side) {
  const struct model *m = p->d->m[side];
  struct diff_list *l = &p->s->side[side];
  l->n_nodes = 0;
  for (uint32_t n = m->graphs[p->graph[side]].first_node; n != NO_ID; n = m->nodes[n].next) {
    if (diff_value_tensor(m, model_output(m, &m->nodes[n], 0)) != NO_ID &&
        diff_node_is_constant(m, n))
      continue;
    *TABLE_PUSH(l, nodes) = n;
    p->s->key[side][n] = diff_keys_node(p->d, side, n);
  }
}

void diff_match_graphs(struct diff *d, uint32_t a, uint32_t b) {
  struct pairing p = {.d = d, .s = d->scratch, .graph = {a, b}};
  if (d->graphs[DIFF_A][a] != NO_ID || d->graphs[DIFF_B][b] != NO_ID) return;
  d->graphs[DIFF_A][a] = b;
  d->graphs[DIFF_B][b] = a;
  list_nodes(&p, DIFF_A);
  list_nodes(&p, DIFF_B);
  pair_inputs(&p);
  pair_outputs(&p);
  pair_constants(&p);
  sweeps(&p);
  const enum trust out = names_hold(&p, false), self = names_hold(&p, true);
  const bool outputs = out != NAMES_CHANGED, own = self != NAMES_CHANGED;
  p.proven = out == NAMES_HOLD && self == NAMES_HOLD;
  for (int any_op = 0; any_op < 2; any_op++) {
    if (outputs) by_names(&p, NAME_OF_OUTPUT, any_op);
    if (own) by_names(&p, NAME_OWN, any_op);
    if (outputs || own) sweeps(&p);
  }
  if (outputs) values_by_names(&p);
  sweeps(&p);
  by_neighbours(&p);
  sweeps(&p);
  by_order(&p, true);
  sweeps(&p);
  by_order(&p, false);
  sweeps(&p);
  by_names(&p, AROUND, true);
  sweeps(&p);
  constants_by_users(&p);
  count_moved(&p);
}
