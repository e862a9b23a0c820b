// Every kind of edit: what it changes, what it marks, what it leaves true.
#include "edit_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static int open_sample(void **state) {
  static struct edit_sample s;
  edit_sample_open(&s);
  *state = &s;
  return 0;
}

static int close_sample(void **state) {
  struct edit_sample *s = *state;
  build_check(&s->m);
  edit_sample_close(s);
  return 0;
}

static uint32_t value(const struct edit_sample *s, const char *name) {
  return edit_sample_value(s, 0, name);
}

static void marks_reach_main(const struct edit_sample *s, uint32_t graph) {
  assert_true(s->m.graphs[graph].flags & GRAPH_DIRTY);
  if (s->m.graphs[graph].owner == NO_ID) return;
  const struct model_attr *a = &s->m.attrs[s->m.graphs[graph].owner];
  assert_true(a->flags & ATTR_DIRTY);
  assert_true(s->m.nodes[a->node].flags & NODE_DIRTY);
  assert_true(s->m.graphs[s->m.nodes[a->node].graph].flags & GRAPH_DIRTY);
}

static uint32_t simple_node(struct edit_sample *s, uint32_t graph, const char *op, uint32_t in,
                            const char *out, uint32_t before) {
  const struct edit_output to = {.value = NO_ID, .name = span_str(out)};
  const struct edit_node spec = {.graph = graph,
                                 .before = before,
                                 .name = span_str("new"),
                                 .op_type = span_str(op),
                                 .in = &in,
                                 .n_in = 1,
                                 .out = &to,
                                 .n_out = 1};
  return edit_add_node(&s->e, &spec);
}

// ---- nodes -------------------------------------------------------------------------------------

static void test_add_node(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t in[] = {value(s, "z"), NO_ID, value(s, "w")};
  const struct edit_output out[] = {
      {NO_ID, span_str("n1")}, {NO_ID, span_of("", 0)}, {NO_ID, span_str("n2")}};
  const int64_t perm[] = {0, 2, 1};
  const float scales[] = {0.1f, 1e30f};
  const struct edit_attr attrs[] = {
      {.name = "axis", .type = ATTR_INT, .i = -1},
      {.name = "alpha", .type = ATTR_FLOAT, .f = 0.5f},
      {.name = "mode", .type = ATTR_STRING, .s = span_str("linear")},
      {.name = "perm", .type = ATTR_INTS, .ints = perm, .n = 3},
      {.name = "scales", .type = ATTR_FLOATS, .floats = scales, .n = 2},
      {.name = "empty", .type = ATTR_INTS},
  };
  const struct edit_node spec = {
      0, SAMPLE_RELU, span_str("new"), span_str("Gemm"), span_str("my"), in, 3, out, 3, attrs, 6};
  const uint32_t node = edit_add_node(&s->e, &spec);
  const struct model_node *n = &m->nodes[node];
  assert_int_equal(node, m->loaded_nodes);
  assert_int_equal(n->prev, SAMPLE_CONV);
  assert_int_equal(n->next, SAMPLE_RELU);
  assert_true(n->flags & NODE_NEW);
  assert_int_equal(model_input(m, n, 1), NO_ID);
  assert_int_equal(model_output(m, n, 1), NO_ID);
  assert_int_equal(model_output(m, n, 2), m->loaded_values + 1);
  assert_int_equal(model_use_count(m, in[2]), 3); // Conv, Mul in the branch, and this
  assert_true(span_is(model_name(m, n->domain), "my"));
  int64_t i;
  const int64_t *list;
  uint32_t count;
  struct span text;
  assert_true(model_attr_int(m, node, "axis", 0, &i) && i == -1);
  assert_true(model_attr_ints(m, node, "perm", &list, &count) && count == 3 && list[1] == 2);
  assert_true(model_attr_ints(m, node, "empty", &list, &count) && count == 0);
  assert_true(model_attr_string(m, node, "mode", "", &text) && span_is(text, "linear"));
  assert_true(model_attr_named(m, node, "alpha")->u.f == 0.5f);
  assert_true(m->floats[model_attr_named(m, node, "scales")->first + 1] == 1e30f);
  assert_true(m->graphs[0].flags & GRAPH_DIRTY);
  assert_int_equal(s->e.n, 1);
}

