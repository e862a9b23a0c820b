// weir measure: what every candidate quantization would make of every weight, from one streaming
// read.
//
// The weights are chosen as by quantize, by the pass itself; nothing is edited or written. For
// people a table and a total for each candidate, for programs JSON or CSV. Numbers in JSON and CSV
// read back exactly.
#include "commands.h"
#include "engine.h"
#include "load.h"
#include "matmulnbits.h"
#include "measure.h"
#include "measured.h"
#include "pass_job.h"
#include "report.h"
#include "stop.h"

#include <math.h>
#include <stdio.h>

struct row {
  bool first; // of its weight
  const char *tensor;
  const int64_t *dims;
  uint32_t rank;
  enum dtype dtype;
  uint64_t source_bytes;
  struct matmulnbits_scheme scheme;
  const char *words; // of the scheme
  uint64_t bytes;
  struct figures figures;
};

struct skipped {
  const char *node, *reason;
};

struct measuring {
  const struct cli_args *args;
  struct arena arena;
  struct sources *sources;
  struct model model;
  struct recipes recipes;
  struct edits edits;
  struct pass_values values;
  struct matmulnbits_options *options; // of the values
  struct measure_stats stats;
  TABLE(struct row, rows);
  TABLE(struct skipped, skips);
};

// ---- measuring ---------------------------------------------------------------------------------

// The stage, without an artifact that would stay: nothing is decided by it.
static int ask(void *ctx, const struct pass_question *q, struct pass_answer *answer,
               struct err *err) {
  struct measuring *m = ctx;
  struct json_out text = {0};
  struct figures *out = arena_alloc(&m->arena, (q->n + (size_t)1) * sizeof *out);
  struct work_options options = {.jobs = cli_count(m->args, OPT_JOBS),
                                 .memory = cli_size(m->args, OPT_MEMORY),
                                 .progress = {report_tick, NULL},
                                 .stop = stop_watch()};
  if (engine_of(m->args, &options.mode, err)) return -1;
  report_begin("measuring", 0);
  const int rc = measure_run(&m->recipes, m->sources, q->of, q->n, &options, out, &m->stats, err);
  report_end();
  if (rc) return rc;
  json_newline(&text); // instead of the head
  measured_write(&text, &m->edits, q->of, q->n, out);
  answer->text = span_of(arena_string(&m->arena, span_of(text.text, text.n)), text.n);
  json_done(&text);
  return 0;
}

static void note_row(void *ctx, const struct matmulnbits_measurement *x) {
  struct measuring *m = ctx;
  const uint32_t i = TABLE_ADD(m, rows, 1);
  int64_t *dims = arena_alloc(&m->arena, x->rank * sizeof *dims + 1);
  if (x->rank) memcpy(dims, x->dims, x->rank * sizeof *dims);
  m->rows[i] = (struct row){.first = x->first,
                            .tensor = arena_string(&m->arena, x->tensor),
                            .dims = dims,
                            .rank = x->rank,
                            .dtype = x->dtype,
                            .source_bytes = x->source_bytes,
                            .scheme = x->scheme,
                            .words = matmulnbits_scheme_text(&x->scheme, &m->arena),
                            .bytes = x->bytes,
                            .figures = x->figures};
}

static void note_site(void *ctx, const struct pass_site *site) {
  struct measuring *m = ctx;
  if (strcmp(site->status, "skipped") != 0) return;
  const char *node = site->node_name.n
                         ? arena_string(&m->arena, site->node_name)
                         : arena_printf(&m->arena, "%s@%u", site->op_type, site->index);
  const uint32_t i = TABLE_ADD(m, skips, 1);
  m->skips[i] = (struct skipped){node, site->reason};
}

static void note_warning(void *ctx, const char *sentence, const char *hint) {
  (void)ctx;
  report_warning("%s", sentence);
  if (hint) report_hint("%s", hint);
}

static int measure(struct measuring *m, struct err *err) {
  struct arena scratch = {0};
  struct pass_env env = {.m = &m->model,
                         .edits = &m->edits,
                         .pass = m->values.pass,
                         .scratch = &scratch,
                         .site = note_site,
                         .site_ctx = m,
                         .warn = note_warning,
                         .ask = ask,
                         .ask_ctx = m};
  const struct matmulnbits_listener listener = {note_row, m};
  const int rc = matmulnbits_measure(&env, m->options, &listener, err);
  arena_free(&scratch);
  return rc;
}

// ---- telling -----------------------------------------------------------------------------------

static bool is_same(const struct row *a, const struct row *b) {
  return strcmp(a->words, b->words) == 0;
}

