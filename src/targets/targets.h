// Room: targets: the runtimes and consumers that models are written for, by name, and the features of each
// (targets.def, target_features.def). A target has presets for quantize, and refuses what it cannot run; it changes
// nothing else. The same tables say the least version of ONNX Runtime that runs a model.
#ifndef WEIR_TARGETS_H
#define WEIR_TARGETS_H

#include "base/arena.h"
#include "model/model.h"
#include "model/model_calls.h"
#include "schema/schema.h"

#include <stdbool.h>
#include <stdint.h>

enum target_feature {
#define FEATURE(id, ...) TARGET_##id,
#include "targets/target_features.def"
  TARGET_FEATURES, // how many; none
};

enum { TARGET_OLDEST = 20, TARGET_NEWEST = 32 }; // versions of ONNX Runtime that are known of

struct target_feature_row {
  uint32_t ort; // 0: no version
  const char *words, *instead;
};
const struct target_feature_row *target_feature_row(enum target_feature feature);

// A row of targets.def. File names and layout are no members: they are options of their own.
struct target {
  const char *name, *about;
  // The number behind "1." of its version of ONNX Runtime: what a later one brought is refused. 0: none, or any.
  uint32_t ort;
  // Presets of options of quantize; NULL, false or 0: quantize's own.
  const char *format, *block; // --format; --block-size as text
  bool symmetric;
  uint32_t level; // --accuracy-level, for nodes of 4 bits: those of 8 lose accuracy with it
  const char *candidates;
  // Bits of features that it does not run, besides those that its version lacks (nothing is written with them), and
  // of those that a part of it does not run (a warning).
  uint32_t refuses, warns;
  // In what its models were loaded and run (test_targets.py, test_consumers.py). NULL: the row is what its
  // documentation says.
  const char *tried;
  // Presets of the pass dynamic: options with their values, blanks between; by-conv is uint8 for a model with a Conv,
  // else int8. NULL: its own.
  const char *dynamic;
};
// Is "option=value" among what the target sets of the pass dynamic? (t NULL: no.)
bool target_sets_dynamic(const struct target *t, const char *word);
// The value that the target sets for an option of the pass dynamic, in *a; NULL: none.
const char *target_dynamic_preset(const struct target *t, const char *option, struct arena *a);

// Of passes that have no presets for a target: its row of options says this, and whoever runs the pass
// looks at what came of it.
#define TARGETS_ONLY_REFUSES                                                                       \
  "runtime or tool that the model is for\nweir refuses to write a model that the target cannot "   \
  "run "                                                                                           \
  "('weir "                                                                                        \
  "targets' lists the names)."

// All names with | between them, as the words of a choice.
const char *targets_names(void);
extern const char targets_joined[]; // the same behind one more |
// The i-th, NULL past the last; the one of that name or NULL.
const struct target *targets_at(uint32_t i);
const struct target *targets_find(struct span name);
// The targets that a word of other tools means (target_words.def), or the one that is nearest to a version of ONNX
// Runtime in other words: in words for a hint, "'cpu'", "'ort-1.32', the nearest"; NULL: the word means none.
const char *targets_meant(const char *word);
// What a target sets, a bit each.
enum target_preset {
  TARGET_SETS_FORMAT = 1,
  TARGET_SETS_BLOCK = 2,
  TARGET_SETS_SYMMETRIC = 4,
  TARGET_SETS_LEVEL = 8,
  TARGET_SETS_CANDIDATES = 16, // where there are some, they have blocks and symmetry of their own
  TARGET_SETS_ALL = 15,        // of a run without candidates
};
// The bit of the option of that name; 0: no target sets it.
uint32_t target_preset_of(const char *option);
// Those of the set, in words: "blocks of 32, symmetric, accuracy level 4 on 4-bit nodes"; "" for none.
const char *target_presets(const struct target *t, uint32_t set, struct arena *a);
// Features joined by ", ", of a set of bits: "8-bit MatMulNBits, bfloat16"; "" for none.
const char *target_features_words(uint32_t features, struct arena *a);
// All that it does not run: of its own and what its version of ONNX Runtime lacks.
uint32_t target_lacks(const struct target *t);

// How a weight is stored, as far as runtimes differ in it.
struct target_form {
  enum { TARGET_MATMUL, TARGET_GATHER, TARGET_QDQ } op;
  uint32_t bits;
  uint64_t block; // 0: by channel or tensor
  bool zeros;     // has zero points
  bool float_zeros;
  bool half; // the weight was float16
};
// A bit per feature that is needed to run it.
uint32_t target_form_needs(const struct target_form *form);

// What a model needs, by a look at its nodes, tensors, inputs and versions; elements are not read. Operators
// that weir writes are known, all others are taken to be everywhere. Arithmetic of a type is what any node but
// Cast, Identity and Constant does with a value of it, where the type is that of a constant, a declaration or a
// Cast's.
struct target_needs {
  uint32_t features; // a bit per feature
  // The least version of ONNX Runtime, as the number behind "1."; from TARGET_OLDEST on.
  uint32_t ort;
  enum target_feature why;   // what needs it; TARGET_FEATURES: what is below, or nothing
  int64_t opset, ir_version; // that need it; 0: they do not
  // A node that needs it for its kernel, or for which (`none`) no version has one; NO_ID: there is no such node.
  uint32_t node;
  const char *op;     // its operator
  int64_t node_opset; // at which
  enum dtype dtype;   // with that type; UNDEFINED: with any
  bool none;          // no version loads the opset, or has the kernel
};
void target_needs(const struct model *m, struct target_needs *out);
// "8-bit MatMulNBits", "opset 25", "IR version 13", "RoiAlign of opset 22", "Relu of opset 14 with uint8": why the
// version is needed.
const char *target_needs_words(const struct target_needs *n, struct arena *a);

// Kernels of ONNX Runtime for the nodes of a model, which outlives it.
struct target_kernels {
  const struct model *m;
  struct schema_names names;
  struct model_calls calls;
};
void target_kernels_init(struct target_kernels *k, const struct model *m);
void target_kernels_done(struct target_kernels *k);
// The first version of ONNX Runtime (the number behind "1.") whose CPU provider runs the node as its operator is at an
// opset of ai.onnx (0: that of its graph), by a kernel or as a function that it takes apart; TARGET_OLDEST too where
// nothing is known of the operator. 0: no version does. *dtype: the type that the version is needed for, or UNDEFINED.
uint32_t target_kernel_of(struct target_kernels *k, uint32_t node, int64_t opset,
                          enum dtype *dtype);
// The first that loads a model of this opset; 0: none.
uint32_t target_loads_opset(int64_t opset);

#endif
