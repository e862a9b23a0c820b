// Recipes over made-up sources (fake_io.h), and an evaluator of them.
#ifndef WEIR_TEST_EVAL_FIXTURE_H
#define WEIR_TEST_EVAL_FIXTURE_H

#include "fake_io.h"
#include "stream/eval/eval.h"

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

static void open_eval(struct fixture *f, size_t budget) {
  struct err err = {0};
  assert_int_equal(eval_open(&f->ev, &f->r, &f->io, budget, &err), 0);
}

static void close_all(struct fixture *f) {
  eval_close(f->ev);
  recipes_free(&f->r);
  *f = (struct fixture){0};
}

static void read_ok(struct fixture *f, uint32_t id, uint64_t off, void *buf, size_t n) {
  struct err err = {0};
  if (recipe_read(f->ev, id, off, buf, n, &err) != 0) fail_msg("%s", err.msg);
}

// A made-up tensor as one raw extent at `off`, and a float of it: its bits, because many are NaN.
static uint32_t made_up(struct fixture *f, enum dtype dtype, const int64_t *dims, uint32_t rank,
                        uint64_t off) {
  uint64_t count, n = 0;
  assert_true(dims_product(dims, rank, &count) && dtype_bytes(dtype, count, &n));
  struct piece p = {.at = {off, n, FAKE_MADE_UP}, .count = n, .checkpoint = NO_ID};
  fake_allow(&f->io, p.at);
  return recipe_extent(&f->r, dtype, dims, rank, ENCODING_RAW, &p, 1, NULL);
}

static uint32_t made_up_bits(uint64_t off) {
  uint8_t bytes[4];
  uint32_t x;
  fake_made_up(off, bytes, 4);
  memcpy(&x, bytes, 4);
  return x;
}

#endif
