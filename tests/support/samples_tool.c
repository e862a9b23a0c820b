// Samples for a model, as 'weir calibrate' takes them, for tests that say what they are:
//
//   samples_tool [--generate N] [--seed S] [--most N] [--bytes N] [--twice PATH] MODEL.onnx SCRATCH DATA…
//
// A line a sample: its name, and each input with its dims and the sum of its bytes; then "samples COUNT LEFT_OUT SHA256 WORDS". With
// --twice all are read once more; before that, a byte at the end of PATH is changed.
#include "stream/load/load.h"
#include "verify/samples/samples.h"

#include <stdio.h>
#include <stdlib.h>

static int tell_input(const struct array *x, struct err *err) {
  uint8_t piece[4096];
  uint64_t sum = 0;
  for (uint64_t off = 0; off < x->bytes; off += sizeof piece) {
    const size_t n = (size_t)min_u64(sizeof piece, x->bytes - off);
    if (array_read(x, off, piece, n, err)) return -1;
    for (size_t i = 0; i < n; i++)
      sum += piece[i];
  }
  printf(" %s=%s:%llu", x->name, array_words(x).s, (unsigned long long)sum);
  return 0;
}

static int tell_all(struct samples *s, struct err *err) {
  const struct arrays *inputs;
  const char *name;
  bool ended = false;
  while (!ended) {
    if (samples_next(s, &inputs, &name, &ended, err)) return -1;
    if (ended) break;
    printf("%s", name);
    for (uint32_t i = 0; i < inputs->n; i++)
      if (tell_input(&inputs->list[i], err)) return -1;
    printf("\n");
  }
  return 0;
}

static void change(const char *path) {
  FILE *f = fopen(path, "r+b");
  if (!f || fseek(f, -1, SEEK_END) || fputc(77, f) == EOF || fclose(f)) exit(3);
}

static int tell(const struct model *m, const struct samples_options *o, const char *twice,
                struct err *err) {
  const struct infer_options believing = {INFER_REFINE, 1, INT64_MAX, false}; // as verify has it
  struct infer *in = infer_new(m, &believing);
  struct samples *s = NULL;
  uint8_t sum[DIGEST_BYTES];
  char hex[DIGEST_HEX];
  infer_all(in, NULL);
  int rc = samples_open(&s, m, in, o, err);
  if (rc == 0) rc = tell_all(s, err);
  if (rc == 0) {
    samples_sha256(s, sum);
    hex_encode(sum, sizeof sum, hex);
    printf("samples %llu %llu %s\n", (unsigned long long)samples_count(s),
           (unsigned long long)samples_left_out(s), hex);
  }
  if (rc == 0 && twice) {
    change(twice);
    rc = tell_all(s, err);
  }
  samples_close(s);
  infer_free(in);
  return rc;
}

int main(int argc, char **argv) {
  struct samples_options o = {.generate = 0};
  const char *twice = NULL;
  struct sources *sources;
  struct model m;
  struct err err = {0};
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    if (strcmp(argv[i], "--generate") == 0) o.generate = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--seed") == 0) o.draw.seed = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--most") == 0) o.most = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--bytes") == 0) o.most_bytes = strtoull(argv[i + 1], NULL, 10);
    if (strcmp(argv[i], "--twice") == 0) twice = argv[i + 1];
  }
  if (argc - i < 2) return 2;
  o.scratch = argv[i + 1];
  o.data = (const char *const *)argv + i + 2;
  o.n_data = (uint32_t)(argc - i - 2);
  if (sources_open(&sources, argv[i], NULL, &err)) return 3;
  model_init(&m);
  int rc = load_model(&m, sources, NULL, &err);
  if (rc == 0) rc = tell(&m, &o, twice, &err);
  model_free(&m);
  sources_close(sources);
  if (rc == 0) return 0;
  fprintf(stderr, "%s; %s\n", err.msg, err.hint);
  return (int)err.kind;
}
