// Room: the catalogue: the passes of all families, in order, and words of users as their options (pass_values.h).
#ifndef WEIR_PASSES_H
#define WEIR_PASSES_H

#include "passes/pass.h"

// A user's own passes, after those of the families. Zeroed, or as NULL below: none.
struct own_passes {
  const struct pass *const *list; // NULL after the last; it belongs to the caller
  struct passes_entry *names;     // an index of them
  size_t cap, room;
};
// Takes a list, and makes its index, which own_passes_free frees.
void own_passes_set(struct own_passes *own, const struct pass *const *list);
void own_passes_free(struct own_passes *own);

// All of them: families first.
uint32_t passes_count(const struct own_passes *own);
const struct pass *passes_at(const struct own_passes *own, uint32_t i);
// Is it the pass's name, the one that it had before, or that of a class of onnx-passes that it does, alone
// ("GroupAdd") or behind a path ("streamline.algebraic.numeric.GroupAdd")? Not its family's.
bool passes_called(const struct pass *pass, struct span name);
// The pass of that name, or NULL.
const struct pass *passes_find(const struct own_passes *own, struct span name);
// What a name stands for: the pass of that name, or the passes of the family or set, in order; with "family:" before
// it the latter only. The k-th of them; NULL past the last.
const struct pass *passes_named(const struct own_passes *own, struct span name, uint32_t k);
// As passes_named(own, name, 0), with ERR_USAGE and the nearest name where there is none.
const struct pass *passes_known(const struct own_passes *own, struct span name, struct err *err);
// The family of a pass: what stands before the slash, or all of its name.
struct span passes_family(const struct pass *pass);

// Does the pass round activations elsewhere than before in a group of edits of that reason (pass.activations_in)?
bool passes_rounds_in(const struct pass *pass, const char *reason);
// The k-th word of a list with blanks between (pass.keys, pass.classes; NULL: empty); n 0: there are fewer.
struct span passes_word(const char *list, uint32_t k);
// The class of onnx-passes that the pass's own name says ("GroupAdd"); n 0: none.
struct span passes_class(const struct pass *pass);

#endif
