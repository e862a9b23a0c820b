// The run: the same bytes for any engine, number of workers and memory; records, stops and
// failures.
#include "fs_fault.h"
#include "stream/run/memory_split.h"
#include "toy_fixture.h"

#include <setjmp.h>
#include <stdarg.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static const struct figure_sums none;

// A job opened for running.
struct ready {
  struct toy_job job;
  struct staging st;
  struct work_options options;
  struct run_stats stats;
  struct err err;
};

static void begin(struct ready *r, uint64_t zeros, bool null, bool resume) {
  struct toy_shape shape = toy_shape(&toy);
  enum staging_resume how;
  const struct staging_options options = toy_staging(&toy, resume);
  memset(r, 0, sizeof *r);
  shape.zeros = zeros;
  toy_begin(&r->job, &shape);
  r->options = (struct work_options){.jobs = 1, .mode = null ? IO_NULL : IO_SYNC};
  if (null)
    toy_must(staging_open_null(&r->st, &r->job.plan, NULL, &r->err) == 0, r->err.msg);
  else
    toy_must(staging_open(&r->st, &r->job.plan, r->job.sources, &options, &how, NULL, 0, &r->err) ==
                 0,
             r->err.msg);
}

static int run(struct ready *r) {
  memset(&r->err, 0, sizeof r->err);
  return run_plan(&r->job.plan, r->job.sources, &r->st, &r->options, &r->stats, &r->err);
}

static void end(struct ready *r, bool keep) {
  if (!keep) toy_must(staging_remove(&r->st, &r->err) == 0, r->err.msg);
  staging_close(&r->st);
  toy_end(&r->job);
}

// Unit digests of what the outputs must hold.
static void expect_digests(const struct ready *r) {
  const struct plan *p = &r->job.plan;
  uint8_t *all = NULL, must[DIGEST_BYTES];
  uint32_t output = NO_ID;
  for (uint32_t unit = 0; unit < plan_unit_count(p); unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    if (u.output != output) {
      free(all);
      all = toy_expected(&toy, p, output = u.output);
    }
    digest_of(all + u.off, u.len, must);
    assert_true(r->st.done[unit]);
    assert_memory_equal(r->st.digests[unit], must, DIGEST_BYTES);
  }
  free(all);
}

static void expect_files(const struct ready *r) {
  char folder[400];
  snprintf(folder, sizeof folder, "%s/%s", toy.dest, r->st.name);
  for (uint32_t i = 0; i < r->job.plan.n_outputs; i++)
    assert_true(toy_is_whole(&toy, &r->job.plan, i, folder));
}

// Units edges fall into a long run of zeros and into the transposed tensor.
#define TWO_EDGES (2 * PLAN_UNIT_BYTES - 2500000 - 4096 - 1000 - 120000)

static void test_same_bytes(void **state) {
  (void)state;
  static const struct {
    enum io_mode mode;
    uint32_t jobs;
    uint64_t memory, zeros;
  } cases[] = {
      {IO_SYNC, 1, 0, 0},        {IO_SYNC, 1, 2 << 20, 0},          {IO_SYNC, 2, 5 << 20, 0},
      {IO_NULL, 1, 0, 0},        {IO_NULL, 4, 8 << 20, TWO_EDGES},  {IO_URING, 2, 0, TWO_EDGES},
      {IO_URING, 1, 2 << 20, 0}, {IO_SYNC, 3, 24 << 20, TWO_EDGES},
  };
  enum io_mode automatic = IO_AUTO;
  const char *why;
  struct err err = {0};
  assert_int_equal(io_choose(&automatic, &why, &err), 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct ready r;
    begin(&r, cases[i].zeros, cases[i].mode == IO_NULL, false);
    r.options.mode = cases[i].mode == IO_URING ? automatic : cases[i].mode;
    r.options.jobs = cases[i].jobs;
    r.options.memory = cases[i].memory;
    if (run(&r)) fail_msg("case %zu: %s", i, r.err.msg);
    expect_digests(&r);
    if (cases[i].mode != IO_NULL) expect_files(&r);
    const uint32_t units = plan_unit_count(&r.job.plan);
    assert_int_equal(units, cases[i].zeros ? 4 : 2);
    assert_int_equal(r.stats.units_done, units);
    assert_int_equal(r.stats.jobs, cases[i].jobs < units ? cases[i].jobs : units);
    // Each byte once, and the transposed ones at most 2.1 times; short extents bring their gaps
    // along.
    assert_in_range(r.stats.source_bytes_read, 2800000, 2700000 + 240000 * 21 / 10 + 70000);
    if (cases[i].mode != IO_NULL)
      assert_int_equal(r.stats.bytes_written + r.stats.bytes_cloned, plan_total_bytes(&r.job.plan));
    end(&r, cases[i].mode == IO_NULL);
  }
}

