// The small changes that edits are made of, each leaving the tables consistent:
//
//   use lists    every live input slot is on the list of its value, and no other slot is
//   order lists  every live node is on its graph's list once
//   producers    a value says who makes it, and that node's output slot says the same
//   infos        a live value_info is about a live value
//   dirtiness    what differs from the source is marked, and so is all that encloses it
//
// Runs of a node (slots, attributes) and of a graph (inputs, outputs) are contiguous. A run that
// must grow moves to its table's end; the old rows stay behind, empty. Ids of nodes, values and
// tensors never move.
#include "edit/edit_rows.h"

#include <assert.h>

// ---- marks -------------------------------------------------------------------------------------

void edit_rows_mark_graph(struct model *m, uint32_t graph, uint8_t flags) {
  m->graphs[graph].flags |= flags;
  while (graph != NO_ID) {
    struct model_graph *g = &m->graphs[graph];
    g->flags |= GRAPH_DIRTY;
    if (g->kind != GRAPH_SUB || g->owner == NO_ID) return;
    struct model_attr *a = &m->attrs[g->owner];
    a->flags |= ATTR_DIRTY;
    if (a->node == NO_ID) return;
    m->nodes[a->node].flags |= NODE_DIRTY;
    graph = m->nodes[a->node].graph;
  }
}

void edit_rows_mark_node(struct model *m, uint32_t node) {
  m->nodes[node].flags |= NODE_DIRTY;
  edit_rows_mark_graph(m, m->nodes[node].graph, GRAPH_DIRTY);
}

void edit_rows_mark_attr(struct model *m, uint32_t attr) {
  m->attrs[attr].flags |= ATTR_DIRTY;
  if (m->attrs[attr].node != NO_ID) edit_rows_mark_node(m, m->attrs[attr].node);
}

// ---- node order --------------------------------------------------------------------------------

void edit_rows_link_node(struct model *m, uint32_t node, uint32_t before) {
  struct model_node *n = &m->nodes[node];
  struct model_graph *g = &m->graphs[n->graph];
  n->next = before;
  n->prev = before == NO_ID ? g->last_node : m->nodes[before].prev;
  if (n->prev == NO_ID)
    g->first_node = node;
  else
    m->nodes[n->prev].next = node;
  if (before == NO_ID)
    g->last_node = node;
  else
    m->nodes[before].prev = node;
}

void edit_rows_unlink_node(struct model *m, uint32_t node) {
  struct model_node *n = &m->nodes[node];
  struct model_graph *g = &m->graphs[n->graph];
  if (n->prev == NO_ID)
    g->first_node = n->next;
  else
    m->nodes[n->prev].next = n->next;
  if (n->next == NO_ID)
    g->last_node = n->prev;
  else
    m->nodes[n->next].prev = n->prev;
  n->prev = n->next = NO_ID;
}

// ---- slots -------------------------------------------------------------------------------------

// Puts a threaded slot at another place of the table; the list follows.
static void move_ref(struct model *m, uint32_t from, uint32_t to, bool threaded) {
  m->refs[to] = m->refs[from];
  m->refs[from] = (struct model_ref){.value = NO_ID, .node = NO_ID, .next = NO_ID, .prev = NO_ID};
  const struct model_ref *r = &m->refs[to];
  if (!threaded || r->value == NO_ID) return;
  if (r->prev == NO_ID)
    m->values[r->value].first_use = to;
  else
    m->refs[r->prev].next = to;
  if (r->next != NO_ID) m->refs[r->next].prev = to;
}

static void grow_slots(struct model *m, uint32_t node, uint32_t more_in, uint32_t more_out) {
  model_identity_changes(m, node);
  const struct model_node old = m->nodes[node];
  const uint32_t n_in = old.n_in + more_in, n = n_in + old.n_out + more_out;
  const uint32_t first = TABLE_ADD(m, refs, n);
  for (uint32_t i = 0; i < n; i++)
    m->refs[first + i] =
        (struct model_ref){.value = NO_ID, .node = node, .next = NO_ID, .prev = NO_ID};
  for (uint32_t i = 0; i < old.n_in; i++)
    move_ref(m, old.refs + i, first + i, true);
  for (uint32_t i = 0; i < old.n_out; i++)
    move_ref(m, old.refs + old.n_in + i, first + n_in + i, false);
  m->nodes[node].refs = first;
  m->nodes[node].n_in = n_in;
  m->nodes[node].n_out = old.n_out + more_out;
}

