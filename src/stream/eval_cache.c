// Entries are made at the first unit of a quantization that is put, with room for all of its units:
//
//   │ bitmap of units known │ zeros of units 0..nz │ scales of units 0..ns │
//
// Where not all of it fits the budget, zeros come before scales (they are an eighth, and cost the same read
// of the weight to find again), and first units before later ones. Entries used longest ago make room.
// One that had to go does not come back: two large weights that are computed at the same time would
// throw each other out for ever, and find everything twice.
//
// Beside the entries there is a list of the units that are being computed now: a few, one a worker and
// level of quantization within quantization. Who wants one of them waits for the condition, which every
// end of a turn signals, and looks again. What is known not to be kept is not waited for: its
// computation by one worker would serve no other.
#include "eval_cache.h"

#include "arena.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ASK_MS = 50 };

struct entry {
  struct eval_cache_key key;
  uint64_t used;                    // stamp
  uint64_t zero_units, scale_units; // kept
  size_t bytes;
  uint8_t *memory; // NULL: had to go
};

// A unit that is being computed.
struct turn {
  struct eval_cache_key key;
  uint64_t unit;
};

struct eval_cache {
  pthread_mutex_t mu;
  pthread_cond_t turn_ended;
  size_t budget, held;
  uint64_t stamp;
  struct entry *entries;
  size_t n, cap;
  struct turn *turns;
  size_t n_turns, cap_turns;
};

static void init_condition(pthread_cond_t *condition) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attr);
  pthread_condattr_destroy(&attr);
}

struct eval_cache *eval_cache_open(size_t bytes) {
  struct eval_cache *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->budget = bytes;
  pthread_mutex_init(&c->mu, NULL);
  init_condition(&c->turn_ended);
  return c;
}

void eval_cache_close(struct eval_cache *c) {
  if (!c) return;
  assert(c->n_turns == 0);
  for (size_t i = 0; i < c->n; i++)
    free(c->entries[i].memory);
  table_free(c->entries, c->cap, sizeof *c->entries);
  table_free(c->turns, c->cap_turns, sizeof *c->turns);
  pthread_cond_destroy(&c->turn_ended);
  pthread_mutex_destroy(&c->mu);
  free(c);
}

uint64_t eval_cache_wanted(const struct recipes *r) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < r->n_rows; i++) {
    if (r->rows[i].kind != RECIPE_QUANTIZE) continue;
    // A unit has at least a byte of them, and a bit of the bitmap.
    const uint64_t bytes = recipe_part_of(r, i) == PART_ZEROS ? r->rows[i].bytes : 0;
    most = max_u64(most, bytes + bytes / 8 + 32);
  }
  return most;
}

static bool same(const struct eval_cache_key *a, const struct eval_cache_key *b) {
  return a->of == b->of && a->q.format == b->q.format && a->q.bits == b->q.bits &&
         a->q.symmetric == b->q.symmetric && a->q.axis == b->q.axis && a->q.block == b->q.block &&
         a->q.levels == b->q.levels;
}

// The newest first: that is the one at work.
static struct entry *find(struct eval_cache *c, const struct eval_cache_key *key) {
  for (size_t i = c->n; i-- > 0;)
    if (same(&c->entries[i].key, key)) return &c->entries[i];
  return NULL;
}

static void drop(struct eval_cache *c, struct entry *e) {
  free(e->memory);
  e->memory = NULL;
  c->held -= e->bytes;
}

static void make_room(struct eval_cache *c, size_t bytes) {
  while (c->held + bytes > c->budget) {
    struct entry *oldest = NULL;
    for (size_t i = 0; i < c->n; i++)
      if (c->entries[i].memory && (!oldest || c->entries[i].used < oldest->used))
        oldest = &c->entries[i];
    assert(oldest);
    drop(c, oldest);
  }
}

static uint64_t bitmap_bytes(const struct eval_cache_key *key) {
  return round_up((key->units + 7) / 8, 16);
}

static struct entry *make_entry(struct eval_cache *c, const struct eval_cache_key *key) {
  struct entry e = {.key = *key};
  const uint64_t bitmap = bitmap_bytes(key);
  if (bitmap <= c->budget / 4) {
    uint64_t room = c->budget - bitmap;
    e.zero_units = key->zero_bytes ? min_u64(key->units, room / key->zero_bytes) : 0;
    room -= e.zero_units * key->zero_bytes;
    e.scale_units = key->scale_bytes ? min_u64(key->units, room / key->scale_bytes) : 0;
    e.bytes = (size_t)(bitmap + e.zero_units * key->zero_bytes + e.scale_units * key->scale_bytes);
    make_room(c, e.bytes);
    e.memory = calloc(1, e.bytes);
    if (e.memory) c->held += e.bytes;
  }
  c->entries = table_grow(c->entries, &c->cap, c->n + 1, sizeof *c->entries);
  c->entries[c->n] = e;
  return &c->entries[c->n++];
}

