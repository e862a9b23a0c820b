// Room: the kit of the passes: questions about a model and changes to it, written once for all of them.
//
//   struct kit k;
//   kit_init(&k, env, "tidy");
//   for (uint32_t g = 0; kit_graph(&k, &g); g++)
//     for (uint32_t n = k.m->graphs[g].first_node, next; n != NO_ID; n = next) {
//       next = k.m->nodes[n].next;
//       if (kit_op(&k, n) != OP_Identity) continue;
//       kit_site(&k, n, "identity");
//       if (kit_bypass(&k, n, kit_in(&k, n, 0))) kit_converted(&k, n, "identity");
//     }
//   return kit_done(&k, err);
//
// A question about something that is not there or not known is answered by false, NO_ID, OP_NONE or
// KIT_UNKNOWN; value and node ids given to a question may be NO_ID, which is such a thing. Nothing
// here recurses over the model. All changes go through edit.h: what the kit adds is names,
// places and the small dances; mixing its calls with edit_* is fine (see "order" for the one
// exception).
//
// Lifetimes: `k.site` is emptied by kit_site; names, lists and elements that the kit gives are
// valid until then, unless said otherwise. Pointers into the model (attribute lists, dims) are
// valid until the next edit.
//
// More of the same manual: kit_ops.h (operators as numbers), kit_names.h (names),
// model_types.h (types of values), edit_groups.h (what a group of edits did), weights.h (passes over all weights: which
// constants there are, and taking their place), name_filter.h (the options exclude and include of passes over nodes).
// New tensors are built with recipe_*.
#ifndef WEIR_KIT_H
#define WEIR_KIT_H

#include "infer/infer.h"
#include "model/model_types.h"
#include "passes/kit/kit_names.h"
#include "passes/kit/kit_ops.h"
#include "passes/pass.h"
#include "passes/questions/name_filter.h"

struct kit {
  struct pass_env *env;
  struct model *m;
  struct edits *e;
  struct recipes *r;
  const char *pass;  // its name, in groups of edits
  struct arena site; // until the next kit_site
  struct kit_names names;
  struct model_types *types;
  // Where new nodes go and what they are called after: set by kit_site, free to be changed (to a stem
  // that lies in `site`, not in the model: names there move).
  uint32_t graph, before; // before NO_ID: at the graph's end
  struct span stem;
  // For the habits of existing tools, where a pass keeps them; new nodes' outputs are then given by
  // KIT_OUT. Which names a new node's differs from (kit_init: KIT_EVERYWHERE), and whether it has none
  // where KIT_CALLED does not give it one.
  enum kit_space node_names;
  bool nameless;
  // The pass rewrites nothing by dims that a runtime would then know: kit_type hides none. Set by those that change what numbers
  // are stored as, or the opset: they must not take dims for unknown that decide what is right.
  bool tells_no_dims;
  struct kit_inside *in; // tables of kit*.c
};

// One run of a pass. `pass` is kept. kit_done gives everything back; -1 with *err if a weight that
// was looked at could not be read (the answer then was "not known", and the run must not go on).
void kit_init(struct kit *k, struct pass_env *env, const char *pass);
int kit_done(struct kit *k, struct err *err);
// The first graph at or after *g that lives and belongs to no training and to no function of onnx_passes.ops, among
// those that the model had at kit_init: false behind the last.
bool kit_graph(const struct kit *k, uint32_t *g);
// Calls `visit` for the nodes of these graphs, in order, that the filter lets through, and warns of its
// patterns that no node has. `visit` may remove its node and those before it.
void kit_visit(struct kit *k, const struct name_filter *nodes,
               void (*visit)(struct kit *k, uint32_t node));
// The `run` of a pass that is nothing but that, over what inference knows, and whose options are a struct name_filter:
// kit_init, kit_infer, kit_visit of what its row says (struct pass.visit), kit_done.
int kit_run(struct pass_env *env, void *nodes, struct err *err);

// ---- operators (kit_ops.c) -----------------------------------------------------------------------

