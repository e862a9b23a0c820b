// A mutant is a tree (mutate_tree.h) with one to a dozen changes, each a row of the table at the
// end: a function that looks for a place where it can be made, makes it, and says whether there was
// one. What the changes are about:
//
//   wire    fields twice, gone, unknown, moved, of another wire type or number; numbers huge,
//           negative, in ten bytes; bytes emptied, cut, grown; messages inside themselves, deep or
//           a little; parts of another model
//   names   emptied, made equal, swapped; inputs left out; operators, domains
//   rows    attributes twice, moved, emptied, of another type; tensors of other dims and types,
//           with and without the bytes for them; special numbers; nodes in another order, twice,
//           gone; imports; what is an input, an output, a constant
//
// Some mutants are damaged as bytes in the end.
#include "mutate.h"

#include "chance.h"
#include "mutate_tree.h"
#include "schema/schema.h"

#include <math.h>

enum { TRIES = 64, DEEP = 600 };
#define ANY UINT32_MAX

struct mutating {
  struct tree t, other;
  const char *what;
};

// ---- places -------------------------------------------------------------------------------------

// A field by chance, of a message (MESSAGE_NONE: any) and number (ANY: any); NULL: there is none.
static struct field *pick_from(const struct tree *t, enum message in, uint32_t number) {
  struct field *found = NULL;
  uint32_t seen = 0;
  for (uint32_t i = 0; i < t->n_all; i++) {
    struct field *f = t->all[i];
    if (!f->up || (in != MESSAGE_NONE && f->up->holds != in) ||
        (number != ANY && f->number != number))
      continue;
    if (chance_below(++seen) == 0) found = f;
  }
  return found;
}

static struct field *pick(struct mutating *m, enum message in, uint32_t number) {
  return pick_from(&m->t, in, number);
}

static struct field *pick_any(struct mutating *m) {
  if (m->t.n_all == 0) return NULL;
  struct field *f = m->t.all[chance_below(m->t.n_all)];
  return f->up ? f : NULL;
}

// A message by chance that is of a kind; MESSAGE_NONE: of any.
static struct field *pick_message(struct mutating *m, enum message holds) {
  struct field *found = NULL;
  uint32_t seen = 0;
  if (holds == MESSAGE_NONE && chance_below(16) == 0) return m->t.root;
  for (uint32_t i = 0; i < m->t.n_all; i++) {
    struct field *f = m->t.all[i];
    if (f->up && f->holds != MESSAGE_NONE && (holds == MESSAGE_NONE || f->holds == holds) &&
        chance_below(++seen) == 0)
      found = f;
  }
  return found;
}

static bool is_value_name(const struct field *f) {
  switch (f->up->holds) {
  case MESSAGE_NODE: return f->number == ONNX_NODE_input || f->number == ONNX_NODE_output;
  case MESSAGE_TENSOR: return f->number == ONNX_TENSOR_name;
  case MESSAGE_INFO: return f->number == ONNX_INFO_name;
  case MESSAGE_FUNCTION:
    return f->number == ONNX_FUNCTION_input || f->number == ONNX_FUNCTION_output;
  default: return false;
  }
}

static struct field *pick_name(struct mutating *m) {
  for (uint32_t i = 0; i < TRIES; i++) {
    struct field *f = pick_any(m);
    if (f && is_value_name(f)) return f;
  }
  return pick(m, MESSAGE_NODE, ONNX_NODE_input);
}

// ---- what is put there --------------------------------------------------------------------------

static uint64_t odd_number(void) {
  static const int64_t odd[] = {0,
                                1,
                                2,
                                3,
                                4,
                                5,
                                7,
                                8,
                                9,
                                13,
                                16,
                                17,
                                21,
                                64,
                                127,
                                128,
                                255,
                                1000,
                                -1,
                                -2,
                                -3,
                                -128,
                                INT32_MAX,
                                INT32_MIN,
                                INT64_MAX,
                                INT64_MIN,
                                1 << 16,
                                1 << 30,
                                UINT32_MAX,
                                INT64_C(1) << 40,
                                INT64_C(1) << 62,
                                INT64_MAX - 1};
  const uint32_t i = chance_below(sizeof odd / sizeof *odd + 2);
  return i < sizeof odd / sizeof *odd ? (uint64_t)odd[i] : chance_64() >> chance_below(64);
}