// A node goes and another takes over its output: the usual rewrite.
static void test_replace_node(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t y = value(s, "y"), x = value(s, "x");
  edit_remove_node(&s->e, SAMPLE_CONV);
  assert_int_equal(m->values[y].kind, VALUE_UNDEFINED);
  assert_int_equal(model_use_count(m, x), 0);
  assert_int_equal(m->values[x].kind, VALUE_INPUT);
  assert_int_equal(model_use_count(m, value(s, "b")), 0);
  const struct edit_output to = {.value = y};
  const struct model_node *old = &m->nodes[SAMPLE_CONV];
  // The name lies in the model's own table, which moves while the node is made.
  const struct edit_node spec = {.graph = 0,
                                 .before = SAMPLE_RELU,
                                 .name = model_name(m, old->name),
                                 .op_type = span_str("an operator never seen before"),
                                 .in = &x,
                                 .n_in = 1,
                                 .out = &to,
                                 .n_out = 1};
  const uint32_t node = edit_add_node(&s->e, &spec);
  assert_int_equal(m->values[y].kind, VALUE_NODE_OUTPUT);
  assert_int_equal(m->values[y].def, node);
  assert_int_equal(m->graphs[0].first_node, node);
  assert_true(span_is(model_name(m, m->nodes[node].name), "conv1"));
  assert_true(m->nodes[SAMPLE_CONV].flags & NODE_DEAD);
}

static void test_unused_output_dies_and_comes_back(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t k = value(s, "k");
  edit_remove_node(&s->e, SAMPLE_CONSTANT);
  assert_true(m->values[k].flags & VALUE_DEAD);
  assert_int_equal(value(s, "k"), NO_ID);
  const struct edit_output to = {.value = k};
  const struct edit_node spec = {
      .graph = 0, .before = NO_ID, .op_type = span_str("RandomNormal"), .out = &to, .n_out = 1};
  edit_add_node(&s->e, &spec);
  assert_int_equal(value(s, "k"), k);
  assert_int_equal(m->values[k].kind, VALUE_NODE_OUTPUT);
}

static void test_value_dies_with_its_last_use(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t y = value(s, "y"), info = m->values[y].info;
  edit_remove_node(&s->e, SAMPLE_CONV);
  assert_false(m->infos[info].flags & INFO_DEAD);
  edit_set_input(&s->e, SAMPLE_RELU, 0, value(s, "x"));
  assert_true(m->values[y].flags & VALUE_DEAD);
  assert_true(m->infos[info].flags & INFO_DEAD);
  assert_true(m->nodes[SAMPLE_RELU].flags & NODE_DIRTY);
}

static void test_remove_node_with_graphs(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t t = edit_sample_value(s, 1, "t");
  edit_remove_node(&s->e, SAMPLE_IF);
  assert_true(m->graphs[1].flags & GRAPH_DEAD);
  assert_true(m->graphs[2].flags & GRAPH_DEAD);
  assert_true(m->nodes[SAMPLE_MUL].flags & NODE_DEAD);
  assert_true(m->tensors[SAMPLE_OWN].flags & TENSOR_DEAD);
  assert_false(m->tensors[SAMPLE_W].flags & TENSOR_DEAD);
  assert_true(m->values[t].flags & VALUE_DEAD);
  assert_int_equal(model_use_count(m, value(s, "w")), 1);
  assert_int_equal(model_use_count(m, value(s, "z")), 1); // as an output
  assert_int_equal(m->values[value(s, "out")].kind, VALUE_UNDEFINED);
}

static void test_move_node(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  edit_move_node(&s->e, SAMPLE_FLOATS, SAMPLE_CONV);
  assert_int_equal(m->graphs[0].first_node, SAMPLE_FLOATS);
  assert_int_equal(m->graphs[0].last_node, SAMPLE_CONSTANT);
  build_check(m);
  edit_move_node(&s->e, SAMPLE_FLOATS, NO_ID);
  assert_int_equal(m->graphs[0].first_node, SAMPLE_CONV);
  assert_int_equal(m->graphs[0].last_node, SAMPLE_FLOATS);
}

