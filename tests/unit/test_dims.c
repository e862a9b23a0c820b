// Symbolic dims: the vectors of shape arithmetic, limits and bombs, what was declared equal, text read
// again, and random expressions against a direct evaluation of how they were made.
#include "chance.h"
#include "dims.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct dims *d;
static struct arena scratch;

static int begin(void **state) {
  (void)state;
  d = dims_new();
  return 0;
}

static int end(void **state) {
  (void)state;
  dims_free(d);
  arena_free(&scratch);
  return 0;
}

static dim_id n(int64_t x) {
  return dims_number(d, x);
}

static dim_id sym(const char *name) {
  return dims_symbol(d, span_str(name), 1);
}

// As it is written, with lower bounds of 1.
static dim_id e(const char *text) {
  return dims_parse(d, span_str(text), 1);
}

static const char *text(dim_id x) {
  return arena_string(&scratch, dims_text(d, x, &scratch));
}

static void is(dim_id x, const char *expected) {
  assert_string_equal(text(x), expected);
  assert_int_equal(e(expected), x);
}

static void test_numbers(void **state) {
  int64_t x;
  (void)state;
  assert_int_equal(n(3), n(3));
  assert_int_not_equal(n(3), n(4));
  assert_true(dims_is_number(d, dims_add(d, n(3), n(4)), &x));
  assert_int_equal(x, 7);
  assert_false(dims_is_number(d, sym("t"), &x));
  assert_int_equal(dims_floor_div(d, n(-7), n(2)), n(-4));
  assert_int_equal(dims_floor_div(d, n(7), n(-2)), n(-4));
  assert_int_equal(dims_ceil_div(d, n(-7), n(2)), n(-3));
  assert_int_equal(dims_ceil_div(d, n(7), n(2)), n(4));
  assert_int_equal(dims_ceil_div(d, n(7), n(-2)), n(-3));
  assert_int_equal(dims_trunc_div(d, n(-7), n(2)), n(-3));
  assert_int_equal(dims_mod(d, n(-7), n(2)), n(1));
  assert_int_equal(dims_mod(d, n(7), n(-2)), n(-1));
  assert_int_equal(dims_exact_div(d, n(6), n(-3)), n(-2));
  assert_int_equal(dims_exact_div(d, n(7), n(2)), NO_ID);
  assert_int_equal(dims_floor_div(d, n(7), n(0)), NO_ID);
  assert_int_equal(dims_mod(d, sym("t"), n(0)), NO_ID);
  assert_int_equal(dims_floor_div(d, n(INT64_MIN), n(-1)), NO_ID);
  assert_int_equal(dims_add(d, NO_ID, n(1)), NO_ID);
  is(n(INT64_MIN), "(-9223372036854775807 - 1)");
}

static void test_vectors(void **state) {
  (void)state;
  const dim_id t = sym("t"), s = sym("s"), b = sym("b");
  // A quotient that is one less.
  is(dims_floor_div(d, dims_sub(d, t, n(1)), n(2)), "(t + 1)//2 - 1");
  assert_int_equal(e("(t - 1)//2 + 1"), e("(t + 1)//2"));
  // Convolutions of width 3, stride 2 and pads 1, 1, and lengths of ranges.
  static const char *const conv[] = {"(t + 1)//2", "(t + 3)//4", "(t + 7)//8"};
  dim_id x = t;
  for (uint32_t i = 0; i < 3; i++) {
    x = dims_add(d, dims_floor_div(d, dims_sub(d, dims_add(d, x, n(2)), n(3)), n(2)), n(1));
    is(x, conv[i]);
    const dim_id limit =
        dims_add(d, n(1), dims_trunc_div(d, dims_sub(d, t, n(1)), n(INT64_C(2) << i)));
    assert_int_equal(dims_max(d, n(0), dims_ceil_div(d, limit, n(1))), x);
  }
  const dim_id two_l = dims_sub(d, dims_mul(d, n(2), x), n(1));
  // Range(L - 1, -L, -1)
  const dim_id down = dims_sub(d, dims_neg(d, x), dims_sub(d, x, n(1)));
  assert_int_equal(dims_max(d, n(0), dims_ceil_div(d, down, n(-1))), two_l);
  // [b, 8, L, 2L] as [b, 8, -1, L]
  const dim_id all = dims_mul(d, dims_mul(d, b, n(8)), dims_mul(d, x, dims_mul(d, n(2), x)));
  const dim_id rest = dims_mul(d, dims_mul(d, b, n(8)), x);
  assert_int_equal(dims_exact_div(d, all, rest), dims_mul(d, n(2), x));
  // A slice 0:L of 2L - 1.
  assert_int_equal(dims_min(d, x, two_l), x);
  assert_int_equal(dims_max(d, dims_min(d, n(128), s), s), s);
  assert_int_equal(dims_exact_div(d, dims_mul(d, b, s), b), s);
}

