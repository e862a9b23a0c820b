// A toy of its own for every test of a program, and no fault left behind: for cmocka's
// setup_teardown.
#ifndef WEIR_TEST_TOY_FIXTURE_H
#define WEIR_TEST_TOY_FIXTURE_H

#include "fs_fault.h"
#include "toy.h"

static struct toy toy;

static int set_up(void **state) {
  (void)state;
  toy_open(&toy);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  fs_fault_remove();
  toy_close(&toy);
  return 0;
}

#endif
