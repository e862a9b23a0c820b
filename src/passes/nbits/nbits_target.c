// What the target of the options does not run (targets.h) is not written:
//
//   asked for by name   --bits, --tensor, --candidates, --gate-action raise: refused before the model is
//                       opened
//   picked by weir      presets of --candidates, 8 bits for weights that miss a gate: not picked, which
//                       is said once
//
// What only the model tells (its float16 weights, nodes that were quantized before) is looked at behind
// the passes by who runs them.
#include "passes/nbits/inside/nbits.h"

static struct target_form form_of(const struct matmulnbits_options *o,
                                  const struct matmulnbits_scheme *s, enum matmulnbits_op op,
                                  bool half) {
  struct target_form x = {.op = o->qdq                     ? TARGET_QDQ
                                : op == MATMULNBITS_GATHER ? TARGET_GATHER
                                                           : TARGET_MATMUL,
                          .bits = s->bits,
                          .block = s->block,
                          .zeros = !s->symmetric,
                          .half = half};
  x.float_zeros = x.op == TARGET_MATMUL && s->algorithm == MATMULNBITS_HQQ;
  return x;
}

// Features that the options' target does not run (target_features.def), of a weight in this scheme used by
// this operator; 0: none, or no target.
static uint32_t op_lacks(const struct matmulnbits_options *o,
                         const struct matmulnbits_scheme *scheme, enum matmulnbits_op op,
                         bool half) {
  const struct target_form form = form_of(o, scheme, op, half);
  return o->target ? target_form_needs(&form) & target_lacks(o->target) : 0;
}

// Of any of the operators that the options choose.
static uint32_t lacks(const struct matmulnbits_options *o, const struct matmulnbits_scheme *s) {
  uint32_t set = 0;
  for (uint32_t op = MATMULNBITS_MATMUL; op <= MATMULNBITS_GATHER; op <<= 1)
    if (o->op_types & op) set |= op_lacks(o, s, (enum matmulnbits_op)op, false);
  return set;
}

static int refuse(const struct matmulnbits_options *o, uint32_t set, const char *which,
                  struct err *err) {
  const enum target_feature first = (enum target_feature)__builtin_ctz(set);
  err_fill(err, ERR_USAGE, "%starget %s does not run %s", which, o->target->name,
           target_feature_row(first)->words);
  return err_hint(err, "%s", target_feature_row(first)->instead);
}

static struct matmulnbits_scheme overridden(const struct matmulnbits_options *o,
                                            const struct matmulnbits_override *by) {
  struct matmulnbits_scheme s = o->scheme;
  if (by->has_bits) s.bits = by->scheme.bits;
  if (by->has_block) s.block = by->scheme.block;
  if (by->has_symmetric) s.symmetric = by->scheme.symmetric;
  return s;
}

// What weights become that miss a gate.
static struct matmulnbits_scheme raised(const struct matmulnbits_options *o) {
  struct matmulnbits_scheme s = o->scheme;
  s.bits = 8;
  if (s.algorithm == MATMULNBITS_HQQ) s.algorithm = MATMULNBITS_DEFAULT;
  return s;
}

static bool raises(const struct matmulnbits_options *o) {
  return o->n_gates > 0 && o->gate_action == MATMULNBITS_RAISE;
}

int nbits_target_check(const struct matmulnbits_options *o, bool candidates_given,
                       bool action_given, struct err *err) {
  uint32_t set;
  if (o->budget == 0 && (set = lacks(o, &o->scheme))) return refuse(o, set, "", err);
  for (uint32_t i = 0; i < o->n_overrides; i++) {
    const struct matmulnbits_scheme s = overridden(o, &o->overrides[i]);
    if ((set = lacks(o, &s))) return refuse(o, set, "--tensor: ", err);
  }
  uint32_t runs = 0;
  for (uint32_t i = 0; i < o->n_candidates; i++) {
    set = lacks(o, &o->candidates[i]);
    if (set && candidates_given) return refuse(o, set, "--candidates: ", err);
    runs += set == 0;
  }
  if (o->budget > 0 && runs == 0) return refuse(o, lacks(o, &o->candidates[0]), "", err);
  const struct matmulnbits_scheme eight = raised(o);
  if (raises(o) && action_given && (set = lacks(o, &eight)))
    return refuse(o, set, "--gate-action raise: ", err);
  return 0;
}

bool nbits_target_refuses(const struct nbits_work *w, const struct nbits_site *s,
                          const struct matmulnbits_scheme *scheme) {
  const bool half = w->k.m->tensors[s->weight.tensor].dtype == DTYPE_FLOAT16;
  return op_lacks(w->options, scheme, s->op, half) != 0;
}

void nbits_target_tell(struct nbits_work *w) {
  const struct matmulnbits_options *o = w->options;
  const char *list = "";
  uint32_t set = 0;
  for (uint32_t i = 0; i < o->n_candidates && (o->budget > 0 || w->measures); i++) {
    const uint32_t lacking = lacks(o, &o->candidates[i]);
    if (!lacking) continue;
    set |= lacking;
    list = arena_printf(&w->k.site, "%s%s%s", list, *list ? ", " : "",
                        matmulnbits_scheme_text(&o->candidates[i], &w->k.site));
  }
  if (set)
    kit_warn(&w->k,
             arena_printf(&w->k.site, "target %s does not run %s: not a candidate: %s",
                          o->target->name, target_features_words(set, &w->k.site), list),
             NULL);
  const struct matmulnbits_scheme eight = raised(o);
  if (raises(o) && (set = lacks(o, &eight)))
    kit_warn(&w->k,
             arena_printf(&w->k.site,
                          "target %s does not run %s: weights that miss the gate are not quantized",
                          o->target->name, target_features_words(set, &w->k.site)),
             NULL);
}
