// Workers of a measurement: each opens its own queue and evaluator, takes items off a shared
// cursor, and leaves at the first failure of any of them.
//
//            ┌ next item ◀── cursor ──▶ next item ┐
//   worker 0 │ recipe_read ▶ figures              │ worker 1 …
//            └ tell ──▶ bytes done ◀── tell       ┘
//
// What an item is, and where its figures go, is the caller's: an item's figures depend on nothing
// but the item, so that neither the order of items nor the number of workers shows in them.
#include "measure_reader.h"

#include "threads.h"

enum { TICK_MS = 50 };

bool measure_reader_codes(const struct recipes *r, uint32_t id, uint32_t *row) {
  while (r->rows[id].kind == RECIPE_TRANSPOSE || r->rows[id].kind == RECIPE_RESHAPE)
    id = r->args[r->rows[id].args];
  *row = id;
  return r->rows[id].kind == RECIPE_QUANTIZE && recipe_part_of(r, id) == PART_CODES;
}

bool measure_reader_stopped(struct measure_reader *rd) {
  if (threads_must_stop(rd->team->o->stop)) rd->team->stopped = true;
  return rd->team->stopped;
}

bool measure_reader_next(struct measure_reader *rd, uint64_t *item) {
  if (measure_reader_stopped(rd)) return false;
  *item = rd->team->next++;
  return *item < rd->team->n_items;
}

void measure_reader_tell(struct measure_reader *rd, uint64_t bytes) {
  struct measure_reader_team *t = rd->team;
  if (!t->o->progress.tick) return;
  pthread_mutex_lock(&t->mu);
  t->bytes_done += bytes;
  const uint64_t now = threads_clock_ms();
  if (now - t->told_ms >= TICK_MS) {
    t->told_ms = now;
    t->o->progress.tick(t->o->progress.ctx, t->bytes_done, t->bytes_total, NULL);
  }
  pthread_mutex_unlock(&t->mu);
}

static int open_reader(struct measure_reader *rd, struct err *err) {
  const struct measure_reader_team *t = rd->team;
  const struct io_options io = {.mode = t->o->mode, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  if (io_open(&rd->io, &io, t->sources, err)) return -1;
  if (eval_open(&rd->ev, t->r, rd->io, t->budget.eval_bytes, err)) return -1;
  eval_touch(rd->ev, NULL, t->r->n_rows);
  return 0;
}

static void close_reader(struct measure_reader *rd) {
  if (rd->ev) eval_close(rd->ev);
  if (rd->io) {
    pthread_mutex_lock(&rd->team->mu);
    rd->team->stats->source_bytes_read += io_source_bytes_read(rd->io);
    pthread_mutex_unlock(&rd->team->mu);
    io_close(rd->io);
  }
  arena_free(&rd->arena);
}

static void work(void *ctx, uint32_t i) {
  (void)i;
  struct measure_reader_team *t = ctx;
  struct measure_reader rd = {.team = t};
  struct err err = {0};
  const int bad = open_reader(&rd, &err) || t->work(&rd, &err);
  close_reader(&rd);
  if (!bad) return;
  t->stopped = true;
  pthread_mutex_lock(&t->mu);
  if (t->err.kind == ERR_NONE) t->err = err;
  pthread_mutex_unlock(&t->mu);
}

int measure_reader_run(struct measure_reader_team *t, struct err *err) {
  const uint32_t useful = (uint32_t)min_u64(t->n_items, UINT32_MAX);
  if (memory_split_of(&t->budget, t->o->memory, t->o->jobs, useful, err)) return -1;
  pthread_mutex_init(&t->mu, NULL);
  if (t->n_items > 0) {
    const uint32_t jobs = threads_run(t->budget.jobs, work, t);
    t->stats->jobs = (uint32_t)max_u64(t->stats->jobs, jobs);
  }
  pthread_mutex_destroy(&t->mu);
  if (t->err.kind != ERR_NONE) {
    if (err->kind == ERR_NONE) *err = t->err;
    return -1;
  }
  if (t->stopped) return err_set(err, ERR_RETRY, "interrupted while weights were measured");
  if (sources_unchanged(t->sources, err)) return -1;
  if (t->o->progress.tick)
    t->o->progress.tick(t->o->progress.ctx, t->bytes_total, t->bytes_total, NULL);
  return 0;
}
