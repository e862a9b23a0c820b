// The command line: every row of the tables is sound, words become slots, and what does not fit is
// refused with a sentence that helps.
#include "base/shell_words.h"
#include "base/size_words.h"
#include "cli/cli.h"
#include "cli/help/help.h"
#include "cli/hints.h"
#include "cli/peer_words.h"
#include "passes/catalogue/passes.h"
#include "pipeline/groups.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

enum { WORDS_MAX = 16 };

static struct arena held; // by the line that was parsed last

static int let_go(void **state) {
  (void)state;
  arena_free(&held);
  return 0;
}

// Parses "weir" and the words of `line`, split at single spaces; "" stands for no word at all. The
// words, and what *args holds, stay valid until the next call.
static int parse(struct cli_args *args, struct err *err, const char *line) {
  static char copy[512], *argv[WORDS_MAX];
  static char weir[] = "weir";
  snprintf(copy, sizeof copy, "%s", line);
  int argc = 0;
  argv[argc++] = weir;
  char *rest = copy, *word;
  while ((word = strsep(&rest, " ")) && *line) {
    assert_true(argc < WORDS_MAX);
    argv[argc++] = word;
  }
  *err = (struct err){0};
  arena_free(&held);
  const int rc = cli_parse(args, argc, argv, err);
  held = args->arena;
  return rc;
}

static void accept(struct cli_args *args, const char *line) {
  struct err err;
  if (parse(args, &err, line) != 0) fail_msg("'%s' was refused: %s", line, err.msg);
}

// The line is a usage error whose message and hint contain these.
static void refuse(const char *line, const char *message, const char *hint) {
  struct cli_args args;
  struct err err;
  if (parse(&args, &err, line) == 0) fail_msg("'%s' was accepted", line);
  assert_int_equal(err.kind, ERR_USAGE);
  if (!strstr(err.msg, message)) fail_msg("'%s': '%s' is not in '%s'", line, message, err.msg);
  if (!strstr(err.hint, hint)) fail_msg("'%s': '%s' is not in hint '%s'", line, hint, err.hint);
}

// ---- tables -------------------------------------------------------------------------------------

// Is the word a command, a set that one is in, or all of them?
static bool is_whose(struct span word) {
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    if (span_is(word, cli_command_row(c)->name) || cli_has_word(cli_command_row(c)->sets, word))
      return true;
  return span_is(word, "all");
}

static void check_list(const char *whose, const char *list) {
  uint32_t n = 0;
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    n += cli_names(list, c);
  if (n == 0) fail_msg("%s: no command is in '%s'", whose, list);
  for (struct span word; (word = cli_next_word(&list)).n > 0;) {
    const bool without = word.at[0] == '-';
    if (!is_whose(span_of(word.at + without, word.n - without)))
      fail_msg("%s: '%.*s' is no command and no set", whose, (int)word.n, (const char *)word.at);
  }
}

static void check_more(const char *name, const char *more) {
  if (!str_ends(more, ".")) fail_msg("--%s: its long text ends without a full stop", name);
}

static void test_tables_are_sound(void **state) {
  (void)state;
  for (uint32_t o = 0; o < CLI_OPTIONS; o++) {
    const struct cli_option_row *row = cli_option_row(o);
    check_list(row->name, row->commands);
    assert_true((row->kind == CLI_FLAG) == (row->metavar == NULL));
    assert_true(strlen(row->name) <= 47); // guess_distance
    assert_null(strpbrk(row->name, "= _"));
    if (row->line.n <= 10 || row->line.n > 100 || row->line.at[row->line.n - 1] == '.')
      fail_msg("--%s has no line for a screen of help", row->name);
    if (row->more) check_more(row->name, row->more);
    if (!row->twin.name) continue;
    check_list(row->twin.name, row->twin.commands);
    if (row->twin.more) check_more(row->twin.name, row->twin.more);
  }
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    const struct cli_command_row *row = cli_command_row(c);
    assert_int_equal(cli_command_by_name(row->name), c);
    assert_true((row->pass != NULL) == (cli_pass(c) != NULL));
    if (cli_names("finders pipelines", c)) assert_true(cli_names("rewriters", c));
    if (cli_names("rewriters", c)) assert_true(cli_names("writers", c));
    assert_false(cli_names("writers", c) && cli_names("readers streamers runners", c));
    const char *sets = row->sets;
    for (struct span set; (set = cli_next_word(&sets)).n > 0;) // none has the name of a command
      for (uint32_t d = 0; d < CLI_COMMANDS; d++)
        assert_false(span_is(set, cli_command_row(d)->name) || span_is(set, "all"));
    for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;)
      assert_int_equal(cli_option_named(c, span_str(cli_row(c, o).name)), o); // no two of a name
    assert_true(strlen(row->summary) < 64);
    assert_int_equal(row->about[strlen(row->about) - 1], '.');
    uint32_t first = 0;
    for (const char *at = row->first; *at; at += strspn(at, " "), first++) {
      const size_t n = strcspn(at, " ");
      if (cli_option_named(c, span_of(at, n)) == CLI_NONE)
        fail_msg("%s has no option '%.*s'", row->name, (int)n, at);
      at += n;
    }
    assert_true(first > 0 && first <= 10);
    for (int i = 0; i < CLI_EXAMPLES; i++)
      assert_int_equal(strncmp(row->example[i].line, "weir ", 5), 0);
  }
}

