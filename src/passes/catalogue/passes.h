// Room: the catalogue: the passes of all families, in order, and words of users as their options (pass_values.h).
#ifndef WEIR_PASSES_H
#define WEIR_PASSES_H

#include "passes/pass.h"

uint32_t passes_count(void);
// Adds a list of passes, NULL behind the last, to those of the families, in the place of the one that was added before; NULL:
// none. It is kept. To be called before any name is read, and for the whole process: names in logs and reports are
// looked up where no command line is at hand.
void passes_extend(const struct pass *const *list);
const struct pass *passes_at(uint32_t i);
// Is it the pass's name, the one that it had before, or that of a class of onnx-passes that it does, alone
// ("GroupAdd") or behind a path ("streamline.algebraic.numeric.GroupAdd")? Not its family's.
bool passes_called(const struct pass *pass, struct span name);
// The pass of that name, or NULL.
const struct pass *passes_find(struct span name);
// What a name stands for: the pass of that name, or the passes of the family or set, in order; with "family:" before
// it the latter only. The k-th of them; NULL past the last.
const struct pass *passes_named(struct span name, uint32_t k);
// As passes_named(name, 0), with ERR_USAGE and the nearest name where there is none.
const struct pass *passes_known(struct span name, struct err *err);
// The family of a pass: what stands before the slash, or all of its name.
struct span passes_family(const struct pass *pass);

// Is the pass in that set, or of that family?
bool passes_is_in(const struct pass *pass, struct span set);
// Does the pass round activations elsewhere than before in a group of edits of that reason (pass.activations_in)?
bool passes_rounds_in(const struct pass *pass, const char *reason);
// The k-th word of a list with blanks between (pass.keys, pass.classes; NULL: empty); n 0: there are fewer.
struct span passes_word(const char *list, uint32_t k);
// The class of onnx-passes that the pass's own name says ("GroupAdd"); n 0: none.
struct span passes_class(const struct pass *pass);

#endif
