// Ranges that one worker makes beside each other: their bytes and digests are those that each has alone, however
// they lie to segments and to the grid, whatever others take of them meanwhile, and whatever fails.
#include "platform/descriptor.h"
#include "stream/run/inside/produce.h"

#include "chance.h"
#include "io_fault_engine.h"
#include "stream/io/inside/io_engines.h"
#include "toy_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

// clang-format off: cmocka.h wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { TILE = 64 << 10, ZEROS = 1 << 20, CUT_LEAST = 4096 };

struct making {
  struct toy_job job;
  struct produce *w;
  struct err err;
  uint8_t *must; // of output 0
  int fd;
  uint32_t n, stop_at; // tiles until somebody says stop; 0: nobody
  struct plan_unit ranges[PRODUCE_LINES_MAX];
  uint64_t ends[PRODUCE_LINES_MAX];    // of what is left for us
  uint64_t claimed[PRODUCE_LINES_MAX]; // of that, for good
  bool cuts;
};

static bool go_on(void *ctx, uint32_t output, uint64_t off, size_t n) {
  struct making *m = ctx;
  (void)off;
  assert_int_equal(output, 0);
  return n == 0 || m->stop_at == 0 || --m->stop_at > 0;
}

// Now and then somebody takes what lies behind the next bytes.
static uint64_t claim(void *ctx, uint32_t line, uint64_t from, uint64_t to, uint64_t *end) {
  struct making *m = ctx;
  assert_true(line < m->n && from < to && to <= m->ranges[line].off + m->ranges[line].len);
  uint64_t got = min_u64(to, m->ends[line]);
  if (chance_below(2)) got = from + 1 + chance_below(got - from);
  const uint64_t ours = m->claimed[line] = max_u64(m->claimed[line], got);
  if (m->cuts && chance_below(2) && m->ends[line] - ours > CUT_LEAST)
    m->ends[line] = ours + 1 + chance_below(m->ends[line] - ours);
  *end = m->ends[line];
  return got;
}

// shrunk: a file of codes, whose error figures are wanted.
static void begin(struct making *m, enum io_mode mode, bool shrunk) {
  struct toy_shape shape = toy_shape(&toy);
  memset(m, 0, sizeof *m);
  shape.zeros = ZEROS;
  shape.shrunk = shrunk;
  toy_begin(&m->job, &shape);
  m->must = shrunk ? NULL : toy_expected(&toy, &m->job.plan, 0);
  const struct produce_options o = {
      .io = {.mode = mode, .tiles = 8, .tile_bytes = TILE, .window_bytes = 8 * TILE},
      .eval_bytes = 1 << 20,
      .errors = shrunk,
      .go_on = go_on,
      .claim = claim,
      .ctx = m};
  toy_must(produce_open(&m->w, &m->job.plan, m->job.sources, &o, &m->err) == 0, m->err.msg);
  m->n = produce_lines(&o);
  char path[400];
  snprintf(path, sizeof path, "%s/made", toy.dest);
  m->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  toy_must(m->fd >= 0, path);
}

static void end(struct making *m) {
  produce_close(m->w);
  toy_end(&m->job);
  free(m->must);
  close(m->fd);
}

// Neighbours, of any lengths.
static void choose_ranges(struct making *m) {
  const uint64_t size = m->job.plan.outputs[0].size;
  uint64_t at = chance_below(size / 2);
  m->n = 1 + chance_below(m->n);
  for (uint32_t i = 0; i < m->n; i++) {
    const uint64_t len = 1 + chance_below((size - at - m->n) / (m->n - i));
    m->ranges[i] = (struct plan_unit){.off = at, .len = len};
    m->ends[i] = at + len;
    at += len;
  }
}

static int make(struct making *m) {
  return produce_parts(m->w, m->ranges, m->n, file_of_descriptor(m->fd), true, &m->err);
}

static void expect_made(struct making *m) {
  uint8_t is[DIGEST_BYTES], must[DIGEST_BYTES];
  for (uint32_t i = 0; i < m->n; i++) {
    const struct plan_unit *r = &m->ranges[i];
    const uint64_t rest = r->off + r->len - m->ends[i];
    const struct figure_sums none = {0};
    assert_int_equal(pwrite(m->fd, m->must + m->ends[i], rest, (off_t)m->ends[i]), rest);
    if (rest > 0) assert_int_equal(produce_follow(m->w, i, rest, &none, &m->err), 0);
    produce_digest(m->w, i, is);
    digest_of(m->must + r->off, r->len, must);
    assert_memory_equal(is, must, DIGEST_BYTES);
    uint8_t *bytes = malloc(r->len);
    assert_int_equal(pread(m->fd, bytes, r->len, (off_t)r->off), r->len);
    assert_memory_equal(bytes, m->must + r->off, r->len);
    free(bytes);
  }
}

// A file system that shares blocks, as far as anybody can see.
static struct io_engine sharing;

static int copy(void *self, struct file source, uint64_t off, struct file fd, uint64_t out_off,
                uint64_t n) {
  uint8_t block[IO_CLONE_BLOCK];
  (void)self;
  for (uint64_t at = 0; at < n; at += sizeof block) {
    assert_int_equal(file_read_at(source, block, sizeof block, off + at), sizeof block);
    assert_int_equal(file_write_at(fd, block, sizeof block, out_off + at), sizeof block);
  }
  return 0;
}

