// From words to options: PATTERN=bits4:g64:sym becomes an override and 4:64:sym a candidate (matmulnbits.h), and
// options that do not go together are refused. nbits_passes.c has the rows of the options.
#include "passes/nbits/matmulnbits.h"

// ---- PATTERN=bits4:g64:sym ---------------------------------------------------------------------

static bool is_number(struct span word, size_t skip, uint32_t *out) {
  uint32_t x = 0;
  if (word.n <= skip || word.n > skip + 4) return false;
  for (size_t i = skip; i < word.n; i++) {
    if (word.at[i] < '0' || word.at[i] > '9') return false;
    x = x * 10 + (word.at[i] - '0');
  }
  *out = x;
  return true;
}

static bool is_bits(uint32_t x) {
  return x == 2 || x == 4 || x == 8;
}

static bool is_block(uint32_t x) {
  return x == 16 || x == 32 || x == 64 || x == 128 || x == 256;
}

static bool starts(struct span word, const char *with) {
  size_t n = strlen(with);
  return word.n >= n && memcmp(word.at, with, n) == 0;
}

static bool read_bits(struct span word, uint32_t *out) {
  return starts(word, "bits") && is_number(word, 4, out) && is_bits(*out);
}

static bool read_block(struct span word, uint32_t *out) {
  *out = 0;
  if (span_is(word, "channel")) return true;
  return starts(word, "g") && is_number(word, 1, out) && is_block(*out);
}

// One of the words between colons; false: unknown, or said twice.
static bool override_word(struct span word, struct matmulnbits_override *out) {
  uint32_t x = 0;
  bool *said;
  if (read_bits(word, &x)) {
    out->scheme.bits = x;
    said = &out->has_bits;
  } else if (read_block(word, &x)) {
    out->scheme.block = x;
    said = &out->has_block;
  } else if (span_is(word, "sym") || span_is(word, "asym")) {
    out->scheme.symmetric = word.n == 3;
    said = &out->has_symmetric;
  } else {
    return false;
  }
  bool twice = *said;
  *said = true;
  return !twice;
}

static int bad_override(const char *text, const char *what, struct span word, struct err *err) {
  err_set(err, ERR_USAGE, "--tensor '%s': %s '%s'", quote_str(text).s, what, quote(word).s);
  return err_hint(
      err, "write PATTERN=bits4:g64:sym: bits2, bits4 or bits8; g16, g32, g64, g128, g256 or "
           "channel; sym or asym; each at most once");
}

int matmulnbits_override_parse(const char *text, struct matmulnbits_override *out, struct arena *a,
                               struct err *err) {
  *out = (struct matmulnbits_override){0};
  const char *equals = strrchr(text, '=');
  if (equals == NULL) return bad_override(text, "no '=' after the pattern in", span_str(text), err);
  for (const char *at = equals; *at;) {
    const char *from = at + 1;
    at = from + strcspn(from, ":");
    struct span word = span_of(from, (size_t)(at - from));
    if (!override_word(word, out))
      return bad_override(text, "not valid here, or given twice:", word, err);
  }
  const char *pattern = arena_string(a, span_of(text, (size_t)(equals - text)));
  return name_pattern_compile(&out->pattern, pattern, "--tensor", err);
}

// ---- candidates --------------------------------------------------------------------------------

static const char *const algorithms[] = {
    [MATMULNBITS_DEFAULT] = "default", [MATMULNBITS_RTN] = "rtn",
    [MATMULNBITS_K_QUANT] = "k_quant", [MATMULNBITS_K_QUANT_BEST] = "k_quant_best",
    [MATMULNBITS_HQQ] = "hqq",         [MATMULNBITS_GPTQ] = "gptq",
    [MATMULNBITS_AWQ] = "awq"};

const char *matmulnbits_algorithm_name(enum matmulnbits_algorithm algorithm) {
  return algorithms[algorithm];
}

