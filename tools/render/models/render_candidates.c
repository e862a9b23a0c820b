// Candidates for quantizing weights: for people a table of the worst layers and a total for each candidate; all
// weights as CSV, whose numbers read back exactly (JSON: candidates_json.h).
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
