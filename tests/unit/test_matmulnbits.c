// The words of quantize's options, and which options do not go together. What the pass does to
// graphs is in tests/passes/quantize; that bytes and numbers are right is for the kernels' and the
// end-to-end tests.
#include "passes/nbits/matmulnbits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void overrides_are_parsed(void **state) {
  (void)state;
  struct arena a = {0};
  struct matmulnbits_override o;
  struct err err = {0};
  assert_int_equal(matmulnbits_override_parse("re:a=b=asym:channel", &o, &a, &err), 0);
  assert_string_equal(o.pattern.text, "re:a=b");
  assert_true(o.has_symmetric && !o.scheme.symmetric && o.has_block && o.scheme.block == 0);
  assert_false(o.has_bits);
  name_pattern_done(&o.pattern);
  static const char *const bad[] = {"w",        "w=",        "w=bits3",       "w=g20", "w=sym:asym",
                                    "w=bits4:", "w=bits4:x", "w=bits4:bits4", "=sym",  "re:(=sym"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    err = (struct err){0};
    assert_int_equal(matmulnbits_override_parse(bad[i], &o, &a, &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
    assert_non_null(strstr(err.msg, "--tensor"));
  }
  arena_free(&a);
}

static void candidate_words(void **state) {
  (void)state;
  struct arena a = {0};
  // Text, the algorithm of those that name none, and the words that it stands for (NULL: refused).
  static const struct {
    const char *text;
    enum matmulnbits_algorithm preset;
    const char *means;
  } cases[] = {{"4:64", MATMULNBITS_DEFAULT, "4:64"},
               {"4:64:rtn", MATMULNBITS_DEFAULT, "4:64:rtn"},
               {"2:16:k_quant", MATMULNBITS_DEFAULT, "2:16:k_quant"},
               {"4:256:hqq", MATMULNBITS_RTN, "4:256:hqq"},
               {"8:128:sym:rtn", MATMULNBITS_DEFAULT, "8:128:sym:rtn"},
               {"8:128:rtn:sym", MATMULNBITS_DEFAULT, "8:128:sym:rtn"},
               {"4:64:asym:rtn", MATMULNBITS_DEFAULT, "4:64:rtn"},
               {"4:64", MATMULNBITS_RTN, "4:64:rtn"},
               {"4:64:default", MATMULNBITS_RTN, "4:64"},
               {"8:64", MATMULNBITS_K_QUANT, "8:64:k_quant"},
               {"8:64", MATMULNBITS_HQQ, "8:64"},
               {"8:64:hqq", MATMULNBITS_DEFAULT, "8:64:hqq"}, // refused by the check
               {"4:channel:sym", MATMULNBITS_DEFAULT, "4:channel:sym"},
               {"4:64:rtn:hqq", MATMULNBITS_DEFAULT, NULL},
               {"4:64:sym:asym", MATMULNBITS_DEFAULT, NULL},
               {"4:64:RTN", MATMULNBITS_DEFAULT, NULL},
               {"4:64:", MATMULNBITS_DEFAULT, NULL},
               {"rtn:4:64", MATMULNBITS_DEFAULT, NULL},
               {"4:rtn", MATMULNBITS_DEFAULT, NULL},
               {"4", MATMULNBITS_DEFAULT, NULL}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct matmulnbits_scheme s = {.algorithm = cases[i].preset};
    struct err err = {0};
    const int rc = matmulnbits_candidate_parse(span_str(cases[i].text), &s, &err);
    assert_int_equal(rc, cases[i].means ? 0 : -1);
    if (cases[i].means)
      assert_string_equal(matmulnbits_scheme_text(&s, &a), cases[i].means);
    else
      assert_int_equal(err.kind, ERR_USAGE);
  }
  arena_free(&a);
}

static void options_that_do_not_go_together(void **state) {
  (void)state;
  const struct matmulnbits_options good = {.scheme = {.bits = 4, .block = 32},
                                           .op_types = MATMULNBITS_MATMUL};
  struct err none = {0};
  struct matmulnbits_scheme other[2] = {{.bits = 4, .block = 64},
                                        {.bits = 4, .block = 64, .algorithm = MATMULNBITS_RTN}};
  struct matmulnbits_scheme bytes = {.bits = 8, .block = 64, .algorithm = MATMULNBITS_HQQ};
  struct matmulnbits_scheme symmetric = {
      .bits = 4, .block = 64, .symmetric = true, .algorithm = MATMULNBITS_HQQ};
  struct matmulnbits_options bad[12];
  for (size_t i = 0; i < 12; i++)
    bad[i] = good;
  bad[8].candidates = bad[9].candidates = other, bad[8].n_candidates = bad[9].n_candidates = 2;
  bad[8].qdq = true;
  bad[9].op_types |= MATMULNBITS_GATHER;
  bad[10].candidates = &bytes, bad[10].n_candidates = 1;
  bad[11].candidates = &symmetric, bad[11].n_candidates = 1;
  bad[0].scheme.block = 0;
  bad[1].qdq = true, bad[1].scheme.algorithm = MATMULNBITS_RTN;
  bad[2].qdq = true, bad[2].accuracy_level = 4;
  bad[3].scheme.algorithm = MATMULNBITS_HQQ, bad[3].op_types |= MATMULNBITS_GATHER;
  bad[4].scheme.algorithm = MATMULNBITS_HQQ, bad[4].scheme.symmetric = true;
  bad[5].op_types = 0;
  bad[6].accuracy_level = 5;
  bad[7].scheme.algorithm = MATMULNBITS_HQQ, bad[7].scheme.bits = 8;
  assert_int_equal(matmulnbits_options_check(&good, &none), 0);
  struct matmulnbits_options mixed = good;
  mixed.candidates = other, mixed.n_candidates = 2, mixed.budget = 1;
  assert_int_equal(matmulnbits_options_check(&mixed, &none), 0);
  for (size_t i = 0; i < 12; i++) {
    struct err err = {0};
    assert_int_equal(matmulnbits_options_check(&bad[i], &err), -1);
    assert_int_equal(err.kind, ERR_USAGE);
  }
}

int test_matmulnbits(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(overrides_are_parsed),
      cmocka_unit_test(candidate_words),
      cmocka_unit_test(options_that_do_not_go_together),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
