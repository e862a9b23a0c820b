// Edits made of edits and kept beside them: forwarding, looks, groups in memory; and that graphs
// that die and inputs that come cost no more than the rows there are.
#include "edit/edit_groups.h"
#include "edit/edit_log.h"
#include "edit_sample.h"
#include "model/inside/model_memory.h"
#include "pass_bench.h"

#include <stdio.h>

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> // needs the four before it
// clang-format on

static uint32_t value(const struct pass_bench *t, const char *name) {
  const uint32_t v = model_value_in(&t->m, t->m.main_graph, model_find_name(&t->m, span_str(name)));
  assert_int_not_equal(v, NO_ID);
  return v;
}

// ---- forwarding ----------------------------------------------------------------------------------

// An output may be forwarded as often as there are nodes: what was tried for a name is not tried again.
static void test_an_output_forwarded_often(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Neg", "", "x", "a");
  build_node(&t->b, "Identity", "", "a", "b");
  build_node(&t->b, "Identity", "", "b", "c");
  build_node(&t->b, "Identity", "", "c", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, NULL);
  pass_bench_ready(t);
  static const char *const names[] = {"y_before", "y_before_1", "y_before_2"};
  for (uint32_t i = 0; i < 3; i++) {
    const uint32_t y = value(t, "y"), node = t->m.values[y].def;
    assert_true(edit_forward(&t->e, y, t->m.refs[t->m.nodes[node].refs].value));
    assert_true(span_is(model_value_name(&t->m, y), names[i]));
    assert_int_equal(t->e.spare_next, i + 1);
    edit_remove_node(&t->e, node);
  }
}

static void test_forward_uses(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Identity", "i", "x", "y");
  const uint32_t branch = build_node(&t->b, "If", "if", "y", "out");
  build_enter(&t->b, branch, "then_branch", "then");
  const uint32_t inner = build_node(&t->b, "Neg", "neg", "y", "n");
  build_output(&t->b, "n", DTYPE_FLOAT, NULL);
  build_leave(&t->b);
  build_output(&t->b, "out", DTYPE_FLOAT, NULL);
  pass_bench_ready(t);
  const uint32_t x = value(t, "x"), y = value(t, "y");
  assert_false(edit_forward(&t->e, y, y));
  assert_false(edit_forward(&t->e, y, NO_ID));
  assert_true(edit_forward(&t->e, y, x));
  assert_int_equal(model_input(&t->m, &t->m.nodes[branch], 0), x);
  assert_int_equal(model_input(&t->m, &t->m.nodes[inner], 0), x);
  assert_int_equal(t->m.values[y].first_use, NO_ID);
}

// y is used where another x lies in between.
static void test_forward_hidden(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Identity", "i", "x", "y");
  const uint32_t branch = build_node(&t->b, "If", "if", "y", "out");
  build_enter(&t->b, branch, "then_branch", "then");
  build_floats(&t->b, "x", "2", (float[]){1, 2});
  build_node(&t->b, "Add", "add", "x y", "n");
  build_leave(&t->b);
  pass_bench_ready(t);
  const uint32_t y = value(t, "y");
  assert_false(edit_forward(&t->e, y, value(t, "x")));
  assert_int_equal(t->e.n, 0);
  assert_int_equal(model_use_count(&t->m, y), 2);
}

static void test_forward_output(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "r", "x", "z");
  const uint32_t i = build_node(&t->b, "Identity", "i", "z", "y");
  build_node(&t->b, "Neg", "n", "y z", "w");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  build_output(&t->b, "y", DTYPE_FLOAT, "2"); // listed twice
  build_output(&t->b, "w", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  const uint32_t z = value(t, "z"), y = value(t, "y");
  assert_true(edit_forward(&t->e, y, z));
  edit_remove_node(&t->e, i);
  assert_int_equal(value(t, "y"), z);
  assert_int_equal(t->m.values[z].n_graph_outputs, 2);
  assert_string_equal(pass_bench_nodes(t, 0), "Relu r(x)->y\nNeg n(y,y)->w\n");
  assert_string_equal(pass_bench_outputs(t, 0), "y float\ny float\nw float\n");
}

