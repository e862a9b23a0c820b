// Pages: texts that cannot break out of where they stand, markup with numbers in it, tables, and a page of a
// verification alone, with figures that are no numbers.
#include "chance.h"
#include "execute/passes/pass_edits.h"
#include "render/html/html_chart.h"
#include "render/html/html_page.h"
#include "render/html/html_table.h"
#include "report/verified.h"

#include <math.h>
#include <stdio.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

// What was written, with a NUL behind it; and the largest piece.
struct taken {
  TABLE_BIG(char, text);
  size_t largest;
};

static void take(void *ctx, struct span piece) {
  struct taken *t = ctx;
  TABLE_ROOM(t, text, piece.n + 1);
  memcpy(t->text + t->n_text, piece.at, piece.n);
  t->n_text += piece.n;
  t->text[t->n_text] = '\0';
  if (piece.n > t->largest) t->largest = piece.n;
}

static struct html_out out_to(struct taken *t) {
  return (struct html_out){.sink = {take, t}};
}

static void expect(struct html_out *o, const char *want) {
  struct taken *t = o->sink.ctx;
  html_flush(o);
  assert_string_equal(t->text, want);
  TABLE_FREE(t, text);
}

// ---- texts -------------------------------------------------------------------------------------

static void expect_text(const char *text, const char *html, const char *json) {
  struct taken t = {0};
  struct html_out o = out_to(&t);
  html_text(&o, span_str(text));
  expect(&o, html);
  html_json(&o, span_str(text), 0);
  expect(&o, json);
}

static void test_texts(void **state) {
  (void)state;
  expect_text("a.b/c", "a.b/c", "\"a.b/c\"");
  expect_text("</script>", "&lt;/script&gt;", "\"\\u003c/script\\u003e\"");
  expect_text("&\"'\\", "&amp;&quot;&#39;\\", "\"\\u0026\\\"'\\\\\"");
  expect_text("\x1b\n", "\\x1b\\x0a", "\"\\\\x1b\\\\x0a\"");
  expect_text("\xe2\x80\xae"
              "x",
              "\\u{202e}x", "\"\\\\u{202e}x\"");
  expect_text("\xff\xc3", "\\xff\\xc3", "\"\\\\xff\\\\xc3\"");
  expect_text("\xc3\xa9", "\xc3\xa9", "\"\xc3\xa9\"");
}

static void test_long_texts_are_cut_between_characters(void **state) {
  (void)state;
  char text[2000];
  struct taken t = {0};
  for (size_t lead = 0; lead < 4; lead++) {
    memset(text, 'x', lead);
    for (size_t i = 0; i < 400; i++)
      memcpy(text + lead + 4 * i, "\xf0\x9d\x92\xb3", 4);
    struct html_out o = out_to(&t);
    html_text(&o, span_of(text, lead + 1600));
    html_flush(&o);
    assert_true(utf8_valid(span_of(t.text, t.n_text)));
    assert_null(strstr(t.text, "\\x"));
    assert_true(str_ends(t.text, "bytes)"));
    assert_in_range(t.n_text, HTML_TEXT_MAX, HTML_TEXT_MAX + 20);
    TABLE_FREE(&t, text);
  }
}

// Any bytes: what comes out is UTF-8 without a character that means something to whoever reads it.
static void test_random_bytes(void **state) {
  (void)state;
  static const char *const bits[] = {
      "<",  ">",   "&", "\"", "'", "</script", "\xe2\x80\xae", "\xf0\x9f", "\xed\xa0\x80",
      "\\", "]]>", "a"};
  chance_seed = 7;
  for (int round = 0; round < 20000; round++) {
    uint8_t text[64];
    size_t n = 0;
    while (n < 40) {
      const char *bit = bits[chance_below(sizeof bits / sizeof *bits)];
      if (chance_below(3)) {
        memcpy(text + n, bit, strlen(bit));
        n += strlen(bit);
      } else {
        text[n++] = (uint8_t)chance_below(256);
      }
    }
    struct taken t = {0};
    struct html_out o = out_to(&t);
    html_text(&o, span_of(text, n));
    html_flush(&o);
    assert_true(utf8_valid(span_of(t.text, t.n_text)));
    assert_true(strcspn(t.text, "<>\"'") == t.n_text);
    TABLE_FREE(&t, text);
    html_json(&o, span_of(text, n), 0);
    html_flush(&o);
    assert_true(strcspn(t.text, "<>&") == t.n_text);
    for (size_t i = 1; i + 1 < t.n_text;
         i++) { // quotes only behind a backslash that is no text itself
      if (t.text[i] == '\\')
        i++;
      else
        assert_true(t.text[i] != '"');
    }
    TABLE_FREE(&t, text);
  }
}

