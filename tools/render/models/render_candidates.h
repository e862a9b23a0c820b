// What candidates would make of weights (candidates.h), on standard output.
#ifndef WEIR_RENDER_CANDIDATES_H
#define WEIR_RENDER_CANDIDATES_H

#include "candidates/candidates.h"

// A table of the worst layers, or of every one, and totals; with quiet no line below it.
void render_candidates_text(struct candidates *c, bool every, bool quiet);
void render_candidates_csv(const struct candidates *c);

#endif
