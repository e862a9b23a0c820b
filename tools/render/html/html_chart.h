// Charts as SVG: lines or dots over ranks or places, and bars. Sizes are numbers of their own; page.css scales and colours them.
#ifndef WEIR_HTML_CHART_H
#define WEIR_HTML_CHART_H

#include "render/html/html_out.h"

struct html_series {
  const char *name;
  const double *y; // what is not finite has no point
  uint32_t n;
  double usual; // a dashed line at this height; 0: none
};

enum { HTML_SERIES_MAX = 6 };
// dB that the height of a chart stands for at least: a bit, below which nothing is of note.
enum { HTML_DB_LEAST = 6 };

struct html_lines {
  const char *title; // what it shows, for who cannot see it too
  const char *x, *y; // words at the axes
  bool logarithmic;  // values above 0; others have no point
  bool stretched;    // every series takes the whole width (ranks of its own); else x is a place
  bool dots;         // without lines between them: neighbours have nothing to do with each other
  double least; // so much the height of the chart stands for at least; 0: as little as there is
  const struct html_series *series;
  uint32_t n_series;
};
// Nothing where there is no point.
void html_lines(struct html_out *o, const struct html_lines *chart);

// Two bars, one under the other, as long as these shares of the width.
void html_before_after(struct html_out *o, double before, double after);

struct html_share {
  uint32_t colour; // 0 to 7
  double share;    // of all
  const char *name;
};
void html_stack(struct html_out *o, const char *title, const struct html_share *shares, uint32_t n);

#endif
