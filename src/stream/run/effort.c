// A segment costs what its bytes cost to be written and hashed, and its share of what its recipe costs:
// reading the leaves, and each row on the way. Rows stand behind their operands, so one walk over the
// table has it.
//
// Scales and zero points come of the read that codes took (eval_cache.h): they cost no more than to be
// written. That is not so where the cache is too small, which a forecast may leave out.
//
// A weight with one scale, or one for each channel, is looked at before the first code is made, since its range must be
// known. The look costs what the operand does, and is a part of what the codes cost (whose elements may have been kept
// by it, or are read again, which a forecast cannot know); it is done as far as
// it came, or as far as codes were made, whichever is more, so that nobody needs to say which weights took it.
//
//   work done of a segment = (cost - look) * made + look * max(made, looked)      made, looked: shares, 0 .. 1
//
// What GPTQ and AWQ take grows with the rows of a weight, not only with its bytes. Of K rows and N columns, in products:
//
//   GPTQ          K² N / 2          columns are made together, and looked at in this sense
//   its factor    K³ / 6            once for all weights of a value
//   AWQ           K² N              the ranges of blocks, for the sake of columns
//   AWQ's scales  20 K² n / 2       once for all weights of a value; n: columns of each that are tried
#include "stream/run/effort.h"

#include "tensor_stats/second_moments.h"

#include <stdlib.h>

static const double cost_of_reading = 0.25, cost_of_writing = 0.75;
static const double cost_of_product = 0.055; // 20 a nanosecond, one worker with AVX2
static const double most = 1e18;             // a DAG may be walked down in very many ways

// Without a row a byte of the operand is copied.
static double cost_of_format(enum recipe_format format) {
  static const uint32_t hundredths[RECIPE_FORMATS] = {
#define EFFORT_FORMAT(id, n) [FORMAT_##id] = (n),
#define EFFORT_KIND(id, n)
#include "stream/run/effort_costs.def"
  };
  return hundredths[format] ? hundredths[format] / 100.0 : 1;
}

// What moves elements has no row.
static double cost_of_kind(enum recipe_kind kind) {
  static const uint32_t hundredths[RECIPE_KINDS] = {
#define EFFORT_FORMAT(id, n)
#define EFFORT_KIND(id, n) [RECIPE_##id] = (n),
#include "stream/run/effort_costs.def"
  };
  return hundredths[kind] / 100.0;
}

static bool is_gptq(const struct recipes *r, uint32_t id) {
  return recipe_quantizes(r, id) && recipe_part_of(r, id) == PART_CODES &&
         recipe_quantization_of(r, id).format == FORMAT_NBITS_GPTQ;
}

static double rows_of_columns(const struct recipes *r, uint32_t id) {
  return (double)recipe_dims(r, r->args[r->rows[id].args])[recipe_quantization_of(r, id).axis];
}

static double cost_of_quantizing(const struct recipes *r, uint32_t id) {
  const struct recipe *operand = &r->rows[r->args[r->rows[id].args]];
  if (is_gptq(r, id)) return cost_of_product * rows_of_columns(r, id) * (double)operand->count / 2;
  const struct recipe_quantization q = recipe_quantization_of(r, id);
  const double ranges =
      q.seen > 0 ? cost_of_product * rows_of_columns(r, id) * (double)operand->count : 0;
  return cost_of_format(q.format) * (double)operand->bytes + ranges;
}

static double cost_of_row(const struct recipes *r, uint32_t id, const double *of) {
  const struct recipe *row = &r->rows[id];
  double cost = row->kind == RECIPE_EXTENT ? cost_of_reading * (double)row->bytes : 0;
  if (recipe_quantizes(r, id) && recipe_part_of(r, id) != PART_CODES) return 0;
  for (uint32_t i = 0; i < row->n_args; i++)
    cost += of[r->args[row->args + i]];
  if (recipe_quantizes(r, id))
    cost += cost_of_quantizing(r, id);
  else
    cost += cost_of_kind((enum recipe_kind)row->kind) * (double)row->bytes;
  return cost < most ? cost : most;
}

// ---- what several segments wait for ------------------------------------------------------------

// The row that takes its time before this one can be made: scales of AWQ, the second moments that GPTQ factors. waits: of rows
// before. NO_ID: none.
static uint32_t wait_of_row(const struct recipes *r, uint32_t id, const uint32_t *waits) {
  const struct recipe *row = &r->rows[id];
  if (row->kind == RECIPE_AWQ) return id;
  for (uint32_t i = 0; i < row->n_args; i++)
    if (waits[r->args[row->args + i]] != NO_ID) return waits[r->args[row->args + i]];
  return is_gptq(r, id) ? recipe_statistics_of(r, id).gram : NO_ID;
}

