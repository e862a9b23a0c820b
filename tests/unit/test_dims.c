// Symbolic dims: the vectors of shape arithmetic, limits and bombs, what was declared equal, text
// read again, and random expressions against a direct evaluation of how they were made.
#include "chance.h"
#include "dims/dims.h"

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

static void test_normal_form(void **state) {
  (void)state;
  is(e("(4*t + 3)//6"), "(2*t + 1)//3");
  is(e("((t + 1)//2 + 3)//4"), "(t + 7)//8");
  is(e("(5*t - 1)//2"), "2*t + (t + 1)//2 - 1");
  is(e("Min(t, 7)//8"), "0");
  is(e("t - 8*((t)//8) - t"), "-8*(t//8)");
  is(e("t % 8"), "t - 8*(t//8)");
  is(e("-(t//2)"), "-(t//2)");
  is(e("s*b*t*t"), "t**2*s*b");
  is(e("3 - t"), "3 - t");
  is(e("Max(Max(1, t - 3), Max(s, 0))"), "Max(s, t - 3)");
  is(e("(b*s)/h"), "exact(s*b, h)");
  assert_int_equal(e("h*((b*s)/h)"), e("b*s"));
  assert_int_equal(e("(h + 1)*exact(b*s, h + 1)"), e("b*s"));
  assert_int_equal(e("exact(t, 2) + exact(t, 2)"), e("t"));
  assert_int_equal(e("exact(-t, 2)"), e("-exact(t, 2)"));
  assert_int_equal(e("exact(t + 1, 2)"), e("exact(t - 1, 2) + 1"));
  assert_int_equal(e("exact(b*h*s - b*h, s - 1)"), e("b*h"));
  // What is known of each.
  assert_int_equal(dims_least(d, e("t - 1")), 0);
  assert_int_equal(dims_least(d, e("t - 3")), -2);
  assert_int_equal(dims_least(d, e("t % 8")), 0);
  assert_int_equal(dims_most(d, e("Min(t, 7)")), 7);
  assert_int_equal(dims_most(d, e("t")), INT64_MAX);
  assert_int_equal(dims_least(d, dims_fresh(d, 0)), 0);
  const dim_id any = dims_fresh(d, -3), square = dims_mul(d, any, any);
  assert_int_equal(dims_least(d, square), 0);
  assert_int_equal(dims_least(d, dims_mul(d, square, any)), INT64_MIN);
  assert_int_equal(dims_equal(d, e("t"), e("t + 1")), DIMS_NO);
  assert_int_equal(dims_equal(d, e("t"), e("s")), DIMS_MAYBE);
  assert_int_equal(dims_equal(d, e("2*t"), e("2*s + 1")), DIMS_NO);
  assert_int_equal(dims_equal(d, e("t - t//2"), e("(t + 1)//2")), DIMS_YES);
  assert_int_equal(dims_at_least(d, e("t"), e("t//2")), DIMS_YES);
  assert_int_equal(dims_at_least(d, e("t//2"), e("t + 1")), DIMS_NO);
  assert_int_equal(dims_at_least(d, e("t"), e("s")), DIMS_MAYBE);
  assert_int_equal(dims_at_least(d, e("t*s"), e("s")), DIMS_YES);
  assert_int_equal(dims_at_least(d, e("t*s"), e("2*s")), DIMS_MAYBE);
  assert_int_equal(dims_at_least(d, dims_mul(d, any, e("t")), any), DIMS_MAYBE);
  assert_int_equal(e("Min(t*s, t*(2*s - 1))"), e("t*s"));
}

