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
// for its hash alone. Hashing happens in the order of the output, once a byte: of a range that is made
// alone when a tile is sent, through libcrypto. Ranges that are made beside each other take turns, a
// piece of the grid each (a recipe at a time, which is not left half-way); what is ready to be sent
// waits until there is something of each, and is hashed side by side:
//
//   range 0   [ made ▒▒▒▒│ ready │               ]      ▒ hashed and sent
//   range 1   [ made ▒▒▒▒▒▒│ ready │             ]
//   range 2   [ made ▒▒▒▒│ ready │               ]
#include "stream/run/inside/produce.h"

#include "base/arena.h"
#include "stream/eval/eval.h"
#include "stream/sys/reread.h"

#include <assert.h>
#include <stdio.h>

enum {
  LONG_EXTENT = 64 << 10, // from here on a view is cheaper than a copy
  LOOK_BYTES = 256 << 10,
  LOOK_GAP = 1024, // bytes between two extents that are read rather than skipped
  AHEAD_BYTES = 8 << 20,
  CLAIM_BYTES = 1 << 20, // asked for at least, so that small segments do not ask one by one
  CLONE_ALIGN = 4096,
  READY_MAX = 8,
};

// What waits to be hashed: a tile, or a view of bytes that were cloned (tile is NULL).
struct ready {
  struct io_tile *tile;
  struct io_view view;
  uint64_t off; // in the output
  size_t n;
  struct span left; // of it, to be hashed
};

// A range in the making.
struct line {
  struct plan_unit range;
  uint64_t pos;     // next byte of the output
  uint64_t claimed; // up to here nobody else makes it
  uint64_t cloned;  // up to here the long extent at `pos` is there already
  uint64_t advised; // up to here the system was told that it is wanted
  struct figure_sums errors;
  // Beside others:
  struct lane lane;
  struct ready ready[READY_MAX];
  uint32_t n_ready;
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

  struct line lines[PRODUCE_LINES_MAX], *now; // whose turn it is
  uint32_t n_lines;
  uint32_t n_ready, ready_most; // of all lines
  struct file fd;
  bool hashed;
  bool stopped;

  uint8_t *look; // LOOK_BYTES of source bytes
  struct extent look_at;

  uint32_t segment; // being made
  struct eval_watcher watcher;

  uint64_t bytes_written, bytes_cloned;
};

// Figures of one leaf of what the current segment makes.
static void add_leaf(void *ctx, uint64_t leaf, const struct figures *f) {
  struct produce *w = ctx;
  figure_sums_push(&w->now->errors, w->segment, leaf, f);
}

static int went_on(struct produce *w, uint64_t off, size_t n) {
  if (!w->o.go_on || w->o.go_on(w->o.ctx, w->now->range.output, off, n)) return 0;
  w->stopped = true;
  return -1;
}

// From within the evaluation of bytes that are not there yet.
static bool goes_on(void *ctx) {
  struct produce *w = ctx;
  return went_on(w, w->now->pos, 0) == 0;
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
  w->now = w->lines;
  w->ready_most = (uint32_t)min_u64(options->io.tiles / 2, READY_MAX - 1);
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
  for (uint32_t i = 0; i < PRODUCE_LINES_MAX; i++)
    figure_sums_free(&w->lines[i].errors);
  struct arena arena = w->arena; // it holds w itself
  arena_free(&arena);
}

struct produce_counts produce_counts(const struct produce *w) {
  return (struct produce_counts){.source_bytes_read = io_source_bytes_read(w->io),
                                 .bytes_written = w->bytes_written,
                                 .bytes_cloned = w->bytes_cloned,
                                 .ring_lost = io_ring_lost(w->io)};
}

// ---- what is ready ----

// The first of the line's is hashed: it goes where it is to go.
static int let_go(struct produce *w, struct line *l, struct err *err) {
  struct ready r = l->ready[0];
  l->n_ready--;
  w->n_ready--;
  memmove(l->ready, l->ready + 1, l->n_ready * sizeof *l->ready);
  if (!r.tile) return io_view_done(w->io, &r.view, err);
  io_tile_write(w->io, r.tile, w->fd, r.off, r.n);
  return 0;
}

// Hashes the first of each line as far as the shortest goes.
static int hash_ready(struct produce *w, struct err *err) {
  struct line *of[PRODUCE_LINES_MAX];
  struct lane *lanes[PRODUCE_LINES_MAX];
  struct span left[PRODUCE_LINES_MAX];
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->n_lines; i++) {
    struct line *l = &w->lines[i];
    if (l->n_ready == 0) continue;
    of[n] = l;
    lanes[n] = &l->lane;
    left[n++] = l->ready[0].left;
  }
  if (n == 0) return 0;
  lanes_add(lanes, left, n);
  for (uint32_t i = 0; i < n; i++) {
    of[i]->ready[0].left = left[i];
    if (left[i].n == 0 && let_go(w, of[i], err)) return -1;
  }
  return 0;
}

