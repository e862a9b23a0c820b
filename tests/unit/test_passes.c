// The catalogue is sound, and words become values: keys, kinds, escapes, canonical JSON, sentences
// that help.
#include "pass.h"

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
  enum pass_id pass;
  struct pass_value v[PASS_OPTIONS];
  struct arena arena;
  struct err err;
};

static int parse(struct parsed *p, const char *text) {
  *p = (struct parsed){0};
  return pass_values_parse(text, &p->pass, p->v, &p->arena, &p->err);
}

static void expect_json(const char *text, const char *json) {
  struct parsed p;
  if (parse(&p, text)) fail_msg("'%s' was refused: %s", text, p.err.msg);
  assert_string_equal(pass_values_json(p.pass, p.v, &p.arena), json);
  arena_free(&p.arena);
}

static void refuse(const char *text, const char *message, const char *hint) {
  struct parsed p;
  if (parse(&p, text) == 0) fail_msg("'%s' was accepted", text);
  assert_int_equal(p.err.kind, ERR_USAGE);
  if (!strstr(p.err.msg, message)) fail_msg("'%s': '%s' is not in '%s'", text, message, p.err.msg);
  if (!strstr(p.err.hint, hint)) fail_msg("'%s': '%s' is not in '%s'", text, hint, p.err.hint);
  arena_free(&p.arena);
}

static void test_rows_are_sound(void **state) {
  (void)state;
  for (uint32_t i = 0; i < PASSES; i++) {
    const struct pass_row *row = pass_row(i);
    assert_int_equal(pass_by_name(span_str(row->name)), i);
    assert_true(row->summary[0] && row->needs[0] && row->promises[0] && row->run);
    assert_int_equal(row->about[strlen(row->about) - 1], '.');
  }
  assert_int_equal(pass_by_name(span_str("no")), PASSES);
  for (uint32_t i = 0; i < PASS_OPTIONS; i++) {
    const struct pass_option *row = pass_option(i);
    assert_true(row->passes != 0 && row->passes >> PASSES == 0);
    assert_true((row->kind == PASS_FLAG) == (row->metavar == NULL));
    for (uint32_t k = 0; k < i; k++) // no pass has two of a name
      if (pass_option(k)->passes & row->passes)
        assert_string_not_equal(pass_option(k)->name, row->name);
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
  assert_string_equal(p.v[PASS_OPT_FORM].text, "batched");
  assert_true(p.v[PASS_OPT_FORM].given);
  assert_false(p.v[PASS_OPT_STRICT_COMPAT].given);
  arena_free(&p.arena);
}

static void expect_list(const char *text, enum pass_option_id o, uint32_t n,
                        const char *const *wanted) {
  struct parsed p;
  if (parse(&p, text)) fail_msg("'%s' was refused: %s", text, p.err.msg);
  assert_int_equal(p.v[o].n_list, n);
  for (uint32_t i = 0; i < n; i++)
    assert_string_equal(p.v[o].list[i], wanted[i]);
  arena_free(&p.arena);
}

static void test_lists(void **state) {
  (void)state;
  static const char *const both[] = {"Gather", "MatMul"};
  static const char *const patterns[] = {"a+b", "re:^x{1,2}\\.y$", "c"};
  expect_list("matmulnbits", PASS_OPT_OP_TYPES, 1, both + 1);             // the preset
  expect_list("matmulnbits:op_types=Gather", PASS_OPT_OP_TYPES, 1, both); // replaces it
  expect_list("matmulnbits:op_types=Gather+MatMul", PASS_OPT_OP_TYPES, 2, both);
  expect_list("matmulnbits:op_types=Gather\\,MatMul", PASS_OPT_OP_TYPES, 2, both);
  expect_list("matmulnbits:op_types=Gather,op_types=MatMul", PASS_OPT_OP_TYPES, 2, both);
  expect_list("matmulnbits:exclude=a\\+b+re:^x{1\\,2}\\.y$,exclude=c", PASS_OPT_EXCLUDE, 3,
              patterns);
  refuse("matmulnbits:op_types=Conv",
         "'Conv' is no value for op-types: it takes MatMul,Gemm,Gather", "");
  refuse("matmulnbits:exclude=a+", "is no value for exclude", "");
  refuse("matmulnbits:min_elements=-1", "a whole number from 0", "");
  refuse("matmulnbits:accuracy_level=2147483648", "a whole number from 0", "");
  refuse("shrink:levels=4294967298", "a whole number from 1", "");
}

static void test_escapes(void **state) {
  (void)state;
  // A backslash takes the meaning from a separator, and is itself anywhere else.
  refuse("conv2matmul:form=a\\,b\\=c\\\\d\\.e", "'a,b=c\\d\\.e' is no value for form", "");
  refuse("conv2matmul:form=a:b=c", "'a:b=c' is no value for form", "");
  refuse("a\\:b:form=flat", "there is no pass 'a\\:b'", "weir passes");
}

static void test_what_does_not_fit(void **state) {
  (void)state;
  refuse("", "there is no pass ''", "weir passes");
  refuse("conv2matmull", "there is no pass 'conv2matmull'", "did you mean 'conv2matmul'?");
  refuse("conv2", "there is no pass 'conv2'", "did you mean 'conv2matmul'?");
  refuse("conv2matmul:", "an option is missing", "NAME:key=value");
  refuse("conv2matmul:form=flat,", "an option is missing", "NAME:key=value");
  refuse("conv2matmul:from=flat", "pass 'conv2matmul' has no option 'from'",
         "did you mean 'form'?");
  refuse("conv2matmul:zzz=1", "has no option 'zzz'", "weir passes conv2matmul");
  refuse("conv2matmul:form", "option 'form' of pass 'conv2matmul' needs a value", "form=");
  refuse("conv2matmul:form=", "takes something", "");
  refuse("conv2matmul:form=fla", "'fla' is no value for form: it takes flat|batched|auto", "");
  refuse("conv2matmul:max_dilation=0", "a whole number from 1", "");
  refuse("conv2matmul:max_dilation=99999999999999999999", "a whole number from 1", "");
  refuse("conv2matmul:strict_compat=yes", "true or false", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_rows_are_sound),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_lists),
      cmocka_unit_test(test_escapes),
      cmocka_unit_test(test_what_does_not_fit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
