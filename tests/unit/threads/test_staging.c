// The staging folder: what is made, taken over, refused, emptied, removed.
#include "platform/descriptor.h"
#include "fs_fault.h"
#include "stream/staging/inside/records.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"
#include "toy_fixture.h"

#include <dlfcn.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static const struct figure_sums none;

struct opened {
  struct toy_job job;
  struct staging st;
  enum staging_resume how;
  char note[600];
  struct err err;
};

static int open_it(struct opened *o, bool resume) {
  const struct toy_shape shape = toy_shape(&toy);
  const struct staging_options options = toy_staging(&toy, resume);
  memset(&o->err, 0, sizeof o->err);
  toy_begin(&o->job, &shape);
  return staging_open(&o->st, &o->job.plan, o->job.sources, &options, &o->how, o->note,
                      sizeof o->note, &o->err);
}

static void end_it(struct opened *o) {
  staging_close(&o->st);
  toy_end(&o->job);
}

static void record(struct opened *o, uint32_t unit, uint8_t fill) {
  uint8_t digest[DIGEST_BYTES];
  memset(digest, fill, sizeof digest);
  assert_int_equal(staging_record(&o->st, unit, digest, &none, &o->err), 0);
}

static char *folder_of(const struct opened *o) {
  static char path[400];
  snprintf(path, sizeof path, "%s/%s", toy.dest, o->st.name);
  return path;
}

// ---- names ----

static void test_names(void **state) {
  (void)state;
  char name[STAGING_NAME_MAX], out[260];
  uint8_t id[DIGEST_BYTES];
  memset(id, 0xa5, sizeof id);
  staging_name(name, "x.onnx", id);
  assert_string_equal(name, ".x.onnx.a5a5a5a5a5a5a5a5.weir");
  assert_true(staging_name_is(name, "x.onnx"));
  assert_true(staging_name_is(".x.onnx.a5a5a5a5a5a5a5a5.done.weir", "x.onnx"));
  assert_false(staging_name_is(name, "y.onnx"));
  assert_false(staging_name_is(name, "x.onn"));
  assert_false(staging_name_is(".x.onnx.a5a5a5a5a5a5a5.weir", NULL));
  assert_false(staging_name_is("x.onnx.a5a5a5a5a5a5a5a5.weir", NULL));
  assert_false(staging_name_is(".weir", NULL));
  assert_false(staging_name_is(".a5a5a5a5a5a5a5a5.weir", NULL));
  memset(out, 'n', 255);
  out[255] = '\0';
  staging_name(name, out, id);
  assert_true(strlen(name) <= 255 - strlen(".done"));
  assert_true(staging_name_is(name, out));
}

// ---- fresh and resumed ----

