// All weights and their candidates, as members of an open object. Numbers read back exactly.
#ifndef WEIR_CANDIDATES_JSON_H
#define WEIR_CANDIDATES_JSON_H

#include "candidates/candidates.h"
#include "json/json.h"

void candidates_json(const struct candidates *c, struct json_out *j);

#endif
