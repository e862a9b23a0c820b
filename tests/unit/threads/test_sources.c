// The source files: which names are opened, which are refused and how, who is told of a change, and
// how many descriptors it takes.
#include "stream/io/sources.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

// root/model/m.onnx, root/model/w.bin, root/model/sub/w.bin, root/outside.bin, the current folder
// is root.
struct ground {
  char root[64];
  char before[1024];
  struct sources *s;
  struct err err;
};

static void write_file(const char *path, const char *text) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

static int set_up(void **state) {
  static struct ground p;
  memset(&p, 0, sizeof p);
  const char *base = getenv("TMPDIR");
  snprintf(p.root, sizeof p.root, "%.30s/weir-sources-XXXXXX", base ? base : "/tmp");
  if (!mkdtemp(p.root) || !getcwd(p.before, sizeof p.before) || chdir(p.root)) return -1;
  mkdir("model", 0755);
  mkdir("model/sub", 0755);
  write_file("model/m.onnx", "onnx");
  write_file("model/w.bin", "0123456789");
  write_file("model/sub/w.bin", "abc");
  write_file("outside.bin", "secret");
  *state = &p;
  return 0;
}

static int tear_down(void **state) {
  struct ground *p = *state;
  sources_close(p->s);
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", p->root);
  return chdir(p->before) || system(command);
}

static void open_model(struct ground *p, bool links, bool walk) {
  sources_close(p->s);
  p->err = (struct err){0};
  assert_int_equal(
      sources_open(&p->s, "model/m.onnx", &(struct sources_options){links, walk}, &p->err), 0);
}

static void expect_ok(struct ground *p, const char *location) {
  uint32_t file;
  struct err err = {0};
  if (sources_add(p->s, span_str(location), &file, &err)) fail_msg("'%s': %s", location, err.msg);
}

static void expect_refused(struct ground *p, struct span location, enum err_kind kind,
                           const char *why) {
  uint32_t file;
  struct err err = {0};
  const uint32_t before = sources_count(p->s);
  if (sources_add(p->s, location, &file, &err) == 0)
    fail_msg("'%s' opens", (const char *)location.at);
  if (err.kind != kind || !strstr(err.msg, why)) fail_msg("kind %d: %s", err.kind, err.msg);
  assert_int_equal(sources_count(p->s), before);
}

static void test_opens_files_beneath(void **state) {
  struct ground *p = *state;
  for (int walk = 0; walk < 2; walk++) {
    open_model(p, false, walk);
    assert_string_equal(sources_name(p->s, 0), "m.onnx");
    assert_string_equal(sources_folder(p->s), "model");
    assert_int_equal(sources_size(p->s, 0), 4);
    uint32_t a, b, c;
    assert_int_equal(sources_add(p->s, span_str("w.bin"), &a, &p->err), 0);
    assert_int_equal(sources_add(p->s, span_str("sub/w.bin"), &b, &p->err), 0);
    assert_int_equal(sources_add(p->s, span_str("w.bin"), &c, &p->err), 0);
    assert_true(a == 1 && b == 2 && c == a);
    assert_string_equal(sources_name(p->s, b), "sub/w.bin");
    char text[4] = {0};
    assert_int_equal(sources_read(p->s, a, 7, text, 3, &p->err), 0);
    assert_string_equal(text, "789");
    const struct fingerprint print = sources_fingerprint(p->s, b);
    assert_int_equal(print.size, 3);
    assert_int_equal(sources_find_inode(p->s, print.dev, print.ino), b);
    assert_int_equal(sources_find_inode(p->s, print.dev, print.ino + 1000000), NO_ID);
    expect_ok(p, "./w.bin");
    expect_ok(p, "sub/../w.bin");
    expect_ok(p, "sub/../sub//w.bin");
    expect_ok(p, "m.onnx");
    write_file("model/a..b", "x");
    write_file("model/ trailing ", "x");
    write_file("model/\xff\xfe", "x");
    write_file("model/#inline", "x");
    expect_ok(p, "a..b");
    expect_ok(p, " trailing ");
    expect_ok(p, "\xff\xfe");
    expect_ok(p, "#inline");
  }
}

