// What was run on both sides, and how far the two were apart. Rows that failed come first, then those that were not
// looked at, then those that differ most: nobody has to search for them. What becomes of the outputs stands on top.
#include "render/html/html_chart.h"
#include "render/html/html_parts.h"
#include "render/html/html_table.h"
#include "report/verified.h"

#include <math.h>
#include <stdlib.h>

enum {
  V_NAME,
  V_END,
  V_WHY,
  V_OF,
  V_BOUNDS,
  V_MAX,
  V_MEAN,
  V_P99,
  V_COSINE,
  V_SQNR,
  V_TOP1,
  V_COLUMNS
};

static const struct html_column columns[V_COLUMNS] = {
    [V_NAME] = {"What was compared", HTML_NAME, "A site of the change, or an output of the model"},
    [V_OF] = {"Of", HTML_NAME, "Passes and rules of the site, or the test case"},
    [V_END] = {"Result", HTML_STATE, NULL},
    [V_BOUNDS] = {"Asked for", HTML_NAME, "The required bounds"},
    [V_MAX] = {"Max abs", HTML_SHORT, "The largest difference of an element"},
    [V_MEAN] = {"Mean abs", HTML_SHORT, "The mean difference"},
    [V_P99] = {"p99", HTML_SHORT, "99 % of the differences are at most this large"},
    [V_COSINE] = {"Cosine", HTML_SIX, "Cosine of the angle between both; 1: the same direction"},
    [V_SQNR] = {"SQNR, dB", HTML_ONE, "Signal to noise; infinite where nothing differs"},
    [V_TOP1] = {"Top-1", HTML_SIX, "Share of rows whose largest element is at the same index"},
    [V_WHY] = {"Why", HTML_NAME, "Why it failed or was not verified"},
};

struct rows {
  const struct verified *v;
  const uint32_t *order;
  const char **why; // by row, with the group at fault
};

static struct span text_of(const char *s) {
  return s ? span_str(s) : span_of(NULL, 0);
}

static struct html_cell number(const struct compare_figures *f, double x) {
  return (struct html_cell){.number = x, .unknown = f->count == 0};
}

static void put_figures(const struct compare_figures *f, struct html_cell *cells) {
  cells[0] = number(f, f->max_abs);
  cells[1] = number(f, f->mean_abs);
  cells[2] = number(f, f->p99_abs);
  cells[3] = number(f, f->cosine);
  cells[4] = number(f, f->sqnr_db);
  cells[5] = number(f, f->top1);
  cells[5].unknown = cells[5].unknown || !f->has_top1;
}

static void put_row(const void *ctx, uint32_t i, struct html_cell *cells) {
  const struct rows *rows = ctx;
  const struct verified_row *row = &rows->v->rows[rows->order[i]];
  cells[V_NAME].text = text_of(row->name);
  cells[V_OF].text = text_of(row->of);
  cells[V_END].text = text_of(verified_word(row));
  cells[V_BOUNDS].text = text_of(row->bounds);
  put_figures(&row->figures, &cells[V_MAX]);
  if (row->case_rows) {
    cells[V_TOP1].unknown = false;
    cells[V_TOP1].number = 1 - (double)row->case_changed / (double)row->case_rows;
  }
  cells[V_WHY].text = text_of(rows->why[rows->order[i]]);
}

// ---- in order ----------------------------------------------------------------------------------

// The less, the earlier: failed, not looked at, not judged, passed.
static const uint8_t turns[] = {
    [VERIFIED_FAILED] = 0, [VERIFIED_NOT] = 1, [VERIFIED_UNJUDGED] = 2, [VERIFIED_PASSED] = 3};

struct ranked {
  uint8_t turn;
  double db; // an error that is no number is worse than any; a row without figures comes last
  const char *name;
  uint32_t row;
};

