// Scales of biases of float16. They are products of two scales, and float16 has no number between 0 and 2^-24 for them.
//
// onnxruntime 1.31 writes what the product is rounded to, which may be 0, or leaves codes outside of int32; here no scale is smaller than
// the bias wants it. Version 1.32 writes the same where that is well, and else scales of float32, no smaller than the bias wants them:
//
//   b_quantized ─▶ DQ(x_scale · w_scale, float32) ─▶ Cast(float16) ─▶ b ─▶ node
//
// Whether it is well follows from the elements of the bias and of its weight, so a stage finds it out.
#include "static_put.h"

#include "findings.h"

#include <float.h>

// The smallest product that is not 0 reaches further than `least_reach`, so that what is above all products is so above those of 0 too.
static const double most_code = INT32_MAX, least_reach = 1;

static uint32_t two(struct recipes *r, enum recipe_map_op op, uint32_t a, uint32_t b) {
  const uint32_t both[2] = {a, b};
  return recipe_map(r, op, both);
}

static uint32_t with_number(struct recipes *r, enum recipe_map_op op, uint32_t a, double b) {
  return two(r, op, a, int8_floats(r, (enum dtype)r->rows[a].dtype, &b, NO_ID));
}

// The largest |x|, of all elements, or of those of each of the last axis. NO_ID: it cannot be found.
static uint32_t largest_of(struct recipes *r, uint32_t x, bool by_last) {
  const uint32_t rank = r->rows[x].rank, reduced = by_last ? rank - 1 : rank;
  const struct recipe_reduction q = {.op = RECIPE_MAX, .axes = ((uint64_t)1 << reduced) - 1};
  x = recipe_map(r, RECIPE_MAP_ABS, &x);
  if (reduced == 0) return x;
  return recipe_can_reduce(r, x, &q) ? recipe_reduce(r, x, &q) : NO_ID;
}

uint32_t static_least_half(struct recipes *r, uint32_t bias) {
  if (r->rows[bias].dtype != DTYPE_FLOAT16) return NO_ID;
  uint32_t x = largest_of(r, recipe_cast(r, bias, DTYPE_FLOAT), false);
  if (x == NO_ID) return NO_ID;
  const double smallest = 0x1p-24;
  x = with_number(r, RECIPE_MAP_MUL, x, 1.003 * 0x1p-31);
  x = with_number(r, RECIPE_MAP_ADD, x, smallest / 2);
  x = with_number(r, RECIPE_MAP_MAX, x, smallest);
  return recipe_cast(r, x, DTYPE_FLOAT16);
}

// The products of scales as float16 has them, and the elements that they stand beside: the largest of each channel.
struct half {
  uint32_t products, largest;
};

static bool half_of(struct recipes *r, const struct static_bias_parts *p, struct half *out) {
  const uint64_t n = r->rows[p->w].count;
  const uint32_t rank = r->rows[p->bias].rank;
  if (r->rows[p->bias].dtype != DTYPE_FLOAT16 || r->rows[p->x].count != 1 ||
      r->rows[p->w].rank > 1 || n == 0 ||
      (n > 1 && (rank == 0 || (uint64_t)recipe_dims(r, p->bias)[rank - 1] != n)))
    return false;
  const uint32_t x = recipe_reshape(r, recipe_cast(r, p->x, DTYPE_FLOAT16), NULL, 0);
  out->products = two(r, RECIPE_MAP_MUL, x, recipe_cast(r, p->w, DTYPE_FLOAT16));
  out->largest = largest_of(r, recipe_cast(r, p->bias, DTYPE_DOUBLE), n > 1);
  return out->largest != NO_ID;
}

int static_find_wide(struct static_run *s, struct err *err) {
  if (s->o->compat != COMPAT_ORT_1_32 || s->o->weight == DTYPE_FLOAT8E4M3FN || !s->k.env->ask)
    return 0;
  struct recipes *r = s->k.r;
  struct arena a = {0};
  const size_t room = s->n_biases + (size_t)1;
  uint32_t *of = arena_alloc(&a, room * sizeof *of), *row = arena_alloc(&a, room * sizeof *row),
           n = 0;
  struct facts *found = arena_zalloc(&a, room * sizeof *found);
  for (uint32_t i = 0; i < s->n_biases; i++) {
    struct static_bias_parts p;
    struct half h;
    if (!static_bias_parts(s, &s->biases[i], &p) || !half_of(r, &p, &h)) continue;
    if (s->biases[i].beta == 0) { // its product with the scales is 0, says the tool
      s->biases[i].wide = true;
      continue;
    }
    const uint32_t reach =
        with_number(r, RECIPE_MAP_MUL, recipe_cast(r, h.products, DTYPE_DOUBLE), most_code);
    row[n] = i;
    of[n++] = two(r, RECIPE_MAP_SUB, with_number(r, RECIPE_MAP_MAX, h.largest, least_reach), reach);
  }
  const int rc = n ? findings_ask(s->k.env, of, n, false, found, err) : 0;
  for (uint32_t i = 0; i < n && rc == 0; i++)
    s->biases[row[i]].wide = found[i].most > 0;
  arena_free(&a);
  return rc;
}

struct int8_parts static_wide_bias(struct recipes *r, const struct static_bias_parts *p) {
  const uint32_t x = recipe_cast(r, p->x, DTYPE_FLOAT);
  struct half h;
  if (!half_of(r, p, &h)) return (struct int8_parts){NO_ID, NO_ID, NO_ID};
  uint32_t least = with_number(r, RECIPE_MAP_DIV, h.largest, most_code);
  least = recipe_cast(r, with_number(r, RECIPE_MAP_MUL, least, 1.0001), DTYPE_FLOAT);
  least = with_number(r, RECIPE_MAP_MAX, least, FLT_MIN);
  return int8_bias(r, recipe_cast(r, p->bias, DTYPE_FLOAT), x, recipe_cast(r, p->w, DTYPE_FLOAT), 1,
                   least);
}
