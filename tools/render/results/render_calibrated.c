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

void render_calibrated_json(const struct calibrate *c, const char *out, double seconds,
                            uint64_t made_bytes) {
  struct json_out o = report_json_open(2);
  json_put_uint(&o, "groups", c->n_groups);
  json_put_text(&o, "method", ranges_method_name(c->options.how.method));
  json_put_uint(&o, "nan_values", c->nans);
  json_put_array(&o, "not_covered");
  for (uint32_t i = 0; i < c->values.n_uncovered; i++) {
    json_object(&o);
    json_put_text(&o, "reason", calibrate_why_code(c->values.uncovered[i].why));
    json_put_text(&o, "value", c->values.uncovered[i].name);
    json_end_object(&o);
  }
  json_end_array(&o);
  json_put_text(&o, "output", out);
  json_put_uint(&o, "peak_memory_bytes", machine_peak_memory());
  json_put_uint(&o, "resumed_runs", c->resumed_runs);
  json_put_uint(&o, "runs", c->runs);
  json_put_text(&o, "runtime", runtime_about(c->runtime).version);
  json_put_uint(&o, "runtime_peak_memory_bytes", runtime_peak_memory(c->runtime));
  json_put_uint(&o, "samples", c->n_samples);
  json_put_double(&o, "seconds", seconds);
  json_put_uint(&o, "temporary_bytes", made_bytes);
  json_put_uint(&o, "values", c->ranges->n_values);
  report_json_end(&o);
}
