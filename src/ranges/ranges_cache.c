// The calibration cache of onnxruntime.quantization, in and out:
//
//   {"CLS": "TensorsData", "data": {"x": {"lowest": {"data": [-2.7], "dtype": "float32", "CLS": "numpy.array"},
//     "highest": …, "CLS": "TensorData"}, …},
//    "calibration_method": {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}, "smooth_quant": false}
//
// A number may be plain (it is float32 then, as its reader makes it), an array of none or one dimension, or an array
// without dims. What older versions wrote is read too: {"x": [-2.7, 3.1], …}. Histograms are passed over: ranges are
// what quantization takes.
//
// Masks of -inf have an infinite range there, which Python writes as a word: such values are left out, and
// known by name (unfit).
//
// A cache of a large model has millions of numbers, of which nearly all are passed over. So the text is cut
// into the members of "data" first, by looking at brackets and quotes alone, and each is parsed by itself.
#include "ranges/inside/ranges_in.h"
#include "ranges/range_method.h"

#include <math.h>

// ---- cutting -----------------------------------------------------------------------------------

static size_t skip_blanks(struct span t, size_t at) {
  while (at < t.n && memchr(" \t\r\n", t.at[at], 4))
    at++;
  return at;
}

// Behind the string that begins at `at`; t.n: it has no end.
static size_t skip_string(struct span t, size_t at) {
  for (at++; at < t.n && t.at[at] != '"'; at++)
    if (t.at[at] == '\\') at++;
  return at < t.n ? at + 1 : t.n;
}

// Behind the value that begins at `at`.
static size_t skip_value(struct span t, size_t at) {
  uint64_t depth = 0;
  for (; at < t.n; at++) {
    const uint8_t c = t.at[at];
    if (c == '"')
      at = skip_string(t, at) - 1;
    else if (c == '{' || c == '[')
      depth++;
    else if (depth > 0 && (c == '}' || c == ']'))
      depth--;
    else if (depth == 0 && (c == ',' || c == '}' || c == ']'))
      return at;
  }
  return t.n;
}

// An object's members, one after the other.
struct members {
  struct span t; // the object's text
  size_t at;     // where the next member begins
  bool ended, broken;
};

static struct members members_of(struct span object) {
  struct members m = {object, skip_blanks(object, 0), false, false};
  m.broken = m.at >= object.n || object.at[m.at] != '{';
  m.at = m.broken ? object.n : skip_blanks(object, m.at + 1);
  m.ended = m.at < object.n && object.at[m.at] == '}';
  m.at += m.ended;
  return m;
}

// The next member's name (in quotes, as it is written) and value.
static bool next_member(struct members *m, struct span *name, struct span *value) {
  if (m->ended || m->broken) return false;
  m->broken = true;
  if (m->at >= m->t.n || m->t.at[m->at] != '"') return false;
  size_t end = skip_string(m->t, m->at);
  *name = span_of(m->t.at + m->at, end - m->at);
  end = skip_blanks(m->t, end);
  if (end >= m->t.n || m->t.at[end] != ':') return false;
  const size_t from = skip_blanks(m->t, end + 1);
  end = skip_value(m->t, from);
  *value = span_of(m->t.at + from, end - from);
  if (end >= m->t.n || m->t.at[end] == ']') return false;
  m->ended = m->t.at[end] == '}';
  m->at = skip_blanks(m->t, end + 1);
  m->broken = false;
  return true;
}

// The line of a place that lies behind all that were asked for, for messages.
static void find_line(struct ranges_in *in, const uint8_t *at) {
  const uint8_t *text = (const uint8_t *)in->text;
  for (; text + in->counted < at; in->counted++)
    in->line += text[in->counted] == '\n';
}

