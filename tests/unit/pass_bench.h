// What tests of passes over weights share: a small model being built, the pass's surroundings, and
// the outcome as text.
#ifndef WEIR_PASS_BENCH_H
#define WEIR_PASS_BENCH_H

#include "model_builder.h"
#include "passes/pass.h"

struct pass_bench {
  struct model m;
  struct recipes r;
  struct edits e;
  struct build b;
  struct pass_env env;
  struct arena arena, scratch;
  char sites[2048]; // "tensor:status:reason\n" of every site; of a node without one: its name
};

// For cmocka: *state is a struct pass_bench with a model begun.
int pass_bench_setup(void **state);
int pass_bench_teardown(void **state);
// Ends the model; env is ready. An initializer of `dims` that stays in a file, like large weights.
void pass_bench_ready(struct pass_bench *t);
uint32_t pass_bench_large(struct pass_bench *t, const char *name, enum dtype dtype,
                          const char *dims);
// The nodes of a graph in order, a line each: "Op name(inputs)->output".
const char *pass_bench_nodes(struct pass_bench *t, uint32_t graph);
// The live initializers of a graph, in order of their ids: "name dtype[dims]\n".
const char *pass_bench_tensors(struct pass_bench *t, uint32_t graph);
// The outputs of a graph, in order: "name dtype\n".
const char *pass_bench_outputs(struct pass_bench *t, uint32_t graph);

#endif
