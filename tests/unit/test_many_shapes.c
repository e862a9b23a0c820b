// What must stay linear where a model has thousands of equal things: what optimize/shapes looks at for lists of
// dims that every Reshape has, and the parts of ropes that messages take. Steps are counted, not seconds.
#include "model_builder.h"
#include "passes/catalogue/passes.h"
#include "pipeline/pass_run.h"
#include "plan/rope.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

enum { MANY = 3000 };

// v1 = Tanh(Reshape(v0, Concat(Unsqueeze(Gather(Shape(v0), 0)), {8}))), and so on.
static void build_reshapes(struct build *b) {
  static const int64_t zero[] = {0}, eight[] = {8};
  char in[64], out[32];
  build_input(b, "v0", DTYPE_FLOAT, "b,8");
  build_ints(b, "i", "1", zero);
  build_ints(b, "n", "1", eight);
  for (int i = 0; i < MANY; i++) {
    snprintf(in, sizeof in, "v%d", i);
    snprintf(out, sizeof out, "s%d", i);
    build_node(b, "Shape", "", in, out);
    snprintf(in, sizeof in, "s%d i", i);
    snprintf(out, sizeof out, "g%d", i);
    build_node(b, "Gather", "", in, out);
    snprintf(in, sizeof in, "g%d n", i);
    snprintf(out, sizeof out, "c%d", i);
    build_attr_int(b, build_node(b, "Concat", "", in, out), "axis", 0);
    snprintf(in, sizeof in, "v%d c%d", i, i);
    snprintf(out, sizeof out, "r%d", i);
    build_node(b, "Reshape", "", in, out);
    snprintf(in, sizeof in, "r%d", i);
    snprintf(out, sizeof out, "v%d", i + 1);
    build_node(b, "Tanh", "", in, out);
  }
  build_output(b, out, DTYPE_FLOAT, "b,8");
}

static void lists_that_die_give_their_places(void **state) {
  (void)state;
  struct model m;
  struct recipes r;
  struct edits e;
  struct build b;
  struct pipeline p;
  struct arena arena = {0};
  struct err err = {0};
  uint32_t n;
  build_begin(&b, &m);
  build_reshapes(&b);
  build_end(&b);
  recipes_init(&r);
  edits_init(&e, &m, &r);
  pipeline_init(&p);
  struct pipeline_step *step = pipeline_add(&p, span_str("optimize/shapes"), &n, &err);
  assert_non_null(step);
  assert_int_equal(pass_values_read(&step->values, &p.arena, &err), 0);
  struct pass_run run = {.pipeline = &p, .env = {.m = &m, .edits = &e}};
  assert_int_equal(pass_run(&run, &arena, &err), 0);
  assert_true(e.n >= MANY); // each Reshape has a constant target
  assert_true(m.work.lists_seen > 0);
  assert_true(m.work.lists_seen < 16 * MANY);
  pipeline_free(&p);
  edits_free(&e);
  recipes_free(&r);
  model_free(&m);
  arena_free(&arena);
}

// Messages in messages, one behind the other: one part, and the bytes in order.
static void messages_are_one_part(void **state) {
  (void)state;
  struct plan p = {0};
  struct rope_pool pool = {.plan = &p};
  struct rope to = rope_empty();
  for (uint8_t i = 0; i < 100; i++) {
    struct rope in = rope_empty(), out = rope_empty();
    rope_bytes_field(&pool, &out, 2, span_str("ab"));
    rope_varint_field(&pool, &in, 1, i);
    rope_message_field(&pool, &out, 3, in);
    rope_message_field(&pool, &to, 4, out);
  }
  assert_int_equal(pool.n_parts, 1);
  assert_int_equal(to.len, 1000);
  assert_int_equal(p.n_literals, 1000);
  for (uint8_t i = 0; i < 100; i++) {
    const uint8_t want[] = {0x22, 8, 0x12, 2, 'a', 'b', 0x1a, 2, 8, i};
    assert_memory_equal(p.literals + pool.parts[to.first].at + 10 * i, want, sizeof want);
  }
  rope_pool_free(&pool);
  TABLE_FREE(&p, literals);
}

// A literal that is not the newest stays where it is, and so does a long one.
static void other_messages_are_linked(void **state) {
  (void)state;
  static const uint8_t bytes[5000];
  struct plan p = {0};
  struct rope_pool pool = {.plan = &p};
  struct rope first = rope_empty(), second = rope_empty(), to = rope_empty();
  rope_varint_field(&pool, &first, 1, 7);
  rope_varint_field(&pool, &second, 2, 9);
  rope_message_field(&pool, &to, 3, first);
  assert_int_equal(pool.n_parts, 3);
  const uint8_t kept[] = {8, 7, 16, 9, 0x1a, 2};
  assert_memory_equal(p.literals, kept, sizeof kept);
  struct rope long_one = rope_empty();
  rope_bytes(&pool, &long_one, bytes, sizeof bytes);
  rope_message_field(&pool, &to, 4, long_one);
  assert_int_equal(to.len, 4 + 3 + sizeof bytes);
  rope_pool_free(&pool);
  TABLE_FREE(&p, literals);
}

int test_many_shapes(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_that_die_give_their_places),
      cmocka_unit_test(messages_are_one_part),
      cmocka_unit_test(other_messages_are_linked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