// Texts of exporters, and what is none.
static void test_parse(void **state) {
  static const char *const same[][2] = {
      {"(((t - 1)//8)) + 1", "(t + 7)//8"},
      {"Min(128, seq)", "Min(seq, 128)"},
      {"floor(t/2 - 1/2)", "(t - 1)//2"},
      {"floor(floor(t/2 - 1/2)/2) + 1", "floor(t/4 - 1/4) + 1"},
      {"ceiling(t/2)", "(t + 1)//2"},
      {"2*((s + 1)//2)", "2*floor(s/2 + 1/2)"},
      {"FloorDiv(t - 1, 2)", "(t - 1)//2"},
      {"Mod(t, 4)", "t % 4"},
      {"Max(t/2, 1/2)", "exact(t, 2)"},
      {"t**2*s", "s*t*t"},
      {"-t**2", "0 - t*t"},
      {"2**3**2", "512"},
      {"7 - 2 - 1", "4"},
      {"-7//2", "-4"},
      {"trunc(-7, 2)", "-3"},
      {"8//2*2", "8"},
      {"+t - -1", "t+1"},
      {" past + seq ", "seq + past"},
      {"input.1_dim_0*2", "input.1_dim_0 + input.1_dim_0"},
      {"`a b` + 1", "1 + `a b`"},
  };
  static const char *const names[] = {"batch size",
                                      "batch-size",
                                      "LayerNormalizationout_dim_0",
                                      "3d",
                                      "1.5*t",
                                      "t +",
                                      "(t",
                                      "t)",
                                      "foo(t)",
                                      "t t",
                                      "*",
                                      "t/0",
                                      "t**s",
                                      "t**-1",
                                      "floor(t, 2)",
                                      "Max()",
                                      "t[0]",
                                      "a`",
                                      "`",
                                      "?1",
                                      "t ^ 2",
                                      "99999999999999999999",
                                      "Max(1,)",
                                      "()",
                                      "\xc3\xa4-\xc3\xb6",
                                      "t**65"};
  (void)state;
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
    if (e(same[i][0]) != e(same[i][1]))
      fail_msg("%s is %s, %s is %s", same[i][0], text(e(same[i][0])), same[i][1],
               text(e(same[i][1])));
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const dim_id x = e(names[i]);
    assert_int_equal(x, sym(names[i]));
    assert_int_equal(e(text(x)), x);
    assert_int_equal(e(text(dims_add(d, x, n(1)))), dims_add(d, x, n(1)));
  }
  assert_int_not_equal(e(""), e(""));
  assert_int_not_equal(e("?"), e("?"));
  assert_int_equal(e(" t "), sym("t"));
  // A name that looks like an expression, if it was made as a name.
  assert_int_not_equal(sym("t + 1"), e("t + 1"));
  is(sym("t + 1"), "`t + 1`");
  // Too long, too deep; and what is just not.
  char long_text[400], deep[400] = "";
  for (uint32_t length = DIMS_TEXT - 1; length <= DIMS_TEXT + 1; length += 2) {
    memset(long_text, ' ', sizeof long_text);
    memcpy(long_text, "t + ", 4);
    snprintf(long_text + length - 1, 2, "1");
    assert_int_equal(e(long_text) == e("t + 1"), length <= DIMS_TEXT);
  }
  for (uint32_t depth = DIMS_NESTING; depth <= DIMS_NESTING + 1; depth++) {
    deep[0] = 0;
    for (uint32_t i = 0; i < depth; i++)
      strcat(deep, "(");
    strcat(deep, "7");
    for (uint32_t i = 0; i < depth; i++)
      strcat(deep, ")");
    assert_int_equal(e(deep) == n(7), depth == DIMS_NESTING);
  }
}

// Nothing in a file is taken for a symbol without a name, and no two things are printed alike.
static void test_no_name(void **state) {
  (void)state;
  const dim_id x = dims_fresh(d, 0), y = dims_fresh(d, 0);
  assert_int_not_equal(x, y);
  assert_int_equal(dims_equal(d, x, y), DIMS_MAYBE);
  assert_string_equal(text(x), "?1");
  assert_string_equal(text(dims_add(d, y, n(3))), "?2 + 3");
  assert_int_not_equal(e("?1"), x);
  assert_string_equal(text(sym("?1")), "?1");
  assert_string_equal(text(x), "?3");
  assert_string_equal(text(y), "?2");
  // Too long to be printed.
  dim_id sum = n(0);
  for (uint32_t i = 0; i < 40; i++)
    sum = dims_add(d, sum, sym(arena_printf(&scratch, "a_longer_name_%u", i)));
  assert_string_equal(text(sum), "?4");
  assert_string_equal(text(sum), "?4");
  assert_string_equal(text(NO_ID), "?");
}

