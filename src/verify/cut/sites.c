//   what changed (sites_changed.c) ──▶ what must be one site (sites_join.c) ──▶ nodes by site
//        ▲ a node around bodies or a function has to change as one │              │
//        └──────────────────────────────────────────────────────────┘             ▼
//   groups by site ◀── sites in order ◀── boundaries (sites_boundary.c)
//
// A site that nobody demands anything of is none: nothing uses what it computed (tidy/dead), or it
// computes nothing (an Identity behind a weight that went).
#include "verify/cut/sites.h"

#include "model/model_live.h"
#include "verify/cut/inside/sites_parts.h"

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
  uint32_t n = 0;
  c->boundary = sites_boundary_new(c);
  find_drafts(c, d, &c->scratch);
  *list = arena_alloc(&c->scratch, (d->n + (size_t)1) * sizeof **list);
  for (uint32_t i = 0; i < d->n; i++) {
    struct found *f = &(*list)[n];
    sites_boundary_find(c->boundary, &d->list[i], 0, a, &f->site);
    if (f->site.n_outputs == 0) continue;
    f->key = key_of(c, &f->site);
    f->draft = i;
    n++;
  }
  c->drafts = d->list;
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

// The site of a node, and those that it is a guest of.
static void lend_node(struct hands *h, struct sites_cut *c, uint32_t node, uint32_t group) {
  const struct model *s = c->m[BEFORE], *e = c->m[AFTER];
  for (uint32_t i = c->guest_of[node]; i != NO_ID; i = c->guests[i].next)
    *TABLE_PUSH(h, list) = (struct hand){c->guests[i].site, group};
  if (node < s->n_nodes) lend(h, c, c->el[BEFORE][node], group);
  if (!(e->nodes[node].flags & NODE_DEAD)) lend(h, c, c->el[AFTER][node], group);
}

// Claims about a value of the source, and about what Identity nodes make of it if it is a constant.
static void lend_forward(struct hands *h, struct sites_cut *c, uint32_t from, uint32_t group) {
  if (from >= c->m[BEFORE]->n_values) return;
  for (uint32_t i = c->claim_of[from]; i != NO_ID; i = c->claims[i].next)
    if (c->claims[i].demanded) lend(h, c, c->m[AFTER]->n_nodes + i, group);
  for (uint32_t i = c->alias_of[from]; i != NO_ID; i = c->aliases[i].next)
    lend(h, c, c->m[AFTER]->n_nodes + c->aliases[i].claim, group);
}

// Of what a Constant node gave, and what gives it now.
static void lend_constant(struct hands *h, struct sites_cut *c, uint32_t node, uint32_t group) {
  const struct model *s = c->m[BEFORE];
  if (node < s->n_nodes && model_op_is(s, node, "Constant"))
    lend_forward(h, c, model_output(s, &s->nodes[node], 0), group);
}

static void lend_tensor(struct hands *h, struct sites_cut *c, uint32_t tensor, uint32_t group) {
  const struct model *e = c->m[AFTER];
  const struct model_tensor *t = &e->tensors[tensor];
  if (t->home == HOME_INITIALIZER)
    lend_forward(h, c, t->owner, group);
  else if (t->home == HOME_ATTRIBUTE && t->owner != NO_ID && e->attrs[t->owner].node != NO_ID)
    lend_constant(h, c, e->attrs[t->owner].node, group);
}

// Nodes of functions stand for the calls that changed with them, and those for calls of the function
// that they are in.
static void lend_calls(struct hands *h, struct sites_cut *c, uint32_t function, uint32_t group) {
  if (function == NO_ID || function >= c->m[BEFORE]->n_functions) return;
  c->n_bodies = 0;
  *TABLE_PUSH(c, bodies) = function;
  while (c->n_bodies > 0) {
    const uint32_t of = c->bodies[--c->n_bodies];
    if (c->lent[of] == group) continue;
    c->lent[of] = group;
    for (uint32_t i = c->calls_of[of]; i != NO_ID; i = c->calls[i].next) {
      const uint32_t node = c->calls[i].node;
      const uint32_t in = sites_function_of(c->m[BEFORE], c->m[BEFORE]->nodes[node].graph);
      lend_node(h, c, node, group);
      if (in != NO_ID) *TABLE_PUSH(c, bodies) = in;
    }
  }
}

static void lend_nodes(struct hands *h, struct sites_cut *c, const uint32_t *nodes, uint32_t n,
                       uint32_t group) {
  uint32_t last = NO_ID;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t function = sites_function_of(c->m[AFTER], c->m[AFTER]->nodes[nodes[i]].graph);
    lend_node(h, c, nodes[i], group);
    lend_constant(h, c, nodes[i], group);
    if (function != last) lend_calls(h, c, function, group);
    last = function;
  }
}

static void lend_row(struct hands *h, struct sites_cut *c, uint32_t row) {
  const struct edit_groups *g = c->groups;
  const struct edit_group_row *x = &g->rows[row];
  const uint32_t group = g->first + 1 + row;
  lend_nodes(h, c, g->removed + x->removed, x->n_removed, group);
  lend_nodes(h, c, g->made + x->made, x->n_made, group);
  lend_nodes(h, c, g->changed + x->changed, x->n_changed, group);
  for (uint32_t i = 0; i < x->n_forwards; i++)
    lend_forward(h, c, g->forwards[x->forwards + i].from, group);
  for (uint32_t i = 0; i < x->n_replaced; i++)
    lend_tensor(h, c, g->replaced[x->replaced + i], group);
}

