// What a site needs (inference, drawn inputs, recipes) is found before and belongs to one thread at a time; a copy of the
// process has all of it as it is, and what it changes is its own.
//
//   weir ──▶ weir-ort        sites 0, 2, 5 …      rows ─┐
//     ├─ weir ──▶ weir-ort   sites 1, 4 …         file ─┤─▶ in order
//     └─ weir ──▶ weir-ort   sites 3 …            file ─┘
//
// The next site is a number that all of them count up. A process writes its rows to a file without a name and ends; what it is killed
// by, the first one says. If that one ends, so do they.
#include "verify/sites/verify_wide.h"

#include "platform/children.h"
#include "platform/machine.h"
#include "platform/maps.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS_MOST = 64, TEXTS = 5 };

struct shared {
  uint32_t next, over; // the next site; nobody is to begin another
};

struct worker {
  struct child_copy process;
  struct file file; // of its rows
};

// A row as a file has it: its texts, with a NUL each, follow.
struct record {
  uint32_t site, end, loses, unmet, cut_off, rounded;
  uint32_t text[TEXTS]; // lengths with the NUL; 0: NULL
  struct compare_figures figures;
  double seconds;
};

struct ending {       // after all rows
  struct record mark; // its site is UINT32_MAX
  int rc;
  struct err err;
  uint64_t n_left, peak_memory[2];
};

struct placed {
  uint32_t site;
  struct verified_row row;
};

struct gathering {
  const struct verify_wide *w;
  struct shared *shared;
  struct worker workers[JOBS_MOST];
  uint32_t n_workers;
  TABLE(struct placed, rows);
};

uint64_t *verify_wide_counter(void) {
  return pages_new_shared(sizeof(uint64_t));
}

void verify_wide_counter_free(uint64_t *counter) {
  if (counter) pages_free(counter, sizeof *counter);
}

// ---- rows --------------------------------------------------------------------------------------

static void texts_of(struct verified_row *r, const char **texts[TEXTS]) {
  texts[0] = &r->name;
  texts[1] = &r->of;
  texts[2] = &r->bounds;
  texts[3] = &r->why;
  texts[4] = &r->fault;
}

static bool write_row(struct file f, uint32_t site, struct verified_row *row) {
  struct record x = {.site = site,
                     .end = (uint32_t)row->end,
                     .loses = row->loses,
                     .unmet = row->unmet,
                     .cut_off = row->cut_off,
                     .rounded = row->rounded,
                     .figures = row->figures,
                     .seconds = row->seconds};
  const char **texts[TEXTS];
  texts_of(row, texts);
  for (int i = 0; i < TEXTS; i++)
    x.text[i] = *texts[i] ? (uint32_t)strlen(*texts[i]) + 1 : 0;
  bool fine = file_write_all(f, &x, sizeof x) == 0;
  for (int i = 0; i < TEXTS && fine; i++)
    if (*texts[i]) fine = file_write_all(f, *texts[i], x.text[i]) == 0;
  return fine;
}

// What a worker wrote; false if it is not whole.
static bool take_rows(struct gathering *g, struct span text, struct ending *end) {
  struct verified *f = &g->w->v->found;
  for (size_t at = 0; text.n - at >= sizeof(struct record);) {
    struct record x;
    const char **texts[TEXTS];
    memcpy(&x, text.at + at, sizeof x);
    if (x.site == UINT32_MAX) {
      if (text.n - at != sizeof *end) return false;
      memcpy(end, text.at + at, sizeof *end);
      return true;
    }
    at += sizeof x;
    struct placed *p = TABLE_PUSH(g, rows);
    *p = (struct placed){x.site,
                         {.end = (enum verified_end)x.end,
                          .figures = x.figures,
                          .loses = x.loses != 0,
                          .unmet = x.unmet != 0,
                          .cut_off = x.cut_off != 0,
                          .rounded = x.rounded != 0,
                          .drawn = true,
                          .seconds = x.seconds}};
    texts_of(&p->row, texts);
    for (int i = 0; i < TEXTS; i++) {
      if (x.text[i] > text.n - at) return false;
      if (x.text[i]) *texts[i] = arena_string(&f->arena, span_of(text.at + at, x.text[i] - 1));
      at += x.text[i];
    }
    verified_count(f, p->row.end);
  }
  return false;
}

// ---- work --------------------------------------------------------------------------------------

// Sites until all are done, or one process failed.
static int work(struct gathering *g, struct file file, struct err *err) {
  struct verified *f = &g->w->v->found;
  for (;;) {
    const uint32_t site = __atomic_fetch_add(&g->shared->next, 1, __ATOMIC_RELAXED),
                   before = f->n_rows;
    if (site >= g->w->n || __atomic_load_n(&g->shared->over, __ATOMIC_RELAXED)) return 0;
    if (g->w->one(g->w->ctx, site, err)) return -1;
    if (f->n_rows == before) continue;
    if (!file_is_open(file))
      *TABLE_PUSH(g, rows) = (struct placed){site, f->rows[before]};
    else if (!write_row(file, site, &f->rows[before]))
      return err_errno(err, errno, ERR_IO, "the results cannot be stored in '%s'",
                       quote_path(g->w->v->scratch).s);
    f->n_rows = before;
  }
}

