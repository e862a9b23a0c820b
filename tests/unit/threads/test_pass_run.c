// The driver of pipelines with passes of the test's own: the structure check names the pass that left a
// model that is not whole, the cap holds back, repeats end, what passes give back is kept, scratches
// last as long as promised.
#include "model_builder.h"
#include "pipeline/pass_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

struct bench {
  struct model m;
  struct recipes r;
  struct edits e;
  struct build b;
  struct pipeline p;
  struct arena arena;
  struct err err;
  uint32_t n_begun, n_warnings;
  char warned[256], hint[256];
  char begun[64]; // "step.round " of each step that ran
};

// x -> Relu a -> h -> Relu b -> y
static int setup(void **state) {
  static struct bench t;
  t = (struct bench){0};
  build_begin(&t.b, &t.m);
  build_input(&t.b, "x", DTYPE_FLOAT, "4");
  build_node(&t.b, "Relu", "a", "x", "h");
  build_node(&t.b, "Relu", "b", "h", "y");
  build_output(&t.b, "y", DTYPE_FLOAT, "4");
  build_end(&t.b);
  recipes_init(&t.r);
  edits_init(&t.e, &t.m, &t.r);
  pipeline_init(&t.p);
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  pipeline_free(&t->p);
  edits_free(&t->e);
  recipes_free(&t->r);
  model_free(&t->m);
  arena_free(&t->arena);
  return 0;
}

static void add(struct bench *t, const struct pass *pass) {
  struct pipeline_step *step = TABLE_PUSH(&t->p, steps);
  step->repeat = t->p.open;
  for (uint32_t r = t->p.open; r != NO_ID; r = t->p.repeats[r].outer)
    t->p.repeats[r].n++;
  pass_values_start(&step->values, pass, &t->p.arena);
  assert_int_equal(pass_values_read(&step->values, &t->p.arena, &t->err), 0);
}

static void begin(void *ctx, uint32_t step, uint32_t round) {
  struct bench *t = ctx;
  const size_t n = strlen(t->begun);
  snprintf(t->begun + n, sizeof t->begun - n, "%u.%u ", step, round);
}

static void warn(void *ctx, const char *sentence, const char *hint) {
  struct bench *t = ctx;
  assert_true(sentence[0] && hint[0]);
  snprintf(t->warned, sizeof t->warned, "%s", sentence);
  snprintf(t->hint, sizeof t->hint, "%s", hint);
  t->n_warnings++;
}

static struct pass_run run_of(struct bench *t) {
  return (struct pass_run){.pipeline = &t->p,
                           .env = {.m = &t->m, .edits = &t->e, .warn = warn, .warn_ctx = t},
                           .begin = begin,
                           .ctx = t};
}

// ---- passes ------------------------------------------------------------------------------------

// A pass that edits the model, and what the edit is about.
struct editing {
  struct pass pass; // first: a run is given it
  void (*edit)(struct pass_env *env);
  const char *words[2];
};

static const char *word(const struct pass_env *env, uint32_t i) {
  return ((const struct editing *)env->pass)->words[i];
}

static int run_edit(struct pass_env *env, void *options, struct err *err) {
  (void)options, (void)err;
  ((const struct editing *)env->pass)->edit(env);
  return 0;
}

// Node b before node a: it uses what is not made yet.
static void disorder(struct pass_env *env) {
  edit_move_node(env->edits, env->m->graphs[0].last_node, env->m->graphs[0].first_node);
}

static int rename_first(struct pass_env *env, void *options, struct err *err) {
  (void)options, (void)err;
  const uint32_t h = model_output(env->m, &env->m->nodes[0], 0);
  env->result->held_back = 3;
  if (!span_is(model_value_name(env->m, h), "renamed"))
    edit_rename_value(env->edits, h, span_str("renamed"));
  return 0;
}

static int rename_always(struct pass_env *env, void *options, struct err *err) {
  (void)options, (void)err;
  const uint32_t h = model_output(env->m, &env->m->nodes[0], 0);
  const bool renamed = span_is(model_value_name(env->m, h), "renamed");
  env->result->output_limit = 500;
  env->result->counted.bytes = renamed ? 7 : 9;
  edit_rename_value(env->edits, h, span_str(renamed ? "again" : "renamed"));
  return 0;
}

