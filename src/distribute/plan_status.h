// How far a planned run is, by the records in its folder. Nothing is locked or changed.
//
// The rate is that since the first member began: since the plan was made on file systems that do not keep when a file was made.
#ifndef WEIR_PLAN_STATUS_H
#define WEIR_PLAN_STATUS_H

#include "distribute/planned.h"

struct plan_status {
  struct planned x;
  uint32_t damaged;       // that were looked for: units whose bytes are not those of their record
  uint32_t first_damaged; // NO_ID: none
  double rate;            // bytes a second; 0: not known
};

// recheck: recorded units are read again. planned_close(&s->x) in any case.
int plan_status_look(struct plan_status *s, const char *path, bool recheck, struct observer *o,
                     struct err *err);
// "in_place", "sealing", "missing" (units are), "made" (all are)
const char *plan_status_state(const struct plan_status *s);

#endif
