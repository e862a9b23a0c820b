// Corrects declared dims that inference found to be wrong:
//
//   x: float[N,6]   y = Relu(x)   y declared [1,6]   ──▶   y declared [N,6]
//
// A program that relies on such a declaration computes wrong shapes, and ONNX Runtime warns of some. The pass `infer` replaces
// them by what it found; this file runs after the other passes that infer, and after `infer` for the values that it does not
// write. Where the rank is right, dims that are right keep their spelling. A dim that is an expression of names is declared as
// that expression. A dim that is a number, or that has no name, becomes undeclared: other checkers may compute another number
// (a Resize by 2.6, rounded down). A value in a function may have other dims in each call, so its declaration is removed.
#include "infer/infer.h"
#include "passes/kit/kit.h"

enum { RANK = 64 }; // inference infers no more dims

struct dropping {
  struct kit k;
  struct infer *in;
  uint32_t n;           // values
  const char *sentence; // of the first
};

bool kit_undeclare(struct kit *k, uint32_t value) {
  bool inner = false, shaped = false;
  enum dtype dtype = DTYPE_UNDEFINED;
  MODEL_EACH_INFO (k->m, value, i) {
    const struct model_info *info = &k->m->infos[i];
    inner = inner || info->home == INFO_VALUE;
    if (info->home == INFO_VALUE || !(info->flags & INFO_SHAPED)) continue;
    shaped = true;
    dtype = (enum dtype)info->dtype;
  }
  if (inner) edit_retype_value(k->e, value, DTYPE_UNDEFINED, NULL, NO_ID);
  if (shaped) edit_retype_value(k->e, value, dtype, NULL, NO_ID);
  return inner || shaped;
}

static struct model_dim plain_dim(struct dropping *w, dim_id found) {
  struct model *m = w->k.m;
  struct dims *d = infer_dims(w->in);
  int64_t n;
  if (dims_is_number(d, found, &n)) return (struct model_dim){-1, m->empty};
  const struct span text = dims_text(d, found, &w->k.site);
  const bool plain = !memchr(text.at, '?', text.n);
  return (struct model_dim){-1, plain ? model_intern(m, text) : m->empty};
}

static void note(struct dropping *w, uint32_t value, dim_id said, dim_id found) {
  struct arena *a = &w->k.site;
  struct dims *d = infer_dims(w->in);
  char sentence[640];
  if (w->n++ > 0) return;
  infer_is_against_words(sentence, sizeof sentence, dims_text(d, said, a), dims_text(d, found, a));
  w->sentence =
      arena_printf(a, "value '%s': %s", quote(model_value_name(w->k.m, value)).s, sentence);
}

static void drop_rank(struct dropping *w, uint32_t value, const struct model_type *said,
                      const struct infer_type *is) {
  struct model_dim dims[RANK];
  if (w->n++ == 0)
    w->sentence = arena_printf(&w->k.site, "value '%s': it is declared with %u dim%s, but has %u",
                               quote(model_value_name(w->k.m, value)).s, said->rank,
                               plural(said->rank), is->rank);
  for (uint32_t i = 0; i < is->rank; i++)
    dims[i] = plain_dim(w, is->dims[i]);
  edit_retype_value(w->k.e, value, said->dtype, dims, is->rank);
}

static void drop_dims(struct dropping *w, uint32_t value, struct model_type *said,
                      const struct infer_type *is) {
  struct model_dim dims[RANK];
  bool wrong = false;
  for (uint32_t i = 0; i < is->rank; i++) {
    const dim_id found = dims_find(infer_dims(w->in), is->dims[i]);
    dims[i] = model_type_dim(w->k.m, said, i);
    const dim_id declared = infer_declared_dim(w->in, dims[i]);
    if (infer_is_against(w->in, found, declared)) {
      if (!wrong) note(w, value, declared, found);
      wrong = true;
      dims[i] = plain_dim(w, found);
    } else if (dims[i].value < 0 && dims[i].param == NO_ID) {
      dims[i].param = w->k.m->empty;
    }
    // Again: a new name may have moved the table that it points into.
    model_types_get(NULL, w->k.m, value, said);
  }
  if (wrong) edit_retype_value(w->k.e, value, said->dtype, dims, is->rank);
}

static void drop(struct dropping *w, uint32_t value) {
  const struct model *m = w->k.m;
  struct model_type said;
  struct infer_type is;
  if (m->values[value].flags & VALUE_DEAD) return;
  if (!model_types_get(NULL, m, value, &said) || !said.ranked) return;
  if (model_function_around(m, m->values[value].graph) != NO_ID) {
    if (kit_undeclare(&w->k, value) && w->n++ == 0)
      w->sentence = arena_printf(&w->k.site, "value '%s': its declared dims are wrong",
                                 quote(model_value_name(m, value)).s);
    return;
  }
  if (!infer_type_of(w->in, value, &is) || !is.ranked || is.kind != INFER_TENSOR) return;
  if (is.rank != said.rank)
    drop_rank(w, value, &said, &is);
  else
    drop_dims(w, value, &said, &is);
}

int kit_drop_misdeclared(struct pass_env *env, struct err *err) {
  struct dropping w = {.in = env->infer};
  uint32_t n = 0;
  const uint32_t *values = env->infer ? infer_misdeclared(env->infer, &n) : NULL;
  if (n == 0 || env->keeps_declared) return 0;
  kit_init(&w.k, env, env->pass->name);
  kit_site(&w.k, NO_ID, "declared");
  for (uint32_t i = 0; i < n; i++)
    drop(&w, values[i]);
  if (w.n > 0)
    kit_warn(&w.k,
             w.n == 1 ? w.sentence
                      : arena_printf(&w.k.site, "%s (and %u more)", w.sentence, w.n - 1),
             "the output does not contain declarations that contradict the inputs");
  return kit_done(&w.k, err);
}
