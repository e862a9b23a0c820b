// An observer is a table of functions; here are the calls that spare everybody the question whether one is there.
#include "base/observer.h"

#include "resources/resources.h"

#include <stdarg.h>
#include <stdio.h>

void observer_say(struct observer *o, enum observer_kind kind, const char *fmt, ...) {
  if (!o || !o->say) return;
  char room[1024], *sentence = room;
  va_list ap;
  va_start(ap, fmt);
  const int n = vsnprintf(room, sizeof room, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  if ((size_t)n >= sizeof room) {
    if (!(sentence = resources_alloc((size_t)n + 1))) return; // no memory for words
    va_start(ap, fmt);
    vsnprintf(sentence, (size_t)n + 1, fmt, ap);
    va_end(ap);
  }
  o->say(o->ctx, kind, sentence);
  if (sentence != room) resources_free(sentence);
}

void observer_begin(struct observer *o, const char *label) {
  if (o && o->begin) o->begin(o->ctx, label);
}

bool observer_ticks(const struct observer *o) {
  return o && o->tick;
}

void observer_tick(void *observer, const struct work_told *told) {
  struct observer *o = observer;
  if (o && o->tick) o->tick(o->ctx, told);
}

void observer_tick_bytes(void *observer, uint64_t done, uint64_t total) {
  const struct work_told told = {.bytes_done = done,
                                 .bytes_total = total,
                                 .work_done = (double)done,
                                 .work_total = (double)total};
  observer_tick(observer, &told);
}

void observer_end(struct observer *o) {
  if (o && o->end) o->end(o->ctx);
}

const volatile int *observer_stop(struct observer *o) {
  static const volatile int never = 0;
  return o && o->stop ? o->stop(o->ctx) : &never;
}

void observer_remove(struct observer *o, const char *path) {
  if (o && o->remove) o->remove(o->ctx, path);
}

void observer_keep(struct observer *o, const char *path) {
  if (o && o->keep) o->keep(o->ctx, path);
}

void observer_data(struct observer *o, struct span bytes) {
  if (o && o->data) o->data(o->ctx, bytes);
}
