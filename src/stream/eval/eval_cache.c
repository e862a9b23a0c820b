// Entries are made at the first unit of a quantization that is put, with room for all of its units:
//
//   memory │ bitmap of units known │ zeros of units 0..nz │ scales of units 0..ns │
//   file   │ zeros: a hole up to nz, then nz..n │ scales: a hole up to ns, then ns..n │
//
// Where not all of it fits the budget, zeros come before scales (they are an eighth, and cost the
// same read of the weight to find again), and first units before later ones. Entries used longest
// ago make room: what of them nobody was given yet goes to the file. Without a file an entry that
// had to go does not come back: two large weights that are computed at the same time would throw
// each other out for ever, and find everything twice.
//
// The file is opened when something has to go there; most runs need none. It is written and read
// with no lock held, and it may fail: then it is given up, and what was in it counts as not known.
//
// Beside the entries there is a list of the units that are being computed now: a few, one a worker
// and level of quantization within quantization. Who wants one of them waits for the condition,
// which every end of a turn signals, and looks again. What is known not to be kept is not waited
// for: its computation by one worker would serve no other.
#include "eval_cache.h"

#include "table.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum { ASK_MS = 50 };
// An entry is small up to so many bytes, and this part of the budget.
enum { TINY_MOST = 4096, TINY_PART = 64 };
// The file takes no more than this part of what is free: outputs have their space, records and logs
// do not.
enum { FREE_PART = 2 };

struct entry {
  struct eval_cache_key key;
  uint64_t used;                    // stamp
  uint64_t zero_units, scale_units; // kept in memory
  uint64_t given;                   // bytes, handed out
  size_t bytes;
  uint8_t *memory;  // NULL: had to go
  uint64_t file_at; // of the units that are not kept in memory
  bool in_file;     //
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
  struct eval_cache_file file;
  bool asked_for_file, file_failed;
  int fd; // -1: none (yet)
  uint64_t file_end;
};

static void init_condition(pthread_cond_t *condition) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(condition, &attr);
  pthread_condattr_destroy(&attr);
}

struct eval_cache *eval_cache_open(size_t bytes, struct eval_cache_file file) {
  struct eval_cache *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->budget = bytes;
  c->file = file;
  c->fd = -1;
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
  if (c->fd >= 0) close(c->fd);
  pthread_cond_destroy(&c->turn_ended);
  pthread_mutex_destroy(&c->mu);
  free(c);
}

uint64_t eval_cache_wanted(const struct recipes *r, const uint32_t *ids, uint32_t n) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t id = ids ? ids[i] : i;
    if (r->rows[id].kind != RECIPE_QUANTIZE) continue;
    // A unit has at least a byte of them, and a bit of the bitmap.
    const uint64_t bytes = recipe_part_of(r, id) == PART_ZEROS ? r->rows[id].bytes : 0;
    most = max_u64(most, bytes + bytes / 8 + 32);
  }
  return most;
}

static bool same(const struct eval_cache_key *a, const struct eval_cache_key *b) {
  return a->kind == b->kind && a->of == b->of && a->q.format == b->q.format &&
         a->q.bits == b->q.bits && a->q.symmetric == b->q.symmetric && a->q.axis == b->q.axis &&
         a->q.block == b->q.block && a->q.levels == b->q.levels;
}

// The newest first: that is the one at work.
static struct entry *find(struct eval_cache *c, const struct eval_cache_key *key) {
  for (size_t i = c->n; i-- > 0;)
    if (same(&c->entries[i].key, key)) return &c->entries[i];
  return NULL;
}

static uint64_t bitmap_bytes(const struct eval_cache_key *key) {
  return round_up((key->units + 7) / 8, 16);
}

static uint64_t part_bytes(const struct eval_cache_key *key) {
  return key->units * ((uint64_t)key->zero_bytes + key->scale_bytes);
}

static uint8_t *zeros_of(const struct entry *e) {
  return e->memory + bitmap_bytes(&e->key);
}

static uint8_t *scales_of(const struct entry *e) {
  return zeros_of(e) + e->zero_units * e->key.zero_bytes;
}

// ---- the file ----------------------------------------------------------------------------------

static bool write_all(int fd, uint64_t at, const uint8_t *bytes, uint64_t n) {
  while (n > 0) {
    const ssize_t put = pwrite(fd, bytes, (size_t)min_u64(n, 1 << 30), (off_t)at);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes += put;
    at += (uint64_t)put;
    n -= (uint64_t)put;
  }
  return true;
}