static void test_fresh(void **state) {
  (void)state;
  struct opened o;
  const mode_t before = umask(027);
  assert_int_equal(open_it(&o, false), 0);
  umask(before);
  assert_int_equal(o.how, STAGING_FRESH);
  assert_string_equal(o.note, "");
  static const char *const files[] = {"plan.json", "plan.bin", "header.json",
                                      "lock",      "x.onnx",   "x.onnx.data"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    assert_true(toy_exists(folder_of(&o), files[i]));
  struct stat at;
  assert_int_equal(fstatat(folder_descriptor(o.st.folder), "x.onnx.data", &at, 0), 0);
  assert_int_equal(at.st_mode & 0777, 0640); // what the umask gives
  assert_int_equal(at.st_size, o.job.plan.outputs[0].size);
  assert_true((uint64_t)at.st_blocks * 512 >= o.job.plan.outputs[0].size);
  assert_int_equal(fstat(folder_descriptor(o.st.folder), &at), 0);
  assert_int_equal(at.st_mode & 0777, 0750);
  assert_true(staging_folder_bytes(o.st.folder) >= o.job.plan.outputs[0].size);
  assert_int_equal(staging_remove(&o.st, &o.err), 0);
  end_it(&o);
  assert_int_equal(rmdir(toy.dest), 0); // nothing is left
  assert_int_equal(mkdir(toy.dest, 0777), 0);
}

// ---- the end ----

static void test_names_that_stay(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  fs_fault_install("keep:unlinkat:1:persist");
  assert_int_equal(staging_remove(&o.st, &o.err), -1);
  assert_true(fs_fault_calls() < 2000); // it ends
  fs_fault_remove();
  assert_int_equal(o.err.kind, ERR_RETRY);
  assert_non_null(strstr(o.err.msg, "its name stays"));
  end_it(&o);
}

// Who had opened the lock before its holder let go of it finds that it is no lock any more.
static void test_lock_that_is_going_away(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  assert_true(staging_still_there(&o.st));
  assert_int_equal(entry_rename(o.st.folder, "lock", o.st.folder, "lock.tmp"), 0);
  assert_false(staging_still_there(&o.st));
  end_it(&o);
}

static int somebody_came(struct folder in, const char *name) {
  char path[300];
  snprintf(path, sizeof path, "%s/lock", name);
  struct file lock = file_calls_of_system.file_open_to_write(in, path, FILE_MAKE, 0666);
  assert_true(file_is_open(lock));
  file_close(&lock);
  return file_calls_of_system.folder_remove(in, name);
}

static void test_folder_that_is_taken_over(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  struct file_calls calls = file_calls_of_system;
  calls.folder_remove = somebody_came;
  file_calls = &calls;
  assert_int_equal(staging_remove(&o.st, &o.err), 0); // it is theirs now
  file_calls = &file_calls_of_system;
  end_it(&o);
  assert_int_equal(open_it(&o, false), 0);
  assert_int_equal(staging_remove(&o.st, &o.err), 0);
  end_it(&o);
}

static void test_plan_in_folder_reads_back(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  size_t n_json = 0, n_bin = 0;
  uint8_t *json = toy_read(folder_of(&o), "plan.json", &n_json);
  uint8_t *bin = toy_read(folder_of(&o), "plan.bin", &n_bin);
  struct plan back;
  const int bad = plan_file_read(&back, span_of(json, n_json), span_of(bin, n_bin), &o.err);
  if (bad) fail_msg("%s", o.err.msg);
  assert_memory_equal(back.id, o.job.plan.id, DIGEST_BYTES);
  plan_free(&back);
  free(json);
  free(bin);
  end_it(&o);
}

static void test_resume_takes_records_over(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  record(&o, 1, 7);
  end_it(&o);
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(o.how, STAGING_RESUMED);
  assert_int_equal(o.st.n_units, 2);
  assert_int_equal(o.st.done[0], 0);
  assert_int_equal(o.st.done[1], 1);
  assert_int_equal(o.st.digests[1][31], 7);
  record(&o, 0, 9); // a second records file
  end_it(&o);
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(staging_done_count(&o.st), 2);
  end_it(&o);
}

static void test_resume_of_nothing_starts_afresh(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(o.how, STAGING_FRESH);
  assert_non_null(strstr(o.note, "no interrupted run with these options"));
  end_it(&o);
}

static void test_dead_folder_is_emptied(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  record(&o, 0, 1);
  end_it(&o);
  assert_int_equal(open_it(&o, false), 0);
  assert_int_equal(o.how, STAGING_FRESH);
  assert_non_null(strstr(o.note, "discarded"));
  assert_int_equal(staging_done_count(&o.st), 0);
  assert_false(toy_exists(folder_of(&o), "records.0"));
  end_it(&o);
}

static void append(const struct opened *o, const char *file, const void *bytes, size_t n) {
  char path[500];
  snprintf(path, sizeof path, "%s/%s/%s", toy.dest, o->st.name, file);
  FILE *f = fopen(path, "ab");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, n, f), n);
  fclose(f);
}

