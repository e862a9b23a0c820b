// The index: names, values, use lists, attributes, constants.
#include "model/inside/model_memory.h"
#include "model_builder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static void test_names(void **state) {
  (void)state;
  struct model m;
  model_init(&m);
  char name[32];
  assert_int_equal(model_intern(&m, span_str("")), m.empty);
  for (uint32_t i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, "layer.%u.weight", i);
    assert_int_equal(model_intern(&m, span_str(name)), i + 1);
  }
  for (uint32_t i = 0; i < 5000; i++) {
    snprintf(name, sizeof name, "layer.%u.weight", i);
    assert_int_equal(model_find_name(&m, span_str(name)), i + 1);
    assert_true(span_is(model_name(&m, i + 1), name));
    assert_string_equal(model_name_str(&m, i + 1), name);
  }
  assert_int_equal(model_find_name(&m, span_str("layer.5000.weight")), NO_ID);
  assert_int_equal(model_find_name(&m, span_str("layer.1.weigh")), NO_ID);
  const uint32_t nul = model_intern(&m, span_of("a\0b", 3));
  assert_int_equal(model_name(&m, nul).n, 3);
  assert_int_not_equal(nul, model_intern(&m, span_str("a")));
  model_free(&m);
}

// A part of an interned name is interned while the table under it moves.
static void test_names_of_names(void **state) {
  (void)state;
  struct model m;
  model_init(&m);
  char name[64] = "";
  uint32_t id = model_intern(&m, span_str("0123456789abcdefghijklmnopqrstuvwxyz"));
  for (int i = 0; i < 2000; i++) {
    const struct span whole = model_name(&m, id);
    const struct span part = span_of(whole.at + 1 + i % 7, (size_t)(3 + i % 20));
    memcpy(name, part.at, part.n);
    const uint32_t made = model_intern(&m, part);
    assert_memory_equal(model_name(&m, made).at, name, part.n);
    snprintf(name, sizeof name, "%d-0123456789abcdefghijklmnopqrstuvwxyz", i);
    id = model_intern(&m, span_str(name));
  }
  model_free(&m);
}

static void test_values(void **state) {
  (void)state;
  struct model m;
  struct build b;
  char name[32];
  build_begin(&b, &m);
  const uint32_t other = 7; // a graph id of its own; only the hash sees it here
  for (uint32_t i = 0; i < 3000; i++) {
    snprintf(name, sizeof name, "x%u", i);
    const uint32_t id = model_intern(&m, span_str(name));
    assert_int_equal(model_value_in(&m, 0, id), NO_ID);
    assert_int_equal(model_add_value(&m, 0, id), 2 * i);
    assert_int_equal(model_add_value(&m, other, id), 2 * i + 1);
  }
  for (uint32_t i = 0; i < 3000; i += 3) {
    if (i % 2)
      model_kill_value(&m, 2 * i);
    else
      model_rename_value(&m, 2 * i, model_intern(&m, span_of(&i, sizeof i)));
  }
  for (uint32_t i = 0; i < 3000; i++) {
    snprintf(name, sizeof name, "x%u", i);
    const uint32_t id = model_find_name(&m, span_str(name));
    assert_int_equal(model_value_in(&m, 0, id), i % 3 ? 2 * i : NO_ID);
    assert_int_equal(model_value_in(&m, other, id), 2 * i + 1);
    if (i % 6 == 3) {
      model_revive_value(&m, 2 * i);
      assert_int_equal(model_value_in(&m, 0, id), 2 * i);
    }
    if (i % 6 == 0)
      assert_int_equal(model_value_in(&m, 0, model_find_name(&m, span_of(&i, sizeof i))), 2 * i);
  }
  model_free(&m);
}

static void test_uses(void **state) {
  (void)state;
  struct model m;
  struct build b;
  build_begin(&b, &m);
  const uint32_t x = build_input(&b, "x", DTYPE_FLOAT, "1");
  build_node(&b, "Add", "a", "x x", "y");
  const uint32_t mul = build_node(&b, "Mul", "m", "x y", "z");
  build_output(&b, "z", DTYPE_FLOAT, "1");
  build_output(&b, "z", DTYPE_FLOAT, "1");
  build_end(&b);
  assert_int_equal(model_use_count(&m, x), 3);
  assert_int_equal(model_use_count(&m, build_value(&b, "z")), 2);
  model_unlink_use(&m, m.nodes[mul].refs);
  assert_int_equal(model_use_count(&m, x), 2);
  model_link_use(&m, m.nodes[mul].refs);
  assert_int_equal(model_use_count(&m, x), 3);
  build_check(&m);
  assert_int_equal(model_input(&m, &m.nodes[mul], 0), x);
  assert_int_equal(model_input(&m, &m.nodes[mul], 2), NO_ID);
  assert_int_equal(model_output(&m, &m.nodes[mul], 0), build_value(&b, "z"));
  assert_int_equal(model_output(&m, &m.nodes[mul], 1), NO_ID);
  assert_int_equal(model_value_name(&m, NO_ID).n, 0);
  model_free(&m);
}

