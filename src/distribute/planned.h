// Room: a plan that several processes carry out: its folder, its members, how far it is, and job files for schedulers.
//
// A plan as commands name it: the folder that 'weir plan' prepared, or what became of it.
#ifndef WEIR_PLANNED_H
#define WEIR_PLANNED_H

#include "execute/request.h"
#include "stream/run/work.h"
#include "stream/staging/staging_join.h"

struct planned {
  struct observer *observer;
  struct staging_joined joined;
  struct sources *sources;
  bool in_place;           // the folder is gone: the output has its final name
  const char *model;       // then: the .onnx, as a path, and
  const char *dest, *onnx; // its parts
  uint64_t total, done;    // bytes of units
  uint32_t units, missing; //
  struct arena arena;
};

// Opens PLAN. in_place: nothing else is. ERR_INPUT and the like as staging_join. planned_close in any case.
int planned_open(struct planned *x, const char *path, enum staging_as as, struct observer *o,
                 struct err *err);
// folder: of the sources; NULL: the one that the plan names.
int planned_open_sources(struct planned *x, const char *folder, struct err *err);
void planned_close(struct planned *x);
// Of one that is in place: what a kill left of its folder, if anything. A failure leaves it to 'weir clean'.
void planned_clear_left(const struct planned *x);
// The same, before that: the provenance that is kept there, to be freed by fs_free; at NULL if it has none.
struct span planned_left_provenance(const struct planned *x);
// Counts units and bytes again.
void planned_count(struct planned *x);
// The next range of units without a record, from *unit on; *unit becomes the unit after it. False if no unit is left.
bool planned_next_missing(const struct planned *x, uint32_t *unit, uint32_t *first, uint32_t *last);
// "0-3, 17, 40-62", the first few.
const char *planned_missing_words(struct planned *x);
// The work of carrying it out.
int planned_work(const struct planned *x, const struct request_limits *limits,
                 const volatile int *stop, struct work_options *work, struct err *err);

#endif