static void test_set_input(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t z = value(s, "z");
  // Appending moves the node's slots; the threads of its other inputs follow.
  edit_set_input(&s->e, SAMPLE_CONV, 3, z);
  build_check(m);
  assert_int_equal(m->nodes[SAMPLE_CONV].n_in, 4);
  assert_int_equal(model_output(m, &m->nodes[SAMPLE_CONV], 0), value(s, "y"));
  edit_set_input(&s->e, SAMPLE_CONV, 2, NO_ID);
  assert_int_equal(model_use_count(m, value(s, "b")), 0);
  assert_false(m->values[value(s, "b")].flags & VALUE_DEAD); // an initializer stays
  edit_set_input(&s->e, SAMPLE_MUL, 1, value(s, "b"));       // from a branch
  marks_reach_main(s, 1);
  edit_set_input(&s->e, SAMPLE_MUL, 1, value(s, "b")); // the same again
  assert_int_equal(model_use_count(m, value(s, "b")), 1);
}

static void test_set_output(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t y = value(s, "y");
  edit_set_output(&s->e, SAMPLE_CONV, 0, (struct edit_output){NO_ID, span_str("y_raw")});
  assert_int_equal(m->values[y].kind, VALUE_UNDEFINED);
  assert_int_equal(value(s, "y_raw"), m->loaded_values);
  build_check(m);
  edit_set_output(&s->e, SAMPLE_CONV, 1, (struct edit_output){y, span_of("", 0)});
  assert_int_equal(m->nodes[SAMPLE_CONV].n_out, 2);
  assert_int_equal(m->nodes[SAMPLE_CONV].n_in, 3);
  assert_int_equal(m->values[y].def, SAMPLE_CONV);
  edit_set_output(&s->e, SAMPLE_CONV, 0, (struct edit_output){NO_ID, span_of("", 0)});
  assert_int_equal(value(s, "y_raw"), NO_ID);
}

static void test_set_attr(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  int64_t i;
  const int64_t *pads;
  uint32_t n;
  assert_true(model_attr_ints(m, SAMPLE_CONV, "pads", &pads, &n));
  const uint32_t row = (uint32_t)(model_attr_named(m, SAMPLE_CONV, "pads") - m->attrs);
  // In place, from its own list.
  edit_set_attr(&s->e, SAMPLE_CONV,
                &(struct edit_attr){.name = "pads", .type = ATTR_INTS, .ints = pads, .n = 1});
  assert_true(model_attr_ints(m, SAMPLE_CONV, "pads", &pads, &n) && n == 1);
  assert_int_equal(row, model_attr_named(m, SAMPLE_CONV, "pads") - m->attrs);
  assert_true(m->attrs[row].flags & ATTR_DIRTY);
  // A new one moves the run.
  edit_set_attr(&s->e, SAMPLE_CONV, &(struct edit_attr){.name = "new", .type = ATTR_INT, .i = 5});
  assert_true(model_attr_int(m, SAMPLE_CONV, "new", 0, &i) && i == 5);
  assert_true(model_attr_int(m, SAMPLE_CONV, "group", 0, &i) && i == 1);
  assert_int_equal(m->nodes[SAMPLE_CONV].n_attrs, 3);
  // Gone.
  edit_set_attr(&s->e, SAMPLE_CONV, &(struct edit_attr){.name = "group"});
  assert_null(model_attr_named(m, SAMPLE_CONV, "group"));
  // The run of the If moves; its graphs follow, and what happens in them is still seen.
  edit_set_attr(&s->e, SAMPLE_IF, &(struct edit_attr){.name = "z", .type = ATTR_INT, .i = 1});
  build_check(m);
  edit_remove_node(&s->e, SAMPLE_MUL);
  marks_reach_main(s, 1);
}

static void test_moved_attr_keeps_its_rests(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t row = (uint32_t)(model_attr_named(m, SAMPLE_CONV, "pads") - m->attrs);
  const uint32_t first = TABLE_ADD(m, kept_fields, 3);
  m->kept_fields[first] = (struct model_kept_field){KEPT_ATTR, row, {1, 2}};
  m->kept_fields[first + 1] = (struct model_kept_field){KEPT_ATTR, row, {3, 4}};
  m->kept_fields[first + 2] = (struct model_kept_field){KEPT_NODE, 0, {5, 6}};
  m->attrs[row].flags |= ATTR_HAS_KEPT;
  edit_set_attr(&s->e, SAMPLE_CONV, &(struct edit_attr){.name = "new", .type = ATTR_INT, .i = 5});
  uint32_t n;
  const uint32_t moved = (uint32_t)(model_attr_named(m, SAMPLE_CONV, "pads") - m->attrs);
  assert_int_not_equal(moved, row);
  const struct model_kept_field *r = model_kept_fields(m, KEPT_ATTR, moved, &n);
  assert_int_equal(n, 2);
  assert_int_equal(r[0].at.off, 1);
  assert_int_equal(r[1].at.off, 3);
  assert_int_equal(model_kept_fields(m, KEPT_NODE, 0, &n)->at.off, 5);
}

