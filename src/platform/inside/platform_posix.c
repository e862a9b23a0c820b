// What POSIX.1-2008 has, and nothing else: no nameless files, no rename that replaces nothing, no reservation, holes, clones or advice, no
// path that stays in a folder by one call. Callers know what to do without (files.def). Old kernels and sandboxes have no more, nor has what
// is common to other systems; the compiler sees to it here. One word that every system has is not of it: how many processors are on line.
#undef _GNU_SOURCE
#undef _XOPEN_SOURCE
#define _POSIX_C_SOURCE 200809L

#include "platform/descriptor.h"
#include "platform/inside/variant.h"
#include "platform/machine.h"
#include "platform/maps.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-parameter" // of calls that there are not

#define NONE(result, name, parameters, why)                                                        \
  result name parameters {                                                                         \
    errno = why;                                                                                   \
    return -1;                                                                                     \
  }
#define VALUE(result, name, parameters, value)                                                     \
  result name parameters {                                                                         \
    return value;                                                                                  \
  }
#define NOTHING(name, parameters)                                                                  \
  void name parameters {                                                                           \
  }

// clang-format off
NONE(int, variant_make_nameless, (int in, const char *name), EOPNOTSUPP)
NONE(int, variant_rename_new, (int from_in, const char *from, int to_in, const char *to), ENOSYS)
NONE(int, variant_reserve, (int fd, uint64_t off, uint64_t n), ENOSYS)
NONE(int, variant_punch, (int fd, uint64_t off, uint64_t n), EOPNOTSUPP)
NONE(int, variant_clone, (int to, uint64_t to_off, int from, uint64_t off, uint64_t n), EOPNOTSUPP)
NONE(int64_t, variant_copy, (int to, int from, size_t n), EOPNOTSUPP)
NONE(int64_t, variant_write, (int fd, const void *bytes, size_t n, uint64_t off, unsigned how), EOPNOTSUPP)
NONE(int, variant_born, (int in, const char *name, int64_t *ns), EOPNOTSUPP)
NONE(int, variant_open, (int in, const char *path, int flags, bool beneath), ENOSYS)
VALUE(bool, variant_is_administrator, (void), false)
VALUE(bool, file_path, (struct file f, char *to), false)
VALUE(const char *, library_fault, (struct file f), NULL)
VALUE(int, descriptor_write_flags, (unsigned how), 0)
NOTHING(file_will_need, (struct file f, uint64_t off, uint64_t n))
NOTHING(file_forget, (struct file f, uint64_t off, uint64_t n))
NOTHING(file_write_out, (struct file f, uint64_t off, uint64_t n))
// maps.h
VALUE(int, variant_unreserved_flag, (void), 0)
VALUE(uint64_t, variant_cached_pages, (int fd, uint64_t off, uint64_t n), 0)
NOTHING(variant_large_pages, (void *at, size_t bytes))
NOTHING(heap_apart_from, (size_t bytes))
// children.h
VALUE(bool, child_sizes, (const struct child *c, struct child_sizes *out), false)
NOTHING(child_limit, (const struct child *c, uint64_t bytes))
NOTHING(child_unlimit, (const struct child *c))
VALUE(short, variant_hang_up_events, (void), 0)
// machine.h
VALUE(bool, machine_has_sha2, (void), false)
VALUE(uint64_t, variant_group_limit, (const char *root), UINT64_MAX)
VALUE(uint64_t, machine_peak_memory, (void), 0) // getrusage tells that of who started this program, where it was larger
VALUE(int, variant_program, (char *to), -1)
// clang-format on

uint32_t machine_processors(void) {
  const long n = sysconf(_SC_NPROCESSORS_ONLN);
  return n < 1 ? 1 : (uint32_t)n;
}

// What shells say to programs that ask the environment.
uint32_t variant_columns(int fd) {
  const char *columns = machine_variable("COLUMNS");
  return columns ? (uint32_t)strtoul(columns, NULL, 10) : 0;
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

// POSIX does not say that a handler may do this. Systems where it is a system call let it.
bool variant_lay_zeros(void *at, size_t bytes, int flags) {
  return mmap(at, bytes, PROT_READ, flags, -1, 0) == at;
}

// A program that another thread started just now would have them: no thread does.
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

// Who was started by weir has none. Of what a shell may have left open, the first few thousand.
void variant_close_from(int first) {
  enum { TRIED = 4096 };
  const long most = sysconf(_SC_OPEN_MAX);
  for (int fd = first; fd < (most > 0 && most < TRIED ? (int)most : TRIED); fd++)
    close(fd);
}
