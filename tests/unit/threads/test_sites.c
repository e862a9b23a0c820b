// What edits changed as sites: which nodes are one, what their boundary is, which groups had a hand in
// them, for each way in which edits overlap; and that a hundred thousand cost no more a piece than ten
// thousand.
#include "verify/cut/sites.h"

#include "model_builder.h"

#include <stdio.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

struct fixture {
  struct model m[2]; // as loaded, and as edited
  struct build b[2];
  struct recipes r;
  struct edits e;
  struct arena a;
  struct sites sites;
};

// Opens both models; `make` writes the rows of one.
static void begin(struct fixture *f, void (*make)(struct build *, uint32_t), uint32_t n) {
  *f = (struct fixture){0};
  for (int side = 0; side < 2; side++) {
    build_begin(&f->b[side], &f->m[side]);
    make(&f->b[side], n);
    build_end(&f->b[side]);
  }
  recipes_init(&f->r);
  edits_init(&f->e, &f->m[1], &f->r);
  edit_groups_keep(&f->e);
}

static void done(struct fixture *f) {
  sites_done(&f->sites);
  edits_free(&f->e);
  recipes_free(&f->r);
  model_free(&f->m[0]);
  model_free(&f->m[1]);
  arena_free(&f->a);
}

static uint32_t value(struct fixture *f, const char *name) {
  return build_value(&f->b[1], name);
}

static uint32_t maker(struct fixture *f, const char *name) {
  return f->m[1].values[value(f, name)].def;
}

// A node before `before` with inputs given by name, which makes a new value, or (a name that is there
// without a producer) that.
static uint32_t add(struct fixture *f, const char *op_type, const char *in, const char *out,
                    uint32_t before) {
  const struct model *m = &f->m[1];
  uint32_t ids[4], n = 0;
  char words[100], *rest = words, *word;
  snprintf(words, sizeof words, "%s", in);
  while ((word = strsep(&rest, " ")))
    ids[n++] = value(f, word);
  const uint32_t graph = before == NO_ID ? m->main_graph : m->nodes[before].graph;
  const uint32_t name = model_find_name(m, span_str(out));
  const uint32_t there = name == NO_ID ? NO_ID : model_value_in(m, graph, name);
  const struct edit_output output = {there, span_str(out)};
  return edit_add_node(&f->e, &(struct edit_node){.graph = graph,
                                                  .before = before,
                                                  .op_type = span_str(op_type),
                                                  .in = ids,
                                                  .n_in = n,
                                                  .out = &output,
                                                  .n_out = 1});
}

// ---- sites as text -----------------------------------------------------------------------------

static const char *ops(struct fixture *f, int side, const uint32_t *nodes, uint32_t n) {
  const char *text = "";
  for (uint32_t i = 0; i < n; i++)
    text = arena_printf(&f->a, "%s%s%s", text, i ? "," : "",
                        model_name_str(&f->m[side], f->m[side].nodes[nodes[i]].op_type));
  return text;
}

static const char *pairs(struct fixture *f, const struct site_pair *list, uint32_t n) {
  const char *text = "";
  for (uint32_t i = 0; i < n; i++) {
    const struct site_pair p = list[i];
    const char *before =
        p.before == NO_ID ? "-" : model_name_str(&f->m[0], f->m[0].values[p.before].name);
    const char *after =
        p.after == NO_ID ? "-" : model_name_str(&f->m[1], f->m[1].values[p.after].name);
    text = arena_printf(&f->a, "%s %s", text,
                        strcmp(before, after) == 0 ? before
                                                   : arena_printf(&f->a, "%s=%s", before, after));
  }
  return text;
}

static const char *text_of(struct fixture *f, const struct site *s) {
  const char *groups = "";
  for (uint32_t i = 0; i < s->n_groups; i++)
    groups = arena_printf(&f->a, "%s%s%u", groups, i ? "," : "", s->groups[i]);
  return arena_printf(&f->a, "%s: g%u %s > %s:%s ->%s%s", groups, s->graph,
                      ops(f, 0, s->before, s->n_before), ops(f, 1, s->after, s->n_after),
                      pairs(f, s->inputs, s->n_inputs), pairs(f, s->outputs, s->n_outputs),
                      s->doubt ? " ?" : "");
}

// Finds them and compares: a line each.
static void expect(struct fixture *f, const char *lines) {
  const char *text = "";
  build_check(&f->m[1]);
  sites_find(&f->m[0], &f->m[1], f->e.groups, NULL, &f->a, &f->sites);
  for (uint32_t i = 0; i < f->sites.n; i++)
    text = arena_printf(&f->a, "%s%s\n", text, text_of(f, &f->sites.list[i]));
  assert_string_equal(text, lines);
}