static uint8_t *zeros_of(const struct entry *e) {
  return e->memory + bitmap_bytes(&e->key);
}

static uint8_t *scales_of(const struct entry *e) {
  return zeros_of(e) + e->zero_units * e->key.zero_bytes;
}

void eval_cache_put(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    const uint8_t *scales, const uint8_t *zeros) {
  assert(unit < key->units);
  if (!c) return;
  pthread_mutex_lock(&c->mu);
  struct entry *e = find(c, key);
  if (!e) e = make_entry(c, key);
  if (e->memory) {
    e->used = ++c->stamp;
    if (unit < e->zero_units) memcpy(zeros_of(e) + unit * key->zero_bytes, zeros, key->zero_bytes);
    if (unit < e->scale_units)
      memcpy(scales_of(e) + unit * key->scale_bytes, scales, key->scale_bytes);
    e->memory[unit / 8] |= (uint8_t)(1 << unit % 8);
  }
  pthread_mutex_unlock(&c->mu);
}

static bool copy_out(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     bool scales, size_t off, uint8_t *out, size_t n) {
  if (!c) return false;
  pthread_mutex_lock(&c->mu);
  struct entry *e = find(c, key);
  bool there = e && e->memory && e->memory[unit / 8] >> (unit % 8) & 1 &&
               unit < (scales ? e->scale_units : e->zero_units);
  if (there) {
    const size_t step = scales ? key->scale_bytes : key->zero_bytes;
    const uint8_t *from = (scales ? scales_of(e) : zeros_of(e)) + unit * step;
    assert(off <= step && n <= step - off);
    memcpy(out, from + off, n);
    e->used = ++c->stamp;
  }
  pthread_mutex_unlock(&c->mu);
  return there;
}

bool eval_cache_scales(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                       size_t off, uint8_t *out, size_t n) {
  return copy_out(c, key, unit, true, off, out, n);
}

bool eval_cache_zeros(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                      size_t off, uint8_t *out, size_t n) {
  return copy_out(c, key, unit, false, off, out, n);
}

// ---- turns -------------------------------------------------------------------------------------

static bool is_known(const struct entry *e, uint64_t unit) {
  return e->memory[unit / 8] >> (unit % 8) & 1;
}

static bool is_kept(const struct entry *e, uint64_t unit) {
  return e->memory && unit < e->scale_units && (e->key.zero_bytes == 0 || unit < e->zero_units);
}

static struct turn *find_turn(struct eval_cache *c, const struct eval_cache_key *key,
                              uint64_t unit) {
  for (size_t i = 0; i < c->n_turns; i++)
    if (c->turns[i].unit == unit && same(&c->turns[i].key, key)) return &c->turns[i];
  return NULL;
}

// What the caller is to do, or false: to wait.
static bool decide(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                   enum eval_cache_turn *turn) {
  const struct entry *e = find(c, key);
  *turn = EVAL_CACHE_LOOK;
  if (e && (!is_kept(e, unit) || is_known(e, unit))) return true;
  if (find_turn(c, key, unit)) return false;
  c->turns = table_grow(c->turns, &c->cap_turns, c->n_turns + 1, sizeof *c->turns);
  c->turns[c->n_turns++] = (struct turn){.key = *key, .unit = unit};
  *turn = EVAL_CACHE_MINE;
  return true;
}

static void wait_a_little(struct eval_cache *c) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += ASK_MS * 1000000L;
  until.tv_sec += until.tv_nsec / 1000000000L;
  until.tv_nsec %= 1000000000L;
  pthread_cond_timedwait(&c->turn_ended, &c->mu, &until);
}

enum eval_cache_turn eval_cache_wait(struct eval_cache *c, const struct eval_cache_key *key,
                                     uint64_t unit, struct eval_go_on go_on) {
  enum eval_cache_turn turn;
  if (!c) return EVAL_CACHE_LOOK;
  assert(unit < key->units);
  pthread_mutex_lock(&c->mu);
  while (!decide(c, key, unit, &turn)) {
    wait_a_little(c);
    pthread_mutex_unlock(&c->mu);
    if (go_on.ask && !go_on.ask(go_on.ctx)) return EVAL_CACHE_STOPPED;
    pthread_mutex_lock(&c->mu);
  }
  pthread_mutex_unlock(&c->mu);
  return turn;
}

void eval_cache_done(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit) {
  pthread_mutex_lock(&c->mu);
  struct turn *mine = find_turn(c, key, unit);
  assert(mine);
  *mine = c->turns[--c->n_turns];
  pthread_cond_broadcast(&c->turn_ended);
  pthread_mutex_unlock(&c->mu);
}
