// Budgets as a path along the lower hulls. Of each tensor, options that cost bytes without saving
// error per byte better than what lies beyond them are no stops:
//
//   error │ a                        steps a→b and b→d, each saving less error per byte than
//         │   ·  c                   the one before; c lies above the hull
//         │    b
//         │        ·   ·  d
//         └───────────────── bytes
//
// All steps of all tensors, sorted by error saved per byte, are taken in that order as long as they
// fit. What room is left then goes to single tensors, in order of their names. The best pick that
// is the same for all tensors is another start for the same filling; the better of the two results
// wins.
#include "passes/nbits/size_budget.h"

#include "base/table.h"

#include <math.h>
#include <stdlib.h>

struct step {
  double rate; // error saved per byte
  uint32_t tensor, from, to;
};

struct choosing {
  struct size_budget_tensor *tensors;
  uint32_t n;
  uint64_t budget;
  uint32_t *order; // tensors by name, then position
  struct arena arena;
};

// Fewer bytes, then less error, then the earlier one.
static bool is_cheaper(const struct size_budget_option *o, uint32_t a, uint32_t b) {
  if (o[a].bytes != o[b].bytes) return o[a].bytes < o[b].bytes;
  if (o[a].error != o[b].error) return o[a].error < o[b].error;
  return a < b;
}

static uint32_t cheapest(const struct size_budget_tensor *t) {
  uint32_t best = 0;
  for (uint32_t i = 1; i < t->n; i++)
    if (is_cheaper(t->options, i, best)) best = i;
  return best;
}

static double rate_of(const struct size_budget_option *from, const struct size_budget_option *to) {
  if (to->bytes <= from->bytes || !(to->error < from->error)) return 0;
  return (from->error - to->error) / (double)(to->bytes - from->bytes);
}

// The next stop on the hull, or `from`.
static uint32_t next_stop(const struct size_budget_tensor *t, uint32_t from, double *rate) {
  uint32_t best = from;
  *rate = 0;
  for (uint32_t i = 0; i < t->n; i++) {
    const double r = rate_of(&t->options[from], &t->options[i]);
    // Of equal rates the farthest, so that the hull's edges are whole.
    const bool farther = best != from && r == *rate && t->options[i].bytes > t->options[best].bytes;
    if (r > *rate || (r > 0 && farther)) {
      best = i;
      *rate = r;
    }
  }
  return best;
}

static int by_name(const void *a, const void *b, const void *ctx) {
  const struct choosing *c = ctx;
  const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  const int order = strcmp(c->tensors[x].name, c->tensors[y].name);
  return order ? order : (x > y) - (x < y);
}

static int by_rate(const void *a, const void *b, const void *ctx) {
  const struct choosing *c = ctx;
  const struct step *x = a, *y = b;
  if (x->rate != y->rate) return x->rate > y->rate ? -1 : 1;
  if (x->tensor != y->tensor) return by_name(&x->tensor, &y->tensor, ctx);
  const struct size_budget_option *o = c->tensors[x->tensor].options;
  return o[x->from].bytes > o[y->from].bytes ? 1 : -1;
}

static uint64_t bytes_of(const struct choosing *c, const uint32_t *pick) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < c->n; i++)
    sum += c->tensors[i].options[pick[i]].bytes;
  return sum;
}

// In the order of names, whatever the order of tensors.
static double error_of(const struct choosing *c, const uint32_t *pick) {
  double sum = 0;
  for (uint32_t i = 0; i < c->n; i++)
    sum += c->tensors[c->order[i]].options[pick[c->order[i]]].error;
  return sum;
}

static void take_steps(struct choosing *c, uint32_t *pick) {
  struct step *steps = NULL;
  size_t cap = 0;
  uint32_t n = 0;
  for (uint32_t t = 0; t < c->n; t++) {
    struct step s = {.tensor = t, .from = pick[t]};
    while ((s.to = next_stop(&c->tensors[t], s.from, &s.rate)) != s.from) {
      steps = table_grow(steps, &cap, (size_t)n + 1, sizeof *steps);
      steps[n++] = s;
      s.from = s.to;
    }
  }
  table_sort(steps, n, sizeof *steps, by_rate, c);
  uint64_t bytes = bytes_of(c, pick);
  for (uint32_t i = 0; i < n; i++) {
    const struct step *s = &steps[i];
    const struct size_budget_option *o = c->tensors[s->tensor].options;
    if (pick[s->tensor] != s->from || o[s->to].bytes - o[s->from].bytes > c->budget - bytes)
      continue;
    bytes += o[s->to].bytes - o[s->from].bytes;
    pick[s->tensor] = s->to;
  }
  table_free(steps, cap, sizeof *steps);
}

