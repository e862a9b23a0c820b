// Scales of biases of float16. They are products of two scales, and float16 has no number between 0 and 2^-24 for them.
//
// onnxruntime 1.31 writes what the product is rounded to, which may be 0, or leaves codes outside of int32; here no scale is smaller than
// the bias wants it. Version 1.32 writes the same where that is well, and else scales of float32, no smaller than the bias wants them:
//
//   b_quantized ─▶ DQ(x_scale · w_scale, float32) ─▶ Cast(float16) ─▶ b ─▶ node
//
// Whether it is well follows from the elements of the bias and of its weight, so a stage finds it out.
#include "passes/int8_static/inside/static_put.h"

#include "passes/questions/findings.h"

#include <float.h>
#include <math.h>

// The smallest product that is not 0 reaches further than `least_reach`, so that what is above all products is so above those of 0 too.
static const double most_code = INT32_MAX, least_reach = 1;

static uint32_t with_number(struct recipes *r, enum recipe_map_op op, uint32_t a, double b) {
  return recipe_map_two(r, op, a, int8_floats(r, (enum dtype)r->rows[a].dtype, &b, NO_ID));
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
  out->products = recipe_map_two(r, RECIPE_MAP_MUL, x, recipe_cast(r, p->w, DTYPE_FLOAT16));
  out->largest = largest_of(r, recipe_cast(r, p->bias, DTYPE_DOUBLE), n > 1);
  return out->largest != NO_ID;
}

// What is asked of a bias: numbers of its three parts where each is one, since many biases may have one weight; else where in a list the
// largest is further off than the product reaches.
struct asked {
  uint32_t bias;     // row of it
  uint32_t parts[3]; // places among the questions: x, w, the largest; or the first alone
  bool is_one;
};

struct questions {
  TABLE(uint32_t, of);    // recipes, each once
  TABLE(uint32_t, place); // by recipe: 1 + its place
};

static uint32_t add_question(struct questions *q, uint32_t recipe) {
  if (recipe >= q->n_place) TABLE_ADD(q, place, recipe + 1 - q->n_place);
  if (q->place[recipe] == 0) {
    *TABLE_PUSH(q, of) = recipe;
    q->place[recipe] = q->n_of;
  }
  return q->place[recipe] - 1;
}

static void ask_of(struct recipes *r, const struct static_bias_parts *p, const struct half *h,
                   struct questions *q, struct asked *out) {
  out->is_one = r->rows[h->products].count == 1;
  if (out->is_one) {
    out->parts[0] = add_question(q, recipe_cast(r, p->x, DTYPE_FLOAT16));
    out->parts[1] = add_question(q, recipe_cast(r, p->w, DTYPE_FLOAT16));
    out->parts[2] = add_question(q, h->largest);
    return;
  }
  const uint32_t reach =
      with_number(r, RECIPE_MAP_MUL, recipe_cast(r, h->products, DTYPE_DOUBLE), most_code);
  out->parts[0] = add_question(
      q, recipe_map_two(r, RECIPE_MAP_SUB, with_number(r, RECIPE_MAP_MAX, h->largest, least_reach),
                        reach));
}

static bool is_wide(const struct asked *a, const struct tensor_stats *found) {
  if (!a->is_one) return found[a->parts[0]].most > 0;
  const double product =
      int8_rounded(DTYPE_FLOAT16, found[a->parts[0]].most * found[a->parts[1]].most);
  return fmax(found[a->parts[2]].most, least_reach) > product * most_code;
}

int static_find_wide(struct static_run *s, struct err *err) {
  if (s->o->compat != COMPAT_ORT_1_32 || s->o->weight == DTYPE_FLOAT8E4M3FN || !s->k.env->ask)
    return 0;
  struct arena a = {0};
  struct asked *asked = arena_alloc(&a, (s->n_biases + (size_t)1) * sizeof *asked);
  struct questions q = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_biases; i++) {
    struct static_bias_parts p;
    struct half h;
    if (!static_bias_parts(s, &s->biases[i], &p) || !half_of(s->k.r, &p, &h)) continue;
    if (s->biases[i].beta == 0) { // its product with the scales is 0, says the tool
      s->biases[i].wide = true;
      continue;
    }
    asked[n].bias = i;
    ask_of(s->k.r, &p, &h, &q, &asked[n++]);
  }
  struct tensor_stats *found = arena_zalloc(&a, (q.n_of + (size_t)1) * sizeof *found);
  const int rc = n ? findings_ask(s->k.env, q.of, q.n_of, false, found, err) : 0;
  for (uint32_t i = 0; i < n && rc == 0; i++)
    s->biases[asked[i].bias].wide = is_wide(&asked[i], found);
  TABLES_FREE(&q, of, place);
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
