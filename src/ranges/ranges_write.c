// RANGES as it is written: one order of members, one form of every number, and nothing that is not known. The last line
// says how many values there are and the digest of all lines before it, as an edit log's does: a file that was cut is
// known by it.
#include "ranges/ranges.h"

#include "json/json.h"

struct writing {
  struct json_out j;
  struct digest *digest;
  int (*sink)(void *ctx, struct span text);
  void *ctx;
};

static void put_real(struct json_out *j, const char *key, double x) {
  char text[40];
  snprintf(text, sizeof text, "%a", x);
  json_put_text(j, key, text);
}

static void put_floats(struct json_out *j, const char *key, const float *x, uint32_t n) {
  static const char digits[] = "0123456789abcdef";
  struct arena room = {0};
  if (!x) return;
  char *text = arena_alloc(&room, 8 * (size_t)n + 1), *at = text;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, &x[i], sizeof bits);
    for (int shift = 28; shift >= 0; shift -= 4)
      *at++ = digits[bits >> shift & 15];
  }
  *at = '\0';
  json_put_text(j, key, text);
  arena_free(&room);
}

static void put_histogram(struct json_out *j, const struct ranges_histogram *h) {
  if (h->n_bins == 0) return;
  json_put_object(j, "histogram");
  if (h->magnitudes) json_put_bool(j, "magnitudes", true);
  put_real(j, "from", h->from);
  put_real(j, "to", h->to);
  json_put_array(j, "counts");
  for (uint32_t i = 0; i < h->n_bins; i++)
    json_uint(j, h->counts[i]);
  json_end_array(j);
  json_end_object(j);
}

static void put_channels(struct json_out *j, const struct ranges_value *v) {
  if (v->n_channels == 0) return;
  json_put_object(j, "channels");
  json_put_int(j, "axis", v->axis);
  json_put_uint(j, "n", v->n_channels);
  put_floats(j, "min", v->channel_least, v->n_channels);
  put_floats(j, "max", v->channel_most, v->n_channels);
  put_floats(j, "mean_abs", v->channel_mean, v->n_channels);
  json_end_object(j);
}

static void put_gram(struct json_out *j, const struct ranges_value *v) {
  if (v->gram_k == 0) return;
  json_put_object(j, "gram");
  json_put_uint(j, "k", v->gram_k);
  json_put_uint(j, "rows", v->gram_rows);
  json_put_uint(j, "at", v->gram_at);
  json_put_uint(j, "bytes", v->gram_bytes);
  json_put_hex(j, "sha256", v->gram_sha256, DIGEST_BYTES);
  json_end_object(j);
}

static void put_value(struct json_out *j, const struct ranges_value *v) {
  json_object(j);
  json_put_string(j, "value", v->name);
  json_put_text(j, "type", v->type == DTYPE_UNDEFINED ? NULL : dtype_name(v->type));
  put_real(j, "min", v->least);
  put_real(j, "max", v->most);
  json_put_uint(j, "elements", v->elements);
  if (v->nans) json_put_uint(j, "nans", v->nans);
  if (v->has_spread) {
    put_real(j, "mean", v->mean);
    put_real(j, "deviation", v->deviation);
  }
  put_histogram(j, &v->histogram);
  put_channels(j, v);
  put_gram(j, v);
  json_end_object(j);
}

static void put_about(struct json_out *j, const struct ranges *r) {
  json_put_text(j, "weir", r->weir);
  json_put_object(j, "source");
  json_put_text(j, "name", r->source);
  if (r->has_model) json_put_hex(j, "meta_sha256", r->meta_sha256, DIGEST_BYTES);
  json_end_object(j);
  json_put_raw(j, "passes", span_str(r->passes));
  json_put_text(j, "runtime", r->runtime);
  json_put_text(j, "method", ranges_method_name(r->method));
  if (r->method == RANGES_PERCENTILE) json_put_double(j, "percentile", r->percentile);
  if (r->bins) json_put_uint(j, "bins", r->bins);
  if (r->symmetric) json_put_bool(j, "symmetric", true);
  if (r->cube_roots) json_put_bool(j, "cube_roots", true);
  if (r->moving_average) json_put_bool(j, "moving_average", true);
  if (r->options) json_put_raw(j, "options", span_str(r->options));
  if (r->smoothed) json_put_bool(j, "smoothed", true);
  json_put_object(j, "samples");
  json_put_uint(j, "n", r->samples);
  json_put_hex(j, "sha256", r->samples_sha256, DIGEST_BYTES);
  json_end_object(j);
  if (r->data_bytes) {
    json_put_object(j, "data");
    json_put_uint(j, "bytes", r->data_bytes);
    json_put_hex(j, "sha256", r->data_sha256, DIGEST_BYTES);
    json_end_object(j);
  }
}

const char *ranges_about(const struct ranges *r, struct arena *a) {
  struct json_out j = {0};
  json_object(&j);
  put_about(&j, r);
  json_end_object(&j);
  return json_take(&j, a);
}

static void put_head(struct json_out *j, const struct ranges *r) {
  json_object(j);
  json_put_uint(j, "weir_ranges", RANGES_FORMAT);
  put_about(j, r);
  json_end_object(j);
}

static int end_line(struct writing *w) {
  json_newline(&w->j);
  digest_add(w->digest, w->j.text, w->j.n);
  const int rc = w->sink(w->ctx, span_of(w->j.text, w->j.n));
  w->j.n = 0;
  return rc;
}

static int write_end(struct writing *w, uint32_t n) {
  uint8_t sum[DIGEST_BYTES];
  digest_so_far(w->digest, sum);
  json_object(&w->j);
  json_put_uint(&w->j, "end", n);
  json_put_hex(&w->j, "sha256", sum, DIGEST_BYTES);
  json_end_object(&w->j);
  return end_line(w);
}

int ranges_write(const struct ranges *r, int (*sink)(void *ctx, struct span text), void *ctx) {
  struct writing w = {.digest = digest_new(), .sink = sink, .ctx = ctx};
  put_head(&w.j, r);
  int rc = end_line(&w);
  for (uint32_t i = 0; rc == 0 && i < r->n_values; i++) {
    put_value(&w.j, &r->values[i]);
    rc = end_line(&w);
  }
  if (rc == 0) rc = write_end(&w, r->n_values);
  json_done(&w.j);
  digest_free(w.digest);
  return rc;
}
