// The rules of a line that need several of its words, and are of weir's own options: what stands on standard output,
// and where a model goes.
#include "cli/cli.h"

#include "base/shell_words.h"

#include <assert.h>

// Does it print a record or the result on standard output? Two of them could not be told apart there.
static bool is_on_stdout(const struct cli_args *args, enum cli_option o) {
  if (!cli_option_belongs(o, args->command) || !cli_given(args, o)) return false;
  const struct cli_option_row row = cli_row(args->command, o);
  return row.kind == CLI_FLAG || path_is_stream(args->value[o].text);
}

static const enum cli_option on_stdout[] = {OPT_JSON,        OPT_REPORT_JSON_STDOUT,
                                            OPT_REPORT_JSON, OPT_REPORT_HTML,
                                            OPT_EDIT_LOG,    OPT_PROVENANCE};

static int check_stdout(const struct cli_args *args, struct err *err) {
  const size_t n = sizeof on_stdout / sizeof on_stdout[0];
  for (size_t i = 0; i < n; i++)
    for (size_t k = 0; k < i; k++)
      if (is_on_stdout(args, on_stdout[i]) && is_on_stdout(args, on_stdout[k]))
        return err_set(err, ERR_USAGE, "Both --%s and --%s write to standard output.",
                       cli_option_row(on_stdout[k])->name, cli_option_row(on_stdout[i])->name);
  return 0;
}

bool cli_stdout_is_taken(const struct cli_args *args) {
  return is_on_stdout(args, OPT_JSON) || is_on_stdout(args, OPT_REPORT_JSON) ||
         is_on_stdout(args, OPT_REPORT_HTML) || is_on_stdout(args, OPT_EDIT_LOG) ||
         is_on_stdout(args, OPT_PROVENANCE);
}

const char *cli_output(const struct cli_args *args) {
  assert(cli_option_belongs(OPT_OUTPUT, args->command));
  const char *operand = cli_operand(args, "OUT");
  if (operand) return operand;
  if (args->value[OPT_OUTPUT].text) return args->value[OPT_OUTPUT].text;
  return cli_operand(args, "IN");
}

bool cli_lacks_output(const struct cli_args *args) {
  return !cli_operand(args, "OUT") && !cli_given(args, OPT_OUTPUT) && !cli_given(args, OPT_INPLACE);
}

// The first sentence is one that scripts around onnx-conv2matmul know. The hint is the same line with
// an output: "model.onnx" becomes "model.int4.onnx".
static int no_output(struct cli_args *args, struct err *err) {
  static const char *const kinds[CLI_COMMANDS] = {
      [CLI_quantize] = "int4",          [CLI_conv2matmul] = "matmul", [CLI_cast] = "fp16",
      [CLI_dynamic] = "int8",           [CLI_infer] = "shaped",       [CLI_optimize] = "optimized",
      [CLI_preprocess] = "preprocessed"};
  const char *in = cli_operand(args, "IN"), *kind = kinds[args->command];
  const size_t n = strlen(in) - (str_ends(in, ".onnx") ? strlen(".onnx") : 0);
  const char *out = arena_printf(&args->arena, "%.*s.%s.onnx", (int)n, in, kind ? kind : "new");
  err_fill(err, ERR_USAGE, "Provide an output path or use --inplace.");
  return err_hint(err, "usage: weir %s %s [options], such as: -o %s",
                  cli_command_row(args->command)->name, cli_command_row(args->command)->operands,
                  shell_words_quote(out, &args->arena));
}

static int check_output(struct cli_args *args, struct err *err) {
  // Words of the two messages about --inplace: those that scripts around onnx-conv2matmul know.
  if (!cli_option_belongs(OPT_OUTPUT, args->command)) return 0;
  bool operand = cli_operand(args, "OUT") != NULL, option = cli_given(args, OPT_OUTPUT);
  bool inplace = cli_given(args, OPT_INPLACE);
  if (inplace && (operand || option))
    return err_set(err, ERR_USAGE, "Use either --inplace or output path, not both.");
  if (operand && option)
    return err_set(err, ERR_USAGE, "The output is given twice: '%s' and --output '%s'",
                   quote_str(cli_operand(args, "OUT")).s,
                   quote_str(args->value[OPT_OUTPUT].text).s);
  if (args->command == CLI_shrink) return 0; // it makes names of its own
  if (cli_lacks_output(args) && !cli_given(args, OPT_DRY_RUN)) return no_output(args, err);
  return 0;
}

int cli_rules(struct cli_args *args, struct err *err) {
  return check_stdout(args, err) ? -1 : check_output(args, err);
}
