// Statistics for gptq and awq: of each value that a weight is multiplied with, the tiles that calibration left in the
// companion of RANGES (second_moments.h). They become operands of the recipes, as extents of a source beside the model:
//
//   MatMul(x, W)    RANGES: x ──▶ {k, at, bytes} ──▶ extent of RANGES.data ──▶ quantize_by [W, XᵀX]
//
//                           mean_abs ──▶ a literal, for awq
//
// awq multiplies rows of weights, and divides the value by as much. All weights of a value that are quantized alike have
// the scales in common, so the value is divided once, in front of the first of their nodes:
//
//   MatMul(x, W), MatMul(x, V)    s = awq [means, XᵀX, W, V]
//                                 x_awq = Mul(x, 1 / s);  MatMulNBits(x_awq, s W), MatMulNBits(x_awq, s V)
//
// Values are found by their names at this point of the pipeline; those that a pass before put behind a Reshape or its kin by what
// that was given, whose rows have the same elements. All weights have theirs, or nothing is edited: a
// weight that was rounded because nobody looked at its value is not what was asked for.
#include "passes/nbits/inside/nbits.h"

#include "passes/int8/int8.h"
#include "passes/questions/weighings.h"
#include "ranges/ranges.h"
#include "tensor_stats/second_moments.h"

struct finding {
  struct nbits_work *w;
  const struct ranges *ranges;
  uint32_t file; // of the companion; NO_ID: not asked for yet
};

bool nbits_takes_gram(const struct matmulnbits_scheme *s) {
  return s->algorithm == MATMULNBITS_GPTQ || s->algorithm == MATMULNBITS_AWQ;
}

static int leave_out(const struct finding *f, const struct nbits_site *s, struct err *err) {
  const struct model *m = f->w->k.m;
  const struct span node = model_name(m, m->nodes[s->node].name);
  return err_hint(err,
                  "run 'weir calibrate' with --statistics gram on the input of this pass, or "
                  "exclude the weight: --exclude '%s'",
                  quote(node.n ? node : model_name(m, s->name)).s);
}

static int no_moments(const struct finding *f, const struct nbits_site *s, uint32_t value,
                      struct err *err) {
  const struct model *m = f->w->k.m;
  err_fill(err, ERR_INPUT,
           "'%s' has no second moments of the value '%s', the input of the weight '%s'",
           quote_path(f->ranges->path).s, quote(model_value_name(m, value)).s,
           quote(model_name(m, s->name)).s);
  return leave_out(f, s, err);
}

// The companion, made a source when the first value is found.
static int companion(struct finding *f, struct err *err) {
  const struct pass_env *env = f->w->k.env;
  if (f->file != NO_ID) return 0;
  if (!env->source)
    return err_set(err, ERR_USAGE,
                   "second moments cannot be read here: this run has no access to files");
  return env->source(env->source_ctx, ranges_data_path(f->ranges->path, env->scratch),
                     f->ranges->data_sha256, &f->file, err);
}

enum { MOST_MOVES = 64 };

// What RANGES says of the rows of a value; NULL: nothing. Bodies and functions may call theirs as the main graph calls others.
static const struct ranges_value *rows_of(const struct finding *f, uint32_t x) {
  struct kit *k = &f->w->k;
  struct int8_channels p = {x, -1};
  for (int i = 0; i < MOST_MOVES; i++) {
    const bool named = k->m->values[p.value].graph == k->m->main_graph;
    const struct ranges_value *v =
        named ? ranges_find(f->ranges, model_value_name(k->m, p.value)) : NULL;
    if (v && v->gram_k > 0 && int8_same_axis(k, &p, -1)) return v;
    if (i == 0) kit_infer(k); // it follows dims
    if (!int8_moved_from(k, &p)) return NULL;
  }
  return NULL;
}

static int misfit(const struct finding *f, const struct nbits_site *s, const char *what,
                  uint32_t has, uint64_t wants, struct err *err) {
  const struct model *m = f->w->k.m;
  const uint32_t x = model_input(m, &m->nodes[s->node], 0);
  err_fill(err, ERR_INPUT,
           "'%s' has %s of the value '%s' for %u columns, but the weight '%s' that it is "
           "multiplied with has %s rows",
           quote_path(f->ranges->path).s, what, quote(model_value_name(m, x)).s, has,
           quote(model_name(m, s->name)).s, decimal(wants).s);
  return leave_out(f, s, err);
}

