// What a reader leaves in the page cache. What it asks the system to drop is seen in the calls of
// posix_fadvise(), which go through this program; that it is then gone, by mincore() on a file of
// our own. That pages stay is no promise of any system: one short of memory takes back what it
// likes.
#include "stream/io/io_wake.h"

#include "base/span.h"
#include "platform/inside/variant.h"
#include "platform/machine.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// clang-format off: cmocka wants setjmp.h and stdarg.h before it.
#include <cmocka.h>
// clang-format on

enum { PIECE = 1 << 20, PIECES = 24, PAGE = 4096 };

// Bytes that were let go of since `start_watching`, in one piece from 0: [0, end).
static struct {
  bool on, gaps;
  uint64_t calls, end;
} dropped;

static void start_watching(void) {
  dropped.on = true, dropped.gaps = false;
  dropped.calls = dropped.end = 0;
}

// Takes the place of the C library's.
int posix_fadvise(int fd, off_t off, off_t n, int advice) {
  if (dropped.on && advice == POSIX_FADV_DONTNEED) {
    dropped.gaps |= (uint64_t)off != dropped.end;
    dropped.calls++;
    dropped.end = (uint64_t)off + (uint64_t)n;
  }
  return syscall(SYS_fadvise64, fd, off, n, advice) == 0 ? 0 : errno;
}

struct fixture {
  char path[4096];
  struct sources *sources;
  bool forgets; // the file system lets go of pages when it is told to
};

static uint64_t cached_pages(const struct fixture *fx, uint64_t off, size_t n) {
  unsigned char in[PIECE / PAGE];
  assert_true(n <= PIECE);
  const int fd = open(fx->path, O_RDONLY | O_CLOEXEC);
  assert_true(fd >= 0);
  void *at = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, (off_t)off);
  assert_ptr_not_equal(at, MAP_FAILED);
  assert_int_equal(mincore(at, n, in), 0);
  munmap(at, n);
  close(fd);
  uint64_t cached = 0;
  for (size_t i = 0; i < n / PAGE; i++)
    cached += in[i] & 1;
  return cached;
}

static void read_piece(const struct fixture *fx, uint64_t i, uint8_t *buf) {
  struct err err = {0};
  assert_int_equal(sources_read(fx->sources, 0, i * PIECE, buf, PIECE, &err), 0);
}

