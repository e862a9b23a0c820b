// What the files of the pass `dynamic` share. For them only.
#ifndef WEIR_DYNAMIC_H
#define WEIR_DYNAMIC_H

#include "passes/kit/kit.h"
#include "passes/questions/compat.h"
#include "recipe/recipe.h"

// Operators that are quantized, a bit each.
enum dynamic_op {
  DYNAMIC_MATMUL = 1,
  DYNAMIC_GEMM = 2,
  DYNAMIC_LSTM = 4,
  DYNAMIC_GATHER = 8,
  DYNAMIC_CONV = 16,
  DYNAMIC_ATTENTION = 32,
  DYNAMIC_EMBED = 64, // EmbedLayerNormalization
  DYNAMIC_TRANSPOSE = 128,
};
enum {
  DYNAMIC_OWN_OPS =
      DYNAMIC_MATMUL | DYNAMIC_GEMM | DYNAMIC_LSTM | DYNAMIC_GATHER | DYNAMIC_ATTENTION,
  DYNAMIC_THEIR_OPS = DYNAMIC_MATMUL | DYNAMIC_LSTM | DYNAMIC_GATHER | DYNAMIC_CONV |
                      DYNAMIC_ATTENTION | DYNAMIC_EMBED | DYNAMIC_TRANSPOSE,
};

enum dynamic_type { DYNAMIC_INT8, DYNAMIC_UINT8, DYNAMIC_AUTO };
enum dynamic_form { DYNAMIC_FUSED, DYNAMIC_INTEGER };
enum dynamic_symmetry { DYNAMIC_BY_TYPE, DYNAMIC_SYMMETRIC, DYNAMIC_ASYMMETRIC };

// --tensor: other words for weights of some names.
struct target;
struct dynamic_override {
  struct name_pattern pattern;
  bool has_type, has_axis, has_reduced;
  bool is_unsigned, per_tensor, reduced;
};

struct dynamic_options {
  struct name_filter nodes;    // the first member: name_filter.h
  const struct target *target; // NULL: none
  uint32_t op_types;
  uint32_t weight_type; // enum dynamic_type
  bool by_conv;         // uint8 if the model has a Conv, whatever it says
  bool per_tensor, reduce_range;
  uint32_t form; // enum dynamic_form
  struct dynamic_override *overrides;
  uint32_t n_overrides;
  const char *ranges; // for reports alone
  enum compat compat; // as onnxruntime's quantize_dynamic; what follows is only said with it
  bool per_channel, enable_subgraph, any_matmul, force_quantize;
  uint32_t weight_symmetric; // enum dynamic_symmetry
  bool activation_symmetric;
  enum dtype default_type;                 // of values whose type is not known; UNDEFINED: none
  const char *const *only, *const *except; // names of nodes
  uint32_t n_only, n_except;
};

// ---- weights -----------------------------------------------------------------------------------

// A constant that is quantized. `dynamic_no_operand`: where none is, as of a table that is left out.
struct dynamic_operand {
  uint32_t tensor; // of its elements
  uint32_t value;  // that they define
  uint32_t read;   // that the node reads: `value`, or one after Identity and Transpose
  uint32_t named;  // whose name new tensors have
  bool transposed; // the node reads the transpose of the matrix
};
extern const struct dynamic_operand dynamic_no_operand;

// How its codes lie.
//   PLAIN      as the weight
//   FILTERS    the same; scales [M,1,…] for what Conv makes, one zero point for all channels
//   RECURRENT  of LSTM: [D,4H,K] becomes [D,K,4H], scales [D] or [D,4H]
enum dynamic_layout { DYNAMIC_PLAIN, DYNAMIC_FILTERS, DYNAMIC_RECURRENT };

struct dynamic_as {
  enum dtype type; // int8 or uint8
  bool symmetric, reduced;
  bool zeros; // a zero point is wanted even where it is 0
  // RECIPE_PER_TENSOR, or the channels' axis of the operand. RECURRENT: 0 for a scale a direction,
  // 1 for one a row of each.
  uint32_t axis;
  enum dynamic_layout layout;
};

// What stands for the elements of a value: value ids.
struct dynamic_codes {
  uint32_t codes, scale, zero; // zero NO_ID: none is there
  bool per_channel;
  bool half; // the elements are float16; scales are float32 all the same
};

