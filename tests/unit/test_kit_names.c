// The giver of names: what counts as taken in each space, families, reserving, and the cost of a
// million wishes for one name.
#include "pass_bench.h"
#include "passes/kit/kit_names.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static void is_name(struct span name, const char *wanted) {
  if (!span_is(name, wanted)) fail_msg("'%s', not '%s'", quote(name).s, wanted);
}

static struct span from(struct kit_names *n, enum kit_space space, uint32_t graph,
                        const char *wanted, struct arena *a) {
  return kit_names_free(n, space, graph, span_str(wanted), a);
}

static void test_spaces(void **state) {
  struct pass_bench *t = *state;
  struct kit_names n;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  const uint32_t fc = build_node(&t->b, "Relu", "fc", "x", "y");
  const uint32_t branch = build_node(&t->b, "If", "branch", "y", "out");
  build_enter(&t->b, branch, "then_branch", "then");
  const uint32_t body = t->b.graph;
  build_node(&t->b, "Neg", "inner", "y", "inside");
  build_leave(&t->b);
  pass_bench_ready(t);
  kit_names_init(&n, &t->m);
  struct arena *a = &t->arena;
  is_name(from(&n, KIT_EVERYWHERE, 0, "new", a), "new");
  is_name(from(&n, KIT_EVERYWHERE, 0, "fc", a), "fc_1");         // a node's
  is_name(from(&n, KIT_EVERYWHERE, 0, "inside", a), "inside_1"); // in another graph
  is_name(from(&n, KIT_EVERYWHERE, 0, "Relu", a), "Relu_1");     // any text of the model
  is_name(from(&n, KIT_VALUES, 0, "fc", a), "fc");               // no value's
  is_name(from(&n, KIT_VALUES, 0, "inside", a), "inside_1");
  is_name(from(&n, KIT_NODES, 0, "y", a), "y");
  is_name(from(&n, KIT_NODES, 0, "fc", a), "fc_1");
  is_name(from(&n, KIT_NODES, body, "fc", a), "fc"); // in each graph for itself
  is_name(from(&n, KIT_NODES, body, "inner", a), "inner_1");
  is_name(from(&n, KIT_NODES, 0, "", a), "");
  // The number goes on in its space, and not in another's.
  is_name(from(&n, KIT_EVERYWHERE, 0, "fc", a), "fc_2");
  is_name(from(&n, KIT_NODES, 0, "fc", a), "fc_2");
  // A node that goes, or is gone, or comes.
  kit_names_leave(&n, branch);
  is_name(from(&n, KIT_NODES, 0, "branch", a), "branch");
  edit_remove_node(&t->e, fc);
  is_name(from(&n, KIT_NODES, 0, "fc", a), "fc");
  const struct edit_output out = {NO_ID, span_str("late")};
  const struct edit_node spec = {
      .before = NO_ID, .name = span_str("fc"), .op_type = span_str("Neg"), .out = &out, .n_out = 1};
  edit_add_node(&t->e, &spec);
  is_name(from(&n, KIT_NODES, 0, "fc", a), "fc_3");
  is_name(from(&n, KIT_VALUES, 0, "late", a), "late_1");
  kit_names_done(&n);
}

static void test_reserved(void **state) {
  struct pass_bench *t = *state;
  struct kit_names n;
  pass_bench_ready(t);
  kit_names_init(&n, &t->m);
  const uint32_t names = t->m.n_name_at;
  struct arena *a = &t->arena;
  is_name(kit_names_take(&n, KIT_EVERYWHERE, 0, span_str("w"), a), "w");
  is_name(from(&n, KIT_EVERYWHERE, 0, "w", a), "w_1"); // given, not taken
  is_name(kit_names_take(&n, KIT_VALUES, 0, span_str("w"), a), "w_1");
  is_name(from(&n, KIT_NODES, 0, "w", a), "w_2");
  kit_names_reserve(&n, span_str("v"));
  is_name(from(&n, KIT_VALUES, 0, "v", a), "v_1");
  assert_int_equal(t->m.n_name_at, names); // nothing is interned
  kit_names_done(&n);
}

static void test_family(void **state) {
  static const char *const suffixes[] = {"_q", "_scale", "_zero"};
  struct pass_bench *t = *state;
  struct kit_names n;
  build_input(&t->b, "w_scale", DTYPE_FLOAT, "2");
  build_input(&t->b, "w_1_zero", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  kit_names_init(&n, &t->m);
  struct arena *a = &t->arena;
  const struct span w = span_str("w"), v = span_str("v");
  is_name(kit_names_family(&n, KIT_EVERYWHERE, 0, v, suffixes, 3, a), "v");
  is_name(kit_names_family(&n, KIT_EVERYWHERE, 0, w, suffixes, 3, a), "w_2");
  is_name(kit_names_family(&n, KIT_EVERYWHERE, 0, w, suffixes, 1, a), "w"); // w_q alone is free
  is_name(kit_names_join(span_str("w_2"), "_q", a), "w_2_q");
  kit_names_done(&n);
}

// Steps are counted: each name given costs a bounded number of looks, whoever asked before.
static void test_linear(void **state) {
  static const char *const suffixes[] = {"_q", "_s"};
  struct pass_bench *t = *state;
  struct kit_names n;
  enum { MANY = 100000 };
  build_input(&t->b, "w", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  kit_names_init(&n, &t->m);
  for (uint32_t i = 0; i < MANY; i++)
    kit_names_take(&n, KIT_EVERYWHERE, 0, span_str("w"), &t->arena);
  is_name(from(&n, KIT_EVERYWHERE, 0, "w", &t->arena), "w_100001");
  assert_true(n.tries < 3 * MANY);
  const uint64_t before = n.tries;
  for (uint32_t i = 0; i < MANY; i++) { // a base that is no name itself
    const struct span stem =
        kit_names_family(&n, KIT_EVERYWHERE, 0, span_str("base"), suffixes, 2, &t->arena);
    kit_names_reserve(&n, kit_names_join(stem, "_q", &t->arena));
  }
  assert_true(n.tries - before < 5 * MANY);
  kit_names_done(&n);
}

int test_kit_names(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {TEST(test_spaces), TEST(test_reserved), TEST(test_family),
                                     TEST(test_linear)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
