// A block of memory has its row of the list before its bytes, so that it can be taken out by its address alone:
//
//   [ newer · older · resources · bytes | what the caller has … ]
//
// Other things have rows of their own, and are found by a walk from the newest: what is closed was opened a moment ago, as a rule.
#include "resources/resources.h"

#include <assert.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LOCKS_MOST = 16 };

struct resource {
  _Alignas(16) struct resource *newer;
  struct resource *older;
  struct resources *of;   // NULL: not listed
  struct resource **list; // that it is in
  void *thing;            // of others, with what let_go is to know of it
  size_t n;
  void (*let_go)(void *thing, size_t n);
};

struct recovery {
  jmp_buf back;
  struct recovery *outer;
  struct resources *used;
  uint32_t n_locks;
};

static _Thread_local struct {
  struct resources *used;
  struct recovery *recovery;
  pthread_mutex_t *locks[LOCKS_MOST];
  uint32_t n_locks;
  size_t refused;
} here;

static void (*on_exhausted)(size_t bytes);

// ---- lists -------------------------------------------------------------------------------------

static void enlist(struct resource **list, struct resource *x) {
  x->list = list;
  x->newer = NULL;
  x->older = *list;
  if (x->older) x->older->newer = x;
  *list = x;
}

static void delist(struct resource *x) {
  *(x->newer ? &x->newer->older : x->list) = x->older;
  if (x->older) x->older->newer = x->newer;
}

void resources_open(struct resources *r) {
  memset(r, 0, sizeof *r);
  pthread_mutex_init(&r->lock, NULL);
}

// What is let go may drop and free what it had itself: the lists are as they should be at any moment.
void resources_release(struct resources *r) {
  struct resources *before = resources_use(r);
  struct resource *x;
  while ((x = r->users ? r->users : r->others)) {
    const struct resource held = *x;
    resources_drop(x);
    held.let_go(held.thing, held.n);
  }
  while (r->memory)
    resources_free(r->memory + 1);
  resources_use(before == r ? NULL : before);
  pthread_mutex_destroy(&r->lock);
}

struct resources *resources_use(struct resources *r) {
  struct resources *before = here.used;
  here.used = r;
  return before;
}

struct resources *resources_in_use(void) {
  return here.used;
}

// ---- memory ------------------------------------------------------------------------------------

static struct resource *row_of(void *at) {
  return (struct resource *)at - 1;
}

static void *listed(struct resource *x, struct resources *r) {
  x->of = r;
  if (r) {
    pthread_mutex_lock(&r->lock);
    enlist(&r->memory, x);
    pthread_mutex_unlock(&r->lock);
  }
  return x + 1;
}

static void unlist(struct resource *x) {
  if (!x->of) return;
  pthread_mutex_lock(&x->of->lock);
  delist(x);
  pthread_mutex_unlock(&x->of->lock);
}

void *resources_alloc(size_t bytes) {
  struct resource *x = bytes < SIZE_MAX - sizeof *x ? malloc(sizeof *x + bytes) : NULL;
  return x ? listed(x, here.used) : NULL;
}

// Of many zeros the system gives no memory before they are written.
void *resources_zalloc(size_t n, size_t bytes) {
  size_t all;
  const bool countable =
      !__builtin_mul_overflow(n, bytes, &all) && all < SIZE_MAX - sizeof(struct resource);
  struct resource *x = countable ? calloc(1, sizeof *x + all) : NULL;
  return x ? listed(x, here.used) : NULL;
}

void *resources_realloc(void *at, size_t bytes) {
  if (!at) return resources_alloc(bytes);
  struct resource *x = row_of(at);
  struct resources *of = x->of;
  if (bytes >= SIZE_MAX - sizeof *x) return NULL;
  unlist(x);
  struct resource *grown = realloc(x, sizeof *x + bytes);
  if (!grown) listed(x, of);
  return grown ? listed(grown, of) : NULL;
}

void resources_free(void *at) {
  if (!at) return;
  unlist(row_of(at));
  free(row_of(at));
}

static struct { _Atomic uint64_t held, peak; } nobodys;

