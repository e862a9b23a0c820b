// What a file becomes: rows, names, scopes, items, places.
#include "base/digest.h"
#include "pb_build.h"
#include "resources/resources.h"
#include "stream/load/inside/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

// cmocka.h wants setjmp.h and stdarg.h before it.
// clang-format off
#include <cmocka.h>
// clang-format on

static struct pb_home home;

static int set_up(void **state) {
  pb_home_open(&home);
  *state = &home;
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  pb_home_close(&home);
  return 0;
}

static void load(struct pb_home *h, struct pb *model) {
  if (pb_home_load(h, model)) fail_msg("%s", h->err.msg);
}

static const char *name_of(const struct pb_home *h, uint32_t name) {
  return model_name_str(&h->m, name);
}

static uint32_t value(const struct pb_home *h, uint32_t graph, const char *name) {
  const uint32_t id = model_find_name(&h->m, span_str(name));
  return id == NO_ID ? NO_ID : model_value_in(&h->m, graph, id);
}

// ---- items tile their messages ------------------------------------------------------------------

// The items of a message must cover its body exactly, in order.
struct tiling {
  const struct model *m;
  uint64_t at;
};

static void lay(struct tiling *t, struct place p) {
  assert_int_equal(p.off, t->at);
  t->at += p.len;
}

static struct place place_of(const struct model *m, uint32_t kind, uint32_t id) {
  switch (kind) {
  case ITEM_NODES: return m->nodes[id].src;
  case ITEM_TENSORS: return m->tensors[id].src;
  case ITEM_SPARSE: return m->sparses[id].src;
  case ITEM_INFOS: return m->infos[id].src;
  case ITEM_GRAPH: return m->graphs[id].src;
  case ITEM_FUNCTIONS: return m->graphs[m->functions[id].graph].src;
  case ITEM_TRAINING: return m->trainings[id].src;
  default: return m->others[id];
  }
}

static void lay_items(struct tiling *t, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n; i++)
    for (uint32_t k = 0; k < t->m->items[i].count; k++)
      lay(t, place_of(t->m, t->m->items[i].kind, t->m->items[i].first + k));
}

static void check_tiling(const struct pb_home *h, const struct pb *file) {
  const struct model *m = &h->m;
  struct tiling t = {m, 0};
  lay_items(&t, m->model_items, m->model_n_items);
  assert_int_equal(t.at, file->n);
  for (uint32_t id = 0; id < m->n_graphs; id++) {
    const struct model_graph *g = &m->graphs[id];
    struct wire w;
    struct wire_field f;
    struct err err = {0};
    wire_open_memory(&w, span_of(file->at, file->n), "m.onnx");
    wire_seek(&w, g->src.off);
    assert_int_equal(wire_next(&w, g->src.off + g->src.len, &f, &err), 0);
    t.at = f.body;
    lay_items(&t, g->items, g->n_items);
    assert_int_equal(t.at, g->src.off + g->src.len);
  }
}

// ---- a small model ------------------------------------------------------------------------------

static struct pb tensor_bytes(const char *name, const float *x, size_t n) {
  struct pb t = {0};
  pb_varint(&t, 1, n);
  pb_varint(&t, 2, DTYPE_FLOAT);
  if (name) pb_text(&t, 8, name);
  pb_bytes(&t, 9, x, n * sizeof *x);
  return t;
}

static void add_tensor(struct pb *graph, uint32_t field, const char *name, size_t n) {
  float x[64];
  for (size_t i = 0; i < n; i++)
    x[i] = (float)i;
  struct pb t = tensor_bytes(name, x, n);
  pb_message(graph, field, &t);
}

