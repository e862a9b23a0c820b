// Pipelines: what files may hold, where what they may not hold is said to be, limits, canonical
// words.
#include "pipeline/config/pipeline_yaml.h"

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
  refuse("pass: [conv2matmul]", "p.yaml:1:1: unknown key 'pass'", "did you mean 'passes'?");
  refuse("what: [conv2matmul]", "p.yaml:1:1: unknown key 'what'",
         "the keys are 'passes', 'exactness', 'target', 'verify', 'verify_on', 'reference', and "
         "those");
  refuse("passes: [conv2matmul]\npasses: [conv2matmul]", "p.yaml:2:1: a second key", "");
  refuse("passes: conv2matmul", "p.yaml:1:9: expected a list of passes here, found a word", "");
  refuse("passes: []", "p.yaml:1:9: the list of passes is empty", "");
  refuse("passes:\n  - conv2matmul\n  - []", "p.yaml:3:5: the list of passes is empty", "");
  refuse("passes:\n  - {[a]: b}", "p.yaml:2:6: expected the name of a pass", "");
  refuse("passes:\n  - conv2matmul\n  - shrinc", "p.yaml:3:5: pass 'shrinc' does not exist", "");
  refuse("passes:\n  - conv2matmull", "p.yaml:2:5: pass 'conv2matmull' does not exist",
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
  refuse("passes: [*a]", "p.yaml:1:10: there is no anchor 'a' before this alias", "");
  refuse("passes: &a [conv2matmul, *a]", "p.yaml:1:26: the alias 'a' is inside the value", "");
  refuse("passes: !!seq [conv2matmul]", "p.yaml:1:9: tags are not allowed", "without them");
  refuse("passes: [&a conv2matmul, *a: {from: flat}]", "p.yaml:1:31: pass 'conv2matmul' has no",
         "");
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
  refuse("passes:\n- tidy: ~\n- conv2matmull", "p.yaml:3:3: pass 'conv2matmull' does not exist",
         "");
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
  const char *nested =
      "passes: [repeat: [cast: {to: float16}, repeat: [cast: {to: float16}], cast: {to: float16}]]";
  struct pipeline inside;
  struct err why;
  assert_int_equal(parse(&inside, nested, &why), 0);
  assert_string_equal(pipeline_options(&inside),
                      "{\"passes\":[{\"repeat\":[" CAST("float16") ",{\"repeat\":[" CAST(
                          "float16") "],\"rounds\":64}," CAST("float16") "],\"rounds\":64}]}");
  pipeline_free(&inside);
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

// Lists inside lists, and what stands for them, are as if they were written out.
static void test_lists_in_lists(void **state) {
  (void)state;
  same_words("passes: [[conv2matmul], [[conv2matmul: {form: flat}]]]", "conv2matmul",
             "conv2matmul:form=flat");
  same_words("passes: [[&a conv2matmul], *a]", "conv2matmul", "conv2matmul");
  same_words("passes: [&a [conv2matmul: &o {form: flat}], conv2matmul: *o]",
             "conv2matmul:form=flat", "conv2matmul:form=flat");
  // Ten aliases of ten aliases of …
  char bomb[1024] = "passes:\n- &a0 [conv2matmul]\n";
  for (int i = 1; i < 9; i++) {
    char line[96];
    const int n = i - 1;
    snprintf(line, sizeof line, "- &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i,
             n, n, n, n, n, n, n, n, n, n);
    strcat(bomb, line);
  }
  struct pipeline p;
  struct err err;
  assert_int_equal(parse(&p, bomb, &err), -1);
  assert_non_null(strstr(err.msg, "with its aliases replaced, the file is too large"));
  pipeline_free(&p);
}

static struct pipeline accept(const char *text) {
  struct pipeline p;
  struct err err;
  if (parse(&p, text, &err)) fail_msg("'%s' was refused: %s", text, err.msg);
  return p;
}

// What only onnx-passes has makes a file one of its own, whose cap is finite unless it says more.
static void test_files_of_onnx_passes(void **state) {
  (void)state;
  static const struct {
    const char *text;
    enum exactness exactness;
  } files[] = {{"passes: [conv2matmul]", EXACTNESS_ROUNDING},
               {"passes: [conv2matmul]\nverify: {tolerance: {rtol: 1}}", EXACTNESS_ROUNDING},
               {"passes: [algebraic, convert-opset18]", EXACTNESS_FINITE},
               {"passes: [GroupAdd, streamline.algebraic.numeric.GroupMul]", EXACTNESS_FINITE},
               {"passes: [algebraic/GroupAdd]", EXACTNESS_FINITE},
               {"passes: [GroupAdd, conv2matmul]", EXACTNESS_ROUNDING},
               {"passes: [cleanup]", EXACTNESS_FINITE},
               {"passes: [RemoveUnusedNodes, unique-names]", EXACTNESS_FINITE},
               {"passes: [unique-names, infer]", EXACTNESS_ROUNDING},
               {"passes: [tidy]", EXACTNESS_ROUNDING},
               {"passes: [tidy/unused-nodes, cleanup]", EXACTNESS_ROUNDING},
               {"passes: [GroupAdd, optimize]", EXACTNESS_ROUNDING},
               {"exactness: zero\npasses: [algebraic]", EXACTNESS_ZERO},
               {"passes: [conv2matmul]\nexhaustive: no", EXACTNESS_FINITE},
               {"imports: []\npasses: [conv2matmul]", EXACTNESS_FINITE},
               {"logging: {verbose: off}\npasses: [conv2matmul]", EXACTNESS_FINITE},
               {"reference: {inp: [a.npy]}\npasses: [conv2matmul]", EXACTNESS_FINITE},
               {"verify: {true: true}\npasses: [conv2matmul]", EXACTNESS_FINITE},
               {"verify: {metrics: {}}\npasses: [conv2matmul]", EXACTNESS_FINITE},
               {"fold_constants:\npasses: [conv2matmul]", EXACTNESS_FINITE},
               {"exhaustive: true", EXACTNESS_FINITE}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    struct pipeline p = accept(files[i].text);
    if (p.exactness != files[i].exactness) fail_msg("'%s': %d", files[i].text, (int)p.exactness);
    assert_int_equal(p.nothing != NULL, p.n_steps == 0);
    pipeline_free(&p);
  }
}

// A tolerance is for all passes in a file of ours, and for those that promise less in one of theirs.
static void test_tolerances(void **state) {
  (void)state;
  struct pipeline p = accept("passes: [conv2matmul]\nverify: {tolerance: {rtol: 0.5}}");
  assert_int_equal(p.verify.proof, PIPELINE_PROOF_BOUNDS);
  assert_true(p.tolerance.rtol < 0);
  pipeline_free(&p);
  p = accept("passes: [algebraic]\nverify: {tolerance: {rtol: 0.5, equal_nan: true}}");
  assert_int_equal(p.verify.proof, PIPELINE_PROOF_PROMISE);
  assert_true(p.tolerance.rtol == 0.5 && p.tolerance.atol == 1e-8);
  assert_int_equal(p.n_notes, 0);
  pipeline_free(&p);
  p = accept("passes: [algebraic]\nverify: {tolerance: , metrics: {accuracy: [0.9, 1.0], "
             "max_abs_error: [0, 1.0e-3]}}\nreference: {inp: [a.npy, b.npz], out: c.npy}");
  assert_int_equal(p.n_metrics, 2);
  assert_int_equal(p.metrics[1].metric, TASK_MAX_ABS_ERROR);
  assert_true(p.metrics[0].least == 0.9 && p.metrics[1].most == 1e-3);
  assert_string_equal(p.metrics[1].place, "p.yaml:2:55");
  assert_int_equal(p.inputs.n_list, 2);
  assert_string_equal(p.inputs.list[1], "b.npz");
  assert_string_equal(p.outputs.list[0], "c.npy");
  pipeline_free(&p);
  static const char *const off[] = {"{}", "no", "false", "~", "off", ""};
  for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
    char text[64];
    snprintf(text, sizeof text, "passes: [algebraic]\nverify: %s", off[i]);
    p = accept(text);
    assert_int_equal(p.verify.proof, PIPELINE_PROOF_OFF);
    pipeline_free(&p);
  }
  p = accept("passes: [algebraic]\nverify: yes");
  assert_int_equal(p.verify.proof, PIPELINE_PROOF_PROMISE);
  pipeline_free(&p);
}

