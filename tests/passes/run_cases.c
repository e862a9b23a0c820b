// Golden cases of passes: run_cases [--update|--twice] FOLDER|CASE.case…
//
// --twice optimizes the model of each case instead, and then the result: the second time nothing may change.
//
// A case is a file of three parts, of which the first is written by hand and the others by --update:
//
//   # what it shows
//   pass conv2matmul:form=flat          as behind --pass; several lines: a pipeline
//   exactness zero                      the cap, where it is not the usual one
//   ir 8                                a model (graph_text.h)
//   …
//   ---- says
//   converted c converted_strict_mode w     a site a line: status, node, reason, weight
//   warning: …                          what the pass warned of, with its hint in brackets
//   error 2: …                          how it ended, if it failed: the exit code and the sentence
//   limit 1000                          what else came of it: a limit of the output
//   held back 1
//   rounds 2                            of a step that is repeated
//   ---- after
//   …                                   the model then; "unchanged" if no edit was made
//
// The pass is run through the catalogue, by the same driver as the program's (pass_run.h), which checks
// the structure of the model behind every step; the tables' invariants are checked as well. Given a
// folder, every pass of the catalogue must have a case in the folder of its name below it; of passes
// that come from one template of rules (`{F}`), one of them.
#include "check/check.h"
#include "graph_text.h"
#include "passes/catalogue/passes.h"
#include "passes/rules/rules.h"
#include "pipeline/pass_run.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct one {
  struct model m;
  struct recipes r;
  struct edits e;
  struct pipeline p;
  struct arena arena;
  const struct graph_text_kept *kept;
  char *says;       // lines
  uint64_t n_edits; // --twice: of the first time
};

// ---- one case ----------------------------------------------------------------------------------

static void say(struct one *c, const char *line) {
  c->says = arena_printf(&c->arena, "%s%s\n", c->says, line);
}

static void note_site(void *ctx, const struct pass_site *s) {
  struct one *c = ctx;
  const char *name = arena_string(&c->arena, s->node_name);
  const char *weight = s->tensor.at ? arena_string(&c->arena, s->tensor) : "";
  say(c, arena_printf(&c->arena, "%s %s %s%s%s%s", s->status, *name ? name : "-", s->reason,
                      *weight ? " " : "", weight, s->fact.holds ? " !" : ""));
}

static void note_warning(void *ctx, const char *sentence, const char *hint) {
  struct one *c = ctx;
  say(c, arena_printf(&c->arena, hint ? "warning: %s (%s)" : "warning: %s", sentence, hint));
}

static int read_kept(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err) {
  const struct one *c = ctx;
  for (const struct graph_text_kept *k = c->kept; k; k = k->next)
    if (k->tensor == tensor && k->elements.n >= n) {
      memcpy(out, k->elements.at, n);
      return 0;
    }
  return err_set(err, ERR_INPUT, "the case does not say what tensor %u holds", tensor);
}

// Elements of any tensor: small numbers of any type.
static int read_anything(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err) {
  enum { SMALL = 0x3c };
  struct err none = {0};
  (void)err;
  if (read_kept(ctx, tensor, out, n, &none)) memset(out, SMALL, n);
  return 0;
}

// The lines of the head that are about the run; those of the model stay, each where it was, so that
// numbers of lines are right.
static int read_head(struct one *c, const char *head, const char **model, struct err *err) {
  char *rest = arena_string(&c->arena, span_str(head)), *line;
  char *out = arena_zalloc(&c->arena, strlen(head) + 2);
  *model = out;
  while ((line = strsep(&rest, "\n"))) {
    if (strncmp(line, "pass ", 5) == 0) {
      if (pipeline_add_text(&c->p, line + 5, err)) return -1;
      line = arena_string(&c->arena, span_str(""));
    } else if (strncmp(line, "exactness ", 10) == 0) {
      c->p.exactness = exactness_by_name(span_str(line + 10));
      if (c->p.exactness == EXACTNESSES)
        return err_set(err, ERR_USAGE, "no such exactness: %s", line + 10);
      line = arena_string(&c->arena, span_str(""));
    }
    out = stpcpy(out, line);
    if (rest) *out++ = '\n';
  }
  return c->p.n_steps ? 0 : err_set(err, ERR_USAGE, "the case has no line 'pass NAME'");
}

