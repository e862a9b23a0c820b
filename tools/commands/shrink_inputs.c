// The models that one call of `weir shrink` works on, and the names of their outputs.
//
// Names are made as onnx_shrink_ray makes them: the extension of IN gives way to the suffix, in
// IN's folder or in --output-dir. A name that ends with the suffix is an output of an earlier call
// and is passed over, so that `weir shrink folder/` can be said twice. Two inputs with one output
// are refused before anything is made.
#include "commands/shrink_inputs.h"

#include "base/shell_words.h"
#include "cli/report.h"
#include "execute/execution.h"
#include "platform/files.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdlib.h>

// The last part of a path, with the slashes around it, is cut off.
static void cut_last(char *path) {
  size_t n = strlen(path);
  while (n > 0 && path[n - 1] == '/')
    n--;
  while (n > 0 && path[n - 1] != '/')
    n--;
  path[n] = '\0';
}

void shrink_inputs_free(struct shrink_inputs *s) {
  for (; s->made > 0 && folder_remove(HERE, s->folder) == 0; s->made--)
    cut_last(s->folder);
  TABLE_FREE(s, rows);
  arena_free(&s->arena);
}

static const char *suffix_of(const struct cli_args *args) {
  const char *given = cli_string(args, OPT_SUFFIX);
  if (given) return given;
  const char *method = cli_string(args, cli_pass_option(args->command, "method"));
  if (strcmp(method, "f16_to_f32") == 0) return "_f16_to_f32.onnx";
  return strcmp(method, "integer_activations") == 0 ? "_quantized_activations.onnx"
                                                    : "_quantized_weights.onnx";
}

static const char *output_of(struct arena *a, const struct cli_args *args, const char *in) {
  const char *folder = cli_string(args, OPT_OUTPUT_DIR);
  const char *base = path_base(in), *dot = strrchr(base, '.');
  int n = dot && dot != base ? (int)(dot - base) : (int)strlen(base);
  const char *between = folder && str_ends(folder, "/") ? "" : "/";
  if (folder) return arena_printf(a, "%s%s%.*s%s", folder, between, n, base, suffix_of(args));
  return arena_printf(a, "%.*s%.*s%s", (int)(base - in), in, n, base, suffix_of(args));
}

// Is the model none to be shrunk? Says so.
static bool is_skipped(const struct cli_args *args, const char *in, const char *out) {
  const char *suffix = suffix_of(args);
  if (cli_flag(args, OPT_INFO)) return false;
  if (strcmp(suffix, ".onnx") != 0 && str_ends(in, suffix))
    report_notice("'%s' skipped: looks like an output of an earlier run", quote_str(in).s);
  else if (strcmp(in, out) == 0)
    report_notice("'%s' skipped: it would overwrite itself (--inplace replaces it)",
                  quote_str(in).s);
  else
    return false;
  return true;
}

static int add_file(struct shrink_inputs *s, const struct cli_args *args, const char *in,
                    struct err *err) {
  const char *out = cli_string(args, OPT_OUTPUT);
  bool named = !out && !cli_flag(args, OPT_INPLACE);
  if (out) out = execution_output_in(out, in, &s->arena);
  if (named) out = output_of(&s->arena, args, in);
  if (named && is_skipped(args, in, out)) {
    s->skipped++;
    return 0;
  }
  for (uint32_t i = 0; named && i < s->n_rows; i++) {
    if (strcmp(s->rows[i].out, out) != 0) continue;
    err_fill(err, ERR_USAGE, "'%s' and '%s' would both be written to '%s'",
             quote_str(s->rows[i].in).s, quote_str(in).s, quote_str(out).s);
    return err_hint(err, "run weir once for each folder, with a separate --output-dir");
  }
  *TABLE_PUSH(s, rows) = (struct shrink_input){in, out};
  return 0;
}

// ---- folders -----------------------------------------------------------------------------------

static int list_models(struct fs_names *m, const char *path) {
  uint32_t n = 0;
  if (fs_names(path, m)) return -1;
  for (uint32_t i = 0; i < m->n_names; i++)
    if (str_ends(m->names[i], ".onnx")) m->names[n++] = m->names[i];
  m->n_names = n;
  if (n > 0) qsort(m->names, n, sizeof *m->names, str_order);
  return 0;
}

static int add_folder(struct shrink_inputs *s, const struct cli_args *args, const char *folder,
                      struct err *err) {
  struct fs_names m = {.a = &s->arena};
  int rc = 0;
  if (list_models(&m, folder)) {
    rc = err_errno(err, errno, ERR_INPUT, "the folder '%s' cannot be read", quote_str(folder).s);
  } else if (m.n_names == 0) {
    rc = err_set(err, ERR_INPUT, "no .onnx files in '%s'", quote_str(folder).s);
    if (args->n_operands == 2) err_fill_hint(err, "--output-dir names the folder of the outputs");
  }
  const char *between = str_ends(folder, "/") ? "" : "/";
  for (uint32_t i = 0; rc == 0 && i < m.n_names; i++)
    rc = add_file(s, args, arena_printf(&s->arena, "%s%s%s", folder, between, m.names[i]), err);
  TABLE_FREE(&m, names);
  return rc;
}

// With the folders it lies in.
static int make_folder(struct shrink_inputs *s, const char *path, struct err *err) {
  char *part = s->folder = arena_string(&s->arena, span_str(path));
  for (char *at = part + 1;; at++) {
    const char was = *at;
    if ((was != '/' && was != '\0') || at[-1] == '/') {
      if (was == '\0') return 0;
      continue;
    }
    *at = '\0';
    const int failed = folder_make(HERE, part, 0777) == 0 ? 0 : errno;
    *at = was;
    if (!failed) s->made++;
    if (failed && failed != EEXIST)
      return err_errno(err, failed, ERR_IO, "the folder '%s' cannot be created", quote_str(path).s);
    if (was == '\0') return 0;
  }
}

// `weir shrink IN OUT`, as other commands are called: asked back before anything is written.
// Whether a word is an input or the output must not depend on what lies there.
static int check_second(struct shrink_inputs *s, const struct cli_args *args, struct err *err) {
  if (args->n_operands != 2 || !path_exists(args->operand[0])) return 0;
  const char *in = args->operand[0], *second = args->operand[1];
  if (path_exists(second) || errno != ENOENT) return 0;
  err_fill(err, ERR_INPUT, "'%s' does not exist: all operands of 'weir shrink' are inputs",
           quote_str(second).s);
  if (cli_given(args, OPT_OUTPUT) || cli_given(args, OPT_OUTPUT_DIR) ||
      cli_given(args, OPT_INPLACE))
    return -1;
  return err_hint(err, "is it the output? weir shrink %s %s %s", shell_words_quote(in, &s->arena),
                  str_ends(second, "/") ? "--output-dir" : "-o",
                  shell_words_quote(second, &s->arena));
}

int shrink_inputs_list(struct shrink_inputs *s, const struct cli_args *args, struct err *err) {
  if (check_second(s, args, err)) return -1;
  for (uint32_t i = 0; i < args->n_operands; i++) {
    const char *path = args->operand[i];
    if ((path_is_folder(path) ? add_folder : add_file)(s, args, path, err)) return -1;
  }
  const char *folder = cli_string(args, OPT_OUTPUT_DIR);
  const bool needed = folder && !cli_flag(args, OPT_INFO) && !cli_flag(args, OPT_DRY_RUN);
  if (!needed || path_exists(folder)) return 0;
  return execution_output_check_link(folder, &s->arena, err) ? -1 : make_folder(s, folder, err);
}
