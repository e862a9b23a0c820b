// Threads share the rows of models and the sources, which do not change. Each has its own inference, recipes, draws, results,
// folder and runtime.
//
//   weir ─┬─ thread 0 ──▶ weir-ort   sites 0, 2, 5 …   rows ─┐
//         ├─ thread 1 ──▶ weir-ort   sites 1, 4 …      rows ─┤─▶ in order
//         └─ thread 2 ──▶ weir-ort   sites 3 …         rows ─┘
//
// The next site is a number that all of them count up.
#include "verify/sites/verify_wide.h"

#include "stream/sys/threads.h"
#include "verify/run/verify_written.h"

#include <errno.h>
#include <stdlib.h>

struct placed {
  uint32_t site;
  struct verified_row row;
};

// The edited models as a thread sees them.
struct view {
  struct model source, result;
  struct verify_written before, written;
  struct verify_edited e;
};

struct worker { // the first thread has its own before: v, view and run are not used
  struct verify v;
  struct view view;
  struct site_run run;
  struct err err;
  int rc;
  TABLE(struct placed, rows);
};

struct gathering {
  struct site_run *first;
  int (*one)(struct site_run *run, uint32_t site, struct err *err);
  struct worker *workers;
  uint32_t next, over; // the next site; no thread begins another
  uint64_t done;       // bytes
};

// ---- a thread ----------------------------------------------------------------------------------

// Sites until all are done, or one thread failed.
static int work(struct gathering *g, struct worker *x, struct site_run *r) {
  struct verified *f = &r->v->found;
  for (;;) {
    const uint32_t site = __atomic_fetch_add(&g->next, 1, __ATOMIC_RELAXED), before = f->n_rows;
    if (site >= r->sites.n || __atomic_load_n(&g->over, __ATOMIC_RELAXED)) return 0;
    if (threads_must_stop(NULL)) return 0; // memory ended for another
    if (g->one(r, site, &x->err)) return -1;
    if (f->n_rows == before) continue;
    *TABLE_PUSH(x, rows) = (struct placed){site, f->rows[before]};
    f->n_rows = before;
  }
}

static int own_scratch(struct verify *v, uint32_t i, struct err *err) {
  const struct folder all = v->scratch_at;
  const char *name = arena_printf(&v->arena, "w%u", i);
  v->scratch_at = folder_make(all, name, 0700) == 0 ? folder_open(all, name, 0) : NO_FOLDER;
  if (!folder_is_open(v->scratch_at)) {
    const int why = errno;
    (void)folder_remove(all, name);
    return err_errno(err, why, ERR_IO, "'%s' cannot be used", quote_path(v->scratch).s);
  }
  v->scratch = arena_printf(&v->arena, "%s/%s", v->scratch, name);
  v->options.runtime.scratch = v->scratch;
  return 0;
}

static int work_with_own(struct gathering *g, struct worker *x, uint32_t i) {
  struct verify *v = &x->v;
  if (own_scratch(v, i, &x->err)) return -1;
  int rc = runtime_open(&v->runtime, &v->options.runtime, &x->err);
  if (rc == 0) {
    x->run = (struct site_run){.v = v, .e = &x->view.e, .all_done = &g->done, .silent = true};
    rc = site_run_open(&x->run, &x->err);
    if (rc == 0) rc = work(g, x, &x->run);
    site_run_close(&x->run);
    v->found.peak_memory[1] = runtime_peak_memory(v->runtime);
    runtime_close(v->runtime);
  }
  folder_close(&v->scratch_at);
  (void)folder_remove(HERE, v->scratch);
  return rc;
}

static void work_as(void *ctx, uint32_t i) {
  struct gathering *g = ctx;
  struct worker *x = &g->workers[i];
  x->rc = i == 0 ? work(g, x, g->first) : work_with_own(g, x, i);
  if (x->rc) __atomic_store_n(&g->over, 1, __ATOMIC_RELAXED);
}

// ---- all of them -------------------------------------------------------------------------------

// What nothing was found in yet.
static struct verify like(const struct verify *all) {
  struct verify v = *all;
  v.runtime = NULL;
  v.arena = (struct arena){0};
  v.found = (struct verified){.scope = all->found.scope, .drawn.sizes = all->found.drawn.sizes};
  return v;
}

static const struct verify_written *view_written(struct verify_written *own,
                                                 const struct verify_written *of) {
  if (!of) return NULL;
  *own = *of;
  model_view(&own->model, &of->model);
  return own;
}

static void view_open(struct view *x, const struct verify_edited *e) {
  model_view(&x->source, e->source);
  model_view(&x->result, e->result);
  x->e = *e;
  x->e.source = &x->source;
  x->e.result = &x->result;
  x->e.before = view_written(&x->before, e->before);
  x->e.written = view_written(&x->written, e->written);
}

static void view_close(struct view *x) {
  model_view_free(&x->source);
  model_view_free(&x->result);
  model_view_free(&x->before.model);
  model_view_free(&x->written.model);
}

static void keep_texts(struct verified_row *row, struct arena *a) {
  const char **texts[] = {&row->name, &row->of, &row->bounds, &row->why, &row->fault};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (*texts[i]) *texts[i] = arena_string(a, span_str(*texts[i]));
}

static void end_worker(struct verified *f, struct worker *x) {
  for (uint32_t i = 0; i < x->n_rows; i++) {
    keep_texts(&x->rows[i].row, &f->arena);
    verified_count(f, x->rows[i].row.end);
  }
  f->n_left += x->v.found.n_left;
  f->peak_memory[1] += x->v.found.peak_memory[1];
  f->n_helpers++;
  TABLE_FREE(&x->v.found, rows);
  arena_free(&x->v.found.arena);
  arena_free(&x->v.arena);
}

static int by_site(const void *pa, const void *pb) {
  const struct placed *a = pa, *b = pb;
  return (a->site > b->site) - (a->site < b->site);
}

int verify_wide_run(struct site_run *r, uint32_t jobs,
                    int (*one)(struct site_run *run, uint32_t site, struct err *err),
                    struct err *err) {
  struct verified *f = &r->v->found;
  struct arena a = {0};
  struct gathering g = {.first = r, .one = one};
  int rc = 0;
  if (jobs > THREADS_MAX) jobs = THREADS_MAX;
  g.workers = arena_zalloc(&a, jobs * sizeof *g.workers);
  for (uint32_t i = 1; i < jobs; i++) {
    g.workers[i].v = like(r->v);
    view_open(&g.workers[i].view, r->e);
  }
  r->all_done = &g.done;
  const uint32_t n = threads_run_deep(jobs, work_as, &g);
  r->all_done = NULL;
  r->bytes_done = r->bytes_total;
  struct worker *first = g.workers;
  for (uint32_t i = 0; i < n; i++) {
    struct worker *x = &g.workers[i];
    if (i > 0) end_worker(f, x);
    if (x->rc && rc == 0) *err = x->err;
    rc |= x->rc;
    for (uint32_t k = 0; i > 0 && k < x->n_rows; k++)
      *TABLE_PUSH(first, rows) = x->rows[k];
    if (i > 0) TABLE_FREE(x, rows);
  }
  for (uint32_t i = 1; i < jobs; i++)
    view_close(&g.workers[i].view);
  if (first->n_rows) qsort(first->rows, first->n_rows, sizeof *first->rows, by_site);
  for (uint32_t i = 0; i < first->n_rows; i++)
    *TABLE_PUSH(f, rows) = first->rows[i].row;
  TABLE_FREE(first, rows);
  arena_free(&a);
  return rc ? -1 : 0;
}
