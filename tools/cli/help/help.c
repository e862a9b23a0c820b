// Help is a rendering of the tables, in two lengths: -h prints a screen, with what a command does, at most
// ten options and two examples; --help prints everything.
//
// Text is wrapped at 80 columns whatever the terminal, so that it looks the same in a pipe, a bug
// report and a test. A line break in a text of the tables begins a new line. Hidden words of options are
// printed by --help-all only; a heading without options is left out.
#include "cli/help/help.h"

#include "cli/help/topics.h"

#include <assert.h>
#include <string.h>

enum { WIDTH = 80, OPTION_INDENT = 2 };

const char *const help_what_weir_is =
    "weir transforms ONNX models, even those larger than memory: it reads a model's metadata, "
    "leaves the weights on disk, and writes the changed model as a stream.";

const char *const help_group_titles[CLI_GROUPS] = {
    [CLI_OWN] = "Options",         [CLI_LAYOUT] = "Layout",
    [CLI_OUTPUT] = "Output",       [CLI_VERIFICATION] = "Verification",
    [CLI_RECORDS] = "Records",     [CLI_READING] = "Reading",
    [CLI_RESOURCES] = "Resources", [CLI_MESSAGES] = "Messages",
};

const char *const help_family_titles[CLI_FAMILIES] = {
    [CLI_LOOK] = "Look at a model",       [CLI_QUANTIZE] = "Quantize",
    [CLI_CHANGE] = "Change the graph",    [CLI_PROVE] = "Check and sign",
    [CLI_MACHINES] = "Use many machines", [CLI_FILES] = "Files",
};

const struct help_exit_code help_exit_codes[] = {
    {ERR_NONE, "done"},
    {ERR_FAIL,
     "audit found damage, diff or verify found a difference, or the request is impossible "
     "for this model"},
    {ERR_USAGE, "the command line is wrong"},
    {ERR_MODEL, "the model, log or manifest is malformed"},
    {ERR_INPUT, "an input is missing, is not what was expected, or changed during the run"},
    {ERR_RUNTIME, "a required program or library is not installed"},
    {ERR_INTERNAL, "internal error: please report it"},
    {ERR_NOSPACE, "no space on the output's file system"},
    {ERR_IO, "I/O error"},
    {ERR_RETRY, "busy, or interrupted: run the same command again to continue"},
    {ERR_PERMISSION, "not permitted, or a link that is not followed (see --allow-links)"},
    {0},
};

const char *const help_signals =
    "On SIGINT, SIGHUP or SIGTERM weir cleans up and ends by that signal (130, 129 or 143 in a "
    "shell); a second SIGINT or SIGTERM ends it at once.";

struct help_variable help_variable(uint32_t k) {
  struct help_variable v = {0};
  for (uint32_t o = 0; o < CLI_OPTIONS; o++) {
    const char *name = cli_variable(o);
    if (!name || k-- > 0) continue;
    v.name = name;
    snprintf(v.meaning, sizeof v.meaning, "default of --%s", cli_option_row(o)->name);
    return v;
  }
  if (k > 0) return v;
  v.name = "NO_COLOR";
  snprintf(v.meaning, sizeof v.meaning,
           "if set and not empty, messages have no colour (unless --color is given)");
  return v;
}

bool help_group_used(enum cli_group group, enum cli_command command) {
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(command, o)) != CLI_NONE;)
    if (cli_row(command, o).group == group) return true;
  return false;
}

struct help_metavar help_metavar(const struct cli_option_row *row, bool all) {
  struct help_metavar m = {""};
  if (row->kind == CLI_FLAG) return m;
  if (row->listed || (row->kind != CLI_CHOICE && row->kind != CLI_MAYBE)) {
    snprintf(m.s, sizeof m.s, "%s", row->listed ? "NAME" : row->metavar);
    return m;
  }
  const bool maybe = row->kind == CLI_MAYBE;
  struct span word;
  size_t used = maybe ? (size_t)snprintf(m.s, sizeof m.s, "[=") : 0;
  for (uint32_t k = 0; (word = cli_choice(row, k, all)).n > 0; k++)
    used += (size_t)snprintf(m.s + used, sizeof m.s - used, "%s%.*s", k ? "|" : "", (int)word.n,
                             (const char *)word.at);
  if (maybe) snprintf(m.s + used, sizeof m.s - used, "]");
  return m;
}

