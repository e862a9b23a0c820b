// For people: the answer first, then each kind of difference, the long lists cut.
//
//   different: 3 nodes changed, 1 added; 2 tensors changed
//
//   Model       opset ai.onnx: 17 -> 21
//   Operators   MatMul 10 -> 0, …
//   Nodes       ~ changed   - only in the first model   + only in the second
//   Tensors     likewise, and renames
//
// Names are quoted: they come from files. Colours only where standard output is a terminal.
#include "cli/report.h"
#include "platform/machine.h"
#include "render/models/render_diff.h"

#include <math.h>
#include <stdio.h>

enum { SHOWN = 10, DETAILS_SHOWN = 12, EXAMPLES = 3 };

struct text {
  struct diffing *x;
  struct render_diff_look look;
  uint64_t shown, left; // of the list at hand
};

// ---- lines -------------------------------------------------------------------------------------

static void mark(const struct text *t, char sign) {
  const char *colour = sign == '+' ? "\033[32m" : sign == '-' ? "\033[31m" : "\033[33m";
  if (t->look.colour)
    printf("  %s%c\033[0m ", colour, sign);
  else
    printf("  %c ", sign);
}

static void title(const struct text *t, const char *words) {
  printf(t->look.colour ? "\n\033[1m%s\033[0m\n" : "\n%s\n", words);
}

static void begin_list(struct text *t) {
  t->shown = t->left = 0;
}

// May one more be listed?
static bool more(struct text *t) {
  if (!report_stdout_alive()) return false;
  if (!t->look.all && t->shown == SHOWN) {
    t->left++;
    return false;
  }
  t->shown++;
  return true;
}

static void end_list(const struct text *t) {
  if (t->left) printf("    … and %s more (--all)\n", decimal(t->left).s);
}

// ---- the model as a whole ----------------------------------------------------------------------

static void print_files(struct diffing *x) {
  for (uint32_t s = 0; s < DIFF_SIDES; s++) {
    const struct diffing_model *m = &x->side[s];
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->model.n_tensors; i++)
      bytes += m->model.tensors[i].bytes;
    const uint32_t files = sources_count(m->sources);
    printf("%s  %s: %s in %u file%s, %s, %s of tensors%s\n", s ? "+" : "-", quote_path(m->path).s,
           quote_bytes(m->bytes).s, files, plural(files),
           diff_words_counted(x, diff_summary_live_nodes(&m->model), "node"), quote_bytes(bytes).s,
           m->absent ? " (data files are missing)" : "");
  }
}

static void print_lines(struct text *t) {
  struct diffing *x = t->x;
  if (x->d.n_lines == 0) return;
  title(t, "Model");
  const char *kind = "";
  begin_list(t);
  for (uint32_t i = 0; i < x->d.n_lines; i++) {
    const struct diff_line *l = &x->d.lines[i];
    if (strcmp(kind, l->what) != 0) { // each kind has a list of its own
      end_list(t);
      begin_list(t);
      kind = l->what;
    }
    if (diff_summary_is_info(l) && !t->look.all) continue;
    if (!more(t)) continue;
    mark(t, !l->was ? '+' : !l->is ? '-' : '~');
    printf("%s%s%s: ", l->what, *l->name ? " " : "", *l->name ? quote_str(l->name).s : "");
    if (l->was && l->is)
      printf("%s -> %s\n", diff_words_cut(x, l->was), diff_words_cut(x, l->is));
    else
      printf("%s\n", diff_words_cut(x, l->was ? l->was : l->is));
  }
  end_list(t);
  if (t->look.all) return;
  for (int sign = 0; sign < 3; sign++) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < x->d.n_lines; i++) {
      const struct diff_line *l = &x->d.lines[i];
      n += diff_summary_is_info(l) && (!l->was ? 1 : !l->is ? 2 : 0) == sign;
    }
    if (n == 0) continue;
    mark(t, "~+-"[sign]);
    printf("value_info of %s (--all)\n", diff_words_counted(x, n, "value"));
  }
}

static void print_ops(struct text *t) {
  uint32_t n;
  const struct diff_summary_op *ops = diff_summary_ops(t->x, &n);
  bool any = false;
  begin_list(t);
  for (uint32_t i = 0; i < n; i++) {
    if (ops[i].n[0] == ops[i].n[1]) continue;
    if (!any) title(t, "Operators");
    any = true;
    printf("  %-28s %8s -> %s\n", quote_str(ops[i].name).s, decimal(ops[i].n[0]).s,
           decimal(ops[i].n[1]).s);
  }
}

// ---- nodes -------------------------------------------------------------------------------------