static void test_rows(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_node(&g, "Add", "x", "w", "a");
  pb_node(&g, "Mul", "a", "a", "b");
  pb_text(&g, 2, "net");
  add_tensor(&g, 5, "w", 4);
  pb_node(&g, "Sub", "b", "x", "y");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  pb_io(&g, 13, "a");
  struct pb p = pb_model(&g);
  pb_entry(&p, 14, "author", "nobody");
  load(h, &p);
  const struct model *m = &h->m;
  assert_int_equal(m->ir_version, 9);
  assert_true(m->n_nodes == 3 && m->n_tensors == 1 && m->n_graphs == 1 && m->n_infos == 3);
  assert_true(m->loaded_nodes == 3 && m->loaded_tensors == 1 && m->loaded_infos == 3);
  assert_int_equal(m->loaded_values, m->n_values);
  assert_string_equal(name_of(h, m->graphs[0].name), "net");
  assert_string_equal(name_of(h, m->metadata[0].key), "author");
  assert_string_equal(name_of(h, m->metadata[0].value), "nobody");
  assert_true(m->n_model_opsets == 1 && m->opsets[0].version == 18);
  assert_int_equal(model_opset_version(m, 0, span_str("ai.onnx")), 18);
  assert_true(model_op_is(m, 2, "Sub"));
  assert_true(m->graphs[0].first_node == 0 && m->graphs[0].last_node == 2);
  assert_true(m->nodes[1].prev == 0 && m->nodes[1].next == 2);

  const uint32_t x = value(h, 0, "x"), w = value(h, 0, "w"), a = value(h, 0, "a");
  assert_int_equal(m->values[x].kind, VALUE_INPUT);
  assert_int_equal(m->values[x].flags, VALUE_IS_INPUT);
  assert_int_equal(m->values[w].kind, VALUE_INITIALIZER);
  assert_int_equal(m->values[w].def, 0);
  assert_int_equal(m->tensors[0].owner, w);
  assert_true(m->values[a].kind == VALUE_NODE_OUTPUT && m->values[a].def == 0);
  assert_int_equal(model_use_count(m, a), 2);
  assert_int_equal(model_use_count(m, value(h, 0, "y")), 1);
  // Use lists are in file order.
  const uint32_t use = m->values[x].first_use;
  assert_true(m->refs[use].node == 0 && m->refs[m->refs[use].next].node == 2);
  const struct model_info *info = &m->infos[m->values[a].info];
  assert_true(info->home == INFO_VALUE && info->flags == (INFO_TENSOR | INFO_SHAPED));
  assert_true(info->dtype == DTYPE_FLOAT && info->rank == 1 && m->info_dims[info->dims].value == 4);
  assert_true(info->type.len > 0 && info->type.off > info->src.off);
  struct span bytes;
  assert_true(model_small_value(m, 0, &bytes) && bytes.n == 16);
  assert_int_equal(m->graphs[0].n_items, 5); // nodes, name, tensors, nodes, infos
  check_tiling(h, &p);
  pb_free(&p);
}

static void test_inputs_that_are_left_out(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0};
  pb_node(&g, "Clip", "x", "", "y");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  struct pb p = pb_model(&g);
  load(h, &p);
  assert_int_equal(h->m.nodes[0].n_in, 2);
  assert_int_equal(model_input(&h->m, &h->m.nodes[0], 1), NO_ID);
  pb_free(&p);
}

// ---- scopes -------------------------------------------------------------------------------------

static void add_attr_graph(struct pb *node, const char *name, struct pb *graph) {
  struct pb a = {0};
  pb_text(&a, 1, name);
  pb_message(&a, 6, graph);
  pb_varint(&a, 20, ATTR_GRAPH);
  pb_message(node, 5, &a);
}