// In constant time. OP_NONE for a dead node, for one that may be a call (a function of the model has the
// operator's name, and the domain is not onnx_passes.ops), and for one with more inputs than the operator has: kit_n_in is within its row's max_in.
enum op kit_op(struct kit *k, uint32_t node);
// Node that makes the value and its operator: NO_ID and OP_NONE for inputs, initializers.
uint32_t kit_maker(const struct kit *k, uint32_t value);
enum op kit_maker_op(struct kit *k, uint32_t value);
// Slots: NO_ID where left out or past the end. kit_n_in, kit_n_out: without empty slots at the end.
uint32_t kit_in(const struct kit *k, uint32_t node, uint32_t slot);
uint32_t kit_out(const struct kit *k, uint32_t node, uint32_t slot);
uint32_t kit_n_in(const struct kit *k, uint32_t node);
// Is the value an initializer that a caller may replace, since it is an input too? (Asked where it is no
// constant. For those who have no kit, too.)
static inline bool kit_is_overridable(const struct model *m, uint32_t value) {
  return value != NO_ID && m->values[value].kind == VALUE_INITIALIZER &&
         m->values[value].flags & VALUE_IS_INPUT;
}
// Is the value an input of a function that some call leaves out? Then an optional input that holds it
// may be none: it must not become an operand that an operator needs. (For those who have no kit, too.)
static inline bool kit_may_be_left_out(const struct model *m, uint32_t value) {
  return value != NO_ID && m->values[value].flags & VALUE_LEFT_OUT;
}
uint32_t kit_n_out(const struct kit *k, uint32_t node);

// ---- types (kit_types.c; the table: model_types.h) -----------------------------------------------

// What is known of the value's type: constants, what was noted, declarations, and the dtype that a
// Cast or a comparison gives. Inference fills the same table. Unless the pass tells no dims, none are given of a value whose
// dims lead to a body that cannot run (infer_dims_lead_to_stuck).
bool kit_type(struct kit *k, uint32_t value, struct model_type *out);
void kit_note_type(struct kit *k, uint32_t value, const struct model_type *type);
void kit_note_like(struct kit *k, uint32_t value, uint32_t other); // other's type
enum dtype kit_dtype(struct kit *k, uint32_t value);               // UNDEFINED: not known
bool kit_rank(struct kit *k, uint32_t value, uint32_t *rank);
// All dims as numbers, into `dims` with room for `most`: false if one is not, or there are more.
bool kit_static_dims(struct kit *k, uint32_t value, int64_t *dims, uint32_t most, uint32_t *rank);
bool kit_static(struct kit *k, uint32_t value);
// Dim i (negative: from the end) as a number, or a symbol's name id, or {-1, NO_ID}.
struct model_dim kit_dim(struct kit *k, uint32_t value, int64_t i);
// Of a Softmax: over how many elements is each of its sums? 0: that is not known. (Before opset 13 everything from the axis on is
// summed up.)
uint64_t kit_softmax_terms(struct kit *k, uint32_t node);
// ONNX Runtime's operators on codes multiply by a quotient of scales. Some refuse a quotient, or wrap around past int32 (1.31.1). Does
// `on_codes` in the place of the node take these scales: y for its output, x for its input (for several inputs the largest, for a Mul their
// product, for a Sigmoid 1)?
bool kit_takes_scales(struct kit *k, uint32_t node, enum op on_codes, double x, double y);
bool kit_dim_equal(struct model_dim a, struct model_dim b); // known to be: equal numbers or symbols
// Known to have equal dims: every pair equal.
bool kit_same_dims(struct kit *k, uint32_t a, uint32_t b);
// Is it known that broadcasting `a` to the dims of `to` changes nothing of `to`'s: every dim of a,
// from the end, is 1 or equal?
bool kit_broadcasts(struct kit *k, uint32_t a, uint32_t to);

// What inference found about the model (infer.h), made now if no pass before did; kit_type knows it then. What a
// pass makes itself is inferred behind it, or by kit_infer_more.
struct infer *kit_infer(struct kit *k);
// The same for who asks inference itself: kit_type says what is declared, as before.
struct infer *kit_facts(struct kit *k);
void kit_infer_more(struct kit *k);
// Where a pass inferred: takes back declared dims that are wrong (infer_misdeclared), with one warning that names the
// first value. Nothing where a pass was told to keep them. pass_run.c calls it behind the last
// pass; so does a pass that forgets what was inferred.
int kit_drop_misdeclared(struct pass_env *env, struct err *err);
// Takes back what is declared of a value in a function, which may have other dims in each call. Inputs and outputs of graphs there keep
// their element type, which no edit takes away. False: there is nothing to take back.
bool kit_undeclare(struct kit *k, uint32_t value);
// Declares (value_info) what new nodes make, as far as its rank is known and nothing is said of it: for models with a Scan outside of
// functions, which ONNX Runtime runs only where its own inference finds ranks. Behind operators on codes it finds none where it does
// behind those whose place they took. So inference is to be asked (kit_infer) before these go.
bool kit_has_scan(struct kit *k);
void kit_declare_made(struct kit *k);

