// weir shard: one member of a plan that several processes carry out.
//
//   PLAN ──join──▶ whose units? ──▶ those recorded: hashed again ──▶ those missing: made ──▶ recorded
//
// Whatever other members do at the same time is harmless: a unit has the same bytes whoever makes it.
#include "execute_plan.h"
#include "cli_request.h"
#include "commands.h"
#include "machine.h"
#include "planned.h"
#include "report.h"
#include "scheduler.h"
#include "shards.h"
#include "stop.h"

#include <stdio.h>

struct part {
  uint32_t index, count, first, end; // units [first, end)
};

static int which(const struct cli_args *args, const struct staging_joined *j, struct part *part,
                 struct err *err) {
  const struct scheduler_says says = scheduler_look();
  part->count = cli_count(args, OPT_SHARD_COUNT);
  if (part->count == 0) part->count = says.count ? says.count : j->orders.shards;
  const bool given = cli_given(args, OPT_INDEX);
  const uint32_t index = given ? cli_count(args, OPT_INDEX) : says.index;
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

static uint32_t recorded(const struct staging *st, const struct part *part) {
  uint32_t n = 0;
  for (uint32_t i = part->first; i < part->end; i++)
    n += st->done[i];
  return n;
}

static void print(const struct cli_args *args, const struct planned *x, const struct part *part,
                  uint32_t before, const struct run_stats *stats, double seconds) {
  const uint32_t units = part ? part->end - part->first : 0;
  if (cli_flag(args, OPT_JSON)) {
    struct json_out j = {.indent = 2};
    report_json_begin(&j);
    json_put_text(&j, "plan", cli_operand(args, "PLAN"));
    json_put_bool(&j, "in_place", x->in_place);
    if (!x->in_place) {
      json_put_uint(&j, "index", part->index);
      json_put_uint(&j, "count", part->count);
      json_put_uint(&j, "units", units);
      json_put_uint(&j, "units_before", before);
      json_put_uint(&j, "bytes_written", stats->bytes_written);
      json_put_uint(&j, "source_bytes_read", stats->source_bytes_read);
      json_put_uint(&j, "missing", x->missing);
      json_put_double(&j, "seconds", seconds);
    }
    json_end_object(&j);
    report_json_end(&j);
  } else if (!cli_flag(args, OPT_QUIET) && x->in_place) {
    printf("%s is in place already: there is nothing left to do\n", quote_path(x->model).s);
  } else if (!cli_flag(args, OPT_QUIET)) {
    printf("shard %u of %u: ", part->index, part->count);
    if (units == 0)
      printf("no unit belongs to it");
    else if (before == units)
      printf(units == 1 ? "its unit was finished already"
                        : "all of its %u units were finished already",
             units);
    else
      printf("%u unit%s made in %s", units - before, plural(units - before),
             quote_seconds(seconds).s);
    if (before && before < units)
      printf(" (%u %s finished already)", before, before == 1 ? "was" : "were");
    if (x->missing)
      printf("; of the plan, %u of %u unit%s %s missing\n", x->missing, x->units, plural(x->units),
             x->missing == 1 ? "is" : "are");
    else
      printf("; all %u unit%s of the plan %s finished: run 'weir finalize' next\n", x->units,
             plural(x->units), x->units == 1 ? "is" : "are");
  }
}

static int make(struct planned *x, const struct cli_args *args, const volatile int *stop,
                struct err *err) {
  struct staging_joined *j = &x->joined;
  struct part part;
  struct execute_plan c = {.plan = &j->plan};
  const double began = machine_clock();
  const struct cli_source io_name = cli_source(args, OPT_IO);
  struct request_limits limits = cli_request_limits(args);
  limits.io_name = io_name.s;
  if (which(args, j, &part, err) || planned_work(x, &limits, stop, &c.work, err) ||
      planned_open_sources(x, cli_string(args, OPT_SOURCE_DIR), err))
    return -1;
  c.sources = x->sources;
  shards_of_plan(&j->plan, part.index, part.count, &part.first, &part.end);
  uint8_t *leave = arena_alloc(&x->arena, j->st.n_units + 1);
  for (uint32_t i = 0; i < j->st.n_units; i++)
    leave[i] = i < part.first || i >= part.end;
  j->st.leave = leave;
  j->st.first_record = part.index;
  j->st.record_step = part.count;
  struct executed_plan made = {.st = j->st};
  int rc = 0;
  if (recorded(&made.st, &part) > 0 && staging_writes(&made.st))
    rc = execute_plan_check_units(&c, &made, STAGING_EVERY_UNIT, err);
  const uint32_t before = rc ? 0 : recorded(&made.st, &part);
  if (rc == 0 && before < part.end - part.first) rc = staging_open_records(&made.st, 0, err);
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
  if (rc == 0) print(args, x, &part, before, &made.stats, machine_clock() - began);
  if (rc && execute_plan_worth_resuming(err))
    err_fill_hint(err, "finished units are kept; run the same command again to resume");
  return rc;
}

int cmd_shard(const struct cli_args *args, struct err *err) {
  struct planned x;
  const volatile int *stop = stop_watch_member();
  int rc = planned_open(&x, cli_operand(args, "PLAN"), STAGING_AS_MEMBER, &report_observer, err);
  if (rc == 0 && (x.in_place || x.joined.sealed)) {
    x.in_place = true;
    if (!x.model) x.model = x.joined.onnx_name;
    print(args, &x, NULL, 0, NULL, 0);
  } else if (rc == 0) {
    rc = make(&x, args, stop, err);
  }
  planned_close(&x);
  return rc;
}