struct dynamic_stored {
  uint32_t tensor;
  bool transposed;
  struct dynamic_as as;
  struct dynamic_codes codes;
  uint32_t recipe; // of the codes
  uint32_t next;   // of the same tensor, + 1
};

// ---- one run -----------------------------------------------------------------------------------

// With more products in a sum (255 * 127 each) it may pass the end of int32.
enum { DYNAMIC_DEEPEST = 66311 };

enum { DYNAMIC_WEIGHTS = 5 }; // the most constants that a node quantizes: EmbedLayerNormalization
struct dynamic_site {
  uint32_t node;
  enum dynamic_op op;
  const char *why; // why it stays, a stable word; NULL: it is quantized
  struct dynamic_operand weights[DYNAMIC_WEIGHTS];
  // 0, where it is quantized: none is constant (only with any_matmul, or Conv in compat).
  uint32_t n_weights;
  bool half; // float16: computed between Casts
  const struct dynamic_override *override;
};

// A Mul of two scales, for nodes without a name.
struct dynamic_product {
  uint32_t b, graph, out;
  uint32_t next; // of the same first scale: + 1
};

// The transpose of a constant that Gemms of a graph read.
struct dynamic_turned {
  uint32_t tensor, graph, value;
  uint32_t next; // of the same constant, in a graph around this one: + 1
};

struct dynamic {
  struct kit k;
  const struct dynamic_options *o;
  TABLE(uint32_t, of_value); // by value id: 1 + row of `codes`
  TABLE(struct dynamic_codes, codes);
  TABLE(uint32_t, of_tensor); // by tensor id: 1 + first row of `stored`
  TABLE(struct dynamic_stored, stored);
  TABLE(struct dynamic_product, products);
  TABLE(uint32_t, of_scale); // by value id of the first scale: 1 + the last row of `products`
  TABLE(uint32_t, hollow); // values that have codes in their place, and whose floats may be wanted
  TABLE(uint32_t, wanted); // compat: constants in codes that nodes want as floats
  TABLE(struct dynamic_turned, turned); // compat: of the graphs that the walk is in
  TABLE(uint32_t, turned_of);           // by tensor id: 1 + the last row of `turned`
  TABLE(bool, wants_zeros);             // DYNAMIC_AUTO: by tensor id, is uint8 worth it?
  // of this site, valid until the next
  const struct dynamic_site *site;
  struct span node_name, y_name;
  // Of the codes of the site's weights, which are reported with them; or NO_ID.
  uint32_t recipes[DYNAMIC_WEIGHTS];
};

// dynamic_weights.c ------------------------------------------------------------------------------
// The constant in a slot: false and why not. `turned`: a Transpose of a matrix may stand between.
bool dynamic_weights_find(struct dynamic *d, uint32_t node, uint32_t slot, bool turned,
                          struct dynamic_operand *out, const char **why);
// Are both types known, and not the same? No operator takes the two.
bool dynamic_types_differ(struct dynamic *d, uint32_t a, uint32_t b);
// Why a constant has no codes; NULL: it can have them.
const char *dynamic_weights_unfit(const struct dynamic *d, const struct dynamic_operand *w);
// Its rank and dim i as the node reads it.
uint32_t dynamic_weights_rank(const struct dynamic *d, const struct dynamic_operand *w);
int64_t dynamic_weights_dim(const struct dynamic *d, const struct dynamic_operand *w, uint32_t i);
// How weights of this site are quantized; axis: the channels', if there is a scale for each.
struct dynamic_as dynamic_weights_as(const struct dynamic *d, const struct dynamic_site *s,
                                     uint32_t axis, enum dynamic_layout layout);
// How a table that is gathered is: as onnxruntime quantizes activations.
struct dynamic_as dynamic_weights_as_activation(const struct dynamic *d);
// Its codes, made where they are not there yet.
struct dynamic_codes dynamic_weights_store(struct dynamic *d, const struct dynamic_operand *w,
                                           const struct dynamic_as *as);

// dynamic_choose.c -------------------------------------------------------------------------------
struct dynamic_questions {
  TABLE(uint32_t, tensors);
  TABLE(uint32_t, codes); // two of each: int8, uint8
};
// Adds those about the site's weight, if its type is to be chosen.
void dynamic_choose_ask(struct dynamic *d, const struct dynamic_site *s,
                        struct dynamic_questions *q);
