// Files of ranges: what is written is read back, bit for bit; everything else that one could hold is refused, with its line.
// And onnxruntime's golden vectors of the methods.
#include "ranges/inside/range_numpy.h"
#include "ranges/inside/ranges_in.h"
#include "ranges/range_method.h"
#include "taken_text.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

// ---- the form ----------------------------------------------------------------------------------

static struct ranges_value *add(struct ranges *r, const char *name, enum dtype type, double least,
                                double most) {
  struct ranges_value *v = ranges_add(r, span_str(name));
  assert_non_null(v);
  v->type = type;
  v->least = least;
  v->most = most;
  v->elements = 100;
  return v;
}

static const uint64_t counts[] = {3, 0, 7, 90};
static const float least[] = {-1.5f, 0x1p-149f}, most[] = {2.25f, 3.0f}, means[] = {0.5f, 0.0f};

// One of everything.
static void fill(struct ranges *r) {
  ranges_init(r);
  r->weir = "9.9";
  r->source = "x.onnx";
  r->has_model = true;
  memset(r->meta_sha256, 0xab, DIGEST_BYTES);
  r->passes = "[{\"name\":\"conv2matmul\",\"options\":{}}]";
  r->runtime = "1.31.1";
  r->method = RANGES_PERCENTILE;
  r->percentile = 99.999;
  r->bins = 4;
  r->symmetric = true;
  r->samples = 8;
  memset(r->samples_sha256, 0x5c, DIGEST_BYTES);
  r->data_bytes = ranges_gram_bytes(600);
  struct ranges_value *v = add(r, "a b\"\n\xff", DTYPE_FLOAT, -0x1.8p+1, (double)0x1.fffffep127f);
  v->nans = 7;
  v->histogram = (struct ranges_histogram){4, true, 0, 3, counts};
  v = add(r, "half", DTYPE_FLOAT16, -0x1p-24, 65504);
  v->has_spread = true;
  v->mean = -0.0;
  v->deviation = 0x1p-10;
  v->axis = -1;
  v->n_channels = 2;
  v->channel_least = least;
  v->channel_most = most;
  v->channel_mean = means;
  v = add(r, "double", DTYPE_DOUBLE, 0.1, 0.1);
  v->gram_k = 600;
  v->gram_rows = 12;
  v->gram_bytes = ranges_gram_bytes(600);
  v = add(r, "brain", DTYPE_BFLOAT16, -0x1p-133, 0x1.fep127);
  v->n_channels = 2;
  v->channel_mean = means;
  add(r, "table", DTYPE_UNDEFINED, 0, 0);
}

static struct taken_text written(const struct ranges *r) {
  struct taken_text t = {0};
  assert_int_equal(ranges_write(r, taken_text_put, &t), 0);
  return t;
}

static void test_there_and_back(void **state) {
  (void)state;
  struct ranges r, back;
  struct err err = {0};
  fill(&r);
  struct taken_text t = written(&r);
  ranges_init(&back);
  if (ranges_parse(&back, span_of(t.at, t.n_at), "r.jsonl", &err)) fail_msg("%s", err.msg);
  struct taken_text again = written(&back);
  assert_int_equal(again.n_at, t.n_at);
  assert_memory_equal(again.at, t.at, t.n_at);
  uint8_t sum[DIGEST_BYTES];
  digest_of(t.at, t.n_at, sum);
  assert_memory_equal(back.sha256, sum, sizeof sum);
  assert_int_equal(back.n_values, r.n_values);
  const struct ranges_value *v = ranges_find(&back, span_str("half"));
  assert_non_null(v);
  assert_true(v->least == -0x1p-24 && v->most == 65504 && signbit(v->mean) && v->has_spread);
  assert_memory_equal(v->channel_least, least, sizeof least);
  assert_memory_equal(v->channel_mean, means, sizeof means);
  assert_int_equal(v->axis, -1);
  v = ranges_find(&back, span_str("a b\"\n\xff"));
  assert_true(v && v->histogram.n_bins == 4 && v->histogram.counts[3] == 90 && v->nans == 7);
  assert_null(ranges_find(&back, span_str("halv")));
  assert_true(back.method == RANGES_PERCENTILE && back.percentile == 99.999 && back.symmetric);
  TABLE_FREE(&t, at);
  TABLE_FREE(&again, at);
  ranges_free(&back);
  ranges_free(&r);
}

