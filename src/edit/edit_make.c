// New rows: nodes with their slots and attributes, tensors with their recipes.
//
// Callers may pass names and lists that point into the model's own tables (the name of the node
// that goes, the ints of its attribute). Tables move when they grow, so everything is copied to
// scratch first and interned from there.
//
// Ids are given in a fixed order, which replay relies on: the node, its new output values in slot
// order, the tensors of its attributes in the order given.
#include "edit/edit_make.h"

#include "edit/edit_rows.h"

#include <assert.h>

struct span edit_make_copy(struct edits *e, struct span s) {
  return span_of(arena_string(&e->scratch, s), s.n);
}

static const struct span *copy_strings(struct edits *e, const struct edit_attr *a) {
  struct span *list = arena_alloc(&e->scratch, (a->n + (size_t)1) * sizeof *list);
  for (uint32_t i = 0; i < a->n; i++)
    list[i] = edit_make_copy(e, a->strings[i]);
  return list;
}

static struct edit_attr copy_attr(struct edits *e, const struct edit_attr *a) {
  struct edit_attr c = *a;
  c.name = arena_string(&e->scratch, span_str(a->name));
  if (a->ref) {
    c.ref = arena_string(&e->scratch, span_str(a->ref));
    return c;
  }
  if (a->type == ATTR_STRINGS) c.strings = copy_strings(e, a);
  if (a->type == ATTR_STRING) c.s = edit_make_copy(e, a->s);
  if (a->type == ATTR_INTS && a->n)
    c.ints = arena_copy(&e->scratch, a->ints, a->n * sizeof *a->ints);
  if (a->type == ATTR_FLOATS && a->n)
    c.floats = arena_copy(&e->scratch, a->floats, a->n * sizeof *a->floats);
  return c;
}

static struct edit_node copy_node(struct edits *e, const struct edit_node *spec) {
  struct edit_node c = *spec;
  struct edit_output *out = arena_alloc(&e->scratch, spec->n_out * sizeof *out);
  for (uint32_t i = 0; i < spec->n_out; i++)
    out[i] = (struct edit_output){spec->out[i].value, edit_make_copy(e, spec->out[i].name)};
  struct edit_attr *attrs = arena_alloc(&e->scratch, spec->n_attrs * sizeof *attrs);
  for (uint32_t i = 0; i < spec->n_attrs; i++)
    attrs[i] = copy_attr(e, &spec->attrs[i]);
  c.out = out;
  c.attrs = attrs;
  return c;
}

// ---- tensors -----------------------------------------------------------------------------------

// Elements that are known now stay at hand, as load does it for those of the source.
static uint32_t keep_small(struct edits *e, uint32_t recipe) {
  const struct recipe *x = &e->r->rows[recipe];
  struct span elements;
  const bool integer = dtype_is_integer((enum dtype)x->dtype);
  if (x->bytes > (integer ? SMALL_INTEGER_BYTES : SMALL_ANY_BYTES)) return NO_ID;
  if (x->kind == RECIPE_BYTES)
    return edit_rows_small(e->m, span_of(e->r->bytes + x->at, (size_t)x->bytes));
  if (recipe >= e->n_origin || e->origin[recipe] == 0) return NO_ID;
  const uint32_t tensor = e->origin[recipe] - 1;
  if (e->m->tensors[tensor].flags & TENSOR_REPLACED) return NO_ID;
  return model_small_value(e->m, tensor, &elements) ? e->m->tensors[tensor].small : NO_ID;
}

void edit_make_data(struct edits *e, uint32_t tensor, uint32_t recipe) {
  struct model *m = e->m;
  const uint32_t small = keep_small(e, recipe);
  const struct recipe *x = &e->r->rows[recipe];
  const uint32_t dims = TABLE_ADD(m, dims, x->rank);
  if (x->rank) memcpy(m->dims + dims, recipe_dims(e->r, recipe), x->rank * sizeof *m->dims);
  struct model_tensor *t = &m->tensors[tensor];
  t->dims = dims;
  t->rank = x->rank;
  t->dtype = x->dtype;
  t->bytes = x->bytes;
  t->recipe = recipe;
  t->small = small;
  t->encoding = ENCODING_RAW;
  t->n_pieces = 0;
}

uint32_t edit_make_tensor(struct edits *e, uint32_t graph, uint32_t name, uint32_t recipe) {
  const uint32_t tensor = TABLE_ADD(e->m, tensors, 1);
  e->m->tensors[tensor] =
      (struct model_tensor){.name = name, .graph = graph, .owner = NO_ID, .flags = TENSOR_NEW};
  edit_make_data(e, tensor, recipe);
  return tensor;
}

static void remember_origin(struct edits *e, uint32_t recipe, uint32_t tensor) {
  if (recipe >= e->n_origin) TABLE_ADD(e, origin, e->r->n_rows - e->n_origin);
  if (e->origin[recipe] == 0) e->origin[recipe] = tensor + 1;
}

