// What a rule of inference is given: the node at hand, what is known of its inputs, its attributes, and
// where it says what its outputs are.
//
// A rule is a function of a site. It asks for inputs, and gives a type for every output of which it
// can say something. What it does not give is not known, and then the rule says why: site->why, or
// infer_invalid where the node cannot run with such inputs. Lists and texts live in site->a, until the
// rule returns; so do the answers, but for those of the model.
#ifndef WEIR_INFER_SITE_H
#define WEIR_INFER_SITE_H

#include "infer/infer.h"
#include "schema/schema.h"

enum { INFER_RANK_MAX = 64 }; // what has more dims has no rank for us

struct infer_site {
  struct infer *in;
  const struct model *m;
  struct dims *d;
  struct arena *a;
  uint32_t node;
  uint32_t n_in, n_out;                     // slots
  int64_t version;                          // of its domain's opset
  const struct schema_operator *op;         // of a node with a rule
  const struct schema_signature *signature; // at its version; NULL: before the operator's first
  enum infer_why why;                       // INPUT where the rule says nothing else
  uint32_t state; // of steps: what it sets at one step it finds at the next
};

typedef void infer_rule(struct infer_site *s);
// Rules of operators with bodies: called with 0, 1, 2 …, each time after the graph that it gave was
// inferred, until it gives NO_ID. It sets the types of the graph's inputs.
typedef uint32_t infer_steps(struct infer_site *s, uint32_t step);

// ---- inputs ------------------------------------------------------------------------------------

// Is the slot filled? An optional input that is left out is not.
bool infer_has(const struct infer_site *s, uint32_t slot);
// All unknown, and false, where the slot is empty or nothing is known.
bool infer_in(struct infer_site *s, uint32_t slot, struct infer_type *out);
// Its elements, where there is a list; some may be unknown (num NO_ID).
bool infer_list(struct infer_site *s, uint32_t slot, const struct infer_number **list, uint32_t *n);
// The elements as whole expressions: false, and NULL and 0, if one of them is not known, or no whole number.
bool infer_whole(struct infer_site *s, uint32_t slot, const dim_id **list, uint32_t *n);
// As numbers: false if one of them is not.
bool infer_ints(struct infer_site *s, uint32_t slot, const int64_t **list, uint32_t *n);
bool infer_int(struct infer_site *s, uint32_t slot, int64_t *out); // of one element

// ---- attributes; of a function's caller where the body refers to them ------------------------------

// `fallback` where absent. False: it is there with another type, or too large.
bool infer_attr_int(struct infer_site *s, const char *name, int64_t fallback, int64_t *out);
bool infer_attr_float(struct infer_site *s, const char *name, float fallback, float *out);
bool infer_attr_string(struct infer_site *s, const char *name, const char *fallback,
                       struct span *out);
// n = 0 and NULL where absent.
bool infer_attr_ints(struct infer_site *s, const char *name, const int64_t **list, uint32_t *n);
bool infer_attr_floats(struct infer_site *s, const char *name, const float **list, uint32_t *n);
// NULL: absent. Follows a reference to the attribute of a function's caller.
const struct model_attr *infer_attr(struct infer_site *s, const char *name);
uint32_t infer_attr_graph(struct infer_site *s, const char *name); // NO_ID: absent

// An axis of a rank, negative ones from the end: false, and the node is invalid, if there is none.
bool infer_axis(struct infer_site *s, int64_t axis, uint32_t rank, uint32_t *out);
// Axes of Squeeze, Unsqueeze, Reduce…: the attribute, or the constant input at `slot`. `given`: there are some
// (perhaps not known: then the answer is false).
bool infer_axes(struct infer_site *s, uint32_t slot, bool *given, const int64_t **axes,
                uint32_t *n);

// ---- outputs -----------------------------------------------------------------------------------

