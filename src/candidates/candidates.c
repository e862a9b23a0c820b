#include "candidates/candidates.h"

#include "execute/execution_stage.h"

#include <math.h>
#include <stdlib.h>

void candidates_begin(struct candidates *c, const struct request *request) {
  *c = (struct candidates){.options = NULL};
  pass_edits_init(&c->pj, request->observer, NULL);
  execution_begin_reading(&c->exec, request, request->sources[0].path);
}

void candidates_done(struct candidates *c) {
  TABLE_FREE(c, rows);
  execution_close(&c->exec);
  pass_edits_free(&c->pj);
}

// ---- measuring ---------------------------------------------------------------------------------

static int ask(void *ctx, const struct pass_question *q, struct pass_answer *answer,
               struct err *err) {
  struct candidates *c = ctx;
  return execution_stage_answer(&c->exec, q, answer, &c->source_bytes_read, err);
}

static void note_row(void *ctx, const struct matmulnbits_measurement *x) {
  struct candidates *c = ctx;
  struct arena *a = &c->exec.arena;
  struct candidates_row *row = TABLE_PUSH(c, rows);
  int64_t *dims = arena_copy(a, x->dims, x->rank * sizeof *dims);
  *row = (struct candidates_row){.x = *x, .words = matmulnbits_scheme_text(&x->scheme, a)};
  row->x.tensor = span_str(arena_string(a, x->tensor));
  row->x.dims = dims;
}

static int measure(struct candidates *c, struct matmulnbits_options *options, struct err *err) {
  struct arena scratch = {0};
  struct pass_env env = pass_edits_env(&c->pj, &c->exec);
  env.scratch = &scratch;
  env.ask = ask;
  env.ask_ctx = c;
  const struct matmulnbits_listener listener = {note_row, c};
  const struct pipeline *p = &c->pj.pipeline;
  struct pass_result unused;
  int rc = 0;
  env.result = &unused;
  for (uint32_t i = 0; i + 1 < p->n_steps && rc == 0; i++) { // --inputs-are-constant
    unused = (struct pass_result){0};
    env.pass = p->steps[i].values.pass;
    env.site = NULL;
    rc = env.pass->run(&env, p->steps[i].values.options, err);
  }
  env.site = pass_edits_env(&c->pj, &c->exec).site;
  env.pass = p->steps[p->n_steps - 1].values.pass;
  if (rc == 0) rc = matmulnbits_measure(&env, options, &listener, err);
  arena_free(&scratch);
  return rc;
}

// ---- layers ------------------------------------------------------------------------------------

static int compare_spans(struct span a, struct span b) {
  const int by_text = memcmp(a.at, b.at, a.n < b.n ? a.n : b.n);
  return by_text ? by_text : (a.n > b.n) - (a.n < b.n);
}

// By weight, then in the order they were reported in.
static int compare_sites(const void *pa, const void *pb) {
  const struct run_site *a = *(const struct run_site *const *)pa,
                        *b = *(const struct run_site *const *)pb;
  const int by_weight = compare_spans(a->tensor, b->tensor);
  return by_weight ? by_weight : (a > b) - (a < b);
}

// The first site of a weight is the first node that uses it.
static void name_layers(struct candidates *c) {
  const struct run_passes *p = &c->pj.found;
  const struct run_site **sites = arena_alloc(&c->exec.arena, (p->n_sites + 1) * sizeof *sites);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n_sites; i++)
    if (p->sites[i].tensor.at) sites[n++] = &p->sites[i];
  qsort(sites, n, sizeof *sites, compare_sites);
  for (uint32_t i = 0; i < c->n_rows; i++) {
    const struct span weight = c->rows[i].x.tensor;
    uint32_t at;
    BISECT(at, n, compare_spans(sites[at]->tensor, weight) < 0);
    const bool known = at < n && span_eq(sites[at]->tensor, weight);
    c->rows[i].layer = known ? sites[at]->layer : arena_string(&c->exec.arena, weight);
  }
}

// ---- of what was measured ----------------------------------------------------------------------

bool candidates_total(const struct candidates *c, uint32_t i, struct candidates_row *sum) {
  *sum = (struct candidates_row){.x.scheme = c->options->candidates[i]};
  for (uint32_t k = 0; k < c->n_rows; k++) {
    const struct candidates_row *r = &c->rows[k];
    if (!matmulnbits_scheme_same(&r->x.scheme, &sum->x.scheme)) continue;
    sum->words = r->words;
    sum->x.source_bytes += r->x.source_bytes;
    sum->x.bytes += r->x.bytes;
    sum->x.figures = figures_join(&sum->x.figures, &r->x.figures);
  }
  return sum->words;
}

static double rank(const struct figures *f) {
  const double db = figures_sqnr_db(f);
  return isnan(db) ? -INFINITY : db; // worse than any
}

static int compare_weights(const void *pa, const void *pb) {
  const struct candidates_weight *a = pa, *b = pb;
  if (a->worst != b->worst) return a->worst < b->worst ? -1 : 1;
  return (a->first > b->first) - (a->first < b->first);
}

uint32_t candidates_weights(struct candidates *c, bool worst_first,
                            struct candidates_weight **list) {
  uint32_t n = 0;
  *list = arena_alloc(&c->exec.arena, (c->n_rows + 1) * sizeof **list);
  for (uint32_t i = 0; i < c->n_rows; i++) {
    const double db = rank(&c->rows[i].x.figures);
    if (c->rows[i].x.first) (*list)[n++] = (struct candidates_weight){.first = i, .worst = db};
    (*list)[n - 1].n++;
    (*list)[n - 1].worst = fmin((*list)[n - 1].worst, db);
  }
  if (worst_first) qsort(*list, n, sizeof **list, compare_weights);
  return n;
}

int candidates_measure(struct candidates *c, struct err *err) {
  struct pipeline_step *pass = &c->pj.pipeline.steps[c->pj.pipeline.n_steps - 1];
  c->options = pass->values.options;
  if (execution_load(&c->exec, err) || measure(c, pass->values.options, err)) return -1;
  pass_edits_collect(&c->pj, &c->exec);
  name_layers(c);
  return 0;
}
