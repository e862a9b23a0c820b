// What inference costs: infer_bench [NODES] [TIMES]
//
// A model of NODES nodes (default 1000000) in memory: blocks of eleven operators as exports have them, matrix
// products, norms, and shape arithmetic that leads to a Reshape; nothing is declared. Prints the least and the
// median processor time of TIMES runs of infer_all (default 5), in seconds, and the bytes that its table holds for each
// value.
#include "bench_time.h"
#include "infer/infer.h"
#include "model_builder.h"

#include <stdio.h>
#include <stdlib.h>

enum { BLOCK = 11 };

// Node k of block i; it begins with the value v<i> and ends with the next one.
static void node_of_block(struct build *b, uint32_t i, uint32_t k) {
  static const char *const ops[BLOCK] = {"MatMul", "Add",     "Relu",      "Shape",
                                         "Gather", "Mul",     "Unsqueeze", "Concat",
                                         "Concat", "Reshape", "Add"};
  char in[64], out[32];
  switch (k) {
  case 0: snprintf(in, sizeof in, "v%u w", i); break;
  case 1: snprintf(in, sizeof in, "a%u_0 c", i); break;
  case 2: snprintf(in, sizeof in, "a%u_1", i); break;
  case 3: snprintf(in, sizeof in, "a%u_2", i); break;
  case 4: snprintf(in, sizeof in, "a%u_3 one", i); break;
  case 5: snprintf(in, sizeof in, "a%u_4 two", i); break;
  case 6: snprintf(in, sizeof in, "a%u_5 axis", i); break;
  case 7: snprintf(in, sizeof in, "a%u_6 half", i); break;
  case 8: snprintf(in, sizeof in, "rest a%u_7", i); break;
  case 9: snprintf(in, sizeof in, "a%u_2 copy", i); break;
  default: snprintf(in, sizeof in, "a%u_9 a%u_2", i, i); break;
  }
  if (k + 1 < BLOCK)
    snprintf(out, sizeof out, "a%u_%u", i, k);
  else
    snprintf(out, sizeof out, "v%u", i + 1);
  const uint32_t node = build_node(b, ops[k], "", in, out);
  if (k == 7 || k == 8) build_attr_int(b, node, "axis", 0);
}

static void blocks(struct model *m, uint32_t n) {
  struct build b;
  build_begin(&b, m);
  build_input(&b, "v0", DTYPE_FLOAT, "N,t,8");
  build_floats(&b, "w", "8,8", (float[64]){1});
  build_floats(&b, "c", "8", (float[8]){1});
  build_ints(&b, "one", "", (int64_t[]){1});
  build_ints(&b, "two", "", (int64_t[]){2});
  build_ints(&b, "axis", "1", (int64_t[]){0});
  build_ints(&b, "half", "1", (int64_t[]){4});
  build_ints(&b, "rest", "1", (int64_t[]){-1});
  build_ints(&b, "copy", "3", (int64_t[]){0, 0, -1});
  for (uint32_t i = 0; i < n; i++)
    node_of_block(&b, i / BLOCK, i % BLOCK);
  build_end(&b);
}

int main(int argc, char **argv) {
  const uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 1000000;
  const uint32_t times =
      argc > 2 && strtoul(argv[2], NULL, 10) < 100 ? (uint32_t)strtoul(argv[2], NULL, 10) : 5;
  struct model m;
  double took[100];
  uint64_t bytes = 0, visits = 0;
  blocks(&m, n);
  for (uint32_t i = 0; i < times; i++) {
    const double start = bench_seconds(CLOCK_PROCESS_CPUTIME_ID);
    struct infer *in = infer_new(&m, NULL);
    infer_all(in, NULL);
    took[i] = bench_seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
    bytes = infer_bytes(in);
    visits = infer_visits(in);
    infer_free(in);
  }
  bench_sort(took, times);
  printf("%u nodes, %llu visits, %.1f bytes a value: least %.3f s, median %.3f s\n", n,
         (unsigned long long)visits, (double)bytes / m.n_values, took[0], took[times / 2]);
  model_free(&m);
  return visits != n;
}