static void test_refuses_names(void **state) {
  struct ground *p = *state;
  char deep[SOURCES_MAX_LOCATION + 2], part[300];
  memset(deep, 'x', sizeof deep);
  for (size_t i = 200; i < sizeof deep; i += 200)
    deep[i] = '/';
  memset(part, 'y', sizeof part);
  static const struct {
    const char *location, *why;
  } rows[] = {
      {"", "is empty"},
      {"../outside.bin", "leaves the model's folder"},
      {"sub/../../outside.bin", "leaves the model's folder"},
      {"a/../../model/w.bin", "leaves the model's folder"},
      {"..", "leaves the model's folder"},
      {"/etc/hostname", "is absolute"},
      {"//etc/hostname", "is absolute"},
      {"C:\\w.bin", "backslash"},
      {"c:w.bin", "drive letter"},
      {"sub\\..\\w.bin", "backslash"},
      {".", "names a folder"},
      {"sub/..", "names a folder"},
      {"w.bin/", "names a folder"},
  };
  for (int walk = 0; walk < 2; walk++) {
    open_model(p, false, walk);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
      expect_refused(p, span_str(rows[i].location), ERR_MODEL, rows[i].why);
    expect_refused(p, span_str("sub"), ERR_INPUT, "not a regular file");
    expect_refused(p, span_of("w\0.bin", 6), ERR_MODEL, "NUL");
    expect_refused(p, span_of(deep, SOURCES_MAX_LOCATION + 1), ERR_MODEL, "longer than 4096");
    expect_refused(p, span_of(part, sizeof part), ERR_MODEL, "cannot be opened");
    expect_refused(p, span_str("absent.bin"), ERR_INPUT, "is missing");
    expect_refused(p, span_str("sub/absent.bin"), ERR_INPUT, "is missing");
  }
}

static void test_refuses_what_is_no_plain_file(void **state) {
  struct ground *p = *state;
  assert_int_equal(mkfifo("model/fifo", 0600), 0);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  strcpy(at.sun_path, "model/socket");
  assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
  for (int walk = 0; walk < 2; walk++) {
    open_model(p, false, walk);
    expect_refused(p, span_str("fifo"), ERR_INPUT, "not a regular file"); // and does not hang
    expect_refused(p, span_str("socket"), ERR_MODEL, "cannot be opened");
  }
  close(fd);
}

// Those that stay in the folder say nothing that a name could not; others, and second names, need a
// word.
static void test_links_that_lead_out_need_a_word(void **state) {
  struct ground *p = *state;
  char outside[4200];
  assert_non_null(getcwd(outside, 4096));
  strcat(outside, "/model/w.bin");
  assert_int_equal(symlink("w.bin", "model/inside"), 0);
  assert_int_equal(symlink("sub", "model/folder"), 0);
  assert_int_equal(symlink("../outside.bin", "model/outside"), 0);
  assert_int_equal(symlink(outside, "model/absolute"), 0);
  assert_int_equal(symlink("nowhere", "model/dangling"), 0);
  assert_int_equal(symlink("loop", "model/loop"), 0);
  assert_int_equal(symlink("..", "model/up"), 0);
  assert_int_equal(link("model/w.bin", "model/hard"), 0);
  for (int walk = 0; walk < 2; walk++) {
    open_model(p, false, walk);
    static const char *const out[] = {"outside", "absolute", "up/outside.bin"};
    for (size_t i = 0; i < sizeof out / sizeof out[0]; i++) {
      struct err err = {0};
      uint32_t file;
      assert_int_equal(sources_add(p->s, span_str(out[i]), &file, &err), -1);
      assert_int_equal(err.kind, ERR_PERMISSION);
      if (!strstr(err.msg, "symbolic link")) fail_msg("%s: %s", out[i], err.msg);
      assert_int_equal(err.reason, REASON_LINK);
    }
    expect_refused(p, span_str("dangling"), ERR_INPUT, "is missing");
    expect_refused(p, span_str("loop"), ERR_INPUT, "too many symbolic links");
    expect_refused(p, span_str("hard"), ERR_PERMISSION, "hard link");
    expect_refused(p, span_str("inside"), ERR_PERMISSION, "hard link"); // it leads to the same
  }
  assert_int_equal(unlink("model/hard"), 0);
  for (int walk = 0; walk < 2; walk++) {
    open_model(p, false, walk);
    expect_ok(p, "inside");
    expect_ok(p, "folder/w.bin");
  }
}

