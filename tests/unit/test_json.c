// JSON: what is written comes back, and what is not strict JSON does not come in.
#include "json/json.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct json_value *parse(const char *text) {
  struct err err = {0};
  struct json_value *v = json_parse(span_str(text), "test", &err);
  if (!v) fail_msg("%s: %s", text, err.msg);
  return v;
}

static void refuses(const char *text, size_t n, const char *why) {
  struct err err = {0};
  struct json_value *v = json_parse(span_of(text, n), "test", &err);
  if (v) fail_msg("taken: %.*s", (int)n, text);
  assert_int_equal(err.kind, ERR_MODEL);
  if (!strstr(err.msg, why)) fail_msg("%.*s: '%s' does not say '%s'", (int)n, text, err.msg, why);
}

static void test_writes_containers(void **state) {
  (void)state;
  struct json_out j = {0};
  json_object(&j);
  json_put_array(&j, "a");
  json_int(&j, -1);
  json_uint(&j, 2);
  json_array(&j);
  json_end_array(&j);
  json_object(&j);
  json_end_object(&j);
  json_end_array(&j);
  json_put_bool(&j, "b", true);
  json_key(&j, "c");
  json_null(&j);
  json_put_raw(&j, "d", span_str("{\"x\":1}"));
  json_end_object(&j);
  json_newline(&j);
  json_object(&j);
  json_end_object(&j);
  assert_string_equal(j.text, "{\"a\":[-1,2,[],{}],\"b\":true,\"c\":null,\"d\":{\"x\":1}}\n{}");
  assert_int_equal(j.n, strlen(j.text));
  json_done(&j);
  assert_null(j.text);
}

static void write_sample(struct json_out *j) {
  json_object(j);
  json_put_array(j, "a");
  json_int(j, 1);
  json_array(j);
  json_int(j, 2);
  json_int(j, 3);
  json_end_array(j);
  json_end_array(j);
  json_put_array(j, "b");
  json_end_array(j);
  json_end_object(j);
}

static void test_layouts(void **state) {
  (void)state;
  struct json_out indented = {.indent = 2}, lines = {.line_elements = true};
  write_sample(&indented);
  assert_string_equal(indented.text,
                      "{\n  \"a\": [\n    1,\n    [\n      2,\n      3\n    ]\n  ],\n"
                      "  \"b\": []\n}");
  write_sample(&lines);
  assert_string_equal(lines.text, "{\"a\":[\n1,\n[2,3]\n],\"b\":[]}");
  json_done(&indented);
  json_done(&lines);
}

static void test_line_break_in_array(void **state) {
  (void)state;
  struct json_out j = {0};
  json_array(&j);
  json_int(&j, 1);
  json_newline(&j);
  json_int(&j, 2);
  json_newline(&j);
  json_end_array(&j);
  assert_string_equal(j.text, "[1,\n2\n]");
  json_done(&j);
}

static void double_is(double x, const char *text) {
  struct json_out j = {0};
  json_double(&j, x);
  assert_string_equal(j.text, text);
  struct json_value *v = parse(j.text);
  double back = 0;
  assert_true(json_as_double(v, &back));
  if (!isnan(x))
    assert_memory_equal(&x, &back, sizeof x);
  else
    assert_true(isnan(back));
  json_free(v);
  json_done(&j);
}

static void test_doubles(void **state) {
  (void)state;
  double_is(0.0, "0.0");
  double_is(-0.0, "-0.0");
  double_is(1, "1.0");
  double_is(0.1, "0.1");
  double_is(100000, "100000.0");
  double_is(1e15, "1000000000000000.0");
  double_is(1e16, "1e+16");
  double_is(0.0001, "0.0001");
  double_is(0.00001, "1e-05");
  double_is(1.0 / 3, "0.3333333333333333");
  double_is(5e-324, "5e-324");
  double_is(1.7976931348623157e308, "1.7976931348623157e+308");
  double_is((double)INFINITY, "\"Infinity\"");
  double_is(-(double)INFINITY, "\"-Infinity\"");
  double_is((double)NAN, "\"NaN\"");
}

static void int_is(int64_t x, const char *text) {
  struct json_out j = {0};
  json_int(&j, x);
  assert_string_equal(j.text, text);
  struct json_value *v = parse(j.text);
  int64_t back = 0;
  assert_true(json_as_int(v, &back));
  assert_int_equal(x, back);
  json_free(v);
  json_done(&j);
}

