// The kit's life, and its map from ids to numbers.
//
// A kit lives for one run of a pass and owns what was found out meanwhile: nothing of it outlives
// the run but what was noted of types, if env has a table for that. Tables that are as long as the
// model are made when they are first needed: a pass that asks nothing of the order, say, pays
// nothing for it.
#include "passes/kit/inside/kit_inside.h"

#include "base/table.h"
#include "passes/kit/weights.h"

static struct kit_inside *new_inside(struct kit *k) {
  struct arena arena = {0};
  struct kit_inside *in = arena_zalloc(&arena, sizeof *in);
  in->arena = arena;
  in->n_graphs = k->m->n_graphs;
  return in;
}

void kit_init(struct kit *k, struct pass_env *env, const char *pass) {
  *k = (struct kit){.env = env,
                    .m = env->m,
                    .e = env->edits,
                    .r = env->edits->r,
                    .pass = pass,
                    .graph = env->m->main_graph,
                    .before = NO_ID,
                    .stem = span_str(pass)};
  k->in = new_inside(k);
  model_saw_nothing(k->m);
  k->types = env->types ? env->types : &k->in->types;
  kit_names_init(&k->names, env->m);
}

int kit_done(struct kit *k, struct err *err) {
  struct kit_inside *in = k->in;
  int rc = 0;
  kit_report_done(k);
  if (in->err.kind != ERR_NONE) {
    rc = -1;
    if (err->kind == ERR_NONE) *err = in->err;
  }
  kit_names_done(&k->names);
  kit_chains_done(k);
  model_types_done(&in->types);
  kit_map_done(&in->read_of);
  TABLES_FREE(in, reads, position, waits, ready, orders, source_index, fronts);
  arena_free(&k->site);
  struct arena arena = in->arena; // it holds *in
  *k = (struct kit){0};
  arena_free(&arena);
  return rc;
}

// What an operator computes is no place for a pass: a rule that makes it would find itself there.
static bool says_an_operator(const struct model *m, uint32_t graph) {
  const uint32_t root = model_root_graph(m, graph);
  if (m->graphs[root].kind != GRAPH_FUNCTION) return false;
  const struct model_function *f = &m->functions[m->graphs[root].owner];
  return span_is(model_name(m, f->domain), kit_domain_name(KIT_PASSES));
}

bool kit_graph(const struct kit *k, uint32_t *g) {
  for (; *g < k->in->n_graphs; ++*g)
    if (!(k->m->graphs[*g].flags & GRAPH_DEAD) && !weights_in_training(k->m, *g) &&
        !says_an_operator(k->m, *g))
      return true;
  return false;
}

void kit_visit(struct kit *k, const struct name_filter *nodes,
               void (*visit)(struct kit *k, uint32_t node)) {
  name_filter_warn(&nodes, 1, k->env);
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node, next; n != NO_ID; n = next) {
      next = k->m->nodes[n].next;
      if (!name_filter_refuses(nodes, model_name_str(k->m, k->m->nodes[n].name))) visit(k, n);
    }
}

int kit_run(struct pass_env *env, void *nodes, struct err *err) {
  struct kit k;
  kit_init(&k, env, env->pass->name);
  kit_infer(&k);
  kit_visit(&k, nodes, env->pass->visit);
  return kit_done(&k, err);
}

// ---- maps --------------------------------------------------------------------------------------

static uint32_t slot_of(const struct kit_map *map, uint32_t id) {
  uint32_t at = (uint32_t)((id * 0x9e3779b97f4a7c15u) >> 32) & (map->n_slots - 1);
  while (map->slots[at].key != 0 && map->slots[at].key != id + 1)
    at = (at + 1) & (map->n_slots - 1);
  return at;
}

static void grow(struct kit_map *map) {
  const struct kit_map old = *map;
  map->n_slots = old.n_slots ? old.n_slots * 2 : 64;
  map->cap = 0;
  map->slots = table_grow(NULL, &map->cap, map->n_slots, sizeof *map->slots);
  memset(map->slots, 0, map->n_slots * sizeof *map->slots);
  for (uint32_t i = 0; i < old.n_slots; i++)
    if (old.slots[i].key) map->slots[slot_of(map, old.slots[i].key - 1)] = old.slots[i];
  table_free(old.slots, old.cap, sizeof *old.slots);
}

uint32_t *kit_map_at(struct kit_map *map, uint32_t id) {
  if (map->n >= map->n_slots / 2) grow(map);
  struct kit_map_slot *slot = &map->slots[slot_of(map, id)];
  if (slot->key == 0) {
    *slot = (struct kit_map_slot){id + 1, 0};
    map->n++;
  }
  return &slot->value;
}

uint32_t kit_map_get(const struct kit_map *map, uint32_t id) {
  return map->n_slots ? map->slots[slot_of(map, id)].value : 0;
}

void kit_map_done(struct kit_map *map) {
  table_free(map->slots, map->cap, sizeof *map->slots);
  *map = (struct kit_map){0};
}
