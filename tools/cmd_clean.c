// weir clean DIR: what interrupted runs left.
//
//   staging_scan ──▶ all that there is, listed ──(--yes)──▶ removed, one by one
//
// Everything is listed first and removed afterwards, so that the list is whole even if a removal
// fails, and so that the folder is not changed while it is read. What a running weir holds, and
// what is between two renames of a seal, is listed and stays. Data files that such a run has put in place under the
// names of its model, where no model uses them, are named with it: weir cannot tell for certain whose they are, so they
// stay too. Without --yes nothing is removed but what is left of folders whose output is all in place: nothing can be
// continued there.
// What cannot be removed is said, and does not keep the rest: the first one's code ends the command.
//
// The folder of a plan was not interrupted: its units wait for their members. The list names it as a plan; it is removed like the others.
//
// List and summary are the result, on standard output; with --json the document alone is.
#include "commands.h"
#include "shell_words.h"
#include "report.h"
#include "seal.h"
#include "staging.h"

#include "table.h"

#include <stdio.h>
#include <stdlib.h>

// A data file that a run has put in place, and that no model uses.
struct data_file {
  const char *name;
  uint64_t bytes;
  struct data_file *next;
};

struct leftover {
  const char *name, *resume, *orphan_of; // the last two may be NULL
  uint64_t bytes;
  bool locked, half_sealed, finished, planned, begun, removed;
  struct data_file *files; // they stay; whoever completes the run makes them part of its model
};

struct clean {
  struct arena arena;
  TABLE(struct leftover, rows);
  struct tally {
    uint64_t bytes;
    uint32_t runs, plans, data_files;
  } removable, removed;
  uint32_t active, unfinished; // what stays: held by a running weir; half in place
  uint32_t finished;           // removed whether it was asked for or not
};

static char *copy(struct arena *a, const char *s) {
  return s ? arena_string(a, span_str(s)) : NULL;
}

static bool is_removable(const struct leftover *l) {
  return !l->locked && !l->half_sealed;
}

static void count(struct tally *t, const struct leftover *l) {
  t->bytes += l->bytes;
  t->runs += !l->orphan_of && !l->finished && !l->planned;
  t->plans += l->planned;
  t->data_files += l->orphan_of != NULL;
}

static int note_leftover(void *ctx, const struct staging_found *found) {
  struct clean *c = ctx;
  struct leftover *l = TABLE_PUSH(c, rows);
  *l = (struct leftover){.name = copy(&c->arena, found->name),
                         .resume = copy(&c->arena, found->resume_command),
                         .orphan_of = copy(&c->arena, found->orphan_of),
                         .bytes = found->bytes,
                         .locked = found->locked,
                         .half_sealed = found->half_sealed,
                         .finished = found->finished,
                         .planned = found->planned,
                         .begun = found->begun};
  if (is_removable(l) && !l->finished) count(&c->removable, l);
  c->active += l->locked;
  c->unfinished += !l->locked && l->half_sealed;
  return 0;
}

// Folders are read in an order of their own.
static int compare_names(const void *pa, const void *pb) {
  const struct leftover *a = pa, *b = pb;
  return strcmp(a->name, b->name);
}

struct naming {
  struct clean *c;
  struct leftover *of;
};

static int note_file(void *ctx, const char *name, uint64_t bytes) {
  struct naming *n = ctx;
  for (size_t i = 0; i < n->c->n_rows; i++)
    if (strcmp(n->c->rows[i].name, name) == 0) return 0; // an orphan, with a row of its own
  struct data_file *f = arena_alloc(&n->c->arena, sizeof *f);
  struct data_file **at = &n->of->files;
  while (*at && strcmp((*at)->name, name) < 0)
    at = &(*at)->next;
  *f = (struct data_file){.name = copy(&n->c->arena, name), .bytes = bytes, .next = *at};
  *at = f;
  return 0;
}

