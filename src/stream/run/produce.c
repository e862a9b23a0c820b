// From segments to tiles.
//
//   segments   |lit|zero|ext|lit|ext|........ extent of 9 MB ........|zero|.... recipe ....|
//   tiles      [      gathered      ][  view  ][  view  ][  view  ][v][      made     ][..]
//                                            1 MiB grid of the output
//
// Small things (literals, padding, short extents: an .onnx is thousands of them) are gathered into
// one tile until it is full. A long extent gets tiles that are windows of the source: no copy. A
// recipe is evaluated into the tile. Every tile ends at a multiple of the tile size in the output,
// so that writes are aligned whatever came before.
//
// Short extents mostly follow each other in the source: those that lie close together are read
// with one call into `look`, and copied out of it one by one.
//
// Where blocks can be shared with the source (io_clone) a long extent is cloned, and then read
// for its hash alone. Hashing happens when a tile is sent: in the order of the output, once a byte.
#include "produce.h"

#include "arena.h"
#include "eval.h"
#include "reread.h"

#include <assert.h>
#include <stdio.h>

enum {
  LONG_EXTENT = 64 << 10, // from here on a view is cheaper than a copy
  LOOK_BYTES = 256 << 10,
  LOOK_GAP = 1024, // bytes between two extents that are read rather than skipped
  AHEAD_BYTES = 8 << 20,
  CLAIM_BYTES = 1 << 20, // asked for at least, so that small segments do not ask one by one
  CLONE_ALIGN = 4096,
};

struct produce {
  const struct plan *p;
  struct produce_options o;
  size_t tile_bytes;
  struct io *io;
  struct eval *ev;
  struct eval_task *task; // of the recipe that is being made
  struct digest *sha;
  struct arena arena;

  struct io_tile *tile; // being gathered, or NULL
  uint64_t tile_off;    // its place in the output
  size_t tile_n;

  struct plan_unit range; // what is being made
  uint64_t pos;           // next byte of the output
  uint64_t claimed;       // up to here nobody else makes it
  int fd;
  bool hashed;
  bool stopped;

  uint8_t *look; // LOOK_BYTES of source bytes
  struct extent look_at;

  uint32_t segment; // being made
  struct eval_watcher watcher;
  struct figure_sums errors;

  uint64_t bytes_written, bytes_cloned;
};

// Figures of one leaf of what the current segment makes.
static void add_leaf(void *ctx, uint64_t leaf, const struct figures *f) {
  struct produce *w = ctx;
  figure_sums_push(&w->errors, w->segment, leaf, f);
}

static int went_on(struct produce *w, uint64_t off, size_t n) {
  if (!w->o.go_on || w->o.go_on(w->o.ctx, w->range.output, off, n)) return 0;
  w->stopped = true;
  return -1;
}

// From within the evaluation of bytes that are not there yet.
static bool goes_on(void *ctx) {
  struct produce *w = ctx;
  return went_on(w, w->pos, 0) == 0;
}

static void looked(void *ctx, uint32_t of, uint64_t bytes) {
  struct produce *w = ctx;
  if (w->o.looked) w->o.looked(w->o.ctx, of, bytes);
}

int produce_open(struct produce **out, const struct plan *p, struct sources *s,
                 const struct produce_options *options, struct err *err) {
  struct arena arena = {0};
  struct produce *w = arena_zalloc(&arena, sizeof *w);
  w->p = p;
  w->o = *options;
  w->tile_bytes = options->io.tile_bytes;
  w->look = arena_alloc(&arena, LOOK_BYTES);
  w->sha = digest_new();
  w->arena = arena;
  *out = w;
  if (io_open(&w->io, &options->io, s, err) == 0 &&
      eval_open(&w->ev, p->recipes, w->io, options->eval_bytes, err) == 0) {
    uint32_t n_used;
    const uint32_t *used = plan_recipes(p, &n_used);
    eval_touch(w->ev, used, n_used);
    eval_share(w->ev, options->cache);
    if (options->errors) w->watcher = (struct eval_watcher){add_leaf, w};
    eval_refuse_overflow(w->ev);
    eval_interrupt(w->ev, (struct eval_go_on){.ask = goes_on, .looked = looked, .ctx = w});
    return 0;
  }
  produce_close(w);
  *out = NULL;
  return -1;
}

