// A segment costs what its bytes cost to be written and hashed, and its share of what its recipe costs:
// reading the leaves, and each row on the way. Rows stand behind their operands, so one walk over the
// table has it.
//
// Scales and zero points come of the read that codes took (eval_cache.h): they cost no more than to be
// written. That is not so where the cache is too small, which a forecast may leave out.
#include "effort.h"

#include <stdlib.h>

static const double cost_of_reading = 0.25, cost_of_writing = 0.75;
static const double most = 1e18; // a DAG may be walked down in very many ways

static double cost_of_format(enum recipe_format format) {
  switch (format) {
#define EFFORT_FORMAT(id, hundredths)                                                              \
  case FORMAT_##id:                                                                                \
    return (hundredths) / 100.0;
#define EFFORT_KIND(id, hundredths)
#include "effort_costs.def"
#undef EFFORT_FORMAT
#undef EFFORT_KIND
  default: return 1;
  }
}

static double cost_of_kind(enum recipe_kind kind) {
  switch (kind) {
#define EFFORT_FORMAT(id, hundredths)
#define EFFORT_KIND(id, hundredths)                                                                \
  case RECIPE_##id:                                                                                \
    return (hundredths) / 100.0;
#include "effort_costs.def"
#undef EFFORT_FORMAT
#undef EFFORT_KIND
  default: return 0; // what moves elements
  }
}

static double cost_of_row(const struct recipes *r, uint32_t id, const double *of) {
  const struct recipe *row = &r->rows[id];
  double cost = row->kind == RECIPE_EXTENT ? cost_of_reading * (double)row->bytes : 0;
  if (row->kind == RECIPE_QUANTIZE && recipe_part_of(r, id) != PART_CODES) return 0;
  for (uint32_t i = 0; i < row->n_args; i++)
    cost += of[r->args[row->args + i]];
  if (row->kind == RECIPE_QUANTIZE)
    cost += cost_of_format(recipe_quantization_of(r, id).format) *
            (double)r->rows[r->args[row->args]].bytes;
  else
    cost += cost_of_kind((enum recipe_kind)row->kind) * (double)row->bytes;
  return cost < most ? cost : most;
}

static double cost_of_segment(const struct plan *p, const struct segment *s, const double *of) {
  const double bytes = (double)s->len;
  if (s->kind == SEGMENT_EXTENT) return (cost_of_reading + cost_of_writing) * bytes;
  if (s->kind != SEGMENT_RECIPE) return cost_of_writing * bytes;
  const uint64_t whole = p->recipes->rows[s->ref].bytes;
  return cost_of_writing * bytes + (whole ? of[s->ref] * (bytes / (double)whole) : 0);
}

struct effort effort_of_plan(const struct plan *p, struct arena *a) {
  const uint32_t rows = p->recipes ? p->recipes->n_rows : 0;
  size_t cap = 0;
  double *of = table_grow(NULL, &cap, (size_t)rows + 1, sizeof *of); // by recipe
  double *before = arena_alloc(a, ((size_t)p->n_segments + 1) * sizeof *before);
  for (uint32_t id = 0; id < rows; id++)
    of[id] = cost_of_row(p->recipes, id, of);
  before[0] = 0;
  for (uint32_t i = 0; i < p->n_segments; i++)
    before[i + 1] = before[i] + cost_of_segment(p, &p->segments[i], of);
  table_free(of, cap, sizeof *of);
  return (struct effort){p, before};
}

double effort_total(const struct effort *e) {
  return e->before[e->p->n_segments];
}

// Of all that stands before byte `off` of segment i, counted from the segment's own start.
static double before_byte(const struct effort *e, uint32_t i, uint64_t off) {
  const struct segment *s = &e->p->segments[i];
  const double part = s->len ? (double)(off - s->off) / (double)s->len : 0;
  return e->before[i] + (e->before[i + 1] - e->before[i]) * part;
}

double effort_between(const struct effort *e, uint32_t output, uint64_t off, uint64_t n) {
  if (n == 0) return 0;
  const uint32_t first = plan_segment_at(e->p, output, off),
                 last = plan_segment_at(e->p, output, off + n - 1);
  return before_byte(e, last, off + n) - before_byte(e, first, off);
}
