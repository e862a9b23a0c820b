// The digest of a source file, all of it.
#ifndef WEIR_HASH_SOURCE_H
#define WEIR_HASH_SOURCE_H

#include "digest.h"
#include "sources.h"

// ERR_RETRY where the run is to stop.
int hash_source(struct sources *s, uint32_t file, uint8_t sha256[DIGEST_BYTES], struct err *err);

#endif