void edit_rows_forget(struct model *m, uint32_t value) {
  const struct model_value *v = &m->values[value];
  if (v->kind != VALUE_UNDEFINED || v->first_use != NO_ID || v->n_graph_outputs > 0) return;
  if (v->flags & VALUE_DEAD) return;
  MODEL_EACH_INFO (m, value, i)
    m->infos[i].flags |= INFO_DEAD;
  edit_rows_mark_graph(m, v->graph, GRAPH_DIRTY);
  model_kill_value(m, value);
}

void edit_rows_count_output(struct model *m, uint32_t value, int change) {
  struct model_value *v = &m->values[value];
  v->n_graph_outputs = (v->n_graph_outputs + (uint32_t)change) & VALUE_OUTPUTS_MAX;
  v->flags &= ~VALUE_IS_OUTPUT & VALUE_FLAGS;
  if (v->n_graph_outputs > 0) v->flags |= VALUE_IS_OUTPUT;
}

void edit_rows_release(struct model *m, uint32_t value) {
  struct model_value *v = &m->values[value];
  v->kind = VALUE_UNDEFINED;
  v->def = NO_ID;
  if (!(v->flags & VALUE_IS_INPUT)) {
    edit_rows_forget(m, value);
    return;
  }
  v->kind = VALUE_INPUT;
}

void edit_rows_set_input(struct model *m, uint32_t node, uint32_t slot, uint32_t value) {
  if (slot == m->nodes[node].n_in) grow_slots(m, node, 1, 0);
  const uint32_t ref = m->nodes[node].refs + slot, old = m->refs[ref].value;
  model_unlink_use(m, ref);
  m->refs[ref].value = value;
  model_link_use(m, ref);
  if (old != NO_ID) edit_rows_forget(m, old);
  edit_rows_mark_node(m, node);
}

void edit_rows_set_output(struct model *m, uint32_t node, uint32_t slot, uint32_t value) {
  if (slot == m->nodes[node].n_out) grow_slots(m, node, 0, 1);
  const uint32_t ref = m->nodes[node].refs + m->nodes[node].n_in + slot;
  const uint32_t old = m->refs[ref].value;
  model_identity_changes(m, node);
  m->refs[ref].value = value;
  if (value != NO_ID) {
    m->values[value].kind = VALUE_NODE_OUTPUT;
    m->values[value].def = node;
  }
  if (old != NO_ID) edit_rows_release(m, old);
  edit_rows_mark_node(m, node);
}

// ---- value_info --------------------------------------------------------------------------------

static void link_info(struct model *m, uint32_t info, uint32_t value) {
  if (m->infos[info].home == INFO_VALUE)
    m->values[value].flags &= ~VALUE_NO_INNER_INFO & VALUE_FLAGS;
  m->infos[info].value = value;
  m->infos[info].next = m->values[value].info;
  m->values[value].info = info;
}

uint32_t edit_rows_add_info(struct model *m, uint32_t value, enum info_home home) {
  const uint32_t info = TABLE_ADD(m, infos, 1);
  m->infos[info].home = (uint8_t)home;
  m->infos[info].flags = INFO_NEW;
  link_info(m, info, value);
  edit_rows_mark_graph(m, m->values[value].graph, GRAPH_DIRTY);
  return info;
}

void edit_rows_move_info(struct model *m, uint32_t info, uint32_t value) {
  uint32_t *at = &m->values[m->infos[info].value].info;
  while (*at != info)
    at = &m->infos[*at].next;
  *at = m->infos[info].next;
  link_info(m, info, value);
  m->infos[info].flags |= INFO_DIRTY;
}

uint32_t edit_rows_inner_info(struct model *m, uint32_t value) {
  struct model_value *v = &m->values[value];
  if (v->flags & VALUE_NO_INNER_INFO) return NO_ID;
  MODEL_EACH_INFO (m, value, i) {
    m->work.infos_seen++;
    if (m->infos[i].home == INFO_VALUE) return i;
  }
  v->flags |= VALUE_NO_INNER_INFO; // until one is linked
  return NO_ID;
}

