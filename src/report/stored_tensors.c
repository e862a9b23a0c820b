// The list is made from the sites that passes reported: each names the recipe of the codes that
// took the weight's place, and the recipe's operand is what the weight was. Sites that share codes
// (a weight used twice, quantized once) are one row; weights of equal bytes, which have one recipe, are
// a row each.
//
// A row's size counts all that a runtime needs to have the weight back: scales and zero points are
// found as the other parts of the same quantization, in the same table of recipes.
#include "report/stored_tensors.h"

#include <math.h>

// ---- rows --------------------------------------------------------------------------------------

// Of the scales or the zero points that go with codes; 0 where the format has none.
static uint64_t part_bytes(struct recipes *r, uint32_t codes, const struct recipe_quantization *q,
                           enum recipe_part part) {
  const uint32_t of = r->args[r->rows[codes].args];
  const struct recipe_statistics by = recipe_statistics_of(r, codes);
  const bool has = q->format != FORMAT_LEVELS &&
                   (part == PART_SCALES || !q->symmetric || q->format == FORMAT_SHRINK);
  if (!has) return 0;
  return r
      ->rows[by.gram == NO_ID ? recipe_quantize(r, of, q, part)
                              : recipe_quantize_by(r, of, &by, q, part)]
      .bytes;
}

// Casts on the way to a quantization (bfloat16 made float32 first) are part of it. Scales and zero
// points are weights of their own to a pass behind the one that made them.
static uint32_t source_of(const struct recipes *r, uint32_t id) {
  while (r->rows[id].kind == RECIPE_CAST || r->rows[id].kind == RECIPE_QUANTIZE_LINEAR ||
         (recipe_quantizes(r, id) && recipe_part_of(r, id) == PART_CODES))
    id = recipe_unmoved(r, r->args[r->rows[id].args]);
  return id;
}

// By parameters that were found, or are given.
static void describe_linear(const struct recipes *r, uint32_t id, struct stored_tensor *t) {
  const struct recipe_linear q = recipe_quantize_linear_of(r, id);
  t->has_scheme = true;
  t->bytes_after += r->rows[q.scales].bytes + (q.zeros == NO_ID ? 0 : r->rows[q.zeros].bytes);
  if (recipe_quantize_linear_found(r, id, &t->scheme)) return;
  t->scheme = (struct recipe_quantization){.format = FORMAT_LINEAR,
                                           .type = q.type,
                                           .bits = dtype_bits(q.type),
                                           .symmetric = q.zeros == NO_ID,
                                           .axis = q.axis,
                                           .block = q.block};
}

static struct stored_tensor describe(struct recipes *r, const struct run_site *s) {
  const uint32_t id = recipe_unmoved(r, s->codes);
  struct stored_tensor t = {.name = s->tensor,
                            .layer = s->layer,
                            .codes = id,
                            .step = s->step,
                            .stored = (enum dtype)r->rows[id].dtype,
                            .bytes_after = r->rows[id].bytes,
                            .uses = 1};
  if (recipe_quantizes(r, id)) {
    t.has_scheme = true;
    t.scheme = recipe_quantization_of(r, id);
    t.bytes_after += part_bytes(r, id, &t.scheme, PART_SCALES);
    t.bytes_after += part_bytes(r, id, &t.scheme, PART_ZEROS);
  } else if (r->rows[id].kind == RECIPE_QUANTIZE_LINEAR) {
    describe_linear(r, id, &t);
  }
  t.of = source_of(r, id);
  t.bytes_before = r->rows[t.of].bytes;
  return t;
}

static void take_figures(struct stored_tensors *q, const struct stored_tensors_of *of) {
  const struct plan *p = of->plan;
  struct arena scratch = {0};
  // By the plan's recipe id.
  const struct run_error **by = arena_zalloc(&scratch, p->recipes->n_rows * sizeof *by);
  for (uint32_t i = 0; i < of->n_errors; i++) {
    const struct segment *s = &p->segments[of->errors[i].segment];
    if (s->kind == SEGMENT_RECIPE) by[recipe_unmoved(p->recipes, s->ref)] = &of->errors[i];
  }
  for (uint32_t i = 0; i < q->n_rows; i++) {
    struct stored_tensor *t = &q->rows[i];
    if (!by[t->codes] || !by[t->codes]->whole) continue;
    t->has_figures = true;
    t->figures = by[t->codes]->figures;
  }
  arena_free(&scratch);
}

void stored_tensors_free(struct stored_tensors *q) {
  TABLE_FREE(q, rows);
}

