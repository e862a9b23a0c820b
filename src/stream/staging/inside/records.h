// Unit records: which units of a plan are finished and durable, with their digests.
#ifndef WEIR_RECORDS_H
#define WEIR_RECORDS_H

#include "base/digest.h"
#include "base/err.h"
#include "stream/staging/figure_sums.h"
#include "stream/staging/staging.h"

#include <string.h>

// Is it the name of a records file?
static inline bool records_is_name(const char *name) {
  return strncmp(name, "records.", 8) == 0;
}

// Makes a free `records.<n>` in the folder, n = first, first + step, …: a file of this writer alone. Returns it,
// or none with err. (Members of a plan begin at numbers of their own, so that they need not try one another's.)
struct file records_open(struct folder folder, uint32_t first, uint32_t step, struct err *err);
// Appends one line. The unit's bytes must be durable before. errors: of what the unit quantized,
// maybe empty.
int records_append(struct file fd, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                   const struct figure_sums *errors, const uint8_t header_sha256[DIGEST_BYTES],
                   struct err *err);

struct records {
  const uint8_t *header_sha256; // records that carry another one do not count
  uint32_t n_units;
  uint8_t (*digests)[DIGEST_BYTES];
  uint8_t *done;
  struct figure_sums *errors;    // of all units
  struct staging_others *others; // emptied first; records that contradict one that was read before
  uint32_t unusable;             // lines that were passed over
};
// Reads every records file of the folder into *r. Lines that are torn, malformed, of another
// header or of an unknown unit are passed over.
int records_load(struct folder folder, struct records *r, struct err *err);

#endif
