// Requests to stop, as a flag that long work looks at: the user interrupts (Ctrl-C), the terminal is gone, somebody asks for the end, or
// a scheduler, which has more ways to ask.
//
//   first ──▶ flag ──▶ work ends in order, what is to be said is said ──▶ stops_pass_on: ends as if nobody had watched
//   a second one, of the user or of somebody ──▶ ends at once
//
// Requests that were ignored when the program began (nohup, a job in the background of a script) stay ignored. A wait in a system call ends
// early when one comes.
#ifndef WEIR_STOPS_H
#define WEIR_STOPS_H

// From now on the first request sets the flag returned to something else than 0, in whatever thread. Before, one ends the process where it is.
// Idempotent.
const volatile int *stops_watch(void);
// The same for a process that a scheduler started: requests of a scheduler and of somebody end it with this exit code, not 0, and within 2 s,
// whether or not work looks at the flag. To be called before stops_watch, if at all.
const volatile int *stops_watch_scheduled(int code);
// Until stops_watch, a request that ends the process removes this file; path stays valid until stops_keeps, which takes the same pointer. (Of
// more than a few at once, some may be left.)
void stops_removes(const char *path);
void stops_keeps(const char *path);
// Removes them now: nobody will say what becomes of them.
void stops_remove_left(void);
// If one came, ends the process as it would have done, so that who started it sees an interruption and no exit code: a loop of a shell ends
// with it. To be called last, once all is said and in order. Returns if none came, if it was one that stops_watch_scheduled has an exit code
// for, and where nothing ends a process so (the first one of a container).
void stops_pass_on(void);

// From now on a write whose reader is gone fails (EPIPE), as does one past the limit on the size of files (EFBIG): neither ends the process.
void stops_fail_writes(void);

#endif
