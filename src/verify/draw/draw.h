// Room: inputs for a model, or a part of one: drawn from a seed, of types and sizes that fit, with values that its
// nodes can take.
//
//   signal float[batch,128,t]   normal numbers                    t one number everywhere
//   length int64[batch]         as long as the axis that it is the length of (named so, or compared with its Range)
//   ids    int64[batch,n]       from 0 to what the Gather's table has, less one
//   mask   bool, or 0 and 1     what is compared with zero, cast to bool, or reaches an attention's mask
//
// Every array's stream depends on the seed and its name alone: leaving one out changes no other.
#ifndef WEIR_DRAW_H
#define WEIR_DRAW_H

#include "infer/infer.h"
#include "verify/arrays/array.h"

struct draw_shape { // --shape name=1x128x200
  const char *name;
  const int64_t *dims;
  uint32_t rank;
};

struct draw_options {
  uint64_t seed;
  int64_t length; // for the axis that says how long the input is (time, tokens); 0: one of our own
  int64_t batch;  // if it fits as well as a batch of one does; 0: that
  const struct draw_shape *shapes; // of inputs; they bind symbols too
  uint32_t n_shapes;
  const char *signal,
      *lengths;     // names of the inputs that are that, where the user says so; or NULL
  int64_t channels; // of the signal's axis 1 where it is not known; 0: from the model
};

// Numbers for symbols: one for each, the same for a whole case. For one thread at a time, as inference is.
struct draw;

// Binds symbols. `in` is inferred; it, the model and what the options name are kept until draw_close, and the model's rows
// that there are do not change. Sizes: a batch of one; the length as asked for; else what fits, found by inferring the
// model again with numbers, a bounded number of times. ERR_USAGE for a shape that does not fit; the message names the input.
int draw_open(struct draw **out, struct infer *in, const struct model *m,
              const struct draw_options *o, struct err *err);
// Two models with inputs of the same names: what fits one of them (`from`, 0 or 1), for both. False where the other cannot
// have these shapes (*err is as it was), or the one has none (*err says why). The shapes lie in *a until both are closed.
bool draw_open_alike(struct draw *out[2], struct infer *const in[2], const struct model *const m[2],
                     int from, const struct draw_options *o, struct arena *a, struct err *err);
void draw_close(struct draw *d); // may be NULL

enum draw_end {
  DRAW_DONE,
  DRAW_CANNOT // `why` says it: no tensor, rank not known, a type that nothing is drawn of
};

// How the reasons end that say what inference does not know.
#define DRAW_NOT_KNOWN "is not known"

// The value `value`, of any graph, as an array: its dims, and where inference knows the elements (shapes, axes) these; else
// elements that its readers take, between what numbers its maker gives. In *a, named as the value. `users`: nodes whose
// wants count (sorted ids of a part); n_users 0: all. Sizes that depend on elements are small numbers, the same
// for the whole case. At most 1 GiB. `why`: "it is a sequence", "its rank is not known".
enum draw_end draw_value(struct draw *d, uint32_t value, const uint32_t *users, uint32_t n_users,
                         struct arena *a, struct array *out, char why[256]);
// The same elements in another type of whole bytes, rounded; what is too large becomes the largest (float8) or infinite.
// What a narrower type makes of an array, given back in the array's own type, both types hold exactly: what both
// sides of a cast model are given. False: one of them is no number of whole bytes, or the array is not in memory.
bool draw_retype(const struct array *x, enum dtype to, struct arena *a, struct array *out);

// All inputs of the main graph that have no initializer, in order. `why` names the input that cannot be drawn.
enum draw_end draw_inputs(struct draw *d, struct arena *a, struct arrays *out, char why[256]);

// From now on normal numbers are so many times as large: beyond the bounds of a Clip behind a Conv. 1: as before.
void draw_enlarge(struct draw *d, float factor);

// The shapes that inputs of the main graph have here, as options for another model: those that have dims. In *a; names too.
uint32_t draw_shapes(const struct draw *d, struct arena *a, struct draw_shape **out);

// What symbols were bound to, for reports: "batch=1, time=64"; one without a name is "x[2]", of input and axis.
const char *draw_words(const struct draw *d, struct arena *a);

#endif