static void test_attributes(void **state) {
  (void)state;
  struct model m;
  struct build b;
  build_begin(&b, &m);
  const uint32_t conv = build_node(&b, "Conv", "c", "x w", "y");
  build_attr_int(&b, conv, "group", 4);
  build_attr_ints(&b, conv, "pads", "1,2");
  build_attr_ints(&b, conv, "none", "");
  build_attr_string(&b, conv, "auto_pad", "VALID");
  const uint32_t ref = build_attr_int(&b, conv, "given", 3);
  m.attrs[ref].ref_name = model_intern(&m, span_str("outer"));
  int64_t i;
  const int64_t *list;
  uint32_t n;
  struct span s;
  assert_true(model_attr_int(&m, conv, "group", 1, &i) && i == 4);
  assert_true(model_attr_int(&m, conv, "absent", 9, &i) && i == 9);
  assert_false(model_attr_int(&m, conv, "pads", 1, &i));
  assert_false(model_attr_int(&m, conv, "given", 1, &i));
  assert_true(model_attr_ints(&m, conv, "pads", &list, &n) && n == 2 && list[1] == 2);
  assert_true(model_attr_ints(&m, conv, "none", &list, &n) && n == 0);
  assert_true(model_attr_ints(&m, conv, "absent", &list, &n) && n == 0 && !list);
  assert_false(model_attr_ints(&m, conv, "group", &list, &n));
  assert_true(model_attr_string(&m, conv, "auto_pad", "NOTSET", &s) && span_is(s, "VALID"));
  assert_true(model_attr_string(&m, conv, "absent", "NOTSET", &s) && span_is(s, "NOTSET"));
  assert_false(model_attr_string(&m, conv, "group", "", &s));
  assert_true(model_op_is(&m, conv, "Conv"));
  assert_false(model_op_is(&m, conv, "Con"));
  build_domain(&b, conv, "ai.onnx");
  assert_true(model_op_is(&m, conv, "Conv"));
  build_domain(&b, conv, "com.microsoft");
  assert_false(model_op_is(&m, conv, "Conv"));
  model_free(&m);
}

static void test_opsets(void **state) {
  (void)state;
  struct model m;
  struct build b;
  build_begin(&b, &m);
  build_opset(&b, "com.microsoft", 1);
  const uint32_t node = build_node(&b, "If", "", "c", "y");
  const uint32_t sub = build_enter(&b, node, "then_branch", "then");
  build_leave(&b);
  const uint32_t body = build_enter_function(&b, "local", "f", "x", "y");
  build_leave(&b);
  assert_int_equal(model_opset_version(&m, 0, span_str("")), 18);
  assert_int_equal(model_opset_version(&m, sub, span_str("ai.onnx")), 18);
  assert_int_equal(model_opset_version(&m, sub, span_str("com.microsoft")), 1);
  assert_int_equal(model_opset_version(&m, body, span_str("")), 17);
  assert_int_equal(model_opset_version(&m, body, span_str("com.microsoft")), 0);
  model_free(&m);
}

// A list of thousands of imports is walked once, whatever is asked of it how often.
static void test_many_opsets(void **state) {
  (void)state;
  enum { MANY = 3000 };
  struct model m;
  struct build b;
  char name[32];
  build_begin(&b, &m);
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "d%d", i);
    build_opset(&b, name, i + 1);
  }
  build_opset(&b, "d7", 99); // named before
  const uint32_t body = build_enter_function(&b, "local", "f", "x", "y");
  build_leave(&b);
  for (int i = 0; i < MANY; i++) {
    snprintf(name, sizeof name, "d%d", i);
    assert_int_equal(model_opset_version(&m, 0, span_str(name)), i + 1);
    assert_int_equal(model_opset_version(&m, body, span_str(name)), 0);
    assert_int_equal(model_opset_version(&m, 0, span_str("")), 18);
  }
  assert_int_equal(model_opset_version(&m, 0, span_str("not there")), 0);
  assert_true(m.memory->opset_steps <= 4 * MANY);
  model_free(&m);
}