// An If whose branch uses x of the outer graph, w of its own (which shadows the outer one), and
// holds an If again, whose branch reaches two graphs out.
static struct pb scopes_model(void) {
  struct pb inner = {0}, branch = {0}, other = {0}, node = {0}, nested = {0}, g = {0};
  pb_node(&inner, "Identity", "x", NULL, "deep");
  pb_io(&inner, 12, "deep");
  add_tensor(&branch, 5, "w", 4);
  pb_node(&branch, "Add", "x", "w", "sum");
  pb_text(&nested, 1, "c");
  pb_text(&nested, 2, "n");
  pb_text(&nested, 4, "If");
  add_attr_graph(&nested, "then_branch", &inner);
  pb_message(&branch, 1, &nested);
  pb_io(&branch, 12, "sum");
  pb_io(&other, 12, "x"); // an outer value straight out
  pb_text(&node, 1, "c");
  pb_text(&node, 2, "y");
  pb_text(&node, 4, "If");
  add_attr_graph(&node, "then_branch", &branch);
  add_attr_graph(&node, "else_branch", &other);
  pb_message(&g, 1, &node);
  pb_node(&g, "Neg", "y", NULL, "z");
  add_tensor(&g, 5, "w", 4);
  pb_io(&g, 11, "x");
  pb_io(&g, 11, "c");
  pb_io(&g, 12, "z");
  return pb_model(&g);
}

static void test_scopes(void **state) {
  struct pb_home *h = *state;
  struct pb p = scopes_model();
  load(h, &p);
  const struct model *m = &h->m;
  assert_int_equal(m->n_graphs, 4);
  const uint32_t x = value(h, 0, "x");
  assert_true(value(h, 1, "x") == NO_ID && value(h, 1, "w") != NO_ID);
  assert_int_not_equal(value(h, 0, "w"), value(h, 1, "w"));
  // graphs in file order: main, then_branch, its inner one, else_branch
  assert_true(m->graphs[1].parent == 0 && m->graphs[2].parent == 1 && m->graphs[3].parent == 0);
  assert_true(m->graphs[2].depth == 2 && m->graphs[2].kind == GRAPH_SUB);
  uint32_t uses = 0;
  for (uint32_t r = m->values[x].first_use; r != NO_ID; r = m->refs[r].next)
    uses++;
  assert_int_equal(uses, 2); // Add in the branch, Identity in the inner graph
  assert_int_equal(m->values[x].n_graph_outputs, 1);
  assert_int_equal(model_use_count(m, value(h, 0, "w")), 0);
  assert_int_equal(model_use_count(m, value(h, 1, "w")), 1);
  // A node's attributes are one run, and graphs know whose they are.
  const struct model_node *n = &m->nodes[0];
  assert_int_equal(n->n_attrs, 2);
  const struct model_attr *then = model_attr_named(m, 0, "then_branch");
  const struct model_attr *other = model_attr_named(m, 0, "else_branch");
  assert_true(then->first == 1 && other->first == 3 && then->node == 0);
  assert_true(m->graphs[1].owner == (uint32_t)(then - m->attrs));
  assert_true(m->graphs[3].owner == (uint32_t)(other - m->attrs));
  check_tiling(h, &p);
  pb_free(&p);
}

// Graphs in a list are a run of rows although the first has graphs inside.
static void test_lists_of_graphs(void **state) {
  struct pb_home *h = *state;
  struct pb attr = {0}, node = {0}, g = {0};
  pb_text(&attr, 1, "bodies");
  for (int i = 0; i < 3; i++) {
    struct pb inner = {0}, holder = {0}, body = {0};
    pb_node(&inner, "Identity", "x", NULL, "i");
    pb_io(&inner, 12, "i");
    pb_text(&holder, 2, "o");
    pb_text(&holder, 4, "Call");
    add_attr_graph(&holder, "g", &inner);
    pb_message(&body, 1, &holder);
    pb_io(&body, 12, "o");
    pb_message(&attr, 11, &body);
  }
  pb_varint(&attr, 20, ATTR_GRAPHS);
  pb_text(&node, 1, "x");
  pb_text(&node, 2, "y");
  pb_text(&node, 4, "Many");
  pb_message(&node, 5, &attr);
  pb_message(&g, 1, &node);
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  struct pb p = pb_model(&g);
  load(h, &p);
  const struct model *m = &h->m;
  const struct model_attr *a = model_attr_named(m, 0, "bodies");
  assert_true(a->count == 3 && m->n_graphs == 7);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(m->graphs[a->first + i].owner, a - m->attrs);
    assert_int_equal(m->graphs[a->first + i].depth, 1);
  }
  check_tiling(h, &p);
  pb_free(&p);
}

