// Which files decide what a command makes, beside its model? Their digest, so that a run that was interrupted is known again by what
// it read, and not by the words of its command line alone.
#ifndef WEIR_REQUEST_DIGEST_H
#define WEIR_REQUEST_DIGEST_H

#include "pipeline/pipeline.h"

// In hex, in *a: of pipeline files with what they import, rules and files that options of passes name by their bytes; of edit logs,
// and arrays that models are verified on, by name, size, times and inode. NULL: one of them is a stream that cannot be read twice.
// pipeline: NULL: there is none, or it reads nothing. edits, arrays: paths, or NULL.
const char *request_digest(const struct pipeline *pipeline, const char *edits, const char *arrays,
                           struct arena *a);

#endif
