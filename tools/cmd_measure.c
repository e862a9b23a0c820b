// weir measure: what every candidate quantization would make of every weight, from one streaming
// read.
//
// The weights are chosen as by quantize, by the pass itself; nothing is edited or written. For
// people a table of the worst layers and a total for each candidate, for programs all weights as JSON
// or CSV. Numbers in JSON and CSV read back exactly.
#include "cli_request.h"
#include "commands.h"
#include "execution_stage.h"
#include "machine.h"
#include "matmulnbits.h"
#include "pass_command.h"
#include "render_passes.h"
#include "report.h"

#include <math.h>
#include <stdlib.h>

enum { WORST_SHOWN = 10 };

struct row {
  struct matmulnbits_measurement x;
  const char *words; // of its scheme
  const char *layer; // the first node that uses the weight: for people, who do not know tensors
};

struct measuring {
  struct request request;
  struct request_source source;
  struct execution exec;               // as far as sources, model and edits go
  struct pass_edits pj;                // one step: the pass
  struct matmulnbits_options *options; // of the step
  bool all, quiet;                     // all: weights are printed, not only the worst
  uint64_t source_bytes_read;
  TABLE(struct row, rows);
};

// ---- measuring ---------------------------------------------------------------------------------

// The stage, without an artifact that would stay: nothing is decided by it.
static int ask(void *ctx, const struct pass_question *q, struct pass_answer *answer,
               struct err *err) {
  struct measuring *m = ctx;
  struct json_out text = {0};
  if (execution_choose_io(&m->exec, err)) return -1;
  json_newline(&text); // instead of the head
  const int rc = execution_stage_run(&m->exec, q, &text, &m->source_bytes_read, err);
  answer->text = span_str(json_take(&text, &m->exec.arena));
  return rc;
}

static void note_row(void *ctx, const struct matmulnbits_measurement *x) {
  struct measuring *m = ctx;
  struct arena *a = &m->exec.arena;
  struct row *row = TABLE_PUSH(m, rows);
  int64_t *dims = arena_copy(a, x->dims, x->rank * sizeof *dims);
  *row = (struct row){.x = *x, .words = matmulnbits_scheme_text(&x->scheme, a)};
  row->x.tensor = span_str(arena_string(a, x->tensor));
  row->x.dims = dims;
}