void help_wrap(FILE *to, const char *text, size_t at, size_t indent) {
  bool first = true;
  for (;;) {
    text += strspn(text, " ");
    const bool new_line = *text == '\n';
    text += strspn(text, " \n");
    const size_t n = strcspn(text, " \n");
    if (n == 0) break;
    if (new_line || (!first && at + 1 + n > WIDTH)) {
      fprintf(to, "\n%*s", (int)indent, "");
      at = indent;
      first = true;
    }
    fprintf(to, "%s%.*s", first ? "" : " ", (int)n, text);
    at += n + !first;
    first = false;
    text += n;
  }
  fputc('\n', to);
}

void help_entry(FILE *to, size_t column, const char *head, const char *text) {
  size_t n = strlen(head) + OPTION_INDENT;
  fprintf(to, "%*s%s", OPTION_INDENT, "", head);
  if (n + 2 > column)
    fprintf(to, "\n%*s", (int)column, "");
  else
    fprintf(to, "%*s", (int)(column - n), "");
  help_wrap(to, text, column, column);
}

struct help_text help_option_text(const struct cli_option_row *row, const char *variable,
                                  bool full) {
  struct help_text text;
  char preset[96] = "", from[64] = "";
  if (row->required)
    snprintf(preset, sizeof preset, " (required)");
  else if (row->preset && strcmp(row->preset, "default") != 0)
    snprintf(preset, sizeof preset, " (default: %s)", row->preset);
  if (variable) snprintf(from, sizeof from, " [environment: %s]", variable);
  const char *more = full ? row->more : NULL;
  const int n =
      snprintf(text.s, sizeof text.s, "%.*s%s%s%s%s%s", (int)row->line.n,
               (const char *)row->line.at, row->kind == CLI_LIST ? "; may be repeated" : "", preset,
               from, more ? "\n" : "", more ? more : "");
  assert(n > 0 && (size_t)n < sizeof text.s);
  return text;
}

// all: with words that are hidden otherwise; full: the long text too.
static void print_option(FILE *to, const struct cli_option_row *row, const char *variable, bool all,
                         bool full) {
  struct help_metavar m = help_metavar(row, all);
  char head[128], letter[8] = "";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(head, sizeof head, "%s--%s%s%s", letter, row->name,
           m.s[0] && row->kind != CLI_MAYBE ? " " : "", m.s);
  help_entry(to, HELP_OPTIONS, head, help_option_text(row, variable, full).s);
}

static void print_group(FILE *to, enum cli_command command, enum cli_group group, bool all) {
  if (group != CLI_MESSAGES && !help_group_used(group, command)) return;
  fprintf(to, "\n%s:\n", help_group_titles[group]);
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(command, o)) != CLI_NONE;) {
    const struct cli_option_row row = cli_row(command, o);
    if (row.group == group) print_option(to, &row, cli_variable(o), all, true);
  }
}

static void print_help_options(FILE *to, bool all) {
  help_entry(to, HELP_OPTIONS, "-h", "print the most important options and two examples");
  help_entry(to, HELP_OPTIONS, "--help", "print this text");
  if (all) help_entry(to, HELP_OPTIONS, "--help-all", "print this text, including hidden options");
}

static void print_usage(FILE *to, const struct cli_command_row *row, bool full) {
  char about[4096];
  const size_t n = full ? strlen(row->about) : strcspn(row->about, "\n");
  assert(n < sizeof about);
  snprintf(about, sizeof about, "%.*s", (int)n, row->about);
  fprintf(to, "Usage: weir %s %s [options]\n\n", row->name, row->operands);
  help_wrap(to, about, 0, 0);
}

static void print_examples(FILE *to, const struct cli_command_row *row) {
  fprintf(to, "\nExamples:\n");
  for (size_t i = 0; i < CLI_EXAMPLES; i++) {
    fprintf(to, "  $ %s\n      ", row->example[i].line);
    help_wrap(to, row->example[i].why, 6, 6);
  }
}

