// Operators and their versions: what a node means under another opset.
#ifndef WEIR_SCHEMA_H
#define WEIR_SCHEMA_H

#include "model.h"

enum schema_rule {
  SCHEMA_FIRST,
  SCHEMA_SAME,
  SCHEMA_WITHOUT,
  SCHEMA_WITH,
  SCHEMA_ZERO,
  SCHEMA_ONE_OUTPUT,
  SCHEMA_SECOND_INPUT,
  SCHEMA_FLOATING,
  SCHEMA_LAST_AXIS,
  SCHEMA_EXPLICIT_PADS,
  SCHEMA_SAMPLING,
  SCHEMA_RESIZE_13,
  SCHEMA_CHANGED,
};

struct schema_row {
  const char *domain, *op_type; // "" is ai.onnx
  int64_t since_version;
  enum schema_rule rule;  // from the row before to this one (ops.def)
  const char *attributes; // names separated by blanks, what the rule looks at
};

// All rows, sorted by (domain, op_type, since_version).
const struct schema_row *schema_rows(uint32_t *n);
// The rows of an operator; n = 0 and NULL if there are none.
const struct schema_row *schema_of(struct span domain, struct span op_type, uint32_t *n);

// Why a node cannot be read under another version of its domain's opset.
struct schema_change {
  int64_t since_version; // where it changed; 0: the operator is not in the table
  const char *why;       // "attribute 'axes' became an input", …; a literal or in *scratch
};

// Does a node of the domain "" that was written for opset `from` mean the same under `to` (>=
// from)? What nodes of other domains mean does not depend on it: true. On false, *change says why.
bool schema_same(const struct model *m, uint32_t node, int64_t from, int64_t to,
                 struct arena *scratch, struct schema_change *change);

#endif
