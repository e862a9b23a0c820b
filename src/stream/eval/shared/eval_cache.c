// Entries are made at the first unit of a key that is put, with room for all of its units:
//
//   memory │ bitmap of units known │ first parts of units 0..n0 │ other parts of units 0..n1 │
//   file   │ first parts: a hole up to n0, then n0..n │ other parts: a hole up to n1, then n1..n │
//
// Where not all of it fits the budget, first parts come before the others (zero points are an eighth
// of their scales, and cost the same read of the weight to find again), and first units before later
// ones. Entries used longest ago make room: what of them nobody was given yet goes to the file.
// Without a file an entry that had to go does not come back: two large weights that are computed at
// the same time would throw each other out for ever, and find everything twice.
//
// The file is opened when something has to go there; most runs need none. It is written and read
// with no lock held, and it may fail: then it is given up, and what was in it counts as not known.
#include "stream/eval/shared/eval_cache.h"

#include "base/table.h"
#include "resources/resources.h"
#include "stream/eval/shared/eval_turns.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// An entry is small up to so many bytes, and this part of the budget.
enum { TINY_MOST = 4096, TINY_PART = 64 };
// The file takes no more than this part of what is free: outputs have their space, records and logs
// do not.
enum { FREE_PART = 2 };

struct entry {
  struct eval_cache_key key;
  uint64_t used;                        // stamp
  uint64_t in_memory[EVAL_CACHE_PARTS]; // units whose part is kept there
  uint64_t given;                       // bytes, handed out
  size_t bytes;
  uint8_t *memory;  // NULL: had to go
  size_t at_live;   // of the row in `live`, while it has memory
  uint64_t file_at; // of the units that are not kept in memory
  bool in_file;     //
};

struct eval_cache {
  pthread_mutex_t mu;
  size_t budget, held;
  uint64_t stamp, questions;
  TABLE(struct entry, entries);
  TABLE(uint32_t,
        slots); // by hash of the key: the number of an entry + 1; a power of two, at most half full
  TABLE(uint32_t, live);        // entries with memory
  uint64_t tiny_bytes, bitmaps; // of those: of small ones, and of others that are not used up
  struct eval_turns *turns;
  struct eval_cache_file place;
  bool asked_for_file, file_failed;
  struct file file; // none: not yet, or there can be none
  uint64_t file_end;
};

struct eval_cache *eval_cache_open(size_t bytes, struct eval_cache_file file) {
  struct eval_cache *c = resources_zalloc(1, sizeof *c);
  struct eval_turns *turns = c ? eval_turns_open() : NULL;
  if (!turns) {
    resources_free(c);
    return NULL;
  }
  c->turns = turns;
  c->budget = bytes;
  c->place = file;
  pthread_mutex_init(&c->mu, NULL);
  return c;
}

void eval_cache_close(struct eval_cache *c) {
  if (!c) return;
  eval_turns_close(c->turns);
  for (size_t i = 0; i < c->n_entries; i++)
    resources_free(c->entries[i].memory);
  TABLES_FREE(c, entries, slots, live);
  file_close(&c->file);
  pthread_mutex_destroy(&c->mu);
  resources_free(c);
}

uint64_t eval_cache_wanted(const struct recipes *r, const uint32_t *ids, uint32_t n) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t id = ids ? ids[i] : i;
    if (r->rows[id].kind == RECIPE_REDUCE)
      most =
          max_u64(most, 2 * r->rows[id].bytes + 64); // units are equal; the last one may be short
    if (!recipe_quantizes(r, id)) continue;
    // A unit has at least a byte of them, and a bit of the bitmap.
    uint64_t bytes = recipe_part_of(r, id) == PART_ZEROS ? r->rows[id].bytes : 0;
    if (recipe_quantization_of(r, id).format == FORMAT_LINEAR)
      bytes = 2 * sizeof(float) * r->rows[id].count; // ranges
    most = max_u64(most, bytes + bytes / 8 + 32);
  }
  return most;
}

