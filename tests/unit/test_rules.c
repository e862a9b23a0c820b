// Rules on graphs built by hand: what fires, what stays, what order it comes in, what is counted
// and where it stops.
#include "infer/infer.h"
#include "pass_bench.h"
#include "passes/rules/rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

extern const struct rules_book rules_sample, rules_circle;

enum { MOST_PASSES = 1024 };

struct outcome {
  struct rules_counts counts[MOST_PASSES];
  char warned[512];
  uint64_t steps;
};

static void note_warning(void *ctx, const char *sentence, const char *hint) {
  struct outcome *o = ctx;
  snprintf(o->warned, sizeof o->warned, "%s", sentence);
  assert_non_null(hint);
}

// Is one of the sets (words with blanks between) in the keys? "" is in all.
static bool has_set(const char *keys, const char *sets) {
  const bool all = !*sets;
  char word[32];
  for (int n; sscanf(sets, " %31s%n", word, &n) == 1; sets += n)
    if (strstr(keys, word)) return true;
  return all;
}

// Runs the passes of these sets over the bench's model; "" runs all.
static struct outcome run_and_infer(struct pass_bench *t, const struct rules_book *book,
                                    const char *set, enum exactness cap, bool infers) {
  static struct outcome o;
  bool passes[MOST_PASSES] = {0};
  struct err err = {0};
  memset(&o, 0, sizeof o);
  assert_true(rules_n_passes(book) <= MOST_PASSES);
  for (uint32_t p = 0; p < rules_n_passes(book); p++)
    passes[p] = has_set(rules_about(book, p).keys, set);
  pass_bench_ready(t);
  t->env.warn = note_warning;
  t->env.warn_ctx = &o;
  const struct rules_options options = {
      .passes = passes, .cap = cap, .infers = infers, .counts = o.counts, .steps = &o.steps};
  assert_int_equal(rules_run(book, &t->env, "rules", &options, &err), 0);
  infer_free(t->env.infer);
  build_check(&t->m);
  return o;
}

static struct outcome run(struct pass_bench *t, const struct rules_book *book, const char *set,
                          enum exactness cap) {
  return run_and_infer(t, book, set, cap, false);
}

static struct rules_counts of(const struct outcome *o, const struct rules_book *book,
                              const char *name) {
  const uint32_t pass = rules_named(book, span_str(name));
  assert_int_not_equal(pass, NO_ID);
  return o->counts[pass];
}

static const char *nodes(struct pass_bench *t) {
  return build_nodes(&t->m, t->m.main_graph, false, &t->arena);
}

// ---- tidy ---------------------------------------------------------------------------------------

static void chains_vanish(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3");
  build_floats(&t->b, "one", "", (float[]){1});
  build_node(&t->b, "Identity", "", "x", "a");
  build_node(&t->b, "Mul", "", "one a", "b"); // the right operand of a commutative operator
  build_attr_ints(&t->b, build_node(&t->b, "Transpose", "", "b", "c"), "perm", "1,0");
  build_attr_ints(&t->b, build_node(&t->b, "Transpose", "", "c", "d"), "perm", "1,0");
  build_node(&t->b, "Relu", "", "d", "y");
  build_value_info(&t->b, "b", DTYPE_FLOAT, "2,3");
  build_output(&t->b, "y", DTYPE_FLOAT, "2,3");
  const struct outcome o = run(t, &rules_house, "tidy", EXACTNESS_ROUNDING);
  assert_string_equal(nodes(t), "Relu(x)->y\n");
  assert_string_equal(pass_bench_tensors(t, t->m.main_graph), ""); // what nothing uses went too
  assert_int_equal(of(&o, &rules_house, "tidy/transpose").fired, 2);
  assert_string_equal(o.warned, "");
}

// An input that is an output must stay one by its own name: an Identity remains.
static void names_of_outputs_stay(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "one", "", (float[]){1});
  build_node(&t->b, "Mul", "", "x one", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  run(t, &rules_house, "tidy", EXACTNESS_ROUNDING);
  assert_string_equal(nodes(t), "Identity(x)->y\n");
}

