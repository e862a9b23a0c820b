// The queue and its engines: the same bytes whatever the engine, honest errors whatever goes wrong.
//
// The source is m.onnx plus x.data (pseudo-random bytes), in a folder of its own per test. Where
// io_uring cannot be had the uring cases are skipped; null has the same mapped windows.
#include "platform/descriptor.h"
#include "io_fault_engine.h"
#include "stream/io/inside/io_engines.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { SOURCE_BYTES = (3 << 20) + 1234, DATA = 1 };

struct fixture {
  char dir[256], data[300], out[300];
  uint8_t *bytes; // what x.data holds
  struct sources *sources;
};

static uint64_t rng = 88172645463325252u;
static uint64_t any_below(uint64_t n) {
  rng ^= rng << 13;
  rng ^= rng >> 7;
  rng ^= rng << 17;
  return rng % n;
}

static void put_file(const char *path, const void *bytes, size_t n) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  assert_int_equal(fclose(f), 0);
}

static int set_up(void **state) {
  struct fixture *fx = calloc(1, sizeof *fx);
  const char *tmp = getenv("TMPDIR");
  snprintf(fx->dir, sizeof fx->dir, "%s/test_io.XXXXXX", tmp ? tmp : "/tmp");
  assert_non_null(mkdtemp(fx->dir));
  snprintf(fx->data, sizeof fx->data, "%s/x.data", fx->dir);
  snprintf(fx->out, sizeof fx->out, "%s/m.onnx", fx->dir);
  put_file(fx->out, "model", 5);
  fx->bytes = malloc(SOURCE_BYTES);
  for (size_t i = 0; i < SOURCE_BYTES; i++)
    fx->bytes[i] = (uint8_t)any_below(256);
  put_file(fx->data, fx->bytes, SOURCE_BYTES);
  struct err err = {0};
  struct sources_options options = {0};
  assert_int_equal(sources_open(&fx->sources, fx->out, &options, &err), 0);
  uint32_t file;
  assert_int_equal(sources_add(fx->sources, span_str("x.data"), &file, &err), 0);
  assert_int_equal(file, DATA);
  snprintf(fx->out, sizeof fx->out, "%s/out", fx->dir);
  *state = fx;
  return 0;
}

static int tear_down(void **state) {
  struct fixture *fx = *state;
  io_fault_disarm();
  sources_close(fx->sources);
  char model[300];
  snprintf(model, sizeof model, "%s/m.onnx", fx->dir);
  unlink(model);
  unlink(fx->data);
  unlink(fx->out);
  assert_int_equal(rmdir(fx->dir), 0);
  free(fx->bytes);
  free(fx);
  return 0;
}

static bool have_uring(void) {
  enum io_mode mode = IO_AUTO;
  const char *why;
  struct err err = {0};
  io_choose(&mode, &why, &err);
  return mode == IO_RING_OR_SYNC;
}

static const enum io_mode all_modes[] = {IO_URING, IO_SYNC, IO_NULL, IO_LOAD};
enum { N_MODES = sizeof all_modes / sizeof *all_modes };

static bool usable(enum io_mode mode) {
  return mode != IO_URING || have_uring();
}

static struct io *open_queue(const struct fixture *fx, enum io_mode mode, uint32_t tiles,
                             size_t tile_bytes) {
  struct io *io;
  struct err err = {0};
  struct io_options options = {.mode = mode, .tiles = tiles, .tile_bytes = tile_bytes};
  int r = io_open(&io, &options, fx->sources, &err);
  if (r < 0) print_error("%s\n", err.msg);
  assert_int_equal(r, 0);
  return io;
}