// Torn, forged and foreign lines do not count; a good one after them does.
static void test_bad_records_are_passed_over(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  uint8_t digest[DIGEST_BYTES] = {1}, other[DIGEST_BYTES] = {2};
  char file[400];
  snprintf(file, sizeof file, "%s/records.3", folder_of(&o));
  int fd = open(file, O_WRONLY | O_CREAT | O_APPEND, 0666);
  assert_int_equal(records_append(file_of_descriptor(fd), 0, digest, &none, other, &o.err),
                   0); // another header
  assert_int_equal(
      records_append(file_of_descriptor(fd), 99, digest, &none, o.st.header_sha256, &o.err),
      0); // no such unit
  close(fd);
  append(&o, "records.3", "{\"unit\":0,\"sha256\":\"", 20);
  append(&o, "records.3", "\0\0\0\0\0\n", 6);
  end_it(&o);
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(staging_done_count(&o.st), 0);
  // A line changed by one digit, then a good one.
  fd = open(file, O_RDWR | O_TRUNC | O_APPEND);
  assert_int_equal(
      records_append(file_of_descriptor(fd), 0, digest, &none, o.st.header_sha256, &o.err), 0);
  assert_int_equal(
      records_append(file_of_descriptor(fd), 1, digest, &none, o.st.header_sha256, &o.err), 0);
  close(fd);
  fd = open(file, O_WRONLY);
  assert_int_equal(pwrite(fd, "1", 1, 8), 1); // "unit":0 becomes 1
  close(fd);
  end_it(&o);
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(o.st.done[0], 0);
  assert_int_equal(o.st.done[1], 1);
  end_it(&o);
}

static void test_lost_output_is_made_again(void **state) {
  (void)state;
  struct opened o;
  assert_int_equal(open_it(&o, false), 0);
  record(&o, 0, 1);
  record(&o, 1, 1);
  char path[400];
  snprintf(path, sizeof path, "%s/x.onnx", folder_of(&o));
  end_it(&o);
  assert_int_equal(truncate(path, 5), 0);
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(o.st.done[0], 1);
  assert_int_equal(o.st.done[1], 0);
  end_it(&o);
}

// ---- refusals ----

static void expect_changed(const char *words) {
  struct opened o;
  assert_int_equal(open_it(&o, true), -1);
  assert_int_equal(o.err.kind, ERR_INPUT);
  assert_non_null(strstr(o.err.msg, "/in.data' changed since the interrupted run"));
  assert_non_null(strstr(o.err.msg, words));
  toy_end(&o.job);
}

static void test_changed_source_is_refused(void **state) {
  (void)state;
  struct opened o;
  char path[400];
  struct stat was;
  assert_int_equal(open_it(&o, false), 0);
  record(&o, 0, 1);
  end_it(&o);
  snprintf(path, sizeof path, "%s/in.data", toy.src);
  assert_int_equal(stat(path, &was), 0);
  // Same size, other weights, and the clock moved on.
  const struct timespec later[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = was.st_mtim.tv_sec + 5}};
  assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
  expect_changed("same size, different mtime");
  // The mtime put back: only the ctime tells.
  const struct timespec back[2] = {{.tv_nsec = UTIME_OMIT}, was.st_mtim};
  assert_int_equal(utimensat(AT_FDCWD, path, back, 0), 0);
  expect_changed("same size and mtime, different ctime");
  // Another file under the name.
  toy_write(toy.src, "other", toy.data, TOY_DATA);
  char other[400];
  snprintf(other, sizeof other, "%s/other", toy.src);
  assert_int_equal(utimensat(AT_FDCWD, other, back, 0), 0);
  assert_int_equal(rename(other, path), 0);
  expect_changed("same size and mtime, different inode");
  // Without --resume the work starts afresh over the new source.
  assert_int_equal(open_it(&o, false), 0);
  assert_int_equal(o.how, STAGING_FRESH);
  end_it(&o);
}

// A child that has the folder open until it is told to go.
struct holder {
  pid_t pid;
  int in, out;
};

static struct holder hold(void) {
  int to[2], from[2];
  assert_int_equal(pipe(to) | pipe(from), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    struct opened o;
    char c = open_it(&o, false) == 0 ? 'y' : 'n';
    if (write(from[1], &c, 1) != 1 || read(to[0], &c, 1) != 1) _exit(1);
    _exit(0);
  }
  char c = 0;
  close(to[0]);
  close(from[1]);
  assert_int_equal(read(from[0], &c, 1), 1);
  assert_int_equal(c, 'y');
  return (struct holder){.pid = pid, .in = to[1], .out = from[0]};
}

static void let_go(struct holder *h) {
  assert_int_equal(write(h->in, "x", 1), 1);
  waitpid(h->pid, NULL, 0);
  close(h->in);
  close(h->out);
}

