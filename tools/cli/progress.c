// The arithmetic of progress, apart from clock and terminal.
//
//   0        already            done              total
//   |─────────────|───────────────|─────────────────|
//    of the run before    ours         what is left
//
//   per cent   done / total          rate   ours / seconds          left   seconds · left / ours
//
// What an interrupted run had made is part of the per cent and of nothing else: counted into the
// rate, a resumed run would promise to end at once.
#include "progress.h"

#include "span.h"

#include <stdbool.h>
#include <stdio.h>

// A rate means something once there is a little of it.
static const double telling_seconds = 0.5, telling_part = 0.01;

static uint64_t ours(const struct progress *p) {
  return p->done > p->already ? p->done - p->already : 0;
}

static double part(const struct progress *p) {
  return p->total ? (double)p->done / (double)p->total : 1;
}

uint64_t progress_rate(const struct progress *p) {
  return p->seconds > telling_seconds ? (uint64_t)((double)ours(p) / p->seconds) : 0;
}

uint64_t progress_left(const struct progress *p) {
  const bool telling = p->seconds > telling_seconds && ours(p) > 0;
  if (!telling || part(p) <= telling_part || p->done >= p->total) return UINT64_MAX;
  return (uint64_t)(p->seconds * (double)(p->total - p->done) / (double)ours(p));
}

void progress_line(char *line, size_t room, const struct progress *p) {
  const uint64_t rate = progress_rate(p), left = progress_left(p);
  size_t n = (size_t)snprintf(line, room, "%-9s %3.0f %%  %s of %s", p->label ? p->label : "",
                              part(p) * 100, quote_bytes(p->done).s, quote_bytes(p->total).s);
  if (rate > 0 && n < room)
    n += (size_t)snprintf(line + n, room - n, "  %s/s", quote_bytes(rate).s);
  if (left != UINT64_MAX && n < room)
    n +=
        (size_t)snprintf(line + n, room - n, "  %lu:%02u left", (left / 60), (unsigned)(left % 60));
  if (p->what && n < room) snprintf(line + n, room - n, "  %s", quote_str(p->what).s);
}
