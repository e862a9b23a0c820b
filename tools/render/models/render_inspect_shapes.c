// What is known of values before the model runs: --shapes and --values.
//
//   name   dtype  dims            graph  why                 values
//   x      float  [N,128,t]       0      -                   -
//   h      float  [N,256,(t+1)//2]
//   k      int64  [3]             0      -                   {N,256,(t + 1)//2}
//   nz     int64  [1,?1]          0      depends_on_data     -
//
// Of a long list only the beginning is printed. "?1" is a number that only the run will tell, the same wherever it stands.
#include "cli/report.h"
#include "inspect/inspect_shapes.h"
#include "render/models/render_inspect.h"

#include <stdio.h>

enum { ELEMENTS_SHOWN = 16 };

struct shapes {
  struct inspect_shapes found;
  struct json_out *j; // NULL: lines
  bool elements;      // --values
  struct arena line;
};

static const char *dim_words(struct shapes *s, dim_id e) {
  return arena_string(&s->line, dims_text(infer_dims(s->found.infer), e, &s->line));
}

static const char *element_words(struct shapes *s, struct infer_number e) {
  int64_t n;
  if (e.num == NO_ID) return "?";
  if (e.den == 1) return dim_words(s, e.num);
  if (dims_is_number(infer_dims(s->found.infer), e.num, &n))
    return arena_printf(&s->line, "%.9g", (double)n / (double)e.den);
  return arena_printf(&s->line, "(%s)/%s", dim_words(s, e.num), integer(e.den).s);
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

static void print_value(struct shapes *s, const struct inspect_value *v) {
  const struct model *m = s->found.m;
  const struct infer_type *t = &v->type;
  const struct infer_number *list;
  uint32_t n;
  const char *kind = kind_words(t);
  printf("%s\t%s\t", quote(model_value_name(m, v->value)).s, kind ? kind : "?");
  if (!t->ranked) putchar('?');
  for (uint32_t d = 0; t->ranked && d < t->rank; d++)
    printf("%s%s", d ? "," : "[", quote_str(v->dims[d]).s);
  if (t->ranked) fputs(t->rank ? "]" : "[]", stdout);
  printf("\t%u\t%s", m->values[v->value].graph, v->why ? v->why : "-");
  if (s->elements && infer_numbers(s->found.infer, v->value, &list, &n)) {
    print_elements(s, list, n);
  } else if (s->elements) {
    fputs("\t-", stdout);
  }
  putchar('\n');
}

static void put_dim(struct shapes *s, dim_id e, const char *words) {
  int64_t n;
  if (dims_is_number(infer_dims(s->found.infer), e, &n))
    json_int(s->j, n);
  else
    json_text(s->j, words);
}

static void put_value(struct shapes *s, const struct inspect_value *v) {
  const struct model *m = s->found.m;
  const struct infer_type *t = &v->type;
  const struct infer_number *list;
  uint32_t n;
  json_object(s->j);
  json_put_string(s->j, "name", model_value_name(m, v->value));
  json_put_uint(s->j, "graph", m->values[v->value].graph);
  json_put_text(s->j, "dtype", kind_words(t));
  json_key(s->j, "dims");
  if (t->ranked) {
    json_array(s->j);
    for (uint32_t d = 0; d < t->rank; d++)
      put_dim(s, t->dims[d], v->dims[d]);
    json_end_array(s->j);
  } else {
    json_null(s->j);
  }
  json_put_text(s->j, "why", v->why);
  if (s->elements && infer_numbers(s->found.infer, v->value, &list, &n)) {
    json_put_array(s->j, "elements");
    for (uint32_t i = 0; i < n; i++)
      if (list[i].num != NO_ID && list[i].den == 1)
        put_dim(s, list[i].num, dim_words(s, list[i].num));
      else
        json_text(s->j, list[i].num == NO_ID ? NULL : element_words(s, list[i]));
    json_end_array(s->j);
  }
  json_end_object(s->j);
  report_json_flush(s->j);
}

static bool show(void *ctx, const struct inspect_value *v) {
  struct shapes *s = ctx;
  if (!report_stdout_alive()) return false;
  if (s->j)
    put_value(s, v);
  else
    print_value(s, v);
  arena_reset(&s->line);
  return true;
}

// ---- all of them -------------------------------------------------------------------------------

static void tell_totals(struct shapes *s) {
  const struct inspect_shapes *found = &s->found;
  const char *text = "";
  for (uint32_t i = 0; i < INFER_WHYS; i++)
    if (found->why[i])
      text = arena_printf(&s->line, "%s%s%s %s", text, *text ? ", " : "", decimal(found->why[i]).s,
                          infer_why_code((enum infer_why)i));
  report_notice("%s value%s: %s known, %s with unknown dims, %s without a shape%s%s%s",
                decimal(found->values).s, plural(found->values), decimal(found->whole).s,
                decimal(found->ranked).s, decimal(found->none).s, *text ? " (" : "", text,
                *text ? ")" : "");
}

static void put_totals(struct shapes *s) {
  const struct inspect_shapes *found = &s->found;
  json_put_object(s->j, "totals");
  json_put_uint(s->j, "values", found->values);
  json_put_uint(s->j, "known", found->whole);
  json_put_uint(s->j, "some_dims_unknown", found->ranked);
  json_put_uint(s->j, "no_shape", found->none);
  json_put_object(s->j, "reasons");
  for (uint32_t i = 0; i < INFER_WHYS; i++)
    if (found->why[i]) json_put_uint(s->j, infer_why_code((enum infer_why)i), found->why[i]);
  json_end_object(s->j);
  json_end_object(s->j);
}

void render_inspect_shapes(const struct model *m, bool elements, struct json_out *j) {
  struct shapes s = {.j = j, .elements = elements};
  inspect_shapes_init(&s.found, m);
  if (j) {
    json_put_object(j, "shapes");
    json_put_array(j, "values");
  } else {
    printf("name\tdtype\tdims\tgraph\twhy%s\n", elements ? "\tvalues" : "");
  }
  inspect_shapes_each(&s.found, show, &s);
  if (j) {
    json_end_array(j);
    put_totals(&s);
    json_end_object(j);
  } else {
    tell_totals(&s);
  }
  arena_free(&s.line);
  inspect_shapes_done(&s.found);
}