static struct ranked rank_of(const struct verified *v, uint32_t i) {
  const struct verified_row *row = &v->rows[i];
  const double db = row->figures.count ? row->figures.sqnr_db : (double)INFINITY;
  return (struct ranked){turns[row->end], isnan(db) ? -(double)INFINITY : db, row->name, i};
}

static int by_rank(const void *pa, const void *pb) {
  const struct ranked *a = pa, *b = pb;
  if (a->turn != b->turn) return a->turn < b->turn ? -1 : 1;
  if (a->db != b->db) return a->db < b->db ? -1 : 1;
  return a->row < b->row ? -1 : a->row > b->row;
}

static int by_name(const void *pa, const void *pb) {
  const int names = strcmp(((const struct ranked *)pa)->name, ((const struct ranked *)pb)->name);
  return names ? names : by_rank(pa, pb);
}

static const uint32_t *order_of(const struct verified *v, struct arena *a) {
  struct ranked *ranked = arena_alloc(a, v->n_rows * sizeof *ranked + 1);
  uint32_t *order = arena_alloc(a, v->n_rows * sizeof *order + 1);
  for (uint32_t i = 0; i < v->n_rows; i++)
    ranked[i] = rank_of(v, i);
  qsort(ranked, v->n_rows, sizeof *ranked, by_rank);
  for (uint32_t i = 0; i < v->n_rows; i++)
    order[i] = ranked[i].row;
  return order;
}

// Of each output of whole models its worst case, those first that differ most.
static struct ranked *worst_cases(const struct verified *v, uint32_t *n, struct arena *a) {
  struct ranked *ranked = arena_alloc(a, v->n_rows * sizeof *ranked + 1);
  uint32_t all = 0;
  for (uint32_t i = 0; i < v->n_rows; i++)
    if (v->rows[i].output) ranked[all++] = rank_of(v, i);
  qsort(ranked, all, sizeof *ranked, by_name);
  *n = 0;
  for (uint32_t i = 0; i < all; i++)
    if (*n == 0 || strcmp(ranked[*n - 1].name, ranked[i].name) != 0) ranked[(*n)++] = ranked[i];
  qsort(ranked, *n, sizeof *ranked, by_rank);
  return ranked;
}

static const char **reasons_of(const struct verified *v, struct arena *a) {
  const char **why = arena_zalloc(a, v->n_rows * sizeof *why + 1);
  for (uint32_t i = 0; i < v->n_rows; i++) {
    const struct verified_row *row = &v->rows[i];
    why[i] = row->why;
    if (row->fault)
      why[i] = arena_printf(a, "%s; at fault: %s", row->why ? row->why : "failed", row->fault);
  }
  return why;
}

struct html_verdict html_verdict(const struct verified *v) {
  if (!v) return (struct html_verdict){"not verified", "plain"};
  if (v->n_failed || v->rest.differs) return (struct html_verdict){"verification failed", "bad"};
  const struct verified_shown s = verified_shown(v);
  if (verified_all(v) == 0)
    return v->n_left ? (struct html_verdict){"nothing was verified", "warn"}
                     : (struct html_verdict){"nothing to verify", "plain"};
  if (v->n_passed == 0 && v->n_unjudged)
    return (struct html_verdict){v->n_not ? "not judged, partly not verified" : "not judged",
                                 v->n_not ? "warn" : "plain"};
  if (v->n_passed == 0) return (struct html_verdict){"nothing could be verified", "bad"};
  if (v->n_not || v->n_left) return (struct html_verdict){"partly verified", "warn"};
  if (s.as_computed) return (struct html_verdict){"as computed; accuracy not measured", "plain"};
  if (v->n_unjudged) return (struct html_verdict){"partly judged", "plain"};
  if (s.on_drawn) return (struct html_verdict){"within bounds on drawn inputs", "plain"};
  if (v->products_unseen) return (struct html_verdict){"verified without optimizations", "plain"};
  return (struct html_verdict){"verified", "good"};
}

// ---- outputs ------------------------------------------------------------------------------------