// What a section says reaches the steps of its pass that say nothing themselves; the rest is said.
static void test_sections(void **state) {
  (void)state;
  struct err err = {0};
  struct pipeline p =
      accept("fold_constants: {output_size_limit: 4096, input_size_limit: 7, onnx_shape_inference: "
             "true}\nlogging: {verbose: yes, checkpoint: a.onnx, keep_intermediates: false}\n"
             "layouts: {inp: [null, {assumes: [N, C], perm: [1, 0]}]}\n"
             "onnxruntime:\n  providers: [[CUDAExecutionProvider, {device_id: 0}]]\nexhaustive: "
             "True\npasses: [optimize/fold-large, {optimize/fold-large: {fold-limit: 9}}]\n");
  assert_int_equal(pipeline_settle(&p, 0, false, &err), 0);
  assert_string_equal(pipeline_options(&p),
                      "{\"exactness\":\"finite\",\"passes\":[{\"repeat\":["
                      "{\"name\":\"optimize/fold-large\",\"options\":{\"fold_limit\":\"4096\"}},"
                      "{\"name\":\"optimize/fold-large\",\"options\":{\"fold_limit\":\"9\"}}"
                      "],\"rounds\":64}]}");
  assert_true(p.verbose && p.exhaustive && !p.intermediates);
  assert_string_equal(p.checkpoint, "a.onnx");
  assert_string_equal(p.notes[0].sentence, "p.yaml:1:43: 'fold_constants.input_size_limit' has no "
                                           "effect: constants of any size are folded");
  assert_string_equal(p.notes[1].sentence, "p.yaml:5:3: 'onnxruntime.providers' has no effect: "
                                           "models are run on the processor");
  pipeline_free(&p);
}

