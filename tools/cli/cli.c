// One walk over the words:
//
//   weir COMMAND word …      word = --name | --name=value | --name value | -o value | operand
//
// Options and operands come in any order; `--` ends the options; of an option given twice the last
// counts, so that an alias or a script may have defaults, unless it is a list; of two files or folders one
// would go unwritten, so that is refused. Names are never abbreviated: a script that works today must not
// break when an option is added. What can be wrong with a single word is found while reading it,
// what needs all of them (operands, exclusions, a missing output) afterwards. Whether a value makes
// sense for a model is not decided here.
#include "cli.h"

#include "cli_unknown.h"
#include "shell_words.h"
#include "guess.h"
#include "peer_words.h"
#include "size_words.h"
#include "threads.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- values -------------------------------------------------------------------------------------

// A word of the line, or of the environment, as the value of one option.
struct taking {
  struct cli_args *args;
  enum cli_option o;
  struct cli_option_row row;
  struct cli_value *value;
};

static struct taking taking_of(struct cli_args *args, enum cli_option o) {
  return (struct taking){args, o, cli_row(args->command, o), &args->value[o]};
}

static int bad_value(const struct taking *t, const char *text, const char *wanted,
                     struct err *err) {
  return err_set(err, ERR_USAGE, "invalid value '%s' for %s: use %s", quote_str(text).s,
                 cli_source(t->args, t->o).s, wanted);
}

static int no_stream_of_a_model(struct err *err) {
  err_fill(err, ERR_USAGE,
           "a model cannot be read from a pipe or written to one: weir needs random access");
  return err_hint(err, "write './-' for a file of that name");
}

// The word of a choice as the row has it, or NULL. Hidden words are for who types them: --io null writes no model.
static const char *known_word(const struct taking *t, const char *text) {
  struct span word;
  for (uint32_t k = 0; (word = cli_choice(&t->row, k, !t->value->inherited)).n > 0; k++)
    if (pass_values_means(t->row.also, span_str(text), word))
      return arena_string(&t->args->arena, word);
  return NULL;
}

static int bad_choice(const struct taking *t, const char *text, struct err *err) {
  const char *ours = peer_value(t->row.name, text);
  if (!t->row.listed) {
    char visible[64];
    snprintf(visible, sizeof visible, "%.*s", (int)strcspn(t->row.metavar, "/"), t->row.metavar);
    (void)bad_value(t, text, visible, err);
    return ours ? err_hint(err, "did you mean %s?", ours) : -1;
  }
  err_fill(err, ERR_USAGE, "invalid value '%s' for --%s", quote_str(text).s, t->row.name);
  struct guess g = guess_start(text);
  struct span word;
  for (uint32_t k = 0; (word = cli_choice(&t->row, k, false)).n > 0; k++)
    guess_try(&g, arena_string(&t->args->arena, word));
  if (ours) return err_hint(err, "did you mean %s? '%s' lists all", ours, t->row.listed);
  if (g.best) return err_hint(err, "did you mean '%s'? '%s' lists all", g.best, t->row.listed);
  return err_hint(err, "'%s' lists them", t->row.listed);
}

static int check_path(const struct taking *t, const char *text, struct err *err) {
  if (path_is_stream(text) && t->row.kind == CLI_MODEL) return no_stream_of_a_model(err);
  if (path_is_stream(text) && t->row.kind == CLI_FILE)
    return bad_value(t, text, "a path, such as ./-", err);
  return *text == '\0' ? bad_value(t, text, "a path", err) : 0;
}

// What a pass's option has, for the slots.
static void show_pass_value(const struct taking *t) {
  const struct pass_value *x = &t->args->of_pass.of[t->o - cli_tables->n_options];
  t->value->text = x->text;
  t->value->number = x->number;
  t->value->list = x->list;
  t->value->n_list = x->n_list;
}

// A word for the pass that the command is. The pass's row says what it takes (pass_values.h); the line has hints that
// are its own.
static int set_pass_value(const struct taking *t, const char *text, struct err *err) {
  const uint32_t option = t->o - cli_tables->n_options;
  struct err why = {0};
  if (t->row.kind == CLI_FILE && check_path(t, text, err)) return -1;
  if (pass_values_put(&t->args->of_pass, option, span_str(text), &t->args->arena, &why) == 0) {
    show_pass_value(t);
    return 0;
  }
  if (t->row.kind == CLI_CHOICE) return bad_choice(t, text, err);
  *err = why;
  if (t->args->command != CLI_conv2matmul || strcmp(t->row.name, "max-dilation") != 0) return -1;
  // The words that scripts around onnx-conv2matmul know.
  return err_hint(err, "max_dilation must be >= 1");
}