// ---- tables of any length -----------------------------------------------------------------------

enum { MANY = 1000 };

static struct cli_command_row many_commands[MANY];
static struct cli_option_row many_options[MANY];
static const struct cli_tables many = {
    .commands = many_commands, .options = many_options, .n_commands = MANY, .n_options = MANY};

// c0 … c999, of which every third is in a set; o0 … o999, which command, set and all have in turn.
static void make_many(struct arena *a) {
  for (uint32_t i = 0; i < MANY; i++) {
    many_commands[i] = (struct cli_command_row){.name = arena_printf(a, "c%u", i),
                                                .operands = "IN",
                                                .sets = i % 3 ? "" : "thirds odd",
                                                .first = "",
                                                .summary = "",
                                                .about = ""};
    many_options[i] = (struct cli_option_row){.name = arena_printf(a, "o%u", i),
                                              .kind = i % 2 ? CLI_COUNT : CLI_FLAG,
                                              .metavar = i % 2 ? "N" : NULL,
                                              .commands = i % 4 ? arena_printf(a, "c%u c999", i)
                                                                : "thirds -c999"};
  }
}

static void test_tables_have_no_bound(void **state) {
  (void)state;
  const struct cli_tables *weir = cli_tables;
  struct arena arena = {0};
  struct cli_args args;
  make_many(&arena);
  cli_tables = &many;
  accept(&args, "c999 a --o999 7 --o997=3");
  assert_int_equal(args.command, 999);
  assert_int_equal(cli_count(&args, 999), 7);
  assert_int_equal(cli_count(&args, 997), 3);
  assert_false(cli_given(&args, 995));
  assert_string_equal(cli_operand(&args, "IN"), "a");
  accept(&args, "c996 a --o996");
  assert_true(cli_flag(&args, 996));
  uint32_t n = 0;
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(999, o)) != CLI_NONE; n++)
    assert_true(o % 4 != 0);
  assert_int_equal(n, MANY - MANY / 4);
  refuse("c999 a --o996", "--o996 is an option of other commands, not of 'weir c999'", "");
  refuse("c998 a --o999 7", "--o999 is an option of 'weir c999', not of 'weir c998'", "");
  refuse("c998 a --o997 7", "of 'weir c997' and 'weir c999', not of 'weir c998'", "");
  refuse("c999 a --o1000 7", "'weir c999' has no option --o1000", "");
  refuse("c1000 a", "there is no command 'c1000'", "");
  cli_tables = weir;
  arena_free(&arena);
}

// Examples are command lines: as far as a shell has no part in them they must parse.
static void test_examples_parse(void **state) {
  (void)state;
  for (uint32_t c = 0; c < CLI_COMMANDS; c++) {
    for (int i = 0; i < CLI_EXAMPLES; i++) {
      char line[256];
      const char *example = cli_command_row(c)->example[i].line + strlen("weir ");
      size_t n = strcspn(example, "|>");
      while (example[n - 1] == ' ')
        n--;
      snprintf(line, sizeof line, "%.*s", (int)n, example);
      struct cli_args args;
      accept(&args, line);
    }
  }
}

// ---- a word that may be left out ----------------------------------------------------------------

static void expect_progress(const char *line, const char *word, uint32_t operands) {
  struct cli_args args;
  accept(&args, line);
  const char *text = cli_string(&args, OPT_PROGRESS);
  assert_true((text == NULL) == (word == NULL));
  if (word) assert_string_equal(text, word);
  assert_int_equal(args.n_operands, operands);
}

static void test_word_that_may_be_left_out(void **state) {
  (void)state;
  expect_progress("convert a b", "auto", 2);
  expect_progress("convert a b --progress", NULL, 2);
  expect_progress("convert --progress a b", NULL, 2);
  expect_progress("convert --progress json a b", "json", 2);
  expect_progress("convert --progress=plain a b", "plain", 2);
  expect_progress("convert a b --progress --force", NULL, 2);
  expect_progress("convert a b --quiet --progress=json", "json", 2);
  expect_progress("convert a b --quiet --progress never", "never", 2);
}

// ---- slots --------------------------------------------------------------------------------------

static void test_slots(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args,
         "conv2matmul --memory 64M in.onnx --force --report-json=r=1.json --io sync out.onnx "
         "--max-dilation 3");
  assert_int_equal(args.action, CLI_RUN);
  assert_int_equal(args.command, CLI_conv2matmul);
  assert_int_equal(cli_size(&args, OPT_MEMORY), 64 << 20);
  assert_string_equal(cli_string(&args, OPT_REPORT_JSON), "r=1.json");
  assert_string_equal(cli_string(&args, OPT_IO), "sync");
  assert_int_equal(cli_count(&args, cli_pass_option(CLI_conv2matmul, "max-dilation")), 3);
  assert_true(cli_flag(&args, OPT_FORCE));
  assert_false(cli_flag(&args, OPT_RESUME));
  assert_string_equal(cli_operand(&args, "IN"), "in.onnx");
  assert_string_equal(cli_output(&args), "out.onnx");
}