// ---- attributes ---------------------------------------------------------------------------------

static void add_attr(struct pb *node, const char *name, enum attr_type type,
                     struct pb *value_field) {
  struct pb a = {0};
  pb_text(&a, 1, name);
  pb_raw(&a, value_field->at, value_field->n);
  pb_free(value_field);
  pb_varint(&a, 20, type);
  pb_message(node, 5, &a);
}

static void test_attributes(void **state) {
  struct pb_home *h = *state;
  struct pb node = {0}, g = {0}, v = {0}, list = {0};
  pb_text(&node, 2, "y");
  pb_text(&node, 4, "Op");
  pb_varint(&v, 3, (uint64_t)-5);
  add_attr(&node, "i", ATTR_INT, &v);
  pb_fixed32(&v, 2, 0x3fc00000);
  add_attr(&node, "f", ATTR_FLOAT, &v);
  pb_bytes(&v, 4, "a\0b", 3);
  add_attr(&node, "s", ATTR_STRING, &v);
  pb_varint(&v, 8, 7); // unpacked, then packed
  pb_number(&list, (uint64_t)-1);
  pb_number(&list, 300);
  pb_message(&v, 8, &list);
  add_attr(&node, "ints", ATTR_INTS, &v);
  pb_text(&v, 9, "p");
  pb_text(&v, 9, "");
  add_attr(&node, "strings", ATTR_STRINGS, &v);
  add_attr(&node, "none", ATTR_INTS, &v);
  for (uint32_t i = 0; i < 70000; i++)
    pb_number(&list, i % 100);
  pb_message(&v, 8, &list);
  add_attr(&node, "large", ATTR_INTS, &v);
  pb_message(&g, 1, &node);
  pb_io(&g, 12, "y");
  struct pb p = pb_model(&g);
  load(h, &p);
  const struct model *m = &h->m;
  int64_t i;
  assert_true(model_attr_int(m, 0, "i", 0, &i) && i == -5);
  assert_float_equal(model_attr_named(m, 0, "f")->u.f, 1.5F, 0);
  struct span s;
  assert_true(model_attr_string(m, 0, "s", "", &s) && span_eq(s, span_of("a\0b", 3)));
  const int64_t *ints;
  uint32_t n;
  assert_true(model_attr_ints(m, 0, "ints", &ints, &n) && n == 3);
  assert_true(ints[0] == 7 && ints[1] == -1 && ints[2] == 300);
  assert_true(model_attr_ints(m, 0, "none", &ints, &n) && n == 0);
  const struct model_attr *strings = model_attr_named(m, 0, "strings");
  assert_int_equal(strings->count, 2);
  assert_string_equal(name_of(h, m->strings[strings->first]), "p");
  const struct model_attr *large = model_attr_named(m, 0, "large");
  assert_true(large->count == 70000 && large->first == NO_ID);
  assert_false(model_attr_ints(m, 0, "large", &ints, &n));
  pb_free(&p);
}

static uint32_t constant(struct pb_home *h, const char *name, enum attr_type type, struct pb *v) {
  struct pb node = {0}, g = {0};
  pb_text(&node, 2, "y");
  add_attr(&node, name, type, v); // before op_type: the order of fields is free
  pb_text(&node, 4, "Constant");
  pb_message(&g, 1, &node);
  pb_io(&g, 12, "y");
  struct pb p = pb_model(&g);
  load(h, &p);
  pb_free(&p);
  struct model_constant c;
  return model_resolve_constant(&h->m, value(h, 0, "y"), &c) ? c.tensor : NO_ID;
}

