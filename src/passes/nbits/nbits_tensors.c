// The tensors of a quantized weight: codes, scales and zero points as recipes over the source's
// elements, in the graph that holds the source.
//
//   W (tensor, transposed?) ──▶ [cast of bfloat16] ──▶ [transpose] ──▶ quantize ──▶ codes, scales, zeros
//
// A weight used by several nodes in the same form is quantized once; the existing tool writes the
// same initializers again for every node, which makes the model invalid.
//
// bfloat16 goes through float32: the existing tool quantizes the widened elements with float32
// scales and rounds those afterwards. (Its Gather path computes in the type of the data.)
#include "passes/nbits/inside/nbits.h"

struct naming {
  const char *codes, *scales, *zeros;
  bool codes_last;
};

static bool is_k_quant(const struct matmulnbits_scheme *s) {
  return s->algorithm == MATMULNBITS_K_QUANT || s->algorithm == MATMULNBITS_K_QUANT_BEST;
}

static struct naming naming_of(struct nbits_work *w, enum nbits_form form,
                               const struct matmulnbits_scheme *s) {
  struct arena *a = &w->k.site;
  if (form == NBITS_COLUMNS || form == NBITS_ROWS || form == NBITS_SWAPPED)
    return (struct naming){arena_printf(a, "_DQ_Q%u", s->bits), "_DQ_scales", "_DQ_zero_points",
                           false};
  if (s->algorithm == MATMULNBITS_RTN || is_k_quant(s))
    return (struct naming){arena_printf(a, "_Q%uG%u", s->bits, s->block), "_scale", "_zp", true};
  return (struct naming){arena_printf(a, "_Q%u", s->bits), "_scales", "_zero_points", false};
}

static enum recipe_format format_of(const struct nbits_work *w, enum nbits_form form) {
  static const enum recipe_format by_algorithm[] = {
      [MATMULNBITS_DEFAULT] = FORMAT_NBITS,
      [MATMULNBITS_RTN] = FORMAT_NBITS_RTN,
      [MATMULNBITS_K_QUANT] = FORMAT_NBITS_KQUANT,
      [MATMULNBITS_K_QUANT_BEST] = FORMAT_NBITS_KQUANT_BEST,
      [MATMULNBITS_HQQ] = FORMAT_NBITS_HQQ,
      [MATMULNBITS_GPTQ] = FORMAT_NBITS_GPTQ,
      [MATMULNBITS_AWQ] = FORMAT_NBITS_CLIPPED};
  // Before its statistics are looked up: for what its size is, and whether it is finite.
  const bool plain = nbits_takes_gram(&w->site->scheme) && w->site->statistics.gram == NO_ID;
  switch (form) {
  case NBITS_BLOB: return plain ? FORMAT_NBITS : by_algorithm[w->site->scheme.algorithm];
  case NBITS_PACKED: return FORMAT_NBITS;
  case NBITS_TABLE: return FORMAT_GATHER;
  default: return FORMAT_QDQ;
  }
}

static bool has_zeros(const struct matmulnbits_scheme *s) {
  return !s->symmetric || is_k_quant(s);
}

// ---- recipes -----------------------------------------------------------------------------------

static bool goes_through_float(const struct nbits_work *w, enum nbits_form form) {
  const struct model_tensor *t = &w->k.m->tensors[w->site->weight.tensor];
  return t->dtype == DTYPE_BFLOAT16 && form != NBITS_TABLE;
}

// The elements as the quantization takes them: a matrix, or a table of any rank.
static uint32_t plain_operand(struct nbits_work *w, enum nbits_form form, bool transposed) {
  static const int64_t swap[2] = {1, 0};
  struct edits *e = w->k.e;
  uint32_t tensor = w->site->weight.tensor;
  const struct model_tensor *t = &w->k.m->tensors[tensor];
  const int64_t *dims = model_dims(w->k.m, t);
  bool whole = w->site->op == MATMULNBITS_GATHER;
  int64_t matrix[2] = {dims[t->rank - 2], dims[t->rank - 1]};
  uint32_t of = whole ? edit_tensor_recipe(e, tensor) : edit_tensor_recipe_as(e, tensor, matrix, 2);
  if (goes_through_float(w, form)) of = recipe_cast(e->r, of, DTYPE_FLOAT);
  if (form == NBITS_SWAPPED) transposed = !transposed;
  return transposed ? recipe_transpose(e->r, of, swap) : of;
}

// The same, with scaled rows where they are known.
static uint32_t operand(struct nbits_work *w, enum nbits_form form, bool transposed) {
  const uint32_t of = plain_operand(w, form, transposed);
  return w->site->statistics.rows == NO_ID ? of : nbits_scale_rows(w, of);
}

uint32_t nbits_matrix(struct nbits_work *w) {
  bool transposed;
  const enum nbits_form form = nbits_form(w, &transposed);
  return plain_operand(w, form, transposed);
}

