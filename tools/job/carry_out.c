// A plan, carried out in its staging folder.
//
// What is left of a run that failed: nothing, unless going on with it makes sense (a signal, a full
// disk, an I/O error). Then the staging folder stays, and its size and the command to resume are
// said. The null engine writes nothing, so nothing of it is ever left.
#include "carry_out.h"

#include "report.h"

int carry_out_open(const struct carry_out *c, struct carried *made, struct err *err) {
  char note[1024] = "";
  *made = (struct carried){.how = STAGING_FRESH};
  if (c->work.mode == IO_NULL)
    return staging_open_null(&made->st, c->plan, c->where.dest_folder, err);
  const int rc =
      staging_open(&made->st, c->plan, c->sources, &c->where, &made->how, note, sizeof note, err);
  for (char *line = strtok(note, "\n"); line; line = strtok(NULL, "\n"))
    report_notice("%s", line);
  return rc;
}

int carry_out_run(const struct carry_out *c, struct carried *made, struct err *err) {
  report_begin("writing");
  const int rc = run_plan(c->plan, c->sources, &made->st, &c->work, &made->stats, err);
  report_end();
  // Also where what was found is the reason to refuse it.
  made->all_made = staging_done_count(&made->st) == made->st.n_units;
  return rc;
}

bool carry_out_worth_resuming(const struct err *err) {
  return err->kind == ERR_RETRY || err->kind == ERR_NOSPACE || err->kind == ERR_IO;
}

void carry_out_leave(const struct carry_out *c, struct carried *made, struct err *err) {
  struct staging *st = &made->st;
  struct err ignored = {0};
  if (c->work.mode != IO_NULL && !carry_out_worth_resuming(err)) {
    staging_remove(st, &ignored);
    return;
  }
  if (c->work.mode != IO_NULL)
    err_hint(
        err,
        "%u of %u units are done (%s in '%s'): go on with: %s; or remove it: weir clean %s --yes",
        staging_done_count(st), st->n_units, quote_bytes(staging_disk_bytes(st)).s,
        quote_str(st->name).s, c->where.resume_command, quote_str(c->where.dest_folder).s);
  staging_close(st);
}
