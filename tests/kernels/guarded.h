// What the tests of kernels share: random bits, memory between guard pages, and a walk over all
// sets of features.
#ifndef WEIR_TEST_GUARDED_H
#define WEIR_TEST_GUARDED_H

#include "kernels/kernels.h"
#include "kernels/kernels_table.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

enum { JUNK = 0xa5 }; // what outputs hold before

static uint64_t seed = 0x243f6a8885a308d3;

static uint64_t random_64(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed * 0x2545f4914f6cdd1d;
}

// ---- guarded memory ----------------------------------------------------------------------------

struct guarded {
  uint8_t *pages; // first usable byte
  size_t n;       // usable bytes, whole pages
};

static struct guarded guarded_open(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), n = (bytes + page - 1) / page * page;
  uint8_t *at = mmap(NULL, n + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(at != MAP_FAILED);
  assert_int_equal(mprotect(at + page, n, PROT_READ | PROT_WRITE), 0);
  return (struct guarded){at + page, n};
}

static void guarded_close(struct guarded *g) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  munmap(g->pages - page, g->n + 2 * page);
}

// n bytes that touch the guard page before (at_end false) or behind them.
static uint8_t *guarded_at(const struct guarded *g, size_t n, bool at_end) {
  assert_true(n <= g->n);
  return at_end ? g->pages + g->n - n : g->pages;
}

// Is SHA-256 what is tested? Features that it alone makes use of change nothing for all else.
static bool sha256_is_tested;

static struct kernels_table choice(uint32_t set) {
  struct kernels_table t = kernels_choose(set);
  t.isa = NULL;
  if (sha256_is_tested) return t;
  t.sha256_lanes = NULL;
  t.sha256_width = NULL;
  return t;
}

// Does a smaller set choose the very functions that this one does?
static bool chosen_by_less(uint32_t set) {
  const struct kernels_table mine = choice(set);
  for (uint32_t less = set; less != 0;) {
    less = (less - 1) & set;
    const struct kernels_table other = choice(less);
    if (memcmp(&mine, &other, sizeof mine) == 0) return true;
  }
  return false;
}

// Calls fn for every set of features, the empty one included, that chooses functions of its own.
static void for_each_feature_set(void (*fn)(void)) {
  kernels_mask(UINT32_MAX);
  uint32_t all = kernels_features();
  for (uint32_t set = all;; set = (set - 1) & all) {
    if (chosen_by_less(set)) continue;
    kernels_mask(set);
    assert_int_equal(kernels_features(), set);
    fn();
    if (set == 0) break;
  }
  assert_string_equal(kernels_isa_name(), "portable");
  kernels_mask(UINT32_MAX);
}

#endif
