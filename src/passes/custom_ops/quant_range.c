// What Quant and its kin say, and the nodes that do it.
//
//   least = signed * (-2^(bits - signed) + narrow)        most = 2^(bits - signed) - 1 - narrow * (1 - signed)
//
// Both are numbers where the bits are: computed step by step in the type that a node would compute in, so that they
// are the same. Of float16 and bfloat16 only those are, whose steps are exact.
#include "passes/custom_ops/inside/quant_range.h"

#include <math.h>

enum quant_rounding quant_rounding_of(struct span word) {
  static const struct {
    const char *word;
    enum quant_rounding is;
  } words[] = {
      {"ROUND", QUANT_ROUND}, {"HALF_EVEN", QUANT_ROUND},       {"CEIL", QUANT_CEIL},
      {"FLOOR", QUANT_FLOOR}, {"ROUND_TO_ZERO", QUANT_TO_ZERO}, {"DOWN", QUANT_TO_ZERO},
      {"UP", QUANT_UP},       {"HALF_UP", QUANT_HALF_UP},       {"HALF_DOWN", QUANT_HALF_DOWN}};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (span_is(word, words[i].word)) return words[i].is;
  return QUANT_ROUNDINGS;
}

uint32_t quant_round(struct kit *k, enum quant_rounding how, uint32_t x, enum dtype dtype) {
  if (how == QUANT_ROUND) return kit_make(k, OP_Round, KIT_IN(x));
  if (how == QUANT_CEIL) return kit_make(k, OP_Ceil, KIT_IN(x));
  if (how == QUANT_FLOOR) return kit_make(k, OP_Floor, KIT_IN(x));
  const uint32_t sign = kit_make(k, OP_Sign, KIT_IN(x));
  uint32_t size = kit_make(k, OP_Abs, KIT_IN(x));
  if (how == QUANT_HALF_UP)
    size = kit_make(k, OP_Add, KIT_IN(size, kit_new_scalar(k, "half", dtype, 0.5)));
  if (how == QUANT_HALF_DOWN)
    size = kit_make(k, OP_Sub, KIT_IN(size, kit_new_scalar(k, "half", dtype, 0.5)));
  const bool up = how == QUANT_UP || how == QUANT_HALF_DOWN;
  size = kit_make(k, up ? OP_Ceil : OP_Floor, KIT_IN(size));
  return kit_make(k, OP_Mul, KIT_IN(sign, size));
}

// The modes of the operator itself; all other words are ROUND there.
static const char *const published[QUANT_ROUNDINGS] = {[QUANT_ROUND] = "ROUND",
                                                       [QUANT_CEIL] = "CEIL",
                                                       [QUANT_FLOOR] = "FLOOR",
                                                       [QUANT_TO_ZERO] = "ROUND_TO_ZERO"};

const char *quant_word(enum quant_rounding how) {
  return published[how];
}

// 0 or 1, which the node must say.
static bool flag_of(struct kit *k, uint32_t node, const char *name, bool *out) {
  int64_t x;
  if (!kit_attr_int(k, node, name, -1, &x) || x < 0 || x > 1) return false;
  *out = x;
  return true;
}

const char *quant_said_of(struct kit *k, uint32_t node, struct quant_said *out) {
  struct span mode;
  if (!flag_of(k, node, "signed", &out->is_signed) || !flag_of(k, node, "narrow", &out->narrow) ||
      !kit_attr_string(k, node, "rounding_mode", "", &mode) || mode.n == 0)
    return "attributes";
  out->rounding = QUANT_ROUND;
  for (enum quant_rounding r = 0; r < QUANT_ROUNDINGS; r++)
    if (published[r] && span_is(mode, published[r])) out->rounding = r;
  return NULL;
}

enum dtype quant_dtype(struct kit *k, uint32_t node, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const enum dtype dtype = kit_dtype(k, kit_in(k, node, i));
    if (dtype != DTYPE_UNDEFINED) return dtype_is_plain_float(dtype) ? dtype : DTYPE_UNDEFINED;
  }
  return DTYPE_UNDEFINED;
}

bool quant_range(const struct quant_said *said, enum dtype dtype, double bits, double *least,
                 double *most) {
  const double exact = dtype == DTYPE_FLOAT16 ? 11 : dtype == DTYPE_BFLOAT16 ? 8 : 1000;
  const bool wide = dtype == DTYPE_DOUBLE;
  if (bits != floor(bits) || bits > exact || bits < -100) return false;
  if (!wide && dtype != DTYPE_FLOAT && exact == 1000) return false;
  const double p = ldexp(1, (int)bits - said->is_signed);
  const double narrower = said->narrow && !said->is_signed;
  if (wide) {
    *least = said->is_signed ? -p + said->narrow : 0;
    *most = p - 1 - narrower;
    return true;
  }
  const float f = (float)p, low = -f + (float)said->narrow, high = f - 1;
  *least = said->is_signed ? (double)low : 0;
  *most = (double)(float)(high - (float)narrower);
  return true;
}

uint32_t quant_bits(struct kit *k, enum dtype dtype, uint32_t bits) {
  return kit_dtype(k, bits) == dtype ? bits
                                     : kit_make(k, OP_Cast, KIT_IN(bits), KIT_INT("to", dtype));
}

uint32_t quant_clipped(struct kit *k, const struct quant_said *said, enum dtype dtype,
                       uint32_t bits, uint32_t x) {
  struct kit_number n;
  double least, most;
  if (kit_const_number(k, bits, &n) && quant_range(said, dtype, n.d, &least, &most))
    return kit_make(k, OP_Clip,
                    KIT_IN(x, kit_new_scalar(k, "least", dtype, least),
                           kit_new_scalar(k, "most", dtype, most)));
  const uint32_t one = kit_new_scalar(k, "one", dtype, 1), two = kit_new_scalar(k, "two", dtype, 2);
  uint32_t p = quant_bits(k, dtype, bits);
  if (said->is_signed) p = kit_make(k, OP_Sub, KIT_IN(p, one));
  p = kit_make(k, OP_Pow, KIT_IN(two, p));
  uint32_t high = kit_make(k, OP_Sub, KIT_IN(p, one)), low = NO_ID;
  if (said->narrow && !said->is_signed) high = kit_make(k, OP_Sub, KIT_IN(high, one));
  if (said->is_signed) low = kit_make(k, OP_Neg, KIT_IN(p));
  if (said->is_signed && said->narrow) low = kit_make(k, OP_Add, KIT_IN(low, one));
  if (low == NO_ID) low = kit_new_scalar(k, "least", dtype, 0);
  return kit_make(k, OP_Clip, KIT_IN(x, low, high));
}