static void test_constants(void **state) {
  struct pb_home *h = *state;
  struct pb v = {0}, list = {0};
  struct span bytes;
  pb_fixed32(&v, 2, 0x40000000);
  uint32_t t = constant(h, "value_float", ATTR_FLOAT, &v);
  assert_true(h->m.tensors[t].rank == 0 && h->m.tensors[t].dtype == DTYPE_FLOAT);
  assert_true(model_small_value(&h->m, t, &bytes) && bytes.n == 4 && bytes.at[3] == 0x40);
  pb_varint(&v, 8, 1);
  pb_varint(&v, 8, (uint64_t)-2);
  t = constant(h, "value_ints", ATTR_INTS, &v);
  const int64_t want[2] = {1, -2};
  assert_true(h->m.tensors[t].rank == 1 && model_dims(&h->m, &h->m.tensors[t])[0] == 2);
  assert_true(model_small_value(&h->m, t, &bytes) && bytes.n == 16);
  assert_memory_equal(bytes.at, want, 16);
  t = constant(h, "value_floats", ATTR_FLOATS, &v); // an empty list
  assert_true(model_small_value(&h->m, t, &bytes) && bytes.n == 0);
  pb_text(&v, 9, "s");
  t = constant(h, "value_strings", ATTR_STRINGS, &v);
  assert_true(h->m.tensors[t].encoding == ENCODING_STRINGS && !model_small_value(&h->m, t, &bytes));
  // 300 000 varints: not held, not small, found through pieces and checkpoints.
  for (uint32_t i = 0; i < 300000; i++)
    pb_number(&list, i);
  pb_message(&v, 8, &list);
  t = constant(h, "value_ints", ATTR_INTS, &v);
  assert_true(h->m.tensors[t].bytes == 2400000 && h->m.tensors[t].encoding == ENCODING_VARINT);
  uint32_t n;
  const struct piece *piece = model_pieces(&h->m, t, &n);
  assert_true(n == 1 && piece->count == 300000 && h->m.n_checkpoints == 5);
  // 9000 negative numbers: too long on the wire to be held, small as a tensor.
  for (uint32_t i = 0; i < 8000; i++)
    pb_number(&list, (uint64_t)-1 - i);
  pb_message(&v, 8, &list);
  t = constant(h, "value_ints", ATTR_INTS, &v);
  assert_true(model_small_value(&h->m, t, &bytes) && bytes.n == 64000);
  int64_t last;
  memcpy(&last, bytes.at + 63992, 8);
  assert_int_equal(last, -8000);
}

// ---- functions, training, sparse ----------------------------------------------------------------

static void test_functions(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, f = {0}, opset = {0}, attr = {0};
  pb_identity(&g);
  struct pb p = {0};
  pb_text(&f, 1, "Twice");
  pb_text(&f, 4, "in");
  pb_text(&f, 5, "out");
  pb_text(&f, 6, "alpha");
  struct pb body = {0};
  pb_text(&body, 1, "in");
  pb_text(&body, 1, "in");
  pb_text(&body, 2, "out");
  pb_text(&body, 4, "Add");
  pb_message(&f, 7, &body);
  pb_varint(&opset, 2, 13);
  pb_message(&f, 9, &opset);
  pb_text(&f, 10, "my.domain");
  pb_text(&attr, 1, "beta");
  pb_varint(&attr, 3, 4);
  pb_varint(&attr, 20, ATTR_INT);
  pb_message(&f, 11, &attr);
  pb_message(&p, 25, &f); // before the model's opset import
  struct pb rest = pb_model(&g);
  pb_raw(&p, rest.at, rest.n);
  pb_free(&rest);
  load(h, &p);
  const struct model *m = &h->m;
  assert_int_equal(m->n_functions, 1);
  const struct model_function *fn = &m->functions[0];
  assert_string_equal(name_of(h, fn->name), "Twice");
  assert_string_equal(name_of(h, fn->domain), "my.domain");
  assert_true(m->n_model_opsets == 1 && fn->opsets == 1 && fn->n_opsets == 1);
  assert_int_equal(model_opset_version(m, fn->graph, span_str("")), 13);
  assert_int_equal(model_opset_version(m, m->main_graph, span_str("")), 18);
  const uint32_t in = value(h, fn->graph, "in");
  assert_true(m->values[in].kind == VALUE_INPUT && model_use_count(m, in) == 2);
  assert_int_equal(m->graph_io[m->graphs[fn->graph].outputs], value(h, fn->graph, "out"));
  assert_true(m->n_attrs == 1 && m->attrs[0].node == NO_ID && m->attrs[0].u.i == 4);
  check_tiling(h, &p);
  pb_free(&p);
}

