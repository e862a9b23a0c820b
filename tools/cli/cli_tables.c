// The rows of commands.def and options.def, and what is looked up in them.
#include "cli/cli_tables.h"

#include "cli/cli.h"
#include "passes/catalogue/passes.h"
#include "targets/targets.h"

#include <assert.h>
#include <string.h>

static const struct cli_command_row command_rows[] = {
#define COMMAND(stem, operands, pass, family, sets, summary, about, first, line1, why1, line2,     \
                why2)                                                                              \
  {#stem,        operands, pass,                                                                   \
   CLI_##family, sets,     summary,                                                                \
   about,        first,    {{line1, why1}, {line2, why2}}},
#include "cli/commands.def"
};

#define ROW(own_name, own_letter, own_kind, words, value, whose, heading, reads, text, rest)       \
  .name = own_name, .letter = own_letter, .kind = CLI_##own_kind, .metavar = words,                \
  .preset = value, .commands = whose, .group = CLI_##heading,                                      \
  .line = {(const uint8_t *)(text), sizeof(text) - 1}, .more = rest

static const struct cli_option_row option_rows[] = {
#define OPTION(id, ...) {ROW(__VA_ARGS__)},
#define LISTED(id, name, words, commands, group, reads, by, line, more)                            \
  {ROW(name, 0, CHOICE, words, NULL, commands, group, reads, line, more), .listed = by},
#define TWIN(id, name, writers_name, kind, metavar, preset, reads, line, more, writers_more)       \
  {ROW(name, 0, kind, metavar, preset, "verify", OWN, reads, line, more),                          \
   .twin = {writers_name, "writers finalize", CLI_VERIFICATION, writers_more}},
#include "cli/options.def"
#undef OPTION
};

// Options that the environment may preset: those that have no influence on what is written.
static const struct cli_environment environment[] = {
    {OPT_MEMORY, "WEIR_MEMORY"}, {OPT_JOBS, "WEIR_JOBS"}, {OPT_IO, "WEIR_IO"}};

// The commands that write list --verify-require before the bounds, and 'weir verify' lists --require after them.
static const struct cli_place of_require = {"writers finalize", OPT_VERIFY_REQUIRE, OPT_VERIFY};

static const struct cli_exclusion exclusions[] = {
    {OPT_EXTERNAL, OPT_INLINE, NULL},
    {OPT_INLINE, OPT_DATA_FILE, NULL},
    {OPT_INLINE, OPT_EXTERNAL_THRESHOLD, NULL},
    {OPT_INLINE, OPT_ONE_FILE_PER_TENSOR, NULL},
    {OPT_SPLIT, OPT_ONE_FILE_PER_TENSOR, NULL},
    {OPT_DATA_FILE, OPT_ONE_FILE_PER_TENSOR, NULL},
    {OPT_INLINE, OPT_ALIGN, NULL},
    {OPT_INLINE, OPT_SPLIT, NULL},
    // Events are for a program, and no progress is quiet enough.
    {OPT_QUIET, OPT_PROGRESS, "json never"},
    {OPT_DRY_RUN, OPT_RESUME, NULL},
    {OPT_RESUME, OPT_FRESH, NULL},
    {OPT_JSON, OPT_CSV, NULL},
    {OPT_JSON, OPT_DIFF_FORMAT, NULL},
    {OPT_ALL_DIFFERENCES, OPT_DIFF_FORMAT, NULL},
    {OPT_COLOR, OPT_NO_COLOR, NULL},
    {OPT_JSON, OPT_REPORT_JSON_STDOUT, NULL},
    {OPT_OUTPUT_DIR, OPT_OUTPUT, NULL},
    {OPT_OUTPUT_DIR, OPT_INPLACE, NULL},
    {OPT_SUFFIX, OPT_OUTPUT, NULL},
    {OPT_SUFFIX, OPT_INPLACE, NULL},
    {OPT_JSON, OPT_WATCH, NULL},
    {OPT_SCALES, OPT_DATA, NULL},
    {OPT_SCALES, OPT_GENERATE, NULL},
    {OPT_SCALES, OPT_STATISTICS, NULL},
    {OPT_SCALES, OPT_CACHE, NULL},
};

