// The seal: a kill before every single file-system call, over an empty folder, over an existing
// pair whose data keeps its name or not, and over the very source; what is replaced, what is left, what
// is refused.
//
// A "command" here is what the program does: complete an unfinished seal if there is one, else
// stage, run and seal. It is run in a child, so that it can be killed.
#include "platform/descriptor.h"
#include "fs_fault.h"
#include "sanitized.h"
#include "toy_fixture.h"
#include "resources/resources.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

enum scenario { FRESH, RENAMED, FORCE, INPLACE }; // RENAMED: --force, and the data has another name

// ---- the command ----

// The model that lies in dest before all but FRESH; INPLACE reads it.
static struct toy_shape old_shape(void) {
  struct toy_shape shape = toy_shape(&toy);
  shape.variant = 9;
  return shape;
}

static struct toy_shape new_shape(enum scenario scenario) {
  struct toy_shape shape = toy_shape(&toy);
  if (scenario == RENAMED) shape.data_name = "x.onnx.0123abcd.data";
  if (scenario != INPLACE) return shape;
  shape.source_folder = toy.dest;
  shape.source_onnx = "x.onnx";
  shape.source_data = "x.onnx.data";
  return shape;
}

static int stage_and_seal(const struct toy_shape *shape, bool resume, bool replace,
                          struct seal_report *report, struct err *err) {
  struct toy_job job;
  struct staging st;
  enum staging_resume how;
  const struct staging_options options = toy_staging(&toy, resume);
  toy_begin(&job, shape);
  int bad = staging_open(&st, &job.plan, job.sources, &options, &how, NULL, 0, err);
  if (!bad && how == STAGING_SEALED) {
    bad = seal_finish(&st, report, err);
  } else if (!bad) {
    bad = toy_run(&job, &st, err);
    if (!bad) bad = toy_seal(&job, &st, replace, report, err);
  }
  staging_close(&st);
  toy_end(&job);
  return bad;
}

static int command(const struct toy_shape *shape, bool resume, bool replace,
                   struct seal_report *report, struct err *err) {
  char name[STAGING_NAME_MAX];
  enum staging_seal state = STAGING_SEAL_NONE;
  struct staging st;
  if (resume && staging_find_seal(toy.dest, "x.onnx", name, &state, err)) return -1;
  if (state == STAGING_SEAL_NONE) return stage_and_seal(shape, resume, replace, report, err);
  int bad = staging_open_sealed(&st, toy.dest, name, err);
  if (!bad) bad = seal_finish(&st, report, err);
  return bad;
}

// The exit status of the command in a child. INPLACE: its source bytes are those of `toy` only in
// length, so the content is looked up from the files.
static int in_child(const struct toy_shape *shape, bool resume, bool replace, const char *fault) {
  const pid_t pid = fork();
  if (pid == 0) {
    struct seal_report report;
    struct err err = {0};
    if (fault) fs_fault_install(fault);
    const int bad = command(shape, resume, replace, &report, &err);
    if (bad) fprintf(stderr, "child: %s\n", err.msg);
    _exit(bad ? 1 : 0);
  }
  int status;
  waitpid(pid, &status, 0);
  return status;
}

// ---- what is in the folder ----

// An .onnx and the data that it names, wherever that lies.
struct pair {
  uint8_t *onnx, *data;
  size_t n_onnx, n_data;
  char name[64];
};

static struct pair read_pair(void) {
  struct pair p = {0};
  p.onnx = toy_read(toy.dest, "x.onnx", &p.n_onnx);
  if (!p.onnx) return p;
  snprintf(p.name, sizeof p.name, "%.*s", p.onnx[TOY_NAME_AT - 1],
           (const char *)p.onnx + TOY_NAME_AT);
  p.data = toy_read(toy.dest, p.name, &p.n_data);
  return p;
}

static void free_pair(struct pair *p) {
  free(p->onnx);
  free(p->data);
}