// ---- limits --------------------------------------------------------------------------------------------

// Results past 64 bits are symbols, the same for the same operands, with the bounds that are
// known.
static void test_overflow(void **state) {
  typedef dim_id operation(struct dims *, dim_id, dim_id);
  static operation *const operations[] = {
      dims_add,       dims_sub,       dims_mul, dims_floor_div, dims_ceil_div,
      dims_trunc_div, dims_exact_div, dims_mod, dims_max,       dims_min};
  const int64_t numbers[] = {INT64_MIN, INT64_MIN + 1,    -(INT64_C(1) << 62), -3,       -1, 0, 1,
                             2,         INT64_C(1) << 62, INT64_MAX - 1,       INT64_MAX};
  enum { NUMBERS = sizeof numbers / sizeof numbers[0], OPERATIONS = 10 };
  dim_id of[NUMBERS * 4];
  uint32_t count = 0;
  int64_t x;
  (void)state;
  const dim_id t = sym("t");
  for (uint32_t i = 0; i < NUMBERS; i++) {
    of[count++] = n(numbers[i]);
    of[count++] = dims_add(d, t, n(numbers[i]));
    of[count++] = dims_mul(d, t, n(numbers[i]));
    of[count++] = dims_floor_div(d, dims_add(d, t, n(numbers[i])), n(numbers[NUMBERS - 1 - i]));
  }
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; k < count; k++)
      for (uint32_t op = 0; op < OPERATIONS; op++) {
        const dim_id e1 = operations[op](d, of[i], of[k]);
        assert_int_equal(operations[op](d, of[i], of[k]), e1);
        text(e1);
        dims_neg(d, e1);
        dims_equal(d, e1, of[i]);
        dims_at_least(d, e1, of[k]);
        arena_reset(&scratch);
      }
  const dim_id past = dims_add(d, n(INT64_MAX), n(1));
  assert_false(dims_is_number(d, past, &x));
  assert_int_equal(past, dims_add(d, n(1), n(INT64_MAX)));
  assert_int_equal(dims_at_least(d, past, n(INT64_MAX)), DIMS_YES);
  assert_false(dims_is_number(d, dims_neg(d, n(INT64_MIN)), &x));
  assert_false(dims_is_number(d, dims_mul(d, n(INT64_C(1) << 62), n(2)), &x));
  assert_true(dims_is_number(d, dims_mul(d, n(INT64_C(1) << 62), n(-2)), &x));
  assert_int_equal(x, INT64_MIN);
  const struct dims_binding large = {t, INT64_MAX};
  assert_false(dims_value(d, e("t + 1"), &large, 1, &x));
  assert_true(dims_value(d, e("t - 1"), &large, 1, &x));
  assert_false(dims_value(d, e("t//s"), &large, 1, &x));
}

