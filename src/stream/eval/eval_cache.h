// What was found out about weights while they were quantized (scales and zero points), kept for the
// recipes that ask for it next: one for all workers of a run, within a budget.
//
// A tensor's scales are a list of units (a column's, a block row's): whatever the computing side
// finds together. The cache holds the bytes of their elements as the parts hold them: a unit's zero
// points are packed from a byte on. It changes no byte of any output, only how often sources are
// read. What the budget does not hold goes to a file without a name, if the caller has a place for
// one.
//
// A unit that takes a long read of a weight is computed by one worker, while the others that want
// it wait:
//
//   switch (eval_cache_wait(c, &key, unit, go_on)) {
//   case EVAL_CACHE_MINE: compute; eval_cache_put (unless that failed); eval_cache_done; break;
//   case EVAL_CACHE_LOOK: look it up; not there: compute
//   case EVAL_CACHE_STOPPED: leave
//   }
#ifndef WEIR_EVAL_CACHE_H
#define WEIR_EVAL_CACHE_H

#include "recipe.h"

struct eval_cache; // shared by threads

// What is kept: of CODES and FIGURES a unit is a chunk of codes (eval_once.c), and what the calls
// below name scales is theirs; of TURNS nothing is, they are only waited for.
enum eval_cache_kind {
  EVAL_CACHE_STATISTICS,
  EVAL_CACHE_CODES,
  EVAL_CACHE_FIGURES,
  EVAL_CACHE_TURNS
};

struct eval_cache_key {
  enum eval_cache_kind kind;
  uint32_t of;                  // the operand; of other kinds the recipe of the codes
  struct recipe_quantization q; // as in the table of recipes
  uint64_t units;
  uint32_t scale_bytes, zero_bytes; // of a unit; zero_bytes 0: there are none
};

// Where what does not fit can go. `open` is called at most once, when that is first needed: a
// descriptor of an empty file to read and write, which the cache closes, or -1 (then it is found
// again when it is asked for). NULL: nowhere.
struct eval_cache_file {
  int (*open)(void *ctx);
  void *ctx;
};

// NULL if there is no memory for it: it can be done without.
struct eval_cache *eval_cache_open(size_t bytes, struct eval_cache_file file);
void eval_cache_close(struct eval_cache *c);

// Bytes that hold the zero points of the tensor that has most of them. Codes are made in one read;
// where no file can be had scales may take another, which finds the zero points again but cannot
// keep more of them than there is room for: with less than this, a weight too large for all its
// scales to be kept is then read a third time.
// 0: nothing is quantized. Of n recipes: those of `ids`, or the first ones (NULL).
uint64_t eval_cache_wanted(const struct recipes *r, const uint32_t *ids, uint32_t n);

// The NULL cache holds nothing and takes nothing. `unit` < key->units.
void eval_cache_put(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    const uint8_t *scales, const uint8_t *zeros);
// Bytes [off, off + n) of the unit's scales or zeros; false: not there. An entry of which as many
// bytes were handed out as it has is no longer needed, as far as the cache knows.
bool eval_cache_scales(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                       size_t off, uint8_t *out, size_t n);
bool eval_cache_zeros(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                      size_t off, uint8_t *out, size_t n);
// All scales and zeros of a unit (zeros NULL: not wanted), for who makes codes with them: that does
// not count as handed out.
bool eval_cache_unit(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     uint8_t *scales, uint8_t *zeros);

// Is a unit there?
bool eval_cache_has(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit);

// Asked now and then by what takes long; false: leave. NULL: always go on. The cache asks with no
// lock held.
struct eval_go_on {
  bool (*ask)(void *ctx);
  void *ctx;
};

enum eval_cache_turn {
  EVAL_CACHE_LOOK,    // it is there, or will not be kept
  EVAL_CACHE_MINE,    // nobody has it: the others wait for the caller, until eval_cache_done
  EVAL_CACHE_STOPPED, // go_on said so while another one was computing
};
// Waits while another thread computes this unit (asking go_on at least every 100 ms), and says what
// to do now. If that thread is done without having put it, one of those that wait has its turn. A
// thread whose turn it is may wait for units of what the key's operand is made of, one with TURNS
// of codes also for their statistics, and no others: recipes know no circles, so neither do the
// waits. The NULL cache: LOOK. `unit` < key->units.
enum eval_cache_turn eval_cache_wait(struct eval_cache *c, const struct eval_cache_key *key,
                                     uint64_t unit, struct eval_go_on go_on);
// The end of a turn that was the caller's, whether the unit was put or not. Wakes those that wait.
void eval_cache_done(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit);

#endif
