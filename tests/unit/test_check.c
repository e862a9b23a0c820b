// What check_structure says of models that are framed well and make no sense; and what it must
// not say of those that do.
#include "pb_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct pb_home home;

static int set_up(void **state) {
  pb_home_open(&home);
  *state = &home;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pb_home_close(&home);
  return 0;
}

// The model (freed) is refused with `why`, and reports it when all faults are collected.
static void expect_error(struct pb_home *h, struct pb p, const char *why) {
  if (pb_home_load(h, &p) == 0) fail_msg("loads, though: %s", why);
  if (!strstr(h->err.msg, why)) fail_msg("'%s' is not in: %s", why, h->err.msg);
  assert_int_equal(h->err.kind, ERR_MODEL);
  assert_int_equal(pb_home_collect(h, &p), 0);
  if (!strstr(h->faults, why)) fail_msg("not collected: %s", h->faults);
  pb_free(&p);
}

// The model (freed) loads; collected, it reports `what` (NULL: nothing at all).
static void expect_report(struct pb_home *h, struct pb p, const char *what) {
  if (pb_home_load(h, &p)) fail_msg("%s", h->err.msg);
  assert_int_equal(pb_home_collect(h, &p), 0);
  if (!what)
    assert_string_equal(h->faults, "");
  else if (!strstr(h->faults, what))
    fail_msg("'%s' is not in: %s", what, h->faults);
  assert_null(strstr(h->faults, "error "));
  pb_free(&p);
}

static void tensor(struct pb *g, const char *name) {
  struct pb t = {0};
  pb_varint(&t, 1, 1);
  pb_varint(&t, 2, DTYPE_UINT8);
  pb_text(&t, 8, name);
  pb_bytes(&t, 9, "x", 1);
  pb_message(g, 5, &t);
}

// if (c) with a branch that holds one node `op` from a to `out`
static void branch_node(struct pb *g, const char *a, const char *out, const char *result) {
  struct pb branch = {0}, attr = {0}, node = {0};
  pb_node(&branch, "Neg", a, NULL, out);
  pb_io(&branch, 12, out);
  pb_text(&attr, 1, "then_branch");
  pb_message(&attr, 6, &branch);
  pb_varint(&attr, 20, ATTR_GRAPH);
  pb_text(&node, 1, "x");
  pb_text(&node, 2, result);
  pb_text(&node, 3, "branching");
  pb_text(&node, 4, "If");
  pb_message(&node, 5, &attr);
  pb_message(g, 1, &node);
}

static void test_sound_models_are_silent(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  expect_report(h, pb_model(&g), NULL);
  pb_node(&g, "Neg", "x", NULL, "a");
  branch_node(&g, "a", "inner", "b");
  branch_node(&g, "b", "inner", "y"); // the same name in two branches is two values
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  expect_report(h, pb_model(&g), NULL);
}

static void test_values_made_twice(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  pb_node(&g, "Neg", "x", NULL, "y");
  expect_error(h, pb_model(&g), "value 'y' is defined twice");
  pb_identity(&g);
  tensor(&g, "w");
  tensor(&g, "w");
  expect_error(h, pb_model(&g), "value 'w' is defined twice, the second time by an initializer");
  pb_identity(&g);
  tensor(&g, "y");
  expect_error(h, pb_model(&g), "value 'y' is defined twice");
  pb_identity(&g);
  pb_node(&g, "Neg", "x", NULL, "x");
  expect_error(h, pb_model(&g), "value 'x' is defined twice, the second time by a graph input");
  pb_identity(&g);
  pb_io(&g, 11, "x");
  expect_error(h, pb_model(&g), "value 'x' is defined twice");
}

static void test_initializers_that_are_inputs(void **state) {
  struct pb_home *h = *state;
  for (int first = 0; first < 2; first++) {
    struct pb g = {0};
    pb_identity(&g);
    if (first) pb_io(&g, 11, "w");
    tensor(&g, "w");
    if (!first) pb_io(&g, 11, "w");
    expect_report(h, pb_model(&g), "note model: 1 initializer is also a graph input (the first");
  }
}

