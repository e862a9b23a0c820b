// Candidates for quantizing weights: for people a table of the worst layers and a total for each candidate, for programs all
// weights as JSON or CSV. Numbers in JSON and CSV read back exactly.
#include "render/models/render_candidates.h"

#include "cli/report.h"
#include "platform/machine.h"
#include "render/runs/render_passes.h"
#include "render/runs/render_rank.h"

#include <stdio.h>

enum { WORST_SHOWN = 10 };

struct widths {
  int name, words;
};

static int max_int(int a, int b) {
  return a > b ? a : b;
}

static void print_row(const struct candidates_row *r, const char *name, const struct widths *w) {
  char sqnr[16];
  printf("%-*s  %-*s %7s  %.6f  %9.3g  %9.3g  %12s\n", w->name, name, w->words, r->words,
         render_rank_db(figures_sqnr_db(&r->x.figures), true, sqnr), figures_cosine(&r->x.figures),
         r->x.figures.max_error, figures_rmse(&r->x.figures), decimal(r->x.bytes).s);
}

void render_candidates_text(struct candidates *c, bool every, bool quiet) {
  struct candidates_weight *list;
  const uint32_t weights = candidates_weights(c, !every, &list);
  const bool all = every || weights <= WORST_SHOWN;
  const uint32_t shown = all ? weights : WORST_SHOWN;
  struct widths w = {.name = 6, .words = 12};
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < weights; i++)
    bytes += c->rows[list[i].first].x.source_bytes;
  for (uint32_t i = 0; i < shown; i++)
    w.name = max_int(w.name, (int)strlen(quote_str(c->rows[list[i].first].layer).s));
  for (uint32_t i = 0; i < c->n_rows; i++)
    w.words = max_int(w.words, (int)strlen(c->rows[i].words));
  printf("%-*s  %-*s %7s  %8s  %9s  %9s  %12s\n", w.name, "layer", w.words, "candidate", "SQNR dB",
         "cosine", "max error", "RMSE", "bytes");
  for (uint32_t i = 0; i < shown && report_stdout_alive(); i++)
    for (uint32_t k = 0; k < list[i].n; k++) {
      const struct candidates_row *r = &c->rows[list[i].first + k];
      print_row(r, k ? "" : quote_str(r->layer).s, &w);
    }
  const char *name = "all";
  for (uint32_t i = 0; i < c->options->n_candidates; i++) {
    struct candidates_row sum;
    if (!candidates_total(c, i, &sum)) continue;
    print_row(&sum, name, &w);
    name = "";
  }
  if (quiet) return;
  if (!all) printf("the %u worst of %u weights; --all lists them all\n", shown, weights);
  const char *kept = render_passes_kept(&c->pj.found, 0, &c->exec.arena);
  if (kept) printf("not measured: %s\n", kept);
  printf("%u weight%s, %s in %s, %s of memory\n", weights, plural(weights), quote_bytes(bytes).s,
         quote_seconds(machine_clock() - c->exec.began).s, quote_memory(machine_peak_memory()).s);
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

void render_candidates_csv(const struct candidates *c) {
  puts("weight,candidate,bits,block_size,symmetric,algorithm,elements,nonfinite,sqnr_db,cosine,max_"
       "abs_error,rmse,source_bytes,bytes,layer");
  for (uint32_t i = 0; i < c->n_rows && report_stdout_alive(); i++) {
    const struct candidates_row *r = &c->rows[i];
    csv_text((const char *)r->x.tensor.at);
    printf(",%s,%u,", r->words, r->x.scheme.bits);
    if (r->x.scheme.block)
      printf("%u", r->x.scheme.block);
    else
      fputs("channel", stdout);
    printf(",%s,%s,%s,%s,%.17g,%.17g,%.9g,%.17g,%s,%s,", r->x.scheme.symmetric ? "true" : "false",
           matmulnbits_algorithm_name(r->x.scheme.algorithm), decimal(r->x.figures.elements).s,
           decimal(r->x.figures.nonfinite).s, figures_sqnr_db(&r->x.figures),
           figures_cosine(&r->x.figures), r->x.figures.max_error, figures_rmse(&r->x.figures),
           decimal(r->x.source_bytes).s, decimal(r->x.bytes).s);
    csv_text(r->layer);
    putchar('\n');
  }
}

static void put_candidate(struct json_out *j, const struct candidates_row *r) {
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
static uint32_t put_weight(const struct candidates *c, struct json_out *j, uint32_t first) {
  const struct candidates_row *r = &c->rows[first];
  uint32_t n = 0;
  json_object(j);
  json_put_uint(j, "bytes", r->x.source_bytes);
  json_put_array(j, "candidates");
  do
    put_candidate(j, &c->rows[first + n++]);
  while (first + n < c->n_rows && !c->rows[first + n].x.first);
  json_end_array(j);
  json_put_ints(j, "dims", r->x.dims, r->x.rank);
  json_put_text(j, "dtype", dtype_name(r->x.dtype));
  json_put_text(j, "layer", r->layer);
  json_put_string(j, "name", r->x.tensor);
  json_end_object(j);
  return n;
}

void render_candidates_json(const struct candidates *c) {
  struct json_out j = report_json_open(2);
  json_put_array(&j, "not_measured");
  for (uint32_t i = 0; i < c->pj.found.n_sites; i++) {
    if (run_site_converted(&c->pj.found.sites[i])) continue;
    json_object(&j);
    json_put_text(&j, "node", c->pj.found.sites[i].name);
    json_put_text(&j, "reason", c->pj.found.sites[i].reason);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_put_uint(&j, "source_bytes_read", c->source_bytes_read);
  json_put_array(&j, "totals");
  for (uint32_t i = 0; i < c->options->n_candidates; i++) {
    struct candidates_row sum;
    if (candidates_total(c, i, &sum)) put_candidate(&j, &sum);
  }
  json_end_array(&j);
  json_put_array(&j, "weights");
  for (uint32_t i = 0; i < c->n_rows && report_stdout_alive();) {
    i += put_weight(c, &j, i);
    json_flush(&j);
  }
  json_end_array(&j);
  report_json_end(&j);
}
