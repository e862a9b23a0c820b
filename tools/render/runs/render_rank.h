// What was ranked, for people and programs.
#ifndef WEIR_RENDER_RANK_H
#define WEIR_RENDER_RANK_H

#include "json/json.h"
#include "report/run_passes.h"

const char *render_rank_by(const struct rank_row *row); // "gram", "channels", "weight"
// "21.04", "exact" or "nan"; "-": it is not known.
const char *render_rank_db(double db, bool known, char out[16]);
void render_rank_text(const struct rank *k);
// The member "rank" of the report.
void render_rank_json(const struct rank *k, struct json_out *j);

#endif
