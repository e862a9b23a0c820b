// Room: checks of a model, loaded or edited: unique names per graph, defined inputs, no cycles, no recursion among
// functions, opset imports present. They look at the metadata alone. Apart from these, what operators want of their
// nodes.
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

#include "base/err.h"
#include "check/fault.h"
#include "model/model_types.h"

// Without `faults` the first error ends it: -1, ERR_MODEL with the place. With them all faults are
// reported, and what ranges of data files do to each other too (overlaps, unaligned offsets, dead
// bytes); then it returns 0. *found counts what there is (faults or not), before it is reported; NULL: nobody wants to
// know. Linear in the rows of the model.
struct check_found {
  uint32_t warnings;
  uint32_t imports; // warnings and the error that an operator set is not imported
};
int check_structure(const struct model *m, const struct fault_sink *faults,
                    struct check_found *found, struct err *err);

// What operators want of their nodes: that there is such an operator at the imported opset (or a
// function of that name), counts of inputs and outputs, attributes, and dtypes as far as they are
// declared or constant. An error for domains of ONNX, a warning for others. 0 or -1 as above. For a
// model that check_structure has seen, and only for who wants to know: weir itself can do with nodes
// that it does not understand. Linear in the rows of the model.
int check_operators(const struct model *m, const struct fault_sink *faults, struct err *err);
// The dtypes alone, of nodes of ONNX's own operators, as they are known in `types`: where check_operators found no
// error.
int check_dtypes(const struct model *m, const struct model_types *types,
                 const struct fault_sink *faults, struct err *err);

#endif
