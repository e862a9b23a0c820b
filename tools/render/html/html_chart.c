// A line has at most so many points as there are to see: of more values, the least and the largest of each stretch are
// drawn, so that no outlier gets lost.
#include "render/html/html_chart.h"

#include <math.h>

enum { WIDTH = 520, HEIGHT = 240, LEFT = 80, RIGHT = 10, TOP = 12, BOTTOM = 42, STRETCHES = 200 };

struct frame {
  const struct html_lines *chart;
  double low, high, step; // of y, on the chart's scale
  uint32_t longest;
};

static double scaled(const struct html_lines *c, double y) {
  if (!c->logarithmic) return isfinite(y) ? y : (double)NAN;
  return y > 0 && isfinite(y) ? log10(y) : (double)NAN;
}

static double x_of(const struct frame *f, const struct html_series *s, uint32_t i) {
  const uint32_t n = f->chart->stretched ? s->n : f->longest;
  return (double)LEFT + (double)(WIDTH - LEFT - RIGHT) * (n > 1 ? (double)i / (n - 1) : 0.5);
}

static double y_of(const struct frame *f, double y) {
  return (double)TOP + (double)(HEIGHT - TOP - BOTTOM) * (f->high - y) / (f->high - f->low);
}

// 1, 2 or 5 times a power of ten, so that at most six fit.
static double step_of(const struct frame *f) {
  const double rough = (f->high - f->low) / 5, tens = pow(10, floor(log10(rough)));
  if (f->chart->logarithmic) return fmax(1, ceil(rough));
  return rough <= tens       ? tens
         : rough <= 2 * tens ? 2 * tens
         : rough <= 5 * tens ? 5 * tens
                             : 10 * tens;
}

static bool find_range(struct frame *f) {
  const struct html_lines *c = f->chart;
  f->low = INFINITY;
  f->high = -INFINITY;
  for (uint32_t k = 0; k < c->n_series; k++) {
    f->longest = c->series[k].n > f->longest ? c->series[k].n : f->longest;
    for (uint32_t i = 0; i < c->series[k].n; i++) {
      const double y = scaled(c, c->series[k].y[i]);
      if (isnan(y)) continue;
      f->low = fmin(f->low, y);
      f->high = fmax(f->high, y);
    }
    if (c->series[k].usual > 0 && c->series[k].n) {
      f->low = fmin(f->low, c->series[k].usual);
      f->high = fmax(f->high, c->series[k].usual);
    }
  }
  if (f->low > f->high) return false;
  const bool one_height = f->high - f->low < 1e-9 * fmax(1, fabs(f->high));
  const double more = (one_height ? fmax(2, c->least) : c->least) - (f->high - f->low);
  if (more > 0) {
    f->low -= more / 2;
    f->high += more / 2;
  }
  f->step = step_of(f);
  f->low = floor(f->low / f->step) * f->step;
  f->high = ceil(f->high / f->step) * f->step;
  return true;
}

static void put_axes(struct html_out *o, const struct frame *f) {
  const double step = f->step;
  html_raw(o, "<g class=\"axes\">\n");
  for (uint32_t i = 0; f->low + i * step <= f->high + step / 2; i++) {
    const double y = f->low + i * step, at = y_of(f, y);
    html_put(o, "<line x1=\"%u\" x2=\"%u\" y1=\"%.1f\" y2=\"%.1f\"/>", (unsigned)LEFT,
             (unsigned)(WIDTH - RIGHT), at, at);
    html_put(o, "<text x=\"%u\" y=\"%.1f\" text-anchor=\"end\">", (unsigned)(LEFT - 8), at + 4);
    if (f->chart->logarithmic)
      html_put(o, "1e%.0f</text>\n", y);
    else
      html_put(o, "%.4g</text>\n", fabs(y) < step / 1e6 ? 0 : y);
  }
  html_put(o, "<text x=\"%u\" y=\"%u\" text-anchor=\"middle\">%s</text>",
           (unsigned)(LEFT + (WIDTH - LEFT - RIGHT) / 2), (unsigned)(HEIGHT - 10), f->chart->x);
  html_put(
      o, "<text transform=\"translate(14 %u) rotate(-90)\" text-anchor=\"middle\">%s</text></g>\n",
      (unsigned)(TOP + (HEIGHT - TOP - BOTTOM) / 2), f->chart->y);
}

static void put_point(struct html_out *o, const struct frame *f, const struct html_series *s,
                      uint32_t i, bool *pen) {
  html_put(o, *pen ? " %.1f %.1f" : "M%.1f %.1f", x_of(f, s, i),
           y_of(f, scaled(f->chart, s->y[i])));
  if (f->chart->dots) html_raw(o, "h0"); // a line of no length, whose ends are round
  *pen = !f->chart->dots;
}

