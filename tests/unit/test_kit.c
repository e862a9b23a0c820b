// The kit's questions about nodes and values, and its changes: operators, types, uses, attributes,
// order, new nodes and names, nodes that give way, versions, reports.
#include "pass_bench.h"
#include "passes/kit/inside/kit_inside.h"
#include "schema/schema.h"

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static uint32_t value(struct pass_bench *t, const char *name) {
  const uint32_t v = model_value_in(&t->m, t->m.main_graph, model_find_name(&t->m, span_str(name)));
  assert_int_not_equal(v, NO_ID);
  return v;
}

static void start(struct pass_bench *t, struct kit *k) {
  pass_bench_ready(t);
  kit_init(k, &t->env, "test");
}

static void stop(struct kit *k) {
  struct err err = {0};
  assert_int_equal(kit_done(k, &err), 0);
}

// ---- operators -----------------------------------------------------------------------------------

static void test_op_of_nodes(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  const uint32_t add = build_node(&t->b, "Add", "", "x y", "a");
  const uint32_t plain = build_node(&t->b, "Add", "", "x y", "b");
  const uint32_t other = build_node(&t->b, "Add", "", "x y", "c");
  const uint32_t gelu = build_node(&t->b, "Gelu", "", "x", "d");
  const uint32_t ms = build_node(&t->b, "Gelu", "", "x", "e");
  const uint32_t unknown = build_node(&t->b, "Addition", "", "x", "f");
  const uint32_t silu = build_node(&t->b, "Silu", "", "x", "g");
  const uint32_t three = build_node(&t->b, "Add", "", "x y x", "h");
  const uint32_t many = build_node(&t->b, "Concat", "", "x y x y", "i");
  build_domain(&t->b, plain, "ai.onnx");
  build_domain(&t->b, other, "my.domain");
  build_domain(&t->b, ms, "com.microsoft");
  build_domain(&t->b, silu, "onnx_passes.ops");
  start(t, &k);
  assert_int_equal(kit_op(&k, add), OP_Add);
  assert_int_equal(kit_op(&k, plain), OP_Add);
  assert_int_equal(kit_op(&k, other), OP_NONE);
  assert_int_equal(kit_op(&k, gelu), OP_Gelu);
  assert_int_equal(kit_op(&k, ms), OP_ms_Gelu);
  assert_int_equal(kit_op(&k, unknown), OP_NONE);
  assert_int_equal(kit_op(&k, silu), OP_ops_Silu);
  assert_int_equal(kit_op(&k, three), OP_NONE); // more inputs than the operator has
  assert_int_equal(kit_op(&k, many), OP_Concat);
  assert_int_equal(kit_op(&k, NO_ID), OP_NONE);
  // Operators and domains that only an edit brings.
  const uint32_t x = value(t, "x");
  kit_site(&k, add, "new");
  const uint32_t made = kit_make(&k, OP_Erf, KIT_IN(x));
  assert_int_equal(kit_maker_op(&k, made), OP_Erf);
  const uint32_t quick = kit_make(&k, OP_ms_QuickGelu, KIT_IN(made));
  assert_int_equal(kit_maker_op(&k, quick), OP_ms_QuickGelu);
  edit_remove_node(&t->e, unknown);
  edit_remove_node(&t->e, add);
  assert_int_equal(kit_op(&k, add), OP_NONE);
  assert_int_equal(kit_maker(&k, x), NO_ID);
  stop(&k);
}

static void test_op_rows(void **state) {
  (void)state;
  assert_true(kit_op_has(OP_Add, KIT_COMMUTATIVE | KIT_BINARY | KIT_ELEMENTWISE));
  assert_false(kit_op_has(OP_Sub, KIT_COMMUTATIVE));
  assert_true(kit_op_has(OP_ReduceMean, KIT_REDUCES));
  assert_false(kit_op_has(OP_MatMul, KIT_ELEMENTWISE));
  assert_int_equal(kit_op_row(OP_Concat)->max_in, KIT_ANY);
  assert_int_equal(kit_op_row(OP_Gemm)->min_in, 2);
  assert_int_equal(kit_op_row(OP_NONE)->flags, 0);
  for (enum op op = OP_NONE + 1; op < OPS; op++) {
    const struct kit_op_row *row = kit_op_row(op);
    const struct span domain = span_str(kit_domain_name(row->domain));
    assert_int_equal(kit_op_named(domain, span_str(row->name)), op); // no row twice
    assert_true(row->min_in <= row->max_in);
    if (row->flags & KIT_UNARY) assert_true(row->flags & KIT_ELEMENTWISE);
    if (row->flags & KIT_BINARY) assert_int_equal(row->max_in, 2);
  }
  uint32_t n;
  const struct schema_operator *ops = schema_all(&n);
  for (uint32_t i = 0; i < n; i++) // every operator of ai.onnx has a number
    if (ops[i].domain[0] == 0)
      assert_int_not_equal(kit_op_named(span_str(""), span_str(ops[i].name)), OP_NONE);
}