static int not_whole(struct ranges_in *in, const struct members *m, struct err *err) {
  find_line(in, m->t.at + (m->at < m->t.n ? m->at : m->t.n));
  ranges_in_fill(in, err, "this is not a file of ranges: JSON was expected, and ends here");
  return err_hint(err,
                  "use RANGES of 'weir calibrate', a calibration cache of onnxruntime or a table "
                  "of TensorRT");
}

static struct json_value *parse_part(struct ranges_in *in, struct span part, struct err *err) {
  char what[256];
  find_line(in, part.at);
  snprintf(what, sizeof what, "%s:%s", in->path, decimal(in->line).s);
  return json_parse(part, what, err);
}

// ---- values ------------------------------------------------------------------------------------

// One number: plain, or {"data": …, "dtype": …} with one element.
static int read_number(const struct ranges_in *in, const struct json_value *v, const char *key,
                       struct span name, double *x, enum dtype *type, struct err *err) {
  struct span dtype;
  const struct json_value *data = v;
  *type = DTYPE_FLOAT;
  if (json_is_object(v)) {
    data = json_get(v, "data");
    if (!json_as_string(json_get(v, "dtype"), &dtype) ||
        !(span_is(dtype, "float32") || span_is(dtype, "float16")))
      return ranges_in_error(in, err, "'%s' of '%s' is not float32 or float16", key, quote(name).s);
    if (span_is(dtype, "float16")) *type = DTYPE_FLOAT16;
  }
  for (int depth = 0; depth < 8 && json_is_array(data); depth++) {
    if (json_count(data) != 1) {
      ranges_in_fill(in, err, "'%s' of '%s' has %zu numbers, not one", key, quote(name).s,
                     json_count(data));
      return err_hint(err, "ranges by channel are not supported: calibrate without per_channel");
    }
    data = json_first(data);
  }
  if (!json_as_double(data, x))
    return ranges_in_error(in, err, "'%s' of '%s' is missing or not a number", key, quote(name).s);
  *x = ranges_in_rounded(*x, *type);
  return 0;
}

// May the file have ranges that a method turned over? Not of minmax.
static bool may_turn(const struct ranges *r) {
  return r->method != RANGES_MINMAX && r->method != RANGES_ANY;
}

static int read_pair(const struct ranges_in *in, const struct ranges *r, struct ranges_value *v,
                     const struct json_value *of, struct err *err) {
  enum dtype most;
  const bool list = json_is_array(of);
  const struct json_value *first = list ? json_first(of) : json_get(of, "lowest");
  const struct json_value *second = list ? json_next(first) : json_get(of, "highest");
  if (list && json_count(of) != 2)
    return ranges_in_error(in, err, "'%s' has no pair of minimum and maximum", quote(v->name).s);
  if (read_number(in, first, "lowest", v->name, &v->least, &v->type, err) ||
      read_number(in, second, "highest", v->name, &v->most, &most, err))
    return -1;
  if (most != v->type)
    return ranges_in_error(in, err, "'lowest' and 'highest' of '%s' differ in type",
                           quote(v->name).s);
  if (may_turn(r) && isfinite(v->least) && isfinite(v->most)) ranges_in_settle(v);
  return ranges_in_range(in, v, err);
}

static int read_spread(const struct ranges_in *in, struct ranges_value *v,
                       const struct json_value *of, struct err *err) {
  enum dtype type;
  if (json_is_array(of) || (!json_get(of, "avg") && !json_get(of, "std"))) return 0;
  v->has_spread = true;
  if (read_number(in, json_get(of, "avg"), "avg", v->name, &v->mean, &type, err) ||
      read_number(in, json_get(of, "std"), "std", v->name, &v->deviation, &type, err))
    return -1;
  if (isfinite(v->mean) && isfinite(v->deviation) && v->deviation >= 0) return 0;
  return ranges_in_error(in, err, "'avg' and 'std' of '%s' are not a mean and a deviation",
                         quote(v->name).s);
}

