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
  bool elements; // --values
  struct arena line;
};

// ---- a value -----------------------------------------------------------------------------------

// Of a long list its beginning, or, where some of it is not known, how much is; --json has all of it.
static void print_elements(struct shapes *s, const struct infer_number *list, uint32_t n) {
  uint32_t known = 0, shown = n;
  for (uint32_t i = 0; i < n; i++)
    known += list[i].num != NO_ID;
  if (n > ELEMENTS_SHOWN + 1) shown = known == n ? ELEMENTS_SHOWN : 0;
  fputs("\t{", stdout);
  for (uint32_t i = 0; i < shown; i++)
    printf("%s%s", i ? "," : "", quote_str(inspect_shapes_element(&s->found, list[i], &s->line)).s);
  if (shown < n && known == n) printf(",... %u more", n - shown);
  if (shown < n && known < n) printf("%u elements, %u known", n, known);
  putchar('}');
}

static void print_value(struct shapes *s, const struct inspect_value *v) {
  const struct model *m = s->found.m;
  const struct infer_type *t = &v->type;
  const struct infer_number *list;
  uint32_t n;
  const char *kind = inspect_shapes_kind(t);
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

static bool show(void *ctx, const struct inspect_value *v) {
  struct shapes *s = ctx;
  if (!report_stdout_alive()) return false;
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

void render_inspect_shapes(const struct model *m, bool elements) {
  struct shapes s = {.elements = elements};
  inspect_shapes_init(&s.found, m);
  printf("name\tdtype\tdims\tgraph\twhy%s\n", elements ? "\tvalues" : "");
  inspect_shapes_each(&s.found, show, &s);
  tell_totals(&s);
  arena_free(&s.line);
  inspect_shapes_done(&s.found);
}