// ---- types ---------------------------------------------------------------------------------------

static void test_types(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  struct model_type type;
  uint32_t rank;
  int64_t dims[4];
  build_input(&t->b, "x", DTYPE_FLOAT, "N,3,?");
  build_input(&t->b, "same", DTYPE_FLOAT, "N,3,8");
  build_floats(&t->b, "w", "2,2", (float[]){1, 2, 3, 4});
  build_node(&t->b, "Relu", "", "x", "y");
  const uint32_t cast = build_node(&t->b, "Cast", "", "x", "h");
  build_attr_int(&t->b, cast, "to", DTYPE_FLOAT16);
  build_node(&t->b, "Less", "", "x x", "less");
  build_node(&t->b, "Shape", "", "y", "shape");
  const uint32_t c = build_node(&t->b, "Constant", "", "", "c");
  build_attr_tensor(&t->b, c, "value", DTYPE_INT64, "3", (const int64_t[]){1, 2, 3});
  start(t, &k);
  const uint32_t x = value(t, "x"), y = value(t, "y");
  assert_true(kit_type(&k, x, &type));
  assert_true(type.ranked && type.rank == 3 && type.dtype == DTYPE_FLOAT);
  assert_false(kit_static(&k, x));
  assert_int_equal(kit_dim(&k, x, 1).value, 3);
  assert_int_equal(kit_dim(&k, x, -2).value, 3);
  assert_true(kit_dim_equal(kit_dim(&k, x, 0), kit_dim(&k, value(t, "same"), 0)));
  assert_false(kit_dim_equal(kit_dim(&k, x, 2), kit_dim(&k, x, 2))); // nobody knows it
  assert_false(kit_same_dims(&k, x, value(t, "same")));
  assert_true(kit_same_dims(&k, value(t, "same"), value(t, "same")));
  assert_true(kit_static_dims(&k, value(t, "w"), dims, 4, &rank) && rank == 2 && dims[1] == 2);
  assert_false(kit_static_dims(&k, value(t, "w"), dims, 1, &rank));
  assert_int_equal(kit_dtype(&k, value(t, "c")), DTYPE_INT64);
  assert_int_equal(kit_dtype(&k, value(t, "h")), DTYPE_FLOAT16);
  assert_int_equal(kit_dtype(&k, value(t, "less")), DTYPE_BOOL);
  assert_true(kit_rank(&k, value(t, "shape"), &rank) && rank == 1);
  assert_false(kit_type(&k, y, &type));
  assert_false(kit_type(&k, NO_ID, &type));
  // A note, then a better one: what was known stays.
  kit_note_like(&k, y, x);
  assert_int_equal(kit_dim(&k, y, 1).value, 3);
  const int64_t known[] = {1, 3, 5};
  kit_note_type(&k, y, &(struct model_type){.ranked = true, .rank = 3, .sizes = known});
  assert_int_equal(kit_dtype(&k, y), DTYPE_FLOAT);
  assert_true(kit_static_dims(&k, y, dims, 4, &rank) && dims[0] == 1 && dims[2] == 5);
  kit_note_like(&k, y, x); // the symbol N holds again for 1, the unknown leaves 5
  assert_int_equal(kit_dim(&k, y, 2).value, 5);
  assert_int_equal(t->e.n, 0); // never edits
  stop(&k);
}