static struct pass_run run_of(struct one *c) {
  return (struct pass_run){.pipeline = &c->p,
                           .env = {.m = &c->m,
                                   .edits = &c->e,
                                   .site = note_site,
                                   .site_ctx = c,
                                   .warn = note_warning,
                                   .warn_ctx = c,
                                   .read = read_kept,
                                   .read_ctx = c,
                                   .files.ranges = side_inputs_ranges,
                                   .files.file = side_inputs_text,
                                   .files.ctx = &c->p.files},
                           .bare = true};
}

// The second and third part, or NULL with err: the case itself is wrong.
// `folder`: where files lie that options name.
static const char *outcome(struct one *c, const char *head, const char *folder, struct err *err) {
  const char *model, *after = "unchanged\n";
  struct err why = {0};
  struct check_found found;
  if (read_head(c, head, &model, err) || pipeline_read_files(&c->p, folder, err) ||
      graph_text_read(&c->m, model, &c->kept, &c->arena, err) ||
      check_structure(&c->m, NULL, &found, err))
    return NULL;
  edits_init(&c->e, &c->m, &c->r);
  struct pass_run run = run_of(c);
  run.flaws = found.warnings;
  if (pass_run(&run, &c->arena, &why)) {
    say(c, arena_printf(&c->arena, "error %d: %s", (int)why.kind, why.msg));
    after = "\n"; // what a failed run leaves is thrown away
  } else {
    build_check(&c->m);
    if (c->e.n) after = graph_text_write(&c->e, &c->arena);
  }
  if (run.output_limit)
    say(c, arena_printf(&c->arena, "limit %llu", (unsigned long long)run.output_limit));
  for (uint32_t i = 0; i < c->p.n_steps; i++) {
    if (run.steps[i].held_back)
      say(c, arena_printf(&c->arena, "held back %llu", (unsigned long long)run.steps[i].held_back));
    if (c->p.steps[i].repeat != NO_ID)
      say(c, arena_printf(&c->arena, "rounds %u", run.steps[i].rounds));
  }
  return arena_printf(&c->arena, "---- says\n%s---- after\n%s", c->says, after);
}

static char *read_all(const char *path, struct arena *a) {
  struct stat st;
  FILE *f = fopen(path, "re");
  if (!f || fstat(fileno(f), &st)) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(2);
  }
  char *text = arena_zalloc(a, (size_t)st.st_size + 1);
  if (fread(text, 1, (size_t)st.st_size, f) != (size_t)st.st_size) exit(2);
  fclose(f);
  return text;
}

// From the first line that differs on.
static void print_difference(const char *want, const char *got) {
  while (*want && *got) {
    const size_t a = strcspn(want, "\n"), b = strcspn(got, "\n");
    if (a != b || memcmp(want, got, a) != 0) break;
    want += a + (want[a] == '\n');
    got += b + (got[b] == '\n');
  }
  printf("-- wanted, from the first difference on:\n%s-- got:\n%s", want, got);
}

// One time, on the model as it is; what it says is of this time only.
static int optimize(struct one *c, uint32_t flaws, struct err *err) {
  struct pass_run run = run_of(c);
  run.env.read = read_anything;
  run.flaws = flaws;
  c->says = "";
  pipeline_free(&c->p);
  pipeline_init(&c->p);
  if (pipeline_add_text(&c->p, "optimize", err) || pipeline_add_text(&c->p, "infer", err))
    return -1;
  return pass_run(&run, &c->arena, err);
}

static int optimize_twice(struct one *c, const char *head, struct err *err) {
  struct check_found found;
  const char *model;
  if (read_head(c, head, &model, err) || graph_text_read(&c->m, model, &c->kept, &c->arena, err))
    return -1;
  edits_init(&c->e, &c->m, &c->r);
  if (check_structure(&c->m, NULL, &found, err) || optimize(c, found.warnings, err)) return -1;
  c->n_edits = c->e.n;
  return optimize(c, found.warnings, err);
}

static void begin_case(struct one *c) {
  *c = (struct one){.says = ""};
  recipes_init(&c->r);
  pipeline_init(&c->p);
}

static void end_case(struct one *c) {
  edits_free(&c->e);
  recipes_free(&c->r);
  model_free(&c->m);
  pipeline_free(&c->p);
  arena_free(&c->arena);
}

static const char *head_of(struct one *c, const char *all, const char **cut) {
  *cut = strstr(all, "---- says\n");
  return arena_string(&c->arena, *cut ? span_of(all, (size_t)(*cut - all)) : span_str(all));
}