// More workers than units: they make parts of them.
static void test_parts(void **state) {
  (void)state;
  uint32_t parts = 0;
  for (uint32_t i = 0; i < 3; i++) {
    struct ready r;
    begin(&r, TWO_EDGES, false, false);
    r.options.jobs = 8;
    if (run(&r)) fail_msg("%s", r.err.msg);
    assert_int_equal(r.stats.jobs, 8);
    assert_int_equal(r.stats.units_done, 4);
    assert_int_equal(r.stats.bytes_written + r.stats.bytes_cloned, plan_total_bytes(&r.job.plan));
    expect_digests(&r);
    expect_files(&r);
    parts += r.stats.parts;
    end(&r, false);
  }
  assert_true(parts > 0);
}

// What one worker cannot do ends the others, those that wait for its part too.
static void test_part_fails(void **state) {
  (void)state;
  struct ready r;
  char path[400];
  snprintf(path, sizeof path, "%s/in.data", toy.src);
  begin(&r, TWO_EDGES, false, false);
  r.options.jobs = 8;
  assert_int_equal(truncate(path, 2600000), 0);
  assert_int_equal(run(&r), -1);
  assert_int_equal(r.err.kind, ERR_INPUT);
  end(&r, false);
}

// ---- resume ----

static unsigned ticks;
static uint64_t first_done, last_done, last_total;
static bool named;

static double last_work, last_work_total;

static void count_tick(void *ctx, const struct work_told *told) {
  (void)ctx;
  const char *tensor = told->tensor;
  if (ticks++ == 0) first_done = told->bytes_done;
  assert_true(told->bytes_done <= told->bytes_total && told->bytes_done >= told->bytes_already);
  assert_true(told->work_done <= told->work_total * (1 + 1e-9));
  assert_true(told->work_done >= told->work_already);
  assert_true((told->bytes_already == 0) == (told->work_already == 0));
  last_done = told->bytes_done;
  last_total = told->bytes_total;
  last_work = told->work_done;
  last_work_total = told->work_total;
  if (tensor && (strcmp(tensor, "copied") == 0 || strcmp(tensor, "turned") == 0)) named = true;
}

static struct observer counting = {.tick = count_tick};

static void test_only_missing_units(void **state) {
  (void)state;
  struct ready r;
  uint8_t *all;
  begin(&r, TWO_EDGES, false, false);
  // Units 0 and 3 are recorded; what they hold is trusted, not looked at.
  uint8_t digest[DIGEST_BYTES];
  all = toy_expected(&toy, &r.job.plan, 0);
  digest_of(all, PLAN_UNIT_BYTES, digest);
  assert_int_equal(staging_record(&r.st, 0, digest, &none, &r.err), 0);
  free(all);
  all = toy_expected(&toy, &r.job.plan, 1);
  digest_of(all, r.job.plan.outputs[1].size, digest);
  assert_int_equal(staging_record(&r.st, 3, digest, &none, &r.err), 0);
  free(all);
  end(&r, true);
  begin(&r, TWO_EDGES, false, true);
  assert_int_equal(staging_done_count(&r.st), 2);
  // What was there is told from the first tick on.
  const uint64_t already = PLAN_UNIT_BYTES + r.job.plan.outputs[1].size;
  assert_int_equal(staging_done_bytes(&r.st, &r.job.plan), already);
  ticks = 0;
  r.options.observer = &counting;
  r.options.jobs = 1;
  if (run(&r)) fail_msg("%s", r.err.msg);
  assert_true(first_done > already && first_done < already + PLAN_UNIT_BYTES);
  assert_int_equal(last_done, plan_total_bytes(&r.job.plan));
  assert_int_equal(r.stats.units_skipped, 2);
  assert_int_equal(r.stats.units_done, 2);
  expect_digests(&r);
  char folder[400];
  snprintf(folder, sizeof folder, "%s/%s", toy.dest, r.st.name);
  size_t n = 0;
  uint8_t *is = toy_read(folder, "x.onnx.data", &n);
  all = toy_expected(&toy, &r.job.plan, 0);
  assert_memory_equal(is + PLAN_UNIT_BYTES, all + PLAN_UNIT_BYTES, n - PLAN_UNIT_BYTES);
  assert_int_equal(is[0], 0); // unit 0 was not written again
  free(is);
  free(all);
  end(&r, false);
}