static void test_types_broadcast(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "N,3,8");
  build_input(&t->b, "u", DTYPE_FLOAT, NULL);
  build_floats(&t->b, "one", "", (float[]){1});
  build_floats(&t->b, "c", "3,1", (float[]){1, 2, 3});
  build_floats(&t->b, "big", "1,1,1,1", (float[]){1});
  build_floats(&t->b, "wrong", "2,1", (float[]){1, 2});
  build_input(&t->b, "n", DTYPE_FLOAT, "N,1,1");
  start(t, &k);
  const uint32_t x = value(t, "x");
  assert_true(kit_broadcasts(&k, value(t, "one"), x));
  assert_true(kit_broadcasts(&k, value(t, "one"), value(t, "u")));
  assert_true(kit_broadcasts(&k, value(t, "c"), x));
  assert_true(kit_broadcasts(&k, value(t, "n"), x));
  assert_false(kit_broadcasts(&k, value(t, "big"), x)); // would add a dim
  assert_false(kit_broadcasts(&k, value(t, "wrong"), x));
  assert_false(kit_broadcasts(&k, value(t, "c"), value(t, "u")));
  assert_false(kit_broadcasts(&k, x, value(t, "c")));
  stop(&k);
}

// An initializer that callers may override is what its input says, not what it holds now.
static void test_types_overridable(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "w", DTYPE_FLOAT, "N");
  build_floats(&t->b, "w", "2", (float[]){1, 2});
  start(t, &k);
  assert_false(kit_static(&k, value(t, "w")));
  t->m.ir_version = 3;
  assert_true(kit_static(&k, value(t, "w")));
  stop(&k);
}

// ---- uses ----------------------------------------------------------------------------------------

static void test_uses(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "", "x", "y");
  const uint32_t mul = build_node(&t->b, "Mul", "", "y y", "z");
  const uint32_t branch = build_node(&t->b, "If", "", "z", "out");
  build_enter(&t->b, branch, "then_branch", "then");
  const uint32_t inner = build_node(&t->b, "Neg", "", "z", "n");
  build_output(&t->b, "n", DTYPE_FLOAT, NULL);
  build_leave(&t->b);
  build_output(&t->b, "out", DTYPE_FLOAT, NULL);
  start(t, &k);
  const uint32_t y = value(t, "y"), z = value(t, "z");
  assert_int_equal(kit_sole_user(&k, y), mul);
  assert_int_equal(kit_sole_user(&k, z), NO_ID);
  assert_int_equal(kit_use_count(&k, y, 10), 2);
  assert_int_equal(kit_use_count(&k, y, 1), 1);
  assert_int_equal(kit_sole_user(&k, value(t, "out")), NO_ID);
  assert_true(kit_is_output(&k, value(t, "out")) && !kit_unused(&k, value(t, "out")));
  uint32_t slots = 0, inside = 0;
  for (struct kit_use u = kit_uses(&k, y); kit_use(&k, &u);) {
    assert_int_equal(u.node, mul);
    slots |= 1u << u.slot;
  }
  assert_int_equal(slots, 3);
  for (struct kit_use u = kit_uses(&k, z); kit_use(&k, &u);) {
    inside += u.node == inner;
    edit_set_input(&t->e, u.node, u.slot, y); // the walk goes on
  }
  assert_int_equal(inside, 1);
  assert_true(kit_unused(&k, z));
  assert_int_equal(kit_use_count(&k, y, 10), 4);
  struct kit_use none = kit_uses(&k, NO_ID);
  assert_false(kit_use(&k, &none));
  stop(&k);
}

// ---- attributes ----------------------------------------------------------------------------------