static int open_out(const struct fixture *fx) {
  int fd = open(fx->out, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  return fd;
}

// Copies x.data in pieces of random size: by view, or read into the tile. 0, or -1 with *err.
static int copy_all(struct io *io, int fd, size_t tile_bytes, struct err *err) {
  for (uint64_t off = 0; off < SOURCE_BYTES;) {
    size_t n = (size_t)min_u64(1 + any_below(tile_bytes), SOURCE_BYTES - off);
    struct io_tile *t = io_tile_get(io);
    if (!t) break;
    int r = any_below(2) ? io_tile_view(io, t, DATA, off, n, err)
                         : io_read(io, DATA, off, t->buf, n, err);
    if (r < 0) {
      io_tile_drop(io, t);
      break;
    }
    io_tile_write(io, t, file_of_descriptor(fd), off, n);
    off += n;
  }
  int r = io_drain(io, err);
  return err->kind == ERR_NONE ? r : -1;
}

static void expect_copy(const struct fixture *fx) {
  struct stat st;
  assert_int_equal(stat(fx->out, &st), 0);
  assert_int_equal(st.st_size, SOURCE_BYTES);
  uint8_t *got = malloc(SOURCE_BYTES);
  FILE *f = fopen(fx->out, "rb");
  assert_non_null(f);
  assert_int_equal(fread(got, 1, SOURCE_BYTES, f), SOURCE_BYTES);
  fclose(f);
  assert_int_equal(memcmp(got, fx->bytes, SOURCE_BYTES), 0);
  free(got);
}

static void copies_are_equal(void **state) {
  struct fixture *fx = *state;
  static const struct {
    uint32_t tiles;
    size_t bytes;
  } shapes[] = {{1, 65536}, {3, 100000}, {8, 1 << 20}, {2, 4096}};
  for (size_t k = 0; k < N_MODES * (sizeof shapes / sizeof *shapes); k++) {
    enum io_mode mode = all_modes[k % N_MODES];
    size_t bytes = shapes[k / N_MODES].bytes;
    if (!usable(mode)) continue;
    struct io *io = open_queue(fx, mode, shapes[k / N_MODES].tiles, bytes);
    int fd = open_out(fx);
    struct err err = {0};
    assert_int_equal(copy_all(io, fd, bytes, &err), 0);
    if (mode == IO_NULL)
      assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    else
      expect_copy(fx);
    assert_int_equal(io_source_bytes_read(io), SOURCE_BYTES);
    io_close(io);
    close(fd);
  }
}

static void views_show_the_bytes(void **state) {
  struct fixture *fx = *state;
  for (int m = 0; m < N_MODES; m++) {
    if (!usable(all_modes[m])) continue;
    struct io *io = open_queue(fx, all_modes[m], 2, 4096);
    struct err err = {0};
    for (int k = 0; k < 200; k++) {
      uint64_t off = any_below(SOURCE_BYTES);
      size_t n = (size_t)any_below(min_u64(SOURCE_BYTES - off, k % 2 ? 9000 : 1 << 20) + 1);
      if (k % 10 == 0) off = SOURCE_BYTES - n; // the tail
      struct io_view v;
      assert_int_equal(io_view(io, DATA, off, n, &v, &err), 0);
      assert_int_equal(v.n, n);
      assert_int_equal(memcmp(v.at, fx->bytes + off, n), 0);
      io_will_need(io, DATA, off, n);
      assert_int_equal(io_view_done(io, &v, &err), 0);
    }
    io_close(io);
  }
}

static void ranges_past_the_end_are_refused(void **state) {
  struct fixture *fx = *state;
  static const struct {
    uint64_t off;
    size_t n;
  } bad[] = {{SOURCE_BYTES, 1}, {SOURCE_BYTES - 5, 6}, {UINT64_MAX, 1}, {UINT64_MAX - 3, 4096}};
  for (int m = 0; m < N_MODES; m++) {
    if (!usable(all_modes[m])) continue;
    struct io *io = open_queue(fx, all_modes[m], 2, 4096);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
      struct io_view v;
      uint8_t buf[4096];
      struct err e1 = {0}, e2 = {0};
      assert_int_equal(io_view(io, DATA, bad[k].off, bad[k].n, &v, &e1), -1);
      assert_int_equal(e1.kind, ERR_INPUT);
      assert_int_equal(io_read(io, DATA, bad[k].off, buf, bad[k].n, &e2), -1);
      assert_int_equal(e2.kind, ERR_INPUT);
      assert_non_null(strstr(e2.msg, "/x.data'"));
    }
    io_close(io);
  }
}

static void expect_truncated(const struct err *err) {
  assert_int_equal(err->kind, ERR_INPUT);
  assert_non_null(strstr(err->msg, "/x.data' was truncated while it was being read"));
}

static void grow_back(const struct fixture *fx) {
  put_file(fx->data, fx->bytes, SOURCE_BYTES);
}

// The file loses its end between the making of a view and its use: to a page edge, and within the
// last page of the view (which nobody notices but for the size).
static void truncation_under_a_view(void **state) {
  struct fixture *fx = *state;
  static const off_t left[] = {0, 1 << 20, (1 << 20) + 4096 * 3, (2 << 20) - 1};
  for (size_t k = 0; k < N_MODES * (sizeof left / sizeof *left); k++) {
    enum io_mode mode = all_modes[k % N_MODES];
    if (!usable(mode)) continue;
    grow_back(fx);
    struct io *io = open_queue(fx, mode, 2, 4096);
    struct io_view v;
    struct err err = {0};
    assert_int_equal(io_view(io, DATA, 1 << 20, 1 << 20, &v, &err), 0);
    assert_int_equal(truncate(fx->data, left[k / N_MODES]), 0);
    uint64_t sum = 0;
    for (size_t i = 0; i < v.n; i++)
      sum += v.at[i];
    int r = io_view_done(io, &v, &err);
    if (mode == IO_SYNC || mode == IO_LOAD) { // it was read before, and stays good
      assert_int_equal(r, 0);
      assert_true(sum > 0);
    } else {
      assert_int_equal(r, -1);
      expect_truncated(&err);
    }
    io_close(io);
  }
}