static int by_site(const void *x, const void *y) {
  const struct hand *a = x, *b = y;
  if (a->site != b->site) return a->site < b->site ? -1 : 1;
  return (a->group > b->group) - (a->group < b->group);
}

// Nodes that changed may be in parts of other sites too.
static void find_guests(struct sites_cut *c, const struct sites *sites) {
  c->guest_of = arena_alloc(&c->scratch, (c->m[AFTER]->n_nodes + (size_t)1) * sizeof *c->guest_of);
  memset(c->guest_of, 0xff, (c->m[AFTER]->n_nodes + (size_t)1) * sizeof *c->guest_of);
  for (uint32_t i = 0; i < sites->n; i++)
    for (int side = 0; side < 2; side++) {
      const struct site *s = &sites->list[i];
      const uint32_t *nodes = side == BEFORE ? s->before : s->after;
      const uint32_t n = side == BEFORE ? s->n_before : s->n_after;
      for (uint32_t k = 0; k < n; k++) {
        if (c->el[side][nodes[k]] == NO_ID) continue;
        *TABLE_PUSH(c, guests) = (struct sites_guest){i, c->guest_of[nodes[k]]};
        c->guest_of[nodes[k]] = c->n_guests - 1;
      }
    }
}

// Claims about constants behind Identity nodes, by where those begin.
static void find_aliases(struct sites_cut *c) {
  const size_t bytes = (c->m[AFTER]->n_values + (size_t)1) * sizeof *c->alias_of;
  struct model_constant found;
  c->alias_of = arena_alloc(&c->scratch, bytes);
  memset(c->alias_of, 0xff, bytes);
  for (uint32_t i = 0; i < c->n_claims; i++) {
    if (!c->claims[i].demanded || !sites_constant(c, BEFORE, c->claims[i].before, &found)) continue;
    if (found.value == c->claims[i].before) continue;
    *TABLE_PUSH(c, aliases) = (struct sites_alias){i, c->alias_of[found.value]};
    c->alias_of[found.value] = c->n_aliases - 1;
  }
}

static void name_groups(struct sites_cut *c, const uint32_t *site_of, struct arena *a,
                        struct sites *out) {
  struct hands h = {.site_of = site_of};
  find_guests(c, out);
  find_aliases(c);
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
  c->within = arena_zalloc(&c->scratch, (e->n_graphs + (size_t)1) * sizeof *c->within);
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

void sites_done(struct sites *s) {
  struct sites_cut *c = s->cut;
  if (!c) return;
  sites_boundary_free(c->boundary);
  TABLES_FREE(c, parent, graph, claims, reads, bodies, calls, guests, aliases, torn);
  struct arena scratch = c->scratch; // *c lies in it
  arena_free(&scratch);
  s->cut = NULL;
}

static struct sites_cut *new_cut(const struct model *source, const struct model *result,
                                 const struct edit_groups *groups) {
  struct arena scratch = {0};
  struct sites_cut *c = arena_zalloc(&scratch, sizeof *c);
  *c = (struct sites_cut){.m = {source, result}, .groups = groups, .scratch = scratch};
  open_cut(c);
  return c;
}

void sites_find(const struct model *source, const struct model *result,
                const struct edit_groups *groups, const bool *retyped, struct arena *a,
                struct sites *out) {
  struct sites_cut *c = new_cut(source, result, groups);
  c->retyped = retyped;
  struct drafts d = {0};
  struct found *found;
  *out = (struct sites){.cut = c};
  for (uint32_t round = 0; round < LIFT_ROUNDS; round++) {
    c->lifted = false;
    sites_changed_calls(c);
    sites_changed_find(c);
    sites_join_all(c);
    if (!c->lifted) break;
  }
  out->n = find_boundaries(c, &d, a, &found);
  if (out->n) qsort(found, out->n, sizeof *found, by_key);
  out->list = arena_alloc(a, (out->n + (size_t)1) * sizeof *out->list);
  c->draft_of = arena_alloc(&c->scratch, (out->n + (size_t)1) * sizeof *c->draft_of);
  uint32_t *site_of = arena_alloc(&c->scratch, (d.n + (size_t)1) * sizeof *site_of);
  memset(site_of, 0xff, (d.n + (size_t)1) * sizeof *site_of);
  for (uint32_t i = 0; i < out->n; i++) {
    out->list[i] = found[i].site;
    site_of[found[i].draft] = i;
    c->draft_of[i] = found[i].draft;
  }
  for (uint32_t i = 0; i < c->n_parent; i++)
    if (d.of[i] != NO_ID) d.of[i] = site_of[d.of[i]];
  for (uint32_t i = 0; i < c->n_torn; i++) {
    const uint32_t at = d.of[sites_join_root(c, c->torn[i])];
    if (at != NO_ID) out->list[at].why_not = "its nodes are in graphs that no node contains";
  }
  name_groups(c, d.of, a, out);
  out->looked = c->looked;
}

bool sites_widen(struct sites *s, uint32_t site, uint32_t layers, struct arena *a,
                 struct site *out) {
  const struct site *of = &s->list[site];
  sites_boundary_find(s->cut->boundary, &s->cut->drafts[s->cut->draft_of[site]], layers, a, out);
  out->groups = of->groups;
  out->n_groups = of->n_groups;
  out->why_not = of->why_not;
  return of->n_before != out->n_before || of->n_after != out->n_after;
}

const char *site_name(const struct model *source, const struct site *s, struct arena *a) {
  for (uint32_t i = 0; i < s->n_before; i++) {
    const struct span name = model_name(source, source->nodes[s->before[i]].name);
    if (name.n > 0) return arena_string(a, name);
  }
  return arena_string(a, model_value_name(source, s->outputs[0].before));
}