// Columns of all weights that AWQ tries.
static uint64_t awq_columns(const struct recipes *r, uint32_t id) {
  const struct recipe *row = &r->rows[id];
  uint64_t n = 0;
  for (uint32_t i = 2; i < row->n_args; i++)
    n += recipe_awq_tried((uint64_t)recipe_dims(r, r->args[row->args + i])[1]);
  return n;
}

static uint64_t gram_rows(const struct recipes *r, uint32_t id) {
  uint64_t rows;
  BISECT(rows, SECOND_MOMENTS_MOST, second_moments_elements(rows) < r->rows[id].count);
  return rows;
}

static double cost_of_wait(const struct recipes *r, uint32_t id) {
  const bool awq = r->rows[id].kind == RECIPE_AWQ;
  const double k = (double)(awq ? r->rows[id].count : gram_rows(r, id));
  return cost_of_product * k * k *
         (awq ? (double)(RECIPE_AWQ_WAYS / 2 * awq_columns(r, id)) : k / 6);
}

static uint64_t steps_of_wait(const struct recipes *r, uint32_t id) {
  return r->rows[id].kind == RECIPE_AWQ ? awq_columns(r, id)
                                        : second_moments_all_steps(gram_rows(r, id));
}

// By segment, what it is the first to wait for; NULL: none waits.
static uint32_t *find_waits(const struct plan *p, struct arena *a) {
  const struct recipes *r = p->recipes;
  const uint32_t rows = r ? r->n_rows : 0;
  uint32_t *of = arena_alloc(a, (rows + (size_t)1) * sizeof *of); // by recipe
  bool *taken = arena_zalloc(a, rows + (size_t)1), any = false;
  for (uint32_t id = 0; id < rows; id++)
    any |= (of[id] = wait_of_row(r, id, of)) != NO_ID;
  if (!any) return NULL;
  uint32_t *waits = arena_alloc(a, (p->n_segments + (size_t)1) * sizeof *waits);
  for (uint32_t i = 0; i < p->n_segments; i++) {
    const struct segment *s = &p->segments[i];
    waits[i] = s->kind == SEGMENT_RECIPE && s->len > 0 ? of[s->ref] : NO_ID;
    if (waits[i] == NO_ID) continue;
    bool *first = &taken[waits[i]];
    if (*first) waits[i] = NO_ID;
    *first = true;
  }
  return waits;
}

// ---- segments ----------------------------------------------------------------------------------

static double cost_of_segment(const struct plan *p, const struct segment *s, const double *of) {
  const double bytes = (double)s->len;
  if (s->kind == SEGMENT_EXTENT) return (cost_of_reading + cost_of_writing) * bytes;
  if (s->kind != SEGMENT_RECIPE) return cost_of_writing * bytes;
  const uint64_t whole = p->recipes->rows[s->ref].bytes;
  return cost_of_writing * bytes + (whole ? of[s->ref] * (bytes / (double)whole) : 0);
}

static int by_operand(const void *a, const void *b) {
  const struct effort_look *x = a, *y = b;
  if (x->of != y->of) return x->of < y->of ? -1 : 1;
  return x->segment < y->segment ? -1 : x->segment > y->segment;
}

// Does such a look come before these codes? Blocks that are long may have one or not.
static bool has_look(const struct recipes *r, uint32_t id) {
  enum { LONG = 1 << 12 };
  const uint32_t found = recipe_quantize_linear_scales(r, id);
  if (found != NO_ID) return recipe_quantization_of(r, found).block == 0;
  if (!recipe_quantizes(r, id) || recipe_part_of(r, id) != PART_CODES) return false;
  const struct recipe_quantization q = recipe_quantization_of(r, id);
  const bool affine =
      q.format == FORMAT_SHRINK || q.format == FORMAT_LEVELS || q.format == FORMAT_AFFINE;
  return affine || q.format == FORMAT_NBITS_GPTQ ||
         (q.format == FORMAT_QDQ && (q.block == 0 || q.block > LONG));
}

// The most looks that a segment has.
enum { LOOKS = 2 };

// What a segment looks at or waits for: how many, and which.
static uint32_t looks_of(const struct effort *e, uint32_t segment, uint32_t of[LOOKS]) {
  const struct segment *s = &e->p->segments[segment];
  const struct recipes *r = e->p->recipes;
  uint32_t n = 0;
  if (s->kind != SEGMENT_RECIPE || s->len == 0) return 0;
  if (has_look(r, s->ref)) of[n++] = r->args[r->rows[s->ref].args];
  if (e->waits && e->waits[segment] != NO_ID) of[n++] = e->waits[segment];
  return n;
}