static const struct pass_value *value_of(const struct pass_values *v, const char *name) {
  return &v->of[pass_values_option(v->pass, span_str(name))];
}

static void test_lists(void **state) {
  (void)state;
  struct cli_args args;
  uint32_t n;
  accept(&args, "quantize in out --exclude a --exclude=b --op-types Gemm,Gather --op-types MatMul");
  const char *const *list = cli_list(&args, cli_pass_option(CLI_quantize, "exclude"), &n);
  assert_int_equal(n, 2);
  assert_string_equal(list[0], "a");
  assert_string_equal(list[1], "b");
  struct pass_values values;
  struct arena arena = {0};
  cli_pass_values(&args, &values, &arena);
  assert_int_equal(value_of(&values, "exclude")->n_list, 2);
  assert_int_equal(value_of(&values, "op-types")->n_list, 3); // the preset is gone
  assert_string_equal(value_of(&values, "bits")->text, "4");
  assert_false(value_of(&values, "bits")->given);
  arena_free(&arena);
  refuse("quantize in out --op-types Conv", "invalid value 'Conv' for --op-types: use ", "");
}

static void test_many_operands(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "shrink a b --levels 3 c");
  assert_int_equal(args.n_operands, 3);
  assert_string_equal(args.operand[2], "c");
  assert_string_equal(cli_operand(&args, "IN"), "a");
  refuse("shrink", "needs IN...", "usage");
  refuse("shrink a --suffix s --inplace", "either --suffix or --inplace", "");
  refuse("shrink a --form flat", "invalid value 'flat' for --form: use cast-mul-add|dequantize",
         "");
}

static void test_presets(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "conv2matmul in.onnx out.onnx");
  assert_int_equal(cli_size(&args, OPT_MEMORY), 48 << 20);
  assert_string_equal(cli_string(&args, OPT_IO), "auto");
  assert_string_equal(cli_string(&args, cli_pass_option(CLI_conv2matmul, "form")), "auto");
  assert_int_equal(cli_count(&args, OPT_JOBS), 0);
  assert_null(cli_string(&args, OPT_EDIT_LOG));
  assert_false(cli_given(&args, OPT_MEMORY));
}

static void test_the_last_of_two_counts(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "convert --jobs 2 in.onnx out.onnx --jobs=3");
  assert_int_equal(cli_count(&args, OPT_JOBS), 3);
}

static void test_short_options(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "convert -nfq -j3 in.onnx");
  assert_true(cli_flag(&args, OPT_DRY_RUN) && cli_flag(&args, OPT_FORCE));
  assert_true(cli_flag(&args, OPT_QUIET));
  assert_int_equal(cli_count(&args, OPT_JOBS), 3);
  accept(&args, "convert -fqo x.onnx in.onnx -j 4");
  assert_string_equal(cli_output(&args), "x.onnx");
  assert_int_equal(cli_count(&args, OPT_JOBS), 4);
  accept(&args, "inspect -q in.onnx --no-color");
  assert_true(cli_flag(&args, OPT_QUIET) && !cli_flag(&args, OPT_COLOR));
  accept(&args, "-V");
  assert_int_equal(args.action, CLI_VERSION);
  accept(&args, "version");
  assert_int_equal(args.action, CLI_VERSION);
  refuse("convert -nz in.onnx", "has no option '-nz'", "");
  refuse("convert in.onnx x.onnx -fj", "--jobs needs a value", "");
  refuse("convert in.onnx x.onnx -jf", "for --jobs", "");
  refuse("inspect -f in.onnx", "has no option '-f'", "");
  refuse("inspect in.onnx --color --no-color", "Use either --color or --no-color", "");
}

// Case does not count in the words of a choice; commands are given the word of the row.
static void test_words_in_any_case(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "convert in.onnx out.onnx --io SYNC");
  assert_string_equal(cli_string(&args, OPT_IO), "sync");
  accept(&args, "quantize in.onnx out.onnx --format QDQ --op-types matmul,Gather");
  assert_string_equal(cli_string(&args, cli_pass_option(CLI_quantize, "format")), "qdq");
  accept(&args, "static in.onnx out.onnx --ranges r --format INT32_bias");
  assert_string_equal(cli_string(&args, cli_pass_option(CLI_static, "format")), "int32-bias");
  for (uint32_t i = 0; i < 3; i++) {
    static const char *const lines[] = {"cast a b --to fp16", "cast a b --to Half",
                                        "cast a b --to=FLOAT16"};
    accept(&args, lines[i]);
    assert_string_equal(cli_string(&args, cli_pass_option(CLI_cast, "to")), "float16");
  }
  refuse("cast a b --to int8", "invalid value 'int8' for --to", "");
}

