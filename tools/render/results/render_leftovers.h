// What interrupted runs left (leftovers.h), on standard output.
#ifndef WEIR_RENDER_LEFTOVERS_H
#define WEIR_RENDER_LEFTOVERS_H

#include "stream/seal/leftovers.h"

// A line or more for each; without quiet a summary, with yes of what was removed.
void render_leftovers(struct leftovers *c, const char *dir, bool yes, bool quiet);

#endif