static void test_attrs(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  struct kit_attr a;
  int64_t i;
  float f;
  struct span s;
  const int64_t *list;
  uint32_t n;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3,4");
  const uint32_t soft = build_node(&t->b, "Softmax", "", "x", "a");
  const uint32_t gemm = build_node(&t->b, "Gemm", "", "x x", "b");
  build_attr_float(&t->b, gemm, "alpha", 2);
  build_attr_int(&t->b, gemm, "beta", 3); // of the wrong type
  const uint32_t turned = build_node(&t->b, "Transpose", "", "x", "c");
  const uint32_t back = build_node(&t->b, "Transpose", "", "u", "d");
  const uint32_t conv = build_node(&t->b, "Conv", "", "x x", "e");
  build_attr_ints(&t->b, conv, "pads", "1,1");
  const uint32_t ref = build_node(&t->b, "Softmax", "", "x", "f");
  const uint32_t row = build_attr_int(&t->b, ref, "axis", 0);
  t->m.attrs[row].ref_name = model_intern(&t->m, span_str("axis"));
  start(t, &k);
  assert_int_equal(kit_attr(&k, soft, "axis", &a), KIT_DEFAULT);
  assert_true(kit_attr_int(&k, soft, "axis", 7, &i) && i == -1);
  edit_set_opset(&t->e, span_str(""), 12);
  assert_true(kit_attr_int(&k, soft, "axis", 7, &i) && i == 1); // as it was before 13
  assert_true(kit_attr_int(&k, soft, "nothing", 7, &i) && i == 7);
  assert_true(kit_attr_float(&k, gemm, "alpha", 0, &f) && f == 2);
  assert_false(kit_attr_float(&k, gemm, "beta", 1, &f));
  assert_true(kit_attr_int(&k, gemm, "transA", 5, &i) && i == 0);
  assert_true(kit_attr_string(&k, conv, "auto_pad", "", &s) && span_is(s, "NOTSET"));
  assert_true(kit_attr_ints(&k, conv, "pads", &list, &n) && n == 2 && list[1] == 1);
  assert_false(kit_attr_ints(&k, conv, "strides", &list, &n));
  assert_int_equal(kit_attr(&k, ref, "axis", &a), KIT_UNKNOWN);
  assert_false(kit_attr_int(&k, ref, "axis", 0, &i));
  assert_true(kit_perm(&k, turned, &list, &n) && n == 3 && list[0] == 2 && list[2] == 0);
  assert_false(kit_perm(&k, back, &list, &n)); // the rank is not known
  stop(&k);
}

static void test_attrs_same(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  uint32_t node[8];
  char out[2] = "a";
  for (int i = 0; i < 8; i++, out[0]++)
    node[i] = build_node(&t->b, i < 6 ? "Conv" : "Constant", "", i < 6 ? "x w" : "", out);
  build_attr_ints(&t->b, node[1], "strides", "1,1"); // says what 0 means
  build_attr_int(&t->b, node[1], "group", 1);
  build_attr_int(&t->b, node[2], "group", 2);
  build_attr_int(&t->b, node[3], "group", 2); // the same, in another order
  build_attr_ints(&t->b, node[3], "pads", "1,1");
  build_attr_ints(&t->b, node[4], "pads", "1,1");
  build_attr_int(&t->b, node[4], "group", 2);
  build_attr_ints(&t->b, node[5], "pads", "1,2");
  build_attr_int(&t->b, node[5], "group", 2);
  build_attr_tensor(&t->b, node[6], "value", DTYPE_INT64, "1", (const int64_t[]){7});
  build_attr_tensor(&t->b, node[7], "value", DTYPE_INT64, "1", (const int64_t[]){8});
  start(t, &k);
  assert_true(kit_same_attrs(&k, node[0], node[1]));
  assert_true(kit_attrs_hash(&k, node[0]) == kit_attrs_hash(&k, node[1]));
  assert_false(kit_same_attrs(&k, node[0], node[2]));
  assert_false(kit_same_attrs(&k, node[2], node[3]));
  assert_true(kit_same_attrs(&k, node[3], node[4]));
  assert_true(kit_attrs_hash(&k, node[3]) == kit_attrs_hash(&k, node[4]));
  assert_false(kit_same_attrs(&k, node[4], node[5]));
  assert_true(kit_attrs_hash(&k, node[4]) != kit_attrs_hash(&k, node[5]));
  assert_false(kit_same_attrs(&k, node[6], node[7]));
  assert_true(kit_same_attrs(&k, node[6], node[6]));
  // What was removed says nothing.
  edit_set_attr(&t->e, node[2], &(struct edit_attr){.name = "group"});
  assert_true(kit_same_attrs(&k, node[0], node[2]));
  assert_true(kit_attrs_hash(&k, node[0]) == kit_attrs_hash(&k, node[2]));
  stop(&k);
}

// ---- order ---------------------------------------------------------------------------------------

