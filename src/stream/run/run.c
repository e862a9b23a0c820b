// The run: workers are dealt units, and parts of units where there are no whole ones left
// (schedule.h). They make them (produce.h) and hand whole ones over to be made durable and recorded
// (recorder.h).
//
//   schedule ─▶ worker: a unit ─▶ what others made of it follows ─▶ recorder_give ─▶ next
//            ─▶ worker: a part of a unit, for its owner ─▶ next          │
//                                                                        ▼
//                                               fdatasync, sources unchanged?, record
//
// A unit is a function of the plan and the sources alone, so nothing depends on who makes it or
// when: units with a record are passed over, and a unit that was abandoned half-way is simply made
// again.
//
// The first failure wins and ends all workers at their next tile. A stop (a signal) is no failure:
// units that are written are still synced and recorded, the ones in progress are abandoned.
#include "stream/run/run.h"

#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/eval/eval.h"
#include "stream/run/effort.h"
#include "stream/run/inside/produce.h"
#include "stream/run/inside/recorder.h"
#include "stream/run/inside/schedule.h"
#include "stream/run/memory_split.h"
#include "stream/sys/threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { TICK_MS = 50 };

struct run {
  const struct plan *p;
  struct sources *sources;
  struct staging *st;
  const struct work_options *o;
  struct memory_split split;
  struct schedule *schedule;
  struct recorder *recorder;
  struct eval_cache *cache; // NULL where nothing is quantized
  const uint8_t *skip;      // units that were recorded before we began, or are another member's
  uint32_t *order;          // tensors by (output, offset), for progress; or NULL
  _Atomic bool stopped;     // failed, or told to stop

  pthread_mutex_t mu; // guards the rest
  struct err err;
  struct run_stats *stats;
  struct work_told told;
  struct effort effort; // where somebody watches
  uint64_t told_ms;
};

struct worker {
  struct run *r;
  struct produce *produce;
  struct schedule_part part[PRODUCE_LINES_MAX]; // being made, beside each other
  uint32_t n;
  uint32_t parts; // made for others
  bool told;      // the schedule was, of what is being made for another
};

// ---- progress ----

struct placed {
  uint64_t off;
  uint32_t output, tensor;
};