static void test_live_folder_is_busy(void **state) {
  (void)state;
  struct opened o;
  struct holder h = hold();
  for (int resume = 0; resume < 2; resume++) {
    assert_int_equal(open_it(&o, resume), -1);
    assert_int_equal(o.err.kind, ERR_RETRY);
    char who[40];
    snprintf(who, sizeof who, "process %ld on ", (long)h.pid);
    assert_non_null(strstr(o.err.msg, who));
    toy_end(&o.job);
  }
  let_go(&h);
  assert_int_equal(open_it(&o, true), 0);
  assert_int_equal(o.how, STAGING_RESUMED);
  end_it(&o);
}

static void test_reserved_names_are_refused(void **state) {
  (void)state;
  static const char *const names[] = {"plan.json", "header.json", "lock",
                                      "records.7", "a/b",         "seal.json",
                                      "x.tmp",     "report.json", "report.html"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct toy_shape shape = toy_shape(&toy);
    shape.data_name = names[i];
    struct toy_job job;
    struct staging st;
    struct err err = {0};
    enum staging_resume how;
    const struct staging_options options = toy_staging(&toy, false);
    toy_begin(&job, &shape);
    assert_int_equal(staging_open(&st, &job.plan, job.sources, &options, &how, NULL, 0, &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
    toy_end(&job);
  }
}

// ---- space ----

static void test_no_space(void **state) {
  (void)state;
  struct toy_shape shape = toy_shape(&toy);
  shape.zeros = (uint64_t)1 << 45;
  struct toy_job job;
  struct staging st;
  struct err err = {0};
  enum staging_resume how;
  const struct staging_options options = toy_staging(&toy, false);
  toy_begin(&job, &shape);
  assert_int_equal(staging_open(&st, &job.plan, job.sources, &options, &how, NULL, 0, &err), -1);
  assert_int_equal(err.kind, ERR_NOSPACE);
  assert_non_null(strstr(err.msg, "(351843"));
  assert_non_null(strstr(err.msg, "are free"));
  toy_end(&job);
  assert_int_equal(rmdir(toy.dest), 0); // refused before anything was made
  assert_int_equal(mkdir(toy.dest, 0777), 0);
}

// ---- looking ahead ----

static int foresee(struct opened *o, struct staging_space *space, uint64_t zeros) {
  struct toy_shape shape = toy_shape(&toy);
  const struct staging_options options = toy_staging(&toy, false);
  shape.zeros = zeros;
  memset(&o->err, 0, sizeof o->err);
  toy_begin(&o->job, &shape);
  const int rc = staging_foresee(&o->job.plan, &options, space, &o->err);
  if (rc == 0) toy_end(&o->job);
  return rc;
}

// What is foreseen is refused in the words of the real thing, and leaves nothing.
static void expect_same_refusal(struct opened *o, uint64_t zeros) {
  struct toy_shape shape = toy_shape(&toy);
  struct toy_job job;
  struct staging st;
  struct err err = {0};
  enum staging_resume how;
  const struct staging_options options = toy_staging(&toy, false);
  shape.zeros = zeros;
  toy_begin(&job, &shape);
  assert_int_equal(staging_open(&st, &job.plan, job.sources, &options, &how, NULL, 0, &err), -1);
  assert_int_equal(err.kind, o->err.kind);
  // What is free may change between the two looks: others use the disk.
  const size_t same = strcspn(err.msg, ",");
  assert_int_equal(strncmp(err.msg, o->err.msg, same + 1), 0);
  assert_int_equal(err.reason, o->err.reason);
  assert_string_equal(err.hint, o->err.hint);
  toy_end(&job);
  toy_end(&o->job);
}

static void test_foresee(void **state) {
  (void)state;
  struct opened o;
  struct staging_space space;
  assert_int_equal(foresee(&o, &space, 0), 0);
  assert_true(space.known && space.free_bytes > space.needed_bytes);
  const uint64_t needed = space.needed_bytes;
  assert_true(needed > 0);
  assert_int_equal(rmdir(toy.dest), 0); // nothing was made
  assert_int_equal(mkdir(toy.dest, 0777), 0);

  assert_int_equal(foresee(&o, &space, (uint64_t)1 << 45), -1);
  assert_int_equal(o.err.kind, ERR_NOSPACE);
  assert_true(space.needed_bytes > (uint64_t)1 << 45);
  expect_same_refusal(&o, (uint64_t)1 << 45);

  struct holder h = hold();
  assert_int_equal(foresee(&o, &space, 0), -1);
  assert_int_equal(o.err.kind, ERR_RETRY);
  expect_same_refusal(&o, 0);
  let_go(&h);
  assert_int_equal(foresee(&o, &space, 0), 0); // a dead folder is no obstacle
  assert_true(space.needed_bytes < needed);    // and its space is ours
}

// A tenth of what is free is kept back for the administrator. (This name stands before the library's.)
static bool reserving;
int fstatvfs(int fd, struct statvfs *out) {
  static int (*real)(int, struct statvfs *);
  if (!real) *(void **)&real = dlsym(RTLD_NEXT, "fstatvfs");
  if (!reserving) return real(fd, out);
  *out = (struct statvfs){.f_frsize = 4096, .f_blocks = 1000, .f_bfree = 1000, .f_bavail = 900};
  return 0;
}

static bool set_capabilities(uint32_t low) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &head, data)) return false;
  data[0].effective = low & data[0].permitted;
  return data[0].effective == low && syscall(SYS_capset, &head, data) == 0;
}

