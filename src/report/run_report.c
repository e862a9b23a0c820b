#include "report/run_report.h"

void run_report_free(struct run_report *r) {
  stored_tensors_free(&r->stored);
  census_free(&r->census);
  TABLE_FREE(r, warnings);
  TABLE_FREE(&r->files, inputs);
  TABLE_FREE(&r->files, outputs);
  TABLE_FREE(&r->work, stages);
  arena_free(&r->arena);
}