static int by_place(const void *a, const void *b) {
  const struct placed *x = a, *y = b;
  if (x->output != y->output) return x->output < y->output ? -1 : 1;
  if (x->off != y->off) return x->off < y->off ? -1 : 1;
  return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

// Where tensors lie, in order of place. Only for naming: made when somebody watches.
static void order_tensors(struct run *r, struct arena *a) {
  const struct plan *p = r->p;
  if (!observer_ticks(r->o->observer) || p->n_tensors == 0) return;
  size_t cap = 0;
  struct placed *rows = table_grow(NULL, &cap, p->n_tensors, sizeof *rows);
  for (uint32_t i = 0; i < p->n_tensors; i++)
    rows[i] =
        (struct placed){.off = p->tensors[i].off, .output = p->tensors[i].output, .tensor = i};
  qsort(rows, p->n_tensors, sizeof *rows, by_place);
  r->order = arena_alloc(a, p->n_tensors * sizeof *r->order);
  for (uint32_t i = 0; i < p->n_tensors; i++)
    r->order[i] = rows[i].tensor;
  table_free(rows, cap, sizeof *rows);
}

static bool begins_by(const struct plan_tensor *t, uint32_t output, uint64_t off) {
  return t->output < output || (t->output == output && t->off <= off);
}

static const char *tensor_at(const struct run *r, uint32_t output, uint64_t off) {
  uint32_t i;
  BISECT(i, r->order ? r->p->n_tensors : 0, begins_by(&r->p->tensors[r->order[i]], output, off));
  if (i == 0) return NULL;
  const struct plan_tensor *t = &r->p->tensors[r->order[i - 1]];
  return t->output == output && off - t->off < t->len ? t->name : NULL;
}

// Tells what is done, now and then. The lock is held.
static void tell_progress(struct run *r, uint32_t output, uint64_t off) {
  const uint64_t now = machine_clock_ms();
  if (now - r->told_ms < TICK_MS) return;
  r->told_ms = now;
  r->told.tensor = tensor_at(r, output, off);
  observer_tick(r->o->observer, &r->told);
}

// After a tile, from any worker: count it, tell, and say whether to go on.
static bool go_on(void *ctx, uint32_t output, uint64_t off, size_t n) {
  const struct worker *w = ctx;
  struct run *r = w->r;
  if (threads_must_stop(r->o->stop)) r->stopped = true;
  if (!observer_ticks(r->o->observer)) return !r->stopped;
  resources_lock(&r->mu);
  r->told.bytes_done += n;
  r->told.work_done += effort_made(&r->effort, output, off, n);
  tell_progress(r, output, off + n);
  resources_unlock(&r->mu);
  return !r->stopped;
}

// Bytes that nothing is made of yet: the range of a weight is looked for. The next time that go_on is asked it
// is told.
static void looked(void *ctx, uint32_t of, uint64_t bytes) {
  const struct worker *w = ctx;
  struct run *r = w->r;
  if (!observer_ticks(r->o->observer)) return;
  resources_lock(&r->mu);
  r->told.work_done += effort_looked(&r->effort, of, bytes);
  resources_unlock(&r->mu);
}

// ---- workers ----

static void fail(struct run *r, const struct err *cause) {
  resources_lock(&r->mu);
  if (r->err.kind == ERR_NONE) r->err = *cause;
  resources_unlock(&r->mu);
  r->stopped = true;
}

static uint64_t claim(void *ctx, uint32_t line, uint64_t from, uint64_t to, uint64_t *end) {
  struct worker *w = ctx;
  struct schedule_part *part = &w->part[line];
  const uint64_t got = schedule_claim(w->r->schedule, part, from, to);
  *end = part->range.off + part->range.len;
  return got;
}

// Behind our own part of a unit, what others made of it. As produce_parts.
static int finish_unit(struct worker *w, uint32_t line, struct err *err) {
  const struct schedule_part *own = &w->part[line];
  const struct plan_unit unit = plan_unit_at(w->r->p, own->unit);
  uint8_t digest[DIGEST_BYTES];
  int made = 0;
  uint64_t end;
  for (uint64_t at = own->range.off + own->range.len; made == 0 && at < unit.off + unit.len;
       at = end) {
    struct figure_sums errors;
    const bool there = schedule_wait(w->r->schedule, own, at, &end, &errors);
    // Whoever gave up has said why.
    made = there ? produce_follow(w->produce, line, end - at, &errors, err) : 1;
    figure_sums_free(&errors);
  }
  if (made != 0) return made;
  produce_digest(w->produce, line, digest);
  const struct figure_sums errors = produce_take_errors(w->produce, line);
  return recorder_give(w->r->recorder, own->unit, digest, errors) ? 0 : 1;
}

// As produce_parts.
static int make_parts(void *of_worker, struct err *err) {
  struct worker *w = of_worker;
  const struct schedule_part *first = w->part;
  const struct file fd =
      staging_writes(w->r->st) ? staging_output_fd(w->r->st, first->range.output) : NO_FILE;
  struct plan_unit ranges[PRODUCE_LINES_MAX];
  for (uint32_t k = 0; k < w->n; k++)
    ranges[k] = w->part[k].range;
  int made = produce_parts(w->produce, ranges, w->n, fd, first->owned, err);
  for (uint32_t k = 0; k < w->n && first->owned && made == 0; k++)
    made = finish_unit(w, k, err);
  if (first->owned) return made;
  w->parts++;
  schedule_made(w->r->schedule, first, produce_take_errors(w->produce, 0), made == 0);
  w->told = true;
  return made;
}

static void make_dealt(struct worker *w, uint32_t i, uint32_t lines) {
  struct run *r = w->r;
  while (!r->stopped && schedule_next(r->schedule, i, w->part)) {
    struct err err = {0};
    w->n = 1;
    while (w->n < lines && schedule_beside(r->schedule, i, w->n, w->part, &w->part[w->n]))
      w->n++;
    w->told = false;
    const int made = arena_try(make_parts, w, &err);
    if (made < 0) fail(r, &err);
    // Whoever waits for this part of a unit of its own.
    if (made < 0 && !w->part->owned && !w->told)
      schedule_made(r->schedule, w->part, (struct figure_sums){0}, false);
    if (made != 0) r->stopped = true;
  }
}

static struct produce_options options_of(const struct run *r) {
  return (struct produce_options){
      .io = {.mode = r->o->mode,
             .tiles = r->split.tiles,
             .tile_bytes = r->split.tile_bytes,
             .window_bytes = r->split.window_bytes},
      .eval_bytes = r->split.eval_bytes,
      .errors = true,
      .cache = r->cache,
      .go_on = go_on,
      .looked = looked,
      .claim = claim,
  };
}

static void work_as(void *ctx, uint32_t i) {
  struct run *r = ctx;
  struct worker self = {.r = r};
  struct produce_options options = options_of(r);
  options.ctx = &self;
  struct err err = {0};
  if (produce_open(&self.produce, r->p, r->sources, &options, &err)) {
    fail(r, &err);
    return;
  }
  make_dealt(&self, i, produce_lines(&options));
  const struct produce_counts counts = produce_counts(self.produce);
  produce_close(self.produce);
  resources_lock(&r->mu);
  r->stats->source_bytes_read += counts.source_bytes_read;
  r->stats->bytes_written += counts.bytes_written;
  r->stats->bytes_cloned += counts.bytes_cloned;
  r->stats->parts += self.parts;
  if (counts.ring_lost) r->stats->ring_lost = counts.ring_lost;
  resources_unlock(&r->mu);
}

// ---- the run ----

static bool is_anothers(const struct staging *st, uint32_t unit) {
  return st->leave && st->leave[unit];
}

static uint32_t count_left(struct run *r) {
  const uint32_t n = plan_unit_count(r->p);
  struct work_told *t = &r->told;
  uint32_t left = 0;
  double others = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct plan_unit unit = plan_unit_at(r->p, i);
    const double work =
        r->effort.p && r->skip[i] ? effort_made(&r->effort, unit.output, unit.off, unit.len) : 0;
    left += !r->skip[i];
    if (is_anothers(r->st, i)) {
      others += work;
      continue;
    }
    t->bytes_total += unit.len;
    if (!r->skip[i]) continue;
    t->bytes_already += unit.len;
    t->work_already += work;
  }
  t->bytes_done = t->bytes_already;
  t->work_done = t->work_already;
  if (r->effort.p) t->work_total = effort_total(&r->effort) - others;
  r->stats->units_skipped = staging_done_count(r->st);
  return left;
}

