// A table of any number of rows: the first of them as HTML, which needs no script, and all of them as a block of JSON,
// from which page.js shows those that are in view, sorts and searches.
//
//   <script type="application/json" id="tensors-rows">[
//   0,"encoder.layers.0.","…",12.4,1048576,…          a row: a text is two elements, a number is one
//   17,"1.linear.weight",…                            17 characters as in the row before, then these
//   ]</script>
#ifndef WEIR_HTML_TABLE_H
#define WEIR_HTML_TABLE_H

#include "render/html/html_out.h"

// How a column is written: by html_words, and by `words` of page.js in the same way.
enum html_form {
  HTML_NAME,  // a text of a file's
  HTML_WORD,  // a text of ours
  HTML_STATE, // the same: "failed" and "not verified" stand out
  HTML_COUNT, // whole: "1,048,576"
  HTML_BYTES, // "1.05 MB"
  HTML_ONE,   // a digit behind the point
  HTML_SIX,   // six
  HTML_SHORT, // three digits
};

struct html_column {
  const char *title;
  enum html_form form;
  const char *about; // what it means, in a sentence
};

struct html_cell {
  struct span text;
  double number; // NAN: shown so
  bool unknown;  // a number that there is not
};

enum { HTML_COLUMNS_MAX = 12, HTML_PLAIN_ROWS = 100 };

struct html_table {
  const char *id;      // of the page's elements
  const char *caption; // what its rows are
  const struct html_column *columns;
  uint32_t n_columns;
  uint32_t n_rows;
  uint32_t sorted_by; // the column that `order` is of, upwards; NO_ID: none
  // Of the first rows, for who has no script: HTML_PLAIN_ROWS at least, or all; NULL: as they are.
  const uint32_t *order;
  // Texts live until the next call but one.
  void (*row)(const void *ctx, uint32_t i, struct html_cell *cells);
  const void *ctx;
};

void html_table(struct html_out *o, const struct html_table *t);

// A number as people read it.
struct quoted html_words(double number, enum html_form form);
struct quoted html_whole(uint64_t number); // as HTML_COUNT

#endif
