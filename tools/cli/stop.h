// SIGINT and SIGTERM as a flag that long work looks at.
#ifndef WEIR_STOP_H
#define WEIR_STOP_H

// From now on a first SIGINT or SIGTERM sets the flag returned (to the signal's number), so that
// work in progress is left in order; a second one ends the process as usual. Idempotent.
const volatile int *stop_watch(void);

#endif
