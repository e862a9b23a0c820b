// For a pull request: a table of GitHub-flavored Markdown, of at most 40 lines.
//
//   **different**: 19 nodes changed, 19 tensors stored in another form
//
//   | | before | after |
//   |---|---|---|
//   | size of all files | 705 kB | 320 kB |
//   | weight `val_405` | `float[64,64]` | `4 bits in blocks of 64` (SQNR 20.54 dB) |
//
//   … and 23 more: `weir diff A B --all`
//
// What concerns the model as a whole comes first, then weights by what they lost, then nodes. Rows past the last line are
// counted.
//
// Names and values come from files, and whoever writes a file must not write rows, links or mentions. Each of them is a
// code span if all of its characters mean themselves there; else it is an HTML element `code` in which all but letters,
// digits and blanks are numeric references: these are never structure in Markdown, and cells are cut at bare pipes alone.
// Line breaks and other control characters were escaped before, by quote().
#include "cli/report.h"
#include "render/models/render_diff.h"

#include <math.h>
#include <stdio.h>

enum { LINES_MAX = 40, AROUND = 6, ROWS_MAX = LINES_MAX - AROUND, EXAMPLES = 3 };

struct table {
  struct diffing *x;
  uint32_t rows;
  uint64_t left;
};

// Is there room for one more row? Else it is counted.
static bool more(struct table *t) {
  if (!report_stdout_alive()) return false;
  if (t->rows == ROWS_MAX) {
    t->left++;
    return false;
  }
  t->rows++;
  return true;
}

// ---- cells -------------------------------------------------------------------------------------

static bool is_letter(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c >= 0x80;
}

// Does the text mean itself in a code span of a table, for every reader?
static bool is_plain(const char *text) {
  for (const char *c = text; *c; c++)
    if (!is_letter((unsigned char)*c) && !strchr(" /._:,-+=()[]'%*#@~?;{}!", *c)) return false;
  return *text && *text != ' ' && text[strlen(text) - 1] != ' ';
}

// Of a text that was quoted.
static const char *code(struct diffing *x, const char *text) {
  if (!*text) return "–";
  if (is_plain(text)) return arena_printf(&x->arena, "`%s`", text);
  const size_t n = strlen(text), most = strlen("&#255;");
  char *out = arena_alloc(&x->arena, n * most + 1);
  size_t at = 0;
  for (size_t i = 0; i < n; i++) {
    const unsigned char c = (unsigned char)text[i];
    if (is_letter(c) || (c == ' ' && i > 0 && i + 1 < n))
      out[at++] = (char)c;
    else
      at += (size_t)snprintf(out + at, most + 1, "&#%u;", c);
  }
  out[at] = '\0';
  return arena_printf(&x->arena, "<code>%s</code>", out);
}

static const char *name(struct diffing *x, struct span text) {
  return code(x, quote(text).s);
}

static const char *named(struct diffing *x, const char *text) {
  return code(x, quote_str(text).s);
}

// Words of ours, with names as above.
static void row(const char *what, const char *before, const char *after) {
  printf("| %s | %s | %s |\n", what, *before ? before : "–", *after ? after : "–");
}

static const char *two(struct diffing *x, const char *word, const char *of) {
  return arena_printf(&x->arena, "%s %s", word, of);
}

static const char *number(struct diffing *x, uint64_t n) {
  return arena_printf(&x->arena, "%s", decimal(n).s);
}

// ---- the model as a whole ----------------------------------------------------------------------

static void put_sizes(struct table *t) {
  struct diffing *x = t->x;
  const char *files[DIFF_SIDES], *sizes[DIFF_SIDES], *nodes[DIFF_SIDES];
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct diffing_model *m = &x->side[s];
    files[s] = code(x, quote_path(m->path).s);
    sizes[s] = arena_printf(&x->arena, "%s%s", quote_bytes(m->bytes).s,
                            m->absent ? " (data files are missing)" : "");
    nodes[s] = number(x, diff_summary_live_nodes(&m->model));
  }
  if (more(t)) row("model", files[0], files[1]);
  if (more(t)) row("size of all files", sizes[0], sizes[1]);
  if (more(t)) row("nodes", nodes[0], nodes[1]);
}

static void put_lines(struct table *t) {
  struct diffing *x = t->x;
  for (uint32_t i = 0; i < x->d.n_lines; i++) {
    const struct diff_line *l = &x->d.lines[i];
    if (diff_summary_is_info(l) || !more(t)) continue;
    row(*l->name ? two(x, l->what, named(x, l->name)) : l->what,
        l->was ? code(x, diff_words_cut(x, l->was)) : "",
        l->is ? code(x, diff_words_cut(x, l->is)) : "");
  }
}

