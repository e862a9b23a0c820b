// Files beside the model that recipes read: statistics that calibration found.
#ifndef WEIR_EXECUTION_SOURCE_H
#define WEIR_EXECUTION_SOURCE_H

#include "base/digest.h"
#include "edit/edit.h"

// pass_env.source for an execution as ctx: makes the file a source of the run and of the plan, and writes its line in the
// edit log, once. Reads all of it, for the digest.
int execution_source(void *exec, const char *path, const uint8_t sha256[DIGEST_BYTES],
                     uint32_t *file, struct err *err);
// edits.source for an execution as ctx: the file of that name beside the log, beside the model, or in the current folder, in
// this order, whose digest is that of the line. ERR_INPUT: there is none.
int execution_source_replay(void *exec, const struct edit_source *source, struct err *err);

#endif
