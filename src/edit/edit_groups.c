// Groups in memory: flat tables, one run a group. Edits append to the runs of the newest group, so
// a run is what lies between two groups' beginnings.
//
//   rows      group 1        group 2
//   removed   n3 n4          n9
//   made      n20            n21 n22
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
  *TABLE_PUSH(e->groups, made) = node;
  row->n_made++;
}

void edit_groups_changed(struct edits *e, uint32_t node) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  const uint32_t last = e->groups->n_changed;
  if (row->n_changed > 0 && e->groups->changed[last - 1] == node) return;
  *TABLE_PUSH(e->groups, changed) = node;
  row->n_changed++;
}

void edit_groups_replaced(struct edits *e, uint32_t tensor) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  *TABLE_PUSH(e->groups, replaced) = tensor;
  row->n_replaced++;
}

void edit_groups_forwarded(struct edits *e, uint32_t from, uint32_t to) {
  struct edit_group_row *row = newest(e);
  if (!row) return;
  if (row->n_forwards > 0) { // uses and graph outputs of one value come one after the other
    const struct edit_forwarded *f = &e->groups->forwards[e->groups->n_forwards - 1];
    if (f->from == from && f->to == to) return;
  }
  *TABLE_PUSH(e->groups, forwards) = (struct edit_forwarded){from, to};
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
        for (uint32_t k = m->graphs[a->first + g].first_node; k != NO_ID; k = m->nodes[k].next)
          *TABLE_PUSH(e->groups, removed) = k;
    }
  }
  row->n_removed = e->groups->n_removed - row->removed;
}

struct edit_groups edit_groups_after(const struct edit_groups *g, uint32_t group) {
  struct edit_groups rest = *g;
  rest.rows += group - g->first;
  rest.n_rows -= group - g->first;
  rest.first = group;
  return rest;
}