static void test_order(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  const uint32_t a = build_node(&t->b, "Relu", "", "x", "y");
  const uint32_t branch = build_node(&t->b, "If", "", "y", "out");
  build_enter(&t->b, branch, "then_branch", "then");
  const uint32_t inner = build_node(&t->b, "Neg", "", "y", "n");
  build_output(&t->b, "n", DTYPE_FLOAT, NULL);
  const uint32_t body = t->b.graph;
  build_leave(&t->b);
  const uint32_t b = build_node(&t->b, "Neg", "", "out", "z");
  start(t, &k);
  const uint32_t x = value(t, "x");
  assert_true(kit_before(&k, a, b) && !kit_before(&k, b, a) && !kit_before(&k, a, a));
  assert_true(kit_before(&k, a, inner));
  assert_false(kit_before(&k, b, inner));
  assert_false(kit_before(&k, inner, b));
  assert_true(kit_available(&k, value(t, "y"), body, inner));
  assert_false(kit_available(&k, value(t, "z"), body, inner));
  assert_true(kit_available(&k, x, 0, a) && !kit_available(&k, value(t, "y"), 0, a));
  assert_true(kit_available(&k, value(t, "z"), 0, NO_ID));
  // A thousand nodes before one anchor, asked for each time: numbered once.
  kit_site(&k, b, "many");
  const uint64_t before = k.in->order_steps;
  uint32_t last = a;
  for (int i = 0; i < 1000; i++) {
    const uint32_t made = kit_maker(&k, kit_make(&k, OP_Neg, KIT_IN(x)));
    assert_true(kit_before(&k, last, made) && kit_before(&k, made, b));
    last = made;
  }
  assert_true(k.in->order_steps - before < 5);
  // Another's node is noticed, and a move by the kit.
  const struct edit_output out = {NO_ID, span_str("mine")};
  const struct edit_node spec = {
      .before = a, .op_type = span_str("Neg"), .in = &x, .n_in = 1, .out = &out, .n_out = 1};
  const uint32_t mine = edit_add_node(&t->e, &spec);
  assert_true(kit_before(&k, mine, a));
  kit_move(&k, mine, NO_ID);
  assert_true(kit_before(&k, b, mine));
  stop(&k);
}

static void count_warning(void *ctx, const char *sentence, const char *hint) {
  assert_non_null(strstr(sentence, "64 times"));
  assert_non_null(strstr(hint, "topological-sort"));
  *(uint32_t *)ctx += 1;
}

// Nodes that stand before what makes their inputs are numbered as they can run: c, a, b.
static void test_order_of_unsorted_nodes(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  const uint32_t b = build_node(&t->b, "Neg", "", "y", "z");
  const uint32_t a = build_node(&t->b, "Relu", "", "w", "y");
  const uint32_t c = build_node(&t->b, "Abs", "", "x", "w");
  uint32_t warned = 0;
  start(t, &k);
  t->env.warn = count_warning;
  t->env.warn_ctx = &warned;
  assert_true(kit_before(&k, a, b) && kit_before(&k, c, a) && kit_before(&k, c, b));
  assert_false(kit_before(&k, b, a) || kit_before(&k, a, c) || kit_before(&k, b, c));
  // What is made is numbered too, so often and no more: then it stands before nothing.
  uint32_t times = 0;
  for (uint32_t i = 0; i < 200; i++) {
    kit_site(&k, b, "many");
    const uint32_t made = kit_maker(&k, kit_make(&k, OP_Neg, KIT_IN(value(t, "y"))));
    times += kit_before(&k, a, made);
    assert_false(kit_before(&k, made, a));
  }
  assert_in_range(times, 50, 64);
  assert_true(k.in->order_steps < 64 * 210);
  assert_int_equal(warned, 1);
  // All nodes as they can run, whatever was asked before.
  uint32_t *nodes, at[3] = {0};
  const uint32_t n = kit_running(&k, t->m.main_graph, &k.site, &nodes);
  assert_int_equal(n, 203);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < 3; j++)
      if (nodes[i] == (const uint32_t[]){c, a, b}[j]) at[j] = i;
  assert_true(at[0] < at[1] && at[1] < at[2]);
  stop(&k);
}

// ---- new nodes -----------------------------------------------------------------------------------

