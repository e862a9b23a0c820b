// The default tolerances: the bounds that two results are compared by where the user does not say.
//
//   equal                     passes that move elements and compute nothing new (exact, zero)
//   relative, by type         passes that compute the same in another order (rounding, finite), and those that move the
//                             elements of functions that the runtime rounds by place (Atan before a Transpose, and after it)
//   one step                  the same, where the result is codes of 8 bits
//   cosine                    passes that quantize activations by ranges
//   SQNR, by bits             passes that store weights in fewer bits: their error is the purpose, and has figures of
//                             its own; this asks whether what comes out is what such a weight gives
//
// A uniform quantizer of b bits leaves about 6 b dB where its range is used well; real weights have tails, and blocks
// help. The floors lie well below that: what they catch is another weight, an offset, a sign, not a bad scheme.
//
// Whole models that lose have one floor, of SQNR, and none where weights have 2 or 3 bits; verify_models.c says when it is looked
// at. A cosine alone says nothing: outputs that are nearly all one number have one of 0.99 whatever else they are.
#include "infer/infer.h"
#include "passes/catalogue/passes.h"
#include "verify/run/site_traits.h"
#include "verify/run/verify_half.h"
#include "verify/run/verify_losses.h"

#include <string.h>

static double least_sqnr(uint32_t bits) {
  if (bits >= 16) return 40;
  if (bits >= 8) return 20;
  return bits >= 4 ? 6 : bits == 3 ? 3 : 0;
}

// Of the largest element: what sums of a few thousand products in another order differ by.
static double relative_of(enum dtype t) {
  switch (t) {
  case DTYPE_DOUBLE: return 1e-11;
  case DTYPE_FLOAT16: return 1e-2;
  case DTYPE_BFLOAT16: return 5e-2;
  default: return 3e-5;
  }
}

static const struct pass *find(const struct verify_options *o, const char *name) {
  const struct own_passes *own = o->own ? o->own : o->pipeline ? pipeline_own(o->pipeline) : NULL;
  return passes_find(own, span_str(name));
}

bool verify_loses(const struct verify_options *o, const char *const *names, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const struct pass *pass = find(o, names[i]);
    if (pass && (pass->stores || pass->activations)) return true;
  }
  return false;
}

bool verify_group_rounds(const struct verify_options *o, const struct edit_group_row *g) {
  const struct pass *pass = find(o, g->pass);
  return pass && passes_rounds_in(pass, g->reason);
}

bool verify_group_loses(const struct verify_options *o, const struct edit_group_row *g) {
  return verify_loses(o, &g->pass, 1) || verify_group_rounds(o, g);
}

bool verify_groups_lose(const struct verify_options *o, const struct edit_groups *g,
                        uint32_t last) {
  for (uint32_t i = 0; g && i < g->n_rows && g->first + i < last; i++)
    if (verify_group_loses(o, &g->rows[i])) return true;
  return false;
}

static bool rounds(const struct verify_options *o, const char *name) {
  const struct pass *pass = find(o, name);
  return !pass || pass->exactness > EXACTNESS_ZERO || pass->loosest > EXACTNESS_ZERO;
}

void verify_know_groups(struct verify *v, const struct edit_groups *g, uint32_t last) {
  v->knows = true;
  v->loses = verify_groups_lose(&v->options, g, last);
  v->rounds = false;
  for (uint32_t i = 0; g && i < g->n_rows && g->first + i < last; i++)
    v->rounds = v->rounds || rounds(&v->options, g->rows[i].pass);
}

