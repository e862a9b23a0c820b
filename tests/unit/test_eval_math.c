// What the kinds that compute promise beyond right bytes (those: test_eval_random.c): what they refuse
// and what they say then, that large operands stream, that what is used often is computed once, and
// that odd ranges and small boxes change nothing. Large sources are made up from their offset
// (fake_io.h).
#include "eval.h"
#include "eval_cache.h"
#include "eval_parts.h"
#include "fake_io.h"
#include "kernels_convert.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

struct fixture {
  struct recipes r;
  struct io io;
  struct eval *ev;
};

static void open_eval(struct fixture *f) {
  struct err err = {0};
  assert_int_equal(eval_open(&f->ev, &f->r, &f->io, EVAL_BUDGET_MIN, &err), 0);
}

static void close_all(struct fixture *f) {
  eval_close(f->ev);
  recipes_free(&f->r);
  *f = (struct fixture){0};
}

static uint32_t list(struct fixture *f, enum dtype dtype, const void *elements, int64_t n) {
  const uint32_t width = dtype_bits(dtype) / 8;
  return recipe_bytes(&f->r, dtype, &n, 1, span_of(elements, (size_t)n * width));
}

static void check_refused(struct fixture *f, uint32_t id, const char *want) {
  uint8_t buf[256];
  struct err err = {0};
  assert_int_equal(recipe_read(f->ev, id, 0, buf, (size_t)f->r.rows[id].bytes, &err), -1);
  assert_int_equal(err.kind, ERR_MODEL);
  if (!strstr(err.msg, want)) fail_msg("'%s' has no '%s'", err.msg, want);
}

// ---- casts -------------------------------------------------------------------------------------

static void test_open_casts(void **state) {
  (void)state;
  struct fixture f = {0};
  recipes_init(&f.r);
  const float x[] = {1, -2.5f, 3e9f, 4};
  const uint32_t of = list(&f, DTYPE_FLOAT, x, 4);
  open_eval(&f);
  check_refused(&f, recipe_cast(&f.r, of, DTYPE_INT32),
                "element 2 is 3e+09: ONNX does not say what a "
                "Cast from float makes of it in int32");
  int64_t wide[4];
  struct err err = {0};
  const uint32_t fits = recipe_cast(&f.r, of, DTYPE_INT64);
  assert_int_equal(recipe_read(f.ev, fits, 0, wide, sizeof wide, &err), 0);
  assert_int_equal(wide[1], -2);
  assert_int_equal(wide[2], 3000000000);
  check_refused(&f, recipe_cast(&f.r, of, DTYPE_FLOAT8E8M0), "element 1 is -2.5");
  close_all(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_open_casts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
