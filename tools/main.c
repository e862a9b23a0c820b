// weir: reads the command line, calls the command, and turns what came of it into messages and an
// exit code. Nothing else in the program exits.
//
//   cli_parse ──▶ cmd_<stem>(args, err) ──▶ 0: done
//                                           n > 0: exit code n; the command has said why
//                                           -1: err says why; its kind is the exit code
//                                           a signal came meanwhile: it ends us, once all is said
#include "base/arena.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/help/help.h"
#include "cli/help/topics.h"
#include "cli/hints.h"
#include "cli/report.h"
#include "execute/execution.h"
#include "platform/machine.h"
#include "platform/maps.h"
#include "platform/stops.h"
#include "request/cli_request.h"
#include "resources/resources.h"

#include <string.h>

static int (*const commands[CLI_COMMANDS])(const struct cli_args *, struct err *) = {
#define COMMAND(stem, ...) cmd_##stem,
#include "cli/commands.def"
};

// Not even the error could be told as it should be.
static _Noreturn void out_of_memory(size_t bytes) {
  struct err err = {0};
  err_fill(&err, ERR_NO_MEMORY, "the system refused %s more memory", quote_bytes(bytes).s);
  report_error(&err);
  process_end(ERR_NO_MEMORY);
}

// Tables of 128 KiB and more have a mapping of their own, so that they grow without being copied
// (arena.c).
static void set_memory_up(struct resources *r) {
  resources_on_exhausted(out_of_memory);
  resources_open(r);
  resources_use(r);
  heap_apart_from(128 << 10);
}

static int generate(const struct cli_args *args, struct err *err) {
  const char *kind = args->operand[0];
  if (kind[0] == 'm') return manpage_write_all(args->operand[1], err);
  if (kind[0] == 'j') {
    struct json_out j = {.indent = 2};
    tables_write(&j);
    report_json_print(&j);
    return 0;
  }
  (kind[0] == 'b' ? completion_bash : kind[0] == 'z' ? completion_zsh : completion_fish)(stdout);
  return 0;
}

// In the order of the option's words.
static enum report_progress progress_of(const struct cli_args *args) {
  if (!cli_option_belongs(OPT_PROGRESS, args->command)) return REPORT_PROGRESS_AUTO;
  const char *word = cli_string(args, OPT_PROGRESS);
  struct span choice;
  if (!word) return REPORT_PROGRESS_EAGER;
  for (uint32_t k = 0; (choice = cli_choice(cli_option_row(OPT_PROGRESS), k, true)).n > 0; k++)
    if (span_is(choice, word)) return (enum report_progress)k;
  return REPORT_PROGRESS_AUTO;
}

static const char *model_of(const struct cli_args *args) {
  static const char *const names[] = {"IN", "MODEL", "MODEL|DIR"};
  const char *model = NULL;
  for (size_t i = 0; !model && i < sizeof names / sizeof *names; i++)
    model = cli_operand(args, names[i]);
  return model;
}

// Was a document asked for? Also where the command line could not be read to its end.
static bool wants_json(const struct cli_args *args) {
  for (int i = 2; args->command != CLI_COMMANDS && i < args->argc; i++)
    if (strcmp(args->argv[i], "--json") == 0) return true;
  return false;
}

static void print_help(const struct cli_args *args) {
  const bool all = args->action == CLI_HELP_ALL, brief = args->action == CLI_HELP_SHORT;
  if (args->command == CLI_COMMANDS)
    help_overview(stdout, all ? HELP_ALL : brief ? HELP_SHORT : HELP_FULL);
  else if (brief)
    help_screen(stdout, args->command);
  else
    help_command(stdout, args->command, all);
}

// A word may be both, as 'targets' is: the topic comes first.
static int print_help_about(const struct cli_args *args, struct err *err) {
  const char *word = args->operand[0];
  const uint32_t topic = topics_find(args->operand, args->n_operands);
  const enum cli_command command = cli_command_by_name(word);
  if (command == CLI_COMMANDS && topics_find(args->operand, 1) == TOPICS_NONE)
    return topics_unknown(word, err);
  if (args->n_operands > 1 && topic == TOPICS_NONE)
    return err_set(err, ERR_USAGE, "unexpected argument '%s': usage is 'weir help COMMAND|TOPIC'",
                   quote_str(args->operand[1]).s);
  if (topic != TOPICS_NONE) topics_print(stdout, topic);
  if (topic != TOPICS_NONE && command != CLI_COMMANDS) fputc('\n', stdout);
  if (command != CLI_COMMANDS) help_command(stdout, command, false);
  return 0;
}

static int act(const struct cli_args *args, struct err *err) {
  int rc;
  switch (args->action) {
  case CLI_RUN:
    report_open(cli_flag(args, OPT_QUIET), progress_of(args));
    if (cli_flag(args, OPT_COLOR) || cli_flag(args, OPT_NO_COLOR))
      report_colour(cli_flag(args, OPT_COLOR));
    hints_for(args);
    report_about(cli_command_row(args->command)->name, model_of(args));
    rc = commands[args->command](args, err);
    observer_end(&report_observer);
    return rc;
  case CLI_HELP_SHORT:
  case CLI_HELP:
  case CLI_HELP_ALL: print_help(args); return 0;
  case CLI_HELP_ABOUT: return print_help_about(args, err);
  case CLI_NOTHING: help_overview(stderr, HELP_SHORT); return ERR_USAGE;
  case CLI_VERSION: version_print(stdout); return 0;
  case CLI_LICENSES: version_print_licenses(stdout); return 0;
  case CLI_GENERATE: return generate(args, err);
  }
  return 0;
}

static int fail(const struct cli_args *args, const struct err *err) {
  report_error(err);
  if (wants_json(args)) report_json_error(err, cli_request_indent(args));
  return err->kind == ERR_NONE ? ERR_INTERNAL : (int)err->kind;
}

// Did the command write a model and then fail to say so?
static bool has_written(const struct cli_args *args) {
  return args->action == CLI_RUN && args->command != CLI_COMMANDS &&
         cli_option_belongs(OPT_OUTPUT, args->command) && !cli_flag(args, OPT_DRY_RUN) &&
         !(args->command == CLI_shrink && cli_flag(args, OPT_INFO));
}

struct words {
  int argc;
  char **argv;
  struct cli_args args;
};

static int carry_out(void *ctx, struct err *err) {
  struct words *w = ctx;
  struct cli_args *args = &w->args;
  const int rc = cli_parse(args, w->argc, w->argv, err);
  report_about(args->command == CLI_COMMANDS ? NULL : cli_command_row(args->command)->name, NULL);
  return rc == 0 ? act(args, err) : rc;
}

int main(int argc, char **argv) {
  process_begin(argc > 0 ? argv[0] : NULL);
  stops_fail_writes(); // a reader of our output that goes away must not end a run half-way
  struct resources all;
  set_memory_up(&all);
  report_start();
  struct words words = {.argc = argc, .argv = argv, .args.command = CLI_COMMANDS};
  struct cli_args *args = &words.args;
  struct err err = {0};
  int rc = arena_try(carry_out, &words, &err);
  if (rc < 0) rc = fail(args, &err);
  struct err late = {0};
  if (report_close(&late) < 0 && rc == 0) {
    if (has_written(args)) err_fill_hint(&late, "the output is complete: only messages are lost");
    report_error(&late);
    rc = (int)late.kind;
  }
  stops_remove_left();
  cli_free(args);
  resources_release(&all);
  stops_pass_on(); // an interrupted run ends by the signal, so that loops of a shell end as well
  return rc;
}