static void test_output(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "convert in.onnx -o x.onnx");
  assert_string_equal(cli_output(&args), "x.onnx");
  accept(&args, "convert in.onnx -ox.onnx");
  assert_string_equal(cli_output(&args), "x.onnx");
  accept(&args, "convert in.onnx --output=x.onnx");
  assert_string_equal(cli_output(&args), "x.onnx");
  accept(&args, "convert in.onnx --inplace");
  assert_string_equal(cli_output(&args), "in.onnx");
  accept(&args, "convert in.onnx --dry-run");
  assert_string_equal(cli_output(&args), "in.onnx");
  accept(&args, "replay e.jsonl in.onnx out.onnx");
  assert_string_equal(cli_operand(&args, "EDITS"), "e.jsonl");
  assert_string_equal(cli_operand(&args, "IN"), "in.onnx");
  assert_string_equal(cli_output(&args), "out.onnx");
}

static void test_double_dash_ends_options(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "inspect --json -- --help");
  assert_int_equal(args.action, CLI_RUN);
  assert_string_equal(cli_operand(&args, "MODEL|DIR"), "--help");
  accept(&args, "inspect ./-");
  assert_string_equal(cli_operand(&args, "MODEL|DIR"), "./-");
  refuse("inspect -", "random access", "./-");
  refuse("inspect -- -", "random access", "./-");
  accept(&args, "replay - in out");
  assert_string_equal(cli_operand(&args, "EDITS"), "-");
}

static void test_help_wins(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args, "conv2matmul --nonsense --help");
  assert_int_equal(args.action, CLI_HELP);
  assert_int_equal(args.command, CLI_conv2matmul);
  accept(&args, "conv2matmul --nonsense -h");
  assert_int_equal(args.action, CLI_HELP_SHORT);
  accept(&args, "-h");
  assert_int_equal(args.action, CLI_HELP_SHORT);
  accept(&args, "help");
  assert_int_equal(args.action, CLI_HELP);
  accept(&args, "convert --help-all");
  assert_int_equal(args.action, CLI_HELP_ALL);
  accept(&args, "help audit");
  assert_int_equal(args.action, CLI_HELP_ABOUT);
  assert_string_equal(args.operand[0], "audit");
  accept(&args, "--version");
  assert_int_equal(args.action, CLI_VERSION);
  accept(&args, "");
  assert_int_equal(args.action, CLI_NOTHING);
  accept(&args, "--generate man folder");
  assert_int_equal(args.action, CLI_GENERATE);
  assert_string_equal(args.operand[1], "folder");
  accept(&args, "--generate json");
  assert_int_equal(args.action, CLI_GENERATE);
  accept(&args, "completion fish");
  assert_int_equal(args.action, CLI_GENERATE);
  assert_string_equal(args.operand[0], "fish");
  refuse("completion", "needs the name of one shell", "weir completion bash|zsh|fish");
  refuse("completion bash zsh", "needs the name of one shell", "weir completion");
  refuse("completion tcsh", "no completion for 'tcsh'", "weir completion");
  refuse("completoin", "no command 'completoin'", "'weir completion'");
  refuse("--generate json folder", "--generate takes bash, zsh, fish, json, or man", "");
}

// ---- refusals -----------------------------------------------------------------------------------

static void test_unknown_names(void **state) {
  (void)state;
  refuse("inpsect a.onnx", "no command 'inpsect'", "'weir inspect'");
  refuse("conv2matmull a b", "no command", "'weir conv2matmul'");
  refuse("frobnicate", "no command 'frobnicate'", "--help");
  refuse("model.onnx", "no command 'model.onnx'", "weir inspect model.onnx");
  refuse("convert a b --forse", "no option --forse", "--force");
  refuse("convert a b --report x", "no option --report", "--report-json");
  refuse("convert a b --xyzzy", "no option --xyzzy", "weir convert --help");
  refuse("convert a b --tensors", "an option of 'weir inspect', not of 'weir convert'", "");
  refuse("inspect a --dry-run", "an option of the commands that write a model", "");
  refuse("inspect a --exactness exact", "an option of the commands that change a model", "");
  refuse("audit a --allow-links", "an option of other commands, not of 'weir audit'", "");
  refuse("inspect a --candidates 4:64", "of 'weir quantize' and 'weir measure', not", "");
  refuse("run a b --bits 4", "an option of 'weir quantize'", "--pass quantize:bits=2|4|8");
  refuse("run a b --per-channel", "an option of 'weir shrink'", "--pass shrink:per_channel=true");
  refuse("quantize a b --asymmetric", "no option --asymmetric", "leave out --symmetric");
  refuse("quantize a b --no-symmetric", "no option --no-symmetric", "leave out --symmetric");
  refuse("convert a b --manifest", "no option --manifest", "weir convert --help");
  refuse("--hlep", "unknown option '--hlep'", "did you mean --help?");
  refuse("--verison", "unknown option '--verison'", "did you mean --version?");
  refuse("convert a b -x", "no option '-x'", "./-x");
  refuse("--json", "unknown option '--json'", "come after the command");
}

