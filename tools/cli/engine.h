// Which engine moves the bytes.
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "cli.h"
#include "io.h"

// As io_choose; what there is to say about an engine that took another's place goes to `note`
// (else it is empty).
struct engine_note {
  char s[384];
};
int engine_choose(enum io_mode *mode, struct engine_note *note, struct err *err);

// The engine that --io names or leaves open. Tells the user where another took its place.
int engine_of(const struct cli_args *args, enum io_mode *mode, struct err *err);

#endif
