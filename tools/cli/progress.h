// How far a piece of work has come, and the remaining time (ETA), as a line for people or an event for
// programs; see report.h for who prints it.
#ifndef WEIR_PROGRESS_H
#define WEIR_PROGRESS_H

#include "json/json.h"
#include "stream/run/work.h"

struct progress {
  const char *label; // of the work, or NULL
  struct work_told told;
  double seconds; // since this process began with it
};

// Bytes per second that this process makes; 0 where it is too early to tell.
uint64_t progress_rate(const struct progress *p);
// Seconds that are left if it goes on so; UINT64_MAX where that cannot be told, or nothing is left.
uint64_t progress_left(const struct progress *p);
// The line, without end or control characters, cut to `room`.
void progress_line(char *line, size_t room, const struct progress *p);
// {"event":"progress","command":…,"label":…,"done":…,"total":…,…}: docs/schema/progress.json, with the
// line's end.
void progress_event(struct json_out *line, const char *event, const char *command,
                    const struct progress *p);
// Seconds from one line in a log to the next: 1, 2, 5, 10, 30, and then each minute. `lines`: how many
// there were.
double progress_interval(uint32_t lines);
// How many of these a log is spared that nobody asked for: its first line comes after 10 s.
enum { PROGRESS_SPARED = 3 };

#endif