static void test_integers(void **state) {
  (void)state;
  int_is(0, "0");
  int_is(-7, "-7");
  int_is((int64_t)1 << 53, "9007199254740992");
  int_is(-((int64_t)1 << 53), "-9007199254740992");
  int_is(((int64_t)1 << 53) + 1, "\"9007199254740993\"");
  int_is(INT64_MAX, "\"9223372036854775807\"");
  int_is(INT64_MIN, "\"-9223372036854775808\"");
  struct json_out j = {0};
  json_uint(&j, UINT64_MAX);
  struct json_value *v = parse(j.text);
  uint64_t back = 0;
  int64_t no;
  assert_true(json_as_uint(v, &back));
  assert_true(back == UINT64_MAX);
  assert_false(json_as_int(v, &no));
  json_free(v);
  json_done(&j);
}

static void test_bad_integers(void **state) {
  (void)state;
  struct json_value *v = parse("[\"\",\"-\",\"-0\",\"01\",\"1 \",\"18446744073709551616\",1.5,true,"
                               "\"+1\",null,[],{}]");
  size_t seen = 0;
  for (const struct json_value *x = json_first(v); x; x = json_next(x), seen++) {
    int64_t i;
    uint64_t u;
    assert_false(json_as_int(x, &i));
    assert_false(json_as_uint(x, &u));
  }
  assert_int_equal(seen, 12);
  json_free(v);
  v = parse("-1");
  uint64_t u;
  assert_false(json_as_uint(v, &u));
  json_free(v);
  assert_false(json_as_uint(NULL, &u));
}

static void string_comes_back(struct span s) {
  struct json_out j = {0};
  struct span back;
  json_string(&j, s);
  struct json_value *v = parse(j.text);
  assert_true(json_as_string(v, &back));
  assert_int_equal(s.n, back.n);
  assert_memory_equal(s.at, back.at, s.n);
  assert_int_equal(back.at[back.n], 0);
  json_free(v);
  json_done(&j);
}

static void test_strings_come_back(void **state) {
  (void)state;
  string_comes_back(span_str(""));
  string_comes_back(span_str("a\"b\\c/d\b\f\n\r\t\x01\x1f\x7f"));
  string_comes_back(span_str("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x92\xa9"));
  string_comes_back(span_str("\xe2\x80\xae right to left"));
  string_comes_back(span_of("a\0b\0", 4));
  string_comes_back(span_of("\xff\xfe\x80", 3));
  string_comes_back(span_of("\xff"
                            "00",
                            3)); // looks like a mark of the reader's own
  string_comes_back(span_of("\xc0\x80\xed\xa0\x80", 5));
  uint8_t all[512];
  for (size_t i = 0; i < sizeof all; i++)
    all[i] = (uint8_t)i;
  string_comes_back(span_of(all, sizeof all));
}

static void test_string_text(void **state) {
  (void)state;
  struct json_out j = {0};
  json_string(&j, span_of("\xff\x1b[2J\n\xe2\x80\xae", 9));
  assert_string_equal(j.text, "\"\\udcff\\u001b[2J\\n\\u202e\"");
  json_done(&j);
}

static void test_escapes_are_read(void **state) {
  (void)state;
  struct json_value *v = parse("\"\\u00e9\\ud83d\\udca9\\/\\u0000x\\uDC80\"");
  struct span s;
  assert_true(json_as_string(v, &s));
  assert_int_equal(s.n, 10);
  assert_memory_equal(s.at, "\xc3\xa9\xf0\x9f\x92\xa9/\0x\x80", 10);
  json_free(v);
}

#define REFUSES(text, why) refuses(text, sizeof(text) - 1, why)

