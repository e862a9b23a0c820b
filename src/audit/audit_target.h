// Room: written models, compared with their manifests down to tensors (audit_files.h, audit_tensors.h), and signed
// (sign_model.h).
//
// Here: such a model by the operand MODEL|MANIFEST of those commands that go by its manifest.
#ifndef WEIR_AUDIT_TARGET_H
#define WEIR_AUDIT_TARGET_H

#include "base/arena.h"
#include "base/err.h"

struct audit_target {
  const char *manifest, *model, *signature; // as far as the user's folder
  const char *folder, *name;                // of the model
  // The name again, which the manifest has to be about; NULL: it is the manifest that was given,
  // under another name than a model's.
  const char *about;
};

// A manifest may have been given another name; then the model is not known before it is read.
struct audit_target audit_target_of(const char *operand, struct arena *arena);
// ERR_RETRY for a model whose seal is unfinished, ERR_INPUT for a folder, and where neither the model nor its manifest is
// there. `command`: as "audit".
int audit_target_refuse(const char *operand, const struct audit_target *t, const char *command,
                        struct err *err);
// The model that a manifest is about which was given under any name: t->model, t->name.
void audit_target_found(struct audit_target *t, const char *subject, struct arena *arena);
// What may be wrong where there is no manifest.
void audit_target_hint(const char *operand, const char *command, struct arena *arena,
                       struct err *err);

#endif
