// Scripts for bash, zsh and fish that complete weir's command lines, printed from the tables.
//
// Each script knows, without calling weir: the commands, the options of each, the words of choices,
// and where a path stands. Summaries and help texts are shown by the shells that show such things
// (zsh, fish). Texts go into single quotes, whose only way out is escaped; names and words of the
// tables are plain.
#include "cli/help/help.h"

#include "cli/help/topics.h"
#include "passes/catalogue/passes.h"
#include "pipeline/optimize_steps.h"
#include "targets/targets.h"

#include <string.h>

// ---- texts --------------------------------------------------------------------------------------

// A text inside single quotes of a POSIX-like shell. `also`: characters that the command reading
// the word takes for itself, escaped with a backslash.
static void put_quoted(FILE *to, struct span text, const char *also) {
  for (size_t i = 0; i < text.n; i++) {
    if (text.at[i] == '\'')
      fputs("'\\''", to);
    else if (strchr(also, text.at[i]))
      fprintf(to, "\\%c", text.at[i]);
    else
      fputc(text.at[i], to);
  }
}

// Likewise; fish knows \' and \\ inside single quotes.
static void put_fish(FILE *to, struct span text) {
  for (size_t i = 0; i < text.n; i++) {
    if (text.at[i] == '\'' || text.at[i] == '\\') fputc('\\', to);
    fputc(text.at[i], to);
  }
}

static bool is_path(const struct cli_option_row *row) {
  return (cli_is_path(row->kind) && row->kind != CLI_NAME) ||
         (row->kind == CLI_LIST && strcmp(row->metavar, "FILE") == 0);
}

// --pass names passes.
static bool names_passes(const struct cli_option_row *row) {
  return strcmp(row->name, cli_option_row(OPT_PASS)->name) == 0;
}

// --only and --skip name steps of `weir optimize`.
static bool names_steps(const struct cli_option_row *row) {
  return strcmp(row->name, cli_option_row(OPT_ONLY)->name) == 0 ||
         strcmp(row->name, cli_option_row(OPT_SKIP)->name) == 0;
}

// The words that an option takes, as far as they are known.
static bool offers_words(const struct cli_option_row *row) {
  return row->kind == CLI_CHOICE || row->kind == CLI_MAYBE || names_passes(row) ||
         names_steps(row) || row->offers || (row->kind == CLI_LIST && strchr(row->metavar, ','));
}

static void put_commands(FILE *to) {
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    fprintf(to, "%s%s", c ? " " : "", cli_command_row(c)->name);
}

// What `weir help` takes.
static void put_help_words(FILE *to) {
  const char *name, *summary;
  put_commands(to);
  for (uint32_t k = 0; (name = topics_name(k, &summary)); k++)
    if (cli_command_by_name(name) == CLI_COMMANDS) fprintf(to, " %s", name);
}

// A family stands for its passes, and its name is before them.
static void put_passes(FILE *to) {
  for (uint32_t i = 0; i < passes_count(NULL); i++) {
    const struct pass *pass = passes_at(NULL, i);
    const struct span family = passes_family(pass);
    if (i) fputc(' ', to);
    if (!span_is(family, pass->name) && passes_named(NULL, family, 0) == pass)
      fprintf(to, "%.*s ", (int)family.n, (const char *)family.at);
    fputs(pass->name, to);
  }
}

// Likewise; steps of a family do not lie side by side.
static void put_steps(FILE *to) {
  const char *step;
  enum optimize_when when;
  uint32_t goals;
  for (uint32_t i = 0; (step = optimize_steps_name(i, &when, &goals)); i++)
    fprintf(to, "%s%s", i ? " " : "", step);
  for (uint32_t i = 0; (step = optimize_steps_name(i, &when, &goals)); i++) {
    const struct span family = span_of(step, strcspn(step, "/"));
    bool seen = false;
    const char *other;
    for (uint32_t k = 0; k < i && (other = optimize_steps_name(k, &when, &goals)); k++)
      seen = seen || span_eq(family, span_of(other, strcspn(other, "/")));
    if (!seen) fprintf(to, " %.*s", (int)family.n, (const char *)family.at);
  }
}

static void put_words(FILE *to, const struct cli_option_row *row) {
  if (row->kind == CLI_CHOICE || row->kind == CLI_MAYBE) {
    struct span word;
    for (uint32_t k = 0; (word = cli_choice(row, k, false)).n > 0; k++)
      fprintf(to, "%s%.*s", k ? " " : "", (int)word.n, (const char *)word.at);
  } else if (names_passes(row)) {
    put_passes(to);
  } else if (names_steps(row)) {
    put_steps(to);
  } else if (row->offers) {
    fputs(row->offers, to);
  } else {
    for (const char *list = row->metavar; *list; list++)
      fputc(*list == ',' ? ' ' : *list, to);
  }
}