// Is there an Infinity or NaN among its numbers, as Python writes them? JSON has none.
static bool is_unfit(struct span value) {
  for (size_t at = 0; at < value.n; at++) {
    if (value.at[at] == '"') {
      at = skip_string(value, at) - 1;
      continue;
    }
    const struct span rest = span_of(value.at + at, value.n - at);
    if (rest.n >= 8 && memcmp(rest.at, "Infinity", 8) == 0) return true;
    if (rest.n >= 3 && memcmp(rest.at, "NaN", 3) == 0) return true;
  }
  return false;
}

static int read_member(struct ranges_in *in, struct ranges *r, struct span name, struct span value,
                       struct err *err) {
  struct span text;
  struct json_value *key = parse_part(in, name, err);
  if (key && is_unfit(value) && json_as_string(key, &text)) {
    *TABLE_PUSH(r, unfit) = span_of(arena_string(&r->arena, text), text.n);
    json_free(key);
    return 0;
  }
  struct json_value *of = key ? parse_part(in, value, err) : NULL;
  int rc = -1;
  if (of && json_as_string(key, &text)) {
    struct ranges_value *v = ranges_in_value(in, r, text, err);
    if (v && !json_is_object(of) && !json_is_array(of))
      ranges_in_fill(in, err, "'%s' has no range", quote(text).s);
    else if (v)
      rc = read_pair(in, r, v, of, err) || read_spread(in, v, of, err) ? -1 : 0;
  }
  json_free(of);
  json_free(key);
  return rc;
}

static int read_members(struct ranges_in *in, struct ranges *r, struct span object,
                        struct err *err) {
  struct span name, value;
  struct members m = members_of(object);
  while (next_member(&m, &name, &value))
    if (read_member(in, r, name, value, err)) return -1;
  return m.broken ? not_whole(in, &m, err) : 0;
}

static const char *const method_names[] = {[RANGES_MINMAX] = "MinMax",
                                           [RANGES_PERCENTILE] = "Percentile",
                                           [RANGES_ENTROPY] = "Entropy",
                                           [RANGES_DISTRIBUTION] = "Distribution",
                                           [RANGES_ANY] = "MinMax"};

// ---- the whole ---------------------------------------------------------------------------------

static int read_method(struct ranges_in *in, struct ranges *r, struct span value, struct err *err) {
  static const char begins[] = "CalibrationMethod.";
  struct span word;
  struct json_value *v = parse_part(in, value, err);
  if (!v) return -1;
  if (json_as_string(json_get(v, "value"), &word)) {
    const size_t n = sizeof begins - 1;
    if (word.n > n && memcmp(word.at, begins, n) == 0) word = span_of(word.at + n, word.n - n);
    for (enum ranges_method k = RANGES_MINMAX; k < RANGES_ANY; k++)
      if (span_is(word, method_names[k])) r->method = k;
  }
  json_free(v);
  return r->method == RANGES_ANY ? ranges_in_error(in, err, "'calibration_method' is unknown") : 0;
}

int ranges_cache_read(struct ranges_in *in, struct ranges *r, struct err *err) {
  struct span name, value, data = {NULL, 0};
  if (ranges_in_whole(in, err)) return -1;
  const struct span all = span_of(in->text, in->n_text);
  struct members m = members_of(all);
  bool is_cache = false;
  r->form = RANGES_CACHE;
  while (next_member(&m, &name, &value)) {
    is_cache |= span_is(name, "\"CLS\"");
    if (span_is(name, "\"data\"")) data = value;
    if (span_is(name, "\"smooth_quant\"")) r->smoothed = span_is(value, "true");
    if (span_is(name, "\"calibration_method\"") && read_method(in, r, value, err)) return -1;
  }
  if (m.broken) return not_whole(in, &m, err);
  if (skip_blanks(all, m.at) < all.n)
    return ranges_in_error(in, err, "there is text after the cache");
  in->line = 1;
  in->counted = 0;
  if (!is_cache) return read_members(in, r, all, err);
  return data.n ? read_members(in, r, data, err)
                : ranges_in_error(in, err, "the cache has no 'data'");
}