static void what_others_use_stays(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3");
  build_attr_ints(&t->b, build_node(&t->b, "Transpose", "", "x", "a"), "perm", "1,0");
  build_attr_ints(&t->b, build_node(&t->b, "Transpose", "", "a", "b"), "perm", "1,0");
  build_node(&t->b, "Relu", "", "b", "y");
  build_node(&t->b, "Neg", "", "a", "z");
  build_output(&t->b, "y", DTYPE_FLOAT, NULL);
  build_output(&t->b, "z", DTYPE_FLOAT, NULL);
  run(t, &rules_house, "tidy", EXACTNESS_ROUNDING);
  assert_string_equal(nodes(t), "Transpose(x)->a\nRelu(x)->y\nNeg(a)->z\n");
}

// Above the cap nothing fires, and each place is counted once.
static void what_is_held_back_is_counted(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "zero", "", (float[]){0});
  build_node(&t->b, "Add", "", "x zero", "a");
  build_node(&t->b, "Identity", "", "a", "b");
  build_node(&t->b, "Add", "", "b zero", "c");
  build_node(&t->b, "Relu", "", "c", "y");
  build_value_info(&t->b, "a", DTYPE_FLOAT, "2");
  build_value_info(&t->b, "c", DTYPE_FLOAT, "2");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  const struct outcome o = run(t, &rules_house, "tidy", EXACTNESS_EXACT);
  assert_string_equal(nodes(t), "Add(x,zero)->a\nAdd(a,zero)->c\nRelu(c)->y\n");
  assert_int_equal(of(&o, &rules_house, "tidy/add-zero").held, 2);
  assert_int_equal(of(&o, &rules_house, "tidy/add-zero").fired, 0);
}

// Dims that are not known are not equal: Mul might widen x.
static void unknown_dims_match_nothing(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "?");
  build_floats(&t->b, "ones", "3", (float[]){1, 1, 1});
  build_node(&t->b, "Mul", "", "x ones", "a");
  build_node(&t->b, "Relu", "", "a", "y");
  build_value_info(&t->b, "a", DTYPE_FLOAT, "3");
  build_output(&t->b, "y", DTYPE_FLOAT, "3");
  const struct outcome o = run(t, &rules_house, "tidy", EXACTNESS_FINITE);
  // The dims of the result are known, so the operand is expanded to them and that is exact.
  assert_string_equal(nodes(t), "Expand(x,a_constant)->a\nRelu(a)->y\n");
  assert_int_equal(of(&o, &rules_house, "tidy/mul-one").fired, 1);
}

// ---- the engine over the sample's rules ---------------------------------------------------------

// Constants meet and fold: (x + 1) + 2 is x + 3.
static void constants_fold(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "c", "", (float[]){1});
  build_floats(&t->b, "d", "2", (float[]){2, 3});
  build_node(&t->b, "Add", "", "x c", "a");
  build_node(&t->b, "Add", "", "d a", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  run(t, &rules_sample, "sample", EXACTNESS_ROUNDING);
  assert_string_equal(nodes(t), "Add(x,y_constant)->y\n");
  struct model_constant c;
  struct span raw;
  assert_true(model_resolve_constant(&t->m, build_value(&t->b, "y_constant"), &c));
  assert_true(model_small_value(&t->m, c.tensor, &raw));
  assert_memory_equal(raw.at, ((float[]){3, 4}), 8);
}

// 3e38 + 3e38 is no number: the condition asks for finite constants.
static void folds_that_overflow_are_refused(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "c", "", (float[]){3e38f});
  build_node(&t->b, "Add", "", "x c", "a");
  build_node(&t->b, "Add", "", "a c", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  const struct outcome o = run(t, &rules_sample, "sample", EXACTNESS_ROUNDING);
  assert_int_equal(of(&o, &rules_sample, "sample/groupAdd").fired, 0);
}