void stored_tensors_list(struct stored_tensors *q, const struct stored_tensors_of *of) {
  struct arena scratch = {0};
  // By tensor: its last row + 1. A tensor has few: one for each form that it is stored in.
  uint32_t *rows_of = arena_zalloc(&scratch, (of->n_tensors + (size_t)1) * sizeof *rows_of);
  for (uint32_t i = 0; i < of->n_sites; i++) {
    const struct run_site *s = &of->sites[i];
    if (s->codes == NO_ID || !run_site_converted(s)) continue;
    const uint32_t codes = recipe_unmoved(of->recipes, s->codes);
    uint32_t row = rows_of[s->of];
    while (row && q->rows[row - 1].codes != codes)
      row = q->rows[row - 1].next;
    if (row) {
      q->rows[row - 1].uses++;
      continue;
    }
    struct stored_tensor t = describe(of->recipes, s);
    t.next = rows_of[s->of];
    *TABLE_PUSH(q, rows) = t;
    rows_of[s->of] = q->n_rows;
  }
  arena_free(&scratch);
  take_figures(q, of);
}

// ---- for people --------------------------------------------------------------------------------

// An error that is not a number is worse than any.
static double rank(const struct stored_tensor *t) {
  const double db = figures_sqnr_db(&t->figures);
  return isnan(db) ? -INFINITY : db;
}

// Numbers alone, such as an epsilon, and bounds that were clipped, which are told as such, say nothing of the others.
static bool counts(const struct stored_tensor *t) {
  if (!t->has_figures) return false;
  return t->has_scheme || (t->figures.elements > 1 && t->figures.overflows == 0);
}

const struct stored_tensor *stored_tensors_worst(const struct stored_tensors *q) {
  const struct stored_tensor *worst = NULL;
  for (uint32_t i = 0; i < q->n_rows; i++)
    if (counts(&q->rows[i]) && (!worst || rank(&q->rows[i]) < rank(worst))) worst = &q->rows[i];
  return worst;
}

const char *stored_tensors_scheme_words(const struct recipe_quantization *s, struct arena *a) {
  const char *symmetric = s->symmetric ? ", symmetric" : "";
  if (s->format == FORMAT_LEVELS) return arena_printf(a, "%u values", s->levels);
  if (s->format == FORMAT_LINEAR && s->block)
    return arena_printf(a, "%s in blocks of %s", dtype_name(s->type), decimal(s->block).s);
  if (s->format == FORMAT_LINEAR)
    return arena_printf(a, "%s%s", dtype_name(s->type),
                        s->axis == RECIPE_PER_TENSOR ? "" : " by channel");
  if (s->format == FORMAT_SHRINK || s->format == FORMAT_AFFINE)
    return s->axis == RECIPE_PER_TENSOR ? "int8" : "int8 by channel";
  if (s->block == 0) return arena_printf(a, "%u bits by channel%s", s->bits, symmetric);
  return arena_printf(a, "%u bits in blocks of %s%s", s->bits, decimal(s->block).s, symmetric);
}

// Medians over the weights of speech and OCR models: of blocks of 32 to 128, as of normally distributed numbers; of one scale for a
// channel or a tensor, and of casts, over 176 weights of five models.
double stored_tensors_usual_db(const struct stored_tensor *t) {
  enum {
    BYTE_VALUES = 256,
    BY_CHANNEL_DB = 42,
    PER_TENSOR_DB = 35,
    HALF_DB = 74,
    BFLOAT16_DB = 56
  };
  const double bit_db = 6.02;
  const struct recipe_quantization *s = &t->scheme;
  if (!t->has_scheme)
    return t->stored == DTYPE_FLOAT16 ? HALF_DB : t->stored == DTYPE_BFLOAT16 ? BFLOAT16_DB : 0;
  if (s->format == FORMAT_LEVELS)
    return s->levels > 1 ? (double)PER_TENSOR_DB - bit_db * log2((double)BYTE_VALUES / s->levels)
                         : 0;
  if (s->block == 0) {
    const bool is_byte = s->format == FORMAT_LINEAR
                             ? dtype_bits(s->type) == 8
                             : s->format == FORMAT_SHRINK || s->format == FORMAT_AFFINE;
    return !is_byte ? 0 : s->axis == RECIPE_PER_TENSOR ? PER_TENSOR_DB : BY_CHANNEL_DB;
  }
  return s->bits == 2 ? 7 : s->bits == 4 ? 21 : s->bits == 8 ? 45 : 0;
}

const char *stored_tensors_usual_words(const struct stored_tensor *t, struct arena *a) {
  if (!t->has_scheme) return dtype_name(t->stored);
  return t->scheme.block ? arena_printf(a, "%u bits", t->scheme.bits)
                         : stored_tensors_scheme_words(&t->scheme, a);
}