// Every --name in the text is an option of the command: of `typed`, or of X in 'weir X …'; what follows --pass is
// a pass or stands for some; and what follows weir is a command.
static void check_is_ours(const char *ours, enum cli_command typed) {
  enum cli_command command = typed;
  char word[64], before[64] = "";
  for (const char *at = ours; *at;) {
    const size_t n = strcspn(at, " ',;()");
    snprintf(word, sizeof word, "%.*s", (int)n, at);
    const size_t name = strcspn(word, "=");
    if (strcmp(before, "weir") == 0 &&
        (strcmp(word, "completion") == 0 || strcmp(word, "--generate") == 0)) {
      before[0] = '\0';
      at += strcspn(at, "'");
      continue;
    }
    if (strcmp(before, "weir") == 0) command = cli_command_by_name(word);
    if (command == CLI_COMMANDS) fail_msg("'%s': no command '%s'", ours, word);
    if (strncmp(word, "--", 2) == 0 &&
        cli_option_named(command, span_of(word + 2, name - 2)) == CLI_NONE)
      fail_msg("'%s': no option '%s'", ours, word);
    if (strcmp(before, "--pass") == 0 && *word && !passes_named(NULL, span_str(word), 0) &&
        !groups_find(span_str(word)))
      fail_msg("'%s': no pass '%s'", ours, word);
    snprintf(before, sizeof before, "%s", word);
    at += n;
    if (*at == '\'') command = typed, before[0] = '\0';
    if (*at) at++;
  }
}

// What is wrong is found before the operands are.
static void peer_line(char *line, size_t room, enum cli_command c, const char *rest) {
  snprintf(line, room, "%s %s m.onnx", cli_command_row(c)->name, rest);
}

// Each of the words of a row, as one row.
#define EACH_WORD(theirs, ...)                                                                     \
  for (const char *list = (theirs), *word; (word = next_of(&list));) {                             \
    __VA_ARGS__;                                                                                   \
  }

static const char *next_of(const char **list) {
  static char word[64];
  const struct span next = cli_next_word(list);
  assert_true(next.n < sizeof word);
  snprintf(word, sizeof word, "%.*s", (int)next.n, (const char *)next.at);
  return next.n > 0 ? word : NULL;
}

static void check_peer_command(const char *theirs, const char *ours) {
  char line[128];
  snprintf(line, sizeof line, "%s m.onnx", theirs);
  assert_true(cli_command_by_name(theirs) == CLI_COMMANDS);
  refuse(line, "no command", ours);
  check_is_ours(ours, CLI_inspect);
}

static void check_peer_option(const char *commands, const char *theirs, const char *ours) {
  char rest[128], line[256], hint[512];
  snprintf(rest, sizeof rest, "%s%s", theirs[1] ? "--" : "-", theirs);
  snprintf(hint, sizeof hint, "%s%s",
           *ours == '-'    ? "here: "
           : *ours == '\'' ? "that is "
                           : "",
           ours);
  check_list(theirs, commands);
  for (enum cli_command c = 0; c < CLI_COMMANDS; c++) {
    if (!cli_names(commands, c)) continue;
    check_is_ours(ours, c);
    peer_line(line, sizeof line, c, rest);
    refuse(line, "has no option", hint);
  }
}

static void check_peer_value(const char *option, const char *theirs, const char *ours) {
  uint32_t tried = 0;
  for (enum cli_command c = 0; c < CLI_COMMANDS; c++) {
    const enum cli_option o = cli_option_named(c, span_str(option));
    if (o == CLI_NONE || cli_row(c, o).kind != CLI_CHOICE) continue;
    char rest[128], line[256];
    snprintf(rest, sizeof rest, "--%s %s", option, theirs);
    peer_line(line, sizeof line, c, rest);
    struct cli_args args;
    struct err err;
    if (parse(&args, &err, line) == 0 || !strstr(err.msg, "invalid value"))
      continue; // this command takes the word
    refuse(line, "invalid value", ours);
    tried++;
  }
  assert_true(tried > 0);
  check_is_ours(ours, CLI_run);
}

// Each row of peer_words.def and target_words.def is what one is told, and what it tells of exists.
static void test_words_of_others(void **state) {
  (void)state;
#define PEER_COMMAND(theirs, ours) EACH_WORD(theirs, check_peer_command(word, ours))
#define PEER_OPTION(commands, theirs, ours)                                                        \
  EACH_WORD(theirs, check_peer_option(commands, word, ours))
#define PEER_VALUE(option, theirs, ours) EACH_WORD(theirs, check_peer_value(option, word, ours))
#include "cli/peer_words.def"
#undef PEER_COMMAND
#undef PEER_OPTION
#undef PEER_VALUE
#define TARGET_WORD(theirs, ours) check_peer_value("target", theirs, ours);
#include "targets/target_words.def"
  // - and _ and capitals do not count; ours in such letters is named as ours.
  refuse("dynamic m.onnx o.onnx --AddQDQPairToWeight",
         "--add-qdq-pair-to-weight is an option of 'weir static', not of 'weir dynamic'", "");
  // A row may hold for all words that begin alike.
  refuse("optimize m.onnx o.onnx --tflite_int8", "no option --tflite_int8",
         "the only output format is ONNX");
  refuse("static m.onnx o.onnx --CalibStridedMinMax 4", "no option --CalibStridedMinMax",
         "only one sample at a time is in memory anyway");
  refuse("static m.onnx o.onnx --Quant_Format QDQ", "no option --Quant_Format", "here: --format");
  refuse("static m.onnx o.onnx --AddQDQPairToWeight", "no option",
         "did you mean --add-qdq-pair-to-weight?");
  // What only another command has, and what has dashes too few.
  refuse("run m.onnx o.onnx --group-size 32", "no option", "'weir quantize' has it: --block-size");
  refuse("diff m.onnx o.onnx --smooth-quant", "no option",
         "that is 'weir smooth', a command of its own");
  refuse("targets --input-model m.onnx", "no option", "'weir targets --help' lists the options");
  refuse("quantize m.onnx o.onnx -bits 4", "no option '-bits'", "did you mean '--bits'?");
}

