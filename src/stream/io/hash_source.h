// The digest of a source file, all of it.
#ifndef WEIR_HASH_SOURCE_H
#define WEIR_HASH_SOURCE_H

#include "base/digest.h"
#include "stream/io/sources.h"

// ERR_RETRY once *stop is set.
int hash_source(struct sources *s, uint32_t file, const volatile int *stop,
                uint8_t sha256[DIGEST_BYTES], struct err *err);

#endif
