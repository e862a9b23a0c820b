// A run that was interrupted between its last renames.
//
//   kill in the seal ─▶ .OUT.<plan id>.weir/seal.json   all that is left to do
//                                          /report.json  the report of that run, if it was to write one
//                                          /report.html  the same as a page
//                                          /provenance.json  how its output came about, likewise
//
// It is completed before anything is loaded, by the command that was interrupted, given again, or by any
// other one for this output with --resume; --fresh gives it up. With --inplace its input is gone already. So the
// report of such a completion cannot be made again from the model; the run that was interrupted
// left its own beside seal.json, with `"resumed": "seal"` in it (kept_report.c). Where it was not
// asked for one, or that was changed meanwhile, the report says what seal.json and the folder know: outputs, manifest, plan. onnx-conv2matmul's
// own report (--strict-compat) holds nothing of that, so it is refused, before anything is moved.
#include "base/version_number.h"
#include "execute/commit/commit.h"
#include "execute/commit/execute_plan.h"
#include "execute/commit/kept_report.h"
#include "execute/execution.h"
#include "stream/seal/seal_intent.h"
#include "stream/sys/fs.h"

// What the completion of one seal prints and writes.
struct ending {
  struct execution *exec;
  struct staging *st;
  struct record_file file; // --report-json
  struct span kept;        // report.json of the interrupted run; at NULL: there is none
  struct json_out made;    // the report where there is none
  struct record_file page; // --report-html
  struct span kept_page;
  struct run_report known;       // what is known where no page was kept
  struct record_file provenance; // --provenance
  struct span kept_provenance;
};

// By what is to be moved; where that cannot be read (s NULL), by what is there.
static void take_known(struct ending *e, const struct seal_intent *s) {
  struct run_report *r = &e->known;
  const char *onnx = e->exec->out.onnx_name;
  const struct manifest_names beside = manifest_names(onnx);
  struct entry_facts at;
  r->asked.command = e->exec->request->command;
  r->asked.command_line = e->exec->request->command_line;
  r->version = version_number;
  r->model = path_base(e->exec->in_path);
  r->work.resumed = "seal";
  r->told.did = "An interrupted run was completed. It stored no report page, so this page shows "
                "only its files.";
  if (!s) {
    if (entry_look(e->st->dest, beside.manifest, 0, &at) == 0)
      r->files.manifest.name = arena_string(&r->arena, span_str(beside.manifest));
    if (entry_look(e->st->dest, onnx, 0, &at) == 0)
      *TABLE_PUSH(&r->files, outputs) = (struct run_file){.name = onnx, .size = at.size};
    return;
  }
  for (uint32_t i = 0; i < s->n_moves; i++) {
    const char *name = arena_string(&r->arena, span_str(s->moves[i].name));
    if (strcmp(name, beside.manifest) == 0)
      r->files.manifest.name = name;
    else if (s->moves[i].role != SEAL_COMPANION)
      *TABLE_PUSH(&r->files, outputs) = (struct run_file){.name = name, .size = s->moves[i].size};
  }
  r->digests.plan = digest_hex_in(&r->arena, s->plan_id);
}

// Once, where the interrupted run left no report, or no page.
static void find_known(struct ending *e) {
  struct seal_intent s;
  struct err ignored = {0};
  if (e->known.asked.command) return;
  const bool read = seal_intent_read(&s, e->st->folder, e->st->name, &ignored) == 0;
  take_known(e, read ? &s : NULL);
  if (read) seal_intent_free(&s);
}

static int prepare_page(struct ending *e, struct err *err) {
  const char *path = e->exec->request->records.report_html;
  bool changed;
  if (!path) return 0;
  if (record_file_reserve(&e->page, path, e->exec->request->observer, &e->exec->arena, err))
    return -1;
  e->kept_page = kept_report_take(e->st, STAGING_PAGE, &changed);
  if (e->kept_page.at) return 0;
  if (changed)
    observer_notice(e->exec->request->observer,
                    "the report page that the interrupted run stored was changed or damaged, so "
                    "this page shows only the files");
  find_known(e);
  return 0;
}

// It is of the run that was interrupted, which alone had all of it.
static int prepare_provenance(struct ending *e, struct err *err) {
  const char *path = e->exec->request->records.provenance;
  bool changed;
  if (!path) return 0;
  e->kept_provenance = kept_report_take(e->st, STAGING_PROVENANCE, &changed);
  if (e->kept_provenance.at)
    return record_file_reserve(&e->provenance, path, e->exec->request->observer, &e->exec->arena,
                               err);
  err_fill(err, ERR_USAGE, "the interrupted run of '%s' left no provenance%s",
           quote_str(e->exec->out.path).s, changed ? " that is whole" : "");
  return err_hint(err, "leave out --provenance to complete it, or begin again with --fresh");
}