void resources_count(int64_t bytes) {
  _Atomic uint64_t *held = here.used ? &here.used->held : &nobodys.held;
  _Atomic uint64_t *peak = here.used ? &here.used->peak : &nobodys.peak;
  const uint64_t now = atomic_fetch_add(held, (uint64_t)bytes) + (uint64_t)bytes;
  uint64_t most = *peak;
  while (bytes > 0 && now > most && !atomic_compare_exchange_weak(peak, &most, now))
    ;
}

uint64_t resources_held(void) {
  return here.used ? here.used->held : nobodys.held;
}

uint64_t resources_peak(void) {
  return here.used ? here.used->peak : nobodys.peak;
}

void *resources_alloc_for(void *context, unsigned n, unsigned bytes) {
  (void)context;
  return resources_alloc((size_t)n * bytes);
}

void resources_free_for(void *context, void *at) {
  (void)context;
  resources_free(at);
}

// ---- other things ------------------------------------------------------------------------------

static struct resource *hold(struct resource **list, const struct resource *row) {
  struct resource *x = malloc(sizeof *x);
  if (!x) {
    row->let_go(row->thing, row->n);
    resources_exhausted(sizeof *x);
  }
  *x = *row;
  pthread_mutex_lock(&x->of->lock);
  enlist(list, x);
  pthread_mutex_unlock(&x->of->lock);
  return x;
}

struct resource *resources_hold(void *thing, size_t n, void (*let_go)(void *thing, size_t n)) {
  struct resources *r = here.used;
  const struct resource row = {.of = r, .thing = thing, .n = n, .let_go = let_go};
  return r ? hold(&r->others, &row) : NULL;
}

struct resource *resources_hold_user(void *thing, size_t n, void (*let_go)(void *thing, size_t n)) {
  struct resources *r = here.used;
  const struct resource row = {.of = r, .thing = thing, .n = n, .let_go = let_go};
  return r ? hold(&r->users, &row) : NULL;
}

static struct resource *find(struct resource *x, const void *thing, size_t n) {
  while (x && (x->thing != thing || x->n != n))
    x = x->older;
  return x;
}

void resources_drop(struct resource *row) {
  if (!row) return;
  pthread_mutex_lock(&row->of->lock);
  delist(row);
  pthread_mutex_unlock(&row->of->lock);
  free(row);
}

void resources_drop_thing(const void *thing, size_t n) {
  struct resources *r = here.used;
  if (!r) return;
  pthread_mutex_lock(&r->lock);
  struct resource *x = find(r->others, thing, n);
  if (!x) x = find(r->users, thing, n);
  pthread_mutex_unlock(&r->lock);
  resources_drop(x);
}

// ---- the way back ------------------------------------------------------------------------------

bool resources_try(void (*work)(void *ctx), void *ctx) {
  struct recovery point = {.outer = here.recovery, .used = here.used, .n_locks = here.n_locks};
  here.recovery = &point;
  if (setjmp(point.back) == 0) {
    work(ctx);
    here.recovery = point.outer;
    return false;
  }
  here.recovery = point.outer;
  return true;
}

void resources_exhausted(size_t bytes) {
  struct recovery *to = here.recovery;
  here.refused = bytes;
  if (!to) {
    if (on_exhausted) on_exhausted(bytes);
    abort();
  }
  while (here.n_locks > to->n_locks)
    pthread_mutex_unlock(here.locks[--here.n_locks]);
  here.used = to->used;
  longjmp(to->back, 1);
}

size_t resources_refused(void) {
  return here.refused;
}

void resources_on_exhausted(void (*hook)(size_t bytes)) {
  on_exhausted = hook;
}

void resources_lock(pthread_mutex_t *mutex) {
  pthread_mutex_lock(mutex);
  assert(here.n_locks < LOCKS_MOST);
  here.locks[here.n_locks++] = mutex;
}

void resources_unlock(pthread_mutex_t *mutex) {
  assert(here.n_locks > 0 && here.locks[here.n_locks - 1] == mutex);
  here.n_locks--;
  pthread_mutex_unlock(mutex);
}
