#include "distribute/member.h"

#include "platform/machine.h"
#include "stream/run/effort.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>

// ---- the scheduler -------------------------------------------------------------------------------

struct scheduler_says {
  const char *name;      // "Slurm"; NULL: no scheduler started us
  const char *variable;  // that has the index
  uint32_t index, count; // count 0: it does not say
};

static const struct row {
  const char *name, *index, *first, *last, *step, *count;
} rows[] = {
#define SCHEDULER(name, index, first, last, step, count) {name, index, first, last, step, count},
#include "distribute/schedulers.def"
#undef SCHEDULER
};

static bool number(const char *text, uint32_t *x) {
  char *end;
  if (!text || !isdigit((unsigned char)text[0])) return false;
  const uint64_t n = strtoull(text, &end, 10);
  *x = (uint32_t)n;
  return *end == '\0' && n < UINT32_MAX;
}

static bool variable(const char *name, uint32_t *x) {
  if (name && name[0] == '=') return number(name + 1, x);
  return name && number(machine_variable(name), x);
}

static bool take(const struct row *r, struct scheduler_says *says) {
  uint32_t id, first = 0, last, step = 1, count = 0;
  if (!variable(r->index, &id)) return false;
  (void)variable(r->first, &first);
  if (id < first) return false;
  if (!variable(r->step, &step) || step == 0) step = 1;
  if (!variable(r->count, &count) && variable(r->last, &last) && last >= first)
    count = (last - first) / step + 1;
  *says = (struct scheduler_says){
      .name = r->name, .variable = r->index, .index = (id - first) / step, .count = count};
  return true;
}

// By the environment (schedulers.def). A variable that is no number is as none: some schedulers set them so outside of arrays.
static struct scheduler_says scheduler_look(void) {
  struct scheduler_says says = {.name = NULL};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (take(&rows[i], &says)) return says;
  return says;
}

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

// ---- the units -----------------------------------------------------------------------------------

// A unit belongs to the shard in whose part of all work its middle lies. Neighbours stay together, since what was found
// out about a weight in one unit is wanted in the next.
//
//   work    0 ──────┬──────┬──────┬────── total        count = 4
//   units   │  0  │   1   │ 2 │   3    │
//   shard      0      1     2     3
// All shards together are all units, each once; some are empty where there are few units.
static void share_units(const struct plan *p, uint32_t index, uint32_t count, uint32_t *first,
                        uint32_t *end) {
  assert(index < count);
  struct arena a = {0};
  const struct effort e = effort_of_plan(p, &a);
  const uint32_t n = plan_unit_count(p);
  const double total = effort_total(&e);
  double before = 0;
  *first = *end = 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct plan_unit unit = plan_unit_at(p, i);
    const double work = effort_between(&e, unit.output, unit.off, unit.len);
    const double share = total > 0 ? (before + work / 2) / total : 0;
    const uint32_t of = (uint32_t)(share * count);
    before += work;
    if (of < index) *first = i + 1;
    if (of <= index) *end = i + 1;
  }
  if (index + 1 == count) *end = n; // whatever rounding says
  if (*first > *end) *first = *end;
  arena_free(&a);
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
  share_units(&j->plan, part->index, part->count, &part->first, &part->end);
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
  if (rc == 0 && part->before < part->end - part->first) rc = staging_open_records(&made.st, err);
  if (rc == 0) rc = execute_plan_run(&c, &made, err);
  // Nobody begins again a member that says that it is done: its records outlive a power cut.
  struct err unsynced = {0};
  if (staging_sync_records(&made.st, &unsynced) && rc == 0) {
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