static void test_training(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, t = {0}, init = {0}, algorithm = {0};
  pb_identity(&g);
  add_tensor(&g, 5, "w", 4);
  pb_node(&algorithm, "Neg", "w", NULL, "w_new"); // sees the main graph's initializer
  pb_io(&algorithm, 12, "w_new");
  pb_node(&init, "RandomNormal", NULL, NULL, "r");
  pb_io(&init, 12, "r");
  pb_message(&t, 1, &init);
  pb_message(&t, 2, &algorithm);
  pb_entry(&t, 4, "w", "w_new");
  struct pb p = pb_model(&g);
  pb_message(&p, 20, &t);
  load(h, &p);
  const struct model *m = &h->m;
  assert_int_equal(m->n_trainings, 1);
  const struct model_graph *a = &m->graphs[m->trainings[0].algorithm];
  assert_true(a->kind == GRAPH_TRAINING && a->parent == NO_ID);
  assert_int_equal(model_use_count(m, value(h, m->main_graph, "w")), 1);
  uint32_t n;
  assert_non_null(model_kept_fields(m, KEPT_TRAINING, 0, &n));
  assert_int_equal(n, 1);
  check_tiling(h, &p);
  pb_free(&p);
}

static void test_sparse(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, s = {0}, indices = {0}, list = {0};
  pb_node(&g, "Add", "x", "sp", "y");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  pb_varint(&indices, 1, 2);
  pb_varint(&indices, 2, DTYPE_INT64);
  pb_number(&list, 1);
  pb_number(&list, 3);
  pb_message(&indices, 7, &list);
  pb_message(&s, 2, &indices); // before the values
  add_tensor(&s, 1, "sp", 2);
  pb_varint(&s, 3, 4);
  pb_message(&g, 15, &s);
  struct pb p = pb_model(&g);
  load(h, &p);
  const struct model *m = &h->m;
  assert_int_equal(m->n_sparses, 1);
  const struct model_sparse *row = &m->sparses[0];
  assert_int_equal(m->tensors[row->values].dtype, DTYPE_FLOAT);
  assert_int_equal(m->tensors[row->indices].dtype, DTYPE_INT64);
  assert_true(m->tensors[row->values].flags & TENSOR_SPARSE);
  assert_int_equal(m->tensors[row->values].home, HOME_SPARSE_INITIALIZER);
  const struct model_value *v = &m->values[value(h, 0, "sp")];
  assert_true(v->kind == VALUE_INITIALIZER && v->def == row->values);
  uint32_t n;
  const struct model_kept_field *dims = model_kept_fields(m, KEPT_SPARSE, 0, &n);
  assert_true(n == 1 && dims->at.len == 2);
  check_tiling(h, &p);
  pb_free(&p);
}

// ---- kept and unknown fields -------------------------------------------------------------------

