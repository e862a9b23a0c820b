// Recipes of scales that AWQ multiplies rows by: operands are the means of magnitudes, the second moments, and the
// matrices that share the scales. How they are found is the evaluator's (eval_awq.c).
#include "recipe/inside/recipe_rows.h"
#include "tensor_stats/second_moments.h"

#include <assert.h>

static bool is_matrix(const struct recipes *r, uint32_t of, uint64_t k) {
  const struct recipe *x = &r->rows[of];
  return x->rank == 2 && (uint64_t)recipe_dims(r, of)[0] == k && x->count > 0 &&
         dtype_is_plain_float((enum dtype)x->dtype) && x->dtype != DTYPE_DOUBLE;
}

static bool is_block(int64_t n) {
  return n >= 16 && n <= 256 && (n & (n - 1)) == 0;
}

int recipe_awq_row_fits(const struct recipes *r, const struct recipe_asked *x, struct err *err) {
  if (x->n_of < 3)
    return recipe_rows_bad(err, "scales rows by operands that are not statistics and matrices");
  const struct recipe *means = &r->rows[x->of[0]], *gram = &r->rows[x->of[1]];
  const uint64_t k = means->count;
  if (means->dtype != DTYPE_FLOAT || means->rank != 1 || k < 1 || k > SECOND_MOMENTS_MOST)
    return recipe_rows_bad(err, "scales rows by means that are not a list of up to 16384 floats");
  if (gram->dtype != DTYPE_DOUBLE || gram->rank != 1 || gram->count != second_moments_elements(k))
    return recipe_rows_bad(err, "scales rows by second moments that do not fit their means");
  for (uint32_t i = 2; i < x->n_of; i++)
    if (!is_matrix(r, x->of[i], k))
      return recipe_rows_bad(err, "scales rows of an operand that is not a matrix with that "
                                  "number of rows");
  const int64_t bits = x->numbers[0];
  if ((bits != 2 && bits != 4 && bits != 8) || !is_block(x->numbers[2]))
    return recipe_rows_bad(err, "scales rows for an unsupported number of bits or block size");
  if (x->numbers[3] < 0)
    return recipe_rows_bad(err, "scales rows by second moments of a negative number of rows");
  return 0;
}

uint32_t recipe_awq_row(struct recipes *r, const struct recipe_asked *asked) {
  struct recipe_asked x = *asked;
  x.kind = RECIPE_AWQ;
  x.dtype = DTYPE_FLOAT;
  recipe_rows_set_dims(&x, recipe_dims(r, x.of[0]), 1);
  return recipe_rows_put(r, &x);
}

uint32_t recipe_awq(struct recipes *r, const struct recipe_awq *a, const uint32_t *of, uint32_t n) {
  uint32_t *operands = NULL;
  size_t cap = 0;
  operands = table_grow(operands, &cap, n + (size_t)2, sizeof *operands);
  operands[0] = a->means;
  operands[1] = a->gram;
  memcpy(operands + 2, of, n * sizeof *of);
  struct recipe_asked x;
  recipe_rows_ask(&x, r, RECIPE_AWQ, operands);
  x.n_of = n + 2;
  x.numbers[0] = a->bits;
  x.numbers[1] = a->symmetric;
  x.numbers[2] = (int64_t)a->block;
  x.numbers[3] = (int64_t)a->seen;
  const uint32_t id = recipe_rows_make(r, &x);
  table_free(operands, cap, sizeof *operands);
  return id;
}

struct recipe_awq recipe_awq_of(const struct recipes *r, uint32_t id) {
  const struct recipe *x = &r->rows[id];
  assert(x->kind == RECIPE_AWQ);
  return (struct recipe_awq){.means = r->args[x->args],
                             .gram = r->args[x->args + 1],
                             .bits = (uint32_t)recipe_rows_number(r, id, 0),
                             .symmetric = recipe_rows_number(r, id, 1) != 0,
                             .block = (uint64_t)recipe_rows_number(r, id, 2),
                             .seen = (uint64_t)recipe_rows_number(r, id, 3)};
}
