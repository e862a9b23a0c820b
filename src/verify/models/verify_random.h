// What the outputs of a model are made of: numbers that the runtime draws while it runs, and floats that became whole numbers.
#ifndef WEIR_VERIFY_RANDOM_H
#define WEIR_VERIFY_RANDOM_H

#include "base/arena.h"
#include "infer/infer.h"
#include "model/model.h"
#include "schema/schema.h"
#include "verify/arrays/array.h"

enum verify_does {
  VERIFY_DRAWS = 1,  // draws numbers
  VERIFY_ROUNDS = 2, // makes floats whose last bits depend on how they are computed
  VERIFY_JUMPS =
      4, // makes what is no float of floats: another whole number where these differ by rounding
  VERIFY_COMPUTES =
      8, // JUMPS, and of floats that it makes itself: those of another kernel are others
  VERIFY_PICKS =
      16, // JUMPS, to a place or a truth value: one more is another one, and not about the same
  VERIFY_FLOATS = 32,   // makes floats, whatever it reads
  VERIFY_BY_DIMS = 64,  // depends on the dims of what it reads, and on nothing else of it
  VERIFY_CHOOSES = 128, // makes places of whole numbers, which floats may be rounded to
};

struct verify_random {
  const struct model *m;
  struct infer *in;
  uint8_t *does;                // by node: enum verify_does, of the function too that it calls
  bool *calls;                  // by node: it calls a function
  bool any;                     // one of them draws
  uint32_t *inner;              // by node: 1 + the last node that stands in a body of it
  uint32_t *next;               // by node: 1 + another that stands in a body of the same node
  struct dims_binding *symbols; // of the dims of the model's inputs
  uint32_t n_symbols;
};

// In *a; the model, inferred in `in`, stays. Operators for random numbers without a seed draw them, and a Dropout that drops.
void verify_random_find(struct verify_random *r, const struct model *m, struct infer *in,
                        struct arena *a);

// A node of whose numbers output `place` of the main graph is made; NO_ID: there is none. Linear in the nodes.
uint32_t verify_random_behind(const struct verify_random *r, uint32_t place);

// Does the draw leave open that output `place` is of the one form and of the other? A dim that follows from those of the inputs is
// not drawn.
bool verify_random_forms(const struct verify_random *r, uint32_t place, const struct array *a,
                         const struct array *b);

// Where elements are whole numbers, truth values or strings: how far apart may those of output `place` be in two models that compute
// the same?
enum verify_whole {
  VERIFY_WHOLE_EQUAL, // not at all: no float that is rounded has a part in them
  VERIFY_WHOLE_CLOSE, // a truth value that floats decide, and what is made of some
  VERIFY_WHOLE_PLACE, // a place that floats decide
  VERIFY_WHOLE_STEP,  // floats that were rounded to whole numbers
};
// Linear in the nodes.
enum verify_whole verify_whole_of(const struct verify_random *r, uint32_t place);
// Are the floats of output `place` stored whole numbers or truth values: does it only move or Cast what is no float? Linear in the nodes.
bool verify_whole_stored(const struct verify_random *r, uint32_t place);
// What the node does of these but DRAWS, where it neither calls a function nor has bodies; for verify_random_find.
uint8_t verify_whole_does(struct schema_names *names, struct infer *in, uint32_t node);

#endif
