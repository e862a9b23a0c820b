// The catalogue is sound, and words become values: keys, kinds, escapes, canonical JSON, sentences
// that help.
#include "json/json.h"
#include "passes/catalogue/passes.h"
#include "passes/kit/kit.h"
#include "passes/thresholds/inside/stairs.h"
#include "pipeline/pipeline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

struct parsed {
  struct pipeline p;
  struct pass_values *v; // of the first step
  struct err err;
};

static int parse(struct parsed *p, const char *text) {
  *p = (struct parsed){0};
  pipeline_init(&p->p);
  const int rc = pipeline_add_text(&p->p, text, &p->err);
  if (rc == 0) p->v = &p->p.steps[0].values;
  return rc;
}

static const struct pass_value *value(const struct parsed *p, const char *key) {
  return &p->v->of[pass_values_option(p->v->pass, span_str(key))];
}

static void expect_json(const char *text, const char *json) {
  struct parsed p;
  if (parse(&p, text)) fail_msg("'%s' was refused: %s", text, p.err.msg);
  assert_string_equal(pass_values_json(p.v, &p.p.arena), json);
  pipeline_free(&p.p);
}

static void refuse(const char *text, const char *message, const char *hint) {
  struct parsed p;
  if (parse(&p, text) == 0) fail_msg("'%s' was accepted", text);
  assert_int_equal(p.err.kind, ERR_USAGE);
  if (!strstr(p.err.msg, message)) fail_msg("'%s': '%s' is not in '%s'", text, message, p.err.msg);
  if (!strstr(p.err.hint, hint)) fail_msg("'%s': '%s' is not in '%s'", text, hint, p.err.hint);
  pipeline_free(&p.p);
}

static size_t bytes_of(const struct pass_option *row) {
  return row->kind == PASS_FLAG                             ? sizeof(bool)
         : row->kind == PASS_TEXT || row->kind == PASS_LIST ? sizeof(char *)
                                                            : 4;
}

static bool fits(const struct pass *pass, const struct pass_option *row) {
  const bool wide = row->kind == PASS_COUNT || row->kind == PASS_NUMBER;
  const bool two = row->kind == PASS_CHOICE && pass_values_word(row->metavar, '|', 2).n == 0;
  const bool listed =
      row->kind != PASS_LIST || (row->member.count_at > row->member.at &&
                                 row->member.count_at + sizeof(uint32_t) <= pass->options_bytes);
  return listed && row->member.at + row->member.bytes <= pass->options_bytes &&
         (row->member.bytes == bytes_of(row) || (wide && row->member.bytes == 8) ||
          (two && row->member.bytes == 1));
}

static void test_rows_are_sound(void **state) {
  (void)state;
  for (uint32_t i = 0; i < passes_count(NULL); i++) {
    const struct pass *pass = passes_at(NULL, i);
    assert_ptr_equal(passes_find(NULL, span_str(pass->name)), pass);
    assert_true(pass->summary[0] && (!pass->needs || pass->needs[0]) &&
                (!pass->promises || pass->promises[0]));
    assert_true(!pass->run != !pass->run_together);
    assert_true(pass->visit || (pass->run != kit_run && pass->run != stairs_run));
    assert_true(pass->exactness < EXACTNESSES);
    assert_int_equal(pass->about[strlen(pass->about) - 1], '.');
    for (uint32_t o = 0; o < pass->n_options; o++) {
      const struct pass_option *row = &pass->options[o];
      assert_true((row->kind == PASS_FLAG) == (row->metavar == NULL));
      assert_int_equal(pass_values_option(pass, span_str(row->name)), o); // no two of a name
      assert_true(strlen(row->name) <= 47);                               // guess_distance
      assert_null(strpbrk(row->name, "= _"));
      const size_t line = strcspn(row->help, "\n"), all = strlen(row->help);
      if (line <= 10 || line > 100 || row->help[line - 1] == '.')
        fail_msg("%s:%s: '%.*s' is no line for a screen of help", pass->name, row->name, (int)line,
                 row->help);
      if (all > line && row->help[all - 1] != '.')
        fail_msg("%s:%s: its long text ends without a full stop", pass->name, row->name);
      if (!row->read && !fits(pass, row)) fail_msg("%s:%s has no room", pass->name, row->name);
    }
  }
  assert_null(passes_find(NULL, span_str("no")));
  assert_null(passes_at(NULL, passes_count(NULL)));
}

