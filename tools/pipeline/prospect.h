// What would come of a model: passes run on its metadata alone, and planned, for advice. No weight is read, nothing is
// run in a runtime and nothing is written; the size is that of the plan, which is that of the files.
#ifndef WEIR_PROSPECT_H
#define WEIR_PROSPECT_H

#include "sources.h"

// More nodes and tensors than that are not looked ahead for, nor more bytes of the .onnx beside elements: each prospect
// loads the model again.
enum { PROSPECT_ROWS = 1 << 19, PROSPECT_BYTES = 64 << 20, PROSPECT_PASSES = 4 };

struct prospect {
  uint64_t bytes; // of all files of the output
  uint64_t sites; // that passes changed, as their reports count them
};

// Of the passes, as behind --pass, in order; NULL ends them. A pass that needs the ranges of activations (`static:ranges=…`,
// of any name) has some for every value, as a calibration that saw all of them. false: a pass refuses the model, or
// nothing changes.
bool prospect_of(struct sources *sources, const char *const passes[PROSPECT_PASSES],
                 const char *onnx_name, struct prospect *out);

#endif
