// What an audit or a rebuild says of a range of a file.
#ifndef WEIR_AUDIT_FOUND_H
#define WEIR_AUDIT_FOUND_H

#include "audit_tensors.h"
#include "json.h"

// A line, and the tensors in the range below it, the first few by name.
void audit_found_print(const struct audit_found *f);
// {"file","offset","length","what","tensors","narrowed","whole_tensors"}
void audit_found_write(const struct audit_found *f, struct json_out *j);

#endif
