// Tables first, then one walk over the words:
//
//   weir COMMAND word …      word = --name | --name=value | --name value | -o value | operand
//
// Options and operands come in any order; `--` ends the options; of an option given twice the last
// counts, unless it is a list. Names are never abbreviated: a script that works today must not
// break when an option is added. What can be wrong with a single word is found while reading it,
// what needs all of them (operands, exclusions, a missing output) afterwards. Whether a value makes
// sense for a model is not decided here.
#include "cli.h"

#include "cli_words.h"
#include "guess.h"
#include "size_words.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct cli_command_row command_rows[CLI_COMMANDS] = {
#define COMMAND(stem, operands, summary, about, line1, why1, line2, why2)                          \
  [CLI_##stem] = {#stem, operands, summary, about, {{line1, why1}, {line2, why2}}},
#include "commands.def"
#undef COMMAND
};

#define ON(stem) (1u << CLI_##stem)
#define WRITERS                                                                                    \
  (ON(conv2matmul) | ON(quantize) | ON(shrink) | ON(cast) | ON(run) | ON(convert) | ON(replay))
#define ALL ((1u << CLI_COMMANDS) - 1)
// The commands that have the options of a pass: FOR(stem) of pass_options.def.
#define FOR(stem) FOR_##stem
#define FOR_conv2matmul ON(conv2matmul)
#define FOR_matmulnbits ON(quantize)
#define FOR_shrink ON(shrink)
#define FOR_cast ON(cast)
#define MEASURED ON(measure)
static const struct cli_option_row option_rows[CLI_OPTIONS] = {
#define OPTION(id, name, letter, kind, metavar, preset, commands, group, help)                     \
  [OPT_##id] = {name, letter, CLI_##kind, metavar, preset, commands, CLI_##group, help},
#include "options.def"
#undef OPTION
};

static_assert(CLI_COMMANDS <= 32, "cli_option_row.commands has a bit for every command");

// Pairs that exclude each other; a NULL sentence is made from the names.
static const struct {
  enum cli_option a, b;
  const char *sentence;
} exclusions[] = {
    {OPT_EXTERNAL, OPT_INLINE, NULL},
    {OPT_INLINE, OPT_DATA_FILE, NULL},
    {OPT_INLINE, OPT_ALIGN, NULL},
    {OPT_QUIET, OPT_PROGRESS, NULL},
    {OPT_DRY_RUN, OPT_RESUME, NULL},
    {OPT_PASS, OPT_CONFIG, NULL},
    {OPT_JSON, OPT_CSV, NULL},
    {OPT_OUTPUT_DIR, OPT_OUTPUT, NULL},
    {OPT_OUTPUT_DIR, OPT_INPLACE, NULL},
    {OPT_SUFFIX, OPT_OUTPUT, NULL},
    {OPT_SUFFIX, OPT_INPLACE, NULL},
    {OPT_JSON, OPT_REPORT_JSON_STDOUT,
     "Both --json and --report-json-stdout write to standard output."},
};

const struct cli_command_row *cli_command_row(enum cli_command command) {
  return &command_rows[command];
}

const struct cli_option_row *cli_option_row(enum cli_option option) {
  return &option_rows[option];
}

bool cli_option_belongs(enum cli_option option, enum cli_command command) {
  return option_rows[option].commands >> command & 1;
}

bool cli_writes(enum cli_command command) {
  return cli_option_belongs(OPT_OUTPUT, command);
}

enum cli_command cli_command_by_name(const char *name) {
  uint32_t c = 0;
  while (c < CLI_COMMANDS && strcmp(command_rows[c].name, name) != 0)
    c++;
  return c;
}

bool cli_choice(enum cli_option option, uint32_t k, bool hidden, const char **word, size_t *n) {
  const char *at = option_rows[option].metavar;
  for (;; k--) {
    *n = strcspn(at, "|/");
    *word = at;
    if (k == 0) return true;
    at += *n;
    if (*at == '\0' || (*at == '/' && !hidden)) return false;
    at++;
  }
}

static bool is_repeated(const char *word, size_t n) {
  return n > 3 && memcmp(word + n - 3, "...", 3) == 0;
}

bool cli_operand_word(enum cli_command command, uint32_t k, const char **word, size_t *n) {
  const char *at = command_rows[command].operands;
  for (;; k--) {
    *n = strcspn(at, " ");
    *word = at;
    if (k == 0 || (*n > 0 && is_repeated(at, *n))) return *n > 0;
    at += *n;
    if (*at == '\0') return false;
    at++;
  }
}

// ---- values -------------------------------------------------------------------------------------

static int bad_value(enum cli_option o, const char *text, const char *wanted, struct err *err) {
  return err_set(err, ERR_USAGE, "'%s' is no value for --%s: it takes %s", quote_str(text).s,
                 option_rows[o].name, wanted);
}

static int set_size(struct cli_args *args, enum cli_option o, const char *text, struct err *err) {
  uint64_t n;
  if (!size_words_parse(text, &n) || n == 0)
    return bad_value(o, text, "a size such as 64M, 64MiB or 1.5G", err);
  if (o == OPT_ALIGN && ((n & (n - 1)) != 0 || n > (1u << 30)))
    return bad_value(o, text, "a power of two up to 1GiB", err);
  args->value[o].number = n;
  return 0;
}

static int set_count(struct cli_args *args, enum cli_option o, const char *text, struct err *err) {
  uint64_t n, least = option_rows[o].kind == CLI_COUNT;
  if (!cli_words_number(text, &n) || n < least || n > INT32_MAX)
    return bad_value(o, text, least ? "a whole number from 1" : "a whole number from 0", err);
  args->value[o].number = n;
  args->value[o].text = text;
  return 0;
}

static int set_choice(struct cli_args *args, enum cli_option o, const char *text, struct err *err) {
  const char *word;
  size_t n;
  for (uint32_t k = 0; cli_choice(o, k, true, &word, &n); k++) {
    if (strlen(text) == n && memcmp(text, word, n) == 0) {
      args->value[o].text = text;
      return 0;
    }
  }
  const char *list = option_rows[o].metavar;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(list, "/"), list);
  return bad_value(o, text, wanted, err);
}

