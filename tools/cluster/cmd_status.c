// weir status: how far a planned run is, by the records in its folder. Nothing is locked or changed.
//
// The rate is that between two looks (--watch), or since the first member began: since the plan was made on file systems that do not
// keep when a file was made.
#include "commands.h"
#include "planned.h"
#include "again.h"
#include "report.h"
#include "reread.h"
#include "stop.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 5000, TICK_MS = 100 };

struct look {
  struct planned x;
  uint32_t damaged;       // --recheck
  uint32_t first_damaged; // NO_ID: none
  double seconds;         // since work began
  double rate;            // bytes a second; 0: not known
};

// Units whose bytes are not what their record says.
static int recheck(struct look *l, const struct cli_args *args, const volatile int *stop,
                   struct err *err) {
  struct staging *st = &l->x.joined.st;
  const struct plan *p = &l->x.joined.plan;
  const struct reread_work work = {
      .stop = stop, .tick = observer_tick_bytes, .ctx = &report_observer};
  for (uint32_t i = 0; i < p->n_outputs && staging_writes(st); i++) {
    st->outputs[i] =
        again_openat(st->folder, p->outputs[i].name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (st->outputs[i] < 0)
      return err_errno(err, errno, ERR_IO, "cannot open '%s' in '%s'",
                       quote_str(p->outputs[i].name).s, quote_str(st->name).s);
  }
  if (!staging_writes(st)) return 0;
  uint8_t *was = arena_copy(&l->x.arena, st->done, st->n_units);
  observer_begin(&report_observer, "checking");
  struct staging_checked checked;
  const int rc = staging_check_units(st, p, STAGING_EVERY_UNIT, &work, &checked, err);
  l->damaged = checked.forgotten;
  observer_end(&report_observer);
  for (uint32_t i = st->n_units; i-- > 0;)
    if (was[i] && !st->done[i]) l->first_damaged = i;
  (void)args;
  return rc;
}

static int look(struct look *l, const struct cli_args *args, const volatile int *stop,
                struct err *err) {
  struct timespec now;
  *l = (struct look){.first_damaged = NO_ID};
  if (planned_open(&l->x, cli_operand(args, "PLAN"), STAGING_AS_VIEWER, &report_observer, err))
    return -1;
  if (l->x.in_place) return 0;
  if (cli_flag(args, OPT_RECHECK) && !l->x.joined.sealed && recheck(l, args, stop, err)) return -1;
  planned_count(&l->x);
  clock_gettime(CLOCK_REALTIME, &now);
  const struct staging_joined *j = &l->x.joined;
  const int64_t began = j->began_ns ? j->began_ns : j->planned_ns;
  l->seconds = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - (double)began / 1e9;
  if (l->seconds > 0) l->rate = (double)l->x.done / l->seconds;
  return 0;
}

static const char *state_of(const struct look *l) {
  if (l->x.in_place) return "in_place";
  if (l->x.joined.sealed) return "sealing";
  return l->x.missing ? "missing" : "made";
}

static void print_json(const struct cli_args *args, const struct look *l) {
  struct json_out j = {.indent = 2};
  const struct planned *x = &l->x;
  report_json_begin(&j);
  json_put_text(&j, "plan", cli_operand(args, "PLAN"));
  json_put_text(&j, "state", state_of(l));
  if (!x->in_place) {
    uint32_t unit = 0, first, last;
    json_put_text(&j, "output", x->joined.onnx_name);
    json_put_hex(&j, "plan_id", x->joined.plan.id, DIGEST_BYTES);
    json_put_uint(&j, "shards", x->joined.orders.shards);
    json_put_uint(&j, "units", x->units);
    json_put_uint(&j, "units_missing", x->missing);
    json_put_uint(&j, "bytes", x->total);
    json_put_uint(&j, "bytes_done", x->done);
    json_put_uint(&j, "damaged_records", x->joined.bad_records);
    json_put_known(&j, "damaged_units", cli_flag(args, OPT_RECHECK), l->damaged);
    json_put_array(&j, "missing");
    while (planned_next_missing(x, &unit, &first, &last)) {
      json_array(&j);
      json_uint(&j, first);
      json_uint(&j, last);
      json_end_array(&j);
    }
    json_end_array(&j);
    json_put_double(&j, "bytes_per_second", l->rate);
  }
  json_end_object(&j);
  report_json_end(&j);
}

static void print_rate(const struct look *l) {
  if (l->rate <= 0 || l->x.missing == 0) return;
  printf(", %s/s, %s left", quote_bytes((uint64_t)l->rate).s,
         quote_seconds((double)(l->x.total - l->x.done) / l->rate).s);
}

static void print_line(struct look *l) {
  struct planned *x = &l->x;
  printf("%u of %u unit%s, %s of %s (%.1f %%)", x->units - x->missing, x->units, plural(x->units),
         quote_bytes(x->done).s, quote_bytes(x->total).s,
         x->total ? 100.0 * (double)x->done / (double)x->total : 100.0);
  print_rate(l);
  printf("\n");
}

static void print_text(const struct cli_args *args, struct look *l) {
  struct planned *x = &l->x;
  if (x->in_place) {
    printf("%s is in place\n", quote_path(x->model).s);
    return;
  }
  print_line(l);
  if (x->joined.sealed)
    printf("all units are finished and being moved into place: 'weir finalize' completes it\n");
  if (x->missing)
    printf("missing: unit%s %s\n", x->missing > 1 ? "s" : "", planned_missing_words(x));
  if (x->joined.bad_records)
    printf("%u line%s of the records cannot be used (cut off, damaged, or of another plan)\n",
           x->joined.bad_records, plural(x->joined.bad_records));
  if (l->damaged)
    printf(
        "%u unit%s changed since %s recorded, the first is unit %u: 'weir shard' makes %s again\n",
        l->damaged, plural(l->damaged), l->damaged == 1 ? "it was" : "they were", l->first_damaged,
        l->damaged == 1 ? "it" : "them");
  if (!x->missing && !x->joined.sealed)
    printf("all units are finished; run next: weir finalize %s\n",
           quote_path(cli_operand(args, "PLAN")).s);
}

// Until all is there, or a signal.
static int watch(const struct cli_args *args, const volatile int *stop, struct err *err) {
  uint64_t before = 0, then = 0;
  for (bool first = true;; first = false) {
    struct look l;
    const int rc = look(&l, args, stop, err);
    const uint64_t now = threads_clock_ms(), done = l.x.done;
    const bool over = rc || l.x.in_place || l.x.missing == 0;
    if (rc == 0 && !first && now > then)
      l.rate = (double)(done - before) * 1000 / (double)(now - then);
    if (rc == 0) (over ? print_text(args, &l) : print_line(&l));
    fflush(stdout);
    planned_close(&l.x);
    if (over) return rc;
    before = done;
    then = now;
    for (int waited = 0; waited < LOOK_MS && !threads_must_stop(stop); waited += TICK_MS)
      nanosleep(&(struct timespec){.tv_nsec = TICK_MS * 1000000L}, NULL);
    if (threads_must_stop(stop)) return 0;
  }
}

int cmd_status(const struct cli_args *args, struct err *err) {
  const volatile int *stop = stop_watch();
  struct look l;
  if (cli_flag(args, OPT_WATCH)) return watch(args, stop, err);
  int rc = look(&l, args, stop, err);
  if (rc == 0) {
    if (cli_flag(args, OPT_JSON))
      print_json(args, &l);
    else
      print_text(args, &l);
  }
  planned_close(&l.x);
  return rc;
}