static int prepare_report(struct ending *e, struct err *err) {
  const struct request *request = e->exec->request;
  const char *path = request->records.report_json;
  if (!execution_wants_report(request)) return 0;
  if (path && record_file_reserve(&e->file, path, e->exec->request->observer, &e->exec->arena, err))
    return -1;
  bool changed;
  e->kept = kept_report_take(e->st, STAGING_REPORT, &changed);
  if (e->kept.at) return 0;
  if (changed)
    observer_notice(
        e->exec->request->observer,
        "the report that the interrupted run stored was changed or damaged, so this report lacks "
        "some of its figures");
  if (request->shown.plain) {
    err_set(err, ERR_USAGE,
            "the interrupted run of '%s' stored no report, and --strict-compat cannot make one "
            "without running again",
            quote_str(e->exec->out.path).s);
    return err_hint(err, "leave out --report-json, --report-json-stdout and --json to complete it");
  }
  find_known(e);
  e->made.indent = 2;
  request->render->known(&e->known, &e->made);
  return 0;
}

// What is left to do of an earlier run of this output, whose files were looked at: its last renames, or (a kill while the
// folder of a finished run was being removed) only that folder. Closes *st.
static int finish_checked(struct execution *exec, struct staging *st, struct err *err) {
  struct ending e = {.exec = exec, .st = st};
  struct seal_report report = {0};
  int rc = 0;
  if (rc == 0) rc = prepare_report(&e, err);
  if (rc == 0) rc = prepare_page(&e, err);
  if (rc == 0) rc = prepare_provenance(&e, err);
  if (rc == 0) rc = seal_finish(st, &report, err);
  staging_close(st);
  if (rc == 0) {
    commit_say_left(exec->request->observer, &report);
    observer_notice(exec->request->observer, "completed the interrupted run: '%s' is in place",
                    quote_str(exec->out.path).s);
    const struct span text = e.kept.at ? e.kept : span_of(e.made.text, e.made.n);
    if (exec->request->shown.json)
      exec->request->render->print_document(&exec->request->shown, text);
    if (e.file.path) rc = record_file_end(&e.file, text, err);
    if (rc == 0 && e.kept_page.at)
      rc = record_file_end(&e.page, e.kept_page, err);
    else if (rc == 0 && e.page.path)
      rc = record_file_page(&e.page, exec->request->render->page, &e.known, err);
    if (rc == 0 && e.provenance.path) rc = record_file_end(&e.provenance, e.kept_provenance, err);
  }
  record_file_drop(&e.provenance);
  if (e.kept_provenance.at) fs_free(e.kept_provenance);
  record_file_drop(&e.file);
  record_file_drop(&e.page);
  if (e.kept_page.at) fs_free(e.kept_page);
  run_report_free(&e.known);
  if (e.kept.at) fs_free(e.kept);
  json_done(&e.made);
  return rc;
}

static int check_files(const struct execution *exec, const struct staging *st, struct err *err) {
  const struct work_options work = execution_work(exec);
  return execute_plan_check_seal(&work, st, err);
}

static int finish_found(struct execution *exec, const char *name, struct err *err) {
  struct staging st;
  if (staging_open_sealed(&st, exec->out.folder, name, err)) return -1;
  if (staging_check_version(&st, version_number, err) == 0 && check_files(exec, &st, err) == 0)
    return finish_checked(exec, &st, err);
  staging_close(&st);
  return -1;
}

// By this command line, that read the same files.
static bool is_ours(struct execution *exec, const struct staging *st) {
  const struct staging_job ours = {.version = version_number,
                                   .command = exec->request->resume_command,
                                   .asked = exec->out.asked,
                                   .source_folder = arena_folder(&exec->arena, exec->in_path),
                                   .inplace = exec->wanted->inplace};
  return staging_is_of_job(st, &ours);
}

