// weir passes: the catalogue of passes, their options and their promises.
//
// Everything it says is in the rows that the parser of options and pipelines reads, so a pass that
// is listed can be used, and the words are the same. For people a list, or one pass in full; for
// programs the same as JSON.
#include "commands.h"
#include "help.h"
#include "pass.h"
#include "report.h"

static void write_option(struct json_out *j, enum pass_option_id o, struct arena *a) {
  static const char *const kinds[] = {
      [PASS_FLAG] = "flag",     [PASS_COUNT] = "count", [PASS_NUMBER] = "number",
      [PASS_CHOICE] = "choice", [PASS_TEXT] = "text",   [PASS_LIST] = "list"};
  const struct pass_option *row = pass_option(o);
  json_object(j);
  json_put_text(j, "default", row->kind == PASS_FLAG ? "false" : row->preset);
  json_put_text(j, "help", row->help);
  json_put_text(j, "key", pass_values_key(o, a));
  json_put_text(j, "kind", kinds[row->kind]);
  json_put_text(j, "takes", row->kind == PASS_FLAG ? "true|false" : row->metavar);
  json_end_object(j);
}

static void write_pass(struct json_out *j, enum pass_id pass, struct arena *a) {
  const struct pass_row *row = pass_row(pass);
  json_object(j);
  json_put_text(j, "about", row->about);
  json_put_text(j, "name", row->name);
  json_put_text(j, "needs", row->needs);
  json_put_array(j, "options");
  for (uint32_t o = 0; o < PASS_OPTIONS; o++)
    if (pass_option_belongs(o, pass)) write_option(j, o, a);
  json_end_array(j);
  json_put_text(j, "promises", row->promises);
  json_put_text(j, "summary", row->summary);
  json_end_object(j);
}

static void print_option(enum pass_option_id o, struct arena *a) {
  const struct pass_option *row = pass_option(o);
  const char *takes = row->kind == PASS_FLAG ? "true|false" : row->metavar;
  const char *preset = row->kind == PASS_FLAG ? "false" : row->preset;
  const char *text = row->help;
  if (preset) text = arena_printf(a, "%s (default %s)", text, preset);
  help_entry(stdout, arena_printf(a, "%s=%s", pass_values_key(o, a), takes), text);
}

static void print_pass(enum pass_id pass, struct arena *a) {
  const struct pass_row *row = pass_row(pass);
  bool heading = false;
  printf("%s: ", row->name);
  help_wrap(stdout, row->summary, strlen(row->name) + 2, 0);
  printf("\n");
  help_wrap(stdout, row->about, 0, 0);
  printf("\nNeeds: ");
  help_wrap(stdout, row->needs, 7, 0);
  printf("Promises: ");
  help_wrap(stdout, row->promises, 10, 0);
  for (uint32_t o = 0; o < PASS_OPTIONS; o++) {
    if (!pass_option_belongs(o, pass)) continue;
    if (!heading) printf("\nOptions:\n");
    heading = true;
    print_option(o, a);
  }
  printf("\nUse: weir run IN OUT --pass %s%s\n", row->name, heading ? "[:key=value,...]" : "");
}

static void print_list(void) {
  for (uint32_t p = 0; p < PASSES; p++)
    help_entry_name(stdout, pass_row(p)->name, pass_row(p)->summary);
  printf("\n'weir passes NAME' says what a pass needs, promises and takes.\n");
}

static void write_passes(enum pass_id only, struct arena *a) {
  struct json_out j = {.indent = 2};
  if (only != PASSES) {
    write_pass(&j, only, a);
  } else {
    json_array(&j);
    for (uint32_t p = 0; p < PASSES; p++)
      write_pass(&j, p, a);
    json_end_array(&j);
  }
  report_json_end(&j);
}

int cmd_passes(const struct cli_args *args, struct err *err) {
  struct arena scratch = {0};
  const char *name = cli_operand(args, "NAME");
  enum pass_id pass = PASSES;
  if (name && (pass = pass_values_pass(span_str(name), err)) == PASSES) return -1;
  if (cli_flag(args, OPT_JSON))
    write_passes(pass, &scratch);
  else if (name)
    print_pass(pass, &scratch);
  else
    print_list();
  arena_free(&scratch);
  return 0;
}
