// Room: operators and their versions: the form of their nodes, how results follow from inputs, the
// effect of another opset. The facts are rows of *.ops (README.md).
//
//   operator ──▶ signatures, one for each version: inputs, outputs, attributes, variables of types
//      │
//      └──▶ rule of inference, flags
#ifndef WEIR_SCHEMA_H
#define WEIR_SCHEMA_H

#include "model/model.h"
#include "model/model_types.h"

// ---- types --------------------------------------------------------------------------------------

enum schema_kind {
  SCHEMA_TENSOR,
  SCHEMA_SEQUENCE, // of tensors
  SCHEMA_OPTIONAL, // of a tensor
  SCHEMA_OPTIONAL_SEQUENCE,
  SCHEMA_MAP_INT64, // from int64 to what the dtypes say
  SCHEMA_MAP_STRING,
  SCHEMA_SEQUENCE_MAP_INT64,
  SCHEMA_SEQUENCE_MAP_STRING,
  SCHEMA_SPARSE,
  SCHEMA_KINDS,
};

// A set of types: for each kind, a bit 1 << dtype for each dtype of its elements.
struct schema_types {
  uint32_t dtypes[SCHEMA_KINDS];
};
static inline bool schema_takes(const struct schema_types *t, enum dtype dtype) {
  return t->dtypes[SCHEMA_TENSOR] >> dtype & 1;
}

// A type variable: whatever is of it in a node is of one type out of the set.
struct schema_variable {
  const char *name;
  const struct schema_types *types;
};

// ---- signatures ---------------------------------------------------------------------------------

enum schema_option {
  SCHEMA_SINGLE,
  SCHEMA_OPTIONAL_ONE, // may be left out: an empty name, or the end of the list
  SCHEMA_VARIADIC,     // the last: any number of them from `least` on
};
enum { SCHEMA_NO_VARIABLE = 255, SCHEMA_ANY = 255, SCHEMA_VARIABLES_MAX = 16 };

// A formal input or output.
struct schema_formal {
  const char *name;
  const struct schema_types *types; // those of its variable, where it has one
  uint8_t variable;                 // index of the signature's variables, or SCHEMA_NO_VARIABLE
  uint8_t option;                   // enum schema_option
  uint8_t least;                    // how many, of what is variadic
  bool same;                        // VARIADIC: all are of one type
};

// What an attribute means that is not there. The last three are not in the schemas of ONNX but in
// the words of its operators: a list of any length.
enum schema_default {
  SCHEMA_NO_DEFAULT,
  SCHEMA_INT,
  SCHEMA_FLOAT,
  SCHEMA_STRING,
  SCHEMA_INTS,
  SCHEMA_STRINGS,
  SCHEMA_ONES,
  SCHEMA_ZEROS,
  SCHEMA_REVERSED, // n-1 … 0 for rank n
};

struct schema_attribute {
  const char *name;
  uint8_t type; // enum attr_type
  bool required;
  bool says;    // an int or a tensor whose type outputs have that follow from no input
  uint8_t kind; // enum schema_default
  uint8_t n;    // INTS, STRINGS: how many
  union {
    int64_t i;
    float f;
    const char *s;
    const int64_t *ints;
    const char *const *strings;
  } u;
};

// How a node changed with a version (README.md).
enum schema_change_kind {
  CHANGE_same,
  CHANGE_without,
  CHANGE_with,
  CHANGE_zero,
  CHANGE_one_output,
  CHANGE_second_input,
  CHANGE_floating,
  CHANGE_last_axis,
  CHANGE_explicit_pads,
  CHANGE_sampling,
  CHANGE_resize_13,
  CHANGE_dropout_12,
  CHANGE_ranked,
  CHANGE_changed,
};

// One version of an operator.
struct schema_signature {
  int16_t since; // from this version of its domain, up to the next signature
  uint8_t n_inputs, n_outputs, n_attributes, n_variables;
  uint8_t least_in, most_in, least_out, most_out; // SCHEMA_ANY: no bound
  bool one_or_all;                                // outputs: the first alone, or all of them
  bool deprecated;                                // no node should have it any more
  bool more;                                      // attributes that are not listed may be there too
  uint8_t change; // enum schema_change_kind: against the version before
  const struct schema_formal *inputs, *outputs;
  const struct schema_attribute *attributes; // in order of their names
  const struct schema_variable *variables;
  const char *change_names; // of attributes, separated by blanks: what `change` looks at
  // What makes a node of the version before valid in this one, in steps (README.md); "": nothing
  // does, or nothing need be done.
  const char *rewrite;
};

// ---- operators ----------------------------------------------------------------------------------

// A rule of inference: its family and what sets it apart there, as one word: SCHEMA_RULE_broadcast_bool.
enum schema_rule {
  SCHEMA_RULE_none,
#define SCHEMA_RULE(id, family, parameter) SCHEMA_RULE_##id,
#include "schema_rules.def"
#undef SCHEMA_RULE
  SCHEMA_RULES, // how many
};
struct schema_rule_row {
  const char *family, *parameter; // "broadcast", "bool"; "" where the family says all
};
const struct schema_rule_row *schema_rule_row(enum schema_rule rule);

