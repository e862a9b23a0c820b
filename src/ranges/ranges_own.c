// RANGES, line by line. A member that this version does not know is passed over; one that is there is what
// it should be, or the file is refused with the line and the value.
#include "ranges/inside/ranges_in.h"

#include <math.h>
#include <stdlib.h>

// "-0x1.8p+1": what printf's %a writes of a finite number, and nothing else that strtod takes.
static bool is_hex_float(struct span s) {
  static const char digits[] = "0123456789abcdef";
  const char *at = (const char *)s.at, *end = at + s.n;
  at += at < end && *at == '-';
  if (end - at < 6 || at[0] != '0' || at[1] != 'x') return false;
  at += 2;
  if (!memchr(digits, *at, 16)) return false;
  at++;
  if (at < end && *at == '.') {
    const char *first = ++at;
    while (at < end && memchr(digits, *at, 16))
      at++;
    if (at == first) return false;
  }
  if (end - at < 3 || *at != 'p' || (at[1] != '+' && at[1] != '-')) return false;
  at += 2;
  if (end - at > 5) return false;
  while (at < end && memchr(digits, *at, 10))
    at++;
  return at == end;
}

// A member that is a real number. Without one *x stays, if it need not be there.
static int get_real(const struct ranges_in *in, const struct json_value *v, const char *key,
                    double *x, struct err *err) {
  struct span text;
  const struct json_value *member = json_get(v, key);
  if (!member) return ranges_in_error(in, err, "'%s' is missing", key);
  if (!json_as_string(member, &text) || text.n > 64 || !is_hex_float(text))
    return ranges_in_error(in, err, "'%s' is not a hex float in quotes, such as \"-0x1.8p+1\"",
                           key);
  *x = strtod((const char *)text.at, NULL);
  return isfinite(*x) ? 0 : ranges_in_error(in, err, "'%s' is past the range of a double", key);
}

static int get_count(const struct ranges_in *in, const struct json_value *v, const char *key,
                     uint64_t most, uint64_t *n, struct err *err) {
  if (json_as_uint(json_get(v, key), n) && *n <= most) return 0;
  return ranges_in_error(in, err, "'%s' is not a whole number up to %s", key, decimal(most).s);
}

static int get_text(const struct ranges_in *in, const struct json_value *v, const char *key,
                    struct arena *a, const char **text, struct err *err) {
  struct span s;
  if (!json_as_string(json_get(v, key), &s) || s.n > RANGES_NAME_BYTES || span_has_nul(s))
    return ranges_in_error(in, err, "'%s' is not a text", key);
  *text = arena_string(a, s);
  return 0;
}

static int get_digest(const struct ranges_in *in, const struct json_value *v, const char *key,
                      uint8_t sum[DIGEST_BYTES], struct err *err) {
  struct span s;
  if (json_as_string(json_get(v, key), &s) && hex_decode(s, sum, DIGEST_BYTES)) return 0;
  return ranges_in_error(in, err, "'%s' is not a SHA-256 of 64 hex digits", key);
}

static int get_flag(const struct ranges_in *in, const struct json_value *v, const char *key,
                    bool *flag, struct err *err) {
  const struct json_value *member = json_get(v, key);
  if (!member || json_as_bool(member, flag)) return 0;
  return ranges_in_error(in, err, "'%s' is not true or false", key);
}

// ---- the head ----------------------------------------------------------------------------------

static int read_format(const struct ranges_in *in, const struct json_value *v, struct err *err) {
  uint64_t format;
  if (json_as_uint(json_get(v, "weir_ranges"), &format) && format == RANGES_FORMAT) return 0;
  ranges_in_fill(in, err, "this version of weir reads ranges of format %d only", RANGES_FORMAT);
  return err_hint(err,
                  "run 'weir calibrate' with this version, or use the one that wrote the file");
}

