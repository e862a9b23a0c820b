// Changes: sites, new nodes and constants, and nodes that give way.
//
//   kit_site(k, conv)            before      … conv ─▶ y …
//   t = kit_make(k, OP_MatMul)   in between  … MatMul ─▶ conv_MatMul, conv ─▶ y …
//   kit_replace(k, conv, OP_Add) behind      … MatMul ─▶ conv_MatMul, Add ─▶ y …
//
// New nodes stand before the node at hand, so they come in the order in which they are made and
// before everything that used its outputs. What takes a node's place takes its output values too:
// their names, uses and listings as graph outputs never move.
//
// Names are made of the node's, plus the operator: conv_MatMul. A node that was itself made here is
// not a stem as it stands: of conv_MatMul a Transpose is conv_Transpose, and names do not grow
// however often rules rewrite each other's results.
#include "passes/kit/inside/kit_inside.h"

#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"

#include <assert.h>

// ---- sites and names -----------------------------------------------------------------------------

static struct span without_number(struct span s) {
  size_t n = s.n;
  while (n > 0 && s.at[n - 1] >= '0' && s.at[n - 1] <= '9')
    n--;
  return n > 1 && n < s.n && s.at[n - 1] == '_' ? span_of(s.at, n - 1) : s;
}

static struct span without_op(struct span s, const char *op) {
  const size_t n = strlen(op);
  if (s.n <= n + 1 || memcmp(s.at + s.n - n, op, n) != 0 || s.at[s.n - n - 1] != '_') return s;
  return span_of(s.at, s.n - n - 1);
}

static struct span stem_of(struct kit *k, uint32_t node) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  struct span name = model_name(m, n->name);
  if (name.n == 0) name = model_value_name(m, model_output(m, n, 0));
  if (n->flags & NODE_NEW) {
    const char *op = kit_op_row(kit_op(k, node))->name;
    const struct span plain = without_op(name, op), bare = without_op(without_number(name), op);
    if (*op && bare.n < name.n) name = plain.n < name.n ? plain : bare;
  }
  return span_of(arena_string(&k->site, name), name.n);
}

void kit_site(struct kit *k, uint32_t node, const char *reason) {
  edit_group(k->e, k->pass, node, reason);
  arena_reset(&k->site);
  k->graph = node == NO_ID ? k->m->main_graph : k->m->nodes[node].graph;
  k->before = node;
  k->stem = node == NO_ID ? span_str(k->pass) : stem_of(k, node);
  if (k->stem.n == 0) k->stem = span_str(k->pass);
}

static struct span stem_and(struct kit *k, const char *what) {
  return span_str(
      arena_printf(&k->site, "%.*s_%s", (int)k->stem.n, (const char *)k->stem.at, what));
}

struct span kit_stem_of(struct kit *k, uint32_t value) {
  const struct span name = model_value_name(k->m, value);
  return span_of(arena_string(&k->site, name), name.n);
}

struct span kit_name(struct kit *k, const char *what) {
  return kit_names_take(&k->names, KIT_EVERYWHERE, k->graph, stem_and(k, what), &k->site);
}

void kit_name_family(struct kit *k, struct span base, const char *const *suffixes, uint32_t n,
                     struct span *names) {
  const struct span stem =
      kit_names_family(&k->names, KIT_EVERYWHERE, k->graph, base, suffixes, n, &k->site);
  for (uint32_t i = 0; i < n; i++)
    names[i] = kit_names_join(stem, suffixes[i], &k->site);
}

// ---- nodes ---------------------------------------------------------------------------------------

static const struct span *strings_of(struct kit *k, const struct model_attr *row) {
  struct span *list = arena_alloc(&k->site, (row->count + (size_t)1) * sizeof *list);
  for (uint32_t i = 0; i < row->count; i++)
    list[i] = model_name(k->m, k->m->strings[row->first + i]);
  return list;
}

