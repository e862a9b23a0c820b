// Room: static quantization: weights and activations in int8, by ranges of calibration, as Q and DQ nodes or operators
// on codes.
//
// The parts of static quantization: options, which nodes, which parameters values get, and how they are
// written. One run:
//
//   static_bring_weights  weights that other nodes make of constants, in a run of its own    static_weights.c
//   find_opset         the opset that the types need; overrides                  static.c
//   static_find_typed  what quantize_static knows of types, with compat          static_types.c
//   static_leave       which values stay float, whatever wants them                static_leave.c
//   static_mark        which values are quantized, and how they share           static_mark.c, static_ops.c, static_moved.c
//   static_put         Q and DQ nodes, weights, biases                           static_put*.c
//   static_take_back   weights that were brought and stayed float                static_weights.c
//
// The form of operators on codes (static_qoperator.c) takes the first of these and the last, and goes its own way between them.
//
// Values are named by their id. `entries` are in the order in which they were marked, which is that of the
// existing tool.
#ifndef WEIR_STATIC_H
#define WEIR_STATIC_H

#include "passes/int8/int8.h"
#include "passes/int8/int8_linear.h"
#include "passes/questions/compat.h"

struct ranges;

enum static_format { // as the words of --format
  STATIC_QDQ,
  STATIC_QOPERATOR,
  STATIC_INT32_BIAS,
  STATIC_FP32_BIAS,
  STATIC_FP32_BIAS_QDQ
};

static inline bool static_is_recipe(enum static_format f) {
  return f != STATIC_QDQ && f != STATIC_QOPERATOR;
}

enum static_execution { STATIC_AS_QDQ, STATIC_AS_QLINEAR }; // of the three recipes for biases

struct static_axis {
  const char *op;
  int64_t axis;
};

enum static_choice { STATIC_BY_TYPE, STATIC_TRUE, STATIC_FALSE };

struct static_options {
  struct name_filter nodes;
  const char *ranges, *override; // paths
  enum static_format format;
  enum static_execution execution; // of the three recipes for biases
  enum compat compat;
  enum dtype activation, weight;
  bool per_tensor, per_channel;
  const char *const *ops; // NULL: the defaults
  uint32_t n_ops;
  // Extra options of quantize_static, each under its name there.
  bool reduce_range, activation_symmetric, activation_restricted_asymmetric;
  enum static_choice weight_symmetric;
  bool has_real_floor;
  double real_floor; // MinimumRealRange
  bool calib_tensor_range_symmetric, force_quantize_no_input_check, add_qdq_pair_to_weight,
      keep_float_bias, dedicated_qdq_pair, keep_removable_activations, disable_weight_adjust,
      use_qdq_contrib_ops, sigmoid_nnapi, matmul_const_b_only;
  const char *const *no_output; // OpTypesToExcludeOutputQuantization
  uint32_t n_no_output;
  struct static_axis *axes; // QDQOpTypePerChannelSupportToAxis
  uint32_t n_axes;
  uint64_t block;          // BlockSize; 0: none
  enum dtype default_type; // DefaultTensorType, of values whose type is not known; UNDEFINED: none
};

// ---- overrides (static_override.c) ---------------------------------------------------------------

// Of a tensor, or of one of its channels.
struct static_override {
  bool has_type, has_scale, has_symmetric, has_reduced, has_range, has_axis;
  enum dtype type;
  double scale, least, most;
  int64_t zero, axis;
  bool symmetric, reduced;
};
struct static_overrides {
  uint32_t value;                   // id
  const struct static_override *of; // one, or one a channel
  uint32_t n;
  // Activations: a second type, for all consumers, or those of these names.
  const struct static_override *convert; // NULL: none
  const struct span *receivers;
  uint32_t n_receivers;
  bool some_receive; // there is a list of them
};

// ---- the run -------------------------------------------------------------------------------------

