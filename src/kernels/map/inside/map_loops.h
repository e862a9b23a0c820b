// Inside the room: loops over arrays of one C type. The second operand of an operation on one is
// not looked at.
#ifndef WEIR_MAP_LOOPS_H
#define WEIR_MAP_LOOPS_H

#include "kernels/map/kernels_map.h"

// Gives the number of open results.
typedef size_t map_loop(void *out, const void *a, const void *b, size_t n);

// NULL if there is none. Of integers and bool (map_integers.c); of float and double
// (map_floats.c), without what functions.h makes. Not GREATER and GREATER_EQUAL: they are LESS and
// LESS_EQUAL of exchanged operands.
map_loop *map_integers_loop(enum kernels_map op, enum dtype type);
map_loop *map_floats_loop(enum kernels_map op, enum dtype type);

// Before a loop whose result may lie where an operand lies, element on element: no turn needs what
// another one wrote.
#if defined(__clang__)
#define MAP_TURNS_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define MAP_TURNS_APART _Pragma("GCC ivdep")
#endif

#endif