static void test_allowed_links(void **state) {
  struct ground *p = *state;
  assert_int_equal(symlink("w.bin", "model/inside"), 0);
  assert_int_equal(symlink("../outside.bin", "model/outside"), 0);
  assert_int_equal(symlink("nowhere", "model/dangling"), 0);
  assert_int_equal(symlink("loop", "model/loop"), 0);
  assert_int_equal(symlink("..", "model/up"), 0);
  assert_int_equal(symlink("/dev/zero", "model/zero"), 0);
  assert_int_equal(symlink("..", "model/folder-out"), 0);
  assert_int_equal(link("model/w.bin", "model/hard"), 0);
  for (int walk = 0; walk < 2; walk++) {
    open_model(p, true, walk);
    expect_ok(p, "inside");
    expect_ok(p, "outside");
    expect_ok(p, "hard");
    expect_refused(p, span_str("dangling"), ERR_INPUT, "is missing");
    expect_refused(p, span_str("loop"), ERR_INPUT, "too many symbolic links");
    expect_refused(p, span_str("zero"), ERR_INPUT, "not a regular file");
    expect_refused(p, span_str("../outside.bin"), ERR_MODEL, "leaves"); // names still may not
    expect_refused(p, span_str("up/outside.bin"), ERR_PERMISSION, "");  // nor folders lead out
  }
}

// A link to a folder is followed as long as it stays inside, with openat2 and without.
static void test_links_to_folders(void **state) {
  struct ground *p = *state;
  char chain[16], to[16];
  assert_int_equal(mkdir("model/deep", 0755) | mkdir("model/deep/er", 0755), 0);
  write_file("model/deep/er/x", "data");
  assert_int_equal(symlink("deep/er", "model/short"), 0);
  assert_int_equal(symlink("../short/x", "model/deep/back"), 0);
  assert_int_equal(symlink("./short/../..", "model/round"), 0); // the folder itself
  assert_int_equal(symlink("../../../model/deep", "model/deep/er/out-and-in"), 0);
  assert_int_equal(symlink("ring", "model/ring"), 0);
  for (int i = 0; i < 50; i++) { // more links than anybody follows
    snprintf(chain, sizeof chain, "model/c%d", i);
    snprintf(to, sizeof to, i ? "c%d" : "deep", i - 1);
    assert_int_equal(symlink(to, chain), 0);
  }
  for (int walk = 0; walk < 4; walk++) { // with all links allowed, and without
    open_model(p, walk % 2, walk / 2);
    expect_ok(p, "short/x");
    expect_ok(p, "deep/back");
    expect_ok(p, "round/deep/er/x");
    expect_ok(p, "c9/er/x");
    expect_refused(p, span_str("short/absent"), ERR_INPUT, "is missing");
    expect_refused(p, span_str("short/out-and-in/er/x"), ERR_PERMISSION,
                   "outside the model's folder");
    expect_refused(p, span_str("ring/x"), ERR_INPUT, "");
    expect_refused(p, span_str("c49/er/x"), ERR_INPUT, "");
    expect_refused(p, span_str("short"), ERR_INPUT, "not a regular file");
  }
}

static void expect_data(struct ground *p, const char *location) {
  char text[5] = {0};
  uint32_t file;
  assert_int_equal(sources_add(p->s, span_str(location), &file, &p->err), 0);
  assert_int_equal(sources_read(p->s, file, 0, text, 4, &p->err), 0);
  assert_string_equal(text, "data");
  assert_int_equal(sources_unchanged(p->s, &p->err), 0);
}

static void open_at(struct ground *p, const char *path, bool walk) {
  sources_close(p->s);
  p->err = (struct err){0};
  const struct sources_options how = {.walk = walk};
  if (sources_open(&p->s, path, &how, &p->err)) fail_msg("%s", p->err.msg);
}

