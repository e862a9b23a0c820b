// The tables behind struct infer. For infer*.c beside the rules.
#ifndef WEIR_INFER_TABLE_H
#define WEIR_INFER_TABLE_H

#include "infer/infer_leads.h"
#include "infer/inside/infer_site.h"
#include "model/model_calls.h"

enum row_flag {
  ROW_SEEN = 1,
  ROW_SET = 2,      // given, or noted by a pass: not to be made anew
  ROW_FILLED = 4,   // infer_fill had it
  ROW_LEFT_OUT = 8, // an input of a function that the call at hand leaves out
};

struct infer_row {
  uint32_t shape; // row + 1 in shapes; 0: the rank is not known
  uint32_t list;  // row + 1 in lists; 0: none
  uint8_t dtype, kind, why, flags;
};

struct infer_shape {
  const dim_id *dims; // in `kept`
  uint32_t rank;
  uint32_t hash;
};

struct infer_elements {
  const struct infer_number *at; // in `kept`
  uint32_t n;
};

// What waits while a graph is inferred.
struct infer_frame {
  uint32_t graph;
  uint32_t next;    // the node of its list that comes next
  uint32_t pending; // rows of `pending` that were there when it began
  uint32_t node;    // the node whose body this is; NO_ID: the main graph, or nobody's
  uint32_t step;    // of that node: which of its bodies
  uint32_t call;    // row + 1 of the call whose body this is in; 0: in none
  uint32_t round;   // what visited holds of the nodes that it has visited
  uint32_t state;   // of the node's steps
  dim_id symbols; // only symbols from this one on belong to the body: others live outside, where it
                  // may never run
  bool may_be_idle; // it is a body, or in one, or called from one: perhaps it never runs
};

// A call of a function: of its attributes bodies speak.
struct infer_call {
  uint32_t node;  // the call
  uint32_t outer; // row + 1 of the call that it is in, or 0
  uint32_t function;
  dim_id symbols; // symbols from this one on came with the call
};

// What infer_all has to tell. Of a value, what its newest row was made of counts.
struct infer_said {
  enum { INFER_SAID_NODE, INFER_SAID_DIM, INFER_SAID_RANK, INFER_SAID_DTYPE } kind;
  uint32_t node, value;
  uint32_t said, found; // dims, ranks or dtypes
  const char *sentence; // of a node; in `kept`
};

struct infer {
  const struct model *m;
  struct dims *d;
  struct infer_options o;
  const struct infer_told *told;
  struct arena kept, scratch;
  TABLE(struct infer_row, rows); // by value id
  TABLE(struct infer_shape, shapes);
  TABLE(uint32_t, shape_slots); // open addressing, row + 1
  uint64_t shape_dims;          // held by shapes
  TABLE(struct infer_elements, lists);
  uint64_t elements;        // held by lists
  TABLE(uint32_t, visited); // by node id: the round in which it was last visited
  uint32_t round;
  TABLE(struct infer_frame, frames);
  TABLE(uint32_t, pending); // nodes that others wait for
  TABLE(struct infer_call, calls);
  TABLE(struct infer_row, joined); // by value id: of bodies of functions, over all calls
  struct schema_names names;
  TABLE(dim_id, by_name);   // by name id: what a declared dim of that name means, + 1
  TABLE(uint32_t, name_of); // by dim id: the name of its text, + 1
  struct infer_memo *memo;  // calls that were inferred before (infer_calls.c)
  struct model_calls callees;
  uint32_t n_functions; // when callees was made
  uint64_t visits, call_visits;
  uint64_t calls_joined;    // call_visits when calls were joined
  uint64_t visits_before;   // this walk
  TABLE(uint32_t, changed); // values whose rows infer_fill has not had, unless it has had none
  uint64_t fills;           // rows that it has had, in all
  bool fill_all;            // it has had none: all rows count
  bool calls_limited;       // some call was not entered
  // Expressions with a smaller id are made of symbols of the main graph's inputs.
  uint32_t input_dims;
  TABLE(dim_id,
        nameless); // symbols of dims of inputs that have no name: those of an input side by side
  TABLE(uint32_t, nameless_of); // by value id: an input's first of them, + 1
  TABLE(struct infer_said, said);
  TABLE(uint32_t, said_of); // by value id: the first that is said of it, + 1
  TABLE(uint32_t, misdeclared);
  bool believed;      // a declaration made something known
  bool tells;         // infer_all: what is said is kept
  uint32_t first_new; // nodes from this one on came since the last walk
  uint32_t assumed;   // value + 1, 0: none (infer_assume)
  bool assumed_is, contradicted;
  TABLE(uint32_t, stuck);   // nodes of bodies that could not run when they were visited
  uint32_t n_followed;      // of them, whose values are in `leads`
  struct infer_leads leads; // what leads to those that cannot run
  bool only_new;            // infer_more: nodes whose values have rows are not visited
};

struct infer_row *infer_row_at(struct infer *in, uint32_t value); // made where there is none
// A dim of a declaration that has neither number nor name.
bool infer_is_nameless(const struct model *m, struct model_dim d);
// Gives the symbols of the main graph's inputs their bounds, before any other; once.
void infer_name_inputs(struct infer *in);
uint32_t infer_shape_of(struct infer *in, const dim_id *dims, uint32_t rank); // row + 1
void infer_row_type(const struct infer *in, const struct infer_row *row, struct infer_type *out);
// Do the model's declarations of a value, or its constant, say as much as is known of its dims?
bool infer_declares(struct infer *in, uint32_t value, const struct infer_type *known);
// Puts down what is known of a value: `type` joined with what the model declares, as the options say.
void infer_settle(struct infer *in, uint32_t value, const struct infer_type *type,
                  enum infer_why why);
void infer_settle_list(struct infer *in, uint32_t value, const struct infer_number *list,
                       uint32_t n);
// Of inputs, initializers and constants: from the model itself.
void infer_source(struct infer *in, uint32_t value);
// Notes that dims are equal, where a run that gets here is all that is needed to know it. False: they are known not
// to be.
bool infer_unite(struct infer *in, dim_id a, dim_id b);
// Every row that was changed is told, for infer_fill.
void infer_changed(struct infer *in, uint32_t value);
// Keeps for infer_all that the node cannot run.
void infer_say_node(struct infer *in, uint32_t node, const char *sentence);
// Tells all that was kept.
void infer_tell(struct infer *in);

// The site of a node, in the scratch's own lifetime.
struct infer_site infer_site_of(struct infer *in, uint32_t node);

// infer_calls.c: a call of a function of the model. As steps: NO_ID when it is done.
uint32_t infer_call_step(struct infer_site *s, uint32_t function, uint32_t step);
void infer_calls_done(struct infer *in);
void infer_calls_join(struct infer *in);

#endif