static void test_rests_and_unknown_fields(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, node = {0}, attr = {0};
  pb_text(&node, 6, "doc"); // 5 bytes; adjacent to the next
  pb_varint(&node, 99, 1);  // unknown: 3 bytes
  pb_text(&node, 1, "x");
  pb_raw(&node, "\xf3\x07\x0a\x01z\xf4\x07", 7); // group 126 with a field in it
  pb_text(&node, 2, "y");
  pb_text(&node, 4, "Op");
  pb_text(&attr, 1, "a");
  pb_varint(&attr, 3, 1);
  pb_text(&attr, 13, "doc");
  pb_varint(&attr, 20, ATTR_INT);
  pb_message(&node, 5, &attr);
  pb_entry(&node, 9, "k", "v");
  pb_message(&g, 1, &node);
  pb_varint(&g, 77, 5); // unknown, then known but held by no row: one place
  pb_text(&g, 10, "doc");
  pb_io(&g, 11, "x");
  pb_io(&g, 12, "y");
  struct pb p = pb_model(&g);
  pb_fixed64(&p, 1000, 1);
  load(h, &p);
  const struct model *m = &h->m;
  uint32_t n;
  const struct model_kept_field *r = model_kept_fields(m, KEPT_NODE, 0, &n);
  assert_int_equal(n, 3);
  assert_true(r[0].at.len == 8 && r[1].at.len == 7 && r[2].at.len > 6);
  assert_true(m->nodes[0].flags & NODE_HAS_KEPT);
  assert_memory_equal(p.at + r[1].at.off, "\xf3\x07", 2);
  r = model_kept_fields(m, KEPT_ATTR, m->nodes[0].attrs, &n);
  assert_true(n == 1 && r->at.len == 5 && m->attrs[m->nodes[0].attrs].flags & ATTR_HAS_KEPT);
  assert_int_equal(m->graphs[0].n_items, 3); // node, other, infos
  check_tiling(h, &p);
  pb_free(&p);
}

// A type in two parts is one type, as long as the parts touch.
static void test_split_submessages_merge(void **state) {
  struct pb_home *h = *state;
  struct pb g = {0}, a = {0}, b = {0}, dim = {0}, shape = {0}, tensor = {0}, info = {0};
  pb_node(&g, "Identity", "x", NULL, "y");
  pb_varint(&tensor, 1, DTYPE_INT64);
  pb_message(&a, 1, &tensor);
  pb_text(&dim, 2, "N");
  pb_message(&shape, 1, &dim);
  pb_message(&tensor, 2, &shape);
  pb_message(&b, 1, &tensor);
  pb_text(&info, 1, "x");
  pb_message(&info, 2, &a);
  pb_message(&info, 2, &b);
  pb_message(&g, 11, &info);
  pb_io(&g, 12, "y");
  struct pb p = pb_model(&g);
  load(h, &p);
  const struct model_info *row = &h->m.infos[0];
  assert_true(row->dtype == DTYPE_INT64 && row->rank == 1 && row->flags & INFO_SHAPED);
  assert_int_equal(h->m.info_dims[row->dims].value, -1);
  assert_string_equal(name_of(h, h->m.info_dims[row->dims].param), "N");
  pb_free(&p);
}

// ---- identity -----------------------------------------------------------------------------------

static struct pb digest_model(uint8_t large, uint8_t small, size_t *payload) {
  struct pb g = {0}, t = {0}, list = {0};
  uint8_t bytes[2000];
  memset(bytes, large, sizeof bytes);
  pb_identity(&g);
  pb_varint(&t, 1, 500);
  pb_varint(&t, 2, DTYPE_FLOAT);
  pb_text(&t, 8, "w");
  pb_bytes(&t, 9, bytes, sizeof bytes);
  pb_message(&g, 5, &t);
  pb_number(&list, small);
  pb_varint(&t, 1, 1);
  pb_varint(&t, 2, DTYPE_INT64);
  pb_text(&t, 8, "n");
  pb_message(&t, 7, &list);
  pb_message(&g, 5, &t);
  struct pb p = pb_model(&g);
  for (*payload = 0; *payload + 4 < p.n; ++*payload)
    if (memcmp(p.at + *payload, bytes, 4) == 0) break;
  return p;
}

