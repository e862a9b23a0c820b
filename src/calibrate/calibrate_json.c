#include "calibrate/calibrate_json.h"

#include "platform/machine.h"

void calibrate_json(const struct calibrate *c, const char *out, double seconds, uint64_t made_bytes,
                    struct json_out *j) {
  json_put_uint(j, "groups", c->n_groups);
  json_put_text(j, "method", ranges_method_name(c->options.how.method));
  json_put_uint(j, "nan_values", c->nans);
  json_put_array(j, "not_covered");
  for (uint32_t i = 0; i < c->values.n_uncovered; i++) {
    json_object(j);
    json_put_text(j, "reason", calibrate_why_code(c->values.uncovered[i].why));
    json_put_text(j, "value", c->values.uncovered[i].name);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_text(j, "output", out);
  json_put_uint(j, "peak_memory_bytes", machine_peak_memory());
  json_put_uint(j, "resumed_runs", c->resumed_runs);
  json_put_uint(j, "runs", c->runs);
  json_put_text(j, "runtime", runtime_about(c->runtime).version);
  json_put_uint(j, "runtime_peak_memory_bytes", runtime_peak_memory(c->runtime));
  json_put_uint(j, "samples", c->n_samples);
  json_put_double(j, "seconds", seconds);
  json_put_uint(j, "temporary_bytes", made_bytes);
  json_put_uint(j, "values", c->ranges->n_values);
}
