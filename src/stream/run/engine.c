// The choice of an engine, in words of the command line.
//
// io decides (io_choose) and says what io_uring is; that there is an option --io, and that sync
// gives the same bytes, is said here. The notice comes once, and only where nobody asked for an
// engine: who did gets an error instead. A build without any other says it only to who asks.
#include "stream/run/engine.h"

#include <stdio.h>

int engine_choose(enum io_mode *mode, struct engine_note *note, struct err *err) {
  const char *why;
  note->s[0] = '\0';
  if (io_choose(mode, &why, err) < 0) return -1;
  if (why)
    snprintf(note->s, sizeof note->s,
             "io_uring is %s; continuing with --io=sync, which writes the same bytes (give "
             "--io=sync to silence this)",
             why);
  return 0;
}

int engine_pick(enum io_mode *mode, const char *option, struct observer *o, struct err *err) {
  struct engine_note note;
  struct err cause = {0};
  if (engine_choose(mode, &note, &cause)) {
    err_fill(err, cause.kind, "%s=%s: %s", option, io_mode_name(*mode), cause.msg);
    err_fill_hint_of(err, &cause);
    return -1;
  }
  if (note.s[0] && (option || io_has_ring())) observer_notice(o, "%s", note.s);
  return 0;
}