// Of one attribute as another node has it.
static struct edit_attr copied(struct kit *k, const struct model_attr *row) {
  const struct model *m = k->m;
  struct edit_attr a = {.name = arena_string(&k->site, model_name(m, row->name)),
                        .type = (enum attr_type)row->type};
  switch (a.type) {
  case ATTR_INT: a.i = row->u.i; break;
  case ATTR_FLOAT: a.f = row->u.f; break;
  case ATTR_STRING: a.s = model_name(m, row->u.s); break;
  case ATTR_INTS:
    a.n = row->count;
    a.ints = a.n ? m->longs + row->first : NULL;
    break;
  case ATTR_FLOATS:
    a.n = row->count;
    a.floats = a.n ? m->floats + row->first : NULL;
    break;
  case ATTR_STRINGS:
    a.n = row->count;
    a.strings = strings_of(k, row);
    break;
  default:
    assert(a.type == ATTR_TENSOR); // kit_attrs_copyable was asked
    a.recipe = edit_tensor_recipe(k->e, row->first);
  }
  return a;
}

static bool is_given(const struct kit_new *spec, const char *name) {
  for (uint32_t i = 0; i < spec->n_attrs; i++)
    if (strcmp(spec->attrs[i].name, name) == 0) return true;
  return false;
}

static struct edit_attr *all_attrs(struct kit *k, const struct kit_new *spec, uint32_t *n) {
  const struct model_node *from = spec->attrs_of == NO_ID ? NULL : &k->m->nodes[spec->attrs_of];
  const size_t most = spec->n_attrs + (from ? from->n_attrs : 0u) + (size_t)KIT_IMPLIED_MOST;
  struct edit_attr *attrs = arena_alloc(&k->site, (most + 1) * sizeof *attrs);
  *n = 0;
  for (uint32_t i = 0; from && i < from->n_attrs; i++) {
    const struct model_attr *row = &k->m->attrs[from->attrs + i];
    if (row->flags & ATTR_DEAD || is_given(spec, model_name_str(k->m, row->name)) ||
        !kit_attr_is_first(k->m, spec->attrs_of, i) ||
        kit_attr_is_idle(k, spec->attrs_of, i, spec->op))
      continue;
    attrs[(*n)++] = copied(k, row);
  }
  if (from) {
    struct edit_attr implied[KIT_IMPLIED_MOST];
    const uint32_t count = kit_attrs_implied(k, spec->attrs_of, spec->op, implied);
    for (uint32_t i = 0; i < count; i++)
      if (!is_given(spec, implied[i].name)) attrs[(*n)++] = implied[i];
  }
  for (uint32_t i = 0; i < spec->n_attrs; i++)
    attrs[(*n)++] = spec->attrs[i];
  return attrs;
}

// The first output and the node share a name; further outputs have their number behind it.
static struct edit_output *new_outputs(struct kit *k, struct span name, uint32_t n) {
  struct edit_output *out = arena_alloc(&k->site, (n + (size_t)1) * sizeof *out);
  for (uint32_t i = 0; i < n; i++) {
    out[i] = (struct edit_output){NO_ID, name};
    if (i == 0) continue;
    const struct span wanted =
        span_str(arena_printf(&k->site, "%.*s_out%u", (int)name.n, (const char *)name.at, i));
    out[i].name = kit_names_take(&k->names, KIT_EVERYWHERE, k->graph, wanted, &k->site);
  }
  return out;
}

static struct edit_output *taken_outputs(struct kit *k, uint32_t node, uint32_t n) {
  struct edit_output *out = arena_alloc(&k->site, (n + (size_t)1) * sizeof *out);
  for (uint32_t i = 0; i < n; i++)
    out[i] = (struct edit_output){kit_out(k, node, i), span_of("", 0)};
  return out;
}

static struct span node_name(struct kit *k, const struct kit_new *spec, const char *op) {
  struct span wanted = spec->name;
  if (wanted.n == 0 && !spec->called && !k->nameless) wanted = stem_and(k, op);
  if (wanted.n == 0) return span_str("");
  return kit_names_free(&k->names, k->node_names, k->graph, wanted, &k->site);
}

