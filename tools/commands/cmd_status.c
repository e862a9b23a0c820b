// weir status: how far a planned run is (plan_status.h); with --watch again and again, with the rate between two looks.
#include "cli/commands.h"
#include "cli/report.h"
#include "distribute/plan_status.h"
#include "platform/machine.h"
#include "platform/stops.h"
#include "stream/sys/threads.h"

#include <stdio.h>

enum { LOOK_MS = 5000, TICK_MS = 100 };

static int look(struct plan_status *l, const struct cli_args *args, struct err *err) {
  return plan_status_look(l, cli_operand(args, "PLAN"), cli_flag(args, OPT_RECHECK),
                          &report_observer, err);
}

static void print_json(const struct cli_args *args, const struct plan_status *l) {
  struct json_out j = report_json_open(2);
  const struct planned *x = &l->x;
  json_put_text(&j, "plan", cli_operand(args, "PLAN"));
  json_put_text(&j, "state", plan_status_state(l));
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
  report_json_end(&j);
}

static void print_rate(const struct plan_status *l) {
  if (l->rate <= 0 || l->x.missing == 0) return;
  printf(", %s/s, %s left", quote_bytes((uint64_t)l->rate).s,
         quote_seconds((double)(l->x.total - l->x.done) / l->rate).s);
}

static void print_line(struct plan_status *l) {
  struct planned *x = &l->x;
  printf("%u of %u unit%s, %s of %s (%.1f %%)", x->units - x->missing, x->units, plural(x->units),
         quote_bytes(x->done).s, quote_bytes(x->total).s,
         x->total ? 100.0 * (double)x->done / (double)x->total : 100.0);
  print_rate(l);
  printf("\n");
}

static void print_text(const struct cli_args *args, struct plan_status *l) {
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
    struct plan_status l;
    const int rc = look(&l, args, err);
    const uint64_t now = machine_clock_ms(), done = l.x.done;
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
      machine_sleep_ms(TICK_MS);
    if (threads_must_stop(stop)) return 0;
  }
}

int cmd_status(const struct cli_args *args, struct err *err) {
  const volatile int *stop = stops_watch();
  struct plan_status l;
  if (cli_flag(args, OPT_WATCH)) return watch(args, stop, err);
  int rc = look(&l, args, err);
  if (rc == 0) {
    if (cli_flag(args, OPT_JSON))
      print_json(args, &l);
    else
      print_text(args, &l);
  }
  planned_close(&l.x);
  return rc;
}
