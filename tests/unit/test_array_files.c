// Arrays, and cases on disk: what is written is read again, a case is whole or not there, whichever call of
// the file system fails, and nothing stays open. What formats say is tested with NumPy and onnx (test_arrays.py).
#include "verify/arrays/array_files.h"

#include "fs_fault.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static struct arena arena;
static char folder[64];

static int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/weir-arrays-XXXXXX");
  return mkdtemp(folder) == NULL;
}

static unsigned remove_names(const char *path) {
  DIR *d = opendir(path);
  unsigned n = 0;
  if (!d) return 0;
  for (const struct dirent *e; (e = readdir(d));) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    char inner[400];
    snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
    remove_names(inner);
    assert_int_equal(remove(inner), 0);
    n++;
  }
  closedir(d);
  return n;
}

static int remove_folder(void **state) {
  (void)state;
  remove_names(folder);
  arena_free(&arena);
  return rmdir(folder);
}

static struct array numbers(const char *name, int64_t n) {
  struct array x;
  uint8_t *at = array_make(&x, name, DTYPE_UINT8, 1, &n, &arena);
  for (int64_t i = 0; i < n; i++)
    at[i] = (uint8_t)(i * 7);
  return x;
}

static void test_array(void **state) {
  (void)state;
  struct array x;
  const int64_t dims[2] = {3, 5}, huge[2] = {INT64_MAX, 2}, below[1] = {-1};
  uint8_t *at = array_make(&x, "x", DTYPE_INT4, 2, dims, &arena);
  assert_non_null(at);
  assert_true(x.count == 15 && x.bytes == 8 && !file_is_open(x.file) && x.dims != dims);
  assert_string_equal(array_words(&x).s, "int4[3,5]");
  assert_null(array_make(&x, "x", DTYPE_FLOAT, 2, huge, &arena));
  assert_null(array_make(&x, "x", DTYPE_FLOAT, 1, below, &arena));
  assert_null(array_make(&x, "x", DTYPE_STRING, 2, dims, &arena));
  assert_null(array_make(&x, "x", DTYPE_UNDEFINED, 2, dims, &arena));
  struct array list[2] = {numbers("a", 3), numbers("", 0)};
  const struct arrays all = {list, 2};
  assert_ptr_equal(array_named(&all, "a"), &list[0]);
  assert_ptr_equal(array_named(&all, ""), &list[1]);
  assert_null(array_named(&all, "b"));
  uint8_t two[2];
  struct err err = {0};
  assert_int_equal(array_read(&list[0], 1, two, 2, &err), 0);
  assert_true(two[0] == 7 && two[1] == 14);
}

static void test_settle(void **state) {
  (void)state;
  struct array item = numbers("", 3);
  struct array x = {.name = "o", .kind = ARRAY_SEQUENCE, .items = &item, .n_items = 1};
  struct array y = x, none = {.name = "n", .kind = ARRAY_SEQUENCE, .either = true};
  array_settle(&x, true); // it is a sequence
  assert_int_equal(x.kind, ARRAY_SEQUENCE);
  x.either = y.either = true;
  array_settle(&x, false);
  assert_true(x.kind == ARRAY_SEQUENCE && !x.either);
  array_settle(&y, true);
  assert_true(y.kind == ARRAY_TENSOR && y.count == 3);
  assert_string_equal(y.name, "o");
  struct array nested = {
      .name = "", .kind = ARRAY_SEQUENCE, .items = &x, .n_items = 1, .either = true};
  struct array again = nested, third = nested;
  array_settle_like(&nested, &x); // an optional that holds a sequence
  assert_true(nested.kind == ARRAY_SEQUENCE && nested.items[0].kind == ARRAY_TENSOR &&
              nested.optional);
  array_settle_like(&again, &third); // a sequence of sequences
  assert_true(again.items[0].kind == ARRAY_SEQUENCE && !again.either && !again.optional);
  array_settle(&none, true);
  assert_int_equal(none.kind, ARRAY_NOTHING);
  assert_string_equal(array_words(&none).s, "nothing");
}

// ---- cases -------------------------------------------------------------------------------------

// Lists as many as there are in a sample: numbers, strings, a sequence of both sizes, nothing.
static void sample(struct arrays *inputs, struct arrays *outputs) {
  static struct span strings[2];
  static struct array in[4], out[1], items[2];
  static const int64_t two = 2;
  strings[0] = span_str("one");
  strings[1] = span_str("");
  items[0] = numbers("i", 5);
  items[1] = numbers("", 0);
  in[0] = numbers("x", 3 << 20); // stays in its file
  in[1] = (struct array){
      .name = "s", .dtype = DTYPE_STRING, .rank = 1, .dims = &two, .count = 2, .strings = strings};
  in[2] = (struct array){.name = "q", .kind = ARRAY_SEQUENCE, .items = items, .n_items = 2};
  in[3] = (struct array){.name = "", .kind = ARRAY_NOTHING};
  out[0] = numbers("y", 4);
  *inputs = (struct arrays){in, 4};
  *outputs = (struct arrays){out, 1};
}

static void expect_same(const struct array *x, const struct array *y) {
  struct err err = {0};
  assert_string_equal(x->name, y->name);
  assert_true(x->kind == y->kind && x->n_items == y->n_items && x->dtype == y->dtype &&
              x->count == y->count && x->bytes == y->bytes);
  uint8_t *a = arena_alloc(&arena, (size_t)x->bytes + 1),
          *b = arena_alloc(&arena, (size_t)x->bytes + 1);
  if (x->kind == ARRAY_TENSOR && x->dtype != DTYPE_STRING) {
    assert_int_equal(array_read(x, 0, a, (size_t)x->bytes, &err), 0);
    assert_int_equal(array_read(y, 0, b, (size_t)x->bytes, &err), 0);
    assert_memory_equal(a, b, (size_t)x->bytes);
  }
  for (uint64_t i = 0; x->dtype == DTYPE_STRING && i < x->count; i++)
    assert_true(span_eq(x->strings[i], y->strings[i]));
}