static int set_name(struct cli_args *args, enum cli_option o, const char *text, struct err *err) {
  // Readers look for "..", in any place, before they open a data file.
  bool plain = *text && strlen(text) <= 255 && !strchr(text, '/') && strcmp(text, ".") != 0 &&
               !strstr(text, "..");
  if (!plain) return bad_value(o, text, "a plain file name, without '/' and '..'", err);
  args->value[o].text = text;
  return 0;
}

// A list has at most as many elements as the line has words, or one: its preset.
static int set_list(struct cli_args *args, enum cli_option o, const char *text, struct err *err) {
  if (*text == '\0') return bad_value(o, text, option_rows[o].metavar, err);
  size_t room = (size_t)args->argc * sizeof(char *);
  if (!args->value[o].list) args->value[o].list = arena_alloc(&args->arena, room);
  args->value[o].list[args->value[o].n_list++] = text;
  return 0;
}

static int set_value(struct cli_args *args, enum cli_option o, const char *text, struct err *err) {
  switch (option_rows[o].kind) {
  case CLI_FLAG: return 0;
  case CLI_SIZE: return set_size(args, o, text, err);
  case CLI_COUNT:
  case CLI_NUMBER: return set_count(args, o, text, err);
  case CLI_LIST: return set_list(args, o, text, err);
  case CLI_CHOICE: return set_choice(args, o, text, err);
  case CLI_NAME: return set_name(args, o, text, err);
  case CLI_FILE:
    if (*text == '\0') return bad_value(o, text, "a path", err);
    break;
  case CLI_TEXT: break;
  }
  args->value[o].text = text;
  return 0;
}

// ---- unknown names ------------------------------------------------------------------------------