// What may not take over an output's name: inputs, other outputs, initializers, values from around,
// and a value with a user that has a value of that name in between.
static void test_forward_refused(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "c", "2", (float[]){1, 2});
  build_node(&t->b, "Relu", "r", "x", "z");
  build_node(&t->b, "Neg", "n", "z", "w");
  build_node(&t->b, "Identity", "i", "w", "y");
  const uint32_t branch = build_node(&t->b, "If", "if", "x", "out");
  build_enter(&t->b, branch, "then_branch", "then");
  build_floats(&t->b, "y", "2", (float[]){1, 2});
  build_node(&t->b, "Add", "add", "y w", "s");
  build_node(&t->b, "Identity", "j", "z", "inner");
  build_output(&t->b, "inner", DTYPE_FLOAT, NULL);
  const uint32_t body = t->b.graph;
  build_leave(&t->b);
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  build_output(&t->b, "z", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "k", "x", "other");
  build_output(&t->b, "other", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  const uint32_t y = value(t, "y");
  assert_false(edit_forward(&t->e, y, value(t, "x")));
  assert_false(edit_forward(&t->e, y, value(t, "other")));
  assert_false(edit_forward(&t->e, y, value(t, "c")));
  assert_false(edit_forward(&t->e, y, value(t, "z")));
  assert_false(edit_forward(&t->e, y, value(t, "w"))); // add has a y of its own
  const uint32_t inner = model_value_in(&t->m, body, model_find_name(&t->m, span_str("inner")));
  assert_false(edit_forward(&t->e, inner, value(t, "z")));
  assert_int_equal(t->e.n, 0);
}

// ---- looks ---------------------------------------------------------------------------------------

static int refuse_look(void *ctx, const struct edit_look *look, struct err *err) {
  uint32_t *seen = ctx;
  *seen = look->tensor;
  return look->sha256[0] == 1 ? 0 : err_set(err, ERR_INPUT, "another tensor");
}

static void test_look(void **state) {
  (void)state;
  struct edit_sample s;
  struct err err = {0};
  uint32_t seen = NO_ID;
  edit_sample_open(&s);
  const struct edit_look look = {.tensor = SAMPLE_BIG, .sha256 = {1, 2}};
  edit_look(&s.e, &look);
  edit_look(&s.e, &look); // once
  static const char line[] =
      "{\"edit\":\"look\",\"tensor\":\"g0/t2:big\",\"sha256\":"
      "\"0102000000000000000000000000000000000000000000000000000000000000\"}\n";
  assert_int_equal(s.n, sizeof line - 1);
  assert_string_equal(s.log, line);
  assert_int_equal(s.e.n, 0);
  edit_sample_close(&s);
  // The same line on the same model: asked, and written again.
  edit_sample_open(&s);
  s.e.look = refuse_look;
  s.e.replay_ctx = &seen;
  assert_int_equal(edit_log_replay_line(&s.e, span_of(line, sizeof line - 2), 2, &err), 0);
  assert_int_equal(seen, SAMPLE_BIG);
  assert_string_equal(s.log, line);
  assert_int_equal(edit_log_replay_line(&s.e, span_of(line, sizeof line - 2), 3, &err), -1);
  assert_int_equal(err.kind, ERR_MODEL); // no log says it twice
  err = (struct err){0};
  static const char other[] =
      "{\"edit\":\"look\",\"tensor\":\"g0/t0:w\",\"sha256\":"
      "\"0002000000000000000000000000000000000000000000000000000000000000\"}";
  assert_int_equal(edit_log_replay_line(&s.e, span_str(other), 3, &err), -1);
  assert_int_equal(err.kind, ERR_INPUT);
  err = (struct err){0};
  static const char broken[] = "{\"edit\":\"look\",\"tensor\":\"g0/t0:w\",\"sha256\":\"00\"}";
  assert_int_equal(edit_log_replay_line(&s.e, span_str(broken), 4, &err), -1);
  assert_int_equal(err.kind, ERR_MODEL);
  edit_sample_close(&s);
}

