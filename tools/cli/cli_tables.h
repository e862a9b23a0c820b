// The tables of the command line: commands (commands.def) and options (options.def). The parser, help, man
// pages and completions read the same rows, so none of them can say what the parser does not do.
//
// A command that is a pass has that pass's options too: their ids follow those of the rows of options, in the order
// of the pass's rows (cli_pass_option finds one by name).
#ifndef WEIR_CLI_TABLES_H
#define WEIR_CLI_TABLES_H

#include "base/err.h"
#include "passes/pass.h"

#include <stdbool.h>
#include <stdint.h>

enum cli_command {
#define COMMAND(stem, ...) CLI_##stem,
#include "cli/commands.def"
  CLI_COMMANDS, // how many
};

enum cli_option {
#define OPTION(id, ...) OPT_##id,
#include "cli/options.def"
#undef OPTION
  CLI_OPTIONS, // how many
};

// Which values an option takes.
enum cli_kind {
  CLI_FLAG,        // none
  CLI_TEXT,        // any word
  CLI_FILE,        // a path, completed as such
  CLI_MODEL,       // a FILE that a model is written to
  CLI_STREAM,      // a FILE, or - for standard input or output
  CLI_FOLDER,      // the path of a folder
  CLI_NAME,        // a plain file name
  CLI_SIZE,        // 64M, 1GiB
  CLI_SIZE_FROM_0, // the same, or 0
  CLI_POWER_OF_2,  // a SIZE
  CLI_COUNT,       // a whole number from 1
  CLI_THREADS,     // a COUNT
  CLI_NUMBER,      // a whole number from 0
  CLI_CHOICE,      // one of some words
  CLI_MAYBE,       // the same, or nothing
  CLI_LIST,        // each time that it is given adds one; a metavar with commas has the words
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
  const char *sets;    // those that it is in, with a space between them
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
  const char *metavar;  // NULL for flags; CHOICE, MAYBE: "a|b/hidden|hidden"
  const char *preset;   // or NULL
  const char *commands; // that have it (cli_names)
  enum cli_group group;
  struct span line;   // what it does
  const char *more;   // what else there is to know, or NULL
  const char *also;   // other words for those of a CHOICE or LIST, as in struct pass_option
  const char *listed; // as in struct pass_option
  const char *offers; // of a pass's options: what completions offer, as there
  bool required;      // of a pass's options: it has to be given
  // Its other name, for other commands; NULL: it has none. more NULL: the same.
  struct {
    const char *name, *commands;
    enum cli_group group;
    const char *more;
  } twin;
};

// Commands list the option after that one, and not where its row lies.
struct cli_place {
  const char *commands; // as in a row
  enum cli_option option, after;
};

// Two options of which not both may be given, except with these words of b.
struct cli_exclusion {
  enum cli_option a, b;
  const char *except;
};

// An option that the environment may preset.
struct cli_environment {
  enum cli_option option;
  const char *variable;
};

struct cli_args;

// Each part may have any number of rows, but `place` one.
struct cli_tables {
  const struct cli_command_row *commands;
  const struct cli_option_row *options;
  const struct cli_place *place; // NULL: none is moved
  const struct cli_exclusion *exclusions;
  const struct cli_environment *environment;
  uint32_t n_commands, n_options, n_exclusions, n_environment;
  // The rules of a whole line that no row says, or NULL.
  int (*check)(struct cli_args *args, struct err *err);
};

// Those of weir. A test may put others in their place.
extern const struct cli_tables *cli_tables;

const struct cli_command_row *cli_command_row(enum cli_command command);
// The row as it is written, with the first name of a twin; cli_row has the name that a command gives it.
const struct cli_option_row *cli_option_row(enum cli_option option);
// Does a list of commands and sets have the command? "writers -plan finalize": those of a set but for one, and
// one more. The last word about a command counts; "all" is every command.
bool cli_names(const char *list, enum cli_command command);
bool cli_option_belongs(enum cli_option option, enum cli_command command);
// The options of one command: those of its pass, of which what must be given comes first, then the others as their rows
// lie. The one after `before`, or the first if that is CLI_NONE; CLI_NONE: there are no more.
#define CLI_NONE ((enum cli_option)UINT32_MAX)
enum cli_option cli_option_after(enum cli_command command, enum cli_option before);
// The row of an option that the command has, under the name and heading that it has there.
struct cli_option_row cli_row(enum cli_command command, enum cli_option option);
// The row of a pass's option, as all passes have it.
struct cli_option_row cli_row_of_pass(const struct pass_option *option);
// Is it an option of the pass that the command is?
bool cli_is_of_pass(enum cli_option option);
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
// Does a value of the kind name a file or folder?
bool cli_is_path(enum cli_kind kind);
// The k-th word of a CHOICE or MAYBE option, hidden ones last; empty past the last, or past the last visible one
// unless `hidden`.
struct span cli_choice(const struct cli_option_row *row, uint32_t k, bool hidden);
// The next word of a text whose words have a space between them, and moves *text past it; n 0: there are no more.
struct span cli_next_word(const char **text);
// Is the word one of those?
bool cli_has_word(const char *text, struct span word);
// The k-th word of a command's operands, brackets kept ("[OUT]"); empty past the last.
struct span cli_operand_word(enum cli_command command, uint32_t k);
// May the line have any number of words for it? "IN..."
bool cli_is_repeated(struct span word);

// The environment variable that the option's value is taken from where the command line gives none; NULL: there
// is none. A variable that is set to nothing counts as not set.
const char *cli_variable(enum cli_option option);

#endif