static const struct cli_tables weir = {
    .commands = command_rows,
    .options = option_rows,
    .place = &of_require,
    .exclusions = exclusions,
    .environment = environment,
    .n_commands = CLI_COMMANDS,
    .n_options = CLI_OPTIONS,
    .n_exclusions = sizeof exclusions / sizeof *exclusions,
    .n_environment = sizeof environment / sizeof *environment,
    .check = cli_rules,
};

const struct cli_tables *cli_tables = &weir;

// ---- rows ---------------------------------------------------------------------------------------

const struct cli_command_row *cli_command_row(enum cli_command command) {
  assert(command < cli_tables->n_commands);
  return &cli_tables->commands[command];
}

const struct cli_option_row *cli_option_row(enum cli_option option) {
  assert(option < cli_tables->n_options);
  return &cli_tables->options[option];
}

enum cli_command cli_command_by_name(const char *name) {
  uint32_t c = 0;
  while (c < cli_tables->n_commands && strcmp(cli_tables->commands[c].name, name) != 0)
    c++;
  return c;
}

const char *cli_variable(enum cli_option option) {
  for (uint32_t i = 0; i < cli_tables->n_environment; i++)
    if (cli_tables->environment[i].option == option) return cli_tables->environment[i].variable;
  return NULL;
}

bool cli_excludes(enum cli_option a, enum cli_option b) {
  for (uint32_t i = 0; i < cli_tables->n_exclusions; i++) {
    const struct cli_exclusion *e = &cli_tables->exclusions[i];
    if ((e->a == a && e->b == b) || (e->a == b && e->b == a)) return true;
  }
  return false;
}

bool cli_is_path(enum cli_kind kind) {
  return kind == CLI_FILE || kind == CLI_MODEL || kind == CLI_STREAM || kind == CLI_FOLDER ||
         kind == CLI_NAME;
}

// ---- the options of a command -------------------------------------------------------------------

bool cli_has_word(const char *list, struct span word) {
  struct span own;
  while ((own = cli_next_word(&list)).n > 0)
    if (span_eq(own, word)) return true;
  return false;
}

bool cli_names(const char *list, enum cli_command command) {
  const struct cli_command_row *row = cli_command_row(command);
  bool named = false;
  struct span word;
  while ((word = cli_next_word(&list)).n > 0) {
    const bool without = word.at[0] == '-';
    if (without) word = span_of(word.at + 1, word.n - 1);
    if (span_is(word, "all") || span_is(word, row->name) || cli_has_word(row->sets, word))
      named = !without;
  }
  return named;
}

const struct pass *cli_pass(enum cli_command command) {
  const char *name = command < cli_tables->n_commands ? cli_command_row(command)->pass : NULL;
  return name ? passes_find(NULL, span_str(name)) : NULL;
}

bool cli_is_of_pass(enum cli_option option) {
  return option >= cli_tables->n_options;
}

// Does the command have the option under its other name?
static bool has_twin(enum cli_option option, enum cli_command command) {
  const struct cli_option_row *row = cli_option_row(option);
  return row->twin.name && cli_names(row->twin.commands, command);
}

bool cli_option_belongs(enum cli_option option, enum cli_command command) {
  if (!cli_is_of_pass(option))
    return cli_names(cli_option_row(option)->commands, command) || has_twin(option, command);
  const struct pass *pass = cli_pass(command);
  const uint32_t at = option - cli_tables->n_options;
  return pass && at < pass->n_options && (command != CLI_measure || pass->options[at].measured);
}

// The option of the command's pass after `before`, which is one of them or CLI_NONE. A first walk finds those that must
// be given, a second one the others.
static enum cli_option pass_option_after(enum cli_command command, enum cli_option before) {
  const struct pass *pass = cli_pass(command);
  const uint32_t n = pass ? pass->n_options : 0, at = before - cli_tables->n_options;
  for (uint32_t i = before == CLI_NONE ? 0 : at + (pass->options[at].required ? 1 : n + 1);
       i < 2 * n; i++) {
    const enum cli_option o = cli_tables->n_options + i % n;
    if (pass->options[i % n].required == (i < n) && cli_option_belongs(o, command)) return o;
  }
  return CLI_NONE;
}