// A dtype that the rule leaves open is the one that the signature says. A dim below 0 makes the node
// invalid.
void infer_out(struct infer_site *s, uint32_t slot, const struct infer_type *type);
enum dtype infer_dtype_by_signature(struct infer_site *s, uint32_t slot);
// The same in parts. A dim that is NO_ID becomes a symbol of its own.
void infer_out_dims(struct infer_site *s, uint32_t slot, enum dtype dtype, const dim_id *dims,
                    uint32_t rank);
void infer_out_dtype(struct infer_site *s, uint32_t slot,
                     enum dtype dtype); // the rank is not known
// Its dims have numbers as dims whose product is n <= INFER_LIST.
void infer_out_list(struct infer_site *s, uint32_t slot, const struct infer_number *list,
                    uint32_t n);
// The node cannot run with these inputs: said once, unless it lies in a body, and its outputs are unknown. Takes a sentence without the
// node's name: "its operand has rank 2, and axis 3 is none of it".
void infer_invalid(struct infer_site *s, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
// Gives back `is`; true: the node cannot run, as above.
bool infer_invalid_if(struct infer_site *s, bool is, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// Gives back `is`: is what the dims of output 0 follow from known? If not, the output has this element type and no more.
bool infer_known(struct infer_site *s, bool is, enum dtype dtype);

enum { INFER_LIST = 1024 }; // elements of a small value

// ---- values of bodies (steps) --------------------------------------------------------------------

uint32_t infer_graph_input(const struct infer_site *s, uint32_t graph,
                           uint32_t i); // value ids, or NO_ID
uint32_t infer_graph_output(const struct infer_site *s, uint32_t graph, uint32_t i);
bool infer_value(struct infer_site *s, uint32_t value, struct infer_type *out);
bool infer_value_list(struct infer_site *s, uint32_t value, const struct infer_number **list,
                      uint32_t *n);
// The value as an input of a body: what is declared of it counts too.
void infer_bind(struct infer_site *s, uint32_t value, const struct infer_type *type);
// Both types at once: what differs is not known. Dims in s->a.
void infer_join(struct infer_site *s, const struct infer_type *a, const struct infer_type *b,
                struct infer_type *out);
// Dims that speak of symbols from this id on are not known outside.
void infer_leave(struct infer_site *s, struct infer_type *type, dim_id symbols);
uint32_t infer_depth(const struct infer_site *s); // graphs that are being inferred around the node
// Have so many nodes been visited that bodies are no longer to be inferred with care?
bool infer_hurry(const struct infer_site *s);
void infer_bind_list(struct infer_site *s, uint32_t value, const struct infer_number *list,
                     uint32_t n);

// ---- small things that rules share ---------------------------------------------------------------

dim_id *infer_dim_room(struct infer_site *s, uint32_t n); // n of NO_ID, in s->a
static inline dim_id infer_one(struct infer_site *s) {
  return dims_number(s->d, 1);
}
static inline dim_id infer_size_of(struct infer_site *s, int64_t n) {
  return dims_number(s->d, n);
}
// Dim i of a type, from the end if i is negative; NO_ID: there is none, or the rank is not known.
dim_id infer_dim(const struct infer_type *t, int32_t i);
// The dim that a and b have where they meet in a broadcast; NO_ID and the node is invalid if they cannot.
dim_id infer_meet(struct infer_site *s, dim_id a, dim_id b);
// Dims that must be equal in every run. NO_ID, and the node is invalid, if they are known not to be.
dim_id infer_same_dim(struct infer_site *s, dim_id a, dim_id b);
// Broadcast of n types: false if the rank of one is not known.
bool infer_broadcast(struct infer_site *s, const struct infer_type *types, uint32_t n,
                     const dim_id **dims, uint32_t *rank);
// The product of dims; NO_ID if one is.
dim_id infer_product(struct infer_site *s, const dim_id *dims, uint32_t n);

// The rule behind a word of the table of operators; both NULL where there is none yet.
struct infer_row_of_rules {
  infer_rule *rule;
  infer_steps *steps;
};
struct infer_row_of_rules infer_rule_of(enum schema_rule rule);

#endif
