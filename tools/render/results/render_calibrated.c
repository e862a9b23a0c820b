// What a calibration has to say when it is over.
#include "render/results/render_calibrated.h"
#include "cli/report.h"
#include "platform/machine.h"

#include <stdio.h>
#include <string.h>

static uint32_t count(const struct calibrate_values *v, enum calibrate_why why) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < v->n_uncovered; i++)
    n += v->uncovered[i].why == why;
  return n;
}

void render_calibrated(const struct calibrate *c, const char *out, double seconds) {
  printf("%u value%s in %s sample%s: %s\n", c->ranges->n_values, plural(c->ranges->n_values),
         decimal(c->n_samples).s, plural(c->n_samples), quote_path(out).s);
  for (uint32_t why = 0; why < CALIBRATE_WHYS; why++) {
    const uint32_t n = count(&c->values, (enum calibrate_why)why);
    if (n > 0)
      printf("not covered: %u value%s %s\n", n, plural(n),
             calibrate_why_words((enum calibrate_why)why));
  }
  if (c->nans > 0)
    printf("%s value%s had NaN elements, which weir ignored\n", decimal(c->nans).s,
           plural(c->nans));
  printf("%s run%s", decimal(c->runs).s, plural(c->runs));
  if (c->resumed_runs > 0) printf(" (%s more by an earlier run)", decimal(c->resumed_runs).s);
  printf(", %s, %s of memory, ONNX Runtime %s\n", quote_seconds(seconds).s,
         quote_memory(machine_peak_memory()).s, quote_memory(runtime_peak_memory(c->runtime)).s);
}
