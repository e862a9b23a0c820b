// Looks in the edit log: tensors whose elements a pass asked for, beyond those that are at hand
// anyway.
//
//   {"edit":"look","tensor":"g0/t5:gamma","sha256":"…"}
//
// Small values are part of what identifies a source (meta_sha256), so a log that was decided by them
// needs to say nothing of them. A vector of 2 KB is not. What was read of it decided the edits that
// follow, and who replays the log reads it again and compares. A tensor is written down once, as
// long as it stays what it is: a replaced one may be looked at again.
#include "edit_line.h"

// What the tensor holds now, as a number that is not 0.
static uint32_t state_of(const struct edits *e, uint32_t tensor) {
  const uint32_t recipe = e->m->tensors[tensor].recipe;
  return recipe == NO_ID ? 1 : recipe + 2;
}

bool edit_looked(const struct edits *e, uint32_t tensor) {
  return tensor < e->n_looked && e->looked[tensor] == state_of(e, tensor);
}

void edit_look(struct edits *e, const struct edit_look *look) {
  char hex[2 * sizeof look->sha256 + 1];
  if (edit_looked(e, look->tensor)) return;
  if (look->tensor >= e->n_looked) TABLE_ADD(e, looked, look->tensor + 1 - e->n_looked);
  e->looked[look->tensor] = state_of(e, look->tensor);
  hex_encode(look->sha256, sizeof look->sha256, hex);
  if (edit_line_begin(e, "look")) {
    edit_line_tensor_address(e, look->tensor);
    edit_line_string(e, "sha256", span_str(hex));
  }
  edit_line_end(e);
  arena_reset(&e->scratch);
}