static int read_method(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                       struct err *err) {
  struct span name;
  if (!json_as_string(json_get(v, "method"), &name) ||
      ((r->method = ranges_method_by_name(name)) == RANGES_ANY && name.n > 0))
    return ranges_in_error(in, err,
                           "'method' is not one of minmax, percentile, entropy, distribution");
  if (r->method != RANGES_PERCENTILE) return 0;
  if (json_as_double(json_get(v, "percentile"), &r->percentile) && r->percentile >= 0 &&
      r->percentile <= 100)
    return 0;
  return ranges_in_error(in, err, "'percentile' is not a number from 0 to 100");
}

static int read_data(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                     struct err *err) {
  const struct json_value *data = json_get(v, "data");
  if (!data) return 0;
  if (get_count(in, data, "bytes", INT64_MAX, &r->data_bytes, err)) return -1;
  return get_digest(in, data, "sha256", r->data_sha256, err);
}

static int read_options(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                        struct err *err) {
  const struct json_value *options = json_get(v, "options");
  if (!options) return 0;
  if (!json_is_object(options)) return ranges_in_error(in, err, "'options' is not an object");
  r->options = json_value_text(options, &r->arena);
  return 0;
}

static int read_head_of(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                        struct err *err) {
  uint64_t bins = 0;
  const struct json_value *source = json_get(v, "source"), *samples = json_get(v, "samples");
  if (read_format(in, v, err) || get_text(in, v, "weir", &r->arena, &r->weir, err) ||
      get_text(in, source, "name", &r->arena, &r->source, err) ||
      get_text(in, v, "runtime", &r->arena, &r->runtime, err))
    return -1;
  r->has_model = json_get(source, "meta_sha256") != NULL;
  if (r->has_model && get_digest(in, source, "meta_sha256", r->meta_sha256, err)) return -1;
  if (!json_is_array(json_get(v, "passes")))
    return ranges_in_error(in, err, "'passes' is not a list");
  r->passes = json_value_text(json_get(v, "passes"), &r->arena);
  if (read_method(in, v, r, err)) return -1;
  if (json_get(v, "bins") && get_count(in, v, "bins", RANGES_MOST_BINS, &bins, err)) return -1;
  r->bins = (uint32_t)bins;
  if (get_flag(in, v, "symmetric", &r->symmetric, err) ||
      get_flag(in, v, "moving_average", &r->moving_average, err) ||
      get_flag(in, v, "cube_roots", &r->cube_roots, err) ||
      get_flag(in, v, "smoothed", &r->smoothed, err))
    return -1;
  if (read_options(in, v, r, err)) return -1;
  if (get_count(in, samples, "n", INT64_MAX, &r->samples, err) ||
      get_digest(in, samples, "sha256", r->samples_sha256, err))
    return -1;
  return read_data(in, v, r, err);
}

// ---- values ------------------------------------------------------------------------------------

static int read_histogram(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                          struct ranges_value *out, struct err *err) {
  struct ranges_histogram *h = &out->histogram;
  const struct json_value *counts = json_get(v, "counts"), *c = json_first(counts);
  const size_t n = json_count(counts);
  uint64_t sum = 0;
  if (get_flag(in, v, "magnitudes", &h->magnitudes, err) ||
      get_real(in, v, "from", &h->from, err) || get_real(in, v, "to", &h->to, err))
    return -1;
  if (h->from > h->to || !ranges_in_exact(h->from, out->type) || !ranges_in_exact(h->to, out->type))
    return ranges_in_error(in, err, "the histogram's ends (%.9g, %.9g) are not a range of its type",
                           h->from, h->to);
  if (!json_is_array(counts) || n == 0 || n > RANGES_MOST_BINS)
    return ranges_in_error(in, err, "'counts' is not a list of 1 to %d whole numbers",
                           RANGES_MOST_BINS);
  uint64_t *list = arena_alloc(&r->arena, n * sizeof *list);
  for (size_t i = 0; i < n; i++, c = json_next(c))
    if (!json_as_uint(c, &list[i]) || add_overflows(sum, list[i], &sum))
      return ranges_in_error(in, err, "'counts' has an element that is not a count");
  if (sum > out->elements)
    return ranges_in_error(in, err, "the histogram counts %s elements, of %s", decimal(sum).s,
                           decimal(out->elements).s);
  h->counts = list;
  h->n_bins = (uint32_t)n;
  return 0;
}