// ---- groups --------------------------------------------------------------------------------------

static const char *ops_of(struct pass_bench *t, const uint32_t *nodes, uint32_t n) {
  char *text = arena_string(&t->arena, span_str(""));
  for (uint32_t i = 0; i < n; i++)
    text = arena_printf(&t->arena, "%s%s%s", text, i ? " " : "",
                        model_name_str(&t->m, t->m.nodes[nodes[i]].op_type));
  return text;
}

static uint32_t put(struct pass_bench *t, const char *op, uint32_t in, const char *name,
                    uint32_t out) {
  const struct edit_output to = {out, span_str(name)};
  const struct edit_node spec = {
      .before = NO_ID, .op_type = span_str(op), .in = &in, .n_in = 1, .out = &to, .n_out = 1};
  return edit_add_node(&t->e, &spec);
}

static void test_groups(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "w", "2", (float[]){1, 2});
  const uint32_t conv = build_node(&t->b, "Mul", "conv", "x w", "c");
  const uint32_t norm = build_node(&t->b, "Neg", "norm", "c", "y");
  const uint32_t id = build_node(&t->b, "Identity", "id", "y", "z");
  const uint32_t user = build_node(&t->b, "Relu", "relu", "z", "out");
  const uint32_t branch = build_node(&t->b, "If", "if", "out", "o");
  build_enter(&t->b, branch, "then_branch", "then");
  build_node(&t->b, "Add", "inner", "w y", "n");
  build_output(&t->b, "n", DTYPE_FLOAT, NULL);
  build_leave(&t->b);
  build_output(&t->b, "out", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  edit_group(&t->e, "before", NO_ID, "not_kept");
  edit_groups_keep(&t->e);
  const uint32_t x = value(t, "x"), y = value(t, "y"), z = value(t, "z");
  edit_group(&t->e, "fuse", conv, "fused");
  edit_remove_node(&t->e, conv);
  edit_remove_node(&t->e, norm);
  const uint32_t half = put(t, "Half", x, "half", NO_ID);
  const uint32_t gone = put(t, "Wrong", x, "wrong", NO_ID);
  edit_remove_node(&t->e, gone); // is in both lists
  put(t, "Conv", model_output(&t->m, &t->m.nodes[half], 0), "", y);
  const uint32_t inner = put(t, "Abs", x, "abs", NO_ID);
  const uint32_t more = put(t, "Ceil", model_output(&t->m, &t->m.nodes[inner], 0), "ceil", NO_ID);
  edit_replace_uses(&t->e, model_output(&t->m, &t->m.nodes[inner], 0), x);
  assert_int_equal(model_input(&t->m, &t->m.nodes[more], 0), x);
  edit_group(&t->e, "tidy", id, "identity");
  edit_forward(&t->e, z, y);
  edit_remove_node(&t->e, id);
  edit_group(&t->e, "tidy", branch, "unused");
  edit_remove_node(&t->e, branch);
  edit_set_input(&t->e, user, 0, x);

  const struct edit_groups *g = t->e.groups;
  assert_int_equal(g->n_rows, 3);
  assert_int_equal(g->first, 1);
  assert_string_equal(g->rows[0].pass, "fuse");
  assert_string_equal(g->rows[0].reason, "fused");
  assert_int_equal(g->rows[0].site, conv);
  const struct edit_group_row *row = &g->rows[0];
  assert_string_equal(ops_of(t, g->removed + row->removed, row->n_removed), "Mul Neg Wrong");
  assert_string_equal(ops_of(t, g->made + row->made, row->n_made), "Half Wrong Conv Abs Ceil");
  assert_int_equal(row->n_forwards, 1);
  assert_int_equal(g->forwards[row->forwards].from, value(t, "abs"));
  assert_int_equal(g->forwards[row->forwards].to, x);
  row = &g->rows[1];
  assert_string_equal(ops_of(t, g->removed + row->removed, row->n_removed), "Identity");
  assert_int_equal(row->n_made, 0);
  assert_int_equal(row->n_forwards, 1);
  assert_int_equal(g->forwards[row->forwards].from, z);
  assert_int_equal(g->forwards[row->forwards].to, y);
  row = &g->rows[2]; // the nodes of its inner graph go too
  assert_string_equal(ops_of(t, g->removed + row->removed, row->n_removed), "If Add");
  assert_int_equal(row->n_made + row->n_forwards, 0);
  assert_int_equal(g->rows[2].n_changed, 1);
  assert_int_equal(g->changed[g->rows[2].changed], user);
}

