// What a suite can ask of the program that it is in (suites.c).
#ifndef WEIR_TEST_SUITES_H
#define WEIR_TEST_SUITES_H

// The nth word after the suite's name, counted from 1; NULL where there is none.
const char *suite_argument(int n);

#endif
