// Pipelines: what files may hold, where what they may not hold is said to be, limits, canonical
// words.
#include "pipeline.h"

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

static int parse(struct pipeline *p, const char *text, struct err *err) {
  pipeline_init(p);
  *err = (struct err){0};
  return pipeline_parse(p, span_str(text), "p.yaml", err);
}

static void refuse(const char *text, const char *message, const char *hint) {
  struct pipeline p;
  struct err err;
  if (parse(&p, text, &err) == 0) fail_msg("'%s' was accepted", text);
  assert_int_equal(err.kind, ERR_USAGE);
  if (!strstr(err.msg, message)) fail_msg("'%s': '%s' is not in '%s'", text, message, err.msg);
  if (!strstr(err.hint, hint)) fail_msg("'%s': '%s' is not in '%s'", text, hint, err.hint);
  pipeline_free(&p);
}

static void same_words(const char *yaml, const char *word, const char *second) {
  struct pipeline p, q;
  struct err err;
  pipeline_init(&q);
  if (parse(&p, yaml, &err)) fail_msg("'%s' was refused: %s", yaml, err.msg);
  assert_int_equal(pipeline_add_text(&q, word, &err), 0);
  if (second) assert_int_equal(pipeline_add_text(&q, second, &err), 0);
  assert_string_equal(pipeline_command(&p), second ? "run" : "conv2matmul");
  assert_string_equal(pipeline_options(&p), pipeline_options(&q));
  pipeline_free(&p);
  pipeline_free(&q);
}

static void test_files_and_words_say_the_same(void **state) {
  (void)state;
  same_words("passes: [conv2matmul]", "conv2matmul", NULL);
  same_words("passes:\n- conv2matmul:\n", "conv2matmul", NULL);
  same_words("---\n# why\npasses:\n  - conv2matmul:\n      form: 'flat'\n...\n",
             "conv2matmul:form=flat", NULL);
  same_words("{\"passes\": [{\"conv2matmul\": {\"max-dilation\": 4, \"strict_compat\": true}}]}",
             "conv2matmul:max_dilation=4,strict_compat", NULL);
  same_words("passes:\n  - conv2matmul: {form: batched}\n  - conv2matmul\n",
             "conv2matmul:form=batched", "conv2matmul");
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  refuse("", "p.yaml:1:1: the file contains no pipeline", "");
  refuse("conv2matmul", "p.yaml:1:1: expected a mapping with the key 'passes' here", "");
  refuse("{}", "p.yaml:1:1: the key 'passes' is missing", "");
  refuse("pass: [conv2matmul]", "p.yaml:1:1: unknown key 'pass'",
         "the keys are 'passes', 'exactness', 'target', 'verify', 'verify_on' and 'reference'");
  refuse("passes: [conv2matmul]\npasses: [conv2matmul]", "p.yaml:2:1: a second key", "");
  refuse("passes: conv2matmul", "p.yaml:1:9: expected a list of passes here, found a word", "");
  refuse("passes: []", "p.yaml:1:9: the list of passes is empty", "");
  refuse("passes:\n  - [conv2matmul]", "p.yaml:2:5: expected the name of a pass", "");
  refuse("passes:\n  - conv2matmul\n  - shrinc", "p.yaml:3:5: there is no pass 'shrinc'", "");
  refuse("passes:\n  - conv2matmull", "p.yaml:2:5: there is no pass",
         "did you mean 'conv2matmul'?");
  refuse("passes:\n- conv2matmul:\n    from: flat", "p.yaml:3:5: pass 'conv2matmul' has no option",
         "did you mean 'form'?");
  refuse("passes:\n- conv2matmul:\n    form: fla", "p.yaml:3:11: invalid value 'fla' for form", "");
  refuse("passes:\n- conv2matmul:\n    form: ''", "p.yaml:3:11: option 'form' has no value", "");
  refuse("passes:\n- conv2matmul:\n    form: ~", "p.yaml:3:11: option 'form' has no value", "");
  refuse("passes:\n- conv2matmul:\n    form: {a: b}",
         "p.yaml:3:11: expected the value of an option", "");
  refuse("passes:\n- conv2matmul:\n    strict_compat: yes", "true or false", "");
  refuse("passes:\n- conv2matmul:\n    form: flat\n    form: flat",
         "p.yaml:4:5: option 'form' is given", "");
  refuse("passes:\n- conv2matmul: flat", "p.yaml:2:16: expected a mapping of options", "");
  refuse("passes:\n- conv2matmul:\n  form: flat", "p.yaml:3:3: a second name", "indented further");
  refuse("passes: [conv2matmul]\n---\npasses: [conv2matmul]", "p.yaml:2:1: a second document", "");
}

