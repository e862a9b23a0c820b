// Groups in memory: flat tables, one run a group. Edits append to the runs of the newest group, so
// a run is what lies between two groups' beginnings.
//
//   rows      group 1        group 2
//   removed   n3 n4          n9
//   made      n20            n21 n22
//
// The boundary is found when somebody asks, from the slots of the rows, which dead nodes keep. Sets
// of values are hash tables in the caller's arena, twice as large as what goes in.
#include "edit/edit_groups.h"

#include "base/table.h"

void edit_groups_keep(struct edits *e) {
  size_t cap = 0;
  if (e->groups) return;
  e->groups = table_grow(NULL, &cap, 1, sizeof *e->groups);
  *e->groups = (struct edit_groups){.first = e->group};
  e->groups->self_cap = cap;
}

void edit_groups_done(struct edits *e) {
  struct edit_groups *g = e->groups;
  if (!g) return;
  TABLES_FREE(g, rows, removed, made, changed, forwards, replaced);
  arena_free(&g->texts);
  table_free(g, g->self_cap, sizeof *g);
  e->groups = NULL;
}

// Passes give the same few words to thousands of groups.
static const char *keep_text(struct edit_groups *g, const char *before, const char *text) {
  if (before && strcmp(before, text) == 0) return before;
  return arena_string(&g->texts, span_str(text));
}

void edit_groups_begin(struct edits *e, const char *pass, uint32_t site, const char *reason) {
  struct edit_groups *g = e->groups;
  if (!g) return;
  const uint32_t at = TABLE_ADD(g, rows, 1);
  const struct edit_group_row *last = at ? &g->rows[at - 1] : NULL;
  g->rows[at] = (struct edit_group_row){.pass = keep_text(g, last ? last->pass : NULL, pass),
                                        .reason = keep_text(g, last ? last->reason : NULL, reason),
                                        .site = site,
                                        .removed = g->n_removed,
                                        .made = g->n_made,
                                        .changed = g->n_changed,
                                        .forwards = g->n_forwards,
                                        .replaced = g->n_replaced};
}

static struct edit_group_row *newest(struct edits *e) {
  struct edit_groups *g = e->groups;
  return g && g->n_rows > 0 ? &g->rows[g->n_rows - 1] : NULL;
}

void edit_groups_made(struct edits *e, uint32_t node) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  const uint32_t at = TABLE_ADD(e->groups, made, 1);
  e->groups->made[at] = node;
  row->n_made++;
}

void edit_groups_changed(struct edits *e, uint32_t node) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  const uint32_t last = e->groups->n_changed;
  if (row->n_changed > 0 && e->groups->changed[last - 1] == node) return;
  const uint32_t at = TABLE_ADD(e->groups, changed, 1);
  e->groups->changed[at] = node;
  row->n_changed++;
}

void edit_groups_replaced(struct edits *e, uint32_t tensor) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  const uint32_t at = TABLE_ADD(e->groups, replaced, 1);
  e->groups->replaced[at] = tensor;
  row->n_replaced++;
}

void edit_groups_forwarded(struct edits *e, uint32_t from, uint32_t to) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  if (row->n_forwards > 0) { // uses and graph outputs of one value come one after the other
    const struct edit_forwarded *f = &e->groups->forwards[e->groups->n_forwards - 1];
    if (f->from == from && f->to == to) return;
  }
  const uint32_t at = TABLE_ADD(e->groups, forwards, 1);
  e->groups->forwards[at] = (struct edit_forwarded){from, to};
  row->n_forwards++;
}

// The nodes of graphs inside go with it. The list of removed nodes is the work list.
void edit_groups_removing(struct edits *e, uint32_t node) {
  struct edit_group_row *row = newest(e);
  const struct model *m = e->m;
  if (!row) return;
  uint32_t done = TABLE_ADD(e->groups, removed, 1);
  e->groups->removed[done] = node;
  for (; done < e->groups->n_removed; done++) {
    const struct model_node *n = &m->nodes[e->groups->removed[done]];
    for (uint32_t i = 0; i < n->n_attrs; i++) {
      const struct model_attr *a = &m->attrs[n->attrs + i];
      const bool graphs = a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS;
      if (a->flags & ATTR_DEAD || !graphs || a->first == NO_ID) continue;
      for (uint32_t g = 0; g < a->count; g++)
        for (uint32_t k = m->graphs[a->first + g].first_node; k != NO_ID; k = m->nodes[k].next) {
          const uint32_t at = TABLE_ADD(e->groups, removed, 1);
          e->groups->removed[at] = k;
        }
    }
  }
  row->n_removed = e->groups->n_removed - row->removed;
}

// ---- the boundary ------------------------------------------------------------------------------

struct ids { // a set: id + 1, 0 is free
  uint32_t *slots, n;
};

static struct ids new_ids(uint64_t most, struct arena *a) {
  uint32_t n = 16;
  while (n < 2 * most)
    n *= 2;
  return (struct ids){arena_zalloc(a, n * sizeof(uint32_t)), n};
}

