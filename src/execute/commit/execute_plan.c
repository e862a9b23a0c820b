// What is left of a run that failed: nothing, unless going on with it makes sense (a signal, a full
// disk, an I/O error). Then the staging folder stays, and its size and the command to resume are
// said: that command, given again, plans the same and makes the units without a record. The null
// engine writes nothing, so nothing of it is ever left.
#include "execute/commit/execute_plan.h"

#include "base/shell_words.h"
#include "stream/seal/seal.h"

static struct reread_work check_as(const struct work_options *work) {
  observer_begin(work->observer, "checking");
  return (struct reread_work){
      .jobs = work->jobs, .stop = work->stop, .tick = observer_tick_bytes, .ctx = work->observer};
}

int execute_plan_check_units(const struct execute_plan *c, struct executed_plan *made,
                             enum staging_which which, struct err *err) {
  const struct reread_work work = check_as(&c->work);
  struct staging_checked checked;
  const int rc = staging_check_units(&made->st, c->plan, which, &work, &checked, err);
  observer_end(c->work.observer);
  if (rc) {
    staging_close(&made->st);
    return -1;
  }
  const uint32_t n = checked.forgotten;
  made->read = checked.read;
  if (checked.contrary > 0)
    observer_notice(
        c->work.observer, "%u unit%s %s records that contradict each other: hashed again",
        checked.contrary, plural(checked.contrary), checked.contrary == 1 ? "has" : "have");
  if (n > 0)
    observer_notice(
        c->work.observer,
        "%u of the 64 MiB units that an interrupted run had written %s changed since and "
        "will be rewritten",
        n, n == 1 ? "has" : "have");
  return 0;
}

int execute_plan_check_seal(const struct work_options *work, const struct staging *st,
                            struct err *err) {
  const struct reread_work check = check_as(work);
  const int rc = seal_check(st, &check, err);
  observer_end(work->observer);
  return rc;
}

int execute_plan_prepare(const struct execute_plan *c, struct executed_plan *made,
                         struct err *err) {
  char note[1024] = "";
  *made = (struct executed_plan){.how = STAGING_FRESH};
  const int rc =
      staging_open(&made->st, c->plan, c->sources, &c->where, &made->how, note, sizeof note, err);
  if (rc == 0 && c->closed) // file systems without modes are taken as they are
    (void)entry_set_mode(made->st.dest, made->st.name, 0700);
  for (char *line = strtok(note, "\n"); line; line = strtok(NULL, "\n"))
    observer_notice(c->work.observer, "%s", line);
  return rc;
}

int execute_plan_open(const struct execute_plan *c, struct executed_plan *made, struct err *err) {
  *made = (struct executed_plan){.how = STAGING_FRESH};
  if (c->work.mode == IO_NULL)
    return staging_open_null(&made->st, c->plan, c->where.dest_folder, err);
  if (execute_plan_prepare(c, made, err)) return -1;
  if (made->how != STAGING_RESUMED || staging_done_count(&made->st) == 0) return 0;
  return execute_plan_check_units(c, made, STAGING_EVERY_UNIT, err);
}

int execute_plan_run(const struct execute_plan *c, struct executed_plan *made, struct err *err) {
  observer_begin(c->work.observer, "writing");
  const int rc = run_plan(c->plan, c->sources, &made->st, &c->work, &made->stats, err);
  observer_end(c->work.observer);
  if (made->stats.ring_lost && c->work.mode == IO_RING_OR_SYNC)
    observer_notice(
        c->work.observer,
        "io_uring stopped working during the run (%s); the rest was written with --io=sync; the "
        "bytes are the same",
        err_errno_words(made->stats.ring_lost));
  // Also where what was found is the reason to refuse it.
  made->all_made = staging_done_count(&made->st) == made->st.n_units;
  return rc;
}

bool execute_plan_worth_resuming(const struct err *err) {
  return err->kind == ERR_RETRY || err->kind == ERR_NOSPACE || err->kind == ERR_IO;
}

// What is kept, and the two commands. A command that does not fit is the one that was given.
static void hint_at_rest(const struct execute_plan *c, const struct staging *st, struct err *err) {
  struct arena scratch = {0};
  const uint64_t done = staging_done_bytes(st, c->plan), all = plan_total_bytes(c->plan);
  const char *again = c->where.resume_command;
  const char *folder = shell_words_quote(c->where.dest_folder, &scratch);
  if (strlen(again) + strlen(folder) > sizeof err->hint - 150) again = "the same command again";
  err_hint(err,
           "%s of %s are written and kept\n      continue: %s\n      discard:  weir clean %s --yes",
           quote_bytes(done).s, quote_bytes(all).s, again, folder);
  arena_free(&scratch);
}

void execute_plan_leave(const struct execute_plan *c, struct executed_plan *made, struct err *err) {
  struct staging *st = &made->st;
  struct err ignored = {0};
  if (c->work.mode != IO_NULL && !execute_plan_worth_resuming(err)) {
    staging_remove(st, &ignored);
    return;
  }
  if (c->work.mode != IO_NULL) hint_at_rest(c, st, err);
  staging_close(st);
}
