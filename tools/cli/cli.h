// The command line: the one parser that reads the tables (cli_tables.h).
//
// To a command, its options are typed slots:
//   if (cli_flag(args, OPT_FORCE)) …
//   cli_string(args, OPT_REPORT_JSON)   cli_size(args, OPT_MEMORY)
// Most of them fill members of a request, as their rows say (request/fill.h).
//
// The options of a command that is a pass have values of their own too (cli_pass_values): a flag and a key of
// --pass NAME:key=value can never mean different things.
#ifndef WEIR_CLI_H
#define WEIR_CLI_H

#include "base/arena.h"
#include "base/err.h"
#include "cli/cli_tables.h"
#include "passes/catalogue/pass_values.h"

#include <stdbool.h>
#include <stdint.h>

// What a command line asks for.
enum cli_action {
  CLI_RUN,        // the command
  CLI_HELP_SHORT, // a screen about the command, or the list of commands if command is CLI_COMMANDS
  CLI_HELP,       // all about the command, or the overview
  CLI_HELP_ALL,   // the same with what is hidden otherwise
  CLI_HELP_ABOUT, // help of a command or topic, which the operands name
  CLI_NOTHING,    // no word at all: the overview, as a usage error
  CLI_VERSION,
  CLI_LICENSES,
  CLI_GENERATE, // operand[0]: man, bash, zsh, fish or json; operand[1]: the folder for man
};

struct cli_value {
  bool given;        // on the command line: not the preset, nor a variable of the environment
  bool inherited;    // from such a variable
  const char *text;  // of the last one, or NULL; none of a FLAG
  uint64_t number;   // SIZE, COUNT, NUMBER; FLAG of a pass: 0 or 1
  const char **list; // LIST, in order
  uint32_t n_list;
};

struct cli_args {
  enum cli_action action;
  enum cli_command command;
  struct cli_value *value;    // by option
  struct pass_values of_pass; // of the pass that the command is
  const char **operand;
  uint32_t n_operands;
  struct arena arena; // of values and lists
  int argc;
  char *const *argv;
};

// Reads argv into *args, presets included. The strings of *args are those of argv; cli_free frees
// the rest, whatever came of it. Variables of the environment stand in for options that are not given.
// ERR_USAGE for what does not fit the tables: unknown names (with
// the nearest known one), missing or malformed values, options that exclude each other, too few or
// too many operands, no output.
int cli_parse(struct cli_args *args, int argc, char *const *argv, struct err *err);
void cli_free(struct cli_args *args);
// The rules that a whole line of weir must keep to, beyond those that rows say. ERR_USAGE: two records on standard
// output, no output or two.
int cli_rules(struct cli_args *args, struct err *err);
// For what lives as long as the command line: its memory is in use anyway, so that no figure of memory grows.
struct arena *cli_arena(const struct cli_args *args);

// Slots. The option must belong to the command and be of the kind (asserted).
bool cli_given(const struct cli_args *args, enum cli_option option); // on the line, any kind
bool cli_flag(const struct cli_args *args, enum cli_option option);
const char *cli_string(const struct cli_args *args, enum cli_option option); // NULL if not given
uint64_t cli_size(const struct cli_args *args, enum cli_option option);      // 0 if not given
uint32_t cli_count(const struct cli_args *args, enum cli_option option);     // 0 if not given
const char *const *cli_list(const struct cli_args *args, enum cli_option option, uint32_t *n);

// Where the value of an option comes from, for messages: "--memory", or "WEIR_MEMORY".
struct cli_source {
  char s[40];
} cli_source(const struct cli_args *args, enum cli_option option);

// The options of the command's pass as this command line gives them, presets included; they are the caller's, and lie in
// *arena with what the line holds.
void cli_pass_values(const struct cli_args *args, struct pass_values *values, struct arena *arena);

// The operand that commands.def calls `name` ("MODEL", "IN", "EDITS"), or NULL if it was left out.
const char *cli_operand(const struct cli_args *args, const char *name);
// The path that a writing command's output will have: OUT, else -o, else (--inplace, or a --dry-run
// without an output) the input's own.
const char *cli_output(const struct cli_args *args);
// A dry run without OUT, -o and --inplace: cli_output is then nobody's wish.
bool cli_lacks_output(const struct cli_args *args);

// True if standard output is a record's or the report's alone: nothing is printed for people then.
bool cli_stdout_is_taken(const struct cli_args *args);

// This command line as it was given, its words quoted for a shell.
char *cli_given_line(const struct cli_args *args, struct arena *arena);
// This command line again, to go on with what it began: without --resume, which happens by itself, and
// --fresh, its words quoted for a shell. (shrink has --resume: it must know that outputs which are there
// were made by it.)
char *cli_resume_command(const struct cli_args *args, struct arena *arena);

#endif