// ---- writing -----------------------------------------------------------------------------------

// Its types: float16 and, for all others, float32.
static const char *numpy_type(enum dtype type) {
  return type == DTYPE_FLOAT16 ? "float16" : "float32";
}

static void begin_array(struct json_out *j, const char *key) {
  json_put_object(j, key);
  json_key(j, "data");
}

static void end_array(struct json_out *j, const char *type) {
  json_put_text(j, "dtype", type);
  json_put_text(j, "CLS", "numpy.array");
  json_end_object(j);
}

// Of minmax it has an array of one number, of the others a number's.
static void put_number(struct json_out *j, const char *key, double x, const struct ranges_value *v,
                       bool listed) {
  const double number = v->type == DTYPE_FLOAT16 ? x : (double)(float)x;
  begin_array(j, key);
  if (listed) json_array(j);
  json_double(j, number);
  if (listed) json_end_array(j);
  end_array(j, numpy_type(v->type));
}

static void put_histogram(struct json_out *j, const struct ranges_value *v, const char *edges_key) {
  const struct ranges_histogram *h = &v->histogram;
  struct arena room = {0};
  if (h->n_bins == 0) return;
  float *edges = arena_alloc(&room, (h->n_bins + (size_t)1) * sizeof *edges);
  range_method_edges(edges, h->n_bins, h->from, h->to, v->type);
  begin_array(j, "hist");
  json_array(j);
  for (uint32_t i = 0; i < h->n_bins; i++)
    json_uint(j, h->counts[i]);
  json_end_array(j);
  end_array(j, "int64");
  begin_array(j, edges_key);
  json_array(j);
  for (uint32_t i = 0; i <= h->n_bins; i++)
    json_double(j, (double)edges[i]);
  json_end_array(j);
  end_array(j, numpy_type(v->type));
  arena_free(&room);
}

static void put_member(struct json_out *j, const struct ranges *r, const struct ranges_value *v) {
  const bool spread = r->method == RANGES_DISTRIBUTION && v->has_spread;
  json_object(j);
  if (spread) {
    put_number(j, "avg", v->mean, v, false);
    put_number(j, "std", v->deviation, v, false);
    put_histogram(j, v, "hist_edges");
  }
  put_number(j, "lowest", v->least, v, r->method == RANGES_MINMAX);
  put_number(j, "highest", v->most, v, r->method == RANGES_MINMAX);
  if (!spread) put_histogram(j, v, "bins");
  json_put_text(j, "CLS", "TensorData");
  json_end_object(j);
}

static int hand_over(struct json_out *j, int (*sink)(void *ctx, struct span text), void *ctx) {
  const int rc = sink(ctx, span_of(j->text, j->n));
  j->n = 0;
  return rc;
}

int ranges_write_cache(const struct ranges *r, int (*sink)(void *ctx, struct span text),
                       void *ctx) {
  struct json_out j = {0};
  int rc = 0;
  json_object(&j);
  json_put_text(&j, "CLS", "TensorsData");
  json_put_object(&j, "data");
  for (uint32_t i = 0; i < r->n_values && rc == 0; i++) {
    json_key(&j, (const char *)r->values[i].name.at);
    put_member(&j, r, &r->values[i]);
    rc = hand_over(&j, sink, ctx);
  }
  json_end_object(&j);
  json_put_object(&j, "calibration_method");
  json_put_text(&j, "CLS", "CalibrationMethod");
  json_key(&j, "value");
  char value[40];
  snprintf(value, sizeof value, "CalibrationMethod.%s", method_names[r->method]);
  json_text(&j, value);
  json_end_object(&j);
  json_put_bool(&j, "smooth_quant", r->smoothed);
  json_end_object(&j);
  if (rc == 0) rc = hand_over(&j, sink, ctx);
  json_done(&j);
  return rc;
}