enum { OUTPUTS_SHOWN = 10 };

static void put_output_figure(struct html_out *o, const struct compare_figures *f, double x,
                              enum html_form form) {
  html_put(o, "<td class=\"number\">%s</td>",
           f->count ? html_words(html_number(x), form).s : "\xe2\x80\x93");
}

// The row that tells of top-1 in all cases of the output; NULL: none does.
static const struct verified_row *top1_of(const struct verified *v,
                                          const struct verified_row *row) {
  for (uint32_t i = 0; i < v->n_rows; i++)
    if (v->rows[i].top1_rows && strcmp(v->rows[i].name, row->name) == 0) return &v->rows[i];
  return NULL;
}

static void put_output(struct html_out *o, const struct verified *v,
                       const struct verified_row *row) {
  const struct verified_row *top1 = top1_of(v, row);
  const struct compare_figures *f = &row->figures;
  const char *style = row->end == VERIFIED_FAILED ? "bad" : row->end == VERIFIED_NOT ? "warn" : "";
  html_put(o, "<tr><th scope=\"row\"><bdi>%s</bdi></th><td class=\"%s\">%s</td>", row->name, style,
           verified_word(row));
  put_output_figure(o, f, f->sqnr_db, HTML_ONE);
  put_output_figure(o, f, f->cosine, HTML_SIX);
  put_output_figure(o, f, f->relative, HTML_SHORT);
  if (top1)
    html_put(o, "<td class=\"number\">%.1f %%%s</td>", 100 * top1->figures.top1,
             verified_ties(top1->top1_ties).s);
  else
    html_raw(o, "<td class=\"number\">\xe2\x80\x93</td>");
  html_put(o, "<td><bdi>%s</bdi></td></tr>\n", row->of ? row->of : "");
}

void html_outputs(struct html_out *o, const struct verified *v) {
  struct arena a = {0};
  uint32_t n = 0;
  const struct ranked *worst = v ? worst_cases(v, &n, &a) : NULL;
  bool drawn = false;
  for (uint32_t i = 0; i < n; i++)
    drawn = drawn || v->rows[worst[i].row].drawn;
  if (n) {
    html_put(
        o,
        "<section id=\"outputs\"><h2>Outputs</h2>\n<p>Differences from the outputs of the "
        "source, on %s.</p>\n<div class=\"scroll\"><table>\n<caption>Outputs, each in the case "
        "where it differs most</caption>\n<thead><tr><th scope=\"col\">Output</th>",
        drawn ? "random inputs that fit the model, which show little about its accuracy"
              : "the given inputs");
    html_raw(o, "<th scope=\"col\">Result</th><th scope=\"col\" class=\"number\">SQNR, dB</th>"
                "<th scope=\"col\" class=\"number\">Cosine</th><th scope=\"col\" "
                "class=\"number\">Relative</th><th scope=\"col\" class=\"number\">Top-1</th>"
                "<th scope=\"col\">Case</th></tr></thead>\n<tbody>\n");
  }
  for (uint32_t i = 0; i < n && i < OUTPUTS_SHOWN; i++)
    put_output(o, v, &v->rows[worst[i].row]);
  if (n) html_raw(o, "</tbody></table></div>\n");
  if (n > OUTPUTS_SHOWN)
    html_put(o, "<p class=\"note\">And %u more: see the table below.</p>\n", n - OUTPUTS_SHOWN);
  if (n) html_raw(o, "</section>\n");
  arena_free(&a);
}

// ---- layers ------------------------------------------------------------------------------------

enum { L_PLACE, L_NODE, L_VALUE, L_MAX, L_MEAN, L_P99, L_COSINE, L_SQNR, L_TOP1, L_COLUMNS };