static int setup(void **state) {
  struct fixture *fx = calloc(1, sizeof *fx);
  assert_non_null(fx);
  const char *tmp = getenv("TMPDIR");
  snprintf(fx->path, sizeof fx->path, "%s/weir-wake-XXXXXX", tmp ? tmp : "/var/tmp");
  const int fd = mkstemp(fx->path);
  assert_true(fd >= 0);
  uint8_t *piece = calloc(1, PIECE);
  assert_non_null(piece);
  for (uint32_t i = 0; i < PIECES; i++)
    assert_int_equal(write(fd, piece, PIECE), PIECE);
  assert_int_equal(fsync(fd), 0); // dirty pages are not dropped
  assert_int_equal(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  close(fd);
  free(piece);
  fx->forgets = cached_pages(fx, 0, PIECE) == 0;
  struct err err = {0};
  assert_int_equal(sources_open(&fx->sources, fx->path, &(struct sources_options){0}, &err), 0);
  *state = fx;
  return 0;
}

static int teardown(void **state) {
  struct fixture *fx = *state;
  sources_close(fx->sources);
  unlink(fx->path);
  free(fx);
  return 0;
}

// Reads the whole file; returns how many bytes of it the wake held in the end.
static uint64_t read_all(const struct fixture *fx, uint64_t most) {
  struct io_wake w = {.most = most};
  uint8_t *buf = malloc(PIECE);
  assert_non_null(buf);
  start_watching();
  for (uint64_t i = 0; i < PIECES; i++) {
    read_piece(fx, i, buf);
    io_wake_add(&w, fx->sources, 0, i * PIECE, PIECE);
  }
  const uint64_t held = w.held;
  io_wake_close(&w);
  dropped.on = false;
  free(buf);
  return held;
}

static void drops_what_lies_far_behind(void **state) {
  const struct fixture *fx = *state;
  const uint64_t most = 4 * PIECE;
  const uint64_t held = read_all(fx, most);
  assert_in_range(held, PIECE, most);
  assert_false(dropped.gaps);
  assert_int_equal(dropped.end, PIECES * (uint64_t)PIECE - held);
  if (!fx->forgets) return;
  uint64_t left = 0; // a page somebody holds at that moment is not dropped
  for (uint64_t off = 0; off < dropped.end; off += PIECE)
    left += cached_pages(fx, off, PIECE);
  assert_in_range(left, 0, dropped.end / PAGE / 8);
}

static void leaves_all_where_all_may_stay(void **state) {
  assert_int_equal(read_all(*state, UINT64_MAX), 0);
  assert_int_equal(dropped.calls, 0);
}

// More ranges than the ring has, none of which follows another.
static void ring_goes_round(void **state) {
  const struct fixture *fx = *state;
  struct io_wake w = {.most = UINT64_MAX - 1};
  for (uint64_t i = 0; i < 3 * IO_WAKE_RANGES + 7; i++) {
    io_wake_add(&w, fx->sources, 0, i % 2 ? 0 : 2 * PAGE, PAGE);
    assert_in_range(w.count, 1, IO_WAKE_RANGES);
    assert_int_equal(w.held, w.count * (uint64_t)PAGE);
  }
  io_wake_close(&w);
}

static void how_much_may_stay(void **state) {
  (void)state;
  const uint64_t gib = 1 << 30;
  assert_true(io_wake_most(4 * gib, 8 * gib, 2) == UINT64_MAX);
  assert_true(io_wake_most(4 * gib + 1, 8 * gib, 2) == gib / 4);
  assert_true(io_wake_most(100 * gib, 8 * gib, 0) == gib / 2);
  assert_true(io_wake_most(100 * gib, 0, 2) == UINT64_MAX);
}

static void memory_of_this_machine(void **state) {
  (void)state;
  const uint64_t physical = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
  assert_in_range(machine_memory(), 1 << 20, physical);
}

// A file below the fixture's folder, with the folders it lies in.
static void put_file(const char *root, const char *name, const char *text) {
  char path[4096];
  snprintf(path, sizeof path, "%s%s", root, name);
  for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); *at++ = '/') {
    *at = 0;
    if (mkdir(path, 0700) != 0) assert_int_equal(errno, EEXIST);
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *where) {
  (void)st, (void)kind, (void)where;
  return remove(path);
}

static void limits_of_groups(void **state) {
  (void)state;
  const char *tmp = getenv("TMPDIR");
  char root[4096];
  snprintf(root, sizeof root, "%s/weir-group-XXXXXX", tmp ? tmp : "/var/tmp");
  assert_non_null(mkdtemp(root));
  assert_true(variant_group_limit(root) == UINT64_MAX); // no cgroups at all
  put_file(root, "/proc/self/cgroup", "4:memory:/jobs/7\n1:cpu:/tight\n0::/a/b\n");
  put_file(root, "/sys/fs/cgroup/tight/memory.max", "1\n"); // not ours
  put_file(root, "/sys/fs/cgroup/a/b/memory.max", "max\n");
  assert_true(variant_group_limit(root) == UINT64_MAX);
  put_file(root, "/sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "700\n");
  assert_int_equal(variant_group_limit(root), 700); // version 1
  put_file(root, "/sys/fs/cgroup/a/memory.max", "600\n");
  assert_int_equal(variant_group_limit(root), 600); // the group above
  put_file(root, "/sys/fs/cgroup/memory.max", "500\n");
  assert_int_equal(variant_group_limit(root), 500); // and the root, as a container sees it
  assert_int_equal(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

int test_io_wake(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(drops_what_lies_far_behind, setup, teardown),
      cmocka_unit_test_setup_teardown(leaves_all_where_all_may_stay, setup, teardown),
      cmocka_unit_test_setup_teardown(ring_goes_round, setup, teardown),
      cmocka_unit_test(how_much_may_stay),
      cmocka_unit_test(memory_of_this_machine),
      cmocka_unit_test(limits_of_groups),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