void produce_close(struct produce *w) {
  if (!w) return;
  if (w->ev) eval_close(w->ev);
  if (w->io) io_close(w->io);
  digest_free(w->sha);
  figure_sums_free(&w->errors);
  struct arena arena = w->arena; // it holds w itself
  arena_free(&arena);
}

struct produce_counts produce_counts(const struct produce *w) {
  return (struct produce_counts){.source_bytes_read = io_source_bytes_read(w->io),
                                 .bytes_written = w->bytes_written,
                                 .bytes_cloned = w->bytes_cloned,
                                 .ring_lost = io_ring_lost(w->io)};
}

// ---- tiles ----

static uint64_t range_end(const struct produce *w) {
  return w->range.off + w->range.len;
}

// Bytes from `pos` to the end of its tile on the output's grid.
static size_t to_grid(const struct produce *w, uint64_t pos) {
  return w->tile_bytes - (size_t)(pos % w->tile_bytes);
}

static int take_tile(struct produce *w, struct err *err) {
  w->tile = io_tile_get(w->io);
  w->tile_off = w->pos;
  w->tile_n = 0;
  if (w->tile) return 0;
  const int bad = io_drain(w->io, err);
  assert(bad); // a queue without a tile has a failure to tell
  return bad;
}

static int send_tile(struct produce *w, const uint8_t *data, size_t n) {
  if (w->hashed) digest_add(w->sha, data, n);
  struct io_tile *tile = w->tile;
  w->tile = NULL;
  io_tile_write(w->io, tile, w->fd, w->tile_off, n);
  w->bytes_written += n;
  return went_on(w, w->tile_off, n);
}

static int flush_tile(struct produce *w) {
  return w->tile ? send_tile(w, w->tile->buf, w->tile_n) : 0;
}

// ---- gathering ----

// How far it pays to read from `at` on: over the extents that the coming segments want, as long as
// they lie close together in the same file.
static uint64_t look_length(const struct produce *w, uint32_t segment, const struct extent *at) {
  const struct plan_output *out = &w->p->outputs[w->range.output];
  uint64_t end = at->off + at->len;
  for (uint32_t i = segment + 1; i < out->first_segment + out->n_segments; i++) {
    const struct segment *s = &w->p->segments[i];
    if (s->off >= range_end(w)) break;
    if (s->kind != SEGMENT_EXTENT) continue;
    if (s->ref != at->file || s->at < end || s->at - end > LOOK_GAP) break;
    if (s->at + s->len - at->off > LOOK_BYTES) break;
    end = s->at + s->len;
  }
  return end - at->off;
}

static int copy_extent(struct produce *w, uint32_t segment, const struct extent *at, uint8_t *to,
                       struct err *err) {
  const struct extent *look = &w->look_at;
  if (look->file != at->file || look->len == 0 || at->off < look->off ||
      !range_fits(at->off - look->off, at->len, look->len)) {
    const uint64_t n = look_length(w, segment, at);
    if (n > LOOK_BYTES) return io_read(w->io, at->file, at->off, to, (size_t)at->len, err);
    w->look_at.len = 0;
    if (io_read(w->io, at->file, at->off, w->look, (size_t)n, err)) return -1;
    w->look_at = (struct extent){.file = at->file, .off = at->off, .len = n};
  }
  memcpy(to, w->look + (at->off - look->off), (size_t)at->len);
  return 0;
}