static void test_tensor_attr(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const int64_t two = 2, data[] = {3, 4};
  struct span small;
  const uint32_t recipe = recipe_bytes(&s->r, DTYPE_INT64, &two, 1, span_of(data, sizeof data));
  const uint32_t old = model_attr_named(m, SAMPLE_CONSTANT, "value")->first;
  edit_set_attr(&s->e, SAMPLE_CONSTANT,
                &(struct edit_attr){.name = "value", .type = ATTR_TENSOR, .recipe = recipe});
  const uint32_t tensor = model_attr_named(m, SAMPLE_CONSTANT, "value")->first;
  assert_int_equal(tensor, m->loaded_tensors);
  assert_true(m->tensors[old].flags & TENSOR_DEAD);
  assert_true(m->tensors[tensor].flags & TENSOR_NEW);
  assert_int_equal(m->tensors[tensor].home, HOME_ATTRIBUTE);
  struct model_constant c;
  assert_true(model_resolve_constant(m, value(s, "k"), &c) && c.tensor == tensor);
  assert_true(model_small_value(m, tensor, &small) && small.n == sizeof data);
  assert_memory_equal(small.at, data, sizeof data);
}

// ---- tensors -----------------------------------------------------------------------------------

static void test_add_tensor(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const int64_t perm[] = {1, 0};
  const uint32_t t = recipe_transpose(&s->r, edit_tensor_recipe(&s->e, SAMPLE_BIG), perm);
  const uint32_t v = edit_add_tensor(&s->e, 0, span_str("big_t"), t);
  const uint32_t tensor = m->values[v].def;
  assert_int_equal(m->values[v].kind, VALUE_INITIALIZER);
  assert_int_equal(tensor, m->loaded_tensors);
  assert_int_equal(m->tensors[tensor].owner, v);
  assert_int_equal(m->tensors[tensor].bytes, 64 * 64 * 4);
  assert_int_equal(m->tensors[tensor].recipe, t);
  struct span small;
  assert_false(model_small_value(m, tensor, &small));
  // In a function body: a Constant at its start.
  const uint32_t c = edit_add_tensor(&s->e, 3, span_str("big_c"), t);
  const uint32_t node = m->values[c].def;
  assert_int_equal(m->values[c].kind, VALUE_NODE_OUTPUT);
  assert_int_equal(m->graphs[3].first_node, node);
  assert_true(model_op_is(m, node, "Constant"));
  assert_true(m->graphs[3].flags & GRAPH_DIRTY);
  struct model_constant found;
  assert_true(model_resolve_constant(m, c, &found) && found.tensor == tensor + 1);
}

static void test_replace_tensor(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const int64_t perm[] = {1, 0, 2};
  const uint32_t before = edit_tensor_recipe(&s->e, SAMPLE_W);
  assert_int_equal(s->r.rows[before].kind, RECIPE_BYTES); // inline, at hand, and without pieces
  const uint32_t t = recipe_transpose(&s->r, before, perm);
  edit_replace_tensor(&s->e, SAMPLE_W, t);
  assert_true(m->tensors[SAMPLE_W].flags & TENSOR_REPLACED);
  assert_int_equal(edit_tensor_recipe(&s->e, SAMPLE_W), t);
  struct span small;
  assert_false(model_small_value(m, SAMPLE_W, &small)); // not at hand any more
  edit_replace_tensor(&s->e, SAMPLE_W, before);
  assert_true(model_small_value(m, SAMPLE_W, &small));
  // In a branch; in an attribute; of a Constant without a tensor attribute.
  const int64_t two = 2;
  const float data[] = {8, 9};
  const uint32_t bytes = recipe_bytes(&s->r, DTYPE_FLOAT, &two, 1, span_of(data, sizeof data));
  edit_replace_tensor(&s->e, SAMPLE_OWN, bytes);
  marks_reach_main(s, 2);
  const uint32_t list = model_attr_named(m, SAMPLE_FLOATS, "value_floats")->first;
  edit_replace_tensor(&s->e, list, bytes);
  assert_null(model_attr_named(m, SAMPLE_FLOATS, "value_floats"));
  assert_int_equal(model_attr_named(m, SAMPLE_FLOATS, "value")->type, ATTR_TENSOR);
  struct model_constant c;
  assert_true(model_resolve_constant(m, value(s, "f"), &c) && c.tensor == list);
  assert_true(model_small_value(m, list, &small));
  assert_memory_equal(small.at, data, sizeof data);
}

