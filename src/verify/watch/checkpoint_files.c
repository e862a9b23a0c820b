// Models on the way as files, for who wants to look at them: `logging` of a pipeline file.
//
//   keep_intermediates: DIR     DIR/00000041-GroupAdd.onnx …      behind each call that changed the model
//   checkpoint: last.onnx       before-last.onnx, after-last.onnx   before and behind the last of these
//
// The number is that of the step in the order in which steps ran. Rules that are one walk together are one call, and
// one file, named by their family. Each model has its own weights.
#include "verify/watch/checkpoints.h"

#include "execute/replay_log.h"

#include <errno.h>

static int open_folder(const char *path, bool make, struct folder *out, struct err *err) {
  if (make && folder_make(HERE, path, 0777) && errno != EEXIST)
    return err_errno(err, errno, ERR_IO, "the folder '%s' cannot be created", quote_path(path).s);
  *out = folder_open(HERE, path, 0);
  if (!folder_is_open(*out))
    return err_errno(err, errno, ERR_IO, "the folder '%s' cannot be opened", quote_path(path).s);
  return 0;
}

// Files of models are made for their owner alone, as parts are; these are for people.
static int publish(struct folder in, const struct checkpoint_model *m, struct err *err) {
  const uint32_t mode = 0666 & ~process_mask();
  for (uint32_t i = 0; i < m->n_files; i++)
    if (entry_set_mode(in, m->files[i], mode))
      return err_errno(err, errno, ERR_IO, "cannot change '%s'", quote_str(m->files[i]).s);
  return 0;
}

// Behind group `group`; the one before any is a copy of the source as weir writes it.
static int write_at(const struct checkpoints *p, struct execution *exec, uint32_t group,
                    const char *folder, struct folder in, const char *name, struct err *err) {
  const struct checkpoint_source from = {exec->request, exec->in_path, p->log_path,
                                         exec->memory,  exec,          p->pipeline};
  struct checkpoint_model model;
  if (checkpoint_model_write(&from, group ? group : REPLAY_LOG_NOTHING, folder, in, name, &model,
                             &exec->arena, err))
    return -1;
  return publish(in, &model, err);
}

// The call that row i begins: one past its last row, and the group that it ended with.
static uint32_t call_end(const struct checkpoints *p, const struct execution *exec, uint32_t i,
                         uint32_t *group) {
  uint32_t k = i + 1;
  while (k < p->n_rows && p->rows[k].group == p->rows[i].group)
    k++;
  *group = k < p->n_rows ? p->rows[k].group : exec->edits.group;
  return k;
}

// What changed the model between two groups: a class or pass, a family, or "several".
static const char *name_of(struct execution *exec, uint32_t from, uint32_t to) {
  const struct edit_groups *g = exec->edits.groups;
  const char *first = g->rows[from - g->first].pass;
  bool one = true, family = true;
  const size_t n = strcspn(first, "/");
  for (uint32_t k = from; k < to; k++) {
    const char *pass = g->rows[k - g->first].pass;
    one = one && strcmp(pass, first) == 0;
    family = family && strcspn(pass, "/") == n && strncmp(pass, first, n) == 0;
  }
  if (one) return first[n] ? first + n + 1 : first;
  return family ? arena_string(&exec->arena, span_of(first, n)) : "several";
}

static int write_intermediates(const struct checkpoints *p, struct execution *exec,
                               const char *folder, struct err *err) {
  uint32_t group;
  struct folder in;
  int rc = open_folder(folder, true, &in, err);
  if (rc) return -1;
  for (uint32_t i = 0, end; i < p->n_rows && rc == 0; i = end) {
    end = call_end(p, exec, i, &group);
    if (group == p->rows[i].group) continue;
    const char *name =
        arena_printf(&exec->arena, "%08u-%s.onnx", end - 1, name_of(exec, p->rows[i].group, group));
    rc = write_at(p, exec, group, folder, in, name, err);
  }
  folder_close(&in);
  return rc;
}

static int write_checkpoint(const struct checkpoints *p, struct execution *exec, const char *path,
                            struct err *err) {
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  const char *folder =
      slash ? arena_string(&exec->arena, span_of(path, (size_t)(slash - path + 1))) : ".";
  uint32_t before = 0, after = 0, group;
  struct folder in;
  int rc = open_folder(folder, false, &in, err);
  if (rc) return -1;
  for (uint32_t i = 0, end; i < p->n_rows; i = end) {
    end = call_end(p, exec, i, &group);
    if (group == p->rows[i].group) continue;
    before = p->rows[i].group;
    after = group;
  }
  rc = write_at(p, exec, before, folder, in, arena_printf(&exec->arena, "before-%s", base), err);
  if (rc == 0)
    rc = write_at(p, exec, after, folder, in, arena_printf(&exec->arena, "after-%s", base), err);
  folder_close(&in);
  return rc;
}

int checkpoints_write_files(const struct checkpoints *p, struct execution *exec, struct err *err) {
  if (!p || (!p->pipeline->checkpoint && !p->pipeline->intermediates)) return 0;
  if (!file_is_open(p->log))
    return err_set(err, ERR_IO, "the edits could not be stored in the folder for temporary files");
  if (p->pipeline->intermediates && write_intermediates(p, exec, p->pipeline->intermediates, err))
    return -1;
  return p->pipeline->checkpoint ? write_checkpoint(p, exec, p->pipeline->checkpoint, err) : 0;
}
