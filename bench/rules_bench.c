// What many rules cost where none fires: rules_bench [NODES] [TIMES]
//
// A chain of NODES nodes (default 1000000) of eight operators, every value declared, is built in
// memory, and the 500 rules of tests/support/make_rules.py run over it. Prints the least and the
// median processor time of TIMES runs (default 7), in seconds.
#include "bench_time.h"
#include "model_builder.h"
#include "passes/rules/rules.h"

#include <stdio.h>
#include <stdlib.h>

extern const struct rules_book rules_many;

static void chain(struct model *m, uint32_t n) {
  static const char *const ops[] = {"Add",       "Relu",    "Mul", "MatMul",
                                    "Transpose", "Sigmoid", "Sub", "Reshape"};
  static const char *const seconds[] = {" c", "", " d", " w", "", "", " c", " s"};
  struct build b;
  build_begin(&b, m);
  build_input(&b, "v0", DTYPE_FLOAT, "4,4");
  build_floats(&b, "c", "4", (float[]){1, 2, 3, 4});
  build_floats(&b, "d", "", (float[]){2});
  build_floats(&b, "w", "4,4", (float[16]){1});
  build_ints(&b, "s", "2", (int64_t[]){4, 4});
  for (uint32_t i = 0; i < n; i++) {
    char in[32], out[32];
    snprintf(in, sizeof in, "v%u%s", i, seconds[i % 8]);
    snprintf(out, sizeof out, "v%u", i + 1);
    build_node(&b, ops[i % 8], "", in, out);
    if (i + 1 < n) build_value_info(&b, out, DTYPE_FLOAT, "4,4");
  }
  char last[32];
  snprintf(last, sizeof last, "v%u", n);
  build_output(&b, last, DTYPE_FLOAT, "4,4");
  build_end(&b);
}

int main(int argc, char **argv) {
  const uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
  const uint32_t times =
      argc > 2 && strtoul(argv[2], NULL, 10) < 100 ? (uint32_t)strtoul(argv[2], NULL, 10) : 7;
  struct model m;
  struct recipes r;
  struct edits e;
  struct arena scratch = {0};
  double took[100];
  chain(&m, n);
  recipes_init(&r);
  edits_init(&e, &m, &r);
  struct pass_env env = {.m = &m, .edits = &e, .scratch = &scratch};
  const struct rules_options options = {.cap = EXACTNESS_FINITE};
  for (uint32_t i = 0; i < times; i++) {
    struct err err = {0};
    const double start = bench_seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (rules_run(&rules_many, &env, "many", &options, &err) != 0) return 1;
    took[i] = bench_seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
  }
  bench_sort(took, times);
  printf("%u nodes, %u rules, %llu edits: least %.3f s, median %.3f s\n", n,
         rules_n_passes(&rules_many), (unsigned long long)e.n, took[0], took[times / 2]);
  return e.n != 0;
}
