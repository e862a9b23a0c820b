// weir targets: the table of targets (src/targets), as users ask for them.
//
//   weir targets           a line a target
//   weir targets webgpu    its defaults, what it does not run
#include "base/guess.h"
#include "cli/commands.h"
#include "cli/help/help.h"
#include "cli/report.h"
#include "targets/targets.h"

static void write_features(struct json_out *j, const char *key, uint32_t set) {
  json_put_array(j, key);
  for (uint32_t f = 0; f < TARGET_FEATURES; f++)
    if (set >> f & 1) json_text(j, target_feature_row((enum target_feature)f)->words);
  json_end_array(j);
}

static void write_target(struct json_out *j, const struct target *t) {
  json_object(j);
  json_put_text(j, "about", t->about);
  json_put_object(j, "defaults");
  if (t->level) json_put_uint(j, "accuracy_level", t->level);
  if (t->block) json_put_text(j, "block_size", t->block);
  if (t->candidates) json_put_text(j, "candidates", t->candidates);
  if (t->format) json_put_text(j, "format", t->format);
  if (t->symmetric) json_put_bool(j, "symmetric", true);
  json_end_object(j);
  if (t->dynamic) json_put_text(j, "defaults_of_dynamic", t->dynamic);
  write_features(j, "does_not_run", target_lacks(t));
  write_features(j, "does_not_run_everywhere", t->warns);
  json_put_text(j, "name", t->name);
  json_put_bool(j, "tested", t->tried != NULL);
  if (t->tried) json_put_text(j, "tested_in", t->tried);
  json_end_object(j);
}

static void print_features(const char *head, uint32_t set, struct arena *a) {
  if (!set) return;
  printf("%s", head);
  help_wrap(stdout, target_features_words(set, a), strlen(head), strlen(head));
}

static void print_target(const struct target *t, struct arena *a) {
  printf("%s: %s\n\n", t->name, t->about);
  const char *presets = target_presets(t, TARGET_SETS_ALL, a);
  printf("Defaults: ");
  help_wrap(stdout, *presets ? presets : "the defaults of quantize", 10, 10);
  if (t->candidates) printf("          --candidates %s\n", t->candidates);
  if (t->dynamic) printf("Defaults of dynamic: %s\n", t->dynamic);
  print_features("Does not run: ", target_lacks(t), a);
  print_features("Does not run everywhere: ", t->warns, a);
  if (t->tried)
    printf("Tested in: %s\n", t->tried);
  else
    printf("Not tested: this is what its documentation says.\n");
  printf("\nUse: weir quantize IN OUT --target %s\n", t->name);
  if (t->dynamic) printf("     weir dynamic IN OUT --target %s\n", t->name);
}

static int unknown(const char *name, struct err *err) {
  const struct target *t;
  struct guess g = guess_start(name);
  for (uint32_t i = 0; (t = targets_at(i)); i++)
    guess_try(&g, t->name);
  err_fill(err, ERR_USAGE, "there is no target '%s'", quote_str(name).s);
  const char *ours = targets_meant(name);
  if (ours) return err_hint(err, "did you mean %s?", ours);
  if (g.best) return err_hint(err, "did you mean '%s'?", g.best);
  return err_hint(err, "'weir targets' lists them");
}

int cmd_targets(const struct cli_args *args, struct err *err) {
  struct arena scratch = {0};
  const char *name = cli_operand(args, "TARGET");
  const struct target *one = name ? targets_find(span_str(name)) : NULL, *t;
  if (name && !one) return unknown(name, err);
  if (cli_flag(args, OPT_JSON)) {
    struct json_out j = report_json_open(2);
    json_put_array(&j, "targets");
    for (uint32_t i = 0; (t = targets_at(i)); i++)
      if (!one || t == one) write_target(&j, t);
    json_end_array(&j);
    report_json_end(&j);
  } else if (one) {
    print_target(one, &scratch);
  } else {
    for (uint32_t i = 0; (t = targets_at(i)); i++)
      help_entry(stdout, HELP_NAMES + 3, t->name,
                 t->tried ? t->about : arena_printf(&scratch, "%s (not tested)", t->about));
    printf("\n'weir targets NAME' describes one of them.\n");
  }
  arena_free(&scratch);
  return 0;
}
