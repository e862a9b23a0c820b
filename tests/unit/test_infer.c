// What inference costs, in nodes visited, rows and bytes: linear in what there is, and after that in what is new.
// What it finds is told by the cases of tests/infer.
#include "infer/infer.h"

#include "edit/edit.h"
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
  struct infer *in;
  struct arena a;
};

static int setup(void **state) {
  static struct bench t;
  t = (struct bench){0};
  build_begin(&t.b, &t.m);
  build_opset(&t.b, "local", 1);
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  infer_free(t->in);
  model_free(&t->m);
  arena_free(&t->a);
  return 0;
}

static void infer(struct bench *t) {
  build_end(&t->b);
  t->in = infer_new(&t->m, NULL);
  infer_all(t->in, NULL);
}

// The dims of a value, as text.
static const char *dims_of(struct bench *t, const char *name) {
  struct infer_type type;
  const char *all = "";
  if (!infer_type_of(t->in, build_value(&t->b, name), &type) || !type.ranked) return "?";
  for (uint32_t i = 0; i < type.rank; i++) {
    const struct span dim = dims_text(infer_dims(t->in), type.dims[i], &t->a);
    all = arena_printf(&t->a, "%s%s%.*s", all, i ? "," : "", (int)dim.n, dim.at);
  }
  return all;
}

static const char *name(struct bench *t, uint32_t i) {
  return arena_printf(&t->a, "v%u", i);
}

static void chain(struct bench *t, uint32_t n) {
  build_input(&t->b, "v0", DTYPE_FLOAT, "n,4");
  for (uint32_t i = 0; i < n; i++)
    build_node(&t->b, "Relu", "", name(t, i), name(t, i + 1));
}

static void a_chain_is_visited_once(void **state) {
  struct bench *t = *state;
  chain(t, 1000);
  infer(t);
  assert_int_equal(infer_visits(t->in), 1000);
  assert_string_equal(dims_of(t, "v1000"), "n,4");
}

// Each node stands before the one that it needs.
static void a_chain_from_its_end_too(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "v0", DTYPE_FLOAT, "n,4");
  for (uint32_t i = 50000; i-- > 0;)
    build_node(&t->b, "Relu", "", name(t, i), name(t, i + 1));
  infer(t);
  assert_int_equal(infer_visits(t->in), 50000);
  assert_string_equal(dims_of(t, "v50000"), "n,4");
}

static void a_value_costs_few_bytes(void **state) {
  struct bench *t = *state;
  chain(t, 20000);
  infer(t);
  assert_true(infer_bytes(t->in) < UINT64_C(150) * t->m.n_values);
}

// New dims for every value: NonZero's, each its own.
static void dims_of_their_own_cost_few_bytes_more(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "v0", DTYPE_FLOAT, "n,4");
  for (uint32_t i = 0; i < 20000; i++)
    build_node(&t->b, "NonZero", "", "v0", name(t, i + 1));
  infer(t);
  assert_true(infer_bytes(t->in) < UINT64_C(600) * t->m.n_values);
}

static void nodes_that_came_since_are_visited_alone(void **state) {
  struct bench *t = *state;
  struct model_types types = {0};
  chain(t, 1000);
  infer(t);
  infer_fill(t->in, &t->m, &types);
  assert_int_equal(infer_fills(t->in), 1001);
  build_node(&t->b, "Transpose", "", "v1000", "new");
  build_node(&t->b, "Relu", "", "new", "newer");
  infer_more(t->in);
  infer_fill(t->in, &t->m, &types);
  assert_int_equal(infer_visits(t->in), 1002);
  assert_int_equal(infer_fills(t->in), 1003);
  assert_string_equal(dims_of(t, "newer"), "4,n");
  infer_more(t->in);
  infer_fill(t->in, &t->m, &types);
  assert_int_equal(infer_visits(t->in), 1002);
  assert_int_equal(infer_fills(t->in), 1003);
  model_types_done(&types);
}

// ---- bodies ------------------------------------------------------------------------------------------