// ---- random expressions --------------------------------------------------------------------------------

enum { SYMBOLS = 4, NODES = 40, BINDINGS = 8, ROUNDS = 500 };

enum kind { LEAF, ADD, SUB, MUL, MAX, MIN, FLOOR, CEIL, TRUNC, EXACT, MOD, NEG, KINDS };

// How an expression was made, and its values, found without the room.
struct node {
  enum kind kind;
  uint32_t a, b;
  dim_id id;
  int64_t value[BINDINGS];
  bool valid[BINDINGS];
};

struct sample {
  dim_id symbols[SYMBOLS];
  struct dims_binding bindings[BINDINGS][SYMBOLS];
  struct node nodes[NODES];
  uint32_t n;
};

static bool divided(enum kind kind, int64_t a, int64_t b, int64_t *value) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  const int64_t q = a / b, r = a % b;
  *value = q;
  switch (kind) {
  case FLOOR: *value = q - (r != 0 && (r < 0) != (b < 0)); return true;
  case CEIL: *value = q + (r != 0 && (r < 0) == (b < 0)); return true;
  case MOD: *value = r != 0 && (r < 0) != (b < 0) ? r + b : r; return true;
  case EXACT: return r == 0;
  default: return true;
  }
}

static bool evaluated(enum kind kind, int64_t a, int64_t b, int64_t *value) {
  switch (kind) {
  case ADD: return !__builtin_add_overflow(a, b, value);
  case SUB: return !__builtin_sub_overflow(a, b, value);
  case MUL: return !__builtin_mul_overflow(a, b, value);
  case NEG: return !__builtin_sub_overflow(0, a, value);
  case MAX: *value = a > b ? a : b; return true;
  case MIN: *value = a < b ? a : b; return true;
  default: return divided(kind, a, b, value);
  }
}

static dim_id built(enum kind kind, dim_id a, dim_id b) {
  switch (kind) {
  case ADD: return dims_add(d, a, b);
  case SUB: return dims_sub(d, a, b);
  case MUL: return dims_mul(d, a, b);
  case NEG: return dims_neg(d, a);
  case MAX: return dims_max(d, a, b);
  case MIN: return dims_min(d, a, b);
  case FLOOR: return dims_floor_div(d, a, b);
  case CEIL: return dims_ceil_div(d, a, b);
  case TRUNC: return dims_trunc_div(d, a, b);
  case EXACT: return dims_exact_div(d, a, b);
  default: return dims_mod(d, a, b);
  }
}

static uint32_t add_leaf(struct sample *s, dim_id id, uint32_t symbol, int64_t number) {
  struct node *x = &s->nodes[s->n];
  *x = (struct node){.kind = LEAF, .id = id};
  for (uint32_t i = 0; i < BINDINGS; i++) {
    x->value[i] = symbol < SYMBOLS ? s->bindings[i][symbol].value : number;
    x->valid[i] = true;
  }
  return s->n++;
}

static uint32_t add_node(struct sample *s, enum kind kind, uint32_t a, uint32_t b) {
  struct node *x = &s->nodes[s->n];
  const struct node *l = &s->nodes[a], *r = &s->nodes[b];
  *x = (struct node){.kind = kind, .a = a, .b = b, .id = built(kind, l->id, r->id)};
  for (uint32_t i = 0; i < BINDINGS; i++)
    x->valid[i] =
        l->valid[i] && r->valid[i] && evaluated(kind, l->value[i], r->value[i], &x->value[i]);
  return s->n++;
}

static void begin_sample(struct sample *s) {
  static const char *const names[SYMBOLS] = {"t", "batch size", "a`b", "x-y"};
  static const int64_t leasts[SYMBOLS] = {1, 0, -3, 2};
  s->n = 0;
  for (uint32_t k = 0; k < SYMBOLS; k++) {
    s->symbols[k] = dims_symbol(d, span_str(names[k]), leasts[k]);
    for (uint32_t i = 0; i < BINDINGS; i++) {
      const int64_t more = i == 0 ? 0 : chance_below(i < 4 ? 4 : i < 7 ? 50 : 100000);
      s->bindings[i][k] = (struct dims_binding){s->symbols[k], leasts[k] + more};
    }
  }
  for (uint32_t k = 0; k < SYMBOLS; k++)
    add_leaf(s, s->symbols[k], k, 0);
  for (uint32_t k = 0; k < 4; k++) {
    const int64_t number = (int64_t)chance_below(k < 2 ? 6 : 20) - (k == 3 ? 10 : 0);
    add_leaf(s, n(number), SYMBOLS, number);
  }
}

