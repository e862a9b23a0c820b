// weir clean DIR: what interrupted runs left.
//
//   staging_scan ──▶ all that there is, listed ──(--yes)──▶ removed, one by one
//
// Everything is listed first and removed afterwards, so that the list is whole even if a removal
// fails, and so that the folder is not changed while it is read. What a running weir holds, and
// what is between two renames of a seal, is listed and stays. Without --yes nothing is removed.
#include "commands.h"
#include "report.h"
#include "staging.h"

#include "table.h"

#include <stdio.h>
#include <stdlib.h>

struct leftover {
  const char *name, *resume, *orphan_of; // the last two may be NULL
  uint64_t bytes;
  bool locked, half_sealed, removed;
};

struct clean {
  struct arena arena;
  TABLE(struct leftover, rows);
  uint64_t bytes; // of what can be removed
  size_t removable;
};

static char *copy(struct arena *a, const char *s) {
  return s ? arena_string(a, span_str(s)) : NULL;
}

static bool is_removable(const struct leftover *l) {
  return !l->locked && !l->half_sealed;
}

static int note_leftover(void *ctx, const struct staging_found *found) {
  struct clean *c = ctx;
  struct leftover *l = TABLE_PUSH(c, rows);
  *l = (struct leftover){.name = copy(&c->arena, found->name),
                         .resume = copy(&c->arena, found->resume_command),
                         .orphan_of = copy(&c->arena, found->orphan_of),
                         .bytes = found->bytes,
                         .locked = found->locked,
                         .half_sealed = found->half_sealed};
  if (is_removable(l)) {
    c->bytes += l->bytes;
    c->removable++;
  }
  return 0;
}

// Folders are read in an order of their own.
static int compare_names(const void *pa, const void *pb) {
  const struct leftover *a = pa, *b = pb;
  return strcmp(a->name, b->name);
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
    printf("    %s: run the same command again with --resume\n", what);
}

static void print_leftover(const struct leftover *l) {
  printf("%s  %s%s\n", quote_str(l->name).s, quote_bytes(l->bytes).s,
         l->removed ? "  removed" : "");
  if (l->removed) return;
  if (l->locked)
    printf("    in use by a running weir\n");
  else if (l->half_sealed && l->resume)
    print_resume("its last renames are unfinished; to finish", l->resume);
  else if (l->half_sealed)
    printf("    its last renames are unfinished\n");
  else if (l->orphan_of)
    printf("    a data file made for '%s', which does not name it\n", quote_str(l->orphan_of).s);
  else if (l->resume)
    print_resume("to go on", l->resume);
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
    json_put_text(&j, "resume", l->resume);
    json_put_text(&j, "orphan_of", l->orphan_of);
    json_put_bool(&j, "removed", l->removed);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_end_object(&j);
  report_json_end(&j);
}

static void summarize(const struct clean *c, const char *dir, bool removed) {
  if (c->n_rows == 0)
    report_notice("nothing is left over in '%s'", quote_str(dir).s);
  else if (removed)
    report_notice("%zu removed, %s", c->removable, quote_bytes(c->bytes).s);
  else if (c->removable == 0)
    report_notice("%u left over, none that can be removed now", c->n_rows);
  else {
    report_notice("%u left over, %zu of them (%s) can be removed", c->n_rows, c->removable,
                  quote_bytes(c->bytes).s);
    report_hint("--yes removes them");
  }
}

int cmd_clean(const struct cli_args *args, struct err *err) {
  const char *dir = cli_operand(args, "DIR");
  bool yes = cli_flag(args, OPT_YES), json = cli_flag(args, OPT_JSON);
  struct clean c = {0};
  int rc = staging_scan(dir, note_leftover, &c, err);
  bool scanned = rc == 0;
  if (c.n_rows > 0) qsort(c.rows, c.n_rows, sizeof *c.rows, compare_names);
  for (size_t i = 0; scanned && yes && rc == 0 && i < c.n_rows; i++) {
    struct leftover *l = &c.rows[i];
    if (!is_removable(l)) continue;
    rc = staging_remove_named(dir, l->name, err);
    l->removed = rc == 0;
  }
  if (scanned && json) print_json(&c, dir, err);
  for (size_t i = 0; scanned && !json && i < c.n_rows; i++)
    print_leftover(&c.rows[i]);
  if (rc == 0) summarize(&c, dir, yes);
  TABLE_FREE(&c, rows);
  arena_free(&c.arena);
  return rc;
}