// ---- a chain -----------------------------------------------------------------------------------

// x ─ Neg ─ a ─ Identity ─ b ─ Abs ─ c ─ Exp ─ y
static void make_chain(struct build *b, uint32_t n) {
  (void)n;
  build_input(b, "x", DTYPE_FLOAT, "2");
  build_node(b, "Neg", "neg", "x", "a");
  build_node(b, "Identity", "id", "a", "b");
  build_node(b, "Abs", "abs", "b", "c");
  build_node(b, "Exp", "exp", "c", "y");
  build_output(b, "y", DTYPE_FLOAT, "2");
}

static void test_nothing_changed(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_chain, 0);
  edit_group(&f.e, "shapes", NO_ID, "said");
  edit_retype_value(&f.e, value(&f, "a"), DTYPE_FLOAT, NULL, NO_ID);
  expect(&f, "");
  assert_int_equal(f.sites.unchanged_groups, 1);
  done(&f);
}

// A use that goes over is a claim, and who reads it did not change.
static void test_an_identity_goes(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_chain, 0);
  edit_group(&f.e, "tidy", maker(&f, "b"), "identity");
  const uint32_t node = maker(&f, "b");
  assert_true(edit_forward(&f.e, value(&f, "b"), value(&f, "a")));
  edit_remove_node(&f.e, node);
  expect(&f, "1: g0 Identity > : a -> b=a\n");
  done(&f);
}

// One after the other, at a value that both models have: each by itself.
static void test_neighbours(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_chain, 0);
  edit_group(&f.e, "one", maker(&f, "a"), "");
  const uint32_t neg = maker(&f, "a"), abs = maker(&f, "c");
  edit_remove_node(&f.e, neg);
  add(&f, "Sub", "x x", "a", maker(&f, "b"));
  edit_group(&f.e, "two", abs, "");
  edit_remove_node(&f.e, abs);
  add(&f, "Relu", "b", "c", maker(&f, "y"));
  expect(&f, "1: g0 Neg > Sub: x -> a\n"
             "2: g0 Abs > Relu: b -> c\n");
  assert_string_equal(site_name(&f.m[0], &f.sites.list[1], &f.a), "abs");
  done(&f);
}

// What one group made another took away: all that is left of both is one.
static void test_one_over_the_other(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_chain, 0);
  const uint32_t neg = maker(&f, "a"), id = maker(&f, "b"), abs = maker(&f, "c");
  edit_group(&f.e, "one", neg, "");
  const uint32_t made = add(&f, "Fused", "x", "fused", abs);
  edit_set_input(&f.e, abs, 0, value(&f, "fused"));
  edit_remove_node(&f.e, id);
  edit_remove_node(&f.e, neg);
  edit_group(&f.e, "two", abs, "");
  add(&f, "More", "x", "more", abs);
  edit_set_input(&f.e, maker(&f, "y"), 0, value(&f, "more"));
  edit_remove_node(&f.e, abs);
  edit_remove_node(&f.e, made);
  expect(&f, "1,2: g0 Neg,Identity,Abs,Exp > More,Exp: x -> y\n");
  done(&f);
}

// A change that was undone is none.
static void test_there_and_back(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_chain, 0);
  const uint32_t exp = maker(&f, "y");
  edit_group(&f.e, "one", exp, "");
  edit_set_input(&f.e, exp, 0, value(&f, "b"));
  edit_set_input(&f.e, exp, 0, value(&f, "c"));
  expect(&f, "");
  assert_int_equal(f.sites.unchanged_groups, 1);
  done(&f);
}

// ---- a tree ------------------------------------------------------------------------------------

// Two that compute the same, of which one goes; and one that nothing uses.
static void make_equal(struct build *b, uint32_t n) {
  (void)n;
  build_input(b, "x", DTYPE_FLOAT, "2");
  build_input(b, "z", DTYPE_FLOAT, "2");
  build_node(b, "Add", "first", "x z", "a");
  build_node(b, "Add", "second", "x z", "b");
  build_node(b, "Mul", "mul", "a b", "y");
  build_node(b, "Exp", "unused", "a", "u");
  build_output(b, "y", DTYPE_FLOAT, "2");
}

static void test_equal_nodes_take_the_other_in(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_equal, 0);
  const uint32_t second = maker(&f, "b");
  edit_group(&f.e, "equal", second, "");
  assert_true(edit_forward(&f.e, value(&f, "b"), value(&f, "a")));
  edit_remove_node(&f.e, second);
  edit_group(&f.e, "dead", maker(&f, "u"), "");
  edit_remove_node(&f.e, maker(&f, "u"));
  expect(&f, "1: g0 Add > Add: x z -> b=a\n");
  assert_int_equal(f.sites.unchanged_groups, 1);
  done(&f);
}

