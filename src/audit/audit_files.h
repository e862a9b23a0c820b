// What the .onnx refers to, beside what its manifest lists.
#ifndef WEIR_AUDIT_FILES_H
#define WEIR_AUDIT_FILES_H

#include "audit/audit_target.h"
#include "stream/seal/manifest.h"

#include "base/table.h"

struct audit_files {
  TABLE(const char *,
        unlisted); // data files that the .onnx refers to and that the manifest does not list
};

// For a model whose .onnx is what the manifest says: one that differs may refer to anything. Errors of load_model, which
// opens no data file; ERR_MODEL where the manifest lists a file that the model does not have. Names live in *arena.
int audit_files_compare(struct audit_files *out, const struct audit_target *t,
                        const struct manifest *m, struct arena *arena, struct err *err);
// The same for who wants all of them listed: ERR_FAIL with the first that is not.
int audit_files_refuse(const struct audit_target *t, const struct manifest *m, struct err *err);

#endif