static void test_undefined(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  pb_node(&g, "Neg", "ghost", NULL, "z");
  expect_error(h, pb_model(&g), "node g0/n1 (Neg): its input 'ghost' is not produced by any node");
  pb_identity(&g);
  pb_io(&g, 12, "ghost");
  expect_error(h, pb_model(&g), "graph 'g': its output 'ghost' is not produced by any node");
  pb_identity(&g); // what a branch makes is not seen outside
  branch_node(&g, "x", "inner", "r");
  pb_node(&g, "Neg", "inner", NULL, "z");
  expect_error(h, pb_model(&g), "its input 'inner' is not produced by any node");
  pb_identity(&g);
  struct pb node = {0};
  pb_text(&node, 1, "x");
  pb_message(&g, 1, &node);
  expect_error(h, pb_model(&g), "has no op_type");
}

static void test_cycles(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  pb_node(&g, "Neg", "a", NULL, "a");
  expect_error(h, pb_model(&g), "node g0/n1 (Neg): is part of a cycle of 1 node");
  pb_identity(&g);
  pb_node(&g, "Neg", "c", NULL, "a");
  pb_node(&g, "Abs", "a", NULL, "b");
  pb_node(&g, "Exp", "b", NULL, "c");
  pb_node(&g, "Log", "c", NULL, "behind"); // not part of it
  expect_error(h, pb_model(&g), "is part of a cycle of 3 nodes");
  assert_null(strstr(h->faults, "Log"));
  pb_identity(&g);
  pb_node(&g, "Neg", "r", NULL, "a");
  branch_node(&g, "a", "inner", "r"); // through a subgraph
  expect_error(h, pb_model(&g), "is part of a cycle of 2 nodes");
}

static void test_a_hidden_name_is_a_warning(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_node(&g, "Relu", "x", NULL, "seen");
  branch_node(&g, "seen", "inside", "y");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  expect_report(h, pb_model(&g), NULL);
  pb_node(&g, "Relu", "x", NULL, "seen");
  branch_node(&g, "x", "seen", "y");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  expect_report(h, pb_model(&g),
                "its output 'seen' reuses the name of a value of the enclosing graph");
}

// What comes later outside is not there yet: the If's own output, above all.
static void test_a_name_taken_later_is_not_hidden(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  branch_node(&g, "x", "y", "y");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  expect_report(h, pb_model(&g), NULL);
  branch_node(&g, "x", "later", "y");
  pb_node(&g, "Relu", "y", NULL, "later");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "later");
  expect_report(h, pb_model(&g), NULL);
}

static void test_unsorted_is_a_warning(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_node(&g, "Abs", "a", NULL, "y");
  pb_node(&g, "Neg", "x", NULL, "a");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  expect_report(h, pb_model(&g), "warning node g0/n0 (Abs): comes before node g0/n1 (Neg)");
  branch_node(&g, "a", "inner", "y"); // uses what comes later, inside
  pb_node(&g, "Neg", "x", NULL, "a");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  expect_report(h, pb_model(&g), "warning node 'branching' (If): comes before");
}

static struct pb function(const char *domain, const char *name, const char *calls) {
  struct pb f = {0}, node = {0}, opset = {0};
  pb_text(&f, 1, name);
  pb_text(&f, 4, "a");
  pb_text(&f, 5, "b");
  pb_text(&f, 10, domain);
  pb_text(&node, 1, "a");
  pb_text(&node, 2, "b");
  pb_text(&node, 4, calls);
  pb_text(&node, 7, domain);
  pb_message(&f, 7, &node);
  pb_text(&opset, 1, domain);
  pb_varint(&opset, 2, 1);
  pb_message(&f, 9, &opset);
  return f;
}

static void test_functions(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, f;
  pb_identity(&g);
  struct pb p = pb_model(&g);
  f = function("d", "A", "B");
  pb_message(&p, 25, &f);
  f = function("d", "B", "Builtin");
  pb_message(&p, 25, &f);
  expect_report(h, p, NULL);
  pb_identity(&g);
  p = pb_model(&g);
  f = function("d", "A", "B");
  pb_message(&p, 25, &f);
  f = function("d", "B", "A");
  pb_message(&p, 25, &f);
  expect_error(h, p, "calls itself, through 2 functions");
  pb_identity(&g);
  p = pb_model(&g);
  for (int i = 0; i < 2; i++) {
    f = function("d", "A", "Builtin");
    pb_message(&p, 25, &f);
  }
  expect_error(h, p, "function 'A' of domain 'd' is defined twice");
}

