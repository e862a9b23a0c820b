// What check_operators says of nodes: where it looks (functions, bodies, imports of their own), what it lets be, and
// that it ends at the first error where nobody collects. What it finds is compared with the checker
// of onnx end to end.
#include "check/check.h"

#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct bench {
  struct model m;
  struct build b;
  struct err err;
  char faults[4096];
  uint32_t n;
};

static int setup(void **state) {
  static struct bench t;
  t = (struct bench){0};
  build_begin(&t.b, &t.m);
  build_input(&t.b, "x", DTYPE_FLOAT, "2,3");
  build_input(&t.b, "i", DTYPE_INT64, "2,3");
  build_input(&t.b, "anything", DTYPE_UNDEFINED, NULL);
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  model_free(&t->m);
  return 0;
}

static void collect(void *ctx, enum fault_level level, const char *place, const char *message,
                    const struct err *cause) {
  struct bench *t = ctx;
  const size_t at = strlen(t->faults);
  assert_null(cause);
  snprintf(t->faults + at, sizeof t->faults - at, "%d %s: %s\n", (int)level, place, message);
  t->n++;
}

static const char *faults_of(struct bench *t) {
  const struct fault_sink sink = {collect, t};
  t->faults[0] = 0;
  t->n = 0;
  assert_int_equal(check_operators(&t->m, &sink, &t->err), 0);
  return t->faults;
}

static void expect(struct bench *t, const char *what) {
  if (!strstr(faults_of(t), what)) fail_msg("'%s' is not in: %s", what, t->faults);
}

static void sound_nodes(void **state) {
  struct bench *t = *state;
  build_node(&t->b, "Add", "add", "x x", "a");
  build_node(&t->b, "Clip", "clip", "x - x", "b");
  build_node(&t->b, "Where", "where", "anything x x", "c");
  build_node(&t->b, "Concat", "concat", "x x x x x x", "d");
  build_attr_int(&t->b, t->m.n_nodes - 1, "axis", 0);
  build_attr_int(&t->b, t->m.n_nodes - 1, "__note", 0);
  assert_string_equal(faults_of(t), "");
}

static void the_first_error_ends_it(void **state) {
  struct bench *t = *state;
  build_node(&t->b, "Ad", "one", "x x", "a");
  build_node(&t->b, "Mull", "two", "x x", "b");
  faults_of(t);
  assert_int_equal(t->n, 2);
  assert_int_equal(check_operators(&t->m, NULL, &t->err), -1);
  assert_int_equal(t->err.kind, ERR_MODEL);
  assert_non_null(strstr(t->err.msg, "'one'"));
}

static void functions_are_no_operators(void **state) {
  struct bench *t = *state;
  const uint32_t call = build_node(&t->b, "Mine", "call", "x", "a");
  build_domain(&t->b, call, "local");
  expect(t, "1 node 'call' (Mine): weir does not know the operators of domain 'local'");
  assert_int_equal(t->n, 1);
  build_enter_function(&t->b, "local", "Mine", "p", "q");
  build_node(&t->b, "Gelu", "inside", "p", "q"); // the function imports a version of its own
  build_leave(&t->b);
  t->m.opsets[0].version = 20;
  expect(t,
         "2 node 'inside' (Gelu): operator 'Gelu' was added in opset 20 of ai.onnx, but opset 17");
  assert_int_equal(t->n, 1); // and the call has nothing to be said of
}

static void bodies_are_looked_at(void **state) {
  struct bench *t = *state;
  const uint32_t branch = build_node(&t->b, "If", "if", "anything", "a");
  build_enter(&t->b, branch, "then_branch", "then");
  build_node(&t->b, "Gelu", "inside", "x", "r");
  build_leave(&t->b);
  build_enter(&t->b, branch, "else_branch", "else");
  build_node(&t->b, "Relu", "other", "x", "r");
  build_leave(&t->b);
  expect(t,
         "2 node 'inside' (Gelu): operator 'Gelu' was added in opset 20 of ai.onnx, but opset 18");
  assert_int_equal(t->n, 1);
}

static void domains_are_said_once(void **state) {
  struct bench *t = *state;
  for (int k = 0; k < 6; k++)
    build_domain(&t->b, build_node(&t->b, "Foo", "", "x", "-"), k % 2 ? "one" : "two");
  faults_of(t);
  assert_int_equal(t->n, 2);
  t->m.opsets[0].version = 99;
  build_node(&t->b, "Relu", "", "x x x", "-");
  build_node(&t->b, "Relu", "", "x x x", "-");
  expect(t, "0 model: opset 99 of ai.onnx is newer than the newest that weir knows (28)");
  assert_int_equal(t->n, 3);
}

static void types_as_far_as_they_are_declared(void **state) {
  struct bench *t = *state;
  build_tensor(&t->b, "w", DTYPE_INT32, "3,1", (int32_t[]){1, 2, 3});
  build_node(&t->b, "MatMul", "one", "anything w", "a");
  assert_string_equal(faults_of(t), "");
  build_node(&t->b, "MatMul", "two", "x w", "b");
  expect(t, "2 node 'two' (MatMul): 'x' is float and 'w' is int32, but MatMul needs them to have "
            "the same type");
  assert_int_equal(t->n, 1);
  build_node(&t->b, "Sin", "three", "i", "c");
  expect(t, "'i' is int64, but 'input' of Sin must be float, float16 or double");
  build_value_info(&t->b, "a", DTYPE_BOOL, "1");
  expect(t, "node 'one' (MatMul): its output 'a' is bool, but 'Y' of MatMul must be float, ");
}

int test_check_operators(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(sound_nodes),
      TEST(the_first_error_ends_it),
      TEST(functions_are_no_operators),
      TEST(bodies_are_looked_at),
      TEST(domains_are_said_once),
      TEST(types_as_far_as_they_are_declared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