// ---- uses (kit_uses.c) ---------------------------------------------------------------------------

// The input slots that hold a value, in its graph and those inside:
//   for (struct kit_use u = kit_uses(k, v); kit_use(k, &u);) … u.node, u.slot
// The slot at hand may be changed or its node removed; other changes of uses end the walk's sense.
struct kit_use {
  uint32_t node, slot;
  uint32_t next; // internal
};
struct kit_use kit_uses(const struct kit *k, uint32_t value);
bool kit_use(const struct kit *k, struct kit_use *u);
// Uses and listings as graph output, counted no further than `limit`.
uint32_t kit_use_count(const struct kit *k, uint32_t value, uint32_t limit);
// The same of a constant, by whatever names it goes: uses by other nodes than Identity, of the tensor's
// own value and of all that Identity nodes make of it. An Identity that nobody uses is one too: it
// keeps the tensor.
uint32_t kit_constant_use_count(struct kit *k, uint32_t value, uint32_t limit);
bool kit_is_output(const struct kit *k, uint32_t value); // of its graph
bool kit_unused(const struct kit *k, uint32_t value);    // neither
// The one node that uses the value, in however many slots; NO_ID if there are others or none, or
// the value is a graph output.
uint32_t kit_sole_user(const struct kit *k, uint32_t value);
// How far what stands in a graph may reach: the outermost graph around it with no body of an operator in between that has
// no row. Such an operator (BeamSearch) may look for values of its body by name, and nobody here knows what it gives the body
// of what is outside: nothing goes in or out of it that did not before, and no name in it changes.
uint32_t kit_home(struct kit *k, uint32_t graph);
// Does the value's name mean it in that graph? (Its own or one inside, with no other of the name
// between, and within its home.)
bool kit_sees(struct kit *k, uint32_t graph, uint32_t value);
// May another value take its name and all its uses? Not if a user takes it from outside and has, further on, a value
// of the name itself; nor if it hides a value around it: no edit makes a value that does.
bool kit_can_stand_in(struct kit *k, uint32_t value);

// Has the tensor no elements? Operators may take such an input for one that is left out: in a body it stays where it is
// used, so that who looks at the body alone sees that.
bool kit_is_empty(const struct kit *k, uint32_t tensor);

// ---- attributes (kit_attrs.c) --------------------------------------------------------------------

// How an attribute is there. DEFAULT: absent, and the operator gives it a value at the node's
// version (schema.h). UNKNOWN: a reference to a function's attribute, of another type, or
// too large to be held.
enum kit_state { KIT_ABSENT, KIT_GIVEN, KIT_DEFAULT, KIT_UNKNOWN };
struct kit_attr {
  enum attr_type type; // UNDEFINED: absent
  int64_t i;
  float f;
  struct span s;
  const int64_t *ints;
  const float *floats;
  const uint32_t *strings; // name ids
  uint32_t n;              // of a list
  uint32_t tensor, graph;  // first row of it
};
enum kit_state kit_attr(struct kit *k, uint32_t node, const char *name, struct kit_attr *out);
// By type: the attribute if given, else the operator's default, else `fallback`. False: UNKNOWN.
bool kit_attr_int(struct kit *k, uint32_t node, const char *name, int64_t fallback, int64_t *out);
bool kit_attr_float(struct kit *k, uint32_t node, const char *name, float fallback, float *out);
bool kit_attr_string(struct kit *k, uint32_t node, const char *name, const char *fallback,
                     struct span *out);
// Lists, and rows: false if absent too (n = 0; NO_ID).
bool kit_attr_ints(struct kit *k, uint32_t node, const char *name, const int64_t **list,
                   uint32_t *n);