static void test_imports(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, node = {0}, p = {0};
  pb_identity(&g);
  pb_varint(&p, 1, 9);
  pb_message(&p, 7, &g);
  expect_error(h, p, "it imports no operator set");
  pb_identity(&g);
  pb_text(&node, 3, "odd");
  pb_text(&node, 4, "Op");
  pb_text(&node, 7, "far.away");
  pb_message(&g, 1, &node);
  expect_report(h, pb_model(&g), "warning node 'odd' (Op): its operator domain 'far.away'");
}

// ---- extents ------------------------------------------------------------------------------------

static void range(struct pb *g, const char *name, enum dtype dtype, uint64_t elements,
                  const char *offset) {
  struct pb t = {0};
  pb_varint(&t, 1, elements);
  pb_varint(&t, 2, dtype);
  pb_text(&t, 8, name);
  pb_varint(&t, 14, 1);
  pb_entry(&t, 13, "location", "w.bin");
  pb_entry(&t, 13, "offset", offset);
  pb_message(g, 5, &t);
}

static void test_extents(void **state) {
  struct pb_home *h = *state;
  static const uint8_t bytes[64];
  pb_home_write(h, "w.bin", bytes, sizeof bytes);
  struct pb g = {0};
  pb_identity(&g);
  range(&g, "a", DTYPE_UINT8, 32, "0");
  range(&g, "b", DTYPE_UINT8, 32, "32");
  expect_report(h, pb_model(&g), NULL);
  pb_identity(&g);
  range(&g, "a", DTYPE_UINT8, 64, "0");
  range(&g, "b", DTYPE_UINT8, 64, "0");
  expect_report(h, pb_model(&g), "note w.bin: 1 tensor shares bytes with another tensor");
  assert_null(strstr(h->faults, "overlaps"));
  pb_identity(&g);
  range(&g, "a", DTYPE_UINT8, 40, "0");
  range(&g, "b", DTYPE_UINT8, 32, "32");
  expect_report(h, pb_model(&g),
                "warning w.bin: tensor 'a' (bytes 0..40) overlaps tensor 'b' (bytes 32..64)");
  pb_identity(&g);
  range(&g, "a", DTYPE_UINT8, 8, "0");
  range(&g, "b", DTYPE_UINT8, 8, "48");
  expect_report(h, pb_model(&g), "note w.bin: 48 of 64 bytes are not used by any tensor");
  pb_identity(&g);
  range(&g, "a", DTYPE_FLOAT, 4, "2");
  expect_report(h, pb_model(&g), "1 tensor begins at an offset that is not a multiple");
}

// All faults of one model are found in one go.
static void test_collects_everything(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_identity(&g);
  pb_node(&g, "Neg", "ghost", NULL, "y");
  pb_node(&g, "Neg", "loop", NULL, "loop");
  range(&g, "a", DTYPE_FLOAT, 4, "zero");
  struct pb p = pb_model(&g);
  assert_int_equal(pb_home_collect(h, &p), 0);
  static const char *const all[] = {"defined twice", "not produced by any node", "cycle",
                                    "not a decimal number"};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    if (!strstr(h->faults, all[i])) fail_msg("'%s' is not in: %s", all[i], h->faults);
  pb_free(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int test_check(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_sound_models_are_silent),
      TEST(test_values_made_twice),
      TEST(test_initializers_that_are_inputs),
      TEST(test_undefined),
      TEST(test_cycles),
      TEST(test_a_hidden_name_is_a_warning),
      TEST(test_a_name_taken_later_is_not_hidden),
      TEST(test_unsorted_is_a_warning),
      TEST(test_functions),
      TEST(test_imports),
      TEST(test_extents),
      TEST(test_collects_everything),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