enum static_qdq {
  STATIC_Q_OWN,
  STATIC_Q_CONV,
  STATIC_Q_GEMM,
  STATIC_Q_MATMUL,
  STATIC_Q_NORM,
  STATIC_Q_SHARE,
  STATIC_Q_MAXPOOL,
  STATIC_Q_RESIZE,
  STATIC_Q_REMOVABLE,
  STATIC_Q_PAD,
  STATIC_Q_SPLIT,
  STATIC_Q_GATHER,
  STATIC_Q_WHERE,
  STATIC_Q_NEVER,
};
enum static_qop {
  STATIC_O_FLOAT,
  STATIC_O_CONV,
  STATIC_O_GEMM,
  STATIC_O_MATMUL,
  STATIC_O_BINARY,
  STATIC_O_CONCAT,
  STATIC_O_ACTIVATION,
  STATIC_O_GLOBAL_POOL,
  STATIC_O_POOL,
  STATIC_O_SOFTMAX,
  STATIC_O_WHERE,
  STATIC_O_RELU,
  STATIC_O_DIRECT,
  STATIC_O_MAXPOOL,
  STATIC_O_RESIZE,
  STATIC_O_SPLIT,
  STATIC_O_PAD,
  STATIC_O_GATHER,
  STATIC_O_ARGMAX,
  STATIC_O_EMBED,
};
struct static_op {
  const char *name;
  enum static_qdq qdq;
  enum static_qop qop;
  bool by_default; // with --compat onnxruntime
};

// Parameters of an activation: what its producer's Q has, and what some or all consumers get instead.
struct static_params {
  struct int8_params own, converted;
  enum dtype type, converted_type, scale_type;
  const struct static_overrides *with; // whose receivers there are; NULL: not converted
};

// What the codes of a constant are for an operator on codes, where overrides do not say otherwise.
struct static_role {
  enum dtype type;
  bool symmetric, reduced;
};

// Marked for Q and DQ.
struct static_entry {
  uint32_t value;
  bool gone;   // its node was removed, or what it was marked for is done
  bool weight; // as a weight, not as an activation
  bool per_tensor, per_channel;
  uint32_t axis;
  uint32_t provider; // value whose parameters it has; NO_ID: its own
  uint32_t provider_node;
  uint32_t owner; // 1 + the entry whose parameters it has in the end; 0: not asked yet
  // Constants; and the scales of a computed weight that makes room for a bias:
  struct int8_weight_as as;
  uint32_t scales, zeros;         // recipes
  const struct static_role *role; // NULL: as Q and DQ want it
};

// A bias in int32.
struct static_bias {
  uint32_t value, node, slot, input, weight;
  double alpha, beta;
  bool is_zero;  // all elements are known to be 0
  bool wide;     // of float16, with scales of float32
  bool computed; // it stays float; ONNX Runtime makes a constant of it, and codes of that
  // Of an Add after a MatMul, of which a recipe or ONNX Runtime makes codes (static_recipes.c).
  bool summed;
};

// A weight with scales along another axis than the first of its nodes wants them: a copy of it.
struct static_turned {
  uint32_t value, axis, copy;
  uint32_t next; // of the same value: + 1
};

// A node that was quantized, for each of its inputs; those of a value, in order: rows + 1.
struct static_receiver {
  uint32_t node, next;
};
struct static_receivers {
  uint32_t first, last;
};

// What a value got when it was written.
struct static_made {
  uint32_t scale, zero;                     // values; NO_ID: not written
  uint32_t converted_scale, converted_zero; // NO_ID: not converted
  const struct static_overrides *with;
};

// Scales that a value may have: that of its own range, or of what it shares it with. Nothing known: least INFINITY, most 0.
struct static_scales {
  bool seen;
  double least, most;
};

// How a value counts in what a Softmax takes: by which numbers it is multiplied up to there, the largest above 0 and of those below 0 the one
// farthest from it, as a size. 0: it does not get there. Is it a sum, or part of one; does it have products, as scores are?
struct static_counted {
  double above, below;
  bool summed, product;
};

// What compat writes as quantize_static does, though it gives other numbers than the float model: the user is told.
enum static_theirs {
  STATIC_THEIRS_MASK,
  STATIC_THEIRS_FACTORS,
  STATIC_THEIRS_BIAS,
  STATIC_THEIRS_CLIP,
  STATIC_THEIRS_OUTSIDE,
  STATIC_THEIRS,
};
struct static_told {
  const char *node; // the first, as it is named in messages
  uint32_t n;
};

