// Ranges that passes read, found again: 'weir calibrate' as it was told when the manifest's were, on the source and on
// samples that are given.
#ifndef WEIR_RECALIBRATE_H
#define WEIR_RECALIBRATE_H

#include "cli.h"
#include "pass_values.h"
#include "scratch.h"

struct recalibrate {
  const struct cli_args *args; // of weir rebuild: --data, --onnxruntime, --jobs, --memory
  const char *source;
  struct scratch scratch; // where they lie, until recalibrate_end
  struct arena arena;
  uint32_t made; // files
};

int recalibrate_begin(struct recalibrate *r, const struct cli_args *args, const char *source,
                      struct err *err);
void recalibrate_end(struct recalibrate *r); // also one that is {.scratch = {NULL, -1}}

// Makes the file that `v` recorded and sets v->text to where it lies. ERR_MODEL where the manifest does not say how it was
// made, or it was made of a model that passes had changed; ERR_FAIL where another one comes out, with what is different.
int recalibrate(struct recalibrate *r, struct pass_value *v, struct err *err);

#endif