// What is kept back counts for who may use it, whoever that is by name. Another process: what it gives up stays given up.
static void test_space_that_is_kept_back(void **state) {
  (void)state;
  const pid_t child = fork();
  if (child == 0) {
    uint64_t bytes = 0;
    reserving = true;
    const uint32_t may = CAP_TO_MASK(CAP_SYS_RESOURCE);
    bool right = !set_capabilities(may) || (folder_room(HERE, &bytes) == 0 && bytes == 4096000);
    right = right && set_capabilities(0) && folder_room(HERE, &bytes) == 0 && bytes == 3686400;
    _exit(right ? 0 : 1);
  }
  int how;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_int_equal(how, 0);
}

static void test_fallocate_fails(void **state) {
  (void)state;
  struct opened o;
  fs_fault_install("ENOSPC:fallocate:1");
  assert_int_equal(open_it(&o, false), -1);
  assert_int_equal(o.err.kind, ERR_NOSPACE);
  toy_end(&o.job);
  assert_int_equal(rmdir(toy.dest), 0);
  assert_int_equal(mkdir(toy.dest, 0777), 0);
  fs_fault_install("EOPNOTSUPP:fallocate:1:persist");
  assert_int_equal(open_it(&o, false), 0);
  assert_non_null(strstr(o.note, "cannot reserve space"));
  struct stat at;
  assert_int_equal(fstatat(folder_descriptor(o.st.folder), "x.onnx.data", &at, 0), 0);
  assert_int_equal(at.st_size, o.job.plan.outputs[0].size);
  end_it(&o);
}

// ---- killed while opening ----

static int run_child(const char *fault, bool resume) {
  const pid_t pid = fork();
  if (pid == 0) {
    struct opened o;
    fs_fault_install(fault);
    _exit(open_it(&o, resume) == 0 ? 0 : 1);
  }
  int status;
  waitpid(pid, &status, 0);
  return status;
}

static void test_killed_while_opening(void **state) {
  (void)state;
  unsigned killed = 0;
  for (unsigned n = 1;; n++) {
    char fault[32];
    snprintf(fault, sizeof fault, "kill:%u", n);
    const int status = run_child(fault, false);
    assert_int_equal(run_child("", true), 0);
    assert_int_equal(run_child("", false), 0);
    toy_empty(toy.dest);
    if (WIFEXITED(status)) {
      assert_int_equal(WEXITSTATUS(status), 0);
      break;
    }
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && n < 1000);
    killed++;
  }
  assert_true(killed > 15);
}

// ---- clean ----

struct seen {
  char names[8][STAGING_NAME_MAX];
  struct staging_found found[8];
  int n;
};

