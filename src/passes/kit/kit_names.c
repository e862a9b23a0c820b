// Free names, given in linear time.
//
//   tried     (space, text) ─▶ the number last tried behind it: a million "w" try 1, 2, 3, … once each
//   reserved  texts that were given and are in no table of the model yet
//   nodes     (graph, name id) of live nodes, made when a node's name is first asked for, and taken
//             up to date with each question
//
// All three are hash tables, open addressing, at most half full. Texts are kept in the giver's
// arena. Numbers only go up: what was given and not used leaves a gap, and that is all.
#include "passes/kit/kit_names.h"

#include "base/table.h"

struct kit_names_tried {
  struct span text;
  uint32_t space;
  uint32_t number;
};

void kit_names_init(struct kit_names *n, const struct model *m) {
  *n = (struct kit_names){.m = m};
}

void kit_names_done(struct kit_names *n) {
  TABLES_FREE(n, tried, tried_slots, reserved, reserved_slots, node_slots, going);
  arena_free(&n->arena);
  *n = (struct kit_names){0};
}

// ---- texts tried and reserved --------------------------------------------------------------------

static uint32_t *tried_slot(const struct kit_names *n, uint32_t space, struct span text) {
  uint64_t at = span_hash(text) + space;
  for (;; at++) {
    uint32_t *slot = &n->tried_slots[at & (n->n_tried_slots - 1)];
    if (*slot == 0) return slot;
    const struct kit_names_tried *t = &n->tried[*slot - 1];
    if (t->space == space && span_eq(t->text, text)) return slot;
  }
}

static uint32_t *reserved_slot(const struct kit_names *n, struct span text) {
  uint64_t at = span_hash(text);
  for (;; at++) {
    uint32_t *slot = &n->reserved_slots[at & (n->n_reserved_slots - 1)];
    if (*slot == 0 || span_eq(n->reserved[*slot - 1], text)) return slot;
  }
}

// An empty table of at least twice `used`.
static void new_slots(uint32_t **slots, uint32_t *n, size_t *cap, uint64_t used) {
  uint32_t size = 64;
  while (size / 2 < used + 1)
    size *= 2;
  table_free(*slots, *cap, sizeof **slots);
  *cap = 0;
  *slots = table_grow(NULL, cap, size, sizeof **slots);
  memset(*slots, 0, size * sizeof **slots);
  *n = size;
}

// The number tried last behind a text, to be counted up.
static uint32_t *number_behind(struct kit_names *n, uint32_t space, struct span text) {
  if (n->n_tried >= n->n_tried_slots / 2) {
    new_slots(&n->tried_slots, &n->n_tried_slots, &n->tried_slots_cap, 2 * (uint64_t)n->n_tried);
    for (uint32_t i = 0; i < n->n_tried; i++)
      *tried_slot(n, n->tried[i].space, n->tried[i].text) = i + 1;
  }
  uint32_t *slot = tried_slot(n, space, text);
  if (*slot == 0) {
    const struct span copy = span_of(arena_string(&n->arena, text), text.n);
    const uint32_t row = TABLE_ADD(n, tried, 1);
    n->tried[row] = (struct kit_names_tried){copy, space, 0};
    *slot = row + 1;
  }
  return &n->tried[*slot - 1].number;
}

void kit_names_reserve(struct kit_names *n, struct span name) {
  if (n->n_reserved >= n->n_reserved_slots / 2) {
    new_slots(&n->reserved_slots, &n->n_reserved_slots, &n->reserved_slots_cap,
              2 * (uint64_t)n->n_reserved);
    for (uint32_t i = 0; i < n->n_reserved; i++)
      *reserved_slot(n, n->reserved[i]) = i + 1;
  }
  uint32_t *slot = reserved_slot(n, name);
  if (*slot) return;
  const struct span copy = span_of(arena_string(&n->arena, name), name.n);
  const uint32_t row = TABLE_ADD(n, reserved, 1);
  n->reserved[row] = copy;
  *slot = row + 1;
}

static bool is_reserved(const struct kit_names *n, struct span name) {
  return n->n_reserved > 0 && *reserved_slot(n, name) != 0;
}

// ---- names of nodes ------------------------------------------------------------------------------

static bool is_going(const struct kit_names *n, uint32_t node) {
  return node < n->n_going && n->going[node];
}