static void test_make(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2,2");
  build_input(&t->b, "fc_Neg", DTYPE_FLOAT, "2,2"); // a name in the way
  const uint32_t fc = build_node(&t->b, "MatMul", "fc", "x x", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2,2");
  start(t, &k);
  const int64_t perm[] = {1, 0};
  const uint32_t x = value(t, "x"), y = value(t, "y");
  kit_site(&k, fc, "why");
  const uint32_t turned = kit_make(&k, OP_Transpose, KIT_IN(x), KIT_INTS("perm", perm, 2));
  const uint32_t shape = kit_new_ints(&k, "shape", perm, 2);
  const uint32_t neg = kit_make(&k, OP_Neg, KIT_IN(turned));
  const uint32_t many =
      kit_make(&k, OP_Split, KIT_IN(neg, shape), KIT_INT("axis", 1), KIT_OUTPUTS(2));
  const uint32_t root = kit_replace(&k, fc, OP_Gemm, KIT_IN(many, neg), KIT_FLOAT("alpha", 2),
                                    KIT_NAME(span_str("root")));
  assert_string_equal(pass_bench_nodes(t, 0), "Transpose fc_Transpose(x)->fc_Transpose\n"
                                              "Neg fc_Neg_1(fc_Transpose)->fc_Neg_1\n"
                                              "Split fc_Split(fc_Neg_1,fc_shape)->fc_Split\n"
                                              "Gemm root(fc_Split,fc_Neg_1)->y\n");
  assert_int_equal(kit_out(&k, root, 0), y);
  assert_true(kit_is_output(&k, y));
  assert_int_equal(k.before, root);
  assert_int_equal(t->m.nodes[fc].flags & NODE_DEAD, NODE_DEAD);
  assert_true(
      span_is(model_value_name(&t->m, kit_out(&k, kit_maker(&k, many), 1)), "fc_Split_out1"));
  float alpha;
  assert_true(kit_attr_float(&k, root, "alpha", 0, &alpha) && alpha == 2);
  // Names of what was made do not grow.
  kit_site(&k, kit_maker(&k, neg), "again");
  const uint32_t abs = kit_make(&k, OP_Abs, KIT_IN(neg));
  assert_true(span_is(model_value_name(&t->m, abs), "fc_Abs"));
  stop(&k);
}

static void is_called(const struct kit *k, uint32_t made, const char *node, const char *out) {
  assert_string_equal(model_name_str(k->m, k->m->nodes[kit_maker(k, made)].name), node);
  assert_string_equal(model_name_str(k->m, k->m->values[made].name), out);
}

static void test_habits_of_tools(void **state) {
  struct pass_bench *t = *state;
  static const char *const suffixes[] = {"_q", "_scale"};
  struct kit k;
  struct span names[2];
  build_input(&t->b, "x", DTYPE_FLOAT, "2,2");
  build_input(&t->b, "x_scale", DTYPE_FLOAT, "2,2");
  const uint32_t fc = build_node(&t->b, "Neg", "fc", "x", "y");
  build_node(&t->b, "Neg", "fc_Q4", "y", "z");
  build_output(&t->b, "z", DTYPE_FLOAT, "2,2");
  start(t, &k);
  kit_site(&k, fc, "test");
  const uint32_t x = value(t, "x"), y = value(t, "y");
  const struct edit_output mine = {NO_ID, span_str("mine")}, bare = {NO_ID, span_str("bare")};
  const struct edit_output last = {NO_ID, span_str("last")}, old = {.value = y};
  const uint32_t a =
      kit_make(&k, OP_Neg, KIT_IN(x), KIT_CALLED(span_str("x")), KIT_OUT(mine)); // x is taken
  is_called(&k, a, "x_1", "mine");
  k.nameless = true;
  k.node_names = KIT_NODES;
  is_called(&k, kit_make(&k, OP_Neg, KIT_IN(a), KIT_OUT(bare)), "", "bare");
  is_called(&k, kit_make(&k, OP_Neg, KIT_IN(a), KIT_CALLED(span_str("x")), KIT_OUT(last)), "x",
            "last"); // by no node
  kit_names_leave(&k.names, fc);
  k.before = k.m->nodes[fc].next;
  edit_remove_node(&t->e, fc);
  assert_int_equal(kit_make(&k, OP_Neg, KIT_IN(a), KIT_CALLED(span_str("fc_Q4")), KIT_OUT(old)), y);
  is_called(&k, y, "fc_Q4_1", "y");
  kit_name_family(&k, span_str("x"), suffixes, 2, names); // x_scale is taken
  assert_true(span_is(names[0], "x_1_q") && span_is(names[1], "x_1_scale"));
  stop(&k);
}

static void test_copy_attributes(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  int64_t group;
  const int64_t *pads;
  uint32_t n;
  build_input(&t->b, "x", DTYPE_FLOAT, "1,2,4");
  build_floats(&t->b, "w", "2,1,1", (float[]){1, 2});
  const uint32_t conv = build_node(&t->b, "Conv", "conv", "x w", "y");
  build_attr_ints(&t->b, conv, "pads", "1,1");
  build_attr_int(&t->b, conv, "group", 2);
  build_attr_string(&t->b, conv, "auto_pad", "NOTSET");
  build_output(&t->b, "y", DTYPE_FLOAT, NULL);
  start(t, &k);
  kit_site(&k, conv, "copy");
  assert_true(kit_attrs_copyable(&k, conv));
  const uint32_t w = kit_new_scalar(&k, "half", DTYPE_FLOAT16, 0.5);
  const uint32_t made = kit_replace(&k, conv, OP_Conv, KIT_IN(value(t, "x"), w), KIT_ATTRS_OF(conv),
                                    KIT_INT("group", 1));
  assert_true(kit_attr_ints(&k, made, "pads", &pads, &n) && n == 2 && pads[0] == 1);
  assert_true(kit_attr_int(&k, made, "group", 0, &group) && group == 1);
  assert_int_equal(t->m.nodes[made].n_attrs, 3);
  stop(&k);
}

static void test_bypass(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "relu", "x", "r");
  const uint32_t inner = build_node(&t->b, "Identity", "i", "r", "y");
  build_node(&t->b, "Neg", "neg", "y", "z");
  const uint32_t last = build_node(&t->b, "Identity", "o", "z", "out");
  const uint32_t first = build_node(&t->b, "Identity", "p", "x", "copy");
  build_value_info(&t->b, "y", DTYPE_FLOAT, "2");
  build_output(&t->b, "out", DTYPE_FLOAT, "2");
  build_output(&t->b, "copy", DTYPE_FLOAT, "2");
  start(t, &k);
  const uint32_t r = value(t, "r"), z = value(t, "z");
  assert_false(kit_static(&k, r));
  kit_site(&k, inner, "identity");
  assert_true(kit_bypass(&k, inner, r));
  assert_true(kit_static(&k, r)); // what was declared of y
  assert_true(kit_bypass(&k, last, z));
  assert_false(kit_can_bypass(&k, first, value(t, "x"))); // both names are promised
  assert_false(kit_bypass(&k, first, value(t, "x")));
  assert_string_equal(pass_bench_nodes(t, 0),
                      "Relu relu(x)->r\nNeg neg(r)->out\nIdentity p(x)->copy\n");
  assert_string_equal(pass_bench_outputs(t, 0), "out float\ncopy float\n");
  assert_int_equal(value(t, "out"), z);
  stop(&k);
}

