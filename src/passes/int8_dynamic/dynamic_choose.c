// --weight-type auto: of each matrix with a scale a column, the type that makes the smaller error.
//
//   sites ──▶ matrices ──▶ two questions each: symmetric (int8), with zero points (uint8) ──measured_ask──▶ types
//
// A range that is not symmetric leaves codes of int8 unused. Where it is nearly so, zero points gain next to nothing, and processors
// multiply uint8 by int8 faster than by uint8: uint8 must be worth it. LSTM takes int8 alone and Conv one zero point for all filters,
// so there is nothing to choose.
//
// Measured are codes of FORMAT_QDQ, for which there are figures without a run: those that are written (FORMAT_LINEAR) differ from
// them by less than 0.1 dB, since their int8 leaves -128 out.
#include "passes/int8_dynamic/inside/dynamic.h"
#include "passes/questions/measured.h"

// Of squared errors: 1 dB.
static const double worth_it = 0.79432823472428150207;

static bool has_choice(const struct dynamic *d, const struct dynamic_site *s) {
  const struct dynamic_override *x = s->override;
  return !s->why && s->n_weights > 0 && !(x && x->has_type) &&
         s->op & (DYNAMIC_MATMUL | DYNAMIC_GEMM | DYNAMIC_ATTENTION) &&
         dynamic_weights_rank(d, &s->weights[0]) == 2 &&
         dynamic_weights_as(d, s, 1, DYNAMIC_PLAIN).axis != RECIPE_PER_TENSOR;
}

void dynamic_choose_ask(struct dynamic *d, const struct dynamic_site *s,
                        struct dynamic_questions *q) {
  if (!has_choice(d, s)) return;
  const struct dynamic_operand *w = &s->weights[0];
  struct recipes *r = d->k.r;
  const uint32_t of = edit_tensor_recipe(d->k.e, w->tensor);
  // Columns of what the node reads have a scale each: the other axis is one block.
  struct recipe_quantization by = {.format = FORMAT_QDQ, .bits = 8, .axis = w->transposed};
  if (!recipe_can_quantize(r, of, &by, PART_CODES)) return;
  *TABLE_PUSH(q, tensors) = w->tensor;
  by.symmetric = true;
  *TABLE_PUSH(q, codes) = recipe_quantize(r, of, &by, PART_CODES);
  by.symmetric = false;
  *TABLE_PUSH(q, codes) = recipe_quantize(r, of, &by, PART_CODES);
}

int dynamic_choose(struct dynamic *d, struct dynamic_questions *q, struct err *err) {
  const struct pass_env *env = d->k.env;
  if (!env->ask)
    return err_set(err, ERR_USAGE,
                   "--weight-type auto needs access to the weights, which this run does not have");
  struct figures *answers = arena_alloc(env->scratch, (q->n_codes + (size_t)1) * sizeof *answers);
  if (q->n_codes > 0 && measured_ask(env, q->codes, q->n_codes, answers, err)) return -1;
  for (uint32_t i = 0; i < q->n_tensors; i++) {
    const uint32_t tensor = q->tensors[i];
    if (tensor >= d->n_wants_zeros) TABLE_ADD(d, wants_zeros, tensor + 1 - d->n_wants_zeros);
    // Of a matrix that is read both as it is and transposed, the last answer counts for both.
    d->wants_zeros[tensor] =
        answers[2 * i + 1].ee <= worth_it * answers[2 * i].ee && answers[2 * i].ee > 0;
  }
  return 0;
}
