// Help is a rendering of the tables: usage, what the command does, its options under headings, two
// examples.
//
// Text is wrapped at 80 columns whatever the terminal, so that it looks the same in a pipe, a bug
// report and a test. Options that few need are shown by --help-all only; a heading without options
// is left out.
#include "help.h"

#include <string.h>

enum { WIDTH = 80, OPTION_INDENT = 2 };

const char *const help_what_weir_is =
    "weir transforms ONNX models that are larger than memory: it reads a model's metadata, leaves "
    "the weights on disk, and writes the changed model as a stream.";

const char *const help_group_titles[CLI_GROUPS] = {
    [CLI_OWN] = "Options",         [CLI_LAYOUT] = "Layout",
    [CLI_OUTPUT] = "Output",       [CLI_VERIFICATION] = "Verification",
    [CLI_RECORDS] = "Records",     [CLI_READING] = "Reading",
    [CLI_RESOURCES] = "Resources", [CLI_MESSAGES] = "Messages",
};

const struct help_exit_code help_exit_codes[] = {
    {ERR_NONE, "done"},
    {ERR_FAIL, "audit found damage, diff or verify a difference, or the request is impossible for "
               "this model"},
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
    snprintf(v.meaning, sizeof v.meaning, "the value of --%s where it is not given",
             cli_option_row(o)->name);
    return v;
  }
  if (k > 0) return v;
  v.name = "NO_COLOR";
  snprintf(v.meaning, sizeof v.meaning,
           "if set and not empty, messages are not coloured (unless --color is given)");
  return v;
}

bool help_group_used(enum cli_group group, enum cli_command command) {
  for (uint32_t k = 0, o; (o = cli_option_at(command, k)) != CLI_NONE; k++)
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
    size_t n = strcspn(text, " ");
    if (n == 0) break;
    if (!first && at + 1 + n > WIDTH) {
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

// variable: of the environment, or NULL.
static void print_option(FILE *to, const struct cli_option_row *row, const char *variable,
                         bool all) {
  struct help_metavar m = help_metavar(row, all);
  char head[128], text[512], preset[96] = "", letter[8] = "";
  if (row->letter) snprintf(letter, sizeof letter, "-%c, ", row->letter);
  snprintf(head, sizeof head, "%s--%s%s%s", letter, row->name,
           m.s[0] && row->kind != CLI_MAYBE ? " " : "", m.s);
  const char *again = row->kind == CLI_LIST ? "; may be repeated" : "";
  if (row->required)
    snprintf(preset, sizeof preset, " (required)");
  else if (row->preset)
    snprintf(preset, sizeof preset, " (default %s)", row->preset);
  const int n = snprintf(text, sizeof text, "%s%s%s", row->help, again, preset);
  if (variable && n > 0 && (size_t)n < sizeof text)
    snprintf(text + n, sizeof text - (size_t)n, " [environment: %s]", variable);
  help_entry(to, HELP_OPTIONS, head, text);
}

static void print_group(FILE *to, enum cli_command command, enum cli_group group, bool all) {
  if (group != CLI_MESSAGES && !help_group_used(group, command)) return;
  fprintf(to, "\n%s:\n", help_group_titles[group]);
  for (uint32_t k = 0, o; (o = cli_option_at(command, k)) != CLI_NONE; k++) {
    const struct cli_option_row row = cli_row(command, o);
    if (row.group == group) print_option(to, &row, cli_variable(o), all);
  }
  if (group != CLI_MESSAGES) return;
  help_entry(to, HELP_OPTIONS, "-h, --help", "this text");
  if (all) help_entry(to, HELP_OPTIONS, "--help-all", "this text, including hidden options");
}

void help_command(FILE *to, enum cli_command command, bool all) {
  const struct cli_command_row *row = cli_command_row(command);
  fprintf(to, "Usage: weir %s %s [options]\n\n", row->name, row->operands);
  help_wrap(to, row->about, 0, 0);
  for (uint32_t g = 0; g < CLI_GROUPS; g++)
    print_group(to, command, g, all);
  fprintf(to, "\nExamples:\n");
  for (size_t i = 0; i < CLI_EXAMPLES; i++) {
    fprintf(to, "  $ %s\n      ", row->example[i].line);
    help_wrap(to, row->example[i].why, 6, 6);
  }
  fprintf(to, "\nExit codes are listed by 'weir --help'.\n");
}

void help_overview(FILE *to, bool all) {
  fprintf(to, "Usage: weir COMMAND [operands] [options]\n\n");
  help_wrap(to, help_what_weir_is, 0, 0);
  fprintf(to, "\nCommands:\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    help_entry(to, HELP_NAMES, cli_command_row(c)->name, cli_command_row(c)->summary);
  fprintf(to, "\nOptions:\n");
  help_entry(to, HELP_OPTIONS, "-h, --help", "show help (weir COMMAND --help: for a command)");
  help_entry(to, HELP_OPTIONS, "--help-all", "the same, including hidden options");
  help_entry(to, HELP_OPTIONS, "-V, --version",
             "show the versions of weir and its libraries, the instruction set and the I/O engine");
  if (all) {
    help_entry(to, HELP_OPTIONS, "--version --licenses",
               "show the licences of weir and of the libraries that are linked into it");
    help_entry(to, HELP_OPTIONS, "--generate bash|zsh|fish", "print a completion script");
    help_entry(to, HELP_OPTIONS, "--generate json",
               "print the commands and their options, for programs (docs/schema/tables.json)");
    help_entry(to, HELP_OPTIONS, "--generate man DIR", "write the manual pages into DIR");
  }
  fprintf(to, "\nEnvironment:\n");
  struct help_variable v;
  for (uint32_t k = 0; (v = help_variable(k)).name; k++)
    help_entry(to, HELP_OPTIONS, v.name, v.meaning);
  fprintf(to, "\nExit codes:\n");
  for (const struct help_exit_code *e = help_exit_codes; e->meaning; e++)
    fprintf(to, "  %2d  %s\n", (int)e->code, e->meaning);
  help_wrap(to, help_signals, 0, 0);
}