// A Loop around what is made until leave_loop: its carried value is called p<depth>.
static void enter_loop(struct bench *t, uint32_t depth, const char *carried) {
  const uint32_t node = build_node(&t->b, "Loop", "", arena_printf(&t->a, "m c %s", carried),
                                   arena_printf(&t->a, "l%u", depth));
  build_enter(&t->b, node, "body", "body");
  build_input(&t->b, arena_printf(&t->a, "i%u", depth), DTYPE_INT64, "");
  build_input(&t->b, arena_printf(&t->a, "k%u", depth), DTYPE_BOOL, "");
  build_input(&t->b, arena_printf(&t->a, "p%u", depth), DTYPE_UNDEFINED, NULL);
}

static void leave_loop(struct bench *t, uint32_t depth, const char *result) {
  build_output(&t->b, arena_printf(&t->a, "k%u", depth), DTYPE_UNDEFINED, NULL);
  build_output(&t->b, result, DTYPE_UNDEFINED, NULL);
  build_leave(&t->b);
}

static void loop_inputs(struct bench *t) {
  build_input(&t->b, "x", DTYPE_FLOAT, "n,4");
  build_input(&t->b, "m", DTYPE_INT64, "");
  build_input(&t->b, "c", DTYPE_BOOL, "");
}

// The node of a Loop is a visit too, before its body and after each round.
static void a_loop_takes_two_rounds_where_it_grows(void **state) {
  struct bench *t = *state;
  loop_inputs(t);
  enter_loop(t, 0, "x");
  const uint32_t node = build_node(&t->b, "Concat", "", "p0 p0", "grown");
  build_attr_int(&t->b, node, "axis", 0);
  leave_loop(t, 0, "grown");
  infer(t);
  assert_int_equal(infer_visits(t->in), 1 + 2 * 2);
  infer_free(t->in);
  t->in = NULL;
}

static void loops_in_loops_do_not_multiply(void **state) {
  struct bench *t = *state;
  enum { DEPTH = 40 };
  loop_inputs(t);
  for (uint32_t i = 0; i < DEPTH; i++)
    enter_loop(t, i, i ? arena_printf(&t->a, "p%u", i - 1) : "x");
  for (uint32_t i = DEPTH; i-- > 0;) {
    const char *grown = arena_printf(&t->a, "g%u", i);
    const char *inner = i + 1 < DEPTH ? arena_printf(&t->a, "l%u", i + 1) : "p39";
    const uint32_t node =
        build_node(&t->b, "Concat", "", arena_printf(&t->a, "%s %s", inner, inner), grown);
    build_attr_int(&t->b, node, "axis", 0);
    leave_loop(t, i, grown);
  }
  infer(t);
  assert_true(infer_visits(t->in) < UINT64_C(16) * t->m.n_nodes * DEPTH);
}

// f<i> calls f<i - 1> twice: 2^40 calls, but one of a kind for each function.
static void calls_of_a_kind_are_inferred_once(void **state) {
  struct bench *t = *state;
  enum { FUNCTIONS = 40 };
  for (uint32_t i = 0; i < FUNCTIONS; i++) {
    build_enter_function(&t->b, "local", arena_printf(&t->a, "f%u", i), "a", "r");
    const char *op = i ? arena_printf(&t->a, "f%u", i - 1) : "Relu";
    const uint32_t first = build_node(&t->b, op, "", "a", "h");
    const uint32_t second = build_node(&t->b, op, "", "h", "r");
    if (i) {
      build_domain(&t->b, first, "local");
      build_domain(&t->b, second, "local");
    }
    build_leave(&t->b);
  }
  build_input(&t->b, "x", DTYPE_FLOAT, "n,4");
  build_domain(&t->b, build_node(&t->b, "f39", "", "x", "y"), "local");
  infer(t);
  assert_string_equal(dims_of(t, "y"), "n,4");
  // A call is a visit before its body and behind it.
  assert_true(infer_visits(t->in) <= 4 * FUNCTIONS + 2);
}

