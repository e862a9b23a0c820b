// What an audit found, on standard output; and what it or a rebuild says of a range of a file. For programs: audit_json.h.
#ifndef WEIR_RENDER_AUDIT_H
#define WEIR_RENDER_AUDIT_H

#include "audit/audit.h"

// Lines, and hints; the operand is as it was typed.
void render_audit(struct audit *a, const char *operand);

// A line, and the tensors in the range below it, the first few by name.
void render_audit_found(const struct audit_found *f);

#endif
