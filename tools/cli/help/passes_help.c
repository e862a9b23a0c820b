// The catalogue of passes, from the rows that the parser reads.
#include "cli/help/passes_help.h"

#include "cli/help/help.h"
#include "cli/report.h"
#include "passes/catalogue/passes.h"
#include "passes/rules/rules.h"
#include "pipeline/groups.h"
#include "pipeline/optimize_steps.h"

static const char *taken_by(const struct pass_option *row) {
  return row->kind == PASS_FLAG ? "true|false" : row->listed ? "NAME" : row->metavar;
}

static const char *preset_of(const struct pass_option *row) {
  return row->kind == PASS_FLAG ? "false" : row->preset;
}

static const char *needs_of(const struct pass *p) {
  return p->needs ? p->needs : "nothing";
}

static const char *promises_of(const struct pass *p) {
  return p->promises ? p->promises : "all outputs of the model are unchanged";
}

static bool is_mixed(const struct pass *p) {
  return p->loosest > p->exactness;
}

// Where a pass that is rules is written: "algebraic.rules:7". NULL for others.
static const char *place_of(const struct pass *pass) {
  const struct rules_book *book = pass->book ? pass->book : &rules_house;
  const uint32_t rule = pass->rules ? rules_named(book, span_str(pass->name)) : NO_ID;
  return rule == NO_ID ? NULL : rules_template(book, rule);
}

static void write_pass(struct json_out *j, const struct pass *pass, struct arena *a) {
  static const char *const kinds[] = {
      [PASS_FLAG] = "flag",     [PASS_COUNT] = "count", [PASS_NUMBER] = "number",
      [PASS_CHOICE] = "choice", [PASS_TEXT] = "text",   [PASS_LIST] = "list"};
  const struct span class = passes_class(pass);
  json_object(j);
  json_put_text(j, "about", pass->about);
  if (pass->also) json_put_text(j, "also", pass->also);
  json_put_array(j, "classes");
  if (class.n > 0) json_text(j, arena_string(a, class));
  for (uint32_t k = 0; passes_word(pass->classes, k).n > 0; k++)
    json_text(j, arena_string(a, passes_word(pass->classes, k)));
  json_end_array(j);
  json_put_text(j, "exactness", exactness_name(pass->exactness));
  json_put_text(j, "exactness_loosest",
                exactness_name(is_mixed(pass) ? pass->loosest : pass->exactness));
  if (place_of(pass)) json_put_text(j, "from", place_of(pass));
  json_put_text(j, "name", pass->name);
  json_put_text(j, "needs", needs_of(pass));
  json_put_array(j, "options");
  for (uint32_t o = 0; o < pass->n_options; o++) {
    const struct pass_option *row = &pass->options[o];
    json_object(j);
    json_key(j, "default");
    if (row->kind == PASS_FLAG)
      json_bool(j, false);
    else
      json_text(j, preset_of(row));
    json_put_text(j, "help", row->help);
    json_put_text(j, "key", pass_values_key(row, a));
    json_put_text(j, "kind", kinds[row->kind]);
    json_put_text(j, "takes", taken_by(row));
    json_end_object(j);
  }
  json_end_array(j);
  json_put_text(j, "promises", promises_of(pass));
  json_put_array(j, "rules");
  for (uint32_t i = 0; pass->rules && pass->rules[i]; i++)
    json_text(j, pass->rules[i]);
  json_end_array(j);
  json_put_array(j, "sets");
  for (uint32_t k = 0; passes_word(pass->keys, k).n > 0; k++)
    json_text(j, arena_string(a, passes_word(pass->keys, k)));
  json_end_array(j);
  json_put_text(j, "summary", pass->summary);
  json_end_object(j);
}

// Passes that are rules have no more to say than their first line.
static bool says_the_same(const struct pass *pass) {
  const size_t n = strlen(pass->summary);
  return strncmp(pass->about, pass->summary, n) == 0 && strlen(pass->about) <= n + 1;
}

void passes_help_pass(const struct pass *pass, struct arena *a) {
  printf("%s: ", pass->name);
  help_wrap(stdout, pass->summary, strlen(pass->name) + 2, 0);
  if (!says_the_same(pass)) {
    printf("\n");
    help_wrap(stdout, pass->about, 0, 0);
  }
  if (pass->also) printf("Former name, still accepted: %s\n", pass->also);
  printf("\nNeeds: ");
  help_wrap(stdout, needs_of(pass), 7, 0);
  printf("Promises: ");
  help_wrap(stdout, promises_of(pass), 10, 0);
  printf("Exactness: %s", exactness_name(pass->exactness));
  if (is_mixed(pass)) printf(" to %s, depending on the rewrite", exactness_name(pass->loosest));
  printf("\n");
  if (pass->keys) printf("Sets: %s\n", pass->keys);
  if (pass->classes) printf("Name in onnx-passes: %s\n", pass->classes);
  if (place_of(pass)) printf("\nRules (%s):\n", place_of(pass));
  for (uint32_t i = 0; pass->rules && pass->rules[i]; i++)
    printf("  %s\n", pass->rules[i]);
  if (pass->n_options) printf("\nOptions:\n");
  for (uint32_t o = 0; o < pass->n_options; o++) {
    const struct pass_option *row = &pass->options[o];
    struct cli_option_row shown = cli_row_of_pass(row);
    shown.kind = CLI_TEXT; // no lists and nothing that is required: their words stand before it
    shown.required = false;
    shown.preset = preset_of(row);
    help_entry(stdout, HELP_OPTIONS,
               arena_printf(a, "%s=%s", pass_values_key(row, a), taken_by(row)),
               help_option_text(&shown, NULL, true).s);
  }
  printf("\nUse: weir run IN OUT %s--pass %s%s\n", pass->book ? "--rules FILE " : "", pass->name,
         pass->n_options ? "[:key=value,...]" : "");
}

