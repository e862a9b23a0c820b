// Questions of the stage "weighed", and their answers as text. The stage itself is the caller's (pass_env.ask): here is what both
// sides must agree on.
#include "passes/questions/weighings.h"

#include "tensor_stats/second_moments.h"

static const struct answer_field fields[] = {
    ANSWER_FIELD(output_error, signal),
    ANSWER_FIELD(output_error, error),
    ANSWER_FIELD(output_error, plain),
    ANSWER_FIELD(output_error, nonfinite),
};
const struct answer_form weighings_form = {
    .row = {fields, sizeof fields / sizeof *fields, sizeof(struct output_error)}, .pairs = true};

// ---- what errors are weighed by ----------------------------------------------------------------

static uint32_t along(struct recipes *r, uint32_t of, uint32_t axis, uint32_t rank) {
  int64_t dims[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++)
    dims[i] = i == axis ? (int64_t)r->rows[of].count : 1;
  return recipe_reshape(r, of, dims, rank);
}

uint32_t weighings_gram(struct recipes *r, uint32_t file, uint64_t at, uint32_t k, uint32_t axis,
                        uint32_t rank) {
  const int64_t elements = (int64_t)second_moments_elements(k);
  const uint64_t bytes = second_moments_elements(k) * sizeof(double);
  const struct piece piece = {
      .at = {.file = file, .off = at, .len = bytes}, .count = bytes, .checkpoint = NO_ID};
  return along(r, recipe_extent(r, DTYPE_DOUBLE, &elements, 1, ENCODING_RAW, &piece, 1, NULL), axis,
               rank);
}

uint32_t weighings_channels(struct recipes *r, const float *means, uint32_t k, uint32_t axis,
                            uint32_t rank) {
  struct arena scratch = {0};
  const int64_t n = k;
  float *squares = arena_alloc(&scratch, k * sizeof *squares);
  for (uint32_t i = 0; i < k; i++)
    squares[i] = means[i] * means[i];
  const uint32_t of = recipe_bytes(r, DTYPE_FLOAT, &n, 1, span_of(squares, k * sizeof *squares));
  arena_free(&scratch);
  return along(r, of, axis, rank);
}

uint32_t weighings_alone(struct recipes *r, uint32_t rank) {
  static const float one = 1;
  return along(r, recipe_fill(r, DTYPE_FLOAT, NULL, 0, span_of(&one, sizeof one)), 0, rank);
}