// A value that an option has not by itself; NULL: any text.
static const char *other_value(const struct pass_option *row, struct arena *a) {
  const struct span word = row->metavar ? pass_values_word(row->metavar, '|', 1) : span_of(NULL, 0);
  if (row->kind == PASS_FLAG)
    return row->preset && strcmp(row->preset, "true") == 0 ? "false" : "true";
  if (row->kind == PASS_COUNT || row->kind == PASS_NUMBER) return "37";
  if (row->kind == PASS_CHOICE)
    return arena_string(a, word.n ? word : pass_values_word(row->metavar, '|', 0));
  if (row->kind == PASS_LIST && strchr(row->metavar, ','))
    return arena_string(a, pass_values_word(row->metavar, ',', 1));
  return "some thing";
}

// The record of values, read again, is the same record: as they are, and with one option given.
static void read_again(struct pass_values *was, struct arena *a) {
  struct pass_values is;
  struct err err = {0};
  const char *json = pass_values_json(was, a);
  struct json_value *doc = json_parse(span_str(json), "record", &err);
  assert_non_null(doc);
  pass_values_start(&is, was->pass, a);
  if (pass_values_take_json(&is, doc, a, &err))
    fail_msg("%s: %s: %s", was->pass->name, json, err.msg);
  assert_string_equal(pass_values_json(&is, a), json);
  json_free(doc);
}

static void test_records_read_again(void **state) {
  (void)state;
  struct arena a = {0};
  for (uint32_t i = 0; i < passes_count(NULL); i++) {
    const struct pass *pass = passes_at(NULL, i);
    struct pass_values v;
    pass_values_start(&v, pass, &a);
    read_again(&v, &a);
    for (uint32_t o = 0; o < pass->n_options; o++) {
      struct err err = {0};
      pass_values_start(&v, pass, &a);
      if (pass->options[o].reads == PASS_READS_NOTHING &&
          pass_values_put(&v, o, span_str(other_value(&pass->options[o], &a)), &a, &err) == 0)
        read_again(&v, &a);
    }
  }
  arena_free(&a);
}