// The first node, as another operator: the old one goes, and with `renamed` the new one has another name.
static void make_anew(struct pass_env *env, const char *from, const char *to) {
  const struct model *m = env->m;
  const struct model_node old = m->nodes[m->graphs[0].first_node];
  if (!span_is(model_name(m, old.op_type), from)) return;
  const uint32_t in = m->refs[old.refs].value, out = model_output(m, &old, 0);
  char name[24];
  snprintf(name, sizeof name, "n%u", m->n_nodes);
  edit_group(env->edits, env->pass->name, m->graphs[0].first_node, "anew");
  edit_remove_node(env->edits, m->graphs[0].first_node);
  edit_add_node(env->edits, &(struct edit_node){.before = m->graphs[0].first_node,
                                                .name = span_str(name),
                                                .op_type = span_str(to),
                                                .in = &in,
                                                .n_in = 1,
                                                .out = &(struct edit_output){.value = out},
                                                .n_out = 1});
  const struct pass_site site = {.status = "converted", .reason = "anew"};
  if (env->site) env->site(env->site_ctx, &site);
}

static void change(struct pass_env *env) {
  make_anew(env, word(env, 0), word(env, 1));
}

// Relu, Neg, Abs, Neg, Abs …: what makes Relu of Abs comes every other round.
static void to_relu_or_neg(struct pass_env *env) {
  const struct model *m = env->m;
  const bool negated = span_is(model_name(m, m->nodes[m->graphs[0].first_node].op_type), "Neg");
  make_anew(env, negated ? "Neg" : "Abs", negated ? "Relu" : "Neg");
}

// A Neg more in each round: no graph comes again.
static void grow(struct pass_env *env) {
  const struct model *m = env->m;
  const uint32_t in = m->graph_io[m->graphs[0].inputs];
  char name[24];
  snprintf(name, sizeof name, "grown%u", m->n_nodes);
  edit_add_node(
      env->edits,
      &(struct edit_node){.before = m->graphs[0].first_node,
                          .op_type = span_str("Neg"),
                          .in = &in,
                          .n_in = 1,
                          .out = &(struct edit_output){.value = NO_ID, .name = span_str(name)},
                          .n_out = 1});
}

// Every step begins with an empty scratch.
static int scratches(struct pass_env *env, void *options, struct err *err) {
  (void)options, (void)err;
  assert_null(env->scratch->last);
  memset(arena_alloc(env->scratch, 4096), 0xee, 4096);
  assert_string_equal(env->pass->name, "scratches");
  return 0;
}

static uint32_t calls, in_call;
static int both(struct pass_env *env, const struct pass *const *passes, void *const *options,
                uint32_t n, struct pass_result *results, struct err *err) {
  (void)options, (void)err;
  calls++;
  in_call = n;
  assert_ptr_equal(env->pass, passes[0]);
  for (uint32_t i = 0; i < n; i++)
    results[i].held_back = passes[i]->name[0] == 'p' ? 1 : 2;
  return 0;
}

static const struct pass p1 = {.name = "p/1", .run_together = both};
static const struct pass q1 = {
    .name = "q/1", .exactness = EXACTNESS_ROUNDING, .run_together = both};
static const struct pass finite = {
    .name = "p/finite", .exactness = EXACTNESS_FINITE, .run_together = both};
static void raise(struct pass_env *env) {
  edit_set_opset(env->edits, span_str(""), 22);
}

// A node of an operator, and of its domain.
static void add_to_end(struct pass_env *env) {
  const struct model *m = env->m;
  const uint32_t in = m->refs[m->nodes[m->graphs[0].first_node].refs].value;
  edit_add_node(env->edits, &(struct edit_node){.before = NO_ID,
                                                .name = span_str("last"),
                                                .domain = span_str(word(env, 1)),
                                                .op_type = span_str(word(env, 0)),
                                                .in = &in,
                                                .n_in = 1,
                                                .out = &(struct edit_output){NO_ID, span_str("z")},
                                                .n_out = 1});
}

static void renew_format(struct pass_env *env) {
  edit_set_ir_version(env->edits, 8);
}

static const struct editing
    raises = {{.name = "raises", .run = run_edit}, raise, {NULL}},
    renews = {{.name = "renews", .run = run_edit}, renew_format, {NULL}},
    breaks = {{.name = "family/breaks", .run = run_edit}, disorder, {NULL}},
    around = {{.name = "around", .run = run_edit}, to_relu_or_neg, {NULL}},
    grows = {{.name = "grows", .run = run_edit}, grow, {NULL}},
    there = {{.name = "there", .run = run_edit}, change, {"Relu", "Abs"}},
    back = {{.name = "back", .run = run_edit}, change, {"Abs", "Relu"}},
    pools = {{.name = "pools", .run = run_edit}, change, {"Relu", "GlobalLpPool"}},
    pools_too = {{.name = "pools/too", .run = run_edit}, add_to_end, {"GlobalLpPool", ""}},
    foreign = {{.name = "foreign", .run = run_edit}, add_to_end, {"Op", "far.away"}};
