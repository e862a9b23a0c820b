// What an audit found, as members of an open object; and what it or a rebuild says of a range of a file.
#ifndef WEIR_AUDIT_JSON_H
#define WEIR_AUDIT_JSON_H

#include "audit/audit.h"
#include "json/json.h"

void audit_json(const struct audit *a, struct json_out *j);
// {"file","offset","length","what","tensors","narrowed","whole_tensors"}
void audit_json_found(const struct audit_found *f, struct json_out *j);

#endif
