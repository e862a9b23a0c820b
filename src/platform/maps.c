// Maps and pages, as POSIX has them, and the guard that keeps maps of files from killing us.
//
// A mapped file that somebody truncates turns reads of the lost pages into SIGBUS. Jumping out of
// the handler would unwind through arithmetic that never expected it; instead the handler lays zero
// pages over the rest of the map, marks it broken, and lets the computation go on to the point
// where the map is closed: there it becomes an ordinary error and the bytes are thrown away.
//
//   live[]   ┌──────────┬──────────┬──────────┐   claimed by compare-and-swap, read by the handler
//            │ at n     │ at n     │ free     │   without a lock. `at` is set last, cleared first:
//            │ broken   │ broken   │          │   the handler sees whole rows only.
//            └──────────┴──────────┴──────────┘
//
// A map is used by one thread, and that thread is the one that faults (kernel threads that copy
// from it get EFAULT instead): the handler looks at rows of its own thread only, and those cannot
// change meanwhile. Faults outside of every map go to whoever had the signal before. A device error
// while reading a page takes the same road as truncation.
//
// Maps of files are shared and read-only, which RLIMIT_DATA does not count; resident they are.
#include "platform/maps.h"

#include "platform/descriptor.h"
#include "platform/inside/variant.h"
#include "platform/machine.h"
#include "resources/resources.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

// ---- the guard ----

enum { ROW_FREE = 0, ROW_CLAIMED = 1 }; // values of `at` that are no address

static struct {
  _Atomic uintptr_t at;
  _Atomic size_t n;
  _Atomic uintptr_t owner; // &me of the thread that uses it
  atomic_bool broken;
} live[MAPS_GUARDED_MAX];
static _Thread_local char me; // its address tells threads apart
static atomic_uint claim_hint;
static atomic_size_t page_bytes;
static struct sigaction previous;

// Only what a signal handler may do: atomics and what variant_lay_zeros is.
static bool lay_zeros(uintptr_t fault) {
  for (uint32_t i = 0; i < MAPS_GUARDED_MAX; i++) {
    uintptr_t at = atomic_load_explicit(&live[i].at, memory_order_acquire);
    if (atomic_load_explicit(&live[i].owner, memory_order_relaxed) != (uintptr_t)&me) continue;
    size_t n = atomic_load_explicit(&live[i].n, memory_order_relaxed);
    if (at <= ROW_CLAIMED || fault < at || fault - at >= n) continue;
    atomic_store_explicit(&live[i].broken, true, memory_order_relaxed);
    uintptr_t page = fault & ~(uintptr_t)(page_bytes - 1);
    return variant_lay_zeros((void *)page, at + n - page, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED);
  }
  return false;
}

// Hands a signal that is not about our maps to whoever had it before us. Who in turn remembers us
// as the one before them would send it round in circles: that ends here.
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

void maps_guard(void) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  page_bytes = machine_page_bytes();
  install();
  pthread_mutex_unlock(&lock);
  sigset_t bus;
  sigemptyset(&bus);
  sigaddset(&bus, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &bus, NULL);
}

// A row for a new map, or MAPS_GUARDED_MAX. Starts where the last search ended, since rows are
// mostly given back in the order they were taken.
static uint32_t claim_row(void) {
  assert(page_bytes > 0); // maps_guard was called
  uint32_t start = atomic_fetch_add_explicit(&claim_hint, 1, memory_order_relaxed);
  for (uint32_t k = 0; k < MAPS_GUARDED_MAX; k++) {
    uint32_t i = (start + k) % MAPS_GUARDED_MAX;
    uintptr_t expected = ROW_FREE;
    if (atomic_compare_exchange_strong(&live[i].at, &expected, ROW_CLAIMED)) return i;
  }
  return MAPS_GUARDED_MAX;
}

// ---- files ----

static void unmap_left(void *pages, size_t bytes) {
  for (uint32_t i = 0; i < MAPS_GUARDED_MAX; i++)
    if (atomic_load(&live[i].at) == (uintptr_t)pages)
      atomic_store_explicit(&live[i].at, (uintptr_t)ROW_FREE, memory_order_release);
  munmap(pages, bytes);
}

