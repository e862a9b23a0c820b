// Inside the room: exp, log, erf, tanh, sigmoid and pow of doubles, with the same bytes on every
// machine. They are loops as map_loops.h has them, over doubles at any address; none of their
// results is open.
#ifndef WEIR_FUNCTIONS_H
#define WEIR_FUNCTIONS_H

#include "kernels/map/inside/map_loops.h"

// Errors, in units of the last place of the double: exp, log 1; erf, tanh 1.5; sigmoid
// 2.5 (tests/kernels/test_map.c holds them to these bounds, against significands of 64 bits and more).
map_loop functions_exp, functions_log, functions_erf, functions_tanh, functions_sigmoid;
// a^b. For arguments that are floats, and a result in the range of floats: within 2^-43 of it.
// (b log a is rounded to a double before it is an exponent: the larger the result, the more of it
// is lost. That is why there is no pow of doubles in kernels_map.h.)
map_loop functions_pow;

#endif