static void test_many_names(void **state) {
  (void)state;
  struct ranges r;
  char name[16];
  ranges_init(&r);
  assert_null(ranges_find(&r, span_str("v0")));
  for (int i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, "v%d", i);
    add(&r, name, DTYPE_FLOAT, i, i);
    assert_null(ranges_add(&r, span_str(name)));
  }
  for (int i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, "v%d", i);
    assert_true(ranges_find(&r, span_str(name))->least == i);
  }
  ranges_free(&r);
}

// ---- what is refused ---------------------------------------------------------------------------

static const char head[] =
    "{\"weir_ranges\":1,\"weir\":\"1\",\"source\":{\"name\":\"x\"},\"passes\":[],\"runtime\":\"\","
    "\"method\":"
    "\"minmax\",\"samples\":{\"n\":1,\"sha256\":"
    "\"0000000000000000000000000000000000000000000000000000000000000000\"},\"data\":{\"bytes\":"
    "1048576,"
    "\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\"}}\n";
#define VALUE                                                                                      \
  "{\"value\":\"x\",\"type\":\"float\",\"min\":\"-0x1p+0\",\"max\":\"0x1p+0\",\"elements\":9"

static void check_refused(const char *text, size_t n, const char *says) {
  struct ranges r;
  struct err err = {0};
  ranges_init(&r);
  const int rc = ranges_parse(&r, span_of(text, n), "r.jsonl", &err);
  if (rc == 0) fail_msg("taken: %.*s", (int)n, text);
  assert_int_equal(err.kind, ERR_MODEL);
  if (strncmp(err.msg, "r.jsonl:", 8) != 0 || !strstr(err.msg, says))
    fail_msg("'%s' says nothing of '%s'", err.msg, says);
  ranges_free(&r);
}

// A line behind the head, with the end that belongs to both.
static struct taken_text with_line(const char *line) {
  struct taken_text t = {0};
  uint8_t sum[DIGEST_BYTES];
  char hex[DIGEST_HEX], end[128];
  taken_text_put(&t, span_str(head));
  taken_text_put(&t, span_str(line));
  taken_text_put(&t, span_str("\n"));
  digest_of(t.at, t.n_at, sum);
  hex_encode(sum, sizeof sum, hex);
  snprintf(end, sizeof end, "{\"end\":1,\"sha256\":\"%s\"}\n", hex);
  taken_text_put(&t, span_str(end));
  return t;
}

static void refuse_line(const char *line, const char *says) {
  struct taken_text t = with_line(line);
  check_refused(t.at, t.n_at, says);
  TABLE_FREE(&t, at);
}