static bool lies_in(const void *at, const void *table, size_t bytes) {
  return (uintptr_t)at >= (uintptr_t)table && (uintptr_t)at - (uintptr_t)table < bytes;
}

void edit_rows_set_type(struct model *m, uint32_t info, enum dtype dtype,
                        const struct model_dim *dims, uint32_t rank) {
  struct model_info *i = &m->infos[info];
  i->flags = (uint8_t)((i->flags & ~INFO_TYPE) | INFO_DIRTY);
  i->type = (struct place){0, 0};
  i->dtype = (uint8_t)dtype;
  i->rank = 0;
  if (dtype != DTYPE_UNDEFINED) i->flags |= INFO_TENSOR;
  if (rank == NO_ID) return;
  i->flags |= INFO_SHAPED;
  i->rank = (uint16_t)rank;
  // Dims of another row are shared: rows are never changed in place.
  if (lies_in(dims, m->info_dims, m->n_info_dims * sizeof *dims)) {
    i->dims = (uint32_t)(dims - m->info_dims);
    return;
  }
  i->dims = TABLE_ADD(m, info_dims, rank);
  if (rank) memcpy(m->info_dims + i->dims, dims, rank * sizeof *dims);
}

// ---- runs and lists ----------------------------------------------------------------------------

void edit_rows_append_io(struct model *m, uint32_t *first, uint32_t *n, uint32_t *room,
                         uint32_t value) {
  if (*room == 0) {
    *room = *n + 4;
    const uint32_t run = TABLE_ADD(m, graph_io, *n + *room);
    if (*n) memcpy(m->graph_io + run, m->graph_io + *first, *n * sizeof *m->graph_io);
    *first = run;
    m->work.io_moved += *n;
  }
  m->graph_io[*first + *n] = value;
  ++*n;
  --*room;
}

// Where the input is: beside the one that was removed last, most often, and so it is looked for from there on to
// both sides.
static uint32_t input_at(struct model *m, const struct model_graph *g, uint32_t value) {
  const uint32_t *list = m->graph_io + g->inputs;
  uint32_t up = (uint32_t)min_u64(m->input_removed, g->n_inputs), down = up;
  for (;; m->work.inputs_seen++) {
    assert(down > 0 || up < g->n_inputs);
    if (up < g->n_inputs && list[up++] == value) return up - 1;
    if (down > 0 && list[--down] == value) return down;
  }
}

// From whichever end is nearer: a pass may drop one for every initializer, in their order or against
// it. What lies between that end and the input moves over; the run then begins or ends elsewhere.
void edit_rows_remove_input(struct model *m, struct model_graph *g, uint32_t value) {
  uint32_t *list = m->graph_io + g->inputs;
  const uint32_t at = input_at(m, g, value), behind = g->n_inputs - 1 - at;
  const bool is_front = at <= behind;
  const uint32_t n = is_front ? at : behind;
  m->input_removed = at;
  m->work.io_moved += n + 1;
  g->n_inputs--;
  if (is_front) {
    memmove(list + 1, list, n * sizeof *list);
    g->inputs++;
  } else {
    memmove(list + at, list + at + 1, n * sizeof *list);
    g->inputs_room++;
  }
}

uint32_t edit_rows_longs(struct model *m, const int64_t *list, uint32_t n) {
  const uint32_t first = TABLE_ADD(m, longs, n);
  if (n) memcpy(m->longs + first, list, n * sizeof *list);
  return first;
}

uint32_t edit_rows_floats(struct model *m, const float *list, uint32_t n) {
  const uint32_t first = TABLE_ADD(m, floats, n);
  if (n) memcpy(m->floats + first, list, n * sizeof *list);
  return first;
}

uint32_t edit_rows_small(struct model *m, struct span bytes) {
  const bool own = lies_in(bytes.at, m->small_bytes, m->n_small_bytes);
  const size_t from = own ? (size_t)(bytes.at - m->small_bytes) : 0;
  const uint32_t pad = -m->n_small_bytes & 7;
  const uint32_t first = TABLE_ADD(m, small_bytes, pad + (uint32_t)bytes.n) + pad;
  if (bytes.n) memcpy(m->small_bytes + first, own ? m->small_bytes + from : bytes.at, bytes.n);
  return first / 8;
}