static void grow_sample(struct sample *s) {
  while (s->n + 3 < NODES) {
    const enum kind kind = (enum kind)(1 + chance_below(KINDS - 1));
    uint32_t a = chance_below(s->n), b = chance_below(s->n);
    // Mostly by numbers; products would soon pass all limits.
    if (kind >= FLOOR && kind <= MOD && chance_below(4)) b = SYMBOLS + chance_below(4);
    if (kind == MUL && chance_below(2)) b = chance_below(SYMBOLS + 4);
    // What is divided without remainder: a product, or what is left without the remainder.
    if (kind == EXACT && chance_below(4) > 0)
      a = chance_below(2) ? add_node(s, MUL, a, b) : add_node(s, SUB, a, add_node(s, MOD, a, b));
    add_node(s, kind, a, b);
  }
}

struct counts {
  uint32_t of[KINDS], unknown, answers[2][3], texts;
};

static void check_values(const struct sample *s, struct counts *count) {
  for (uint32_t k = 0; k < s->n; k++) {
    const struct node *x = &s->nodes[k];
    const int64_t least = dims_least(d, x->id), most = dims_most(d, x->id);
    for (uint32_t i = 0; i < BINDINGS; i++) {
      int64_t value;
      if (!x->valid[i] || x->kind == LEAF) continue;
      if (!dims_value(d, x->id, s->bindings[i], SYMBOLS, &value)) {
        count->unknown++;
        continue;
      }
      if (value != x->value[i] || value < least || value > most)
        fail_msg("%s is %lld instead of %lld, of %lld to %lld", text(x->id), (long long)value,
                 (long long)x->value[i], (long long)least, (long long)most);
      count->of[x->kind]++;
    }
  }
}

// Answers hold at every binding.
static void check_answers(const struct sample *s, struct counts *count) {
  for (uint32_t k = 0; k < 100; k++) {
    const struct node *x = &s->nodes[chance_below(s->n)], *y = &s->nodes[chance_below(s->n)];
    const enum dims_answer equal = dims_equal(d, x->id, y->id);
    const enum dims_answer at_least = dims_at_least(d, x->id, y->id);
    count->answers[0][equal]++;
    count->answers[1][at_least]++;
    for (uint32_t i = 0; i < BINDINGS; i++) {
      if (!x->valid[i] || !y->valid[i]) continue;
      if (equal != DIMS_MAYBE && (equal == DIMS_YES) != (x->value[i] == y->value[i]))
        fail_msg("%s == %s is not %d", text(x->id), text(y->id), equal);
      if (at_least != DIMS_MAYBE && (at_least == DIMS_YES) != (x->value[i] >= y->value[i]))
        fail_msg("%s >= %s is not %d", text(x->id), text(y->id), at_least);
    }
  }
}

static void check_texts(const struct sample *s, struct counts *count) {
  for (uint32_t k = 0; k < s->n; k++) {
    const dim_id id = s->nodes[k].id;
    if (id == NO_ID) continue;
    const char *words = text(id);
    if (strchr(words, '?')) continue;
    if (e(words) != id) fail_msg("%s is read as %s", words, text(e(words)));
    count->texts++;
  }
}

static void test_random(void **state) {
  static struct sample s;
  struct counts count = {0};
  uint32_t equal = 0;
  (void)state;
  chance_seed = 0;
  for (uint32_t round = 0; round < ROUNDS; round++) {
    begin_sample(&s);
    grow_sample(&s);
    check_values(&s, &count);
    check_answers(&s, &count);
    check_texts(&s, &count);
    arena_reset(&scratch);
  }
  for (uint32_t k = 1; k < KINDS; k++) {
    print_message("%u of kind %u\n", count.of[k], k);
    assert_true(count.of[k] > 1000);
    equal += count.of[k];
  }
  print_message("%u equal, %u unknown, %u texts, answers %u %u %u, %u %u %u\n", equal,
                count.unknown, count.texts, count.answers[0][0], count.answers[0][1],
                count.answers[0][2], count.answers[1][0], count.answers[1][1], count.answers[1][2]);
  assert_true(equal >= 18000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_numbers, begin, end),
      cmocka_unit_test_setup_teardown(test_vectors, begin, end),
      cmocka_unit_test_setup_teardown(test_random, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