bool kit_attr_tensor(struct kit *k, uint32_t node, const char *name, uint32_t *tensor);
bool kit_attr_graph(struct kit *k, uint32_t node, const char *name, uint32_t *graph);
// Has it an attribute whose value is given by a function's caller, and so not known here? (For those
// who have no kit.)
bool kit_refers(const struct model *m, uint32_t node);
// Transpose's perm, where absent the reverse of its input's rank (false: not known).
bool kit_perm(struct kit *k, uint32_t node, const int64_t **perm, uint32_t *n);
// Axes of Squeeze, Unsqueeze, Reduce…: the attribute or the constant second input; n = 0 and true
// if neither is there.
bool kit_axes(struct kit *k, uint32_t node, const int64_t **axes, uint32_t *n);
// Have both nodes the same attributes, whatever their order, absent ones being their defaults?
// False where that is not known, for graphs too. The hash agrees with it.
bool kit_same_attrs(struct kit *k, uint32_t a, uint32_t b);
uint64_t kit_attrs_hash(struct kit *k, uint32_t node);

// ---- constants (kit_constants.c) -----------------------------------------------------------------

enum kit_answer { KIT_NO, KIT_YES, KIT_MAYBE }; // MAYBE: not known

// One number. `exact`: i is the number too (integers but the largest of uint64; whole floats).
// d keeps the sign of zero.
struct kit_number {
  enum dtype dtype;
  double d;
  int64_t i;
  bool exact;
};

// An initializer or Constant, also behind Identity nodes (model_resolve_constant): its tensor id.
bool kit_constant(const struct kit *k, uint32_t value, uint32_t *tensor);
// A weight: such a constant, or what Cast between floats, Identity, Transpose, Reshape, Unsqueeze, Squeeze and Flatten make of one of
// floats with dims (kit_weights.c). The tensor of the latter is no tensor of the model (edit_see): it has the type, dims and recipe of the
// value, which is out->value; out->node makes it. Tables move. Who has no kit asks model_resolve_weight, after this was asked.
bool kit_weight(struct kit *k, uint32_t value, struct model_constant *out);
// The recipe of what such nodes make of a constant, without an edit; NO_ID: nodes compute it, or it is no constant.
uint32_t kit_moved_weight(struct kit *k, uint32_t value);
// The recipe of a weight's elements; of one that a Cast widens, of what it widens, which takes fewer bytes. The dims are the weight's.
uint32_t kit_stored(struct kit *k, uint32_t tensor);
// What one of these nodes makes of elements of any type that are its first input: a recipe, in place. False: it is none of them, or what it
// does is not known.
bool kit_moved(struct kit *k, uint32_t node, uint32_t *recipe);
// Its elements in RAW form, if they are at hand: small ones (model_small_value), literals, and
// float vectors (rank <= 1) up to KIT_VECTOR_BYTES. A vector is read where it is asked for, through
// env->read, and noted in the edit log (edit_look); not if it is made of large weights.
enum { KIT_VECTOR_BYTES = 65536 };
bool kit_elements(struct kit *k, uint32_t value, enum dtype *dtype, struct span *raw);
// The same for a constant of any plain type with at most two dims, up to KIT_LONG_BYTES: for passes that read few of them, such as biases
// with a number for each word of a vocabulary.
enum { KIT_LONG_BYTES = 16 * KIT_VECTOR_BYTES };
bool kit_long_elements(struct kit *k, uint32_t value, enum dtype *dtype, struct span *raw);
// The number of a constant with one element, whatever its rank.
bool kit_const_number(struct kit *k, uint32_t value, struct kit_number *out);
bool kit_const_scalar(struct kit *k, uint32_t value, double *out);
bool kit_const_int(struct kit *k, uint32_t value, int64_t *out); // exact
// The elements of a constant vector or scalar of integers or bool, also where they follow from
// constants and static dims through chains of small integer operators (kit_chains.c): at most
// KIT_CHAIN_MOST elements there.
enum { KIT_CHAIN_MOST = 1024 };
bool kit_const_ints(struct kit *k, uint32_t value, const int64_t **list, uint32_t *n);
// The elements of a constant float tensor at hand, as doubles (which hold them exactly).
bool kit_const_floats(struct kit *k, uint32_t value, const double **list, uint32_t *n);
// Do all elements have the same bits, and which number is it? NO for tensors without elements and
// for what is no constant. Knows fills of any size.
enum kit_answer kit_const_fill(struct kit *k, uint32_t value, struct kit_number *out);
// Are all elements equal to this number? (0 and -0 are equal; NaN is equal to nothing.)
enum kit_answer kit_const_all(struct kit *k, uint32_t value, double number);