static void test_bombs(void **state) {
  (void)state;
  dim_id x = sym("n");
  for (uint32_t i = 0; i < 1000; i++)
    x = dims_mul(d, x, x);
  assert_true(dims_least(d, x) >= 1);
  for (uint32_t i = 0; i < 100000; i++)
    x = dims_add(d, dims_floor_div(d, dims_mul(d, x, n(3)), n(5 + i % 3)), sym("n"));
  // Sums of many symbols, and their products.
  x = n(1);
  for (uint32_t i = 0; i < 3 * DIMS_TERMS; i++)
    x = dims_add(d, x, sym(arena_printf(&scratch, "s%u", i)));
  x = e("a + b + c + d + 1");
  for (uint32_t i = 0; i < 50; i++)
    x = dims_mul(d, x, i % 2 ? x : dims_sub(d, x, n(i)));
  for (uint32_t i = 0; i < 300; i++)
    x = dims_max(d, x, dims_sub(d, sym(arena_printf(&scratch, "s%u", i)), n(i)));
  for (uint32_t i = 0; i < 300; i++)
    x = dims_exact_div(d, dims_mul(d, x, x), dims_add(d, x, n(1)));
  // Max of Max of quotients, all unlike.
  for (uint32_t i = 0; i < 2000; i++) {
    const dim_id y =
        dims_floor_div(d, dims_max(d, x, sym(arena_printf(&scratch, "s%u", i % 90))), n(2 + i % 5));
    x = dims_max(d, dims_sub(d, x, y), dims_min(d, y, dims_mul(d, n(3), x)));
  }
  // Comparisons of many members leave nothing behind.
  dim_id many = n(0), others = n(0);
  for (uint32_t i = 0; i < DIMS_MEMBERS - 1; i++) {
    many = dims_max(d, many, dims_sub(d, sym(arena_printf(&scratch, "s%u", i)), n(7)));
    others = dims_max(d, others, dims_sub(d, sym(arena_printf(&scratch, "r%u", i)), n(7)));
  }
  const dim_id product = dims_mul(d, many, n(3)), other = dims_mul(d, others, n(5));
  const uint32_t before = dims_count(d);
  assert_int_equal(dims_at_least(d, product, other), DIMS_MAYBE);
  assert_int_equal(dims_equal(d, product, other), DIMS_MAYBE);
  assert_int_equal(dims_count(d), before);
  // The same question again and again costs no rows.
  for (uint32_t i = 0; i < 1000; i++)
    dims_floor_div(d, dims_add(d, sym("n"), n(i % 7)), n(2));
  const uint32_t settled = dims_count(d);
  for (uint32_t i = 0; i < 1000; i++)
    dims_floor_div(d, dims_add(d, sym("n"), n(i % 7)), n(2));
  assert_int_equal(dims_count(d), settled);
}

// ---- declared equal ------------------------------------------------------------------------------------

static void test_unite(void **state) {
  (void)state;
  const dim_id t = sym("t"), s = sym("s"), b = sym("b"), x = dims_fresh(d, 0);
  const dim_id half = e("(t + x1)//2"), xt = dims_mul(d, x, t);
  assert_int_equal(dims_find(d, xt), xt);
  // One without a name gives way; so does what it is in, old or new.
  assert_true(dims_unite(d, x, s));
  assert_int_equal(dims_find(d, x), s);
  assert_int_equal(dims_find(d, xt), e("s*t"));
  assert_int_equal(dims_add(d, x, n(1)), e("s + 1"));
  assert_int_equal(dims_least(d, x), 1);
  // Known to be different: nothing happens.
  assert_false(dims_unite(d, t, dims_add(d, t, n(1))));
  assert_false(dims_unite(d, n(3), n(4)));
  assert_false(dims_unite(d, t, n(0)));
  assert_int_equal(dims_find(d, t), t);
  // Isolated: x1 = t + 4.
  assert_true(dims_unite(d, e("x1 - 4"), t));
  assert_int_equal(dims_find(d, half), e("t + 2"));
  // The newer name gives way to the older, and a number takes all.
  assert_true(dims_unite(d, s, t));
  assert_int_equal(dims_find(d, s), t);
  assert_int_equal(dims_find(d, x), t);
  assert_int_equal(dims_equal(d, e("s*b"), e("t*b")), DIMS_YES);
  assert_true(dims_unite(d, x, n(8)));
  assert_int_equal(dims_find(d, t), n(8));
  assert_int_equal(dims_find(d, half), n(10));
  assert_int_equal(e("t//3 + s"), n(10));
  assert_false(dims_unite(d, s, n(9)));
  // No symbol can be isolated: joined as they are.
  assert_true(dims_unite(d, e("b*h"), e("2*c*f")));
  assert_int_equal(dims_find(d, e("b*h")), dims_find(d, e("2*c*f")));
  assert_int_equal(dims_equal(d, e("b*h"), e("2*c*f")), DIMS_YES);
  assert_int_equal(dims_equal(d, e("b*h + 1"), e("2*c*f")), DIMS_NO);
  assert_true(dims_unite(d, e("b*h"), n(24)));
  assert_int_equal(dims_find(d, e("2*c*f")), n(24));
  // A symbol in what was joined is replaced later.
  assert_true(dims_unite(d, b, n(6)));
  assert_int_equal(dims_find(d, e("b*h")), n(24));
  assert_int_equal(dims_find(d, sym("h")), n(4));
  assert_int_equal(dims_find(d, NO_ID), NO_ID);
}