// The axis of the operand that is cut into blocks.
static uint32_t axis_of(enum nbits_form form) {
  return form == NBITS_BLOB || form == NBITS_COLUMNS ? 0 : 1;
}

static uint32_t quantize(struct nbits_work *w, enum nbits_form form, uint32_t of,
                         enum recipe_format format, enum recipe_part which) {
  const struct matmulnbits_scheme *s = &w->site->scheme;
  struct recipe_quantization q = {.format = format,
                                  .bits = s->bits,
                                  .symmetric = s->symmetric,
                                  .axis = axis_of(form),
                                  .block = s->block,
                                  .seen = w->site->seen};
  if (recipe_takes_gram(format))
    return recipe_quantize_by(w->k.r, of, &w->site->statistics, &q, which);
  return recipe_quantize(w->k.r, of, &q, which);
}

// PACKED: the bytes of a row's blocks in one axis.
static uint32_t join_blocks(struct recipes *r, uint32_t codes) {
  const int64_t *dims = recipe_dims(r, codes);
  int64_t flat[2] = {dims[0], dims[1] * dims[2]};
  return recipe_reshape(r, codes, flat, 2);
}

static uint32_t part(struct nbits_work *w, enum nbits_form form, uint32_t of,
                     enum recipe_part which) {
  struct recipes *r = w->k.r;
  uint32_t made = quantize(w, form, of, format_of(w, form), which);
  if (form == NBITS_PACKED && which == PART_CODES) return join_blocks(r, made);
  bool narrow = goes_through_float(w, form) && r->rows[made].dtype == DTYPE_FLOAT;
  return narrow ? recipe_cast(r, made, DTYPE_BFLOAT16) : made;
}

// ---- measuring ---------------------------------------------------------------------------------

uint32_t nbits_measurable(struct nbits_work *w) {
  bool transposed;
  enum nbits_form form = nbits_form(w, &transposed);
  return quantize(w, form, operand(w, form, transposed), format_of(w, form), PART_CODES);
}

struct nbits_size nbits_size(struct nbits_work *w) {
  bool transposed, zeros = has_zeros(&w->site->scheme);
  enum nbits_form form = nbits_form(w, &transposed);
  const uint32_t of = operand(w, form, transposed);
  struct nbits_size size = {0};
  for (int p = PART_CODES; p <= (zeros ? PART_ZEROS : PART_SCALES); p++) {
    const uint32_t id = part(w, form, of, (enum recipe_part)p);
    const uint64_t bytes = w->k.r->rows[id].bytes;
    size.bytes += bytes;
    size.room += model_data_alignment(bytes);
  }
  return size;
}

// ---- rows --------------------------------------------------------------------------------------

static uint32_t put(struct nbits_work *w, const char *suffix, uint32_t recipe) {
  const uint32_t home = w->k.m->values[w->site->weight.value].graph;
  return edit_add_tensor_for(w->k.e, home, nbits_value_name(w, w->weight_name, suffix), recipe,
                             w->site->weight.tensor, w->site->name);
}

static void put_all(struct nbits_work *w, struct nbits_tensor *t) {
  struct naming names = naming_of(w, t->form, &t->scheme);
  uint32_t of = operand(w, t->form, t->transposed);
  t->axis_length = recipe_dims(w->k.r, of)[axis_of(t->form)];
  t->recipe = part(w, t->form, of, PART_CODES);
  if (!names.codes_last) t->codes = put(w, names.codes, t->recipe);
  t->scales = put(w, names.scales, part(w, t->form, of, PART_SCALES));
  t->zeros = NO_ID;
  if (has_zeros(&t->scheme)) t->zeros = put(w, names.zeros, part(w, t->form, of, PART_ZEROS));
  if (names.codes_last) t->codes = put(w, names.codes, t->recipe);
}

static bool same_statistics(const struct nbits_tensor *t, const struct nbits_site *s) {
  return t->statistics.gram == s->statistics.gram && t->statistics.rows == s->statistics.rows;
}

uint32_t nbits_tensor(struct nbits_work *w, enum nbits_form form, bool transposed) {
  uint32_t source = w->site->weight.tensor;
  for (uint32_t i = w->first[source]; i != NO_ID; i = w->tensors[i].next) {
    const struct nbits_tensor *t = &w->tensors[i];
    if (t->form == form && t->transposed == transposed && same_statistics(t, w->site) &&
        matmulnbits_scheme_same(&t->scheme, &w->site->scheme))
      return i;
  }
  struct nbits_tensor made = {.tensor = source,
                              .form = form,
                              .transposed = transposed,
                              .scheme = w->site->scheme,
                              .statistics = w->site->statistics,
                              .dequantized = NO_ID,
                              .next = w->first[source]};
  put_all(w, &made);
  uint32_t id = TABLE_ADD(w, tensors, 1);
  w->tensors[id] = made;
  w->first[source] = id;
  return id;
}