static int hint_help(const struct cli_args *args, struct err *err) {
  return err_hint(err, "'weir %s --help' lists the options", command_rows[args->command].name);
}

// A wrong name is worth a guess if it is a few slips away, or the start of the real one.
static const char *nearest_option(enum cli_command c, const char *name) {
  struct guess g = guess_start(name);
  for (uint32_t o = 0; o < CLI_OPTIONS; o++)
    if (cli_option_belongs(o, c)) guess_try(&g, option_rows[o].name);
  guess_try(&g, "help");
  return g.best;
}

static const char *nearest_command(const char *name) {
  struct guess g = guess_start(name);
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    guess_try(&g, command_rows[c].name);
  return g.best;
}

static int other_commands_option(const struct cli_args *args, uint32_t o, struct err *err) {
  uint32_t c = 0;
  while (!cli_option_belongs(o, c))
    c++;
  err_fill(err, ERR_USAGE, "--%s is an option of 'weir %s', not of 'weir %s'", option_rows[o].name,
           command_rows[c].name, command_rows[args->command].name);
  return hint_help(args, err);
}

static int unknown_command(const char *name, struct err *err) {
  err_fill(err, ERR_USAGE, "there is no command '%s'", quote_str(name).s);
  const char *near = nearest_command(name);
  if (near) return err_hint(err, "did you mean 'weir %s'?", near);
  size_t n = strlen(name);
  if (n > 5 && strcmp(name + n - 5, ".onnx") == 0)
    return err_hint(err, "the command comes first: 'weir inspect %s'", quote_str(name).s);
  return err_hint(err, "'weir --help' lists the commands");
}

// ---- words --------------------------------------------------------------------------------------

// Takes the value of option o: `given` (after '=' or the letter) or the next word.
static int take_option(struct cli_args *args, enum cli_option o, const char *given, int *at,
                       struct err *err) {
  const struct cli_option_row *row = &option_rows[o];
  if (!args->value[o].given) args->value[o].n_list = 0; // the preset
  args->value[o].given = true;
  if (row->kind == CLI_FLAG) {
    if (!given) return 0;
    return err_set(err, ERR_USAGE, "--%s takes no value, but got '%s'", row->name,
                   quote_str(given).s);
  }
  if (given) return set_value(args, o, given, err);
  const char *next = *at + 1 < args->argc ? args->argv[*at + 1] : NULL;
  if (!next || strncmp(next, "--", 2) == 0) {
    err_fill(err, ERR_USAGE, "--%s needs a value: %s", row->name, row->metavar);
    if (!next) return hint_help(args, err);
    return err_hint(err, "if '%s' is meant as its value, write --%s=%s", quote_str(next).s,
                    row->name, quote_str(next).s);
  }
  ++*at;
  return set_value(args, o, next, err);
}

static int take_long(struct cli_args *args, const char *word, int *at, struct err *err) {
  const char *name = word + 2, *equals = strchr(name, '=');
  size_t n = equals ? (size_t)(equals - name) : strlen(name);
  for (uint32_t o = 0; o < CLI_OPTIONS; o++) {
    const char *known = option_rows[o].name;
    if (cli_option_belongs(o, args->command) && strlen(known) == n && memcmp(known, name, n) == 0)
      return take_option(args, o, equals ? equals + 1 : NULL, at, err);
  }
  char unknown[64];
  snprintf(unknown, sizeof unknown, "%.*s", n > 60 ? 60 : (int)n, name);
  // The options of the tool whose command line this is compatible with.
  if (args->command == CLI_conv2matmul && strncmp(unknown, "verify", 6) == 0) {
    err_fill(err, ERR_USAGE, "--%s is not available: this version of weir does not run models",
             quote_str(unknown).s);
    return err_hint(err, "leave it away, and compare input and output in a runtime of your own");
  }
  for (uint32_t o = 0; o < CLI_OPTIONS; o++)
    if (strcmp(option_rows[o].name, unknown) == 0) return other_commands_option(args, o, err);
  err_fill(err, ERR_USAGE, "'weir %s' has no option --%s", command_rows[args->command].name,
           quote_str(unknown).s);
  const char *near = nearest_option(args->command, unknown);
  if (!near) return hint_help(args, err);
  return err_hint(err, "did you mean --%s?", near);
}