static void expect_case(const char *path) {
  struct arrays inputs, outputs;
  struct array_files *files;
  struct array_cases cases;
  struct err err = {0};
  sample(&inputs, &outputs);
  assert_int_equal(array_files_read(&files, path, folder, 1 << 30, &arena, &cases, &err), 0);
  assert_int_equal(cases.n, 1);
  const struct array_case *c = &cases.list[0];
  assert_string_equal(c->name, "test_data_set_0");
  assert_true(c->inputs.n == 4 && c->outputs.n == 1 && file_is_open(c->inputs.list[0].file));
  for (uint32_t i = 0; i < 4; i++)
    expect_same(&inputs.list[i], &c->inputs.list[i]);
  for (uint32_t i = 0; i < 2; i++)
    expect_same(&inputs.list[2].items[i], &c->inputs.list[2].items[i]);
  expect_same(&outputs.list[0], &c->outputs.list[0]);
  array_files_close(files);
}

static unsigned open_files(void) {
  unsigned n = 0;
  for (int fd = 0; fd < 200; fd++)
    n += fcntl(fd, F_GETFD) >= 0;
  return n;
}

static void test_written_and_read(void **state) {
  (void)state;
  struct arrays inputs, outputs;
  struct err err = {0};
  const unsigned open_before = open_files();
  sample(&inputs, &outputs);
  assert_int_equal(array_files_write_case(folder, 0, &inputs, &outputs, &err), 0);
  expect_case(folder);
  assert_int_equal(array_files_write_case(folder, 0, &inputs, &outputs, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  expect_case(folder);
  assert_int_equal(open_files(), open_before);
  assert_int_equal(remove_names(folder), 1);
}

// The nth call fails, for every n: a whole case or none, nothing left beside it, nothing open.
static void test_failing_calls(void **state) {
  (void)state;
  struct arrays inputs, outputs;
  sample(&inputs, &outputs);
  const unsigned open_before = open_files();
  unsigned failed = 0;
  for (unsigned n = 1;; n++) {
    char spec[32];
    struct err err = {0};
    snprintf(spec, sizeof spec, "EIO:*:%u", n);
    fs_fault_install(spec);
    const int bad = array_files_write_case(folder, 0, &inputs, &outputs, &err);
    const bool reached = fs_fault_calls() >= n;
    fs_fault_remove();
    assert_int_equal(open_files(), open_before);
    failed += bad != 0;
    char set[100];
    snprintf(set, sizeof set, "%s/test_data_set_0", folder);
    const bool there = access(set, F_OK) == 0;
    assert_true(there || bad);
    if (there) expect_case(folder);
    assert_int_equal(remove_names(folder), there);
    if (!reached) break;
  }
  assert_true(failed > 10);
}

// What a killed run left does not disturb the next.
static void test_left_over(void **state) {
  (void)state;
  struct arrays inputs, outputs;
  struct err err = {0};
  char path[120];
  snprintf(path, sizeof path, "%s/.test_data_set_0.weir", folder);
  assert_int_equal(mkdir(path, 0700), 0);
  snprintf(path, sizeof path, "%s/.test_data_set_0.weir/input_9.pb", folder);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fclose(f);
  sample(&inputs, &outputs);
  assert_int_equal(array_files_write_case(folder, 0, &inputs, &outputs, &err), 0);
  expect_case(folder);
  assert_int_equal(remove_names(folder), 1);
}

static void make(const char *name) {
  char path[200];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  if (str_ends(name, "/")) {
    assert_int_equal(mkdir(path, 0700), 0);
    return;
  }
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fclose(f);
}

static void expect_names(uint32_t n, const char *const *names) {
  struct array_paths out;
  char path[200];
  assert_true(array_files_names(folder, n, &arena, &out));
  assert_int_equal(out.n, n);
  for (uint32_t i = 0; i < n; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    assert_string_equal(out.list[i], path);
  }
  if (n) assert_false(array_files_names(folder, n - 1, &arena, &out));
}

// As the reader chooses them, and nothing else of the folder.
static void test_names(void **state) {
  (void)state;
  static const char *const archives[] = {"a.npz", "b.npz"};
  static const char *const sets[] = {"test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb",
                                     "test_data_set_10/input_0.pb"};
  static const char *const messages[] = {"input_0.pb", "input_1.pb"};
  expect_names(0, NULL);
  make("out.onnx"), make(".staging.weir/"), make(".staging.weir/c.npz"), make("other/");
  make("other/d.npz"), make("b.npz"), make("a.npz"), make("c.npy"), make(".e.npz");
  expect_names(2, archives);
  make("test_data_set_0/"), make("test_data_set_0/input_0.pb"), make("test_data_set_0/more.npz");
  make("test_data_set_0/output_0.pb"), make("test_data_set_10/"), make("test_data_set_x/");
  make("test_data_set_10/input_0.pb"), make("test_data_set_x/input_0.pb");
  expect_names(3, sets);
  make("input_1.pb"), make("input_0.pb"), make("input_.pb");
  expect_names(2, messages);
  remove_names(folder);
}

int test_array_files(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_array),
      cmocka_unit_test(test_settle),
      cmocka_unit_test(test_written_and_read),
      cmocka_unit_test(test_failing_calls),
      cmocka_unit_test(test_left_over),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
