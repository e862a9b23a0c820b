// Who computes what while the others wait. A unit of the cache that takes a long read of a weight is
// computed by one worker:
//
//   switch (eval_turns_wait(c, &key, unit, go_on)) {
//   case EVAL_TURNS_MINE: compute; eval_cache_put (unless that failed); eval_turns_done; break;
//   case EVAL_TURNS_LOOK: look it up; not there: compute
//   case EVAL_TURNS_STOPPED: leave
//   }
#ifndef WEIR_EVAL_TURNS_H
#define WEIR_EVAL_TURNS_H

#include "stream/eval/shared/eval_cache.h"

// Those of one cache, which opens and closes them.
struct eval_turns;
struct eval_turns *eval_turns_open(void); // NULL: no memory
void eval_turns_close(struct eval_turns *t);

// Asked now and then by what takes long; false: leave. NULL: always go on. Asked with no lock held.
// Told of so many more bytes of a recipe that were read for a range, before there is anything to be made of
// them (NULL: nobody listens).
struct eval_go_on {
  bool (*ask)(void *ctx);
  void (*looked)(void *ctx, uint32_t of, uint64_t bytes);
  void *ctx;
};

enum eval_turns_next {
  EVAL_TURNS_LOOK,   // it is there, or will not be kept
  EVAL_TURNS_MINE,   // nobody has it: the others wait for the caller, until eval_turns_done
  EVAL_TURNS_STOPPED // go_on said so while another one was computing
};
// Waits while another thread computes this unit (asking go_on at least every 100 ms), and says what
// to do now. If that thread is done without having put it, one of those that wait has its turn. A
// thread whose turn it is may wait for units of what the key's operand is made of, one with TURNS
// or PANELS of codes also for their statistics, and no others: recipes know no circles, so neither do the
// waits. The NULL cache: LOOK. `unit` < key->units.
enum eval_turns_next eval_turns_wait(struct eval_cache *c, const struct eval_cache_key *key,
                                     uint64_t unit, struct eval_go_on go_on);
// The end of a turn that was the caller's, whether the unit was put or not. Wakes those that wait.
void eval_turns_done(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit);

#endif