// What the kind of the option makes of the word.
static int set_value(const struct taking *t, const char *text, struct err *err) {
  if (cli_is_of_pass(t->o)) return set_pass_value(t, text, err);
  struct cli_value *v = t->value;
  const char *wanted; // in words what it takes, or the word that is meant
  uint64_t n = 0;
  switch (t->row.kind) {
  case CLI_FLAG: return 0;
  case CLI_SIZE:
  case CLI_SIZE_FROM_0:
  case CLI_POWER_OF_2:
    if (!size_words_parse(text, &n) || (n == 0 && t->row.kind != CLI_SIZE_FROM_0))
      return bad_value(t, text, "a size such as 64M, 64MiB or 1.5G", err);
    if (t->row.kind == CLI_POWER_OF_2 && ((n & (n - 1)) != 0 || n > (1u << 30)))
      return bad_value(t, text, "a power of two up to 1GiB", err);
    break;
  case CLI_COUNT:
  case CLI_THREADS:
  case CLI_NUMBER:
    wanted = pass_values_whole(span_str(text), t->row.kind != CLI_NUMBER,
                               t->row.kind == CLI_THREADS ? THREADS_MAX : INT32_MAX, &n,
                               &t->args->arena);
    if (wanted) return bad_value(t, text, wanted, err);
    break;
  case CLI_LIST:
    // At most as many elements as the line has words, or one: its preset.
    if (*text == '\0') return bad_value(t, text, t->row.metavar, err);
    if (!v->list) v->list = arena_alloc(&t->args->arena, (size_t)t->args->argc * sizeof *v->list);
    v->list[v->n_list++] = text;
    return 0;
  case CLI_CHOICE:
  case CLI_MAYBE:
    wanted = known_word(t, text);
    if (!wanted) return bad_choice(t, text, err);
    text = wanted;
    break;
  case CLI_NAME:
    // "./NAME" is NAME. "./" alone, which other tools take for the folder of the model, leaves the name to weir.
    if (strncmp(text, "./", 2) == 0 && *(text += 2) == '\0') break;
    // Readers look for "..", in any place, before they open a data file.
    if (*text == '\0' || strlen(text) > 255 || strchr(text, '/') || strcmp(text, ".") == 0 ||
        strstr(text, ".."))
      return bad_value(t, text, "a plain file name, without '/' and '..'", err);
    break;
  case CLI_FILE:
  case CLI_MODEL:
  case CLI_STREAM:
  case CLI_FOLDER:
    if (check_path(t, text, err)) return -1;
    break;
  case CLI_TEXT: break;
  }
  v->number = n;
  v->text = text;
  return 0;
}

// ---- words --------------------------------------------------------------------------------------

static bool is_path(enum cli_kind kind) {
  return kind == CLI_FILE || kind == CLI_MODEL || kind == CLI_STREAM || kind == CLI_FOLDER ||
         kind == CLI_NAME;
}

// One file or folder an option: two would be one that is not read or written.
static int refuse_second_path(const struct taking *t, const char *before, struct err *err) {
  if (!before || strcmp(before, t->value->text) == 0) return 0;
  return err_set(err, ERR_USAGE, "--%s is given twice: '%s' and '%s'", t->row.name,
                 quote_str(before).s, quote_str(t->value->text).s);
}

// Takes the value of option o: `given` (after '=' or the letter) or the next word.
static int take_option(struct cli_args *args, enum cli_option o, const char *given, int *at,
                       struct err *err) {
  const struct taking t = taking_of(args, o);
  const char *before = t.value->given && is_path(t.row.kind) ? t.value->text : NULL;
  if (!t.value->given) t.value->n_list = 0; // the preset
  t.value->given = true;
  if (t.row.kind == CLI_FLAG) {
    // A target may have set what a pass's flag is about.
    const bool on = !given || strcmp(given, "true") == 0, off = !on && strcmp(given, "false") == 0;
    if (cli_is_of_pass(o) && (on || off)) return set_value(&t, on ? "true" : "false", err);
    if (!given) return 0;
    return err_set(err, ERR_USAGE, "--%s takes no value, but got '%s'", t.row.name,
                   quote_str(given).s);
  }
  if (given) return set_value(&t, given, err) ? -1 : refuse_second_path(&t, before, err);
  const char *next = *at + 1 < args->argc ? args->argv[*at + 1] : NULL;
  if (t.row.kind == CLI_MAYBE) { // the next word is its own only if it can be nothing else
    struct err no = {0};
    t.value->text = NULL;
    *at += next && set_value(&t, next, &no) == 0;
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
  return set_value(&t, next, err) ? -1 : refuse_second_path(&t, before, err);
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
      if (path_is_stream(word) && !takes_stream(args)) return no_stream_of_a_model(err);
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
    const char *text = getenv(cli_tables->environment[i].variable);
    if (!text || !*text || !cli_option_belongs(o, args->command) || cli_given(args, o)) continue;
    const struct taking t = taking_of(args, o);
    t.value->inherited = true;
    if (set_value(&t, text, err)) return -1;
  }
  return 0;
}

// ---- the whole line -----------------------------------------------------------------------------

