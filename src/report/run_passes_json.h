// What passes did, as members of an open object: "passes", an object a step with every site it looked at, and "rank".
#ifndef WEIR_RUN_PASSES_JSON_H
#define WEIR_RUN_PASSES_JSON_H

#include "json/json.h"
#include "report/run_report.h"

void run_passes_json(const struct run_report *r, struct json_out *j);
const char *rank_by_word(const struct rank_row *row); // "gram", "channels", "weight"

#endif
