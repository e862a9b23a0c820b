// Texts for an input that holds strings: words of the tables that its readers look them up in, and others that are in none.
//
//   s ── StringNormalizer ── LabelEncoder(keys_strings = red, green)        red, green, "alpha", …
//   s ── Cast to float                                                      "0", "17", "-3.25"
//
// What nodes pass on without a look is followed, a bounded number of values.

#include "verify/draw/inside/draw_parts.h"

enum { VALUES = 64, WORDS = 256, STRINGS_MOST = 1 << 20 };

static const char *const words[] = {"alpha", "Beta", "gamma delta", "",
                                    "7",     "x",    "naïve",       "The end."};
static const char *const numbers[] = {"0", "17", "-3.25", "1", "2.5e2", "-1", "0.125", "100"};
enum { OWN = sizeof words / sizeof *words }; // of either

struct pool {
  struct draw *d;
  struct arena *a;
  uint32_t values[VALUES], n_values;
  struct span found[WORDS];
  uint32_t n_found;
  bool numbers; // they are read as numbers
};

static bool passes_on(const struct model *m, uint32_t node) {
  static const char *const ops[] = {"StringNormalizer", "Identity",  "Reshape",   "Flatten",
                                    "Squeeze",          "Unsqueeze", "Transpose", "Concat",
                                    "Expand",           "Slice",     "Tile",      "Gather"};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
    if (model_op_is(m, node, ops[i])) return true;
  return false;
}

static void follow(struct pool *p, uint32_t value) {
  for (uint32_t i = 0; i < p->n_values; i++)
    if (p->values[i] == value) return;
  if (value != NO_ID && p->n_values < VALUES) p->values[p->n_values++] = value;
}

// The node's tables: every attribute that is a list of texts.
static void read_tables(struct pool *p, uint32_t node) {
  const struct model *m = p->d->m;
  const struct model_node *n = &m->nodes[node];
  for (uint32_t k = 0; k < n->n_attrs; k++) {
    const struct model_attr *a = &m->attrs[n->attrs + k];
    if (a->flags & ATTR_DEAD || a->ref_name != m->empty || a->type != ATTR_STRINGS) continue;
    for (uint32_t i = 0; i < a->count && p->n_found < WORDS; i++)
      p->found[p->n_found++] =
          span_str(arena_string(p->a, model_name(m, m->strings[a->first + i])));
  }
}

static void read_users(struct pool *p, uint32_t value) {
  const struct model *m = p->d->m;
  for (uint32_t ref = m->values[value].first_use; ref != NO_ID; ref = m->refs[ref].next) {
    const uint32_t node = m->refs[ref].node;
    read_tables(p, node);
    if (model_op_is(m, node, "Cast")) p->numbers = true;
    if (passes_on(m, node) && ref == m->nodes[node].refs)
      follow(p, model_output(m, &m->nodes[node], 0));
  }
}

bool draw_strings(struct draw *d, uint32_t value, const int64_t *dims, uint32_t rank,
                  struct arena *a, struct array *out) {
  struct pool p = {.d = d, .a = a};
  uint64_t count, bytes;
  if (!array_sizes(DTYPE_STRING, rank, dims, &count, &bytes) || count > STRINGS_MOST) return false;
  follow(&p, value);
  for (uint32_t i = 0; i < p.n_values; i++)
    read_users(&p, p.values[i]);
  struct draw_chance c = draw_chance_of(d->o.seed, model_value_name(d->m, value));
  struct span *list = arena_alloc(a, (count + 1) * sizeof *list);
  const char *const *own = p.numbers && p.n_found == 0 ? numbers : words;
  for (uint64_t i = 0; i < count; i++) {
    // Three of four from the tables, so that most are found there.
    const bool known = p.n_found > 0 && draw_chance_below(&c, 4) > 0;
    list[i] = known ? p.found[draw_chance_below(&c, p.n_found)]
                    : span_str(own[draw_chance_below(&c, OWN)]);
  }
  *out = (struct array){.name = arena_string(a, model_value_name(d->m, value)),
                        .kind = ARRAY_TENSOR,
                        .dtype = DTYPE_STRING,
                        .rank = rank,
                        .dims = arena_copy(a, dims, rank * sizeof *dims),
                        .count = count,
                        .strings = list};
  return true;
}