// All rows of a candidate together; `first` is the first of them.
static struct row total_of(const struct measuring *m, const struct row *first) {
  struct row sum = {.words = first->words, .scheme = first->scheme};
  for (uint32_t i = 0; i < m->n_rows; i++) {
    if (!is_same(&m->rows[i], first)) continue;
    sum.source_bytes += m->rows[i].source_bytes;
    sum.bytes += m->rows[i].bytes;
    sum.figures = figures_join(&sum.figures, &m->rows[i].figures);
  }
  return sum;
}

// The first row of candidate i of the options, or NULL: no weight takes it.
static const struct row *row_of_candidate(const struct measuring *m, uint32_t i) {
  for (uint32_t k = 0; k < m->n_rows; k++)
    if (matmulnbits_scheme_same(&m->rows[k].scheme, &m->options->candidates[i])) return &m->rows[k];
  return NULL;
}

static uint64_t source_bytes(const struct measuring *m, uint32_t *weights) {
  uint64_t sum = 0;
  *weights = 0;
  for (uint32_t i = 0; i < m->n_rows; i++) {
    if (!m->rows[i].first) continue;
    sum += m->rows[i].source_bytes;
    ++*weights;
  }
  return sum;
}

struct widths {
  int name, words;
};

static void print_row(const struct row *r, const char *name, const struct widths *w) {
  char sqnr[32];
  const double db = figures_sqnr_db(&r->figures);
  if (isfinite(db))
    snprintf(sqnr, sizeof sqnr, "%.2f", db);
  else
    snprintf(sqnr, sizeof sqnr, "%s", isnan(db) ? "nan" : "exact");
  printf("%-*s  %-*s %7s  %.6f  %9.3g  %9.3g  %12lu\n", w->name, name, w->words, r->words, sqnr,
         figures_cosine(&r->figures), r->figures.max_error, figures_rmse(&r->figures), r->bytes);
}

// Each reason with how many and the first by name. Reason words are constants of the pass, a few.
static void print_skipped(const struct measuring *m) {
  uint32_t first[PASS_JOB_REASONS], count[PASS_JOB_REASONS] = {0}, n = 0;
  for (uint32_t i = 0; i < m->n_skips; i++) {
    uint32_t k = 0;
    while (k < n && strcmp(m->skips[first[k]].reason, m->skips[i].reason) != 0)
      k++;
    if (k == PASS_JOB_REASONS) continue;
    if (k == n) first[n++] = i;
    count[k]++;
  }
  for (uint32_t k = 0; k < n; k++)
    printf("not measured: %u x %s (such as %s)\n", count[k], m->skips[first[k]].reason,
           quote_str(m->skips[first[k]].node).s);
}

static struct widths widths_of(const struct measuring *m) {
  struct widths w = {.name = 6, .words = 12};
  for (uint32_t i = 0; i < m->n_rows; i++) {
    const int name = (int)strlen(quote_str(m->rows[i].tensor).s);
    const int words = (int)strlen(m->rows[i].words);
    if (name > w.name) w.name = name;
    if (words > w.words) w.words = words;
  }
  return w;
}