static void test_shared(void **state) {
  (void)state;
  assert_int_equal(html_shared(span_str("layers.0.w"), span_str("layers.1.w")), 7);
  assert_int_equal(html_shared(span_str("abc"), span_str("abc")), 3);
  assert_int_equal(html_shared(span_str("a\xc3\xa9"
                                        "b"),
                               span_str("a\xc3\xa9"
                                        "c")),
                   1);                                                  // not within a character
  assert_int_equal(html_shared(span_str("a\nb"), span_str("a\nc")), 1); // nor what is spelled out
  assert_int_equal(html_shared(span_of(NULL, 0), span_str("a")), 0);
}

static void test_markup(void **state) {
  (void)state;
  struct taken t = {0};
  struct html_out o = out_to(&t);
  html_put(&o, "<a b=\"%s\">%u %s 100 %% %.2f</a>", "<\"", 7U, decimal(1ULL << 40).s, 2.5);
  expect(&o, "<a b=\"&lt;&quot;\">7 1099511627776 100 % 2.50</a>");
  html_json_number(&o, 1.0 / 3);
  html_raw(&o, " ");
  html_json_number(&o, 4503599627370497.0);
  html_raw(&o, " ");
  html_json_number(&o, -(double)INFINITY);
  html_raw(&o, " ");
  html_json_number(&o, (double)NAN);
  expect(&o, "0.3333333 4503599627370497 \"-inf\" \"nan\"");
}

static void test_numbers(void **state) {
  (void)state;
  assert_string_equal(html_words(1234567, HTML_BYTES).s, "1.23 MB");
  assert_string_equal(html_words(1234567, HTML_COUNT).s, "1,234,567");
  assert_string_equal(html_words(999, HTML_COUNT).s, "999");
  assert_string_equal(html_words(0, HTML_COUNT).s, "0");
  assert_string_equal(html_whole(1000).s, "1,000");
  assert_string_equal(html_whole(UINT64_MAX).s, "18,446,744,073,709,551,615");
  assert_string_equal(html_words(21.25, HTML_ONE).s, "21.2");
  assert_string_equal(html_words(0.9999994, HTML_SIX).s, "0.999999");
  assert_string_equal(html_words(0.000012345, HTML_SHORT).s, "1.23e-05");
  assert_string_equal(html_words((double)INFINITY, HTML_ONE).s, "\xe2\x88\x9e");
  assert_string_equal(html_words((double)NAN, HTML_SHORT).s, "NaN");
}

// ---- tables ------------------------------------------------------------------------------------

static void put_row(const void *ctx, uint32_t i, struct html_cell *cells) {
  char(*room)[32] = (char(*)[32])(uintptr_t)ctx;
  snprintf(room[i % 2], sizeof room[0], "layer.%u", i);
  cells[0].text = span_str(room[i % 2]);
  cells[1] = (struct html_cell){.number = i * 0.5, .unknown = i == 3};
}

static const struct html_column two_columns[] = {{"Name", HTML_NAME, NULL},
                                                 {"Half", HTML_ONE, "half of it"}};

static struct html_table table_of(char (*room)[32], uint32_t n) {
  return (struct html_table){.id = "t",
                             .caption = "C",
                             .columns = two_columns,
                             .n_columns = 2,
                             .n_rows = n,
                             .sorted_by = 1,
                             .row = put_row,
                             .ctx = room};
}

static void test_table(void **state) {
  (void)state;
  char room[2][32];
  struct taken t = {0};
  struct html_out o = out_to(&t);
  struct html_table table = table_of(room, 5);
  static const uint32_t order[] = {4, 3, 2, 1, 0};
  table.order = order;
  html_table(&o, &table);
  html_flush(&o);
  assert_non_null(strstr(
      t.text,
      "[\n0,\"layer.0\",0,\n6,\"1\",0.5,\n6,\"2\",1,\n6,\"3\",null,\n6,\"4\",2\n]</script>"));
  const char *first = strstr(t.text, "<tbody>");
  assert_memory_equal(first, "<tbody>\n<tr><td class=\"name\"><bdi>layer.4</bdi>", 47);
  assert_null(strstr(t.text, "The first"));
  assert_non_null(strstr(t.text, "<th scope=\"col\" data-form=\"one\" class=\"number\" "
                                 "aria-sort=\"ascending\" title=\"half of it\">Half</th>"));
  TABLE_FREE(&t, text);
}