// All is in place, and a kill left the folder. This very command, and any with --resume, has nothing left to do then, if the output is
// still what was made; any other removes the folder and goes on. Another process may be at it: then it does.
static bool finish_finished(struct execution *exec, const char *name, int *rc, struct err *err) {
  struct staging st;
  struct err ignored = {0};
  if (staging_open_sealed(&st, exec->out.folder, name, &ignored)) return false;
  // A command that may replace the output runs again, unless it is to complete what was interrupted.
  const bool resume = exec->request->resume;
  const bool again = exec->request->fresh || exec->wanted->replace;
  if ((resume || (!again && is_ours(exec, &st))) &&
      staging_check_version(&st, version_number, &ignored) == 0 &&
      check_files(exec, &st, &ignored) == 0) {
    *rc = finish_checked(exec, &st, err);
    return true;
  }
  staging_close(&st);
  if (staging_put_away(exec->out.folder, name))
    observer_notice(exec->request->observer,
                    "removed '%s': it was left by a run whose output is in place",
                    quote_str(name).s);
  return false;
}

// Was it this very command that was interrupted? -1: another process is at it.
static int is_of_this_command(struct execution *exec, const char *name, bool *same,
                              struct err *err) {
  struct staging st;
  *same = false;
  if (staging_open_sealed(&st, exec->out.folder, name, err)) return -1;
  *same = is_ours(exec, &st);
  staging_close(&st);
  return 0;
}

// What the interrupted run had put in place cannot be told for certain then, or not be used.
static void say_damaged(const struct execution *exec, const struct seal_given_up *was) {
  const bool json = was->damage == SEAL_JSON_DAMAGED;
  if (was->known && was->left[0])
    observer_notice(exec->request->observer,
                    "the interrupted run's %s damaged, so the files it had moved into place were "
                    "kept: %s may be left over; once this run is done, delete what no model uses",
                    json ? "'seal.json' is" : "files are", was->left);
  else if (!was->known)
    observer_notice(
        exec->request->observer,
        "the interrupted run's 'seal.json' and plan are damaged, so the files it had moved "
        "into place were kept: data files of '%s' that no model uses may be left over",
        quote_str(exec->out.path).s);
}

// Only where the run that follows will be let: what is in place of an output that may not be replaced
// stays as it is.
static int give_up(struct execution *exec, const char *name, bool *given_up, struct err *err) {
  struct staging st;
  struct entry_facts at;
  *given_up = false;
  if (!exec->wanted->replace && !exec->wanted->inplace &&
      entry_look(HERE, exec->out.path, FILE_NO_LINK, &at) == 0)
    return 0;
  if (exec->request->dry_run || staging_open_sealed(&st, exec->out.folder, name, err))
    return err->kind == ERR_NONE ? 0 : -1;
  *given_up = true;
  struct seal_given_up was;
  const int rc = seal_give_up(&st, &was, err);
  if (was.damage) say_damaged(exec, &was);
  commit_say_left(exec->request->observer, &was.report);
  return rc;
}

static int refuse(struct execution *exec, struct err *err) {
  err_set(err, ERR_RETRY, "an earlier run was interrupted while it moved '%s' into place",
          quote_str(exec->out.path).s);
  if (exec->request->fresh && !exec->request->dry_run)
    return err_hint(err, "the output exists already: --resume completes it, --fresh --force "
                         "replaces it");
  if (exec->request->dry_run)
    return err_hint(err, "run the interrupted command again to complete it");
  return err_because(err, REASON_SEAL_BEGUN);
}

bool execution_finish_seal(const struct request *request, int *rc, struct err *err) {
  const struct request_output *wanted = &request->outputs[0];
  struct execution exec = {.request = request,
                           .wanted = wanted,
                           .in_path = request->sources[0].path,
                           .out = {.path = wanted->path, .asked = request->reads}};
  char name[STAGING_NAME_MAX];
  enum staging_seal state = STAGING_SEAL_NONE;
  struct err ignored = {0}; // a folder that is not there is somebody else's to report
  *rc = 0;
  if (wanted->absent) return false;
  execution_output_split(&exec);
  if (staging_find_seal(exec.out.folder, exec.out.onnx_name, name, &state, &ignored))
    state = STAGING_SEAL_NONE;
  const bool resume = request->resume, dry = request->dry_run;
  bool found = state == STAGING_SEAL_UNFINISHED;
  if (found && request->fresh) {
    bool given_up;
    *rc = give_up(&exec, name, &given_up, err);
    found = !given_up || *rc != 0;
    if (found && *rc == 0) *rc = refuse(&exec, err);
  } else if (found) {
    bool ours = resume;
    if (!resume && !dry) *rc = is_of_this_command(&exec, name, &ours, err);
    if (*rc == 0) *rc = ours ? finish_found(&exec, name, err) : refuse(&exec, err);
  } else if (state == STAGING_SEAL_FINISHED && !request->dry_run) {
    found = finish_finished(&exec, name, rc, err);
  }
  arena_free(&exec.arena);
  return found;
}
