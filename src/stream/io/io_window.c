// Mapped windows over source files, and the guard that keeps them from killing us.
//
// A mapped file that somebody truncates turns reads of the lost pages into SIGBUS. Jumping out of
// the handler would unwind through arithmetic that never expected it; instead the handler lays zero
// pages over the rest of the window, marks it broken, and lets the computation go on to the point
// where the window is given back: there it becomes an ordinary error and the bytes are thrown away.
//
//   live[]   ┌──────────┬──────────┬──────────┐   claimed by compare-and-swap, read by the handler
//            │ at n     │ at n     │ free     │   without a lock. `at` is set last, cleared first:
//            │ broken   │ broken   │          │   the handler sees whole rows only.
//            └──────────┴──────────┴──────────┘
//
// A window is used by one thread, and that thread is the one that faults (kernel threads that copy
// from it get EFAULT instead): the handler looks at rows of its own thread only, and those cannot
// change meanwhile. Faults outside of every window go to whoever had the signal before.
//
// Windows are MAP_SHARED and read-only, which RLIMIT_DATA does not count; resident they are, so
// they stay small and are unmapped as soon as they were used. A device error while reading a page
// takes the same road as truncation.
#include "stream/io/io_window.h"

#include "platform/descriptor.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_cachestat
#define SYS_cachestat 451 // Linux 6.5
#endif

// The system maps the neighbours of a page that is touched, as far as they are in the page cache:
// so many bytes, unless told otherwise.
enum { FAULT_AROUND = 64 << 10 };

enum { ROW_FREE = 0, ROW_CLAIMED = 1 }; // values of `at` that are no address

static struct {
  _Atomic uintptr_t at;
  _Atomic size_t n;
  _Atomic uintptr_t owner; // &me of the thread that uses it
  atomic_bool broken;
} live[IO_WINDOWS_MAX];
static _Thread_local char me; // its address tells threads apart
static atomic_uint claim_hint;
static atomic_size_t page_bytes;
static struct sigaction previous;

// Only what a signal handler may do: atomics and a bare system call.
static bool lay_zeros(uintptr_t fault) {
  for (uint32_t i = 0; i < IO_WINDOWS_MAX; i++) {
    uintptr_t at = atomic_load_explicit(&live[i].at, memory_order_acquire);
    if (atomic_load_explicit(&live[i].owner, memory_order_relaxed) != (uintptr_t)&me) continue;
    size_t n = atomic_load_explicit(&live[i].n, memory_order_relaxed);
    if (at <= ROW_CLAIMED || fault < at || fault - at >= n) continue;
    atomic_store_explicit(&live[i].broken, true, memory_order_relaxed);
    uintptr_t page = fault & ~(uintptr_t)(page_bytes - 1);
    long r = syscall(SYS_mmap, page, at + n - page, PROT_READ,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0L);
    return r == (long)page;
  }
  return false;
}

// Hands a signal that is not about our windows to whoever had it before us. Who in turn remembers
// us as the one before them would send it round in circles: that ends here.
static void pass_on(int sig, siginfo_t *info, void *context) {
  static _Thread_local volatile sig_atomic_t passing;
  bool nobody = previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN;
  if (nobody || passing) {
    // A fault comes again by itself when we return; a signal that was sent has to be sent again.
    signal(sig, SIG_DFL);
    if (info->si_code <= 0) raise(sig);
    return;
  }
  passing = 1;
  if (previous.sa_flags & SA_SIGINFO)
    previous.sa_sigaction(sig, info, context);
  else
    previous.sa_handler(sig);
  passing = 0;
}

static void on_sigbus(int sig, siginfo_t *info, void *context) {
  int saved = errno;
  bool ours = info->si_code > 0 && lay_zeros((uintptr_t)info->si_addr);
  errno = saved;
  if (!ours) pass_on(sig, info, context);
}

static void install(void) {
  struct sigaction now;
  int r = sigaction(SIGBUS, NULL, &now);
  assert(r == 0);
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_sigbus) return;
  previous = now;
  struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  r = sigaction(SIGBUS, &action, NULL);
  assert(r == 0);
}