// One element of that type in *out (its bits in the low end); its bytes, 0 if it has no such form.
// Rounded to nearest even; integers saturate.
size_t kit_number_put(enum dtype dtype, double x, uint8_t out[8]);
// Number i of elements in RAW form; false for types that are no plain numbers (complex, strings,
// float8 and smaller).
bool kit_number_at(enum dtype dtype, const uint8_t *raw, uint64_t i, struct kit_number *out);

// ---- order (kit_order.c) -------------------------------------------------------------------------

// Does `a` stand before `b`? Two nodes of one graph, or `b` deeper inside: then its node around it
// counts. False otherwise. In a graph whose list has nodes before what makes their inputs, which loads, nodes stand as they can
// run: what stands before a node never depends on it. Positions are numbered when first asked for, graph by graph, and kept by
// what the kit makes; edit_add_node is noticed (the graph is numbered again), edit_move_node is
// not: use kit_move. A graph that is not sorted is numbered 64 times by one kit; then false of nodes without a number, with a
// warning.
bool kit_before(struct kit *k, uint32_t a, uint32_t b);
void kit_move(struct kit *k, uint32_t node, uint32_t before);
// May a node of `graph` that stands before `before` (NO_ID: at the end) use the value?
bool kit_available(struct kit *k, uint32_t value, uint32_t graph, uint32_t before);
// The nodes of a graph as they can run, into memory of *a; gives how many: those of its list, but where the list has nodes before what
// makes their inputs. Linear, as often as it is asked for.
uint32_t kit_running(struct kit *k, uint32_t graph, struct arena *a, uint32_t **nodes);
// The same as they are listed. Of either: nodes that go later stay in what was given, dead.
uint32_t kit_listed(const struct kit *k, uint32_t graph, struct arena *a, uint32_t **nodes);
// The node of `graph` that holds the node, itself or in its graphs; NO_ID if none.
uint32_t kit_node_around(const struct kit *k, uint32_t node, uint32_t graph);

// ---- changes (kit_make.c) ------------------------------------------------------------------------

// Begins what is done about one node: a group of edits, an empty `site` arena, new nodes before this
// one and named after it (its name, else its first output's). NO_ID: about no node.
void kit_site(struct kit *k, uint32_t node, const char *reason);

// A new node in one line, before `k->before`; gives its first output:
//   y = kit_make(k, OP_Gemm, KIT_IN(a, b, c), KIT_FLOAT("beta", 2), KIT_INTS("perm", p, n));
// Node and value are called <stem>_<Op>, with a number where that is taken, or as KIT_NAME says.
// The type of y is the pass's to note. Attribute names and lists need not outlive the call.
#define kit_make(k, op, ...)                                                                       \
  kit_make_parts((k), (op), (const struct kit_part[]){__VA_ARGS__, {.what = KIT_PARTS_END}})
#define KIT_IN(...)                                                                                \
  {                                                                                                \
    .what = KIT_PART_IN, .in = (const uint32_t[]){__VA_ARGS__},                                    \
    .n = sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)                                \
  }
#define KIT_INPUTS(list, count)                                                                    \
  { .what = KIT_PART_IN, .in = (list), .n = (count) }
#define KIT_INT(key, x) KIT_ATTR(.name = (key), .type = ATTR_INT, .i = (x))
#define KIT_FLOAT(key, x) KIT_ATTR(.name = (key), .type = ATTR_FLOAT, .f = (x))
#define KIT_STRING(key, x) KIT_ATTR(.name = (key), .type = ATTR_STRING, .s = (x))
#define KIT_INTS(key, list, count)                                                                 \
  KIT_ATTR(.name = (key), .type = ATTR_INTS, .ints = (list), .n = (count))