static void test_remove_tensor(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t big = value(s, "big");
  edit_remove_tensor(&s->e, SAMPLE_BIG);
  assert_true(m->tensors[SAMPLE_BIG].flags & TENSOR_DEAD);
  assert_true(m->values[big].flags & VALUE_DEAD);
}

static void test_tensor_recipes(void **state) {
  struct edit_sample *s = *state;
  const int64_t flat = 4096;
  const uint32_t own = edit_tensor_recipe(&s->e, SAMPLE_BIG);
  assert_int_equal(own, edit_tensor_recipe(&s->e, SAMPLE_BIG));
  const struct recipe *x = &s->r.rows[own];
  assert_int_equal(x->kind, RECIPE_EXTENT);
  assert_int_equal(s->r.pieces[x->at].at.off, 4096);
  assert_int_equal(s->r.pieces[x->at].at.file, 1);
  const uint32_t as = edit_tensor_recipe_as(&s->e, SAMPLE_BIG, &flat, 1);
  assert_int_equal(s->r.rows[as].rank, 1);
  assert_int_equal(s->r.rows[as].kind, RECIPE_EXTENT);
  assert_true(edit_tensor_readable(&s->e, SAMPLE_BIG));
  s->m.tensors[SAMPLE_B].dtype = DTYPE_STRING;
  assert_false(edit_tensor_readable(&s->e, SAMPLE_B));
}

// ---- values ------------------------------------------------------------------------------------

static void test_rename_value(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t z = value(s, "z"), w = value(s, "w");
  edit_rename_value(&s->e, z, span_str("renamed"));
  assert_int_equal(value(s, "renamed"), z);
  assert_int_equal(value(s, "z"), NO_ID);
  assert_true(m->nodes[SAMPLE_RELU].flags & NODE_DIRTY);
  assert_true(m->nodes[SAMPLE_MUL].flags & NODE_DIRTY);
  assert_false(m->nodes[SAMPLE_CONV].flags & NODE_DIRTY);
  assert_true(m->graphs[0].flags & GRAPH_IO_DIRTY);
  assert_true(m->infos[m->values[z].info].flags & INFO_DIRTY);
  marks_reach_main(s, 1);
  edit_rename_value(&s->e, w, span_str("weight"));
  assert_true(span_is(model_name(m, m->tensors[SAMPLE_W].name), "weight"));
  assert_true(m->tensors[SAMPLE_W].flags & TENSOR_DIRTY);
}

static void test_retype_value(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t y = value(s, "y"), k = value(s, "k"), z = value(s, "z");
  const struct model_dim dims[] = {{2, 0}, {-1, model_intern(m, span_str("B"))}, {-1, m->empty}};
  edit_retype_value(&s->e, y, DTYPE_FLOAT16, dims, 3);
  const struct model_info *i = &m->infos[m->values[y].info];
  assert_int_equal(i->dtype, DTYPE_FLOAT16);
  assert_int_equal(i->rank, 3);
  assert_true(i->flags & INFO_DIRTY);
  edit_retype_value(&s->e, k, DTYPE_INT64, NULL, NO_ID);
  i = &m->infos[m->values[k].info];
  assert_true(i->flags & INFO_NEW);
  assert_int_equal(i->flags & (INFO_TENSOR | INFO_SHAPED), INFO_TENSOR);
  edit_retype_value(&s->e, y, DTYPE_UNDEFINED, NULL, NO_ID);
  assert_true(m->infos[m->values[y].info].flags & INFO_DEAD);
  edit_retype_value(&s->e, z, DTYPE_UNDEFINED, NULL, NO_ID); // an output stays declared
  assert_false(m->infos[m->values[z].info].flags & INFO_DEAD);
  edit_retype_value(&s->e, z, DTYPE_FLOAT, NULL, 0); // a scalar
  assert_true(m->infos[m->values[z].info].flags & INFO_SHAPED);
}