// What the options of a pass mean together has the place of its name.
static void test_what_does_not_go_together(void **state) {
  (void)state;
  refuse("passes:\n  - conv2matmul\n  - cast\n", "p.yaml:3:5: cast needs the type", "to=float16");
  refuse("passes: [conv2matmul, {cast: {exclude: x}}]", "p.yaml:1:24: cast needs the type", "");
  refuse("passes:\n- cast: {to: float16, exclude: 're:('}", "p.yaml:2:3: --exclude 're:('", "");
  refuse("passes:\n- quantize: {op_types: []}", "p.yaml:2:3: no operator types", "");
  refuse("passes:\n- quantize: {block_size: channel}", "p.yaml:2:3: ", "");
  refuse("passes:\n- quantize: {gate_action: skip}", "p.yaml:2:3: --gate-action", "sqnr=20dB");
  refuse("passes:\n- quantize: {candidates: '4:64'}", "p.yaml:2:3: --candidates", "measure");
  refuse("passes:\n- shrink: {levels: 300}", "p.yaml:2:3: --levels needs", "");
  refuse("passes:\n- shrink: {method: float_weights, levels: 1}",
         "p.yaml:2:3: --levels must be from 2", "");
  struct pipeline p;
  struct err err = {0};
  pipeline_init(&p);
  assert_int_equal(pipeline_add_text(&p, "cast", &err), -1);
  assert_string_equal(err.msg, "cast needs the type to store weights in");
  pipeline_free(&p);
}

static void test_what_yaml_has_beyond(void **state) {
  (void)state;
  refuse("passes: &a [conv2matmul]", "p.yaml:1:9: anchors, aliases and tags", "");
  refuse("passes: [*a]", "p.yaml:1:10: anchors, aliases and tags", "");
  refuse("passes: !!seq [conv2matmul]", "p.yaml:1:9: anchors, aliases and tags", "");
  refuse("passes:\n\t- conv2matmul", "p.yaml:2:1: the line is indented with a tab", "spaces");
  refuse("passes: [conv2matmul", "p.yaml:2:1: did not find", "");
  refuse("\xff\xff", "p.yaml: byte 0: ", "");
}

static void same_options(const char *yaml, const char *const *words, const char *json) {
  struct pipeline p, q;
  struct err err = {0};
  pipeline_init(&q);
  if (parse(&p, yaml, &err)) fail_msg("'%s' was refused: %s", yaml, err.msg);
  for (; *words; words++)
    if (pipeline_add_text(&q, *words, &err)) fail_msg("'%s' was refused: %s", *words, err.msg);
  q.exactness = p.exactness;
  assert_string_equal(pipeline_command(&p), "run");
  assert_string_equal(pipeline_options(&p), json);
  assert_string_equal(pipeline_options(&q), json);
  pipeline_free(&p);
  pipeline_free(&q);
}

#define CAST(to) "{\"name\":\"cast\",\"options\":{\"to\":\"" to "\",\"on_overflow\":\"fail\"}}"

// The options of a family go to those of its passes that have them, from words and from files.
static void test_families(void **state) {
  (void)state;
  same_options("passes:\n- fuse: {exclude: [a, b], include: c}",
               (const char *const[]){"fuse:exclude=a+b,include=c", NULL},
               "{\"passes\":[{\"name\":\"fuse/gemm\",\"options\":{\"exclude\":[\"a\",\"b\"],"
               "\"include\":[\"c\"]}},{\"name\":\"fuse/bn\",\"options\":{\"exclude\":[\"a\",\"b\"],"
               "\"include\":[\"c\"]}}]}");
  struct pipeline p;
  struct err err = {0};
  pipeline_init(&p);
  assert_int_equal(pipeline_add_text(&p, "tidy:at_hand,exclude=a", &err), 0);
  uint32_t hand = 0, exclude = 0;
  for (uint32_t i = 0; i < p.n_steps; i++) {
    const struct pass_values *v = &p.steps[i].values;
    const uint32_t o = pass_values_option(v->pass, span_str("at_hand"));
    const uint32_t e = pass_values_option(v->pass, span_str("exclude"));
    hand += o != NO_ID && v->of[o].given;
    exclude += e != NO_ID && v->of[e].given && v->of[e].n_list == 1;
  }
  assert_int_equal(hand, 1);
  assert_int_equal(exclude, p.n_steps - 2); // not those that look at initializers
  pipeline_free(&p);
  refuse("passes:\n- tidy: {exlcude: a}", "p.yaml:2:10: no pass of the family 'tidy' has",
         "did you mean 'exclude'?");
  refuse("passes:\n- tidy: {exclude: a, exclude: b}", "p.yaml:2:22: option 'exclude' is given", "");
  refuse("passes:\n- tidy: {at_hand: [true]}", "p.yaml:2:19: option 'at_hand' takes one", "");
  refuse("passes:\n- tidy: {exclude: 're:('}", "p.yaml:2:3: --exclude 're:('", "");
  refuse("passes:\n- tidy: ~\n- conv2matmull", "p.yaml:3:3: there is no pass", "");
}