static void put_ops(struct table *t) {
  struct diffing *x = t->x;
  uint32_t n;
  const struct diff_summary_op *ops = diff_summary_ops(x, &n);
  for (uint32_t i = 0; i < n; i++)
    if (ops[i].n[0] != ops[i].n[1] && more(t))
      row(two(x, "number of", named(x, ops[i].name)), number(x, ops[i].n[0]),
          number(x, ops[i].n[1]));
}

// ---- tensors -----------------------------------------------------------------------------------

static const char *figures(struct diffing *x, const struct matched_tensor *w) {
  if (!w->figures) return "";
  if (!w->found.differs) return " (the same values)";
  const double db = figures_sqnr_db(&w->found.figures);
  if (isfinite(db)) return arena_printf(&x->arena, " (SQNR %.2f dB)", db);
  return arena_printf(&x->arena, " (max error %.3g)", w->found.figures.max_error);
}

static const char *stored(struct diffing *x, const struct matched_tensor *w, uint32_t side) {
  const uint32_t root = w->by == MATCHED_RECAST ? w->roots[side][0] : w->tensor[side];
  return code(x, w->by == MATCHED_RECAST && w->form[side] ? quote_str(w->form[side]).s
                                                          : diff_words_type(x, side, root));
}

// What is said of a tensor beside its type, which may be the same on both sides.
static const char *said(const struct matched_tensor *w) {
  if (w->by == MATCHED_TRANSPOSED) return " (transposed)";
  if (w->by == MATCHED_RECAST || w->dtype || w->dims) return "";
  if (w->verdict == MATCHED_DIFFERS) return " (other values)";
  return w->renamed ? " (renamed)" : w->rehomed ? " (moved)" : "";
}

static void put_tensor(struct table *t, const struct matched_tensor *w) {
  struct diffing *x = t->x;
  const bool recast = w->by == MATCHED_RECAST;
  const uint32_t first = recast ? w->roots[0][0] : w->tensor[0],
                 second = recast ? w->roots[1][0] : w->tensor[1];
  const uint32_t side = first == NO_ID;
  const char *what = two(x, "tensor", named(x, diff_words_tensor(x, side, side ? second : first)));
  const bool both = side == 0 && second != NO_ID, has_form = w->form[0] || w->form[1];
  const bool renamed =
      recast ? both && !has_form &&
                   strcmp(diff_words_tensor(x, 0, first), diff_words_tensor(x, 1, second)) != 0
             : w->renamed;
  if (renamed)
    what = arena_printf(&x->arena, "%s → %s", what, named(x, diff_words_tensor(x, 1, second)));
  const char *after = second == NO_ID ? "" : stored(x, w, 1);
  row(what, first == NO_ID ? "" : stored(x, w, 0),
      second == NO_ID
          ? ""
          : arena_printf(&x->arena, "%s%s%s", after, side ? "" : said(w), figures(x, w)));
}

static void put_tensors(struct table *t) {
  for (enum diff_tensor_kind kind = 0; kind < DIFF_TENSOR_SAME; kind++) {
    uint32_t n;
    const uint32_t *rows = diff_summary_tensors(t->x, kind, true, &n);
    for (uint32_t i = 0; i < n; i++)
      if (more(t)) put_tensor(t, &t->x->rows[rows[i]]);
  }
}

// ---- nodes -------------------------------------------------------------------------------------

static const char *node(struct diffing *x, uint32_t side, uint32_t id) {
  const struct model *m = &x->side[side].model;
  const struct model_node *n = &m->nodes[id];
  const uint32_t out = model_output(m, n, 0);
  const bool nameless = n->name == m->empty;
  if (nameless && out == NO_ID) return name(x, model_name(m, n->op_type));
  return arena_printf(&x->arena, "%s%s", nameless ? "that makes " : "",
                      name(x, nameless ? model_value_name(m, out) : model_name(m, n->name)));
}

static const char *slot(struct diffing *x, uint32_t side, uint32_t id, uint32_t at, bool out) {
  const struct model *m = &x->side[side].model;
  const struct model_node *n = &m->nodes[id];
  const uint32_t v = at == NO_ID ? NO_ID : out ? model_output(m, n, at) : model_input(m, n, at);
  return v == NO_ID ? "–" : name(x, model_value_name(m, v));
}