static int own_scratch(struct verify *v, uint32_t k, struct err *err) {
  char name[16];
  snprintf(name, sizeof name, "w%u", k);
  const struct folder all = v->scratch_at;
  v->scratch_at = folder_make(all, name, 0700) == 0 ? folder_open(all, name, 0) : NO_FOLDER;
  if (!folder_is_open(v->scratch_at))
    return err_errno(err, errno, ERR_IO, "'%s' cannot be used", quote_path(v->scratch).s);
  v->scratch = arena_printf(&v->arena, "%s/%s", v->scratch, name);
  v->options.runtime.scratch = v->scratch;
  return 0;
}

struct copy {
  struct gathering *g;
  uint32_t k;
  struct file file;
};

// In the new process.
static int be_worker(void *ctx) {
  const struct copy *c = ctx;
  struct gathering *g = c->g;
  struct verify *v = g->w->v;
  struct ending end = {.mark = {.site = UINT32_MAX}};
  struct err err = {0};
  v->found.n_rows = 0;
  v->found.n_passed = v->found.n_failed = v->found.n_not = v->found.n_unjudged = v->found.n_left =
      0;
  v->runtime = NULL;
  g->w->alone(g->w->ctx);
  end.rc = own_scratch(v, c->k, &err);
  const bool made = end.rc == 0;
  if (made) end.rc = runtime_open(&v->runtime, &v->options.runtime, &err);
  if (end.rc == 0) end.rc = work(g, c->file, &err);
  if (end.rc) __atomic_store_n(&g->shared->over, 1, __ATOMIC_RELAXED);
  end.err = err;
  end.n_left = v->found.n_left;
  end.peak_memory[0] = machine_peak_memory();
  end.peak_memory[1] = v->runtime ? runtime_peak_memory(v->runtime) : 0;
  if (v->runtime) runtime_close(v->runtime);
  if (made) folder_close(&v->scratch_at);
  if (made) (void)folder_remove(HERE, v->scratch);
  return file_write_all(c->file, &end, sizeof end) ? 1 : 0;
}

// As many as the system gives.
static void start(struct gathering *g) {
  const struct folder scratch = g->w->v->scratch_at;
  for (uint32_t k = 1; k < g->w->jobs && k < JOBS_MOST; k++) {
    struct copy c = {g, k, file_open_to_write(scratch, "rows", FILE_NEW | FILE_READ, 0600)};
    struct child_copy process;
    if (!file_is_open(c.file)) return;
    (void)file_remove(scratch, "rows");
    if (child_copy(&process, be_worker, &c)) {
      file_close(&c.file);
      return;
    }
    g->workers[g->n_workers++] = (struct worker){process, c.file};
  }
}

// The folder of a worker that could not do it itself; it has nothing but plain files.
static void remove_scratch(const struct verify *v, uint32_t k) {
  const struct folder all = v->scratch_at;
  char name[16];
  snprintf(name, sizeof name, "w%u", k);
  struct folder own = folder_open(all, name, FILE_NO_LINK);
  if (folder_is_open(own)) fs_remove_files(own);
  folder_close(&own);
  (void)folder_remove(all, name);
}

static int end_worker(struct gathering *g, struct worker *x, struct err *err) {
  struct verified *f = &g->w->v->found;
  struct ending end = {.rc = 0};
  struct child_end how;
  struct entry_facts is;
  struct file_map rows;
  bool whole = false;
  child_copy_reap(&x->process, &how);
  if (file_look(x->file, &is) == 0 && is.size > 0 &&
      map_open(&rows, x->file, 0, (size_t)is.size) == 0) {
    whole = take_rows(g, span_of(rows.at, (size_t)is.size), &end);
    map_close(&rows);
  }
  file_close(&x->file);
  remove_scratch(g->w->v, (uint32_t)(x - g->workers) + 1);
  if (!whole || how.signal || how.code != 0)
    return err_set(err, ERR_FAIL, "a process that verified sites ended before it was done (%s %d)",
                   how.signal ? "signal" : "exit code", how.signal ? how.signal : how.code);
  f->n_left += end.n_left;
  f->peak_memory[0] += end.peak_memory[0];
  f->peak_memory[1] += end.peak_memory[1];
  f->n_helpers++;
  if (end.rc && err->kind == ERR_NONE) *err = end.err;
  return end.rc;
}

static int by_site(const void *pa, const void *pb) {
  const struct placed *a = pa, *b = pb;
  return (a->site > b->site) - (a->site < b->site);
}

int verify_wide_run(const struct verify_wide *w, struct err *err) {
  struct gathering g = {.w = w};
  struct verified *f = &w->v->found;
  g.shared = pages_new_shared(sizeof *g.shared);
  if (!g.shared) return err_set(err, ERR_NO_MEMORY, "not enough memory to verify sites");
  start(&g);
  int rc = work(&g, NO_FILE, err);
  if (rc) __atomic_store_n(&g.shared->over, 1, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < g.n_workers && rc; i++)
    child_copy_stop(&g.workers[i].process);
  for (uint32_t i = 0; i < g.n_workers; i++)
    rc |= end_worker(&g, &g.workers[i], err);
  if (g.n_rows) qsort(g.rows, g.n_rows, sizeof *g.rows, by_site);
  for (uint32_t i = 0; i < g.n_rows; i++)
    *TABLE_PUSH(f, rows) = g.rows[i].row;
  TABLE_FREE(&g, rows);
  pages_free(g.shared, sizeof *g.shared);
  return rc ? -1 : 0;
}