static bool read_all(int fd, uint64_t at, uint8_t *bytes, size_t n) {
  while (n > 0) {
    const ssize_t got = pread(fd, bytes, n, (off_t)at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    at += (uint64_t)got;
    n -= (size_t)got;
  }
  return true;
}

static uint64_t zeros_at(const struct entry *e, uint64_t unit) {
  return e->file_at + unit * e->key.zero_bytes;
}

static uint64_t scales_at(const struct entry *e, uint64_t unit) {
  return e->file_at + e->key.units * e->key.zero_bytes + unit * e->key.scale_bytes;
}

// Gives an entry its place in the file, if there is one and it has room.
static bool take_file(struct eval_cache *c, struct entry *e) {
  struct statvfs fs;
  if (e->in_file) return !c->file_failed;
  if (!c->asked_for_file && c->file.open) c->fd = c->file.open(c->file.ctx);
  c->asked_for_file = true;
  const uint64_t bytes = part_bytes(&e->key);
  if (c->fd < 0 || c->file_failed || fstatvfs(c->fd, &fs) != 0) return false;
  if (bytes > (uint64_t)fs.f_bavail * fs.f_frsize / FREE_PART) return false;
  e->file_at = c->file_end;
  e->in_file = true;
  c->file_end += bytes;
  return true;
}

static bool is_used_up(const struct entry *e) {
  return e->given >= part_bytes(&e->key);
}

// Makes an entry live in the file alone, but for its bitmap; false: it cannot.
static bool move_to_file(struct eval_cache *c, struct entry *e) {
  const struct eval_cache_key *k = &e->key;
  const uint64_t bitmap = bitmap_bytes(k);
  // What did not fit at first and found no file then is nowhere.
  const bool whole = e->in_file || e->bytes - bitmap == part_bytes(k);
  if (e->bytes == bitmap || is_used_up(e) || !whole || !take_file(c, e)) return false;
  if (!write_all(c->fd, zeros_at(e, 0), zeros_of(e), e->zero_units * k->zero_bytes) ||
      !write_all(c->fd, scales_at(e, 0), scales_of(e), e->scale_units * k->scale_bytes)) {
    c->file_failed = true;
    return false;
  }
  uint8_t *less = realloc(e->memory, bitmap);
  if (less) e->memory = less;
  c->held -= e->bytes - bitmap;
  e->bytes = bitmap;
  e->zero_units = e->scale_units = 0;
  return true;
}

// ---- memory ------------------------------------------------------------------------------------

static void drop(struct eval_cache *c, struct entry *e) {
  free(e->memory);
  e->memory = NULL;
  c->held -= e->bytes;
  if (!e->in_file) return;
  const off_t at = (off_t)e->file_at, n = (off_t)part_bytes(&e->key);
  const int ignored = fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n);
  (void)ignored; // not every file system gives space back before the end
}

// Small ones (ranges of a tensor) make no room worth a read, whoever was given them already.
static bool is_tiny(const struct eval_cache *c, const struct entry *e) {
  return e->bytes <= min_u64(TINY_MOST, c->budget / TINY_PART);
}

// What goes first: what nobody needs, then what the file can take, then what cannot be known any
// more without its bitmap.
static int rank_of(const struct eval_cache *c, const struct entry *e) {
  if (is_tiny(c, e)) return 2;
  if (is_used_up(e)) return 0;
  return e->in_file && e->bytes == bitmap_bytes(&e->key) ? 2 : 1;
}

static void make_room(struct eval_cache *c, size_t bytes) {
  while (c->held + bytes > c->budget) {
    struct entry *first = NULL;
    for (size_t i = 0; i < c->n; i++) {
      struct entry *e = &c->entries[i];
      if (!e->memory) continue;
      const int order = first ? rank_of(c, e) - rank_of(c, first) : -1;
      if (order < 0 || (order == 0 && e->used < first->used)) first = e;
    }
    assert(first);
    if (!move_to_file(c, first)) drop(c, first);
  }
}

// What stays beside a new entry: small ones, and bitmaps of those that can live in the file.
static uint64_t others_bytes(const struct eval_cache *c) {
  const bool file = c->file.open && !c->file_failed;
  uint64_t bytes = 0, tiny = 0;
  for (size_t i = 0; i < c->n; i++) {
    const struct entry *e = &c->entries[i];
    if (!e->memory) continue;
    if (is_tiny(c, e))
      tiny += e->bytes;
    else if (file && !is_used_up(e))
      bytes += bitmap_bytes(&e->key);
  }
  return bytes + min_u64(tiny, c->budget / TINY_PART * 4);
}

static struct entry *make_entry(struct eval_cache *c, const struct eval_cache_key *key) {
  struct entry e = {.key = *key};
  const uint64_t bitmap = bitmap_bytes(key);
  if (bitmap <= c->budget / 4) {
    uint64_t room = c->budget - bitmap;
    room -= min_u64(room, others_bytes(c));
    e.zero_units = key->zero_bytes ? min_u64(key->units, room / key->zero_bytes) : 0;
    room -= e.zero_units * key->zero_bytes;
    e.scale_units = key->scale_bytes ? min_u64(key->units, room / key->scale_bytes) : 0;
    e.bytes = (size_t)(bitmap + e.zero_units * key->zero_bytes + e.scale_units * key->scale_bytes);
    make_room(c, e.bytes);
    e.memory = calloc(1, e.bytes);
    if (e.memory) c->held += e.bytes;
    if (e.memory && e.bytes - bitmap < part_bytes(key)) take_file(c, &e);
  }
  c->entries = table_grow(c->entries, &c->cap, c->n + 1, sizeof *c->entries);
  c->entries[c->n] = e;
  return &c->entries[c->n++];
}