bool eval_cache_same(const struct eval_cache_key *a, const struct eval_cache_key *b) {
  return a->kind == b->kind && a->of == b->of && a->gram == b->gram && a->rows == b->rows &&
         a->q.format == b->q.format && a->q.bits == b->q.bits && a->q.symmetric == b->q.symmetric &&
         a->q.axis == b->q.axis && a->q.block == b->q.block && a->q.levels == b->q.levels &&
         a->q.type == b->q.type && a->q.reduced == b->q.reduced && a->q.guard == b->q.guard &&
         a->q.seen == b->q.seen;
}

static uint64_t hash_of(const struct eval_cache_key *key) {
  const struct recipe_quantization *q = &key->q;
  uint64_t h = span_hash_mix(key->of, key->kind);
  h = span_hash_mix(h, (uint64_t)key->gram << 32 | key->rows);
  h = span_hash_mix(h, (uint64_t)q->format << 32 | q->bits);
  return span_hash_mix(h, q->block);
}

static uint32_t *slot_of(const struct eval_cache *c, const struct eval_cache_key *key) {
  const uint64_t mask = c->n_slots - 1;
  uint64_t at = hash_of(key) & mask;
  while (c->slots[at] && !eval_cache_same(&c->entries[c->slots[at] - 1].key, key))
    at = (at + 1) & mask;
  return &c->slots[at];
}

static struct entry *find(struct eval_cache *c, const struct eval_cache_key *key) {
  const uint32_t id = c->n_slots ? *slot_of(c, key) : 0;
  return id ? &c->entries[id - 1] : NULL;
}

// Room for one more.
static void grow_slots(struct eval_cache *c) {
  if (c->n_entries < c->n_slots / 2) return;
  struct eval_cache grown = {.n_slots = 0};
  const uint32_t n = c->n_slots ? 2 * c->n_slots : 64;
  TABLE_ADD(&grown, slots, n);
  TABLE_FREE(c, slots);
  c->slots = grown.slots;
  c->n_slots = grown.n_slots;
  c->slots_cap = grown.slots_cap;
  for (uint32_t i = 0; i < c->n_entries; i++)
    *slot_of(c, &c->entries[i].key) = i + 1;
}

static uint64_t bitmap_bytes(const struct eval_cache_key *key) {
  return round_up((key->units + 7) / 8, 16);
}

static uint64_t unit_bytes(const struct eval_cache_key *key) {
  return (uint64_t)key->bytes[EVAL_CACHE_FIRST] + key->bytes[EVAL_CACHE_OTHER];
}

static uint64_t all_bytes(const struct eval_cache_key *key) {
  return key->units * unit_bytes(key);
}

static bool is_used_up(const struct entry *e) {
  return e->given >= all_bytes(&e->key);
}

// Small ones (ranges of a tensor) make no room worth a read, whoever was given them already.
static bool is_tiny(const struct eval_cache *c, const struct entry *e) {
  return e->bytes <= min_u64(TINY_MOST, c->budget / TINY_PART);
}

// The bytes of an entry in one of the sums, or 0 in both: taken out before it changes, and put in behind that.
static void put_in_sums(struct eval_cache *c, const struct entry *e) {
  if (!e->memory) return;
  if (is_tiny(c, e))
    c->tiny_bytes += e->bytes;
  else if (!is_used_up(e))
    c->bitmaps += bitmap_bytes(&e->key);
}

static void take_from_sums(struct eval_cache *c, const struct entry *e) {
  if (!e->memory) return;
  if (is_tiny(c, e))
    c->tiny_bytes -= e->bytes;
  else if (!is_used_up(e))
    c->bitmaps -= bitmap_bytes(&e->key);
}

static void give(struct eval_cache *c, struct entry *e, uint64_t bytes) {
  take_from_sums(c, e);
  e->given += bytes;
  put_in_sums(c, e);
}

// Where a unit's part lies, or would if it were kept there.
static uint8_t *at_memory(const struct entry *e, uint64_t unit, enum eval_cache_part part) {
  uint8_t *at = e->memory + bitmap_bytes(&e->key) + unit * e->key.bytes[part];
  return part ? at + e->in_memory[0] * e->key.bytes[0] : at;
}

static uint64_t at_file(const struct entry *e, uint64_t unit, enum eval_cache_part part) {
  const uint64_t at = e->file_at + unit * e->key.bytes[part];
  return part ? at + e->key.units * e->key.bytes[0] : at;
}

