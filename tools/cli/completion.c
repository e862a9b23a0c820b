// Scripts for bash, zsh and fish that complete weir's command lines, printed from the tables.
//
// Each script knows, without calling weir: the commands, the options of each, the words of choices,
// and where a path stands. Summaries and help texts are shown by the shells that show such things
// (zsh, fish). Texts go into single quotes, whose only way out is escaped; names and words of the
// tables are plain.
#include "completion.h"

#include "help.h"

#include <string.h>

// ---- texts --------------------------------------------------------------------------------------

// The text inside single quotes of a POSIX-like shell. `also`: characters that the command reading
// the word takes for itself, escaped with a backslash.
static void put_quoted(FILE *to, const char *text, const char *also) {
  for (; *text; text++)
    if (*text == '\'')
      fputs("'\\''", to);
    else if (strchr(also, *text))
      fprintf(to, "\\%c", *text);
    else
      fputc(*text, to);
}

// fish knows \' and \\ inside single quotes.
static void put_fish(FILE *to, const char *text) {
  for (; *text; text++) {
    if (*text == '\'' || *text == '\\') fputc('\\', to);
    fputc(*text, to);
  }
}

// The words that an option takes, as far as they are known.
static bool offers_words(enum cli_option o) {
  const struct cli_option_row *row = cli_option_row(o);
  return row->kind == CLI_CHOICE || o == OPT_PASS ||
         (row->kind == CLI_LIST && strchr(row->metavar, ','));
}

static void put_words(FILE *to, enum cli_option o) {
  const char *list = cli_option_row(o)->metavar;
  if (cli_option_row(o)->kind == CLI_CHOICE) {
    // The words of a choice with a separator between them.
    const char *word;
    size_t n;
    for (uint32_t k = 0; cli_choice(o, k, false, &word, &n); k++)
      fprintf(to, "%s%.*s", k ? " " : "", (int)n, word);
  } else if (o == OPT_PASS) {
    for (uint32_t p = 0; p < PASSES; p++)
      fprintf(to, "%s%s", p ? " " : "", pass_row(p)->name);
  } else {
    for (; *list; list++)
      fputc(*list == ',' ? ' ' : *list, to);
  }
}

static bool takes_path(enum cli_option o) {
  return cli_option_row(o)->kind == CLI_FILE;
}

static bool operand_is_folder(enum cli_command c) {
  return strcmp(cli_command_row(c)->operands, "DIR") == 0;
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_value(FILE *to, enum cli_option o) {
  if (offers_words(o)) {
    fprintf(to, "COMPREPLY=($(compgen -W '");
    put_words(to, o);
    fprintf(to, "' -- \"$word\"))");
  } else if (takes_path(o)) {
    fprintf(to, "_weir_paths f \"$word\"");
  } else {
    fprintf(to, "COMPREPLY=()"); // a number or a new name: nothing to offer
  }
}

// The next row from `o` on that has this name and a command, or CLI_OPTIONS.
static uint32_t next_named(uint32_t o, const char *name) {
  while (o < CLI_OPTIONS &&
         (!cli_option_row(o)->commands || strcmp(cli_option_row(o)->name, name) != 0))
    o++;
  return o;
}

// Rows of one name take their turns by command.
static void bash_values_by_command(FILE *to, const char *name) {
  fprintf(to, "case ${COMP_WORDS[1]} in\n");
  for (uint32_t o = next_named(0, name); o < CLI_OPTIONS; o = next_named(o + 1, name)) {
    const char *between = "      ";
    for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
      if (!cli_option_belongs(o, c)) continue;
      fprintf(to, "%s%s", between, cli_command_row(c)->name);
      between = "|";
    }
    fprintf(to, ") ");
    bash_value(to, o);
    fprintf(to, " ;;\n");
  }
  fprintf(to, "      esac");
}

static void bash_values(FILE *to) {
  for (uint32_t o = 0; o < CLI_OPTIONS; o++) {
    const struct cli_option_row *row = cli_option_row(o);
    if (row->kind == CLI_FLAG || next_named(0, row->name) != o) continue;
    fprintf(to, "    --%s", row->name);
    if (row->letter) fprintf(to, "|-%c", row->letter);
    fprintf(to, ") ");
    if (next_named(o + 1, row->name) < CLI_OPTIONS)
      bash_values_by_command(to, row->name);
    else
      bash_value(to, o);
    fprintf(to, "; return ;;\n");
  }
}

