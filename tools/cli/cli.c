// One walk over the words:
//
//   weir COMMAND word …      word = --name | --name=value | --name value | -o value | operand
//
// Options and operands come in any order; `--` ends the options; of an option given twice the last
// counts, so that an alias or a script may have defaults, unless it is a list; of two files or folders one
// would go unwritten, so that is refused. Names are never abbreviated: a script that works today must not
// break when an option is added. What can be wrong with a single word is found while reading it,
// what needs all of them (operands, exclusions, a missing output) afterwards.
#include "cli/cli.h"

#include "base/guess.h"
#include "base/shell_words.h"
#include "cli/cli_unknown.h"
#include "cli/cli_values.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

// ---- words --------------------------------------------------------------------------------------

// One file or folder an option: two would be one that is not read or written.
static int refuse_second_path(const struct cli_taking *t, const char *before, struct err *err) {
  if (!before || strcmp(before, t->value->text) == 0) return 0;
  return err_set(err, ERR_USAGE, "--%s is given twice: '%s' and '%s'", t->row.name,
                 quote_str(before).s, quote_str(t->value->text).s);
}

// Takes the value of option o: `given` (after '=' or the letter) or the next word.
static int take_option(struct cli_args *args, enum cli_option o, const char *given, int *at,
                       struct err *err) {
  const struct cli_taking t = cli_taking_of(args, o);
  const char *before = t.value->given && cli_is_path(t.row.kind) ? t.value->text : NULL;
  if (!t.value->given) t.value->n_list = 0; // the preset
  t.value->given = true;
  if (t.row.kind == CLI_FLAG) {
    // A target may have set what a pass's flag is about.
    const bool on = !given || strcmp(given, "true") == 0, off = !on && strcmp(given, "false") == 0;
    if (cli_is_of_pass(o) && (on || off)) return cli_take_value(&t, on ? "true" : "false", err);
    if (!given) return 0;
    return err_set(err, ERR_USAGE, "--%s takes no value, but got '%s'", t.row.name,
                   quote_str(given).s);
  }
  if (given) return cli_take_value(&t, given, err) ? -1 : refuse_second_path(&t, before, err);
  const char *next = *at + 1 < args->argc ? args->argv[*at + 1] : NULL;
  if (t.row.kind == CLI_MAYBE) { // the next word is its own only if it can be nothing else
    struct err no = {0};
    t.value->text = NULL;
    *at += next && cli_take_value(&t, next, &no) == 0;
    return 0;
  }
  if (!next || strncmp(next, "--", 2) == 0) {
    err_fill(err, ERR_USAGE, "--%s needs a value: %s", t.row.name,
             t.row.listed ? "a name" : t.row.metavar);
    if (!next) return cli_unknown_hint(args, err);
    return err_hint(err, "if '%s' is meant as its value, write --%s=%s", quote_str(next).s,
                    t.row.name, quote_str(next).s);
  }
  ++*at;
  return cli_take_value(&t, next, err) ? -1 : refuse_second_path(&t, before, err);
}

static int take_long(struct cli_args *args, const char *word, int *at, struct err *err) {
  const char *name = word + 2, *equals = strchr(name, '=');
  size_t n = equals ? (size_t)(equals - name) : strlen(name);
  enum cli_option o = cli_option_named(args->command, span_of(name, n));
  if (o == CLI_NONE) o = cli_unknown_twin(args->command, span_of(name, n));
  if (o != CLI_NONE) return take_option(args, o, equals ? equals + 1 : NULL, at, err);
  char unknown[64];
  snprintf(unknown, sizeof unknown, "%.*s", n > 60 ? 60 : (int)n, name);
  return cli_unknown_option(args, unknown, err);
}

// "-o OUT", "-oOUT", "-nq": flags may share a dash.
static int take_short(struct cli_args *args, const char *word, int *at, struct err *err) {
  for (const char *letter = word + 1;;) {
    uint32_t o = 0;
    while (o < cli_tables->n_options &&
           (cli_option_row(o)->letter != *letter || !cli_option_belongs(o, args->command)))
      o++;
    if (o == cli_tables->n_options) break;
    const bool flag = cli_option_row(o)->kind == CLI_FLAG;
    letter++;
    if (take_option(args, o, flag || *letter == '\0' ? NULL : letter, at, err)) return -1;
    if (!flag || *letter == '\0') return 0;
  }
  return cli_unknown_letter(args, word, err);
}

// A log is read from front to back; a folder is none, and what opens it will say so.
static bool takes_stream(const struct cli_args *args) {
  const struct span word = cli_operand_word(args->command, args->n_operands);
  return span_is(word, "EDITS") || span_is(word, "DIR") || span_is(word, "[NAME]") ||
         span_is(word, "[TARGET]");
}