uint32_t kit_put(struct kit *k, const struct kit_new *spec) {
  const struct kit_op_row *row = kit_op_row(spec->op);
  const struct span name = node_name(k, spec, row->name);
  struct edit_node node = {.graph = k->graph,
                           .before = k->before,
                           .name = name,
                           .op_type = span_str(row->name),
                           .domain = span_str(kit_domain_name(row->domain)),
                           .in = spec->in,
                           .n_in = spec->n_in};
  node.attrs = all_attrs(k, spec, &node.n_attrs);
  if (spec->out) {
    assert(spec->as == NO_ID);
    node.n_out = 1;
    node.out = spec->out;
  } else if (spec->as == NO_ID) {
    assert(name.n > 0 && k->node_names == KIT_EVERYWHERE); // the value's name too
    node.n_out = spec->n_out ? spec->n_out : 1;
    node.out = new_outputs(k, name, node.n_out);
  } else {
    const struct model_node *old = &k->m->nodes[spec->as];
    node.n_out = spec->n_out ? spec->n_out : kit_n_out(k, spec->as);
    node.out = taken_outputs(k, spec->as, node.n_out);
    node.graph = old->graph;
    node.before = old->next;
    edit_remove_node(k->e, spec->as);
  }
  const uint32_t made = edit_add_node(k->e, &node);
  kit_order_put(k, made);
  if (spec->as != NO_ID && k->before == spec->as) k->before = made;
  return made;
}

static uint32_t put_parts(struct kit *k, uint32_t as, enum op op, const struct kit_part *parts) {
  struct kit_new spec = {.op = op, .attrs_of = NO_ID, .as = as};
  size_t room = 1;
  for (const struct kit_part *p = parts; p->what != KIT_PARTS_END; p++)
    room += p->what == KIT_PART_ATTRS ? p->n : 1;
  struct edit_attr *attrs = arena_alloc(&k->site, room * sizeof *attrs);
  for (const struct kit_part *p = parts; p->what != KIT_PARTS_END; p++) {
    switch (p->what) {
    case KIT_PART_IN:
      spec.in = p->in;
      spec.n_in = p->n;
      break;
    case KIT_PART_ATTRS:
      if (p->n > 0) memcpy(attrs + spec.n_attrs, p->attrs, p->n * sizeof *attrs);
      spec.n_attrs += p->n;
      break;
    case KIT_PART_ATTRS_OF: spec.attrs_of = p->n; break;
    case KIT_PART_NAME: spec.name = p->name; break;
    case KIT_PART_CALLED:
      spec.name = p->name;
      spec.called = true;
      break;
    case KIT_PART_OUT: spec.out = &p->out; break;
    case KIT_PART_OUTPUTS: spec.n_out = p->n; break;
    case KIT_PARTS_END: break;
    }
  }
  spec.attrs = attrs;
  return kit_put(k, &spec);
}

uint32_t kit_make_parts(struct kit *k, enum op op, const struct kit_part *parts) {
  return kit_out(k, put_parts(k, NO_ID, op, parts), 0);
}

uint32_t kit_replace_parts(struct kit *k, uint32_t node, enum op op, const struct kit_part *parts) {
  return put_parts(k, node, op, parts);
}

// ---- nodes that go -------------------------------------------------------------------------------

static void remove_node(struct kit *k, uint32_t node) {
  if (k->before == node) k->before = k->m->nodes[node].next;
  edit_remove_node(k->e, node);
}

bool kit_can_bypass(const struct kit *k, uint32_t node, uint32_t value) {
  const struct model_node *n = &k->m->nodes[node];
  for (uint32_t i = 1; i < n->n_out; i++)
    if (!kit_unused(k, kit_out(k, node, i))) return false;
  return edit_can_forward(k->e, kit_out(k, node, 0), value);
}