// A call of another kind than those before, made by a pass: what is known in the body holds in all of them.
static void a_new_call_is_joined_with_those_before(void **state) {
  struct bench *t = *state;
  build_enter_function(&t->b, "local", "f", "a", "r");
  build_node(&t->b, "Relu", "", "a", "r");
  const uint32_t result = build_value(&t->b, "r");
  build_leave(&t->b);
  build_input(&t->b, "x", DTYPE_FLOAT, "n,4");
  build_input(&t->b, "z", DTYPE_FLOAT, "m,4");
  build_domain(&t->b, build_node(&t->b, "f", "", "x", "y"), "local");
  infer(t);
  build_domain(&t->b, build_node(&t->b, "f", "", "z", "w"), "local");
  infer_more(t->in);
  struct infer_type type;
  assert_string_equal(dims_of(t, "w"), "m,4");
  assert_true(infer_type_of(t->in, result, &type) && type.ranked && type.rank == 2);
  assert_false(dims_is_symbol(infer_dims(t->in), type.dims[0], NULL) &&
               type.dims[0] == dims_parse(infer_dims(t->in), span_str("m"), 1));
  assert_int_not_equal(type.dims[0], dims_parse(infer_dims(t->in), span_str("n"), 1));
}

// ---- sizes -------------------------------------------------------------------------------------------

// n*n, squared again and again, and 10^5 floors.
static void expressions_do_not_grow(void **state) {
  struct bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "n,t");
  build_ints(&t->b, "two", "1", (int64_t[]){2});
  build_ints(&t->b, "one", "1", (int64_t[]){1});
  build_node(&t->b, "Shape", "", "x", "v0");
  for (uint32_t i = 0; i < 60; i++)
    build_node(&t->b, "Mul", "", arena_printf(&t->a, "v%u v%u", i, i), name(t, i + 1));
  build_node(&t->b, "Shape", "", "x", "w0");
  for (uint32_t i = 0; i < 30000; i++) {
    build_node(&t->b, "Add", "", arena_printf(&t->a, "w%u one", i), arena_printf(&t->a, "u%u", i));
    build_node(&t->b, "Div", "", arena_printf(&t->a, "u%u two", i),
               arena_printf(&t->a, "w%u", i + 1));
  }
  infer(t);
  assert_int_equal(infer_visits(t->in), t->m.n_nodes);
  assert_true(dims_count(infer_dims(t->in)) < 100 * t->m.n_nodes);
}

// Lists of 1024 elements again and again: no more than some are kept.
static void lists_are_kept_while_there_is_room(void **state) {
  struct bench *t = *state;
  build_ints(&t->b, "n", "1", (int64_t[]){1024});
  build_node(&t->b, "ConstantOfShape", "", "n", "v0");
  for (uint32_t i = 0; i < 20000; i++)
    build_node(&t->b, "Neg", "", name(t, i), name(t, i + 1));
  infer(t);
  assert_true(infer_bytes(t->in) < UINT64_C(100) << 20);
}

int test_infer(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_chain_is_visited_once, setup, teardown),
      cmocka_unit_test_setup_teardown(a_chain_from_its_end_too, setup, teardown),
      cmocka_unit_test_setup_teardown(a_value_costs_few_bytes, setup, teardown),
      cmocka_unit_test_setup_teardown(dims_of_their_own_cost_few_bytes_more, setup, teardown),
      cmocka_unit_test_setup_teardown(nodes_that_came_since_are_visited_alone, setup, teardown),
      cmocka_unit_test_setup_teardown(a_loop_takes_two_rounds_where_it_grows, setup, teardown),
      cmocka_unit_test_setup_teardown(loops_in_loops_do_not_multiply, setup, teardown),
      cmocka_unit_test_setup_teardown(calls_of_a_kind_are_inferred_once, setup, teardown),
      cmocka_unit_test_setup_teardown(a_new_call_is_joined_with_those_before, setup, teardown),
      cmocka_unit_test_setup_teardown(expressions_do_not_grow, setup, teardown),
      cmocka_unit_test_setup_teardown(lists_are_kept_while_there_is_room, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
