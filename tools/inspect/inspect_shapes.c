// What is known of values before the model runs: --shapes and --values.
//
//   name   dtype  dims            graph  why                 values
//   x      float  [N,128,t]       0      -                   -
//   h      float  [N,256,(t+1)//2]
//   k      int64  [3]             0      -                   {N,256,(t + 1)//2}
//   nz     int64  [1,?1]          0      depends_on_data     -
//
// Of a long list only the beginning is printed. Values are the inputs of the main graph and what the nodes of it and of its subgraphs make; those of functions mean
// another thing in every call. "?1" is a number that only the run will tell, the same wherever it stands.
#include "infer.h"
#include "inspect.h"
#include "report.h"

#include <stdio.h>

enum { ELEMENTS_SHOWN = 16 };

struct shapes {
  struct inspect *in;
  struct infer *infer;
  struct json_out *j; // NULL: lines
  bool elements;      // --values
  struct arena line;
  // totals
  uint64_t values, whole, ranked, none; // whole: every dim is known
  uint64_t why[INFER_WHYS];
};

static const char *dim_words(struct shapes *s, dim_id e) {
  return arena_string(&s->line, dims_text(infer_dims(s->infer), e, &s->line));
}

static const char *element_words(struct shapes *s, struct infer_number e) {
  int64_t n;
  if (e.num == NO_ID) return "?";
  if (e.den == 1) return dim_words(s, e.num);
  if (dims_is_number(infer_dims(s->infer), e.num, &n))
    return arena_printf(&s->line, "%.9g", (double)n / (double)e.den);
  return arena_printf(&s->line, "(%s)/%lld", dim_words(s, e.num), (long long)e.den);
}

static const char *kind_words(const struct infer_type *t) {
  const char *dtype = t->dtype == DTYPE_UNDEFINED ? NULL : dtype_name(t->dtype);
  return t->kind == INFER_SEQUENCE   ? "sequence"
         : t->kind == INFER_OPTIONAL ? "optional"
         : t->kind == INFER_OTHER    ? "other"
                                     : dtype;
}

// ---- a value -----------------------------------------------------------------------------------

// Of a long list its beginning, or, where some of it is not known, how much is; --json has all of it.
static void print_elements(struct shapes *s, const struct infer_number *list, uint32_t n) {
  uint32_t known = 0, shown = n;
  for (uint32_t i = 0; i < n; i++)
    known += list[i].num != NO_ID;
  if (n > ELEMENTS_SHOWN + 1) shown = known == n ? ELEMENTS_SHOWN : 0;
  fputs("\t{", stdout);
  for (uint32_t i = 0; i < shown; i++)
    printf("%s%s", i ? "," : "", quote_str(element_words(s, list[i])).s);
  if (shown < n && known == n) printf(",... %u more", n - shown);
  if (shown < n && known < n) printf("%u elements, %u known", n, known);
  putchar('}');
}

static void print_value(struct shapes *s, uint32_t value, const struct infer_type *t,
                        const char *why) {
  const struct model *m = s->in->m;
  const struct infer_number *list;
  uint32_t n;
  const char *kind = kind_words(t);
  printf("%s\t%s\t", quote(model_value_name(m, value)).s, kind ? kind : "?");
  if (!t->ranked) putchar('?');
  for (uint32_t d = 0; t->ranked && d < t->rank; d++)
    printf("%s%s", d ? "," : "[", quote_str(dim_words(s, t->dims[d])).s);
  if (t->ranked) fputs(t->rank ? "]" : "[]", stdout);
  printf("\t%u\t%s", m->values[value].graph, why ? why : "-");
  if (s->elements && infer_numbers(s->infer, value, &list, &n)) {
    print_elements(s, list, n);
  } else if (s->elements) {
    fputs("\t-", stdout);
  }
  putchar('\n');
}

static void put_dim(struct shapes *s, dim_id e) {
  int64_t n;
  if (dims_is_number(infer_dims(s->infer), e, &n))
    json_int(s->j, n);
  else
    json_text(s->j, dim_words(s, e));
}

static void put_value(struct shapes *s, uint32_t value, const struct infer_type *t,
                      const char *why) {
  const struct model *m = s->in->m;
  const struct infer_number *list;
  uint32_t n;
  json_object(s->j);
  json_put_string(s->j, "name", model_value_name(m, value));
  json_put_uint(s->j, "graph", m->values[value].graph);
  json_put_text(s->j, "dtype", kind_words(t));
  json_key(s->j, "dims");
  if (t->ranked) {
    json_array(s->j);
    for (uint32_t d = 0; d < t->rank; d++)
      put_dim(s, t->dims[d]);
    json_end_array(s->j);
  } else {
    json_null(s->j);
  }
  json_put_text(s->j, "why", why);
  if (s->elements && infer_numbers(s->infer, value, &list, &n)) {
    json_put_array(s->j, "elements");
    for (uint32_t i = 0; i < n; i++)
      if (list[i].num != NO_ID && list[i].den == 1)
        put_dim(s, list[i].num);
      else
        json_text(s->j, list[i].num == NO_ID ? NULL : element_words(s, list[i]));
    json_end_array(s->j);
  }
  json_end_object(s->j);
  report_json_flush(s->j);
}

