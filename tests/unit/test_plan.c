// Plans: where tensors land, that untouched metadata is copied, and that the plan file has one form
// and refuses every other.
#include "edit/edit.h"
#include "model_builder.h"
#include "plan/plan_file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { DATA_BYTES = 8 << 20 };

struct bench {
  struct model m;
  struct recipes r;
  struct edits e;
  struct build b;
  struct plan p;
  struct plan_layout layout;
  const char *taken; // a name that exists in the output folder
  struct json_out text;
};

static bool is_taken(void *ctx, const char *name) {
  const struct bench *t = ctx;
  return t->taken && strcmp(t->taken, name) == 0;
}

static int setup(void **state) {
  static struct bench t;
  t = (struct bench){0};
  build_begin(&t.b, &t.m);
  recipes_init(&t.r);
  build_file(&t.b, "in.onnx", 5000);
  t.layout = (struct plan_layout){
      .onnx_name = "out.onnx", .inline_below = 1024, .name_taken = is_taken, .name_ctx = &t};
  *state = &t;
  return 0;
}

static int teardown(void **state) {
  struct bench *t = *state;
  edits_free(&t->e);
  plan_free(&t->p);
  recipes_free(&t->r);
  model_free(&t->m);
  json_done(&t->text);
  return 0;
}

// Tensors of 512 B, 2 KiB, 100 KiB, 2 MiB in one data file, one an alias of another.
static void external_model(struct bench *t) {
  uint32_t data = build_file(&t->b, "in.onnx.data", DATA_BYTES);
  static const char *const names[] = {"tiny", "small", "middle", "large", "alias"};
  static const char *const dims[] = {"128", "512", "25,1024", "512,1024", "25600"};
  static const uint64_t at[] = {0, 1000, 4001, 1 << 20, 4001};
  build_input(&t->b, "x", DTYPE_FLOAT, "1");
  for (size_t i = 0; i < 5; i++) {
    uint32_t id = build_extent(&t->b, names[i], DTYPE_FLOAT, dims[i], data, at[i]);
    t->m.tensors[id].flags |= TENSOR_EXTERNAL;
  }
  build_node(&t->b, "Relu", "r", "x", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "1");
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
}

static void plan(struct bench *t) {
  struct err err = {0};
  if (plan_build(&t->p, &t->m, &t->r, &t->layout, &err)) fail_msg("%s", err.msg);
}

static const struct plan_tensor *tensor(const struct bench *t, const char *name) {
  for (uint32_t i = 0; i < t->p.n_tensors; i++)
    if (strcmp(t->p.tensors[i].name, name) == 0) return &t->p.tensors[i];
  return NULL;
}

static void segments_are_gapless(const struct plan *p) {
  for (uint32_t o = 0; o < p->n_outputs; o++) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < p->outputs[o].n_segments; i++) {
      const struct segment *s = &p->segments[p->outputs[o].first_segment + i];
      assert_int_equal(s->off, at);
      assert_true(s->len > 0);
      at += s->len;
    }
    assert_int_equal(at, p->outputs[o].size);
  }
}

// A model without a single dim: there is no table of dims to copy from (UBSan looks).
static void scalars_alone(void **state) {
  struct bench *t = *state;
  const uint32_t data = build_file(&t->b, "in.onnx.data", DATA_BYTES);
  build_extent(&t->b, "s", DTYPE_FLOAT, "", data, 0);
  build_node(&t->b, "Relu", "r", "s", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, "");
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
  plan(t);
  assert_int_equal(t->p.n_tensors + t->p.n_small, 1);
  assert_int_equal((t->p.n_small ? t->p.small : t->p.tensors)->rank, 0);
}

static void tensors_land_on_the_ladder(void **state) {
  struct bench *t = *state;
  external_model(t);
  plan(t);
  segments_are_gapless(&t->p);
  assert_int_equal(t->p.n_outputs, 2);
  assert_string_equal(t->p.outputs[0].name, "out.onnx.data");
  assert_string_equal(t->p.outputs[1].name, "out.onnx");
  assert_int_equal(tensor(t, "tiny")->output, 1); // below 1 KiB: inline
  assert_int_equal(tensor(t, "small")->off, 0);
  assert_int_equal(tensor(t, "middle")->off, 4096);
  assert_int_equal(tensor(t, "large")->off, 128 << 10);
  assert_int_equal(tensor(t, "alias")->off, tensor(t, "middle")->off);
  assert_int_equal(t->p.outputs[0].size, (128 << 10) + (2 << 20));
}

