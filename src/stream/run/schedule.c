// Units are dealt in stretches of neighbours, because what was found out about a weight in one unit
// is wanted in the next; who has none left takes the later half of the longest stretch that is.
//
// Who makes units that are mostly copied takes some neighbours at a time, which it hashes side by side
// (produce.h): as many as leave the others as much to do.
//
// Where no whole unit is left, the later part of one in the making is taken. Without that the last
// ones keep one processor each while the others have nothing to do: 340 MB of codes are five units
// and a bit, which two workers would make in the time of three, and sixteen in the time of one.
//
//   unit   │ made │ claimed │      may be taken      │ taken before │
//          0     pos     claimed       cut          end            64 MiB
//                                       └─ a new part, of which a part may be taken in turn
//
// The SHA-256 of a unit goes through its bytes in order, so its owner makes it: over its own part
// as that is made, over the others by reading them back from the file, part by part, as they get
// ready. Nobody but an owner waits, and it waits for parts that somebody is making: so nobody waits
// for long, and never in a circle.
//
// Where a part may be cut. Scales and zero points of a weight lie behind its codes and come of the
// same look at it; who makes them while the codes are still being made elsewhere looks again. So a
// cut is made where a tensor of some size begins, or within one that is merely copied, or within
// one that reaches to the end of the part. Nearest to the middle is best.
#include "stream/run/inside/schedule.h"

#include "base/arena.h"
#include "resources/resources.h"

#include <assert.h>
#include <pthread.h>

enum {
  PART_MIN = 2 << 20,   // not worth a look at a file otherwise
  PARTS_MAX = 32,       // of a unit
  STEP = 8 << 20,       // claimed at most at once while somebody may come for a part
  GRID = 1 << 20,       // cuts within tensors
  SIZEABLE = 64 << 10,  // tensors that a cut may be made in front of
  LOOK_SEGMENTS = 4096, // looked at for a cut
};

struct part {
  uint64_t off, claimed, end;
  bool over, made;
  struct figure_sums errors;
};

// A unit in the making, one of a worker's lines.
struct making {
  uint32_t output;
  uint32_t unit;
  uint32_t n; // parts, in no order
  struct part parts[PARTS_MAX];
};

struct stretch {
  uint32_t next, end; // units
};

struct schedule {
  const struct plan *p;
  uint8_t *skip;
  uint32_t workers, lines;
  bool parts;
  struct arena arena;

  pthread_mutex_t mu; // guards the rest
  pthread_cond_t over;
  uint32_t left; // units that nobody has begun
  struct stretch *stretches;
  struct making *makings; // of each worker its lines; n == 0: none
  uint32_t n_makings;
};

void schedule_open(struct schedule **out, const struct plan *p, const uint8_t *skip,
                   uint32_t workers, uint32_t lines, bool parts) {
  struct arena arena = {0};
  struct schedule *d = arena_zalloc(&arena, sizeof *d);
  const uint32_t n = plan_unit_count(p);
  d->p = p;
  d->skip = arena_copy(&arena, skip, n);
  d->workers = workers;
  d->lines = lines;
  d->n_makings = workers * lines;
  d->parts = parts;
  d->stretches = arena_alloc(&arena, workers * sizeof *d->stretches);
  d->makings = arena_zalloc(&arena, d->n_makings * sizeof *d->makings);
  for (uint64_t i = 0; i < workers; i++)
    d->stretches[i] = (struct stretch){.next = (uint32_t)(n * i / workers),
                                       .end = (uint32_t)(n * (i + 1) / workers)};
  for (uint32_t i = 0; i < n; i++)
    d->left += !skip[i];
  pthread_mutex_init(&d->mu, NULL);
  pthread_cond_init(&d->over, NULL);
  d->arena = arena;
  *out = d;
}

void schedule_close(struct schedule *d) {
  if (!d) return;
  for (uint32_t i = 0; i < d->n_makings; i++)
    for (uint32_t k = 0; k < d->makings[i].n; k++)
      figure_sums_free(&d->makings[i].parts[k].errors);
  pthread_mutex_destroy(&d->mu);
  pthread_cond_destroy(&d->over);
  struct arena arena = d->arena; // it holds d itself
  arena_free(&arena);
}

