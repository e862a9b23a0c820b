// What the kit knows of constants: numbers of every type, vectors that are read, fills, questions
// about all elements, and small integers through chains of operators.
#include "pass_bench.h"
#include "passes/kit/inside/kit_inside.h"

#include <math.h>
#include <stdio.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static uint32_t value(struct pass_bench *t, const char *name) {
  const uint32_t v = model_value_in(&t->m, t->m.main_graph, model_find_name(&t->m, span_str(name)));
  assert_int_not_equal(v, NO_ID);
  return v;
}

static char log_text[4096];
static int keep_line(void *ctx, struct span line) {
  (void)ctx;
  const size_t n = strlen(log_text);
  assert_true(n + line.n < sizeof log_text);
  memcpy(log_text + n, line.at, line.n);
  log_text[n + line.n] = 0;
  return 0;
}

static void start(struct pass_bench *t, struct kit *k) {
  pass_bench_ready(t);
  log_text[0] = 0;
  t->e.sink = keep_line;
  kit_init(k, &t->env, "test");
}

static void stop(struct kit *k) {
  struct err err = {0};
  assert_int_equal(kit_done(k, &err), 0);
}

// ---- numbers -------------------------------------------------------------------------------------

static void round_trip(enum dtype dtype, double x, double wanted) {
  uint8_t raw[8];
  struct kit_number out;
  assert_true(kit_number_put(dtype, x, raw) > 0);
  assert_true(kit_number_at(dtype, raw, 0, &out));
  if (isnan(wanted) ? !isnan(out.d) : out.d != wanted || signbit(out.d) != signbit(wanted))
    fail_msg("%s: %a became %a, not %a", dtype_name(dtype), x, out.d, wanted);
}

static void test_numbers(void **state) {
  (void)state;
  round_trip(DTYPE_FLOAT, 0.1, 0.1f);
  round_trip(DTYPE_FLOAT, -0.0, -0.0);
  round_trip(DTYPE_FLOAT, 1e39, INFINITY);
  round_trip(DTYPE_FLOAT, 0x1.fffffefp127, 0x1.fffffep127); // below the tie to infinity
  round_trip(DTYPE_FLOAT, 0x1.ffffffp127, INFINITY);
  round_trip(DTYPE_FLOAT, 0x1p-149, 0x1p-149);
  round_trip(DTYPE_FLOAT, 0x1p-150, 0); // a tie, to even
  round_trip(DTYPE_FLOAT, NAN, NAN);
  round_trip(DTYPE_FLOAT16, 65504, 65504);
  round_trip(DTYPE_FLOAT16, 65520, INFINITY);
  round_trip(DTYPE_FLOAT16, 0x1.002p0, 1); // half a unit, to even
  round_trip(DTYPE_FLOAT16, 0x1.006p0, 0x1.008p0);
  round_trip(DTYPE_FLOAT16, 0x1p-24, 0x1p-24);
  round_trip(DTYPE_FLOAT16, 0x1.fffp-15, 0x1p-14); // carries into the normals
  round_trip(DTYPE_FLOAT16, -INFINITY, -INFINITY);
  round_trip(DTYPE_BFLOAT16, 0x1.01p0, 1);
  round_trip(DTYPE_BFLOAT16, 3e38, 0x1.c4p127);
  round_trip(DTYPE_DOUBLE, 0.1, 0.1);
  round_trip(DTYPE_INT8, 300, 127);
  round_trip(DTYPE_INT8, -300, -128);
  round_trip(DTYPE_INT8, 2.5, 2);
  round_trip(DTYPE_UINT8, -1, 0);
  round_trip(DTYPE_INT64, 1e30, 0x1p63);
  round_trip(DTYPE_INT64, -1e30, -0x1p63);
  round_trip(DTYPE_UINT64, 1e30, 0x1p64);
  round_trip(DTYPE_INT4, -8, -8);
  round_trip(DTYPE_INT4, 9, 7);
  round_trip(DTYPE_UINT2, 3, 3);
  round_trip(DTYPE_BOOL, 7, 1);
  struct kit_number x;
  const uint8_t packed[] = {0x9c, 0x07}; // int4: -4, -7, 7
  assert_true(kit_number_at(DTYPE_INT4, packed, 0, &x) && x.exact && x.i == -4);
  assert_true(kit_number_at(DTYPE_INT4, packed, 1, &x) && x.i == -7);
  assert_true(kit_number_at(DTYPE_INT4, packed, 2, &x) && x.i == 7);
  const uint64_t large = UINT64_MAX;
  assert_true(kit_number_at(DTYPE_UINT64, (const uint8_t *)&large, 0, &x) && !x.exact);
  assert_false(kit_number_at(DTYPE_COMPLEX64, (const uint8_t *)&large, 0, &x));
}