// The same for completion: one text serves both.
static bool same_values(const struct cli_option_row *a, const struct cli_option_row *b) {
  if (a->kind != b->kind || a->kind == CLI_FLAG) return a->kind == b->kind;
  return strcmp(a->metavar, b->metavar) == 0;
}

// Operands that are names: of a pass, of a target.
static bool operand_is_name(enum cli_command c) {
  return c == CLI_passes || c == CLI_targets;
}

static void put_names(FILE *to, enum cli_command c) {
  if (c == CLI_passes) {
    put_passes(to);
    return;
  }
  for (const char *name = targets_names(); *name; name++)
    fputc(*name == '|' ? ' ' : *name, to);
}

static bool operand_is_folder(enum cli_command c) {
  return strcmp(cli_command_row(c)->operands, "DIR") == 0;
}

// ---- bash ---------------------------------------------------------------------------------------

static void bash_value(FILE *to, const struct cli_option_row *row) {
  if (row->offers) {
    fprintf(to, "_weir_values '");
    put_words(to, row);
    fputc('\'', to);
  } else if (offers_words(row)) {
    fprintf(to, "COMPREPLY=($(compgen -W '");
    put_words(to, row);
    fprintf(to, "' -- \"$word\"))");
  } else if (is_path(row)) {
    fprintf(to, "_weir_paths %c \"$word\"", row->kind == CLI_FOLDER ? 'd' : 'f');
  } else {
    fprintf(to, "COMPREPLY=()"); // a number or a new name: nothing to offer
  }
}

// The first command from c on that has an option of that name, with its row; or CLI_COMMANDS.
static uint32_t next_with(uint32_t c, const char *name, struct cli_option_row *row) {
  for (; c < CLI_COMMANDS; c++) {
    const enum cli_option o = cli_option_named(c, span_str(name));
    if (o == CLI_NONE) continue;
    *row = cli_row(c, o);
    return c;
  }
  return CLI_COMMANDS;
}

// Likewise, with an option that takes the same values.
static uint32_t next_with_same(uint32_t c, const char *name, const struct cli_option_row *row) {
  struct cli_option_row other;
  while ((c = next_with(c, name, &other)) < CLI_COMMANDS && !same_values(row, &other))
    c++;
  return c;
}

// Commands whose options of one name take the same values share a line, that of the first of them.
static void bash_values_by_command(FILE *to, const char *name) {
  struct cli_option_row row;
  fprintf(to, "case ${COMP_WORDS[1]} in\n");
  for (uint32_t c = 0; (c = next_with(c, name, &row)) < CLI_COMMANDS; c++) {
    if (next_with_same(0, name, &row) < c) continue;
    fprintf(to, "      %s", cli_command_row(c)->name);
    for (uint32_t d = c + 1; (d = next_with_same(d, name, &row)) < CLI_COMMANDS; d++)
      fprintf(to, "|%s", cli_command_row(d)->name);
    fprintf(to, ") ");
    bash_value(to, &row);
    fprintf(to, " ;;\n");
  }
  fprintf(to, "      esac");
}

// Each name once, at the first command that has it.
static void bash_values(FILE *to) {
  struct cli_option_row other;
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;) {
      const struct cli_option_row row = cli_row(c, o);
      if (row.kind == CLI_FLAG || next_with(0, row.name, &other) != c) continue;
      fprintf(to, "    --%s", row.name);
      if (row.letter) fprintf(to, "|-%c", row.letter);
      fprintf(to, ") ");
      bool differs = false; // between commands
      for (uint32_t d = c; (d = next_with(d + 1, row.name, &other)) < CLI_COMMANDS;)
        differs = differs || !same_values(&row, &other);
      if (differs)
        bash_values_by_command(to, row.name);
      else
        bash_value(to, &row);
      fprintf(to, "; return ;;\n");
    }
}

