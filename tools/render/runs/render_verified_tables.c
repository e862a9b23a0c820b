// Tables of figures: sites and outputs with their verdicts, and layers.
//
//   output    max abs  mean abs  relative  SQNR dB     cosine  verdict
//   …/dense    0.0468    0.0113    0.0155     36.7  0.9998921  passed [1]
//
// No line is wider than LINE. So what several rows have in common is said once, below: what they were judged by, and what long names
// begin with.
#include "render/runs/render_verified_tables.h"

#include "cli/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_SHOWN = 20, DROPS_SHOWN = 10 };

struct number {
  char s[24];
};

static struct number db(double x) {
  struct number n;
  if (isinf(x) && x > 0)
    snprintf(n.s, sizeof n.s, "equal");
  else
    snprintf(n.s, sizeof n.s, "%.1f", x);
  return n;
}

static bool has_figures(const struct verified_row *r) {
  return r->end != VERIFIED_NOT && r->figures.count > 0;
}

// Failed ones first, then by SQNR.
static int worse_first(const void *pa, const void *pb) {
  const struct verified_row *a = *(const struct verified_row *const *)pa,
                            *b = *(const struct verified_row *const *)pb;
  const int fa = a->end == VERIFIED_FAILED, fb = b->end == VERIFIED_FAILED;
  if (fa != fb) return fb - fa;
  if (a->figures.sqnr_db != b->figures.sqnr_db)
    return a->figures.sqnr_db < b->figures.sqnr_db ? -1 : 1;
  return (a > b) - (a < b);
}

// ---- names -------------------------------------------------------------------------------------

enum { LINE = 100, FIGURES = 50, NAME_LEAST = 20 };

// Columns on a terminal: continuation bytes of a character take none.
static int columns_of(const char *s) {
  int n = 0;
  for (; *s; s++)
    n += ((unsigned char)*s & 0xc0) != 0x80;
  return n;
}

static int larger(int a, int b) {
  return a > b ? a : b;
}

// Names of a table. Where some are too wide, what these begin with alike, up to a '/', is left out of all, and said once.
struct names {
  const char **list; // quoted
  uint32_t n;
  int width, most;
  size_t shared; // bytes of `beginning` that "…" stands for
  const char *beginning;
};

static struct names names_begin(uint32_t n, struct arena *a) {
  return (struct names){.list = arena_alloc(a, (n + (size_t)1) * sizeof(const char *))};
}

static void names_add(struct names *names, const char *name, struct arena *a) {
  names->list[names->n++] = arena_string(a, span_str(quote_str(name).s));
}

static int names_longest(const struct names *names) {
  int longest = 0;
  for (uint32_t i = 0; i < names->n; i++)
    longest = larger(longest, columns_of(names->list[i]));
  return longest;
}

static size_t shared_bytes(const struct names *names, const char **beginning) {
  const char *first = NULL;
  size_t shared = 0;
  uint32_t wide = 0;
  for (uint32_t i = 0; i < names->n; i++) {
    const char *name = names->list[i];
    size_t k = 0;
    if (columns_of(name) <= names->most) continue;
    if (wide++ == 0) first = name, shared = strlen(name);
    while (k < shared && name[k] == first[k])
      k++;
    shared = k;
  }
  while (shared > 0 && first[shared - 1] != '/')
    shared--;
  *beginning = first;
  return wide > 1 ? shared : 0;
}

// What is shown of it: all, or what comes after the shared beginning.
static const char *shown_of(const struct names *names, const char *name, bool *cut) {
  *cut = names->shared > 0 && strncmp(name, names->beginning, names->shared) == 0;
  return *cut ? name + names->shared : name;
}

// How wide they are beside verdicts of that width, and under that title.
static void names_fit(struct names *names, const char *title, int verdict) {
  bool cut;
  names->most = larger(LINE - FIGURES - verdict, NAME_LEAST);
  names->shared = shared_bytes(names, &names->beginning);
  names->width = columns_of(title);
  for (uint32_t i = 0; i < names->n; i++) {
    const char *shown = shown_of(names, names->list[i], &cut);
    const int columns = columns_of(shown) + cut;
    names->width = larger(names->width, columns < names->most ? columns : names->most);
  }
}

static const char ellipsis[] = "\xe2\x80\xa6";