// ---- constants -----------------------------------------------------------------------------------

static void test_constants(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  double d;
  int64_t i;
  const int64_t *ints;
  const double *floats;
  uint32_t n;
  struct kit_number x;
  build_floats(&t->b, "half", "1,1", (float[]){0.5f});
  build_floats(&t->b, "ones", "3", (float[]){1, 1, 1});
  build_floats(&t->b, "zeros", "2", (float[]){0, -0.0f});
  build_floats(&t->b, "mixed", "3", (float[]){1, 1, 2});
  build_floats(&t->b, "nan", "1", (float[]){NAN});
  build_floats(&t->b, "none", "0", (float[]){0});
  build_ints(&t->b, "axes", "2", (const int64_t[]){3, -1});
  build_input(&t->b, "given", DTYPE_FLOAT, "1");
  build_node(&t->b, "Identity", "", "ones", "passed");
  build_floats(&t->b, "free", "1", (float[]){1});
  build_input(&t->b, "free", DTYPE_FLOAT, "1");
  pass_bench_large(t, "large", DTYPE_FLOAT, "1024,1024");
  start(t, &k);
  assert_true(kit_const_scalar(&k, value(t, "half"), &d) && d == 0.5);
  assert_false(kit_const_int(&k, value(t, "half"), &i));
  assert_false(kit_const_scalar(&k, value(t, "ones"), &d)); // three of them
  assert_false(kit_const_scalar(&k, NO_ID, &d));
  assert_int_equal(kit_const_all(&k, value(t, "ones"), 1), KIT_YES);
  assert_int_equal(kit_const_all(&k, value(t, "passed"), 1), KIT_YES);
  assert_int_equal(kit_const_all(&k, value(t, "ones"), 2), KIT_NO);
  assert_int_equal(kit_const_all(&k, value(t, "mixed"), 1), KIT_NO);
  assert_int_equal(kit_const_all(&k, value(t, "zeros"), 0), KIT_YES);
  assert_int_equal(kit_const_fill(&k, value(t, "zeros"), &x), KIT_NO); // other bits
  assert_int_equal(kit_const_fill(&k, value(t, "ones"), &x), KIT_YES);
  assert_true(x.exact && x.i == 1 && x.dtype == DTYPE_FLOAT);
  assert_int_equal(kit_const_all(&k, value(t, "nan"), (double)NAN), KIT_NO);
  assert_int_equal(kit_const_all(&k, value(t, "none"), 1), KIT_NO);
  assert_int_equal(kit_const_all(&k, value(t, "given"), 1), KIT_NO);
  assert_int_equal(kit_const_all(&k, value(t, "free"), 1), KIT_NO); // somebody may give another
  assert_int_equal(kit_const_all(&k, value(t, "large"), 1), KIT_MAYBE);
  assert_true(kit_const_ints(&k, value(t, "axes"), &ints, &n) && n == 2 && ints[1] == -1);
  assert_false(kit_const_ints(&k, value(t, "ones"), &ints, &n));
  assert_true(kit_const_floats(&k, value(t, "mixed"), &floats, &n) && n == 3 && floats[2] == 2);
  // A fill of any size.
  const int64_t dims[] = {1 << 20, 1 << 10};
  const uint16_t half = 0x3800;
  kit_site(&k, NO_ID, "fill");
  const uint32_t fill = kit_new_tensor(
      &k, "fill", recipe_fill(&t->r, DTYPE_FLOAT16, dims, 2, span_of(&half, sizeof half)));
  assert_int_equal(kit_const_all(&k, fill, 0.5), KIT_YES);
  assert_int_equal(kit_const_fill(&k, fill, &x), KIT_YES);
  assert_int_equal(kit_const_all(&k, fill, 0.25), KIT_NO);
  stop(&k);
}

// ---- reading -------------------------------------------------------------------------------------

struct shelf {
  const struct model *m;
  uint32_t reads;
  bool fails;
};