static void test_groups_are_off(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  const uint32_t id = build_node(&t->b, "Identity", "id", "x", "z");
  pass_bench_ready(t);
  edit_group(&t->e, "tidy", id, "identity");
  edit_remove_node(&t->e, id);
  assert_null(t->e.groups);
}

// ---- costs ---------------------------------------------------------------------------------------

enum { GRAPHS = 500, WIDE = 20000, LISTED = 70000 }; // LISTED: more than 16 bits count

// Many graphs die one by one, new values come in between: every row is looked at a few times.
static void test_deaths_are_linear(void **state) {
  struct pass_bench *t = *state;
  static uint32_t node[GRAPHS];
  char name[32];
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  for (int i = 0; i < WIDE; i++) {
    snprintf(name, sizeof name, "w%d", i);
    build_floats(&t->b, name, "1", (float[]){1});
  }
  for (int i = 0; i < GRAPHS; i++) {
    snprintf(name, sizeof name, "out%d", i);
    node[i] = build_node(&t->b, "If", "", "x", name);
    build_enter(&t->b, node[i], "then_branch", "then");
    build_floats(&t->b, "own", "1", (float[]){1});
    build_node(&t->b, "Add", "", "own w7", "sum");
    build_output(&t->b, "sum", DTYPE_FLOAT, NULL);
    build_leave(&t->b);
  }
  pass_bench_ready(t);
  assert_int_equal(t->m.work.kill_rows, 0);
  const uint32_t x = value(t, "x");
  for (int i = 0; i < GRAPHS; i++) {
    const uint32_t graph = t->m.attrs[t->m.nodes[node[i]].attrs].first;
    snprintf(name, sizeof name, "new%d", i);
    edit_remove_node(&t->e, node[i]);
    put(t, "Neg", x, name, NO_ID);
    assert_true(t->m.graphs[graph].flags & GRAPH_DEAD);
  }
  uint32_t alive = 0;
  for (uint32_t i = 0; i < t->m.n_values; i++)
    alive += !(t->m.values[i].flags & VALUE_DEAD) && t->m.values[i].graph != 0;
  for (uint32_t i = 0; i < t->m.n_tensors; i++)
    alive += !(t->m.tensors[i].flags & TENSOR_DEAD) && t->m.tensors[i].graph != 0;
  assert_int_equal(alive, 0);
  assert_int_equal(model_use_count(&t->m, value(t, "w7")), 0);
  assert_true(t->m.work.kill_rows <= 2 * (t->m.n_values + (uint64_t)t->m.n_tensors));
}