#define KIT_TENSOR(key, of) KIT_ATTR(.name = (key), .type = ATTR_TENSOR, .recipe = (of))
// One attribute of any type; a list of struct edit_attr, which may be empty. The attributes of all parts add up.
#define KIT_ATTR(...) KIT_ATTRS((&(const struct edit_attr){__VA_ARGS__}), 1)
#define KIT_ATTRS(list, count)                                                                     \
  { .what = KIT_PART_ATTRS, .attrs = (list), .n = (count) }
#define KIT_ATTRS_OF(node)                                                                         \
  { .what = KIT_PART_ATTRS_OF, .n = (node) } // those of another node
#define KIT_NAME(text)                                                                             \
  { .what = KIT_PART_NAME, .name = (text) } // wanted, of node and value
// For names of an existing tool: that of the node alone (empty: it has none), and the output, a
// struct edit_output (a value without a maker, or a name that is free).
#define KIT_CALLED(text)                                                                           \
  { .what = KIT_PART_CALLED, .name = (text) }
#define KIT_OUT(output)                                                                            \
  { .what = KIT_PART_OUT, .out = (output) }
#define KIT_OUTPUTS(count)                                                                         \
  { .what = KIT_PART_OUTPUTS, .n = (count) } // default 1
struct kit_part {
  enum {
    KIT_PARTS_END,
    KIT_PART_IN,
    KIT_PART_ATTRS,
    KIT_PART_ATTRS_OF,
    KIT_PART_NAME,
    KIT_PART_CALLED,
    KIT_PART_OUT,
    KIT_PART_OUTPUTS,
  } what;
  const uint32_t *in;
  uint32_t n;
  const struct edit_attr *attrs;
  struct edit_output out;
  struct span name;
};
uint32_t kit_make_parts(struct kit *k, enum op op, const struct kit_part *parts);

// The same from a table's hands. `as`: a node whose outputs the new one takes over, and which goes
// (NO_ID: none). Attributes of `attrs_of` (NO_ID: none) come first, those of `attrs` replace them. Where that node is of another
// operator the new one means the same: attributes whose absence means something else there are said, and those that it does not
// have, and which say what their absence means, are left out.
struct kit_new {
  enum op op;
  const uint32_t *in;
  uint32_t n_in;
  const struct edit_attr *attrs;
  uint32_t n_attrs;
  uint32_t attrs_of;
  uint32_t as;
  uint32_t n_out;                // 0: one. With `as`, as kit_n_out says of that
  struct span name;              // wanted, empty: <stem>_<Op>
  bool called;                   // the node alone is called `name`, or has none; `out` is given
  const struct edit_output *out; // the only output; NULL: a new value called as the node
};
uint32_t kit_put(struct kit *k, const struct kit_new *spec); // node id
// Can attributes of the node be copied by attrs_of? Not references, graphs, large or rare ones, nor where names are empty or
// stand twice.
bool kit_attrs_copyable(struct kit *k, uint32_t node);
// Is the node's attribute i the one that its name means: not without a name, and the first of it? (For those who have no kit, too.)
bool kit_attr_is_first(const struct model *m, uint32_t node, uint32_t i);
// Mean attributes that both have the same in a node of operator `op`, as far as the kit knows better?
bool kit_attrs_alike(struct kit *k, uint32_t node, enum op op);
// Can they be copied, mean they the same, and has a node of operator `op` all of them that say something?
bool kit_attrs_fit(struct kit *k, uint32_t node, enum op op);
// As kit_make, and the new node takes the place of `node` (NO_ID: of none): it has its outputs, and the
// names of those stay, as graph outputs too. k->before, where it was the node, is the new one. Gives the
// new node.
#define kit_replace(k, node, op, ...)                                                              \
  kit_replace_parts((k), (node), (op),                                                             \
                    (const struct kit_part[]){__VA_ARGS__, {.what = KIT_PARTS_END}})
uint32_t kit_replace_parts(struct kit *k, uint32_t node, enum op op, const struct kit_part *parts);
// Everything that uses the node's only output uses `value` instead (edit_forward), and the node
// goes. False, and nothing changed, where names forbid it.
bool kit_bypass(struct kit *k, uint32_t node, uint32_t value);
bool kit_can_bypass(const struct kit *k, uint32_t node, uint32_t value);
// Removes the node if nothing uses its outputs and it has no effect besides; then what it alone
// used, the same way: nodes, initializers. Gives how many nodes went.
uint32_t kit_sweep(struct kit *k, uint32_t node);

