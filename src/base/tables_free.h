// Several tables of one struct, given back at once.
//
//   TABLES_FREE(thing, rows, names, seen);          TABLE_FREE of each; at most 10
#ifndef WEIR_TABLES_FREE_H
#define WEIR_TABLES_FREE_H

#include "base/table.h"

#define TABLES_FREE(t, ...)                                                                        \
  TABLES_FREE_COUNT(__VA_ARGS__, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)(t, __VA_ARGS__)
#define TABLES_FREE_COUNT(a, b, c, d, e, f, g, h, i, j, n, ...) TABLES_FREE_##n
#define TABLES_FREE_1(t, a) TABLE_FREE(t, a)
#define TABLES_FREE_2(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_1(t, __VA_ARGS__))
#define TABLES_FREE_3(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_2(t, __VA_ARGS__))
#define TABLES_FREE_4(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_3(t, __VA_ARGS__))
#define TABLES_FREE_5(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_4(t, __VA_ARGS__))
#define TABLES_FREE_6(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_5(t, __VA_ARGS__))
#define TABLES_FREE_7(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_6(t, __VA_ARGS__))
#define TABLES_FREE_8(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_7(t, __VA_ARGS__))
#define TABLES_FREE_9(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_8(t, __VA_ARGS__))
#define TABLES_FREE_10(t, a, ...) (TABLE_FREE(t, a), TABLES_FREE_9(t, __VA_ARGS__))

#endif