// n bytes of a segment from `from` on.
static int fill(struct produce *w, uint32_t segment, uint64_t from, uint8_t *to, size_t n,
                struct err *err) {
  const struct segment *s = &w->p->segments[segment];
  const struct extent at = {.file = s->ref, .off = s->at + from, .len = n};
  switch ((enum segment_kind)s->kind) {
  case SEGMENT_ZERO: memset(to, 0, n); return 0;
  case SEGMENT_LITERAL: memcpy(to, w->p->literals + s->at + from, n); return 0;
  case SEGMENT_EXTENT: return copy_extent(w, segment, &at, to, err);
  case SEGMENT_RECIPE: return eval_read(w->task, s->at + from, to, n, err);
  }
  assert(false && "a segment of a known kind");
  return -1;
}

static int gather(struct produce *w, uint32_t segment, uint64_t len, struct err *err) {
  const uint64_t start = w->p->segments[segment].off;
  while (len > 0) {
    if (!w->tile && take_tile(w, err)) return -1;
    const size_t n = (size_t)min_u64(len, to_grid(w, w->pos));
    if (fill(w, segment, w->pos - start, w->tile->buf + w->tile_n, n, err)) return -1;
    w->tile_n += n;
    w->pos += n;
    len -= n;
    if (w->pos % w->tile_bytes == 0 && flush_tile(w)) return -1;
  }
  return 0;
}

// ---- long extents ----

// The next n bytes, which are cloned, or else are a tile that is a window of the source.
static int put_extent(struct produce *w, uint32_t file, uint64_t off, size_t n, bool cloned,
                      struct err *err) {
  struct io_view view;
  if (!cloned) {
    if (take_tile(w, err) || io_tile_view(w->io, w->tile, file, off, n, err)) return -1;
    return send_tile(w, w->tile->data, n);
  }
  if (w->hashed) {
    if (io_view(w->io, file, off, n, &view, err)) return -1;
    digest_add(w->sha, view.at, n);
    if (io_view_done(w->io, &view, err)) return -1;
  }
  w->bytes_cloned += n;
  return went_on(w, w->pos, n);
}

static int put_long_extent(struct produce *w, uint32_t segment, uint64_t len, struct err *err) {
  const struct segment *s = &w->p->segments[segment];
  const uint64_t shift = s->at - s->off; // source offset less output offset, modulo 2^64
  if ((shift & (CLONE_ALIGN - 1)) == 0) {
    const uint64_t head = round_up(w->pos, CLONE_ALIGN) - w->pos;
    if (gather(w, segment, head, err)) return -1;
    len -= head;
  }
  if (flush_tile(w)) return -1;
  const uint64_t end = w->pos + len;
  uint64_t cloned = w->pos;
  if (w->fd >= 0) cloned += io_clone(w->io, s->ref, w->pos + shift, w->fd, w->pos, len);
  io_will_need(w->io, s->ref, w->pos + shift, min_u64(len, AHEAD_BYTES));
  while (w->pos < end) {
    const uint64_t stop = w->pos < cloned ? cloned : end;
    const size_t n = (size_t)min_u64(stop - w->pos, to_grid(w, w->pos));
    if (end - w->pos > AHEAD_BYTES)
      io_will_need(w->io, s->ref, w->pos + shift + AHEAD_BYTES,
                   min_u64(n, end - w->pos - AHEAD_BYTES));
    if (put_extent(w, s->ref, w->pos + shift, n, w->pos < cloned, err)) return -1;
    w->pos += n;
  }
  return 0;
}

// ---- ranges ----

// How many bytes from `pos` on, of the `len` that are left of a segment, to make before coming back
// here.
static uint64_t claim(struct produce *w, uint64_t len) {
  len = min_u64(len, range_end(w) - w->pos);
  if (!w->o.claim || len == 0) return len;
  if (w->pos + len > w->claimed) {
    const uint64_t to = max_u64(w->pos + len, min_u64(w->pos + CLAIM_BYTES, range_end(w)));
    uint64_t end;
    w->claimed = w->o.claim(w->o.ctx, w->pos, to, &end);
    w->range.len = end - w->range.off;
  }
  return min_u64(len, w->claimed - w->pos);
}

