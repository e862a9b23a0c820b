// The edit log reader over anything: a head, then lines onto the sample model. Whatever is taken
// must leave the model whole, and the log that records it must replay to the same log.
#include "edit/edit_log.h"
#include "edit_sample.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

// Replays every line; gives how many were taken.
static uint64_t replay(struct edit_sample *s, struct span log) {
  uint64_t taken = 0;
  for (uint64_t number = 1; log.n > 0; number++) {
    const uint8_t *end = memchr(log.at, '\n', log.n);
    const struct span line = span_of(log.at, end ? (size_t)(end - log.at) : log.n);
    struct err err = {0};
    if (edit_log_replay_line(&s->e, line, number, &err) == 0)
      taken++;
    else if (err.kind == ERR_NONE || err.msg[0] == '\0')
      abort();
    const size_t used = line.n + (end != NULL);
    log = span_of(log.at + used, log.n - used);
  }
  build_check(&s->m);
  return taken;
}

static void read_head(struct span log) {
  const uint8_t *end = log.n ? memchr(log.at, '\n', log.n) : NULL;
  struct edit_log_info info;
  struct err err = {0};
  if (edit_log_read_head(span_of(log.at, end ? (size_t)(end - log.at) : log.n), &info, &err) == 0)
    json_free(info.doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  struct edit_sample once, again;
  const struct span log = span_of(data, n);
  read_head(log);
  edit_sample_open(&once);
  edit_sample_open(&again);
  const uint64_t taken = replay(&once, log);
  if (once.n > 0 && replay(&again, span_of(once.log, once.n)) != taken) abort();
  if (once.n != again.n || (once.n > 0 && memcmp(once.log, again.log, once.n) != 0)) abort();
  edit_sample_close(&once);
  edit_sample_close(&again);
  return 0;
}