// The pass that changes most.
struct verify_bounds verify_bounds_of_site(const struct verify_options *o, const char *const *names,
                                           uint32_t n, const struct verify_site *site,
                                           enum dtype before, enum dtype after, struct arena *a) {
  const uint32_t bits = site->bits;
  const bool uneven = site->uneven;
  enum exactness loosest = EXACTNESS_EXACT;
  bool stores = false, activations = site->rounds;
  for (uint32_t i = 0; i < n; i++) {
    const struct pass *pass = find(o, names[i]);
    if (!pass) {
      loosest = EXACTNESS_FINITE; // a log may name what this version does not have
      continue;
    }
    stores = stores || pass->stores;
    activations = activations || pass->activations;
    if (pass->exactness > loosest) loosest = pass->exactness;
    if (pass->loosest > loosest) loosest = pass->loosest;
  }
  struct verify_bounds b = {.bounds = compare_nothing()};
  b.bounds.nonfinite = true;
  const bool narrowed = before != after && dtype_bits(after) < dtype_bits(before);
  if (narrowed && (bits == 0 || bits >= 16) && dtype_is_float(after)) {
    b.bounds.least_sqnr_db = after == DTYPE_FLOAT16 ? 30 : 18;
    b.words = arena_printf(a, "SQNR of %g dB (%s)", b.bounds.least_sqnr_db, dtype_name(after));
  } else if (activations) { // what is clipped depends on what is drawn
    b.bounds.least_cosine = 0.9;
    b.bounds.least_sqnr_db =
        1; // numbers that are clipped to an eighth leave 1.7: no scale is 0, and none is lost
    b.words = "cosine of 0.9, SQNR of 1 dB (activations are quantized)";
  } else if (stores && bits) {
    b.bounds.least_sqnr_db = least_sqnr(bits);
    b.words = arena_printf(a, "SQNR of %g dB (weights of %u bits)", b.bounds.least_sqnr_db, bits);
  } else if (stores) {
    b.bounds.least_cosine = 0.9;
    b.words = "cosine of 0.9";
  } else if ((loosest > EXACTNESS_ZERO || uneven) &&
             (after == DTYPE_INT8 || after == DTYPE_UINT8)) {
    // A number between two codes goes to one or the other, by the last bit of a sum.
    b.bounds.max_abs = 1;
    b.words = "codes within one step";
  } else if ((loosest <= EXACTNESS_ZERO && !uneven) || !dtype_is_float(after)) {
    b.bounds.equal = true;
    b.bounds.zeros_equal = loosest == EXACTNESS_ZERO;
    b.words = loosest == EXACTNESS_ZERO ? "equal except for the sign of zeros" : "equal";
  } else {
    b.bounds.most_relative = relative_of(after);
    b.words = arena_printf(a, "relative error of %g", b.bounds.most_relative);
  }
  return b;
}

// ---- whole models ------------------------------------------------------------------------------

// An output keeps at least this after a pass that loses, unless a bound says more: an error of a third of the signal is 10 dB.
static const double LEAST_DB = 10;

// What models that have lost nothing are held to; what is no float, and not made of one, is equal, however large it is. half: both compute
// or store in 16 bits.
static struct verify_bounds equal_bounds(bool half, enum dtype before, enum dtype after) {
  struct verify_bounds b = {.bounds = compare_nothing()};
  b.bounds.nonfinite = true;
  b.bounds.retyped = before != after;
  b.bounds.whole_equal = true;
  if (before == DTYPE_BFLOAT16) {
    b.bounds.most_relative = 1e-1;
    b.words = "relative error of 0.1 (computed in bfloat16)";
  } else {
    b.bounds.most_relative = half ? 2e-2 : 1e-4;
    b.words = half ? "relative error of 0.02" : "relative error of 0.0001";
  }
  return b;
}

static struct verify_bounds lossy_bounds(const char *why, struct arena *a) {
  struct verify_bounds b = {.bounds = compare_nothing()};
  b.bounds.nonfinite = true;
  b.bounds.least_sqnr_db = LEAST_DB;
  b.bounds.retyped = true;
  b.words = arena_printf(a, "SQNR of %g dB (%s)", LEAST_DB, why);
  return b;
}

// seen: the models say it, and no passes.
static const char *why_lossy(const struct verify_losses *lost, bool seen) {
  if (seen && lost->more) return lost->more;
  if (lost->quantized) return "weights are quantized";
  return lost->halved ? "16 bits" : "weights have other values";
}

void verify_bounds_of_models(const struct model *source, const struct model *result,
                             struct infer *const in[2], struct verify_models_bounds *b,
                             struct arena *a) {
  const struct verify_losses lost = verify_losses_of(source, result, in, a);
  const enum dtype before = verify_half_computed(source, in[0]),
                   after = verify_half_computed(result, in[1]);
  const bool seen =
      !b->loses && (b->knows ? b->rounds && lost.more : lost.quantized || lost.halved || lost.more);
  b->why = seen && !b->knows ? why_lossy(&lost, seen) : NULL;
  b->more = b->why && lost.more;
  b->equal = (struct verify_bounds){.words = NULL};
  if (seen) b->equal = equal_bounds(lost.half && lost.half_before, before, after);
  b->loses = b->loses || seen;
  b->bounds =
      b->loses ? lossy_bounds(why_lossy(&lost, seen), a) : equal_bounds(lost.half, before, after);
}