void completion_bash(FILE *to) {
  fprintf(to, "# bash completion for weir; made by 'weir --generate bash'\n"
              "_weir_paths() {\n"
              "  compopt -o filenames 2>/dev/null\n"
              "  mapfile -t COMPREPLY < <(compgen -\"$1\" -- \"$2\")\n"
              "}\n"
              "_weir() {\n"
              "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
              "  local options='' folders=''\n"
              "  # --name=value comes as three words.\n"
              "  if [[ $word == = ]]; then word=''\n"
              "  elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
              "  if ((COMP_CWORD == 1)); then\n"
              "    COMPREPLY=($(compgen -W '");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    fprintf(to, "%s ", cli_command_row(c)->name);
  fprintf(to, "--help --version' -- \"$word\"))\n"
              "    return\n"
              "  fi\n"
              "  case $before in\n");
  bash_values(to);
  fprintf(to, "  esac\n"
              "  case ${COMP_WORDS[1]} in\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "    %s) options='", cli_command_row(c)->name);
    for (uint32_t o = 0; o < CLI_OPTIONS; o++)
      if (cli_option_belongs(o, c)) fprintf(to, "--%s ", cli_option_row(o)->name);
    fprintf(to, "--help'; folders=%s ;;\n", operand_is_folder(c) ? "yes" : "");
  }
  fprintf(to, "  esac\n"
              "  if [[ $word == -* ]]; then\n"
              "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
              "  elif [[ $folders ]]; then\n"
              "    _weir_paths d \"$word\"\n"
              "  else\n"
              "    _weir_paths f \"$word\"\n"
              "  fi\n"
              "}\n"
              "complete -F _weir weir\n");
}

// ---- zsh ----------------------------------------------------------------------------------------

static void zsh_option(FILE *to, enum cli_option o) {
  const struct cli_option_row *row = cli_option_row(o);
  bool flag = row->kind == CLI_FLAG;
  const char *again = row->kind == CLI_LIST ? "*" : "";
  fprintf(to, "        ");
  if (row->letter)
    fprintf(to, "'(-%c --%s)'{-%c+,--%s=}", row->letter, row->name, row->letter, row->name);
  else
    fprintf(to, "'%s--%s%s'", again, row->name, flag ? "" : "=");
  fprintf(to, "'[");
  put_quoted(to, row->help, "[]:\\");
  fputc(']', to);
  if (offers_words(o)) {
    fprintf(to, ":%s:(", row->name);
    put_words(to, o);
    fputc(')', to);
  } else if (!flag) {
    fputc(':', to);
    put_quoted(to, row->metavar, ":\\");
    fprintf(to, ":%s", takes_path(o) ? "_files" : " ");
  }
  fprintf(to, "' \\\n");
}

void completion_zsh(FILE *to) {
  fprintf(to, "#compdef weir\n"
              "# zsh completion for weir; made by 'weir --generate zsh'\n"
              "_weir() {\n"
              "  local -a commands\n"
              "  if ((CURRENT == 2)); then\n"
              "    commands=(\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "      '%s:", cli_command_row(c)->name);
    put_quoted(to, cli_command_row(c)->summary, ":\\");
    fprintf(to, "'\n");
  }
  fprintf(to, "      '--help:show help'\n"
              "      '--version:show versions'\n"
              "    )\n"
              "    _describe 'command' commands\n"
              "    return\n"
              "  fi\n"
              "  local command=$words[2]\n"
              "  shift words\n"
              "  ((CURRENT--))\n"
              "  case $command in\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "    %s)\n      _arguments -s -S \\\n", cli_command_row(c)->name);
    for (uint32_t o = 0; o < CLI_OPTIONS; o++)
      if (cli_option_belongs(o, c)) zsh_option(to, o);
    fprintf(to, "        '(-h --help)'{-h,--help}'[show help]' \\\n");
    fprintf(to, "        '*:file:_files%s' ;;\n", operand_is_folder(c) ? " -/" : "");
  }
  fprintf(to, "  esac\n"
              "}\n"
              "if [[ $funcstack[1] == _weir ]]; then _weir \"$@\"; else compdef _weir weir; fi\n");
}

// ---- fish ---------------------------------------------------------------------------------------

static void fish_option(FILE *to, enum cli_option o) {
  const struct cli_option_row *row = cli_option_row(o);
  fprintf(to, "complete -c weir -n '__fish_seen_subcommand_from");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    if (cli_option_belongs(o, c)) fprintf(to, " %s", cli_command_row(c)->name);
  fprintf(to, "' -l %s", row->name);
  if (row->letter) fprintf(to, " -s %c", row->letter);
  if (offers_words(o)) {
    fprintf(to, " -x -a '");
    put_words(to, o);
    fputc('\'', to);
  } else if (row->kind != CLI_FLAG) {
    fprintf(to, takes_path(o) ? " -r -F" : " -x");
  }
  fprintf(to, " -d '");
  put_fish(to, row->help);
  fprintf(to, "'\n");
}

void completion_fish(FILE *to) {
  fprintf(to, "# fish completion for weir; made by 'weir --generate fish'\n"
              "complete -c weir -n __fish_use_subcommand -l help -f -d 'show help'\n"
              "complete -c weir -n __fish_use_subcommand -l version -f -d 'show versions'\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "complete -c weir -n __fish_use_subcommand -f -a %s -d '",
            cli_command_row(c)->name);
    put_fish(to, cli_command_row(c)->summary);
    fprintf(to, "'\n");
    if (!operand_is_folder(c)) continue;
    fprintf(to,
            "complete -c weir -n '__fish_seen_subcommand_from %s' -f -a "
            "'(__fish_complete_directories)'\n",
            cli_command_row(c)->name);
  }
  fprintf(to, "complete -c weir -n 'not __fish_use_subcommand' -l help -s h -d 'show help'\n");
  for (uint32_t o = 0; o < CLI_OPTIONS; o++)
    if (cli_option_row(o)->commands) fish_option(to, o);
}