static void test_repeats(void **state) {
  (void)state;
  same_options(
      "passes:\n- cast: {to: float16}\n- repeat: [cast: {to: bfloat16}]\n- cast: {to: float16}",
      (const char *const[]){"cast:to=float16", "repeat(cast:to=bfloat16)", "cast:to=float16", NULL},
      "{\"passes\":[" CAST("float16") ",{\"repeat\":[" CAST("bfloat16") "],\"rounds\":64}," CAST(
          "float16") "]}");
  same_options(
      "passes:\n- repeat:\n  - cast: {to: float16, exclude: a}\n  - cast: {to: float16}\n  rounds: "
      "3\n",
      (const char *const[]){"repeat=3(cast:to=float16,exclude=a;cast:to=float16)", NULL},
      "{\"passes\":[{\"repeat\":[{\"name\":\"cast\",\"options\":{\"exclude\":[\"a\"],\"to\":"
      "\"float16\",\"on_overflow\":\"fail\"}}," CAST("float16") "],\"rounds\":3}]}");
  // One pass under another cap than the usual one is no longer what its command alone would be.
  same_options("exactness: zero\npasses: [cast: {to: float16}]",
               (const char *const[]){"cast:to=float16", NULL},
               "{\"exactness\":\"zero\",\"passes\":[" CAST("float16") "]}");
  same_options("passes: [cast: {to: float16}, cast: {to: float16}]\nexactness: rounding",
               (const char *const[]){"cast:to=float16", "cast:to=float16", NULL},
               "{\"passes\":[" CAST("float16") "," CAST("float16") "]}");
  refuse("passes: [repeat: [repeat: [conv2matmul]]]", "p.yaml:1:19: a repeat inside a repeat", "");
  refuse("passes: [repeat: []]", "p.yaml:1:18: the list of passes is empty", "");
  refuse("passes: [repeat: conv2matmul]", "expected a list of passes", "");
  refuse("passes:\n- repeat: [conv2matmul]\n  rounds: 0", "p.yaml:3:11: 'rounds' must be", "");
  refuse("passes:\n- repeat: [conv2matmul]\n  times: 2", "only 'rounds' is allowed", "");
  refuse("passes:\n- repeat: [conv2matmul]\n  rounds: 2\n  a: b", "a second name", "");
  refuse("exactness: rough\npasses: [conv2matmul]", "p.yaml:1:12: invalid value 'rough'", "");
  refuse("exactness: zero\nexactness: zero\npasses: [conv2matmul]", "a second key", "");
  refuse("passes: [conv2matmul]\nfoo: bar", "p.yaml:2:1: unknown key 'foo'", "");
  static const char *const bad[] = {
      "repeat()", "repeat=0(conv2matmul)", "repeat=x(conv2matmul)",      "repeat(conv2matmul",
      "repeat",   "repeat(conv2matmul,)",  "repeat(repeat(conv2matmul))"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct pipeline p;
    struct err err = {0};
    pipeline_init(&p);
    if (pipeline_add_text(&p, bad[i], &err) == 0) fail_msg("'%s' was accepted", bad[i]);
    assert_int_equal(err.kind, ERR_USAGE);
    pipeline_free(&p);
  }
}

static void test_limits(void **state) {
  (void)state;
  static char deep[PIPELINE_MAX_BYTES], many[4096], large[PIPELINE_MAX_BYTES + 2];
  memset(deep, '[', sizeof deep - 1);
  refuse(deep, "p.yaml:1:1: expected a mapping", "");
  memcpy(deep, "passes: ", 8);
  refuse(deep, "p.yaml:1:10: expected the name of a pass", "");
  strcpy(many, "passes:\n");
  for (int i = 0; i < 200; i++)
    strcat(many, "- conv2matmul\n");
  struct pipeline p;
  struct err err;
  assert_int_equal(parse(&p, many, &err), 0);
  assert_int_equal(p.n_steps, 200);
  pipeline_free(&p);
  memset(large, ' ', sizeof large - 1);
  refuse(large, "more than 65536 bytes", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files_and_words_say_the_same),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_what_does_not_go_together),
      cmocka_unit_test(test_what_yaml_has_beyond),
      cmocka_unit_test(test_families),
      cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