static int make_range(struct produce *w, struct err *err) {
  const struct plan *p = w->p;
  uint32_t i = plan_segment_at(p, w->range.output, w->pos);
  while (w->pos < range_end(w)) {
    const struct segment *s = &p->segments[i];
    assert(s->off <= w->pos && w->pos <= s->off + s->len);
    const uint64_t len = claim(w, s->off + s->len - w->pos);
    w->segment = i;
    if (s->kind == SEGMENT_RECIPE)
      w->task = eval_begin(w->ev, s->ref, s->at + (w->pos - s->off), len, w->watcher);
    const bool is_long = s->kind == SEGMENT_EXTENT && len >= LONG_EXTENT;
    if (is_long ? put_long_extent(w, i, len, err) : gather(w, i, len, err)) return -1;
    if (s->kind == SEGMENT_RECIPE && eval_end(w->task, err)) return -1;
    if (w->pos == s->off + s->len) i++;
  }
  return flush_tile(w);
}

struct figure_sums produce_take_errors(struct produce *w) {
  const struct figure_sums taken = w->errors;
  w->errors = (struct figure_sums){0};
  return taken;
}

static int blame(const struct produce *w, struct err *err) {
  const struct err cause = *err;
  // Of what the bytes are, or cannot become; not of how they are read and written.
  const bool of_weight = cause.kind == ERR_MODEL || cause.kind == ERR_FAIL;
  const char *tensor = of_weight ? plan_segment_weight(w->p, w->segment) : NULL;
  err->kind = ERR_NONE;
  if (tensor)
    err_fill(err, cause.kind, "tensor '%s': %s", quote_str(tensor).s, cause.msg);
  else
    err_fill(err, cause.kind, "output '%s', bytes %lu..%lu: %s",
             quote_str(w->p->outputs[w->range.output].name).s, w->range.off, range_end(w),
             cause.msg);
  err_fill_hint_of(err, &cause);
  return -1;
}

int produce_part(struct produce *w, const struct plan_unit *range, int fd, bool hashed,
                 struct err *err) {
  w->range = *range;
  w->pos = w->claimed = range->off;
  w->fd = fd;
  w->hashed = hashed;
  w->stopped = false;
  figure_sums_free(&w->errors);
  digest_start(w->sha);
  int bad = make_range(w, err);
  if (w->tile) io_tile_drop(w->io, w->tile);
  w->tile = NULL;
  // What is in flight reads our tiles: it is waited for whatever happened.
  struct err write_failed = {0};
  if (io_drain(w->io, &write_failed) && !bad) {
    *err = write_failed;
    bad = -1;
  }
  if (bad && w->stopped) return 1;
  return bad ? blame(w, err) : 0;
}

int produce_follow(struct produce *w, uint64_t len, const struct figure_sums *errors,
                   struct err *err) {
  const struct reread range = {.fd = w->fd,
                               .name = w->p->outputs[w->range.output].name,
                               .off = w->pos,
                               .len = len,
                               .go_on = goes_on,
                               .ctx = w};
  w->look_at.len = 0;
  w->pos += len;
  figure_sums_join(&w->errors, errors);
  return reread_hash(&range, w->sha, w->look, LOOK_BYTES, err);
}

void produce_digest(struct produce *w, uint8_t digest[DIGEST_BYTES]) {
  digest_end(w->sha, digest);
}

int produce_range(struct produce *w, const struct plan_unit *range, int fd,
                  uint8_t digest[DIGEST_BYTES], struct err *err) {
  const int made = produce_part(w, range, fd, true, err);
  if (made == 0) produce_digest(w, digest);
  return made;
}