static void test_inputs_are_linear(void **state) {
  struct pass_bench *t = *state;
  char name[32];
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "", "x", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  const uint32_t y = value(t, "y");
  for (int i = 0; i < WIDE; i++) {
    snprintf(name, sizeof name, "in%d", i);
    const uint32_t in = edit_add_graph_input(&t->e, 0, span_str(name), DTYPE_FLOAT, NULL, NO_ID);
    assert_int_equal(t->m.graph_io[t->m.graphs[0].inputs + (uint32_t)i + 1], in);
    if (i % 4 == 0) edit_set_graph_output(&t->e, 0, t->m.graphs[0].n_outputs, y); // in turn
  }
  const struct model_graph *g = &t->m.graphs[0];
  assert_int_equal(g->n_inputs, WIDE + 1);
  assert_int_equal(g->n_outputs, WIDE / 4 + 1);
  assert_int_equal(t->m.graph_io[g->inputs + WIDE], value(t, name));
  assert_int_equal(t->m.graph_io[g->inputs], value(t, "x"));
  assert_true(t->m.work.io_moved < 3 * WIDE);
  // An input that goes leaves its place to the next.
  edit_remove_graph_input(&t->e, value(t, name));
  const uint32_t last = edit_add_graph_input(&t->e, 0, span_str("z"), DTYPE_FLOAT, NULL, NO_ID);
  assert_int_equal(t->m.graph_io[g->inputs + WIDE], last);
  edit_remove_graph_input(&t->e, last);
}

// Every second input and every third goes, from the front, from the back and from both: what moves is
// as much as lies on the nearer side.
static uint64_t inputs_moved(struct pass_bench *t, int n, bool backwards) {
  static uint32_t in[2 * WIDE];
  char name[32];
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "", "x", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  for (int i = 0; i < n; i++) {
    snprintf(name, sizeof name, "in%d", i);
    in[i] = build_input(&t->b, name, DTYPE_FLOAT, "2");
  }
  pass_bench_ready(t);
  const uint32_t x = value(t, "x");
  for (int i = 0; i < n; i++)
    edit_remove_graph_input(&t->e, in[backwards ? n - 1 - i : i]);
  const struct model_graph *g = &t->m.graphs[0];
  assert_int_equal(g->n_inputs, 1);
  assert_int_equal(t->m.graph_io[g->inputs], x);
  const uint32_t again = edit_add_graph_input(&t->e, 0, span_str("z"), DTYPE_FLOAT, NULL, NO_ID);
  assert_int_equal(t->m.graph_io[g->inputs + 1], again);
  build_check(&t->m);
  return t->m.work.io_moved;
}