// The list whose value is the word before this one, or CLI_NONE.
static enum cli_option list_before(const struct cli_args *args, int at) {
  const char *name = args->argv[at - 1], *equals = strchr(name, '=');
  if (at < 3) return CLI_NONE;
  if (strncmp(name, "--", 2) != 0 || !equals) name = args->argv[at - 2], equals = NULL;
  if (strncmp(name, "--", 2) != 0) return CLI_NONE;
  const size_t n = equals ? (size_t)(equals - name) - 2 : strlen(name) - 2;
  const enum cli_option o = cli_option_named(args->command, span_of(name + 2, n));
  return o != CLI_NONE && cli_row(args->command, o).kind == CLI_LIST ? o : CLI_NONE;
}

// One word too many: a second value of a list, or a second model.
static int unexpected(const struct cli_args *args, int at, struct err *err) {
  const struct cli_command_row *row = cli_command_row(args->command);
  const char *word = args->argv[at];
  err_fill(err, ERR_USAGE, "unexpected argument '%s': usage is 'weir %s %s'", quote_str(word).s,
           row->name, row->operands);
  const enum cli_option list = list_before(args, at);
  if (list != CLI_NONE)
    return err_hint(err, "--%s takes one value: repeat it for more, as in --%s '%s'",
                    cli_row(args->command, list).name, cli_row(args->command, list).name,
                    quote_str(word).s);
  if (!strchr(row->operands, ' ') && str_ends(word, ".onnx"))
    return err_hint(err,
                    "it takes one model; for several: for m in *.onnx; do weir %s \"$m\"; done",
                    row->name);
  return cli_unknown_hint(args, err);
}

static int take_words(struct cli_args *args, struct err *err) {
  const struct cli_command_row *row = cli_command_row(args->command);
  bool options = true;
  for (int at = 2; at < args->argc; at++) {
    const char *word = args->argv[at];
    int rc = 0;
    if (options && strcmp(word, "--") == 0) {
      options = false;
    } else if (options && strncmp(word, "--", 2) == 0) {
      rc = take_long(args, word, &at, err);
    } else if (options && word[0] == '-' && word[1]) {
      rc = take_short(args, word, &at, err);
    } else if (cli_operand_word(args->command, args->n_operands).n > 0) {
      if (path_is_stream(word) && !takes_stream(args)) return cli_refuse_stream(err);
      args->operand[args->n_operands++] = word;
    } else {
      rc = unexpected(args, at, err);
    }
    if (rc < 0) return -1;
  }
  const struct span word = cli_operand_word(args->command, args->n_operands);
  if (word.n == 0 || word.at[0] == '[' || (args->n_operands > 0 && cli_is_repeated(word))) return 0;
  err_fill(err, ERR_USAGE, "'weir %s' needs %.*s", row->name, (int)word.n, (const char *)word.at);
  return err_hint(err, "usage: weir %s %s [options]", row->name, row->operands);
}

static int take_environment(struct cli_args *args, struct err *err) {
  for (uint32_t i = 0; i < cli_tables->n_environment; i++) {
    const enum cli_option o = cli_tables->environment[i].option;
    const char *text = machine_variable(cli_tables->environment[i].variable);
    if (!text || !cli_option_belongs(o, args->command) || cli_given(args, o)) continue;
    const struct cli_taking t = cli_taking_of(args, o);
    t.value->inherited = true;
    if (cli_take_value(&t, text, err)) return -1;
  }
  return 0;
}

// ---- the whole line -----------------------------------------------------------------------------

static bool takes_help(struct cli_args *args, const char *word) {
  const bool all = strcmp(word, "--help-all") == 0, brief = strcmp(word, "-h") == 0;
  if (!all && !brief && strcmp(word, "--help") != 0) return false;
  args->action = all ? CLI_HELP_ALL : brief ? CLI_HELP_SHORT : CLI_HELP;
  return true;
}

// --help wins wherever it stands, so that it can be added to a line that does not work.
static bool asks_for_help(struct cli_args *args) {
  for (int i = 2; i < args->argc && strcmp(args->argv[i], "--") != 0; i++)
    if (takes_help(args, args->argv[i])) return true;
  return false;
}

static bool is_shell(const char *word) {
  return strcmp(word, "bash") == 0 || strcmp(word, "zsh") == 0 || strcmp(word, "fish") == 0;
}

static int parse_generate(struct cli_args *args, struct err *err) {
  const char *kind = args->argc > 2 ? args->argv[2] : "";
  const bool man = strcmp(kind, "man") == 0;
  const bool text = is_shell(kind) || strcmp(kind, "json") == 0;
  if ((!man && !text) || args->argc != (man ? 4 : 3))
    return err_set(err, ERR_USAGE, "--generate takes bash, zsh, fish, json, or man and a folder");
  args->action = CLI_GENERATE;
  args->operand[0] = kind;
  args->operand[1] = man ? args->argv[3] : NULL;
  args->n_operands = man ? 2 : 1;
  return 0;
}

static int parse_completion(struct cli_args *args, struct err *err) {
  const char *shell = args->argc > 2 ? args->argv[2] : "";
  if (args->argc == 3 && is_shell(shell)) return parse_generate(args, err);
  if (args->argc > 2 && !is_shell(shell))
    err_fill(err, ERR_USAGE, "there is no completion for '%s'", quote_str(shell).s);
  else
    err_fill(err, ERR_USAGE, "'weir completion' needs the name of one shell");
  return err_hint(err, "usage: weir completion bash|zsh|fish");
}