// A Relu or Clip that went.
struct static_clip {
  enum op op;
  uint32_t low, high; // inputs of a Clip; NO_ID: none
  double bounds[2];   // its attributes, before opset 11
};

struct static_run {
  struct kit k;
  const struct static_options *o;
  const struct ranges *ranges;
  uint32_t graph; // the main one
  int64_t opset;
  bool contrib;       // Q and DQ of com.microsoft
  struct arena arena; // of the run
  TABLE(struct static_overrides, overrides);
  TABLE(uint32_t, override_of);    // by value id: 1 + which
  TABLE(struct int8_range, range); // by value id; type UNDEFINED: none
  TABLE(struct static_entry, entries);
  TABLE(uint32_t, entry_of); // by value id: 1 + the living entry
  TABLE(struct static_bias, biases);
  TABLE(uint32_t, bias_of);           // by value id: 1 + which
  TABLE(struct int8_linear, linears); // of MatMuls that stay float
  // By value id: why it stays float, whatever would mark it; NULL: it need not.
  TABLE(const char *, left);
  struct static_told theirs[STATIC_THEIRS];
  TABLE(struct static_scales, scales);   // by value id, as far as static_leave looked
  TABLE(struct static_counted, counted); // by value id (static_leave.c)
  TABLE(const char *, kept); // by node id: why it stays float, a stable word; NULL: it need not
  // By value id: it goes to a node that is moved past, or to one that vanishes before such a node.
  TABLE(bool, moved_past);
  TABLE(bool, along);       // by node id: static_find_along
  TABLE(uint32_t, clipped); // by value id: 1 + row of `clips` of what made it, and went
  TABLE(struct static_clip, clips);
  TABLE(bool, folded);       // by value id: constants alone make it
  TABLE(bool, raw);          // by node id: it takes values before their Q
  TABLE(bool, bare);         // by node id: no DQ of int8 may stand before it
  TABLE(bool, goes_to_bare); // by value id: to such a node
  TABLE(bool, grows);        // by value id: its scale may grow (not with compat)
  // By value id: the least range of a Softmax's output, moved or not; 0: of others (not with compat).
  TABLE(double, of_softmax);
  TABLE(bool, typed); // by value id, with compat: quantize_static knows a type
  TABLE(struct static_turned, turned);
  TABLE(uint32_t, turned_of); // by value id: 1 + the last
  TABLE(uint32_t, numbers); // by name id: 1 + the largest number after it in an initializer's name
  TABLE(struct static_made, made); // by value id
  TABLE(struct static_receiver, receivers);
  TABLE(struct static_receivers, receivers_of); // by value id
};

// Is a bias times 0, as its codes say it? The tool up to 1.31 has codes of ±infinity for that; later it takes beta, and alpha too, for 1
// where it finds scales.
bool static_drops_bias(const struct static_run *s, double beta);

int static_pass(struct pass_env *env, const struct static_options *o, struct err *err);

