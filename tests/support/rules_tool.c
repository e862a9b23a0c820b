// Runs the rules of one book on a model, for tests that compare the models before and after:
//
//   rules_tool PASSES LEVEL IN.onnx OUT.onnx [options of weir run]
//   rules_tool list
//   rules_tool serve
//
// `serve` takes what would be the command's words line by line from standard input, without quotes,
// and ends each answer with {"done":exit code}: tests of thousands of models start one process.
//
// PASSES: names joined by commas, or "all". LEVEL: exact, zero, rounding, finite. Prints a JSON
// object for each pass that fired or was held back and one for each rule that fired, and warnings
// on standard error. RULES_FUEL in the environment: rewrites at one place. The book is RULES_BOOK, given by the build.
#include "cli/cli.h"
#include "cli/report.h"
#include "execute/execution.h"
#include "execute/execution_look.h"
#include "execute/execution_stage.h"
#include "passes/rules/rules.h"
#include "request/cli_request.h"

#include <stdlib.h>
#include <unistd.h>

extern const struct rules_book RULES_BOOK;

static void warn(void *ctx, const char *sentence, const char *hint) {
  (void)ctx;
  fprintf(stderr, "warning: %s\nhint: %s\n", sentence, hint ? hint : "");
}

static int list(void) {
  for (uint32_t p = 0; p < rules_n_passes(&RULES_BOOK); p++) {
    const struct rules_about about = rules_about(&RULES_BOOK, p);
    printf("%s\t%s\t%s\t%s\n", about.name, exactness_name(about.exactness), about.keys,
           about.summary);
  }
  return 0;
}

static bool wanted(const char *words, const char *name) {
  const size_t n = strlen(name);
  for (const char *at = words; (at = strstr(at, name)) != NULL; at += n)
    if ((at == words || at[-1] == ',') && (at[n] == ',' || at[n] == '\0')) return true;
  return strcmp(words, "all") == 0;
}

static int apply(const char *words, const char *level, const struct request *request,
                 struct err *err) {
  const uint32_t n = rules_n_passes(&RULES_BOOK);
  bool *passes = calloc(n + 1, sizeof *passes);
  struct rules_counts *counts = calloc(n + 1, sizeof *counts);
  for (uint32_t p = 0; p < n; p++)
    passes[p] = wanted(words, rules_about(&RULES_BOOK, p).name);
  uint64_t *by_rule = calloc(rules_count(&RULES_BOOK) + 1, sizeof *by_rule);
  struct execution exec;
  struct arena scratch = {0};
  int rc = execution_open(&exec, request, err);
  if (rc != 0) return rc;
  struct pass_env env = {.m = &exec.model,
                         .edits = &exec.edits,
                         .scratch = &scratch,
                         .warn = warn,
                         .ask = execution_stage_ask,
                         .ask_ctx = &exec,
                         .read = execution_look,
                         .read_ctx = &exec};
  const char *fuel = getenv("RULES_FUEL");
  const struct rules_options options = {.passes = passes,
                                        .cap = exactness_by_name(span_str(level)),
                                        .counts = counts,
                                        .by_rule = by_rule,
                                        .fuel = fuel ? (uint32_t)atoi(fuel) : 0};
  rc = execution_begin_edits(&exec, "rules", "{}", err);
  if (rc == 0) rc = rules_run(&RULES_BOOK, &env, "rules", &options, err);
  if (rc == 0) rc = execution_finish(&exec, err);
  execution_close(&exec);
  arena_free(&scratch);
  for (uint32_t p = 0; p < n && rc == 0; p++)
    if (counts[p].fired + counts[p].held > 0)
      printf("{\"pass\":\"%s\",\"fired\":%llu,\"held\":%llu}\n", rules_about(&RULES_BOOK, p).name,
             (unsigned long long)counts[p].fired, (unsigned long long)counts[p].held);
  for (uint32_t r = 0; r < rules_count(&RULES_BOOK) && rc == 0; r++)
    if (by_rule[r] > 0)
      printf("{\"rule\":\"%s\",\"fired\":%llu}\n", rules_place_of(&RULES_BOOK, r),
             (unsigned long long)by_rule[r]);
  free(by_rule);
  free(passes);
  free(counts);
  return rc;
}

// One model, with the words as they stand behind the program's name.
static int one(int argc, char **argv) {
  struct cli_args args;
  struct err err = {0};
  if (argc < 5 || exactness_by_name(span_str(argv[2])) == EXACTNESSES) return 2;
  char *words[64] = {argv[0], "run", "--quiet"};
  int n = 3;
  for (int i = 3; i < argc && n < 64; i++)
    words[n++] = argv[i];
  int rc = cli_parse(&args, n, words, &err);
  if (rc == 0) {
    report_open(true, false);
    struct request request;
    struct arena arena = {0};
    cli_request(&request, &args, NULL, &report_observer, &arena);
    rc = apply(argv[1], argv[2], &request, &err);
    arena_free(&arena);
    observer_end(&report_observer);
  }
  if (rc < 0) fprintf(stderr, "%s\n", err.msg);
  cli_free(&args);
  return rc < 0 ? (int)err.kind : rc;
}

static int serve(char *program) {
  char *line = NULL, *word, *rest;
  size_t room = 0;
  while (getline(&line, &room, stdin) > 0) {
    char *words[64] = {program};
    int n = 1;
    for (word = strtok_r(line, " \n", &rest); word && n < 64; word = strtok_r(NULL, " \n", &rest))
      words[n++] = word;
    printf("{\"done\":%d}\n", one(n, words));
    fflush(stdout);
  }
  free(line);
  return 0;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "list") == 0) return list();
  if (argc == 2 && strcmp(argv[1], "serve") == 0) return serve(argv[0]);
  return one(argc, argv);
}
