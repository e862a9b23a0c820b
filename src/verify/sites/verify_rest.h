// What an output has that no edit is about, compared with the source.
#ifndef WEIR_VERIFY_REST_H
#define WEIR_VERIFY_REST_H

#include "verify_replay.h"
#include "verify_written.h"

// Says in v->found whether all of it is as in the source, and else what is not, first. -1: bytes cannot be read.
int verify_rest(struct verify *v, struct verify_replay *x, struct verify_written *w,
                struct err *err);

#endif
