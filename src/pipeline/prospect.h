// The size of a model after some passes, for advice: passes run on its metadata and their edits are planned. Nothing reads
// a weight, runs a model or writes a file; the size is that of the plan, which is that of the files.
#ifndef WEIR_PROSPECT_H
#define WEIR_PROSPECT_H

#include "stream/io/sources.h"

// Limits for callers, since each prospect loads the model again: nodes and tensors; bytes of the .onnx that are not
// elements of tensors.
enum { PROSPECT_ROWS = 1 << 19, PROSPECT_BYTES = 64 << 20, PROSPECT_PASSES = 4 };

struct prospect {
  uint64_t bytes; // of all files of the output
  uint64_t sites; // that passes changed, as their reports count them
};

// passes: words as --pass takes them, in order, NULL after the last. A pass that needs ranges of activations
// (`static:ranges=NAME`, of any name) gets one for every value, as from a calibration that saw all of them. false: a pass
// refuses the model, or nothing changes.
bool prospect_of(struct sources *sources, const char *const passes[PROSPECT_PASSES],
                 const char *onnx_name, struct prospect *out);

#endif
