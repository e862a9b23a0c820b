// Mutants: what nobody changes is written as it was; the same seed makes the same mutant; bytes of
// any kind are read without harm; and what comes out differs, and is no larger than it may be.
#include "mutate.h"

#include "chance.h"
#include "mutate_tree.h"
#include "pb_build.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct span model_of(struct pb *out) {
  struct pb graph = {0};
  pb_identity(&graph);
  pb_node(&graph, "Conv", "x", "w", "z");
  *out = pb_model(&graph);
  return span_of(out->at, out->n);
}

static void test_what_nobody_changes(void **state) {
  (void)state;
  struct arena a = {0};
  struct pb pb;
  struct tree t;
  const struct span model = model_of(&pb);
  tree_read(&t, model, &a);
  assert_true(t.n_all > 20);
  assert_true(span_eq(tree_write(&t), model));
  struct field *first = t.all[0], *copy = tree_copy(&t, first);
  tree_put(t.root, first, copy);
  tree_take(copy);
  assert_true(span_eq(tree_write(&t), model));
  tree_free(&t);
  pb_free(&pb);
  arena_free(&a);
}

static void test_any_bytes(void **state) {
  (void)state;
  chance_seed = 0;
  for (uint32_t i = 0; i < 2000; i++) {
    struct arena a = {0};
    struct tree t;
    uint8_t bytes[64];
    const size_t n = chance_below(sizeof bytes);
    for (size_t k = 0; k < n; k++)
      bytes[k] = (uint8_t)(chance_below(3) ? chance_below(64) : chance_64());
    tree_read(&t, span_of(bytes, n), &a);
    const struct span again = tree_write(&t);
    assert_true(again.n <= n);
    tree_free(&t);
    arena_free(&a);
  }
}

static void test_the_same_seed(void **state) {
  (void)state;
  struct pb pb;
  const struct span model = model_of(&pb);
  uint32_t changed = 0;
  for (uint64_t seed = 0; seed < 300; seed++) {
    struct arena a = {0};
    const char *what, *again;
    const struct span made = mutate(model, model, seed, &a, &what);
    assert_true(made.n <= MUTATE_MOST_BYTES);
    assert_true(span_eq(made, mutate(model, model, seed, &a, &again)));
    assert_string_equal(what, again);
    changed += !span_eq(made, model);
    arena_free(&a);
  }
  assert_in_range(changed, 270, 300); // a few changes undo each other
  pb_free(&pb);
}

int test_mutate(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_nobody_changes),
      cmocka_unit_test(test_any_bytes),
      cmocka_unit_test(test_the_same_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