// ---- what came out infinite --------------------------------------------------------------------

// A value that is stored as an infinity is an error, unless the plan says to clip it (then none
// is). Once all is looked at, so that one message has all of it.
static int refuse_overflows(const struct run *r, struct arena *a, struct err *err) {
  enum { NAMED = 5 };
  const struct recipes *recipes = r->p->recipes;
  enum err_reason reason = REASON_RANGE_CAST;
  struct run_error *list;
  const uint32_t n = run_errors(r->p, r->st, a, &list);
  char named[640] = "";
  uint32_t bad = 0;
  size_t len = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (list[i].figures.overflows == 0) continue;
    // The recipe that stores it in another form.
    const uint32_t id = recipe_unmoved(recipes, r->p->segments[list[i].segment].ref);
    const enum recipe_kind kind = (enum recipe_kind)recipes->rows[id].kind;
    if (kind == RECIPE_CAST && recipe_cast_clips(recipes, id)) continue;
    if (kind == RECIPE_CAST)
      reason = REASON_RANGE_CAST;
    else if (kind == RECIPE_QUANTIZE && recipe_quantization_of(recipes, id).format == FORMAT_LEVELS)
      reason = REASON_RANGE_LEVELS;
    else
      reason = REASON_RANGE_SCALES;
    if (bad++ >= NAMED) continue;
    len += (size_t)snprintf(named + len, sizeof named - len, "%s'%.80s' (%s)", bad > 1 ? ", " : "",
                            quote_str(plan_segment_weight(r->p, list[i].segment)).s,
                            decimal(list[i].figures.overflows).s);
  }
  if (bad == 0) return 0;
  if (bad > NAMED) snprintf(named + len, sizeof named - len, " and %u more", bad - NAMED);
  err_fill(err, ERR_FAIL, "%u tensor%s %s finite elements that would be stored as infinite: %s",
           bad, bad == 1 ? "" : "s", bad == 1 ? "has" : "have", named);
  return err_because(err, reason); // of the last one
}

