// Looks: what passes read of the weights before they decide, beyond small values.
//
//   pass ──▶ kit ──▶ execution_look ──▶ recipe of the tensor ──▶ evaluator ──▶ elements
//             └── a line in the edit log, with their digest
//
// A look is mostly some ten KB (EDIT_LOOK_MOST at most), and blocks until it is read: no queue, no workers. It goes through
// the evaluator as everything that is ever written does, so that any encoding and anything a pass
// made of a vector before can be looked at. A replay reads the tensor again at the same place of the
// log, where the model is the same.
#include "execute/execution_look.h"

#include "base/digest.h"
#include "execute/execution.h"
#include "stream/eval/eval.h"

enum { LOOK_BUDGET = 1 << 20 };

int execution_look(void *ctx, uint32_t tensor, uint8_t *out, size_t n, struct err *err) {
  const struct io_options options = {.mode = IO_SYNC, .tiles = 1, .tile_bytes = IO_CLONE_BLOCK};
  struct execution *exec = ctx;
  struct io *io = NULL;
  struct eval *ev = NULL;
  const uint32_t recipe = edit_tensor_recipe(&exec->edits, tensor);
  int rc = io_open(&io, &options, exec->sources, err);
  if (rc == 0) rc = eval_open(&ev, &exec->recipes, io, LOOK_BUDGET, err);
  if (rc == 0 && n > 0) {
    struct eval_task *task = eval_begin(ev, recipe, 0, n, (struct eval_watcher){0});
    rc = eval_read(task, 0, out, n, err);
  }
  if (ev) eval_close(ev);
  if (io) io_close(io);
  return rc;
}

int execution_look_replay(void *ctx, const struct edit_look *look, struct err *err) {
  struct execution *exec = ctx;
  const struct model_tensor *t = &exec->model.tensors[look->tensor];
  const struct quoted name = quote(model_name(&exec->model, t->name));
  if (!edit_tensor_readable(&exec->edits, look->tensor) || t->bytes > EDIT_LOOK_MOST)
    return err_set(err, ERR_MODEL,
                   "tensor '%s' (%s bytes) is too large to be read for an edit: the limit is %d",
                   name.s, decimal(t->bytes).s, EDIT_LOOK_MOST);
  struct arena arena = {0};
  uint8_t sha256[DIGEST_BYTES];
  const size_t n = (size_t)t->bytes;
  uint8_t *elements = arena_alloc(&arena, n + 1);
  int rc = execution_look(exec, look->tensor, elements, n, err);
  if (rc == 0) digest_of(elements, n, sha256);
  arena_free(&arena);
  if (rc || memcmp(sha256, look->sha256, DIGEST_BYTES) == 0) return rc;
  err_set(err, ERR_INPUT, "tensor '%s' has other values than when the edits were made", name.s);
  return err_hint(err, "the edits in this log depend on the weights they were made from: make a "
                       "new log from this source");
}