// The slot of a node that has this graph and name, or the free one where it would be.
static uint32_t *node_slot(const struct kit_names *n, uint32_t graph, uint32_t name) {
  const uint32_t key[2] = {graph, name};
  uint64_t at = span_hash(span_of(key, sizeof key));
  for (;; at++) {
    uint32_t *slot = &n->node_slots[at & (n->n_node_slots - 1)];
    if (*slot == 0) return slot;
    const struct model_node *node = &n->m->nodes[*slot - 1];
    const bool counts = !(node->flags & NODE_DEAD) && !is_going(n, *slot - 1);
    if (counts && node->graph == graph && node->name == name) return slot;
  }
}

static void enter_nodes(struct kit_names *n) {
  const struct model *m = n->m;
  const uint64_t most = n->n_node_names + (uint64_t)(m->n_nodes - n->nodes_seen);
  if (most >= n->n_node_slots / 2) {
    new_slots(&n->node_slots, &n->n_node_slots, &n->node_slots_cap, 2 * (uint64_t)m->n_nodes);
    n->nodes_seen = n->n_node_names = 0;
  }
  for (; n->nodes_seen < m->n_nodes; n->nodes_seen++) {
    const struct model_node *node = &m->nodes[n->nodes_seen];
    if (node->flags & NODE_DEAD || node->name == m->empty || is_going(n, n->nodes_seen)) continue;
    uint32_t *slot = node_slot(n, node->graph, node->name);
    if (*slot) continue;
    *slot = n->nodes_seen + 1;
    n->n_node_names++;
  }
}

void kit_names_leave(struct kit_names *n, uint32_t node) {
  if (node >= n->n_going) TABLE_ADD(n, going, n->m->n_nodes - n->n_going);
  n->going[node] = 1;
}

// ---- giving --------------------------------------------------------------------------------------

static bool is_taken(struct kit_names *n, enum kit_space space, uint32_t graph, struct span name) {
  n->tries++;
  if (is_reserved(n, name)) return true;
  const uint32_t id = model_find_name(n->m, name);
  if (id == NO_ID) return false;
  if (space == KIT_VALUES) return id < n->m->n_name_values && n->m->name_values[id] != NO_ID;
  if (space != KIT_NODES) return true;
  enter_nodes(n);
  return id != n->m->empty && *node_slot(n, graph, id) != 0;
}

struct span kit_names_free(struct kit_names *n, enum kit_space space, uint32_t graph,
                           struct span wanted, struct arena *a) {
  if ((wanted.n == 0 && space == KIT_NODES) || !is_taken(n, space, graph, wanted)) return wanted;
  uint32_t *number = number_behind(n, space, wanted);
  struct span name;
  do
    name = span_str(arena_printf(a, "%.*s_%u", (int)wanted.n, (const char *)wanted.at, ++*number));
  while (is_taken(n, space, graph, name));
  return name;
}

struct span kit_names_take(struct kit_names *n, enum kit_space space, uint32_t graph,
                           struct span wanted, struct arena *a) {
  const struct span name = kit_names_free(n, space, graph, wanted, a);
  if (name.n > 0) kit_names_reserve(n, name);
  return name;
}

struct span kit_names_join(struct span stem, const char *suffix, struct arena *a) {
  const size_t n = strlen(suffix);
  uint8_t *text = arena_alloc(a, stem.n + n + 1);
  if (stem.n > 0) memcpy(text, stem.at, stem.n);
  memcpy(text + stem.n, suffix, n + 1);
  return span_of(text, stem.n + n);
}

static bool family_is_free(struct kit_names *n, enum kit_space space, uint32_t graph,
                           struct span stem, const char *const *suffixes, uint32_t n_suffixes,
                           struct arena *a) {
  for (uint32_t i = 0; i < n_suffixes; i++)
    if (is_taken(n, space, graph, kit_names_join(stem, suffixes[i], a))) return false;
  return true;
}

struct span kit_names_family(struct kit_names *n, enum kit_space space, uint32_t graph,
                             struct span base, const char *const *suffixes, uint32_t n_suffixes,
                             struct arena *a) {
  struct span stem = kit_names_join(base, "", a);
  if (family_is_free(n, space, graph, stem, suffixes, n_suffixes, a)) return stem;
  uint32_t *number = number_behind(n, KIT_SPACES + (uint32_t)space, base);
  do
    stem = span_str(arena_printf(a, "%.*s_%u", (int)base.n, (const char *)base.at, ++*number));
  while (!family_is_free(n, space, graph, stem, suffixes, n_suffixes, a));
  return stem;
}
