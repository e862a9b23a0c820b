// Inference over models that are made of bytes (made_model.h), and over the bytes as an .onnx, where they
// begin as one. Whatever the model says, the walk ends, its tables hold together, and what was inferred is inferred
// again as it was.
#include "check/check.h"
#include "infer/infer.h"
#include "made_model.h"
#include "stream/load/load.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VISITS = 1 << 20 };

static void demand(bool holds) {
  if (!holds) abort();
}

static void check_rows(struct infer *in, const struct model *m) {
  for (uint32_t value = 0; value < m->n_values; value++) {
    struct infer_type t;
    const struct infer_number *list;
    uint32_t n;
    if (!infer_type_of(in, value, &t)) continue;
    int64_t size = 1, dim;
    for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
      const bool is = dims_is_number(infer_dims(in), t.dims[i], &dim);
      demand(!is || dim >= 0);
      size = is && size >= 0 && dim < 1 << 20 && size < 1 << 20 ? size * dim : -1;
    }
    if (!infer_numbers(in, value, &list, &n)) continue;
    demand(t.ranked && (size < 0 || size == n));
    for (uint32_t i = 0; i < n; i++)
      demand(list[i].den > 0);
  }
}

static void infer_twice(struct model *m, const struct infer_options *o) {
  struct infer *in = infer_new(m, o);
  struct model_types types = {0};
  infer_all(in, NULL);
  const uint64_t visits = infer_visits(in);
  demand(visits < VISITS);
  check_rows(in, m);
  infer_all(in, NULL);
  check_rows(in, m);
  infer_fill(in, m, &types);
  const uint64_t fills = infer_fills(in), before = infer_visits(in);
  infer_more(in);
  demand(infer_visits(in) == before);
  infer_fill(in, m, &types);
  demand(infer_fills(in) == fills);
  model_types_done(&types);
  infer_free(in);
}

static void infer_model(struct model *m, uint32_t how) {
  struct infer_options o = {how % 3, how / 3 % 2, how / 6 % 2 ? 100 : INT64_MAX, how / 12 % 2};
  infer_twice(m, &o);
  o.declared = INFER_FACTS;
  infer_twice(m, &o);
}

static void infer_bytes_of(const uint8_t *data, size_t size) {
  static char path[128];
  const char *base = getenv("TMPDIR");
  snprintf(path, sizeof path, "%.40s/weir-fuzz-infer-%ld.onnx", base ? base : "/tmp",
           (long)getpid());
  FILE *f = fopen(path, "wb");
  demand(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
  struct sources *s;
  struct model m;
  struct err err = {0};
  demand(sources_open(&s, path, NULL, &err) == 0);
  model_init(&m);
  if (load_model(&m, s, &(struct load_options){.no_matter_the_data = true}, &err) == 0)
    infer_model(&m, 0);
  model_free(&m);
  sources_close(s);
  unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size > 4096) return 0;
  if (size > 1 && data[0] == 8 && data[1] < 32) {
    infer_bytes_of(data, size);
    return 0;
  }
  struct made_bytes in = {data, data + size};
  struct model m;
  const uint32_t how = made_choose(&in, 24);
  made_model(&m, &in, false);
  infer_model(&m, how);
  model_free(&m);
  return 0;
}
