// Site by site: what edits changed is cut out of the source and of the result, run and compared (site_look.c), and each result becomes a row.
//
// Memory is that of the largest site. What cannot be cut, fed or run is "not verified", with its reason: a site that was not run is never called verified.
#include "verify/run/verify.h"

#include "platform/machine.h"
#include "verify/run/verify_products.h"
#include "verify/run/verify_written.h"
#include "verify/sites/site_look.h"
#include "verify/sites/verify_replay.h"
#include "verify/sites/verify_wide.h"

enum { FAULTS_SOUGHT = 16, FEW_SITES = 4 };

static const char *joined(const char *const *names, uint32_t n, struct arena *a) {
  const char *text = n ? names[0] : "no pass";
  for (uint32_t i = 1; i < n; i++)
    text = arena_printf(a, "%s, %s", text, names[i]);
  return arena_string(a, span_str(text));
}

static void tick(struct site_run *r, const char *name) {
  if (r->groups || r->silent) return;
  const uint64_t done =
      r->all_done && name ? __atomic_load_n(r->all_done, __ATOMIC_RELAXED) : r->bytes_done;
  const struct work_told told = {.bytes_done = done,
                                 .bytes_total = r->bytes_total,
                                 .work_done = (double)done,
                                 .work_total = (double)r->bytes_total,
                                 .tensor = name};
  observer_tick(r->v->options.observer, &told);
}

static int verify_one(struct site_run *r, uint32_t i, struct err *err) {
  struct verified *f = &r->v->found;
  const struct site *s = &r->sites.list[i];
  struct arena a = {0};
  const char *names[SITE_PASSES];
  const char *name = site_name(r->e->source, s, &f->arena);
  const double began = machine_clock();
  const uint32_t n_names = site_run_passes(r, s, names);
  struct verified_row row = {.name = name,
                             .bounds = "",
                             .of = joined(names, n_names, &f->arena),
                             .loses = verify_loses(&r->v->options, names, n_names) ||
                                      site_run_rounds(r, s),
                             .drawn = true};
  int rc = 0;
  if (site_run_chosen(r, i, name)) {
    tick(r, name);
    rc = site_look(r, i, &row, &a, err);
    // Each takes some replays of the log.
    if (rc == 0 && row.end == VERIFIED_FAILED && !r->groups && !r->ended &&
        f->n_failed < FAULTS_SOUGHT)
      row.fault = verify_fault(r->v, r->e, s->groups, s->n_groups, &f->arena);
    row.seconds = machine_clock() - began;
    if (rc == 0) {
      *TABLE_PUSH(f, rows) = row;
      verified_count(f, row.end);
    }
  } else if (!r->groups) {
    f->n_left++;
  }
  r->bytes_done += site_run_bytes(r, s);
  if (r->all_done) __atomic_fetch_add(r->all_done, site_run_bytes(r, s), __ATOMIC_RELAXED);
  runtime_release(r->v->runtime);
  arena_free(&a);
  return rc;
}

// Several at a time, if there are several and no group at fault is searched for.
static int verify_all(struct site_run *r, struct err *err) {
  const uint32_t jobs = r->v->options.jobs, most = r->sites.n / FEW_SITES;
  int rc = 0;
  if (!r->groups && jobs > 1 && most > 1)
    return verify_wide_run(r, jobs < most ? jobs : most, verify_one, err);
  for (uint32_t i = 0; i < r->sites.n && rc == 0; i++)
    rc = verify_one(r, i, err);
  return rc;
}

int verify_sites_of(struct verify *v, const struct verify_edited *e, const uint32_t *groups,
                    uint32_t n, struct err *err) {
  struct site_run r = {.v = v, .e = e, .groups = groups, .n_groups = n};
  int rc = site_run_open(&r, err);
  if (rc == 0) rc = verify_all(&r, err);
  if (rc == 0) tick(&r, NULL);
  site_run_close(&r);
  return rc;
}

int verify_sites(struct verify *v, const struct verify_edited *e, struct err *err) {
  observer_begin(v->options.observer, "verifying");
  int rc = verify_sites_of(v, e, NULL, 0, err);
  observer_end(v->options.observer);
  if (rc == 0)
    rc = verify_products_see(v, e->written ? &e->written->model : e->result,
                             e->written ? e->written->sources : NULL, e->recipes, err);
  v->found.peak_memory[0] = machine_peak_memory();
  v->found.peak_memory[1] += runtime_peak_memory(v->runtime);
  v->found.seconds = machine_clock() - v->began;
  return rc;
}
