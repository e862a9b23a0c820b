// Rows as load makes them, without a file. Not fast, not lenient: a wrong test dies here.
#include "model_builder.h"

#include "model/model_calls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

// ---- words and dims ----------------------------------------------------------------------------

static bool next_word(const char **at, char separator, struct span *word) {
  while (**at == separator)
    ++*at;
  if (**at == '\0') return false;
  const char *end = strchr(*at, separator);
  const size_t n = end ? (size_t)(end - *at) : strlen(*at);
  *word = span_of(*at, n);
  *at += n;
  return true;
}

static uint32_t intern(struct build *b, const char *s) {
  return model_intern(b->m, span_str(s));
}

static int64_t number_of(struct span word) {
  char *end;
  const int64_t x = strtoll((const char *)word.at, &end, 10);
  assert(end == (const char *)word.at + word.n);
  return x;
}

static uint32_t parse_longs(struct build *b, const char *list, uint32_t *first) {
  struct span word;
  uint32_t n = 0;
  *first = b->m->n_longs;
  while (next_word(&list, ',', &word)) {
    const uint32_t at = TABLE_ADD(b->m, longs, 1);
    b->m->longs[at] = number_of(word);
    n++;
  }
  return n;
}

static uint16_t parse_dims(struct build *b, const char *list, uint32_t *first) {
  struct span word;
  uint16_t n = 0;
  *first = b->m->n_dims;
  while (next_word(&list, ',', &word)) {
    const uint32_t at = TABLE_ADD(b->m, dims, 1);
    b->m->dims[at] = number_of(word);
    n++;
  }
  return n;
}

static uint16_t parse_info_dims(struct build *b, const char *list, uint32_t *first) {
  struct span word;
  uint16_t n = 0;
  *first = b->m->n_info_dims;
  while (next_word(&list, ',', &word)) {
    const uint32_t at = TABLE_ADD(b->m, info_dims, 1);
    const bool digit = word.at[0] >= '0' && word.at[0] <= '9';
    struct model_dim d = {.value = digit ? number_of(word) : -1, .param = b->m->empty};
    if (!digit && !span_is(word, "?")) d.param = model_intern(b->m, word);
    b->m->info_dims[at] = d;
    n++;
  }
  return n;
}

// ---- graphs ------------------------------------------------------------------------------------

static uint32_t add_graph(struct build *b, enum graph_kind kind, const char *name) {
  const uint32_t g = TABLE_ADD(b->m, graphs, 1);
  b->m->graphs[g] = (struct model_graph){.name = intern(b, name),
                                         .kind = (uint8_t)kind,
                                         .parent = NO_ID,
                                         .owner = NO_ID,
                                         .first_node = NO_ID,
                                         .last_node = NO_ID};
  return g;
}

void build_begin(struct build *b, struct model *m) {
  model_init(m);
  *b = (struct build){.m = m};
  m->ir_version = 8;
  m->main_graph = b->graph = add_graph(b, GRAPH_MAIN, "main");
  build_opset(b, "", 18);
}

void build_opset(struct build *b, const char *domain, int64_t version) {
  assert(b->m->n_functions == 0);
  const uint32_t at = TABLE_ADD(b->m, opsets, 1);
  b->m->opsets[at] = (struct model_opset){intern(b, domain), version, 0};
  b->m->n_model_opsets++;
}

uint32_t build_file(struct build *b, const char *name, uint64_t size) {
  const uint32_t at = TABLE_ADD(b->m, files, 1);
  b->m->files[at] = (struct model_file){.name = arena_string(&b->m->arena, span_str(name)), .size = size};
  return at;
}

static void add_item(struct build *b, uint32_t graph, enum item_kind kind, uint32_t id) {
  struct model_graph *g = &b->m->graphs[graph];
  struct model_item *last = g->n_items ? &b->m->items[g->items + g->n_items - 1] : NULL;
  if (last && last->kind == kind && last->first + last->count == id) {
    last->count++;
    return;
  }
  const uint32_t at = TABLE_ADD(b->m, items, 1);
  b->m->items[at] = (struct model_item){kind, id, 1};
  if (g->n_items++ == 0) g->items = at;
}

void build_end(struct build *b) {
  struct model *m = b->m;
  assert(b->graph == m->main_graph);
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next)
      add_item(b, g, ITEM_NODES, n);
    for (uint32_t t = 0; t < m->n_tensors; t++)
      if (m->tensors[t].graph == g && m->tensors[t].home == HOME_INITIALIZER)
        add_item(b, g, ITEM_TENSORS, t);
    for (uint32_t i = 0; i < m->n_infos; i++)
      if (m->values[m->infos[i].value].graph == g) add_item(b, g, ITEM_INFOS, i);
  }
  m->model_n_items = m->n_functions ? 2 : 1;
  m->model_items = TABLE_ADD(m, items, m->model_n_items);
  m->items[m->model_items] = (struct model_item){ITEM_GRAPH, m->main_graph, 1};
  if (m->n_functions)
    m->items[m->model_items + 1] = (struct model_item){ITEM_FUNCTIONS, 0, m->n_functions};
  m->loaded_nodes = m->n_nodes;
  m->loaded_values = m->n_values;
  m->loaded_tensors = m->n_tensors;
  m->loaded_infos = m->n_infos;
  model_calls_mark(m);
  build_check(m);
}