static const struct html_column layer_columns[L_COLUMNS] = {
    [L_PLACE] = {"Place", HTML_COUNT, "In the order of the graph"},
    [L_NODE] = {"Node", HTML_NAME, NULL},
    [L_VALUE] = {"Value", HTML_NAME, "The tensor that was compared"},
    [L_MAX] = {"Max abs", HTML_SHORT, "The largest difference of an element"},
    [L_MEAN] = {"Mean abs", HTML_SHORT, "The mean difference"},
    [L_P99] = {"p99", HTML_SHORT, "99 % of the differences are at most this large"},
    [L_COSINE] = {"Cosine", HTML_SIX, NULL},
    [L_SQNR] = {"SQNR, dB", HTML_ONE, NULL},
    [L_TOP1] = {"Top-1", HTML_SIX, NULL},
};

static void put_layer(const void *ctx, uint32_t i, struct html_cell *cells) {
  const struct verified *v = ctx;
  const struct verified_layer *layer = &v->layers[i];
  cells[L_PLACE].number = i + 1;
  cells[L_NODE].text = text_of(layer->node);
  cells[L_VALUE].text = text_of(layer->value);
  put_figures(&layer->figures, &cells[L_MAX]);
}

static void put_layers(struct html_out *o, const struct verified *v, struct arena *a) {
  double *db = arena_alloc(a, v->n_layers * sizeof *db + 1);
  double *most = arena_alloc(a, v->n_layers * sizeof *most + 1);
  if (v->n_layers == 0) return;
  for (uint32_t i = 0; i < v->n_layers; i++) {
    const struct compare_figures *f = &v->layers[i].figures;
    // What differs by less than numbers of 64 bits can say, next to a mask of -1e38, is the same.
    const bool told = f->count > 0 && f->relative > 1e-16;
    db[i] = told ? f->sqnr_db : (double)NAN;
    most[i] = told ? f->relative : (double)NAN;
  }
  const struct html_series curve = {.name = "SQNR", .y = db, .n = v->n_layers};
  const struct html_series relative = {
      .name = "max abs error / largest value", .y = most, .n = v->n_layers};
  html_raw(o, "<h3>Error layer by layer</h3>\n<p>Values that both models have, in the order of "
              "the graph. Where a curve gets worse, an error is introduced. Values that are the "
              "same in both models have no point.</p>\n<div class=\"charts\">");
  html_lines(o, &(struct html_lines){.title = "SQNR along the graph (higher is better)",
                                     .x = "place in the graph",
                                     .y = "SQNR, dB",
                                     .least = HTML_DB_LEAST,
                                     .series = &curve,
                                     .n_series = 1});
  html_lines(o, &(struct html_lines){.title = "Relative error along the graph (lower is better)",
                                     .x = "place in the graph",
                                     .y = "relative error",
                                     .logarithmic = true,
                                     .series = &relative,
                                     .n_series = 1});
  html_raw(o, "</div>\n");
  html_table(o, &(struct html_table){.id = "layers",
                                     .caption = "Values that both models have",
                                     .columns = layer_columns,
                                     .n_columns = L_COLUMNS,
                                     .n_rows = v->n_layers,
                                     .sorted_by = NO_ID,
                                     .row = put_layer,
                                     .ctx = v});
}

// ---- all of it ---------------------------------------------------------------------------------

