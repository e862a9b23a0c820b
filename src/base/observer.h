// Who is told how work goes, and may interrupt it. Work below the command line prints nothing and knows no signals:
// it calls an observer that it was given. NULL is one that nobody listens to and that never interrupts.
//
// Sentences have neither the line break at the end nor "warning:" in front; names from files in them went through
// quote(). One piece of work at a time is shown as progress.
#ifndef WEIR_OBSERVER_H
#define WEIR_OBSERVER_H

#include "err.h"
#include "span.h"

#include <stdbool.h>
#include <stdint.h>

// How far a piece of work is. `already`: the part that another process had done before.
struct work_told {
  uint64_t bytes_done, bytes_total, bytes_already;
  double work_done, work_total, work_already; // bytes by what they cost (effort.h)
  const char *tensor;                         // the name of the one that a worker is at, or NULL
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
  // From now on an interruption would leave something: a flag that becomes nonzero when work is to stop (ERR_RETRY).
  const volatile int *(*stop)(void *ctx);
  // A file that must not stay behind if the process is ended while it exists; `keep`: it may. The path stays valid between.
  void (*remove)(void *ctx, const char *path);
  void (*keep)(void *ctx, const char *path);
  // Bytes for standard output: of a file that is named "-". What fails there is known when the program ends.
  void (*data)(void *ctx, struct span bytes);
  void *ctx;
};

void observer_say(struct observer *o, enum observer_kind kind, const char *fmt, ...)
    ERR_PRINTF(3, 4);
#define observer_warning(o, ...) observer_say(o, OBSERVER_WARNING, __VA_ARGS__)
#define observer_notice(o, ...) observer_say(o, OBSERVER_NOTICE, __VA_ARGS__)
#define observer_hint(o, ...) observer_say(o, OBSERVER_HINT, __VA_ARGS__)

void observer_begin(struct observer *o, const char *label);
// Is anybody told how far work is?
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