// ---- the file ----------------------------------------------------------------------------------

static bool read_all(struct file f, uint64_t at, uint8_t *bytes, size_t n) {
  return file_read_all_at(f, bytes, n, at) == (int64_t)n;
}

// Gives an entry its place in the file, if there is one and it has room.
static bool take_file(struct eval_cache *c, struct entry *e) {
  uint64_t room;
  if (e->in_file) return !c->file_failed;
  if (!c->asked_for_file && c->place.open) c->file = c->place.open(c->place.ctx);
  c->asked_for_file = true;
  const uint64_t bytes = all_bytes(&e->key);
  if (e->key.brief) return false;
  if (!file_is_open(c->file) || c->file_failed || file_room(c->file, &room)) return false;
  if (bytes > room / FREE_PART) return false;
  e->file_at = c->file_end;
  e->in_file = true;
  c->file_end += bytes;
  return true;
}

// Makes an entry live in the file alone, but for its bitmap; false: it cannot.
static bool move_to_file(struct eval_cache *c, struct entry *e) {
  const struct eval_cache_key *k = &e->key;
  const uint64_t bitmap = bitmap_bytes(k);
  // What did not fit at first and found no file then is nowhere.
  const bool whole = e->in_file || e->bytes - bitmap == all_bytes(k);
  if (e->bytes == bitmap || is_used_up(e) || !whole || !take_file(c, e)) return false;
  for (uint32_t i = 0; i < EVAL_CACHE_PARTS; i++)
    if (file_write_all_at(c->file, at_memory(e, 0, i), e->in_memory[i] * k->bytes[i],
                          at_file(e, 0, i))) {
      c->file_failed = true;
      return false;
    }
  uint8_t *less = resources_realloc(e->memory, bitmap);
  take_from_sums(c, e);
  if (less) e->memory = less;
  c->held -= e->bytes - bitmap;
  e->bytes = bitmap;
  put_in_sums(c, e);
  memset(e->in_memory, 0, sizeof e->in_memory);
  return true;
}

// ---- memory ------------------------------------------------------------------------------------

static void drop(struct eval_cache *c, struct entry *e) {
  take_from_sums(c, e);
  resources_free(e->memory);
  e->memory = NULL;
  const uint32_t last = c->live[--c->n_live];
  c->live[e->at_live] = last;
  c->entries[last].at_live = e->at_live;
  c->held -= e->bytes;
  if (!e->in_file) return;
  // Not every file system gives space back before the end.
  (void)file_punch(c->file, e->file_at, all_bytes(&e->key));
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
    for (size_t i = 0; i < c->n_live; i++) {
      struct entry *e = &c->entries[c->live[i]];
      const int order = first ? rank_of(c, e) - rank_of(c, first) : -1;
      if (order < 0 || (order == 0 && e->used < first->used)) first = e;
    }
    assert(first);
    if (!move_to_file(c, first)) drop(c, first);
  }
}

// What stays beside a new entry: small ones, and bitmaps of those that can live in the file.
static uint64_t others_bytes(const struct eval_cache *c) {
  const bool file = c->place.open && !c->file_failed;
  return (file ? c->bitmaps : 0) + min_u64(c->tiny_bytes, c->budget / TINY_PART * 4);
}

// Memory may end for one of those who share it: what the tables need comes before anything changes.
static struct entry *make_entry(struct eval_cache *c, const struct eval_cache_key *key) {
  struct entry e = {.key = *key};
  TABLE_ROOM(c, entries, 1);
  TABLE_ROOM(c, live, 1);
  grow_slots(c);
  const uint64_t bitmap = bitmap_bytes(key);
  if (bitmap <= c->budget / 4) {
    uint64_t room = c->budget - bitmap;
    room -= min_u64(room, others_bytes(c));
    e.bytes = (size_t)bitmap;
    for (uint32_t i = 0; i < EVAL_CACHE_PARTS; i++) {
      e.in_memory[i] = key->bytes[i] ? min_u64(key->units, room / key->bytes[i]) : 0;
      room -= e.in_memory[i] * key->bytes[i];
      e.bytes += (size_t)(e.in_memory[i] * key->bytes[i]);
    }
    make_room(c, e.bytes);
    e.memory = resources_zalloc(1, e.bytes);
    if (e.memory) c->held += e.bytes;
    if (e.memory && e.bytes - bitmap < all_bytes(key)) take_file(c, &e);
  }
  const uint32_t id = c->n_entries;
  if (e.memory) {
    e.at_live = c->n_live;
    *TABLE_PUSH(c, live) = id;
    put_in_sums(c, &e);
  }
  *slot_of(c, key) = id + 1;
  struct entry *kept = TABLE_PUSH(c, entries);
  *kept = e;
  return kept;
}