static void test_wider(void **state) {
  (void)state;
  struct fixture f;
  struct site wider;
  begin(&f, make_equal, 0);
  const uint32_t mul = maker(&f, "y");
  edit_group(&f.e, "one", mul, "");
  add(&f, "Mul", "b a", "other", mul);
  edit_remove_node(&f.e, mul);
  add(&f, "Identity", "other", "y", NO_ID);
  expect(&f, "1: g0 Mul > Mul,Identity: a b -> y\n");
  assert_true(sites_widen(&f.sites, 0, 1, &f.a, &wider));
  assert_string_equal(text_of(&f, &wider), "1: g0 Add,Add,Mul > Add,Add,Mul,Identity: x z -> y");
  assert_true(sites_widen(&f.sites, 0, 9, &f.a, &wider));
  assert_string_equal(text_of(&f, &wider), "1: g0 Add,Add,Mul > Add,Add,Mul,Identity: x z -> y");
  done(&f);
}

// A value that goes its way through another one and back has its place.
static void test_a_circle_of_forwards(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_equal, 0);
  edit_group(&f.e, "there", NO_ID, "");
  edit_replace_uses(&f.e, value(&f, "b"), value(&f, "a"));
  edit_group(&f.e, "back", NO_ID, "");
  edit_set_input(&f.e, maker(&f, "y"), 0, value(&f, "b"));
  edit_set_input(&f.e, maker(&f, "u"), 0, value(&f, "b"));
  edit_replace_uses(&f.e, value(&f, "a"), value(&f, "b"));
  sites_find(&f.m[0], &f.m[1], f.e.groups, NULL, &f.a, &f.sites);
  assert_true(f.sites.n > 0);
  for (uint32_t i = 0; i < f.sites.n; i++)
    assert_true(f.sites.list[i].n_outputs > 0);
  done(&f);
}

// ---- constants ---------------------------------------------------------------------------------

static void make_weights(struct build *b, uint32_t n) {
  const float w[] = {1, 2};
  (void)n;
  build_input(b, "x", DTYPE_FLOAT, "2");
  build_floats(b, "w", "2", w);
  build_node(b, "Mul", "mul", "x w", "a");
  build_node(b, "Add", "add", "a w", "y");
  build_output(b, "y", DTYPE_FLOAT, "2");
}

static uint32_t bytes(struct fixture *f, float a, float b) {
  const float w[] = {a, b};
  const int64_t dims[] = {2};
  return recipe_bytes(&f->r, DTYPE_FLOAT, dims, 1, span_of(w, sizeof w));
}

static void test_other_elements(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_weights, 0);
  edit_group(&f.e, "shrink", NO_ID, "");
  edit_replace_tensor(&f.e, f.m[1].values[value(&f, "w")].def, bytes(&f, 1, 2.5f));
  expect(&f, "1: g0  > : -> w\n");
  const struct site *s = &f.sites.list[0];
  assert_int_equal(s->n_constants[0], 1);
  assert_int_equal(s->n_constants[1], 1);
  done(&f);
}

static void test_another_initializer(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_weights, 0);
  edit_group(&f.e, "cast", NO_ID, "");
  const uint32_t made = edit_add_tensor(&f.e, 0, span_str("w2"), bytes(&f, 1, 2.5f));
  edit_replace_uses(&f.e, value(&f, "w"), made);
  expect(&f, "1: g0  > : -> w=w2\n");
  done(&f);
}

// A weight that is computed: who reads it did not change.
static void test_a_constant_is_computed(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_weights, 0);
  edit_group(&f.e, "shrink", NO_ID, "");
  edit_add_tensor(&f.e, 0, span_str("codes"), bytes(&f, 1, 2));
  add(&f, "Dequantize", "codes", "weight", maker(&f, "a"));
  edit_replace_uses(&f.e, value(&f, "w"), value(&f, "weight"));
  expect(&f, "1: g0  > Dequantize: -> w=weight\n");
  done(&f);
}

// x ─ Mul ─ a, by a weight behind an Identity that stays
static void make_behind_identity(struct build *b, uint32_t n) {
  const float w[] = {1, 2};
  (void)n;
  build_input(b, "x", DTYPE_FLOAT, "2");
  build_floats(b, "w", "2", w);
  build_node(b, "Identity", "id", "w", "v");
  build_node(b, "Mul", "mul", "x v", "a");
  build_node(b, "Add", "add", "a v", "y");
  build_output(b, "y", DTYPE_FLOAT, "2");
}