void io_window_guard(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  install();
  pthread_mutex_unlock(&lock);
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

// A row for a new window, or IO_WINDOWS_MAX. Starts where the last search ended, since rows are
// mostly given back in the order they were taken.
static uint32_t claim_row(void) {
  uint32_t start = atomic_fetch_add_explicit(&claim_hint, 1, memory_order_relaxed);
  for (uint32_t k = 0; k < IO_WINDOWS_MAX; k++) {
    uint32_t i = (start + k) % IO_WINDOWS_MAX;
    uintptr_t expected = ROW_FREE;
    if (atomic_compare_exchange_strong(&live[i].at, &expected, ROW_CLAIMED)) return i;
  }
  return IO_WINDOWS_MAX;
}

// Maps the pages, under the guard. Cheaper than MADV_POPULATE_READ, which goes page by page; pages
// that do not come with a neighbour come when they are used.
static int touch(const struct io_window *w) {
  for (size_t i = 0; i < w->map_bytes; i += FAULT_AROUND)
    (void)*(const volatile uint8_t *)((const uint8_t *)w->map + i);
  (void)*(const volatile uint8_t *)((const uint8_t *)w->map + w->map_bytes - 1);
  return atomic_load_explicit(&live[w->guard].broken, memory_order_relaxed) ? -EFAULT : 0;
}

// cachestat(2), whose kernel header is newer than the oldest we build with. Unlike a read that must
// not wait, the question starts no reading.
static bool is_cached(struct file fd, uint64_t off, uint64_t n) {
  const struct { uint64_t off, len; } range = {off, n};
  struct {
    uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } pages = {0};
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE); // nobody need have called the guard
  const uint64_t first = off / page, last = (off + n - 1) / page;
  return syscall(SYS_cachestat, file_descriptor(fd), &range, &pages, 0) == 0 &&
         pages.cached > last - first;
}

void io_window_advise(struct file fd, uint64_t off, uint64_t n) {
  if (!is_cached(fd, off, n)) file_will_need(fd, off, n);
}

int io_window_open(struct io_window *w, struct file fd, uint64_t off, size_t n) {
  assert(n > 0 && page_bytes > 0);
  size_t lead = (size_t)(off & (page_bytes - 1));
  w->map_bytes = (lead + n + page_bytes - 1) & ~(page_bytes - 1);
  w->guard = claim_row();
  if (w->guard == IO_WINDOWS_MAX) return -EMFILE;
  w->map =
      mmap(NULL, w->map_bytes, PROT_READ, MAP_SHARED, file_descriptor(fd), (off_t)(off - lead));
  if (w->map == MAP_FAILED) {
    int r = -errno;
    atomic_store(&live[w->guard].at, (uintptr_t)ROW_FREE);
    return r;
  }
  w->at = (const uint8_t *)w->map + lead;
  atomic_store_explicit(&live[w->guard].broken, false, memory_order_relaxed);
  atomic_store_explicit(&live[w->guard].owner, (uintptr_t)&me, memory_order_relaxed);
  atomic_store_explicit(&live[w->guard].n, w->map_bytes, memory_order_relaxed);
  atomic_store_explicit(&live[w->guard].at, (uintptr_t)w->map, memory_order_release);
  // Faults bring pages in by small neighbourhoods; told beforehand, the system reads the window in
  // large pieces: a third less processor time from a cold cache.
  io_window_advise(fd, off, n);
  int r = touch(w);
  if (r < 0) io_window_close(w);
  return r;
}

// Takes the window out of the guard's care; true if it is broken.
static bool free_row(const struct io_window *w) {
  bool broken = atomic_load_explicit(&live[w->guard].broken, memory_order_relaxed);
  // The row goes first: once unmapped, the addresses may become somebody else's.
  atomic_store_explicit(&live[w->guard].at, (uintptr_t)ROW_FREE, memory_order_release);
  return broken;
}

bool io_window_close(struct io_window *w) {
  const bool broken = free_row(w);
  int r = munmap(w->map, w->map_bytes);
  assert(r == 0);
  *w = (struct io_window){0};
  return broken;
}

void io_fence(void *at, size_t bytes) {
  // In one step. Where the system refuses, the pages stay what they are, which is as good but for the room.
  (void)mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

bool io_window_fence(struct io_window *w) {
  const bool broken = free_row(w);
  io_fence(w->map, w->map_bytes);
  *w = (struct io_window){0};
  return broken;
}
