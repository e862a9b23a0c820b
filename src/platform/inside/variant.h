// What systems differ in: platform_linux.c and machine_linux.c have it as Linux does. Another system has other files (WEIR_PLATFORM).
// They also have these functions as they are: file_path, file_will_need, file_forget, file_write_out, machine_processors,
// machine_has_sha2, machine_peak_memory, heap_apart_from, child_sizes, child_limit, child_unlimit, library_fault.
#ifndef WEIR_PLATFORM_VARIANT_H
#define WEIR_PLATFORM_VARIANT_H

#include "platform/children.h"

#include <sys/types.h>

// Calls that a signal may interrupt (EINTR), made again until they are through: a handler without SA_RESTART is enough, and file
// systems in user space answer so of themselves, to open too. Not close, whose descriptor is gone whatever it says, and not what changes
// names (files.def). `rc` becomes the result of `call`, which is -1 with errno where it fails.
#define AGAIN(rc, call)                                                                            \
  do                                                                                               \
    (rc) = (call);                                                                                 \
  while ((rc) < 0 && errno == EINTR)

// Contracts as in files.def; descriptors, and -1 with errno. EOPNOTSUPP: no file without a name.
int variant_make_nameless(int in, const char *name);
int variant_rename_new(int from_in, const char *from, int to_in, const char *to);
int64_t variant_write(int fd, const void *bytes, size_t n, uint64_t off, unsigned how);
int variant_reserve(int fd, uint64_t off, uint64_t n);
int variant_punch(int fd, uint64_t off, uint64_t n);
int variant_clone(int to, uint64_t to_off, int from, uint64_t off, uint64_t n);
int64_t variant_copy(int to, int from, size_t n);
int variant_born(int in, const char *name, int64_t *ns);
// Opens beneath a folder, or anywhere, without links that lead to what has no name. ENOSYS, EPERM: there is no such call.
int variant_open(int in, const char *path, int flags, bool beneath);
// faccessat by the rights that this process acts with.
int variant_may(int in, const char *name, int mode);
// O_PATH where a folder can be opened so, else 0.
int variant_place_flag(void);
// May this process use what a file system keeps back for the administrator?
bool variant_is_administrator(void);

// ---- the machine and this process ----

// The least limit of the groups of processes that this one belongs to, as files below `root` say
// ("": the system's own; tests have others). UINT64_MAX: nobody says, none.
uint64_t variant_group_limit(const char *root);
// As process_program, without process_begin.
int variant_program(char *to);
// As terminal_columns.
uint32_t variant_columns(int fd);

// ---- maps.h ----

// MAP_NORESERVE where there is such, else 0.
int variant_unreserved_flag(void);
// mmap of pages without a file, only to be read, at `at` itself. It does what a signal handler may do.
bool variant_lay_zeros(void *at, size_t bytes, int flags);
// How many pages of a range of a file are in the system's cache; 0 where it does not say.
uint64_t variant_cached_pages(int fd, uint64_t off, uint64_t n);
void variant_large_pages(void *at, size_t bytes);

// ---- children.h ----

// Both ends of a stream in both directions, and of a pipe from the second to the first; no program that is started has them.
int variant_connection(int pair[2]);
int variant_pipe(int ends[2]);
// Closes all descriptors from this one on; none where nobody knows which there are.
void variant_close_from(int first);
// What to ask poll for so that it tells when the other end of a socket is closed; 0 where it tells that unasked.
short variant_hang_up_events(void);

#endif
