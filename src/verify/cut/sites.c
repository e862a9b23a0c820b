// Sites: the story.
//
//   what changed (sites_changed.c) ──▶ what must be one site (sites_join.c) ──▶ nodes by site
//        ▲ a node around bodies or a function has to change as one │              │
//        └──────────────────────────────────────────────────────────┘             ▼
//   groups by site ◀── sites in order ◀── boundaries (sites_boundary.c)
//
// A site that nobody demands anything of is none: nothing uses what it computed (tidy/dead), or it
// computes nothing (an Identity behind a weight that went).
#include "sites.h"

#include "model_live.h"
#include "sites_parts.h"

#include <stdlib.h>

enum {
  LIFT_ROUNDS = 128, // more than graphs nest
};

// Nodes and claims by root, in runs.
struct drafts {
  struct sites_draft *list;
  uint32_t n;
  uint32_t *of; // by root
};

// ---- nodes by site -----------------------------------------------------------------------------

static uint32_t draft_of(struct sites_cut *c, struct drafts *d, uint32_t element) {
  const uint32_t root = sites_join_root(c, element);
  if (d->of[root] == NO_ID) {
    d->of[root] = d->n;
    d->list[d->n++] = (struct sites_draft){.root = root, .graph = c->graph[root]};
  }
  return d->of[root];
}

// Both passes over the nodes of a side in order: the first counts, the second writes.
static void walk_side(struct sites_cut *c, struct drafts *d, int side, uint32_t **at) {
  const struct model *m = c->m[side];
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (side == AFTER && !c->live[g]) continue;
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next) {
      c->looked++;
      if (c->el[side][n] != n) continue;
      const uint32_t of = draft_of(c, d, n);
      if (at)
        *at[of]++ = n;
      else
        d->list[of].n[side]++;
    }
  }
}

static void walk_claims(struct sites_cut *c, struct drafts *d, uint32_t **at) {
  for (uint32_t i = 0; i < c->n_claims; i++) {
    if (!c->claims[i].demanded) continue;
    const uint32_t of = draft_of(c, d, c->m[AFTER]->n_nodes + i);
    if (at)
      *at[of]++ = i;
    else
      d->list[of].n_claims++;
  }
}

// Runs for `n` of every draft, and cursors into them.
static uint32_t **new_runs(struct drafts *d, struct arena *a,
                           uint32_t (*n)(const struct sites_draft *),
                           void (*set)(struct sites_draft *, const uint32_t *)) {
  uint64_t total = 0;
  for (uint32_t i = 0; i < d->n; i++)
    total += n(&d->list[i]);
  uint32_t *run = arena_alloc(a, (size_t)(total + 1) * sizeof *run);
  uint32_t **at = arena_alloc(a, (d->n + (size_t)1) * sizeof *at);
  for (uint32_t i = 0; i < d->n; i++) {
    at[i] = run;
    set(&d->list[i], run);
    run += n(&d->list[i]);
  }
  return at;
}

static uint32_t n_before(const struct sites_draft *d) {
  return d->n[BEFORE];
}
static uint32_t n_after(const struct sites_draft *d) {
  return d->n[AFTER];
}
static uint32_t n_claims(const struct sites_draft *d) {
  return d->n_claims;
}
static void set_before(struct sites_draft *d, const uint32_t *run) {
  d->nodes[BEFORE] = run;
}
static void set_after(struct sites_draft *d, const uint32_t *run) {
  d->nodes[AFTER] = run;
}
static void set_claims(struct sites_draft *d, const uint32_t *run) {
  d->claims = run;
}

// Of what has no node: the graph that sees both values.
static uint32_t graph_of_claim(const struct sites_cut *c, uint32_t claim) {
  const uint32_t x = c->m[BEFORE]->values[c->claims[claim].before].graph;
  const uint32_t y = c->m[AFTER]->values[c->claims[claim].after].graph;
  return c->m[AFTER]->graphs[x].depth >= c->m[AFTER]->graphs[y].depth ? x : y;
}

static void find_drafts(struct sites_cut *c, struct drafts *d, struct arena *a) {
  d->n = 0;
  d->list = arena_alloc(a, (c->n_parent + (size_t)1) * sizeof *d->list);
  d->of = arena_alloc(a, (c->n_parent + (size_t)1) * sizeof *d->of);
  memset(d->of, 0xff, (c->n_parent + (size_t)1) * sizeof *d->of);
  walk_side(c, d, BEFORE, NULL);
  walk_side(c, d, AFTER, NULL);
  walk_claims(c, d, NULL);
  walk_side(c, d, BEFORE, new_runs(d, a, n_before, set_before));
  walk_side(c, d, AFTER, new_runs(d, a, n_after, set_after));
  walk_claims(c, d, new_runs(d, a, n_claims, set_claims));
  for (uint32_t i = 0; i < d->n; i++)
    if (d->list[i].graph == NO_ID) d->list[i].graph = graph_of_claim(c, d->list[i].claims[0]);
}

