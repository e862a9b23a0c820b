// Which axis of each weight gets a scale a channel: all are measured, the one with the least
// squared error is taken, the first of equals, as ONNX Shrink Ray 0.0.11 does. (It compares norms
// that NumPy adds up in float32 or float16; here sums are double, so where two axes all but tie the
// choice may differ.)
#include "passes/questions/measured.h"
#include "passes/shrink/inside/shrink_parts.h"

#include <math.h>

struct asking {
  TABLE(uint32_t, codes);
  TABLE(uint32_t, tensors); // of the same question
};

static void ask(struct shrinking *s, struct asking *q, uint32_t tensor) {
  struct edits *e = s->k.e;
  const uint32_t of = edit_tensor_recipe(e, tensor), rank = e->m->tensors[tensor].rank;
  for (uint32_t axis = 0; axis < rank; axis++) {
    const struct recipe_quantization by = {.format = FORMAT_SHRINK, .bits = 8, .axis = axis};
    *TABLE_PUSH(q, codes) = recipe_quantize(e->r, of, &by, PART_CODES);
    *TABLE_PUSH(q, tensors) = tensor;
  }
}

// Questions about a tensor stand together, in order of the axes.
static void choose(const struct asking *q, const struct figures *answers, uint32_t *axes) {
  for (uint32_t i = 0; i < q->n_codes;) {
    const uint32_t first = i, tensor = q->tensors[i];
    double least = INFINITY;
    for (; i < q->n_codes && q->tensors[i] == tensor; i++)
      if (answers[i].ee < least) {
        least = answers[i].ee;
        axes[tensor] = i - first;
      }
  }
}

int shrink_axes(struct shrinking *s, struct shrink_options *options, struct arena *a,
                struct err *err) {
  const struct pass_env *env = s->k.env;
  struct asking q = {0};
  const uint32_t n_stored = env->m->n_tensors;
  for (uint32_t t = 0; t < n_stored; t++) {
    struct weight w;
    if (shrink_takes(s, t, &w) && env->m->tensors[w.tensor].rank > 1) ask(s, &q, w.tensor);
  }
  const uint32_t n = env->m->n_tensors;
  uint32_t *axes = arena_alloc(a, (n + (size_t)1) * sizeof *axes);
  for (uint32_t t = 0; t < n; t++)
    axes[t] = RECIPE_PER_TENSOR;
  struct figures *answers = arena_alloc(a, (q.n_codes + (size_t)1) * sizeof *answers);
  int rc = 0;
  if (q.n_codes > 0) rc = measured_ask(env, q.codes, q.n_codes, answers, err);
  if (rc == 0) choose(&q, answers, axes);
  options->axes = axes;
  options->n_axes = n;
  TABLES_FREE(&q, codes, tensors);
  return rc;
}