static void align_and_threshold_can_be_set(void **state) {
  struct bench *t = *state;
  external_model(t);
  t->layout.align = 1 << 20;
  t->layout.inline_below = 1;
  plan(t);
  segments_are_gapless(&t->p);
  assert_int_equal(tensor(t, "tiny")->off, 0);
  assert_int_equal(tensor(t, "small")->off, 1 << 20);
  assert_int_equal(tensor(t, "large")->off, 3 << 20);
}

static void inline_form_has_one_file(void **state) {
  struct bench *t = *state;
  external_model(t);
  t->layout.form = PLAN_DATA_INLINE;
  plan(t);
  segments_are_gapless(&t->p);
  assert_int_equal(t->p.n_outputs, 1);
  assert_true(t->p.outputs[0].size > 2 << 20);
}

static void inline_past_two_gib_is_refused(void **state) {
  struct bench *t = *state;
  struct err err = {0};
  uint32_t data = build_file(&t->b, "in.onnx.data", (uint64_t)4 << 30);
  uint32_t id = build_extent(&t->b, "w", DTYPE_FLOAT, "536870912", data, 0);
  t->m.tensors[id].flags |= TENSOR_EXTERNAL;
  build_end(&t->b);
  t->layout.form = PLAN_DATA_INLINE;
  assert_int_equal(plan_build(&t->p, &t->m, &t->r, &t->layout, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  assert_non_null(strstr(err.msg, "2147483647"));
  assert_int_equal(err.reason, REASON_INLINE);
}

static void inline_source_past_two_gib_moves_out(void **state) {
  struct bench *t = *state;
  t->m.files[0].size = (uint64_t)4 << 30;
  build_extent(&t->b, "w", DTYPE_FLOAT, "1073741824", 0, 0);
  build_node(&t->b, "Relu", "r", "w", "y");
  build_output(&t->b, "y", DTYPE_FLOAT, NULL);
  build_end(&t->b);
  t->m.tensors[0].src.len = (uint64_t)1073741824 * 4 + 20; // as if it lay there
  t->m.graphs[0].src.len = t->m.tensors[0].src.len + 40;
  plan(t);
  assert_true(t->p.moved_out);
  assert_int_equal(t->p.n_outputs, 2);
  assert_int_equal(tensor(t, "w")->output, 0);
}

static void taken_names_get_a_fresh_one(void **state) {
  struct bench *t = *state;
  external_model(t);
  t->taken = "out.onnx.data";
  plan(t);
  const char *name = t->p.outputs[0].name;
  assert_int_equal(strlen(name), strlen("out.onnx.12345678.data"));
  assert_memory_equal(name, "out.onnx.", 9);
  char first[64];
  snprintf(first, sizeof first, "%s", name);
  plan_free(&t->p);
  t->taken = first;
  plan(t);
  assert_string_equal(t->p.outputs[0].name, "out.onnx.data");
}

static void a_given_name_that_is_taken_is_refused(void **state) {
  struct bench *t = *state;
  struct err err = {0};
  external_model(t);
  t->layout.data_name = t->taken = "w.bin";
  assert_int_equal(plan_build(&t->p, &t->m, &t->r, &t->layout, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
}

static void underscore_style_is_kept(void **state) {
  struct bench *t = *state;
  uint32_t data = build_file(&t->b, "in.onnx_data", DATA_BYTES);
  uint32_t id = build_extent(&t->b, "w", DTYPE_FLOAT, "1024", data, 0);
  t->m.tensors[id].flags |= TENSOR_EXTERNAL;
  build_end(&t->b);
  plan(t);
  assert_string_equal(t->p.outputs[0].name, "out.onnx_data");
}

static void removed_tensors_take_no_room(void **state) {
  struct bench *t = *state;
  external_model(t);
  edit_remove_tensor(&t->e, t->m.values[build_value(&t->b, "large")].def);
  plan(t);
  assert_null(tensor(t, "large"));
  assert_int_equal(t->p.outputs[0].size, 4096 + 102400);
}

static void new_tensors_are_recipes(void **state) {
  struct bench *t = *state;
  static const int64_t swap[2] = {1, 0};
  external_model(t);
  uint32_t old = t->m.values[build_value(&t->b, "large")].def;
  uint32_t turned = recipe_transpose(&t->r, edit_tensor_recipe(&t->e, old), swap);
  edit_add_tensor(&t->e, 0, span_str("turned"), turned);
  plan(t);
  segments_are_gapless(&t->p);
  const struct plan_tensor *made = tensor(t, "turned");
  assert_non_null(made);
  assert_int_equal(made->dims[0], 1024);
  assert_int_equal(t->p.segments[made->segment].kind, SEGMENT_RECIPE);
  assert_int_equal(t->p.segments[tensor(t, "large")->segment].kind, SEGMENT_EXTENT);
}

// Tensors may overlap in a sparse file, and so add up to more than any number of bytes.
static void tensors_that_add_up_to_anything_are_refused(void **state) {
  struct bench *t = *state;
  uint32_t data = build_file(&t->b, "in.onnx.data", (uint64_t)1 << 62);
  static const char *const names[] = {"a", "b", "c", "d"};
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t id = build_extent(&t->b, names[i], DTYPE_FLOAT, "1152921504606846000", data, i);
    t->m.tensors[id].flags |= TENSOR_EXTERNAL;
  }
  build_end(&t->b);
  for (int form = PLAN_DATA_DEFAULT; form <= PLAN_DATA_INLINE; form++) {
    struct err err = {0};
    t->layout.form = (enum plan_data_form)form;
    assert_int_equal(plan_build(&t->p, &t->m, &t->r, &t->layout, &err), -1);
    assert_int_equal(err.kind, ERR_FAIL);
  }
}

// ---- several data files

static void split_at(struct bench *t, uint64_t most) {
  plan_free(&t->p);
  t->layout.split = most;
  plan(t);
  segments_are_gapless(&t->p);
  for (uint32_t i = 0; i + 1 < t->p.n_outputs; i++)
    assert_true(t->p.outputs[i].size <= most);
}

// A tensor that fits to the byte, one byte less, and one that shares the bytes of an earlier file.
static void no_tensor_passes_the_end_of_a_file(void **state) {
  struct bench *t = *state;
  const uint64_t all = (128 << 10) + (2 << 20);
  external_model(t);
  split_at(t, all);
  assert_int_equal(t->p.n_outputs, 2);
  assert_string_equal(t->p.outputs[0].name, "out.onnx_data");
  assert_int_equal(t->p.outputs[0].size, all);
  assert_non_null(strstr(t->p.layout, "\"split\":2228224"));
  split_at(t, all - 1);
  assert_int_equal(t->p.n_outputs, 3);
  assert_string_equal(t->p.outputs[1].name, "out.onnx_data_1");
  assert_string_equal(t->p.outputs[2].name, "out.onnx");
  assert_int_equal(t->p.outputs[0].size, 4096 + 102400);
  assert_int_equal(tensor(t, "large")->output, 1);
  assert_int_equal(tensor(t, "large")->off, 0);
  assert_int_equal(tensor(t, "alias")->output, 0);
  assert_int_equal(tensor(t, "alias")->off, 4096);
  assert_int_equal(tensor(t, "alias")->segment, tensor(t, "middle")->segment);
  split_at(t, 2 << 20);
  assert_int_equal(t->p.n_outputs, 3);
  assert_int_equal(t->p.outputs[1].size, 2 << 20);
}

static void a_tensor_past_the_split_is_named(void **state) {
  struct bench *t = *state;
  struct err err = {0};
  external_model(t);
  t->layout.split = (2 << 20) - 1;
  assert_int_equal(plan_build(&t->p, &t->m, &t->r, &t->layout, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  assert_non_null(strstr(err.msg, "'large' has 2097152 bytes, more than the 2097151"));
  assert_non_null(strstr(err.hint, "2097152 bytes"));
}

static void names_of_several_files(void **state) {
  struct bench *t = *state;
  struct err err = {0};
  external_model(t);
  t->layout.data_name = "w.bin";
  split_at(t, 2 << 20);
  assert_string_equal(t->p.outputs[0].name, "w.bin");
  assert_string_equal(t->p.outputs[1].name, "w.bin_1");
  plan_free(&t->p);
  t->taken = "w.bin_1";
  assert_int_equal(plan_build(&t->p, &t->m, &t->r, &t->layout, &err), -1);
  assert_int_equal(err.kind, ERR_USAGE);
  assert_non_null(strstr(err.msg, "'w.bin_1'"));
  // All of them get other names if one is taken.
  t->layout.data_name = NULL;
  t->taken = "out.onnx_data_1";
  split_at(t, 2 << 20);
  const char *first = t->p.outputs[0].name, *second = t->p.outputs[1].name;
  assert_int_equal(strlen(first), strlen("out.onnx.12345678.data"));
  assert_int_equal(strlen(second), strlen("out.onnx.12345678.data_1"));
  assert_int_equal(plan_data_stem(second), strlen(first));
  assert_memory_equal(first, second, strlen(first));
}

static void stems(void **state) {
  static const struct {
    const char *name;
    size_t n;
  } rows[] = {{"x.onnx_data", 11},
              {"x.onnx_data_1", 11},
              {"x.onnx_data_100", 11},
              {"x_", 2},
              {"_1", 0},
              {"12", 2},
              {"x1", 2},
              {"", 0}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    assert_int_equal(plan_data_stem(rows[i].name), rows[i].n);
}

// As many as there may be, and one more. Of an inline model.
static void a_hundred_files_are_the_limit(void **state) {
  struct bench *t = *state;
  struct err err = {0};
  char names[PLAN_DATA_FILES_MAX + 1][8];
  t->m.files[0].size = DATA_BYTES;
  for (uint32_t i = 0; i <= PLAN_DATA_FILES_MAX; i++) {
    snprintf(names[i], sizeof names[i], "w%u", i);
    build_extent(&t->b, names[i], DTYPE_FLOAT, "256", 0, 4096 + 1024 * i);
  }
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
  t->layout.split = 1024;
  assert_int_equal(plan_build(&t->p, &t->m, &t->r, &t->layout, &err), -1);
  assert_int_equal(err.kind, ERR_FAIL);
  assert_non_null(strstr(err.msg, "101 data files; the limit is 100"));
  assert_memory_equal(err.hint, "weir does not divide tensors; ", 30);
  const uint64_t enough = strtoull(err.hint + 30, NULL, 10);
  assert_true(enough > 1024);
  split_at(t, enough);
  plan_free(&t->p);
  edit_remove_tensor(&t->e, t->m.values[build_value(&t->b, "w7")].def);
  split_at(t, 1024);
  assert_int_equal(t->p.n_outputs, PLAN_DATA_FILES_MAX + 1);
}

// Strings have no bytes of their own kind: renamed, they are copied field by field.
static void renamed_strings_stay_strings(void **state) {
  struct bench *t = *state;
  uint32_t piece, id;
  build_extent(&t->b, "s", DTYPE_INT8, "3", 0, 0);
  id = t->m.values[build_value(&t->b, "s")].def;
  t->m.tensors[id].dtype = DTYPE_STRING;
  t->m.tensors[id].encoding = ENCODING_STRINGS;
  t->m.tensors[id].bytes = 0;
  piece = t->m.tensors[id].pieces;
  t->m.pieces[piece] = (struct piece){.at = {1000, 12, 0}, .count = 3, .tag_bytes = 1};
  build_node(&t->b, "Identity", "n", "s", "y");
  build_output(&t->b, "y", DTYPE_STRING, "3");
  build_end(&t->b);
  edits_init(&t->e, &t->m, &t->r);
  edit_rename_value(&t->e, build_value(&t->b, "s"), span_str("renamed"));
  plan(t);
  bool copied = false;
  for (uint32_t i = 0; i < t->p.n_segments; i++) {
    const struct segment *s = &t->p.segments[i];
    copied |= s->kind == SEGMENT_EXTENT && s->ref == 0 && s->at == 1000 && s->len == 12;
  }
  assert_true(copied);
  assert_non_null(memmem(t->p.literals, t->p.n_literals, "renamed", 7));
}

// ---- the plan file -----------------------------------------------------------------------------

static int keep(void *ctx, struct span text) {
  struct json_out *to = ctx;
  to->text = table_grow(to->text, &to->cap, to->n + text.n + 1, 1);
  memcpy(to->text + to->n, text.at, text.n);
  to->n += text.n;
  to->text[to->n] = '\0';
  return 0;
}

static void write(struct bench *t) {
  struct err err = {0};
  t->text.n = 0;
  assert_int_equal(plan_file_write(&t->p, keep, &t->text, &err), 0);
}

static struct span literals(const struct bench *t) {
  return span_of(t->p.literals, t->p.n_literals);
}

static void a_plan_reads_back(void **state) {
  struct bench *t = *state;
  struct plan again;
  struct err err = {0};
  external_model(t);
  plan(t);
  write(t);
  if (plan_file_read(&again, span_of(t->text.text, t->text.n), literals(t), &err))
    fail_msg("%s", err.msg);
  assert_memory_equal(again.id, t->p.id, DIGEST_BYTES);
  assert_int_equal(again.n_segments, t->p.n_segments);
  assert_memory_equal(again.segments, t->p.segments, t->p.n_segments * sizeof *t->p.segments);
  assert_int_equal(again.n_tensors, t->p.n_tensors);
  plan_free(&again);
}

// Rows that no live tensor needs, and when the others came into the table, are no part of the plan.
static void other_recipes_leave_no_trace(void **state) {
  struct bench *t = *state;
  static const int64_t swap[2] = {1, 0}, one[1] = {1};
  static const uint8_t element[4] = {1, 2, 3, 4};
  struct plan again;
  struct err err = {0};
  external_model(t);
  const uint32_t large = t->m.values[build_value(&t->b, "large")].def;
  const uint32_t turned = recipe_transpose(&t->r, edit_tensor_recipe(&t->e, large), swap);
  edit_add_tensor(&t->e, 0, span_str("turned"), turned);
  plan(t);
  write(t);
  uint8_t id[DIGEST_BYTES];
  memcpy(id, t->p.id, sizeof id);
  plan_free(&t->p);

  struct recipes fresh = t->r;
  recipes_init(&t->r);
  for (int64_t i = 0; i < 9; i++)
    recipe_fill(&t->r, DTYPE_FLOAT, one, 1, span_of(element, 4));
  recipe_transpose(&t->r, edit_tensor_recipe_as(&t->e, large, (int64_t[]){256, 2048}, 2), swap);
  const uint32_t last = recipe_transpose(&t->r, edit_tensor_recipe(&t->e, large), swap);
  t->m.tensors[t->m.n_tensors - 1].recipe = last;
  assert_int_not_equal(last, turned);
  plan(t);
  write(t);
  assert_memory_equal(t->p.id, id, sizeof id);
  const struct plan_tensor *made = tensor(t, "turned");
  assert_int_equal(t->p.segments[made->segment].ref, last); // at hand: ids of the shared table
  uint32_t n;
  assert_non_null(plan_recipes(&t->p, &n));
  assert_true(n < t->r.n_rows);
  // What is read back has the rows of the plan and no others, by its own numbers.
  if (plan_file_read(&again, span_of(t->text.text, t->text.n), literals(t), &err))
    fail_msg("%s", err.msg);
  assert_int_equal(again.recipes->n_rows, n);
  assert_int_equal(t->p.numbers[last], again.segments[made->segment].ref);
  plan_free(&again);
  recipes_free(&fresh);
}

// A tensor that stands for a weight is named by it, and so is what stands for that tensor.
static void messages_name_the_weight_of_the_input(void **state) {
  struct bench *t = *state;
  external_model(t);
  const uint32_t large = t->m.values[build_value(&t->b, "large")].def;
  const uint32_t small = t->m.values[build_value(&t->b, "middle")].def;
  const uint32_t half = recipe_cast(&t->r, edit_tensor_recipe(&t->e, large), DTYPE_FLOAT16);
  edit_add_tensor_for(&t->e, 0, span_str("half"), half, large, t->m.tensors[large].name);
  const uint32_t first = t->m.n_tensors - 1;
  const uint32_t back = recipe_cast(&t->r, half, DTYPE_DOUBLE);
  edit_add_tensor_for(&t->e, 0, span_str("wide"), back, first, t->m.tensors[first].name);
  const uint32_t other = recipe_cast(&t->r, edit_tensor_recipe(&t->e, small), DTYPE_DOUBLE);
  edit_add_tensor_for(&t->e, 0, span_str("moved"), other, small, t->m.empty);
  plan(t);
  assert_string_equal(tensor(t, "half")->of, "large");
  assert_string_equal(tensor(t, "wide")->of, "large");
  assert_null(tensor(t, "moved")->of);
  assert_null(tensor(t, "large")->of);
  assert_string_equal(plan_segment_weight(&t->p, tensor(t, "wide")->segment), "large");
  assert_string_equal(plan_segment_weight(&t->p, tensor(t, "moved")->segment), "moved");
}

// By what passes decided is part of the plan, and of its id.
static void artifacts_are_part_of_the_plan(void **state) {
  struct bench *t = *state;
  struct plan again;
  struct err err = {0};
  uint8_t without[DIGEST_BYTES];
  external_model(t);
  plan(t);
  write(t);
  assert_null(strstr(t->text.text, "artifacts"));
  memcpy(without, t->p.id, sizeof without);
  plan_free(&t->p);
  t->layout.artifacts = "[{\"stage\":\"measure\",\"sha256\":\"00\"}]";
  plan(t);
  write(t);
  assert_memory_not_equal(t->p.id, without, sizeof without);
  if (plan_file_read(&again, span_of(t->text.text, t->text.n), literals(t), &err))
    fail_msg("%s", err.msg);
  assert_string_equal(again.artifacts, t->layout.artifacts);
  assert_memory_equal(again.id, t->p.id, DIGEST_BYTES);
  plan_free(&again);
}

// Every single byte of the text changed in two ways: accepted only if it is another plan, never one
// that breaks a promise. (Names and digests may change and still be plans.)
static void changed_bytes_are_refused_or_harmless(void **state) {
  struct bench *t = *state;
  uint32_t accepted = 0;
  external_model(t);
  plan(t);
  write(t);
  for (size_t i = 0; i < t->text.n; i++) {
    const char was = t->text.text[i];
    for (int way = 0; way < 2; way++) {
      struct plan again;
      struct err err = {0};
      t->text.text[i] = way ? (char)(was ^ 1) : '9';
      if (t->text.text[i] == was) continue;
      if (plan_file_read(&again, span_of(t->text.text, t->text.n), literals(t), &err) == 0) {
        segments_are_gapless(&again);
        plan_free(&again);
        accepted++;
      } else {
        assert_int_equal(err.kind, ERR_MODEL);
      }
    }
    t->text.text[i] = was;
  }
  assert_true(accepted > 0); // a digit of the source's meta_sha256, at least
}

static void truncated_plans_are_refused(void **state) {
  struct bench *t = *state;
  external_model(t);
  plan(t);
  write(t);
  for (size_t n = 0; n < t->text.n; n++) {
    struct plan again;
    struct err err = {0};
    assert_int_equal(plan_file_read(&again, span_of(t->text.text, n), literals(t), &err), -1);
    assert_int_equal(err.kind, ERR_MODEL);
  }
}

static void other_literals_are_refused(void **state) {
  struct bench *t = *state;
  struct plan again;
  struct err err = {0};
  external_model(t);
  plan(t);
  write(t);
  t->p.literals[0] ^= 1;
  assert_int_equal(plan_file_read(&again, span_of(t->text.text, t->text.n), literals(t), &err), -1);
  assert_non_null(strstr(err.msg, "literals"));
}

int test_plan(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(scalars_alone),
      CASE(tensors_land_on_the_ladder),
      CASE(align_and_threshold_can_be_set),
      CASE(inline_form_has_one_file),
      CASE(inline_past_two_gib_is_refused),
      CASE(inline_source_past_two_gib_moves_out),
      CASE(taken_names_get_a_fresh_one),
      CASE(a_given_name_that_is_taken_is_refused),
      CASE(underscore_style_is_kept),
      CASE(no_tensor_passes_the_end_of_a_file),
      CASE(a_tensor_past_the_split_is_named),
      CASE(names_of_several_files),
      CASE(stems),
      CASE(a_hundred_files_are_the_limit),
      CASE(removed_tensors_take_no_room),
      CASE(new_tensors_are_recipes),
      CASE(other_recipes_leave_no_trace),
      CASE(messages_name_the_weight_of_the_input),
      CASE(tensors_that_add_up_to_anything_are_refused),
      CASE(renamed_strings_stay_strings),
      CASE(a_plan_reads_back),
      CASE(artifacts_are_part_of_the_plan),
      CASE(changed_bytes_are_refused_or_harmless),
      CASE(truncated_plans_are_refused),
      CASE(other_literals_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