static float odd_float(void) {
  const float odd[] = {0,      -0.0f,  1,       -1,     0.5f,     -0.5f,    2,
                       1e-38f, 1e-45f, 3e38f,   -3e38f, 65504,    1e9f,     -1e9f,
                       1e-7f,  255,    0x1p24f, NAN,    INFINITY, -INFINITY};
  return odd[chance_below(sizeof odd / sizeof *odd)];
}

static const char *const words[] = {"",
                                    "x",
                                    "y",
                                    "w",
                                    "axis",
                                    "axes",
                                    "value",
                                    "perm",
                                    "to",
                                    "alpha",
                                    "beta",
                                    "transA",
                                    "transB",
                                    "pads",
                                    "strides",
                                    "kernel_shape",
                                    "dilations",
                                    "group",
                                    "body",
                                    "then_branch",
                                    "else_branch",
                                    "ai.onnx",
                                    "com.microsoft",
                                    "ai.onnx.ml",
                                    "onnx_passes.ops",
                                    "auto_pad",
                                    "epsilon",
                                    "mode",
                                    "NOTSET",
                                    "SAME_UPPER",
                                    "keepdims",
                                    "block_size",
                                    "num_outputs",
                                    "seq_len",
                                    "value_ints",
                                    "value_float",
                                    "value_strings"};

static struct span blob(struct mutating *m, size_t n, int byte) {
  uint8_t *at = arena_alloc(m->t.a, n + 1);
  memset(at, byte, n);
  return span_of(at, n);
}

static struct span odd_text(struct mutating *m) {
  switch (chance_below(12)) {
  case 0: return span_of("\xff\xfe", 2);
  case 1: return span_of("a\0b", 3);
  case 2: return blob(m, 200, 'n');
  case 3: return span_str("\xe2\x80\xae\n\x1b[31m");
  case 4: return blob(m, chance_below(8) ? 5000 : 70000, 'l');
  default: return span_str(words[chance_below(sizeof words / sizeof *words)]);
  }
}

// An operator of the table; its name lives as long as the program.
static const struct schema_operator *odd_operator(void) {
  uint32_t n;
  const struct schema_operator *all = schema_all(&n);
  return &all[chance_below(n)];
}

static bool put_copy(struct mutating *m, struct field *in, struct field *after,
                     const struct field *f) {
  if (tree_bytes(m->t.root) + tree_bytes(f) > MUTATE_MOST_BYTES) return false;
  tree_put(in, after, tree_copy(&m->t, f));
  return true;
}

static void set_bytes(struct field *f, struct span bytes) {
  f->holds = MESSAGE_NONE;
  f->wire = WIRE_BYTES;
  f->bytes = bytes;
}

static struct span text_of(const struct field *f) {
  return f && f->wire == WIRE_BYTES && f->holds == MESSAGE_NONE ? f->bytes : span_of("", 0);
}

// ---- wire ---------------------------------------------------------------------------------------

static bool field_twice(struct mutating *m) {
  struct field *f = pick_any(m);
  return f && put_copy(m, f->up, chance_below(2) ? f : NULL, f);
}

static bool field_gone(struct mutating *m) {
  struct field *f = pick_any(m);
  if (f) tree_take(f);
  return f;
}

static bool field_unknown(struct mutating *m) {
  static const uint32_t odd[] = {15, 17, 26, 27, 127, 1000, 19000, (1u << 29) - 1, 0};
  struct field *in = pick_message(m, MESSAGE_NONE);
  if (!in) return false;
  const uint32_t number =
      chance_below(3) ? 1 + chance_below(30) : odd[chance_below(sizeof odd / sizeof *odd)];
  struct field *f = tree_new(&m->t, number, (enum wire)chance_below(chance_below(4) ? 3 : 8));
  f->x = odd_number();
  f->bytes = odd_text(m);
  tree_put(in, chance_below(2) ? in->first : NULL, f);
  return true;
}

static bool group(struct mutating *m) {
  struct field *in = pick_message(m, MESSAGE_NONE);
  if (!in) return false;
  const uint32_t number = 1 + chance_below(100), n = chance_below(4) ? 2 : 300;
  for (uint32_t i = 0; i < n; i++)
    tree_put(in, NULL, tree_new(&m->t, number, i < n / 2 ? WIRE_BEGIN : WIRE_END));
  return true;
}

static bool wire_type(struct mutating *m) {
  static const uint8_t types[] = {WIRE_VARINT,  WIRE_FIXED64, WIRE_BYTES,
                                  WIRE_FIXED32, WIRE_BEGIN,   6};
  struct field *f = pick_any(m);
  if (!f) return false;
  if (f->wire != WIRE_VARINT) f->x = odd_number();
  f->wire = types[chance_below(chance_below(4) ? 4 : 6)];
  return true;
}