static void test_refuses(void **state) {
  (void)state;
  REFUSES("", "not JSON");
  REFUSES("   ", "not JSON");
  REFUSES("{} {}", "not JSON");
  REFUSES("{}x", "not valid JSON");
  REFUSES("[1,]", "not JSON");
  REFUSES("{\"a\":1,}", "not JSON");
  REFUSES("{\"a\" 1}", "not JSON");
  REFUSES("[1 2]", "not JSON");
  REFUSES("[01]", "not a number");
  REFUSES("[1.]", "not a number");
  REFUSES("[-]", "not a number");
  REFUSES("[1e]", "not a number");
  REFUSES("[.5]", "not valid JSON");
  REFUSES("[+1]", "not valid JSON");
  REFUSES("[1e999]", "past the range");
  REFUSES("[9007199254740993]", "past 2^53");
  REFUSES("[-9007199254740993]", "past 2^53");
  REFUSES("[123456789012345678901234567890]", "past 2^53");
  REFUSES("[0.0000000000000000000000000000000000000000000000000000000000000001]", "63 characters");
  REFUSES("{\"a\":1,\"a\":2}", "duplicate key 'a'");
  REFUSES("[{\"b\":{\"a\":1,\"c\":0,\"a\":2}}]", "duplicate key 'a'");
  REFUSES("{\"a\\u0000b\":1}", "NUL");
  REFUSES("\"a", "unterminated string");
  REFUSES("\"a\n\"", "control character");
  REFUSES("\"\\x41\"", "unknown escape");
  REFUSES("\"\\u12g4\"", "four hex digits");
  REFUSES("\"\\ud800\"", "surrogate");
  REFUSES("\"\\ud800\\u0041\"", "surrogate");
  REFUSES("\"\\udc7f\"", "surrogate");
  REFUSES("\"\xff\"", "invalid UTF-8");
  REFUSES("\"\xed\xa0\x80\"", "invalid UTF-8");
  REFUSES("[1]\0", "not valid JSON");
  REFUSES("[\0031]", "not valid JSON");
  REFUSES("\xef\xbb\xbf{}", "not valid JSON");
  REFUSES("nul", "not JSON");
  REFUSES("truefalse", "not JSON");
}

static void nested(char *text, size_t depth) {
  memset(text, '[', depth);
  memset(text + depth, ']', depth);
  text[2 * depth] = '\0';
}

static void test_nesting(void **state) {
  (void)state;
  static char text[200001];
  nested(text, 80);
  json_free(parse(text));
  nested(text, 81);
  refuses(text, strlen(text), "deeper than 80");
  nested(text, 100000);
  refuses(text, strlen(text), "deeper than 80");
  refuses(text, 100000, "deeper than 80");
}

static void test_navigation(void **state) {
  (void)state;
  struct json_value *v =
      parse(" {\"a\" : [1, 2.5, \"x\"],\n\t\"B\": {\"c\": null}, \"b\": false}\r\n");
  const struct json_value *a = json_get(v, "a"), *x = json_first(a);
  double d;
  bool truth = true;
  struct span s;
  assert_true(json_is_array(a));
  assert_int_equal(json_count(a), 3);
  assert_true(json_as_double(json_next(x), &d) && d == 2.5);
  assert_true(json_as_string(json_next(json_next(x)), &s) && span_is(s, "x"));
  assert_null(json_next(json_next(json_next(x))));
  assert_true(json_is_null(json_get(json_get(v, "B"), "c")));
  assert_string_equal(json_name(json_next(a)), "B");
  assert_true(json_as_bool(json_get(v, "b"), &truth) && !truth);
  assert_null(json_get(v, "A"));
  assert_null(json_get(a, "x"));
  assert_null(json_get(NULL, "x"));
  assert_null(json_first(NULL));
  assert_false(json_as_bool(a, &truth));
  assert_false(json_as_double(a, &d));
  assert_false(json_as_string(x, &s));
  json_free(v);
  json_free(NULL);
}

static void test_copy(void **state) {
  (void)state;
  const char *text =
      "{\"a\":[1,2.5,\"\\udcff\\u0000\",null,true],\"b\":{\"c\":\"9007199254740993\"}}";
  struct json_value *v = parse(text);
  struct json_out j = {0};
  json_copy(&j, v);
  assert_string_equal(j.text, text);
  json_done(&j);
  json_free(v);
}

int test_json(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_writes_containers),
      cmocka_unit_test(test_layouts),
      cmocka_unit_test(test_line_break_in_array),
      cmocka_unit_test(test_doubles),
      cmocka_unit_test(test_integers),
      cmocka_unit_test(test_bad_integers),
      cmocka_unit_test(test_strings_come_back),
      cmocka_unit_test(test_string_text),
      cmocka_unit_test(test_escapes_are_read),
      cmocka_unit_test(test_refuses),
      cmocka_unit_test(test_nesting),
      cmocka_unit_test(test_navigation),
      cmocka_unit_test(test_copy),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
