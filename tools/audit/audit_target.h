// A written model by the operand MODEL|MANIFEST of those commands that go by its manifest.
#ifndef WEIR_AUDIT_TARGET_H
#define WEIR_AUDIT_TARGET_H

#include "arena.h"
#include "err.h"

struct audit_target {
  const char *manifest, *model, *signature; // as far as the user's folder
  const char *folder, *name;                // of the model
};

// A manifest may have been given another name; then the model is not known, and only a manifest
// under its usual name can lead to tensors.
struct audit_target audit_target_of(const char *operand, struct arena *arena);
// ERR_RETRY for a model whose seal is unfinished, ERR_INPUT where neither it nor its manifest is there.
int audit_target_refuse(const char *operand, const struct audit_target *t, struct err *err);
// What may be wrong where there is no manifest. `command`: as "audit".
void audit_target_hint(const char *operand, const char *command, struct arena *arena,
                       struct err *err);

#endif