static void test_nothing_left_to_do(void **state) {
  (void)state;
  struct ready r;
  begin(&r, 0, false, false);
  assert_int_equal(run(&r), 0);
  assert_int_equal(run(&r), 0);
  assert_int_equal(r.stats.units_skipped, 2);
  assert_int_equal(r.stats.source_bytes_read, 0);
  end(&r, false);
}

// ---- stop and progress ----

static volatile int stop;
static void stop_at_tick(void *ctx, const struct work_told *told) {
  count_tick(ctx, told);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

static void test_progress(void **state) {
  (void)state;
  struct ready r;
  ticks = 0;
  begin(&r, 0, true, false);
  r.options.observer = &counting;
  assert_int_equal(run(&r), 0);
  assert_true(ticks >= 2); // the first tile is told at once, and the end
  assert_true(named);
  assert_int_equal(last_done, plan_total_bytes(&r.job.plan));
  assert_int_equal(last_total, last_done);
  assert_true(last_work > 0 && last_work == last_work_total);
  end(&r, true);
}

// The work goes on while the range of a weight is looked for, before any byte of it is there.
static double first_work;
static uint64_t first_bytes;
static void watch_work(void *ctx, const struct work_told *told) {
  if (ticks == 0) first_work = told->work_done;
  if (ticks == 0) first_bytes = told->bytes_done;
  assert_true(ticks == 0 || told->work_done >= last_work);
  count_tick(ctx, told);
}

static void test_progress_of_a_range(void **state) {
  (void)state;
  struct observer watching = {.tick = watch_work};
  struct ready r = {.options = {.jobs = 1, .mode = IO_NULL, .observer = &watching}};
  struct toy_shape shape = toy_shape(&toy);
  shape.shrunk = true;
  memset(toy.data, 0, TOY_DATA);
  toy_write(toy.src, "in.data", toy.data, TOY_DATA);
  toy_begin(&r.job, &shape);
  toy_must(staging_open_null(&r.st, &r.job.plan, NULL, &r.err) == 0, r.err.msg);
  ticks = 0;
  if (run(&r)) fail_msg("%s", r.err.msg);
  assert_true(ticks >= 2);
  assert_int_equal(first_bytes, 0);
  assert_true(first_work > 0 && first_work < last_work);
  assert_true(last_work == last_work_total);
  end(&r, true);
}

static void test_stop(void **state) {
  (void)state;
  struct ready r;
  stop = 0;
  begin(&r, TWO_EDGES, false, false);
  r.options.observer = &(struct observer){.tick = stop_at_tick}; // after the first tile
  r.options.stop = &stop;
  r.options.jobs = 2;
  assert_int_equal(run(&r), -1);
  assert_int_equal(r.err.kind, ERR_RETRY);
  assert_non_null(strstr(r.err.msg, "interrupted: finished units (0 %) are kept"));
  end(&r, true);
  begin(&r, TWO_EDGES, false, true);
  if (run(&r)) fail_msg("%s", r.err.msg);
  expect_digests(&r);
  expect_files(&r);
  end(&r, false);
}

// ---- failures ----

static void test_source_truncated(void **state) {
  (void)state;
  struct ready r;
  char path[400];
  snprintf(path, sizeof path, "%s/in.data", toy.src);
  static const enum io_mode modes[] = {IO_SYNC, IO_AUTO};
  for (size_t i = 0; i < 2; i++) {
    begin(&r, 0, false, false);
    r.options.mode = modes[i];
    const char *why;
    assert_int_equal(io_choose(&r.options.mode, &why, &r.err), 0);
    assert_int_equal(truncate(path, 1000000), 0);
    assert_int_equal(run(&r), -1);
    assert_int_equal(r.err.kind, ERR_INPUT);
    assert_non_null(strstr(r.err.msg, "output 'x.onnx.data', bytes 0..2845095: "));
    assert_non_null(strstr(r.err.msg, "in.data"));
    assert_int_equal(r.st.done[0], 0);
    end(&r, false);
    toy_write(toy.src, "in.data", toy.data, TOY_DATA);
  }
}

// The source is touched while the run goes on: same size, other bytes maybe. Nothing is recorded.
static void touch_source(void *ctx, const struct work_told *told) {
  (void)ctx, (void)told;
  toy_write(toy.src, "in.data", toy.data, TOY_DATA);
}

static void test_source_changed(void **state) {
  (void)state;
  struct ready r;
  begin(&r, 0, false, false);
  r.options.observer = &(struct observer){.tick = touch_source};
  assert_int_equal(run(&r), -1);
  assert_int_equal(r.err.kind, ERR_INPUT);
  assert_int_equal(staging_done_count(&r.st), 0);
  end(&r, false);
}

static void test_sync_fails(void **state) {
  (void)state;
  struct ready r;
  begin(&r, 0, false, false);
  fs_fault_install("EIO:fdatasync:1");
  assert_int_equal(run(&r), -1);
  assert_int_equal(r.err.kind, ERR_IO);
  assert_non_null(strstr(r.err.msg, "cannot be synced to disk"));
  fs_fault_remove();
  end(&r, true);
  begin(&r, 0, false, true); // nothing of it counts
  assert_int_equal(staging_done_count(&r.st), 0);
  assert_int_equal(run(&r), 0);
  expect_files(&r);
  end(&r, false);
}

static void test_record_fails(void **state) {
  (void)state;
  struct ready r;
  begin(&r, 0, false, false);
  fs_fault_install("ENOSPC:write:1");
  assert_int_equal(run(&r), -1);
  assert_int_equal(r.err.kind, ERR_NOSPACE);
  fs_fault_install("short:write:1"); // half a line, then the rest
  assert_int_equal(run(&r), 0);
  fs_fault_remove();
  end(&r, true);
  begin(&r, 0, false, true);
  assert_int_equal(staging_done_count(&r.st), 2);
  end(&r, false);
}

// ---- memory ----

static void test_budget(void **state) {
  (void)state;
  struct memory_split b;
  struct err err = {0};
  for (uint32_t jobs = 1; jobs <= 64; jobs++)
    for (uint64_t memory = run_min_memory(jobs); memory < (uint64_t)1 << 30; memory *= 3) {
      assert_int_equal(memory_split_of(&b, memory, jobs, 1000, &err), 0);
      const uint64_t all = jobs * (2 * b.tiles * (uint64_t)b.tile_bytes + b.eval_bytes);
      assert_true(all < memory && b.eval_bytes >= 1 << 20 && b.tiles >= 2);
      assert_int_equal(b.tile_bytes & (b.tile_bytes - 1), 0);
      assert_int_equal(b.jobs, jobs);
    }
  assert_int_equal(memory_split_of(&b, run_min_memory(7) - 1, 7, 1000, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  char least[40];
  snprintf(least, sizeof least, "%llu are needed", (unsigned long long)run_min_memory(7));
  assert_non_null(strstr(err.msg, least));
  assert_int_equal(memory_split_of(&b, 2 << 20, 0, 1000, &(struct err){0}), 0); // jobs shrink
  assert_int_equal(b.jobs, 1);
  assert_int_equal(memory_split_of(&b, 0, 8, 3, &(struct err){0}), 0); // no more jobs than units
  assert_int_equal(b.jobs, 3);
}

// Evaluation is given what it wants where tiles stay as large as disks bear.
static void test_favour(void **state) {
  (void)state;
  struct memory_split b;
  struct err err = {0};
  uint32_t favoured = 0;
  for (uint32_t jobs = 1; jobs <= 8; jobs++)
    for (uint64_t memory = run_min_memory(jobs); memory < (uint64_t)1 << 30; memory *= 2) {
      assert_int_equal(memory_split_of(&b, memory, jobs, 1000, &err), 0);
      const struct memory_split was = b;
      const uint64_t most = memory_split_most(&b, memory);
      for (uint64_t wanted = was.eval_bytes; wanted <= most;
           wanted += (most - was.eval_bytes) / 7 + 1) {
        b = was;
        memory_split_favour(&b, memory, wanted);
        assert_true(b.eval_bytes >= wanted && b.eval_bytes >= was.eval_bytes);
        assert_true(jobs * (2 * b.tiles * (uint64_t)b.tile_bytes + b.eval_bytes) < memory);
        assert_true(b.window_bytes == b.tiles * b.tile_bytes && b.jobs == was.jobs);
        if (b.eval_bytes == was.eval_bytes) continue;
        favoured++;
        assert_true(b.tiles >= 4 && b.tile_bytes >= 128 << 10);
      }
    }
  assert_true(favoured > 100);
  assert_int_equal(memory_split_cache_least(48 << 20, 9 << 20, 1 << 20), 2 << 20);
  assert_int_equal(memory_split_cache_least(48 << 20, 9 << 20, 5 << 20), 5 << 20);
  assert_int_equal(memory_split_cache_least(48 << 20, 0, 0), 0);
}

// ---- tensors ----

static int keep_lines(void *ctx, struct span text, struct err *err) {
  (void)err;
  char **all = ctx;
  const size_t have = *all ? strlen(*all) : 0;
  *all = realloc(*all, have + text.n + 1);
  toy_must(*all != NULL, "realloc");
  memcpy(*all + have, text.at, text.n);
  (*all)[have + text.n] = 0;
  return 0;
}

static int refuse_lines(void *ctx, struct span text, struct err *err) {
  (void)ctx, (void)text;
  return err_set(err, ERR_IO, "no room for lines");
}

static void test_tensor_digests(void **state) {
  (void)state;
  char *texts[2] = {NULL, NULL};
  for (int null = 0; null < 2; null++) {
    struct ready r;
    const struct run_lines lines = {keep_lines, &texts[null]};
    begin(&r, 0, null, false);
    r.options.jobs = 2;
    assert_int_equal(run(&r), 0);
    if (run_tensor_digests(&r.job.plan, r.job.sources, &r.st, &r.options, lines, &r.err))
      fail_msg("%s", r.err.msg);
    const struct run_lines none_taken = {refuse_lines, NULL};
    assert_int_equal(
        run_tensor_digests(&r.job.plan, r.job.sources, &r.st, &r.options, none_taken, &r.err), -1);
    assert_string_equal(r.err.msg, "no room for lines");
    end(&r, null);
  }
  assert_string_equal(texts[0], texts[1]);
  uint8_t sha[DIGEST_BYTES];
  char hex[DIGEST_HEX], line[400];
  digest_of(toy.data, 2500000, sha);
  hex_encode(sha, DIGEST_BYTES, hex);
  snprintf(line, sizeof line,
           "{\"name\":\"copied\",\"file\":\"x.onnx.data\",\"offset\":4096,\"length\":2500000,"
           "\"dtype\":\"float\",\"dims\":[625000],\"sha256\":[\"%s\"],\"from\":\"copy\"}\n",
           hex);
  assert_memory_equal(texts[0], line, strlen(line));
  assert_non_null(strstr(texts[0], "\"dims\":[200,300]"));
  assert_non_null(strstr(texts[0], "\"from\":\"transpose(extent)\"}\n"));
  free(texts[0]);
  free(texts[1]);
}

// A tensor longer than a piece that starts off the units' grid, and an empty one.
static void test_tensor_pieces(void **state) {
  (void)state;
  struct ready r;
  char *text = NULL;
  const struct run_lines lines = {keep_lines, &text};
  begin(&r, 0, true, false);
  struct plan *p = &r.job.plan;
  staging_close(&r.st);
  const uint32_t at = toy_segment(p, SEGMENT_ZERO, 0, 0, PLAN_UNIT_BYTES + 5);
  toy_tensor(p, "zeros", at, (int64_t[]){PLAN_UNIT_BYTES + 5}, 1);
  toy_tensor(p, "empty", at, (int64_t[]){0}, 1);
  p->tensors[p->n_tensors - 1].len = 0;
  assert_int_equal(staging_open_null(&r.st, p, NULL, &r.err), 0);
  assert_int_equal(run_tensor_digests(p, r.job.sources, &r.st, &r.options, lines, &r.err), 0);
  // SHA-256 of 64 MiB of zeros and of five.
  assert_non_null(strstr(
      text,
      "\"sha256\":[\"3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351\","
      "\"8855508aade16ec573d21e6a485dfd0a7624085c1a14b5ecdd6485de0c6839a4\"],\"from\":\"fill\"}"));
  assert_non_null(strstr(text, "\"sha256\":[],\"from\":\"empty\"}"));
  free(text);
  end(&r, true);
}

int test_run(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_same_bytes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_parts, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_part_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_only_missing_units, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_nothing_left_to_do, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_progress, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_progress_of_a_range, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_stop, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_source_truncated, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_source_changed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_sync_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_record_fails, set_up, tear_down),
      cmocka_unit_test(test_budget),
      cmocka_unit_test(test_favour),
      cmocka_unit_test_setup_teardown(test_tensor_digests, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_tensor_pieces, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