static void show(struct shapes *s, uint32_t value) {
  const struct model *m = s->in->m;
  struct infer_type t = {.kind = INFER_TENSOR, .dtype = DTYPE_UNDEFINED};
  if (value == NO_ID || !report_stdout_alive()) return;
  infer_type_of(s->infer, value, &t);
  const bool ranked = t.ranked || t.kind != INFER_TENSOR;
  bool whole = ranked;
  for (uint32_t d = 0; t.ranked && d < t.rank; d++)
    whole = whole && !memchr(dim_words(s, t.dims[d]), '?', strlen(dim_words(s, t.dims[d])));
  enum infer_why why = infer_why(s->infer, value);
  if (whole)
    why = INFER_WHY_KNOWN;
  else if (why == INFER_WHY_KNOWN) // what follows from unknown dims, and inputs that have such
    why = m->values[value].flags & VALUE_IS_INPUT ? INFER_WHY_NO_TYPE : INFER_WHY_INPUT;
  s->values++;
  *(whole ? &s->whole : ranked ? &s->ranked : &s->none) += 1;
  if (!whole) s->why[why]++;
  const char *code = why == INFER_WHY_KNOWN ? NULL : infer_why_code(why);
  if (s->j)
    put_value(s, value, &t, code);
  else
    print_value(s, value, &t, code);
  arena_reset(&s->line);
}

static bool is_shown(const struct model *m, uint32_t graph) {
  return m->graphs[model_root_graph(m, graph)].kind == GRAPH_MAIN;
}

static void show_all(struct shapes *s) {
  const struct model *m = s->in->m;
  if (m->main_graph == NO_ID) return;
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    if (value != NO_ID && m->values[value].kind != VALUE_INITIALIZER) show(s, value);
  }
  for (uint32_t i = 0; i < m->n_graphs; i++) {
    if ((m->graphs[i].flags & GRAPH_DEAD) || !is_shown(m, i)) continue;
    for (uint32_t n = m->graphs[i].first_node; n != NO_ID; n = m->nodes[n].next)
      for (uint32_t k = 0; k < m->nodes[n].n_out; k++)
        show(s, model_output(m, &m->nodes[n], k));
  }
}

// ---- all of them -------------------------------------------------------------------------------

static void tell_totals(struct shapes *s) {
  const char *text = "";
  for (uint32_t i = 0; i < INFER_WHYS; i++)
    if (s->why[i])
      text = arena_printf(&s->line, "%s%s%lu %s", text, *text ? ", " : "", s->why[i],
                          infer_why_code((enum infer_why)i));
  report_notice("%lu value%s: %lu known, %lu with unknown dims, %lu without a shape%s%s%s",
                s->values, plural(s->values), s->whole, s->ranked, s->none, *text ? " (" : "", text,
                *text ? ")" : "");
}

static void put_totals(struct shapes *s) {
  json_put_object(s->j, "totals");
  json_put_uint(s->j, "values", s->values);
  json_put_uint(s->j, "known", s->whole);
  json_put_uint(s->j, "some_dims_unknown", s->ranked);
  json_put_uint(s->j, "no_shape", s->none);
  json_put_object(s->j, "reasons");
  for (uint32_t i = 0; i < INFER_WHYS; i++)
    if (s->why[i]) json_put_uint(s->j, infer_why_code((enum infer_why)i), s->why[i]);
  json_end_object(s->j);
  json_end_object(s->j);
}

void inspect_shapes(struct inspect *in, bool elements, struct json_out *j) {
  const struct infer_options as_written = {INFER_REFINE, 1, INT64_MAX, false};
  struct shapes s = {
      .in = in, .j = j, .elements = elements, .infer = infer_new(in->m, &as_written)};
  infer_all(s.infer, NULL);
  if (j) {
    json_put_object(j, "shapes");
    json_put_array(j, "values");
  } else {
    printf("name\tdtype\tdims\tgraph\twhy%s\n", elements ? "\tvalues" : "");
  }
  show_all(&s);
  if (j) {
    json_end_array(j);
    put_totals(&s);
    json_end_object(j);
  } else {
    tell_totals(&s);
  }
  arena_free(&s.line);
  infer_free(s.infer);
}