static bool field_number(struct mutating *m) {
  struct field *f = pick_any(m);
  if (f) f->number = 1 + chance_below(26);
  return f;
}

static bool field_moved(struct mutating *m) {
  struct field *f = pick_any(m);
  if (!f || !f->up->first->next) return false;
  struct field *in = f->up, *to = in->first;
  tree_take(f);
  for (uint32_t n = chance_below(8); n > 0 && to && to->next; n--)
    to = to->next;
  tree_put(in, to, f);
  return true;
}

static bool number_odd(struct mutating *m) {
  for (uint32_t i = 0; i < TRIES; i++) {
    struct field *f = pick_any(m);
    if (!f || f->wire != WIRE_VARINT) continue;
    f->x = odd_number();
    f->longest = chance_below(4) == 0;
    return true;
  }
  return false;
}

static bool bytes_odd(struct mutating *m) {
  struct field *f = NULL;
  for (uint32_t i = 0; i < TRIES && (!f || f->wire != WIRE_BYTES); i++)
    f = pick_any(m);
  if (!f || f->wire != WIRE_BYTES) return false;
  const struct span was = f->holds == MESSAGE_NONE ? f->bytes : span_of("", 0);
  const uint32_t n = (uint32_t)min_u64(was.n, 4096);
  switch (chance_below(4)) {
  case 0: set_bytes(f, span_of("", 0)); break;
  case 1: set_bytes(f, span_of(was.at, chance_below(n + 1))); break;
  case 2: {
    uint8_t *at = arena_zalloc(m->t.a, n + 9);
    if (n) memcpy(at, was.at, n);
    set_bytes(f, span_of(at, n + 1 + chance_below(8)));
    break;
  }
  default: set_bytes(f, odd_text(m));
  }
  return true;
}

// A part of the other model where one of its kind is, or beside it.
static bool splice(struct mutating *m) {
  struct field *f = pick_any(m);
  const struct field *of = f ? pick_from(&m->other, (enum message)f->up->holds, f->number) : NULL;
  if (!of || !put_copy(m, f->up, f, of)) return false;
  if (chance_below(2)) tree_take(f);
  return true;
}

static bool splice_node(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  const struct field *of = pick_from(&m->other, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!f || !of || !put_copy(m, f->up, f, of)) return false;
  struct field *in = tree_find(f->next, ONNX_NODE_input), *from = tree_find(f, ONNX_NODE_input);
  if (in && from) set_bytes(in, text_of(from));
  return true;
}

// ---- depth --------------------------------------------------------------------------------------

static struct field *graph_attribute(struct mutating *m, const char *name) {
  struct field *attr = tree_message(&m->t, ONNX_NODE_attribute, MESSAGE_ATTRIBUTE);
  tree_put(attr, NULL, tree_text(&m->t, ONNX_ATTRIBUTE_name, span_str(name)));
  tree_put(attr, NULL, tree_number(&m->t, ONNX_ATTRIBUTE_type, 5));
  return attr;
}

// The graph that a node is in, as a body of the node.
static bool graph_in_itself(struct mutating *m) {
  static const char *const names[] = {"body", "then_branch", "else_branch", "g"};
  struct field *node = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!node || tree_bytes(node->up) * 2 > MUTATE_MOST_BYTES / 4) return false;
  struct field *attr = graph_attribute(m, names[chance_below(4)]);
  struct field *g = tree_copy(&m->t, node->up);
  g->number = ONNX_ATTRIBUTE_g;
  tree_put(attr, NULL, g);
  tree_put(node, NULL, attr);
  return true;
}

// Messages of one kind in each other, deeper than any reader should go, or as deep as it just goes.
static bool deep(struct mutating *m) {
  struct field *graph = pick_message(m, MESSAGE_GRAPH), *in = graph;
  if (!graph) return false;
  static const uint32_t depths[] = {5, 20, 24, 25, 31, 33, 49, 50, DEEP};
  for (uint32_t n = depths[chance_below(9)]; n > 0; n--) {
    struct field *node = tree_message(&m->t, ONNX_GRAPH_node, MESSAGE_NODE);
    struct field *attr = graph_attribute(m, "then_branch");
    struct field *g = tree_message(&m->t, ONNX_ATTRIBUTE_g, MESSAGE_GRAPH);
    tree_put(node, NULL, tree_text(&m->t, ONNX_NODE_op_type, span_str("If")));
    tree_put(attr, NULL, g);
    tree_put(node, NULL, attr);
    tree_put(in, NULL, node);
    in = g;
  }
  return true;
}