static bool same(const uint8_t *a, size_t na, const uint8_t *b, size_t nb) {
  return a && b && na == nb && memcmp(a, b, na) == 0;
}

// With a data file by any name, which is where the .onnx differs.
static bool pair_is(const struct pair *want) {
  struct pair is = read_pair();
  if (is.onnx && strlen(is.name) == strlen(want->name))
    memcpy(is.onnx + TOY_NAME_AT, want->name, strlen(want->name));
  const bool yes = same(is.onnx, is.n_onnx, want->onnx, want->n_onnx) &&
                   same(is.data, is.n_data, want->data, want->n_data);
  free_pair(&is);
  return yes;
}

static unsigned count_staging(void) {
  unsigned n = 0;
  DIR *list = opendir(toy.dest);
  for (struct dirent *e; (e = readdir(list));)
    n += e->d_name[0] == '.' && strstr(e->d_name, ".weir") != NULL;
  closedir(list);
  return n;
}

static uint64_t audit_damage(void) {
  static const char name[] = "x.onnx.manifest.json";
  struct manifest m;
  struct audit_result result;
  struct err err = {0};
  const struct audit_options options = {.shown = name, .jobs = 1};
  const int dir = open(toy.dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  int rc = manifest_read(
      &m, &(struct manifest_at){folder_of_descriptor(dir), name, name, "x.onnx", NULL}, &err);
  if (rc == 0) rc = manifest_audit(&m, folder_of_descriptor(dir), &options, &result, &err);
  manifest_free(&m);
  close(dir);
  return rc ? UINT64_MAX : result.damaged;
}

// What a run leaves of the old model: made once, and written again each time.
static const char *const old_names[] = {"x.onnx", "x.onnx.data", "x.onnx.manifest.json"};
static struct old_file {
  uint8_t *bytes;
  size_t n;
} old_files[3];

static void make_old_pair(void) {
  const struct toy_shape old = old_shape();
  assert_int_equal(in_child(&old, false, false, NULL), 0);
  for (size_t i = 0; i < 3; i++) {
    old_files[i].bytes = toy_read(toy.dest, old_names[i], &old_files[i].n);
    assert_non_null(old_files[i].bytes);
  }
}

static void put_old_pair(enum scenario scenario) {
  toy_empty(toy.dest);
  if (scenario == FRESH) return;
  if (!old_files[0].bytes) {
    make_old_pair();
    return;
  }
  for (size_t i = 0; i < 3; i++)
    toy_write(toy.dest, old_names[i], old_files[i].bytes, old_files[i].n);
}

// After a kill: the old model whole, or the new one, or (fresh) none; and where no seal is
// unfinished, the manifest says the same.
static void check_whole(enum scenario scenario, const struct pair *before,
                        const struct pair *after) {
  char name[STAGING_NAME_MAX];
  enum staging_seal state;
  struct err err = {0};
  const bool is_old = scenario == FRESH ? !toy_exists(toy.dest, "x.onnx") : pair_is(before);
  assert_true(is_old || pair_is(after));
  assert_int_equal(staging_find_seal(toy.dest, "x.onnx", name, &state, &err), 0);
  if (state != STAGING_SEAL_UNFINISHED && toy_exists(toy.dest, "x.onnx"))
    assert_int_equal(audit_damage(), 0);
}

// The new model under its own names, and nothing else.
static void check_done(const struct pair *after) {
  struct pair is = read_pair();
  assert_true(pair_is(after));
  assert_string_equal(is.name, after->name);
  free_pair(&is);
  assert_int_equal(audit_damage(), 0);
  unsigned n = 0;
  DIR *list = opendir(toy.dest);
  for (struct dirent *e; (e = readdir(list));)
    n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
  closedir(list);
  assert_int_equal(n, 3);
}

// Calls from one that is killed, or fails, to the next: a process each, which is slow under a
// sanitizer. ThreadSanitizer sees the same threads whichever call it is, all of them with
// WEIR_TEST_ALL=1.
static unsigned every(void) {
  return sanitized_tests_all() ? 1 : SANITIZED_THREADS ? 11 : SANITIZED_ADDRESSES ? 3 : 1;
}

static void kill_everywhere(enum scenario scenario) {
  const struct toy_shape shape = new_shape(scenario);
  put_old_pair(scenario);
  struct pair before = read_pair();
  assert_int_equal(in_child(&shape, false, scenario != FRESH, NULL), 0);
  struct pair after = read_pair();
  assert_string_equal(after.name, shape.data_name);
  check_done(&after);
  unsigned killed = 0;
  for (unsigned n = 1;; n += every()) {
    char fault[32];
    snprintf(fault, sizeof fault, "kill:%u", n);
    put_old_pair(scenario);
    const int status = in_child(&shape, false, scenario != FRESH, fault);
    if (WIFEXITED(status)) break;
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && n < 200);
    check_whole(scenario, &before, &after);
    assert_int_equal(in_child(&shape, true, scenario != FRESH, NULL), 0);
    check_done(&after);
    killed++;
  }
  assert_true(killed > 40 / every());
  check_done(&after);
  free_pair(&before);
  free_pair(&after);
}

