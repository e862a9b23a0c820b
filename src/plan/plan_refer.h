// A model whose weights stay where they are: its plan is a small .onnx, whose tensors name the places of their bytes in
// the files of the source.
//
//   source   x.onnx (nodes, small tensors)   x.data (a, b, c)
//   plan     refer.onnx: nodes, small tensors; a: x.data 0..; b: x.data 4096..; c, which a pass changed: refer.data 0..
//
// For who runs the model without a copy of it.
#ifndef WEIR_PLAN_REFER_H
#define WEIR_PLAN_REFER_H

#include "plan/plan.h"

struct plan_refer {
  const char *onnx_name, *data_name; // of the plan's outputs; data_name: of what edits made
  const char *const
      *locations; // by file of the model: what a tensor that lies in it has as its location
  const char *data_location; // the same of data_name
  uint64_t inline_below; // bytes: smaller tensors lie in the .onnx, as small values do (model.h)
};

// Builds *p, over the table of recipes that the edits were made with, which gets rows for what the source has as it is. Its
// outputs are the data file, where there is one, and the .onnx; it has no rows of tensors, no sources and no texts.
// Tensors of equal bytes share a place. ERR_FAIL: the .onnx would be too large.
int plan_refer_build(struct plan *p, const struct model *m, struct recipes *r,
                     const struct plan_refer *how, struct err *err);

#endif