// A Transpose goes through nine nodes in one run, whatever their kind, and constants are turned.
static void what_moves_comes_to_the_end(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3");
  build_floats(&t->b, "c", "2", (float[]){1, 2});
  build_attr_ints(&t->b, build_node(&t->b, "Transpose", "", "x", "v0"), "perm", "1,0");
  for (uint32_t i = 0; i < 9; i++) {
    char in[16], out[16];
    snprintf(in, sizeof in, i % 3 ? "v%u" : "v%u c", i);
    snprintf(out, sizeof out, i == 8 ? "y" : "v%u", i + 1);
    build_node(&t->b, i % 3 ? "Relu" : "Mul", "", in, out);
    if (i < 8) build_value_info(&t->b, out, DTYPE_FLOAT, "3,2");
  }
  build_output(&t->b, "y", DTYPE_FLOAT, "3,2");
  run(t, &rules_sample, "sample", EXACTNESS_EXACT);
  const char *all = nodes(t);
  assert_non_null(strstr(all, "Transpose("));
  assert_null(strstr(strstr(all, "Transpose(") + 1, "Transpose("));
  const char *last = strstr(all, "Transpose(");
  assert_string_equal(strchr(last, 10), "\n"); // nothing comes behind it
}

// What a rewrite makes possible further up is found: when Sub has gone, the inner Neg has one user.
static void earlier_nodes_are_looked_at_again(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Neg", "", "x", "m");
  build_node(&t->b, "Neg", "", "m", "a");
  build_node(&t->b, "Exp", "", "a", "y");
  build_node(&t->b, "Sub", "", "m m", "z");
  build_value_info(&t->b, "m", DTYPE_FLOAT, "2");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  build_output(&t->b, "z", DTYPE_FLOAT, "2");
  const struct outcome o = run(t, &rules_sample, "sample", EXACTNESS_FINITE);
  assert_string_equal(nodes(t), "Exp(x)->y\nIdentity(z_constant)->z\n");
  assert_int_equal(of(&o, &rules_sample, "sample/sole").fired, 1);
  assert_string_equal(o.warned, "");
}

// Rules that undo one another are stopped, and named.
static void opposites_run_out_of_fuel(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_input(&t->b, "z", DTYPE_FLOAT, "2");
  build_node(&t->b, "Less", "", "x z", "y");
  build_output(&t->b, "y", DTYPE_BOOL, "2");
  const struct outcome o = run(t, &rules_sample, "", EXACTNESS_EXACT);
  assert_string_equal(nodes(t), "Less(x,z)->y\n");
  assert_string_equal(
      o.warned, "one place was rewritten 64 times: there/less, back/greater; rewriting stopped");
}

