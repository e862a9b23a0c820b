// A few threads that work items off a cursor, each with an evaluator of its own:
//
//            ┌ next item ◀── cursor ──▶ next item ┐
//   worker 0 │ work                               │ worker 1 …
//            └ tell ──▶ bytes done ◀── tell       ┘
//
// What the items are is the caller's. The first failure ends it for all; so does a stop. Afterwards
// the sources are checked to be unchanged.
#include "platform/machine.h"
#include "resources/resources.h"
#include "stream/measure/inside/measure_parts.h"
#include "stream/sys/threads.h"

enum { TICK_MS = 50 };

bool measure_next(struct measure_worker *w, uint64_t *item) {
  if (measure_stopped(w)) return false;
  *item = w->team->next++;
  return *item < w->team->n_items;
}

bool measure_stopped(struct measure_worker *w) {
  if (threads_must_stop(w->team->o->stop)) w->team->stopped = true;
  return w->team->stopped;
}

static bool goes_on(void *ctx) {
  return !measure_stopped(ctx);
}

// Every byte is worth the same: all of them get the same candidates.
void measure_tell(struct measure_worker *w, uint64_t bytes) {
  struct measure_team *m = w->team;
  if (!observer_ticks(m->o->observer)) return;
  resources_lock(&m->mu);
  m->bytes_done += bytes;
  const uint64_t now = machine_clock_ms();
  if (now - m->told_ms >= TICK_MS) {
    m->told_ms = now;
    observer_tick_bytes(m->o->observer, m->bytes_done, m->bytes_total);
  }
  resources_unlock(&m->mu);
}

static int work_as(struct measure_worker *w, struct err *err) {
  struct measure_team *m = w->team;
  const struct io_options io = {.mode = m->o->mode, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  if (io_open(&w->io, &io, m->sources, err)) return -1;
  if (eval_open(&w->ev, m->r, w->io, m->budget.eval_bytes, err)) return -1;
  eval_touch(w->ev, NULL, m->r->n_rows);
  eval_share(w->ev, m->cache);
  eval_interrupt(w->ev, (struct eval_go_on){.ask = goes_on, .ctx = w});
  return m->work(w, err);
}

static void work(void *ctx, uint32_t i) {
  (void)i;
  struct measure_team *m = ctx;
  struct measure_worker w = {.team = m, .r = m->r};
  struct err err = {0};
  const int bad = work_as(&w, &err);
  resources_lock(&m->mu);
  if (w.io) m->stats->source_bytes_read += io_source_bytes_read(w.io);
  if (bad && m->err.kind == ERR_NONE) m->err = err; // who is stopped fails too, but later
  if (bad) m->stopped = true;
  resources_unlock(&m->mu);
  if (w.ev) eval_close(w.ev);
  if (w.io) io_close(w.io);
  arena_free(&w.arena);
}

int measure_team_run(struct measure_team *m, struct err *err) {
  const uint64_t useful = min_u64(m->n_items, UINT32_MAX);
  if (memory_split_of(&m->budget, m->o->memory, m->o->jobs, (uint32_t)useful, err)) return -1;
  m->cache = eval_cache_open(m->budget.tile_bytes, m->file);
  pthread_mutex_init(&m->mu, NULL);
  if (m->n_items > 0) m->stats->jobs = threads_run(m->budget.jobs, work, m);
  pthread_mutex_destroy(&m->mu);
  eval_cache_close(m->cache);
  if (threads_must_stop(m->o->stop) && (m->err.kind == ERR_NONE || m->err.kind == ERR_RETRY))
    return err_set(err, ERR_RETRY, "interrupted while measuring weights");
  if (m->err.kind != ERR_NONE) {
    if (err->kind == ERR_NONE) *err = m->err;
    return -1;
  }
  if (sources_unchanged(m->sources, err)) return -1;
  observer_tick_bytes(m->o->observer, m->bytes_total, m->bytes_total);
  return 0;
}