// hub/snapshots/rev/model.onnx -> ../../blobs/1, with its data beside it in the same way.
static void test_cache_layout(void **state) {
  struct ground *p = *state;
  static const char *const folders[] = {
      "blobs",         "blobs/in",          "other", "other/blobs", "snapshots",
      "snapshots/rev", "snapshots/rev/onnx"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    assert_int_equal(mkdir(folders[i], 0755), 0);
  write_file("blobs/1", "onnx");
  write_file("blobs/2", "data");
  write_file("blobs/in/2", "data");
  write_file("other/blobs/2", "data");
  write_file("outside.bin", "data");
  static const struct {
    const char *to, *at;
  } links[] = {
      {"../../blobs/1", "snapshots/rev/m.onnx"},
      {"../../blobs/2", "snapshots/rev/m.onnx_data"},
      {"../../../blobs/1", "snapshots/rev/onnx/m.onnx"},
      {"../../../blobs/2", "snapshots/rev/onnx/d"},
      {"../../blobs/in/2", "snapshots/rev/deeper"},
      {"../../other/blobs/2", "snapshots/rev/other"},
      {"../../outside.bin", "snapshots/rev/outside"},
      {"../../blobs/../outside.bin", "snapshots/rev/dots"},
      {"../../blobs/link", "snapshots/rev/twice"},
      {"../outside.bin", "blobs/link"},
      {"../../blobs/..", "snapshots/rev/folder"},
      {"../../blobs", "snapshots/rev/blobs"},
      {"../../blobs/absent", "snapshots/rev/absent"},
      {"../../outside.bin", "snapshots/rev/plain.onnx"},
  };
  for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
    assert_int_equal(symlink(links[i].to, links[i].at), 0);
  static const char *const refused[] = {"deeper", "other",  "outside", "dots",
                                        "twice",  "folder", "blobs/2", "onnx/../outside"};
  for (int walk = 0; walk < 2; walk++) {
    open_at(p, "snapshots/rev/m.onnx", walk);
    expect_data(p, "m.onnx_data");
    expect_data(p, "onnx/d"); // the link lies in a folder within the model's
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
      expect_refused(p, span_str(refused[i]), ERR_PERMISSION, "symbolic link");
    expect_refused(p, span_str("absent"), ERR_INPUT, "is missing");
    open_at(p, "snapshots/rev/onnx/m.onnx", walk);
    expect_data(p, "d");
    // The user's own link is followed to any place, but only one into `blobs` speaks for others.
    open_at(p, "snapshots/rev/plain.onnx", walk);
    expect_refused(p, span_str("m.onnx_data"), ERR_PERMISSION, "symbolic link");
    expect_refused(p, span_str("outside"), ERR_PERMISSION, "symbolic link");
    expect_refused(p, span_str("nothing"), ERR_INPUT, "is missing");
  }
}

static void test_the_onnx_must_be_a_file(void **state) {
  struct ground *p = *state;
  static const char *const paths[] = {"model", "model/", "absent/m.onnx", "model/absent.onnx",
                                      "model/sub"};
  for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
    struct err err = {0};
    assert_int_equal(sources_open(&p->s, paths[i], NULL, &err), -1);
    assert_int_equal(err.kind, ERR_INPUT);
    assert_null(p->s);
  }
  assert_int_equal(chdir("model"), 0);
  assert_int_equal(sources_open(&p->s, "m.onnx", NULL, &p->err), 0);
  assert_string_equal(sources_folder(p->s), ".");
  expect_ok(p, "w.bin");
}