// Who gave a value follows from it: not for presets, nor for what another option stands for.
static void test_records_say_who_gave(void **state) {
  (void)state;
  static const struct {
    const char *text, *key;
    bool given;
  } rows[] = {
      {"quantize:block_size=64", "block_size", true},
      {"quantize", "block_size", false},
      {"dynamic:compat=onnxruntime", "form", false}, // compat stands for it
      {"dynamic:compat=onnxruntime,op_types=MatMul", "op_types", true},
      {"dynamic:form=integer", "form", true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct parsed p;
    struct pass_values v;
    struct err err = {0};
    assert_int_equal(parse(&p, rows[i].text), 0);
    struct json_value *doc =
        json_parse(span_str(pass_values_json(p.v, &p.p.arena)), "record", &err);
    pass_values_start(&v, p.v->pass, &p.p.arena);
    assert_int_equal(pass_values_take_json(&v, doc, &p.p.arena, &err), 0);
    if (v.of[pass_values_option(v.pass, span_str(rows[i].key))].given != rows[i].given)
      fail_msg("%s: %s", rows[i].text, rows[i].key);
    json_free(doc);
    pipeline_free(&p.p);
  }
}

static void test_records_that_are_none(void **state) {
  (void)state;
  static const char *const texts[] = {"[]",
                                      "{\"no_such_option\":1}",
                                      "{\"bits\":[4]}",
                                      "{\"bits\":{\"name\":\"x\"}}",
                                      "{\"bits\":0.5}",
                                      "{\"symmetric\":\"perhaps\"}",
                                      "{\"exclude\":\"x\"}",
                                      "{\"exclude\":[[]]}",
                                      "{\"ranges\":{\"name\":\"a/b\",\"sha256\":\"00\"}}",
                                      "{\"ranges\":{\"name\":\"\",\"sha256\":\"00\"}}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct arena a = {0};
    struct err err = {0};
    struct pass_values v;
    struct json_value *doc = json_parse(span_str(texts[i]), "record", &err);
    pass_values_start(&v, passes_find(NULL, span_str("quantize")), &a);
    if (pass_values_take_json(&v, doc, &a, &err) == 0) fail_msg("'%s' was accepted", texts[i]);
    assert_int_equal(err.kind, ERR_MODEL);
    json_free(doc);
    arena_free(&a);
  }
}

#define PRESETS                                                                                    \
  "{\"extended_conv1x1\":false,\"allow_non_unit_dilation\":false,\"form\":\"auto\","               \
  "\"strict_compat\":false}"

static void test_values(void **state) {
  (void)state;
  struct parsed p;
  expect_json("conv2matmul", PRESETS);
  expect_json("conv2matmul:form=auto,strict_compat=false", PRESETS); // said or not: the same
  expect_json("conv2matmul:extended-conv1x1,max_dilation=3,form=flat",
              "{\"extended_conv1x1\":true,\"allow_non_unit_dilation\":false,\"max_dilation\":3,"
              "\"form\":\"flat\",\"strict_compat\":false}");
  assert_int_equal(parse(&p, "conv2matmul:form=flat,form=batched"), 0); // the last counts
  assert_string_equal(value(&p, "form")->text, "batched");
  assert_true(value(&p, "form")->given);
  assert_false(value(&p, "strict_compat")->given);
  pipeline_free(&p.p);
}

static void expect_list(const char *text, const char *key, uint32_t n, const char *const *wanted) {
  struct parsed p;
  if (parse(&p, text)) fail_msg("'%s' was refused: %s", text, p.err.msg);
  assert_int_equal(value(&p, key)->n_list, n);
  for (uint32_t i = 0; i < n; i++)
    assert_string_equal(value(&p, key)->list[i], wanted[i]);
  pipeline_free(&p.p);
}

// Case does not count in words that a row lists, and some have other words; what is recorded is the row's.
static void test_other_words(void **state) {
  (void)state;
  static const char *const words[] = {"float16", "FP16", "half", "Float16"};
  static const char *const listed[] = {"MatMul", "Gather"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
    char text[32];
    snprintf(text, sizeof text, "cast:to=%s", words[i]);
    expect_json(text, "{\"to\":\"float16\",\"on_overflow\":\"fail\"}");
  }
  expect_json("cast:to=BF16", "{\"to\":\"bfloat16\",\"on_overflow\":\"fail\"}");
  expect_list("quantize:op_types=matmul+GATHER", "op-types", 2, listed);
  refuse("cast:to=float", "invalid value 'float' for to", "");
  refuse("cast:to=fp16=float16", "invalid value 'fp16=float16' for to", "");
  refuse("quantize:format=fp16", "invalid value 'fp16' for format", "");
}

// However options are said, what is recorded is the same; what means nothing beside the others is not.
static void test_records(void **state) {
  (void)state;
  static const char *const same[] = {
      "quantize:budget=1M,candidates=4:64+8:128",
      "quantize:candidates=4:64\\,8:128,budget=1M",
      "quantize:budget=1M,candidates=4:64,candidates=8:128",
  };
  struct parsed p;
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
    if (parse(&p, same[i])) fail_msg("'%s' was refused: %s", same[i], p.err.msg);
    assert_non_null(strstr(pass_values_json(p.v, &p.p.arena),
                           "\"budget\":\"1M\",\"candidates\":[\"4:64\",\"8:128\"]"));
    pipeline_free(&p.p);
  }
  expect_list("quantize:budget=1M", "candidates", 4,
              (const char *const[]){"4:128", "4:64", "4:32", "8:128"});
  refuse("quantize:budget=1M,candidates=4:64+", "for candidates", "");
  refuse("quantize:budget=1M,candidates=4:64\\,\\,8:64", "for candidates", "");
  if (parse(&p, "quantize")) fail_msg("%s", p.err.msg);
  assert_null(strstr(pass_values_json(p.v, &p.p.arena), "candidates"));
  assert_null(strstr(pass_values_json(p.v, &p.p.arena), "gate_action"));
  pipeline_free(&p.p);
  if (parse(&p, "quantize:gate=sqnr=20dB")) fail_msg("%s", p.err.msg);
  assert_non_null(strstr(pass_values_json(p.v, &p.p.arena), "\"gate_action\":\"raise\""));
  pipeline_free(&p.p);
  if (parse(&p, "shrink")) fail_msg("%s", p.err.msg);
  assert_null(strstr(pass_values_json(p.v, &p.p.arena), "levels"));
  pipeline_free(&p.p);
  if (parse(&p, "shrink:method=float_weights")) fail_msg("%s", p.err.msg);
  assert_non_null(strstr(pass_values_json(p.v, &p.p.arena), "\"levels\":256"));
  pipeline_free(&p.p);
}

