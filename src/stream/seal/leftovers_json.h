// What interrupted runs left, as members of an open object.
#ifndef WEIR_LEFTOVERS_JSON_H
#define WEIR_LEFTOVERS_JSON_H

#include "json/json.h"
#include "stream/seal/leftovers.h"

void leftovers_json(const struct leftovers *c, const char *dir, struct json_out *j);

#endif