// The nodes of the main graph, those of which others take something first; into the run's memory. (compat: as they are listed.) Nodes
// that go after it stay in the list, dead.
uint32_t static_nodes(struct static_run *s, uint32_t **nodes);
// The row of an operator's name, or NULL; that of a node's operator, or one for those that have none. And its name.
const struct static_op *static_op_named(struct span name);
const struct static_op *static_op_of(const struct static_run *s, uint32_t node);
const char *static_op_type(const struct static_run *s, uint32_t node);
// Is the node to be quantized: of an operator that is asked for, not excluded? Otherwise why not, a stable word; "" for an operator
// that nobody asked for.
bool static_takes(struct static_run *s, uint32_t node, const char **why);
// Finds each Relu and Clip that nobody asked for and that alone sees the result of an operator with a weight. It goes with that where
// codes clip as it does, since codes for what it cuts off are lost; else it stays float.
void static_find_along(struct static_run *s);
bool static_comes_along(const struct static_run *s, uint32_t node);
// Why the node stays, whatever its operator: it lacks something, or its name says so. NULL: it need not.
const char *static_refused(struct static_run *s, uint32_t node);
// A constant of float32 or float16: an initializer, or without compat a Constant too, also through Identity.
bool static_is_constant(struct static_run *s, uint32_t value);
// The elements of a constant: of float16 in float32 for operators on codes, whose scales are float32.
uint32_t static_recipe(struct static_run *s, uint32_t value);
// The type of a value's elements; where none is known, that of the options.
enum dtype static_dtype(struct static_run *s, uint32_t value);
// A value of float32 or float16, or such a constant. `static_is_float`: with compat quantize_static must know the type too.
bool static_holds_floats(struct static_run *s, uint32_t value);
bool static_is_float(struct static_run *s, uint32_t value);
// Does quantize_static know the types of the values that the model has? Asked with compat, before anything is changed.
void static_find_typed(struct static_run *s);
bool static_is_typed(const struct static_run *s, uint32_t value);
// Would the node quantize a weight that callers may override? It has no elements to go by, and no range unless RANGES or an
// override says one. Then it is reported, and the node is to stay.
bool static_skips_overridable(struct static_run *s, uint32_t node);
// Must its output stay as it is?
bool static_leaves_output(const struct static_run *s, uint32_t node);
// Are the elements that a Resize makes between those of its input: no weights beyond them (cubic), and no other number around them?
bool static_stays_within(struct static_run *s, uint32_t node);

const struct static_overrides *static_override_of(const struct static_run *s, uint32_t value);
int static_read_overrides(struct static_run *s, struct err *err);

// The parameters of an activation by its range and its overrides: false if there is no range.
bool static_params_of(struct static_run *s, uint32_t value, struct static_params *out);
// Is a weight of an operator quantized by channel, and along which axis (`axis`: what the operator would have)?
bool static_is_per_channel(struct static_run *s, uint32_t value, int64_t axis, const char *op,
                           uint32_t *out);
// Are weights of that type quantized symmetrically?
bool static_is_weight_symmetric(const struct static_options *o, enum dtype type);
// Scales, zero points and form of a constant: entry->as, scales, zeros. ERR_USAGE for overrides that do not fit it.
int static_weight_params(struct static_run *s, struct static_entry *entry, struct err *err);
// Codes of it by these.
uint32_t static_weight_codes(struct static_run *s, const struct static_entry *entry);
// Does the value's converted form go to that node?
bool static_receives(const struct static_run *s, const struct static_overrides *with,
                     uint32_t node);

// Notes that node, while it is there, for a warning of each kind at the end.
void static_note_theirs(struct static_run *s, uint32_t node, enum static_theirs kind);

// Finds what stays float (static_leave.c), before anything is marked. Asked after it: why does the value, why does the node, and why does
// a value that the node takes? A stable word; NULL: it need not; of values "" where nothing is to be said.
void static_leave(struct static_run *s);
const char *static_left(const struct static_run *s, uint32_t value);
const char *static_kept(const struct static_run *s, uint32_t node);
const char *static_left_input(struct static_run *s, uint32_t node);
bool static_is_left(const struct static_run *s, uint32_t value);
void static_leave_value(struct static_run *s, uint32_t value, const char *why);
void static_keep(struct static_run *s, uint32_t node, const char *why); // with what it makes
// Does the node move elements, or leave some out, so that ONNX Runtime moves a Q after it in front of it?
bool static_moves(const struct static_run *s, uint32_t node);
// Does ONNX Runtime put a Q and a DQ after such a node, where a DQ stands before it, that do not load? It takes int8 for uint8 then, of
// which a Q that says its type (from opset 21 on) knows nothing. The node is quantized then, asked for or not (not with compat).
bool static_is_moved_past(const struct static_run *s, uint32_t node);