// ---- values ------------------------------------------------------------------------------------

static uint32_t own_value(struct build *b, struct span name) {
  const uint32_t id = model_intern(b->m, name);
  const uint32_t value = model_value_in(b->m, b->graph, id);
  return value != NO_ID ? value : model_add_value(b->m, b->graph, id);
}

static uint32_t seen_value(struct build *b, struct span name) {
  const uint32_t id = model_intern(b->m, name);
  const uint32_t value = model_lookup(b->m, b->graph, id);
  return value != NO_ID ? value : model_add_value(b->m, b->graph, id);
}

uint32_t build_value(const struct build *b, const char *name) {
  const uint32_t id = model_find_name(b->m, span_str(name));
  assert(id != NO_ID);
  const uint32_t value = model_lookup(b->m, b->graph, id);
  assert(value != NO_ID);
  return value;
}

static void add_info(struct build *b, uint32_t value, enum info_home home, enum dtype dtype,
                     const char *dims) {
  struct model *m = b->m;
  const uint32_t at = TABLE_ADD(m, infos, 1);
  struct model_info i = {.value = value, .dtype = (uint8_t)dtype, .home = (uint8_t)home};
  if (dtype != DTYPE_UNDEFINED) i.flags |= INFO_TENSOR;
  if (dims) {
    i.flags |= INFO_SHAPED;
    i.rank = parse_info_dims(b, dims, &i.dims);
  }
  i.next = m->values[value].info;
  m->values[value].info = at;
  m->infos[at] = i;
}

// A list that is not the last one moves behind it.
static uint32_t append_io(struct build *b, uint32_t *first, uint32_t *n, uint32_t value) {
  if (*n > 0 && *first + *n == b->m->n_graph_io) {
    *TABLE_PUSH(b->m, graph_io) = value;
    return (*n)++;
  }
  const uint32_t run = TABLE_ADD(b->m, graph_io, *n + 1);
  for (uint32_t i = 0; i < *n; i++)
    b->m->graph_io[run + i] = b->m->graph_io[*first + i];
  b->m->graph_io[run + *n] = value;
  *first = run;
  return (*n)++;
}

uint32_t build_input(struct build *b, const char *name, enum dtype dtype, const char *dims) {
  struct model_graph *g = &b->m->graphs[b->graph];
  const uint32_t value = own_value(b, span_str(name));
  struct model_value *v = &b->m->values[value];
  append_io(b, &g->inputs, &g->n_inputs, value);
  v->flags |= VALUE_IS_INPUT;
  if (v->kind == VALUE_UNDEFINED) v->kind = VALUE_INPUT;
  if (g->kind != GRAPH_FUNCTION) add_info(b, value, INFO_INPUT, dtype, dims);
  return value;
}

uint32_t build_output(struct build *b, const char *name, enum dtype dtype, const char *dims) {
  struct model_graph *g = &b->m->graphs[b->graph];
  const uint32_t value = own_value(b, span_str(name));
  append_io(b, &g->outputs, &g->n_outputs, value);
  b->m->values[value].flags |= VALUE_IS_OUTPUT;
  b->m->values[value].n_graph_outputs++;
  if (g->kind != GRAPH_FUNCTION) add_info(b, value, INFO_OUTPUT, dtype, dims);
  return value;
}

void build_value_info(struct build *b, const char *name, enum dtype dtype, const char *dims) {
  add_info(b, own_value(b, span_str(name)), INFO_VALUE, dtype, dims);
}

// ---- tensors -----------------------------------------------------------------------------------

static uint32_t add_tensor(struct build *b, const char *name, enum dtype dtype, const char *dims) {
  struct model_tensor t = {.name = intern(b, name),
                           .graph = b->graph,
                           .owner = NO_ID,
                           .small = NO_ID,
                           .recipe = NO_ID,
                           .dtype = (uint8_t)dtype,
                           .encoding = ENCODING_RAW};
  uint64_t count = 0;
  t.rank = parse_dims(b, dims, &t.dims);
  const bool sized =
      dims_product(b->m->dims + t.dims, t.rank, &count) && dtype_bytes(dtype, count, &t.bytes);
  assert(sized || dtype == DTYPE_STRING);
  if (dtype == DTYPE_STRING) t.encoding = ENCODING_STRINGS;
  const uint32_t id = TABLE_ADD(b->m, tensors, 1);
  b->m->tensors[id] = t;
  return id;
}