bool kit_bypass(struct kit *k, uint32_t node, uint32_t value) {
  struct model_type before, here;
  if (!kit_can_bypass(k, node, value)) return false;
  const uint32_t out = kit_out(k, node, 0);
  // What was declared of the one holds of the other: it would be forgotten with its value.
  kit_type(k, out, &before);
  kit_type(k, value, &here);
  if ((before.ranked && !here.ranked) ||
      (before.dtype != DTYPE_UNDEFINED && here.dtype == DTYPE_UNDEFINED))
    kit_note_type(k, value, &before);
  edit_forward(k->e, out, value);
  remove_node(k, node);
  return true;
}

static bool is_idle(struct kit *k, uint32_t node) {
  if (kit_op(k, node) == OP_NONE) return false;
  for (uint32_t i = 0; i < k->m->nodes[node].n_out; i++)
    if (!kit_unused(k, kit_out(k, node, i))) return false;
  return true;
}

uint32_t kit_sweep(struct kit *k, uint32_t node) {
  uint32_t *list = NULL, n = 0, went = 0;
  size_t cap = 0;
  list = table_grow(list, &cap, 1, sizeof *list);
  list[n++] = node;
  while (n > 0) {
    const uint32_t at = list[--n];
    if (k->m->nodes[at].flags & NODE_DEAD || !is_idle(k, at)) continue;
    remove_node(k, at);
    went++;
    // Dead nodes keep their slots.
    for (uint32_t i = 0; i < k->m->nodes[at].n_in; i++) {
      const uint32_t value = kit_in(k, at, i);
      if (value == NO_ID || k->m->values[value].flags & VALUE_DEAD) continue;
      if (k->m->values[value].kind == VALUE_INITIALIZER) dead_ends_drop(k->e, value);
      if (k->m->values[value].kind != VALUE_NODE_OUTPUT || !kit_unused(k, value)) continue;
      list = table_grow(list, &cap, (size_t)n + 1, sizeof *list);
      list[n++] = k->m->values[value].def;
    }
  }
  table_free(list, cap, sizeof *list);
  return went;
}

// ---- constants -----------------------------------------------------------------------------------

uint32_t kit_new_tensor(struct kit *k, const char *what, uint32_t recipe) {
  const bool function = k->m->graphs[k->graph].kind == GRAPH_FUNCTION;
  // Below IR version 4 an initializer would have to be an input.
  if (!function && k->m->ir_version < WEIGHTS_FREE_IR) weights_free_initializers(k->e);
  const uint32_t value = edit_add_tensor(k->e, k->graph, kit_name(k, what), recipe);
  if (function) kit_order_put(k, k->m->values[value].def);
  return value;
}

uint32_t kit_new_ints(struct kit *k, const char *what, const int64_t *list, uint32_t n) {
  const int64_t dim = n;
  return kit_new_tensor(k, what,
                        recipe_bytes(k->r, DTYPE_INT64, &dim, 1, span_of(list, n * sizeof *list)));
}

uint32_t kit_new_int(struct kit *k, const char *what, int64_t x) {
  return kit_new_tensor(k, what, recipe_bytes(k->r, DTYPE_INT64, NULL, 0, span_of(&x, sizeof x)));
}

uint32_t kit_scalar_recipe(struct kit *k, enum dtype dtype, double x) {
  uint8_t raw[8];
  const size_t n = kit_number_put(dtype, x, raw);
  assert(n > 0);
  return recipe_bytes(k->r, dtype, NULL, 0, span_of(raw, n));
}

uint32_t kit_new_scalar(struct kit *k, const char *what, enum dtype dtype, double x) {
  return kit_new_tensor(k, what, kit_scalar_recipe(k, dtype, x));
}

uint32_t kit_recipe(struct kit *k, uint32_t value) {
  uint32_t tensor;
  if (!kit_constant(k, value, &tensor) || !edit_tensor_readable(k->e, tensor)) return NO_ID;
  return edit_tensor_recipe(k->e, tensor);
}
