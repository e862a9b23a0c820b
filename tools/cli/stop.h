// SIGINT, SIGHUP and SIGTERM as a flag that long work looks at.
#ifndef WEIR_STOP_H
#define WEIR_STOP_H

// From now on a first SIGINT, SIGHUP or SIGTERM sets the flag returned (to the signal's number), so
// that work in progress is left in order; a second SIGINT or SIGTERM ends the process at once.
// Idempotent.
const volatile int *stop_watch(void);
// The same for a process that a scheduler started: SIGUSR1 and SIGXCPU too, and these and SIGTERM end it with exit
// code 75 (ERR_RETRY), at the latest after 2 s.
const volatile int *stop_watch_member(void);
// Until stop_watch, one that ends the process removes this file; path stays valid until stop_keeps,
// which takes the same pointer. (Of more than a few at once, some may be left.)
void stop_removes(const char *path);
void stop_keeps(const char *path);
// If one of them came, ends the process by that signal. To be called last, once all is said and in
// order. Returns otherwise, and where nothing is ended by signals (the first process of a container).
void stop_pass_on(void);

#endif
