// Room: the client of weir-ort, which runs models with ONNX Runtime: weir finds it, starts it under limits, asks it,
// and reports when it dies. One process serves one model at a time; it is started again when it is needed after it
// died.
#ifndef WEIR_RUNTIME_H
#define WEIR_RUNTIME_H

#include "verify/arrays/array.h"

struct runtime;

struct runtime_options {
  const char *library;   // --onnxruntime FILE; NULL: searched (docs/weir-ort.md)
  uint32_t threads;      // of the runtime; 0: 1
  bool optimized;        // the runtime's own rewrites on; else off
  const char *provider;  // what computes (runtime_provider); NULL: the processor
  uint64_t memory_bytes; // that the process may have, without mapped files of weights; 0: no limit
  double seconds;        // that a request may take; 0: 600
  const char *scratch;   // folder for outputs that are large
  uint64_t inline_bytes; // results of more lie in files; 0: 1 MiB
  bool mapped; // weights in files of external data stay there: none is copied into another order
  const char *called;       // what messages call the models that are loaded; NULL: by their paths
  const volatile int *stop; // signals: the request is given up, ERR_RETRY
};
// What --provider names; NULL: the processor.
const char *runtime_provider(const char *asked);

struct runtime_about {
  const char *version; // "1.20.1"
  const char *library; // path
};

// Finds the library and the program and starts it. ERR_RUNTIME where there is none, or it is too old (below 1.20), with
// a hint of what to install.
int runtime_open(struct runtime **out, const struct runtime_options *o, struct err *err);
struct runtime_about runtime_about(const struct runtime *r);
void runtime_close(struct runtime *r);
// Models that are loaded from now on: their sums of products of 8 bits are whole on x86 without VNNI too, where the runtime cuts them
// off otherwise. Its own rewrites are on then, among which that is. Slower; a model with products of int8 and int8 may not load.
void runtime_keep_sums(struct runtime *r, bool on);

// Models that are loaded from now on: where the runtime's own rewrites make a product of codes out of one of floats, it rounds the
// floats no further (MatMulNBits, accuracy level 1 instead of 4).
void runtime_keep_floats(struct runtime *r, bool on);

// How a request ended. In all cases but DONE *err has the sentence: of REFUSED what the runtime said, of DIED the
// signal or exit code and what was being done, of LATE the seconds. After DIED and LATE the process is gone and the
// next runtime_load starts another. BROKEN: it answered something else than it should.
enum runtime_end {
  RUNTIME_DONE,
  RUNTIME_REFUSED,
  RUNTIME_DIED,
  RUNTIME_LATE,
  RUNTIME_BROKEN,
  RUNTIME_STOPPED
};

struct runtime_value {
  const char *name;
  enum array_kind kind;
  bool known; // of a kind that arrays have; else it is a map or opaque
  bool optional;
  enum dtype dtype;
  bool ranked;
  uint32_t rank;
  const int64_t *dims; // -1: not a number
};
struct runtime_model {
  struct runtime_value *inputs, *outputs;
  uint32_t n_inputs, n_outputs;
};

// Opens the model at `path`; closes the one before. Lists live until then. `data_folder`: where the files of its external
// data lie; NULL: beside it.
enum runtime_end runtime_load(struct runtime *r, const char *path, const char *data_folder,
                              struct runtime_model *out, struct err *err);
// Runs it. `wanted`: names of outputs, NULL: all of them. Results lie in *a, those of more than 1 MiB in files without
// a name, closed by the next runtime_release.
enum runtime_end runtime_run(struct runtime *r, const struct arrays *inputs,
                             const char *const *wanted, uint32_t n_wanted, struct arena *a,
                             struct arrays *results, struct err *err);
void runtime_release(struct runtime *r);
// The same for results that were made after runtime_mark gave `mark`; earlier ones stay.
uint64_t runtime_mark(const struct runtime *r);
void runtime_release_after(struct runtime *r, uint64_t mark);
// Peak resident memory of the process so far, bytes (0: not known).
uint64_t runtime_peak_memory(struct runtime *r);

#endif