static void expect_changed(struct ground *p, const char *why) {
  struct err err = {0};
  assert_int_equal(sources_unchanged(p->s, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  if (!strstr(err.msg, why)) fail_msg("%s", err.msg);
}

static void test_sees_changes(void **state) {
  struct ground *p = *state;
  open_model(p, false, false);
  expect_ok(p, "w.bin");
  assert_int_equal(sources_unchanged(p->s, &p->err), 0);
  struct timeval times[2] = {{1, 0}, {1, 0}};
  assert_int_equal(utimes("model/w.bin", times), 0); // same size, other times
  expect_changed(p, "it was written to");
  open_model(p, false, false);
  expect_ok(p, "w.bin");
  write_file("model/new", "0123456789");
  assert_int_equal(rename("model/new", "model/w.bin"), 0);
  expect_changed(p, "it was replaced by another file");
  open_model(p, false, false);
  expect_ok(p, "w.bin");
  assert_int_equal(truncate("model/w.bin", 4), 0);
  expect_changed(p, "it had 10 bytes and now has 4");
  char text[10];
  struct err err = {0};
  assert_int_equal(sources_read(p->s, 1, 0, text, 4, &err), 0);
  assert_int_equal(sources_read(p->s, 1, 0, text, 10, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  assert_non_null(strstr(err.msg, "ends at byte 4"));
  assert_int_equal(unlink("model/w.bin"), 0);
  expect_changed(p, "changed");
}

static uint32_t open_descriptors(void) {
  uint32_t n = 0;
  for (int fd = 0; fd < 1024; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

// Many more files than descriptors: all stay readable, in any order, and a changed one is noticed
// when it is opened again.
static void test_bounds_descriptors(void **state) {
  struct ground *p = *state;
  enum { FILES = SOURCES_MAX_OPEN * 3 };
  open_model(p, false, false);
  for (uint32_t i = 0; i < FILES; i++) {
    char path[32], text[16];
    snprintf(path, sizeof path, "model/f%u", i);
    snprintf(text, sizeof text, "%08u", i);
    write_file(path, text);
    expect_ok(p, path + 6);
  }
  assert_int_equal(sources_count(p->s), FILES + 1);
  assert_true(open_descriptors() <= SOURCES_MAX_OPEN + 10);
  struct file pinned;
  assert_int_equal(sources_fd(p->s, 1, &pinned, &p->err), 0);
  for (uint32_t i = 0; i < FILES; i++) {
    const uint32_t k = i * 7919 % FILES;
    char text[16] = {0}, want[16];
    snprintf(want, sizeof want, "%08u", k);
    assert_int_equal(sources_read(p->s, k + 1, 0, text, 8, &p->err), 0);
    assert_string_equal(text, want);
  }
  assert_true(open_descriptors() <= SOURCES_MAX_OPEN + 10);
  assert_true(sources_looks(p->s) <= 2 * FILES); // one for each that was opened, at most
  char text[9] = {0};
  assert_int_equal(file_read_at(pinned, text, 8, 0), 8); // was never closed under us
  assert_string_equal(text, "00000000");
  sources_release_fd(p->s, 1);
  // File 2 has long been closed: the last SOURCES_MAX_OPEN reads were of others.
  for (uint32_t i = 300; i < 300 + SOURCES_MAX_OPEN; i++)
    assert_int_equal(sources_read(p->s, i, 0, text, 8, &p->err), 0);
  write_file("model/f1", "changed!");
  assert_int_equal(sources_read(p->s, 2, 0, text, 8, &p->err), -1);
  assert_int_equal(p->err.kind, ERR_INPUT);
}

enum { THREADS = 4, SHARED_FILES = SOURCES_MAX_OPEN + 40 };

struct reader {
  struct sources *s;
  uint32_t seed, wrong;
};

static void *read_many(void *arg) {
  struct reader *r = arg;
  for (uint32_t i = 0; i < 2000; i++) {
    const uint32_t k = (i * 7919 + r->seed * 31) % SHARED_FILES;
    char text[9] = {0}, want[16];
    struct err err = {0};
    snprintf(want, sizeof want, "%08u", k);
    if (sources_read(r->s, k + 1, 0, text, 8, &err) || strcmp(text, want) != 0) r->wrong++;
  }
  return NULL;
}

// Threads that evict each other's descriptors all the time.
static void test_threads_share_descriptors(void **state) {
  struct ground *p = *state;
  open_model(p, false, false);
  for (uint32_t i = 0; i < SHARED_FILES; i++) {
    char path[32], text[16];
    snprintf(path, sizeof path, "model/f%u", i);
    snprintf(text, sizeof text, "%08u", i);
    write_file(path, text);
    expect_ok(p, path + 6);
  }
  pthread_t threads[THREADS];
  struct reader readers[THREADS];
  for (uint32_t i = 0; i < THREADS; i++) {
    readers[i] = (struct reader){p->s, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, read_many, &readers[i]), 0);
  }
  for (uint32_t i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(readers[i].wrong, 0);
  }
  assert_int_equal(sources_unchanged(p->s, &p->err), 0);
}

static void test_names_without_files(void **state) {
  struct ground *p = *state;
  open_model(p, false, false);
  uint32_t a, b;
  assert_int_equal(sources_add_name(p->s, span_str("absent"), &a, &p->err), 0);
  assert_int_equal(sources_add_name(p->s, span_str("absent"), &b, &p->err), 0);
  assert_true(a == 1 && b == 1 && sources_size(p->s, a) == 0);
  assert_int_equal(sources_add_name(p->s, span_str("../up"), &b, &p->err), -1);
  struct err why;
  assert_false(sources_why_absent(p->s, a, &why));
  sources_absent_because(p->s, a, &p->err);
  assert_true(sources_why_absent(p->s, a, &why) && why.kind == p->err.kind);
  assert_string_equal(why.msg, p->err.msg);
  p->err = (struct err){0};
  assert_int_equal(sources_unchanged(p->s, &p->err), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int test_sources(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_opens_files_beneath),
      TEST(test_refuses_names),
      TEST(test_refuses_what_is_no_plain_file),
      TEST(test_links_that_lead_out_need_a_word),
      TEST(test_allowed_links),
      TEST(test_links_to_folders),
      TEST(test_cache_layout),
      TEST(test_the_onnx_must_be_a_file),
      TEST(test_sees_changes),
      TEST(test_bounds_descriptors),
      TEST(test_threads_share_descriptors),
      TEST(test_names_without_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