static void hold(struct build *b, uint32_t tensor, const void *bytes) {
  struct model_tensor *t = &b->m->tensors[tensor];
  assert(b->m->n_small_bytes % 8 == 0);
  const uint32_t at = TABLE_ADD(b->m, small_bytes, (uint32_t)round_up(t->bytes, 8));
  if (t->bytes) memcpy(b->m->small_bytes + at, bytes, t->bytes);
  t->small = at / 8;
}

static uint32_t add_initializer(struct build *b, const char *name, enum dtype dtype,
                                const char *dims) {
  const uint32_t tensor = add_tensor(b, name, dtype, dims);
  const uint32_t value = own_value(b, span_str(name));
  struct model_value *v = &b->m->values[value];
  assert(v->kind == VALUE_UNDEFINED || v->kind == VALUE_INPUT);
  v->kind = VALUE_INITIALIZER;
  v->def = tensor;
  b->m->tensors[tensor].home = HOME_INITIALIZER;
  b->m->tensors[tensor].owner = value;
  return tensor;
}

uint32_t build_tensor(struct build *b, const char *name, enum dtype dtype, const char *dims,
                      const void *bytes) {
  const uint32_t tensor = add_initializer(b, name, dtype, dims);
  if (dtype != DTYPE_STRING) hold(b, tensor, bytes);
  return tensor;
}

uint32_t build_floats(struct build *b, const char *name, const char *dims, const float *x) {
  return build_tensor(b, name, DTYPE_FLOAT, dims, x);
}

uint32_t build_ints(struct build *b, const char *name, const char *dims, const int64_t *x) {
  return build_tensor(b, name, DTYPE_INT64, dims, x);
}

uint32_t build_extent(struct build *b, const char *name, enum dtype dtype, const char *dims,
                      uint32_t file, uint64_t off) {
  const uint32_t tensor = add_initializer(b, name, dtype, dims);
  struct model_tensor *t = &b->m->tensors[tensor];
  assert(range_fits(off, t->bytes, b->m->files[file].size));
  t->pieces = TABLE_ADD(b->m, pieces, 1);
  t->n_pieces = 1;
  b->m->pieces[t->pieces] =
      (struct piece){.at = {off, t->bytes, file}, .count = t->bytes, .checkpoint = NO_ID};
  if (file > 0) t->flags |= TENSOR_EXTERNAL;
  return tensor;
}

// ---- nodes and attributes ----------------------------------------------------------------------

static uint32_t add_slots(struct build *b, const char *names, bool output, uint32_t node) {
  struct span word;
  uint32_t n = 0;
  while (next_word(&names, ' ', &word)) {
    uint32_t value = NO_ID;
    if (!span_is(word, "-")) value = output ? own_value(b, word) : seen_value(b, word);
    const uint32_t ref = TABLE_ADD(b->m, refs, 1);
    b->m->refs[ref] = (struct model_ref){value, node, NO_ID, NO_ID};
    n++;
    if (!output) model_link_use(b->m, ref);
    if (!output || value == NO_ID) continue;
    assert(b->m->values[value].kind == VALUE_UNDEFINED);
    b->m->values[value].kind = VALUE_NODE_OUTPUT;
    b->m->values[value].def = node;
  }
  return n;
}

uint32_t build_node(struct build *b, const char *op_type, const char *name, const char *in,
                    const char *out) {
  struct model *m = b->m;
  const uint32_t node = TABLE_ADD(m, nodes, 1);
  struct model_node n = {.name = intern(b, name),
                         .op_type = intern(b, op_type),
                         .domain = m->empty,
                         .overload = m->empty,
                         .graph = b->graph,
                         .attrs = m->n_attrs,
                         .prev = m->graphs[b->graph].last_node,
                         .next = NO_ID};
  n.refs = m->n_refs;
  n.n_in = add_slots(b, in, false, node);
  n.n_out = add_slots(b, out, true, node);
  m->nodes[node] = n;
  if (n.prev == NO_ID)
    m->graphs[b->graph].first_node = node;
  else
    m->nodes[n.prev].next = node;
  m->graphs[b->graph].last_node = node;
  return node;
}

void build_domain(struct build *b, uint32_t node, const char *domain) {
  const uint32_t id = intern(b, domain);
  b->m->nodes[node].domain = id;
}