static bool deep_type(struct mutating *m) {
  struct field *in = pick_message(m, MESSAGE_TYPE);
  if (!in) return false;
  for (uint32_t n = chance_below(2) ? 2 + chance_below(6) : DEEP; n > 0; n--) {
    struct field *sequence =
        tree_message(&m->t, chance_below(4) ? ONNX_TYPE_sequence_type : ONNX_TYPE_optional_type,
                     MESSAGE_TYPE_SEQUENCE);
    struct field *held = tree_message(&m->t, ONNX_TYPE_SEQUENCE_elem_type, MESSAGE_TYPE_HELD);
    tree_put(sequence, NULL, held);
    tree_put(in, NULL, sequence);
    in = held;
  }
  return true;
}

// ---- names --------------------------------------------------------------------------------------

static bool names_equal(struct mutating *m) {
  struct field *a = pick_name(m);
  const struct field *b = pick_name(m);
  if (!a || !b || a == b) return false;
  set_bytes(a, text_of(b));
  return true;
}

static bool names_swapped(struct mutating *m) {
  struct field *a = pick_name(m), *b = pick_name(m);
  if (!a || !b || a == b) return false;
  const struct span of_a = text_of(a);
  set_bytes(a, text_of(b));
  set_bytes(b, of_a);
  return true;
}

static bool name_odd(struct mutating *m) {
  struct field *f = pick_name(m);
  if (f) set_bytes(f, chance_below(2) ? span_of("", 0) : odd_text(m));
  return f;
}

static bool node_name(struct mutating *m) {
  struct field *a = pick(m, MESSAGE_NODE, ONNX_NODE_name);
  const struct field *b = pick(m, MESSAGE_NODE, ONNX_NODE_name);
  if (a) set_bytes(a, chance_below(2) ? text_of(b) : odd_text(m));
  return a;
}

static bool operator(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_NODE, ONNX_NODE_op_type);
  if (!f) return false;
  const struct field *of =
      pick_from(chance_below(2) ? &m->other : &m->t, MESSAGE_NODE, ONNX_NODE_op_type);
  if (of && chance_below(2)) {
    set_bytes(f, text_of(of));
    return true;
  }
  const struct schema_operator *op = odd_operator();
  set_bytes(f, span_str(op->name));
  if (*op->domain) tree_put(f->up, NULL, tree_text(&m->t, ONNX_NODE_domain, span_str(op->domain)));
  return true;
}

static bool domain(struct mutating *m) {
  static const char *const domains[] = {"",
                                        "ai.onnx",
                                        "com.microsoft",
                                        "ai.onnx.ml",
                                        "onnx_passes.ops",
                                        "local",
                                        "qonnx.custom_op.general"};
  struct field *node = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!node) return false;
  tree_put(node, NULL, tree_text(&m->t, ONNX_NODE_domain, span_str(domains[chance_below(7)])));
  return true;
}

static bool input_left_out(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_NODE, ONNX_NODE_input);
  if (!f) return false;
  if (chance_below(3))
    set_bytes(f, span_of("", 0));
  else
    tree_take(f);
  return true;
}

// One input or output more, behind the others or among them.
static bool slot_more(struct mutating *m) {
  const uint32_t number = chance_below(3) ? ONNX_NODE_input : ONNX_NODE_output;
  struct field *node = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  const struct field *of = pick_name(m);
  if (!node || !of) return false;
  const struct span name =
      number == ONNX_NODE_output && chance_below(2) ? span_str("one_more") : text_of(of);
  for (uint32_t n = chance_below(6) ? 1 : 40; n > 0; n--)
    tree_put(node, chance_below(2) ? tree_find(node, number) : NULL,
             tree_text(&m->t, number, name));
  return true;
}

// ---- attributes ---------------------------------------------------------------------------------

static bool attribute_twice(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_NODE, ONNX_NODE_attribute);
  if (!f || !put_copy(m, f->up, chance_below(2) ? f : NULL, f)) return false;
  struct field *x = tree_find(f, ONNX_ATTRIBUTE_i);
  if (x && x->wire == WIRE_VARINT && chance_below(2)) x->x = odd_number();
  return true;
}

