// What holds of a well-formed model beyond framing, loaded or edited: names unique per graph, inputs
// defined, no cycles, recursion among functions, opset imports present … It looks at the metadata
// alone.
#ifndef WEIR_CHECK_H
#define WEIR_CHECK_H

#include "err.h"
#include "fault.h"
#include "model.h"

// Without `faults` the first error ends it: -1, ERR_MODEL with the place. With them all faults are
// reported, and what ranges of data files do to each other too (overlaps, unaligned offsets, dead
// bytes); then it gives 0. *warnings: how many there are (faults or not); NULL: nobody wants to
// know. Linear in the rows of the model.
int check_structure(const struct model *m, const struct fault_sink *faults, uint32_t *warnings,
                    struct err *err);

#endif
