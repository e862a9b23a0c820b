// What the files of this room share.
#ifndef WEIR_DRAW_PARTS_H
#define WEIR_DRAW_PARTS_H

#include "model/model_calls.h"
#include "verify/draw/draw.h"

// ---- chance ---------------------------------------------------------------------------------------

// SplitMix64 (Steele, Lea, Flood 2014): a counter and a mixing function of 64 bits. Where a stream begins is the seed
// mixed with a hash of the array's name.
struct draw_chance {
  uint64_t state;
};
struct draw_chance draw_chance_of(uint64_t seed, struct span name);
uint64_t draw_chance_next(struct draw_chance *c);
int64_t draw_chance_below(struct draw_chance *c, int64_t n); // 0 … n-1; n ≥ 1
float draw_chance_unit(struct draw_chance *c);               // multiples of 2^-24 in [0, 1)
// About normal, mean 0, variance 1: twelve numbers of 16 bits added up. Whole numbers until the last step, which is
// exact, so that every machine gives the same bits; none is beyond 6.
float draw_chance_normal(struct draw_chance *c);

// ---- wants ----------------------------------------------------------------------------------------

enum { DRAW_EQUALS = 8 };

// What those that read a value take for its elements.
struct draw_want {
  int64_t index_end;           // an index: below this; 0: no index
  int64_t index_low;           // … and not below this
  int64_t equals[DRAW_EQUALS]; // constants that it is compared with
  uint32_t n_equals;
  bool fixed;         // it is equals[0]
  bool mask;          // 1 keeps an element, 0 takes it out
  bool inverted;      // … or the other way round
  bool additive;      // … by adding: 0 keeps
  bool switched;      // floats: 0 keeps, 1 takes out
  bool full;          // nothing is taken out: its sum says how many there are
  bool length;        // as long as something
  int64_t length_of;  // … as so many; 0: not known
  bool condition;     // of a Loop: go on
  bool trips;         // how often a Loop turns
  bool counts;        // small and positive: dims, repeats, sizes
  bool axis;          // the number of an axis
  bool nonzero;       // a divisor
  float low, high;    // of floats; infinities: any
  bool bounded;       // integers lie in low … high too
  uint32_t asks_node; // elements follow from the dims of what this node makes; NO_ID: none
  uint32_t asks_slot;
};

// ---- state ----------------------------------------------------------------------------------------

enum draw_role {
  ROLE_BATCH,
  ROLE_CHANNEL,
  ROLE_IMAGE,
  ROLE_TOKENS,
  ROLE_TIME,
  ROLE_PAST,
  ROLE_TOTAL,
  ROLE_OTHER,
};

struct draw_symbol {
  const char *words; // its name, or the input and axis
  uint8_t role;
  bool fixed; // by --shape or --lengths
};

struct draw_input {
  uint32_t value;
  const struct draw_shape *shape; // of the user; NULL
  struct infer_type type;
  uint32_t length_axis; // the axis that says how long it is; NO_ID: none
  const int64_t *dims;  // bound; NULL: rank not known, or no tensor
};

struct draw {
  struct infer *in;
  // Inferred again with the numbers that inputs have; `in` itself where all are known.
  struct infer *sized;
  const struct model *m;
  struct draw_options o;
  struct arena arena;
  struct model_calls calls;
  TABLE(struct draw_input, inputs);
  TABLE(struct draw_symbol, symbols); // of `in`, and their numbers
  TABLE(struct dims_binding, bound);
  float factor;                      // of normal numbers
  TABLE(struct dims_binding, small); // symbols of `sized`, of which nothing says a size
};

// Binds the symbols of the inputs and makes d->sized.
int draw_bind(struct draw *d, struct err *err);

// What is wrong about a model that was inferred with the numbers of a case: the less the better.
uint32_t draw_fit_wrong(struct draw *d, struct infer *in);

// What the nodes that read `value` want; `users` as draw_value has it.
void draw_want_of(struct draw *d, uint32_t value, const uint32_t *users, uint32_t n_users,
                  struct draw_want *out);

// n elements of the input `slot` of a node, where they follow from what it makes. False: they do not.
bool draw_asks(struct draw *d, uint32_t node, uint32_t slot, uint32_t n, double *list);

// Between what numbers the elements lie because of how they are made.
struct draw_range {
  float low, high;
  bool known;      // it says anything
  float either[2]; // two: one of these, where `n_either` is 2
  uint32_t n_either;
};
void draw_range_of(struct draw *d, uint32_t value, struct draw_range *out);

// The dims of a value in this case; false: the rank is not known, or they have no value.
bool draw_dims(struct draw *d, uint32_t value, int64_t dims[ARRAY_MAX_RANK], uint32_t *rank);
// The elements of a small constant, or of what inference knows; false: not known as numbers.
bool draw_known(struct draw *d, uint32_t value, double *list, uint32_t room, uint32_t *n);

// ---- texts (draw_strings.c) ----

// A tensor of strings of these dims, in *a. False: there would be too many.
bool draw_strings(struct draw *d, uint32_t value, const int64_t *dims, uint32_t rank,
                  struct arena *a, struct array *out);

// ---- elements: drawn, converted, packed (draw_elements.c) ----

#define DRAW_BYTES_MAX ((uint64_t)1 << 30)

struct draw_asked {
  uint32_t value;
  const uint32_t *users;
  uint32_t n_users;
  const struct draw_input *input; // of the main graph; NULL: it is none
};

// Fills the elements of x, which lie at `at`.
void draw_elements(struct draw *d, const struct draw_asked *asked, const struct array *x,
                   uint8_t *at);

#endif