uint32_t edit_make_source_recipe(struct edits *e, uint32_t tensor) {
  const struct model *m = e->m;
  const struct model_tensor *t = &m->tensors[tensor];
  assert(!(t->flags & TENSOR_NEW));
  if (t->flags & TENSOR_REPLACED) return e->source_of[tensor] - 1;
  uint32_t n, recipe;
  struct span small;
  const struct piece *pieces = model_pieces(m, tensor, &n);
  const enum dtype dtype = (enum dtype)t->dtype;
  if (t->bytes == 0)
    recipe = recipe_bytes(e->r, dtype, model_dims(m, t), t->rank, span_of("", 0));
  else if (n == 0 && model_small_value(m, tensor, &small))
    recipe = recipe_bytes(e->r, dtype, model_dims(m, t), t->rank, small);
  else
    recipe = recipe_extent(e->r, dtype, model_dims(m, t), t->rank, (enum encoding)t->encoding,
                           pieces, n, m->checkpoints);
  remember_origin(e, recipe, tensor);
  return recipe;
}

uint32_t edit_make_source_recipe_as(struct edits *e, uint32_t tensor, const int64_t *dims,
                                    uint32_t rank) {
  const uint32_t source = edit_make_source_recipe(e, tensor);
  const uint32_t recipe = recipe_reshape(e->r, source, dims, rank);
  remember_origin(e, recipe, tensor);
  return recipe;
}

// ---- attributes --------------------------------------------------------------------------------

static void own_content(struct model *m, uint32_t attr) {
  const struct model_attr a = m->attrs[attr];
  if (model_attr_is_constant(m, &a)) {
    if (a.first != NO_ID) m->tensors[a.first].owner = attr;
    return;
  }
  for (uint32_t i = 0; i < a.count && a.first != NO_ID; i++) {
    const uint32_t id = a.first + i;
    switch ((enum attr_type)a.type) {
    case ATTR_TENSOR:
    case ATTR_TENSORS: m->tensors[id].owner = attr; break;
    case ATTR_GRAPH:
    case ATTR_GRAPHS: m->graphs[id].owner = attr; break;
    case ATTR_SPARSE_TENSOR:
    case ATTR_SPARSE_TENSORS:
      if (m->sparses[id].values != NO_ID) m->tensors[m->sparses[id].values].owner = attr;
      if (m->sparses[id].indices != NO_ID) m->tensors[m->sparses[id].indices].owner = attr;
      break;
    default: return;
    }
  }
}

// Kept fields of an attribute that got another id. Rows stay sorted: KEPT_ATTR comes first, and the
// new id is the largest of its kind.
static void move_kept(struct model *m, uint32_t from, uint32_t to) {
  uint32_t n, end = 0;
  const struct model_kept_field *old = model_kept_fields(m, KEPT_ATTR, from, &n);
  if (n == 0) return;
  const uint32_t first = (uint32_t)(old - m->kept_fields);
  TABLE_ADD(m, kept_fields, n);
  while (end < m->n_kept_fields - n && m->kept_fields[end].of == KEPT_ATTR)
    end++;
  memmove(m->kept_fields + end + n, m->kept_fields + end,
          (m->n_kept_fields - n - end) * sizeof *m->kept_fields);
  for (uint32_t i = 0; i < n; i++) {
    m->kept_fields[end + i] = m->kept_fields[first + i];
    m->kept_fields[end + i].id = to;
  }
}

// One more row at the end of a node's run, which moves unless it ends the table.
static uint32_t append_attr(struct model *m, uint32_t node) {
  const uint32_t first = m->nodes[node].attrs, n = m->nodes[node].n_attrs;
  m->nodes[node].n_attrs++;
  if (n > 0 && first + n == m->n_attrs) return TABLE_ADD(m, attrs, 1);
  const uint32_t run = TABLE_ADD(m, attrs, n + 1);
  m->nodes[node].attrs = run;
  for (uint32_t i = 0; i < n; i++) {
    m->attrs[run + i] = m->attrs[first + i];
    if (!(m->attrs[run + i].flags & ATTR_DEAD)) own_content(m, run + i);
    if (m->attrs[run + i].flags & ATTR_HAS_KEPT) move_kept(m, first + i, run + i);
    m->attrs[first + i].flags = ATTR_DEAD;
    m->attrs[first + i].node = NO_ID;
  }
  return run + n;
}

// The row to write: that of the old attribute, so that its place and its kept fields stay, or a new
// one.
static uint32_t attr_row(struct model *m, uint32_t node, const char *name) {
  const struct model_attr *old = model_attr_named(m, node, name);
  if (!old) {
    const uint32_t made = append_attr(m, node);
    m->attrs[made] = (struct model_attr){.flags = ATTR_NEW};
    return made;
  }
  const uint32_t at = (uint32_t)(old - m->attrs);
  const uint8_t type = old->type;
  edit_kill_attr(m, at);
  // What these types say lies among the kept fields, which would come along.
  if (type == ATTR_UNDEFINED || type >= ATTR_TYPE_PROTO) return attr_row(m, node, name);
  m->attrs[at].flags = (uint8_t)((m->attrs[at].flags & ~ATTR_DEAD) | ATTR_DIRTY);
  return at;
}

