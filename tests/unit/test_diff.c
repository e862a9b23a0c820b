// Twins of two models: found by structure where names tell nothing, by names where structure tells
// nothing; and the work that it takes, counted in rows looked at.
#include "compare/diff.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

static int no_bytes(void *ctx, uint32_t side, uint64_t off, void *buf, size_t n, struct err *err) {
  (void)ctx, (void)side, (void)off, (void)buf, (void)n;
  return err_set(err, ERR_IO, "these models lie in no file");
}

struct two {
  struct model m[DIFF_SIDES];
  struct diff d;
};

static void compare(struct two *t) {
  struct err err = {0};
  t->d = (struct diff){.m = {&t->m[0], &t->m[1]}, .read = no_bytes};
  diff_match(&t->d);
  assert_int_equal(diff_compare(&t->d, &err), 0);
}

static void done(struct two *t) {
  diff_done(&t->d);
  model_free(&t->m[0]);
  model_free(&t->m[1]);
}

static uint32_t without_twin(const struct two *t, uint32_t side) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->m[side].n_nodes; i++)
    n += t->d.nodes[side][i] == NO_ID;
  return n;
}

// ---- graphs of many nodes ----------------------------------------------------------------------

enum form { CHAIN, STAR, TWINS, DIAMONDS, FORMS };

struct plan_of {
  enum form form;
  uint32_t n;
  uint32_t without;  // this node is left out; NO_ID: none
  uint32_t every;    // and one of so many; 0: none
  const char *names; // of values and nodes: a letter, or NULL: no node has a name
  bool other_ops;    // every 97th node is of another operator
};

static const char *op_of(const struct plan_of *p, uint32_t i) {
  static const char *const ops[] = {"Relu", "Neg", "Abs", "Exp", "Sigmoid"};
  if (p->other_ops && i % 97 == 50) return "Tanh";
  return p->form == TWINS ? "Relu" : ops[i * 2654435761u % 5];
}

static void build_many(const struct plan_of *p, struct model *m) {
  struct build b;
  build_begin(&b, m);
  build_input(&b, "x", DTYPE_FLOAT, "4");
  char in[96] = "x", out[64], name[64];
  uint32_t number = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    if (i == p->without || (p->every && i % p->every == p->every / 2)) continue;
    snprintf(out, sizeof out, i + 1 == p->n ? "y" : "%s%u", p->names ? p->names : "v", number);
    snprintf(name, sizeof name, "%s_%u", p->names ? p->names : "", number);
    if (p->form == TWINS) snprintf(in, sizeof in, "x");
    if (p->form == STAR && number > 0) snprintf(in, sizeof in, "%s0", p->names ? p->names : "v");
    const bool joins = p->form == DIAMONDS && i % 3 == 2 && number >= 2 && p->without == NO_ID;
    if (joins) {
      snprintf(in, sizeof in, "%s%u %s%u", p->names ? p->names : "v", number - 1,
               p->names ? p->names : "v", number - 2);
    }
    build_node(&b, joins ? "Add" : op_of(p, i), p->names ? name : "", in, out);
    snprintf(in, sizeof in, "%s", out);
    number++;
  }
  build_output(&b, "y", DTYPE_FLOAT, "4");
  build_end(&b);
}

static void match_many(struct two *t, const struct plan_of *a, const struct plan_of *b) {
  build_many(a, &t->m[0]);
  build_many(b, &t->m[1]);
  compare(t);
}

static void test_names_tell_nothing(void **state) {
  (void)state;
  for (int form = 0; form < FORMS; form++) {
    struct two t;
    const struct plan_of a = {.form = (enum form)form, .n = 300, .without = NO_ID, .names = "p"};
    struct plan_of b = a;
    b.names = NULL;
    match_many(&t, &a, &b);
    assert_int_equal(without_twin(&t, 0), 0);
    assert_int_equal(without_twin(&t, 1), 0);
    for (uint32_t i = 0; i < t.d.n_details; i++)
      assert_int_equal(t.d.details[i].what, DIFF_RENAMED);
    done(&t);
  }
}

static void test_one_goes_and_all_numbers_shift(void **state) {
  (void)state;
  for (uint32_t gone = 1; gone < 60; gone += 7) {
    struct two t;
    const struct plan_of a = {.form = CHAIN, .n = 60, .without = NO_ID, .names = "p"};
    struct plan_of b = a;
    b.without = gone;
    match_many(&t, &a, &b);
    assert_int_equal(without_twin(&t, 0), 1);
    assert_int_equal(without_twin(&t, 1), 0);
    uint32_t rewired = 0;
    for (uint32_t i = 0; i < t.d.n_details; i++)
      rewired += t.d.details[i].what == DIFF_INPUT;
    assert_true(rewired <= 1);
    done(&t);
  }
}

// Several go: between the first and the last neither end of the graph tells anything.
static void test_some_go_and_all_numbers_shift(void **state) {
  (void)state;
  struct two t;
  const struct plan_of a = {.form = CHAIN, .n = 20000, .without = NO_ID, .names = "p"};
  struct plan_of b = a;
  b.every = 1000;
  b.names = "q";
  match_many(&t, &a, &b);
  assert_int_equal(without_twin(&t, 0), 20);
  assert_int_equal(without_twin(&t, 1), 0);
  done(&t);
}

// ---- the work ----------------------------------------------------------------------------------

static uint64_t steps_of(enum form form, uint32_t n, bool other_ops, const char *names) {
  struct two t;
  const struct plan_of a = {.form = form, .n = n, .without = NO_ID, .names = "p"};
  struct plan_of b = a;
  b.other_ops = other_ops;
  b.names = names;
  match_many(&t, &a, &b);
  const uint64_t steps = t.d.steps;
  done(&t);
  return steps;
}

// Twice the nodes, twice the rows looked at; and no more than so many for each.
static void test_linear(void **state) {
  (void)state;
  for (int form = 0; form < FORMS; form++)
    for (int other = 0; other < 2; other++)
      for (int named = 0; named < 2; named++) {
        const uint64_t one = steps_of((enum form)form, 10000, other, named ? "p" : NULL);
        const uint64_t two = steps_of((enum form)form, 20000, other, named ? "p" : NULL);
        assert_true(two < one * 5 / 2);
        assert_true(one < 10000 * 600ull);
      }
}

int test_diff(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names_tell_nothing),
      cmocka_unit_test(test_one_goes_and_all_numbers_shift),
      cmocka_unit_test(test_some_go_and_all_numbers_shift),
      cmocka_unit_test(test_linear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