static bool run_twice(const char *path) {
  struct one c;
  struct err err = {0};
  const char *cut;
  begin_case(&c);
  // A model that no runtime would load is none to optimize.
  const int rc = optimize_twice(&c, head_of(&c, read_all(path, &c.arena), &cut), &err);
  const bool good = rc != 0 || c.e.n == c.n_edits;
  if (rc) printf("not optimized: %s: %s\n", path, err.msg);
  if (!good)
    printf("FAILED %s: the second time %llu edits\n%s", path,
           (unsigned long long)(c.e.n - c.n_edits), c.says);
  end_case(&c);
  return good;
}

static bool run_case(const char *path, bool update) {
  struct one c;
  struct err err = {0};
  bool good = true;
  const char *cut;
  begin_case(&c);
  const char *head = head_of(&c, read_all(path, &c.arena), &cut);
  const char *got = outcome(&c, head, arena_folder(&c.arena, path), &err);
  if (!got) {
    printf("FAILED %s: %s\n", path, err.msg);
    good = false;
  } else if (!cut || strcmp(cut, got) != 0) {
    if (update) {
      FILE *f = fopen(path, "we");
      good = f && fprintf(f, "%s%s", head, got) > 0;
      if (f && fclose(f)) good = false;
      printf("%s %s\n", good ? "updated" : "FAILED to write", path);
    } else {
      printf("FAILED %s\n", path);
      print_difference(cut ? cut : "", got);
      good = false;
    }
  }
  end_case(&c);
  return good;
}

// ---- all of them -------------------------------------------------------------------------------

struct list {
  TABLE(char *, paths);
  struct arena arena;
};

static bool is_case(const char *name) {
  const size_t n = strlen(name);
  return n > 5 && strcmp(name + n - 5, ".case") == 0;
}

// In order of their names, so that the output is. Folders nest as families do.
static void collect(struct list *l, const char *path) {
  struct stat st;
  if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
    if (is_case(path)) *TABLE_PUSH(l, paths) = arena_string(&l->arena, span_str(path));
    return;
  }
  struct dirent **entries;
  const int n = scandir(path, &entries, NULL, alphasort);
  for (int i = 0; i < n; i++) {
    if (entries[i]->d_name[0] != '.')
      collect(l, arena_printf(&l->arena, "%s/%s", path, entries[i]->d_name));
    free(entries[i]);
  }
  if (n >= 0) free(entries);
}

static bool has_case(const char *folder, const char *pass) {
  struct list l = {0};
  collect(&l, arena_printf(&l.arena, "%s/%s", folder, pass));
  const bool has = l.n_paths > 0;
  TABLE_FREE(&l, paths);
  arena_free(&l.arena);
  return has;
}

static bool template_has_case(const char *folder, const char *pass) {
  const uint32_t rule = rules_named(&rules_house, span_str(pass));
  if (rule == NO_ID) return false;
  const char *template = rules_template(&rules_house, rule);
  for (uint32_t other = 0; other < rules_n_passes(&rules_house); other++)
    if (strcmp(rules_template(&rules_house, other), template) == 0 &&
        has_case(folder, rules_about(&rules_house, other).name))
      return true;
  return false;
}

// How many passes have no case.
static unsigned check_all(const char *folder) {
  unsigned missing = 0;
  for (uint32_t i = 0; i < passes_count(NULL); i++) {
    const char *name = passes_at(NULL, i)->name;
    if (has_case(folder, name) || template_has_case(folder, name)) continue;
    printf("FAILED: the pass '%s' has no case in %s/%s\n", name, folder, name);
    missing++;
  }
  return missing;
}

int main(int argc, char **argv) {
  struct list l = {0};
  struct stat st;
  unsigned failed = 0;
  const bool update = argc > 1 && strcmp(argv[1], "--update") == 0;
  const bool twice = argc > 1 && strcmp(argv[1], "--twice") == 0;
  for (int i = update || twice ? 2 : 1; i < argc; i++) {
    collect(&l, argv[i]);
    if (!twice && stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode)) failed += check_all(argv[i]);
  }
  for (uint32_t i = 0; i < l.n_paths; i++)
    failed += twice ? !run_twice(l.paths[i]) : !run_case(l.paths[i], update);
  printf("%u cases, %u failed\n", l.n_paths, failed);
  const bool none = l.n_paths == 0;
  TABLE_FREE(&l, paths);
  arena_free(&l.arena);
  return failed > 0 || none;
}
