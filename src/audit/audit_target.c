// OUT.onnx | OUT.onnx.manifest.json ──▶ OUT.onnx, OUT.onnx.manifest.json, OUT.onnx.sig, and the folder that they are in
#include "audit/audit_target.h"

#include "base/shell_words.h"
#include "platform/files.h"
#include "stream/seal/manifest_signed.h"
#include "stream/staging/unfinished.h"

static const char suffix[] = ".manifest.json";

struct audit_target audit_target_of(const char *operand, struct arena *arena) {
  struct audit_target t = {.manifest = operand, .model = operand};
  const bool is_manifest = str_ends(operand, ".json"), is_usual = str_ends(operand, suffix);
  if (!is_manifest)
    t.manifest = arena_printf(arena, "%s%s", operand, suffix);
  else if (is_usual)
    t.model = arena_string(arena, span_of(operand, strlen(operand) - (sizeof suffix - 1)));
  t.name = path_base(t.model);
  t.about = is_manifest && !is_usual ? NULL : t.name;
  const struct span before = span_of(t.model, (size_t)(t.name - t.model));
  t.folder = before.n == 0 ? "." : arena_string(arena, before);
  t.signature =
      arena_printf(arena, "%s%s", before.n == 0 ? "" : t.folder, manifest_names(t.name).signature);
  return t;
}

struct manifests {
  struct arena room;
  const char *first; // by bytes
  uint32_t n;
};

static int count_manifest(void *ctx, const char *name) {
  struct manifests *found = ctx;
  if (name[0] == '.' || !str_ends(name, suffix)) return 0;
  if (found->n++ == 0 || strcmp(name, found->first) < 0)
    found->first = arena_string(&found->room, span_str(name));
  return 0;
}

// These commands look at one model at a time: names the first that they could.
static int refuse_folder(const char *folder, const char *command, struct err *err) {
  struct manifests found = {0};
  int ended;
  if (folder_names(HERE, folder, count_manifest, &found, &ended)) found.n = 0;
  err_fill(err, ERR_INPUT, "'%s' is a folder", quote_path(folder).s);
  if (found.n > 0) {
    const size_t cut = strlen(found.first) - (sizeof suffix - 1);
    const char *model = arena_printf(&found.room, "%s%s%.*s", folder,
                                     str_ends(folder, "/") ? "" : "/", (int)cut, found.first);
    err_fill_hint(err, "%u model%s in it %s a manifest; give one at a time: weir %s %s", found.n,
                  plural(found.n), found.n == 1 ? "has" : "have", command,
                  shell_words_quote(model, &found.room));
  } else {
    err_fill_hint(err, "no model in it has a manifest (NAME.onnx%s), which weir writes", suffix);
  }
  arena_free(&found.room);
  return -1;
}

int audit_target_refuse(const char *operand, const struct audit_target *t, const char *command,
                        struct err *err) {
  if (path_is_folder(operand)) return refuse_folder(operand, command, err);
  if (unfinished_refuse(t->model, err)) return -1;
  if (path_exists(t->model) || path_exists(t->manifest)) return 0;
  // Neither the model nor its manifest: then it is the path that is wrong.
  return err_set(err, ERR_INPUT, "'%s' does not exist", quote_path(operand).s);
}

void audit_target_found(struct audit_target *t, const char *subject, struct arena *arena) {
  if (t->about) return;
  t->name = arena_string(arena, span_str(subject));
  t->model = arena_printf(arena, "%.*s%s", (int)(path_base(t->manifest) - t->manifest), t->manifest,
                          subject);
}

// Is it data that was given, next to the .onnx that it may belong to? "o.onnx.data", "o.onnx_data".
static bool is_data_of(const char *operand, struct arena *arena, const char **onnx) {
  const char *found = NULL;
  for (const char *at = operand; (at = strstr(at, ".onnx")); at++)
    found = at;
  if (!found || found[5] == '\0') return false;
  *onnx = arena_string(arena, span_of(operand, (size_t)(found + 5 - operand)));
  return path_exists(*onnx);
}

void audit_target_hint(const char *operand, const char *command, struct arena *arena,
                       struct err *err) {
  const char *onnx;
  if (!str_ends(operand, ".json") && is_data_of(operand, arena, &onnx))
    err_fill_hint(err, "give the .onnx, not its data file: weir %s %s", command,
                  shell_words_quote(onnx, arena));
  err_fill_hint(err, "the model was not written by weir, was written with --no-manifest, or was "
                     "moved without its manifest");
}