static uint32_t put_strings(struct model *m, const struct edit_attr *a) {
  const uint32_t first = TABLE_ADD(m, strings, a->n);
  for (uint32_t i = 0; i < a->n; i++)
    m->strings[first + i] = model_intern(m, a->strings[i]);
  return first;
}

// What the attribute says, into its row. `a` is a copy.
static void fill_attr(struct edits *e, uint32_t attr, const struct edit_attr *given) {
  struct model *m = e->m;
  const struct edit_attr a = *given;
  const uint32_t name = model_intern(m, span_str(a.name));
  const uint32_t ref = a.ref ? model_intern(m, span_str(a.ref)) : m->empty;
  m->attrs[attr].name = name;
  m->attrs[attr].ref_name = ref;
  m->attrs[attr].type = (uint8_t)a.type;
  uint32_t first = NO_ID, count = 1;
  switch (a.ref ? ATTR_UNDEFINED : a.type) {
  case ATTR_UNDEFINED: count = 0; break;
  case ATTR_INT: m->attrs[attr].u.i = a.i; break;
  case ATTR_FLOAT: m->attrs[attr].u.f = a.f; break;
  case ATTR_STRING: m->attrs[attr].u.s = model_intern(m, a.s); break;
  case ATTR_INTS:
    count = a.n;
    first = edit_rows_longs(m, a.ints, a.n);
    break;
  case ATTR_FLOATS:
    count = a.n;
    first = edit_rows_floats(m, a.floats, a.n);
    break;
  case ATTR_STRINGS:
    count = a.n;
    first = put_strings(m, &a);
    break;
  case ATTR_TENSOR:
    first = edit_make_tensor(e, m->nodes[m->attrs[attr].node].graph, m->empty, a.recipe);
    m->tensors[first].home = HOME_ATTRIBUTE;
    break;
  default: first = a.graph;
  }
  m->attrs[attr].count = count;
  m->attrs[attr].first = first;
}

uint32_t edit_make_attr(struct edits *e, uint32_t node, const struct edit_attr *spec) {
  const struct edit_attr a = copy_attr(e, spec);
  const uint32_t attr = attr_row(e->m, node, a.name);
  e->m->attrs[attr].node = node;
  fill_attr(e, attr, &a);
  own_content(e->m, attr);
  edit_rows_mark_node(e->m, node);
  return attr;
}

uint32_t edit_make_defaults(struct edits *e, const struct edit_attr *attrs, uint32_t n) {
  const uint32_t first = TABLE_ADD(e->m, attrs, n);
  for (uint32_t i = 0; i < n; i++) {
    const struct edit_attr a = copy_attr(e, &attrs[i]);
    e->m->attrs[first + i] = (struct model_attr){.node = NO_ID, .flags = ATTR_NEW};
    fill_attr(e, first + i, &a);
  }
  return first;
}

// ---- nodes -------------------------------------------------------------------------------------

uint32_t edit_make_output(struct edits *e, uint32_t graph, struct edit_output to) {
  struct model *m = e->m;
  if (to.value == NO_ID)
    return to.name.n ? model_add_value(m, graph, model_intern(m, to.name)) : NO_ID;
  if (m->values[to.value].flags & VALUE_DEAD) model_revive_value(m, to.value);
  return to.value;
}

uint32_t edit_make_node(struct edits *e, const struct edit_node *given) {
  struct model *m = e->m;
  const struct edit_node spec = copy_node(e, given);
  const uint32_t node = TABLE_ADD(m, nodes, 1);
  struct model_node row = {.graph = spec.graph, .flags = NODE_NEW};
  row.name = model_intern(m, spec.name);
  row.op_type = model_intern(m, spec.op_type);
  row.domain = model_intern(m, spec.domain);
  row.overload = model_intern(m, spec.overload);
  row.attrs = m->n_attrs;
  m->nodes[node] = row;
  const uint32_t first = TABLE_ADD(m, refs, spec.n_in + spec.n_out);
  m->nodes[node].refs = first;
  m->nodes[node].n_in = spec.n_in;
  m->nodes[node].n_out = spec.n_out;
  for (uint32_t i = 0; i < spec.n_in + spec.n_out; i++)
    m->refs[first + i] =
        (struct model_ref){.value = NO_ID, .node = node, .next = NO_ID, .prev = NO_ID};
  for (uint32_t i = 0; i < spec.n_in; i++)
    edit_rows_set_input(m, node, i, spec.in[i]);
  for (uint32_t i = 0; i < spec.n_out; i++)
    edit_rows_set_output(m, node, i, edit_make_output(e, spec.graph, spec.out[i]));
  for (uint32_t i = 0; i < spec.n_attrs; i++)
    edit_make_attr(e, node, &spec.attrs[i]);
  edit_rows_link_node(m, node, spec.before);
  edit_rows_mark_node(m, node);
  return node;
}