static bool algorithm_word(struct span word, enum matmulnbits_algorithm *out) {
  // Candidates are measured by their weights alone, which says nothing of those behind hqq.
  for (size_t i = 0; i <= MATMULNBITS_HQQ; i++) {
    if (!span_is(word, algorithms[i])) continue;
    *out = (enum matmulnbits_algorithm)i;
    return true;
  }
  return false;
}

struct candidate {
  struct matmulnbits_scheme scheme;
  bool has_symmetric, has_algorithm;
};

// Word k of one; false: unknown, or said twice.
static bool candidate_word(struct span word, unsigned k, struct candidate *c) {
  struct matmulnbits_scheme *s = &c->scheme;
  if (k == 0) return is_number(word, 0, &s->bits) && is_bits(s->bits);
  if (k == 1 && span_is(word, "channel")) return true;
  if (k == 1) return is_number(word, 0, &s->block) && is_block(s->block);
  bool *said = &c->has_algorithm;
  if (span_is(word, "sym") || span_is(word, "asym")) {
    s->symmetric = word.n == 3;
    said = &c->has_symmetric;
  } else if (!algorithm_word(word, &s->algorithm)) {
    return false;
  }
  const bool twice = *said;
  *said = true;
  return !twice;
}

int matmulnbits_candidate_parse(struct span text, struct matmulnbits_scheme *out, struct err *err) {
  struct candidate c = {.scheme = {.algorithm = out->algorithm}};
  unsigned k = 0;
  bool good = true;
  for (size_t at = 0, end; good && at <= text.n; at = end + 1, k++) {
    for (end = at; end < text.n && text.at[end] != ':';)
      end++;
    good = candidate_word(span_of(text.at + at, end - at), k, &c);
  }
  if (!c.has_algorithm && c.scheme.bits == 8 && c.scheme.algorithm == MATMULNBITS_HQQ)
    c.scheme.algorithm = MATMULNBITS_DEFAULT;
  *out = c.scheme;
  if (good && k >= 2) return 0;
  err_set(err, ERR_USAGE, "--candidates: '%s' is not a scheme (bits:block)", quote(text).s);
  return err_hint(err, "write bits:block, such as 4:64, 8:128:sym or 4:32:rtn: 2, 4 or 8 bits; "
                       "blocks of 16, 32, 64, 128, 256 or channel; sym for no zero points; "
                       "default, rtn, k_quant, k_quant_best or hqq for the algorithm");
}

const char *matmulnbits_scheme_text(const struct matmulnbits_scheme *s, struct arena *a) {
  const char *symmetric = s->symmetric ? ":sym" : "";
  const bool named = s->algorithm != MATMULNBITS_DEFAULT;
  const char *colon = named ? ":" : "", *algorithm = named ? algorithms[s->algorithm] : "";
  return s->block ? arena_printf(a, "%u:%u%s%s%s", s->bits, s->block, symmetric, colon, algorithm)
                  : arena_printf(a, "%u:channel%s%s%s", s->bits, symmetric, colon, algorithm);
}

bool matmulnbits_scheme_same(const struct matmulnbits_scheme *a,
                             const struct matmulnbits_scheme *b) {
  return a->bits == b->bits && a->block == b->block && a->symmetric == b->symmetric &&
         a->algorithm == b->algorithm;
}

// ---- options that do not go together -----------------------------------------------------------

static int check_qoperator(const struct matmulnbits_options *o, struct err *err) {
  bool channel = o->scheme.block == 0;
  for (uint32_t i = 0; i < o->n_overrides; i++)
    channel |= o->overrides[i].has_block && o->overrides[i].scheme.block == 0;
  for (uint32_t i = 0; i < o->n_candidates; i++)
    channel |= o->candidates[i].block == 0;
  if (!channel) return 0;
  err_set(err, ERR_USAGE, "--block-size channel needs --format qdq");
  return err_hint(err, "MatMulNBits (--format qoperator) supports blocks of 16 to 256 elements");
}

// Is there an algorithm but the default, of all that weights may get?
static bool has_algorithm(const struct matmulnbits_options *o) {
  bool other = o->scheme.algorithm != MATMULNBITS_DEFAULT;
  for (uint32_t i = 0; i < o->n_candidates; i++)
    other |= o->candidates[i].algorithm != MATMULNBITS_DEFAULT;
  return other;
}