static void test_replace_uses(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t z = value(s, "z"), y = value(s, "y");
  edit_replace_uses(&s->e, z, y);
  assert_int_equal(model_use_count(m, z), 1); // still an output of the graph
  assert_int_equal(model_use_count(m, y), 3);
  marks_reach_main(s, 1);
  marks_reach_main(s, 2);
  edit_remove_node(&s->e, SAMPLE_CONV);
  edit_replace_uses(&s->e, y, value(s, "x"));
  assert_true(m->values[y].flags & VALUE_DEAD);
}

static void test_graph_inputs(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const struct model_dim dim = {-1, m->empty};
  const uint32_t in = edit_add_graph_input(&s->e, 0, span_str("mask"), DTYPE_BOOL, &dim, 1);
  assert_int_equal(m->graphs[0].n_inputs, 3);
  assert_int_equal(m->graph_io[m->graphs[0].inputs + 2], in);
  build_check(m);
  edit_remove_graph_input(&s->e, value(s, "x"));
  assert_int_equal(m->graph_io[m->graphs[0].inputs + 1], in);
  assert_int_equal(m->values[value(s, "x")].kind, VALUE_UNDEFINED); // still used
  assert_true(m->graphs[0].flags & GRAPH_IO_DIRTY);
  build_check(m);
  edit_remove_graph_input(&s->e, in);
  assert_true(m->values[in].flags & VALUE_DEAD);
  const uint32_t a =
      edit_add_graph_input(&s->e, 3, span_str("factor"), DTYPE_UNDEFINED, NULL, NO_ID);
  assert_int_equal(m->values[a].info, NO_ID); // functions declare names only
}

static void test_input_with_initializer(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  struct build b = {.m = m, .graph = 0};
  const uint32_t w = build_input(&b, "w", DTYPE_FLOAT, "4,4,1");
  edit_set_input(&s->e, SAMPLE_CONV, 1, value(s, "big"));
  edit_set_input(&s->e, SAMPLE_MUL, 1, value(s, "big"));
  edit_remove_tensor(&s->e, SAMPLE_W);
  assert_int_equal(m->values[w].kind, VALUE_INPUT);
  edit_remove_graph_input(&s->e, w);
  assert_true(m->values[w].flags & VALUE_DEAD);
}

static void test_graph_outputs(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t y = value(s, "y"), out = value(s, "out");
  const uint32_t declared = m->values[out].info, inner = m->values[y].info;
  edit_set_graph_output(&s->e, 0, 0, y);
  assert_int_equal(m->values[y].n_graph_outputs, 1);
  assert_int_equal(m->values[out].n_graph_outputs, 0);
  assert_int_equal(m->infos[declared].value, y);  // the declaration followed,
  assert_int_equal(m->infos[declared].rank, 3);   // with the type of y,
  assert_true(m->infos[inner].flags & INFO_DEAD); // which is not said twice
  build_check(m);
  edit_set_graph_output(&s->e, 0, 2, y); // appended: y twice
  assert_int_equal(m->graphs[0].n_outputs, 3);
  assert_int_equal(m->values[y].n_graph_outputs, 2);
  build_check(m);
  edit_set_graph_output(&s->e, 0, 2, y); // nothing changes
  edit_set_graph_output(&s->e, 0, 2, value(s, "x"));
  assert_int_equal(m->values[y].n_graph_outputs, 1);
  edit_set_graph_output(&s->e, 3, 0, edit_sample_value(s, 3, "a"));
  assert_true(m->graphs[3].flags & GRAPH_IO_DIRTY);
}

// ---- the model ---------------------------------------------------------------------------------