// A node with an attribute of n strings, the first of 64 KiB, so that it is not held; one in five is empty.
static struct pb strings_model(uint32_t n, struct digest *d) {
  struct pb attr = {0}, node = {0}, graph = {0};
  static char first[1 << 16];
  memset(first, 'f', sizeof first);
  pb_text(&attr, 1, "modes");
  pb_varint(&attr, 20, ATTR_STRINGS);
  for (uint32_t i = 0; i < n; i++)
    pb_bytes(&attr, 9, i ? "LEAF" : first, i == 0 ? sizeof first : i % 5 ? 4 : 0);
  pb_text(&node, 1, "x");
  pb_text(&node, 2, "l");
  pb_text(&node, 4, "Trees");
  pb_message(&node, 5, &attr);
  pb_message(&graph, 1, &node);
  pb_io(&graph, 11, "x");
  pb_io(&graph, 12, "l");
  struct pb p = pb_model(&graph);
  if (!d) return p;
  // What meta_sha256 is of: tags and lengths as they stand, contents as lengths.
  size_t at = 0;
  while (p.at[at] != 'f' || p.at[at + 1] != 'f')
    at++;
  digest_add(d, p.at, at);
  for (uint32_t i = 0; i < n; i++) {
    const uint64_t len = i == 0 ? sizeof first : i % 5 ? 4 : 0;
    if (i > 0) digest_add(d, p.at + at, 2), at += 2;
    if (len > 0) digest_add(d, &len, 8);
    at += (size_t)len;
  }
  digest_add(d, p.at + at, p.n - at);
  return p;
}

// Millions of strings, as every ensemble of trees has, take no memory each.
static void test_strings_stay_in_the_file(void **state) {
  struct pb_home *h = *state;
  uint8_t want[DIGEST_BYTES];
  struct digest *d = digest_new();
  struct pb p = strings_model(1000, d);
  digest_finish(d, want);
  load(h, &p);
  pb_free(&p);
  assert_memory_equal(h->m.meta_sha256, want, DIGEST_BYTES);
  const struct model_attr *a = model_attr_named(&h->m, 0, "modes");
  assert_true(a->count == 1000 && a->first == NO_ID);
  const uint64_t before = resources_peak();
  p = strings_model(300000, NULL);
  load(h, &p);
  pb_free(&p);
  assert_true(resources_peak() - before < 100000);
}

static void test_meta_digest(void **state) {
  struct pb_home *h = *state;
  size_t at;
  struct pb p = digest_model(0xaa, 5, &at);
  load(h, &p);
  const uint64_t length = 2000, varint = 5;
  uint8_t want[DIGEST_BYTES];
  struct digest *d = digest_new();
  digest_add(d, p.at, at);
  digest_add(d, &length, 8);
  digest_add(d, p.at + at + 2000, p.n - at - 2000);
  digest_add(d, &varint, 8);
  digest_finish(d, want);
  assert_memory_equal(h->m.meta_sha256, want, DIGEST_BYTES);
  pb_free(&p);
  p = digest_model(0xbb, 5, &at); // other weights: the same identity
  load(h, &p);
  assert_memory_equal(h->m.meta_sha256, want, DIGEST_BYTES);
  pb_free(&p);
  p = digest_model(0xaa, 6, &at); // another small value: another identity
  load(h, &p);
  assert_memory_not_equal(h->m.meta_sha256, want, DIGEST_BYTES);
  pb_free(&p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int test_load(void) {
  const struct CMUnitTest tests[] = {
      TEST(test_rows),
      TEST(test_inputs_that_are_left_out),
      TEST(test_scopes),
      TEST(test_lists_of_graphs),
      TEST(test_attributes),
      TEST(test_constants),
      TEST(test_functions),
      TEST(test_training),
      TEST(test_sparse),
      TEST(test_rests_and_unknown_fields),
      TEST(test_split_submessages_merge),
      TEST(test_meta_digest),
      TEST(test_strings_stay_in_the_file),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