static bool is_known(const struct entry *e, uint64_t unit) {
  return e->memory[unit / 8] >> (unit % 8) & 1;
}

static bool is_kept(const struct eval_cache *c, const struct entry *e, uint64_t unit) {
  if (!e->memory) return false;
  if (e->in_file && !c->file_failed) return true;
  return unit < e->scale_units && (e->key.zero_bytes == 0 || unit < e->zero_units);
}

// ---- units -------------------------------------------------------------------------------------

// Keeps in memory what has its place there. Of the rest: what goes to the file.
static bool keep(struct eval_cache *c, struct entry *e, uint64_t unit, const uint8_t *scales,
                 const uint8_t *zeros) {
  const struct eval_cache_key *key = &e->key;
  e->used = ++c->stamp;
  if (unit < e->zero_units) memcpy(zeros_of(e) + unit * key->zero_bytes, zeros, key->zero_bytes);
  if (unit < e->scale_units)
    memcpy(scales_of(e) + unit * key->scale_bytes, scales, key->scale_bytes);
  return e->in_file && !c->file_failed && !is_known(e, unit);
}

static void set_known(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                      bool failed) {
  pthread_mutex_lock(&c->mu);
  struct entry *e = find(c, key);
  if (failed) c->file_failed = true;
  if (e->memory) e->memory[unit / 8] |= (uint8_t)(1 << unit % 8);
  pthread_mutex_unlock(&c->mu);
}

void eval_cache_put(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    const uint8_t *scales, const uint8_t *zeros) {
  assert(unit < key->units);
  if (!c) return;
  pthread_mutex_lock(&c->mu);
  struct entry *e = find(c, key);
  if (!e) e = make_entry(c, key);
  const bool to_file = e->memory && keep(c, e, unit, scales, zeros);
  const struct entry was = *e;
  pthread_mutex_unlock(&c->mu);
  if (!was.memory) return;
  bool failed = false;
  if (to_file && unit >= was.zero_units)
    failed |= !write_all(c->fd, zeros_at(&was, unit), zeros, key->zero_bytes);
  if (to_file && unit >= was.scale_units)
    failed |= !write_all(c->fd, scales_at(&was, unit), scales, key->scale_bytes);
  set_known(c, key, unit, failed);
}

// A look at an entry, as it is now: is the unit there, and in memory? Then `from` is where.
static bool look(struct eval_cache *c, struct entry *e, uint64_t unit, bool scales,
                 const uint8_t **from) {
  *from = NULL;
  if (!e || !e->memory || !is_known(e, unit)) return false;
  if (unit < (scales ? e->scale_units : e->zero_units))
    *from =
        scales ? scales_of(e) + unit * e->key.scale_bytes : zeros_of(e) + unit * e->key.zero_bytes;
  return *from || (e->in_file && !c->file_failed);
}

static bool copy_out(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     bool scales, size_t off, uint8_t *out, size_t n, bool counts) {
  const uint8_t *from;
  const size_t step = scales ? key->scale_bytes : key->zero_bytes;
  if (!c) return false;
  assert(off <= step && n <= step - off);
  pthread_mutex_lock(&c->mu);
  struct entry *e = find(c, key);
  const bool there = look(c, e, unit, scales, &from);
  uint64_t file_at = 0;
  if (there) {
    if (from)
      memcpy(out, from + off, n);
    else
      file_at = (scales ? scales_at(e, unit) : zeros_at(e, unit)) + off;
    e->used = ++c->stamp;
    if (counts) e->given += n;
  }
  pthread_mutex_unlock(&c->mu);
  return there && (from || read_all(c->fd, file_at, out, n));
}

bool eval_cache_scales(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                       size_t off, uint8_t *out, size_t n) {
  return copy_out(c, key, unit, true, off, out, n, true);
}

bool eval_cache_zeros(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                      size_t off, uint8_t *out, size_t n) {
  return copy_out(c, key, unit, false, off, out, n, true);
}

bool eval_cache_unit(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     uint8_t *scales, uint8_t *zeros) {
  return copy_out(c, key, unit, true, 0, scales, key->scale_bytes, false) &&
         (!zeros || copy_out(c, key, unit, false, 0, zeros, key->zero_bytes, false));
}

bool eval_cache_has(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit) {
  if (!c) return false;
  pthread_mutex_lock(&c->mu);
  const struct entry *e = find(c, key);
  const bool has = e && is_kept(c, e, unit) && is_known(e, unit);
  pthread_mutex_unlock(&c->mu);
  return has;
}

// ---- turns -------------------------------------------------------------------------------------

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
  if (e && (!is_kept(c, e, unit) || is_known(e, unit))) return true;
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