// A detail of a change as it is on one side.
static const char *detail(struct diffing *x, const struct diff_change *c,
                          const struct diff_detail *e, uint32_t side) {
  const struct model *m = &x->side[side].model;
  const uint32_t at = side ? e->b : e->a, id = c->node[side];
  switch ((enum diff_what)e->what) {
  case DIFF_OP: return name(x, model_name(m, m->nodes[id].op_type));
  case DIFF_RENAMED: return name(x, model_name(m, m->nodes[id].name));
  case DIFF_ATTR: {
    const uint32_t has = e->a == NO_ID;
    const struct model *of = &x->side[has].model;
    return arena_printf(
        &x->arena, "%s: %s", name(x, model_name(of, of->attrs[has ? e->b : e->a].name)),
        at == NO_ID ? "–" : code(x, diff_words_cut(x, diff_words_attr(x, side, at))));
  }
  case DIFF_INPUT:
  case DIFF_OUTPUT:
    return arena_printf(&x->arena, "%s %u: %s", e->what == DIFF_INPUT ? "input" : "output",
                        e->a == NO_ID ? e->b : e->a, slot(x, side, id, at, e->what == DIFF_OUTPUT));
  case DIFF_NOTES: return side ? "other notes" : "notes";
  }
  return "";
}

static const char *details(struct diffing *x, const struct diff_change *c, uint32_t side) {
  const char *words = "";
  for (uint32_t i = 0; i < c->n; i++) {
    if (i == EXAMPLES) return arena_printf(&x->arena, "%s, … %u more", words, c->n - i);
    words = arena_printf(&x->arena, "%s%s%s", words, i ? ", " : "",
                         detail(x, c, &x->d.details[c->first + i], side));
  }
  return words;
}

// Nodes that changed alike are one row: their operators, and the first of them.
static void put_group(void *ctx, const uint32_t *changes, uint32_t n) {
  struct table *t = ctx;
  struct diffing *x = t->x;
  const struct diff_change *c = &x->d.changes[*changes];
  const struct model *m = &x->side[0].model;
  if (!more(t)) {
    t->left += n - 1;
    return;
  }
  const char *what = two(x, "node", node(x, 0, c->node[0]));
  if (n > 1)
    what =
        arena_printf(&x->arena, "%u × %s, such as %s", n,
                     name(x, model_name(m, m->nodes[c->node[0]].op_type)), node(x, 0, c->node[0]));
  row(what, details(x, c, 0), details(x, c, 1));
}

static void put_alone(struct table *t, uint32_t side) {
  struct diffing *x = t->x;
  const struct model *m = &x->side[side].model;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (!diff_summary_node_alone(x, side, i) || !more(t)) continue;
    const char *op = name(x, model_name(m, m->nodes[i].op_type));
    row(two(x, "node", node(x, side, i)), side ? "" : op, side ? op : "");
  }
}

static void put_renamed(struct table *t) {
  struct diffing *x = t->x;
  for (uint32_t i = 0; i < x->d.n_changes; i++) {
    const struct diff_change *c = &x->d.changes[i];
    if (!diff_summary_only_renamed(x, c) || !more(t)) continue;
    row("renamed node", details(x, c, 0), details(x, c, 1));
  }
}

// What has no row of its own: one row each.
static void put_counts(struct table *t, const struct diff_summary *s) {
  struct diffing *x = t->x;
  if (s->infos && more(t)) row("declared types", "", diff_words_counted(x, s->infos, "value"));
  if (x->d.renamed_values && more(t))
    row("values between nodes", "", diff_words_counted(x, x->d.renamed_values, "other name"));
}

// ---- the table ---------------------------------------------------------------------------------

void render_diff_markdown(struct diffing *x) {
  struct table t = {.x = x};
  const struct diff_summary s = diff_summary_of(x);
  const char *answer = diff_words_answer(x, &s);
  const size_t n = strcspn(answer, ":");
  printf("**%.*s**%s\n", (int)n, answer, answer + n);
  if (diff_summary_equal(x)) return;
  printf("\n| | before | after |\n|---|---|---|\n");
  put_sizes(&t);
  put_lines(&t);
  put_ops(&t);
  put_tensors(&t);
  diff_summary_changes(x, false, put_group, &t);
  put_alone(&t, DIFF_A);
  put_alone(&t, DIFF_B);
  put_renamed(&t);
  put_counts(&t, &s);
  if (t.left == 0) return;
  printf("\n… and %s more: `weir diff --all`\n", decimal(t.left).s);
}
