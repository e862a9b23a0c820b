// A table of file-system calls that counts them and fails, or kills or stops the process before,
// chosen ones. Linked into `weir-fault` (tools' main plus fs_fault.c) and into tests; the program
// has none of it.
//
//   WEIR_FAULT=kill:17                  SIGKILL instead of the 17th call
//   WEIR_FAULT=stop:write:2             SIGSTOP before the 2nd write, which goes on at SIGCONT
//   WEIR_FAULT=stop:sigaction:3         SIGSTOP when the 3rd signal is watched
//   WEIR_FAULT=ENOSPC:fallocate:1       the 1st fallocate fails with ENOSPC
//   WEIR_FAULT=EIO:fdatasync:2:persist  the 2nd fdatasync and every later one
//   WEIR_FAULT=short:write:3            the 3rd write moves half of its bytes
//   WEIR_FAULT=keep:unlinkat:1:persist  files that are removed keep their names, as where somebody has them open
//   WEIR_FAULT=EIO:*:5                  the 5th call, whatever it is
//   WEIR_FAULT_LOG=FILE                 one line a call is appended
//   WEIR_FAULT_SHADOW=DIR               what a power cut would leave is kept there (fs_shadow.h)
//   WEIR_FAULT_OPEN=FILE                what went while it was open is appended (fs_open.h)
#ifndef WEIR_FS_FAULT_H
#define WEIR_FS_FAULT_H

#include <stdint.h>

// Installs the table with this fault ("" or NULL: count only). A spec that cannot be read ends the
// process with exit code 2: a test must not pass because its fault was misspelt.
void fs_fault_install(const char *spec);
// Calls made through the table since it was installed.
uint64_t fs_fault_calls(void);
void fs_fault_remove(void);
// Calls go to the file $WEIR_FAULT_LOG from now on (at the start of a program this is done
// already).
void fs_fault_open_log(void);

#endif
