// What passes found in weights (artifact.h), kept for others in a folder of the user's: DIR/<sha256>.jsonl each.
// Commands that write models put them there; 'weir rebuild' takes those that the manifest lists.
#ifndef WEIR_ARTIFACT_CACHE_H
#define WEIR_ARTIFACT_CACHE_H

#include "stream/staging/artifact.h"

struct artifact_cache {
  const char *folder;              // NULL: nothing is taken
  const struct json_value *listed; // [{"stage":"measure","sha256":"…"},…]
};

// Makes the folder if only its last part is missing, and sees whether files can be made there.
int artifact_cache_make(const char *folder, struct err *err);
// A file of its name with other bytes, or that cannot be read, is written over.
int artifact_cache_put(const char *folder, const struct artifact *a, struct err *err);
// Looks for a listed answer to the question. *text: it, to be freed by fs_free, or at NULL: there is none. ERR_INPUT
// for a file whose name says that it is one, and whose bytes do not.
int artifact_cache_take(const struct artifact_cache *k, const struct artifact_request *q,
                        const uint8_t id[DIGEST_BYTES], struct span *text, struct err *err);

#endif
