// Block quantization alone: how long one core takes for a matrix of 4096 × 4096.
// bench/kernels.py runs it beside ONNX Runtime's own quantizer.
//
//     kernels_bench rows|columns RULE BITS BLOCK f32|f16|bf16 symmetric|asymmetric figures|plain
//
// prints seconds for one pass; RULE is nbits, qdq, gather, rtn, k_quant or hqq. The matrix is taken
// in panels of the size the evaluator takes; outputs are in place, touched before, and so is the
// input. The best variant that the machine has runs.
#include "bench_time.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 4096, ROWS_PANEL = 64, COLUMNS_PANEL = 256, ARGS = 8, PAGE = 4096 };

struct bench {
  struct kernels_block_format f;
  bool rows, figures;
  uint8_t *in, *codes, *zeros;
  float *scales, *float_zeros;
  struct kernels_sums *sums;
};

static void *touched(size_t n) {
  void *at = aligned_alloc(PAGE, (n + PAGE - 1) / PAGE * PAGE); // as mapped files are
  if (!at) exit(1);
  return memset(at, 1, n);
}

static size_t width_of(const struct bench *b) {
  return b->f.in_type == KERNELS_F32 ? 4 : 2;
}

static bool in_place(const struct bench *b) {
  return b->f.rule == KERNELS_QDQ || b->f.rule == KERNELS_GATHER;
}

// Near normal: sums of three uniform numbers.
static void fill(struct bench *b) {
  uint32_t seed = 1;
  for (size_t i = 0; i < (size_t)SIDE * SIDE; i++) {
    float x = 0;
    for (int k = 0; k < 3; k++) {
      seed = seed * 1664525 + 1013904223;
      x += (float)(seed >> 8) * 0x1p-24f - 0.5f;
    }
    if (b->f.in_type == KERNELS_F32)
      memcpy(b->in + 4 * i, &x, 4);
    else if (b->f.in_type == KERNELS_F16)
      kernels_f32_to_f16((uint16_t *)(void *)b->in + i, &x, 1);
    else
      kernels_f32_to_bf16((uint16_t *)(void *)b->in + i, &x, 1);
  }
}

// Panel number i: some rows of memory, all of their length.
static void panel(const struct bench *b, size_t from, size_t n) {
  size_t blocks = SIDE / b->f.block;
  size_t column_bytes = in_place(b) ? SIDE : SIDE * (size_t)b->f.bits / 8;
  struct kernels_panel p = {.in = b->in + from * SIDE * width_of(b), .in_stride = SIDE};
  p.blocks_stride = blocks;
  p.codes_stride = column_bytes;
  size_t first = b->rows ? from * blocks : from / b->f.block;
  p.scales = b->scales + first;
  p.zeros = b->zeros + first;
  p.float_zeros = b->float_zeros + first;
  p.n = b->rows ? n : SIDE;
  p.k = b->rows ? SIDE : n;
  if (b->figures) p.sums = b->sums + (b->rows ? from : 0);
  if (b->rows || in_place(b))
    p.codes = b->codes + from * column_bytes;
  else
    p.codes = b->codes + from * b->f.bits / 8;
  (b->rows ? kernels_quantize_rows : kernels_quantize_columns)(&p, &b->f);
}

static double one_pass(const struct bench *b) {
  size_t step = b->rows ? ROWS_PANEL : COLUMNS_PANEL;
  double begin = bench_seconds(CLOCK_MONOTONIC);
  for (size_t from = 0; from < SIDE; from += step)
    panel(b, from, step);
  return bench_seconds(CLOCK_MONOTONIC) - begin;
}

static uint8_t rule_of(const char *name) {
  static const char *const names[] = {
      [KERNELS_NBITS] = "nbits", [KERNELS_QDQ] = "qdq",         [KERNELS_GATHER] = "gather",
      [KERNELS_RTN] = "rtn",     [KERNELS_K_QUANT] = "k_quant", [KERNELS_HQQ] = "hqq"};
  for (uint8_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(name, names[i])) return i;
  fprintf(stderr, "kernels_bench: no rule '%s'\n", name);
  exit(2);
}

int main(int argc, char **argv) {
  if (argc != ARGS) {
    fprintf(stderr, "usage: kernels_bench rows|columns RULE BITS BLOCK f32|f16|bf16 "
                    "symmetric|asymmetric figures|plain\n");
    return 2;
  }
  const char *type = argv[5];
  enum kernels_float in = !strcmp(type, "f32")   ? KERNELS_F32
                          : !strcmp(type, "f16") ? KERNELS_F16
                                                 : KERNELS_BF16;
  struct bench b = {.rows = !strcmp(argv[1], "rows"), .figures = !strcmp(argv[7], "figures")};
  b.f = (struct kernels_block_format){.rule = rule_of(argv[2]),
                                      .bits = (uint8_t)atoi(argv[3]),
                                      .symmetric = !strcmp(argv[6], "symmetric"),
                                      .in_type = (uint8_t)in,
                                      .scale_type = (uint8_t)in,
                                      .block = (size_t)atoi(argv[4])};
  size_t n = (size_t)SIDE * SIDE;
  b.in = touched(n * width_of(&b));
  b.codes = touched(n);
  b.scales = touched(n / b.f.block * sizeof *b.scales);
  b.zeros = touched(n / b.f.block);
  b.float_zeros = touched(n / b.f.block * sizeof *b.float_zeros);
  b.sums = calloc(SIDE, sizeof *b.sums);
  fill(&b);
  one_pass(&b); // outputs are warm, the processor awake
  printf("%.6f\n", one_pass(&b));
  return 0;
}