static bool attribute_emptied(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_NODE, ONNX_NODE_attribute);
  if (!f || f->holds != MESSAGE_ATTRIBUTE) return false;
  const bool all = chance_below(4) == 0, with_type = chance_below(2);
  for (struct field *in = f->first, *next; in; in = next) {
    next = in->next;
    if (all ||
        (in->number != ONNX_ATTRIBUTE_name && (with_type || in->number != ONNX_ATTRIBUTE_type)))
      tree_take(in);
  }
  return true;
}

static bool attribute_name(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_ATTRIBUTE, ONNX_ATTRIBUTE_name);
  const struct field *of =
      pick_from(chance_below(2) ? &m->other : &m->t, MESSAGE_ATTRIBUTE, ONNX_ATTRIBUTE_name);
  if (f)
    set_bytes(f, chance_below(3) == 0 ? span_of("", 0)
                 : chance_below(2)    ? text_of(of)
                                      : odd_text(m));
  return f;
}

static bool attribute_type(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_ATTRIBUTE, ONNX_ATTRIBUTE_type);
  if (!f) return false;
  f->wire = WIRE_VARINT;
  f->x = chance_below(16);
  return true;
}

static bool attribute_given(struct mutating *m) {
  struct field *node = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  const struct field *of =
      pick_from(chance_below(2) ? &m->other : &m->t, MESSAGE_NODE, ONNX_NODE_attribute);
  return node && of && put_copy(m, node, NULL, of);
}

// A number of the attribute's operator, with another value, or one more where it has none.
static bool attribute_number(struct mutating *m) {
  struct field *node = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!node) return false;
  uint32_t n;
  const struct schema_operator *all = schema_all(&n);
  const struct span op = text_of(tree_find(node, ONNX_NODE_op_type));
  for (uint32_t i = 0; i < n; i++) {
    if (!span_is(op, all[i].name) || all[i].n_versions == 0) continue;
    const struct schema_signature *s = &all[i].versions[chance_below(all[i].n_versions)];
    if (s->n_attributes == 0) return false;
    const struct schema_attribute *a = &s->attributes[chance_below(s->n_attributes)];
    struct field *attr = tree_message(&m->t, ONNX_NODE_attribute, MESSAGE_ATTRIBUTE);
    tree_put(attr, NULL, tree_text(&m->t, ONNX_ATTRIBUTE_name, span_str(a->name)));
    tree_put(attr, NULL, tree_number(&m->t, ONNX_ATTRIBUTE_type, a->type));
    for (uint32_t k = chance_below(4); k > 0; k--)
      tree_put(attr, NULL, tree_number(&m->t, ONNX_ATTRIBUTE_ints, odd_number()));
    tree_put(attr, NULL, tree_number(&m->t, ONNX_ATTRIBUTE_i, odd_number()));
    struct field *x = tree_new(&m->t, ONNX_ATTRIBUTE_f, WIRE_FIXED32);
    const float odd = odd_float();
    memcpy(&x->x, &odd, sizeof odd);
    tree_put(attr, NULL, x);
    tree_put(attr, NULL, tree_text(&m->t, ONNX_ATTRIBUTE_s, odd_text(m)));
    tree_put(node, NULL, attr);
    return true;
  }
  return false;
}

static bool float_odd(struct mutating *m) {
  for (uint32_t i = 0; i < TRIES; i++) {
    struct field *f =
        pick(m, MESSAGE_ATTRIBUTE, chance_below(2) ? ONNX_ATTRIBUTE_f : ONNX_ATTRIBUTE_floats);
    if (!f || f->wire != WIRE_FIXED32) continue;
    const float odd = odd_float();
    memcpy(&f->x, &odd, sizeof odd);
    return true;
  }
  return false;
}

// ---- tensors ------------------------------------------------------------------------------------

static void drop_all(struct field *in, uint32_t number) {
  for (struct field *f = in->first, *next; f; f = next) {
    next = f->next;
    if (f->number == number) tree_take(f);
  }
}

static bool tensor_dims(struct mutating *m) {
  struct field *f = pick_message(m, MESSAGE_TENSOR);
  if (!f) return false;
  if (chance_below(3)) drop_all(f, ONNX_TENSOR_dims);
  for (uint32_t n = chance_below(4); n > 0; n--)
    tree_put(f, NULL, tree_number(&m->t, ONNX_TENSOR_dims, odd_number()));
  return true;
}

static bool tensor_type(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_TENSOR, ONNX_TENSOR_data_type);
  if (!f) return false;
  f->wire = WIRE_VARINT;
  f->x = chance_below(30);
  return true;
}