static uint32_t add_attr(struct build *b, uint32_t node, const char *name, enum attr_type type) {
  struct model *m = b->m;
  struct model_node *n = &m->nodes[node];
  const uint32_t id = intern(b, name);
  const uint32_t run = TABLE_ADD(m, attrs, n->n_attrs + 1u);
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr a = m->attrs[run + i] = m->attrs[n->attrs + i];
    if (a.type == ATTR_GRAPH) m->graphs[a.first].owner = run + i;
    if (a.type == ATTR_TENSOR || model_attr_is_constant(m, &a)) m->tensors[a.first].owner = run + i;
    m->attrs[n->attrs + i].node = NO_ID;
    m->attrs[n->attrs + i].flags = ATTR_DEAD;
  }
  n->attrs = run;
  const uint32_t at = run + n->n_attrs++;
  m->attrs[at] = (struct model_attr){.name = id,
                                     .node = node,
                                     .ref_name = m->empty,
                                     .type = (uint8_t)type,
                                     .count = 1,
                                     .first = NO_ID};
  return at;
}

uint32_t build_attr_int(struct build *b, uint32_t node, const char *name, int64_t x) {
  const uint32_t at = add_attr(b, node, name, ATTR_INT);
  b->m->attrs[at].u.i = x;
  return at;
}

uint32_t build_attr_float(struct build *b, uint32_t node, const char *name, float x) {
  const uint32_t at = add_attr(b, node, name, ATTR_FLOAT);
  b->m->attrs[at].u.f = x;
  return at;
}

uint32_t build_attr_string(struct build *b, uint32_t node, const char *name, const char *x) {
  const uint32_t at = add_attr(b, node, name, ATTR_STRING);
  b->m->attrs[at].u.s = intern(b, x);
  return at;
}

uint32_t build_attr_ints(struct build *b, uint32_t node, const char *name, const char *list) {
  const uint32_t at = add_attr(b, node, name, ATTR_INTS);
  b->m->attrs[at].count = parse_longs(b, list, &b->m->attrs[at].first);
  return at;
}

static void attach_tensor(struct build *b, uint32_t attr, enum dtype dtype, const char *dims,
                          const void *bytes) {
  const uint32_t tensor = add_tensor(b, "", dtype, dims);
  b->m->tensors[tensor].home = HOME_ATTRIBUTE;
  b->m->tensors[tensor].owner = attr;
  b->m->tensors[tensor].graph = b->m->nodes[b->m->attrs[attr].node].graph;
  if (dtype != DTYPE_STRING) hold(b, tensor, bytes);
  b->m->attrs[attr].first = tensor;
}

uint32_t build_attr_tensor(struct build *b, uint32_t node, const char *name, enum dtype dtype,
                           const char *dims, const void *bytes) {
  const uint32_t at = add_attr(b, node, name, ATTR_TENSOR);
  attach_tensor(b, at, dtype, dims, bytes);
  return at;
}

uint32_t build_constant_list(struct build *b, uint32_t node, const char *name, enum attr_type type,
                             enum dtype dtype, const char *dims, const void *bytes) {
  const uint32_t at = add_attr(b, node, name, type);
  attach_tensor(b, at, dtype, dims, bytes);
  return at;
}

uint32_t build_enter(struct build *b, uint32_t node, const char *attr, const char *name) {
  struct model *m = b->m;
  const uint32_t at = add_attr(b, node, attr, ATTR_GRAPH);
  const uint32_t graph = add_graph(b, GRAPH_SUB, name);
  m->graphs[graph].parent = m->nodes[node].graph;
  m->graphs[graph].depth = (uint16_t)(m->graphs[m->nodes[node].graph].depth + 1);
  m->graphs[graph].owner = at;
  m->attrs[at].first = graph;
  return b->graph = graph;
}

uint32_t build_enter_function(struct build *b, const char *domain, const char *name,
                              const char *inputs, const char *outputs) {
  struct model *m = b->m;
  const uint32_t graph = add_graph(b, GRAPH_FUNCTION, name);
  const uint32_t function = TABLE_ADD(m, functions, 1);
  const uint32_t opset = TABLE_ADD(m, opsets, 1);
  m->opsets[opset] = (struct model_opset){m->empty, 17, 0};
  m->functions[function] = (struct model_function){.name = intern(b, name),
                                                   .domain = intern(b, domain),
                                                   .overload = m->empty,
                                                   .graph = graph,
                                                   .opsets = opset,
                                                   .n_opsets = 1};
  m->graphs[graph].owner = function;
  b->graph = graph;
  struct span word;
  while (next_word(&inputs, ' ', &word))
    build_input(b, arena_string(&m->arena, word), DTYPE_UNDEFINED, NULL);
  while (next_word(&outputs, ' ', &word))
    build_output(b, arena_string(&m->arena, word), DTYPE_UNDEFINED, NULL);
  return graph;
}

void build_leave(struct build *b) {
  const uint32_t parent = b->m->graphs[b->graph].parent;
  b->graph = parent == NO_ID ? b->m->main_graph : parent;
}