// ---- boundaries --------------------------------------------------------------------------------

// A site as it is found, and where it goes.
struct found {
  struct site site;
  uint32_t key, draft;
};

static uint32_t key_of(const struct sites_cut *c, const struct site *s) {
  const struct model *m = c->m[BEFORE];
  if (s->n_before > 0) return s->before[0];
  const uint32_t value = s->outputs[0].before;
  return m->values[value].kind == VALUE_NODE_OUTPUT ? m->values[value].def : 0;
}

static int by_key(const void *x, const void *y) {
  const struct found *a = x, *b = y;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  return (a->draft > b->draft) - (a->draft < b->draft);
}

static uint32_t find_boundaries(struct sites_cut *c, struct drafts *d, struct arena *a,
                                struct found **list) {
  struct sites_boundary *b = sites_boundary_new(c);
  uint32_t n = 0;
  find_drafts(c, d, &c->scratch);
  *list = arena_alloc(&c->scratch, (d->n + (size_t)1) * sizeof **list);
  for (uint32_t i = 0; i < d->n; i++) {
    struct found *f = &(*list)[n];
    sites_boundary_find(b, &d->list[i], a, &f->site);
    if (f->site.n_outputs == 0) continue;
    f->key = key_of(c, &f->site);
    f->draft = i;
    n++;
  }
  sites_boundary_free(b);
  return n;
}

// ---- groups ------------------------------------------------------------------------------------

// A group and a site that it had a hand in.
struct hand {
  uint32_t site, group;
};

struct hands {
  TABLE(struct hand, list);
  const uint32_t *site_of; // by root, NO_ID: none
};

static void lend(struct hands *h, struct sites_cut *c, uint32_t element, uint32_t group) {
  if (element == NO_ID || element == SITES_IN_FUNCTION) return;
  const uint32_t site = h->site_of[sites_join_root(c, element)];
  if (site != NO_ID) *TABLE_PUSH(h, list) = (struct hand){site, group};
}

static void lend_node(struct hands *h, struct sites_cut *c, uint32_t node, uint32_t group) {
  const struct model *s = c->m[BEFORE], *e = c->m[AFTER];
  if (node < s->n_nodes) lend(h, c, c->el[BEFORE][node], group);
  if (!(e->nodes[node].flags & NODE_DEAD)) lend(h, c, c->el[AFTER][node], group);
}

static void lend_forward(struct hands *h, struct sites_cut *c, uint32_t from, uint32_t group) {
  if (from >= c->m[BEFORE]->n_values) return;
  for (uint32_t i = c->claim_of[from]; i != NO_ID; i = c->claims[i].next)
    if (c->claims[i].demanded) lend(h, c, c->m[AFTER]->n_nodes + i, group);
}

// Nodes in functions stand for their calls: every site that has one is the group's too.
static void lend_calls(struct hands *h, struct sites_cut *c, uint32_t node, uint32_t group) {
  const uint32_t el = node < c->m[BEFORE]->n_nodes ? c->el[BEFORE][node] : c->el[AFTER][node];
  if (el != SITES_IN_FUNCTION) return;
  for (uint32_t n = 0; n < c->m[BEFORE]->n_nodes; n++)
    if (c->forced[n] && c->el[BEFORE][n] == n) lend(h, c, n, group);
}

static void lend_row(struct hands *h, struct sites_cut *c, uint32_t row) {
  const struct edit_groups *g = c->groups;
  const struct edit_group_row *x = &g->rows[row];
  const uint32_t group = g->first + 1 + row;
  for (uint32_t i = 0; i < x->n_removed; i++)
    lend_node(h, c, g->removed[x->removed + i], group);
  for (uint32_t i = 0; i < x->n_made; i++)
    lend_node(h, c, g->made[x->made + i], group);
  for (uint32_t i = 0; i < x->n_changed; i++)
    lend_node(h, c, g->changed[x->changed + i], group);
  for (uint32_t i = 0; i < x->n_forwards; i++)
    lend_forward(h, c, g->forwards[x->forwards + i].from, group);
  if (x->n_removed) lend_calls(h, c, g->removed[x->removed], group);
  if (x->n_made) lend_calls(h, c, g->made[x->made], group);
  if (x->n_changed) lend_calls(h, c, g->changed[x->changed], group);
}

static int by_site(const void *x, const void *y) {
  const struct hand *a = x, *b = y;
  if (a->site != b->site) return a->site < b->site ? -1 : 1;
  return (a->group > b->group) - (a->group < b->group);
}

