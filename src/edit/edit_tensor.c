// The edits of tensors, and the recipes that read them.
//
//   graph or subgraph   a new tensor is an initializer, and the value of its name
//   function body       has no initializers: a Constant node at the body's start makes the value
//
// A tensor that is replaced takes the new recipe's dtype and dims. What it held in the source can
// still be asked for by recipes made before, and by the log, which names it by address: that recipe
// is remembered in `source_of`.
#include "edit/edit_asked.h"
#include "edit/edit_groups.h"
#include "edit/edit_make.h"
#include "edit/edit_rows.h"

uint32_t edit_add_tensor(struct edits *e, uint32_t graph, struct span name, uint32_t recipe) {
  struct edit_asked x = {
      .kind = EDIT_TENSOR_ADD, .graph = graph, .name = name, .recipe = recipe, .node = NO_ID};
  edit_ask(e, &x);
  return x.value;
}

static void add_initializer(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t id = model_intern(m, x->name);
  x->value = model_add_value(m, x->graph, id);
  x->tensor = edit_make_tensor(e, x->graph, id, x->recipe);
  m->tensors[x->tensor].home = HOME_INITIALIZER;
  m->tensors[x->tensor].owner = x->value;
  m->values[x->value].kind = VALUE_INITIALIZER;
  m->values[x->value].def = x->tensor;
  edit_rows_mark_graph(m, x->graph, GRAPH_DIRTY);
}

static void add_constant(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const struct span name = edit_make_copy(e, x->name);
  const struct edit_output out = {.value = NO_ID, .name = name};
  const struct edit_attr attr = {.name = "value", .type = ATTR_TENSOR, .recipe = x->recipe};
  const struct edit_node spec = {.graph = x->graph,
                                 .before = m->graphs[x->graph].first_node,
                                 .name = name,
                                 .op_type = span_str("Constant"),
                                 .out = &out,
                                 .n_out = 1,
                                 .attrs = &attr,
                                 .n_attrs = 1};
  x->node = edit_make_node(e, &spec);
  edit_groups_made(e, x->node);
  const struct model_node *n = &m->nodes[x->node];
  x->tensor = m->attrs[n->attrs].first;
  m->tensors[x->tensor].name = n->name;
  x->value = model_output(m, n, 0);
}

void edit_apply_add_tensor(struct edits *e, struct edit_asked *x) {
  if (e->m->graphs[x->graph].kind == GRAPH_FUNCTION)
    add_constant(e, x);
  else
    add_initializer(e, x);
}

void edit_stands_for(struct edits *e, uint32_t tensor, uint32_t weight, uint32_t called) {
  const uint32_t before = e->m->tensors[weight].of;
  e->m->tensors[tensor].of = before == e->m->empty ? called : before;
}

uint32_t edit_add_tensor_for(struct edits *e, uint32_t graph, struct span name, uint32_t recipe,
                             uint32_t weight, uint32_t called) {
  const uint32_t value = edit_add_tensor(e, graph, name, recipe);
  edit_stands_for(e, e->m->n_tensors - 1, weight, called);
  return value;
}

// A Constant's value_floats and the like hold no tensor to replace: `value` does.
static void become_value(struct model *m, uint32_t attr) {
  struct model_attr *a = &m->attrs[attr];
  if (!model_attr_is_constant(m, a)) return;
  const uint32_t name = model_intern(m, span_str("value"));
  a->name = name;
  a->type = ATTR_TENSOR;
  a->count = 1;
}

void edit_replace_tensor(struct edits *e, uint32_t tensor, uint32_t recipe) {
  edit_ask(e,
           &(struct edit_asked){.kind = EDIT_TENSOR_REPLACE, .tensor = tensor, .recipe = recipe});
}

void edit_apply_replace_tensor(struct edits *e, struct edit_asked *x) {
  struct model *m = e->m;
  const uint32_t tensor = x->tensor;
  if (!(m->tensors[tensor].flags & (TENSOR_NEW | TENSOR_REPLACED))) {
    const uint32_t source =
        edit_tensor_readable(e, tensor) ? edit_make_source_recipe(e, tensor) + 1 : 0;
    if (tensor >= e->n_source_of) TABLE_ADD(e, source_of, tensor + 1 - e->n_source_of);
    e->source_of[tensor] = source;
    m->tensors[tensor].flags |= TENSOR_REPLACED;
  }
  edit_make_data(e, tensor, x->recipe);
  edit_groups_replaced(e, tensor);
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->home == HOME_ATTRIBUTE) {
    become_value(m, t->owner);
    edit_rows_mark_attr(m, t->owner);
  } else {
    edit_rows_mark_graph(m, t->graph, GRAPH_DIRTY);
  }
}

void edit_remove_tensor(struct edits *e, uint32_t tensor) {
  edit_ask(e, &(struct edit_asked){.kind = EDIT_TENSOR_REMOVE, .tensor = tensor});
}

void edit_apply_remove_tensor(struct edits *e, struct edit_asked *x) {
  struct model_tensor *t = &e->m->tensors[x->tensor];
  t->flags |= TENSOR_DEAD;
  edit_rows_release(e->m, t->owner);
  edit_rows_mark_graph(e->m, t->graph, GRAPH_DIRTY);
}

// ---- recipes of tensors ------------------------------------------------------------------------

bool edit_tensor_readable(const struct edits *e, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  return dtype_bits((enum dtype)t->dtype) > 0 && t->rank <= RECIPE_MAX_RANK &&
         t->encoding != ENCODING_STRINGS;
}

static bool has_own_recipe(const struct model_tensor *t) {
  return t->flags & (TENSOR_NEW | TENSOR_REPLACED);
}

uint32_t edit_tensor_recipe(struct edits *e, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  return has_own_recipe(t) ? t->recipe : edit_make_source_recipe(e, tensor);
}

uint32_t edit_tensor_recipe_as(struct edits *e, uint32_t tensor, const int64_t *dims,
                               uint32_t rank) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  return has_own_recipe(t) ? recipe_reshape(e->r, t->recipe, dims, rank)
                           : edit_make_source_recipe_as(e, tensor, dims, rank);
}

uint32_t edit_tensor_fields(struct edits *e, uint32_t tensor) {
  uint32_t n;
  const struct piece *p = model_pieces(e->m, tensor, &n);
  struct arena arena = {0};
  struct piece *raw = arena_alloc(&arena, (n + (size_t)1) * sizeof *raw);
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < n; i++) {
    raw[i] =
        (struct piece){.at = p[i].at, .first = bytes, .count = p[i].at.len, .checkpoint = NO_ID};
    bytes += p[i].at.len;
  }
  const int64_t dims[] = {(int64_t)bytes};
  const uint32_t recipe =
      bytes ? recipe_extent(e->r, DTYPE_UINT8, dims, 1, ENCODING_RAW, raw, n, NULL) : NO_ID;
  arena_free(&arena);
  return recipe;
}