// Every second input goes, as those of initializers do that lie between others: the next one is found beside the
// last.
static void test_interleaved_inputs_are_found(void **state) {
  struct pass_bench *t = *state;
  static uint32_t in[2 * WIDE];
  char name[32];
  build_node(&t->b, "Relu", "", "in1", "y");
  for (int i = 0; i < 2 * WIDE; i++) {
    snprintf(name, sizeof name, "in%d", i);
    in[i] = build_input(&t->b, name, DTYPE_FLOAT, "2");
  }
  build_output(&t->b, "y", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  for (int i = 0; i < WIDE; i++)
    edit_remove_graph_input(&t->e, in[2 * i]);
  const struct model_graph *g = &t->m.graphs[0];
  assert_int_equal(g->n_inputs, WIDE);
  for (int i = 0; i < WIDE; i++)
    assert_int_equal(t->m.graph_io[g->inputs + (uint32_t)i], in[2 * i + 1]);
  assert_true(t->m.work.inputs_seen < 3 * WIDE);
  edit_remove_graph_input(&t->e, in[2 * WIDE - 1]);
  assert_int_equal(g->n_inputs, WIDE - 1);
  build_check(&t->m);
}

static void test_removed_inputs_are_linear(void **state) {
  assert_true(inputs_moved(*state, 2 * WIDE, false) < 6 * WIDE);
}

static void test_removed_inputs_are_linear_backwards(void **state) {
  assert_true(inputs_moved(*state, 2 * WIDE, true) < 6 * WIDE);
}

// One value is listed as an output many times, and another takes its place in all of them.
static void test_outputs_are_linear(void **state) {
  struct pass_bench *t = *state;
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_floats(&t->b, "w", "2", (float[]){1, 2});
  build_node(&t->b, "Relu", "", "x", "y");
  for (int i = 0; i < LISTED; i++)
    build_output(&t->b, "w", DTYPE_FLOAT, "2");
  pass_bench_ready(t);
  const uint32_t w = value(t, "w"), y = value(t, "y");
  for (uint32_t i = 0; i < LISTED; i++)
    edit_set_graph_output(&t->e, 0, i, y);
  assert_int_equal(t->m.values[w].n_graph_outputs, 0);
  assert_int_equal(t->m.values[y].n_graph_outputs, LISTED);
  assert_true(t->m.work.infos_seen < 4 * LISTED);
  // A declaration that comes later is seen: the first output that is set then takes it over.
  const struct model_dim two = {2, t->m.empty};
  edit_retype_value(&t->e, y, DTYPE_FLOAT, &two, 1);
  edit_set_graph_output(&t->e, 0, LISTED, y);
  build_check(&t->m);
}

// Thousands of values are each an output, and something else takes their places, against the order of the list or in
// none: the list is walked once, not for each. A value that is not asked to go is found as well, and one that is
// listed in many places.
static void test_listings_are_linear(void **state) {
  struct pass_bench *t = *state;
  char name[32];
  build_input(&t->b, "x", DTYPE_FLOAT, "2");
  build_node(&t->b, "Relu", "", "x", "y");
  build_node(&t->b, "Relu", "", "x", "z");
  for (int i = 0; i < WIDE; i++) {
    snprintf(name, sizeof name, "w%d", i);
    build_floats(&t->b, name, "2", (float[]){1, 2});
    build_output(&t->b, name, DTYPE_FLOAT, "2");
  }
  pass_bench_ready(t);
  struct model *m = &t->m;
  const uint32_t y = value(t, "y"), z = value(t, "z");
  assert_int_equal(model_next_listing(m, y), NO_ID);
  for (uint32_t k = 0; k < WIDE; k++) {
    const uint32_t i = k % 2 ? WIDE - 1 - k / 2 : (uint32_t)(k / 2 * 7919ull % WIDE);
    snprintf(name, sizeof name, "w%u", i);
    const uint32_t w = value(t, name);
    if (m->values[w].n_graph_outputs == 0) continue;
    assert_true(model_listed_at_home(m, w));
    assert_int_equal(model_next_listing(m, w), i);
    if (i % 3 != 0) edit_set_graph_output(&t->e, 0, i, y);
  }
  assert_true(m->memory->listing_steps > WIDE && m->memory->listing_steps < 8 * WIDE);
  const uint32_t n = m->values[y].n_graph_outputs;
  assert_true(n > WIDE / 3);
  m->memory->listing_steps = 0;
  assert_true(model_listed_at_home(m, y));
  assert_int_equal(m->memory->listing_steps, n);
  while (m->values[y].n_graph_outputs > 0)
    edit_set_graph_output(&t->e, 0, model_next_listing(m, y), z);
  assert_true(m->memory->listing_steps < 5 * n);
  assert_int_equal(m->values[z].n_graph_outputs, n);
  assert_int_equal(model_next_listing(m, y), NO_ID);
  // Two more outputs: the list has no room for the first of them, and lies elsewhere then.
  edit_set_graph_output(&t->e, 0, WIDE, y);
  edit_set_graph_output(&t->e, 0, WIDE + 1, y);
  assert_int_equal(model_next_listing(m, y), WIDE);
  assert_true(model_listed_at_home(m, y) && model_listed_at_home(m, z));
  build_check(m);
}

int test_edit_forward(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, pass_bench_setup, pass_bench_teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_forward_uses),
      TEST(test_an_output_forwarded_often),
      TEST(test_forward_hidden),
      TEST(test_forward_output),
      TEST(test_forward_refused),
      cmocka_unit_test(test_look),
      TEST(test_groups),
      TEST(test_groups_are_off),
      TEST(test_deaths_are_linear),
      TEST(test_inputs_are_linear),
      TEST(test_removed_inputs_are_linear),
      TEST(test_interleaved_inputs_are_found),
      TEST(test_removed_inputs_are_linear_backwards),
      TEST(test_outputs_are_linear),
      TEST(test_listings_are_linear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