static void print_where(struct diffing *x, uint32_t side, uint32_t graph) {
  const char *where = diff_words_graph(x, side, graph);
  if (*where) printf(" in %s", quote_str(where).s);
}

static void print_value(const struct model *m, const struct model_node *n, uint32_t slot,
                        bool out) {
  const uint32_t v = slot == NO_ID ? NO_ID
                     : out         ? model_output(m, n, slot)
                                   : model_input(m, n, slot);
  if (v == NO_ID)
    putchar('-');
  else
    printf("'%s'", quote(model_value_name(m, v)).s);
}

static void print_detail(struct diffing *x, const struct diff_change *c,
                         const struct diff_detail *e) {
  const struct model *a = &x->side[0].model, *b = &x->side[1].model;
  const struct model_node *p = &a->nodes[c->node[0]], *q = &b->nodes[c->node[1]];
  switch ((enum diff_what)e->what) {
  case DIFF_OP: return; // in the node's own line
  case DIFF_RENAMED: printf("      renamed: '%s'\n", quote(model_name(b, q->name)).s); return;
  case DIFF_ATTR: {
    const struct model_attr *at = e->a == NO_ID ? &b->attrs[e->b] : &a->attrs[e->a];
    const char *was = e->a == NO_ID ? "-" : diff_words_attr(x, 0, e->a);
    const char *is = e->b == NO_ID ? "-" : diff_words_attr(x, 1, e->b);
    printf("      %s: %s -> %s%s\n", quote(model_name(e->a == NO_ID ? b : a, at->name)).s, was, is,
           strcmp(was, is) == 0 ? " (another one)" : "");
    return;
  }
  case DIFF_INPUT:
  case DIFF_OUTPUT:
    printf("      %s %u: ", e->what == DIFF_INPUT ? "input" : "output",
           e->a == NO_ID ? e->b : e->a);
    print_value(a, p, e->a, e->what == DIFF_OUTPUT);
    fputs(" -> ", stdout);
    print_value(b, q, e->b, e->what == DIFF_OUTPUT);
    putchar('\n');
    return;
  case DIFF_NOTES: printf("      doc_string, metadata or unknown fields\n"); return;
  }
}

static void print_change(struct text *t, const struct diff_change *c) {
  struct diffing *x = t->x;
  const struct model *a = &x->side[0].model, *b = &x->side[1].model;
  mark(t, '~');
  printf("%s", model_node_words(a, c->node[0]).s);
  if (x->d.details[c->first].what == DIFF_OP)
    printf(" -> %s", quote(model_name(b, b->nodes[c->node[1]].op_type)).s);
  print_where(x, 0, a->nodes[c->node[0]].graph);
  putchar('\n');
  for (uint32_t i = 0; i < c->n; i++) {
    if (!t->look.all && i == DETAILS_SHOWN) {
      printf("      … and %u more (--all)\n", c->n - i);
      break;
    }
    print_detail(x, c, &x->d.details[c->first + i]);
  }
}

static void print_kind(struct text *t, const uint32_t *changes, uint32_t n) {
  struct diffing *x = t->x;
  const struct diff_change *c = &x->d.changes[*changes];
  const struct model *a = &x->side[0].model, *b = &x->side[1].model;
  mark(t, '~');
  printf("%u × %s", n, quote(model_name(a, a->nodes[c->node[0]].op_type)).s);
  const char *before = ": ";
  for (uint32_t i = 0; i < c->n; i++) {
    const struct diff_detail *e = &x->d.details[c->first + i];
    const uint32_t s = e->a == NO_ID;
    if (e->what == DIFF_OP) {
      printf(" -> %s", quote(model_name(b, b->nodes[c->node[1]].op_type)).s);
      continue;
    }
    fputs(before, stdout);
    before = ", ";
    if (e->what == DIFF_ATTR)
      printf("%s",
             quote(model_name(&x->side[s].model, x->side[s].model.attrs[s ? e->b : e->a].name)).s);
    else if (e->what == DIFF_INPUT || e->what == DIFF_OUTPUT)
      printf("%s %u", e->what == DIFF_INPUT ? "input" : "output", s ? e->b : e->a);
    else
      fputs(e->what == DIFF_RENAMED ? "name" : "doc_string or metadata", stdout);
  }
  putchar('\n');
  for (uint32_t i = 0; i < n && i < EXAMPLES; i++)
    printf("      %s\n", model_node_words(a, x->d.changes[changes[i]].node[0]).s);
  if (n > EXAMPLES) printf("      … and %u more (--all)\n", n - EXAMPLES);
}

