// The list of what interrupted runs left, and its summary.
#include "render/results/render_leftovers.h"

#include "base/shell_words.h"
#include "cli/report.h"

#include <stdio.h>

// The command comes from a file: it is printed whole, to be pasted, or not at all.
static bool is_printable(const char *text) {
  struct span s = span_str(text);
  while (s.n > 0) {
    uint32_t c;
    size_t n = utf8_length(s, &c);
    if (n == 0 || utf8_steers_terminal(c)) return false;
    s = span_of(s.at + n, s.n - n);
  }
  return true;
}

static void print_resume(const char *what, const char *command) {
  if (is_printable(command))
    printf("    %s: %s\n", what, command);
  else
    printf("    %s: run the same command again\n", what);
}

static void print_files(const struct leftover *l) {
  if (!l->files) return;
  printf(l->half_sealed ? "    in place already, but not used by a model: "
                        : "    it may have left these data files, which no model uses: ");
  for (const struct leftover_file *f = l->files; f; f = f->next)
    printf("%s (%s)%s", quote_str(f->name).s, quote_bytes(f->bytes).s, f->next ? ", " : "\n");
}

// Who carries out a plan names its folder.
static void print_plan(const struct leftover *l, const char *dir, struct arena *a) {
  const char *path = strcmp(dir, ".") == 0
                         ? l->name
                         : arena_printf(a, "%s%s%s", dir, str_ends(dir, "/") ? "" : "/", l->name);
  printf(l->begun
             ? "    an unfinished plan; its progress: weir status %s\n"
             : "    a plan without a finished unit; to make all units: weir shard %s --count 1\n",
         shell_words_quote(path, a));
}

static void print_leftover(const struct leftover *l, const char *dir, struct arena *a) {
  printf("%s  %s%s\n", quote_str(l->name).s, quote_bytes(l->bytes).s,
         l->removed ? "  removed" : "");
  print_files(l);
  if (l->removed && l->finished) printf("    it was left by a run whose output is in place\n");
  if (l->removed) return;
  if (l->locked)
    printf("    in use by a running weir\n");
  else if (l->finished)
    printf("    left by a run whose output is in place\n");
  else if (l->half_sealed && l->resume)
    print_resume("the output is complete but not all of it is in place; to finish", l->resume);
  else if (l->half_sealed)
    printf("    the output is complete but not all of it is in place; run the same command again "
           "to finish\n");
  else if (l->orphan_of)
    printf("    a data file written for '%s', which does not use it\n", quote_str(l->orphan_of).s);
  else if (l->planned)
    print_plan(l, dir, a);
  else if (l->resume)
    print_resume("continue", l->resume);
}

static void print_count(uint32_t n, const char *what, uint32_t before, uint32_t after) {
  if (n) printf("%s%u %s%s", before == 0 ? "" : after ? ", " : " and ", n, what, plural(n));
}

// "2 interrupted runs, 1 plan and 1 unused data file (598 MB)"
static void print_total(const struct leftovers_sum *t) {
  print_count(t->runs, "interrupted run", 0, t->plans + t->data_files);
  print_count(t->plans, "plan", t->runs, t->data_files);
  print_count(t->data_files, "unused data file", t->runs + t->plans, 0);
  printf(" (%s)", quote_bytes(t->bytes).s);
}

static void summarize(const struct leftovers *c, const char *dir, bool yes) {
  const uint32_t removable = c->removable.runs + c->removable.plans + c->removable.data_files;
  if (c->n_rows == 0) {
    printf("no interrupted runs in '%s'\n", quote_str(dir).s);
  } else if (removable == 0 && c->active + c->unfinished == 0) {
    printf("no interrupted runs in '%s' any more\n", quote_str(dir).s);
  } else if (removable == 0) {
    const char *why = c->unfinished == 0 ? "still active" : "to be finished first";
    const uint32_t n = c->active + c->unfinished;
    printf("%s (%s %s)\n", yes ? "nothing removed" : "nothing can be removed now",
           n == 1 ? "the run is" : "the runs are", why);
  } else if (!yes) {
    print_total(&c->removable);
    printf("; remove with --yes\n");
  } else if (c->removed.runs + c->removed.plans + c->removed.data_files > 0) {
    printf("removed ");
    print_total(&c->removed);
    printf("\n");
  }
}

void render_leftovers(struct leftovers *c, const char *dir, bool yes, bool quiet) {
  for (size_t i = 0; i < c->n_rows; i++)
    print_leftover(&c->rows[i], dir, &c->arena);
  if (!quiet) summarize(c, dir, yes);
}
