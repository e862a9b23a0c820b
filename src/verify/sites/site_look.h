// Room: verification of sites: each is run on both sides, compared and judged.
//
// One site looked at: run on both sides, compared, judged.
#ifndef WEIR_SITE_LOOK_H
#define WEIR_SITE_LOOK_H

#include "verify/sites/site_run.h"

// Says in *row (its end, figures, bounds and why, which are stored in the arena of r->v->found) what came of site i. *a: for what is drawn
// and what comes out. -1: no site can be looked at any more, as after a signal.
int site_look(struct site_run *r, uint32_t i, struct verified_row *row, struct arena *a,
              struct err *err);

#endif
