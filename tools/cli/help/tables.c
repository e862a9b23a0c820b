// weir --generate json: what the parser accepts, for programs.
//
// Nothing is decided here: names, kinds and texts are those of the rows that the parser and --help read,
// options stand in the order of help. A word of operands is taken apart ("[OUT]" may be left out, of
// "IN..." there may be more), a metavar only where its words are choices. What cannot be given together
// is said on both sides.
#include "cli/help/help.h"

#include "base/version_number.h"

#include <string.h>

enum { TABLES_SCHEMA = 1 };

static void put_operands(struct json_out *j, enum cli_command c) {
  json_put_array(j, "operands");
  const char *at = cli_command_row(c)->operands;
  for (struct span word; (word = cli_next_word(&at)).n > 0;) {
    const bool optional = word.at[0] == '[', repeated = cli_is_repeated(word);
    const struct span name =
        span_of(word.at + optional, word.n - 2 * optional - 3 * (size_t)repeated);
    json_object(j);
    json_put_string(j, "name", name);
    json_put_bool(j, "optional", optional);
    json_put_bool(j, "repeated", repeated);
    json_end_object(j);
  }
  json_end_array(j);
}

static void put_choices(struct json_out *j, const struct cli_option_row *row) {
  struct span word;
  uint32_t visible = 0;
  json_put_array(j, "choices");
  for (; (word = cli_choice(row, visible, false)).n > 0; visible++)
    json_string(j, word);
  json_end_array(j);
  json_put_array(j, "hidden_choices");
  for (uint32_t k = visible; (word = cli_choice(row, k, true)).n > 0; k++)
    json_string(j, word);
  json_end_array(j);
}

// The line, and after a line break what else there is.
static void put_help(struct json_out *j, const struct cli_option_row *row) {
  struct arena a = {0};
  const char *more = row->more ? arena_printf(&a, "\n%s", row->more) : "";
  json_put_text(j, "help",
                arena_printf(&a, "%.*s%s", (int)row->line.n, (const char *)row->line.at, more));
  arena_free(&a);
}

static void put_option(struct json_out *j, enum cli_command c, enum cli_option o) {
  static const char *const kinds[] = {
      [CLI_FLAG] = "flag",       [CLI_TEXT] = "text",     [CLI_FILE] = "file",
      [CLI_MODEL] = "file",      [CLI_STREAM] = "stream", [CLI_FOLDER] = "folder",
      [CLI_NAME] = "name",       [CLI_SIZE] = "size",     [CLI_SIZE_FROM_0] = "size",
      [CLI_POWER_OF_2] = "size", [CLI_COUNT] = "count",   [CLI_THREADS] = "count",
      [CLI_NUMBER] = "number",   [CLI_CHOICE] = "choice", [CLI_MAYBE] = "maybe",
      [CLI_LIST] = "list",
  };
  const struct cli_option_row row = cli_row(c, o);
  const char letter[2] = {row.letter, 0};
  json_object(j);
  json_put_text(j, "name", row.name);
  json_put_text(j, "letter", row.letter ? letter : NULL);
  json_put_text(j, "kind", kinds[row.kind]);
  json_put_text(j, "metavar", row.kind == CLI_FLAG ? NULL : row.metavar);
  json_put_text(j, "default", row.preset);
  if (row.kind == CLI_CHOICE || row.kind == CLI_MAYBE) put_choices(j, &row);
  json_put_bool(j, "repeated", row.kind == CLI_LIST);
  json_put_bool(j, "required", row.required);
  json_put_bool(j, "takes_false", row.kind == CLI_FLAG && cli_is_of_pass(o));
  json_put_text(j, "group", help_group_titles[row.group]);
  put_help(j, &row);
  json_put_array(j, "excludes");
  for (enum cli_option other = CLI_NONE; (other = cli_option_after(c, other)) != CLI_NONE;)
    if (cli_excludes(o, other)) json_text(j, cli_row(c, other).name);
  json_end_array(j);
  json_end_object(j);
}

static void put_first(struct json_out *j, const char *names) {
  json_put_array(j, "first");
  for (struct span name; (name = cli_next_word(&names)).n > 0;)
    json_string(j, name);
  json_end_array(j);
}

static void put_command(struct json_out *j, enum cli_command c) {
  static const char *const families[CLI_FAMILIES] = {
      [CLI_LOOK] = "look",   [CLI_QUANTIZE] = "quantize", [CLI_CHANGE] = "change",
      [CLI_PROVE] = "prove", [CLI_MACHINES] = "machines", [CLI_FILES] = "files",
  };
  const struct cli_command_row *row = cli_command_row(c);
  json_object(j);
  json_put_text(j, "name", row->name);
  json_put_text(j, "family", families[row->family]);
  json_put_text(j, "summary", row->summary);
  json_put_text(j, "about", row->about);
  put_first(j, row->first);
  json_put_text(j, "pass", row->pass);
  put_operands(j, c);
  json_put_array(j, "options");
  for (enum cli_option o = CLI_NONE; (o = cli_option_after(c, o)) != CLI_NONE;)
    put_option(j, c, o);
  json_end_array(j);
  json_put_array(j, "examples");
  for (size_t i = 0; i < CLI_EXAMPLES; i++) {
    json_object(j);
    json_put_text(j, "line", row->example[i].line);
    json_put_text(j, "why", row->example[i].why);
    json_end_object(j);
  }
  json_end_array(j);
  json_end_object(j);
}

void tables_write(struct json_out *j) {
  json_object(j);
  json_put_uint(j, "schema", TABLES_SCHEMA);
  json_put_text(j, "version", version_number);
  json_put_text(j, "about", help_what_weir_is);
  json_put_array(j, "commands");
  for (uint32_t c = 0; c < CLI_COMMANDS; c++)
    put_command(j, c);
  json_end_array(j);
  json_put_array(j, "exit_codes");
  for (const struct help_exit_code *e = help_exit_codes; e->meaning; e++) {
    json_object(j);
    json_put_uint(j, "code", e->code);
    json_put_text(j, "meaning", e->meaning);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_text(j, "signals", help_signals);
  json_end_object(j);
}
