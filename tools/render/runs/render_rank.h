// What was ranked, for people. For programs: run_passes_json.h.
#ifndef WEIR_RENDER_RANK_H
#define WEIR_RENDER_RANK_H

#include "report/run_passes.h"

// "21.04", "exact" or "nan"; "-": it is not known.
const char *render_rank_db(double db, bool known, char out[16]);
void render_rank_text(const struct rank *k);

#endif
