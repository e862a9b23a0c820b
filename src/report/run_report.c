#include "run_report.h"

void run_report_free(struct run_report *r) {
  stored_tensors_free(&r->stored);
  census_free(&r->census);
  TABLE_FREE(r, inputs);
  TABLE_FREE(r, outputs);
  arena_free(&r->arena);
}
