// The order that survives a power cut: writes → fdatasync → record. The middle step waits for a
// disk, so the workers do not take it: they hand a written unit over and go on with the next. One
// thread takes all units that wait, syncs each output they touch once, looks whether the sources
// are still what they were, and only then appends the records.
//
//   worker ──give──▶ [ unit unit unit ] ──take all──▶ fdatasync ─▶ sources unchanged? ─▶ records
//                     at most `capacity`
//
// While a group is synced the next one gathers, so a slow disk makes larger groups, not a longer
// queue; and a full queue holds the workers back, which bounds both the dirty pages and the work
// that a stop loses. A failed sync is final: the kernel may have dropped the pages and will not say
// so again. The units of that group stay unrecorded, and a resumed run writes them anew.
//
// Records are synced themselves only every few seconds: a kill cannot take them, and a power cut
// takes no more than that much work.
//
// The sync goes through the file itself and not through the workers' queues: it must cover what
// every worker wrote. Without a thread (the system gives none, or nothing is on disk) the giver
// does it all.
#include "stream/run/inside/recorder.h"

#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/sys/threads.h"

#include <errno.h>
#include <pthread.h>

enum { STACK_BYTES = 256 << 10, RECORDS_SYNC_MS = 5000 };

struct given {
  uint32_t unit;
  uint8_t digest[DIGEST_BYTES];
  struct figure_sums errors;
};

struct recorder {
  const struct plan *p;
  struct sources *sources;
  struct staging *st;
  struct arena arena;
  struct resources *resources; // of who gives units
  pthread_t thread;
  bool threaded;
  uint64_t records_synced_ms;

  pthread_mutex_t mu; // guards the rest
  pthread_cond_t changed;
  struct given *waiting, *group; // both of `capacity`
  uint32_t n_waiting, capacity;
  bool closing, failed;
  struct err err;
};

static bool touches(const struct recorder *d, const struct given *group, uint32_t n,
                    uint32_t output) {
  for (uint32_t i = 0; i < n; i++)
    if (plan_unit_at(d->p, group[i].unit).output == output) return true;
  return false;
}

static int sync_outputs(struct recorder *d, const struct given *group, uint32_t n,
                        struct err *err) {
  if (!staging_writes(d->st)) return 0;
  for (uint32_t i = 0; i < d->p->n_outputs; i++) {
    if (!touches(d, group, n, i)) continue;
    int bad;
    do
      bad = file_sync_data(staging_output_fd(d->st, i));
    while (bad && errno == EINTR);
    if (!bad) continue;
    err_fill_errno(err, errno, ERR_IO, "output '%s' cannot be synced to disk",
                   quote_str(d->p->outputs[i].name).s);
    return err_because(err, REASON_NOT_DURABLE);
  }
  return 0;
}

static int commit(struct recorder *d, const struct given *group, uint32_t n, struct err *err) {
  if (sync_outputs(d, group, n, err) || sources_unchanged(d->sources, err)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (staging_record(d->st, group[i].unit, group[i].digest, &group[i].errors, err)) return -1;
  const uint64_t now = machine_clock_ms();
  if (now - d->records_synced_ms < RECORDS_SYNC_MS) return 0;
  d->records_synced_ms = now;
  return staging_sync_records(d->st, err);
}

static void free_errors(struct given *group, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    figure_sums_free(&group[i].errors);
}

static void note_failure(struct recorder *d, const struct err *err) {
  if (!d->failed) d->err = *err;
  d->failed = true;
}

struct committing {
  struct recorder *d;
  const struct given *group;
  uint32_t n;
};

static int commit_these(void *ctx, struct err *err) {
  const struct committing *c = ctx;
  return commit(c->d, c->group, c->n, err);
}

static void *recorder_main(void *at) {
  struct recorder *d = at;
  resources_use(d->resources);
  resources_lock(&d->mu);
  for (;;) {
    while (d->n_waiting == 0 && !d->closing)
      pthread_cond_wait(&d->changed, &d->mu);
    if (d->n_waiting == 0 || d->failed) break;
    struct given *group = d->waiting;
    const uint32_t n = d->n_waiting;
    d->waiting = d->group;
    d->group = group;
    d->n_waiting = 0;
    pthread_cond_broadcast(&d->changed);
    resources_unlock(&d->mu);
    struct err err = {0};
    const int bad = arena_try(commit_these, &(struct committing){d, group, n}, &err);
    free_errors(group, n);
    resources_lock(&d->mu);
    if (bad) note_failure(d, &err);
    if (bad) pthread_cond_broadcast(&d->changed);
  }
  resources_unlock(&d->mu);
  return NULL;
}

void recorder_open(struct recorder **out, const struct plan *p, struct sources *s,
                   struct staging *st, uint32_t capacity) {
  struct arena arena = {0};
  struct recorder *d = arena_zalloc(&arena, sizeof *d);
  d->p = p;
  d->sources = s;
  d->st = st;
  d->capacity = capacity;
  d->records_synced_ms = machine_clock_ms();
  d->waiting = arena_alloc(&arena, capacity * sizeof *d->waiting);
  d->group = arena_alloc(&arena, capacity * sizeof *d->group);
  pthread_mutex_init(&d->mu, NULL);
  pthread_cond_init(&d->changed, NULL);
  d->arena = arena;
  d->resources = resources_in_use();
  d->threaded = staging_writes(st) && threads_start(&d->thread, STACK_BYTES, recorder_main, d);
  *out = d;
}

bool recorder_give(struct recorder *d, uint32_t unit, const uint8_t digest[DIGEST_BYTES],
                   struct figure_sums errors) {
  struct given g = {.unit = unit, .errors = errors};
  memcpy(g.digest, digest, DIGEST_BYTES);
  resources_lock(&d->mu);
  while (d->threaded && d->n_waiting == d->capacity && !d->failed)
    pthread_cond_wait(&d->changed, &d->mu);
  const bool queued = !d->failed && d->threaded;
  if (queued) {
    d->waiting[d->n_waiting++] = g;
    pthread_cond_broadcast(&d->changed);
  } else if (!d->failed) {
    struct err err = {0};
    if (commit(d, &g, 1, &err)) note_failure(d, &err);
  }
  const bool failed = d->failed;
  resources_unlock(&d->mu);
  if (!queued) figure_sums_free(&g.errors);
  return !failed;
}

int recorder_close(struct recorder *d, struct err *err) {
  resources_lock(&d->mu);
  d->closing = true;
  pthread_cond_broadcast(&d->changed);
  resources_unlock(&d->mu);
  if (d->threaded) pthread_join(d->thread, NULL);
  free_errors(d->waiting, d->n_waiting); // left there by a failure
  const bool failed = d->failed;
  if (failed && err->kind == ERR_NONE) *err = d->err;
  pthread_mutex_destroy(&d->mu);
  pthread_cond_destroy(&d->changed);
  struct arena arena = d->arena; // it holds d itself
  arena_free(&arena);
  return failed ? -1 : 0;
}
