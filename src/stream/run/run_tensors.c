// Digests of single tensors, for the companion beside the manifest (run.h, run_tensor_digests).
//
// Pieces are counted from a tensor's own start, so that its digests stay the same wherever it lies;
// units are counted from the file's. Hence a pass of its own: tensors are taken in plan order
// (those that the plan's file lists, then those it does not: plan->small), in batches of about a
// thousand pieces, whose pieces workers hash in parallel (reread_compare); then the batch's
// lines are written.
//
//   tensors   t0        t1                              t2
//   pieces    [0]       [0]        [1]        [2]       [0]     one batch
//
// The bytes are read from the finished staged output, mostly still in cache. Without one (null
// engine) they are made again.
#include "base/table.h"
#include "resources/resources.h"
#include "stream/run/inside/produce.h"
#include "stream/run/memory_split.h"
#include "stream/run/run.h"
#include "stream/sys/reread.h"
#include "stream/sys/threads.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { BATCH_PIECES = 1024 };
#define PIECE_BYTES PLAN_UNIT_BYTES

struct batch {
  const struct plan *p;
  struct sources *sources;
  const struct staging *st;
  const struct work_options *o;
  struct memory_split split;

  struct plan_unit *pieces;
  size_t pieces_cap;
  uint8_t (*digests)[DIGEST_BYTES];
  size_t digests_cap;
  uint32_t n;

  _Atomic uint32_t next;
  _Atomic bool stopped;
  pthread_mutex_t mu; // guards err
  struct err err;
};

static bool goes_on(void *ctx) {
  struct batch *b = ctx;
  if (threads_must_stop(b->o->stop)) b->stopped = true;
  return !b->stopped;
}

static void fail(struct batch *b, const struct err *cause) {
  resources_lock(&b->mu);
  if (b->err.kind == ERR_NONE) b->err = *cause;
  resources_unlock(&b->mu);
  b->stopped = true;
}

// ---- hashing ----

static void take_digest(void *ctx, uint32_t row, const uint8_t *sha256, int why) {
  struct batch *b = ctx;
  const struct plan_unit *piece = &b->pieces[row];
  struct err err = {0};
  if (sha256) {
    memcpy(b->digests[row], sha256, DIGEST_BYTES);
    return;
  }
  reread_failed(b->p->outputs[piece->output].name, piece->off, why, &err);
  fail(b, &err);
}

static void hash_staged(struct batch *b) {
  struct arena scratch = {0};
  const struct reread_work work = {
      .jobs = b->split.jobs, .stop = b->o->stop, .done = take_digest, .ctx = b};
  struct reread_known *rows = arena_alloc(&scratch, (b->n + 1) * sizeof *rows);
  for (uint32_t i = 0; i < b->n; i++)
    rows[i] = (struct reread_known){.file = staging_output_fd(b->st, b->pieces[i].output),
                                    .off = b->pieces[i].off,
                                    .len = b->pieces[i].len};
  if (!reread_compare(rows, b->n, &work)) b->stopped = true;
  arena_free(&scratch);
}

static bool keep_making(void *ctx, uint32_t output, uint64_t off, size_t n) {
  (void)output, (void)off, (void)n;
  return goes_on(ctx);
}

static void hash_made(void *ctx, uint32_t i) {
  (void)i;
  struct batch *b = ctx;
  const struct produce_options options = {
      .io = {.mode = IO_NULL,
             .tiles = b->split.tiles,
             .tile_bytes = b->split.tile_bytes,
             .window_bytes = b->split.window_bytes},
      .eval_bytes = b->split.eval_bytes,
      .go_on = keep_making,
      .ctx = b,
  };
  struct produce *w;
  struct err err = {0};
  if (produce_open(&w, b->p, b->sources, &options, &err)) {
    fail(b, &err);
    return;
  }
  uint32_t at;
  while (goes_on(b) && (at = b->next++) < b->n)
    if (produce_range(w, &b->pieces[at], NO_FILE, b->digests[at], &err) < 0) fail(b, &err);
  produce_close(w);
}

// ---- lines ----

// "transpose(extent)"; where several operands meet, only their number: "concat(3)".
static void describe_recipe(const struct recipes *r, uint32_t id, char *out, size_t n) {
  size_t len = 0, open = 0;
  for (;;) {
    const struct recipe *row = &r->rows[id];
    len +=
        (size_t)snprintf(out + len, n - len, "%s", recipe_kind_name((enum recipe_kind)row->kind));
    if (row->n_args == 0 || len + 40 + open > n) break;
    open++;
    if (row->n_args > 1) {
      len += (size_t)snprintf(out + len, n - len, "(%u", row->n_args);
      break;
    }
    out[len++] = '(';
    id = r->args[row->args];
  }
  while (open-- > 0)
    out[len++] = ')';
  out[len] = '\0';
}

