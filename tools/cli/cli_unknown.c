// What is said of a word of the command line that weir has not: what was meant, as far as that can be told.
//
//   a slip of the fingers (guess.h) │ an option of another command │ a word of another tool (peer_words.h)
#include "cli/cli_unknown.h"

#include "base/guess.h"
#include "cli/peer_words.h"

#include <stdio.h>
#include <string.h>

enum cli_option cli_unknown_twin(enum cli_command command, struct span name) {
  for (uint32_t o = 0; o < cli_tables->n_options; o++) {
    const struct cli_option_row *row = cli_option_row(o);
    if (row->twin.name && span_is(name, row->twin.name) && cli_names(row->commands, command))
      return o;
  }
  return CLI_NONE;
}

int cli_unknown_hint(const struct cli_args *args, struct err *err) {
  return err_hint(err, "'weir %s --help' lists the options", cli_command_row(args->command)->name);
}

int cli_unknown_command(const char *name, struct err *err) {
  const char *ours = peer_command(name);
  err_fill(err, ERR_USAGE, "there is no command '%s'", quote_str(name).s);
  if (ours) return err_hint(err, *ours == '\'' ? "did you mean %s?" : "%s", ours);
  struct guess g = guess_start(name);
  for (uint32_t c = 0; c < cli_tables->n_commands; c++)
    guess_try(&g, cli_command_row(c)->name);
  guess_try(&g, "completion");
  if (g.best) return err_hint(err, "did you mean 'weir %s'?", g.best);
  if (str_ends(name, ".onnx"))
    return err_hint(err, "the command comes first: 'weir inspect %s'", quote_str(name).s);
  return err_hint(err, "'weir --help' lists the commands");
}

static bool has_option(enum cli_command command, const char *name) {
  return cli_option_named(command, span_str(name)) != CLI_NONE;
}

// Those of a list (cli_names), and no others, have an option of that name.
static bool is_option_of(const char *commands, const char *name) {
  for (uint32_t c = 0; c < cli_tables->n_commands; c++)
    if (cli_names(commands, c) != has_option(c, name)) return false;
  return true;
}

enum { NAMED_COMMANDS = 3 };

// Up to so many commands that have an option of that name, and how many have it.
static uint32_t commands_with(const char *name, enum cli_command first[NAMED_COMMANDS]) {
  uint32_t n = 0;
  for (uint32_t c = 0; c < cli_tables->n_commands; c++) {
    if (!has_option(c, name)) continue;
    if (n < NAMED_COMMANDS) first[n] = c;
    n++;
  }
  return n;
}

// An option that other commands have.
static int misplaced_option(const struct cli_args *args, const char *name, struct err *err) {
  enum cli_command first[NAMED_COMMANDS];
  const uint32_t n = commands_with(name, first);
  char whose[160];
  if (is_option_of("writers", name)) {
    snprintf(whose, sizeof whose, "of the commands that write a model");
  } else if (is_option_of("rewriters", name)) {
    snprintf(whose, sizeof whose, "of the commands that change a model");
  } else if (n > NAMED_COMMANDS) {
    snprintf(whose, sizeof whose, "of other commands");
  } else {
    size_t at = (size_t)snprintf(whose, sizeof whose, "of");
    for (uint32_t i = 0; i < n; i++)
      at += (size_t)snprintf(whose + at, sizeof whose - at, "%s 'weir %s'",
                             i == 0      ? ""
                             : i + 1 < n ? ","
                                         : " and",
                             cli_command_row(first[i])->name);
  }
  err_fill(err, ERR_USAGE, "--%s is an option %s, not of 'weir %s'", quote_str(name).s, whose,
           cli_command_row(args->command)->name);
  for (uint32_t o = 0; o < cli_tables->n_options; o++) {
    const struct cli_option_row *row = cli_option_row(o);
    if (row->twin.name && strcmp(name, row->name) == 0 &&
        cli_names(row->twin.commands, args->command))
      return err_hint(err, "here: --%s", row->twin.name);
  }
  // 'weir run' takes the options of passes with the pass.
  const struct pass *pass = cli_pass(first[0]);
  const uint32_t o =
      pass && args->command == CLI_run ? pass_values_option(pass, span_str(name)) : NO_ID;
  if (o == NO_ID) return cli_unknown_hint(args, err);
  struct arena scratch = {0};
  const char *metavar = pass->options[o].metavar;
  err_fill_hint(err, "with the pass: --pass %s:%s=%s", pass->name,
                pass_values_key(&pass->options[o], &scratch), metavar ? metavar : "true");
  arena_free(&scratch);
  return -1;
}