// However many rows: pieces are as large as the buffer at most, and nothing is kept.
static void test_memory_does_not_grow_with_rows(void **state) {
  (void)state;
  char room[2][32];
  struct taken t = {0};
  struct html_out o = out_to(&t);
  const struct html_table table = table_of(room, 100000);
  html_table(&o, &table);
  html_flush(&o);
  assert_true(t.largest <= sizeof o.buffer);
  assert_in_range(t.n_text, 1000000, 3000000);
  assert_non_null(strstr(t.text, "the first 100 of 100000 rows"));
  TABLE_FREE(&t, text);
}

// ---- charts ------------------------------------------------------------------------------------

static void test_charts_of_odd_numbers(void **state) {
  (void)state;
  const double none[] = {(double)NAN, (double)INFINITY}, one[] = {3}, same[] = {2, 2, 2};
  const double hole[] = {1, (double)NAN, 1e300, -1e300};
  const struct {
    const double *y;
    uint32_t n;
    bool any;
  } rows[] = {{none, 2, false}, {none, 0, false}, {one, 1, true}, {same, 3, true}, {hole, 4, true}};
  for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
    const struct html_series s = {.name = "<s>", .y = rows[i / 2].y, .n = rows[i / 2].n};
    const struct html_lines chart = {
        .title = "T", .x = "x", .y = "y", .logarithmic = i % 2, .series = &s, .n_series = 1};
    struct taken t = {0};
    struct html_out o = out_to(&t);
    html_lines(&o, &chart);
    html_flush(&o);
    assert_int_equal(t.n_text > 0, rows[i / 2].any);
    if (t.n_text) {
      assert_null(strstr(t.text, "nan"));
      assert_null(strstr(t.text, "inf"));
      assert_null(strstr(t.text, "<s>"));
      assert_non_null(strstr(t.text, "</svg>"));
    }
    TABLE_FREE(&t, text);
  }
}

// A spread of no note does not fill the chart.
static void test_charts_stand_for_as_much_as_they_must(void **state) {
  (void)state;
  const double y[] = {44.10, (double)NAN, 44.15};
  const struct html_series s = {.name = "s", .y = y, .n = 3};
  for (int least = 0; least < 2; least++) {
    const struct html_lines chart = {.title = "T",
                                     .x = "x",
                                     .y = "y",
                                     .dots = true,
                                     .least = least ? HTML_DB_LEAST : 0,
                                     .series = &s,
                                     .n_series = 1};
    struct taken t = {0};
    struct html_out o = out_to(&t);
    html_lines(&o, &chart);
    html_flush(&o);
    assert_true((strstr(t.text, ">44.12<") != NULL) == !least);
    assert_true((strstr(t.text, ">40<") && strstr(t.text, ">48<")) == least);
    const char *path = strstr(t.text, "<path class=\"dots c0\" d=\"M");
    assert_non_null(path);
    assert_non_null(strstr(path, "h0M")); // the two that there are, and nothing between them
    assert_null(strstr(strstr(path, "h0M") + 3, "h0M"));
    TABLE_FREE(&t, text);
  }
}

// ---- a verification ----------------------------------------------------------------------------

static struct compare_figures figures(double max_abs, double db) {
  return (struct compare_figures){.count = 10,
                                  .max_abs = max_abs,
                                  .mean_abs = max_abs / 2,
                                  .p99_abs = max_abs,
                                  .relative = max_abs,
                                  .cosine = 0.5,
                                  .sqnr_db = db};
}

static void add_row(struct verified *v, const char *name, enum verified_end end, const char *why,
                    const char *fault) {
  *TABLE_PUSH(v, rows) = (struct verified_row){.name = name,
                                               .of = "fuse/bn",
                                               .bounds = "max abs 3e-05",
                                               .end = end,
                                               .why = why,
                                               .fault = fault};
  *(end == VERIFIED_PASSED ? &v->n_passed : end == VERIFIED_FAILED ? &v->n_failed : &v->n_not) += 1;
}

static char *page_of(const struct run_report *r, struct taken *t) {
  html_page(r, (struct span_sink){take, t});
  return t->text;
}

