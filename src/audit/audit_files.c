// A manifest may list less than the model is made of, and still be right in every digest:
//
//   e.onnx ──refers to──▶ e.onnx.data      e.onnx.manifest.json ──lists──▶ e.onnx
//                             │
//                             └─ nobody looks at it: whoever replaces it replaces the weights
//
// So the .onnx is asked, which is the manifest's own word once its digest is right. Locations are compared as paths, as
// whoever opens them understands them ("./e.onnx.data" is "e.onnx.data").
#include "audit/audit_files.h"

#include "stream/io/beneath.h"
#include "stream/load/load.h"

static int compare(struct audit_files *out, const struct model *model, const struct manifest *m,
                   struct arena *arena, struct err *err) {
  char path[BENEATH_MAX + 1];
  bool *known = arena_zalloc(arena, m->n_files + (size_t)1);
  known[manifest_file_named(m, span_str(m->subject))] = true;
  for (uint32_t f = 1; f < model->n_files; f++) {
    if (beneath_normalize(span_str(model->files[f].name), path, err)) return -1;
    const uint32_t row = manifest_file_named(m, span_str(path));
    if (row == NO_ID)
      *TABLE_PUSH(out, unlisted) = arena_string(arena, span_str(model->files[f].name));
    else
      known[row] = true;
  }
  for (uint32_t i = 0; i < m->n_files; i++)
    if (!known[i])
      return err_set(err, ERR_MODEL, "the manifest lists '%s', but '%s' does not refer to it",
                     quote_str(m->files[i]).s, quote_str(m->subject).s);
  return 0;
}

int audit_files_compare(struct audit_files *out, const struct audit_target *t,
                        const struct manifest *m, struct arena *arena, struct err *err) {
  const struct load_options loading = {.no_external = true};
  struct model model;
  struct sources *sources;
  struct audit_target at = *t;
  audit_target_found(&at, m->subject, arena);
  model_init(&model);
  int rc = load_model_at(&model, &sources, at.model, true, &loading, err);
  if (rc == 0) rc = compare(out, &model, m, arena, err);
  model_free(&model);
  sources_close(sources);
  return rc;
}

int audit_files_refuse(const struct audit_target *t, const struct manifest *m, struct err *err) {
  struct audit_files files = {.n_unlisted = 0};
  struct arena arena = {0};
  int rc = audit_files_compare(&files, t, m, &arena, err);
  if (rc == 0 && files.n_unlisted > 0) {
    err_fill(err, ERR_FAIL, "not checked: '%s', to which '%s' refers, is not in the manifest",
             quote_str(files.unlisted[0]).s, quote_str(m->subject).s);
    rc = err_hint(
        err,
        "write the model again with 'weir convert', which lists all of its files in the manifest");
  }
  TABLE_FREE(&files, unlisted);
  arena_free(&arena);
  return rc;
}