static void test_sweep(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "w", "2", (float[]){1, 2});
  build_floats(&t->b, "kept", "2", (float[]){1, 2});
  build_node(&t->b, "Neg", "a", "w", "a");
  build_node(&t->b, "Add", "b", "a kept", "b");
  const uint32_t c = build_node(&t->b, "Mul", "c", "b b", "c");
  build_node(&t->b, "Add", "d", "x kept", "d");
  const uint32_t effect = build_node(&t->b, "Print", "print", "x", "nothing");
  build_output(&t->b, "d", DTYPE_FLOAT, NULL);
  start(t, &k);
  assert_int_equal(kit_sweep(&k, kit_maker(&k, value(t, "d"))), 0);
  assert_int_equal(kit_sweep(&k, effect), 0); // nobody knows what it does
  assert_int_equal(kit_sweep(&k, c), 3);
  assert_string_equal(pass_bench_nodes(t, 0), "Add d(x,kept)->d\nPrint print(x)->nothing\n");
  assert_string_equal(pass_bench_tensors(t, 0), "kept float[2]\n");
  stop(&k);
}

// Bodies of functions have no initializers, and import opsets of their own.
static void test_functions(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  uint32_t graphs = 0;
  build_enter_function(&t->b, "local", "f", "a", "r");
  const uint32_t relu = build_node(&t->b, "Relu", "relu", "a", "r");
  const uint32_t body = t->b.graph;
  build_leave(&t->b);
  start(t, &k);
  for (uint32_t g = 0; kit_graph(&k, &g); g++)
    graphs++;
  assert_int_equal(graphs, 2);
  kit_site(&k, relu, "scale");
  const uint32_t two = kit_new_scalar(&k, "two", DTYPE_FLOAT, 2);
  assert_int_equal(kit_maker_op(&k, two), OP_Constant);
  kit_replace(&k, relu, OP_Mul, KIT_IN(kit_in(&k, relu, 0), two));
  assert_string_equal(pass_bench_nodes(t, body), "Constant relu_two()->relu_two\n"
                                                 "Mul relu_Mul(a,relu_two)->r\n");
  assert_int_equal(kit_opset_of(&k, "com.microsoft", body), 0);
  kit_import(&k, body, "com.microsoft", 1);
  assert_int_equal(kit_opset_of(&k, "com.microsoft", body), 1);
  assert_int_equal(kit_opset_of(&k, "com.microsoft", 0), 1);
  kit_import(&k, 0, "com.microsoft", 2); // functions come along
  assert_int_equal(kit_opset_of(&k, "com.microsoft", body), 2);
  stop(&k);
}