static void test_page_of_a_verification_alone(void **state) {
  (void)state;
  struct verified v = {.scope = "sites",
                       .runtime = "1.20.1",
                       .drawn.seed = 17,
                       .drawn.sizes = "batch=1, time=64",
                       .seconds = 1.5};
  v.peak_memory[0] = 20000000;
  v.peak_memory[1] = 150000000;
  add_row(&v, "/good/<b>", VERIFIED_PASSED, NULL, NULL);
  v.rows[0].figures = figures(1e-6, 120);
  add_row(&v, "/unknown", VERIFIED_NOT, "a custom operator", NULL);
  add_row(&v, "/bad", VERIFIED_FAILED, "max abs 0.1 is above 3e-05", "group 17 (fuse/bn)");
  v.rows[2].figures = figures((double)NAN, (double)NAN);
  for (uint32_t i = 0; i < 40; i++)
    *TABLE_PUSH(&v, layers) = (struct verified_layer){
        .node = "/layers/MatMul",
        .value = "v",
        .figures = figures(pow(10, -6 + i / 10.0), i ? 80 - (double)i : (double)INFINITY)};
  const struct run_report r = {.asked.command = "verify",
                               .version = "1.2.3",
                               .model = "out.onnx",
                               .asked.command_line = "weir verify a.onnx 'b c.onnx'",
                               .verified = &v};
  struct taken t = {0};
  const char *page = page_of(&r, &t);
  static const char *const there[] = {
      "verification failed",
      "1 of 3 sites passed, 1 failed, 1 not verified (66.7 % verified)",
      "ONNX Runtime 1.20.1; the seed of drawn inputs is 17; batch=1, time=64",
      "20.0 MB",
      "150 MB",
      "max abs 0.1 is above 3e-05; at fault: group 17 (fuse/bn)",
      "a custom operator",
      "/good/&lt;b&gt;",
      "Error layer by layer",
      "SQNR along the graph",
      "id=\"layers-rows\"",
      "weir verify a.onnx &#39;b c.onnx&#39;"};
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    if (!strstr(page, there[i])) fail_msg("the page lacks: %s", there[i]);
  static const char *const absent[] = {"What changed",  "Size by dtype", "Error of every tensor",
                                       "<dt>Size</dt>", "<dt>Plan</dt>", "(null)"};
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
    if (strstr(page, absent[i])) fail_msg("the page has: %s", absent[i]);
  assert_true(strstr(page, "<bdi>/bad") < strstr(page, "<bdi>/unknown"));
  assert_true(strstr(page, "<bdi>/unknown") < strstr(page, "<bdi>/good"));
  TABLE_FREE(&t, text);
  TABLE_FREE(&v, rows);
  TABLE_FREE(&v, layers);
}

static void expect_verdict(uint64_t passed, uint64_t failed, uint64_t not, const char *word) {
  const struct verified v = {
      .scope = "model", .n_passed = passed, .n_failed = failed, .n_not = not };
  const struct run_report r = {
      .asked.command = "verify", .version = "1", .model = "m", .verified = &v};
  struct taken t = {0};
  const char *page = page_of(&r, &t);
  char badge[100];
  snprintf(badge, sizeof badge, "\">%s</span></p>", word);
  assert_non_null(strstr(page, badge));
  TABLE_FREE(&t, text);
}

// Never a green word for what was not looked at.
static void test_verdicts(void **state) {
  (void)state;
  expect_verdict(2, 0, 0, "verified");
  expect_verdict(2, 0, 1, "partly verified");
  expect_verdict(2, 1, 0, "verification failed");
  expect_verdict(0, 0, 3, "nothing could be verified");
  expect_verdict(0, 0, 0, "nothing to verify");
}

static void expect_verdict_of(struct verified_row row, const char *word, const char *style) {
  struct verified v = {.scope = "model"};
  row.name = "y";
  row.of = "drawn";
  row.bounds = "SQNR of 10 dB";
  *TABLE_PUSH(&v, rows) = row;
  verified_count(&v, row.end);
  const struct run_report r = {
      .asked.command = "verify", .version = "1", .model = "m", .verified = &v};
  struct taken t = {0};
  const char *page = page_of(&r, &t);
  char badge[100];
  snprintf(badge, sizeof badge, "badge %s\">%s</span></p>", style, word);
  assert_non_null(strstr(page, badge));
  TABLE_FREE(&t, text);
  TABLE_FREE(&v, rows);
}

// Green is for what loses nothing, and for outputs on given inputs.
static void test_verdicts_of_what_loses(void **state) {
  (void)state;
  const struct verified_row exact = {.drawn = true}, site = {.drawn = true, .loses = true},
                            given = {.output = true, .loses = true},
                            drawn = {.output = true, .loses = true, .drawn = true},
                            unjudged = {.output = true,
                                        .loses = true,
                                        .drawn = true,
                                        .end = VERIFIED_UNJUDGED,
                                        .why = "drawn inputs: --inputs DIR"};
  expect_verdict_of(exact, "verified", "good");
  expect_verdict_of(given, "verified", "good");
  expect_verdict_of(site, "as computed; accuracy not measured", "plain");
  expect_verdict_of(drawn, "within bounds on drawn inputs", "plain");
  expect_verdict_of(unjudged, "not judged", "plain");
}