// 'weir verify' takes the names that its options have where a command verifies what it wrote.
static void test_names_of_verify(void **state) {
  (void)state;
  struct cli_args args;
  accept(&args,
         "verify a b --verify-lengths 64,97 --verify-rtol=1e-3 --verify-max-abs-threshold 1");
  assert_true(cli_given(&args, OPT_VERIFY_LENGTHS) && cli_given(&args, OPT_VERIFY_MAX_ABS));
  assert_string_equal(cli_string(&args, OPT_VERIFY_RTOL), "1e-3");
  refuse("convert a b --lengths 64", "an option of 'weir verify'", "here: --verify-lengths");
  refuse("verify a b --verify-output-index 0", "an option of 'weir conv2matmul'", "");
  refuse("quantize a b --verify-length 64", "no option", "--verify-lengths");
}

static void test_values(void **state) {
  (void)state;
  refuse("convert a b --memory", "--memory needs a value: SIZE", "");
  refuse("convert a b --edit-log --force", "--edit-log needs a value", "--edit-log=--force");
  refuse("convert a b --force=yes", "--force takes no value", "");
  refuse("convert a b --memory 64X", "invalid value '64X' for --memory", "");
  refuse("convert a b --memory 0", "invalid value '0'", "");
  refuse("convert a b --jobs 0", "a whole number from 1 to 256", "");
  refuse("convert a b --jobs 257", "a whole number from 1 to 256", "");
  refuse("conv2matmul a b --max-dilation -1", "invalid value '-1' for --max-dilation", "");
  refuse("convert a b --jobs 4294967297", "invalid value '4294967297'", "");
  refuse("convert a b --io fast", "auto|uring|sync", "");
  refuse("convert a b --align 100", "a power of two", "");
  refuse("convert a b --data-file x/y", "a plain file name", "");
  refuse("convert a b --data-file a..b", "a plain file name", "");
  refuse("convert a b --edit-log=", "use a path", "");
  struct cli_args args;
  accept(&args, "convert a b --io null"); // hidden, not absent
  assert_string_equal(cli_string(&args, OPT_IO), "null");
}

static void test_what_needs_all_words(void **state) {
  (void)state;
  refuse("inspect", "'weir inspect' needs MODEL", "usage: weir inspect MODEL");
  refuse("replay e.jsonl", "'weir replay' needs IN", "");
  refuse("inspect a b", "unexpected argument 'b'", "");
  refuse("convert a b c", "unexpected argument 'c'", "");
  refuse("conv2matmul a", "Provide an output path or use --inplace.",
         "usage: weir conv2matmul IN [OUT] [options], such as: -o a.matmul.onnx");
  refuse("conv2matmul a b --inplace", "Use either --inplace or output path, not both.", "");
  refuse("conv2matmul a -o b --inplace", "Use either --inplace or output path, not both.", "");
  refuse("conv2matmul a b -o c", "given twice", "");
  refuse("convert a b --inline --external", "either --external or --inline", "");
  refuse("convert a b --quiet --progress", "either --quiet or --progress", "");
  refuse("convert a b --quiet --progress=plain", "either --quiet or --progress", "");
  refuse("convert a b --progress=fast", "invalid value 'fast' for --progress", "");
  refuse("convert a b --dry-run --resume", "either --dry-run or --resume", "");
  refuse("convert a b --fresh --resume", "either --resume or --fresh", "");
}

// ---- words --------------------------------------------------------------------------------------