int nbits_weighed_by(struct nbits_work *w, const struct nbits_site *s, uint32_t codes, uint32_t *by,
                     const char **word, struct err *err) {
  const struct model *m = w->k.m;
  const struct pass_env *env = w->k.env;
  struct recipes *r = w->k.r;
  const uint32_t x = model_input(m, &m->nodes[s->node], 0), row = recipe_unmoved(r, codes);
  const uint32_t axis = recipe_quantization_of(r, row).axis; // blocks run along it
  const uint64_t k = (uint64_t)recipe_dims(r, r->args[r->rows[row].args])[axis];
  struct finding f = {.w = w, .file = NO_ID};
  *by = NO_ID;
  if (s->op == MATMULNBITS_GATHER || m->values[x].graph != m->main_graph) return 0;
  if (!env->files.ranges)
    return err_set(err, ERR_USAGE,
                   "statistics cannot be read here: this run has no access to files of ranges");
  if (env->files.ranges(env->files.ctx, w->options->ranges, &f.ranges, err)) return -1;
  const struct ranges_value *v = ranges_find(f.ranges, model_value_name(m, x));
  if (v && v->gram_k > 0) {
    if (v->gram_k != k) return misfit(&f, s, "second moments", v->gram_k, k, err);
    if (companion(&f, err)) return -1;
    *by = weighings_gram(r, f.file, v->gram_at, v->gram_k, axis, 2);
    *word = "gram";
  } else if (v && v->n_channels > 0 && v->channel_mean && v->axis != 1) {
    if (v->n_channels != k) return misfit(&f, s, "means", v->n_channels, k, err);
    *by = weighings_channels(r, v->channel_mean, v->n_channels, axis, 2);
    *word = "channels";
  }
  return 0;
}

static int find_one(struct finding *f, struct nbits_site *s, struct err *err) {
  const struct model *m = f->w->k.m;
  const uint32_t x = model_input(m, &m->nodes[s->node], 0);
  const struct ranges_value *v = rows_of(f, x);
  uint64_t k, columns;
  if (!nbits_shape(m, s, &k, &columns))
    return err_set(err, ERR_MODEL, "the weight '%s' has no size", quote(model_name(m, s->name)).s);
  if (k > SECOND_MOMENTS_MOST) {
    err_fill(err, ERR_USAGE, "the weight '%s' has %s rows, but %s supports at most %d",
             quote(model_name(m, s->name)).s, decimal(k).s,
             matmulnbits_algorithm_name(s->scheme.algorithm), SECOND_MOMENTS_MOST);
    return leave_out(f, s, err);
  }
  if (!v || v->gram_k == 0) return no_moments(f, s, x, err);
  if (v->gram_k != k) return misfit(f, s, "second moments", v->gram_k, k, err);
  if (companion(f, err)) return -1;
  const struct piece piece = {.at = {.file = f->file, .off = v->gram_at, .len = v->gram_bytes},
                              .count = v->gram_bytes,
                              .checkpoint = NO_ID};
  const int64_t elements = (int64_t)second_moments_elements(k);
  s->statistics.gram =
      recipe_extent(f->w->k.r, DTYPE_DOUBLE, &elements, 1, ENCODING_RAW, &piece, 1, NULL);
  return 0;
}

// ---- awq ---------------------------------------------------------------------------------------

// The share that the site is of: 1 + which; 0: none yet.
static uint32_t share_of(struct nbits_work *w, const struct nbits_site *s, uint32_t x) {
  const uint32_t graph = w->k.m->nodes[s->node].graph;
  uint32_t i = w->share_of[x];
  while (i && !(w->shares[i - 1].graph == graph &&
                matmulnbits_scheme_same(&w->shares[i - 1].scheme, &s->scheme)))
    i = w->shares[i - 1].next;
  return i;
}

static void find_share(struct nbits_work *w, struct nbits_site *sites, uint32_t at) {
  struct nbits_site *s = &sites[at];
  const struct model_node *n = &w->k.m->nodes[s->node];
  const uint32_t x = model_input(w->k.m, n, 0);
  if (x >= w->n_share_of) TABLE_ADD(w, share_of, x + 1 - w->n_share_of);
  uint32_t i = share_of(w, s, x);
  if (i == 0) {
    *TABLE_PUSH(w, shares) = (struct nbits_share){.value = x,
                                                  .graph = n->graph,
                                                  .scheme = s->scheme,
                                                  .scaled = NO_ID,
                                                  .first = at,
                                                  .next = w->share_of[x]};
    i = w->share_of[x] = w->n_shares;
  }
  struct nbits_share *h = &w->shares[i - 1];
  s->share = i - 1;
  if (h->n++) sites[h->last].next_of_it = at;
  h->last = at;
}

static int no_means(const struct finding *f, const struct nbits_site *s, uint32_t value,
                    struct err *err) {
  err_fill(err, ERR_INPUT,
           "'%s' has no mean magnitudes by column for the value '%s', but awq needs them",
           quote_path(f->ranges->path).s, quote(model_value_name(f->w->k.m, value)).s);
  return leave_out(f, s, err);
}

