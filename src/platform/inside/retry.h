// Calls that a signal may interrupt (EINTR), made again until they are through: a handler without SA_RESTART is enough, and file
// systems in user space answer so of themselves, to open too.
//
// Not close, whose descriptor is gone whatever it says, and not what changes names (files.def).
#ifndef WEIR_PLATFORM_RETRY_H
#define WEIR_PLATFORM_RETRY_H

// `rc` becomes the result of `call`, which is -1 with errno where it fails.
#define AGAIN(rc, call)                                                                            \
  do                                                                                               \
    (rc) = (call);                                                                                 \
  while ((rc) < 0 && errno == EINTR)

#endif