// Joined, then made equal the other way round: both have one representative, whichever it is.
static void test_unite_both_ways(void **state) {
  (void)state;
  const dim_id one = e("s*t"), two = e("u*v");
  assert_true(dims_unite(d, one, two));
  assert_int_equal(dims_find(d, one), dims_find(d, two));
  assert_true(dims_unite(d, e("s"), e("u")));
  assert_true(dims_unite(d, e("t"), e("v")));
  assert_int_equal(dims_find(d, one), dims_find(d, two));
  // A chain of many.
  dim_id last = dims_fresh(d, 0);
  const dim_id first = last;
  for (uint32_t i = 0; i < 100000; i++) {
    const dim_id next = dims_fresh(d, 0);
    assert_true(dims_unite(d, i % 2 ? next : last, i % 2 ? last : next));
    last = next;
  }
  assert_int_equal(dims_find(d, last), dims_find(d, first));
  assert_true(dims_unite(d, last, n(5)));
  assert_int_equal(dims_find(d, first), n(5));
}

static uint32_t rows_of_uniting(uint32_t symbols) {
  dim_id sum = n(0);
  char name[16];
  for (uint32_t i = 0; i < symbols; i++) {
    snprintf(name, sizeof name, "a%u", i);
    sum = dims_add(d, sum, sym(name));
  }
  snprintf(name, sizeof name, "b%u", symbols);
  const dim_id other = sym(name);
  const uint32_t before = dims_count(d);
  assert_true(dims_unite(d, other, sum));
  assert_int_equal(dims_find(d, other), sum);
  return dims_count(d) - before;
}

// One of the symbols is isolated, not each: the rows are as many as the terms, not their square.
static void test_unite_sum_of_many(void **state) {
  (void)state;
  assert_in_range(rows_of_uniting(15), 0, 2 * 15);
  assert_in_range(rows_of_uniting(60), 0, 2 * 60);
}

// Of a symbol that shares its bit with one that was replaced nothing is made anew.
static void test_find_what_was_not_replaced(void **state) {
  dim_id symbols[130];
  (void)state;
  for (uint32_t i = 0; i < 130; i++)
    symbols[i] = dims_fresh(d, 0);
  const dim_id sum = dims_add(d, symbols[0], dims_floor_div(d, symbols[64], n(3)));
  assert_true(dims_unite(d, symbols[128], n(5)));
  const uint32_t before = dims_count(d);
  assert_int_equal(dims_find(d, sum), sum);
  assert_int_equal(dims_count(d), before);
}

