// Room: the state that all evaluators of a run share: the cache, the turns, the watchers of error figures.
//
// What workers of a run found out about weights, kept for the recipes that ask for it next: scales
// and zero points of quantizations, codes that lie transposed, error figures, reductions. One for all workers,
// within a budget.
//
// It is a store: (key, unit) -> bytes. A key names a list of units of equal size; a unit is whatever
// the computing side finds together (the scales and zero points of a column or a block row, a chunk
// of codes), in one part or two. It changes no byte of any output, only how often sources are read.
// What the budget does not hold goes to a file without a name, if the caller has a place for one.
#ifndef WEIR_EVAL_CACHE_H
#define WEIR_EVAL_CACHE_H

#include "platform/files.h"
#include "recipe/recipe.h"

struct eval_cache; // shared by threads

// What is kept. Of TURNS nothing is: units of them are only waited for (eval_turns.h).
enum eval_cache_kind {
  EVAL_CACHE_STATISTICS,
  EVAL_CACHE_CODES,
  EVAL_CACHE_FIGURES,
  EVAL_CACHE_REDUCED,
  EVAL_CACHE_FACTOR,
  EVAL_CACHE_PANELS,
  EVAL_CACHE_PIECES,
  EVAL_CACHE_TURNS
};

// Parts of a unit. Where memory is short, FIRST parts are kept before the OTHER ones.
enum eval_cache_part { EVAL_CACHE_FIRST, EVAL_CACHE_OTHER, EVAL_CACHE_PARTS };

struct eval_cache_key {
  enum eval_cache_kind kind;
  // The operand; of CODES, FIGURES, PANELS and PIECES the recipe of the codes, of REDUCED the reduction, of FACTOR the second moments.
  uint32_t of;
  // Of STATISTICS that also come of second moments, and of scales of rows: their recipes, else NO_ID; 0 of others.
  uint32_t gram, rows;
  struct recipe_quantization q; // as in the table of recipes
  uint64_t units;
  uint32_t bytes[EVAL_CACHE_PARTS]; // of a unit's parts; 0: it has none
  bool brief; // a unit is found again sooner than it is written to the file and read there
};
bool eval_cache_same(const struct eval_cache_key *a, const struct eval_cache_key *b);

// Where what does not fit can go. `open` is called at most once, when that is first needed: an
// empty file to read and write, which the cache closes, or none (then it is found again when it is
// asked for). NULL: nowhere.
struct eval_cache_file {
  struct file (*open)(void *ctx);
  void *ctx;
};

// NULL if there is no memory for it: it can be done without.
struct eval_cache *eval_cache_open(size_t bytes, struct eval_cache_file file);
void eval_cache_close(struct eval_cache *c);

// Bytes that hold the zero points of the tensor that has most of them. Codes are made in one read;
// where no file can be had scales may take another, which finds the zero points again but cannot
// keep more of them than there is room for: with less than this, a weight too large for all its
// scales to be kept is then read a third time.
// Also those of the largest reduction. 0: nothing is quantized or reduced. Of n recipes: those of `ids`, or the first ones (NULL).
uint64_t eval_cache_wanted(const struct recipes *r, const uint32_t *ids, uint32_t n);

// The NULL cache holds nothing and takes nothing. `unit` < key->units. Parts that the unit has not:
// NULL.
void eval_cache_put(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    const uint8_t *first, const uint8_t *other);
// The same of n units, whose parts lie one behind the other.
void eval_cache_put_units(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                          uint64_t n, const uint8_t *first, const uint8_t *other);
// Bytes [off, off + n) of a part of the unit; false: not there. An entry of which as many bytes were
// handed out as it has is no longer needed, as far as the cache knows.
bool eval_cache_get(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                    enum eval_cache_part part, size_t off, uint8_t *out, size_t n);
// All of a part of n units, one behind the other: as many as are there, from the first on, and come together.
uint64_t eval_cache_get_units(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                              uint64_t n, enum eval_cache_part part, uint8_t *out);
// All of a part, for who makes something else of it: that does not count as handed out.
bool eval_cache_look(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                     enum eval_cache_part part, uint8_t *out);
uint64_t eval_cache_look_units(struct eval_cache *c, const struct eval_cache_key *key,
                               uint64_t unit, uint64_t n, enum eval_cache_part part, uint8_t *out);

// Is there room for all units, in half of the memory or in the file, as far as that can be said before they are put?
bool eval_cache_fits(struct eval_cache *c, const struct eval_cache_key *key);
// Is a unit there? And is there nothing to wait for: is it there, or known not to be kept?
bool eval_cache_has(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit);
// The first unit in [unit, end) that is there, or end.
uint64_t eval_cache_next(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit,
                         uint64_t end);
// How often anything was put or asked so far, whatever the number of units; for tests.
uint64_t eval_cache_questions(const struct eval_cache *c);
bool eval_cache_settled(struct eval_cache *c, const struct eval_cache_key *key, uint64_t unit);

// Whose turn it is to compute units of this cache (eval_turns.h).
struct eval_turns *eval_cache_turns(struct eval_cache *c);

#endif
