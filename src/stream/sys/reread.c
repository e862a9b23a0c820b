// Reading back what was written, to hash it.
//
// A unit is hashed in order, but its later parts may have been made by other workers: the unit's
// owner reads those back. Tensors are read back where each is to have a digest of its own, and a
// file that lies where a seal wants to put one, to see whether it is the same. Outputs
// are read through their own descriptors with ordinary calls, whatever engine wrote them: what is
// wanted here is what the file system gives to anybody who asks. It comes from the page cache, as a
// rule.
#include "reread.h"

#include <errno.h>
#include <unistd.h>

int reread_hash(const struct reread *range, struct digest *sha, uint8_t *buf, size_t n,
                struct err *err) {
  for (uint64_t at = 0; at < range->len;) {
    if (range->go_on && !range->go_on(range->ctx)) return 1;
    const ssize_t got =
        pread(range->fd, buf, (size_t)min_u64(n, range->len - at), (off_t)(range->off + at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return err_errno(err, got < 0 ? errno : EIO, ERR_IO, "cannot read back output '%s' at %lu",
                       quote_str(range->name).s, (range->off + at));
    digest_add(sha, buf, (size_t)got);
    at += (uint64_t)got;
  }
  return 0;
}