static int take_short(struct cli_args *args, const char *word, int *at, struct err *err) {
  for (uint32_t o = 0; o < CLI_OPTIONS; o++)
    if (option_rows[o].letter == word[1] && cli_option_belongs(o, args->command))
      return take_option(args, o, word[2] ? word + 2 : NULL, at, err);
  err_fill(err, ERR_USAGE, "'weir %s' has no option '%s'", command_rows[args->command].name,
           quote_str(word).s);
  return err_hint(err, "a file of that name is written './%s', or stands after '--'",
                  quote_str(word).s);
}

static int take_operand(struct cli_args *args, const char *word, struct err *err) {
  const char *operands = command_rows[args->command].operands, *unused;
  size_t n;
  if (!cli_operand_word(args->command, args->n_operands, &unused, &n)) {
    err_fill(err, ERR_USAGE, "'%s' is one word too many: usage is 'weir %s %s'", quote_str(word).s,
             command_rows[args->command].name, operands);
    return hint_help(args, err);
  }
  args->operand[args->n_operands++] = word;
  return 0;
}

static int take_words(struct cli_args *args, struct err *err) {
  bool options = true;
  for (int at = 2; at < args->argc; at++) {
    const char *word = args->argv[at];
    int rc;
    if (options && strcmp(word, "--") == 0) {
      options = false;
      continue;
    }
    if (options && strncmp(word, "--", 2) == 0)
      rc = take_long(args, word, &at, err);
    else if (options && word[0] == '-' && word[1])
      rc = take_short(args, word, &at, err);
    else
      rc = take_operand(args, word, err);
    if (rc < 0) return -1;
  }
  return 0;
}

// ---- what needs all words -----------------------------------------------------------------------

static int check_operands(const struct cli_args *args, struct err *err) {
  const char *word;
  size_t n;
  if (!cli_operand_word(args->command, args->n_operands, &word, &n) || word[0] == '[') return 0;
  if (args->n_operands > 0 && is_repeated(word, n)) return 0;
  err_fill(err, ERR_USAGE, "'weir %s' needs %.*s", command_rows[args->command].name, (int)n, word);
  return err_hint(err, "usage: weir %s %s [options]", command_rows[args->command].name,
                  command_rows[args->command].operands);
}

// ---- the whole line -----------------------------------------------------------------------------

// --help wins wherever it stands, so that it can be added to a line that does not work.
static bool asks_for_help(struct cli_args *args) {
  for (int i = 2; i < args->argc && strcmp(args->argv[i], "--") != 0; i++) {
    const char *word = args->argv[i];
    if (strcmp(word, "--help-all") == 0)
      args->action = CLI_HELP_ALL;
    else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
      args->action = CLI_HELP;
    else
      continue;
    return true;
  }
  return false;
}

static int parse_generate(struct cli_args *args, struct err *err) {
  static const char *const kinds[] = {"bash", "zsh", "fish", "man"};
  const char *kind = args->argc > 2 ? args->argv[2] : "";
  size_t k = 0;
  while (k < 4 && strcmp(kind, kinds[k]) != 0)
    k++;
  bool man = k == 3;
  if (k == 4 || args->argc != (man ? 4 : 3))
    return err_set(err, ERR_USAGE, "--generate takes bash, zsh, fish, or man and a folder");
  args->action = CLI_GENERATE;
  args->operand[0] = kind;
  args->operand[1] = man ? args->argv[3] : NULL;
  args->n_operands = man ? 2 : 1;
  return 0;
}

