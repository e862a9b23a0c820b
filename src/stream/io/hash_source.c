// Sources are hashed for the manifest, and those beside the model for the edit log: read once more, a block at a time,
// and interrupted as any work is.
#include "stream/io/hash_source.h"

#include "base/arena.h"

enum { READ_BLOCK = 1 << 20 };

int hash_source(struct sources *s, uint32_t file, const volatile int *stop,
                uint8_t sha256[DIGEST_BYTES], struct err *err) {
  struct arena scratch = {0};
  const uint64_t size = sources_size(s, file);
  uint8_t *block = arena_alloc(&scratch, READ_BLOCK);
  struct digest *d = digest_new();
  int rc = 0;
  for (uint64_t off = 0; off < size && rc == 0; off += READ_BLOCK) {
    const size_t n = (size_t)min_u64(READ_BLOCK, size - off);
    rc = *stop ? err_set(err, ERR_RETRY, "interrupted while hashing the input '%s'",
                         sources_shown(s, file).s)
               : sources_read(s, file, off, block, n, err);
    if (rc == 0) digest_add(d, block, n);
  }
  digest_finish(d, sha256);
  arena_free(&scratch);
  return rc;
}