// What is declared is true of every sampled run; then so are all answers.
static void test_unite_random(void **state) {
  enum { SYMBOLS = 12 };
  uint32_t united = 0, checked = 0;
  (void)state;
  chance_seed = 0;
  for (uint32_t round = 0; round < 200; round++) {
    struct dims_binding run[SYMBOLS];
    dim_id pool[80];
    int64_t values[80], got;
    uint32_t count = 0;
    dims_free(d);
    d = dims_new();
    for (uint32_t i = 0; i < SYMBOLS; i++) {
      values[count] = 1 + chance_below(5);
      pool[count] = i % 3 ? sym(arena_printf(&scratch, "s%u", i)) : dims_fresh(d, 0);
      run[i] = (struct dims_binding){pool[count], values[count]};
      count++;
    }
    while (count < 80) {
      const uint32_t a = chance_below(count), b = chance_below(count);
      static dim_id (*const by[])(struct dims *, dim_id, dim_id) = {dims_add, dims_sub, dims_mul,
                                                                    dims_max};
      const uint32_t op = chance_below(4);
      pool[count] = by[op](d, pool[a], pool[b]);
      if (!dims_value(d, pool[count], run, SYMBOLS, &values[count]) || values[count] > 1000 ||
          values[count] < -1000)
        continue;
      count++;
      for (uint32_t i = 0; i < count; i++) {
        const uint32_t k = chance_below(count);
        if (i == k || values[i] != values[k] || chance_below(40)) continue;
        assert_true(dims_unite(d, pool[i], pool[k]));
        assert_int_equal(dims_find(d, pool[i]), dims_find(d, pool[k]));
        united++;
      }
    }
    for (uint32_t i = 0; i < count; i++) {
      const uint32_t k = chance_below(count);
      const enum dims_answer equal = dims_equal(d, pool[i], pool[k]);
      const enum dims_answer at_least = dims_at_least(d, pool[i], pool[k]);
      if (dims_value(d, dims_find(d, pool[i]), run, SYMBOLS, &got)) {
        assert_int_equal(got, values[i]);
        checked++;
      }
      if (equal != DIMS_MAYBE) assert_int_equal(equal == DIMS_YES, values[i] == values[k]);
      if (at_least != DIMS_MAYBE) assert_int_equal(at_least == DIMS_YES, values[i] >= values[k]);
    }
    arena_reset(&scratch);
  }
  assert_true(united > 1000);
  assert_true(checked > 10000);
}

static void test_replace(void **state) {
  (void)state;
  const dim_id x = e("Max(0, n - 3) + exact(b*s, h) + trunc(n - 5, 2)"), name = sym("n");
  assert_int_equal(dims_replace(d, x, name, n(8)), e("5 + exact(b*s, h) + 1"));
  assert_int_equal(dims_replace(d, x, name, e("2*t")),
                   e("Max(0, 2*t - 3) + exact(b*s, h) + trunc(2*t - 5, 2)"));
  assert_int_equal(dims_replace(d, x, sym("h"), sym("b")),
                   e("Max(0, n - 3) + s + trunc(n - 5, 2)"));
  assert_int_equal(dims_replace(d, x, sym("h"), n(0)), NO_ID);
  assert_int_equal(dims_replace(d, x, sym("other"), n(0)), x);
  assert_int_equal(dims_replace(d, x, e("n + 1"), n(0)), x);
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
    assert_true(count.of[k] > 1000);
    equal += count.of[k];
  }
  print_message("%u equal, %u unknown, %u texts, answers %u %u %u, %u %u %u\n", equal,
                count.unknown, count.texts, count.answers[0][0], count.answers[0][1],
                count.answers[0][2], count.answers[1][0], count.answers[1][1], count.answers[1][2]);
  assert_true(equal >= 18000);
}

int test_dims(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_numbers, begin, end),
      cmocka_unit_test_setup_teardown(test_vectors, begin, end),
      cmocka_unit_test_setup_teardown(test_normal_form, begin, end),
      cmocka_unit_test_setup_teardown(test_parse, begin, end),
      cmocka_unit_test_setup_teardown(test_no_name, begin, end),
      cmocka_unit_test_setup_teardown(test_overflow, begin, end),
      cmocka_unit_test_setup_teardown(test_bombs, begin, end),
      cmocka_unit_test_setup_teardown(test_unite, begin, end),
      cmocka_unit_test_setup_teardown(test_unite_both_ways, begin, end),
      cmocka_unit_test_setup_teardown(test_unite_sum_of_many, begin, end),
      cmocka_unit_test_setup_teardown(test_find_what_was_not_replaced, begin, end),
      cmocka_unit_test_setup_teardown(test_unite_random, begin, end),
      cmocka_unit_test_setup_teardown(test_replace, begin, end),
      cmocka_unit_test_setup_teardown(test_random, begin, end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
