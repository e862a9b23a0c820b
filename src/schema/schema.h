// Operators and their versions: what a node means under another opset.
#ifndef WEIR_SCHEMA_H
#define WEIR_SCHEMA_H

#include "model.h"

// A version of an operator. `obstacle` is its rule (ops.def): why a node that was written for the
// version before means something else under this one, or NULL; no rule: it never does.
struct schema_look;
struct schema_version {
  int64_t since;
  const char *(*obstacle)(const struct schema_look *l);
  const char *attributes; // names separated by blanks, what the rule looks at
};

// An operator of ai.onnx with its versions in order; since 0: behind the last.
struct schema_row {
  const char *op_type;
  const struct schema_version *versions;
};

// All rows, sorted by op_type.
const struct schema_row *schema_rows(uint32_t *n);
// The row of an operator, or NULL.
const struct schema_row *schema_of(struct span op_type);

// The first release of ONNX with an opset of ai.onnx ("1.12"), and its year; NULL: none that is known.
struct schema_release {
  int64_t opset;
  const char *release;
  int year;
};
const struct schema_release *schema_release_of(int64_t opset);

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