// A circle by way of the queue, each turn of which rewrites another place: the digest of the outputs is
// what it was, long before one place is out of fuel.
static void circles_come_round_to_a_digest(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Neg", "", "x", "a");
  build_node(&t->b, "Sub", "", "a x", "b");
  build_node(&t->b, "Exp", "", "b", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  const struct outcome o = run(t, &rules_circle, "round", EXACTNESS_EXACT);
  assert_string_equal(o.warned, "the outputs are the same as some rewrites ago: round/one, "
                                "round/three; rewriting stopped");
  assert_int_equal(of(&o, &rules_circle, "round/one").fired, 2);
  assert_int_equal(of(&o, &rules_circle, "round/two").fired, 1);
  assert_int_equal(of(&o, &rules_circle, "round/three").fired, 1);
  assert_string_equal(nodes(t), "Neg(x)->b_Neg\nRelu(b_Neg)->b\nExp(b)->y\n");
}

// Rules that undo one another at one place, or make something new for ever, run out of fuel. What is
// elsewhere goes on.
static void spinning_runs_out_of_fuel(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Log", "", "x", "a");
  build_node(&t->b, "Exp", "", "a", "b");
  build_node(&t->b, "Log", "", "b", "y");
  build_node(&t->b, "Neg", "", "x", "z");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  build_output(&t->b, "z", DTYPE_FLOAT, "2");
  const struct outcome o = run(t, &rules_circle, "spin", EXACTNESS_EXACT);
  assert_non_null(strstr(o.warned, "one place was rewritten 64 times: spin/there, spin/back"));
  const uint64_t fired = of(&o, &rules_circle, "spin/there").fired;
  assert_in_range(fired + of(&o, &rules_circle, "spin/back").fired, 64, 1000);
}

static void growing_runs_out_of_fuel(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Sin", "", "x", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  const struct outcome o = run(t, &rules_circle, "grow", EXACTNESS_EXACT);
  assert_string_equal(o.warned,
                      "one place was rewritten 64 times: grow/there, grow/back; rewriting stopped");
  assert_int_equal(of(&o, &rules_circle, "grow/there").fired, 32);
  assert_int_equal(of(&o, &rules_circle, "grow/back").fired, 32);
}

// A node behind `x`, with another operand or "". Gives its output.
static const char *follow(struct pass_bench *t, const char *op, const char *x, const char *other) {
  const char *out = arena_printf(&t->arena, "v%u", t->m.n_nodes);
  build_node(&t->b, op, "", arena_printf(&t->arena, "%s %s", x, other), out);
  return out;
}

// A Reshape that goes past one node after the other, far more than 64, is no circle.
static void what_moves_far_has_fuel(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3");
  const char *at = "x";
  for (uint32_t i = 0; i < 300; i++)
    at = follow(t, "Relu", at, "");
  build_ints(&t->b, "s", "2", (int64_t[]){3, 2});
  build_node(&t->b, "Reshape", "", arena_printf(&t->arena, "%s s", at), "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "3,2");
  const struct outcome o = run_and_infer(t, &rules_house, "reorder", EXACTNESS_EXACT, true);
  assert_int_equal(of(&o, &rules_house, "reorder/MoveReluPastReshape").fired, 300);
  assert_string_equal(o.warned, "");
}

// Of 300 Reshapes each has all those before it to pass, but for that it meets the next one and is one with it.
static void what_moves_against_the_walk_meets(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3");
  build_ints(&t->b, "s0", "2", (int64_t[]){3, 2});
  build_ints(&t->b, "s1", "2", (int64_t[]){6, 1});
  const char *at = "x";
  for (uint32_t i = 0; i < 300; i++)
    at = follow(t, "Reshape", follow(t, "Relu", at, ""), i % 2 ? "s1" : "s0");
  build_node(&t->b, "Exp", "", at, "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "6,1");
  const struct outcome o = run_and_infer(t, &rules_house, "reorder", EXACTNESS_EXACT, true);
  assert_in_range(of(&o, &rules_house, "reorder/MoveReluPastReshape").fired, 300, 5 * 300);
  assert_string_equal(o.warned, "");
  const char *first = strstr(nodes(t), "Reshape(");
  assert_non_null(first);
  assert_null(strstr(first + 1, "Reshape("));
}

// Factors with no place in their type for the product of two, and values in turn: 300²/2 moves, but for the budget.
static void what_does_not_meet_has_a_budget(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_input(&t->b, "z", DTYPE_FLOAT, "");
  build_floats(&t->b, "tiny", "", (float[]){1e-20f});
  const char *at = "x";
  for (uint32_t i = 0; i < 300; i++)
    at = follow(t, "Mul", follow(t, "Mul", at, "tiny"), "z");
  build_node(&t->b, "Exp", "", at, "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  const struct outcome o = run_and_infer(t, &rules_house, "algebraic", EXACTNESS_ROUNDING, true);
  assert_in_range(of(&o, &rules_house, "algebraic/GroupMul").fired, 300, 20 * 601);
  assert_non_null(strstr(o.warned, "did not end: algebraic/GroupMul; rewriting stopped"));
}

// Blocks of scaled and shifted matrices, with Transposes that find one another.
static uint64_t cost_of(struct pass_bench *t, uint32_t blocks) {
  build_input(&t->b, "x", DTYPE_FLOAT, "1,2,2");
  build_floats(&t->b, "w", "2,2", (float[]){1, 2, 3, 5});
  build_floats(&t->b, "scale", "", (float[]){0.5});
  build_floats(&t->b, "shift", "2", (float[]){3, 4});
  const char *at = "x";
  for (uint32_t i = 0; i < blocks; i++) {
    const char *const before = at;
    at = follow(t, "Mul", at, "scale");
    at = follow(t, "Add", at, "shift");
    at = follow(t, "Relu", at, "");
    at = follow(t, "Transpose", at, "");
    build_attr_ints(&t->b, t->m.n_nodes - 1, "perm", "0,2,1");
    at = follow(t, "Div", at, "scale");
    at = follow(t, "Transpose", at, "");
    build_attr_ints(&t->b, t->m.n_nodes - 1, "perm", "0,2,1");
    at = follow(t, "MatMul", at, "w");
    at = follow(t, "Sub", at, "shift");
    at = follow(t, "Sigmoid", at, "");
    at = follow(t, "Add", at, before);
  }
  build_node(&t->b, "Relu", "", at, "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1,2,2");
  const struct outcome o = run_and_infer(t, &rules_house, "algebraic reorder eliminate factorize",
                                         EXACTNESS_FINITE, true);
  assert_string_equal(o.warned, "");
  assert_in_range(of(&o, &rules_house, "algebraic/MoveMulPastAdd").fired, blocks, 4 * blocks);
  return o.steps;
}

// Hundreds of rules cost what the few cost that a node's neighbours let through, and ten times the nodes ten times that.
static void cost_is_linear(void **state) {
  struct pass_bench *t = *state;
  const uint64_t few = cost_of(t, 100);
  pass_bench_teardown(state);
  pass_bench_setup(state);
  const uint64_t many = cost_of(*state, 1000);
  assert_in_range(many, few, 101 * few / 10);
  assert_in_range(many / 10000, 1, 300);
}

// Nodes of a version in which the operator meant something else match nothing: broadcasting had to
// be asked for.
static void older_versions_are_not_taken_for_new_ones(void **state) {
  struct pass_bench *t = *state;
  t->m.opsets[0].version = 6;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "one", "", (float[]){1});
  build_attr_int(&t->b, build_node(&t->b, "Mul", "", "x one", "a"), "broadcast", 1);
  build_node(&t->b, "Relu", "", "a", "y");
  build_value_info(&t->b, "a", DTYPE_FLOAT, "2");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  run(t, &rules_house, "tidy", EXACTNESS_FINITE);
  assert_string_equal(nodes(t), "Mul(x,one)->a\nRelu(a)->y\n");
}

// What is known of a result is known to the rules that come after.
static void types_travel(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3");
  build_floats(&t->b, "c", "", (float[]){2});
  build_node(&t->b, "Mul", "", "c x", "a");
  build_node(&t->b, "Add", "", "a x", "b");
  build_node(&t->b, "Sub", "", "b b", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2,3");
  const struct outcome o = run(t, &rules_sample, "sample", EXACTNESS_FINITE);
  assert_int_equal(of(&o, &rules_sample, "sample/twice").fired, 1);
  assert_int_equal(of(&o, &rules_sample, "sample/itself").fired, 1);
  assert_string_equal(nodes(t), "Identity(y_constant)->y\n");
}

int test_rules(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      TEST(chains_vanish),
      TEST(names_of_outputs_stay),
      TEST(what_others_use_stays),
      TEST(what_is_held_back_is_counted),
      TEST(unknown_dims_match_nothing),
      TEST(constants_fold),
      TEST(folds_that_overflow_are_refused),
      TEST(what_moves_comes_to_the_end),
      TEST(earlier_nodes_are_looked_at_again),
      TEST(opposites_run_out_of_fuel),
      TEST(circles_come_round_to_a_digest),
      TEST(spinning_runs_out_of_fuel),
      TEST(growing_runs_out_of_fuel),
      TEST(what_moves_far_has_fuel),
      TEST(what_moves_against_the_walk_meets),
      TEST(what_does_not_meet_has_a_budget),
      TEST(cost_is_linear),
      TEST(older_versions_are_not_taken_for_new_ones),
      TEST(types_travel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