// Lines without a command: weir --help, --help-all, --version, --generate; weir help [COMMAND].
static int parse_top(struct cli_args *args, const char *word, struct err *err) {
  args->command = CLI_COMMANDS;
  args->action = CLI_HELP;
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return 0;
  if (strcmp(word, "--generate") == 0) return parse_generate(args, err);
  if (strcmp(word, "--help-all") == 0 || strcmp(word, "--version") == 0) {
    args->action = word[2] == 'v' ? CLI_VERSION : CLI_HELP_ALL;
    return 0;
  }
  if (strcmp(word, "help") == 0) {
    if (args->argc == 2) return 0;
    args->command = cli_command_by_name(args->argv[2]);
    return args->command == CLI_COMMANDS ? unknown_command(args->argv[2], err) : 0;
  }
  if (word[0] != '-') return unknown_command(word, err);
  err_fill(err, ERR_USAGE, "weir has no option '%s' of its own", quote_str(word).s);
  return err_hint(err, "options follow the command: weir COMMAND ... %s", quote_str(word).s);
}

void cli_free(struct cli_args *args) {
  arena_free(&args->arena);
}

int cli_parse(struct cli_args *args, int argc, char *const *argv, struct err *err) {
  *args = (struct cli_args){.argc = argc, .argv = argv, .command = CLI_COMMANDS};
  args->operand = arena_zalloc(&args->arena, ((size_t)argc + 1) * sizeof *args->operand);
  if (argc < 2) {
    args->action = CLI_NOTHING;
    return 0;
  }
  args->command = cli_command_by_name(argv[1]);
  if (args->command == CLI_COMMANDS) return parse_top(args, argv[1], err);
  if (asks_for_help(args)) return 0;
  args->action = CLI_RUN;
  struct err impossible = {0};
  for (uint32_t o = 0; o < CLI_OPTIONS; o++) {
    if (!option_rows[o].preset || !cli_option_belongs(o, args->command)) continue;
    int rc = set_value(args, o, option_rows[o].preset, &impossible);
    assert(rc == 0); // a preset is a value of its own option
    (void)rc;
  }
  if (take_words(args, err) < 0 || check_operands(args, err) < 0) return -1;
  for (size_t i = 0; i < sizeof exclusions / sizeof *exclusions; i++) {
    if (!cli_given(args, exclusions[i].a) || !cli_given(args, exclusions[i].b)) continue;
    if (exclusions[i].sentence) return err_set(err, ERR_USAGE, "%s", exclusions[i].sentence);
    return err_set(err, ERR_USAGE, "Use either --%s or --%s, not both.",
                   option_rows[exclusions[i].a].name, option_rows[exclusions[i].b].name);
  }
  // Words of the two messages about --inplace: those that scripts around onnx-conv2matmul know.
  if (!cli_writes(args->command)) return 0;
  bool operand = cli_operand(args, "OUT") != NULL, option = cli_given(args, OPT_OUTPUT);
  bool inplace = cli_given(args, OPT_INPLACE);
  if (inplace && (operand || option))
    return err_set(err, ERR_USAGE, "Use either --inplace or output path, not both.");
  if (operand && option)
    return err_set(err, ERR_USAGE, "The output is given twice: '%s' and --output '%s'",
                   quote_str(cli_operand(args, "OUT")).s,
                   quote_str(args->value[OPT_OUTPUT].text).s);
  if (args->command == CLI_shrink) return 0; // it makes names of its own
  if (cli_lacks_output(args) && !cli_given(args, OPT_DRY_RUN))
    return err_set(err, ERR_USAGE, "Provide an output path or use --inplace.");
  return 0;
}

// ---- slots --------------------------------------------------------------------------------------

bool cli_given(const struct cli_args *args, enum cli_option option) {
  return args->value[option].given;
}

bool cli_flag(const struct cli_args *args, enum cli_option option) {
  assert(cli_option_belongs(option, args->command) && option_rows[option].kind == CLI_FLAG);
  return cli_given(args, option);
}