static const struct io_engine *share(const struct io_engine *engine) {
  sharing = *engine;
  sharing.clone = copy;
  return &sharing;
}

static void test_beside(void **state) {
  (void)state;
  uint32_t beside = 0, cut = 0;
  uint64_t cloned = 0;
  enum io_mode automatic = IO_AUTO;
  const char *why;
  struct err err = {0};
  assert_int_equal(io_choose(&automatic, &why, &err), 0);
  for (uint32_t i = 0; i < 200; i++) {
    struct making m;
    chance_seed = i;
    io_engine_wrap(i % 4 < 2 ? share : NULL);
    begin(&m, i % 3 == 0 ? automatic : IO_SYNC, false);
    const bool can = m.n > 1;
    choose_ranges(&m);
    m.cuts = i % 2 == 1;
    if (make(&m)) fail_msg("%u: %s", i, m.err.msg);
    for (uint32_t k = 0; k < m.n; k++)
      cut += m.ends[k] < m.ranges[k].off + m.ranges[k].len;
    expect_made(&m);
    beside += m.n > 1 || !can;
    cloned += produce_counts(m.w).bytes_cloned;
    end(&m);
  }
  io_engine_wrap(NULL);
  assert_true(beside > 50 && cut > 20 && cloned > 20 << 20);
}

// A queue that fails at any write, a source at any read, a stop after any tile: it says so, and all tiles come back.
static void test_failures(void **state) {
  (void)state;
  uint32_t failed = 0, stopped = 0;
  for (uint32_t i = 0; i < 120; i++) {
    struct making m;
    char spec[40];
    chance_seed = i;
    snprintf(spec, sizeof spec, "%s:%u:EIO", i % 2 ? "write" : "read", 1 + i / 4);
    assert_true(io_fault_arm(i % 3 ? spec : "write:100000:EIO"));
    begin(&m, IO_SYNC, false);
    choose_ranges(&m);
    if (i % 3 == 0) m.stop_at = 1 + i / 4;
    const int made = make(&m);
    if (made < 0) {
      assert_int_equal(m.err.kind, ERR_IO);
      const char *at = strstr(m.err.msg, "writing ");
      uint64_t from, to, off = m.ranges[0].off;
      assert_int_equal(sscanf(m.err.msg, "output 'x.onnx.data', bytes %lu..%lu:", &from, &to), 2);
      if (at) assert_int_equal(sscanf(at, "writing %*u bytes at offset %lu", &off), 1);
      assert_true(from <= off && off < to); // the offset is in what is named
    }
    failed += made < 0;
    stopped += made > 0;
    io_fault_disarm();
    m.stop_at = 0;
    memset(&m.err, 0, sizeof m.err);
    for (uint32_t k = 0; k < m.n; k++)
      m.ends[k] = m.ranges[k].off + m.ranges[k].len;
    assert_int_equal(make(&m), 0); // the same worker goes on
    expect_made(&m);
    end(&m);
  }
  assert_true(failed > 20 && stopped > 10);
}

static const char *figures_of(struct produce *w, uint32_t line, struct arena *a, uint64_t *leaves) {
  struct figure_sums sums = produce_take_errors(w, line);
  struct json_out text = {0};
  for (size_t i = 0; i < sums.n; i++)
    *leaves += 1u << sums.rows[i].level;
  figure_sums_write(&text, &sums);
  figure_sums_free(&sums);
  return json_take(&text, a);
}

// What each line found out about its codes is what it finds out alone.
static void test_figures(void **state) {
  (void)state;
  float *x = (float *)toy.data;
  uint64_t leaves = 0, again = 0;
  uint32_t several = 0;
  bool can = false;
  for (size_t i = 0; i < TOY_DATA / sizeof *x; i++)
    x[i] = (float)chance_below(1000) / 7;
  toy_write(toy.src, "in.data", toy.data, TOY_DATA);
  for (uint32_t i = 0; i < 60; i++) {
    const char *beside[PRODUCE_LINES_MAX];
    struct making m;
    struct arena a = {0};
    chance_seed = i;
    begin(&m, IO_SYNC, true);
    can = m.n > 1;
    choose_ranges(&m);
    if (make(&m)) fail_msg("%u: %s", i, m.err.msg);
    const struct making all = m;
    for (uint32_t k = 0; k < all.n; k++)
      beside[k] = figures_of(m.w, k, &a, &leaves);
    for (uint32_t k = 0; k < all.n; k++) {
      m.n = 1;
      m.ranges[0] = all.ranges[k];
      m.ends[0] = all.ends[k];
      m.claimed[0] = 0;
      assert_int_equal(make(&m), 0);
      assert_string_equal(figures_of(m.w, 0, &a, &again), beside[k]);
      several += all.n > 1 && strlen(beside[k]) > 2;
    }
    arena_free(&a);
    end(&m);
  }
  assert_true(leaves > 1000 && leaves == again && (several > 50 || !can));
}

int test_produce(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_beside, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_figures, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("produce", tests, NULL, NULL);
}