static void print_table(const struct measuring *m) {
  const struct widths w = widths_of(m);
  printf("%-*s  %-*s %7s  %8s  %9s  %9s  %12s\n", w.name, "weight", w.words, "candidate", "SQNR dB",
         "cosine", "max error", "RMSE", "bytes");
  for (uint32_t i = 0; i < m->n_rows && report_stdout_alive(); i++) {
    print_row(&m->rows[i], m->rows[i].first ? quote_str(m->rows[i].tensor).s : "", &w);
  }
  const char *all = "all";
  for (uint32_t i = 0; i < m->options->n_candidates; i++) {
    const struct row *first = row_of_candidate(m, i);
    if (!first) continue;
    const struct row sum = total_of(m, first);
    print_row(&sum, all, &w);
    all = "";
  }
  if (cli_flag(m->args, OPT_QUIET)) return;
  print_skipped(m);
  uint32_t weights;
  const uint64_t bytes = source_bytes(m, &weights);
  printf("%u weights, %s; %s read\n", weights, report_size(bytes).s,
         report_size(m->stats.source_bytes_read).s);
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

static void print_csv(const struct measuring *m) {
  puts("weight,candidate,bits,block_size,symmetric,algorithm,elements,nonfinite,sqnr_db,cosine,max_"
       "abs_error,"
       "rmse,"
       "source_bytes,bytes");
  for (uint32_t i = 0; i < m->n_rows && report_stdout_alive(); i++) {
    const struct row *r = &m->rows[i];
    csv_text(r->tensor);
    printf(",%s,%u,", r->words, r->scheme.bits);
    if (r->scheme.block)
      printf("%u", r->scheme.block);
    else
      fputs("channel", stdout);
    printf(",%s,%s,%lu,%lu,%.17g,%.17g,%.9g,%.17g,%lu,%lu\n",
           r->scheme.symmetric ? "true" : "false", matmulnbits_algorithm_name(r->scheme.algorithm),
           r->figures.elements, r->figures.nonfinite, figures_sqnr_db(&r->figures),
           figures_cosine(&r->figures), r->figures.max_error, figures_rmse(&r->figures),
           r->source_bytes, r->bytes);
  }
}

static void put_candidate(struct json_out *j, const struct row *r) {
  json_object(j);
  json_put_text(j, "algorithm", matmulnbits_algorithm_name(r->scheme.algorithm));
  json_put_uint(j, "bits", r->scheme.bits);
  json_key(j, "block_size");
  if (r->scheme.block)
    json_uint(j, r->scheme.block);
  else
    json_text(j, "channel");
  json_put_uint(j, "bytes", r->bytes);
  json_put_text(j, "candidate", r->words);
  json_put_double(j, "cosine", figures_cosine(&r->figures));
  json_put_double(j, "max_abs_error", r->figures.max_error);
  json_put_uint(j, "nonfinite", r->figures.nonfinite);
  json_put_double(j, "rmse", figures_rmse(&r->figures));
  json_put_double(j, "sqnr_db", figures_sqnr_db(&r->figures));
  json_put_double(j, "sum_ee", r->figures.ee);
  json_put_double(j, "sum_ve", r->figures.ve);
  json_put_double(j, "sum_vv", r->figures.vv);
  json_put_bool(j, "symmetric", r->scheme.symmetric);
  json_end_object(j);
}

// How many rows.
static uint32_t put_weight(const struct measuring *m, struct json_out *j, uint32_t first) {
  const struct row *r = &m->rows[first];
  uint32_t n = 0;
  json_object(j);
  json_put_uint(j, "bytes", r->source_bytes);
  json_put_array(j, "candidates");
  do
    put_candidate(j, &m->rows[first + n++]);
  while (first + n < m->n_rows && !m->rows[first + n].first);
  json_end_array(j);
  json_put_ints(j, "dims", r->dims, r->rank);
  json_put_text(j, "dtype", dtype_name(r->dtype));
  json_put_text(j, "name", r->tensor);
  json_end_object(j);
  return n;
}

static void print_json(const struct measuring *m) {
  struct json_out j = {.indent = 2};
  json_object(&j);
  json_put_array(&j, "not_measured");
  for (uint32_t i = 0; i < m->n_skips; i++) {
    json_object(&j);
    json_put_text(&j, "node", m->skips[i].node);
    json_put_text(&j, "reason", m->skips[i].reason);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_put_uint(&j, "source_bytes_read", m->stats.source_bytes_read);
  json_put_array(&j, "totals");
  for (uint32_t i = 0; i < m->options->n_candidates; i++) {
    const struct row *first = row_of_candidate(m, i);
    if (!first) continue;
    const struct row sum = total_of(m, first);
    put_candidate(&j, &sum);
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

static int load(struct measuring *m, struct err *err) {
  const struct sources_options opening = {.allow_links = cli_flag(m->args, OPT_ALLOW_LINKS)};
  const struct load_options loading = {0};
  if (sources_open(&m->sources, cli_operand(m->args, "IN"), &opening, err)) return -1;
  return load_model(&m->model, m->sources, &loading, err);
}

// Candidates without a budget are what this command is for: what the pass has against them does not
// count.
static int read_options(struct measuring *m, struct err *err) {
  if (cli_pass_values(m->args, &m->values, &m->arena, err)) return -1;
  const uint32_t candidates = pass_values_option(m->values.pass, span_str("candidates"));
  m->values.of[candidates].given = false;
  const int rc = pass_values_read(&m->values, &m->arena, err);
  m->options = m->values.options;
  return rc;
}

int cmd_measure(const struct cli_args *args, struct err *err) {
  struct measuring m = {.args = args};
  model_init(&m.model);
  recipes_init(&m.recipes);
  edits_init(&m.edits, &m.model, &m.recipes);
  int rc = read_options(&m, err);
  if (rc == 0) rc = load(&m, err);
  if (rc == 0) rc = measure(&m, err);
  if (rc == 0) {
    if (cli_flag(args, OPT_JSON))
      print_json(&m);
    else if (cli_flag(args, OPT_CSV))
      print_csv(&m);
    else
      print_table(&m);
  }
  pass_values_done(&m.values);
  TABLE_FREE(&m, rows);
  TABLE_FREE(&m, skips);
  edits_free(&m.edits);
  recipes_free(&m.recipes);
  model_free(&m.model);
  if (m.sources) sources_close(m.sources);
  arena_free(&m.arena);
  return rc;
}
