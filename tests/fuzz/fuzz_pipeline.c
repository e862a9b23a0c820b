// The reader of pipeline files over anything: it refuses with a sentence, or gives steps whose
// canonical words are JSON.
#include "pipeline/config/pipeline_yaml.h"

#include "json/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  struct pipeline p;
  struct err err = {0};
  pipeline_init(&p);
  if (pipeline_parse(&p, span_of(data, n), "fuzz.yaml", &err) == 0) {
    struct json_value *doc = json_parse(span_str(pipeline_options(&p)), "options", &err);
    if ((p.n_steps == 0) != (p.nothing != NULL) || p.open != NO_ID || !json_is_object(doc)) abort();
    json_free(doc);
  } else if (err.kind != ERR_USAGE || err.msg[0] == '\0') {
    abort();
  }
  pipeline_free(&p);
  return 0;
}