// Element i of any tensor is i + 1.
static int read_shelf(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err) {
  struct shelf *s = ctx;
  s->reads++;
  if (s->fails) return err_set(err, ERR_INPUT, "the file is gone");
  assert_int_equal(s->m->tensors[tensor].bytes, n);
  for (size_t i = 0; i < n / 4; i++) {
    const float x = (float)i + 1;
    memcpy(out + 4 * i, &x, 4);
  }
  return 0;
}

static void test_read(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  const double *x;
  uint32_t n;
  struct shelf shelf = {.m = &t->m};
  pass_bench_large(t, "gamma", DTYPE_FLOAT, "512");
  pass_bench_large(t, "matrix", DTYPE_FLOAT, "512,1");
  pass_bench_large(t, "long", DTYPE_FLOAT, "16385");
  build_floats(&t->b, "small", "1", (float[]){1});
  start(t, &k);
  const uint32_t gamma = value(t, "gamma");
  assert_false(kit_const_floats(&k, gamma, &x, &n)); // nobody can read
  assert_int_equal(kit_const_all(&k, gamma, 1), KIT_MAYBE);
  t->env.read = read_shelf;
  t->env.read_ctx = &shelf;
  assert_true(kit_const_floats(&k, gamma, &x, &n) && n == 512 && x[511] == 512);
  assert_int_equal(kit_const_all(&k, gamma, 1), KIT_NO);
  assert_false(kit_const_floats(&k, value(t, "matrix"), &x, &n));
  assert_false(kit_const_floats(&k, value(t, "long"), &x, &n));
  assert_true(kit_const_floats(&k, value(t, "small"), &x, &n));
  assert_int_equal(shelf.reads, 1);
  stop(&k);
  assert_non_null(strstr(log_text, "{\"edit\":\"look\",\"tensor\":\"g0/t0:gamma\",\"sha256\":\""));
  assert_int_equal(t->e.n, 0);
  // Another pass reads again, and the log has it once.
  kit_init(&k, &t->env, "next");
  assert_true(kit_const_floats(&k, gamma, &x, &n));
  stop(&k);
  assert_int_equal(shelf.reads, 2);
  assert_null(strstr(strchr(log_text, '\n') + 1, "look"));
  // What was replaced is looked at anew.
  kit_init(&k, &t->env, "replaced");
  assert_true(kit_const_floats(&k, gamma, &x, &n));
  assert_int_equal(shelf.reads, 3);
  edit_replace_tensor(&t->e, 0, edit_tensor_recipe_as(&t->e, 2, (const int64_t[]){16385}, 1));
  edit_replace_tensor(&t->e, 0, edit_tensor_recipe_as(&t->e, 1, (const int64_t[]){512}, 1));
  assert_true(kit_const_floats(&k, gamma, &x, &n));
  assert_int_equal(shelf.reads, 4);
  assert_non_null(strstr(strchr(log_text, '\n') + 1, "\"look\""));
  stop(&k);
}

// A small vector made of a large weight would cost a read of all of it.
static void test_read_is_cheap(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  const double *x;
  uint32_t n;
  struct shelf shelf = {.m = &t->m};
  const int64_t starts[] = {0}, steps[] = {1}, dims[] = {512};
  pass_bench_large(t, "medium", DTYPE_FLOAT, "4096");
  pass_bench_large(t, "huge", DTYPE_FLOAT, "1048576");
  start(t, &k);
  t->env.read = read_shelf;
  t->env.read_ctx = &shelf;
  kit_site(&k, NO_ID, "slices");
  const uint32_t some = kit_new_tensor(
      &k, "some", recipe_cast(&t->r, kit_recipe(&k, value(t, "medium")), DTYPE_FLOAT16));
  const uint32_t part = kit_new_tensor(
      &k, "part",
      recipe_cast(&t->r, recipe_slice(&t->r, kit_recipe(&k, value(t, "huge")), starts, steps, dims),
                  DTYPE_DOUBLE));
  assert_true(kit_const_floats(&k, some, &x, &n) && n == 4096);
  assert_false(kit_const_floats(&k, part, &x, &n));
  assert_int_equal(shelf.reads, 1);
  stop(&k);
}

