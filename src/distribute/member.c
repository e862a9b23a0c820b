#include "member.h"

#include "machine.h"
#include "scheduler.h"
#include "shards.h"

static int which(const struct member_request *r, const struct staging_joined *j,
                 struct member *part, struct err *err) {
  const struct scheduler_says says = scheduler_look();
  part->count = r->count;
  if (part->count == 0) part->count = says.count ? says.count : j->orders.shards;
  const bool given = r->numbered;
  const uint32_t index = given ? r->index : says.index;
  part->index = index;
  if (!given && !says.name && part->count > 1) {
    err_fill(err, ERR_USAGE, "--index is missing: there are %u shards", part->count);
    return err_hint(err, "--index I makes shard I, counted from 0; a job array of a scheduler sets "
                         "it; --count 1 makes all units");
  }
  if (index < part->count) return 0;
  if (given)
    err_fill(err, ERR_USAGE, "there is no shard %u of %u: shards are counted from 0", index,
             part->count);
  else
    err_fill(err, ERR_USAGE,
             "%s numbers this shard %u (%s), but there %s %u shard%s, counted from 0", says.name,
             index, says.variable, part->count == 1 ? "is" : "are", part->count,
             plural(part->count));
  return err_hint(err, "--index and --count replace the scheduler's numbers");
}

static uint32_t recorded(const struct staging *st, const struct member *part) {
  uint32_t n = 0;
  for (uint32_t i = part->first; i < part->end; i++)
    n += st->done[i];
  return n;
}

int member_make(const struct member_request *r, struct planned *x, struct member *part,
                struct err *err) {
  struct staging_joined *j = &x->joined;
  struct execute_plan c = {.plan = &j->plan};
  const double began = machine_clock();
  *part = (struct member){0};
  if (which(r, j, part, err) || planned_work(x, &r->limits, r->stop, &c.work, err) ||
      planned_open_sources(x, r->source_folder, err))
    return -1;
  c.sources = x->sources;
  shards_of_plan(&j->plan, part->index, part->count, &part->first, &part->end);
  uint8_t *leave = arena_alloc(&x->arena, j->st.n_units + 1);
  for (uint32_t i = 0; i < j->st.n_units; i++)
    leave[i] = i < part->first || i >= part->end;
  j->st.leave = leave;
  j->st.first_record = part->index;
  j->st.record_step = part->count;
  struct executed_plan made = {.st = j->st};
  int rc = 0;
  if (recorded(&made.st, part) > 0 && staging_writes(&made.st))
    rc = execute_plan_check_units(&c, &made, STAGING_EVERY_UNIT, err);
  part->before = rc ? 0 : recorded(&made.st, part);
  if (rc == 0 && part->before < part->end - part->first)
    rc = staging_open_records(&made.st, 0, err);
  if (rc == 0) rc = execute_plan_run(&c, &made, err);
  // Nobody begins again a member that says that it is done: its records outlive a power cut.
  struct err unsynced = {0};
  if (staging_sync_records(&made.st, 0, &unsynced) && rc == 0) {
    *err = unsynced;
    rc = -1;
  }
  j->st = made.st;
  if (rc == 0) rc = staging_join_again(j, err); // others have been at work too
  if (rc == 0) planned_count(x);
  part->stats = made.stats;
  part->seconds = machine_clock() - began;
  if (rc && execute_plan_worth_resuming(err))
    err_fill_hint(err, "finished units are kept; run the same command again to resume");
  return rc;
}