static void print_group(void *ctx, const uint32_t *changes, uint32_t n) {
  struct text *t = ctx;
  if (n > EXAMPLES) {
    if (more(t)) print_kind(t, changes, n);
    return;
  }
  for (uint32_t k = 0; k < n; k++)
    if (more(t)) print_change(t, &t->x->d.changes[changes[k]]);
}

static void print_changes(struct text *t) {
  begin_list(t);
  diff_summary_changes(t->x, t->look.all, print_group, t);
  end_list(t);
}

static void print_alone(struct text *t, uint32_t side) {
  struct diffing *x = t->x;
  const struct model *m = &x->side[side].model;
  begin_list(t);
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    if (!diff_summary_node_alone(x, side, i) || !more(t)) continue;
    mark(t, side ? '+' : '-');
    printf("%s", model_node_words(m, i).s);
    print_where(x, side, m->nodes[i].graph);
    putchar('\n');
  }
  end_list(t);
}

static void print_renamed_nodes(struct text *t) {
  struct diffing *x = t->x;
  begin_list(t);
  for (uint32_t i = 0; i < x->d.n_changes; i++) {
    const struct diff_change *c = &x->d.changes[i];
    if (!diff_summary_only_renamed(x, c) || !more(t)) continue;
    mark(t, '~');
    printf("renamed: '%s' -> '%s'\n",
           quote(model_name(&x->side[0].model, x->side[0].model.nodes[c->node[0]].name)).s,
           quote(model_name(&x->side[1].model, x->side[1].model.nodes[c->node[1]].name)).s);
  }
  end_list(t);
}

static void print_nodes(struct text *t, const struct diff_summary *s) {
  struct diffing *x = t->x;
  if (s->changed + s->renamed_only + s->alone[0] + s->alone[1] + x->d.moved + x->d.renamed_values ==
      0)
    return;
  title(t, "Nodes");
  print_changes(t);
  print_alone(t, DIFF_A);
  print_alone(t, DIFF_B);
  print_renamed_nodes(t);
  if (x->d.renamed_values)
    printf("    %s between nodes renamed\n", diff_words_counted(x, x->d.renamed_values, "value"));
  if (x->d.moved)
    printf("    %s at another place in the node order\n",
           diff_words_counted(x, x->d.moved, "node"));
}

// ---- tensors -----------------------------------------------------------------------------------

static void print_sums(const struct contrast_found *f) {
  const double db = figures_sqnr_db(&f->figures);
  if (isfinite(db)) printf("SQNR %.2f dB, cosine %.6f, ", db, figures_cosine(&f->figures));
  printf("max error %.3g, mean %.3g", f->figures.max_error,
         f->figures.elements ? f->sum_abs / (double)f->figures.elements : 0.0);
  if (f->figures.nonfinite) printf(", %s not finite", decimal(f->figures.nonfinite).s);
  putchar('\n');
}

static void print_figures(struct diffing *x, const struct matched_tensor *row) {
  const struct contrast_found *f = &row->found;
  const char *layer = diff_words_layer(x, row);
  if (!row->figures) return;
  if (!f->differs) {
    printf("      the same values\n");
    return;
  }
  fputs("      ", stdout);
  if (*layer) printf("%s: ", quote_str(layer).s);
  if (row->by != MATCHED_RECAST) // of quantized weights nearly all do
    printf("%s of %s element%s differ%s, the first at %s; ", decimal(f->differing).s,
           decimal(f->figures.elements).s, plural(f->figures.elements),
           f->differing == 1 ? "s" : "", decimal(f->first).s);
  print_sums(f);
}

static void print_roots(struct diffing *x, const struct matched_tensor *row, uint32_t side) {
  if (row->form[side]) printf("%s: ", row->form[side]);
  for (uint32_t i = 0; i < DEQUANT_EXPR_ROOTS && row->roots[side][i] != NO_ID; i++)
    printf("%s'%s'", i ? ", " : "", quote_str(diff_words_tensor(x, side, row->roots[side][i])).s);
  if (!row->form[side]) printf(" %s", diff_words_type(x, side, row->roots[side][0]));
}

static void print_pair(struct diffing *x, const struct matched_tensor *row) {
  printf("'%s'", quote_str(diff_words_tensor(x, 0, row->tensor[0])).s);
  if (row->renamed) printf(" -> '%s'", quote_str(diff_words_tensor(x, 1, row->tensor[1])).s);
  printf(" %s", diff_words_type(x, 0, row->tensor[0]));
  if (row->dtype || row->dims) printf(" -> %s", diff_words_type(x, 1, row->tensor[1]));
  if (row->rehomed)
    fputs(x->side[0].model.tensors[row->tensor[0]].home == HOME_INITIALIZER
              ? ", an initializer -> a Constant node"
              : ", a Constant node -> an initializer",
          stdout);
}