void completion_bash(FILE *to) {
  fprintf(to, "# bash completion for weir; made by 'weir completion bash'\n"
              "_weir_paths() {\n"
              "  compopt -o filenames 2>/dev/null\n"
              "  mapfile -t COMPREPLY < <(compgen -\"$1\" -- \"$2\")\n"
              "}\n"
              "# Values with : and =, where bash begins another word, and commas between them.\n"
              "_weir_values() {\n"
              "  local line=${COMP_LINE:0:COMP_POINT} breaks='' kept='' list='' value\n"
              "  value=${line##*[[:space:]]}\n"
              "  [[ $value == --*=* ]] && value=${value#*=}\n"
              "  [[ $COMP_WORDBREAKS == *:* ]] && breaks+=:\n"
              "  [[ $COMP_WORDBREAKS == *=* ]] && breaks+==\n"
              "  [[ $breaks ]] && kept=${value%%\"${value##*[$breaks]}\"}\n"
              "  [[ $value == *,* ]] && list=${value%%,*},\n"
              "  COMPREPLY=($(compgen -P \"$list\" -W \"$1\" -- \"${value#\"$list\"}\"))\n"
              "  COMPREPLY=(\"${COMPREPLY[@]#\"$kept\"}\")\n"
              "  compopt -o nospace 2>/dev/null\n"
              "}\n"
              "_weir() {\n"
              "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
              "  local options='' folders='' names='' first=COMP_CWORD\n"
              "  # --name=value, and a value with : or =, come as several words.\n"
              "  while ((first > 2)) && [[ ${COMP_WORDS[first]} == [:=]* || "
              "${COMP_WORDS[first-1]} == [:=]* ]]; do ((first--)); done\n"
              "  before=${COMP_WORDS[first-1]}\n"
              "  [[ ${COMP_WORDS[first]} == --?* && $first -lt $COMP_CWORD ]] && "
              "before=${COMP_WORDS[first]}\n"
              "  [[ $word == [:=] ]] && word=''\n"
              "  if ((COMP_CWORD == 1)); then\n"
              "    COMPREPLY=($(compgen -W '");
  put_commands(to);
  fprintf(to, " help completion -h --help --help-all --version' -- \"$word\"))\n"
              "    return\n"
              "  fi\n"
              "  case $before in\n");
  bash_values(to);
  fprintf(to, "  esac\n"
              "  case ${COMP_WORDS[1]} in\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "    %s) options='", cli_command_row(c)->name);
    for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;)
      fprintf(to, "--%s ", cli_row(c, o).name);
    fprintf(to, "--help --help-all'; folders=%s", operand_is_folder(c) ? "yes" : "");
    if (operand_is_name(c)) {
      fprintf(to, "; names='");
      put_names(to, c);
      fputc('\'', to);
    }
    fprintf(to, " ;;\n");
  }
  fprintf(to, "    help) names='");
  put_help_words(to);
  fprintf(to, "' ;;\n    completion) names='bash zsh fish' ;;\n");
  fprintf(to, "  esac\n"
              "  if [[ $word == -* ]]; then\n"
              "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
              "  elif [[ $names ]]; then\n"
              "    COMPREPLY=($(compgen -W \"$names\" -- \"$word\"))\n"
              "  elif [[ $folders ]]; then\n"
              "    _weir_paths d \"$word\"\n"
              "  else\n"
              "    _weir_paths f \"$word\"\n"
              "  fi\n"
              "}\n"
              "complete -F _weir weir\n");
}

// ---- zsh ----------------------------------------------------------------------------------------

static void zsh_option(FILE *to, const struct cli_option_row *row) {
  bool flag = row->kind == CLI_FLAG;
  const char *again = row->kind == CLI_LIST ? "*" : "";
  fprintf(to, "        ");
  if (row->letter)
    fprintf(to, flag ? "'(-%c --%s)'{-%c,--%s}" : "'(-%c --%s)'{-%c+,--%s=}", row->letter,
            row->name, row->letter, row->name);
  else
    fprintf(to, "'%s--%s%s'", again, row->name, flag ? "" : row->kind == CLI_MAYBE ? "=-" : "=");
  fprintf(to, "'[");
  put_quoted(to, row->line, "[]:\\");
  fputc(']', to);
  if (row->offers) {
    fprintf(to, ":%s:{compadd -S \"\" -- ", row->name);
    put_quoted(to, span_str(row->offers), ":\\");
    fputc('}', to);
  } else if (offers_words(row)) {
    fprintf(to, ":%s%s:(", row->kind == CLI_MAYBE ? ":" : "", row->name);
    put_words(to, row);
    fputc(')', to);
  } else if (!flag) {
    fputc(':', to);
    put_quoted(to, span_str(row->metavar), ":\\");
    fprintf(to, ":%s", row->kind == CLI_FOLDER ? "_files -/" : is_path(row) ? "_files" : " ");
  }
  fprintf(to, "' \\\n");
}

