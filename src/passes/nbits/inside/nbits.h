// What the files of this pass share: decisions about nodes (nbits_match.c), tensors
// (nbits_tensors.c), nodes (nbits_nodes.c). For this pass only.
#ifndef WEIR_NBITS_H
#define WEIR_NBITS_H

#include "passes/kit/kit.h"
#include "passes/nbits/matmulnbits.h"

// A node that was looked at, and what becomes of it.
struct nbits_site {
  uint32_t node, index; // index: its position in its graph
  enum matmulnbits_op op;
  bool converts;
  const char *reason; // a stable word
  // the weight, where one was found
  struct model_constant weight;
  uint32_t slot;   // of the node's inputs
  bool transposed; // found behind a Transpose
  uint32_t name;   // name id that new tensors are named by
  struct matmulnbits_scheme scheme;
  bool pinned; // an override says the scheme
  // gptq, awq: of what the weight is multiplied with; else NO_ID.
  struct recipe_statistics statistics;
  uint64_t seen;       // awq: rows of the value that the statistics are of
  uint32_t share;      // awq: of w->shares; else NO_ID
  uint32_t next_of_it; // the next site of the share
  // where a measurement decided
  const char *chosen_by; // "budget", "gate" or NULL
  struct figures figures;
  // What the error of the output was weighed by; NULL: weights alone decided.
  const char *weighed_by;
  double output_db;
};

// To be called of a node before nbits_match, which has no kit: is its weight one that other nodes make (kit_weight)?
void nbits_see(struct kit *k, uint32_t node, uint32_t op);
// Fills all but node, index and op; counts matches of the patterns.
void nbits_match(const struct model *m, struct matmulnbits_options *options,
                 struct nbits_site *site);
// Why there is no operator for the site's weight in this scheme, were all else well: a reason word,
// or NULL.
const char *nbits_obstacle(const struct model *m, const struct matmulnbits_options *options,
                           const struct nbits_site *s, const struct matmulnbits_scheme *scheme);
// ERR_USAGE for options that ask for what the target does not run. Candidates and 8 bits for weights that
// miss a gate are refused only where they were given: else they are left out.
int nbits_target_check(const struct matmulnbits_options *o, bool candidates_given,
                       bool action_given, struct err *err);
enum { NBITS_LEAST_BLOCK = 16 };
// Weights of sites that convert whose stored blocks are at least half empty, because a column is
// shorter: how many, the least block size that holds a column of each, and whether with it all weights
// together take fewer bytes. None where a budget picks block sizes, of weights pinned to another one,
// and where columns are stored without what lacks of a block (qdq, Gather).
struct nbits_half_empty {
  uint32_t weights, block;
  bool smaller;
};
void nbits_half_empty(const struct model *m, const struct matmulnbits_options *o,
                      const struct nbits_site *sites, uint32_t n, struct nbits_half_empty *out);
// The weight as a matrix of k rows, along which blocks run. False where its dims have no product.
bool nbits_shape(const struct model *m, const struct nbits_site *site, uint64_t *k,
                 uint64_t *columns);
// Does the product of x and the weight, quantized as a matrix, lack leading dims of MatMul(x, W)?
bool nbits_needs_chain(const struct model *m, uint32_t weight, uint32_t x);
// Is the node one that the pass looks at, and as which operator? 0: no.
uint32_t nbits_looks_at(const struct model *m, uint32_t node, uint32_t op_types);

// How a weight lies when it is quantized.
//   BLOB     MatMulNBits: packed by column, [N, k_blocks, bytes of a block]
//   COLUMNS  DequantizeLinear: as the weight, blocks along axis 0
//   ROWS     the same with blocks along axis 1
//   SWAPPED  DequantizeLinear, symmetric and per channel: [N,K], blocks along axis 1, for a Transpose behind
//   TABLE    GatherBlockQuantized, 4 bits: as the weight, blocks along axis 1
//   PACKED   GatherBlockQuantized, 2 and 8 bits: uint8 [V, D*bits/8]
enum nbits_form { NBITS_BLOB, NBITS_COLUMNS, NBITS_ROWS, NBITS_SWAPPED, NBITS_TABLE, NBITS_PACKED };

// A weight in its quantized form, once for all nodes that use it so.
struct nbits_tensor {
  uint32_t tensor;      // of the source
  enum nbits_form form; //
  bool transposed;      // the form is that of the tensor's transpose
  struct matmulnbits_scheme scheme;
  struct recipe_statistics statistics;
  uint32_t codes, scales, zeros; // value ids; zeros NO_ID: without
  uint32_t recipe;               // of the codes
  int64_t axis_length;           // of the axis that is cut into blocks
  uint32_t dequantized;          // qdq: the value of the floats again, NO_ID: not made yet
  uint32_t next;                 // of the same source tensor, NO_ID ends it
};