enum cli_option cli_option_after(enum cli_command command, enum cli_option before) {
  if (before == CLI_NONE || cli_is_of_pass(before)) {
    const enum cli_option of_pass = pass_option_after(command, before);
    if (of_pass != CLI_NONE) return of_pass;
    before = CLI_NONE;
  }
  const struct cli_place *place = cli_tables->place;
  if (place && !cli_names(place->commands, command)) place = NULL;
  if (place && place->after == before) return place->option;
  if (place && place->option == before) before = place->after;
  for (uint32_t o = before + 1u; o < cli_tables->n_options; o++) // CLI_NONE + 1u is 0
    if (cli_option_belongs(o, command) && !(place && place->option == o)) return o;
  return CLI_NONE;
}

struct cli_option_row cli_row_of_pass(const struct pass_option *option) {
  static const enum cli_kind kinds[] = {
      [PASS_FLAG] = CLI_FLAG,     [PASS_COUNT] = CLI_COUNT, [PASS_NUMBER] = CLI_NUMBER,
      [PASS_CHOICE] = CLI_CHOICE, [PASS_TEXT] = CLI_TEXT,   [PASS_LIST] = CLI_LIST};
  const size_t line = strcspn(option->help, "\n");
  return (struct cli_option_row){.name = option->name,
                                 .kind = option->reads ? CLI_FILE : kinds[option->kind],
                                 .metavar = option->metavar,
                                 .preset = option->preset,
                                 .commands = "",
                                 .group = CLI_OWN,
                                 .line = span_of(option->help, line),
                                 .more = option->help[line] ? option->help + line + 1 : NULL,
                                 .also = option->also,
                                 .listed = option->listed,
                                 .offers = option->offers,
                                 .required = option->required};
}

struct cli_option_row cli_row(enum cli_command command, enum cli_option option) {
  assert(cli_option_belongs(option, command));
  if (cli_is_of_pass(option))
    return cli_row_of_pass(&cli_pass(command)->options[option - cli_tables->n_options]);
  struct cli_option_row row = *cli_option_row(option);
  if (!has_twin(option, command)) return row;
  row.name = row.twin.name;
  row.group = row.twin.group;
  if (row.twin.more) row.more = row.twin.more;
  return row;
}

enum cli_option cli_option_named(enum cli_command command, struct span name) {
  const struct pass *pass = cli_pass(command);
  for (uint32_t at = 0; pass && at < pass->n_options; at++) {
    const enum cli_option o = cli_tables->n_options + at;
    if (span_is(name, pass->options[at].name) && cli_option_belongs(o, command)) return o;
  }
  for (uint32_t o = 0; o < cli_tables->n_options; o++) {
    const struct cli_option_row *row = cli_option_row(o);
    if (span_is(name, row->name) && cli_names(row->commands, command)) return o;
    if (row->twin.name && span_is(name, row->twin.name) && has_twin(o, command)) return o;
  }
  return CLI_NONE;
}

enum cli_option cli_pass_option(enum cli_command command, const char *name) {
  const enum cli_option o = cli_option_named(command, span_str(name));
  assert(o != CLI_NONE);
  return o;
}

// ---- words of rows ------------------------------------------------------------------------------

struct span cli_next_word(const char **text) {
  const char *at = *text + strspn(*text, " ");
  const struct span word = span_of(at, strcspn(at, " "));
  *text = at + word.n;
  return word;
}

bool cli_is_repeated(struct span word) {
  return word.n > 3 && memcmp(word.at + word.n - 3, "...", 3) == 0;
}

struct span cli_operand_word(enum cli_command command, uint32_t k) {
  const char *at = cli_command_row(command)->operands;
  for (;; k--) {
    const struct span word = cli_next_word(&at);
    if (k == 0 || word.n == 0 || cli_is_repeated(word)) return word;
  }
}

struct span cli_choice(const struct cli_option_row *row, uint32_t k, bool hidden) {
  const char *at = row->metavar;
  for (;; k--) {
    const size_t n = strcspn(at, "|/");
    if (k == 0) return span_of(at, n);
    at += n;
    if (*at == '\0' || (*at == '/' && !hidden)) return span_of(at, 0);
    at++;
  }
}