static const float ones[] = {1, 1};

static bool constant(const struct build *b, const char *name, struct model_constant *out) {
  return model_resolve_constant(b->m, build_value(b, name), out);
}

static void test_constants(void **state) {
  (void)state;
  struct model m;
  struct build b;
  struct model_constant c;
  struct span s;
  build_begin(&b, &m);
  build_input(&b, "x", DTYPE_FLOAT, "2");
  const uint32_t w = build_floats(&b, "w", "2", ones);
  build_input(&b, "free", DTYPE_FLOAT, "2");
  build_floats(&b, "free", "2", ones);
  build_node(&b, "Identity", "", "w", "w1");
  build_node(&b, "Identity", "", "w1", "w2");
  const uint32_t k = build_node(&b, "Constant", "", "", "k");
  build_attr_tensor(&b, k, "value", DTYPE_FLOAT, "2", ones);
  build_node(&b, "Identity", "", "k", "k1");
  const uint32_t f = build_node(&b, "Constant", "", "", "f");
  build_constant_list(&b, f, "value_floats", ATTR_FLOATS, DTYPE_FLOAT, "2", ones);
  build_node(&b, "Relu", "", "w", "r");
  build_node(&b, "Identity", "", "x", "x1");
  build_node(&b, "Identity", "", "loop2", "loop1");
  build_node(&b, "Identity", "", "loop1", "loop2");
  const uint32_t foreign = build_node(&b, "Identity", "", "w", "w3");
  build_domain(&b, foreign, "my.domain");
  build_node(&b, "Constant", "", "", "nothing");
  build_end(&b);

  assert_true(constant(&b, "w", &c) && c.tensor == w && c.node == NO_ID);
  assert_true(constant(&b, "w2", &c) && c.tensor == w && c.value == build_value(&b, "w"));
  assert_true(constant(&b, "k1", &c) && c.node == k && c.value == build_value(&b, "k"));
  assert_true(constant(&b, "f", &c) && c.node == f);
  assert_true(model_small_value(&m, c.tensor, &s) && s.n == 8);
  assert_memory_equal(s.at, ones, 8);
  assert_false(constant(&b, "x", &c));
  assert_false(constant(&b, "x1", &c));
  assert_false(constant(&b, "r", &c));
  assert_false(constant(&b, "loop1", &c));
  assert_false(constant(&b, "w3", &c));
  assert_false(constant(&b, "nothing", &c));
  assert_false(model_resolve_constant(&m, NO_ID, &c));
  // A caller may give another value for it; before IR version 4 nobody could leave it out.
  assert_false(constant(&b, "free", &c));
  m.ir_version = 3;
  assert_true(constant(&b, "free", &c));
  // A Constant's list is its tensor, not a list.
  const int64_t *list;
  uint32_t n;
  m.attrs[m.nodes[f].attrs].type = ATTR_INTS;
  m.attrs[m.nodes[f].attrs].name = model_intern(&m, span_str("value_ints"));
  assert_false(model_attr_ints(&m, f, "value_ints", &list, &n));
  model_free(&m);
}

static void test_constants_from_outside(void **state) {
  (void)state;
  struct model m;
  struct build b;
  struct model_constant c;
  build_begin(&b, &m);
  const uint32_t w = build_floats(&b, "w", "2", ones);
  build_node(&b, "Identity", "", "w", "w1");
  const uint32_t node = build_node(&b, "If", "", "cond", "y");
  build_enter(&b, node, "then_branch", "then");
  build_node(&b, "Identity", "", "w1", "inner");
  const uint32_t inner = build_value(&b, "inner");
  build_output(&b, "inner", DTYPE_FLOAT, "2");
  build_leave(&b);
  const uint32_t body = build_enter_function(&b, "local", "f", "w", "out");
  build_node(&b, "Identity", "", "w", "out");
  build_leave(&b);
  build_end(&b);
  assert_true(model_resolve_constant(&m, inner, &c) && c.tensor == w);
  const uint32_t out = model_value_in(&m, body, model_find_name(&m, span_str("out")));
  assert_false(model_resolve_constant(&m, out, &c));
  model_free(&m);
}

