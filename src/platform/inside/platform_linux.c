// Linux. What an older kernel or a sandbox lacks fails as files.def says. weir-ort runs with every glibc from 2.17 on: what is newer is a
// bare system call here.
#include "platform/descriptor.h"
#include "platform/inside/variant.h"
#include "platform/maps.h"

#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

int variant_make_nameless(int in, const char *name) {
  int fd;
  AGAIN(fd, openat(in, name, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (fd < 0 && errno == EISDIR) errno = EOPNOTSUPP; // Linux before 3.11
  return fd;
}

bool file_path(struct file f, char *to) {
  snprintf(to, PATH_BYTES, "/proc/self/fd/%d", file_descriptor(f));
  return access(to, F_OK) == 0; // /proc may be missing
}

// The system call itself: musl has no function for it.
int variant_rename_new(int from_in, const char *from, int to_in, const char *to) {
  return (int)syscall(SYS_renameat2, from_in, from, to_in, to, RENAME_NOREPLACE);
}

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x08
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80 // Linux 6.14
#endif

int descriptor_write_flags(unsigned how) {
  return (how & WRITE_UNCACHED ? RWF_DONTCACHE : 0) | (how & WRITE_NO_WAIT ? RWF_NOWAIT : 0);
}

int64_t variant_write(int fd, const void *bytes, size_t n, uint64_t off, unsigned how) {
  // The kernel only reads from it.
  const struct iovec piece = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
  return syscall(SYS_pwritev2, fd, &piece, 1, (long)off, 0L, descriptor_write_flags(how));
}

int variant_reserve(int fd, uint64_t off, uint64_t n) {
  int rc;
  AGAIN(rc, fallocate(fd, 0, (off_t)off, (off_t)n));
  if (rc && errno == ENOSYS) errno = EOPNOTSUPP;
  return rc;
}

int variant_punch(int fd, uint64_t off, uint64_t n) {
  return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)n);
}

int variant_clone(int to, uint64_t to_off, int from, uint64_t off, uint64_t n) {
  struct file_clone_range range = {
      .src_fd = from, .src_offset = off, .src_length = n, .dest_offset = to_off};
  return ioctl(to, FICLONERANGE, &range);
}

int64_t variant_copy(int to, int from, size_t n) {
  ssize_t got;
  AGAIN(got, syscall(SYS_copy_file_range, from, NULL, to, NULL, n, 0));
  if (got < 0 && errno == ENOSYS) errno = EOPNOTSUPP;
  return got;
}

int variant_born(int in, const char *name, int64_t *ns) {
  struct statx at;
  if (syscall(SYS_statx, in, name, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &at)) return -1;
  if (!(at.stx_mask & STATX_BTIME)) {
    errno = EOPNOTSUPP;
    return -1;
  }
  *ns = at.stx_btime.tv_sec * 1000000000LL + at.stx_btime.tv_nsec;
  return 0;
}

void file_will_need(struct file f, uint64_t off, uint64_t n) {
  (void)posix_fadvise(file_descriptor(f), (off_t)off, (off_t)n, POSIX_FADV_WILLNEED);
}

void file_forget(struct file f, uint64_t off, uint64_t n) {
  (void)posix_fadvise(file_descriptor(f), (off_t)off, (off_t)n, POSIX_FADV_DONTNEED);
}

void file_write_out(struct file f, uint64_t off, uint64_t n) {
  (void)sync_file_range(file_descriptor(f), (off_t)off, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

int variant_open(int in, const char *path, int flags, bool beneath) {
  struct open_how how = {.flags = (unsigned)flags,
                         .resolve = (beneath ? RESOLVE_BENEATH : 0) | RESOLVE_NO_MAGICLINKS};
  int fd;
  do // EAGAIN: a rename elsewhere on the system raced with the walk
    AGAIN(fd, (int)syscall(SYS_openat2, in, path, &how, sizeof how));
  while (beneath && fd < 0 && errno == EAGAIN);
  return fd;
}

// The C library asks by a call of Linux 5.8 first, which old sandboxes refuse with EPERM. The older call asks for who started it.
int variant_may(int in, const char *name, int mode) {
  const int rc = faccessat(in, name, mode, AT_EACCESS);
  if (rc == 0 || (errno != EPERM && errno != ENOSYS)) return rc;
  if (geteuid() != getuid() || getegid() != getgid()) return rc;
  return (int)syscall(SYS_faccessat, in, name, mode);
}

int variant_place_flag(void) {
  return O_PATH;
}

bool variant_is_administrator(void) {
  struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &head, data)) return false;
  return data[CAP_TO_INDEX(CAP_SYS_RESOURCE)].effective & CAP_TO_MASK(CAP_SYS_RESOURCE);
}

// ---- maps.h ----

#ifndef SYS_cachestat
#define SYS_cachestat 451 // Linux 6.5
#endif

int variant_unreserved_flag(void) {
  return MAP_NORESERVE;
}

// A bare system call: that is what a handler may do.
bool variant_lay_zeros(void *at, size_t bytes, int flags) {
  return syscall(SYS_mmap, at, bytes, PROT_READ, flags, -1, 0L) == (long)at;
}

// cachestat(2), whose kernel header is newer than the oldest we build with. Unlike a read that must
// not wait, the question starts no reading.
uint64_t variant_cached_pages(int fd, uint64_t off, uint64_t n) {
  const struct { uint64_t off, len; } range = {off, n};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages = {0};
  return syscall(SYS_cachestat, fd, &range, &pages, 0) == 0 ? pages.cached : 0;
}

void variant_large_pages(void *at, size_t bytes) {
  (void)madvise(at, bytes, MADV_HUGEPAGE);
}

// By itself glibc's heap raises this border whenever something large is freed, and then keeps as much as it likes.
void heap_apart_from(size_t bytes) {
#ifdef M_MMAP_THRESHOLD
  mallopt(M_MMAP_THRESHOLD, (int)bytes);
#else
  (void)bytes;
#endif
}

// ---- children.h ----

int variant_connection(int pair[2]) {
  return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair);
}

int variant_pipe(int ends[2]) {
  return pipe2(ends, O_CLOEXEC);
}

void variant_close_from(int first) {
#ifdef SYS_close_range
  syscall(SYS_close_range, first, ~0u, 0u);
#else
  (void)first;
#endif
}

short variant_hang_up_events(void) {
  return POLLRDHUP;
}

// ---- libraries ----

const char *library_fault(struct file f) {
#if defined __x86_64__
  enum { OUR_MACHINE = EM_X86_64 };
#elif defined __aarch64__
  enum { OUR_MACHINE = EM_AARCH64 };
#endif
  Elf64_Ehdr elf;
  if (file_read_all_at(f, &elf, sizeof elf, 0) < (int64_t)sizeof elf ||
      memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0)
    return "it is not an ELF file";
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_machine != OUR_MACHINE)
    return "it is for another kind of processor";
  return elf.e_type != ET_DYN ? "it is not a shared library" : NULL;
}