static void name_groups(struct sites_cut *c, const uint32_t *site_of, struct arena *a,
                        struct sites *out) {
  struct hands h = {.site_of = site_of};
  for (uint32_t i = 0; i < c->groups->n_rows; i++) {
    const uint32_t before = h.n_list;
    lend_row(&h, c, i);
    out->unchanged_groups += h.n_list == before;
  }
  if (h.n_list) qsort(h.list, h.n_list, sizeof *h.list, by_site);
  uint32_t *groups = arena_alloc(a, (h.n_list + (size_t)1) * sizeof *groups);
  for (uint32_t i = 0; i < h.n_list; i++) {
    struct site *s = &out->list[h.list[i].site];
    if (s->n_groups == 0) s->groups = groups;
    if (s->n_groups > 0 && s->groups[s->n_groups - 1] == h.list[i].group) continue;
    *groups++ = h.list[i].group;
    s->n_groups++;
  }
  TABLE_FREE(&h, list);
}

// ---- the story ---------------------------------------------------------------------------------

static void open_cut(struct sites_cut *c) {
  const struct model *s = c->m[BEFORE], *e = c->m[AFTER];
  c->live = model_live_graphs(e, &c->scratch);
  c->forced = arena_zalloc(&c->scratch, e->n_nodes + (size_t)1);
  c->claim_of = arena_alloc(&c->scratch, (e->n_values + (size_t)1) * sizeof *c->claim_of);
  c->demanded = arena_alloc(&c->scratch, e->n_values + (size_t)1);
  for (int side = 0; side < 2; side++) {
    const size_t nodes = (side == BEFORE ? s : e)->n_nodes + (size_t)1;
    const size_t graphs = (side == BEFORE ? s : e)->n_graphs + (size_t)1;
    c->cover[side] = arena_alloc(&c->scratch, graphs * sizeof(uint32_t));
    c->el[side] = arena_alloc(&c->scratch, nodes * sizeof(uint32_t));
    c->place[side] = arena_zalloc(&c->scratch, nodes * sizeof(uint32_t));
    c->rank[side] = arena_zalloc(&c->scratch, nodes * sizeof(uint32_t));
    memset(c->el[side], 0xff, nodes * sizeof(uint32_t));
    memset(c->cover[side], 0xff, graphs * sizeof(uint32_t));
  }
  sites_changed_forwards(c);
}

static void close_cut(struct sites_cut *c) {
  TABLE_FREE(c, parent);
  TABLE_FREE(c, graph);
  TABLE_FREE(c, claims);
  TABLE_FREE(c, reads);
  TABLE_FREE(c, bodies);
  arena_free(&c->scratch);
}

void sites_find(const struct model *source, const struct model *result,
                const struct edit_groups *groups, struct arena *a, struct sites *out) {
  struct sites_cut c = {.m = {source, result}, .groups = groups};
  struct drafts d = {0};
  struct found *found;
  *out = (struct sites){0};
  open_cut(&c);
  for (uint32_t round = 0; round < LIFT_ROUNDS; round++) {
    c.lifted = false;
    sites_changed_calls(&c);
    sites_changed_find(&c);
    sites_join_all(&c);
    if (!c.lifted) break;
  }
  out->n = find_boundaries(&c, &d, a, &found);
  if (out->n) qsort(found, out->n, sizeof *found, by_key);
  out->list = arena_alloc(a, (out->n + (size_t)1) * sizeof *out->list);
  uint32_t *site_of = arena_alloc(&c.scratch, (d.n + (size_t)1) * sizeof *site_of);
  memset(site_of, 0xff, (d.n + (size_t)1) * sizeof *site_of);
  for (uint32_t i = 0; i < out->n; i++) {
    out->list[i] = found[i].site;
    site_of[found[i].draft] = i;
  }
  for (uint32_t i = 0; i < c.n_parent; i++)
    if (d.of[i] != NO_ID) d.of[i] = site_of[d.of[i]];
  name_groups(&c, d.of, a, out);
  bool *same = arena_zalloc(a, source->n_nodes + (size_t)1);
  for (uint32_t i = 0; i < source->n_nodes; i++)
    same[i] = c.el[BEFORE][i] == NO_ID && !(result->nodes[i].flags & NODE_DEAD);
  out->same = same;
  const size_t values = result->n_values * sizeof(uint32_t);
  out->to = memcpy(arena_alloc(a, values + 1), c.to, values);
  out->from = memcpy(arena_alloc(a, values + 1), c.from, values);
  for (int side = 0; side < 2; side++) {
    const size_t bytes = c.m[side]->n_nodes * sizeof(uint32_t);
    out->place[side] = memcpy(arena_alloc(a, bytes + 1), c.place[side], bytes);
  }
  out->looked = c.looked;
  close_cut(&c);
}

const char *site_name(const struct model *source, const struct site *s, struct arena *a) {
  for (uint32_t i = 0; i < s->n_before; i++) {
    const struct span name = model_name(source, source->nodes[s->before[i]].name);
    if (name.n > 0) return arena_string(a, name);
  }
  return arena_string(a, model_value_name(source, s->outputs[0].before));
}
