// Who makes what: the units of a plan, and parts of units, dealt to workers.
//
// Everything here may be called from any worker; what is dealt depends on who asks when, and no
// byte of the outputs depends on that.
#ifndef WEIR_SCHEDULE_H
#define WEIR_SCHEDULE_H

#include "plan/plan.h"
#include "stream/staging/figure_sums.h"

struct schedule;

// What a worker is to make next: a unit of its own, or the later part of one that another worker,
// its owner, has begun. The owner hashes the whole unit.
struct schedule_part {
  uint32_t unit;
  // Its end may be given to somebody else: schedule_claim says where it is now.
  struct plan_unit range;
  bool owned;           // a unit, from its beginning
  uint32_t owner, slot; // deal's own
};

// `skip[unit]`: not to be dealt; looked at once, here. `lines`: how many units a worker may make beside
// each other. `parts`: units may be made in parts, because their bytes can be read back where they were
// written.
void schedule_open(struct schedule **out, const struct plan *p, const uint8_t *skip,
                   uint32_t workers, uint32_t lines, bool parts);
void schedule_close(struct schedule *d); // when no worker works any more

// How many workers would find something to do. `parts` as above, `skip` too; NULL: none.
uint32_t schedule_useful(const struct plan *p, const uint8_t *skip, bool parts);

// False: nothing is left that would be worth beginning.
bool schedule_next(struct schedule *d, uint32_t worker, struct schedule_part *part);

// One more unit, to be made beside `first`, which schedule_next has just given to the worker, as its
// `line` (1, 2 ...). False: there is none that it should have.
bool schedule_beside(struct schedule *d, uint32_t worker, uint32_t line,
                     const struct schedule_part *first, struct schedule_part *part);

// The worker is about to make bytes [from, to) of the output, from within its part on. Gives how
// far it shall go before it asks again, in (from, to]: so far the part is its own for good. That
// may be less than `to` because the part was cut meanwhile: part->range.len is set to what it is by
// now.
uint64_t schedule_claim(struct schedule *d, struct schedule_part *part, uint64_t from, uint64_t to);

// The end of a part that is not owned: all of it is written (`made`), or it was given up. The
// errors are ours from now on.
void schedule_made(struct schedule *d, const struct schedule_part *part, struct figure_sums errors,
                   bool made);

// For the owner, behind its own part: waits until the part that begins at byte `off` of the output
// is made by whoever has it. *end: where it ends; *errors: the caller's. False if it was given up.
bool schedule_wait(struct schedule *d, const struct schedule_part *owned, uint64_t off,
                   uint64_t *end, struct figure_sums *errors);

#endif