static struct effort_look look_of(const struct effort *e, uint32_t segment, uint32_t of,
                                  const double *costs) {
  const struct segment *s = &e->p->segments[segment];
  const struct recipes *r = e->p->recipes;
  if (e->waits && e->waits[segment] == of)
    return (struct effort_look){
        .of = of, .segment = segment, .cost = cost_of_wait(r, of), .bytes = steps_of_wait(r, of)};
  const double share = (double)s->len / (double)r->rows[s->ref].bytes;
  const double cost = costs[of] + (is_gptq(r, s->ref) ? cost_of_quantizing(r, s->ref) : 0);
  return (struct effort_look){.of = of,
                              .segment = segment,
                              .cost = share * (cost < costs[s->ref] ? cost : costs[s->ref]),
                              .bytes = r->rows[of].bytes};
}

// Sets looks; costs: of recipes.
static void find_looks(struct effort *e, const double *costs, struct arena *a) {
  uint32_t of[LOOKS];
  size_t n = 0;
  for (uint32_t i = 0; i < e->p->n_segments; i++)
    n += looks_of(e, i, of);
  if (n == 0) return;
  e->looks = arena_alloc(a, n * sizeof *e->looks);
  for (uint32_t i = 0; i < e->p->n_segments; i++) {
    const uint32_t here = looks_of(e, i, of);
    for (uint32_t k = 0; k < here; k++)
      e->looks[e->n_looks++] = look_of(e, i, of[k], costs);
  }
  qsort(e->looks, e->n_looks, sizeof *e->looks, by_operand);
}

struct effort effort_of_plan(const struct plan *p, struct arena *a) {
  const uint32_t rows = p->recipes ? p->recipes->n_rows : 0;
  size_t cap = 0;
  double *of = table_grow(NULL, &cap, (size_t)rows + 1, sizeof *of); // by recipe
  double *before = arena_alloc(a, ((size_t)p->n_segments + 1) * sizeof *before);
  for (uint32_t id = 0; id < rows; id++)
    of[id] = cost_of_row(p->recipes, id, of);
  before[0] = 0;
  struct effort e = {.p = p, .before = before, .waits = find_waits(p, a)};
  for (uint32_t i = 0; i < p->n_segments; i++) {
    const bool waits = e.waits && e.waits[i] != NO_ID;
    before[i + 1] = before[i] + cost_of_segment(p, &p->segments[i], of) +
                    (waits ? cost_of_wait(p->recipes, e.waits[i]) : 0);
  }
  find_looks(&e, of, a);
  table_free(of, cap, sizeof *of);
  return e;
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

// ---- looks -------------------------------------------------------------------------------------

// The first one of an operand whose segment is no less than this; or where it would be.
static size_t look_at(const struct effort *e, uint32_t of, uint32_t segment) {
  const struct effort_look key = {.of = of, .segment = segment};
  size_t i;
  BISECT(i, e->n_looks, by_operand(&e->looks[i], &key) < 0);
  return i;
}

// What a look counts beyond the share of it that codes which are made stand for.
static double ahead(const struct effort *e, const struct effort_look *l) {
  const double made = (double)l->made / (double)e->p->segments[l->segment].len;
  const double looked = l->bytes ? (double)l->looked / (double)l->bytes : 0;
  return looked > made ? l->cost * (looked - made) : 0;
}

double effort_made(struct effort *e, uint32_t output, uint64_t off, uint64_t n) {
  double work = effort_between(e, output, off, n);
  const struct plan *p = e->p;
  if (n == 0 || e->n_looks == 0) return work;
  const uint32_t last = plan_segment_at(p, output, off + n - 1);
  for (uint32_t i = plan_segment_at(p, output, off); i <= last; i++) {
    const struct segment *s = &p->segments[i];
    uint32_t of[LOOKS];
    for (uint32_t k = looks_of(e, i, of); k-- > 0;) {
      struct effort_look *l = &e->looks[look_at(e, of[k], i)];
      const double before = ahead(e, l);
      l->made += min_u64(off + n, s->off + s->len) - max_u64(off, s->off);
      work += ahead(e, l) - before;
    }
  }
  return work;
}

double effort_looked(struct effort *e, uint32_t of, uint64_t bytes) {
  double work = 0;
  for (size_t i = look_at(e, of, 0); i < e->n_looks && e->looks[i].of == of; i++) {
    struct effort_look *l = &e->looks[i];
    const double before = ahead(e, l);
    l->looked = min_u64(l->looked + bytes, l->bytes);
    work += ahead(e, l) - before;
  }
  return work;
}