// awq: a value whose weights have the scales of their rows in common, and the value divided by them.
struct nbits_share {
  uint32_t value, graph; // graph: of the nodes
  struct matmulnbits_scheme scheme;
  uint32_t scaled;         // the value divided, made where its first node was; NO_ID: not yet
  uint32_t first, last, n; // its sites
  uint32_t next;           // of the same value: + 1
};

// One run of the pass. New nodes go to k.graph, before k.before.
struct nbits_work {
  struct kit k;
  const struct matmulnbits_options *options;
  bool measures; // only: all candidates count
  TABLE(struct nbits_tensor, tensors);
  TABLE(struct nbits_share, shares);
  TABLE(uint32_t, share_of); // by value id: 1 + the last
  uint32_t *first;           // of tensors, by source tensor id
  // of the site at hand
  const struct nbits_site *site;
  const char *node_name, *weight_name;
  uint32_t x, y; // activation (Gather: indices) and output
};

// Is the scheme not for this site, because the target does not run it?
bool nbits_target_refuses(const struct nbits_work *w, const struct nbits_site *s,
                          const struct matmulnbits_scheme *scheme);
// Says once which candidates and what raise are left out for the target.
void nbits_target_tell(struct nbits_work *w);

// Stem and suffix, made a name that no value has.
struct span nbits_value_name(struct nbits_work *w, const char *stem, const char *suffix);

// The quantized form of the site's weight (transposed: of its transpose), made at its first use: a
// row of w->tensors.
uint32_t nbits_tensor(struct nbits_work *w, enum nbits_form form, bool transposed);
// The form in which the site's weight is quantized; *transposed: it is that of its transpose.
enum nbits_form nbits_form(const struct nbits_work *w, bool *transposed);
// What the site's weight would become, without an edit: the recipe of its codes, and the bytes of
// all its tensors.
uint32_t nbits_measurable(struct nbits_work *w);
// The weight of a product as a matrix [K, N], as quantization takes it but for scales of its rows.
uint32_t nbits_matrix(struct nbits_work *w);
struct nbits_size {
  uint64_t bytes;
  uint64_t room; // the most that lies between them and what is before, in a data file
};
struct nbits_size nbits_size(struct nbits_work *w);
// Decides by measurements, where the options ask for it: sites get other schemes, or are left
// alone. ERR_FAIL if weights miss a gate that fails. Edits nothing. A budget is the limit of all
// files of the output: env->result->output_limit.
int nbits_choose(struct nbits_work *w, struct nbits_site *sites, uint32_t n, struct err *err);
// Measures the options' candidates for the weights of all sites that convert: matmulnbits_measure.
// Sites that no candidate is for do not convert any more.
int nbits_measure(struct nbits_work *w, struct nbits_site *sites, uint32_t n,
                  const struct matmulnbits_listener *to, struct err *err);
// nbits_gram.c. Does the scheme's algorithm look at second moments? And those of all sites that convert with such a
// one. ERR_INPUT where they are missing or do not fit, ERR_USAGE for a weight with too many rows.
bool nbits_takes_gram(const struct matmulnbits_scheme *s);
int nbits_gram(struct nbits_work *w, struct nbits_site *sites, uint32_t n, struct err *err);
// What the error of the site's output is weighed by, with options that name RANGES: a recipe that goes with these codes
// (weighings.h) and its word, or NO_ID where nothing is known of the value. ERR_INPUT where it does not fit.
int nbits_weighed_by(struct nbits_work *w, const struct nbits_site *s, uint32_t codes, uint32_t *by,
                     const char **word, struct err *err);
// The value that the site's weight is multiplied with: w->x, or that divided by the scales of the weight's rows.
uint32_t nbits_scaled(struct nbits_work *w, uint32_t x);
// The weight (a matrix whose rows are k) with its rows scaled.
uint32_t nbits_scale_rows(struct nbits_work *w, uint32_t of);
// Does the converting site's node stay (qdq Gemm, Gather), with another input?
bool nbits_stays(const struct matmulnbits_options *options, const struct nbits_site *site);
// New nodes for the site's node, which is removed, if it does not stay. Gives the recipe of
// the codes.
uint32_t nbits_rewrite(struct nbits_work *w, const struct nbits_site *site);
// The opsets and the IR version that the converted sites need. Looks at everything before it edits.
int nbits_raise(struct nbits_work *w, const struct nbits_site *sites, uint32_t n, struct err *err);

#endif
