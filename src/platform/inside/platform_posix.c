// What POSIX.1-2008 has, and nothing else: no nameless files, no rename that replaces nothing, no reservation, holes, clones or advice, no
// path that stays in a folder by one call. Callers know what to do without (files.def). Old kernels and sandboxes have no more, nor has what
// is common to other systems; the compiler sees to it here.
#undef _GNU_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "platform/descriptor.h"
#include "platform/inside/retry.h"
#include "platform/inside/variant.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#pragma GCC diagnostic ignored                                                                     \
    "-Wunused-parameter" // where there is no such call, nothing is done with what it is given

static int none(int errnum) {
  errno = errnum;
  return -1;
}

int variant_make_nameless(int in, const char *name) {
  return none(EOPNOTSUPP);
}

bool variant_path(int fd, char *to) {
  return false;
}

int variant_rename_new(int from_in, const char *from, int to_in, const char *to) {
  return none(ENOSYS);
}

int descriptor_write_flags(unsigned how) {
  return 0;
}

int64_t variant_write(int fd, const void *bytes, size_t n, uint64_t off, unsigned how) {
  return none(EOPNOTSUPP);
}

int variant_reserve(int fd, uint64_t off, uint64_t n) {
  return none(ENOSYS);
}

int variant_punch(int fd, uint64_t off, uint64_t n) {
  return none(EOPNOTSUPP);
}

int variant_clone(int to, uint64_t to_off, int from, uint64_t off, uint64_t n) {
  return none(EOPNOTSUPP);
}

int64_t variant_copy(int to, int from, size_t n) {
  return none(EOPNOTSUPP);
}

int variant_born(int in, const char *name, int64_t *ns) {
  return none(EOPNOTSUPP);
}

void variant_will_need(int fd, uint64_t off, uint64_t n) {
}

void variant_forget(int fd, uint64_t off, uint64_t n) {
}

void variant_write_out(int fd, uint64_t off, uint64_t n) {
}

int variant_open(int in, const char *path, int flags, bool beneath) {
  return none(ENOSYS);
}

int variant_may(int in, const char *name, int mode) {
  return faccessat(in, name, mode, AT_EACCESS);
}

int variant_place_flag(void) {
#ifdef O_SEARCH
  return O_SEARCH;
#else
  return O_RDONLY;
#endif
}

bool variant_is_administrator(void) {
  return false;
}

// ---- maps.h ----

int variant_unreserved_flag(void) {
  return 0;
}

// POSIX does not promise that a handler may do this; where it is a system call, it may.
bool variant_lay_zeros(void *at, size_t bytes, int flags) {
  return mmap(at, bytes, PROT_READ, flags, -1, 0) == at;
}

uint64_t variant_cached_pages(int fd, uint64_t off, uint64_t n) {
  return 0;
}

void variant_large_pages(void *at, size_t bytes) {
}

void variant_heap_apart_from(size_t bytes) {
}

// ---- children.h ----

// A program that another thread starts meanwhile may get them: none does.
static int keep_to_ourselves(int failed, const int ends[2]) {
  for (int i = 0; !failed && i < 2; i++)
    fcntl(ends[i], F_SETFD, FD_CLOEXEC);
  return failed;
}

int variant_connection(int pair[2]) {
  return keep_to_ourselves(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), pair);
}

int variant_pipe(int ends[2]) {
  return keep_to_ourselves(pipe(ends), ends);
}

bool variant_child_sizes(pid_t pid, struct child_sizes *out) {
  return false;
}

void variant_child_limit(pid_t pid, uint64_t bytes) {
}

void variant_child_unlimit(pid_t pid) {
}

// Those that there may be, of which a few thousand are enough to try.
void variant_close_from(int first) {
  const long most = sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < (most > 0 && most < 4096 ? (int)most : 4096); fd++)
    close(fd);
}

short variant_hang_up_events(void) {
  return 0;
}

void variant_end_with_parent(void) {
}

// ---- libraries.h ----

const char *variant_library_fault(const void *head, size_t n) {
  return n == 0 ? "it is empty" : NULL;
}