static void test_kill_fresh(void **state) {
  (void)state;
  kill_everywhere(FRESH);
}

static void test_kill_renamed(void **state) {
  (void)state;
  kill_everywhere(RENAMED);
}

static void test_kill_force(void **state) {
  (void)state;
  kill_everywhere(FORCE);
}

static void test_kill_inplace(void **state) {
  (void)state;
  kill_everywhere(INPLACE);
}

// A second kill while the first one's seal is being completed.
static void test_kill_the_completion(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(FORCE);
  for (unsigned n = 1, status = 1; status != 0; n += every()) {
    char fault[32];
    put_old_pair(FORCE);
    // The data file is in place, the .onnx is not.
    assert_true(WIFSIGNALED(in_child(&shape, false, true, "kill:renameat2:6"))); // amid the seal
    assert_int_equal(count_staging(), 1);
    snprintf(fault, sizeof fault, "kill:%u", n);
    status = (unsigned)in_child(&shape, true, true, fault);
    assert_true(n < 100);
    if (status != 0) assert_int_equal(in_child(&shape, true, true, NULL), 0);
    assert_int_equal(audit_damage(), 0);
    assert_int_equal(count_staging(), 0);
  }
}

// Every call fails once with an I/O error: the command fails or does without, and never spoils
// anything.
static void test_every_call_fails(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(FORCE);
  put_old_pair(FORCE);
  struct pair before = read_pair();
  assert_int_equal(in_child(&shape, false, true, NULL), 0);
  struct pair after = read_pair();
  fflush(NULL);
  const int keep = dup(STDERR_FILENO), null = open("/dev/null", O_WRONLY);
  dup2(null, STDERR_FILENO); // the children's complaints
  unsigned failed = 0;
  for (unsigned n = 1; n < 90; n += every()) {
    char fault[32];
    snprintf(fault, sizeof fault, "EIO:*:%u", n);
    put_old_pair(FORCE);
    const int status = in_child(&shape, false, true, fault);
    assert_true(WIFEXITED(status));
    check_whole(FORCE, &before, &after);
    if (status == 0) continue;
    failed++;
    // What is left over is complete or can be completed.
    assert_int_equal(in_child(&shape, true, true, NULL), 0);
    check_done(&after);
  }
  dup2(keep, STDERR_FILENO);
  close(keep);
  close(null);
  assert_true(failed > 30 / every());
  free_pair(&before);
  free_pair(&after);
}

// ---- refusals and leftovers ----