static void test_sizes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    uint64_t bytes;
  } good[] = {{"0", 0},
              {"512", 512},
              {"64B", 64},
              {"1K", 1024},
              {"1k", 1024},
              {"64M", 64ull << 20},
              {"64Mi", 64ull << 20},
              {"64MiB", 64ull << 20},
              {"64MB", 64000000},
              {"3kB", 3000},
              {"1G", 1ull << 30},
              {"2TiB", 2ull << 40},
              {"1.5G", 3ull << 29},
              {"12.5M", 25ull << 19},
              {"1.5GiB", 3ull << 29},
              {"0.5kB", 500},
              {"0012.50MB", 12500000},
              {"0.1K", 102}, // of 102.4
              {"0.999999999999999999999999999999T", (1ull << 40) - 1},
              {"1.00000000000000000000000000000T", 1ull << 40},
              {"4503599627370496.001K", (1ull << 62) + 1}, // a double would drop the 1
              {"8388607.9999999999999999T", INT64_MAX},
              {"9223372036854775807", INT64_MAX}};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    uint64_t n = 1;
    assert_true(size_words_parse(good[i].text, &n));
    assert_int_equal(n, good[i].bytes);
  }
  static const char *const bad[] = {"",
                                    "M",
                                    "-1",
                                    "+1",
                                    " 1",
                                    "1 ",
                                    "1.5",
                                    "1.5B",
                                    "1.G",
                                    ".5G",
                                    "1,5G",
                                    "1.5.5G",
                                    "1.5 G",
                                    "-1.5G",
                                    "1.5e3G",
                                    "8388608.5T",
                                    "1MiBs",
                                    "0x10",
                                    "1e3",
                                    "9223372036854775808",
                                    "18446744073709551616",
                                    "8388608T",
                                    "99999999999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint64_t n;
    if (size_words_parse(bad[i], &n)) fail_msg("'%s' was accepted", bad[i]);
  }
  // Shown again as given.
  static const char *const same[] = {"48MiB", "700KB",    "400MB",     "1GiB",
                                     "3TB",   "12800KiB", "1001 bytes"};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    uint64_t n = 1001;
    assert_true(size_words_parse(same[i], &n) == !strchr(same[i], ' '));
    assert_string_equal(size_words_of(n).s, same[i]);
  }
  assert_string_equal(size_words_of(0).s, "0 bytes");
  assert_string_equal(size_words_of(1023).s, "1023 bytes");
}

static void test_shell_quoting(void **state) {
  (void)state;
  struct arena a = {0};
  assert_string_equal(shell_words_quote("in/a-b_c.onnx", &a), "in/a-b_c.onnx");
  assert_string_equal(shell_words_quote("", &a), "''");
  assert_string_equal(shell_words_quote("a b", &a), "'a b'");
  assert_string_equal(shell_words_quote("it's", &a), "'it'\\''s'");
  assert_string_equal(shell_words_quote("$x", &a), "'$x'");
  arena_free(&a);
}

// The environment stands in for what the line does not say, and is not looked at otherwise.
static void test_environment(void **state) {
  (void)state;
  struct cli_args args;
  setenv("WEIR_MEMORY", "12M", 1);
  setenv("WEIR_JOBS", "3", 1);
  setenv("WEIR_IO", "Sync", 1);
  accept(&args, "convert in.onnx out.onnx");
  assert_int_equal(cli_size(&args, OPT_MEMORY), 12 << 20);
  assert_int_equal(cli_count(&args, OPT_JOBS), 3);
  assert_string_equal(cli_string(&args, OPT_IO), "sync");
  assert_false(cli_given(&args, OPT_MEMORY));
  assert_string_equal(cli_source(&args, OPT_MEMORY).s, "WEIR_MEMORY");
  accept(&args, "convert in.onnx out.onnx --memory 20M -j 5 --io auto");
  assert_int_equal(cli_size(&args, OPT_MEMORY), 20 << 20);
  assert_int_equal(cli_count(&args, OPT_JOBS), 5);
  assert_string_equal(cli_string(&args, OPT_IO), "auto");
  assert_string_equal(cli_source(&args, OPT_MEMORY).s, "--memory");
  setenv("WEIR_JOBS", "99999999999", 1);
  refuse("audit in.onnx",
         "invalid value '99999999999' for WEIR_JOBS: use a whole number from 1 to 256", "");
  setenv("WEIR_JOBS", "many", 1);
  refuse("audit in.onnx", "invalid value 'many' for WEIR_JOBS: use a whole number", "");
  accept(&args, "audit in.onnx --jobs 2");
  accept(&args, "inspect in.onnx");
  accept(&args, "audit --help");
  setenv("WEIR_JOBS", "", 1);
  setenv("WEIR_MEMORY", "0", 1);
  refuse("measure in.onnx", "invalid value '0' for WEIR_MEMORY: use a size", "");
  unsetenv("WEIR_MEMORY");
  setenv("WEIR_IO", "fast", 1);
  refuse("convert in.onnx out.onnx", "invalid value 'fast' for WEIR_IO: use auto|uring|sync", "");
  setenv("WEIR_IO", "null", 1);
  refuse("convert in.onnx out.onnx", "invalid value 'null' for WEIR_IO", "");
  unsetenv("WEIR_IO");
  accept(&args, "convert in.onnx out.onnx");
  assert_int_equal(cli_count(&args, OPT_JOBS), 0);
  unsetenv("WEIR_JOBS");
  unsigned n = 0;
  while (help_variable(n).name)
    n++;
  assert_int_equal(n, 4);
}

