// weir shard: one member of a plan that several processes carry out (member.h).
#include "cli/commands.h"
#include "cli/report.h"
#include "distribute/member.h"
#include "platform/stops.h"
#include "request/cli_request.h"
#include "request/fill.h"

#include <stdio.h>

// part: NULL where the plan is in place.
static void print(const struct cli_args *args, const struct planned *x, const struct member *part) {
  const uint32_t units = part ? part->end - part->first : 0;
  if (cli_flag(args, OPT_JSON)) {
    struct json_out j = report_json_open(2);
    json_put_text(&j, "plan", cli_operand(args, "PLAN"));
    json_put_bool(&j, "in_place", x->in_place);
    if (!x->in_place) {
      json_put_uint(&j, "index", part->index);
      json_put_uint(&j, "count", part->count);
      json_put_uint(&j, "units", units);
      json_put_uint(&j, "units_before", part->before);
      json_put_uint(&j, "bytes_written", part->stats.bytes_written);
      json_put_uint(&j, "source_bytes_read", part->stats.source_bytes_read);
      json_put_uint(&j, "missing", x->missing);
      json_put_double(&j, "seconds", part->seconds);
    }
    report_json_end(&j);
  } else if (!cli_flag(args, OPT_QUIET) && x->in_place) {
    printf("%s is in place already: there is nothing left to do\n", quote_path(x->model).s);
  } else if (!cli_flag(args, OPT_QUIET)) {
    printf("shard %u of %u: ", part->index, part->count);
    if (units == 0)
      printf("no unit belongs to it");
    else if (part->before == units)
      printf(units == 1 ? "its unit was finished already"
                        : "all of its %u units were finished already",
             units);
    else
      printf("%u unit%s made in %s", units - part->before, plural(units - part->before),
             quote_seconds(part->seconds).s);
    if (part->before && part->before < units)
      printf(" (%u %s finished already)", part->before, part->before == 1 ? "was" : "were");
    if (x->missing)
      printf("; of the plan, %u of %u unit%s %s missing\n", x->missing, x->units, plural(x->units),
             x->missing == 1 ? "is" : "are");
    else
      printf("; all %u unit%s of the plan %s finished: run 'weir finalize' next\n", x->units,
             plural(x->units), x->units == 1 ? "is" : "are");
  }
}

int cmd_shard(const struct cli_args *args, struct err *err) {
  const volatile int *stop = stops_watch_scheduled(ERR_RETRY);
  struct member_request r = {.limits = cli_request_limits(args), .stop = stop};
  struct planned x;
  struct member part;
  FILL(args, member_request, &r);
  int rc = planned_open(&x, cli_operand(args, "PLAN"), STAGING_AS_MEMBER, &report_observer, err);
  if (rc == 0 && (x.in_place || x.joined.sealed)) {
    x.in_place = true;
    if (!x.model) x.model = x.joined.onnx_name;
    print(args, &x, NULL);
  } else if (rc == 0) {
    rc = member_make(&r, &x, &part, err);
    if (rc == 0) print(args, &x, &part);
  }
  planned_close(&x);
  return rc;
}
