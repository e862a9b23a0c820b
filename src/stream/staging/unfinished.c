// The end of an interrupted run, for who only reads its model.
//
//   x.onnx ──names──▶ x.onnx.data ◀──same file──▶ x.o3v9q1z8m      a kill before the second name goes
//                                                 .x.onnx.0123456789abcdef.weir/seal.json
//
// Such a model is whole, but who verifies it finds an old manifest, and who opens its data a file with two
// names, which could have been put there by anybody. Both are told the reason instead, and the way on.
#include "stream/staging/unfinished.h"

#include "base/arena.h"
#include "base/shell_words.h"
#include "stream/staging/staging.h"

int unfinished_refuse(const char *model, struct err *err) {
  char staging[STAGING_NAME_MAX];
  enum staging_seal state;
  struct arena scratch = {0};
  const char *folder = arena_folder(&scratch, model);
  int rc = staging_find_seal(folder, path_base(model), staging, &state, err);
  if (rc == 0 && state == STAGING_SEAL_UNFINISHED) {
    err_fill(err, ERR_RETRY,
             "'%s' is incomplete: the run that wrote it was interrupted before the last files were "
             "moved into place (they are in '%s')",
             quote_path(model).s, quote_str(staging).s);
    rc = err_hint(err, "run the same command again to complete it (weir clean %s shows it)",
                  shell_words_quote(folder, &scratch));
  }
  arena_free(&scratch);
  return rc;
}

bool unfinished_explains(const char *model, struct err *err) {
  struct err why = {0};
  if (err->reason != REASON_HARD_LINK || unfinished_refuse(model, &why) == 0 ||
      why.kind != ERR_RETRY)
    return false;
  *err = why;
  return true;
}