static int add_ready(struct produce *w, struct ready r, struct err *err) {
  struct line *l = w->now;
  l->ready[l->n_ready++] = r;
  w->n_ready++;
  while (w->n_ready > w->ready_most)
    if (hash_ready(w, err)) return -1;
  return 0;
}

static void drop_ready(struct produce *w) {
  struct err ignored = {0};
  for (struct line *l = w->lines; l < w->lines + w->n_lines; l++)
    for (; l->n_ready > 0; l->n_ready--) {
      struct ready *r = &l->ready[l->n_ready - 1];
      if (r->tile)
        io_tile_drop(w->io, r->tile);
      else
        (void)io_view_done(w->io, &r->view, &ignored);
    }
  w->n_ready = 0;
}

// ---- tiles ----

static uint64_t range_end(const struct line *l) {
  return l->range.off + l->range.len;
}

// Bytes from `pos` to the end of its tile on the output's grid.
static size_t to_grid(const struct produce *w, uint64_t pos) {
  return w->tile_bytes - (size_t)(pos % w->tile_bytes);
}

static int take_tile(struct produce *w, struct err *err) {
  w->tile = io_tile_get(w->io);
  w->tile_off = w->now->pos;
  w->tile_n = 0;
  if (w->tile) return 0;
  const int bad = io_drain(w->io, err);
  assert(bad); // a queue without a tile has a failure to tell
  return bad;
}

static int send_tile(struct produce *w, const uint8_t *data, size_t n, struct err *err) {
  struct io_tile *tile = w->tile;
  w->tile = NULL;
  w->bytes_written += n;
  if (w->n_lines > 1) {
    const struct ready r = {.tile = tile, .off = w->tile_off, .n = n, .left = span_of(data, n)};
    if (add_ready(w, r, err)) return -1;
  } else {
    if (w->hashed) digest_add(w->sha, data, n);
    io_tile_write(w->io, tile, w->fd, w->tile_off, n);
  }
  return went_on(w, w->tile_off, n);
}

static int flush_tile(struct produce *w, struct err *err) {
  return w->tile ? send_tile(w, w->tile->buf, w->tile_n, err) : 0;
}

// ---- gathering ----

