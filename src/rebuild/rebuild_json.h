// What a rebuild found, as members of an open object.
#ifndef WEIR_REBUILD_JSON_H
#define WEIR_REBUILD_JSON_H

#include "json/json.h"
#include "rebuild/rebuild.h"

void rebuild_json(const struct rebuild *r, struct json_out *j);

#endif