enum schema_flag {
  SCHEMA_UNARY = 1,       // out[i] = f(in[i]): one operand, dims as they were
  SCHEMA_BINARY = 2,      // two operands, broadcast
  SCHEMA_ELEMENTWISE = 4, // out[i] = f(operands[i]), broadcast; unary, binary, or more operands
  SCHEMA_COMMUTATIVE = 8, // operands may change places
  SCHEMA_RANDOM = 16,     // two equal nodes give different values
  SCHEMA_WITHDRAWN = 32,  // of SCHEMA_RUNTIME_DOMAIN: ONNX once had it, as an experiment
  SCHEMA_JUMPS = 64,      // an output changes by more than rounding where an input changes by it
  SCHEMA_UNROUNDED = 128, // elements of outputs are those of inputs, whole numbers or truth values
  SCHEMA_DIMS = 256,      // outputs depend on dims of inputs, and not on their elements
  SCHEMA_APART = 512,     // inputs of another variable than the first one's may be float, whatever that is
};

struct schema_operator {
  const char *domain, *name;               // "" for ai.onnx
  const struct schema_signature *versions; // in order
  uint8_t n_versions;                      // 0: withdrawn so long ago that none is known
  uint16_t flags;                          // enum schema_flag
  uint16_t rule;                           // enum schema_rule
};

// What ONNX Runtime adds to ai.onnx, operators and versions, is in the table under this domain; the
// domain "" has what ONNX has.
#define SCHEMA_RUNTIME_DOMAIN "onnxruntime"

// All operators, in order of (domain, name).
const struct schema_operator *schema_all(uint32_t *n);
// The operator of that name in that domain ("ai.onnx" is ""), or NULL. Logarithmic; schema_names is
// constant.
const struct schema_operator *schema_operator_of(struct span domain, struct span op_type);
// Its signature at a version of its domain; NULL before its first.
const struct schema_signature *schema_at(const struct schema_operator *op, int64_t version);
// Both in one.
const struct schema_signature *schema_signature_of(struct span domain, struct span op_type,
                                                   int64_t version);
// The newest version of a domain that the table knows; 0 for domains that it does not have.
int64_t schema_newest(struct span domain);
// The attribute of that name, or NULL.
const struct schema_attribute *schema_attribute_of(const struct schema_signature *s,
                                                   struct span name);
// Is the type of a formal output that of some input which the node has? Else an attribute says it, or a body, or nothing.
bool schema_output_follows(const struct model *m, uint32_t node, const struct schema_signature *s,
                           const struct schema_formal *out);
// The type that an attribute of the node (schema_attribute.says; written or by default) says of the output at the slot,
// where it is that of no input; else DTYPE_UNDEFINED.
enum dtype schema_attribute_type(const struct model *m, uint32_t node,
                                 const struct schema_signature *s, uint32_t slot);
// The formal input (output) that slot `at` of a node is; NULL past the last.
const struct schema_formal *schema_input(const struct schema_signature *s, uint32_t at);
const struct schema_formal *schema_output(const struct schema_signature *s, uint32_t at);

// Operators by the names of a model's nodes, in constant time: one look into a small table of the
// operators that it has. Starts with schema_names_init; the model must outlive it.
struct schema_name_slot; // internal
struct schema_names {
  const struct model *m;
  TABLE(struct schema_name_slot, slots);
  uint32_t n; // slots in use
};
void schema_names_init(struct schema_names *names, const struct model *m);
void schema_names_done(struct schema_names *names);
// The operator that a node names; NULL: the table does not have it. A function of the model may
// have that name too: who cares asks model_calls.h.
const struct schema_operator *schema_of_node(struct schema_names *names, uint32_t node);
// Its signature under the opset that holds for the node; NULL too where the domain is not imported.
const struct schema_signature *schema_of_node_at(struct schema_names *names, uint32_t node);

// ---- other versions -----------------------------------------------------------------------------

// The first release of ONNX with an opset of ai.onnx ("1.12"), and its year; NULL: none that is known.
struct schema_release {
  int64_t opset;
  const char *release;
  int year;
};
const struct schema_release *schema_release_of(int64_t opset);

// Why a node cannot be read under another version of its domain's opset.
struct schema_change {
  int64_t since_version; // where it changed; 0: the operator is not in the table
  const char *why;       // "attribute 'axes' became an input", …; a literal or in *scratch
  bool asks_rank;        // the answer would be false if the first input, whose rank is not known, were a scalar
};

// Does a node of the domain "" that was written for opset `from` mean the same under `to` (>=
// from)? What nodes of other domains mean does not depend on it: true. On false, *change says why.
// `types` (may be NULL): what is known of values beside their declarations.
bool schema_same(const struct model *m, const struct model_types *types, uint32_t node, int64_t from,
                 int64_t to, struct arena *scratch, struct schema_change *change);

#endif