static bool is_known(const struct entry *e, uint64_t unit) {
  return e->memory[unit / 8] >> (unit % 8) & 1;
}

static bool is_kept(const struct eval_cache *c, const struct entry *e, uint64_t unit) {
  if (!e->memory) return false;
  if (e->in_file && !c->file_failed) return true;
  bool kept = true;
  for (uint32_t i = 0; i < EVAL_CACHE_PARTS; i++)
    kept = kept && (e->key.bytes[i] == 0 || unit < e->in_memory[i]);
  return kept;
}

// ---- units -------------------------------------------------------------------------------------

// Every question takes the lock, and is counted.
static void lock(struct eval_cache *c) {
  resources_lock(&c->mu);
  c->questions++;
}

static void set_known(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                      uint64_t n, bool failed) {
  lock(c);
  struct entry *e = find(c, key);
  if (failed) c->file_failed = true;
  for (uint64_t end = unit + n; e->memory && unit < end; unit++)
    e->memory[unit / 8] |= (uint8_t)(1 << unit % 8);
  resources_unlock(&c->mu);
}

// How many of n units of a part, from `unit` on, have their place in memory.
static uint64_t units_in_memory(const struct entry *e, uint64_t unit, uint64_t n,
                                enum eval_cache_part part) {
  return unit < e->in_memory[part] ? min_u64(n, e->in_memory[part] - unit) : 0;
}

// Keeps in memory what has its place there; the rest goes to the file, unless it is known already.
void eval_cache_put_units(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                          uint64_t n, const uint8_t *first, const uint8_t *other) {
  const uint8_t *parts[EVAL_CACHE_PARTS] = {first, other};
  assert(range_fits(unit, n, key->units));
  if (!c || n == 0) return;
  lock(c);
  struct entry *e = find(c, key);
  if (!e) e = make_entry(c, key);
  for (uint32_t i = 0; e->memory && i < EVAL_CACHE_PARTS; i++) {
    const uint64_t here = units_in_memory(e, unit, n, i) * key->bytes[i];
    if (here > 0) memcpy(at_memory(e, unit, i), parts[i], (size_t)here);
  }
  e->used = ++c->stamp;
  bool to_file = false;
  for (uint64_t k = 0; e->memory && e->in_file && !c->file_failed && !to_file && k < n; k++)
    to_file = !is_known(e, unit + k);
  const struct entry was = *e;
  resources_unlock(&c->mu);
  if (!was.memory) return;
  bool failed = false;
  for (uint32_t i = 0; to_file && i < EVAL_CACHE_PARTS; i++) {
    const uint64_t here = units_in_memory(&was, unit, n, i), each = key->bytes[i];
    if (each > 0 && here < n)
      failed |= file_write_all_at(c->file, parts[i] + here * each, (n - here) * each,
                                  at_file(&was, unit + here, i)) != 0;
  }
  set_known(c, key, unit, n, failed);
}

void eval_cache_put(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    const uint8_t *first, const uint8_t *other) {
  eval_cache_put_units(c, key, unit, 1, first, other);
}

// Is what was read from the file, with no lock held, what had been put there? An entry that goes in
// the meantime (this may have been the last of it that anybody needed) leaves a hole, and does not
// come back.
static bool was_there(struct eval_cache *c, const struct eval_cache_key *key) {
  lock(c);
  const bool is = find(c, key)->memory != NULL;
  resources_unlock(&c->mu);
  return is;
}