// A pass that was called otherwise is known by that name too, and says the new one of itself.
static void test_older_names(void **state) {
  (void)state;
  static const char *const texts[] = {"quantize:bits=8", "matmulnbits:bits=8",
                                      "repeat(matmulnbits:bits=8)"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    struct parsed p;
    if (parse(&p, texts[i])) fail_msg("'%s' was refused: %s", texts[i], p.err.msg);
    assert_string_equal(p.v->pass->name, "quantize");
    assert_string_equal(value(&p, "bits")->text, "8");
    pipeline_free(&p.p);
  }
  assert_ptr_equal(passes_find(NULL, span_str("matmulnbits")),
                   passes_find(NULL, span_str("quantize")));
  refuse("matmulnbits:bitz=8", "pass 'quantize' has no option 'bitz'", "did you mean 'bits'?");
  refuse("matmulnbit", "pass 'matmulnbit' does not exist", "");
}

static void test_lists(void **state) {
  (void)state;
  static const char *const both[] = {"Gather", "MatMul"};
  static const char *const patterns[] = {"a+b", "re:^x{1,2}\\.y$", "c"};
  expect_list("quantize", "op-types", 1, both + 1);             // the preset
  expect_list("quantize:op_types=Gather", "op-types", 1, both); // replaces it
  expect_list("quantize:op_types=Gather+MatMul", "op-types", 2, both);
  expect_list("quantize:op_types=Gather\\,MatMul", "op-types", 2, both);
  expect_list("quantize:op_types=Gather,op_types=MatMul", "op-types", 2, both);
  expect_list("quantize:exclude=a\\+b+re:^x{1\\,2}\\.y$,exclude=c", "exclude", 3, patterns);
  refuse("quantize:op_types=Conv", "invalid value 'Conv' for op_types: use MatMul,Gemm,Gather", "");
  refuse("quantize:exclude=a+", "for exclude", "");
  refuse("quantize:min_elements=-1", "a whole number from 0", "");
  refuse("quantize:accuracy_level=2147483648", "a whole number from 0 to 2147483647", "");
  refuse("shrink:levels=4294967298", "a whole number from 1 to 2147483647", "");
}

static void test_escapes(void **state) {
  (void)state;
  // A backslash takes the meaning from a separator, and is itself anywhere else.
  refuse("conv2matmul:form=a\\,b\\=c\\\\d\\.e", "invalid value 'a,b=c\\d\\.e' for form", "");
  refuse("conv2matmul:form=a:b=c", "invalid value 'a:b=c' for form", "");
  refuse("a\\:b:form=flat", "pass 'a\\:b' does not exist", "weir passes");
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  refuse("", "pass '' does not exist", "weir passes");
  refuse("conv2matmull", "pass 'conv2matmull' does not exist", "did you mean 'conv2matmul'?");
  refuse("conv2", "pass 'conv2' does not exist", "did you mean 'conv2matmul'?");
  refuse("conv2matmul:", "an option is missing", "NAME:key=value");
  refuse("conv2matmul:form=flat,", "an option is missing", "NAME:key=value");
  refuse("conv2matmul:from=flat", "pass 'conv2matmul' has no option 'from'",
         "did you mean 'form'?");
  refuse("conv2matmul:zzz=1", "has no option 'zzz'", "weir passes conv2matmul");
  refuse("conv2matmul:form", "option 'form' of pass 'conv2matmul' needs a value", "form=");
  refuse("conv2matmul:form=", "use a value after", "");
  refuse("matmulnbits:asymmetric=true", "no option 'asymmetric'", "omit it");
  refuse("conv2matmul:form=fla", "invalid value 'fla' for form: use flat|batched|auto", "");
  refuse("conv2matmul:max_dilation=0", "a whole number from 1", "");
  refuse("conv2matmul:max_dilation=99999999999999999999", "a whole number from 1 to 2147483647",
         "");
  refuse("conv2matmul:strict_compat=yes", "true or false", "");
}

int test_passes(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_sound),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_records),
      cmocka_unit_test(test_other_words),
      cmocka_unit_test(test_older_names),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_records_read_again),
      cmocka_unit_test(test_records_say_who_gave),
      cmocka_unit_test(test_records_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