static unsigned per_cent_done(const struct run *r) {
  const uint64_t all = plan_total_bytes(r->p);
  return all == 0 ? 0 : (unsigned)((double)staging_done_bytes(r->st, r->p) / (double)all * 100);
}

static struct run_doubts doubts_of(const struct recipes *r, uint32_t id) {
  const struct recipe *row = &r->rows[id];
  if (recipe_quantizes(r, id) || row->kind == RECIPE_QUANTIZE_LINEAR)
    return (struct run_doubts){.nonfinite = true};
  if (row->kind != RECIPE_CAST || recipe_cast_clips(r, id)) return (struct run_doubts){0};
  const enum dtype from = (enum dtype)r->rows[r->args[row->args]].dtype,
                   to = (enum dtype)row->dtype;
  const bool wide = from == DTYPE_FLOAT || from == DTYPE_DOUBLE;
  const bool narrow = to == DTYPE_FLOAT16 || to == DTYPE_BFLOAT16 || to == DTYPE_FLOAT;
  return (struct run_doubts){.overflow = wide && narrow && from != to};
}

// Operands have smaller ids than what is made of them, so one walk down finds all that is used.
struct run_doubts run_doubts(const struct plan *p) {
  const struct recipes *r = p->recipes;
  struct run_doubts out = {0};
  struct arena a = {0};
  bool *used = arena_zalloc(&a, r->n_rows + (size_t)1);
  for (uint32_t i = 0; i < p->n_segments; i++)
    if (p->segments[i].kind == SEGMENT_RECIPE) used[p->segments[i].ref] = true;
  for (uint32_t id = r->n_rows; id-- > 0;) {
    if (!used[id]) continue;
    const struct run_doubts d = doubts_of(r, id);
    out.overflow |= d.overflow;
    out.nonfinite |= d.nonfinite;
    for (uint32_t k = 0; k < r->rows[id].n_args; k++)
      used[r->args[r->rows[id].args + k]] = true;
  }
  arena_free(&a);
  return out;
}

static int conclude(struct run *r, struct arena *a, struct err *err) {
  const uint32_t n = plan_unit_count(r->p), done = staging_done_count(r->st);
  r->stats->units_done = done - r->stats->units_skipped;
  if (r->err.kind != ERR_NONE) {
    if (err->kind == ERR_NONE) *err = r->err;
    return -1;
  }
  uint32_t left = 0;
  for (uint32_t i = 0; i < n; i++)
    left += !r->st->done[i] && !is_anothers(r->st, i);
  if (left > 0)
    return err_set(
        err, ERR_RETRY,
        "interrupted: finished units (%u %%) are kept, unfinished units will be written again",
        per_cent_done(r));
  // Whoever seals looks at all of them.
  if (!r->st->leave && refuse_overflows(r, a, err) != 0) return -1;
  r->told.bytes_done = r->told.bytes_total;
  r->told.work_done = r->told.work_total;
  r->told.tensor = NULL;
  observer_tick(r->o->observer, &r->told);
  return 0;
}

// Splits the memory; a part of it, *cache, is for statistics of weights where the plan quantizes
// any. The largest of those weights that a worker can keep whole has room.
static int split_memory(const struct plan *p, const struct work_options *o, uint32_t useful,
                        struct memory_split *split, uint64_t *cache, struct err *err) {
  const uint64_t memory = o->memory ? o->memory : WORK_DEFAULT_MEMORY;
  uint32_t n_used;
  const uint32_t *used = plan_recipes(p, &n_used);
  const uint64_t wanted = eval_cache_wanted(p->recipes, used, n_used);
  *cache = wanted ? memory_split_cache(memory, o->jobs, wanted) : 0;
  if (memory_split_of(split, memory - *cache, o->jobs, useful, err) != 0) return -1;
  const uint64_t least = memory_split_cache_least(memory, *cache, wanted);
  const uint64_t most = memory_split_most(split, memory - least);
  const uint64_t scratch = eval_wanted(p->recipes, used, n_used, most);
  if (scratch <= split->eval_bytes) return 0;
  memory_split_favour(split, memory - least, scratch);
  *cache = least;
  return 0;
}

