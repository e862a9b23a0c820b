// What a verification found, as a member of an open object: "verification": {…}.
#ifndef WEIR_VERIFIED_JSON_H
#define WEIR_VERIFIED_JSON_H

#include "json/json.h"
#include "report/verified.h"

void verified_json(const struct verified *found, struct json_out *j);

#endif