// Single tensors take what room is left.
static void fill_up(const struct choosing *c, uint32_t *pick) {
  uint64_t bytes = bytes_of(c, pick);
  for (uint32_t k = 0; k < c->n; k++) {
    const struct size_budget_tensor *t = &c->tensors[c->order[k]];
    uint32_t *now = &pick[c->order[k]];
    bytes -= t->options[*now].bytes;
    for (uint32_t i = 0; i < t->n; i++)
      if (t->options[i].bytes <= c->budget - bytes && t->options[i].error < t->options[*now].error)
        *now = i;
    bytes += t->options[*now].bytes;
  }
}

static uint32_t fewest_options(const struct choosing *c) {
  uint32_t n = UINT32_MAX;
  for (uint32_t i = 0; i < c->n; i++)
    if (c->tensors[i].n < n) n = c->tensors[i].n;
  return c->n ? n : 0;
}

// The best pick of the same number for all that fits; false if there is none.
static bool best_uniform(struct choosing *c, uint32_t *pick) {
  const uint32_t n = fewest_options(c);
  uint32_t *same = arena_alloc(&c->arena, c->n * sizeof *same + 1);
  bool found = false;
  for (uint32_t k = 0; k < n; k++) {
    for (uint32_t i = 0; i < c->n; i++)
      same[i] = k;
    if (bytes_of(c, same) > c->budget || (found && !(error_of(c, same) < error_of(c, pick))))
      continue;
    memcpy(pick, same, c->n * sizeof *pick);
    found = true;
  }
  return found;
}

static void choose(struct choosing *c, uint32_t *pick) {
  uint32_t *other = arena_alloc(&c->arena, c->n * sizeof *other + 1);
  take_steps(c, pick);
  fill_up(c, pick);
  if (best_uniform(c, other)) {
    take_steps(c, other);
    fill_up(c, other);
    if (error_of(c, other) < error_of(c, pick)) memcpy(pick, other, c->n * sizeof *pick);
  }
  for (uint32_t i = 0; i < c->n; i++)
    c->tensors[i].picked = pick[i];
}

bool size_budget_budget(struct size_budget_tensor *tensors, uint32_t n, uint64_t budget,
                        uint64_t *bytes) {
  struct choosing c = {.tensors = tensors, .n = n, .budget = budget};
  uint32_t *pick = arena_alloc(&c.arena, n * sizeof *pick + 1);
  c.order = arena_alloc(&c.arena, n * sizeof *c.order + 1);
  for (uint32_t i = 0; i < n; i++) {
    pick[i] = cheapest(&tensors[i]);
    c.order[i] = i;
  }
  table_sort(c.order, n, sizeof *c.order, by_name, &c);
  *bytes = bytes_of(&c, pick);
  const bool fits = *bytes <= budget;
  for (uint32_t i = 0; i < n; i++)
    tensors[i].picked = pick[i];
  if (fits) {
    choose(&c, pick);
    *bytes = 0;
    for (uint32_t i = 0; i < n; i++)
      *bytes += tensors[i].options[tensors[i].picked].bytes;
  }
  arena_free(&c.arena);
  return fits;
}

// ---- gates -------------------------------------------------------------------------------------

static const struct {
  const char *word, *unit;
} words[] = {[SIZE_BUDGET_SQNR] = {"sqnr=", "dB"},
             [SIZE_BUDGET_COSINE] = {"cosine=", ""},
             [SIZE_BUDGET_MAXABS] = {"maxabs=", ""}};

// A cosine above 1 and an error below 0 there is not.
static bool can_hold(const struct size_budget_gate *g) {
  if (!isfinite(g->limit)) return false;
  if (g->figure == SIZE_BUDGET_COSINE) return g->limit <= 1;
  return g->figure == SIZE_BUDGET_SQNR || g->limit >= 0;
}

int size_budget_gate_parse(const char *text, struct size_budget_gate *out, struct err *err) {
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    const size_t n = strlen(words[i].word);
    char *end;
    if (strncmp(text, words[i].word, n) != 0) continue;
    out->figure = (enum size_budget_figure)i;
    out->limit = strtod(text + n, &end);
    if (end == text + n || !can_hold(out)) break;
    if (*end == '\0' || (*words[i].unit && strcmp(end, words[i].unit) == 0)) return 0;
    break;
  }
  err_set(err, ERR_USAGE, "'%s' is not a valid gate", quote_str(text).s);
  return err_hint(err, "write sqnr=20dB, cosine=0.99 or maxabs=0.1");
}

static bool passes(const struct size_budget_gate *g, const struct figures *f,
                   const double *output_db) {
  switch (g->figure) {
  case SIZE_BUDGET_SQNR: return (output_db ? *output_db : figures_sqnr_db(f)) >= g->limit;
  case SIZE_BUDGET_COSINE: return figures_cosine(f) >= g->limit;
  case SIZE_BUDGET_MAXABS: break;
  }
  return f->max_error <= g->limit;
}

bool size_budget_passes(const struct size_budget_gate *gates, uint32_t n, const struct figures *f,
                        const double *output_db) {
  for (uint32_t i = 0; i < n; i++)
    if (!passes(&gates[i], f, output_db)) return false;
  return true;
}