uint32_t schedule_useful(const struct plan *p, const uint8_t *skip, bool parts) {
  uint64_t useful = 0;
  for (uint32_t i = 0; i < plan_unit_count(p); i++)
    if (!skip || !skip[i]) useful += parts ? max_u64(plan_unit_at(p, i).len / STEP, 1) : 1;
  return (uint32_t)min_u64(useful, UINT32_MAX);
}

// ---- units -------------------------------------------------------------------------------------

// The later half of the longest stretch that is left.
static void take_half(struct schedule *d, struct stretch *mine) {
  struct stretch *most = mine;
  for (uint32_t i = 0; i < d->workers; i++) {
    struct stretch *s = &d->stretches[i];
    if (s->end - s->next > most->end - most->next) most = s;
  }
  const uint32_t half = (most->end - most->next + 1) / 2;
  *mine = (struct stretch){.next = most->end - half, .end = most->end};
  most->end -= most == mine ? 0 : half;
}

static bool next_unit(struct schedule *d, uint32_t worker, uint32_t *unit) {
  struct stretch *mine = &d->stretches[worker];
  for (;;) {
    if (mine->next == mine->end) take_half(d, mine);
    if (mine->next == mine->end) return false;
    *unit = mine->next++;
    if (!d->skip[*unit]) return true;
  }
}

static void begin_unit(struct schedule *d, uint32_t making, uint32_t unit,
                       struct schedule_part *part) {
  struct making *m = &d->makings[making];
  const struct plan_unit range = plan_unit_at(d->p, unit);
  for (uint32_t i = 0; i < m->n; i++)
    figure_sums_free(&m->parts[i].errors);
  m->unit = unit;
  m->output = range.output;
  m->parts[0] = (struct part){.off = range.off, .claimed = range.off, .end = range.off + range.len};
  m->n = 1;
  d->left--;
  *part = (struct schedule_part){.unit = unit, .range = range, .owned = true, .owner = making};
}

// Is most of it copied, from the source or the plan?
static bool is_copied(const struct plan *p, uint32_t unit) {
  const struct plan_unit u = plan_unit_at(p, unit);
  const struct plan_output *out = &p->outputs[u.output];
  const uint64_t end = u.off + u.len;
  uint64_t made = 0;
  for (uint32_t i = plan_segment_at(p, u.output, u.off); i < out->first_segment + out->n_segments;
       i++) {
    const struct segment *s = &p->segments[i];
    if (s->off >= end) break;
    if (s->kind == SEGMENT_RECIPE) made += min_u64(s->off + s->len, end) - max_u64(s->off, u.off);
  }
  return made < u.len / 2;
}

bool schedule_beside(struct schedule *d, uint32_t worker, uint32_t line,
                     const struct schedule_part *first, struct schedule_part *part) {
  const struct stretch *mine = &d->stretches[worker];
  assert(line > 0 && line < d->lines);
  resources_lock(&d->mu);
  const uint32_t fair = (d->left + line + d->workers - 1) / d->workers, unit = mine->next;
  const bool found = first->owned && line < fair && unit < mine->end && !d->skip[unit] &&
                     plan_unit_at(d->p, unit).output == first->range.output &&
                     is_copied(d->p, first->unit) && is_copied(d->p, unit);
  if (found) {
    d->stretches[worker].next++;
    begin_unit(d, worker * d->lines + line, unit, part);
  }
  resources_unlock(&d->mu);
  return found;
}

// ---- parts -------------------------------------------------------------------------------------

static uint64_t distance(uint64_t a, uint64_t b) {
  return a > b ? a - b : b - a;
}

// A better place for a cut in [from, to], in front of the segment or within it, or *cut as it was.
static void try_segment(const struct segment *s, uint64_t from, uint64_t to, uint64_t *cut) {
  const uint64_t middle = from + (to - from) / 2;
  uint64_t at = s->off;
  const bool divides = s->kind != SEGMENT_RECIPE || s->off + s->len >= to + PART_MIN;
  if (divides && s->off <= middle && middle < s->off + s->len)
    at = round_up(middle, (uint64_t)GRID);
  else if (s->len < SIZEABLE)
    return;
  if (at < from || at > to) return;
  if (*cut == 0 || distance(at, middle) < distance(*cut, middle)) *cut = at;
}

