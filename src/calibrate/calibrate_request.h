// What `weir calibrate` is asked for. Filled by the command line (calibrate_take.h).
#ifndef WEIR_CALIBRATE_REQUEST_H
#define WEIR_CALIBRATE_REQUEST_H

#include "calibrate/calibrate.h"
#include "execute/request.h"

struct calibrate_request {
  const struct request *base; // source, limits, fresh, resume_command
  struct calibrate_options options;
  const char *statistics; // as they were named; NULL: ranges
  const char *const *data, *const *excluded;
  uint32_t n_data, n_excluded;
  uint32_t generate, seed, samples; // drawn samples; their seed; the most that are taken, 0: all
  const char *out, *cache;          // RANGES; onnxruntime's file, or NULL
  bool replace;                     // those that are there
  const char *library, *provider;   // of the runtime; or NULL
  uint64_t runtime_memory;
  uint32_t runtime_seconds;
  const char *config, *const *passes; // before the runs; config: or NULL
  uint32_t n_passes;
};

#endif