// Fragments come one behind the other, whatever the window they lie in, and count alone.
static void gathers_fragments(void **state) {
  struct fixture *fx = *state;
  static const struct {
    uint64_t off, n;
    size_t run, stride;
  } rows[] = {{0, 1, 1, 1},         {5, 3000, 28, 1024}, {1234, 700, 64, 4096},
              {7, 384, 8192, 8192}, {3, 100000, 4, 30},  {SOURCE_BYTES - 100 * 512, 100, 500, 512},
              {9, 370, 100, 8192}};
  static uint8_t found[SOURCE_BYTES];
  for (int m = 0; m < N_MODES; m++) {
    if (!usable(all_modes[m])) continue;
    struct io *io = open_queue(fx, all_modes[m], 2, 1 << 16);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
      const struct io_fragments f = {.file = DATA,
                                     .off = rows[i].off,
                                     .n = rows[i].n,
                                     .run = rows[i].run,
                                     .stride = rows[i].stride};
      struct err err = {0};
      const uint64_t before = io_source_bytes_read(io);
      memset(found, 0xa5, sizeof found);
      assert_int_equal(io_gather(io, &f, found, &err), 0);
      for (uint64_t k = 0; k < f.n; k++)
        assert_memory_equal(found + k * f.run, fx->bytes + f.off + k * f.stride, f.run);
      assert_int_equal(found[f.n * f.run], 0xa5);
      if (all_modes[m] != IO_LOAD) assert_int_equal(io_source_bytes_read(io) - before, f.n * f.run);
    }
    const struct io_fragments outside = {
        .file = DATA, .off = SOURCE_BYTES - 1000, .n = 3, .run = 10, .stride = 500};
    struct err err = {0};
    assert_int_equal(io_gather(io, &outside, found, &err), -1);
    assert_int_equal(err.kind, ERR_INPUT);
    io_close(io);
  }
}

static void truncation_before_use(void **state) {
  struct fixture *fx = *state;
  for (int m = 0; m < N_MODES; m++) {
    if (!usable(all_modes[m])) continue;
    grow_back(fx);
    struct io *io = open_queue(fx, all_modes[m], 2, 4096);
    assert_int_equal(truncate(fx->data, 5000), 0);
    struct io_view v;
    struct err e1 = {0}, e2 = {0};
    uint8_t buf[100];
    assert_int_equal(io_view(io, DATA, 0, 100000, &v, &e1), -1);
    expect_truncated(&e1);
    assert_int_equal(io_read(io, DATA, 4950, buf, 100, &e2), -1);
    expect_truncated(&e2);
    io_close(io);
  }
}

static void truncation_under_a_queued_tile(void **state) {
  struct fixture *fx = *state;
  for (int m = 0; m < N_MODES; m++) {
    if (!usable(all_modes[m]) || all_modes[m] == IO_LOAD) continue;
    grow_back(fx);
    struct io *io = open_queue(fx, all_modes[m], 2, 1 << 16);
    int fd = open_out(fx);
    struct io_tile *t = io_tile_get(io);
    struct err err = {0};
    assert_int_equal(io_tile_view(io, t, DATA, 1000, 500000, &err), 0);
    assert_int_equal(truncate(fx->data, 300000), 0);
    io_tile_write(io, t, file_of_descriptor(fd), 0, 500000);
    int r = io_drain(io, &err);
    if (all_modes[m] == IO_SYNC) {
      assert_int_equal(r, 0);
    } else {
      assert_int_equal(r, -1);
      expect_truncated(&err);
    }
    io_close(io);
    close(fd);
  }
}

static void *truncate_again_and_again(void *arg) {
  const struct fixture *fx = arg;
  for (int k = 0; k < 30; k++) {
    assert_int_equal(truncate(fx->data, (off_t)((k * 77777) % SOURCE_BYTES)), 0);
    grow_back(fx);
  }
  return NULL;
}

// Whatever the moment: an error or the bytes, never a signal.
static void truncation_at_any_moment(void **state) {
  struct fixture *fx = *state;
  struct io *io = open_queue(fx, IO_NULL, 4, 1 << 16);
  pthread_t other;
  assert_int_equal(pthread_create(&other, NULL, truncate_again_and_again, fx), 0);
  uint32_t sum = 0;
  for (int k = 0; k < 300; k++) {
    struct err err = {0};
    struct io_view v;
    if (io_view(io, DATA, any_below(SOURCE_BYTES - 200000), 200000, &v, &err) == 0) {
      for (size_t i = 0; i < v.n; i++)
        sum += v.at[i];
      (void)io_view_done(io, &v, &err);
    }
    assert_true(err.kind == ERR_NONE || err.kind == ERR_INPUT || err.kind == ERR_IO);
  }
  pthread_join(other, NULL);
  assert_true(sum != 1);
  io_close(io);
}

