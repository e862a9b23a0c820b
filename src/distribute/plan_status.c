#include "distribute/plan_status.h"

#include "platform/machine.h"
#include "stream/sys/reread.h"

#include <errno.h>

static int recheck(struct plan_status *s, struct err *err) {
  struct observer *o = s->x.observer;
  struct staging *st = &s->x.joined.st;
  const struct plan *p = &s->x.joined.plan;
  const struct reread_work work = {.stop = observer_stop(o), .tick = observer_tick_bytes, .ctx = o};
  for (uint32_t i = 0; i < p->n_outputs && staging_writes(st); i++) {
    st->outputs[i] = file_open(st->folder, p->outputs[i].name, FILE_NO_LINK);
    if (!file_is_open(st->outputs[i]))
      return err_errno(err, errno, ERR_IO, "cannot open '%s' in '%s'",
                       quote_str(p->outputs[i].name).s, quote_str(st->name).s);
  }
  if (!staging_writes(st)) return 0;
  uint8_t *was = arena_copy(&s->x.arena, st->done, st->n_units);
  observer_begin(o, "checking");
  struct staging_checked checked;
  const int rc = staging_check_units(st, p, STAGING_EVERY_UNIT, &work, &checked, err);
  s->damaged = checked.forgotten;
  observer_end(o);
  for (uint32_t i = st->n_units; i-- > 0;)
    if (was[i] && !st->done[i]) s->first_damaged = i;
  return rc;
}

int plan_status_look(struct plan_status *s, const char *path, bool rechecks, struct observer *o,
                     struct err *err) {
  *s = (struct plan_status){.first_damaged = NO_ID};
  if (planned_open(&s->x, path, STAGING_AS_VIEWER, o, err)) return -1;
  if (s->x.in_place) return 0;
  if (rechecks && !s->x.joined.sealed && recheck(s, err)) return -1;
  planned_count(&s->x);
  const struct staging_joined *j = &s->x.joined;
  const int64_t began = j->began_ns ? j->began_ns : j->planned_ns;
  const double seconds = (double)(machine_time_ns() - began) / 1e9;
  if (seconds > 0) s->rate = (double)s->x.done / seconds;
  return 0;
}

const char *plan_status_state(const struct plan_status *s) {
  if (s->x.in_place) return "in_place";
  if (s->x.joined.sealed) return "sealing";
  return s->x.missing ? "missing" : "made";
}
