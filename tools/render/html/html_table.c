// Rows come from a function, one at a time, twice: for the rows that are there without a script, and for the block.
// Texts of neighbours are mostly alike, so the block has of each what differs from the row before: of 100 000 tensors
// it stays below 15 MB.
#include "render/html/html_table.h"

#include <math.h>
#include <stdio.h>

static const char *const forms[] = {
    [HTML_NAME] = "name",   [HTML_WORD] = "word", [HTML_STATE] = "state", [HTML_COUNT] = "count",
    [HTML_BYTES] = "bytes", [HTML_ONE] = "one",   [HTML_SIX] = "six",     [HTML_SHORT] = "short",
};

static bool is_text(enum html_form form) {
  return form == HTML_NAME || form == HTML_WORD || form == HTML_STATE;
}

// In groups of three digits, from the right.
struct quoted html_whole(uint64_t x) {
  struct quoted q;
  char digits[24];
  size_t n = 0;
  const char *at = digits;
  for (int left = snprintf(digits, sizeof digits, "%s", decimal(x).s); left > 0; left--) {
    q.s[n++] = *at++;
    if (left % 3 == 1 && left > 1) q.s[n++] = ',';
  }
  q.s[n] = 0;
  return q;
}

struct quoted html_words(double x, enum html_form form) {
  struct quoted q;
  if (isnan(x))
    snprintf(q.s, sizeof q.s, "NaN");
  else if (isinf(x))
    snprintf(q.s, sizeof q.s, x < 0 ? "\xe2\x88\x92\xe2\x88\x9e" : "\xe2\x88\x9e");
  else if (form == HTML_BYTES)
    q = quote_bytes((uint64_t)x);
  else if (form == HTML_COUNT)
    q = html_whole((uint64_t)llround(x));
  else if (form == HTML_ONE)
    snprintf(q.s, sizeof q.s, "%.1f", x);
  else if (form == HTML_SIX)
    snprintf(q.s, sizeof q.s, "%.6f", x);
  else
    snprintf(q.s, sizeof q.s, "%.3g", x);
  return q;
}

static void put_head(struct html_out *o, const struct html_table *t) {
  html_raw(o, "<thead><tr>");
  for (uint32_t c = 0; c < t->n_columns; c++) {
    const struct html_column *column = &t->columns[c];
    html_put(o, "<th scope=\"col\" data-form=\"%s\"", forms[column->form]);
    if (!is_text(column->form)) html_raw(o, " class=\"number\"");
    if (c == t->sorted_by) html_raw(o, " aria-sort=\"ascending\"");
    if (column->about) html_put(o, " title=\"%s\"", column->about);
    html_put(o, ">%s</th>", column->title);
  }
  html_raw(o, "</tr></thead>\n");
}

static const char *state_cell(struct span state) {
  if (span_is(state, "failed") || span_is(state, "differs")) return "<td class=\"bad\">";
  return span_is(state, "not verified") ? "<td class=\"warn\">" : "<td>";
}

static void put_plain_row(struct html_out *o, const struct html_table *t,
                          const struct html_cell *cells) {
  html_raw(o, "<tr>");
  for (uint32_t c = 0; c < t->n_columns; c++) {
    const enum html_form form = t->columns[c].form;
    if (form == HTML_NAME) {
      html_raw(o, "<td class=\"name\"><bdi>");
      html_text(o, cells[c].text);
      html_raw(o, "</bdi></td>");
    } else if (is_text(form)) {
      html_raw(o, form == HTML_STATE ? state_cell(cells[c].text) : "<td>");
      html_text(o, cells[c].text);
      html_raw(o, "</td>");
    } else if (cells[c].unknown) {
      html_raw(o, "<td class=\"number\">\xe2\x80\x93</td>");
    } else {
      html_put(o, "<td class=\"number\">%s</td>", html_words(html_number(cells[c].number), form).s);
    }
  }
  html_raw(o, "</tr>\n");
}

static void put_rows(struct html_out *o, const struct html_table *t) {
  struct html_cell cells[2][HTML_COLUMNS_MAX] = {0};
  html_put(o, "<script type=\"application/json\" id=\"%s-rows\">[", t->id);
  for (uint32_t i = 0; i < t->n_rows; i++) {
    struct html_cell *now = cells[i % 2], *before = cells[(i + 1) % 2];
    memset(now, 0, sizeof cells[0]);
    t->row(t->ctx, i, now);
    html_raw(o, i ? ",\n" : "\n");
    for (uint32_t c = 0; c < t->n_columns; c++) {
      if (c) html_raw(o, ",");
      if (is_text(t->columns[c].form)) {
        const size_t same = html_shared(now[c].text, before[c].text);
        html_put(o, "%s,", decimal(same).s);
        html_json(o, now[c].text, same);
      } else if (now[c].unknown) {
        html_raw(o, "null");
      } else {
        html_json_number(o, now[c].number);
      }
    }
  }
  html_raw(o, "\n]</script>\n");
}

void html_table(struct html_out *o, const struct html_table *t) {
  struct html_cell cells[HTML_COLUMNS_MAX];
  const uint32_t plain = t->n_rows < HTML_PLAIN_ROWS ? t->n_rows : HTML_PLAIN_ROWS;
  html_put(o,
           "<div class=\"table\" id=\"%s\"><div class=\"rows\" role=\"region\" tabindex=\"0\" "
           "aria-label=\"%s\"><table>\n<caption>%s</caption>\n",
           t->id, t->caption, t->caption);
  put_head(o, t);
  html_raw(o, "<tbody>\n");
  for (uint32_t i = 0; i < plain; i++) {
    memset(cells, 0, sizeof cells);
    t->row(t->ctx, t->order ? t->order[i] : i, cells);
    put_plain_row(o, t, cells);
  }
  html_raw(o, "</tbody></table></div>\n");
  if (plain < t->n_rows)
    html_put(o,
             "<p class=\"note more\">This table shows the first %u of %u rows%s. If scripts are "
             "allowed, it shows all rows, and you can sort and search them.</p>\n",
             plain, t->n_rows, t->sorted_by == NO_ID ? "" : ", lowest first");
  put_rows(o, t);
  html_raw(o, "</div>\n");
}