// Where the free bytes of a part are cut in two, both of PART_MIN at least; 0: nowhere.
static uint64_t cut_of(const struct schedule *d, uint32_t output, const struct part *part) {
  const struct plan_output *out = &d->p->outputs[output];
  const uint64_t from = part->claimed + PART_MIN, to = part->end - PART_MIN;
  uint64_t cut = 0;
  uint32_t i = plan_segment_at(d->p, output, from);
  for (uint32_t n = 0; n < LOOK_SEGMENTS && i < out->first_segment + out->n_segments; n++, i++) {
    if (d->p->segments[i].off > to) break;
    try_segment(&d->p->segments[i], from, to, &cut);
  }
  return cut;
}

// The part with most free bytes that can be cut.
static bool take_part(struct schedule *d, struct schedule_part *taken) {
  uint64_t most = 2 * (uint64_t)PART_MIN, cut = 0;
  struct making *of = NULL;
  struct part *from = NULL;
  for (uint32_t i = 0; i < d->n_makings; i++) {
    struct making *m = &d->makings[i];
    for (uint32_t k = 0; k < m->n && m->n < PARTS_MAX; k++) {
      struct part *x = &m->parts[k];
      const uint64_t left = x->end - x->claimed;
      const uint64_t at = left > most ? cut_of(d, m->output, x) : 0;
      if (!at) continue;
      most = left;
      cut = at;
      of = m;
      from = x;
    }
  }
  if (!of) return false;
  *taken = (struct schedule_part){
      .unit = of->unit,
      .range = {.output = of->output, .off = cut, .len = from->end - cut},
      .owner = (uint32_t)(of - d->makings),
      .slot = of->n,
  };
  of->parts[of->n++] = (struct part){.off = cut, .claimed = cut, .end = from->end};
  from->end = cut;
  return true;
}

bool schedule_next(struct schedule *d, uint32_t worker, struct schedule_part *part) {
  uint32_t unit;
  resources_lock(&d->mu);
  bool found = next_unit(d, worker, &unit);
  if (found)
    begin_unit(d, worker * d->lines, unit, part);
  else if (d->parts)
    found = take_part(d, part);
  resources_unlock(&d->mu);
  return found;
}

uint64_t schedule_claim(struct schedule *d, struct schedule_part *part, uint64_t from,
                        uint64_t to) {
  resources_lock(&d->mu);
  struct part *x = &d->makings[part->owner].parts[part->slot];
  assert(x->off <= from && from < to && from < x->end);
  to = min_u64(to, x->end); // the asker cannot know that its part was cut
  if (d->parts && d->workers > 1 && d->left < d->workers) to = min_u64(to, from + STEP);
  x->claimed = max_u64(x->claimed, to);
  part->range.len = x->end - part->range.off;
  resources_unlock(&d->mu);
  return to;
}

void schedule_made(struct schedule *d, const struct schedule_part *part, struct figure_sums errors,
                   bool made) {
  resources_lock(&d->mu);
  struct part *x = &d->makings[part->owner].parts[part->slot];
  assert(!part->owned && !x->over);
  x->claimed = x->end; // of what was given up nothing is worth taking either
  x->over = true;
  x->made = made;
  x->errors = errors;
  pthread_cond_broadcast(&d->over);
  resources_unlock(&d->mu);
}

bool schedule_wait(struct schedule *d, const struct schedule_part *owned, uint64_t off,
                   uint64_t *end, struct figure_sums *errors) {
  assert(owned->owned);
  resources_lock(&d->mu);
  struct making *m = &d->makings[owned->owner];
  struct part *x = &m->parts[1];
  while (x < &m->parts[m->n] && x->off != off)
    x++;
  assert(x < &m->parts[m->n]); // parts leave no gaps
  while (!x->over)
    pthread_cond_wait(&d->over, &d->mu);
  *end = x->end;
  *errors = x->errors;
  x->errors = (struct figure_sums){0};
  const bool made = x->made;
  resources_unlock(&d->mu);
  return made;
}