static void put_line(struct json_out *j, const struct plan *p, const struct plan_tensor *t,
                     const uint8_t (*digests)[DIGEST_BYTES], uint32_t n) {
  static const char *const encodings[] = {[ENCODING_FIXED32] = "fixed32",
                                          [ENCODING_FIXED64] = "fixed64",
                                          [ENCODING_VARINT] = "varint",
                                          [ENCODING_STRINGS] = "strings"};
  json_object(j);
  json_put_text(j, "name", t->name);
  json_put_text(j, "file", p->outputs[t->output].name);
  json_put_uint(j, "offset", t->off);
  json_put_uint(j, "length", t->len);
  json_put_text(j, "dtype", dtype_name((enum dtype)t->dtype));
  json_put_ints(j, "dims", t->dims, t->rank);
  if (t->encoding != ENCODING_RAW) { // the range is not the elements themselves (plan.h)
    assert(t->encoding < sizeof encodings / sizeof *encodings && encodings[t->encoding]);
    json_put_text(j, "encoding", encodings[t->encoding]);
  }
  json_put_array(j, "sha256");
  for (uint32_t i = 0; i < n; i++)
    json_hex(j, digests[i], DIGEST_BYTES);
  json_end_array(j);
  const struct segment *s = &p->segments[t->segment];
  struct extent at;
  char text[256] = "copy";
  if (t->len == 0)
    snprintf(text, sizeof text, "empty");
  else if (s->kind == SEGMENT_LITERAL)
    snprintf(text, sizeof text, "bytes");
  else if (s->kind == SEGMENT_ZERO)
    snprintf(text, sizeof text, "fill");
  else if (s->kind == SEGMENT_RECIPE && !recipe_is_copy(p->recipes, s->ref, &at))
    describe_recipe(p->recipes, s->ref, text, sizeof text);
  json_put_text(j, "from", text);
  json_end_object(j);
  json_newline(j);
}

static uint32_t rows_of(const struct plan *p) {
  return p->n_tensors + p->n_small;
}

static const struct plan_tensor *row_at(const struct plan *p, uint32_t i) {
  return i < p->n_tensors ? &p->tensors[i] : &p->small[i - p->n_tensors];
}

static uint32_t pieces_of(const struct plan_tensor *t) {
  return (uint32_t)((t->len + PIECE_BYTES - 1) / PIECE_BYTES);
}

// Takes whole tensors from `first` on; gives the one after the last.
static uint32_t fill_batch(struct batch *b, uint32_t first) {
  uint32_t i = first;
  b->n = 0;
  for (; i < rows_of(b->p) && i - first < BATCH_PIECES && b->n < BATCH_PIECES; i++) {
    const struct plan_tensor *t = row_at(b->p, i);
    b->pieces = table_grow(b->pieces, &b->pieces_cap, b->n + pieces_of(t) + 1, sizeof *b->pieces);
    for (uint64_t at = 0; at < t->len; at += PIECE_BYTES)
      b->pieces[b->n++] = (struct plan_unit){
          .output = t->output, .off = t->off + at, .len = min_u64(PIECE_BYTES, t->len - at)};
  }
  return i;
}

static int write_batch(const struct batch *b, uint32_t first, uint32_t end, struct run_lines lines,
                       struct err *err) {
  struct json_out out = {0};
  uint32_t at = 0;
  for (uint32_t i = first; i < end; i++) {
    const struct plan_tensor *t = row_at(b->p, i);
    put_line(&out, b->p, t, (const uint8_t(*)[DIGEST_BYTES])(b->digests + at), pieces_of(t));
    at += pieces_of(t);
  }
  const int bad = lines.put(lines.ctx, span_of(out.text, out.n), err);
  json_done(&out);
  return bad;
}

int run_tensor_digests(const struct plan *p, struct sources *s, const struct staging *st,
                       const struct work_options *options, struct run_lines lines,
                       struct err *err) {
  struct batch b = {.p = p, .sources = s, .st = st, .o = options};
  int bad = memory_split_of(&b.split, options->memory, options->jobs, rows_of(p), err);
  pthread_mutex_init(&b.mu, NULL);
  for (uint32_t first = 0; !bad && first < rows_of(p);) {
    const uint32_t end = fill_batch(&b, first);
    b.digests = table_grow(b.digests, &b.digests_cap, b.n + 1, DIGEST_BYTES);
    b.next = 0;
    if (staging_writes(st))
      hash_staged(&b);
    else
      threads_run(b.split.jobs, hash_made, &b);
    if (b.err.kind != ERR_NONE) *err = b.err;
    bad = b.err.kind != ERR_NONE ? -1
          : b.stopped            ? err_set(err, ERR_RETRY, "interrupted while hashing tensors")
                                 : write_batch(&b, first, end, lines, err);
    first = end;
  }
  pthread_mutex_destroy(&b.mu);
  table_free(b.pieces, b.pieces_cap, sizeof *b.pieces);
  table_free(b.digests, b.digests_cap, DIGEST_BYTES);
  return bad;
}

uint64_t run_tensor_digests_bytes(const struct plan *p) {
  static const uint8_t any[DIGEST_BYTES];
  uint64_t sum = 0;
  struct json_out one = {0};
  json_hex(&one, any, DIGEST_BYTES);
  const uint64_t digest = one.n + 1; // and a comma
  json_done(&one);
  for (uint32_t i = 0; i < rows_of(p); i++) {
    const struct plan_tensor *t = row_at(p, i);
    const uint32_t n = pieces_of(t);
    struct json_out out = {0};
    put_line(&out, p, t, NULL, 0);
    sum += out.n + (n ? n * digest - 1 : 0);
    json_done(&out);
  }
  return sum;
}
