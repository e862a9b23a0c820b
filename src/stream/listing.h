// A companion file that is written as it comes about, so that its text is never held: the digests
// per tensor of a large model are as long as its index.
#ifndef WEIR_LISTING_H
#define WEIR_LISTING_H

#include "digest.h"
#include "err.h"

struct listing;

// Makes `name` in a folder (-1: nowhere, for digests alone), in place of what was left there.
int listing_open(struct listing **out, int folder, const char *name, struct err *err);
// Appends; -1 with an err that names the file.
int listing_add(struct listing *l, struct span text, struct err *err);
// Makes it durable. To be called once; nothing can be added any more.
int listing_end(struct listing *l, struct err *err);
void listing_close(struct listing *l); // keeps the file; NULL: does nothing

// After listing_end.
const char *listing_name(const struct listing *l);
const uint8_t *listing_sha256(const struct listing *l); // DIGEST_BYTES
// Of each 64 MiB, as those of the outputs.
const uint8_t (*listing_units(const struct listing *l, uint32_t *n))[DIGEST_BYTES];

#endif