// Scales for all weights of a value: those of the sites that share them.
static int scale_share(struct finding *f, struct nbits_site *sites, uint32_t share,
                       struct err *err) {
  struct nbits_work *w = f->w;
  const struct nbits_share *h = &w->shares[share];
  const struct ranges_value *v = rows_of(f, h->value);
  uint32_t *of = arena_alloc(w->k.env->scratch, h->n * sizeof *of), n_of = 0, gram = NO_ID;
  for (uint32_t j = 0, i = h->first; j < h->n; j++, i = sites[i].next_of_it) {
    if (!v->channel_mean || v->n_channels != v->gram_k)
      return no_means(f, &sites[i], h->value, err);
    w->site = &sites[i];
    const uint32_t matrix = nbits_matrix(w);
    uint32_t k = 0;
    while (k < n_of && of[k] != matrix)
      k++;
    if (k == n_of) of[n_of++] = matrix;
    gram = sites[i].statistics.gram;
  }
  const int64_t rows = v->gram_k;
  const struct recipe_awq awq = {
      .means = recipe_bytes(w->k.r, DTYPE_FLOAT, &rows, 1,
                            span_of(v->channel_mean, v->gram_k * sizeof *v->channel_mean)),
      .gram = gram,
      .bits = h->scheme.bits,
      .symmetric = h->scheme.symmetric,
      .block = h->scheme.block,
      .seen = v->gram_rows};
  const uint32_t scales = recipe_awq(w->k.r, &awq, of, n_of);
  for (uint32_t j = 0, i = h->first; j < h->n; j++, i = sites[i].next_of_it)
    sites[i].statistics.rows = scales, sites[i].seen = v->gram_rows;
  return 0;
}

static enum dtype weight_type(const struct nbits_work *w) {
  return (enum dtype)w->k.m->tensors[w->site->weight.tensor].dtype;
}

uint32_t nbits_scale_rows(struct nbits_work *w, uint32_t of) {
  struct recipes *r = w->k.r;
  const int64_t column[2] = {recipe_dims(r, of)[0], 1};
  const uint32_t scales = recipe_cast(r, w->site->statistics.rows, (enum dtype)r->rows[of].dtype);
  return recipe_map(r, RECIPE_MAP_MUL, (uint32_t[]){of, recipe_reshape(r, scales, column, 2)});
}

uint32_t nbits_scaled(struct nbits_work *w, uint32_t x) {
  static const float one = 1;
  struct recipes *r = w->k.r;
  struct kit *k = &w->k;
  const uint32_t share = w->site->share, rows = w->site->statistics.rows;
  if (w->shares[share].scaled != NO_ID) return w->shares[share].scaled;
  const uint32_t ones = recipe_fill(r, DTYPE_FLOAT, NULL, 0, span_of(&one, sizeof one));
  const uint32_t inverse =
      recipe_cast(r, recipe_map(r, RECIPE_MAP_DIV, (uint32_t[]){ones, rows}), weight_type(w));
  const char *stem = arena_string(&k->site, model_value_name(k->m, x));
  const uint32_t by =
      edit_add_tensor(k->e, k->graph, nbits_value_name(w, stem, "_awq_scale"), inverse);
  k->before = w->site->node;
  const uint32_t scaled = kit_make(
      k, OP_Mul, KIT_CALLED(span_str(arena_printf(&k->site, "%s_awq", stem))),
      KIT_OUT(((struct edit_output){NO_ID, nbits_value_name(w, stem, "_awq")})), KIT_IN(x, by));
  w->shares[share].scaled = scaled;
  return scaled;
}

// ---- all of them -------------------------------------------------------------------------------

int nbits_gram(struct nbits_work *w, struct nbits_site *sites, uint32_t n, struct err *err) {
  const struct pass_env *env = w->k.env;
  struct finding f = {.w = w, .file = NO_ID};
  for (uint32_t i = 0; i < n; i++) {
    if (!sites[i].converts || !nbits_takes_gram(&sites[i].scheme)) continue;
    if (!f.ranges && !env->files.ranges)
      return err_set(err, ERR_USAGE,
                     "statistics cannot be read here: this run has no access to files of ranges");
    if (!f.ranges && env->files.ranges(env->files.ctx, w->options->ranges, &f.ranges, err))
      return -1;
    if (find_one(&f, &sites[i], err)) return -1;
    if (sites[i].scheme.algorithm == MATMULNBITS_AWQ) find_share(w, sites, i);
  }
  for (uint32_t i = 0; i < w->n_shares; i++)
    if (scale_share(&f, sites, i, err)) return -1;
  return 0;
}
