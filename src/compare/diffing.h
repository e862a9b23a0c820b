// Room: the comparison of two models: the changes of nodes, values and tensors.
//
//   diffing_load ──▶ diff_match ──▶ match_tensors ──▶ diff_compare
//   two models       twins          tensors           what differs
#ifndef WEIR_DIFFING_H
#define WEIR_DIFFING_H

#include "base/observer.h"
#include "compare/dequant_expr.h"
#include "compare/diff.h"
#include "compare/values/contrast.h"
#include "edit/edit.h"
#include "stream/run/work.h"

enum diffing_weights { WEIGHTS_NONE, WEIGHTS_DIGEST, WEIGHTS_VALUES };

struct diffing_model {
  const char *path;
  struct sources *sources;
  struct model model;
  struct recipes recipes;
  struct edits edits;  // none is made: what gives tensors their recipes
  uint64_t bytes;      // of all files
  bool loaded, absent; // absent: a data file is
};

// How a tensor was found on the other side.
enum matched_by {
  MATCHED_NAME,
  MATCHED_PLACE,      // at the same slot of twin nodes
  MATCHED_BYTES,      // the same bytes under another name
  MATCHED_TRANSPOSED, // of a matrix, the same elements transposed
  MATCHED_RECAST,     // what twins compute with, after casts, dequantization and the like
  MATCHED_NOTHING,    // on one side only
};

enum matched_verdict { MATCHED_SAME, MATCHED_DIFFERS, MATCHED_UNKNOWN };

// A tensor and what became of it.
struct matched_tensor {
  uint32_t tensor[DIFF_SIDES]; // NO_ID: not there
  uint8_t by, verdict;         // enums above
  bool renamed, moved;         // moved: from inside the .onnx to a data file, or back
  bool rehomed;                // from a Constant node to an initializer, or back
  bool dtype, dims;            // they differ
  bool figures;                // `found` has them
  bool trusted;                // told by manifests
  uint32_t roots[DIFF_SIDES]
                [DEQUANT_EXPR_ROOTS]; // RECAST: codes, scales, zero points …; NO_ID behind
  const char *form[DIFF_SIDES];       // RECAST: how they stand for elements, or NULL: plain
  uint32_t recipe[DIFF_SIDES];
  struct contrast_found found;
};

struct diffing {
  struct work_options work; // its mode is chosen only if weights are compared
  const char *io_name;      // of that choice, for messages: "--io"; NULL: not asked for
  const char *weights_word; // as the user names `weights`
  bool allow_links;
  struct diffing_model side[DIFF_SIDES];
  struct diff d;
  struct arena arena;
  enum diffing_weights weights;
  double began;
  bool trusts;        // --trust-manifests
  const char *unread; // why weights were not compared, or NULL
  struct contrast_stats stats;
  uint64_t same_place, by_manifest; // tensors that were not read
  TABLE(struct matched_tensor, rows);
};

int diffing_load(struct diffing *x, struct err *err);
void diffing_done(struct diffing *x);

// Finds all rows, and pairs tensors in x->d that hold the same under other names.
int match_tensors(struct diffing *x, struct err *err);

// Digests per tensor that manifests have: fills, by tensor id, offsets into `digests` + 1.
struct manifest_digests {
  struct arena arena;
  const uint8_t (**of[DIFF_SIDES])[32]; // by tensor id: one for each 64 MiB, or NULL
  uint32_t *n[DIFF_SIDES];
};
int manifest_digests_read(struct manifest_digests *t, struct diffing *x, struct err *err);
void manifest_digests_done(struct manifest_digests *t);

#endif
