// Which engine moves the bytes.
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "base/observer.h"
#include "stream/io/io_queue.h"

// As io_choose; what there is to say about an engine that took another's place goes to `note`
// (else it is empty).
struct engine_note {
  char s[384];
};
int engine_choose(enum io_mode *mode, struct engine_note *note, struct err *err);

// The same for *mode as it was asked for by `option` ("--io"; NULL: by nobody). Tells the observer where another engine took its place, but
// nobody of a build that has no other.
int engine_pick(enum io_mode *mode, const char *option, struct observer *o, struct err *err);

#endif