static void test_existing_output_is_refused(void **state) {
  (void)state;
  struct toy_shape shape = toy_shape(&toy);
  struct seal_report report;
  struct err err = {0};
  toy_write(toy.dest, "x.onnx", "old", 3);
  assert_int_equal(command(&shape, false, false, &report, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  assert_int_equal(err.reason, REASON_EXISTS);
  assert_false(toy_exists(toy.dest, "x.onnx.data")); // nothing was moved
  size_t n;
  uint8_t *is = toy_read(toy.dest, "x.onnx", &n);
  assert_true(same(is, n, (const uint8_t *)"old", 3));
  free(is);
  // The work is not lost.
  memset(&err, 0, sizeof err);
  assert_int_equal(command(&shape, true, true, &report, &err), 0);
  assert_int_equal(audit_damage(), 0);
}

static void test_taken_data_name(void **state) {
  (void)state;
  struct toy_shape shape = toy_shape(&toy);
  struct seal_report report;
  struct err err = {0};
  toy_write(toy.dest, "x.onnx.data", "somebody's", 10);
  assert_int_equal(command(&shape, false, true, &report, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  assert_non_null(strstr(err.msg, "appeared after this run was planned"));
  assert_false(toy_exists(toy.dest, "x.onnx"));
  // The very bytes of ours under the name count as done.
  struct toy_job job;
  toy_begin(&job, &shape);
  uint8_t *bytes = toy_expected(&toy, &job.plan, 0);
  toy_write(toy.dest, "x.onnx.data", bytes, job.plan.outputs[0].size);
  memset(&err, 0, sizeof err);
  assert_int_equal(command(&shape, true, true, &report, &err), 0);
  assert_true(toy_is_whole(&toy, &job.plan, 0, toy.dest));
  assert_true(toy_is_whole(&toy, &job.plan, 1, toy.dest));
  assert_int_equal(count_staging(), 0);
  free(bytes);
  toy_end(&job);
}

static void test_shared_sidecar_is_left(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(RENAMED);
  struct seal_report report;
  struct err err = {0};
  put_old_pair(RENAMED);
  char name[] = "\x12\x0bx.onnx.data\x1a";
  uint8_t *other = calloc(1, 3 << 20); // the name straddles two windows of the search
  memcpy(other + (1 << 20) - 10, name, sizeof name - 1);
  toy_write(toy.dest, "y.onnx", other, 3 << 20);
  free(other);
  assert_int_equal(command(&shape, false, true, &report, &err), 0);
  assert_true(toy_exists(toy.dest, "x.onnx.data"));
  assert_int_equal(report.kept[SEAL_KEPT_USED].n, 1);
  assert_string_equal(report.kept[SEAL_KEPT_USED].names, "'x.onnx.data' (2.85 MB)");
  assert_string_equal(report.kept[SEAL_KEPT_USED].who, "y.onnx");
}

// A model of n nodes of an operator "N": five bytes each, and a row of sixty in an index.
static void put_many_nodes(size_t n) {
  static const uint8_t node[] = {0x0a, 0x03, 0x22, 0x01, 'N'};
  const size_t graph = sizeof node * n, most = graph + 32;
  uint8_t *model = calloc(1, most), *at = model;
  const uint8_t head[] = {0x08, 0x08, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x11, 0x3a};
  memcpy(at, head, sizeof head);
  at += sizeof head;
  for (size_t left = graph; left; left >>= 7)
    *at++ = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
  for (size_t i = 0; i < n; i++, at += sizeof node)
    memcpy(at, node, sizeof node);
  toy_write(toy.dest, "x.onnx", model, (uint64_t)(at - model));
  free(model);
}

// The most bytes of arenas and tables while the model of n nodes is asked about.
static uint64_t bytes_of_asking(size_t n, struct seal_refers *refers) {
  const uint64_t before = resources_held();
  put_many_nodes(n);
  seal_refers_ask(refers, toy.dest, "x.onnx");
  assert_false(refers->unread);
  assert_true(resources_held() - before <= 1 << 17); // names are held, the index is not
  return resources_peak() - before;
}

static void test_an_old_model_of_any_size_is_read(void **state) {
  (void)state;
  struct seal_refers refers = {.n = 0};
  assert_true(bytes_of_asking(1 << 19, &refers) > 16 << 20);
  toy_write(toy.dest, "x.onnx", "", 0); // another one: asked again
  seal_refers_ask(&refers, toy.dest, "x.onnx");
  assert_true(refers.unread);
  (void)bytes_of_asking(1, &refers);
  seal_refers_done(&refers);
}

static bool may_replace(const char *name) {
  const int dest = open(toy.dest, O_RDONLY | O_DIRECTORY);
  struct seal_refers refers = {.n = 0};
  const bool may = seal_may_replace(&refers, folder_of_descriptor(dest), toy.dest, "x.onnx", name);
  seal_refers_done(&refers);
  close(dest);
  return may;
}

static void test_whose_data_may_be_replaced(void **state) {
  (void)state;
  static const char longer[] = "\x0a\x08location\x12\x0c"
                               "ax.onnx.data";
  static const char copy[] = "\x08\x0a\x3a\x17\x0a\x08location\x12\x0bx.onnx.data";
  static const char path[] = "\x0a\x08location\x12\x0d./x.onnx.data";
  put_old_pair(FORCE);
  assert_true(may_replace("x.onnx.data"));
  assert_false(may_replace("x.onnx.manifest.json")); // the model does not name it
  assert_false(may_replace("nothing"));
  toy_write(toy.dest, "ax.onnx", longer, sizeof longer - 1);
  toy_write(toy.dest, "notes.txt", copy + 4, sizeof copy - 5); // no model
  assert_true(may_replace("x.onnx.data"));
  toy_write(toy.dest, "x.onnx.bak", copy, sizeof copy - 1);
  assert_false(may_replace("x.onnx.data"));
  toy_write(toy.dest, "x.onnx.bak", copy, 4);
  assert_true(may_replace("x.onnx.data"));
  toy_write(toy.dest, "b.onnx", path, sizeof path - 1);
  assert_false(may_replace("x.onnx.data"));
}

// A location in the text of a model, or in bytes that are no model, refers to nothing.
static void test_what_a_model_refers_to(void **state) {
  (void)state;
  static const char of_text[] =
      "\x08\x0a\x32\x15\x0a\x08location\x12\x09notes.txt\x3a\x03\x12\x01g";
  static const char none[] = "\x0a\x08location\x12\x09notes.txt";
  put_old_pair(FORCE);
  toy_write(toy.dest, "notes.txt", none, 1);
  toy_write(toy.dest, "x.onnx", of_text, sizeof of_text - 1);
  assert_false(may_replace("notes.txt"));
  toy_write(toy.dest, "x.onnx", none, sizeof none - 1);
  assert_false(may_replace("notes.txt"));
  assert_true(may_replace("x.onnx.data")); // its manifest lists it, and it has such a name
}

static ino_t inode_of(const char *name, mode_t *mode) {
  char path[200];
  struct stat at;
  snprintf(path, sizeof path, "%s/%s", toy.dest, name);
  assert_int_equal(stat(path, &at), 0);
  *mode = at.st_mode & 07777;
  return at.st_ino;
}

// The same again touches nothing; a new model has the mode of the old one, all of its files.
static void test_what_is_there_stays_and_modes_are_kept(void **state) {
  (void)state;
  static const char *const names[] = {"x.onnx", "x.onnx.data", "x.onnx.manifest.json"};
  const struct toy_shape old = old_shape(), new = new_shape(FORCE);
  struct seal_report report;
  struct err err = {0};
  char path[200];
  ino_t before[3];
  mode_t mode;
  put_old_pair(FORCE);
  snprintf(path, sizeof path, "%s/x.onnx", toy.dest);
  assert_int_equal(chmod(path, 0640), 0);
  for (size_t i = 0; i < 3; i++)
    before[i] = inode_of(names[i], &mode);
  assert_int_equal(command(&old, false, true, &report, &err), 0);
  assert_true(report.unchanged && report.same_manifest);
  for (size_t i = 0; i < 3; i++)
    assert_int_equal(inode_of(names[i], &mode), before[i]);
  assert_int_equal(command(&new, false, true, &report, &err), 0);
  assert_false(report.unchanged || report.same_manifest);
  for (size_t i = 0; i < 3; i++) {
    assert_int_not_equal(inode_of(names[i], &mode), before[i]);
    assert_int_equal(mode, 0640);
  }
}

// A copy stands in for the second name where the file system has none.
static void test_passage_without_links(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(FORCE);
  put_old_pair(FORCE);
  assert_int_equal(in_child(&shape, false, true, NULL), 0);
  struct pair after = read_pair();
  put_old_pair(FORCE);
  assert_int_equal(in_child(&shape, false, true, "EPERM:linkat:1"), 0);
  check_done(&after);
  free_pair(&after);
}

static void test_unlisted_sidecar_is_left(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(RENAMED);
  struct seal_report report;
  struct err err = {0};
  put_old_pair(RENAMED);
  char path[200];
  snprintf(path, sizeof path, "%s/x.onnx.manifest.json", toy.dest);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(command(&shape, false, true, &report, &err), 0);
  assert_true(toy_exists(toy.dest, "x.onnx.data"));
  assert_int_equal(report.kept[SEAL_KEPT_UNLISTED].n, 1);
  assert_string_equal(report.kept[SEAL_KEPT_UNLISTED].names, "'x.onnx.data' (2.85 MB)");
}

// --no-manifest over a model that has one: a manifest of the old model must not stand beside the
// new.
static void test_stale_companions_go(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(RENAMED);
  struct toy_job job;
  struct staging st;
  struct seal_report report;
  struct err err = {0};
  enum staging_resume how;
  const struct staging_options options = toy_staging(&toy, false);
  const struct seal_options without = {.replace = true};
  put_old_pair(FORCE);
  toy_write(toy.dest, "x.onnx.tensors.jsonl", "{}", 2);
  toy_begin(&job, &shape);
  assert_int_equal(staging_open(&st, &job.plan, job.sources, &options, &how, NULL, 0, &err), 0);
  assert_int_equal(toy_run(&job, &st, &err), 0);
  assert_int_equal(seal_run(&st, &job.plan, &without, &report, &err), 0);
  assert_false(toy_exists(toy.dest, "x.onnx.manifest.json"));
  assert_false(toy_exists(toy.dest, "x.onnx.tensors.jsonl"));
  assert_false(toy_exists(toy.dest, "x.onnx.data"));
  assert_true(toy_is_whole(&toy, &job.plan, 1, toy.dest));
  toy_end(&job);
}

// A seal that was through but for its folder: gone with the next run, resumed or not.
static void test_finished_leftover(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(FRESH);
  char name[STAGING_NAME_MAX];
  enum staging_seal found;
  struct err err = {0};
  assert_true(WIFSIGNALED(in_child(&shape, false, false, "kill:unlinkat:3")));
  assert_int_equal(staging_find_seal(toy.dest, "x.onnx", name, &found, &err), 0);
  assert_int_equal(found, STAGING_SEAL_FINISHED);
  assert_int_equal(audit_damage(), 0);
  const struct toy_shape again = new_shape(FORCE);
  assert_int_equal(in_child(&again, false, true, NULL), 0);
  assert_int_equal(count_staging(), 0);
}

static void test_unfinished_seal_of_another_plan(void **state) {
  (void)state;
  const struct toy_shape one = new_shape(FRESH);
  struct toy_shape two = one;
  two.variant = 3;
  two.data_name = "x.onnx.89abcdef.data";
  assert_true(WIFSIGNALED(in_child(&one, false, false, "kill:renameat2:6")));
  struct seal_report report;
  struct err err = {0};
  assert_int_equal(command(&two, false, true, &report, &err), -1);
  assert_int_equal(err.kind, ERR_RETRY);
  assert_int_equal(err.reason, REASON_SEAL_BEGUN);
  assert_int_equal(in_child(&one, true, false, NULL), 0);
  assert_int_equal(audit_damage(), 0);
}

static unsigned open_files(void) {
  unsigned n = 0;
  DIR *d = opendir("/proc/self/fd");
  while (readdir(d))
    n++;
  closedir(d);
  return n;
}

// What a kill left is given up, or put away, and the nth call of that fails. Returns whether there was an nth call.
static bool fails_at(const char *name, enum staging_seal state, unsigned n, bool *failed) {
  char fault[32];
  struct staging st;
  struct seal_given_up was;
  struct err err = {0};
  snprintf(fault, sizeof fault, "EIO:*:%u", n);
  fs_fault_install(fault);
  if (state == STAGING_SEAL_FINISHED)
    *failed = !staging_put_away(toy.dest, name);
  else
    *failed = staging_open_sealed(&st, toy.dest, name, &err) || seal_give_up(&st, &was, &err);
  const bool reached = fs_fault_calls() >= n;
  fs_fault_remove();
  return reached;
}

// Whoever goes on in this process finds no descriptor and no lock of it. Killed before the commit point, after it, and when all is in
// place.
static void test_what_fails_to_go_is_closed(void **state) {
  (void)state;
  static const char *const kills[] = {"kill:renameat2:6", "kill:renameat2:9", "kill:unlinkat:3"};
  static const enum staging_seal lefts[] = {STAGING_SEAL_UNFINISHED, STAGING_SEAL_UNFINISHED,
                                            STAGING_SEAL_FINISHED};
  const struct toy_shape shape = new_shape(FORCE);
  for (size_t k = 0; k < 3; k++) {
    unsigned failures = 0;
    for (unsigned n = 1; n < 10; n += 2) {
      char name[STAGING_NAME_MAX];
      enum staging_seal left;
      struct err err = {0};
      bool failed = false;
      toy_empty(toy.dest);
      put_old_pair(FORCE);
      assert_true(WIFSIGNALED(in_child(&shape, false, true, kills[k])));
      assert_int_equal(staging_find_seal(toy.dest, "x.onnx", name, &left, &err), 0);
      assert_int_equal(left, lefts[k]);
      const unsigned before = open_files();
      const bool reached = fails_at(name, left, n, &failed);
      failures += failed;
      assert_int_equal(open_files(), before);
      if (!reached) break;
    }
    assert_true(failures > 0);
  }
}

// File systems that cannot rename without replacing, and those that have no hard links either.
static void test_no_rename_noreplace(void **state) {
  (void)state;
  const struct toy_shape shape = new_shape(FRESH);
  static const char *const faults[] = {"EINVAL:renameat2:5", "EINVAL:renameat2:6"};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    toy_empty(toy.dest);
    assert_int_equal(in_child(&shape, false, false, faults[i]), 0);
    assert_int_equal(audit_damage(), 0);
    assert_int_equal(count_staging(), 0);
  }
}

// The order that survives a power cut: no record before fdatasync, no rename before everything is
// durable.
static void test_order_of_calls(void **state) {
  (void)state;
  char log[200];
  snprintf(log, sizeof log, "%s/calls", toy.src);
  setenv("WEIR_FAULT_LOG", log, 1);
  fs_fault_open_log();
  const struct toy_shape shape = new_shape(FRESH);
  assert_int_equal(in_child(&shape, false, false, ""), 0);
  unsetenv("WEIR_FAULT_LOG");
  size_t n = 0;
  char *text = (char *)toy_read(toy.src, "calls", &n);
  assert_non_null(text);
  const char *sync = strstr(text, " fdatasync"), *records = strstr(text, "records.0");
  const char *intent = strstr(text, "renameat2 seal.json"),
             *commit = strstr(text, "renameat2 x.onnx\n");
  const char *data = strstr(text, "renameat2 x.onnx.data\n");
  const char *manifest = strstr(text, "renameat2 x.onnx.manifest.json\n");
  assert_true(sync && records && sync < records);
  assert_true(intent && data && intent < data && strstr(intent, " fsync") < data);
  assert_true(commit && data < commit && strstr(data, " fsync") < commit);
  manifest = strstr(commit, "renameat2 x.onnx.manifest.json\n");
  assert_true(manifest && strstr(commit, " fsync") < manifest);
  free(text);
}

static const char *next_call(const char **at, const char *call) {
  const char *found = strstr(*at, call);
  if (found) *at = found + 1;
  return found;
}

// Data that keeps its name: the folder is synced behind every step of the passage.
static void test_order_of_a_passage(void **state) {
  (void)state;
  char log[200];
  put_old_pair(FORCE);
  snprintf(log, sizeof log, "%s/calls", toy.src);
  setenv("WEIR_FAULT_LOG", log, 1);
  fs_fault_open_log();
  const struct toy_shape shape = new_shape(FORCE);
  assert_int_equal(in_child(&shape, false, true, ""), 0);
  unsetenv("WEIR_FAULT_LOG");
  size_t n = 0;
  char *text = (char *)toy_read(toy.src, "calls", &n);
  const char *at = text;
  static const char *const calls[] = {"renameat2 seal.json",
                                      " fsync",
                                      " linkat x.o",
                                      " fsync",
                                      "renameat2 x.onnx\n",
                                      " fsync",
                                      "renameat2 x.onnx.data\n",
                                      " fsync",
                                      "renameat2 x.onnx\n",
                                      " fsync",
                                      " unlinkat x.o",
                                      " fsync",
                                      "renameat2 x.onnx.manifest.json\n"};
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    if (!next_call(&at, calls[i])) fail_msg("no '%s' where it belongs in:\n%s", calls[i], text);
  free(text);
}

static void test_null_staging_seals_nothing(void **state) {
  (void)state;
  struct toy_shape shape = new_shape(FRESH);
  struct toy_job job;
  struct staging st;
  struct seal_report report;
  struct err err = {0};
  toy_begin(&job, &shape);
  assert_int_equal(staging_open_null(&st, &job.plan, NULL, &err), 0);
  assert_int_equal(toy_seal(&job, &st, false, &report, &err), 0);
  staging_close(&st);
  toy_end(&job);
  assert_int_equal(rmdir(toy.dest), 0);
  assert_int_equal(mkdir(toy.dest, 0777), 0);
}

int test_seal(void) {
  const struct CMUnitTest tests[] = {
      // The first: peaks are those of the process.
      cmocka_unit_test_setup_teardown(test_an_old_model_of_any_size_is_read, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_kill_fresh, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_kill_renamed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_kill_force, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_kill_inplace, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_kill_the_completion, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_every_call_fails, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_existing_output_is_refused, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_taken_data_name, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_shared_sidecar_is_left, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_whose_data_may_be_replaced, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_a_model_refers_to, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_is_there_stays_and_modes_are_kept, set_up,
                                      tear_down),
      cmocka_unit_test_setup_teardown(test_passage_without_links, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_order_of_a_passage, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_unlisted_sidecar_is_left, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_unfinished_seal_of_another_plan, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_stale_companions_go, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_finished_leftover, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_what_fails_to_go_is_closed, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_no_rename_noreplace, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_order_of_calls, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_null_staging_seals_nothing, set_up, tear_down),
  };
  const int failed = cmocka_run_group_tests_name("seal", tests, NULL, NULL);
  for (size_t i = 0; i < 3; i++)
    free(old_files[i].bytes);
  return failed;
}