// Measures them: d->wants_zeros. Reads the weights once more than a run does.
int dynamic_choose(struct dynamic *d, struct dynamic_questions *q, struct err *err);

// dynamic_codes.c --------------------------------------------------------------------------------
// What stands for the value in the codes of an activation (uint8): DynamicQuantizeLinear, or what there is already.
struct dynamic_codes dynamic_codes_of(struct dynamic *d, uint32_t value);
// Those that are there: NULL without any.
const struct dynamic_codes *dynamic_codes_found(const struct dynamic *d, uint32_t value);
void dynamic_codes_note(struct dynamic *d, uint32_t value, const struct dynamic_codes *codes);
const char *dynamic_codes_match_gather(struct dynamic *d, struct dynamic_site *s);
void dynamic_codes_gather(struct dynamic *d, const struct dynamic_site *s);
const char *dynamic_codes_match_transpose(struct dynamic *d, struct dynamic_site *s);
void dynamic_codes_transpose(struct dynamic *d, const struct dynamic_site *s);
// compat: of a node that stays. Its constants that have become codes are wanted as floats.
void dynamic_codes_want(struct dynamic *d, uint32_t node);
// The value, to be read as floats by a node that is made now: where only codes are there, DequantizeLinear makes it
// first (a value that nothing makes would go with the node that gives way). NO_ID stays it.
uint32_t dynamic_codes_floats(struct dynamic *d, uint32_t value);
// In the end: DequantizeLinear for values that are still read as floats.
void dynamic_codes_finish(struct dynamic *d);
// Names and nodes. The name `stem` and `suffix`, of a value; of a node (no name without a stem).
struct edit_output dynamic_codes_output(struct dynamic *d, uint32_t graph, struct span stem,
                                        const char *suffix);
struct span dynamic_codes_called(struct dynamic *d, struct span stem, const char *suffix);
// Where the last of new nodes puts what it makes: a node whose outputs become its own, and which goes (NO_ID:
// none), or a new value.
struct dynamic_result {
  uint32_t as;
  struct edit_output out;
};
// That last node; with `half` it makes float32, and a Cast after it makes the wanted type, under the name of the node and
// `_cast`.
void dynamic_codes_put(struct dynamic *d, const struct kit_new *spec,
                       const struct dynamic_result *to, bool half);
// A Cast to or from float16 around a node that computes in float32; unchanged where it is not `half`.
uint32_t dynamic_codes_widen(struct dynamic *d, uint32_t value, bool half);

// dynamic_matmul.c -------------------------------------------------------------------------------
const char *dynamic_matmul_match(struct dynamic *d, struct dynamic_site *s);
void dynamic_matmul_convert(struct dynamic *d, const struct dynamic_site *s);
const char *dynamic_matmul_match_gemm(struct dynamic *d, struct dynamic_site *s);
void dynamic_matmul_convert_gemm(struct dynamic *d, const struct dynamic_site *s);
// compat: every Gemm that is a product and a sum becomes these two.
void dynamic_matmul_split_all(struct dynamic *d);
// The nodes after MatMulInteger and ConvInteger: Cast, and the Muls with both scales.
void dynamic_matmul_scaled(struct dynamic *d, uint32_t sums, const struct dynamic_codes *a,
                           const struct dynamic_codes *b, const struct dynamic_result *to,
                           bool half);

// dynamic_conv.c, dynamic_lstm.c, dynamic_attention.c --------------------------------------------
const char *dynamic_conv_match(struct dynamic *d, struct dynamic_site *s);
void dynamic_conv_convert(struct dynamic *d, const struct dynamic_site *s);
const char *dynamic_lstm_match(struct dynamic *d, struct dynamic_site *s);
void dynamic_lstm_convert(struct dynamic *d, const struct dynamic_site *s);
const char *dynamic_attention_match(struct dynamic *d, struct dynamic_site *s);
void dynamic_attention_convert(struct dynamic *d, const struct dynamic_site *s);
const char *dynamic_attention_match_embed(struct dynamic *d, struct dynamic_site *s);
void dynamic_attention_convert_embed(struct dynamic *d, const struct dynamic_site *s);

// dynamic.c --------------------------------------------------------------------------------------
int dynamic_run(struct pass_env *env, const struct dynamic_options *o, struct err *err);

#endif