void help_screen(FILE *to, enum cli_command command) {
  const struct cli_command_row *row = cli_command_row(command);
  print_usage(to, row, false);
  fprintf(to, "\nOptions that most people need:\n");
  const char *first = row->first;
  for (struct span name; (name = cli_next_word(&first)).n > 0;) {
    const enum cli_option o = cli_option_named(command, name);
    assert(o != CLI_NONE);
    const struct cli_option_row option = cli_row(command, o);
    print_option(to, &option, NULL, false, false);
  }
  print_examples(to, row);
  fprintf(to, "\n'weir %s --help' describes all options, 'weir -h' lists the commands.\n",
          row->name);
}

void help_command(FILE *to, enum cli_command command, bool all) {
  const struct cli_command_row *row = cli_command_row(command);
  print_usage(to, row, true);
  for (uint32_t g = 0; g < CLI_GROUPS; g++)
    print_group(to, command, g, all);
  print_help_options(to, all);
  print_examples(to, row);
  fprintf(to, "\n'weir help exit-codes' lists the exit codes.\n");
}

// Those of 'weir convert', which has no options of its own.
void help_shared_options(FILE *to) {
  help_wrap(to,
            "Commands that write a model share these options. Commands that only read one have "
            "some of them: 'weir COMMAND --help' lists them.",
            0, 0);
  for (uint32_t g = CLI_OWN + 1; g < CLI_GROUPS; g++)
    print_group(to, CLI_convert, g, false);
}

void help_environment(FILE *to) {
  struct help_variable v;
  for (uint32_t k = 0; (v = help_variable(k)).name; k++)
    help_entry(to, HELP_OPTIONS, v.name, v.meaning);
}

void help_exit_code_list(FILE *to) {
  for (const struct help_exit_code *e = help_exit_codes; e->meaning; e++) {
    fprintf(to, "  %2d  ", (int)e->code);
    help_wrap(to, e->meaning, 6, 6);
  }
  help_wrap(to, help_signals, 0, 0);
}

static void print_commands(FILE *to) {
  for (uint32_t f = 0; f < CLI_FAMILIES; f++) {
    fprintf(to, "\n%s:\n", help_family_titles[f]);
    for (uint32_t c = 0; c < CLI_COMMANDS; c++)
      if (cli_command_row(c)->family == f)
        help_entry(to, HELP_NAMES, cli_command_row(c)->name, cli_command_row(c)->summary);
  }
}

static void print_topics(FILE *to) {
  const char *name, *summary;
  fprintf(to, "\nTopics (weir help TOPIC):\n");
  for (uint32_t k = 0; (name = topics_name(k, &summary)); k++)
    help_entry(to, HELP_NAMES, name, summary);
}

void help_overview(FILE *to, enum help_length length) {
  fprintf(to, "Usage: weir COMMAND [operands] [options]\n\n");
  help_wrap(to, help_what_weir_is, 0, 0);
  print_commands(to);
  if (length == HELP_SHORT) {
    fprintf(to, "\nweir COMMAND -h    what a command does, its main options, two examples\n"
                "weir --help        topics, environment, exit codes\n");
    return;
  }
  print_topics(to);
  fprintf(to, "\nOptions:\n");
  help_entry(to, HELP_OPTIONS, "-h", "list the commands (weir COMMAND -h: about a command)");
  help_entry(to, HELP_OPTIONS, "--help",
             "print this text (weir COMMAND --help: everything about a command)");
  help_entry(to, HELP_OPTIONS, "--help-all", "the same, including hidden options");
  help_entry(
      to, HELP_OPTIONS, "-V, --version",
      "print the versions of weir and its libraries, the instruction set and the I/O engine");
  if (length == HELP_ALL) {
    help_entry(to, HELP_OPTIONS, "--version --licenses",
               "print the licences of weir and of the libraries that are linked into it");
    help_entry(to, HELP_OPTIONS, "--generate bash|zsh|fish",
               "the same as weir completion bash|zsh|fish");
    help_entry(to, HELP_OPTIONS, "--generate json",
               "print the commands and their options, for programs (docs/schema/tables.json)");
    help_entry(to, HELP_OPTIONS, "--generate man DIR", "write the manual pages into DIR");
  }
  fprintf(to, "\nEnvironment:\n");
  help_environment(to);
  fprintf(to, "\nExit codes:\n");
  help_exit_code_list(to);
}