// The worst case of each output stands on top, and rows with the largest errors come first.
static void test_outputs_of_models(void **state) {
  (void)state;
  struct verified v = {.scope = "all"};
  static const struct {
    const char *name, *of;
    double db;
    bool output;
    enum verified_end end;
  } rows[] = {{"same", "case 1", (double)INFINITY, true, VERIFIED_PASSED},
              {"logits", "case 1", 30, true, VERIFIED_PASSED},
              {"logits", "case 2", 12.25, true, VERIFIED_PASSED},
              {"/site", "quantize", 3, false, VERIFIED_PASSED},
              {"late", "case 2", 50, true, VERIFIED_FAILED}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    *TABLE_PUSH(&v, rows) = (struct verified_row){.name = rows[i].name,
                                                  .of = rows[i].of,
                                                  .output = rows[i].output,
                                                  .end = rows[i].end,
                                                  .drawn = i == 0,
                                                  .figures = figures(0.1, rows[i].db)};
  const struct run_report r = {
      .asked.command = "run", .version = "1", .model = "m", .verified = &v};
  struct taken t = {0};
  char *page = page_of(&r, &t);
  char *top = strstr(page, "id=\"outputs\""), *end = strstr(top, "</section>");
  char *table = strstr(end, "id=\"verified\"");
  assert_non_null(strstr(top, "random inputs that fit the model"));
  const char *late = strstr(top, "<bdi>late"), *logits = strstr(top, "<bdi>logits"),
             *same = strstr(top, "<bdi>same");
  assert_true(late < logits && logits < same && same < end);
  assert_non_null(strstr(top, ">12.2<"));
  assert_true(strstr(top, "<bdi>case 1") > logits && strstr(top, ">30.0<") > end);
  assert_true(strstr(top, "/site") > end);
  const char *first = strstr(table, "<bdi>late"), *then = strstr(table, "<bdi>/site"),
             *case_2 = strstr(table, ">12.2<"), *case_1 = strstr(table, ">30.0<"),
             *last = strstr(table, "<bdi>same");
  assert_true(first < then && then < case_2 && case_2 < case_1 && case_1 < last);
  TABLE_FREE(&t, text);
  TABLE_FREE(&v, rows);
}

// Of a file that is longer than a unit there is no digest as a whole.
static void test_outputs(void **state) {
  (void)state;
  struct run_file files[] = {{"m.onnx", 10, "abc123", 1}, {"m.onnx.data", 1U << 30, NULL, 16}};
  struct run_report r = {.asked.command = "convert",
                         .version = "1",
                         .model = "m",
                         .digests.output = "def456",
                         .files.manifest.name = "m.onnx.manifest.json"};
  r.files.outputs = files;
  r.files.n_outputs = 2;
  struct taken t = {0};
  const char *page = page_of(&r, &t);
  static const char *const there[] = {">abc123<", "of 16 parts: see the manifest", ">def456<",
                                      "m.onnx.manifest.json", ">1,073,741,824<"};
  for (size_t i = 0; i < sizeof there / sizeof *there; i++)
    if (!strstr(page, there[i])) fail_msg("the page lacks: %s", there[i]);
  TABLE_FREE(&t, text);
  r.asked.dry = true; // nothing was written, so there are no digests of it
  page = page_of(&r, &t);
  assert_null(strstr(page, ">abc123<"));
  assert_null(strstr(page, "weir audit"));
  TABLE_FREE(&t, text);
}

int test_html(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts),
      cmocka_unit_test(test_long_texts_are_cut_between_characters),
      cmocka_unit_test(test_random_bytes),
      cmocka_unit_test(test_shared),
      cmocka_unit_test(test_markup),
      cmocka_unit_test(test_numbers),
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_memory_does_not_grow_with_rows),
      cmocka_unit_test(test_charts_of_odd_numbers),
      cmocka_unit_test(test_page_of_a_verification_alone),
      cmocka_unit_test(test_verdicts),
      cmocka_unit_test(test_verdicts_of_what_loses),
      cmocka_unit_test(test_outputs),
      cmocka_unit_test(test_outputs_of_models),
      cmocka_unit_test(test_charts_stand_for_as_much_as_they_must),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