int run_foresee(const struct plan *p, const struct work_options *options, uint32_t *jobs,
                struct err *err) {
  struct memory_split split;
  uint64_t cache;
  const uint32_t useful = schedule_useful(p, NULL, options->mode != IO_NULL);
  const int bad = split_memory(p, options, useful, &split, &cache, err);
  if (!bad) *jobs = split.jobs;
  return bad;
}

static int work_all(void *ctx, struct err *err) {
  struct run *r = ctx;
  (void)err;
  r->stats->jobs = threads_run(r->split.jobs, work_as, r);
  return 0;
}

int run_plan(const struct plan *p, struct sources *s, struct staging *st,
             const struct work_options *options, struct run_stats *stats, struct err *err) {
  memset(stats, 0, sizeof *stats);
  struct arena arena = {0};
  struct run r = {.p = p, .sources = s, .st = st, .o = options, .stats = stats};
  const uint32_t n = plan_unit_count(p);
  assert(st->n_units == n);
  // A copy: recording sets flags in the original while workers look.
  uint8_t *skip = arena_copy(&arena, st->done, n);
  for (uint32_t i = 0; i < n; i++)
    skip[i] = skip[i] || is_anothers(st, i);
  r.skip = skip;
  if (observer_ticks(options->observer)) r.effort = effort_of_plan(p, &arena);
  const uint32_t left = count_left(&r);
  const bool parts = staging_writes(st); // where nothing is written nothing can be read back
  uint64_t cache;
  int bad = split_memory(p, options, schedule_useful(p, r.skip, parts), &r.split, &cache, err);
  if (!bad) {
    const struct eval_cache_file file = {staging_unnamed_file, st};
    if (cache) r.cache = eval_cache_open((size_t)cache, file);
    pthread_mutex_init(&r.mu, NULL);
    order_tensors(&r, &arena);
    const struct produce_options each = options_of(&r);
    const uint32_t lines = produce_lines(&each);
    schedule_open(&r.schedule, p, r.skip, r.split.jobs, lines, parts);
    // A unit of each worker may wait, and what one of them has made beside each other: what a stop leaves to be
    // synced stays small.
    recorder_open(&r.recorder, p, s, st, r.split.jobs + lines);
    struct err refused = {0}, unrecorded = {0};
    if (left > 0 && arena_try(work_all, &r, &refused)) fail(&r, &refused);
    if (recorder_close(r.recorder, &unrecorded)) fail(&r, &unrecorded);
    schedule_close(r.schedule);
    pthread_mutex_destroy(&r.mu);
    bad = conclude(&r, &arena, err);
  }
  eval_cache_close(r.cache);
  arena_free(&arena);
  return bad;
}

uint32_t run_errors(const struct plan *p, struct staging *st, struct arena *a,
                    struct run_error **list) {
  struct run_error e = {0};
  uint32_t n = 0;
  bool whole;
  uint32_t *first = arena_alloc(a, (p->n_segments + 1) * sizeof *first); // tensor of a segment
  memset(first, 0xff, (p->n_segments + 1) * sizeof *first);
  for (uint32_t i = p->n_tensors; i-- > 0;)
    first[p->tensors[i].segment] = i;
  figure_sums_sort(&st->errors);
  for (size_t at = 0; figure_sums_next(&st->errors, &at, &e.segment, &e.figures, &whole);)
    n++;
  *list = arena_alloc(a, (n + 1) * sizeof **list);
  n = 0;
  for (size_t at = 0; figure_sums_next(&st->errors, &at, &e.segment, &e.figures, &whole);) {
    if (e.segment >= p->n_segments || first[e.segment] == NO_ID) continue;
    e.tensor = first[e.segment];
    e.whole = whole;
    (*list)[n++] = e;
  }
  return n;
}

uint64_t run_min_memory(uint32_t jobs) {
  return memory_split_minimum(jobs);
}