// Other dims and another type, and bytes that fit them: a tensor that loads.
static bool tensor_other(struct mutating *m) {
  static const uint8_t bits[] = {0,  32,  8,  8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64,
                                 64, 128, 16, 8, 8,  8,  8,  4,  4, 4, 8,  2,  2};
  struct field *f = pick_message(m, MESSAGE_TENSOR);
  if (!f) return false;
  const struct span name = text_of(tree_find(f, ONNX_TENSOR_name));
  const struct field *was = tree_find(f, ONNX_TENSOR_data_type);
  const uint32_t type =
      was && was->x < sizeof bits && chance_below(2) ? (uint32_t)was->x : 1 + chance_below(26);
  uint64_t elements = 1;
  f->first = f->last = NULL;
  for (uint32_t rank = chance_below(5); rank > 0; rank--) {
    static const uint8_t dims[] = {0, 1, 1, 2, 3, 4, 8, 16};
    const uint64_t dim = dims[chance_below(8)];
    tree_put(f, NULL, tree_number(&m->t, ONNX_TENSOR_dims, dim));
    elements *= dim;
  }
  const size_t n = (size_t)(elements * bits[type] + 7) / 8;
  uint8_t *raw = arena_zalloc(m->t.a, n + 4);
  for (size_t i = 0; type == 1 && i + 4 <= n; i += 4)
    memcpy(raw + i, (const float[]){chance_below(4) ? (float)chance_below(9) - 4 : odd_float()}, 4);
  for (size_t i = 0; type != 1 && i < n && chance_below(64); i++)
    raw[i] = (uint8_t)chance_below(chance_below(2) ? 4 : 256);
  tree_put(f, NULL, tree_number(&m->t, ONNX_TENSOR_data_type, type));
  tree_put(f, NULL, tree_text(&m->t, ONNX_TENSOR_name, name));
  tree_put(f, NULL, tree_text(&m->t, ONNX_TENSOR_raw_data, span_of(raw, n)));
  return true;
}

// Elements that mean trouble, in place: those of raw floats, or any bytes.
static bool tensor_values(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_TENSOR, ONNX_TENSOR_raw_data);
  if (!f || f->wire != WIRE_BYTES || f->bytes.n == 0) return false;
  const size_t n = f->bytes.n;
  uint8_t *raw = arena_alloc(m->t.a, n);
  memcpy(raw, f->bytes.at, n);
  const bool all = chance_below(3) == 0;
  const float odd = odd_float();
  const uint8_t byte = (uint8_t)(chance_below(2) ? 0 : 1 << chance_below(8));
  for (size_t i = 0; i < n; i++) {
    if (!all && chance_below(n) > 4) continue;
    if (n % 4 == 0 && byte == 0)
      memcpy(raw + i / 4 * 4, &odd, sizeof odd);
    else
      raw[i] = byte;
  }
  set_bytes(f, span_of(raw, n));
  return true;
}

static bool tensor_elsewhere(struct mutating *m) {
  struct field *f = pick_message(m, MESSAGE_TENSOR);
  if (!f) return false;
  static const char *const keys[] = {"location", "offset", "length", "checksum"};
  static const char *const values[] = {"m.onnx",      "0",           "16",
                                       "-1",          "../m.onnx",   "18446744073709551615",
                                       "/etc/passwd", "m.onnx.data", ""};
  if (chance_below(2)) drop_all(f, ONNX_TENSOR_raw_data);
  for (uint32_t i = 0; i < 3; i++) {
    struct field *entry = tree_message(&m->t, ONNX_TENSOR_external_data, MESSAGE_LOCATION);
    tree_put(entry, NULL, tree_text(&m->t, ONNX_LOCATION_key, span_str(keys[chance_below(4)])));
    tree_put(entry, NULL, tree_text(&m->t, ONNX_LOCATION_value, span_str(values[chance_below(9)])));
    tree_put(f, NULL, entry);
  }
  tree_put(f, NULL, tree_number(&m->t, ONNX_TENSOR_data_location, 1));
  return true;
}

// ---- nodes, graphs, the model -------------------------------------------------------------------

static bool node_twice(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!f || !put_copy(m, f->up, f, f)) return false;
  struct field *out = tree_find(f->next, ONNX_NODE_output);
  if (out && chance_below(3)) { // a node of its own, that something reads
    const struct span name = span_str(arena_printf(m->t.a, "twice%u", chance_below(1000)));
    set_bytes(out, name);
    struct field *reader = pick(m, MESSAGE_NODE, ONNX_NODE_input);
    if (reader) set_bytes(reader, name);
  }
  return true;
}