const char *cli_string(const struct cli_args *args, enum cli_option option) {
  enum cli_kind kind = option_rows[option].kind;
  assert(cli_option_belongs(option, args->command));
  assert(kind == CLI_TEXT || kind == CLI_FILE || kind == CLI_NAME || kind == CLI_CHOICE);
  return args->value[option].text;
}

uint64_t cli_size(const struct cli_args *args, enum cli_option option) {
  assert(cli_option_belongs(option, args->command) && option_rows[option].kind == CLI_SIZE);
  return args->value[option].number;
}

uint32_t cli_count(const struct cli_args *args, enum cli_option option) {
  enum cli_kind kind = option_rows[option].kind;
  assert(cli_option_belongs(option, args->command) && (kind == CLI_COUNT || kind == CLI_NUMBER));
  return (uint32_t)args->value[option].number;
}

const char *const *cli_list(const struct cli_args *args, enum cli_option option, uint32_t *n) {
  assert(cli_option_belongs(option, args->command) && option_rows[option].kind == CLI_LIST);
  *n = args->value[option].n_list;
  return (const char *const *)args->value[option].list;
}

static int put_pass_value(const struct cli_args *args, enum pass_option_id o,
                          struct pass_value values[PASS_OPTIONS], struct arena *arena,
                          struct err *err) {
  static const enum cli_option flags[PASS_OPTIONS] = {
#define PASS_OPTION(id, ...) [PASS_OPT_##id] = OPT_##id,
#include "pass_options.def"
#undef PASS_OPTION
  };
  enum cli_option flag = flags[o];
  if (!cli_option_belongs(flag, args->command) || !cli_given(args, flag)) return 0;
  const char *const *list = (const char *const *)args->value[flag].list;
  uint32_t n = args->value[flag].n_list;
  if (option_rows[flag].kind == CLI_FLAG)
    return pass_values_put(o, values, span_str("true"), arena, err);
  if (option_rows[flag].kind != CLI_LIST)
    return pass_values_put(o, values, span_str(args->value[flag].text), arena, err);
  for (uint32_t i = 0; i < n; i++)
    if (pass_values_put(o, values, span_str(list[i]), arena, err)) return -1;
  return 0;
}

int cli_pass_values(const struct cli_args *args, enum pass_id pass,
                    struct pass_value values[PASS_OPTIONS], struct arena *arena, struct err *err) {
  pass_values_start(pass, values, arena);
  for (uint32_t o = 0; o < PASS_OPTIONS; o++)
    if (pass_option_belongs(o, pass) && put_pass_value(args, o, values, arena, err)) return -1;
  return 0;
}

const char *cli_operand(const struct cli_args *args, const char *name) {
  const char *word;
  size_t n, wanted = strlen(name);
  for (uint32_t k = 0; k < args->n_operands; k++) {
    if (!cli_operand_word(args->command, k, &word, &n)) return NULL;
    if (word[0] == '[') word++, n -= 2;
    if (is_repeated(word, n)) n -= 3;
    if (n == wanted && memcmp(word, name, n) == 0) return args->operand[k];
  }
  return NULL;
}

const char *cli_output(const struct cli_args *args) {
  assert(cli_writes(args->command));
  const char *operand = cli_operand(args, "OUT");
  if (operand) return operand;
  if (args->value[OPT_OUTPUT].text) return args->value[OPT_OUTPUT].text;
  return cli_operand(args, "IN");
}

bool cli_lacks_output(const struct cli_args *args) {
  return !cli_operand(args, "OUT") && !cli_given(args, OPT_OUTPUT) && !cli_given(args, OPT_INPLACE);
}

char *cli_resume_command(const struct cli_args *args, struct arena *arena) {
  char *line = arena_printf(arena, "weir");
  for (int i = 1; i < args->argc; i++) {
    // Ahead of a closing "--", behind which it would be an operand.
    if (i == 2 && !cli_given(args, OPT_RESUME)) line = arena_printf(arena, "%s --resume", line);
    line = arena_printf(arena, "%s %s", line, cli_words_quote(args->argv[i], arena));
  }
  return line;
}