static int note_found(void *ctx, const struct staging_found *found) {
  struct seen *s = ctx;
  assert_true(s->n < 8);
  snprintf(s->names[s->n], STAGING_NAME_MAX, "%s", found->name);
  s->found[s->n] = *found;
  if (found->resume_command) assert_string_equal(found->resume_command, "toy --resume");
  if (found->orphan_of) assert_string_equal(found->orphan_of, "old.onnx");
  s->n++;
  return 0;
}

static struct seen scan(void) {
  struct seen seen = {.n = 0};
  struct err err = {0};
  assert_int_equal(staging_scan(toy.dest, note_found, &seen, &err), 0);
  return seen;
}

static void test_clean_dead_and_locked(void **state) {
  (void)state;
  struct holder h = hold();
  struct seen seen = scan();
  struct err err = {0};
  assert_int_equal(seen.n, 1);
  assert_true(seen.found[0].locked);
  assert_int_equal(staging_remove_named(toy.dest, seen.names[0], &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  let_go(&h);
  seen = scan();
  assert_false(seen.found[0].locked);
  assert_false(seen.found[0].half_sealed);
  assert_non_null(seen.found[0].resume_command);
  assert_true(seen.found[0].bytes > 2500000);
  memset(&err, 0, sizeof err);
  assert_int_equal(staging_remove_named(toy.dest, seen.names[0], &err), 0);
  assert_int_equal(scan().n, 0);
}

static void test_clean_keeps_half_sealed(void **state) {
  (void)state;
  struct opened o;
  struct err err = {0};
  assert_int_equal(open_it(&o, false), 0);
  static const char intent[] = "{\"moves\":[{\"name\":\"old.onnx.0123abcd.data\"}]}";
  append(&o, "seal.json", intent, sizeof intent - 1);
  char name[STAGING_NAME_MAX];
  snprintf(name, sizeof name, "%s", o.st.name);
  end_it(&o);
  toy_write(toy.dest, "old.onnx.0123abcd.data", "w", 1); // placed by that seal: no orphan
  const struct seen seen = scan();
  assert_int_equal(seen.n, 1);
  assert_true(seen.found[0].half_sealed);
  assert_int_equal(staging_remove_named(toy.dest, name, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  assert_true(toy_exists(toy.dest, name));
}

static void test_clean_orphans(void **state) {
  (void)state;
  struct err err = {0};
  toy_write(toy.dest, "old.onnx.0123abcd.data", "w", 1);
  toy_write(toy.dest, "old.onnx.0123abce.data", "w", 1);
  toy_write(toy.dest, "old.onnx.data", "w", 1);          // not a fresh name
  toy_write(toy.dest, "old.onnx.0123abcX.data", "w", 1); // not hex
  toy_write(toy.dest, "old.onnx", "..\x12\x16old.onnx.0123abce.data..", 28);
  const struct seen seen = scan();
  assert_int_equal(seen.n, 1);
  assert_string_equal(seen.names[0], "old.onnx.0123abcd.data");
  assert_int_equal(staging_remove_named(toy.dest, "old.onnx.0123abce.data", &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  memset(&err, 0, sizeof err);
  assert_int_equal(staging_remove_named(toy.dest, "../dest/old.onnx.0123abcd.data", &err), -1);
  memset(&err, 0, sizeof err);
  assert_int_equal(staging_remove_named(toy.dest, "old.onnx.0123abcd.data", &err), 0);
  assert_false(toy_exists(toy.dest, "old.onnx.0123abcd.data"));
  assert_true(toy_exists(toy.dest, "old.onnx.data"));
}

int test_staging(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test_setup_teardown(test_fresh, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_names_that_stay, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_lock_that_is_going_away, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_folder_that_is_taken_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_plan_in_folder_reads_back, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_resume_takes_records_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_resume_of_nothing_starts_afresh, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_dead_folder_is_emptied, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_bad_records_are_passed_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_lost_output_is_made_again, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_changed_source_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_live_folder_is_busy, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_reserved_names_are_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_no_space, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_foresee, set_up, tear_down),
      cmocka_unit_test(test_space_that_is_kept_back),
      cmocka_unit_test_setup_teardown(test_fallocate_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_killed_while_opening, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_clean_dead_and_locked, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_clean_keeps_half_sealed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_clean_orphans, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("staging", tests, NULL, NULL);
}