// Lines without a command: weir -h, --help, --help-all, --version [--licenses], --generate; weir help
// [COMMAND|TOPIC], weir completion SHELL, weir version.
static int parse_top(struct cli_args *args, const char *word, struct err *err) {
  args->command = cli_tables->n_commands;
  args->action = CLI_HELP;
  if (takes_help(args, word)) return 0;
  if (strcmp(word, "--generate") == 0) return parse_generate(args, err);
  if (strcmp(word, "completion") == 0) return parse_completion(args, err);
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0) {
    args->action = CLI_VERSION;
    if (args->argc == 3 && strcmp(args->argv[2], "--licenses") == 0) args->action = CLI_LICENSES;
    return 0;
  }
  if (strcmp(word, "help") == 0) {
    const char *of = args->argc > 2 ? args->argv[2] : "help";
    if (strcmp(of, "help") == 0 || strcmp(of, "-h") == 0 || strcmp(of, "--help") == 0) return 0;
    for (int i = 2; i < args->argc; i++)
      args->operand[args->n_operands++] = args->argv[i];
    if (args->n_operands > 0) args->action = CLI_HELP_ABOUT;
    return 0;
  }
  if (word[0] != '-') return cli_unknown_command(word, err);
  err_fill(err, ERR_USAGE, "unknown option '%s'", quote_str(word).s);
  if (strcmp(word, "-v") == 0) return err_hint(err, "did you mean --version?");
  if (strncmp(word, "--", 2) == 0) {
    struct guess g = guess_start(word + 2);
    guess_try(&g, "help");
    guess_try(&g, "help-all");
    guess_try(&g, "version");
    guess_try(&g, "generate");
    if (g.best) return err_hint(err, "did you mean --%s?", g.best);
  }
  return err_hint(err, "options come after the command: weir COMMAND ... %s", quote_str(word).s);
}

struct arena *cli_arena(const struct cli_args *args) {
  return (struct arena *)(uintptr_t)&args->arena;
}

void cli_free(struct cli_args *args) {
  arena_free(&args->arena);
}

static int check_exclusions(const struct cli_args *args, struct err *err) {
  for (uint32_t i = 0; i < cli_tables->n_exclusions; i++) {
    const struct cli_exclusion *e = &cli_tables->exclusions[i];
    if (!cli_given(args, e->a) || !cli_given(args, e->b)) continue;
    const char *word = args->value[e->b].text;
    if (e->except && word && cli_has_word(e->except, span_str(word))) continue;
    return err_set(err, ERR_USAGE, "Use either --%s or --%s, not both.", cli_option_row(e->a)->name,
                   cli_option_row(e->b)->name);
  }
  return 0;
}

int cli_parse(struct cli_args *args, int argc, char *const *argv, struct err *err) {
  *args = (struct cli_args){.argc = argc, .argv = argv, .command = cli_tables->n_commands};
  args->operand = arena_zalloc(&args->arena, ((size_t)argc + 1) * sizeof *args->operand);
  if (argc < 2) {
    args->action = CLI_NOTHING;
    return 0;
  }
  args->command = cli_command_by_name(argv[1]);
  cli_make_room(args);
  if (args->command == cli_tables->n_commands) return parse_top(args, argv[1], err);
  if (asks_for_help(args)) return 0;
  args->action = CLI_RUN;
  cli_take_presets(args);
  if (take_words(args, err) < 0 || take_environment(args, err)) return -1;
  if (check_exclusions(args, err)) return -1;
  return cli_tables->check ? cli_tables->check(args, err) : 0;
}

const char *cli_operand(const struct cli_args *args, const char *name) {
  for (uint32_t k = 0; k < args->n_operands; k++) {
    struct span word = cli_operand_word(args->command, k);
    if (word.at[0] == '[') word = span_of(word.at + 1, word.n - 2);
    if (cli_is_repeated(word)) word.n -= 3;
    if (span_is(word, name)) return args->operand[k];
  }
  return NULL;
}

char *cli_given_line(const struct cli_args *args, struct arena *arena) {
  char *line = arena_printf(arena, "weir");
  for (int i = 1; i < args->argc; i++)
    line = arena_printf(arena, "%s %s", line, shell_words_quote(args->argv[i], arena));
  return line;
}

char *cli_resume_command(const struct cli_args *args, struct arena *arena) {
  char *line = arena_printf(arena, "weir");
  bool closed = false;
  for (int i = 1; i < args->argc; i++) {
    const bool operand = closed, about_it = strcmp(args->argv[i], "--resume") == 0 ||
                                            strcmp(args->argv[i], "--fresh") == 0;
    if (strcmp(args->argv[i], "--") == 0) closed = true;
    // Before a closing "--", after which it would be an operand.
    if (i == 2 && args->command == CLI_shrink) line = arena_printf(arena, "%s --resume", line);
    if (about_it && !operand) continue;
    line = arena_printf(arena, "%s %s", line, shell_words_quote(args->argv[i], arena));
  }
  return line;
}
