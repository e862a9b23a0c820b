// A model on the way: the log is replayed up to a group, and what it is then is planned and written.
#include "verify/sites/checkpoint_model.h"

#include "stream/sys/fs.h"
#include "verify/cut/part.h"
#include "verify/sites/verify_replay.h"

static bool is_one_of(const struct pipeline_paths *paths, const struct entry_facts *st) {
  for (uint32_t i = 0; i < paths->n_list; i++)
    if (fs_is_at(st, paths->list[i])) return true;
  return false;
}

// Steps, rules and arrays that the pipeline names.
static bool pipeline_reads(const struct pipeline *p, const struct entry_facts *st) {
  const char *reference[1] = {p->reference};
  const struct pipeline_paths one = {.list = reference, .n_list = p->reference != NULL};
  return is_one_of(&p->read, st) || is_one_of(&p->inputs, st) || is_one_of(&p->outputs, st) ||
         is_one_of(&one, st);
}

// Files are made anew, whatever lies there: but not what is read, nor what the run writes itself.
static int check_places(const struct checkpoint_source *from, const struct execution *exec,
                        const struct plan *plan, struct folder in, struct err *err) {
  struct entry_facts st;
  for (uint32_t i = 0; i < plan->n_outputs; i++) {
    const char *name = plan->outputs[i].name;
    const bool ours = from->of && execution_writes(from->of, in, name);
    const bool there = entry_look(in, name, 0, &st) == 0;
    const bool theirs =
        there && (execution_reads(exec, &st) || (from->of && pipeline_reads(from->pipeline, &st)));
    if (!ours && !theirs) continue;
    err_set(err, ERR_USAGE, "the intermediate model '%s' would %s", quote_str(name).s,
            theirs ? "replace a file this command reads from" : "replace a file of the output");
    return err_hint(err, "choose another name or folder in 'logging'");
  }
  return 0;
}

void checkpoint_model_remove(struct folder in, const struct checkpoint_model *m) {
  for (uint32_t i = 0; i < m->n_files; i++)
    (void)file_remove(in, m->files[i]);
}

// from, exec: whose files must stay as they are; NULL: the folder is one for such models alone.
static int write_edited(const struct checkpoint_edited *x, const struct checkpoint_source *from,
                        const struct execution *exec, struct folder in, const char *name,
                        struct checkpoint_model *out, struct arena *a, struct err *err) {
  struct part_cutter *c = NULL;
  struct plan plan = {.n_outputs = 0};
  const struct plan_layout layout = {.onnx_name = name, .inline_below = 1024};
  int rc = edits_finish(x->edits, err);
  if (rc == 0) rc = plan_build(&plan, x->edits->m, x->edits->r, &layout, err);
  const bool planned = rc == 0;
  if (rc == 0 && exec) rc = check_places(from, exec, &plan, in, err);
  for (uint32_t i = 0; planned && i < plan.n_outputs; i++)
    out->files[out->n_files++] = arena_string(a, span_str(plan.outputs[i].name));
  if (rc == 0) rc = part_cutter_open(&c, x->edits->m, x->edits->r, x->sources, x->memory, err);
  if (rc == 0) rc = part_write_plan(c, &plan, in, err);
  part_cutter_close(c);
  if (planned) plan_free(&plan);
  return rc;
}

int checkpoint_model_write_edited(const struct checkpoint_edited *x, const char *folder,
                                  struct folder in, const char *name, struct checkpoint_model *out,
                                  struct arena *a, struct err *err) {
  *out = (struct checkpoint_model){.path = arena_printf(a, "%s/%s", folder, name)};
  return write_edited(x, NULL, NULL, in, name, out, a, err);
}

int checkpoint_model_write(const struct checkpoint_source *from, uint32_t group, const char *folder,
                           struct folder in, const char *name, struct checkpoint_model *out,
                           struct arena *a, struct err *err) {
  struct verify_replay x;
  *out = (struct checkpoint_model){.path = arena_printf(a, "%s/%s", folder, name)};
  int rc = verify_replay_open(&x, from->request, from->model, from->log, group, true, NULL, err);
  const struct checkpoint_edited edited = {&x.exec.edits, x.exec.sources, from->memory};
  if (rc == 0) rc = write_edited(&edited, from, &x.exec, in, name, out, a, err);
  verify_replay_close(&x);
  return rc;
}