static void test_layout(void **state) {
  (void)state;
  struct cli_args args;
  static const char *const lines[] = {"quantize a b --split 1GiB --data-file w --align 4K",
                                      "cast a b --to float16 --split 1GiB",
                                      "conv2matmul a b --split 1GiB --external",
                                      "run a b --pass cast:to=float16 --split 1GiB",
                                      "replay e a b --split 1GiB",
                                      "shrink a b --split 1GiB --align 64",
                                      "convert a b --split 1GiB"};
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
    accept(&args, lines[i]);
    assert_int_equal(cli_size(&args, OPT_SPLIT), 1 << 30);
    assert_false(cli_flag(&args, OPT_INLINE));
  }
  refuse("shrink a --data-file w", "--data-file is an option of", "");
  refuse("quantize a b --inline --split 1G", "Use either --inline or --split", "");
  refuse("quantize a b --split 0", "invalid value '0' for --split", "");
  refuse("inspect a --split 1G", "of the commands that write a model", "");
}

static void test_resume_command(void **state) {
  (void)state;
  struct arena a = {0};
  struct cli_args args;
  accept(&args, "convert in.onnx -- $out.onnx");
  assert_string_equal(cli_resume_command(&args, &a), "weir convert in.onnx -- '$out.onnx'");
  accept(&args, "convert in.onnx out.onnx --resume");
  assert_string_equal(cli_resume_command(&args, &a), "weir convert in.onnx out.onnx");
  accept(&args, "convert in.onnx --fresh -- --fresh");
  assert_string_equal(cli_resume_command(&args, &a), "weir convert in.onnx -- --fresh");
  accept(&args, "shrink in.onnx --fresh --quiet");
  assert_string_equal(cli_resume_command(&args, &a), "weir shrink --resume in.onnx --quiet");
  arena_free(&a);
}

// Every reason has words, what the error says of its cause is put among them, and a hint without a
// reason stays as it is.
static void test_hints(void **state) {
  (void)state;
  for (int reason = REASON_NONE + 1; reason < REASONS; reason++) {
    const struct err e = {.kind = ERR_IO, .reason = (enum err_reason)reason, .hint = "<why>"};
    const struct hints_text t = hints_of(&e);
    assert_true(t.s[0] && strcmp(t.s, e.hint) != 0);
    assert_null(strstr(t.s, "%s"));
  }
  const struct err ring = {.kind = ERR_IO, .reason = REASON_RING, .hint = "missing"};
  assert_string_equal(hints_of(&ring).s,
                      "io_uring is missing, or use --io=sync, which writes the same bytes");
  const struct err plain = {.kind = ERR_IO, .hint = "look at 100% of it"};
  assert_string_equal(hints_of(&plain).s, plain.hint);
  const struct err none = {.kind = ERR_IO};
  assert_string_equal(hints_of(&none).s, "");
}

// Who set a variable is told of the variable, who typed an option of the option.
static void test_hints_name_variables(void **state) {
  (void)state;
  struct cli_args args;
  const struct err memory = {.kind = ERR_USAGE, .reason = REASON_MEMORY};
  const struct err lost = {.kind = ERR_IO, .reason = REASON_RING_LOST};
  setenv("WEIR_JOBS", "200", 1);
  setenv("WEIR_IO", "uring", 1);
  accept(&args, "convert in.onnx out.onnx --memory 20M");
  hints_for(&args);
  assert_string_equal(hints_of(&memory).s, "raise --memory, or lower WEIR_JOBS");
  assert_string_equal(hints_of(&lost).s, "use WEIR_IO=sync, or WEIR_IO=auto, which continues "
                                         "without io_uring; the bytes are the same");
  accept(&args, "convert in.onnx out.onnx --jobs 3 --io=uring");
  assert_string_equal(hints_of(&memory).s, "raise --memory, or lower --jobs");
  hints_for(NULL);
  unsetenv("WEIR_JOBS");
  unsetenv("WEIR_IO");
}

int test_cli(void) {
  unsetenv("WEIR_MEMORY");
  unsetenv("WEIR_JOBS");
  unsetenv("WEIR_IO");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hints),
      cmocka_unit_test(test_hints_name_variables),
      cmocka_unit_test(test_tables_are_sound),
      cmocka_unit_test(test_tables_have_no_bound),
      cmocka_unit_test(test_examples_parse),
      cmocka_unit_test(test_slots),
      cmocka_unit_test(test_word_that_may_be_left_out),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_many_operands),
      cmocka_unit_test(test_presets),
      cmocka_unit_test(test_the_last_of_two_counts),
      cmocka_unit_test(test_short_options),
      cmocka_unit_test(test_words_in_any_case),
      cmocka_unit_test(test_output),
      cmocka_unit_test(test_double_dash_ends_options),
      cmocka_unit_test(test_help_wins),
      cmocka_unit_test(test_unknown_names),
      cmocka_unit_test(test_words_of_others),
      cmocka_unit_test(test_names_of_verify),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_what_needs_all_words),
      cmocka_unit_test(test_sizes),
      cmocka_unit_test(test_shell_quoting),
      cmocka_unit_test(test_environment),
      cmocka_unit_test(test_layout),
      cmocka_unit_test(test_resume_command),
  };
  return cmocka_run_group_tests(tests, NULL, let_go);
}