static bool node_gone(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!f) return false;
  // Mostly what read it reads what it read.
  const struct field *in = tree_find(f, ONNX_NODE_input), *out = tree_find(f, ONNX_NODE_output);
  const struct span name = text_of(out);
  if (in && out && chance_below(3))
    for (uint32_t i = 0; i < m->t.n_all; i++) {
      struct field *reader = m->t.all[i];
      if (reader->up && reader->up->holds == MESSAGE_NODE && reader->number == ONNX_NODE_input &&
          span_eq(text_of(reader), name))
        set_bytes(reader, text_of(in));
    }
  tree_take(f);
  return true;
}

static bool node_moved(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  struct field *to = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_node);
  if (!f || !to) return false;
  for (const struct field *up = to; up; up = up->up)
    if (up == f) return false;
  tree_take(f);
  tree_put(to->up, to, f);
  return true;
}

static bool inputs_swapped(struct mutating *m) {
  struct field *a = pick(m, MESSAGE_NODE, ONNX_NODE_input);
  struct field *b = a ? tree_find(a->up, ONNX_NODE_input) : NULL;
  if (!a || a == b) return false;
  const struct span of_a = text_of(a);
  set_bytes(a, text_of(b));
  set_bytes(b, of_a);
  return true;
}

static bool import(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_MODEL, ONNX_MODEL_opset_import);
  if (!f) return false;
  struct field *version = tree_find(f, ONNX_OPSET_version);
  switch (chance_below(5)) {
  case 0: tree_take(f); break;
  case 1: return put_copy(m, f->up, NULL, f);
  case 2: tree_put(f, NULL, tree_text(&m->t, ONNX_OPSET_domain, odd_text(m))); break;
  case 3: tree_put(f, NULL, tree_number(&m->t, ONNX_OPSET_version, odd_number())); break;
  default:
    if (!version) return false;
    version->x = 1 + chance_below(27);
  }
  return true;
}

static bool declared_dims(struct mutating *m) {
  struct field *shape = pick_message(m, MESSAGE_SHAPE);
  if (!shape) return false;
  if (chance_below(2)) drop_all(shape, ONNX_SHAPE_dim);
  for (uint32_t n = chance_below(4); n > 0; n--) {
    struct field *dim = tree_message(&m->t, ONNX_SHAPE_dim, MESSAGE_DIM);
    if (chance_below(3))
      tree_put(dim, NULL, tree_number(&m->t, ONNX_DIM_dim_value, odd_number()));
    else if (chance_below(3))
      tree_put(dim, NULL, tree_text(&m->t, ONNX_DIM_dim_param, odd_text(m)));
    tree_put(shape, NULL, dim);
  }
  return true;
}

static bool declared_type(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_TYPE_TENSOR, ONNX_TYPE_TENSOR_elem_type);
  if (!f) return false;
  f->wire = WIRE_VARINT;
  f->x = chance_below(30);
  return true;
}

// A value is an input, output or declared too.
static bool declared_too(struct mutating *m) {
  static const uint8_t lists[] = {ONNX_GRAPH_input, ONNX_GRAPH_output, ONNX_GRAPH_value_info};
  const struct field *of = pick_name(m), *info = pick_message(m, MESSAGE_INFO);
  struct field *graph = pick_message(m, MESSAGE_GRAPH);
  if (!of || !graph || !info) return false;
  struct field *copy = tree_copy(&m->t, info);
  copy->number = lists[chance_below(3)];
  drop_all(copy, ONNX_INFO_name);
  tree_put(copy, NULL, tree_text(&m->t, ONNX_INFO_name, text_of(of)));
  tree_put(graph, NULL, copy);
  return true;
}

// An initializer is the output of a Constant.
static bool constant_node(struct mutating *m) {
  struct field *f = pick(m, MESSAGE_GRAPH, ONNX_GRAPH_initializer);
  if (!f) return false;
  struct field *graph = f->up, *node = tree_message(&m->t, ONNX_GRAPH_node, MESSAGE_NODE);
  struct field *attr = tree_message(&m->t, ONNX_NODE_attribute, MESSAGE_ATTRIBUTE);
  tree_put(node, NULL, tree_text(&m->t, ONNX_NODE_output, text_of(tree_find(f, ONNX_TENSOR_name))));
  tree_put(node, NULL, tree_text(&m->t, ONNX_NODE_op_type, span_str("Constant")));
  tree_take(f);
  f->number = ONNX_ATTRIBUTE_t;
  tree_put(attr, NULL, tree_text(&m->t, ONNX_ATTRIBUTE_name, span_str("value")));
  tree_put(attr, NULL, tree_number(&m->t, ONNX_ATTRIBUTE_type, 4));
  tree_put(attr, NULL, f);
  tree_put(node, NULL, attr);
  tree_put(graph, chance_below(4) ? graph->first : NULL, node);
  return true;
}

