// Words become values of options by the kind of the row; a word for the pass that the command is, by the pass's row
// (pass_values.h). Whether a value makes sense for a model is not decided here.
#include "cli/cli_values.h"

#include "base/guess.h"
#include "base/size_words.h"
#include "cli/peer_words.h"
#include "stream/sys/threads.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// ---- from words ---------------------------------------------------------------------------------

struct cli_taking cli_taking_of(struct cli_args *args, enum cli_option o) {
  return (struct cli_taking){args, o, cli_row(args->command, o), &args->value[o]};
}

static int bad_value(const struct cli_taking *t, const char *text, const char *wanted,
                     struct err *err) {
  return err_set(err, ERR_USAGE, "invalid value '%s' for %s: use %s", quote_str(text).s,
                 cli_source(t->args, t->o).s, wanted);
}

int cli_refuse_stream(struct err *err) {
  err_fill(err, ERR_USAGE,
           "a model cannot be read from a pipe or written to one: weir needs random access");
  return err_hint(err, "write './-' for a file of that name");
}

// The word of a choice as the row has it, or NULL. Hidden words are for who types them: --io null writes no model.
static const char *known_word(const struct cli_taking *t, const char *text) {
  struct span word;
  for (uint32_t k = 0; (word = cli_choice(&t->row, k, !t->value->inherited)).n > 0; k++)
    if (pass_values_means(t->row.also, span_str(text), word))
      return arena_string(&t->args->arena, word);
  return NULL;
}

static int bad_choice(const struct cli_taking *t, const char *text, struct err *err) {
  const char *ours = peer_value(t->row.name, text);
  if (!t->row.listed) {
    const struct span visible = span_of(t->row.metavar, strcspn(t->row.metavar, "/"));
    (void)bad_value(t, text, arena_string(&t->args->arena, visible), err);
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

static int check_path(const struct cli_taking *t, const char *text, struct err *err) {
  if (path_is_stream(text) && t->row.kind == CLI_MODEL) return cli_refuse_stream(err);
  if (path_is_stream(text) && t->row.kind == CLI_FILE)
    return bad_value(t, text, "a path, such as ./-", err);
  return *text == '\0' ? bad_value(t, text, "a path", err) : 0;
}

// Fills the slot of a pass's option with the value that the pass has.
static void show_pass_value(const struct cli_taking *t) {
  const struct pass_value *x = &t->args->of_pass.of[t->o - cli_tables->n_options];
  t->value->text = x->text;
  t->value->number = x->number;
  t->value->list = x->list;
  t->value->n_list = x->n_list;
}

// A word for the pass that the command is. The pass's row says what it takes (pass_values.h); the line has hints that
// are its own.
static int take_pass_value(const struct cli_taking *t, const char *text, struct err *err) {
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

int cli_take_value(const struct cli_taking *t, const char *text, struct err *err) {
  if (cli_is_of_pass(t->o)) return take_pass_value(t, text, err);
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

void cli_make_room(struct cli_args *args) {
  const struct pass *pass = cli_pass(args->command);
  const size_t n_options = cli_tables->n_options + (pass ? pass->n_options : 0);
  args->value = arena_zalloc(&args->arena, n_options * sizeof *args->value);
  if (!pass) return;
  pass_values_start(&args->of_pass, pass, &args->arena);
  args->of_pass.by_flags = true;
}

void cli_take_presets(struct cli_args *args) {
  struct err impossible = {0};
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(args->command, o)) != CLI_NONE;) {
    const struct cli_taking t = cli_taking_of(args, o);
    if (cli_is_of_pass(o)) {
      show_pass_value(&t);
    } else if (t.row.preset) {
      const int rc = cli_take_value(&t, t.row.preset, &impossible);
      assert(rc == 0); // a preset is a value of its own option
      (void)rc;
    }
  }
}

// ---- to slots -----------------------------------------------------------------------------------

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
  assert(kind == CLI_TEXT || cli_is_path(kind) || kind == CLI_CHOICE || kind == CLI_MAYBE);
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
