// What a comparison found, as members of an open object: everything, uncut (docs/schema/diff.json).
#ifndef WEIR_DIFF_JSON_H
#define WEIR_DIFF_JSON_H

#include "compare/diff_words.h"
#include "json/json.h"

void diff_json(struct diffing *x, struct json_out *j);

#endif