// Bits of n finite floats. NULL in *out where they are not there.
static int read_floats(const struct ranges_in *in, const struct json_value *v, const char *key,
                       uint32_t n, struct arena *a, const float **out, struct err *err) {
  struct span text;
  const struct json_value *member = json_get(v, key);
  if (!member) return 0;
  uint8_t *bytes = arena_alloc(a, 4 * (size_t)n);
  float *list = arena_alloc(a, n * sizeof *list);
  if (!json_as_string(member, &text) || !hex_decode(text, bytes, 4 * (size_t)n))
    return ranges_in_error(in, err, "'%s' is not the bits of %u floats, 8 hex digits each", key, n);
  for (uint32_t i = 0; i < n; i++) {
    const uint8_t *b = bytes + 4 * (size_t)i;
    const uint32_t bits =
        (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | (uint32_t)b[3];
    memcpy(&list[i], &bits, sizeof bits);
    if (!isfinite(list[i]))
      return ranges_in_error(in, err, "'%s' has an element that is not finite (channel %u)", key,
                             i);
  }
  *out = list;
  return 0;
}

static int read_channels(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                         struct ranges_value *out, struct err *err) {
  uint64_t n;
  int64_t axis;
  if (get_count(in, v, "n", RANGES_MOST_CHANNELS, &n, err)) return -1;
  if (!json_as_int(json_get(v, "axis"), &axis) || axis < -64 || axis > 64 || n == 0)
    return ranges_in_error(in, err, "'channels' has no axis, or no channel along it");
  out->axis = (int32_t)axis;
  out->n_channels = (uint32_t)n;
  if (read_floats(in, v, "min", out->n_channels, &r->arena, &out->channel_least, err) ||
      read_floats(in, v, "max", out->n_channels, &r->arena, &out->channel_most, err) ||
      read_floats(in, v, "mean_abs", out->n_channels, &r->arena, &out->channel_mean, err))
    return -1;
  if (!out->channel_least != !out->channel_most || (!out->channel_least && !out->channel_mean))
    return ranges_in_error(in, err, "'channels' needs min and max, or mean_abs, or all three");
  for (uint32_t i = 0; i < out->n_channels; i++) {
    if (out->channel_least && out->channel_least[i] > out->channel_most[i])
      return ranges_in_error(in, err, "the minimum of channel %u is above its maximum", i);
    if (out->channel_mean && out->channel_mean[i] < 0)
      return ranges_in_error(in, err, "the mean magnitude of channel %u is below 0", i);
  }
  return 0;
}

static int read_gram(const struct ranges_in *in, const struct json_value *v, const struct ranges *r,
                     struct ranges_value *out, struct err *err) {
  uint64_t k;
  if (get_count(in, v, "k", RANGES_MOST_CHANNELS, &k, err) ||
      get_count(in, v, "rows", INT64_MAX, &out->gram_rows, err) ||
      get_count(in, v, "at", INT64_MAX, &out->gram_at, err) ||
      get_count(in, v, "bytes", INT64_MAX, &out->gram_bytes, err) ||
      get_digest(in, v, "sha256", out->gram_sha256, err))
    return -1;
  out->gram_k = (uint32_t)k;
  if (k == 0 || out->gram_bytes != ranges_gram_bytes(out->gram_k) || out->gram_at % 8 != 0 ||
      !range_fits(out->gram_at, out->gram_bytes, r->data_bytes))
    return ranges_in_error(in, err,
                           "the Gram matrix of %s columns (%s bytes at %s) is outside the "
                           "data file of %s bytes",
                           decimal(k).s, decimal(out->gram_bytes).s, decimal(out->gram_at).s,
                           decimal(r->data_bytes).s);
  return 0;
}

static int read_type(const struct ranges_in *in, const struct json_value *v, enum dtype *type,
                     struct err *err) {
  struct span name;
  const struct json_value *member = json_get(v, "type");
  *type = DTYPE_UNDEFINED;
  if (json_is_null(member)) return 0;
  if (json_as_string(member, &name) && dtype_is_plain_float(*type = dtype_by_name(name))) return 0;
  return ranges_in_error(in, err, "'type' is not one of float, float16, bfloat16, double");
}

static int read_value(const struct ranges_in *in, const struct json_value *v, struct ranges *r,
                      struct err *err) {
  struct span name;
  const struct json_value *part;
  if (!json_as_string(json_get(v, "value"), &name))
    return ranges_in_error(in, err, "the line does not name a value");
  struct ranges_value *out = ranges_in_value(in, r, name, err);
  if (!out || read_type(in, v, &out->type, err) || get_real(in, v, "min", &out->least, err) ||
      get_real(in, v, "max", &out->most, err) || ranges_in_range(in, out, err) ||
      get_count(in, v, "elements", INT64_MAX, &out->elements, err))
    return -1;
  if (json_get(v, "nans") && get_count(in, v, "nans", out->elements, &out->nans, err)) return -1;
  if (json_get(v, "mean")) {
    out->has_spread = true;
    if (get_real(in, v, "mean", &out->mean, err) ||
        get_real(in, v, "deviation", &out->deviation, err))
      return -1;
    if (out->deviation < 0) return ranges_in_error(in, err, "'deviation' is below 0");
  }
  if ((part = json_get(v, "histogram")) && read_histogram(in, part, r, out, err)) return -1;
  if ((part = json_get(v, "channels")) && read_channels(in, part, r, out, err)) return -1;
  if ((part = json_get(v, "gram")) && read_gram(in, part, r, out, err)) return -1;
  return 0;
}

// ---- lines -------------------------------------------------------------------------------------

static int read_end(struct ranges_in *in, const struct json_value *v, const struct ranges *r,
                    const uint8_t sum[DIGEST_BYTES], struct err *err) {
  uint64_t n;
  uint8_t wanted[DIGEST_BYTES];
  bool ended;
  if (get_count(in, v, "end", UINT32_MAX, &n, err) || get_digest(in, v, "sha256", wanted, err))
    return -1;
  if (n != r->n_values || memcmp(sum, wanted, sizeof wanted) != 0)
    return ranges_in_error(in, err, "the lines before it changed since they were written");
  if (ranges_in_line(in, &ended, err)) return -1;
  return ended ? 0 : ranges_in_error(in, err, "there are lines after the last one");
}

// A line of the middle or the last one, which *last says.
static int read_line(struct ranges_in *in, struct ranges *r, const uint8_t sum[DIGEST_BYTES],
                     bool *last, struct err *err) {
  char what[256];
  snprintf(what, sizeof what, "%s:%s", in->path, decimal(in->line).s);
  struct json_value *v = json_parse(span_of(in->text, in->n_text), what, err);
  if (!v) return -1;
  *last = in->line > 1 && json_get(v, "end") != NULL;
  const int rc = !json_is_object(v) ? ranges_in_error(in, err, "the line is not a JSON object")
                 : in->line == 1    ? read_head_of(in, v, r, err)
                 : *last            ? read_end(in, v, r, sum, err)
                                    : read_value(in, v, r, err);
  json_free(v);
  return rc;
}

int ranges_own_read(struct ranges_in *in, struct ranges *r, struct err *err) {
  uint8_t sum[DIGEST_BYTES] = {0};
  bool ended, last = false;
  r->form = RANGES_OWN;
  while (!last) {
    digest_so_far(in->digest, sum);
    if (ranges_in_line(in, &ended, err)) return -1;
    if (ended) {
      ranges_in_fill(in, err, "the file is incomplete: its last line is missing");
      return err_hint(err, "it was cut off by a copy, or 'weir calibrate' did not finish");
    }
    if (read_line(in, r, sum, &last, err)) return -1;
  }
  return 0;
}