static void note_files(struct clean *c, const char *dir) {
  for (size_t i = 0; i < c->n_rows; i++) {
    struct leftover *l = &c->rows[i];
    struct naming n = {c, l};
    if (!l->locked && !l->orphan_of) seal_left_each(dir, l->name, note_file, &n);
  }
}

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
  for (const struct data_file *f = l->files; f; f = f->next)
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

static void print_json(const struct clean *c, const char *dir, const struct err *failed) {
  struct json_out j = {.indent = 2};
  report_json_begin(&j);
  if (failed->kind != ERR_NONE) report_json_put_error(&j, failed);
  json_put_text(&j, "folder", dir);
  json_put_array(&j, "found");
  for (size_t i = 0; i < c->n_rows; i++) {
    const struct leftover *l = &c->rows[i];
    json_object(&j);
    json_put_text(&j, "name", l->name);
    json_put_uint(&j, "bytes", l->bytes);
    json_put_bool(&j, "locked", l->locked);
    json_put_bool(&j, "half_sealed", l->half_sealed);
    json_put_bool(&j, "plan", l->planned);
    json_put_text(&j, "resume", l->resume);
    json_put_text(&j, "orphan_of", l->orphan_of);
    json_put_array(&j, "data_files");
    for (const struct data_file *f = l->files; f; f = f->next) {
      json_object(&j);
      json_put_text(&j, "name", f->name);
      json_put_uint(&j, "bytes", f->bytes);
      json_end_object(&j);
    }
    json_end_array(&j);
    json_put_bool(&j, "removed", l->removed);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_end_object(&j);
  report_json_end(&j);
}

static void print_count(uint32_t n, const char *what, uint32_t before, uint32_t after) {
  if (n) printf("%s%u %s%s", before == 0 ? "" : after ? ", " : " and ", n, what, plural(n));
}

// "2 interrupted runs, 1 plan and 1 unused data file (598 MB)"
static void print_tally(const struct tally *t) {
  print_count(t->runs, "interrupted run", 0, t->plans + t->data_files);
  print_count(t->plans, "plan", t->runs, t->data_files);
  print_count(t->data_files, "unused data file", t->runs + t->plans, 0);
  printf(" (%s)", quote_bytes(t->bytes).s);
}

static void summarize(const struct clean *c, const char *dir, bool yes) {
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
    print_tally(&c->removable);
    printf("; remove with --yes\n");
  } else if (c->removed.runs + c->removed.plans + c->removed.data_files > 0) {
    printf("removed ");
    print_tally(&c->removed);
    printf("\n");
  }
}

// Goes on behind one that cannot be removed: 0, or the code of the first such.
static int remove_all(struct clean *c, const char *dir, bool yes) {
  int first = 0;
  for (size_t i = 0; i < c->n_rows; i++) {
    struct leftover *l = &c->rows[i];
    struct err why = {0};
    if (!is_removable(l) || (!yes && !l->finished)) continue;
    l->removed = staging_remove_named(dir, l->name, &why) == 0;
    if (l->removed) {
      if (!l->finished) count(&c->removed, l);
      c->finished += l->finished;
      continue;
    }
    report_error(&why);
    if (first == 0) first = (int)why.kind;
  }
  return first;
}

int cmd_clean(const struct cli_args *args, struct err *err) {
  const char *dir = cli_operand(args, "DIR");
  bool yes = cli_flag(args, OPT_YES), json = cli_flag(args, OPT_JSON);
  struct clean c = {0};
  int rc = staging_scan(dir, note_leftover, &c, err);
  const bool scanned = rc == 0;
  if (c.n_rows > 0) qsort(c.rows, c.n_rows, sizeof *c.rows, compare_names);
  if (scanned) note_files(&c, dir);
  if (scanned) rc = remove_all(&c, dir, yes);
  if (scanned && json) print_json(&c, dir, err);
  for (size_t i = 0; scanned && !json && i < c.n_rows; i++)
    print_leftover(&c.rows[i], dir, &c.arena);
  if (scanned && !json && !cli_flag(args, OPT_QUIET)) summarize(&c, dir, yes);
  TABLE_FREE(&c, rows);
  arena_free(&c.arena);
  return rc;
}