// The places of the least and the largest in a stretch; false where there is no point.
static bool extremes(const struct frame *f, const struct html_series *s, uint32_t from, uint32_t to,
                     uint32_t at[2]) {
  bool any = false;
  for (uint32_t i = from; i < to; i++) {
    const double y = scaled(f->chart, s->y[i]);
    if (isnan(y)) continue;
    if (!any || y < scaled(f->chart, s->y[at[0]])) at[0] = i;
    if (!any || y > scaled(f->chart, s->y[at[1]])) at[1] = i;
    any = true;
  }
  return any;
}

static void put_line(struct html_out *o, const struct frame *f, uint32_t k) {
  const struct html_series *s = &f->chart->series[k];
  const uint32_t stretches = s->n < STRETCHES ? s->n : STRETCHES;
  bool pen = false, any = false;
  uint32_t at[2] = {0, 0}, only = 0, points = 0;
  html_put(o, f->chart->dots ? "<path class=\"dots c%u\" d=\"" : "<path class=\"line c%u\" d=\"",
           k);
  for (uint32_t i = 0; i < stretches; i++) {
    const uint32_t from = (uint32_t)((uint64_t)i * s->n / stretches);
    const uint32_t to = (uint32_t)((uint64_t)(i + 1) * s->n / stretches);
    if (!extremes(f, s, from, to, at)) {
      pen = false;
      continue;
    }
    const bool down = at[1] < at[0];
    put_point(o, f, s, at[down], &pen);
    if (at[0] != at[1]) put_point(o, f, s, at[!down], &pen);
    any = true;
    only = at[0];
    points++;
  }
  html_raw(o, "\"/>\n");
  if (any && points < 2 && !f->chart->dots)
    html_put(o, "<circle class=\"dot c%u\" r=\"4\" cx=\"%.1f\" cy=\"%.1f\"/>\n", k,
             x_of(f, s, only), y_of(f, scaled(f->chart, s->y[only])));
  if (s->usual > 0)
    html_put(o, "<line class=\"usual c%u\" x1=\"%u\" x2=\"%u\" y1=\"%.1f\" y2=\"%.1f\"/>\n", k,
             (unsigned)LEFT, (unsigned)(WIDTH - RIGHT), y_of(f, s->usual), y_of(f, s->usual));
}

void html_lines(struct html_out *o, const struct html_lines *chart) {
  struct frame f = {.chart = chart};
  if (!find_range(&f)) return;
  html_put(o,
           "<figure><figcaption>%s</figcaption>\n<svg class=\"lines\" viewBox=\"0 0 %u %u\" "
           "role=\"img\" aria-label=\"%s\">\n",
           chart->title, (unsigned)WIDTH, (unsigned)HEIGHT, chart->title);
  put_axes(o, &f);
  for (uint32_t k = 0; k < chart->n_series; k++)
    put_line(o, &f, k);
  html_raw(o, "</svg>\n");
  bool usual = false;
  html_raw(o, "<ul class=\"legend\">");
  for (uint32_t k = 0; k < chart->n_series; k++) {
    html_put(o,
             "<li><svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect "
             "class=\"c%u\" width=\"10\" height=\"10\" rx=\"2\"/></svg> %s</li>",
             k, chart->series[k].name);
    usual = usual || chart->series[k].usual > 0;
  }
  if (usual) html_raw(o, "<li class=\"note\">dashed: the usual value</li>");
  html_raw(o, "</ul></figure>\n");
}

void html_before_after(struct html_out *o, double before, double after) {
  html_put(o,
           "<svg class=\"bars\" viewBox=\"0 0 200 18\" preserveAspectRatio=\"none\" "
           "aria-hidden=\"true\"><rect class=\"before\" y=\"1\" height=\"7\" width=\"%.2f\"/><rect "
           "class=\"after\" y=\"10\" height=\"7\" width=\"%.2f\"/></svg>",
           200 * before, 200 * after);
}

void html_stack(struct html_out *o, const char *title, const struct html_share *shares,
                uint32_t n) {
  double at = 0;
  html_put(o,
           "<svg class=\"stack\" viewBox=\"0 0 1000 28\" preserveAspectRatio=\"none\" role=\"img\" "
           "aria-label=\"%s\">",
           title);
  for (uint32_t i = 0; i < n; i++) {
    html_put(o,
             "<rect class=\"c%u\" x=\"%.2f\" width=\"%.2f\" height=\"28\"><title>%s: %.1f "
             "%%</title></rect>",
             shares[i].colour, 1000 * at, 1000 * shares[i].share, shares[i].name,
             100 * shares[i].share);
    at += shares[i].share;
  }
  html_raw(o, "</svg>\n");
}