// New constants of k->graph: initializers, in a function's body Constant nodes. Named <stem>_<what>
// where `what` is given by the caller ("shape"). Give the value.
uint32_t kit_new_ints(struct kit *k, const char *what, const int64_t *list, uint32_t n); // [n]
uint32_t kit_new_int(struct kit *k, const char *what, int64_t x);                        // []
// One number of any number type but complex ones, rounded to it; rank 0.
uint32_t kit_new_scalar(struct kit *k, const char *what, enum dtype dtype, double x);
uint32_t kit_new_tensor(struct kit *k, const char *what, uint32_t recipe);
// Recipe of a scalar as above, and of a constant value's elements (NO_ID: none can be made).
uint32_t kit_scalar_recipe(struct kit *k, enum dtype dtype, double x);
uint32_t kit_recipe(struct kit *k, uint32_t value);
// A free name made of the stem, in every space: <stem>_<what>.
struct span kit_name(struct kit *k, const char *what);
// A value's name as a stem for others, in k.site.
struct span kit_stem_of(struct kit *k, uint32_t value);
// Free names of one stem: names[i] is base, or base_1, …, and suffixes[i] behind it.
void kit_name_family(struct kit *k, struct span base, const char *const *suffixes, uint32_t n,
                     struct span *names);

// ---- versions (kit_versions.c) -------------------------------------------------------------------

// Of ai.onnx, and of any domain, for nodes of a graph; 0: not imported.
int64_t kit_opset(const struct kit *k, uint32_t graph);
int64_t kit_opset_of(const struct kit *k, const char *domain, uint32_t graph);
// ERR_FAIL that names a node which keeps the model from being raised.
struct schema_change;
int kit_refuse_raise(const struct kit *k, uint32_t node, int64_t from, int64_t to,
                     const struct schema_change *c, const char *hint, struct err *err);
// A model that imports no version of ai.onnx gets that one if none of its nodes is of ai.onnx: -1 with ERR_MODEL that names
// one, since nobody knows what it means. Others are left as they are.
int kit_need_opset(struct kit *k, int64_t version, struct err *err);
// Raises ai.onnx to `version` everywhere, functions too, where they are below. -1 with ERR_FAIL that names the node if one
// would mean something else. `hint` says what the user can do instead; NULL: none.
int kit_raise(struct kit *k, int64_t version, const char *hint, struct err *err);
// The same for who saw to all nodes already.
void kit_set_opset(struct kit *k, int64_t version);
// Sees to it that nodes of `graph` may be of that domain: imports it where it is not, raises it
// where it is below (not for ai.onnx).
void kit_import(struct kit *k, uint32_t graph, const char *domain, int64_t version);
void kit_raise_ir(struct kit *k, int64_t version); // weights_raise_ir

// ---- reports (kit_report.c) ----------------------------------------------------------------------

// What a report says of a node, which may have gone already: a weight's name is to be as it was. The
// rest is filled: the op, its name, its position in the source if it has neither name nor weight.
struct kit_report {
  uint32_t node;
  const char *reason; // a stable word
  bool skipped;
  struct pass_fact fact;
  uint32_t place;         // position + 1 that is said in any case, 0: none
  uint32_t weight;        // value + 1 of the weight it is about, 0: none
  struct span tensor;     // the weight's name; at NULL: that of `weight`
  const char *what;       // about no node, nor a weight: what `tensor` is the name of ("Function")
  uint32_t codes;         // recipe + 1 of its codes, 0: none
  uint32_t of;            // with codes: the tensor whose place they take
  const char *weighed_by; // as in struct pass_site
  double output_db;
  const char *chosen, *chosen_by;
  const struct figures *figures;
};
void kit_report(struct kit *k, const struct kit_report *report);
void kit_converted(struct kit *k, uint32_t node, const char *reason);
void kit_skipped(struct kit *k, uint32_t node, const char *reason);
// Where there is a reason (else NULL): true, and the node is reported as skipped.
bool kit_skips(struct kit *k, uint32_t node, const char *why);
// kit_site, and the node is reported as converted.
void kit_begin(struct kit *k, uint32_t node, const char *reason);
// One sentence, and a hint or NULL, that do not stop the work. Both may be texts of k->site.
void kit_warn(struct kit *k, const char *sentence, const char *hint);

#endif