// Was it not there before? Then it is now, if `add`.
static bool is_new(struct ids *s, uint32_t id, bool add) {
  uint32_t at = (uint32_t)((id * 0x9e3779b97f4a7c15u) >> 32) & (s->n - 1);
  while (s->slots[at] != 0 && s->slots[at] != id + 1)
    at = (at + 1) & (s->n - 1);
  if (s->slots[at] != 0) return false;
  if (add) s->slots[at] = id + 1;
  return true;
}

struct cutting {
  const struct model *m;
  const uint32_t *nodes[2]; // removed, made: without those that are both
  uint32_t n[2];
  struct ids outputs[2];
};

static uint64_t slots_of(const struct model *m, const uint32_t *nodes, uint32_t n) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < n; i++)
    sum += m->nodes[nodes[i]].n_in + (uint64_t)m->nodes[nodes[i]].n_out;
  return sum;
}

static void collect(struct cutting *c, int side, const uint32_t *nodes, uint32_t n,
                    struct ids *other, struct arena *a) {
  uint32_t *kept = arena_alloc(a, (n + (size_t)1) * sizeof *kept);
  for (uint32_t i = 0; i < n; i++)
    if (is_new(other, nodes[i], false)) kept[c->n[side]++] = nodes[i];
  c->nodes[side] = kept;
  c->outputs[side] = new_ids(slots_of(c->m, kept, c->n[side]), a);
  for (uint32_t i = 0; i < c->n[side]; i++) {
    const struct model_node *node = &c->m->nodes[kept[i]];
    for (uint32_t k = 0; k < node->n_out; k++)
      if (model_output(c->m, node, k) != NO_ID)
        is_new(&c->outputs[side], model_output(c->m, node, k), true);
  }
}

static struct ids set_of(const uint32_t *nodes, uint32_t n, struct arena *a) {
  struct ids s = new_ids(n, a);
  for (uint32_t i = 0; i < n; i++)
    is_new(&s, nodes[i], true);
  return s;
}

static void find_inputs(struct cutting *c, struct arena *a, struct edit_boundary *out) {
  const uint64_t most = slots_of(c->m, c->nodes[0], c->n[0]) + slots_of(c->m, c->nodes[1], c->n[1]);
  struct ids seen = new_ids(most, a);
  uint32_t *inputs = arena_alloc(a, (size_t)(most + 1) * sizeof *inputs);
  for (int side = 0; side < 2; side++)
    for (uint32_t i = 0; i < c->n[side]; i++) {
      const struct model_node *node = &c->m->nodes[c->nodes[side][i]];
      for (uint32_t k = 0; k < node->n_in; k++) {
        const uint32_t value = model_input(c->m, node, k);
        if (value != NO_ID && is_new(&c->outputs[side], value, false) && is_new(&seen, value, true))
          inputs[out->n_inputs++] = value;
      }
    }
  out->inputs = inputs;
}

static void find_outputs(struct cutting *c, const struct edit_forwarded *forwards, uint32_t n,
                         struct arena *a, struct edit_boundary *out) {
  const uint64_t most = slots_of(c->m, c->nodes[1], c->n[1]) + n;
  struct edit_forwarded *pairs = arena_alloc(a, (size_t)(most + 1) * sizeof *pairs);
  for (uint32_t i = 0; i < c->n[1]; i++) {
    const struct model_node *node = &c->m->nodes[c->nodes[1][i]];
    for (uint32_t k = 0; k < node->n_out; k++) {
      const uint32_t v = model_output(c->m, node, k);
      if (v != NO_ID && !is_new(&c->outputs[0], v, false))
        pairs[out->n_outputs++] = (struct edit_forwarded){v, v};
    }
  }
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t from = forwards[i].from;
    const bool between =
        !is_new(&c->outputs[1], from, false) && is_new(&c->outputs[0], from, false);
    if (!between) pairs[out->n_outputs++] = forwards[i];
  }
  out->outputs = pairs;
}

struct edit_groups edit_groups_after(const struct edit_groups *g, uint32_t group) {
  struct edit_groups rest = *g;
  rest.rows += group - g->first;
  rest.n_rows -= group - g->first;
  rest.first = group;
  return rest;
}

void edit_groups_boundary(const struct edits *e, const struct edit_group_row *group,
                          struct arena *a, struct edit_boundary *out) {
  const struct edit_groups *g = e->groups;
  const uint32_t *removed = g->removed + group->removed, *made = g->made + group->made;
  struct ids were = set_of(removed, group->n_removed, a), came = set_of(made, group->n_made, a);
  struct cutting c = {.m = e->m};
  *out = (struct edit_boundary){0};
  collect(&c, 0, removed, group->n_removed, &came, a);
  collect(&c, 1, made, group->n_made, &were, a);
  find_inputs(&c, a, out);
  find_outputs(&c, g->forwards + group->forwards, group->n_forwards, a, out);
}
