// What holds of a well-formed model beyond framing, loaded or edited: names unique per graph, inputs
// defined, no cycles, recursion among functions, opset imports present … It looks at the metadata
// alone.
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

#include "err.h"
#include "fault.h"
#include "model.h"

// Without `faults` the first error ends it: -1, ERR_MODEL with the place. With them all faults are
// reported, and notes too (overlapping extents, unaligned offsets, dead bytes); then it gives 0.
// Linear in the rows of the model.
int check_structure(const struct model *m, const struct fault_sink *faults, struct err *err);

#endif