void html_verified(struct html_out *o, const struct verified *v) {
  if (!v) return;
  struct arena a = {0};
  const struct rows rows = {v, order_of(v, &a), reasons_of(v, &a)};
  const uint64_t all = verified_all(v);
  const struct verified_shown shown = verified_shown(v);
  const bool sites = v->scope && strcmp(v->scope, "sites") == 0;
  const bool both = v->scope && strcmp(v->scope, "all") == 0;
  html_raw(o, "<section id=\"verification\"><h2>Verification</h2>\n");
  html_put(o, "<p class=\"verdict %s\"><strong>%s</strong>: ", html_verdict(v).style,
           html_verdict(v).word);
  html_put(o, "%s of %s %s passed, %s failed, %s not verified", decimal(v->n_passed).s,
           decimal(all).s, verified_things(v, all), decimal(v->n_failed).s, decimal(v->n_not).s);
  if (all)
    html_put(o, " (%.1f %% verified)", 100.0 * (double)(v->n_passed + v->n_failed) / (double)all);
  if (v->n_unjudged) html_put(o, "; %s not judged: %s", decimal(v->n_unjudged).s, shown.unjudged);
  if (shown.top1)
    html_put(o, "; top-1 changes in %s of %s row%s of %s%s", decimal(shown.top1->top1_changed).s,
             decimal(shown.top1->top1_rows).s, plural(shown.top1->top1_rows), shown.top1->name,
             verified_ties(shown.top1->top1_ties).s);
  if (v->n_left)
    html_put(o, "; %s site%s left out", decimal(v->n_left).s, v->n_left == 1 ? " was" : "s were");
  html_raw(o, ".</p>\n");
  if (shown.as_computed)
    html_raw(o, "<p>Each site computes what its edit describes. The accuracy of the model was "
                "not measured.</p>\n");
  if (v->against)
    html_put(o,
             "<p>Compared with the model after %s, since no runtime has %s, which the source uses. "
             "The changes by %s itself were not verified.</p>\n",
             v->against, v->lacking, v->against);
  if (v->rest.asked)
    html_put(o, "<p>%s%s.</p>\n",
             v->rest.differs ? "No edit explains these differences from the source: the "
                             : "Everything that no edit changes is the same as in the source",
             v->rest.differs ? v->rest.first : "");
  if (shown.cut_off)
    html_put(o,
             "<p>%s of the sites passed with whole sums of int8 products, which ONNX Runtime "
             "cuts off on this processor: it has no VNNI.</p>\n",
             decimal(shown.cut_off).s);
  if (shown.rounded)
    html_put(o,
             "<p>%s of the sites passed with float activations, which an optimized session of "
             "ONNX Runtime rounds to 8 bits.</p>\n",
             decimal(shown.rounded).s);
  if (v->n_rounded)
    html_put(o,
             "<p>An optimized session of ONNX Runtime rounds the activations of %s product%s to 8 "
             "bits (MatMulNBits, accuracy level 4)%s.</p>\n",
             decimal(v->n_rounded).s, plural(v->n_rounded),
             v->kept_floats ? "; weir turned that off for this comparison" : "");
  if (v->products_unseen)
    html_raw(o, "<p>This processor has no VNNI: an optimized session of ONNX Runtime may cut off "
                "sums of int8 products on it. This was not checked "
                "(<code>--runtime-optimized</code> shows that session).</p>\n");
  if (v->half_unseen)
    html_raw(o,
             "<p>This runtime computes 16-bit floats in float32, so overflow was not seen.</p>\n");
  html_put(o, "<p>%s, with the same inputs, in ONNX Runtime %s; the seed of drawn inputs is %s",
           both ? "Each changed site was run before and after the change, and so were both models"
           : sites ? "Each changed site was run before and after the change, as two small models"
                   : "Both models were run",
           v->runtime ? v->runtime : "(version not known)", decimal(v->drawn.seed).s);
  if (v->drawn.sizes) html_put(o, "; %s", v->drawn.sizes);
  html_put(o, ". It took %.1f s; the runtime had %s of memory", v->seconds,
           quote_bytes(v->peak_memory[1]).s);
  if (v->n_helpers) html_put(o, " in %u processes", v->n_helpers + 1);
  html_raw(o, ".</p>\n");
  if (v->n_rows)
    html_table(o, &(struct html_table){
                      .id = "verified",
                      .caption = "All comparisons: failures first, then the largest differences",
                      .columns = columns,
                      .n_columns = V_COLUMNS,
                      .n_rows = v->n_rows,
                      .sorted_by = NO_ID,
                      .row = put_row,
                      .ctx = &rows});
  put_layers(o, v, &a);
  html_raw(o, "</section>\n");
  arena_free(&a);
}
