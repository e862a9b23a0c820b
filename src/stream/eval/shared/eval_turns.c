// A list of the units that are being computed now: a few, one a worker and level of quantization
// within quantization. Who wants one of them waits for the condition, which every end of a turn
// signals, and looks again.
//
//   worker 0   wait ▶ MINE ─────── compute ─────── put ▶ done
//   worker 1        wait ▶ · · · · · · · · · · · · · · · · · · LOOK ▶ get
//
// What the cache will not keep is not waited for: its computation by one worker would serve no
// other. The cache is asked with the list locked, so that nobody finds neither the unit nor the turn
// of who made it; a put comes before the end of its turn.
#include "stream/eval/shared/eval_turns.h"

#include "base/table.h"
#include "platform/pthreads.h"
#include "resources/resources.h"

#include <assert.h>

enum { ASK_MS = 50 };

struct turn {
  struct eval_cache_key key;
  uint64_t unit;
};

struct eval_turns {
  pthread_mutex_t mu;
  pthread_cond_t ended;
  TABLE(struct turn, turns);
};

struct eval_turns *eval_turns_open(void) {
  struct eval_turns *t = resources_zalloc(1, sizeof *t);
  if (!t) return NULL;
  pthread_mutex_init(&t->mu, NULL);
  pthreads_condition(&t->ended);
  return t;
}

// Turns are left where memory ended for who had them.
void eval_turns_close(struct eval_turns *t) {
  TABLE_FREE(t, turns);
  pthread_cond_destroy(&t->ended);
  pthread_mutex_destroy(&t->mu);
  resources_free(t);
}

static struct turn *find(struct eval_turns *t, const struct eval_cache_key *key, uint64_t unit) {
  for (size_t i = 0; i < t->n_turns; i++)
    if (t->turns[i].unit == unit && eval_cache_same(&t->turns[i].key, key)) return &t->turns[i];
  return NULL;
}

enum eval_turns_next eval_turns_wait(struct eval_cache *c, const struct eval_cache_key *key,
                                     uint64_t unit, struct eval_go_on go_on) {
  if (!c) return EVAL_TURNS_LOOK;
  struct eval_turns *t = eval_cache_turns(c);
  enum eval_turns_next next = EVAL_TURNS_LOOK;
  assert(unit < key->units);
  resources_lock(&t->mu);
  while (!eval_cache_settled(c, key, unit)) {
    if (!find(t, key, unit)) {
      *TABLE_PUSH(t, turns) = (struct turn){.key = *key, .unit = unit};
      next = EVAL_TURNS_MINE;
      break;
    }
    pthreads_wait_ms(&t->ended, &t->mu, ASK_MS);
    resources_unlock(&t->mu);
    if (go_on.ask && !go_on.ask(go_on.ctx)) return EVAL_TURNS_STOPPED;
    resources_lock(&t->mu);
  }
  resources_unlock(&t->mu);
  return next;
}

void eval_turns_done(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit) {
  struct eval_turns *t = eval_cache_turns(c);
  resources_lock(&t->mu);
  struct turn *mine = find(t, key, unit);
  assert(mine);
  *mine = t->turns[--t->n_turns];
  pthread_cond_broadcast(&t->ended);
  resources_unlock(&t->mu);
}