static bool copy_out(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     enum eval_cache_part part, size_t off, uint8_t *out, size_t n, bool counts) {
  if (!c) return false;
  assert(range_fits(off, n, key->bytes[part]));
  lock(c);
  struct entry *e = find(c, key);
  const bool known = e && e->memory && is_known(e, unit);
  const bool in_memory = known && unit < e->in_memory[part];
  const bool there = in_memory || (known && e->in_file && !c->file_failed);
  uint64_t from = 0;
  if (there) {
    from = at_file(e, unit, part) + off;
    if (in_memory) memcpy(out, at_memory(e, unit, part) + off, n);
    e->used = ++c->stamp;
    if (counts) give(c, e, n);
  }
  resources_unlock(&c->mu);
  return there && (in_memory || (read_all(c->file, from, out, n) && was_there(c, key)));
}

bool eval_cache_get(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    enum eval_cache_part part, size_t off, uint8_t *out, size_t n) {
  return copy_out(c, key, unit, part, off, out, n, true);
}

bool eval_cache_look(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     enum eval_cache_part part, uint8_t *out) {
  return copy_out(c, key, unit, part, 0, out, key->bytes[part], false);
}

static uint64_t copy_out_units(struct eval_cache *c, const struct eval_cache_key *key,
                               uint64_t unit, uint64_t n, enum eval_cache_part part, uint8_t *out,
                               bool counts) {
  if (!c) return 0;
  assert(range_fits(unit, n, key->units));
  const uint64_t each = key->bytes[part];
  lock(c);
  struct entry *e = find(c, key);
  const uint64_t here = e && e->memory ? units_in_memory(e, unit, n, part) : 0;
  uint64_t most = here, there = 0, from = 0;
  if (e && e->memory && here == 0 && e->in_file && !c->file_failed) most = n;
  while (there < most && is_known(e, unit + there))
    there++;
  if (there > 0) {
    from = at_file(e, unit, part);
    if (here > 0) memcpy(out, at_memory(e, unit, part), (size_t)(there * each));
    e->used = ++c->stamp;
    if (counts) give(c, e, there * each);
  }
  resources_unlock(&c->mu);
  if (there == 0 || here > 0) return there;
  return read_all(c->file, from, out, (size_t)(there * each)) && was_there(c, key) ? there : 0;
}

uint64_t eval_cache_get_units(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                              uint64_t n, enum eval_cache_part part, uint8_t *out) {
  return copy_out_units(c, key, unit, n, part, out, true);
}

uint64_t eval_cache_look_units(struct eval_cache *c, const struct eval_cache_key *key,
                               uint64_t unit, uint64_t n, enum eval_cache_part part, uint8_t *out) {
  return copy_out_units(c, key, unit, n, part, out, false);
}

uint64_t eval_cache_next(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                         uint64_t end) {
  if (!c) return end;
  lock(c);
  const struct entry *e = find(c, key);
  while (unit < end && !(e && is_kept(c, e, unit) && is_known(e, unit)))
    unit++;
  resources_unlock(&c->mu);
  return unit;
}

bool eval_cache_fits(struct eval_cache *c, const struct eval_cache_key *key) {
  if (!c) return false;
  lock(c);
  const struct entry *e = find(c, key);
  const bool file =
      c->place.open && !c->file_failed && (!c->asked_for_file || file_is_open(c->file));
  const bool fits = e      ? is_kept(c, e, key->units - 1)
                    : file ? bitmap_bytes(key) <= c->budget / 4
                           : bitmap_bytes(key) + all_bytes(key) <= c->budget / 2;
  resources_unlock(&c->mu);
  return fits;
}

bool eval_cache_has(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit) {
  return eval_cache_next(c, key, unit, unit + 1) == unit;
}

uint64_t eval_cache_questions(const struct eval_cache *c) {
  return c->questions;
}

bool eval_cache_settled(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit) {
  if (!c) return true;
  lock(c);
  const struct entry *e = find(c, key);
  const bool settled = e && (!is_kept(c, e, unit) || is_known(e, unit));
  resources_unlock(&c->mu);
  return settled;
}

struct eval_turns *eval_cache_turns(struct eval_cache *c) {
  return c->turns;
}
