// How far a piece of work has come, as a line for people; see report.h for who prints it.
#ifndef WEIR_PROGRESS_H
#define WEIR_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct progress {
  const char *label; // of the work, or NULL
  const char *what;  // the tensor that is at work, or NULL
  uint64_t already;  // bytes of `done` that were there when this process began
  uint64_t done, total;
  double seconds; // since then
};

// Bytes per second that this process makes; 0 where it is too early to tell.
uint64_t progress_rate(const struct progress *p);
// Seconds that are left if it goes on so; UINT64_MAX where that cannot be told, or nothing is left.
uint64_t progress_left(const struct progress *p);
// The line, without end or control characters, cut to `room`.
void progress_line(char *line, size_t room, const struct progress *p);

#endif