static void test_subgraph(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t g = edit_add_subgraph(&s->e, 0, span_str("body"));
  const uint32_t node = simple_node(s, g, "Neg", value(s, "z"), "inner", NO_ID);
  edit_set_graph_output(&s->e, g, 0, model_output(m, &m->nodes[node], 0));
  const uint32_t cond = value(s, "cond");
  const struct edit_output to = {NO_ID, span_str("chosen")};
  const struct edit_attr attr = {.name = "then_branch", .type = ATTR_GRAPH, .graph = g};
  const struct edit_node spec = {
      0, NO_ID, span_str("if2"), span_str("If"), span_of("", 0), &cond, 1, &to, 1, &attr, 1};
  const uint32_t made = edit_add_node(&s->e, &spec);
  assert_int_equal(m->graphs[g].owner, model_attr_named(m, made, "then_branch") - m->attrs);
  assert_int_equal(m->graphs[g].depth, 1);
  build_check(m);
  // Another attribute moves the run, a removal takes the graph along.
  edit_set_attr(&s->e, made, &(struct edit_attr){.name = "x", .type = ATTR_INT});
  build_check(m);
  edit_set_attr(&s->e, made, &(struct edit_attr){.name = "then_branch"});
  assert_true(m->graphs[g].flags & GRAPH_DEAD);
  assert_true(m->nodes[node].flags & NODE_DEAD);
}

static void test_functions(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t f = edit_add_function(&s->e, span_str("local"), span_str("twice"), NULL, 0);
  const uint32_t g = m->functions[f].graph;
  const uint32_t a = edit_add_graph_input(&s->e, g, span_str("a"), DTYPE_UNDEFINED, NULL, NO_ID);
  simple_node(s, g, "Neg", a, "r", NO_ID);
  edit_set_graph_output(&s->e, g, 0, edit_sample_value(s, g, "r"));
  assert_int_equal(model_opset_version(m, g, span_str("")), 18);
  edit_set_opset(&s->e, span_str("com.microsoft"), 1); // pushes the functions' imports on
  assert_int_equal(model_opset_version(m, g, span_str("local")), 1);
  assert_int_equal(model_opset_version(m, 3, span_str("")), 17);
  assert_int_equal(model_opset_version(m, g, span_str("com.microsoft")), 0);
  edit_remove_function(&s->e, f);
  assert_true(m->functions[f].flags & FUNCTION_DEAD);
  assert_true(m->graphs[g].flags & GRAPH_DEAD);
  edit_remove_function(&s->e, 0);
  assert_true(m->nodes[SAMPLE_BODY].flags & NODE_DEAD);
}

static void test_imports_go(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  const uint32_t g = 3; // the body of function 0
  const uint32_t before = m->functions[0].n_opsets;
  edit_set_opset(&s->e, span_str("one"), 1);
  edit_set_opset(&s->e, span_str("two"), 2);
  edit_set_opset(&s->e, span_str("one"), 0);
  assert_int_equal(model_opset_version(m, 0, span_str("one")), 0);
  assert_int_equal(model_opset_version(m, 0, span_str("two")), 2);
  assert_int_equal(model_opset_version(m, g, span_str("")), 17); // its rows moved with it
  edit_set_function_opset(&s->e, 0, span_str("two"), 2);
  assert_int_equal(m->functions[0].n_opsets, before + 1);
  edit_set_function_opset(&s->e, 0, span_str("two"), 0);
  assert_int_equal(m->functions[0].n_opsets, before);
  assert_int_equal(model_opset_version(m, g, span_str("two")), 0);
  assert_int_equal(model_opset_version(m, g, span_str("")), 17);
}

static void test_rename_node(void **state) {
  struct edit_sample *s = *state;
  edit_rename_node(&s->e, 0, span_str("called"));
  assert_true(span_is(model_name(&s->m, s->m.nodes[0].name), "called"));
  assert_true(s->m.nodes[0].flags & NODE_DIRTY);
  edit_rename_node(&s->e, 0, span_of("", 0));
  assert_int_equal(s->m.nodes[0].name, s->m.empty);
}