static uint8_t fault_outside_of_windows(const struct fixture *fx) {
  int fd = open(fx->data, O_RDWR | O_CLOEXEC);
  const uint8_t *map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED || ftruncate(fd, 0) < 0) return 1;
  return *(const volatile uint8_t *)(map + 4096);
}

static void previous_handler(int sig, siginfo_t *info, void *context) {
  (void)sig;
  (void)context;
  _exit(info->si_addr ? 42 : 43);
}

static int status_of(pid_t child) {
  int status;
  assert_true(child > 0);
  assert_int_equal(waitpid(child, &status, 0), child);
  return status;
}

// Must run before any other test installs the guard in this process.
static void faults_elsewhere_go_to_the_previous_handler(void **state) {
  struct fixture *fx = *state;
  pid_t child = fork();
  if (child == 0) {
    struct sigaction action = {.sa_sigaction = previous_handler, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &action, NULL);
    maps_guard();
    fault_outside_of_windows(fx);
    _exit(1);
  }
  int status = status_of(child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  grow_back(fx);
  child = fork();
  if (child == 0) {
    signal(SIGBUS, SIG_DFL); // a sanitizer's handler would report and exit
    struct rlimit no_core = {0};
    setrlimit(RLIMIT_CORE, &no_core);
    maps_guard();
    fault_outside_of_windows(fx);
    _exit(1);
  }
  status = status_of(child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

static void more_views_than_windows(void **state) {
  struct fixture *fx = *state;
  enum { N = MAPS_GUARDED_MAX + 50 };
  struct io_view *v = calloc(N, sizeof *v);
  struct io *io = open_queue(fx, IO_NULL, 1, 4096);
  struct err err = {0};
  for (uint32_t i = 0; i < N; i++) {
    assert_int_equal(io_view(io, DATA, i * 100, 50, &v[i], &err), 0);
  }
  for (uint32_t i = 0; i < N; i++) {
    assert_int_equal(memcmp(v[i].at, fx->bytes + i * 100, 50), 0);
    assert_int_equal(io_view_done(io, &v[i], &err), 0);
  }
  io_close(io);
  free(v);
}

// A budget smaller than one view: tiles wait for each other, and nothing hangs.
static void windows_keep_to_their_budget(void **state) {
  struct fixture *fx = *state;
  if (!have_uring()) skip();
  struct io *io;
  struct err err = {0};
  struct io_options options = {.mode = IO_URING, .tiles = 8, .window_bytes = 10000};
  assert_int_equal(io_open(&io, &options, fx->sources, &err), 0);
  int fd = open_out(fx);
  assert_int_equal(copy_all(io, fd, 300000, &err), 0);
  expect_copy(fx);
  io_close(io);
  close(fd);
}

// An engine of rings of which there is one only.
static struct io_engine scarce;
static uint32_t rings_left, rings_refused;

static int open_scarce(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row;
  if (rings_left == 0) {
    rings_refused++;
    return -EMFILE;
  }
  rings_left--;
  return io_uring_engine.open(&io_uring_engine, depth, self);
}

static const struct io_engine *make_scarce(const struct io_engine *engine) {
  if (engine != &io_uring_engine) return engine;
  scarce = *engine;
  scarce.open = open_scarce;
  return &scarce;
}

// `auto` found a ring when it tried, and none is left for the queue: it goes on with sync. Who asked for
// rings is told.
static void a_ring_that_fails_later_is_sync(void **state) {
  struct fixture *fx = *state;
  if (!have_uring()) skip();
  enum io_mode mode = IO_AUTO;
  const char *why;
  struct err err = {0};
  struct io *io;
  io_engine_wrap(make_scarce);
  rings_left = 1;
  rings_refused = 0;
  assert_int_equal(io_choose(&mode, &why, &err), 0);
  assert_null(why);
  assert_string_equal(io_mode_name(mode), "uring");
  io = open_queue(fx, mode, 4, 300000);
  assert_int_equal(rings_refused, 1);
  int fd = open_out(fx);
  assert_int_equal(copy_all(io, fd, 300000, &err), 0);
  expect_copy(fx);
  io_close(io);
  close(fd);
  const struct io_options options = {.mode = IO_URING, .tiles = 4};
  assert_int_equal(io_open(&io, &options, fx->sources, &err), -1);
  assert_int_equal(err.kind, ERR_IO);
  io_engine_wrap(NULL);
}

// One copy with the spec armed; 0 or -1 with *err; *hits: how often it struck.
static int copy_with_fault(const struct fixture *fx, enum io_mode mode, const char *spec,
                           uint32_t *hits, struct err *err) {
  assert_true(io_fault_arm(spec));
  *err = (struct err){0};
  struct io *io = open_queue(fx, mode, 4, 300000);
  int fd = open_out(fx);
  int r = copy_all(io, fd, 300000, err);
  *hits = io_fault_injected();
  io_close(io);
  close(fd);
  io_fault_disarm();
  return r;
}

static void transient_faults_are_repaired(void **state) {
  struct fixture *fx = *state;
  static const char *const specs[] = {
      "write:1:short",  "write:1:persist:short", "write:2:EINTR",
      "write:3:EAGAIN", "write:2:eof",           "read:1:persist:short",
      "read:2:EINTR",   "read:1:EAGAIN",         "write:1:EINTR,write:2:short,read:2:short",
  };
  static const enum io_mode modes[] = {IO_SYNC, IO_URING, IO_LOAD};
  for (size_t k = 0; k < 3 * (sizeof specs / sizeof *specs); k++) {
    if (!usable(modes[k % 3])) continue;
    const char *spec = specs[k / 3];
    uint32_t hits;
    struct err err;
    int r = copy_with_fault(fx, modes[k % 3], spec, &hits, &err);
    if (r < 0) print_error("%s: %s\n", spec, err.msg);
    assert_int_equal(r, 0);
    bool once_read = modes[k % 3] == IO_LOAD && strncmp(spec, "read:2", 6) == 0;
    assert_true(hits > 0 || once_read); // load reads once and for all
    expect_copy(fx);
  }
}

static void lasting_faults_are_reported(void **state) {
  struct fixture *fx = *state;
  static const struct {
    const char *spec;
    enum err_kind kind;
    const char *words;
  } cases[] = {
      {"write:1:ENOSPC", ERR_NOSPACE, "No space left on device"},
      {"write:3:persist:EDQUOT", ERR_NOSPACE, "at offset"},
      {"write:2:EFBIG", ERR_NOSPACE, "File too large"},
      {"write:2:EIO", ERR_IO, "writing"},
      {"write:1:torn", ERR_IO, "writing"},
      {"write:2:persist:EAGAIN", ERR_IO, "writing"},
      {"write:2:persist:eof", ERR_IO, "writing"},
      {"read:1:EIO", ERR_IO, "/x.data': reading at offset 0"},
      {"read:1:torn", ERR_IO, "/x.data': reading"},
      {"read:1:persist:EINTR", ERR_IO, "/x.data': reading"},
      {"read:1:eof", ERR_INPUT, "/x.data' was truncated"},
  };
  for (size_t k = 0; k < 2 * (sizeof cases / sizeof *cases); k++) {
    enum io_mode mode = k % 2 ? IO_URING : IO_SYNC;
    if (!usable(mode)) continue;
    // Mapped windows do not pass the engine's read: a read there comes from io_read, anywhere.
    bool by_read = strncmp(cases[k / 2].spec, "read", 4) == 0;
    uint32_t hits;
    struct err err;
    assert_int_equal(copy_with_fault(fx, mode, cases[k / 2].spec, &hits, &err), -1);
    assert_int_equal(err.kind, cases[k / 2].kind);
    if (!by_read || mode == IO_SYNC) assert_non_null(strstr(err.msg, cases[k / 2].words));
  }
}

// Fail the Nth write, N = 1, 2, 3 … until nothing was failed: an error each time, then equal bytes.
static void every_write_may_fail(void **state) {
  struct fixture *fx = *state;
  for (int k = 0; k < 2; k++) {
    enum io_mode mode = k ? IO_URING : IO_SYNC;
    if (!usable(mode)) continue;
    uint32_t hits = 1;
    int n = 1;
    for (; hits > 0 && n < 1000; n++) {
      char spec[64];
      snprintf(spec, sizeof spec, "write:%d:torn", n);
      struct err err;
      rng = 12345; // the same pieces each time
      int r = copy_with_fault(fx, mode, spec, &hits, &err);
      assert_int_equal(r, hits ? -1 : 0);
    }
    assert_true(n > 10 && n < 1000);
    expect_copy(fx);
  }
}

// After a failure no tile is handed out until it was reported; then the queue serves again.
static void a_failure_is_reported_once(void **state) {
  struct fixture *fx = *state;
  assert_true(io_fault_arm("write:1:ENOSPC"));
  struct io *io = open_queue(fx, IO_SYNC, 2, 4096);
  int fd = open_out(fx);
  struct io_tile *a = io_tile_get(io);
  struct io_tile *b = io_tile_get(io);
  memset(a->buf, 1, 4096);
  memset(b->buf, 2, 4096);
  io_tile_write(io, a, file_of_descriptor(fd), 0, 4096);
  io_tile_write(io, b, file_of_descriptor(fd), 4096, 4096); // not written any more
  assert_null(io_tile_get(io));
  struct err err = {0}, again = {0};
  assert_int_equal(io_drain(io, &err), -1);
  assert_int_equal(err.kind, ERR_NOSPACE);
  assert_int_equal(lseek(fd, 0, SEEK_END), 0);
  assert_int_equal(io_drain(io, &again), 0);
  assert_non_null(io_tile_get(io)); // still taken when the queue closes
  io_close(io);
  close(fd);
}

// ---- rings that stop working ----

// As copy_with_fault, with the same pieces each time; *lost: what the ring was lost by.
static int copy_losing(const struct fixture *fx, enum io_mode mode, const char *spec,
                       uint32_t *hits, int *lost, struct err *err) {
  rng = 12345;
  assert_true(io_fault_arm(spec));
  *err = (struct err){0};
  struct io *io = open_queue(fx, mode, 4, 400001); // not in whole pages
  const int fd = open_out(fx);
  const int r = copy_all(io, fd, 400001, err);
  *hits = io_fault_injected();
  *lost = io_ring_lost(io);
  io_close(io);
  close(fd);
  io_fault_disarm();
  return r;
}

// Whatever call the ring is lost at: `auto` has all bytes, who asked for a ring has an error.
static void a_ring_may_be_lost_at_every_call(void **state) {
  struct fixture *fx = *state;
  if (!have_uring()) skip();
  static const struct {
    const char *op, *name;
    int errnum;
  } ways[] = {{"submit", "EPERM", EPERM},       {"submit", "EIO", EIO},
              {"wait", "ENOSYS", ENOSYS},       {"wait", "EBADF", EBADF},
              {"write", "EINVAL", EINVAL},      {"write", "EOPNOTSUPP", EOPNOTSUPP},
              {"write", "persist:EPERM", EPERM}};
  for (size_t k = 0; k < 2 * (sizeof ways / sizeof *ways); k++) {
    const enum io_mode mode = k % 2 ? IO_URING : IO_RING_OR_SYNC;
    const bool call = strcmp(ways[k / 2].op, "write") != 0;
    uint32_t hits = 1;
    int n = 1;
    for (; hits > 0 && n < 1000; n++) {
      char spec[64];
      snprintf(spec, sizeof spec, "%s:%d:%s", ways[k / 2].op, n, ways[k / 2].name);
      struct err err;
      int lost;
      const int r = copy_losing(fx, mode, spec, &hits, &lost, &err);
      if (strncmp(ways[k / 2].name, "persist", 7) == 0 && mode == IO_RING_OR_SYNC) {
        // Of sync as well: then it is the file's.
        assert_int_equal(r, hits ? -1 : 0);
        continue;
      }
      assert_int_equal(r, hits && mode == IO_URING ? -1 : 0);
      assert_int_equal(lost, hits && (call || mode != IO_URING) ? ways[k / 2].errnum : 0);
      if (r == 0)
        expect_copy(fx);
      else if (call)
        assert_non_null(strstr(err.msg, "io_uring stopped working during the run: "));
      if (r < 0) assert_int_equal(err.kind, ways[k / 2].errnum == EPERM ? ERR_PERMISSION : ERR_IO);
    }
    assert_true(n > 10 && n < 1000);
  }
}

// An engine that makes no write, and is lost at its nth. The kernel may make those at any time.
static struct io_engine dead;
static struct {
  struct io_op ops[64];
  uint32_t n, most;
} held;

static int open_dead(const struct io_engine *row, uint32_t depth, void **self) {
  (void)row, (void)depth;
  *self = &held;
  return 0;
}

static void close_dead(void *self) {
  (void)self;
}

static void start_dead(void *self, struct io_op *op) {
  (void)self;
  assert_true(held.n < held.most);
  held.ops[held.n++] = *op;
}

static struct io_op *reap_dead(void *self, bool wait) {
  (void)self, (void)wait;
  return NULL;
}

static int lost_dead(void *self) {
  (void)self;
  return held.n < held.most ? 0 : -EIO;
}

static const struct io_engine *make_dead(const struct io_engine *engine) {
  if (engine != &io_uring_engine) return engine;
  dead = *engine;
  dead.open = open_dead;
  dead.close = close_dead;
  dead.start = start_dead;
  dead.reap = reap_dead;
  dead.lost = lost_dead;
  return &dead;
}

// Makes the writes that the lost ring had. How many could be made.
static uint32_t strike(int fd) {
  uint32_t made = 0;
  for (uint32_t i = 0; i < held.n; i++) {
    const ssize_t r = pwrite(fd, held.ops[i].at, held.ops[i].n, (off_t)held.ops[i].off);
    if (r < 0) assert_int_equal(errno, EFAULT);
    made += r > 0;
  }
  return made;
}

static void a_lost_ring_writes_late(void **state) {
  struct fixture *fx = *state;
  io_engine_wrap(make_dead);
  for (uint32_t most = 1; most <= 4; most++) {
    held.n = 0;
    held.most = most;
    struct err err = {0};
    struct io *io = open_queue(fx, IO_RING_OR_SYNC, 5, 100001);
    const int fd = open_out(fx);
    // One tile stays the caller's while the ring goes: it keeps its place.
    struct io_tile *kept = io_tile_get(io);
    uint8_t *place = kept->buf;
    memset(place, 0x77, 100001);
    assert_int_equal(copy_all(io, fd, 100001, &err), 0);
    assert_int_equal(io_ring_lost(io), EIO);
    assert_int_equal(held.n, most);
    assert_ptr_equal(kept->buf, place);
    for (size_t i = 0; i < 100001; i++)
      assert_int_equal(place[i], 0x77);
    io_tile_drop(io, kept);
    expect_copy(fx);
    assert_int_equal(strike(fd), 0); // nothing of them is left to be written
    expect_copy(fx);
    io_close(io);
    // Nor is anything of somebody else's, who asks for memory now.
    void *maps[8];
    for (int i = 0; i < 8; i++) {
      maps[i] = mmap(NULL, 100001, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      assert_true(maps[i] != MAP_FAILED);
      memset(maps[i], 0x11, 100001);
    }
    assert_int_equal(strike(fd), 0);
    expect_copy(fx);
    // But bytes that are there would have been written.
    held.ops[0].at = maps[0];
    held.n = 1;
    assert_int_equal(strike(fd), 1);
    for (int i = 0; i < 8; i++)
      munmap(maps[i], 100001);
    close(fd);
  }
  io_engine_wrap(NULL);
}

// The system itself refuses io_uring_enter from the nth piece on, as a filter of system calls does that
// comes late. In a child, because a filter stays. To /dev/null, which takes writes through the ring on every
// machine. The child says what its ring was lost by.
enum { NO_FILTER = 253, FAILED = 254 };
static int copy_under_filter(const struct fixture *fx, enum io_mode mode, int nth) {
  const pid_t child = fork();
  if (child != 0) {
    const int status = status_of(child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
  }
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {.len = 4, .filter = filter};
  struct err err = {0};
  struct io *io = open_queue(fx, mode, 4, 1 << 16);
  const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  uint64_t off = 0;
  for (int i = 0; i < 16; i++, off += 1 << 16) {
    struct io_tile *t = io_tile_get(io);
    if (!t) break;
    if (io_tile_view(io, t, DATA, off, 1 << 16, &err) < 0) _exit(FAILED);
    if (i == nth && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
                     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0))
      _exit(NO_FILTER);
    io_tile_write(io, t, file_of_descriptor(fd), off, 1 << 16);
  }
  const int r = io_drain(io, &err), lost = io_ring_lost(io);
  io_close(io);
  if (r < 0 && !strstr(err.msg, "io_uring stopped working during the run: ")) _exit(FAILED);
  _exit((r == 0) == (lost == 0 || mode == IO_RING_OR_SYNC) ? lost : FAILED);
}

static void a_filter_of_calls_takes_the_ring(void **state) {
  struct fixture *fx = *state;
  if (!have_uring()) skip();
  static const enum io_mode modes[] = {IO_RING_OR_SYNC, IO_URING};
  for (int m = 0; m < 2; m++) {
    assert_int_equal(copy_under_filter(fx, modes[m], 16), 0); // never
    for (int nth = 0; nth < 16; nth++) {
      const int lost = copy_under_filter(fx, modes[m], nth);
      if (lost == NO_FILTER) skip();
      assert_int_equal(lost, EPERM);
    }
  }
}

// What the system could not read of a mapped source is the source's fault, not the output's.
static void a_page_that_cannot_be_read(void **state) {
  struct fixture *fx = *state;
  if (!usable(IO_URING)) skip();
  struct err err = {0};
  assert_true(io_fault_arm("write:1:EFAULT"));
  struct io *io = open_queue(fx, IO_URING, 2, 1 << 16);
  const int fd = open_out(fx);
  struct io_tile *tile = io_tile_get(io);
  assert_int_equal(io_tile_view(io, tile, DATA, 100, 5000, &err), 0);
  io_tile_write(io, tile, file_of_descriptor(fd), 0, 5000);
  assert_int_equal(io_drain(io, &err), -1);
  assert_int_equal(err.kind, ERR_IO);
  assert_non_null(strstr(err.msg, "/x.data': the system could not read 5000 bytes at offset 100"));
  io_close(io);
  close(fd);
  io_fault_disarm();
}

static void clone_keeps_to_blocks(void **state) {
  struct fixture *fx = *state;
  assert_int_equal(io_clone_lead(0, 0), 0);
  assert_int_equal(io_clone_lead(4096, 8192), 0);
  assert_int_equal(io_clone_lead(1, 4097), 4095);
  assert_int_equal(io_clone_lead(8191, 4095), 1);
  assert_true(io_clone_lead(1, 2) == UINT64_MAX);
  assert_true(io_fault_arm("clone:1:EOPNOTSUPP,clone:2:EIO"));
  struct io *io = open_queue(fx, IO_SYNC, 1, 4096);
  int fd = open_out(fx);
  assert_int_equal(io_clone(io, DATA, 1, file_of_descriptor(fd), 0, 100000), 0);
  assert_int_equal(io_clone(io, DATA, 4096, file_of_descriptor(fd), 0, 4095), 0);
  assert_int_equal(io_fault_injected(), 0); // neither was worth asking
  assert_int_equal(io_clone(io, DATA, 4096, file_of_descriptor(fd), 0, 100000), 0);
  assert_int_equal(io_clone(io, DATA, 4096, file_of_descriptor(fd), 0, 100000), 0);
  assert_int_equal(io_fault_injected(), 1); // the refusal is remembered
  io_close(io);
  close(fd);
}

// For real where the file system can (TMPDIR on XFS or Btrfs); skipped elsewhere.
static void clone_shares_bytes(void **state) {
  struct fixture *fx = *state;
  struct io *io = open_queue(fx, IO_SYNC, 1, 4096);
  int fd = open_out(fx);
  uint64_t lead = io_clone_lead(100, 4196);
  uint64_t n = io_clone(io, DATA, 100 + lead, file_of_descriptor(fd), 4196 + lead, 1000000);
  io_close(io);
  if (n > 0) {
    assert_int_equal(n, 1000000 / 4096 * 4096);
    uint8_t *got = malloc(n);
    assert_int_equal(pread(fd, got, n, (off_t)(4196 + lead)), n);
    assert_int_equal(memcmp(got, fx->bytes + 100 + lead, n), 0);
    free(got);
  }
  close(fd);
  if (n == 0) skip();
}

struct share {
  struct fixture *fx;
  enum io_mode mode;
  int fd;
  uint64_t first, last;
};

static void *copy_share(void *arg) {
  struct share *s = arg;
  struct err err = {0};
  struct io *io = open_queue(s->fx, s->mode, 4, 1 << 16);
  for (uint64_t off = s->first; off < s->last;) {
    size_t n = (size_t)min_u64(50000, s->last - off);
    struct io_tile *t = io_tile_get(io);
    if (!t || io_tile_view(io, t, DATA, off, n, &err) < 0) break;
    io_tile_write(io, t, file_of_descriptor(s->fd), off, n);
    off += n;
  }
  (void)io_drain(io, &err);
  io_close(io);
  return err.kind == ERR_NONE ? NULL : s;
}

static void workers_do_not_meet(void **state) {
  struct fixture *fx = *state;
  enum { N = 4 };
  for (int k = 0; k < 2; k++) {
    enum io_mode mode = k ? IO_URING : IO_SYNC;
    if (!usable(mode)) continue;
    int fd = open_out(fx);
    struct share shares[N];
    pthread_t threads[N];
    for (uint64_t i = 0; i < N; i++) {
      shares[i] = (struct share){.fx = fx, .mode = mode, .fd = fd};
      shares[i].first = SOURCE_BYTES * i / N;
      shares[i].last = SOURCE_BYTES * (i + 1) / N;
      assert_int_equal(pthread_create(&threads[i], NULL, copy_share, &shares[i]), 0);
    }
    for (int i = 0; i < N; i++) {
      void *failed;
      pthread_join(threads[i], &failed);
      assert_null(failed);
    }
    close(fd);
    expect_copy(fx);
  }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int test_io(void) {
  const struct CMUnitTest tests[] = {
      CASE(faults_elsewhere_go_to_the_previous_handler), // first: see there
      CASE(copies_are_equal),
      CASE(views_show_the_bytes),
      CASE(ranges_past_the_end_are_refused),
      CASE(truncation_under_a_view),
      CASE(gathers_fragments),
      CASE(truncation_before_use),
      CASE(truncation_under_a_queued_tile),
      CASE(truncation_at_any_moment),
      CASE(more_views_than_windows),
      CASE(windows_keep_to_their_budget),
      CASE(a_ring_that_fails_later_is_sync),
      CASE(transient_faults_are_repaired),
      CASE(lasting_faults_are_reported),
      CASE(every_write_may_fail),
      CASE(a_failure_is_reported_once),
      CASE(a_ring_may_be_lost_at_every_call),
      CASE(a_lost_ring_writes_late),
      CASE(a_filter_of_calls_takes_the_ring),
      CASE(a_page_that_cannot_be_read),
      CASE(clone_keeps_to_blocks),
      CASE(clone_shares_bytes),
      CASE(workers_do_not_meet),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