// How far it pays to read from `at` on: over the extents that the coming segments want, as long as
// they lie close together in the same file.
static uint64_t look_length(const struct produce *w, uint32_t segment, const struct extent *at) {
  const struct plan_output *out = &w->p->outputs[w->now->range.output];
  uint64_t end = at->off + at->len;
  for (uint32_t i = segment + 1; i < out->first_segment + out->n_segments; i++) {
    const struct segment *s = &w->p->segments[i];
    if (s->off >= range_end(w->now)) break;
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
  struct line *l = w->now;
  while (len > 0) {
    if (!w->tile && take_tile(w, err)) return -1;
    const size_t n = (size_t)min_u64(len, to_grid(w, l->pos));
    if (fill(w, segment, l->pos - start, w->tile->buf + w->tile_n, n, err)) return -1;
    w->tile_n += n;
    l->pos += n;
    len -= n;
    if (l->pos % w->tile_bytes == 0 && flush_tile(w, err)) return -1;
  }
  return 0;
}

// ---- long extents ----

// The next n bytes, which are cloned already: they are read to be hashed.
static int put_cloned(struct produce *w, uint32_t file, uint64_t off, size_t n, struct err *err) {
  struct ready r = {.off = w->now->pos, .n = n};
  w->bytes_cloned += n;
  if (!w->hashed) return went_on(w, r.off, n);
  if (io_view(w->io, file, off, n, &r.view, err)) return -1;
  r.left = span_of(r.view.at, n);
  if (w->n_lines > 1) {
    if (add_ready(w, r, err)) return -1;
  } else {
    digest_add(w->sha, r.view.at, n);
    if (io_view_done(w->io, &r.view, err)) return -1;
  }
  return went_on(w, r.off, n);
}

// The next n bytes, a tile that is a window of the source.
static int put_window(struct produce *w, uint32_t file, uint64_t off, size_t n, struct err *err) {
  if (take_tile(w, err) || io_tile_view(w->io, w->tile, file, off, n, err)) return -1;
  return send_tile(w, w->tile->data, n, err);
}

static void advise(struct produce *w, uint32_t file, uint64_t shift, uint64_t to) {
  struct line *l = w->now;
  const uint64_t from = max_u64(l->pos, l->advised);
  if (from >= to) return;
  io_will_need(w->io, file, from + shift, to - from);
  l->advised = to;
}

// `len` bytes of it are ours to make; it is left at `until`.
static int put_long_extent(struct produce *w, uint32_t segment, uint64_t len, uint64_t until,
                           struct err *err) {
  const struct segment *s = &w->p->segments[segment];
  const uint64_t shift = s->at - s->off; // source offset less output offset, modulo 2^64
  struct line *l = w->now;
  const uint64_t end = l->pos + len;
  const uint64_t head = round_up(l->pos, CLONE_ALIGN) - l->pos;
  if ((shift & (CLONE_ALIGN - 1)) == 0 && gather(w, segment, min_u64(head, len), err)) return -1;
  if (flush_tile(w, err)) return -1;
  if (file_is_open(w->fd) && l->cloned <= l->pos)
    l->cloned = l->pos + io_clone(w->io, s->ref, l->pos + shift, w->fd, l->pos, end - l->pos);
  while (l->pos < end && l->pos < until) {
    const bool is_cloned = l->pos < l->cloned;
    const uint64_t stop = is_cloned ? l->cloned : end;
    const size_t n = (size_t)min_u64(stop - l->pos, to_grid(w, l->pos));
    advise(w, s->ref, shift, min_u64(end, l->pos + n + AHEAD_BYTES));
    if ((is_cloned ? put_cloned : put_window)(w, s->ref, l->pos + shift, n, err)) return -1;
    l->pos += n;
  }
  return 0;
}

// ---- ranges ----

// How many bytes from `pos` on, of the `len` that are left of a segment, to make before coming back
// here.
static uint64_t claim(struct produce *w, uint64_t len) {
  struct line *l = w->now;
  len = min_u64(len, range_end(l) - l->pos);
  if (!w->o.claim || len == 0) return len;
  if (l->pos + len > l->claimed) {
    const uint64_t to = max_u64(l->pos + len, min_u64(l->pos + CLAIM_BYTES, range_end(l)));
    uint64_t end;
    const uint64_t got = w->o.claim(w->o.ctx, (uint32_t)(l - w->lines), l->pos, to, &end);
    l->claimed = max_u64(l->claimed, got); // what is ours is so for good
    l->range.len = end - l->range.off;
  }
  return min_u64(len, l->claimed - l->pos);
}

static int make_recipe(struct produce *w, uint32_t segment, uint64_t len, struct err *err) {
  const struct segment *s = &w->p->segments[segment];
  w->task = eval_begin(w->ev, s->ref, s->at + (w->now->pos - s->off), len, w->watcher);
  if (gather(w, segment, len, err)) return -1;
  return eval_end(w->task, err);
}

// Is the segment worth windows from here on, of which `len` bytes are ours? What was begun so goes on so.
static bool is_long(const struct line *l, const struct segment *s, uint64_t len) {
  if (s->kind != SEGMENT_EXTENT) return false;
  const bool goes_on = l->pos > max_u64(s->off, l->range.off) && s->len >= LONG_EXTENT;
  return len >= LONG_EXTENT || goes_on;
}

// The line's range, to the end of a tile at `until` at least, or to its own.
static int make_range(struct produce *w, uint64_t until, struct err *err) {
  const struct plan *p = w->p;
  struct line *l = w->now;
  uint32_t i = plan_segment_at(p, l->range.output, l->pos);
  while (l->pos < range_end(l) && l->pos < until) {
    const struct segment *s = &p->segments[i];
    assert(s->off <= l->pos && l->pos <= s->off + s->len);
    uint64_t len = s->off + s->len - l->pos;
    // Of several ranges no more is taken than is made soon: others may have the rest.
    if (w->n_lines > 1 && s->kind == SEGMENT_EXTENT) len = min_u64(len, AHEAD_BYTES);
    len = claim(w, len);
    int rc;
    w->segment = i;
    if (s->kind == SEGMENT_RECIPE)
      rc = make_recipe(w, i, len, err);
    else if (is_long(l, s, len))
      rc = put_long_extent(w, i, len, until, err);
    else
      rc = gather(w, i, min_u64(len, until - l->pos), err);
    if (rc) return -1;
    until = max_u64(until, round_up(l->pos, w->tile_bytes)); // behind a recipe
    if (l->pos == s->off + s->len) i++;
  }
  return flush_tile(w, err);
}

static int make_beside(struct produce *w, struct err *err) {
  bool ended;
  do {
    ended = true;
    for (uint32_t i = 0; i < w->n_lines; i++) {
      struct line *l = w->now = &w->lines[i];
      if (l->n_ready == 0 && make_range(w, l->pos + to_grid(w, l->pos), err)) return -1;
      ended = ended && l->pos == range_end(l);
    }
    if (hash_ready(w, err)) return -1;
  } while (!ended || w->n_ready > 0);
  return 0;
}

struct figure_sums produce_take_errors(struct produce *w, uint32_t line) {
  const struct figure_sums taken = w->lines[line].errors;
  w->lines[line].errors = (struct figure_sums){0};
  return taken;
}

static int blame(const struct produce *w, struct err *err) {
  const struct err cause = *err;
  const struct line *first = w->lines, *last = &w->lines[w->n_lines - 1];
  // Of what the bytes are, or cannot become; not of how they are read and written: what fails there may
  // be of any of the ranges, whose tiles are all on their way.
  const bool of_weight = cause.kind == ERR_MODEL || cause.kind == ERR_FAIL;
  const char *tensor = of_weight ? plan_segment_weight(w->p, w->segment) : NULL;
  err->kind = ERR_NONE;
  if (tensor)
    err_fill(err, cause.kind, "tensor '%s': %s", quote_str(tensor).s, cause.msg);
  else
    err_fill(err, cause.kind, "output '%s', bytes %s..%s: %s",
             quote_str(w->p->outputs[first->range.output].name).s, decimal(first->range.off).s,
             decimal(range_end(last)).s, cause.msg);
  err_fill_hint_of(err, &cause);
  return -1;
}

static void start(struct line *l, const struct plan_unit *range) {
  figure_sums_free(&l->errors);
  *l = (struct line){.range = *range, .pos = range->off, .claimed = range->off};
  lane_start(&l->lane);
}

uint32_t produce_lines(const struct produce_options *o) {
  return (uint32_t)max_u64(min_u64(lanes_width(), o->io.tiles / 2), 1);
}

int produce_parts(struct produce *w, const struct plan_unit ranges[], uint32_t n, struct file fd,
                  bool hashed, struct err *err) {
  assert(n > 0 && n <= produce_lines(&w->o) && (n == 1 || hashed));
  w->fd = fd;
  w->hashed = hashed;
  w->stopped = false;
  w->n_lines = n;
  for (uint32_t i = 0; i < n; i++)
    start(&w->lines[i], &ranges[i]);
  w->now = w->lines;
  digest_start(w->sha);
  int bad = n == 1 ? make_range(w, UINT64_MAX, err) : make_beside(w, err);
  if (w->tile) io_tile_drop(w->io, w->tile);
  w->tile = NULL;
  drop_ready(w);
  // What is in flight reads our tiles: it is waited for whatever happened.
  struct err write_failed = {0};
  if (io_drain(w->io, &write_failed) && !bad) {
    *err = write_failed;
    bad = -1;
  }
  if (bad && w->stopped) return 1;
  return bad ? blame(w, err) : 0;
}

static void add_reread(void *ctx, const uint8_t *bytes, size_t n) {
  struct produce *w = ctx;
  struct lane *lane = &w->now->lane;
  struct span from = span_of(bytes, n);
  if (w->n_lines == 1) digest_add(w->sha, bytes, n);
  while (w->n_lines > 1 && from.n > 0)
    lanes_add(&lane, &from, 1);
}

int produce_follow(struct produce *w, uint32_t line, uint64_t len, const struct figure_sums *errors,
                   struct err *err) {
  struct line *l = w->now = &w->lines[line];
  const struct reread range = {.file = w->fd,
                               .name = w->p->outputs[l->range.output].name,
                               .off = l->pos,
                               .len = len,
                               .add = add_reread,
                               .go_on = goes_on,
                               .ctx = w};
  w->look_at.len = 0;
  l->pos += len;
  figure_sums_join(&l->errors, errors);
  return reread_hash(&range, w->look, LOOK_BYTES, err);
}

void produce_digest(struct produce *w, uint32_t line, uint8_t digest[DIGEST_BYTES]) {
  if (w->n_lines == 1)
    digest_end(w->sha, digest);
  else
    lane_end(&w->lines[line].lane, digest);
}

int produce_range(struct produce *w, const struct plan_unit *range, struct file fd,
                  uint8_t digest[DIGEST_BYTES], struct err *err) {
  const int made = produce_parts(w, range, 1, fd, true, err);
  if (made == 0) produce_digest(w, 0, digest);
  return made;
}