// The Identity did not change: what it gives is a constant before, and computed after. A reader that changed
// takes in how.
static void test_a_constant_behind_an_identity_is_computed(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_behind_identity, 0);
  edit_group(&f.e, "shrink", NO_ID, "");
  edit_add_tensor(&f.e, 0, span_str("codes"), bytes(&f, 1, 2));
  add(&f, "Dequantize", "codes", "weight", maker(&f, "v"));
  edit_replace_uses(&f.e, value(&f, "w"), value(&f, "weight"));
  const uint32_t mul = maker(&f, "a");
  edit_group(&f.e, "other", mul, "");
  edit_remove_node(&f.e, mul);
  add(&f, "Product", "x v", "a", maker(&f, "y"));
  expect(&f, "1: g0  > Dequantize: -> w=weight\n"
             "1,2: g0 Mul > Dequantize,Identity,Product: x -> a\n");
  done(&f);
}

// Where only one of its readers got it, that one is the site.
static void test_a_reader_gets_another_constant(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_weights, 0);
  edit_group(&f.e, "pack", NO_ID, "");
  const uint32_t mul = maker(&f, "a");
  edit_add_tensor(&f.e, 0, span_str("packed"), bytes(&f, 3, 4));
  edit_remove_node(&f.e, mul);
  add(&f, "MulPacked", "x packed", "a", maker(&f, "y"));
  expect(&f, "1: g0 Mul > MulPacked: x -> a\n");
  assert_int_equal(f.sites.list[0].n_constants[0], 1);
  done(&f);
}

// ---- bodies ------------------------------------------------------------------------------------

static void make_body(struct build *b, uint32_t n) {
  (void)n;
  build_input(b, "x", DTYPE_FLOAT, "2");
  build_input(b, "is", DTYPE_BOOL, "");
  build_node(b, "Neg", "neg", "x", "a");
  const uint32_t node = build_node(b, "If", "if", "is", "y");
  build_enter(b, node, "then_branch", "then");
  build_node(b, "Relu", "relu", "a", "t");
  build_node(b, "Abs", "abs", "t", "t2");
  build_output(b, "t2", DTYPE_FLOAT, "2");
  build_leave(b);
  build_enter(b, node, "else_branch", "else");
  build_node(b, "Exp", "exp", "a", "e");
  build_output(b, "e", DTYPE_FLOAT, "2");
  build_leave(b);
  build_output(b, "y", DTYPE_FLOAT, "2");
}

static uint32_t node_named(struct fixture *f, const char *name) {
  const uint32_t id = model_find_name(&f->m[1], span_str(name));
  for (uint32_t n = 0; n < f->m[1].n_nodes; n++)
    if (f->m[1].nodes[n].name == id) return n;
  return NO_ID;
}

static uint32_t value_anywhere(struct fixture *f, const char *name) {
  const uint32_t id = model_find_name(&f->m[1], span_str(name));
  for (uint32_t v = 0; v < f->m[1].n_values; v++)
    if (f->m[1].values[v].name == id && !(f->m[1].values[v].flags & VALUE_DEAD)) return v;
  return NO_ID;
}

static uint32_t put(struct fixture *f, const char *op_type, uint32_t in, struct edit_output out,
                    uint32_t before) {
  return edit_add_node(&f->e, &(struct edit_node){.graph = f->m[1].nodes[before].graph,
                                                  .before = before,
                                                  .op_type = span_str(op_type),
                                                  .in = &in,
                                                  .n_in = 1,
                                                  .out = &out,
                                                  .n_out = 1});
}

static void test_in_a_body(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_body, 0);
  const uint32_t relu = node_named(&f, "relu"), t = value_anywhere(&f, "t");
  edit_group(&f.e, "one", relu, "");
  edit_remove_node(&f.e, relu);
  put(&f, "Clip", value(&f, "a"), (struct edit_output){.value = t}, node_named(&f, "abs"));
  expect(&f, "1: g1 Relu > Clip: a -> t\n");
  done(&f);
}

// What is made outside of the body for it alone: the node around is one.
static void test_over_the_border_of_a_body(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_body, 0);
  const uint32_t relu = node_named(&f, "relu");
  edit_group(&f.e, "hoist", relu, "");
  add(&f, "Sign", "a", "s", node_named(&f, "if"));
  edit_set_input(&f.e, relu, 0, value(&f, "s"));
  expect(&f, "1: g0 If > Sign,If: is a -> y\n");
  done(&f);
}