int map_open(struct file_map *m, struct file f, uint64_t off, size_t n) {
  assert(n > 0);
  const size_t lead = (size_t)(off & (machine_page_bytes() - 1)), bytes = pages_round(lead + n);
  void *pages = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file_descriptor(f), (off_t)(off - lead));
  if (pages == MAP_FAILED) return -1;
  resources_hold(pages, bytes, unmap_left);
  *m = (struct file_map){.at = (const uint8_t *)pages + lead, .pages = pages, .pages_bytes = bytes};
  return 0;
}

int map_open_guarded(struct file_map *m, struct file f, uint64_t off, size_t n) {
  if (map_open(m, f, off, n)) return -1;
  const uint32_t row = claim_row();
  if (row == MAPS_GUARDED_MAX) {
    map_close(m);
    errno = EMFILE;
    return -1;
  }
  m->guard = row + 1;
  atomic_store_explicit(&live[row].broken, false, memory_order_relaxed);
  atomic_store_explicit(&live[row].owner, (uintptr_t)&me, memory_order_relaxed);
  atomic_store_explicit(&live[row].n, m->pages_bytes, memory_order_relaxed);
  atomic_store_explicit(&live[row].at, (uintptr_t)m->pages, memory_order_release);
  return 0;
}

bool map_is_broken(const struct file_map *m) {
  return m->guard > 0 && atomic_load_explicit(&live[m->guard - 1].broken, memory_order_relaxed);
}

static bool end_map(struct file_map *m, void (*end)(void *pages, size_t bytes)) {
  const bool broken = map_is_broken(m);
  // The row goes first: once unmapped, the addresses may become somebody else's.
  if (m->guard > 0)
    atomic_store_explicit(&live[m->guard - 1].at, (uintptr_t)ROW_FREE, memory_order_release);
  end(m->pages, m->pages_bytes);
  *m = (struct file_map){0};
  return broken;
}

bool map_close(struct file_map *m) {
  return end_map(m, pages_free);
}

bool map_fence(struct file_map *m) {
  return end_map(m, pages_fence);
}

bool file_is_cached(struct file f, uint64_t off, uint64_t n) {
  const uint64_t page = machine_page_bytes(), first = off / page, last = (off + n - 1) / page;
  return variant_cached_pages(file_descriptor(f), off, n) > last - first;
}

// ---- pages ----

size_t pages_round(size_t bytes) {
  const size_t page = machine_page_bytes();
  return (bytes + page - 1) & ~(page - 1);
}

void *pages_new(size_t bytes) {
  void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | variant_unreserved_flag(), -1, 0);
  if (at == MAP_FAILED) return NULL;
  resources_hold(at, bytes, unmap_left);
  return at;
}

void pages_free(void *at, size_t bytes) {
  resources_drop_thing(at, bytes);
  const int r = munmap(at, bytes);
  assert(r == 0);
}

void pages_fence(void *at, size_t bytes) {
  resources_drop_thing(at, bytes); // of all of it: the addresses stay taken
  (void)mmap(at, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | variant_unreserved_flag(), -1, 0);
}

void pages_scatter(void *at, size_t bytes) {
  const uintptr_t page = machine_page_bytes(), first = ((uintptr_t)at + page - 1) & -page;
  const uintptr_t end = ((uintptr_t)at + bytes) & -page;
  if (first < end) variant_large_pages((void *)first, end - first);
}

// ---- the heap ----

static void free_left(void *at, size_t n) {
  (void)n;
  free(at);
}

void *lines_new(size_t bytes) {
  enum { LINE = 64 };
  void *at = aligned_alloc(LINE, (bytes + LINE - 1) & ~(size_t)(LINE - 1));
  if (at) resources_hold(at, 0, free_left);
  return at;
}

void lines_free(void *at) {
  if (at) resources_drop_thing(at, 0);
  free(at);
}