static const char *said(const struct matched_tensor *row) {
  if (row->by == MATCHED_TRANSPOSED) return " (the transpose, same values)";
  if (row->verdict == MATCHED_UNKNOWN) return " (bytes not compared)";
  if (row->verdict == MATCHED_SAME) return row->trusted ? " (same digest)" : " (same bytes)";
  return row->dtype || row->dims ? "" : row->trusted ? " (another digest)" : " (other bytes)";
}

static void print_row(struct text *t, const struct matched_tensor *row) {
  struct diffing *x = t->x;
  mark(t, '~');
  if (row->by == MATCHED_RECAST) {
    print_roots(x, row, DIFF_A);
    fputs(" -> ", stdout);
    print_roots(x, row, DIFF_B);
    putchar('\n');
  } else {
    print_pair(x, row);
    puts(said(row));
  }
  print_figures(x, row);
}

static void print_together(const struct text *t, const uint32_t *rows, uint32_t n) {
  struct contrast_found sum = {0};
  uint64_t tensors = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct matched_tensor *row = &t->x->rows[rows[i]];
    if (!row->figures) continue;
    tensors++;
    sum.figures = figures_join(&sum.figures, &row->found.figures);
    sum.sum_abs += row->found.sum_abs;
  }
  if (tensors < 2) return;
  printf("    these %s together: ", decimal(tensors).s);
  print_sums(&sum);
}

static void print_kind_of_tensors(struct text *t, enum diff_tensor_kind kind) {
  struct diffing *x = t->x;
  uint32_t n;
  const uint32_t *rows = diff_summary_tensors(x, kind, !t->look.all, &n);
  begin_list(t);
  for (uint32_t i = 0; i < n; i++) {
    const struct matched_tensor *row = &x->rows[rows[i]];
    if (!more(t)) continue;
    if (kind < 4) {
      print_row(t, row);
      continue;
    }
    const uint32_t side = kind == 5;
    mark(t, side ? '+' : '-');
    printf("'%s' %s\n", quote_str(diff_words_tensor(x, side, row->tensor[side])).s,
           diff_words_type(x, side, row->tensor[side]));
  }
  end_list(t);
  if (diff_tensor_kind_has_figures(kind)) print_together(t, rows, n);
}

static void print_tensors(struct text *t, const struct diff_summary *s) {
  struct diffing *x = t->x;
  if (x->n_rows == 0) return;
  title(t, "Tensors");
  if (s->same) printf("    %s the same\n", diff_words_counted(x, s->same, "tensor"));
  for (enum diff_tensor_kind kind = 0; kind < DIFF_TENSOR_SAME; kind++)
    print_kind_of_tensors(t, kind);
  if (s->moved) {
    uint64_t out = 0;
    for (uint32_t i = 0; i < x->n_rows; i++)
      out += x->rows[i].moved &&
             x->side[1].model.tensors[x->rows[i].tensor[1]].flags & TENSOR_EXTERNAL;
    if (out)
      printf("    %s moved from inside the .onnx to data files\n",
             diff_words_counted(x, out, "tensor"));
    if (s->moved > out)
      printf("    %s moved from data files into the .onnx\n",
             diff_words_counted(x, s->moved - out, "tensor"));
  }
}

static void print_end(struct diffing *x, const struct diff_summary *s) {
  if (x->by_manifest)
    printf("%s compared by the digests of their manifests, not read\n",
           diff_words_counted(x, x->by_manifest, "tensor"));
  if (x->same_place)
    printf("%s not read: stored at the same place of the same file\n",
           diff_words_counted(x, x->same_place, "tensor"));
  if (s->unknown || x->weights == WEIGHTS_NONE) puts("weights were not compared (--weights none)");
  printf("%s of weights read in %s, %s of memory\n", quote_bytes(x->stats.bytes_read).s,
         quote_seconds(machine_clock() - x->began).s, quote_memory(machine_peak_memory()).s);
}

void render_diff_text(struct diffing *x, struct render_diff_look look) {
  struct text t = {.x = x, .look = look};
  const struct diff_summary s = diff_summary_of(x);
  print_files(x);
  puts(diff_words_answer(x, &s));
  print_lines(&t);
  print_ops(&t);
  print_nodes(&t, &s);
  if (!diff_summary_equal(x) || s.moved) print_tensors(&t, &s);
  putchar('\n');
  print_end(x, &s);
}
