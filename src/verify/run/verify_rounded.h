// Products of floats by the model, of codes in an optimized session: it rounds the activations to 8 bits.
#ifndef WEIR_VERIFY_ROUNDED_H
#define WEIR_VERIFY_ROUNDED_H

#include "verify/cut/sites.h"
#include "verify/run/verify.h"

// How many nodes of the model it does so at.
uint64_t verify_rounded_nodes(const struct model *m, const char *version);
// At a node of the site, before or after the edits?
bool verify_rounded_in(const struct model *source, const struct model *result, const struct site *s,
                       const char *version);

#endif
