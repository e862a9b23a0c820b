// Models that are open in the runtime, and their runs.
#ifndef WEIR_ORT_SESSIONS_H
#define WEIR_ORT_SESSIONS_H

#include "ort/ort_values.h"

// The most models that are open at once.
enum { ORT_MAX_SESSIONS = 64 };

struct ort_sessions;
struct ort_sessions *ort_sessions_new(const struct ort *o, struct ort_files files);

// What is to compute from now on: "cuda", or "", the processor. -1: the runtime does not have it.
int ort_sessions_provide(struct ort_sessions *s, const char *provider, struct ort_failure *f);
// Each answers one request; lists of the answer lie in *a, elements of `ran` in memory that lives until the next request.
int ort_sessions_open(struct ort_sessions *s, const struct frame_of_open *asked, struct arena *a,
                      struct frame_of_opened *out, struct ort_failure *f);
int ort_sessions_run(struct ort_sessions *s, const struct frame_of_run *asked, struct arena *a,
                     struct frame_of_ran *out, struct ort_failure *f);
int ort_sessions_close(struct ort_sessions *s, uint64_t session, struct ort_failure *f);

#endif
