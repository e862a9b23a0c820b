// What an audit found, on standard output; and what it or a rebuild says of a range of a file.
#ifndef WEIR_RENDER_AUDIT_H
#define WEIR_RENDER_AUDIT_H

#include "audit/audit.h"
#include "json/json.h"

// Lines, and hints; the operand is as it was typed.
void render_audit(struct audit *a, const char *operand);
void render_audit_json(const struct audit *a);

// A line, and the tensors in the range below it, the first few by name.
void render_audit_found(const struct audit_found *f);
// {"file","offset","length","what","tensors","narrowed","whole_tensors"}
void render_audit_found_json(const struct audit_found *f, struct json_out *j);

#endif