static const struct pass renames = {
    .name = "renames", .exactness = EXACTNESS_ZERO, .run = rename_first};
static const struct pass flickers = {.name = "flickers", .run = rename_always};
static const struct pass careful = {.name = "scratches", .run = scratches};

// ---- tests -------------------------------------------------------------------------------------

static void a_pass_that_breaks_the_model_is_named(void **state) {
  struct bench *t = *state;
  add(t, &renames);
  add(t, &breaks.pass);
  add(t, &renames);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), -1);
  assert_int_equal(t->err.kind, ERR_INTERNAL);
  assert_non_null(strstr(t->err.msg, "'family/breaks'"));
  assert_string_equal(t->begun, "0.0 1.0 ");
}

static enum err_kind failure(struct bench *t, const struct pass *pass, uint32_t flaws) {
  t->p.n_steps = 0;
  add(t, pass);
  struct pass_run run = run_of(t);
  run.flaws = flaws;
  t->err = (struct err){0};
  assert_int_equal(pass_run(&run, &t->arena, &t->err), -1);
  return t->err.kind;
}

// A model without versions may lack one that a pass needs; what else a pass does wrong is still its own fault.
static void imports_that_are_missing_are_the_models(void **state) {
  struct bench *t = *state;
  t->m.opsets[0].version = 0;
  assert_int_equal(failure(t, &breaks.pass, 1), ERR_INTERNAL);
  assert_null(strstr(t->err.msg, "opset_import"));
  assert_int_equal(failure(t, &foreign.pass, 2), ERR_MODEL);
  assert_string_equal(
      t->err.msg,
      "the pass 'foreign' needs versions of operators that the model does not import: "
      "node 'last' (Op): its operator domain 'far.away' is not imported (opset_import)");
}

static void formats_without_imports_are_the_models(void **state) {
  struct bench *t = *state;
  t->m.n_model_opsets = 0;
  t->m.ir_version = 2;
  assert_int_equal(failure(t, &renews.pass, 0), ERR_MODEL);
  assert_non_null(strstr(t->err.msg, "it imports no operator set"));
}

static void a_model_with_versions_is_not_to_blame(void **state) {
  struct bench *t = *state;
  assert_int_equal(failure(t, &foreign.pass, 0), ERR_INTERNAL);
  assert_non_null(strstr(t->err.msg, "'far.away'"));
}

static const char *hint_of(struct bench *t, const struct pass *a, const struct pass *b) {
  t->p.n_steps = 0;
  t->hint[0] = 0;
  add(t, a);
  if (b) add(t, b);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  return t->hint;
}

// Nodes of an operator without a kernel at the new opset: of the model, of passes, both.
static void a_raise_says_whose_kernels_are_missing(void **state) {
  struct bench *t = *state;
  assert_string_equal(hint_of(t, &pools.pass, NULL), "");
  assert_string_equal(hint_of(t, &raises.pass, NULL),
                      "it has one at opset 18, the opset of the input");
  assert_string_equal(
      t->warned,
      "no ONNX Runtime up to 1.32 has a CPU kernel at opset 22 for node 'n2' (GlobalLpPool)");
}

static void a_raise_says_what_passes_made(void **state) {
  struct bench *t = *state;
  assert_string_equal(hint_of(t, &pools.pass, &raises.pass),
                      "a pass made it; the input, of opset 18, does not have it");
}

static void a_raise_says_which_of_both(void **state) {
  struct bench *t = *state;
  assert_string_equal(hint_of(t, &pools.pass, NULL), "");
  assert_string_equal(
      hint_of(t, &pools_too.pass, &raises.pass),
      "it has one at opset 18, the opset of the input; but a pass made 1 of the nodes, "
      "and the input does not have it");
}

static void what_is_above_the_cap_does_not_run(void **state) {
  struct bench *t = *state;
  add(t, &renames);
  add(t, &flickers);
  t->p.exactness = EXACTNESS_EXACT;
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_string_equal(t->begun, "1.0 ");
  assert_int_equal(run.steps[0].held_back, 1);
  assert_int_equal(run.steps[0].rounds, 0);
  assert_int_equal(run.steps[1].held_back, 0);
  assert_int_equal(run.output_limit, 500);
}

static void a_repeat_ends_when_nothing_changes(void **state) {
  struct bench *t = *state;
  pipeline_begin(&t->p, 9);
  add(t, &renames);
  add(t, &careful);
  pipeline_end(&t->p);
  add(t, &careful);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_string_equal(t->begun, "0.0 1.0 0.1 1.1 2.0 ");
  assert_int_equal(run.steps[0].rounds, 2);
  assert_int_equal(t->e.n, 1);
  assert_int_equal(run.steps[0].held_back, 3); // of the last round
  assert_int_equal(run.steps[2].rounds, 1);
  assert_int_equal(t->n_warnings, 0);
}