// --help wins wherever it stands, so that it can be added to a line that does not work.
static bool asks_for_help(struct cli_args *args) {
  for (int i = 2; i < args->argc && strcmp(args->argv[i], "--") != 0; i++) {
    const char *word = args->argv[i];
    const bool all = strcmp(word, "--help-all") == 0;
    const bool brief = strcmp(word, "-h") == 0;
    if (!all && !brief && strcmp(word, "--help") != 0) continue;
    args->action = all ? CLI_HELP_ALL : brief ? CLI_HELP_SHORT : CLI_HELP;
    return true;
  }
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
  if (strcmp(word, "--help") == 0) return 0;
  if (strcmp(word, "-h") == 0) {
    args->action = CLI_HELP_SHORT;
    return 0;
  }
  if (strcmp(word, "--generate") == 0) return parse_generate(args, err);
  if (strcmp(word, "completion") == 0) return parse_completion(args, err);
  if (strcmp(word, "--help-all") == 0) {
    args->action = CLI_HELP_ALL;
    return 0;
  }
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
  if (strcmp(word, "-V") == 0 || strcmp(word, "-v") == 0)
    return err_hint(err, "did you mean --version?");
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
  const struct pass *pass = cli_pass(args->command);
  const size_t n_options = cli_tables->n_options + (pass ? pass->n_options : 0);
  args->value = arena_zalloc(&args->arena, n_options * sizeof *args->value);
  if (args->command == cli_tables->n_commands) return parse_top(args, argv[1], err);
  if (asks_for_help(args)) return 0;
  args->action = CLI_RUN;
  if (pass) pass_values_start(&args->of_pass, pass, &args->arena);
  args->of_pass.by_flags = true;
  struct err impossible = {0};
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(args->command, o)) != CLI_NONE;) {
    const struct taking t = taking_of(args, o);
    if (cli_is_of_pass(o)) show_pass_value(&t);
    if (cli_is_of_pass(o) || !t.row.preset) continue;
    int rc = set_value(&t, t.row.preset, &impossible);
    assert(rc == 0); // a preset is a value of its own option
    (void)rc;
  }
  if (take_words(args, err) < 0 || take_environment(args, err)) return -1;
  if (check_exclusions(args, err)) return -1;
  return cli_tables->check ? cli_tables->check(args, err) : 0;
}

// ---- slots --------------------------------------------------------------------------------------

bool cli_given(const struct cli_args *args, enum cli_option option) {
  return args->value[option].given;
}

bool cli_flag(const struct cli_args *args, enum cli_option option) {
  assert(cli_row(args->command, option).kind == CLI_FLAG);
  const struct cli_value *v = &args->value[option];
  return v->given && (!cli_is_of_pass(option) || v->number != 0);
}

const char *cli_string(const struct cli_args *args, enum cli_option option) {
  const enum cli_kind kind = cli_row(args->command, option).kind;
  assert(kind == CLI_TEXT || is_path(kind) || kind == CLI_CHOICE || kind == CLI_MAYBE);
  return args->value[option].text;
}

uint64_t cli_size(const struct cli_args *args, enum cli_option option) {
  const enum cli_kind kind = cli_row(args->command, option).kind;
  assert(kind == CLI_SIZE || kind == CLI_SIZE_FROM_0 || kind == CLI_POWER_OF_2);
  return args->value[option].number;
}

uint32_t cli_count(const struct cli_args *args, enum cli_option option) {
  const enum cli_kind kind = cli_row(args->command, option).kind;
  assert(kind == CLI_COUNT || kind == CLI_THREADS || kind == CLI_NUMBER);
  return (uint32_t)args->value[option].number;
}

const char *const *cli_list(const struct cli_args *args, enum cli_option option, uint32_t *n) {
  assert(cli_row(args->command, option).kind == CLI_LIST);
  *n = args->value[option].n_list;
  return (const char *const *)args->value[option].list;
}

struct cli_source cli_source(const struct cli_args *args, enum cli_option option) {
  struct cli_source from;
  const bool inherited = args->value[option].inherited;
  snprintf(from.s, sizeof from.s, "%s%s", inherited ? "" : "--",
           inherited ? cli_variable(option) : cli_row(args->command, option).name);
  return from;
}

void cli_pass_values(const struct cli_args *args, struct pass_values *values, struct arena *arena) {
  const size_t n = args->of_pass.pass->n_options + (size_t)1;
  *values = args->of_pass;
  values->of = arena_alloc(arena, n * sizeof *values->of);
  memcpy(values->of, args->of_pass.of, n * sizeof *values->of);
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
    // Ahead of a closing "--", behind which it would be an operand.
    if (i == 2 && args->command == CLI_shrink) line = arena_printf(arena, "%s --resume", line);
    if (about_it && !operand) continue;
    line = arena_printf(arena, "%s %s", line, shell_words_quote(args->argv[i], arena));
  }
  return line;
}
