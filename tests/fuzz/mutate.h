// Mutants of models: a few changes to the messages of an .onnx, drawn from a seed. They know the
// wire format and the numbers of ONNX's fields, not what a model means: so most mutants get past
// the reader of messages, and what they break is what passes trust.
#ifndef WEIR_MUTATE_H
#define WEIR_MUTATE_H

#include "base/arena.h"
#include "base/span.h"

enum { MUTATE_MOST_BYTES = 1 << 19 };

// The same arguments, the same mutant. `other`: a model that parts are taken from. *what: the words
// of the changes. The mutant, of at most MUTATE_MOST_BYTES (else it is `model` itself), and *what
// lie in *a.
struct span mutate(struct span model, struct span other, uint64_t seed, struct arena *a,
                   const char **what);

#endif