static void test_what_does_not_fit_of_onnx_passes(void **state) {
  (void)state;
  refuse("exhaustiv: true", "p.yaml:1:1: unknown key 'exhaustiv'", "did you mean 'exhaustive'?");
  refuse("fold_constant: {}", "p.yaml:1:1: unknown key", "did you mean 'fold_constants'?");
  refuse("exhaustive: maybe", "p.yaml:1:13: expected true or false here, found a word", "");
  refuse("exhaustive: [true]", "p.yaml:1:13: expected true or false here, found a list", "");
  refuse("imports: my_passes", "p.yaml:1:10: expected a list of modules", "");
  refuse("imports: [my_passes.more]", "p.yaml:1:11: 'my_passes.more' is a Python module", "rules");
  refuse("imports: [onnx_passes.passes.import.qonnx]", "p.yaml:1:11: onnx-passes has no module",
         "did you mean 'onnx_passes.passes.imports.qonnx'?");
  refuse("imports: [base.yaml]", "p.yaml:1:11: a pipeline that is not a file cannot import", "");
  refuse("logging: {checkpoints: a}", "p.yaml:1:11: 'logging' has no key 'checkpoints'",
         "did you mean 'checkpoint'?");
  refuse("logging: {keep_intermediate: a}", "p.yaml:1:11: ", "did you mean 'keep_intermediates'?");
  refuse("logging: {verbose: 3}", "p.yaml:1:20: expected true or false", "");
  refuse("logging: {checkpoint: true}", "p.yaml:1:23: expected the name of a file, or false", "");
  refuse("logging: true", "p.yaml:1:10: expected a mapping here", "");
  refuse("logging: {verbose: no, verbose: no}", "p.yaml:1:24: a second key 'verbose'", "");
  refuse("fold_constants: {size: 3}", "p.yaml:1:18: 'fold_constants' has no key 'size'", "");
  refuse("fold_constants: {output_size_limit: -1}", "p.yaml:1:37: expected a whole number", "");
  refuse("fold_constants: {}\nfold_constants: {}", "p.yaml:2:1: a second key 'fold_constants'", "");
  refuse("layouts: {inp: [{perm: [0]}]}", "p.yaml:1:17: a layout has 'assumes' and 'perm'", "");
  refuse("layouts: {inp: [{perms: [0]}]}", "p.yaml:1:18: a layout has 'assumes' and 'perm'", "");
  refuse("layouts: {inp: [{perm: [0], assumes: [N], perm: [1]}]}", "it is given twice", "");
  refuse("layouts: {inp: 3}", "p.yaml:1:16: expected a list of layouts", "");
  refuse("reference: {in: [a.npy]}", "p.yaml:1:13: 'reference' has no key 'in'", "'inp'");
  refuse("reference: {inp: [[a.npy]]}", "p.yaml:1:19: expected the name of a .npy", "");
  refuse("verify: {metrics: {top_5: [0, 1]}}", "p.yaml:1:20: there is no metric 'top_5'",
         "top_5_accuracy");
  refuse("verify: {metrics: {accuracy: 0.5}}", "p.yaml:1:30: expected a list of minimum", "");
  refuse("verify: {metrics: {accuracy: [1, 0]}}", "p.yaml:1:20: the range of 'accuracy' is empty",
         "");
  refuse("verify: {metrics: {accuracy: [-.inf, .inf]}}", "would allow everything", "");
  refuse("verify: {metrics: {accuracy: [0, 1], accuracy: [0, 1]}}", "p.yaml:1:38: a second key",
         "");
  refuse("verify: {tolerance: {rtol: 1, rtol: 2}}", "it is given twice", "");
  refuse("verify: {tolerances: {}}", "p.yaml:1:10: 'verify' is", "did you mean 'tolerance'?");
  refuse("passes:\n- GroupAdd:\n  verify: {metrics: {accuracy: [0, 1]}}", "p.yaml:3:12: ", "");
}

static void test_limits(void **state) {
  (void)state;
  static char deep[PIPELINE_MAX_BYTES], many[4096], large[PIPELINE_MAX_BYTES + 2];
  memset(deep, '[', sizeof deep - 1);
  refuse(deep, "p.yaml:1:1: expected a mapping", "");
  memcpy(deep, "passes: ", 8);
  refuse(deep, "p.yaml:1:18: lists are nested more than 8 deep", "");
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

int test_pipeline(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_files_and_words_say_the_same),
      cmocka_unit_test(test_what_does_not_fit),
      cmocka_unit_test(test_what_does_not_go_together),
      cmocka_unit_test(test_what_yaml_has_beyond),
      cmocka_unit_test(test_families),
      cmocka_unit_test(test_repeats),
      cmocka_unit_test(test_lists_in_lists),
      cmocka_unit_test(test_files_of_onnx_passes),
      cmocka_unit_test(test_tolerances),
      cmocka_unit_test(test_sections),
      cmocka_unit_test(test_what_does_not_fit_of_onnx_passes),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