static void test_raise(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  struct err err = {0};
  build_input(&t->b, "x", DTYPE_FLOAT, "2,3,4");
  build_node(&t->b, "Relu", "relu", "x", "y");
  const uint32_t hard = build_node(&t->b, "ReduceMean", "mean", "x", "z");
  build_attr_ints(&t->b, hard, "axes", "1");
  start(t, &k);
  edit_set_opset(&t->e, span_str(""), 17);
  assert_int_equal(kit_raise(&k, 21, "leave it", &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  assert_non_null(strstr(err.msg, "'mean'"));
  assert_string_equal(err.hint, "leave it; or export the model with opset 21");
  assert_int_equal(kit_opset(&k, 0), 17);
  edit_remove_node(&t->e, hard);
  err = (struct err){0};
  assert_int_equal(kit_raise(&k, 21, NULL, &err), 0);
  assert_int_equal(kit_opset(&k, 0), 21);
  assert_int_equal(kit_raise(&k, 19, NULL, &err), 0); // never down
  assert_int_equal(kit_opset(&k, 0), 21);
  stop(&k);
}

static uint32_t seen_index;
static char seen_tensor[8];
static void see(void *ctx, const struct pass_site *site) {
  (void)ctx;
  seen_index = site->index;
  snprintf(seen_tensor, sizeof seen_tensor, "%.*s", (int)site->tensor.n,
           (const char *)site->tensor.at);
}

static void test_reports(void **state) {
  struct pass_bench *t = *state;
  struct kit k;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  const uint32_t a = build_node(&t->b, "If", "relu", "x", "y");
  build_enter(&t->b, a, "then_branch", "then");
  build_node(&t->b, "Neg", "", "x", "inner");
  build_leave(&t->b);
  const uint32_t b = build_node(&t->b, "Neg", "", "y", "z");
  start(t, &k);
  kit_converted(&k, a, "done");
  kit_skipped(&k, a, "not_known");
  assert_string_equal(t->sites, "relu:converted:done\nrelu:skipped:not_known\n");
  t->env.site = see;
  kit_skipped(&k, a, "not_known"); // has a name
  assert_int_equal(seen_index, NO_ID);
  kit_skipped(&k, b, "not_known");
  assert_int_equal(seen_index, 1);
  const uint32_t x = value(t, "x");
  kit_report(&k, &(struct kit_report){.node = b, .reason = "done", .weight = x + 1});
  assert_int_equal(seen_index, NO_ID); // known by the weight
  assert_string_equal(seen_tensor, "x");
  const struct kit_report placed = {
      .node = a, .reason = "done", .place = 8, .weight = x + 1, .tensor = span_str("w")};
  kit_report(&k, &placed);
  assert_int_equal(seen_index, 7);
  assert_string_equal(seen_tensor, "w");
  t->env.site = NULL;
  kit_skipped(&k, b, "not_known"); // nobody listens
  stop(&k);
}

int test_kit(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_op_of_nodes),
      TEST(test_op_rows),
      TEST(test_types),
      TEST(test_types_broadcast),
      TEST(test_types_overridable),
      TEST(test_uses),
      TEST(test_attrs),
      TEST(test_attrs_same),
      TEST(test_order),
      TEST(test_order_of_unsorted_nodes),
      TEST(test_make),
      TEST(test_habits_of_tools),
      TEST(test_copy_attributes),
      TEST(test_bypass),
      TEST(test_sweep),
      TEST(test_functions),
      TEST(test_raise),
      TEST(test_reports),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