static void test_pieces_and_rests(void **state) {
  (void)state;
  struct model m;
  struct build b;
  uint32_t n;
  build_begin(&b, &m);
  build_file(&b, "m.onnx", 100);
  const uint32_t data = build_file(&b, "m.data", 4096);
  const uint32_t small = build_floats(&b, "s", "2", ones);
  const uint32_t large = build_extent(&b, "l", DTYPE_FLOAT, "8,8", data, 64);
  assert_null(model_pieces(&m, small, &n));
  assert_int_equal(n, 0);
  assert_int_equal(model_pieces(&m, large, &n)->at.off, 64);
  assert_int_equal(n, 1);
  m.tensors[large].n_pieces = UINT16_MAX;
  const uint32_t pairs = TABLE_ADD(&m, piece_counts, 4);
  m.piece_counts[pairs] = large;
  m.piece_counts[pairs + 1] = 70000;
  m.piece_counts[pairs + 2] = large + 5;
  assert_non_null(model_pieces(&m, large, &n));
  assert_int_equal(n, 70000);
  struct span s;
  assert_false(model_small_value(&m, large, &s));

  static const struct {
    enum kept_of of;
    uint32_t id;
  } rows[] = {{KEPT_ATTR, 9}, {KEPT_INFO, 0}, {KEPT_NODE, 3},
              {KEPT_NODE, 3}, {KEPT_NODE, 4}, {KEPT_TENSOR, 1}};
  const uint32_t kept = TABLE_ADD(&m, kept_fields, 6);
  for (uint32_t i = 0; i < 6; i++)
    m.kept_fields[kept + i] = (struct model_kept_field){rows[i].of, rows[i].id, {i, 1}};
  assert_int_equal(model_kept_fields(&m, KEPT_NODE, 3, &n)->at.off, 2);
  assert_int_equal(n, 2);
  assert_int_equal(model_kept_fields(&m, KEPT_TENSOR, 1, &n)->at.off, 5);
  assert_null(model_kept_fields(&m, KEPT_NODE, 5, &n));
  assert_null(model_kept_fields(&m, KEPT_ATTR, 1, &n));
  assert_int_equal(n, 0);
  model_free(&m);
}

// A chain of Identity behind one initializer, all of whose values are asked about, from both ends.
static void test_chains(void **state) {
  (void)state;
  enum { LONG = 5000 };
  static uint32_t value[LONG + 1];
  struct model m;
  struct build b;
  char in[32] = "w", out[32];
  struct model_constant c;
  build_begin(&b, &m);
  const uint32_t w = build_floats(&b, "w", "2", ones);
  for (int i = 1; i <= LONG; i++) {
    snprintf(out, sizeof out, "v%d", i);
    build_node(&b, "Identity", "", in, out);
    memcpy(in, out, sizeof in);
  }
  build_end(&b);
  for (int i = 1; i <= LONG; i++) {
    snprintf(out, sizeof out, "v%d", i);
    value[i] = build_value(&b, out);
  }
  for (int i = 0; i < LONG; i++) { // the end, over and over, and those in between
    assert_true(model_resolve_constant(&m, value[LONG], &c) && c.tensor == w);
    assert_true(model_resolve_constant(&m, value[i % 2 ? LONG - i : 1 + i], &c) && c.tensor == w);
  }
  assert_true(m.memory->identity_steps <= 20 * LONG);
  // A node in the middle that gets another input: what comes after it stands for something else.
  const uint32_t ref = m.nodes[m.values[value[LONG / 2]].def].refs, was = m.refs[ref].value;
  model_unlink_use(&m, ref);
  m.refs[ref].value = NO_ID;
  assert_false(model_resolve_constant(&m, value[LONG], &c));
  assert_false(model_resolve_constant(&m, value[LONG / 2], &c));
  assert_true(model_resolve_constant(&m, value[LONG / 2 - 1], &c) && c.tensor == w);
  m.refs[ref].value = was;
  model_link_use(&m, ref);
  assert_true(model_resolve_constant(&m, value[LONG], &c) && c.tensor == w);
  // An end that nothing uses goes, and again: what was found of the rest holds.
  const uint64_t before = m.memory->identity_steps;
  for (int i = LONG; i > LONG / 2; i--) {
    assert_true(model_resolve_constant(&m, value[i], &c) && c.tensor == w);
    model_unlink_use(&m, m.nodes[m.values[value[i]].def].refs);
  }
  assert_true(m.memory->identity_steps - before <= 2 * LONG);
  model_free(&m);
}

int test_model(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_names_of_names),
      cmocka_unit_test(test_values),
      cmocka_unit_test(test_uses),
      cmocka_unit_test(test_attributes),
      cmocka_unit_test(test_opsets),
      cmocka_unit_test(test_many_opsets),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_constants_from_outside),
      cmocka_unit_test(test_pieces_and_rests),
      cmocka_unit_test(test_chains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
