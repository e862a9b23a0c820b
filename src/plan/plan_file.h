// A plan as files: canonical JSON (fixed key order, one segment, recipe and tensor a line, integers
// past 2^53 as strings) and the literals beside it. plan_id = SHA-256 of the JSON, which names the
// literals by length and SHA-256.
#ifndef WEIR_PLAN_FILE_H
#define WEIR_PLAN_FILE_H

#include "plan/plan.h"

// Writes the JSON text through `sink` piece by piece and sets p->id.
int plan_file_write(struct plan *p, int (*sink)(void *ctx, struct span text), void *ctx,
                    struct err *err);

// Reads a plan back. `json` and `literals` are untrusted: every offset, id, size and dim is checked
// (segments gapless and inside their output, recipe operands earlier than their users, extents
// inside their source, literals' digest). ERR_MODEL with the place where something is wrong.
int plan_file_read(struct plan *p, struct span json, struct span literals, struct err *err);

// The tensors of plan->small, which the plan's own file leaves out: for who lists all tensors of a plan that was
// read back. In the same form; sha256: of the text. Reading adds to a plan that was read, and checks as that does.
int plan_file_write_small(const struct plan *p, int (*sink)(void *ctx, struct span text), void *ctx,
                          uint8_t sha256[DIGEST_BYTES], struct err *err);
int plan_file_read_small(struct plan *p, struct span json, struct err *err);

#endif