// The input that a node passes on unchanged, where ONNX Runtime takes such a node away when it loads a model: then what stands before it and
// what stands after it meet. NO_ID: the node stays. (Arithmetic by a number is on codes where it is quantized, and stays.)
uint32_t static_vanishes(struct static_run *s, uint32_t node);
// The same where what is moved past comes after it, at once or after more of this kind: what it passes on is to stay quantized up to there.
// Found by the first, after static_leave.
void static_find_passed(struct static_run *s);
uint32_t static_passes_codes(struct static_run *s, uint32_t node);
// Such a node that stays float, and has no Q after it, must have no DQ of int8 before it, and none before what passes a value on to it (compat
// too). Found when all is marked, or when operators on codes are made. Asked after that: is the node such a one (or takes no DQ in any case, where not
// `int8`), does the value go to one?
void static_find_bare(struct static_run *s);
bool static_is_bare(const struct static_run *s, uint32_t node, bool int8);
bool static_goes_to_bare(const struct static_run *s, uint32_t value);
// The same of such nodes, of any type, whose output the body of an If, Loop or Scan takes: they take the value before its Q; with operators on
// codes who makes it stays (not with compat). Found when all is marked; with operators on codes after static_leave.
void static_find_before_bodies(struct static_run *s);

struct static_entry *static_entry_of(struct static_run *s, uint32_t value);
// Marked, as any of them or as a bias?
bool static_is_marked(struct static_run *s, uint32_t value);
int static_mark(struct static_run *s, struct err *err);
void static_mark_value(struct static_run *s, uint32_t value); // as an activation
// Marks a copy of what that entry is about, with the same scales.
void static_mark_like(struct static_run *s, uint32_t value, uint32_t entry);
int static_put(struct static_run *s, struct err *err);
// Is what a MatMul gives not to be quantized (static_recipes.c)? So it is in the three recipes for biases; a bias after it is
// noted. Else it is so where there is no range of it, but a bias after it: of a convolution that became a MatMul only the sum was
// seen.
bool static_mark_linear(struct static_run *s, uint32_t node);
// Does a recipe take the node with the MatMul before it? Then it is not quantized by itself.
bool static_adds_bias(struct static_run *s, uint32_t node);
// When all else is marked: marks the sums that the last recipe quantizes, and notes the biases that become codes. A recipe makes them, or ONNX
// Runtime does where it fuses MatMul and Add to a Gemm between DQ and Q: not where no Q comes after the sum.
void static_mark_sums(struct static_run *s);
void static_put_recipes(struct static_run *s);
// Values whose scale may grow, as that of a weight next to a bias, and of all that this weight shares its scale with, up to the last that
// others take too: for them a scale that grew would leave no codes (static_bias.c). Found before anything is marked (not with compat).
// Asked after that: may the value's? And is it a weight's, but what shares its scale is not, so that it is to have its own?
void static_find_growing(struct static_run *s);
bool static_may_grow(const struct static_run *s, uint32_t value);
bool static_grows_alone(struct static_run *s, uint32_t value, uint32_t provider);
// The weight of a node with a bias (input 1), if it is computed and others take it as well: what is to stand in its place there, by an
// Identity that takes the value before its Q. Otherwise input 1 itself.
uint32_t static_own_weight(struct static_run *s, uint32_t node);
// Do constants alone make the value, so that ONNX Runtime makes a constant of it (static_moved.c)?
bool static_is_folded(struct static_run *s, uint32_t value);
// Would the node's outputs, in the form of Q and DQ, share the parameters of its first input?
bool static_shares(struct static_run *s, uint32_t node);
// The form of operators on codes (static_qoperator.c).
int static_qoperator(struct static_run *s, struct err *err);

// What nodes make of constants, and nodes that are asked for read, becomes constants. First of all, in a run of its own (static_weights.c).
struct static_weight {
  uint32_t from, made; // values: what nodes made, and the initializer
  uint32_t stored;     // recipe: as the model held it (kit_stored)
};
struct static_brought {
  TABLE(struct static_weight, list);
};
void static_bring_weights(struct static_run *s, struct static_brought *brought);
// Last: of what was brought and stayed float, the model holds again what it held.
void static_take_back(struct static_run *s, const struct static_brought *brought);
// Values that have no range since they were left out when ranges were found, or follow from constants: they stay float. After static_leave.
void static_leave_unseen(struct static_run *s);

// The largest range that holds 0, for nodes that give what is known: Softmax, what goes into Relu and Clip.
void static_adjust_ranges(struct static_run *s);
// Does a Softmax make the value, maybe moved or clipped since then? Asked after that.
bool static_is_of_softmax(const struct static_run *s, uint32_t value);

#endif