static int check_qdq(const struct matmulnbits_options *o, struct err *err) {
  if (has_algorithm(o)) {
    err_set(err, ERR_USAGE, "--format qdq supports the default algorithm only");
    return err_hint(err, "the others need --format qoperator");
  }
  if (o->accuracy_level == 0) return 0;
  err_set(err, ERR_USAGE, "--accuracy-level needs --format qoperator");
  return err_hint(err,
                  "accuracy_level is an attribute of MatMulNBits, which --format qdq does not use");
}

static int check_hqq(const struct matmulnbits_options *o, struct err *err) {
  const bool hqq = o->scheme.algorithm == MATMULNBITS_HQQ;
  bool symmetric = hqq && o->scheme.symmetric, bytes = hqq && o->scheme.bits == 8;
  for (uint32_t i = 0; hqq && i < o->n_overrides; i++) {
    symmetric |= o->overrides[i].has_symmetric && o->overrides[i].scheme.symmetric;
    bytes |= o->overrides[i].has_bits && o->overrides[i].scheme.bits == 8;
  }
  for (uint32_t i = 0; i < o->n_candidates; i++) {
    const struct matmulnbits_scheme *s = &o->candidates[i];
    symmetric |= s->algorithm == MATMULNBITS_HQQ && s->symmetric;
    bytes |= s->algorithm == MATMULNBITS_HQQ && s->bits == 8;
  }
  if (symmetric) {
    err_set(err, ERR_USAGE, "hqq does not support symmetric quantization");
    return err_hint(err, "leave out --symmetric (and sym in --tensor and --candidates)");
  }
  if (!bytes) return 0;
  err_set(err, ERR_USAGE, "hqq supports 2 and 4 bits only");
  return err_hint(err,
                  "its zero points are floats, which ONNX Runtime supports for 2 and 4 bits only");
}

// What looks at statistics is measured by the output, not by the weights.
static int check_gram(const struct matmulnbits_options *o, struct err *err) {
  const char *name = matmulnbits_algorithm_name(o->scheme.algorithm);
  const bool takes = o->scheme.algorithm >= MATMULNBITS_GPTQ;
  if (!takes) return 0;
  if (!o->ranges) {
    err_set(err, ERR_USAGE, "--algorithm %s needs --ranges", name);
    return err_hint(err, "'weir calibrate IN -o RANGES --statistics gram' writes such a file");
  }
  if (o->budget == 0 && o->n_gates == 0) return 0;
  err_set(err, ERR_USAGE, "--%s cannot be combined with --algorithm %s",
          o->budget > 0 ? "budget" : "gate", name);
  return err_hint(err,
                  "it measures the error of plain rounding, but %s rounds in another way; to "
                  "measure the error of the output, use --ranges and another algorithm",
                  name);
}

static int check_algorithm(const struct matmulnbits_options *o, struct err *err) {
  if (check_gram(o, err)) return -1;
  if (has_algorithm(o) && o->op_types & MATMULNBITS_GATHER) {
    err_set(err, ERR_USAGE, "algorithms other than the default support MatMul and Gemm only");
    return err_hint(err, "omit Gather from --op-types, or use the default algorithm");
  }
  return check_hqq(o, err);
}

int matmulnbits_options_check(const struct matmulnbits_options *o, struct err *err) {
  if (o->op_types == 0) {
    err_set(err, ERR_USAGE, "no operator types to quantize");
    return err_hint(err, "--op-types accepts MatMul, Gemm and Gather");
  }
  if (o->accuracy_level > 4)
    return err_set(err, ERR_USAGE, "accuracy level must be 0 to 4, not %u", o->accuracy_level);
  if (o->qdq ? check_qdq(o, err) : check_qoperator(o, err)) return -1;
  if (o->budget > 0 && o->n_candidates == 0)
    return err_set(err, ERR_USAGE, "a budget needs candidates to pick from");
  return check_algorithm(o, err);
}