static void test_read_fails(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  struct err err = {0};
  const double *x;
  uint32_t n;
  struct shelf shelf = {.m = &t->m, .fails = true};
  pass_bench_large(t, "gamma", DTYPE_FLOAT, "512");
  pass_bench_large(t, "beta", DTYPE_FLOAT, "512");
  start(t, &k);
  t->env.read = read_shelf;
  t->env.read_ctx = &shelf;
  assert_false(kit_const_floats(&k, value(t, "gamma"), &x, &n));
  assert_false(kit_const_floats(&k, value(t, "beta"), &x, &n));
  assert_int_equal(shelf.reads, 1); // the run is lost
  assert_int_equal(kit_done(&k, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  assert_string_equal(log_text, "");
}

// ---- chains --------------------------------------------------------------------------------------

static void is_list(struct pass_bench *t, struct kit *k, const char *name, const char *wanted) {
  const int64_t *list;
  uint32_t n;
  char text[256] = "?";
  if (kit_const_ints(k, value(t, name), &list, &n)) {
    text[0] = 0;
    for (uint32_t i = 0; i < n; i++)
      snprintf(text + strlen(text), sizeof text - strlen(text), i ? " %lld" : "%lld",
               (long long)list[i]);
  }
  if (strcmp(text, wanted) != 0) fail_msg("%s: '%s', not '%s'", name, text, wanted);
}

static void op(struct pass_bench *t, const char *type, const char *in, const char *out) {
  build_node(&t->b, type, "", in, out);
}

static void with_int(struct pass_bench *t, const char *type, const char *in, const char *out,
                     const char *attr, int64_t x) {
  build_attr_int(&t->b, build_node(&t->b, type, "", in, out), attr, x);
}

static void ints(struct pass_bench *t, const char *name, int64_t x, int64_t y) {
  build_ints(&t->b, name, "2", (const int64_t[]){x, y});
}

static void test_chains(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "N,3,224,8");
  build_ints(&t->b, "two", "", (const int64_t[]){2});
  build_ints(&t->b, "one", "1", (const int64_t[]){1});
  build_ints(&t->b, "none", "1", (const int64_t[]){-1});
  build_ints(&t->b, "zero", "1", (const int64_t[]){0});
  build_ints(&t->b, "least", "1", (const int64_t[]){INT64_MIN});
  build_ints(&t->b, "five", "", (const int64_t[]){5});
  build_ints(&t->b, "six", "6", (const int64_t[]){1, 2, 3, 4, 5, 6});
  ints(t, "pair", 2, 3);
  ints(t, "turn", -1, 2);
  op(t, "Shape", "x", "shape");
  with_int(t, "Shape", "x", "tail", "start", -2);
  op(t, "Gather", "shape two", "height");
  op(t, "Gather", "shape zero", "batch");
  with_int(t, "Squeeze", "one", "plain", "unused", 0);
  build_attr_ints(&t->b, build_node(&t->b, "Unsqueeze", "", "height", "row"), "axes", "0");
  with_int(t, "Concat", "row one", "joined", "axis", 0);
  op(t, "Div", "joined two", "half");
  with_int(t, "Cast", "half", "half32", "to", DTYPE_INT32);
  op(t, "Slice", "shape one two none", "wrong"); // axes -1: fine on a vector
  op(t, "Slice", "six none least zero none", "reversed");
  op(t, "Reshape", "six turn", "grid");
  op(t, "Transpose", "grid", "turned");
  op(t, "Reshape", "turned none", "flat");
  op(t, "Slice", "grid one pair zero", "odd"); // lists of unequal length
  op(t, "Add", "pair one", "more");
  op(t, "Sub", "least one", "past");
  op(t, "Div", "pair zero", "over");
  build_tensor(&t->b, "most32", DTYPE_INT32, "2", (const int32_t[]){INT32_MAX, 4});
  build_tensor(&t->b, "one32", DTYPE_INT32, "1", (const int32_t[]){1});
  op(t, "Add", "most32 one32", "over32");
  op(t, "Sub", "most32 one32", "under32");
  op(t, "Mul", "pair pair", "square");
  op(t, "Min", "pair two six2", "least2");
  op(t, "Neg", "turn", "neg");
  op(t, "Abs", "turn", "abs");
  op(t, "Range", "zero2 five two", "range");
  build_ints(&t->b, "zero2", "", (const int64_t[]){0});
  build_ints(&t->b, "six2", "2", (const int64_t[]){0, 9});
  op(t, "Equal", "turn none", "equal");
  op(t, "Where", "equal one turn", "where");
  build_attr_tensor(&t->b, build_node(&t->b, "ConstantOfShape", "", "pair", "sevens"), "value",
                    DTYPE_INT64, "1", (const int64_t[]){7});
  op(t, "Expand", "one pair", "wide");
  op(t, "Size", "w", "size");
  build_floats(&t->b, "w", "4,5", (float[20]){0});
  op(t, "Max", "half pair", "most");
  op(t, "Mul", "height height2", "late");
  start(t, &k);
  is_list(t, &k, "shape", "?"); // N
  is_list(t, &k, "tail", "224 8");
  is_list(t, &k, "height", "224");
  is_list(t, &k, "batch", "?");
  is_list(t, &k, "plain", "1");
  is_list(t, &k, "joined", "224 1");
  is_list(t, &k, "half", "112 0");
  is_list(t, &k, "half32", "112 0");
  is_list(t, &k, "wrong", "3");
  is_list(t, &k, "reversed", "6 5 4 3 2 1");
  is_list(t, &k, "flat", "1 3 5 2 4 6");
  is_list(t, &k, "odd", "?");
  is_list(t, &k, "more", "3 4");
  is_list(t, &k, "past", "?");
  is_list(t, &k, "over", "?");
  is_list(t, &k, "over32", "?");
  is_list(t, &k, "under32", "2147483646 3");
  is_list(t, &k, "square", "4 9");
  is_list(t, &k, "least2", "0 2");
  is_list(t, &k, "neg", "1 -2");
  is_list(t, &k, "abs", "1 2");
  is_list(t, &k, "range", "0 2 4");
  is_list(t, &k, "equal", "1 0");
  is_list(t, &k, "where", "1 2");
  is_list(t, &k, "sevens", "7 7 7 7 7 7");
  is_list(t, &k, "wide", "1 1 1 1 1 1");
  is_list(t, &k, "size", "20");
  is_list(t, &k, "most", "112 3");
  is_list(t, &k, "late", "?");
  stop(&k);
}

// What was not known becomes known with a type; what was, is not computed again.
static void test_chains_remember(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  int64_t x;
  build_input(&t->b, "x", DTYPE_FLOAT, NULL);
  build_ints(&t->b, "one", "", (const int64_t[]){1});
  op(t, "Shape", "x", "shape");
  op(t, "Gather", "shape one", "dim");
  op(t, "Add", "dim one", "more");
  start(t, &k);
  assert_false(kit_const_int(&k, value(t, "more"), &x));
  const int64_t dims[] = {4, 6};
  kit_note_type(&k, value(t, "x"), &(struct model_type){.ranked = true, .rank = 2, .sizes = dims});
  assert_true(kit_const_int(&k, value(t, "more"), &x) && x == 7);
  const uint64_t steps = k.in->chain_steps;
  assert_true(kit_const_int(&k, value(t, "more"), &x) && x == 7);
  assert_int_equal(k.in->chain_steps, steps);
  stop(&k);
}

// Neither a long chain nor a cycle is followed without end, and a question costs no more for it.
static void test_chains_bounded(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  int64_t x;
  char in[32], out[32];
  build_ints(&t->b, "one", "", (const int64_t[]){1});
  op(t, "Add", "b one", "a");
  op(t, "Add", "a one", "b");
  snprintf(in, sizeof in, "one one");
  for (int i = 0; i < 1000; i++) {
    snprintf(out, sizeof out, "s%d", i);
    op(t, "Add", in, out);
    snprintf(in, sizeof in, "s%d one", i);
  }
  start(t, &k);
  assert_false(kit_const_int(&k, value(t, "a"), &x));
  assert_true(kit_const_int(&k, value(t, "s20"), &x) && x == 22);
  assert_false(kit_const_int(&k, value(t, "s999"), &x));
  assert_true(k.in->chain_steps < 600);
  for (int i = 0; i < 1000; i += 20) { // step by step it is known
    snprintf(out, sizeof out, "s%d", i);
    t->e.n++; // the model may have changed: what was not known is looked at again
    assert_true(kit_const_int(&k, value(t, out), &x) && x == i + 2);
  }
  stop(&k);
}

int test_kit_constants(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers), TEST(test_constants),      TEST(test_read),
      TEST(test_read_fails),          TEST(test_read_is_cheap),  TEST(test_chains),
      TEST(test_chains_remember),     TEST(test_chains_bounded),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
