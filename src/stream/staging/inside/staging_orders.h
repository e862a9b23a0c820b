// orders.json, as the folder of a plan has it (staging_join.h).
#ifndef WEIR_STAGING_ORDERS_H
#define WEIR_STAGING_ORDERS_H

#include "stream/staging/staging_join.h"

struct staging_orders_found {
  struct staging_orders orders; // texts in the arena
  uint8_t header_sha256[DIGEST_BYTES];
  bool lists_small; // there is small.jsonl, of
  uint8_t small_sha256[DIGEST_BYTES];
};
// -1: ERR_INPUT if there are none, or they were changed since they were written.
int staging_orders_read(const struct staging *st, struct staging_orders_found *found,
                        struct arena *a, struct err *err);

#endif
