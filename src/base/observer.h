// Callbacks for messages, progress and interruption. Code below the command line prints nothing and handles no signals: its
// caller passes an observer. A NULL observer discards messages and never interrupts.
//
// Sentences have no line break at the end and no "warning:" at the start. Names from files in them are quoted (quote). One
// piece of work at a time shows progress.
#ifndef WEIR_OBSERVER_H
#define WEIR_OBSERVER_H

#include "base/err.h"
#include "base/span.h"

#include <stdbool.h>
#include <stdint.h>

// Progress of a piece of work. `already`: the part that an earlier process did.
struct work_told {
  uint64_t bytes_done, bytes_total, bytes_already;
  double work_done, work_total, work_already; // cost of these bytes (effort.h)
  const char *tensor;                         // that a worker processes now, or NULL
  const char *pieces; // the unit that is counted instead of bytes: "runs"; or NULL
};

enum observer_kind {
  OBSERVER_WARNING, // the result may not be what was wanted
  OBSERVER_NOTICE,  // a fact worth knowing
  OBSERVER_HINT,    // what the user could do, after a warning or a notice
};

// Members may be NULL.
struct observer {
  void (*say)(void *ctx, enum observer_kind kind, const char *sentence);
  // Work begins, named by one word ("writing"); how far it is; it is over, also after a failure.
  void (*begin)(void *ctx, const char *label);
  // Also from worker threads, one call at a time.
  void (*tick)(void *ctx, const struct work_told *told);
  void (*end)(void *ctx);
  // Called before work that an interruption would leave unfinished. The flag becomes nonzero when work must stop (ERR_RETRY).
  const volatile int *(*stop)(void *ctx);
  // If the process ends between the two calls, delete the file. The path is valid until `keep`.
  void (*remove)(void *ctx, const char *path);
  void (*keep)(void *ctx, const char *path);
  // Bytes for standard output, for a file that is named "-". Errors are reported when the program ends.
  void (*data)(void *ctx, struct span bytes);
  void *ctx;
};

void observer_say(struct observer *o, enum observer_kind kind, const char *fmt, ...)
    ERR_PRINTF(3, 4);
#define observer_warning(o, ...) observer_say(o, OBSERVER_WARNING, __VA_ARGS__)
#define observer_notice(o, ...) observer_say(o, OBSERVER_NOTICE, __VA_ARGS__)
#define observer_hint(o, ...) observer_say(o, OBSERVER_HINT, __VA_ARGS__)

void observer_begin(struct observer *o, const char *label);
// Does it take progress?
bool observer_ticks(const struct observer *o);
// `observer` is a struct observer: the second fits the member tick of reread_work.
void observer_tick(void *observer, const struct work_told *told);
void observer_tick_bytes(void *observer, uint64_t done, uint64_t total);
void observer_end(struct observer *o);
// Never NULL.
const volatile int *observer_stop(struct observer *o);
void observer_remove(struct observer *o, const char *path);
void observer_keep(struct observer *o, const char *path);
void observer_data(struct observer *o, struct span bytes);

#endif