// Of what is too wide without its beginning the middle is left out.
static void print_name(const struct names *names, uint32_t i) {
  bool cut;
  const char *name = shown_of(names, names->list[i], &cut);
  const int width = names->width - cut, columns = columns_of(name), head = (width - 1) / 2,
            tail = width - 1 - head;
  int at = 0;
  if (cut) fputs(ellipsis, stdout);
  if (columns <= width) {
    printf("%s%*s", name, width - columns, "");
    return;
  }
  for (const char *c = name; *c; c++) {
    at += ((unsigned char)*c & 0xc0) != 0x80;
    if (at <= head || at > columns - tail) putchar(*c);
    if (at == head && ((unsigned char)c[1] & 0xc0) != 0x80) fputs(ellipsis, stdout);
  }
}

static void print_shared(const struct names *names) {
  if (names->shared) printf("%s stands for %.*s\n", ellipsis, (int)names->shared, names->beginning);
}

// The head of a table whose first column is `width` wide.
static void print_head(int width, const char *title, const char *last) {
  printf("%-*s  %8s  %8s  %8s  %7s  %9s%s\n", width, title, "max abs", "mean abs", "relative",
         "SQNR dB", "cosine", last);
}

static void print_figures(const struct names *names, uint32_t i, const struct compare_figures *f) {
  print_name(names, i);
  printf("  %8.3g  %8.3g  %8.3g  %7s  %9.*f", f->max_abs, f->mean_abs, f->relative,
         db(f->sqnr_db).s, f->cosine < 0 ? 6 : 7, f->cosine);
}

// ---- sites and outputs -------------------------------------------------------------------------

// What rows were judged by, where several have it in common: said once, below the table.
struct judged {
  const struct verified_row *first[ROWS_SHOWN];
  uint32_t n;
  const char *unjudged; // why rows were not, as the last line says it
};

// Of sites their passes belong to it; outputs have their cases beside them.
static bool is_judged_alike(const struct verified_row *a, const struct verified_row *b) {
  return a->output == b->output && strcmp(a->bounds, b->bounds) == 0 &&
         (a->output || strcmp(a->of, b->of) == 0);
}

// The place of what the row was judged by; UINT32_MAX: it was not judged.
static uint32_t judged_by(struct judged *j, const struct verified_row *r) {
  uint32_t k = 0;
  if (r->end == VERIFIED_UNJUDGED) return UINT32_MAX;
  while (k < j->n && !is_judged_alike(j->first[k], r))
    k++;
  if (k == j->n) j->first[j->n++] = r;
  return k;
}

// Is the output that of several cases? Rows of all of them are counted together, in one.
static bool has_cases(const struct verified *f, const struct verified_row *r) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n_rows; i++)
    n += strcmp(f->rows[i].name, r->name) == 0;
  return n > 1;
}

// What stands at the end of a row. note: as judged_by has it; UINT32_MAX: it is said here.
static const char *verdict_of(const struct verified_row *r, const struct judged *j, uint32_t note,
                              struct arena *a) {
  if (r->end == VERIFIED_UNJUDGED)
    return j->unjudged && strcmp(j->unjudged, r->why) == 0
               ? "not judged"
               : arena_printf(a, "not judged (%s)", r->why);
  if (note == UINT32_MAX)
    return arena_printf(a, "%s (%s; %s)", verified_word(r), quote_str(r->of).s, r->bounds);
  const char *of = r->output ? arena_printf(a, " (%s)", quote_str(r->of).s) : "";
  return j->n == 1 ? arena_printf(a, "%s%s", verified_word(r), of)
                   : arena_printf(a, "%s%s [%u]", verified_word(r), of, note + 1);
}

static void print_row(const struct verified *f, const struct verified_row *r,
                      const struct names *names, uint32_t i, const char *verdict) {
  print_figures(names, i, &r->figures);
  printf("  %s", verdict);
  if (r->top1_rows) {
    char top1[160];
    snprintf(top1, sizeof top1, "top-1 changes in %s of %s row%s%s%s", decimal(r->top1_changed).s,
             decimal(r->top1_rows).s, plural(r->top1_rows), has_cases(f, r) ? " of all cases" : "",
             verified_ties(r->top1_ties).s);
    const int columns = names->width + FIGURES + 2 + columns_of(verdict) + 2 + columns_of(top1);
    printf("%s%s", columns > LINE ? "\n  " : ", ", top1);
  }
  printf("\n");
}

static const char verdict_head[] = "  verdict";

// Verdicts of the rows, and how wide the widest is, with the two columns before it.
static int verdicts_of(const struct verified_row *const *list, uint32_t n, struct judged *j,
                       bool alone, const char **verdicts, struct arena *a) {
  int most = columns_of(verdict_head);
  for (uint32_t i = 0; i < n; i++) {
    verdicts[i] = verdict_of(list[i], j, alone ? UINT32_MAX : judged_by(j, list[i]), a);
    most = larger(most, 2 + columns_of(verdicts[i]));
  }
  return most;
}