static void test_model_level(void **state) {
  struct edit_sample *s = *state;
  struct model *m = &s->m;
  edit_set_opset(&s->e, span_str("ai.onnx"), 21);
  assert_int_equal(model_opset_version(m, 0, span_str("")), 21);
  edit_set_ir_version(&s->e, 10);
  assert_int_equal(m->ir_version, 10);
  edit_set_metadata(&s->e, span_str("a"), span_str("1"));
  edit_set_metadata(&s->e, span_str("b"), span_str("2"));
  edit_set_metadata(&s->e, span_str("a"), span_of("", 0));
  edit_set_metadata(&s->e, span_str("absent"), span_of("", 0));
  edit_set_metadata(&s->e, span_str("b"), span_str("3"));
  assert_int_equal(m->n_metadata, 1);
  assert_true(span_is(model_name(m, m->metadata[0].value), "3"));
  assert_int_equal(m->dirty, MODEL_DIRTY_OPSETS | MODEL_DIRTY_IR_VERSION | MODEL_DIRTY_METADATA);
}

static int refuse_line(void *ctx, struct span line) {
  (void)line;
  ++*(int *)ctx;
  return -1;
}

static void test_failed_sink(void **state) {
  struct edit_sample *s = *state;
  int calls = 0;
  struct err err = {0};
  assert_int_equal(edits_finish(&s->e, &err), 0);
  s->e.sink = refuse_line;
  s->e.sink_ctx = &calls;
  edit_set_ir_version(&s->e, 9);
  edit_set_ir_version(&s->e, 10);
  assert_int_equal(calls, 1); // the log ends where it broke
  assert_int_equal(s->m.ir_version, 10);
  assert_int_equal(edits_finish(&s->e, &err), -1);
  assert_int_equal(err.kind, ERR_IO);
}

static int take_line(void *ctx, struct span line) {
  *(size_t *)ctx += line.n;
  return 0;
}

// However deep recipes are nested: a line of a log holds a bounded number of them, and the run ends with an error.
static void test_deep_recipe(void **state) {
  struct edit_sample *s = *state;
  size_t bytes = 0;
  struct err err = {0};
  const float number = 2;
  uint32_t recipe = recipe_bytes(&s->r, DTYPE_FLOAT, NULL, 0, span_of(&number, sizeof number));
  s->e.sink = take_line;
  s->e.sink_ctx = &bytes;
  while (s->r.rows[recipe].depth < RECIPE_MAX_DEPTH)
    recipe = recipe_map(&s->r, RECIPE_MAP_SQRT, (uint32_t[]){recipe});
  edit_add_tensor(&s->e, 0, span_str("deepest"), recipe);
  assert_int_equal(edits_finish(&s->e, &err), 0);
  for (uint32_t i = 0; i < 1000; i++)
    recipe = recipe_map(&s->r, RECIPE_MAP_SQRT, (uint32_t[]){recipe});
  edit_add_tensor(&s->e, 0, span_str("deeper"), recipe);
  assert_int_equal(edits_finish(&s->e, &err), -1);
  assert_int_equal(err.kind, ERR_MODEL);
}

#define EDIT_TEST(f) cmocka_unit_test_setup_teardown(f, open_sample, close_sample)

int test_edit(void) {
  const struct CMUnitTest tests[] = {
      EDIT_TEST(test_add_node),
      EDIT_TEST(test_replace_node),
      EDIT_TEST(test_unused_output_dies_and_comes_back),
      EDIT_TEST(test_value_dies_with_its_last_use),
      EDIT_TEST(test_remove_node_with_graphs),
      EDIT_TEST(test_move_node),
      EDIT_TEST(test_set_input),
      EDIT_TEST(test_set_output),
      EDIT_TEST(test_set_attr),
      EDIT_TEST(test_moved_attr_keeps_its_rests),
      EDIT_TEST(test_tensor_attr),
      EDIT_TEST(test_add_tensor),
      EDIT_TEST(test_replace_tensor),
      EDIT_TEST(test_remove_tensor),
      EDIT_TEST(test_tensor_recipes),
      EDIT_TEST(test_rename_value),
      EDIT_TEST(test_retype_value),
      EDIT_TEST(test_replace_uses),
      EDIT_TEST(test_graph_inputs),
      EDIT_TEST(test_input_with_initializer),
      EDIT_TEST(test_graph_outputs),
      EDIT_TEST(test_subgraph),
      EDIT_TEST(test_functions),
      EDIT_TEST(test_model_level),
      EDIT_TEST(test_imports_go),
      EDIT_TEST(test_rename_node),
      EDIT_TEST(test_failed_sink),
      EDIT_TEST(test_deep_recipe),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