// What 'weir optimize' runs, in order, and for which goals.
void passes_help_steps(void) {
  const char *step;
  uint32_t goals;
  enum optimize_when when, was = OPTIMIZE_ROUND;
  printf("\nSteps of 'weir optimize', in order, in rounds until nothing changes:\n");
  for (uint32_t i = 0; (step = optimize_steps_name(i, &when, &goals)); i++) {
    if (when != was)
      printf(when == OPTIMIZE_LAST
                 ? "after the rounds, which begin again if these change anything:\n"
                 : "at the end, once:\n");
    was = when;
    printf("  %s%s\n", step,
           goals == GOAL_ONNXRUNTIME      ? "  (only with --goal onnxruntime)"
           : goals == GOAL_ONNX           ? "  (only with --goal onnx)"
           : !(goals & GOAL_QUANTIZATION) ? "  (not with --goal quantization)"
                                          : "");
  }
}

enum { MANY = 20 }; // passes of a family that are not listed where nobody asked for it

// How many of the list, from here on, are of the family.
static uint32_t of_family(const struct pass *const *list, struct span family) {
  uint32_t n = 0;
  while (list[n] && span_eq(passes_family(list[n]), family))
    n++;
  return n;
}

static void print_words(const char *label, const char *words) {
  if (!words[0]) return;
  printf("%s", label);
  help_wrap(stdout, words, strlen(label), 0);
}

void passes_help_group(const struct group *group) {
  printf("%s: a name for several passes", group->key[0] ? group->key : group->class);
  printf(group->key[0] ? "; onnx-passes' %s\n\n" : "\n\n", group->class);
  print_words("In rounds until nothing changes: ", group->rounds);
  print_words(group->rounds[0] ? "Then, once: " : "Once: ", group->once);
  printf("\nUse: weir run IN OUT --pass %s\n", group->key[0] ? group->key : group->class);
}

void passes_help_groups(void) {
  const struct group *group;
  printf("\nNames for several of these:\n");
  for (uint32_t i = 0; (group = groups_at(i)); i++)
    if (group->rounds[0]) help_entry(stdout, HELP_PASSES, group->key, group->rounds);
}

static void write_groups(struct json_out *j) {
  const struct group *group;
  json_put_array(j, "groups");
  for (uint32_t i = 0; (group = groups_at(i)); i++) {
    json_object(j);
    json_put_text(j, "class", group->class);
    json_put_text(j, "name", group->key[0] ? group->key : group->class);
    json_put_text(j, "once", group->once);
    json_put_text(j, "rounds", group->rounds);
    json_end_object(j);
  }
  json_end_array(j);
}

void passes_help_list(const struct own_passes *own, const struct pass *const *list, bool all) {
  for (uint32_t i = 0, n; list[i]; i += n) {
    const struct span family = passes_family(list[i]);
    const char *name = (const char *)family.at;
    n = of_family(&list[i], family);
    if (all && n > MANY && !span_is(family, "optimize")) {
      printf("  %.*s: %u passes, which 'weir passes %.*s' lists\n", (int)family.n, name, n,
             (int)family.n, name);
      continue;
    }
    const bool whole = passes_named(own, family, 0) == list[i];
    if (whole && span_is(family, "optimize"))
      printf("  optimize: the name of the family runs these and others in rounds, as 'weir "
             "optimize' does\n");
    else if (whole && !span_is(family, list[i]->name))
      printf("  %.*s: the name of the family runs all of these, in this order\n", (int)family.n,
             name);
    for (uint32_t k = i; k < i + n; k++)
      help_entry(stdout, HELP_PASSES, list[k]->name, list[k]->summary);
  }
}

void passes_help_json(const struct pass *const *list, bool groups, struct arena *a) {
  struct json_out j = report_json_open(2);
  if (groups) write_groups(&j);
  json_put_array(&j, "passes");
  for (uint32_t i = 0; list[i]; i++)
    write_pass(&j, list[i], a);
  json_end_array(&j);
  report_json_end(&j);
}