static bool list_emptied(struct mutating *m) {
  struct field *f = pick_any(m);
  if (!f || f->up == m->t.root) return false;
  drop_all(f->up, f->number);
  return true;
}

// ---- the table ----------------------------------------------------------------------------------

// How often each is drawn, beside the others.
static const struct {
  const char *word;
  bool (*make)(struct mutating *m);
  uint32_t weight;
} changes[] = {
    {"field twice", field_twice, 3}, {"field gone", field_gone, 4},
    {"unknown field", field_unknown, 2}, {"group", group, 1}, {"wire type", wire_type, 1},
    {"field number", field_number, 2}, {"field moved", field_moved, 2}, {"number", number_odd, 5},
    {"bytes", bytes_odd, 2}, {"splice", splice, 5}, {"spliced node", splice_node, 6},
    {"graph in itself", graph_in_itself, 2}, {"deep", deep, 1}, {"deep type", deep_type, 1},
    {"names equal", names_equal, 6}, {"names swapped", names_swapped, 4}, {"name", name_odd, 4},
    {"node name", node_name, 2},
    {
        "operator",
        operator,
        6 },
        {"domain", domain, 2},
        {"input left out", input_left_out, 6},
        {"slot more", slot_more, 4},
        {"attribute twice", attribute_twice, 4},
        {"attribute emptied", attribute_emptied, 4},
        {"attribute name", attribute_name, 4},
        {"attribute type", attribute_type, 2},
        {"attribute given", attribute_given, 3},
        {"attribute number", attribute_number, 7},
        {"float", float_odd, 3},
        {"tensor dims", tensor_dims, 3},
        {"tensor type", tensor_type, 2},
        {"tensor other", tensor_other, 8},
        {"tensor values", tensor_values, 6},
        {"tensor elsewhere", tensor_elsewhere, 1},
        {"node twice", node_twice, 5},
        {"node gone", node_gone, 5},
        {"node moved", node_moved, 4},
        {"inputs swapped", inputs_swapped, 4},
        {"import", import, 4},
        {"declared dims", declared_dims, 5},
        {"declared type", declared_type, 4},
        {"declared too", declared_too, 4},
        {"constant node", constant_node, 3},
        {"list emptied", list_emptied, 3},
    };
enum { CHANGES = sizeof changes / sizeof *changes };

static uint32_t draw_change(void) {
  uint32_t all = 0, i = 0;
  for (uint32_t k = 0; k < CHANGES; k++)
    all += changes[k].weight;
  for (uint32_t left = chance_below(all); left >= changes[i].weight; i++)
    left -= changes[i].weight;
  return i;
}

// What the tree does not know: any bytes of the file.
static void damage(uint8_t *at, size_t *n) {
  if (*n == 0) return;
  if (chance_below(3) == 0)
    *n = chance_below(*n);
  else
    for (uint32_t k = 1 + chance_below(4); k > 0; k--)
      at[chance_below(*n)] = (uint8_t)chance_64();
}

struct span mutate(struct span model, struct span other, uint64_t seed, struct arena *a,
                   const char **what) {
  struct mutating m = {.what = ""};
  chance_seed = seed;
  chance_64();
  tree_read(&m.t, model, a);
  tree_read(&m.other, other, a);
  uint32_t n = 1;
  while (n < 12 && chance_below(5) < 3)
    n++;
  for (uint32_t tries = 0; n > 0 && tries < TRIES; tries++) {
    const uint32_t change = draw_change();
    if (!changes[change].make(&m)) continue;
    tree_collect(&m.t);
    m.what = arena_printf(a, "%s%s%s", m.what, *m.what ? ", " : "", changes[change].word);
    n--;
  }
  const bool fits = tree_bytes(m.t.root) <= MUTATE_MOST_BYTES;
  struct span made = fits ? tree_write(&m.t) : model;
  if (fits && chance_below(24) == 0) {
    damage((uint8_t *)made.at, &made.n);
    m.what = arena_printf(a, "%s, damaged", m.what);
  }
  tree_free(&m.t);
  tree_free(&m.other);
  *what = m.what;
  return made;
}