void render_verified_rows(const struct verified *f, struct arena *a) {
  const struct verified_row **list = arena_alloc(a, (f->n_rows + (size_t)1) * sizeof *list);
  const char *verdicts[ROWS_SHOWN];
  const char *title = strcmp(f->scope, "model") == 0 ? "output" : "site";
  uint32_t n = 0;
  for (uint32_t i = 0; i < f->n_rows; i++)
    if (has_figures(&f->rows[i])) list[n++] = &f->rows[i];
  qsort(list, n, sizeof *list, worse_first);
  const uint32_t shown = n < ROWS_SHOWN ? n : ROWS_SHOWN;
  struct names names = names_begin(shown, a);
  for (uint32_t i = 0; i < shown; i++)
    names_add(&names, list[i]->name, a);
  if (n == 0) return;
  struct judged judged = {.unjudged = verified_shown(f).unjudged};
  uint32_t rows = 0;
  for (uint32_t i = 0; i < shown; i++)
    rows += judged_by(&judged, list[i]) != UINT32_MAX;
  bool alone = judged.n == rows; // each its own, and there is room for it
  int verdict = verdicts_of(list, shown, &judged, alone, verdicts, a);
  if (alone && rows && names_longest(&names) + FIGURES + verdict > LINE) {
    alone = false;
    verdict = verdicts_of(list, shown, &judged, alone, verdicts, a);
  }
  names_fit(&names, title, verdict);
  print_head(names.width, title, verdict_head);
  for (uint32_t i = 0; i < shown && report_stdout_alive(); i++)
    print_row(f, list[i], &names, i, verdicts[i]);
  print_shared(&names);
  for (uint32_t k = 0; !alone && k < judged.n; k++) {
    const struct verified_row *r = judged.first[k];
    if (judged.n == 1)
      printf("bound: ");
    else
      printf("[%u] ", k + 1);
    printf("%s%s%s\n", r->output ? "" : quote_str(r->of).s, r->output ? "" : "; ", r->bounds);
  }
  if (shown < n) printf("the %u with the least SQNR of %u; --json lists all\n", shown, n);
}

// ---- layers ------------------------------------------------------------------------------------

// By how many dB the layer is worse than the one that is listed before it.
static double drop_of(const struct verified *f, uint32_t layer) {
  const double most = 200; // so good, or so bad, that more is no difference
  double db[2] = {most, f->layers[layer].figures.sqnr_db};
  if (layer) db[0] = f->layers[layer - 1].figures.sqnr_db;
  for (int i = 0; i < 2; i++)
    db[i] = isnan(db[i]) ? most : fmax(-most, fmin(db[i], most));
  return db[0] - db[1];
}

struct drop {
  double db;
  uint32_t layer;
};
static int larger_first(const void *pa, const void *pb) {
  const struct drop *a = pa, *b = pb;
  if (a->db != b->db) return a->db > b->db ? -1 : 1;
  return (a->layer > b->layer) - (a->layer < b->layer);
}
static int earlier_first(const void *pa, const void *pb) {
  const struct drop *a = pa, *b = pb;
  return (a->layer > b->layer) - (a->layer < b->layer);
}

void render_verified_layers(const struct verified *f, struct arena *a) {
  struct drop *list = arena_alloc(a, (f->n_layers + (size_t)1) * sizeof *list);
  uint32_t shown = f->n_layers;
  if (f->n_layers == 0) return;
  for (uint32_t i = 0; i < f->n_layers; i++)
    list[i] = (struct drop){drop_of(f, i), i};
  if (f->n_layers > ROWS_SHOWN) {
    shown = DROPS_SHOWN;
    qsort(list, f->n_layers, sizeof *list, larger_first);
    qsort(list, shown, sizeof *list, earlier_first);
  }
  struct names names = names_begin(shown, a);
  for (uint32_t i = 0; i < shown; i++)
    names_add(&names, f->layers[list[i].layer].node, a);
  names_fit(&names, "layer", 0);
  printf("layer by layer:\n");
  print_head(names.width, "layer", "");
  for (uint32_t i = 0; i < shown && report_stdout_alive(); i++) {
    print_figures(&names, i, &f->layers[list[i].layer].figures);
    printf("\n");
  }
  print_shared(&names);
  if (shown < f->n_layers)
    printf("the %u of %u layers where the SQNR drops most from one to the next; --json lists all\n",
           shown, f->n_layers);
}