uint32_t verify_bits_of_models(const struct model *source, const struct model *result) {
  const struct model *const m[2] = {source, result};
  uint32_t bits[2];
  for (int side = 0; side < 2; side++) {
    struct arena a = {0};
    uint32_t *nodes = arena_alloc(&a, (m[side]->n_nodes + (size_t)1) * sizeof *nodes), n = 0, k = 0;
    struct model_constant *constants =
        arena_zalloc(&a, (m[side]->n_tensors + (size_t)1) * sizeof *constants);
    for (uint32_t i = 0; i < m[side]->n_nodes; i++)
      if (!(m[side]->nodes[i].flags & NODE_DEAD)) nodes[n++] = i;
    for (uint32_t i = 0; i < m[side]->n_tensors; i++)
      if (!(m[side]->tensors[i].flags & TENSOR_DEAD)) constants[k++].tensor = i;
    bits[side] = site_traits_bits(m[side], nodes, n, constants, k);
    arena_free(&a);
  }
  return bits[1] < bits[0] ? bits[1] : 0;
}

// ---- pipelines ---------------------------------------------------------------------------------

// Of several bounds those of the loosest kind hold.
static int looseness(const struct compare_bounds *b) {
  return b->equal ? 0 : b->rtol >= 0 ? 1 : 2;
}

// Does one of them promise less than the same numbers, and store no weights in another form, which has bounds of its own?
static bool promise_less(const struct verify_options *o, const char *const *passes, uint32_t n) {
  bool less = false;
  for (uint32_t i = 0; i < n; i++) {
    const struct pass *pass = find(o, passes[i]);
    if (pass && pass->stores) return false;
    less = less || !pass || pass->exactness > EXACTNESS_ZERO || pass->loosest > EXACTNESS_ZERO;
  }
  return less;
}

enum pipeline_proof verify_proof_of(const struct verify_options *o, const char *const *passes,
                                    uint32_t n, struct verify_bounds *out, struct arena *a) {
  enum pipeline_proof proof = n ? PIPELINE_PROOF_OFF : PIPELINE_PROOF_PROMISE;
  if (!o->pipeline) return PIPELINE_PROOF_PROMISE;
  for (uint32_t i = 0; i < n; i++) {
    struct pipeline_verify v = pipeline_verify_of(o->pipeline, passes[i]);
    if (v.proof == PIPELINE_PROOF_OPEN && o->asked) v.proof = PIPELINE_PROOF_PROMISE;
    if (v.proof <= PIPELINE_PROOF_OFF || v.proof < proof) continue;
    if (v.proof == PIPELINE_PROOF_BOUNDS &&
        (proof != PIPELINE_PROOF_BOUNDS || looseness(&v.bounds) > looseness(&out->bounds)))
      *out = (struct verify_bounds){v.bounds, NULL};
    proof = v.proof;
  }
  if (proof == PIPELINE_PROOF_PROMISE && o->pipeline->tolerance.rtol >= 0 &&
      promise_less(o, passes, n)) {
    *out = (struct verify_bounds){o->pipeline->tolerance, NULL};
    proof = PIPELINE_PROOF_BOUNDS;
  }
  if (proof == PIPELINE_PROOF_BOUNDS) out->words = verify_bounds_words(&out->bounds, a);
  return proof;
}

// ---- words -------------------------------------------------------------------------------------

struct words {
  char s[256];
  size_t n;
};

// No bound: less than 0, or NaN.
static void add(struct words *w, const char *name, double x, const char *unit) {
  if (!(x >= 0) || w->n >= sizeof w->s) return;
  w->n += (size_t)snprintf(w->s + w->n, sizeof w->s - w->n, "%s%s %g%s", w->n ? ", " : "", name, x,
                           unit);
}

const char *verify_bounds_words(const struct compare_bounds *b, struct arena *a) {
  struct words w = {.n = 0};
  if (b->equal) w.n = (size_t)snprintf(w.s, sizeof w.s, "equal");
  add(&w, "rtol", b->rtol, "");
  add(&w, "atol", b->atol, "");
  add(&w, "max abs", b->max_abs, "");
  add(&w, "mean abs", b->mean_abs, "");
  add(&w, "p99", b->most_p99, "");
  add(&w, "p99.9", b->most_p999, "");
  add(&w, "relative", b->most_relative, "");
  add(&w, "cosine", b->least_cosine, "");
  add(&w, "SQNR", b->least_sqnr_db, " dB");
  add(&w, "top-1", b->least_top1, "");
  return arena_string(a, span_str(w.s));
}