static void test_values_that_are_none(void **state) {
  (void)state;
  static const char *const rows[][2] = {
      {"[1]", "not a JSON object"},
      {"{\"value\":5}", "does not name a value"},
      {"{\"value\":\"\"}", "empty"},
      {"{\"value\":\"x\"", "r.jsonl:2"},
      {"{\"value\":\"x\",\"value\":\"y\"}", "r.jsonl:2"},
      {"{\"value\":\"x\",\"type\":\"int8\"}", "'type'"},
      {"{\"value\":\"x\",\"type\":\"float\"}", "'min' is missing"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":-1,\"max\":1}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"-1\",\"max\":\"1\"}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"nan\"}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"-inf\"}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x1p+99999\"}", "past the range"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\" 0x1p+0\"}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x1p+0x\"}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x1.p+0\"}", "hex float"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x1p+0\",\"max\":\"0x1p-1\",\"elements\":1}",
       "above its maximum"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x0p+0\",\"max\":\"0x1.0000001p+0\","
       "\"elements\":1}",
       "is outside its type"},
      {"{\"value\":\"x\",\"type\":\"float16\",\"min\":\"0x0p+0\",\"max\":\"0x1p+16\",\"elements\":"
       "1}",
       "is outside its type"},
      {"{\"value\":\"x\",\"type\":\"float16\",\"min\":\"0x0p+0\",\"max\":\"0x1p-25\",\"elements\":"
       "1}",
       "is outside its type"},
      {"{\"value\":\"x\",\"type\":\"float16\",\"min\":\"0x0p+0\",\"max\":\"0x1.001p+0\","
       "\"elements\":1}",
       "is outside its type"},
      {"{\"value\":\"x\",\"type\":\"bfloat16\",\"min\":\"0x0p+0\",\"max\":\"0x1.01p+0\","
       "\"elements\":1}",
       "is outside its type"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x0p+0\",\"max\":\"0x0p+0\"}", "'elements'"},
      {"{\"value\":\"x\",\"type\":\"float\",\"min\":\"0x0p+0\",\"max\":\"0x0p+0\",\"elements\":-1}",
       "'elements'"},
      {VALUE ",\"nans\":10}", "'nans'"},
      {VALUE ",\"mean\":\"0x0p+0\"}", "'deviation' is missing"},
      {VALUE ",\"mean\":\"0x0p+0\",\"deviation\":\"-0x1p+0\"}", "below 0"},
      {VALUE ",\"histogram\":{}}", "'from' is missing"},
      {VALUE ",\"histogram\":{\"from\":\"0x1p+0\",\"to\":\"0x0p+0\",\"counts\":[1]}}",
       "not a range of its type"},
      {VALUE ",\"histogram\":{\"from\":\"0x0p+0\",\"to\":\"0x1p+0\",\"counts\":[]}}", "'counts'"},
      {VALUE ",\"histogram\":{\"from\":\"0x0p+0\",\"to\":\"0x1p+0\",\"counts\":[1.5]}}",
       "not a count"},
      {VALUE ",\"histogram\":{\"from\":\"0x0p+0\",\"to\":\"0x1p+0\",\"counts\":["
             "\"18446744073709551615\",\"9\"]}}",
       "not a count"},
      {VALUE ",\"histogram\":{\"from\":\"0x0p+0\",\"to\":\"0x1p+0\",\"counts\":[5,5]}}",
       "counts 10 elements, of 9"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":0}}", "no axis"},
      {VALUE ",\"channels\":{\"axis\":99,\"n\":1}}", "no axis"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":1}}", "needs min and max"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":1,\"min\":\"00000000\"}}", "needs min and max"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":2,\"min\":\"00000000\"}}", "8 hex digits each"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":1,\"min\":\"7f800000\"}}", "not finite"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":1,\"min\":\"3f800000\",\"max\":\"00000000\"}}",
       "above its maximum"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":1,\"mean_abs\":\"bf800000\"}}", "below 0"},
      {VALUE ",\"channels\":{\"axis\":1,\"n\":2000000000,\"min\":\"00000000\"}}", "'n' is not"},
      {VALUE ",\"gram\":{\"k\":5}}", "'rows'"},
#define GRAM(k, at, bytes)                                                                         \
  VALUE ",\"gram\":{\"k\":" k ",\"rows\":1,\"at\":" at ",\"bytes\":" bytes                         \
        ",\"sha256\":\"0000000000000000000000000000000000000000000000000000000000000000\"}}"
      {GRAM("5", "1048384", "200"), "is outside the data file"},
      {GRAM("5", "0", "192"), "is outside the data file"},
      {GRAM("0", "0", "0"), "is outside the data file"},
      {GRAM("513", "0", "2105352"), "is outside the data file"},
      {GRAM("1048577", "0", "200"), "'k' is not"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    refuse_line(rows[i][0], rows[i][1]);
  refuse_line(VALUE "}\n" VALUE "}", "listed twice"); // the second line
  // The control arm: what they are made of is taken.
  struct taken_text t = with_line(GRAM("5", "1048376", "200"));
  struct ranges r;
  struct err err = {0};
  ranges_init(&r);
  if (ranges_parse(&r, span_of(t.at, t.n_at), "r.jsonl", &err)) fail_msg("%s", err.msg);
  ranges_free(&r);
  TABLE_FREE(&t, at);
}

// Every prefix of a file, and every byte changed: refused, or at least read without harm; a cut is never overlooked.
static void test_cut_and_changed(void **state) {
  (void)state;
  struct ranges r;
  struct err err;
  fill(&r);
  struct taken_text t = written(&r);
  ranges_free(&r);
  for (size_t n = 0; n < t.n_at; n++)
    check_refused(t.at, n, "");
  for (size_t i = 0; i < t.n_at; i++) {
    const char was = t.at[i];
    t.at[i] = (char)(was ^ 1);
    err = (struct err){0};
    ranges_init(&r);
    if (ranges_parse(&r, span_of(t.at, t.n_at), "r.jsonl", &err) == 0)
      fail_msg("byte %zu may be '%c' and '%c'", i, was, t.at[i]);
    ranges_free(&r);
    t.at[i] = was;
  }
  check_refused("", 0, "empty");
  taken_text_put(&t, span_str("{}\n"));
  check_refused(t.at, t.n_at, "after the last one");
  TABLE_FREE(&t, at);
  static const char newer[] = "{\"weir_ranges\":2}\n";
  check_refused(newer, sizeof newer - 1, "format 1 only");
}

static void test_companion(void **state) {
  (void)state;
  char folder[] = "/tmp/weir-test-ranges-XXXXXX", path[64], data[64];
  struct ranges r;
  struct err err = {0};
  struct taken_text t = with_line(VALUE "}");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/r.jsonl", folder);
  snprintf(data, sizeof data, "%s/r.jsonl.data", folder);
  FILE *f = fopen(path, "w");
  assert_true(f && fwrite(t.at, 1, t.n_at, f) == t.n_at && fclose(f) == 0);
  ranges_init(&r);
  assert_int_equal(ranges_read(&r, path, &err), -1);
  assert_true(err.kind == ERR_INPUT && strstr(err.msg, "Gram") && strstr(err.hint, "copy both"));
  ranges_free(&r);
  f = fopen(data, "w");
  assert_true(f && fputs("short", f) >= 0 && fclose(f) == 0);
  err = (struct err){0};
  assert_int_equal(ranges_read(&r, path, &err), -1);
  assert_true(err.kind == ERR_INPUT && strstr(err.msg, "has 5 bytes"));
  ranges_free(&r);
  assert_int_equal(truncate(data, 1048576), 0);
  err = (struct err){0};
  assert_int_equal(ranges_read(&r, path, &err), 0);
  assert_int_equal(ranges_check_data(&r, &err), -1); // read, it is another one
  assert_true(err.kind == ERR_INPUT && strstr(err.msg, "SHA-256"));
  ranges_free(&r);
  err = (struct err){0};
  assert_int_equal(ranges_read(&r, folder, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  unlink(data);
  unlink(path);
  rmdir(folder);
  ranges_free(&r);
  TABLE_FREE(&t, at);
}

// ---- forms of others ---------------------------------------------------------------------------

static void parse(struct ranges *r, const char *text) {
  struct err err = {0};
  ranges_init(r);
  if (ranges_parse(r, span_str(text), "c", &err)) fail_msg("%s", err.msg);
}

static void refuse(const char *text, const char *says) {
  struct ranges r;
  struct err err = {0};
  ranges_init(&r);
  if (ranges_parse(&r, span_str(text), "c", &err) == 0) fail_msg("taken: %s", text);
  assert_int_equal(err.kind, ERR_MODEL);
  if (strncmp(err.msg, "c:", 2) != 0 || !strstr(err.msg, says))
    fail_msg("'%s' says nothing of '%s'", err.msg, says);
  ranges_free(&r);
}

static void check_range(const struct ranges *r, const char *name, enum dtype type, double low,
                        double high) {
  const struct ranges_value *v = ranges_find(r, span_str(name));
  assert_non_null(v);
  assert_int_equal(v->type, type);
  assert_true(v->least == low && v->most == high);
}

#define ARRAY(x, type) "{\"data\":" x ",\"dtype\":\"" type "\",\"CLS\":\"numpy.array\"}"
#define PAIR(low, high) "{\"lowest\":" low ",\"highest\":" high ",\"CLS\":\"TensorData\"}"
#define CACHE(of)                                                                                  \
  "{\"CLS\":\"TensorsData\",\"data\":{" of                                                         \
  "},\"calibration_method\":{\"CLS\":\"CalibrationMethod\",\"value\":\"CalibrationMethod."         \
  "Entropy\"},\"smooth_quant\":true}"

static void test_cache(void **state) {
  (void)state;
  struct ranges r;
  parse(
      &r,
      CACHE(
          "\"a\": " PAIR(ARRAY("[-2.7]", "float32"), ARRAY("3", "float32")) ",\n\"b,}\\\"\":" PAIR(
              "-0.1", "0.1") ",\"c\":" PAIR(ARRAY("[[0.1]]", "float16"), ARRAY("0.3", "float16"))));
  assert_true(r.form == RANGES_CACHE && r.method == RANGES_ENTROPY && r.smoothed);
  check_range(&r, "a", DTYPE_FLOAT, (double)-2.7f, 3);
  check_range(&r, "b,}\"", DTYPE_FLOAT, (double)-0.1f, (double)0.1f);
  check_range(&r, "c", DTYPE_FLOAT16, 0x1.998p-4, 0x1.334p-2);
  ranges_free(&r);
  parse(&r, "{\"x\": [-1.5, 2], \"y\": [0, 0]}"); // older versions
  check_range(&r, "x", DTYPE_FLOAT, -1.5, 2);
  assert_int_equal(r.method, RANGES_ANY);
  ranges_free(&r);
  parse(&r, "{\"CLS\":\"TensorsData\",\"data\":{}}");
  assert_int_equal(r.n_values, 0);
  ranges_free(&r);
  parse(&r,
        CACHE("\"a\":" PAIR("5", "4.5") ",\"b\":" PAIR("-4.5", "-5") ",\"c\":" PAIR("1", "-1")));
  check_range(&r, "a", DTYPE_FLOAT, 4.5, 4.5); // turned over: the range with 0 is the same
  check_range(&r, "b", DTYPE_FLOAT, -4.5, -4.5);
  check_range(&r, "c", DTYPE_FLOAT, 0, 0);
  ranges_free(&r);
  // Masks: Python writes words that JSON has not. A name may have such a word.
  parse(&r, CACHE("\"a\":" PAIR("-Infinity", "1") ",\"Infinity\":" PAIR("-1", "1") ",\"c\":" PAIR(
                "NaN", "NaN")));
  assert_int_equal(r.n_values, 1);
  check_range(&r, "Infinity", DTYPE_FLOAT, -1, 1);
  assert_true(ranges_is_unfit(&r, span_str("a")) && ranges_is_unfit(&r, span_str("c")));
  assert_false(ranges_is_unfit(&r, span_str("Infinity")));
  ranges_free(&r);
  refuse("{\"a\":[2,1]}", "above its maximum");
  refuse(CACHE("\"a\":" PAIR("1e39", "1e39")), "not finite");
  refuse(CACHE("\"a\":" PAIR("1", ARRAY("[1,2]", "float32"))), "2 numbers, not one");
  refuse(CACHE("\"a\":" PAIR("1", ARRAY("[1]", "float64"))), "not float32 or float16");
  refuse(CACHE("\"a\":" PAIR(ARRAY("1", "float16"), "1")), "differ in type");
  refuse(CACHE("\"a\":{}"), "'lowest' of 'a' is missing");
  refuse(CACHE("\"a\":5"), "has no range");
  refuse(CACHE("\"a\":[1,2,3]"), "no pair");
  refuse(CACHE("\"a\":[1,2],\n\"a\":[1,2]"), "c:2: the value 'a' is listed twice");
  refuse(CACHE("\"a\":[1,2]") "x", "text after");
  refuse("{\"CLS\":\"TensorsData\"}", "no 'data'");
  refuse("{\"CLS\":\"TensorsData\",\"calibration_method\":{\"value\":\"CalibrationMethod.Mean\"}}",
         "is unknown");
  refuse("{\"x\": [1, 2]", "JSON was expected");
  refuse("{\"x\": [1, 2],}", "JSON was expected");
  refuse("{\"x\" 5}", "JSON was expected");
  refuse("no JSON", "JSON was expected");
  refuse("[]", "JSON was expected");
  refuse("{\"x", "JSON was expected");
}

static void test_cache_is_written(void **state) {
  (void)state;
  struct ranges r, back;
  struct err err = {0};
  struct taken_text t = {0};
  ranges_init(&r);
  r.method = RANGES_DISTRIBUTION;
  struct ranges_value *v = add(&r, "x", DTYPE_FLOAT16, -1.5, 0x1.554p-2);
  v->has_spread = true;
  v->mean = 0.25;
  v->deviation = 0.5;
  v->histogram = (struct ranges_histogram){4, false, -2, 2, counts};
  add(&r, "y", DTYPE_FLOAT, (double)-0.1f, (double)0.1f);
  assert_int_equal(ranges_write_cache(&r, taken_text_put, &t), 0);
  ranges_init(&back);
  if (ranges_parse(&back, span_of(t.at, t.n_at), "c", &err)) fail_msg("%s", err.msg);
  assert_int_equal(back.method, RANGES_DISTRIBUTION);
  check_range(&back, "x", DTYPE_FLOAT16, -1.5, 0x1.554p-2);
  check_range(&back, "y", DTYPE_FLOAT, (double)-0.1f, (double)0.1f);
  const struct ranges_value *x = ranges_find(&back, span_str("x"));
  assert_true(x->has_spread && x->mean == 0.25 && x->deviation == 0.5);
  ranges_free(&back);
  ranges_free(&r);
  TABLE_FREE(&t, at);
}

static void test_tensorrt(void **state) {
  (void)state;
  struct ranges r;
  parse(&r, "TRT-8501-EntropyCalibration2\ninput: 3c010a14\n(Unnamed: 4) [x]: 00000000\n\nlast: "
            "3f800000");
  assert_true(r.form == RANGES_TENSORRT && r.method == RANGES_ENTROPY && r.symmetric);
  const float scale = 0x1.021428p-7f;
  check_range(&r, "input", DTYPE_FLOAT, -(double)(scale * 127.0f), (double)(scale * 127.0f));
  check_range(&r, "(Unnamed: 4) [x]", DTYPE_FLOAT, 0, 0);
  check_range(&r, "last", DTYPE_FLOAT, -127, 127);
  ranges_free(&r);
  parse(&r, "TRT-10000-MinMaxCalibration\n");
  assert_int_equal(r.method, RANGES_MINMAX);
  ranges_free(&r);
  refuse("TRT-8501-EntropyCalibration2\nx: 3c010a1\n", "c:2: the line is not");
  refuse("TRT-8501-EntropyCalibration2\nx 3c010a14\n", "8 hex digits");
  refuse("TRT-8501-EntropyCalibration2\nx: bc010a14\n", "below 0");
  refuse("TRT-8501-EntropyCalibration2\nx: 7fc00000\n", "not finite");
  refuse("TRT-8501-EntropyCalibration2\nx: 7f000000\n", "not finite");
  refuse("TRT-8501-EntropyCalibration2\nx: 3f800000\nx: 3f800000\n",
         "c:3: the value 'x' is listed twice");
  refuse("TRT-8501-EntropyCalibration2\n: 3f800000\n", "empty");
}

// ---- methods -----------------------------------------------------------------------------------

// Heavy tails: the sum of two uniform numbers, eight times as large now and then.
static void sample(float *x, uint32_t n, uint32_t s) {
  for (uint32_t i = 0; i < n; i++) {
    double sum = 0;
    for (int k = 0; k < 2; k++) {
      s = 1664525u * s + 1013904223u;
      sum += (double)(s >> 8) / (double)(1 << 24) - 0.5;
    }
    x[i] = (float)(2 * sum * (i % 97 == 0 ? 8 : 1));
  }
}

static uint32_t bits_of(double x) {
  const float f = (float)x;
  uint32_t bits;
  memcpy(&bits, &f, sizeof bits);
  return bits;
}

static void find_range(struct ranges_value *v, const char *method, uint32_t bins, bool symmetric,
                       const float *x, size_t n) {
  struct range_how how;
  struct range_bins b;
  struct arena a = {0};
  struct err err = {0};
  struct kernels_extremes e = kernels_tally_nothing();
  struct range_seen seen = range_method_nothing();
  memset(&how, 0, sizeof how);
  assert_int_equal(range_method_parse(&how, span_str(method), &err), 0);
  how.bins = bins;
  how.symmetric = symmetric;
  assert_int_equal(range_method_check(&how, &err), 0);
  kernels_tally_extremes(&e, DTYPE_FLOAT, x, n);
  range_method_see(&seen, &e);
  *v = (struct ranges_value){.type = DTYPE_FLOAT};
  uint64_t *found = NULL;
  if (range_method_counts(&how)) {
    range_method_bins(&b, &how, &seen, DTYPE_FLOAT, &a);
    found = arena_zalloc(&a, b.bins.n * sizeof *found);
    kernels_tally_bins(found, &b.bins, DTYPE_FLOAT, x, n);
  }
  range_method_find(v, &how, &seen, found ? &b : NULL, found);
  arena_free(&a);
}

static void test_golden(void **state) {
  (void)state;
  static const struct {
    const char *method;
    uint32_t bins;
    bool symmetric;
    uint32_t least, most;
  } rows[] = {
      {"minmax", 0, false, 0xc155a01a, 0x4128fca2},
      {"minmax", 0, true, 0xc155a01a, 0x4155a01a},
      {"entropy", 128, false, 0xc155a01a, 0x4128fca2},
      {"entropy", 512, false, 0xc0963492, 0x4097dfd4},
      {"entropy", 2048, false, 0xc090c802, 0x409132d0},
      {"percentile=99.999", 2048, true, 0xc1558566, 0x4128fca2},
      {"percentile=99.9", 2048, true, 0xc128fbbf, 0x4128fbbf},
      {"percentile=99", 2048, true, 0xc06c9b2a, 0x406c9b2a},
      {"percentile=99.9", 2048, false, 0xc155a01a, 0x4128fb24},
      {"percentile=99", 2048, false, 0xc0a7bab4, 0x3feea8e0},
  };
  float x[1000];
  struct ranges_value v;
  sample(x, 1000, 1);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    find_range(&v, rows[i].method, rows[i].bins, rows[i].symmetric, x, 1000);
    if (bits_of(v.least) != rows[i].least || bits_of(v.most) != rows[i].most)
      fail_msg("%s, %u bins: %08x %08x", rows[i].method, rows[i].bins, bits_of(v.least),
               bits_of(v.most));
  }
  find_range(&v, "distribution", 2048, false, x, 1000);
  assert_int_equal(bits_of(v.mean), 0xbc1e1532);
  assert_int_equal(bits_of(v.deviation), 0x3f8db445);
}

static void test_methods_that_are_none(void **state) {
  (void)state;
  static const char *const words[] = {"",
                                      "max",
                                      "entropy=5",
                                      "percentile=",
                                      "percentile=101",
                                      "percentile=-1",
                                      "percentile=nan",
                                      "percentile=1x",
                                      "percentile=99.9999999999999999999999999999999"};
  struct range_how how;
  struct arena a = {0};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    struct err err = {0};
    if (range_method_parse(&how, span_str(words[i]), &err) == 0) fail_msg("taken: %s", words[i]);
    assert_int_equal(err.kind, ERR_USAGE);
  }
  static const struct range_how wrong[] = {
      {.method = RANGES_MINMAX, .bins = 128},
      {.method = RANGES_ENTROPY, .symmetric = true},
      {.method = RANGES_ENTROPY, .bins = 127},
      {.method = RANGES_ENTROPY, .bins = (1 << 14) + 1},
      {.method = RANGES_ENTROPY, .moving_average = true},
      {.method = RANGES_DISTRIBUTION, .bins = 511},
      {.method = RANGES_PERCENTILE, .bins = RANGES_MOST_BINS + 1},
  };
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct err err = {0};
    how = wrong[i];
    assert_int_equal(range_method_check(&how, &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
  }
  struct err err = {0};
  how = (struct range_how){0};
  assert_int_equal(range_method_parse(&how, span_str("percentile"), &err), 0);
  assert_int_equal(range_method_check(&how, &err), 0);
  assert_true(how.percentile == 99.999 && how.bins == 2048 && how.symmetric);
  arena_free(&a);
}

// Width past the largest float; no width; widths below what floats around them can say.
static void test_bins_of_odd_widths(void **state) {
  (void)state;
  static const float huge[] = {-3e38f, 3e38f, 1, -2e38f}, same[] = {0, 0, -0.0f},
                     narrow[] = {1e6f, 1e6f + 0.0625f, 1e6f + 1, 1e6f};
  static const struct {
    const float *x;
    size_t n;
  } rows[] = {{huge, 4}, {same, 3}, {narrow, 4}};
  for (size_t i = 0; i < 3; i++)
    for (int symmetric = 0; symmetric < 2; symmetric++) {
      struct ranges_value v;
      find_range(&v, "percentile=100", 2048, symmetric, rows[i].x, rows[i].n);
      assert_true(v.least <= v.most && v.elements == rows[i].n);
    }
}

static void test_numpy_arithmetic(void **state) {
  (void)state;
  // numpy.log of float32, of which the last bit is not the C library's.
  static const uint32_t logs[][2] = {{0x3f800000, 0x00000000},
                                     {0x40000000, 0x3f317218},
                                     {0x3dcccccd, 0xc0135d8e},
                                     {0x42c80000, 0x40935d8e},
                                     {0x3f7fffff, 0xb3800001}};
  for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
    float x;
    memcpy(&x, &logs[i][0], sizeof x);
    if (bits_of((double)range_numpy_log(x)) != logs[i][1])
      fail_msg("log of %g: %08x", (double)x, bits_of((double)range_numpy_log(x)));
  }
  double x[1000], plain = 0;
  for (uint32_t i = 0; i < 1000; i++)
    plain += x[i] = 1 + (double)i;
  assert_true(range_numpy_sum(x, 1000, false) == plain && range_numpy_sum(x, 1000, true) == plain);
  assert_true(range_numpy_sum(x, 0, false) == 0 && range_numpy_sum(x, 7, true) == 28);
}

int test_ranges(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_many_names),
      cmocka_unit_test(test_values_that_are_none),
      cmocka_unit_test(test_cut_and_changed),
      cmocka_unit_test(test_companion),
      cmocka_unit_test(test_cache),
      cmocka_unit_test(test_cache_is_written),
      cmocka_unit_test(test_tensorrt),
      cmocka_unit_test(test_golden),
      cmocka_unit_test(test_methods_that_are_none),
      cmocka_unit_test(test_bins_of_odd_widths),
      cmocka_unit_test(test_numpy_arithmetic),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
