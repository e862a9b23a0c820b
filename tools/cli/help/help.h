// What --help prints, made from the tables of cli.h; the pieces of it that man pages use too; and what else the tables make.
#ifndef WEIR_HELP_H
#define WEIR_HELP_H

#include "cli/cli.h"
#include "json/json.h"

#include <stdio.h>

// `weir -h`: the commands, by family; `weir --help`: topics, environment and exit codes too; `weir --help-all`:
// what is hidden otherwise too.
enum help_length { HELP_SHORT, HELP_FULL, HELP_ALL };
void help_overview(FILE *to, enum help_length length);
// `weir COMMAND -h`: a screen of 80 columns and at most 40 lines.
void help_screen(FILE *to, enum cli_command command);
// `weir COMMAND --help`: every option with its whole text. `all` adds words that are hidden otherwise.
void help_command(FILE *to, enum cli_command command, bool all);
// Lists of `weir help TOPIC`.
void help_shared_options(FILE *to);
void help_environment(FILE *to);
void help_exit_code_list(FILE *to);

// Headings: of commands, and of options.
extern const char *const help_family_titles[CLI_FAMILIES];
extern const char *const help_group_titles[CLI_GROUPS];
// True if the command has an option of that group.
bool help_group_used(enum cli_group group, enum cli_command command);

// Prints words of `text` from column `at` on, further lines indented; a line break of the text begins a new
// line. Ends the last line.
void help_wrap(FILE *to, const char *text, size_t at, size_t indent);
// "  head   text": an entry of a list, the text wrapped from its column on.
enum { HELP_OPTIONS = 28, HELP_NAMES = 16, HELP_PASSES = 32 };
void help_entry(FILE *to, size_t column, const char *head, const char *text);

// The text of an option: its short line, what the parser adds (repeated, required, default, variable of the
// environment or NULL), and if `full`, the long text after a line break.
struct help_text {
  char s[2048];
};
struct help_text help_option_text(const struct cli_option_row *row, const char *variable,
                                  bool full);

// "a|b" of a CHOICE option (NAME where a command lists the words), the metavar of any other; "" for flags.
struct help_metavar {
  char s[64];
};
struct help_metavar help_metavar(const struct cli_option_row *row, bool all);

// The k-th variable of the environment that weir looks at; past the last one, without a name.
struct help_variable {
  const char *name;
  char meaning[96];
};
struct help_variable help_variable(uint32_t k);

// Exit codes, in the order of their numbers; the last has no meaning (NULL).
struct help_exit_code {
  enum err_kind code;
  const char *meaning;
};
extern const struct help_exit_code help_exit_codes[];
extern const char *const help_signals; // what a signal does instead

extern const char *const help_what_weir_is; // one sentence

// completion.c: scripts that complete command lines.
void completion_bash(FILE *to);
void completion_zsh(FILE *to);
void completion_fish(FILE *to);

// manpage.c: writes weir.1 and weir-<command>.1 into an existing folder. ERR_IO (or what the system says) with
// the file's name.
int manpage_write_all(const char *folder, struct err *err);

// tables.c: commands and options as one document (docs/schema/tables.json), for programs that make something of them, as
// packaging/python does. json_done frees it.
void tables_write(struct json_out *j);

// version.c: "2026-11-21": when this version was made, for manual pages; changes only with it.
extern const char version_date[];
// "weir 0.2.0", then a line each for the libraries, the instruction set whose kernels run here, and the engine that --io auto
// takes here.
void version_print(FILE *to);
// The licence of weir, and of every library that is linked into it.
void version_print_licenses(FILE *to);

#endif