// Ours is an option of this command, something of another one ('weir X'), or a sentence.
static int hint_peer(const char *ours, struct err *err) {
  const char *is = *ours == '-' ? "here: " : *ours == '\'' ? "that is " : "";
  return err_hint(err, "%s%s", is, ours);
}

// Written as onnxruntime writes its options: AddQDQPairToWeight, quant_format.
static const char *spelt_otherwise(enum cli_command command, const char *name) {
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(command, o)) != CLI_NONE;)
    if (guess_same_letters(cli_row(command, o).name, name)) return cli_row(command, o).name;
  return NULL;
}

// A word of another tool for an option of this command, or ours in other letters.
static bool is_word_of_others(const struct cli_args *args, const char *name, struct err *err) {
  const char *own = spelt_otherwise(args->command, name), *ours;
  enum cli_command whose = args->command;
  ours = peer_option(&whose, name);
  if (!own && (!ours || whose != args->command)) return false;
  err_fill(err, ERR_USAGE, "'weir %s' has no option --%s", cli_command_row(args->command)->name,
           quote_str(name).s);
  if (own)
    err_fill_hint(err, "did you mean --%s?", own);
  else
    hint_peer(ours, err);
  return true;
}

// The same of any command.
static const char *spelt_elsewhere(const char *name) {
  const char *own = NULL;
  for (uint32_t c = 0; c < cli_tables->n_commands && !own; c++)
    own = spelt_otherwise(c, name);
  return own;
}

int cli_unknown_option(const struct cli_args *args, const char *name, struct err *err) {
  const char *command = cli_command_row(args->command)->name;
  if (is_word_of_others(args, name, err)) return -1;
  const char *elsewhere = spelt_elsewhere(name);
  if (elsewhere) return misplaced_option(args, elsewhere, err);
  err_fill(err, ERR_USAGE, "'weir %s' has no option --%s", command, quote_str(name).s);
  struct guess g = guess_start(name);
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(args->command, o)) != CLI_NONE;) {
    const struct cli_option_row row = cli_row(args->command, o);
    if (row.kind == CLI_FLAG && guess_is_opposite(name, row.name))
      return err_hint(err, "it is off by default: leave out --%s%s", row.name,
                      !cli_is_of_pass(o) ? "" : " (or take back what a target set, with =false)");
    guess_try(&g, row.name);
  }
  guess_try(&g, "help");
  if (g.best) return err_hint(err, "did you mean --%s?", g.best);
  enum cli_command one = args->command;
  const char *ours = peer_option(&one, name);
  // A sentence about another command says nothing of this one.
  if (!ours || (*ours != '-' && *ours != '\'')) return cli_unknown_hint(args, err);
  if (*ours == '\'') return hint_peer(ours, err);
  return err_hint(err, "'weir %s' has it: %s", cli_command_row(one)->name, ours);
}

int cli_unknown_letter(const struct cli_args *args, const char *word, struct err *err) {
  err_fill(err, ERR_USAGE, "'weir %s' has no option '%s'", cli_command_row(args->command)->name,
           quote_str(word).s);
  const char *name = word + 1, *equals = strchr(name, '=');
  const size_t n = equals ? (size_t)(equals - name) : strlen(name);
  const char letter[2] = {word[1]};
  enum cli_command whose = args->command;
  const char *ours = peer_option(&whose, letter);
  if (n > 1 && cli_option_named(args->command, span_of(name, n)) != CLI_NONE)
    return err_hint(err, "did you mean '-%s'?", quote_str(word).s);
  if (ours && whose == args->command) return hint_peer(ours, err);
  return err_hint(err, "write './%s' for a file of that name, or put it after '--'",
                  quote_str(word).s);
}