static void a_repeat_that_never_ends_is_stopped(void **state) {
  struct bench *t = *state;
  pipeline_begin(&t->p, 4);
  add(t, &flickers);
  pipeline_end(&t->p);
  add(t, &renames);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_string_equal(t->begun, "0.0 0.1 0.2 0.3 1.0 ");
  assert_int_equal(t->n_warnings, 1);
  assert_int_equal(run.output_limit, 500);
  assert_int_equal(run.counted.bytes, 9); // of the first round
}

// What was made anew three times is a circle; the passes that made it are named, others are not.
static void passes_that_undo_each_other_are_stopped(void **state) {
  struct bench *t = *state;
  pipeline_begin(&t->p, 64);
  add(t, &renames);
  add(t, &there.pass);
  add(t, &careful);
  add(t, &back.pass);
  pipeline_end(&t->p);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_int_equal(run.steps[1].rounds, 3);
  assert_int_equal(t->n_warnings, 1);
  assert_string_equal(t->warned,
                      "passes undo each other's changes (there, back): after round 3 the "
                      "model is the same as after round 2; weir stopped the repeat");
}

static void a_circle_of_several_rounds_is_found(void **state) {
  struct bench *t = *state;
  pipeline_begin(&t->p, 64);
  add(t, &there.pass);
  add(t, &around.pass);
  pipeline_end(&t->p);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_int_equal(run.steps[0].rounds, 5);
  assert_string_equal(t->warned,
                      "passes undo each other's changes (there, around): after round 5 the "
                      "model is the same as after round 3; weir stopped the repeat");
}

static void what_grows_is_no_circle(void **state) {
  struct bench *t = *state;
  pipeline_begin(&t->p, 7);
  add(t, &grows.pass);
  pipeline_end(&t->p);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_int_equal(run.steps[0].rounds, 7);
  assert_non_null(strstr(t->warned, "after 7 rounds"));
}

// The inner one runs to its end in every round of the outer one.
static void repeats_lie_in_repeats(void **state) {
  struct bench *t = *state;
  add(t, &careful);
  pipeline_begin(&t->p, 9);
  pipeline_begin(&t->p, 9);
  add(t, &renames);
  add(t, &careful);
  pipeline_end(&t->p);
  add(t, &careful);
  pipeline_begin(&t->p, 9); // one without a step is none
  pipeline_end(&t->p);
  pipeline_end(&t->p);
  assert_int_equal(t->p.n_repeats, 2);
  pipeline_repeat_all(&t->p, 0, 9);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_string_equal(t->begun, "0.0 1.0 2.0 1.1 2.1 3.0 1.2 2.2 3.1 0.1 1.3 2.3 3.2 ");
  assert_int_equal(run.steps[1].rounds, 4);
  assert_int_equal(t->n_warnings, 0);
}

static void neighbours_that_go_together_are_one_call(void **state) {
  struct bench *t = *state;
  calls = 0;
  add(t, &p1);
  add(t, &finite);
  add(t, &q1);
  add(t, &careful);
  add(t, &q1);
  pipeline_begin(&t->p, 5);
  add(t, &p1);
  pipeline_end(&t->p);
  struct pass_run run = run_of(t);
  assert_int_equal(pass_run(&run, &t->arena, &t->err), 0);
  assert_int_equal(calls, 3);
  assert_int_equal(in_call, 1);
  assert_string_equal(t->begun, "0.0 2.0 3.0 4.0 5.0 ");
  static const uint64_t held[] = {1, 1, 2, 0, 2, 1};
  for (uint32_t i = 0; i < 6; i++)
    assert_int_equal(run.steps[i].held_back, held[i]);
  assert_int_equal(run.steps[1].rounds, 0);
}

int test_pass_run(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(a_pass_that_breaks_the_model_is_named),
      CASE(imports_that_are_missing_are_the_models),
      CASE(formats_without_imports_are_the_models),
      CASE(a_model_with_versions_is_not_to_blame),
      CASE(a_raise_says_whose_kernels_are_missing),
      CASE(a_raise_says_what_passes_made),
      CASE(a_raise_says_which_of_both),
      CASE(what_is_above_the_cap_does_not_run),
      CASE(a_repeat_ends_when_nothing_changes),
      CASE(a_repeat_that_never_ends_is_stopped),
      CASE(passes_that_undo_each_other_are_stopped),
      CASE(a_circle_of_several_rounds_is_found),
      CASE(what_grows_is_no_circle),
      CASE(neighbours_that_go_together_are_one_call),
      CASE(repeats_lie_in_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