// A body that another value is the output of.
static void test_an_output_of_a_body(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_body, 0);
  edit_group(&f.e, "one", node_named(&f, "abs"), "");
  edit_set_graph_output(&f.e, 1, 0, value_anywhere(&f, "t"));
  edit_remove_node(&f.e, node_named(&f, "abs"));
  expect(&f, "1: g1 Abs > : t -> t2=t\n");
  done(&f);
}

// ---- functions ---------------------------------------------------------------------------------

static void make_calls(struct build *b, uint32_t n) {
  (void)n;
  build_opset(b, "local", 1);
  build_input(b, "x", DTYPE_FLOAT, "2");
  build_domain(b, build_node(b, "F", "first", "x", "a"), "local");
  build_node(b, "Neg", "neg", "a", "b");
  build_domain(b, build_node(b, "F", "second", "b", "y"), "local");
  build_output(b, "y", DTYPE_FLOAT, "2");
  build_enter_function(b, "local", "F", "p", "q");
  build_node(b, "Relu", "relu", "p", "r");
  build_node(b, "Abs", "abs", "r", "q");
  build_leave(b);
}

static void test_a_function_changes(void **state) {
  (void)state;
  struct fixture f;
  begin(&f, make_calls, 0);
  const uint32_t relu = node_named(&f, "relu");
  edit_group(&f.e, "one", relu, "");
  edit_set_input(&f.e, node_named(&f, "abs"), 0, value_anywhere(&f, "p"));
  edit_remove_node(&f.e, relu);
  expect(&f, "1: g0 F > F: x -> a\n"
             "1: g0 F > F: b -> y\n");
  done(&f);
}

// ---- many --------------------------------------------------------------------------------------

static void make_many(struct build *b, uint32_t n) {
  char in[20] = "x", out[20];
  build_input(b, "x", DTYPE_FLOAT, "2");
  for (uint32_t i = 0; i < n; i++) {
    snprintf(out, sizeof out, "v%u", i);
    build_node(b, i % 2 ? "Neg" : "Identity", "", in, out);
    memcpy(in, out, sizeof in);
  }
  build_node(b, "Exp", "last", in, "y");
  build_output(b, "y", DTYPE_FLOAT, "2");
}

// Rows looked at, a node. All Identity nodes go, so that chains of forwards could be walked again and
// again; and every third Neg becomes another node.
static double rows_looked_at(uint32_t n) {
  struct fixture f;
  char name[20];
  begin(&f, make_many, n);
  for (uint32_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "v%u", i);
    const uint32_t v = value(&f, name), node = f.m[1].values[v].def;
    if (i % 2 == 1 && i % 3 != 0) continue;
    edit_group(&f.e, "many", node, "");
    const uint32_t in = model_input(&f.m[1], &f.m[1].nodes[node], 0);
    if (i % 2 == 0)
      edit_replace_uses(&f.e, v, in);
    else
      put(&f, "Abs", in, (struct edit_output){NO_ID, span_str(arena_printf(&f.a, "%s_abs", name))},
          node);
    if (i % 2 == 1) edit_replace_uses(&f.e, v, f.m[1].n_values - 1);
    edit_remove_node(&f.e, node);
  }
  sites_find(&f.m[0], &f.m[1], f.e.groups, NULL, &f.a, &f.sites);
  assert_true(f.sites.n > n / 4);
  const double rows = (double)f.sites.looked / n;
  done(&f);
  return rows;
}

static void test_linear(void **state) {
  (void)state;
  const double few = rows_looked_at(10000), many = rows_looked_at(100000);
  assert_true(many < 1.2 * few);
  assert_true(many < 100);
}

int test_sites(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_nothing_changed),
      cmocka_unit_test(test_an_identity_goes),
      cmocka_unit_test(test_neighbours),
      cmocka_unit_test(test_one_over_the_other),
      cmocka_unit_test(test_there_and_back),
      cmocka_unit_test(test_equal_nodes_take_the_other_in),
      cmocka_unit_test(test_wider),
      cmocka_unit_test(test_a_circle_of_forwards),
      cmocka_unit_test(test_other_elements),
      cmocka_unit_test(test_another_initializer),
      cmocka_unit_test(test_a_constant_is_computed),
      cmocka_unit_test(test_a_constant_behind_an_identity_is_computed),
      cmocka_unit_test(test_a_reader_gets_another_constant),
      cmocka_unit_test(test_in_a_body),
      cmocka_unit_test(test_over_the_border_of_a_body),
      cmocka_unit_test(test_an_output_of_a_body),
      cmocka_unit_test(test_a_function_changes),
      cmocka_unit_test(test_linear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
