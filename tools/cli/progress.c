// The arithmetic of progress, apart from clock and terminal.
//
//   0        already            done              total
//   |─────────────|───────────────|─────────────────|
//    of the run before    ours         what is left
//
//   share   done / total          rate   ours / seconds          left   seconds · left / ours
//
// The share and the time that is left are of work (effort.h): bytes that are copied in the first tenth
// of the time say nothing of the codes behind them. The rate is of bytes, which is what people know.
//
// What an interrupted run had made is part of the share and of nothing else: counted into the rate, a
// resumed run would promise to end at once.
#include "cli/progress.h"

#include "base/span.h"

#include <stdbool.h>
#include <stdio.h>

// A rate means something once there is a little of it.
static const double telling_seconds = 0.5, telling_part = 0.01;

static uint64_t ours(const struct progress *p) {
  const struct work_told *t = &p->told;
  return t->bytes_done > t->bytes_already ? t->bytes_done - t->bytes_already : 0;
}

// How much of the work is done, 0 … 1.
static double share(const struct progress *p) {
  const struct work_told *t = &p->told;
  if (t->work_total <= 0 || t->work_done >= t->work_total) return 1;
  return t->work_done / t->work_total;
}

uint64_t progress_rate(const struct progress *p) {
  return p->seconds > telling_seconds ? (uint64_t)((double)ours(p) / p->seconds) : 0;
}

uint64_t progress_left(const struct progress *p) {
  const struct work_told *t = &p->told;
  const double made = t->work_done - t->work_already;
  const bool telling = p->seconds > telling_seconds && made > 0;
  if (!telling || share(p) <= telling_part || share(p) >= 1) return UINT64_MAX;
  const double left = p->seconds * ((t->work_total - t->work_done) / made);
  return left < 1e15 ? (uint64_t)(left + 0.5) : UINT64_MAX;
}

void progress_line(char *line, size_t room, const struct progress *p) {
  const struct work_told *t = &p->told;
  const uint64_t rate = progress_rate(p), left = progress_left(p);
  size_t n =
      (size_t)snprintf(line, room, "%-9s %3.0f %%  ", p->label ? p->label : "", share(p) * 100);
  if (t->pieces && n < room)
    n += (size_t)snprintf(line + n, room - n, "%s of %s %s", decimal(t->bytes_done).s,
                          decimal(t->bytes_total).s, t->pieces);
  else if (n < room)
    n += (size_t)snprintf(line + n, room - n, "%s of %s", quote_bytes(t->bytes_done).s,
                          quote_bytes(t->bytes_total).s);
  if (rate > 0 && !t->pieces && n < room)
    n += (size_t)snprintf(line + n, room - n, "  %s/s", quote_bytes(rate).s);
  if (left != UINT64_MAX && n < room)
    n += (size_t)snprintf(line + n, room - n, "  %s:%02u left", decimal(left / 60).s,
                          (unsigned)(left % 60));
  if (t->tensor && n < room) snprintf(line + n, room - n, "  %s", quote_str(t->tensor).s);
}

void progress_event(struct json_out *line, const char *event, const char *command,
                    const struct progress *p) {
  const uint64_t left = progress_left(p);
  json_object(line);
  json_put_text(line, "event", event);
  json_put_text(line, "command", command);
  json_put_text(line, "label", p->label);
  json_put_uint(line, "done", p->told.bytes_done);
  json_put_uint(line, "total", p->told.bytes_total);
  json_put_double(line, "share", share(p));
  json_put_double(line, "seconds", p->seconds);
  json_put_known(line, "left_seconds", left != UINT64_MAX, left);
  json_put_text(line, "tensor", p->told.tensor);
  json_end_object(line);
  json_newline(line);
}

double progress_interval(uint32_t lines) {
  static const double seconds[] = {1, 2, 5, 10, 30, 60};
  enum { N = sizeof seconds / sizeof *seconds };
  return seconds[lines < N ? lines : N - 1];
}