void completion_zsh(FILE *to) {
  fprintf(to, "#compdef weir\n"
              "# zsh completion for weir; made by 'weir completion zsh'\n"
              "_weir() {\n"
              "  local -a commands\n"
              "  if ((CURRENT == 2)); then\n"
              "    commands=(\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "      '%s:", cli_command_row(c)->name);
    put_quoted(to, span_str(cli_command_row(c)->summary), ":\\");
    fprintf(to, "'\n");
  }
  fprintf(to, "      'help:help about a command or a topic'\n"
              "      'completion:print a completion script'\n"
              "      '--help:show help'\n"
              "      '-h:list the commands'\n"
              "      '--help-all:show help, including hidden options'\n"
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
    for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;) {
      const struct cli_option_row row = cli_row(c, o);
      zsh_option(to, &row);
    }
    fprintf(to, "        '(-h --help)'{-h,--help}'[show help]' \\\n");
    if (operand_is_name(c)) {
      fprintf(to, "        '1:name:(");
      put_names(to, c);
      fprintf(to, ")' ;;\n");
    } else {
      fprintf(to, "        '*:file:_files%s' ;;\n", operand_is_folder(c) ? " -/" : "");
    }
  }
  fprintf(to, "    help) _values command ");
  put_help_words(to);
  fprintf(to, " ;;\n    completion) _values shell bash zsh fish ;;\n");
  fprintf(to, "  esac\n"
              "}\n"
              "if [[ $funcstack[1] == _weir ]]; then _weir \"$@\"; else compdef _weir weir; fi\n");
}

// ---- fish ---------------------------------------------------------------------------------------

// The row of an option that command c has, for all commands with the same one under the same name.
static bool is_same_option(uint32_t c, uint32_t d, enum cli_option o) {
  if (!cli_option_belongs(o, d) || (cli_is_of_pass(o) && cli_pass(c) != cli_pass(d))) return false;
  return strcmp(cli_row(c, o).name, cli_row(d, o).name) == 0;
}

static void fish_option(FILE *to, uint32_t first, enum cli_option o) {
  const struct cli_option_row of_first = cli_row(first, o), *row = &of_first;
  fprintf(to, "complete -c weir -n '__fish_seen_subcommand_from");
  for (uint32_t c = first; c < CLI_COMMANDS; c++)
    if (is_same_option(first, c, o)) fprintf(to, " %s", cli_command_row(c)->name);
  fprintf(to, "' -l %s", row->name);
  if (row->letter) fprintf(to, " -s %c", row->letter);
  if (offers_words(row)) {
    fprintf(to, row->kind == CLI_MAYBE ? " -f -a '" : " -x -a '");
    put_words(to, row);
    fputc('\'', to);
  } else if (row->kind == CLI_FOLDER) {
    fprintf(to, " -x -a '(__fish_complete_directories)'");
  } else if (row->kind != CLI_FLAG) {
    fprintf(to, is_path(row) ? " -r -F" : " -x");
  }
  fprintf(to, " -d '");
  put_fish(to, row->line);
  fprintf(to, "'\n");
}

void completion_fish(FILE *to) {
  fprintf(
      to,
      "# fish completion for weir; made by 'weir completion fish'\n"
      "complete -c weir -n __fish_use_subcommand -l help -s h -f -d 'show help'\n"
      "complete -c weir -n __fish_use_subcommand -l help-all -f -d 'show help, including "
      "hidden options'\n"
      "complete -c weir -n __fish_use_subcommand -f -a help -d 'help about a command or a topic'\n"
      "complete -c weir -n __fish_use_subcommand -f -a completion -d 'print a completion script'\n"
      "complete -c weir -n __fish_use_subcommand -l version -f -d 'show versions'\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    fprintf(to, "complete -c weir -n __fish_use_subcommand -f -a %s -d '",
            cli_command_row(c)->name);
    put_fish(to, span_str(cli_command_row(c)->summary));
    fprintf(to, "'\n");
    if (operand_is_name(c)) {
      fprintf(to, "complete -c weir -n '__fish_seen_subcommand_from %s' -f -a '",
              cli_command_row(c)->name);
      put_names(to, c);
      fprintf(to, "'\n");
    }
    if (!operand_is_folder(c)) continue;
    fprintf(to,
            "complete -c weir -n '__fish_seen_subcommand_from %s' -f -a "
            "'(__fish_complete_directories)'\n",
            cli_command_row(c)->name);
  }
  fprintf(to, "complete -c weir -n '__fish_seen_subcommand_from help' -f -a '");
  put_help_words(to);
  fprintf(
      to,
      "'\ncomplete -c weir -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n");
  fprintf(to, "complete -c weir -n 'not __fish_use_subcommand' -l help -s h -d 'show help'\n");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;) {
      uint32_t first = 0;
      while (!is_same_option(c, first, o))
        first++;
      if (first == c) fish_option(to, c, o);
    }
}