static int measure(struct measuring *m, struct err *err) {
  struct arena scratch = {0};
  struct pass_env env = pass_edits_env(&m->pj, &m->exec);
  env.scratch = &scratch;
  env.ask = ask;
  env.ask_ctx = m;
  const struct matmulnbits_listener listener = {note_row, m};
  const struct pipeline *p = &m->pj.pipeline;
  int rc = 0;
  for (uint32_t i = 0; i + 1 < p->n_steps && rc == 0; i++) { // --inputs-are-constant
    struct pass_result unused = {0};
    env.pass = p->steps[i].values.pass;
    env.site = NULL;
    rc = env.pass->run(&env, p->steps[i].values.options, &unused, err);
  }
  env.site = pass_edits_env(&m->pj, &m->exec).site;
  env.pass = p->steps[p->n_steps - 1].values.pass;
  if (rc == 0) rc = matmulnbits_measure(&env, m->options, &listener, err);
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
static void name_layers(struct measuring *m) {
  const struct pass_edits *pj = &m->pj;
  const struct run_site **sites = arena_alloc(&m->exec.arena, (pj->n_sites + 1) * sizeof *sites);
  uint32_t n = 0;
  for (uint32_t i = 0; i < pj->n_sites; i++)
    if (pj->sites[i].tensor.at) sites[n++] = &pj->sites[i];
  qsort(sites, n, sizeof *sites, compare_sites);
  for (uint32_t i = 0; i < m->n_rows; i++) {
    uint32_t low = 0, high = n;
    while (low < high) {
      const uint32_t mid = low + (high - low) / 2;
      if (compare_spans(sites[mid]->tensor, m->rows[i].x.tensor) < 0)
        low = mid + 1;
      else
        high = mid;
    }
    const bool known = low < n && compare_spans(sites[low]->tensor, m->rows[i].x.tensor) == 0;
    m->rows[i].layer =
        known ? sites[low]->layer : arena_string(&m->exec.arena, m->rows[i].x.tensor);
  }
}

// ---- telling -----------------------------------------------------------------------------------

// All rows of candidate i of the options together. False if no weight takes it.
static bool total_of(const struct measuring *m, uint32_t i, struct row *sum) {
  *sum = (struct row){.x.scheme = m->options->candidates[i]};
  for (uint32_t k = 0; k < m->n_rows; k++) {
    const struct row *r = &m->rows[k];
    if (!matmulnbits_scheme_same(&r->x.scheme, &sum->x.scheme)) continue;
    sum->words = r->words;
    sum->x.source_bytes += r->x.source_bytes;
    sum->x.bytes += r->x.bytes;
    sum->x.figures = figures_join(&sum->x.figures, &r->x.figures);
  }
  return sum->words;
}

struct widths {
  int name, words;
};

static int max_int(int a, int b) {
  return a > b ? a : b;
}

static void print_row(const struct row *r, const char *name, const struct widths *w) {
  char sqnr[32];
  const double db = figures_sqnr_db(&r->x.figures);
  if (isfinite(db))
    snprintf(sqnr, sizeof sqnr, "%.2f", db);
  else
    snprintf(sqnr, sizeof sqnr, "%s", isnan(db) ? "nan" : "exact");
  printf("%-*s  %-*s %7s  %.6f  %9.3g  %9.3g  %12lu\n", w->name, name, w->words, r->words, sqnr,
         figures_cosine(&r->x.figures), r->x.figures.max_error, figures_rmse(&r->x.figures),
         r->x.bytes);
}

// The candidates of a weight are neighbours.
struct weight_rows {
  uint32_t first, n;
  double worst; // the least SQNR that a candidate has
};

static double rank(const struct figures *f) {
  const double db = figures_sqnr_db(f);
  return isnan(db) ? -INFINITY : db; // worse than any
}

static int compare_weights(const void *pa, const void *pb) {
  const struct weight_rows *a = pa, *b = pb;
  if (a->worst != b->worst) return a->worst < b->worst ? -1 : 1;
  return (a->first > b->first) - (a->first < b->first);
}

static uint32_t list_weights(struct measuring *m, struct weight_rows **list) {
  uint32_t n = 0;
  *list = arena_alloc(&m->exec.arena, (m->n_rows + 1) * sizeof **list);
  for (uint32_t i = 0; i < m->n_rows; i++) {
    const double db = rank(&m->rows[i].x.figures);
    if (m->rows[i].x.first) (*list)[n++] = (struct weight_rows){.first = i, .worst = db};
    (*list)[n - 1].n++;
    (*list)[n - 1].worst = fmin((*list)[n - 1].worst, db);
  }
  return n;
}

static void print_table(struct measuring *m) {
  struct weight_rows *list;
  const uint32_t weights = list_weights(m, &list);
  const bool all = m->all || weights <= WORST_SHOWN;
  const uint32_t shown = all ? weights : WORST_SHOWN;
  struct widths w = {.name = 6, .words = 12};
  uint64_t bytes = 0;
  if (!m->all) qsort(list, weights, sizeof *list, compare_weights);
  for (uint32_t i = 0; i < weights; i++)
    bytes += m->rows[list[i].first].x.source_bytes;
  for (uint32_t i = 0; i < shown; i++)
    w.name = max_int(w.name, (int)strlen(quote_str(m->rows[list[i].first].layer).s));
  for (uint32_t i = 0; i < m->n_rows; i++)
    w.words = max_int(w.words, (int)strlen(m->rows[i].words));
  printf("%-*s  %-*s %7s  %8s  %9s  %9s  %12s\n", w.name, "layer", w.words, "candidate", "SQNR dB",
         "cosine", "max error", "RMSE", "bytes");
  for (uint32_t i = 0; i < shown && report_stdout_alive(); i++)
    for (uint32_t k = 0; k < list[i].n; k++) {
      const struct row *r = &m->rows[list[i].first + k];
      print_row(r, k ? "" : quote_str(r->layer).s, &w);
    }
  const char *name = "all";
  for (uint32_t i = 0; i < m->options->n_candidates; i++) {
    struct row sum;
    if (!total_of(m, i, &sum)) continue;
    print_row(&sum, name, &w);
    name = "";
  }
  if (m->quiet) return;
  if (!all) printf("the %u worst of %u weights; --all lists them all\n", shown, weights);
  const char *kept = render_passes_kept(&m->pj, 0, &m->exec.arena);
  if (kept) printf("not measured: %s\n", kept);
  printf("%u weight%s, %s in %s, %s of memory\n", weights, plural(weights), quote_bytes(bytes).s,
         quote_seconds(machine_clock() - m->exec.began).s, quote_bytes(machine_peak_memory()).s);
}

static void csv_text(const char *text) {
  if (!strpbrk(text, ",\"\n\r")) {
    fputs(text, stdout);
    return;
  }
  putchar('"');
  for (; *text; text++) {
    if (*text == '"') putchar('"');
    putchar(*text);
  }
  putchar('"');
}

static void print_csv(struct measuring *m) {
  puts("weight,candidate,bits,block_size,symmetric,algorithm,elements,nonfinite,sqnr_db,cosine,max_"
       "abs_error,rmse,source_bytes,bytes,layer");
  for (uint32_t i = 0; i < m->n_rows && report_stdout_alive(); i++) {
    const struct row *r = &m->rows[i];
    csv_text((const char *)r->x.tensor.at);
    printf(",%s,%u,", r->words, r->x.scheme.bits);
    if (r->x.scheme.block)
      printf("%u", r->x.scheme.block);
    else
      fputs("channel", stdout);
    printf(",%s,%s,%lu,%lu,%.17g,%.17g,%.9g,%.17g,%lu,%lu,",
           r->x.scheme.symmetric ? "true" : "false",
           matmulnbits_algorithm_name(r->x.scheme.algorithm), r->x.figures.elements,
           r->x.figures.nonfinite, figures_sqnr_db(&r->x.figures), figures_cosine(&r->x.figures),
           r->x.figures.max_error, figures_rmse(&r->x.figures), r->x.source_bytes, r->x.bytes);
    csv_text(r->layer);
    putchar('\n');
  }
}

static void put_candidate(struct json_out *j, const struct row *r) {
  json_object(j);
  json_put_text(j, "algorithm", matmulnbits_algorithm_name(r->x.scheme.algorithm));
  json_put_uint(j, "bits", r->x.scheme.bits);
  json_key(j, "block_size");
  if (r->x.scheme.block)
    json_uint(j, r->x.scheme.block);
  else
    json_text(j, "channel");
  json_put_uint(j, "bytes", r->x.bytes);
  json_put_text(j, "candidate", r->words);
  json_put_double(j, "cosine", figures_cosine(&r->x.figures));
  json_put_double(j, "max_abs_error", r->x.figures.max_error);
  json_put_uint(j, "nonfinite", r->x.figures.nonfinite);
  json_put_double(j, "rmse", figures_rmse(&r->x.figures));
  json_put_double(j, "sqnr_db", figures_sqnr_db(&r->x.figures));
  json_put_double(j, "sum_ee", r->x.figures.ee);
  json_put_double(j, "sum_ve", r->x.figures.ve);
  json_put_double(j, "sum_vv", r->x.figures.vv);
  json_put_bool(j, "symmetric", r->x.scheme.symmetric);
  json_end_object(j);
}

// How many rows.
static uint32_t put_weight(const struct measuring *m, struct json_out *j, uint32_t first) {
  const struct row *r = &m->rows[first];
  uint32_t n = 0;
  json_object(j);
  json_put_uint(j, "bytes", r->x.source_bytes);
  json_put_array(j, "candidates");
  do
    put_candidate(j, &m->rows[first + n++]);
  while (first + n < m->n_rows && !m->rows[first + n].x.first);
  json_end_array(j);
  json_put_ints(j, "dims", r->x.dims, r->x.rank);
  json_put_text(j, "dtype", dtype_name(r->x.dtype));
  json_put_text(j, "layer", r->layer);
  json_put_string(j, "name", r->x.tensor);
  json_end_object(j);
  return n;
}

static void print_json(struct measuring *m) {
  struct json_out j = {.indent = 2};
  report_json_begin(&j);
  json_put_array(&j, "not_measured");
  for (uint32_t i = 0; i < m->pj.n_sites; i++) {
    if (run_site_converted(&m->pj.sites[i])) continue;
    json_object(&j);
    json_put_text(&j, "node", m->pj.sites[i].name);
    json_put_text(&j, "reason", m->pj.sites[i].reason);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_put_uint(&j, "source_bytes_read", m->source_bytes_read);
  json_put_array(&j, "totals");
  for (uint32_t i = 0; i < m->options->n_candidates; i++) {
    struct row sum;
    if (total_of(m, i, &sum)) put_candidate(&j, &sum);
  }
  json_end_array(&j);
  json_put_array(&j, "weights");
  for (uint32_t i = 0; i < m->n_rows && report_stdout_alive();) {
    i += put_weight(m, &j, i);
    report_json_flush(&j);
  }
  json_end_array(&j);
  json_end_object(&j);
  report_json_end(&j);
}

// ---- the command -------------------------------------------------------------------------------

// Candidates without a budget are what this command is for: what the pass has against them does not
// count.
static int read_options(struct measuring *m, const struct cli_args *args, struct err *err) {
  struct pipeline *p = &m->pj.pipeline;
  uint32_t n;
  const struct pass *pass = cli_pass(args->command);
  if (pass_command_take_inputs(&m->pj, args, err)) return -1;
  struct pipeline_step *step = pipeline_add(p, span_str(pass->name), &n, err);
  if (!step) return -1;
  cli_pass_values(args, &step->values, &p->arena);
  struct pass_value *candidates =
      &step->values.of[pass_values_option(pass, span_str("candidates"))];
  candidates->stated = candidates->given; // over those of a target
  candidates->given = false;
  if (pass_values_read(&step->values, &p->arena, err)) return -1;
  m->options = step->values.options;
  pass_edits_tell_targets(&m->pj);
  return 0;
}

int cmd_measure(const struct cli_args *args, struct err *err) {
  struct measuring m = {.source = {cli_operand(args, "IN")},
                        .all = cli_flag(args, OPT_ALL_WEIGHTS),
                        .quiet = cli_flag(args, OPT_QUIET),
                        .exec = {.request = &m.request,
                                 .in_path = cli_operand(args, "IN"),
                                 .out.dest = -1,
                                 .began = machine_clock()}};
  m.request = cli_request_reading(args, &m.source, &report_observer);
  m.exec.memory = m.request.limits.memory;
  m.exec.mode = m.request.limits.io;
  render_passes_init(&m.pj, &report_observer);
  model_init(&m.exec.model);
  recipes_init(&m.exec.recipes);
  edits_init(&m.exec.edits, &m.exec.model, &m.exec.recipes);
  int rc = read_options(&m, args, err);
  if (rc == 0) rc = execution_load(&m.exec, err);
  if (rc == 0) rc = measure(&m, err);
  if (rc == 0) name_layers(&m);
  if (rc == 0)
    (cli_flag(args, OPT_JSON) ? print_json : cli_flag(args, OPT_CSV) ? print_csv : print_table)(&m);
  TABLE_FREE(&m, rows);
  execution_close(&m.exec);
  pass_edits_free(&m.pj);
  return rc;
}
