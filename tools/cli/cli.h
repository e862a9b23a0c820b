// The command line: tables of commands and options (commands.def, options.def) and the one parser
// that reads them. Help, man pages and completions are made from the same rows, so none of them
// can say what the parser does not do.
//
// To a command, its options are typed slots:
//   if (cli_flag(args, OPT_FORCE)) …
//   cli_string(args, OPT_REPORT_JSON)   cli_size(args, OPT_MEMORY)
//
// A command that is a pass has that pass's options too: their ids follow those of options.def, in the
// order of the pass's rows (cli_pass_option finds one by name), and so do their values
// (cli_pass_values): a flag and a key of --pass NAME:key=value can never mean different things.
#ifndef WEIR_CLI_H
#define WEIR_CLI_H

#include "arena.h"
#include "err.h"
#include "pass_values.h"

#include <stdbool.h>
#include <stdint.h>

enum cli_command {
#define COMMAND(stem, ...) CLI_##stem,
#include "commands.def"
#undef COMMAND
  CLI_COMMANDS, // how many
};

enum cli_option {
#define OPTION(id, ...) OPT_##id,
#include "options.def"
#undef OPTION
  CLI_OPTIONS, // how many
};

enum cli_kind {
  CLI_FLAG,
  CLI_TEXT,
  CLI_FILE,
  CLI_STREAM,
  CLI_FOLDER,
  CLI_NAME,
  CLI_SIZE,
  CLI_COUNT,
  CLI_NUMBER,
  CLI_CHOICE,
  CLI_MAYBE, // a choice whose word may be left out
  CLI_LIST,
};

// Headings of help: an option shared by several commands is explained under the same one
// everywhere.
enum cli_group {
  CLI_OWN,
  CLI_LAYOUT,
  CLI_OUTPUT,
  CLI_VERIFICATION,
  CLI_RECORDS,
  CLI_READING,
  CLI_RESOURCES,
  CLI_MESSAGES,
  CLI_GROUPS,
};

// The headings under which the overview lists commands.
enum cli_family {
  CLI_LOOK,
  CLI_QUANTIZE,
  CLI_CHANGE,
  CLI_PROVE,
  CLI_MACHINES,
  CLI_FILES,
  CLI_FAMILIES,
};

enum { CLI_EXAMPLES = 2 };

struct cli_command_row {
  const char *name;
  const char *operands; // "IN [OUT]"; "IN..." may be followed by more of its kind
  const char *pass;     // the pass that it is, or NULL
  enum cli_family family;
  const char *summary; // one line, lower case, no full stop
  const char *about;   // short sentences; those that a screen of help has no room for follow a '\n'
  const char *first; // names of options with a space between them: those that a screen of help has
  struct {
    const char *line, *why;
  } example[CLI_EXAMPLES];
};

struct cli_option_row {
  const char *name; // without the dashes
  char letter;      // its short form, or 0
  enum cli_kind kind;
  const char *metavar; // NULL for flags; CHOICE, MAYBE: "a|b/hidden|hidden"
  const char *preset;  // or NULL
  uint32_t commands;   // bit per enum cli_command
  enum cli_group group;
  const char *help;
  const char *also;   // other words for those of a CHOICE or LIST, as in struct pass_option
  const char *listed; // as in struct pass_option
  const char *offers; // of a pass's options: what completions offer, as there
  bool required;      // of a pass's options: it has to be given
};

const struct cli_command_row *cli_command_row(enum cli_command command);
const struct cli_option_row *cli_option_row(enum cli_option option);
bool cli_option_belongs(enum cli_option option, enum cli_command command);
// Options of one command, those of its pass first: the k-th, or CLI_NONE past the last; and the row of
// an option that the command has.
#define CLI_NONE ((enum cli_option)UINT32_MAX)
enum cli_option cli_option_at(enum cli_command command, uint32_t k);
struct cli_option_row cli_row(enum cli_command command, enum cli_option option);
// The option of a command by its long name, or CLI_NONE; and where that is its pass's and known to be
// there (asserted).
enum cli_option cli_option_named(enum cli_command command, struct span name);
enum cli_option cli_pass_option(enum cli_command command, const char *name);
// True if not both may be given.
bool cli_excludes(enum cli_option a, enum cli_option b);
// The pass that the command is, or NULL.
const struct pass *cli_pass(enum cli_command command);
// The command of that name, or CLI_COMMANDS.
enum cli_command cli_command_by_name(const char *name);
// The k-th word of a CHOICE or MAYBE option, hidden ones last; empty past the last, or past the last visible one
// unless `hidden`.
struct span cli_choice(const struct cli_option_row *row, uint32_t k, bool hidden);

// The environment variable that the option's value is taken from where the command line gives none; NULL: there
// is none. What is set to nothing is not set.
const char *cli_variable(enum cli_option option);

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
  const char *text;  // of the last one, or NULL
  uint64_t number;   // SIZE, COUNT, NUMBER
  const char **list; // LIST, in order
  uint32_t n_list;
};

struct cli_args {
  enum cli_action action;
  enum cli_command command;
  struct cli_value *value; // by option
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

// Slots. The option must belong to the command and be of the kind (asserted).
bool cli_given(const struct cli_args *args,
               enum cli_option option); // on the command line, any kind
bool cli_flag(const struct cli_args *args, enum cli_option option);
const char *cli_string(const struct cli_args *args, enum cli_option option); // NULL if not given
uint64_t cli_size(const struct cli_args *args, enum cli_option option);      // 0 if not given
uint32_t cli_count(const struct cli_args *args, enum cli_option option);     // 0 if not given
const char *const *cli_list(const struct cli_args *args, enum cli_option option, uint32_t *n);

// Where the value of an option comes from, for messages: "--memory", or "WEIR_MEMORY".
struct cli_source {
  char s[40];
} cli_source(const struct cli_args *args, enum cli_option option);

// The options of the command's pass as this command line gives them; presets for those that it, or
// the command, lacks. Lists lie in *arena. ERR_USAGE for a word that a list does not take.
int cli_pass_values(const struct cli_args *args, struct pass_values *values, struct arena *arena,
                    struct err *err);

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
