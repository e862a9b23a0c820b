// A companion file that is written as it comes about, so that its text is never held: the digests
// per tensor of a large model are as long as its index.
#ifndef WEIR_COMPANION_H
#define WEIR_COMPANION_H

#include "base/digest.h"
#include "base/err.h"
#include "platform/files.h"

struct companion;

// Makes `name` in a folder (none: nowhere, for digests alone), in place of what was left there.
int companion_open(struct companion **out, struct folder folder, const char *name, struct err *err);
// Appends; -1 with an err that names the file.
int companion_add(struct companion *l, struct span text, struct err *err);
// Makes it durable. To be called once; nothing can be added any more.
int companion_end(struct companion *l, struct err *err);
void companion_close(struct companion *l); // keeps the file; NULL: does nothing

// After companion_end.
const char *companion_name(const struct companion *l);
const uint8_t *companion_sha256(const struct companion *l); // DIGEST_BYTES
// Of each 64 MiB, as those of the outputs.
const uint8_t (*companion_units(const struct companion *l, uint32_t *n))[DIGEST_BYTES];

#endif
