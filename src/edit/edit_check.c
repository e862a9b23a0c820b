// The promises of the edits, as checks with words: calls assert them, replay reports them (ERR_MODEL).
// They look and change nothing.
//
// What must hold is what keeps the model a model: rows exist and live; a value has one producer; a
// name has one meaning in its scope; a graph belongs to one node. An edit need not
// leave a finished model: between two edits of a pass, values may lack a producer
// and nodes may stand before their inputs. Structure is checked after the pass.
//
// Scopes: a node may use a value of its own graph or of one around it, unless a value of the same
// name in between hides it. New names must be free in the graph and all around it; a value that comes
// back may hide one again that it hid before.
#include "edit/edit_asked.h"

// ---- rows and names ----------------------------------------------------------------------------

int edit_check_node(const struct edits *e, uint32_t node, struct err *err) {
  if (node >= e->m->n_nodes) return err_set(err, ERR_MODEL, "there is no node n%u", node);
  if (e->m->nodes[node].flags & NODE_DEAD)
    return err_set(err, ERR_MODEL, "node g%u/n%u was removed", e->m->nodes[node].graph, node);
  return 0;
}

int edit_check_value(const struct edits *e, uint32_t value, struct err *err) {
  if (value >= e->m->n_values) return err_set(err, ERR_MODEL, "there is no value v%u", value);
  const struct model_value *v = &e->m->values[value];
  if (v->flags & VALUE_DEAD)
    return err_set(err, ERR_MODEL, "value g%u/v%u '%s' was removed", v->graph, value,
                   quote(model_name(e->m, v->name)).s);
  return 0;
}

int edit_check_graph(const struct edits *e, uint32_t graph, struct err *err) {
  if (graph >= e->m->n_graphs) return err_set(err, ERR_MODEL, "there is no graph g%u", graph);
  if (e->m->graphs[graph].flags & GRAPH_DEAD)
    return err_set(err, ERR_MODEL, "graph g%u was removed", graph);
  return 0;
}

int edit_check_tensor(const struct edits *e, uint32_t tensor, struct err *err) {
  if (tensor >= e->m->n_tensors) return err_set(err, ERR_MODEL, "there is no tensor t%u", tensor);
  if (e->m->tensors[tensor].flags & TENSOR_DEAD)
    return err_set(err, ERR_MODEL, "tensor t%u '%s' was removed", tensor,
                   quote(model_name(e->m, e->m->tensors[tensor].name)).s);
  return 0;
}

static bool has_nul(struct span s) {
  return span_has_nul(s);
}

static int check_text(struct span s, const char *what, struct err *err) {
  if (has_nul(s)) return err_set(err, ERR_MODEL, "%s '%s' has a NUL in it", what, quote(s).s);
  return 0;
}

static int check_given(struct span s, const char *what, struct err *err) {
  if (s.n == 0) return err_set(err, ERR_MODEL, "%s is empty", what);
  return check_text(s, what, err);
}

static int check_free(const struct edits *e, uint32_t graph, struct span name, struct err *err) {
  if (check_given(name, "the name of a value", err)) return -1;
  const uint32_t id = model_find_name(e->m, name);
  const uint32_t taken = id == NO_ID ? NO_ID : model_lookup(e->m, graph, id);
  if (taken == NO_ID) return 0;
  return err_set(err, ERR_MODEL, "the name '%s' is taken by value g%u/v%u", quote(name).s,
                 e->m->values[taken].graph, taken);
}

// Does the value's name reach it from `graph`?
static bool sees(const struct model *m, uint32_t graph, uint32_t value, uint32_t name) {
  for (; graph != NO_ID; graph = model_graph_around(m, graph)) {
    if (graph == m->values[value].graph) return true;
    if (model_value_in(m, graph, name) != NO_ID) return false;
  }
  return false;
}

static int check_visible(const struct edits *e, uint32_t graph, uint32_t value, struct err *err) {
  if (edit_check_value(e, value, err)) return -1;
  if (sees(e->m, graph, value, e->m->values[value].name)) return 0;
  return err_set(err, ERR_MODEL, "value g%u/v%u '%s' cannot be seen from graph g%u",
                 e->m->values[value].graph, value, quote(model_value_name(e->m, value)).s, graph);
}

// ---- attributes and recipes --------------------------------------------------------------------

static int check_recipe(const struct edits *e, uint32_t recipe, struct err *err) {
  if (recipe >= e->r->n_rows) return err_set(err, ERR_MODEL, "there is no recipe %u", recipe);
  return 0;
}

static int check_attr_graph(const struct edits *e, uint32_t graph, uint32_t hung, struct err *err) {
  if (edit_check_graph(e, graph, err)) return -1;
  const struct model_graph *g = &e->m->graphs[graph];
  if (g->kind != GRAPH_SUB || g->owner != NO_ID)
    return err_set(err, ERR_MODEL, "graph g%u already belongs to a node", graph);
  if (g->parent != hung)
    return err_set(err, ERR_MODEL, "graph g%u was made for graph g%u, not g%u", graph, g->parent,
                   hung);
  return 0;
}

// Only a function has attributes that others can refer to.
static int check_reference(const struct edits *e, uint32_t graph, const struct edit_attr *a,
                           struct err *err) {
  if (check_given(span_str(a->ref), "the name of a function's attribute", err)) return -1;
  if (a->type == ATTR_UNDEFINED || a->type > ATTR_STRINGS)
    return err_set(err, ERR_MODEL, "attribute '%s' has a type that edits do not support",
                   quote_str(a->name).s);
  if (model_function_around(e->m, graph) != NO_ID) return 0;
  return err_set(err, ERR_MODEL, "attribute '%s' refers to '%s', but graph g%u is in no function",
                 quote_str(a->name).s, quote_str(a->ref).s, graph);
}

static int check_attr(const struct edits *e, uint32_t graph, const struct edit_attr *a,
                      struct err *err) {
  if (check_given(span_str(a->name), "the name of an attribute", err)) return -1;
  if (a->ref) return check_reference(e, graph, a, err);
  switch (a->type) {
  case ATTR_FLOAT:
  case ATTR_INT:
  case ATTR_STRING:
  case ATTR_FLOATS:
  case ATTR_INTS:
  case ATTR_STRINGS: return 0;
  case ATTR_TENSOR: return check_recipe(e, a->recipe, err);
  case ATTR_GRAPH: return check_attr_graph(e, a->graph, graph, err);
  default:
    return err_set(err, ERR_MODEL, "attribute '%s' has a type that edits do not support",
                   quote_str(a->name).s);
  }
}

// ---- nodes -------------------------------------------------------------------------------------

// A node's address comes with its name, for people: the name must be the node's.
static int check_node_name(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (x->name.n == 0) return 0;
  if (x->node != NO_ID && span_eq(x->name, model_name(e->m, e->m->nodes[x->node].name))) return 0;
  return err_set(err, ERR_MODEL, "the node is not named '%s'", quote(x->name).s);
}

int edit_check_group(const struct edits *e, const struct edit_asked *x, struct err *err) {
  // The node may be removed: a group names the node that a pass looked at.
  if (x->node != NO_ID && x->node >= e->m->n_nodes)
    return err_set(err, ERR_MODEL, "there is no node n%u", x->node);
  if (check_node_name(e, x, err)) return -1;
  if (x->number != (int64_t)e->group + 1)
    return err_set(err, ERR_MODEL, "group %s follows group %u", integer(x->number).s, e->group);
  if (has_nul(x->pass) || has_nul(x->reason))
    return err_set(err, ERR_MODEL, "a group's pass or reason has a NUL in it");
  return 0;
}

int edit_check_artifact(const struct edits *e, const struct edit_asked *x, struct err *err) {
  (void)e;
  return has_nul(x->stage) ? err_set(err, ERR_MODEL, "'stage' has a NUL in it") : 0;
}

int edit_check_look(const struct edits *e, const struct edit_asked *x, struct err *err) {
  const bool seen = x->tensor < e->m->n_tensors && e->m->tensors[x->tensor].flags & TENSOR_SEEN;
  if (!seen && edit_check_tensor(e, x->tensor, err)) return -1;
  if (!edit_looked(e, x->tensor)) return 0;
  return err_set(err, ERR_MODEL, "tensor t%u already has a 'look' edit", x->tensor);
}

// Companions have their lines in order, after the files of the model.
int edit_check_source(const struct edits *e, const struct edit_asked *x, struct err *err) {
  const struct model *m = e->m;
  uint32_t next = 0;
  while (next < m->n_files && !m->files[next].companion)
    next++;
  next += e->n_sources;
  if (x->slot != next)
    return err_set(err, ERR_MODEL,
                   "source %u does not follow the model's files: the next one is %u", x->slot,
                   next);
  if (x->name.n == 0 || has_nul(x->name) || memchr(x->name.at, '/', x->name.n) ||
      span_is(x->name, ".") || span_is(x->name, ".."))
    return err_set(err, ERR_MODEL, "'%s' is not the name of a file", quote(x->name).s);
  if (x->number < 0) return err_set(err, ERR_MODEL, "a source has a size below 0");
  if (next < m->n_files &&
      (m->files[next].size != (uint64_t)x->number || !span_is(x->name, m->files[next].name)))
    return err_set(err, ERR_MODEL, "source %u is another file", x->slot);
  return 0;
}

static int check_before(const struct edits *e, uint32_t graph, uint32_t before, struct err *err) {
  if (before == NO_ID) return 0;
  if (edit_check_node(e, before, err)) return -1;
  if (e->m->nodes[before].graph != graph)
    return err_set(err, ERR_MODEL, "node g%u/n%u is not in graph g%u", e->m->nodes[before].graph,
                   before, graph);
  return 0;
}

// Is the graph, or one in it, where `other` is read?
static bool is_read_inside(const struct model *m, uint32_t graph, uint32_t other) {
  for (uint32_t ref = m->values[other].first_use; ref != NO_ID; ref = m->refs[ref].next)
    for (uint32_t g = m->nodes[m->refs[ref].node].graph; g != NO_ID; g = model_graph_around(m, g))
      if (g == graph) return true;
  return !model_listed_at_home(m, other);
}

// A value that comes back may again hide a value of an outer graph with the same name, if neither a
// node inside nor its maker reads that one. `maker`: a new node; NULL: one that exists.
static int check_revived(const struct edits *e, const struct edit_node *maker, uint32_t graph,
                         uint32_t value, struct err *err) {
  const struct model *m = e->m;
  const uint32_t name = m->values[value].name, other = model_lookup(m, graph, name);
  bool hides =
      other != NO_ID && m->values[other].graph != graph && !is_read_inside(m, graph, other);
  for (uint32_t i = 0; hides && maker && i < maker->n_in; i++)
    hides = maker->in[i] != other;
  return hides ? 0 : check_free(e, graph, model_name(m, name), err);
}

static int check_old_output(const struct edits *e, const struct edit_node *maker, uint32_t graph,
                            uint32_t value, struct err *err) {
  const struct model *m = e->m;
  if (value >= m->n_values) return err_set(err, ERR_MODEL, "there is no value v%u", value);
  const struct model_value *v = &m->values[value];
  const struct quoted name = quote(model_name(m, v->name));
  if (v->graph != graph)
    return err_set(err, ERR_MODEL, "value g%u/v%u '%s' is not in graph g%u", v->graph, value,
                   name.s, graph);
  if (v->flags & VALUE_DEAD) return check_revived(e, maker, graph, value, err);
  if (v->kind == VALUE_UNDEFINED) return 0;
  return err_set(err, ERR_MODEL, "value g%u/v%u '%s' already has a producer", graph, value, name.s);
}

static int check_output(const struct edits *e, const struct edit_node *maker, uint32_t graph,
                        const struct edit_output *to, struct err *err) {
  if (to->value != NO_ID) return check_old_output(e, maker, graph, to->value, err);
  return to->name.n == 0 ? 0 : check_free(e, graph, to->name, err);
}

static struct span output_name(const struct edits *e, const struct edit_output *to) {
  return to->value == NO_ID ? to->name : model_value_name(e->m, to->value);
}

int edit_check_add_node(const struct edits *e, const struct edit_asked *x, struct err *err) {
  const struct edit_node *spec = &x->spec;
  if (edit_check_graph(e, spec->graph, err)) return -1;
  if (check_before(e, spec->graph, spec->before, err)) return -1;
  if (check_text(spec->name, "the name of a node", err)) return -1;
  if (check_given(spec->op_type, "the operator of a node", err)) return -1;
  if (check_text(spec->domain, "the domain of a node", err)) return -1;
  if (check_text(spec->overload, "the overload of a node", err)) return -1;
  for (uint32_t i = 0; i < spec->n_in; i++)
    if (spec->in[i] != NO_ID && check_visible(e, spec->graph, spec->in[i], err)) return -1;
  for (uint32_t i = 0; i < spec->n_out; i++) {
    if (check_output(e, spec, spec->graph, &spec->out[i], err)) return -1;
    const struct span name = output_name(e, &spec->out[i]);
    for (uint32_t k = 0; k < i && name.n > 0; k++)
      if (span_eq(name, output_name(e, &spec->out[k])))
        return err_set(err, ERR_MODEL, "value '%s' is given as two outputs", quote(name).s);
  }
  if (spec->n_attrs > VALUE_OUTPUTS_MAX)
    return err_set(err, ERR_MODEL, "%u attributes; the limit is %u", spec->n_attrs,
                   VALUE_OUTPUTS_MAX);
  for (uint32_t i = 0; i < spec->n_attrs; i++) {
    const struct edit_attr *a = &spec->attrs[i];
    if (check_attr(e, spec->graph, a, err)) return -1;
    for (uint32_t k = 0; k < i; k++) {
      if (strcmp(spec->attrs[k].name, a->name) == 0)
        return err_set(err, ERR_MODEL, "attribute '%s' is given twice", quote_str(a->name).s);
      if (a->type == ATTR_GRAPH && spec->attrs[k].type == ATTR_GRAPH &&
          spec->attrs[k].graph == a->graph)
        return err_set(err, ERR_MODEL, "graph g%u is given twice", a->graph);
    }
  }
  return 0;
}

int edit_check_remove_node(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_node(e, x->node, err) || check_node_name(e, x, err)) return -1;
  const struct span op = model_name(e->m, e->m->nodes[x->node].op_type);
  if (span_eq(x->op, op)) return 0;
  return err_set(err, ERR_MODEL, "node n%u is a %s, not a %s", x->node, quote(op).s,
                 quote(x->op).s);
}

int edit_check_move_node(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_node(e, x->node, err)) return -1;
  if (x->node == x->before)
    return err_set(err, ERR_MODEL, "node n%u cannot be placed before itself", x->node);
  return check_before(e, e->m->nodes[x->node].graph, x->before, err);
}

int edit_check_rename_node(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_node(e, x->node, err)) return -1;
  return check_text(x->name, "the name of a node", err);
}

static int check_slot(uint32_t slot, uint32_t n, const char *what, struct err *err) {
  if (slot <= n) return 0;
  return err_set(err, ERR_MODEL, "%s %u does not follow the %u there are", what, slot, n);
}

int edit_check_set_input(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_node(e, x->node, err)) return -1;
  if (check_slot(x->slot, e->m->nodes[x->node].n_in, "input slot", err)) return -1;
  return x->value == NO_ID ? 0 : check_visible(e, e->m->nodes[x->node].graph, x->value, err);
}

int edit_check_set_output(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_node(e, x->node, err)) return -1;
  if (check_slot(x->slot, e->m->nodes[x->node].n_out, "output slot", err)) return -1;
  return check_output(e, NULL, e->m->nodes[x->node].graph, &x->out, err);
}

int edit_check_set_attr(const struct edits *e, const struct edit_asked *x, struct err *err) {
  const struct edit_attr *attr = &x->attr_value;
  if (has_nul(x->name)) return err_set(err, ERR_MODEL, "the name of an attribute has a NUL in it");
  if (edit_check_node(e, x->node, err)) return -1;
  const struct model_node *n = &e->m->nodes[x->node];
  const bool there = model_attr_named(e->m, x->node, attr->name) != NULL;
  if (attr->type == ATTR_UNDEFINED && !there)
    return err_set(err, ERR_MODEL, "node n%u has no attribute '%s'", x->node,
                   quote_str(attr->name).s);
  if (attr->type == ATTR_UNDEFINED) return 0;
  if (!there && n->n_attrs == UINT16_MAX)
    return err_set(err, ERR_MODEL, "node n%u already has %u attributes", x->node, UINT16_MAX);
  return check_attr(e, n->graph, attr, err);
}

// ---- tensors -----------------------------------------------------------------------------------

int edit_check_add_tensor(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_graph(e, x->graph, err) || check_free(e, x->graph, x->name, err)) return -1;
  return check_recipe(e, x->recipe, err);
}

int edit_check_see(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_value(e, x->value, err)) return -1;
  if (e->m->values[x->value].kind != VALUE_NODE_OUTPUT)
    return err_set(err, ERR_MODEL, "no node produces the value v%u", x->value);
  return check_recipe(e, x->recipe, err);
}

int edit_check_replace_tensor(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_tensor(e, x->tensor, err)) return -1;
  if (e->m->tensors[x->tensor].flags & TENSOR_SPARSE)
    return err_set(err, ERR_MODEL, "tensor t%u is a part of a sparse tensor", x->tensor);
  return check_recipe(e, x->recipe, err);
}

int edit_check_remove_tensor(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_tensor(e, x->tensor, err)) return -1;
  const struct model_tensor *t = &e->m->tensors[x->tensor];
  const struct quoted name = quote(model_name(e->m, t->name));
  if (t->home != HOME_INITIALIZER)
    return err_set(err, ERR_MODEL, "tensor t%u '%s' is not an initializer", x->tensor, name.s);
  const uint32_t uses = model_use_count(e->m, t->owner);
  if (uses > 0)
    return err_set(err, ERR_MODEL, "initializer t%u '%s' still has %u use%s", x->tensor, name.s,
                   uses, plural(uses));
  return 0;
}

// ---- values ------------------------------------------------------------------------------------

int edit_check_rename_value(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_value(e, x->value, err)) return -1;
  if (check_free(e, e->m->values[x->value].graph, x->name, err)) return -1;
  const uint32_t id = model_find_name(e->m, x->name);
  for (uint32_t u = e->m->values[x->value].first_use; u != NO_ID && id != NO_ID;
       u = e->m->refs[u].next) {
    const uint32_t graph = e->m->nodes[e->m->refs[u].node].graph;
    if (!sees(e->m, graph, x->value, id))
      return err_set(err, ERR_MODEL, "the name '%s' refers to another value in graph g%u",
                     quote(x->name).s, graph);
  }
  return 0;
}

static int check_dims(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (x->rank == NO_ID) return 0;
  if (x->rank > VALUE_OUTPUTS_MAX)
    return err_set(err, ERR_MODEL, "%u dims; the limit is %u", x->rank, VALUE_OUTPUTS_MAX);
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dims[i].value < -1 || (x->dims[i].value == -1 && x->dims[i].param >= e->m->n_name_at))
      return err_set(err, ERR_MODEL, "dim %u is not a size or a name", i);
  return 0;
}

int edit_check_retype_value(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_value(e, x->value, err)) return -1;
  return check_dims(e, x, err);
}

int edit_check_say_range(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_value(e, x->value, err)) return -1;
  return check_text(x->text, "a range", err);
}

int edit_check_replace_uses(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_value(e, x->from, err) || edit_check_value(e, x->value, err)) return -1;
  if (x->from == x->value)
    return err_set(err, ERR_MODEL, "value v%u cannot replace itself", x->from);
  for (uint32_t u = e->m->values[x->from].first_use; u != NO_ID; u = e->m->refs[u].next)
    if (check_visible(e, e->m->nodes[e->m->refs[u].node].graph, x->value, err)) return -1;
  return 0;
}

// ---- graphs, functions, the model --------------------------------------------------------------

int edit_check_add_graph_input(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (edit_check_graph(e, x->graph, err) || check_free(e, x->graph, x->name, err)) return -1;
  return check_dims(e, x, err);
}

int edit_check_remove_graph_input(const struct edits *e, const struct edit_asked *x,
                                  struct err *err) {
  if (edit_check_value(e, x->value, err)) return -1;
  if (e->m->values[x->value].flags & VALUE_IS_INPUT) return 0;
  return err_set(err, ERR_MODEL, "value v%u '%s' is not a graph input", x->value,
                 quote(model_value_name(e->m, x->value)).s);
}

int edit_check_set_graph_output(const struct edits *e, const struct edit_asked *x,
                                struct err *err) {
  if (edit_check_graph(e, x->graph, err) || edit_check_value(e, x->value, err)) return -1;
  if (check_slot(x->slot, e->m->graphs[x->graph].n_outputs, "output", err)) return -1;
  const struct model_value *v = &e->m->values[x->value];
  if (v->graph != x->graph)
    return err_set(err, ERR_MODEL, "value g%u/v%u is not in graph g%u", v->graph, x->value,
                   x->graph);
  if (v->n_graph_outputs == VALUE_OUTPUTS_MAX)
    return err_set(err, ERR_MODEL, "value v%u is listed as an output %u times", x->value,
                   VALUE_OUTPUTS_MAX);
  return 0;
}

static int check_next(char kind, uint32_t id, uint32_t next, struct err *err) {
  if (id == next) return 0;
  return err_set(err, ERR_MODEL, "%c%u is new, and must have the number %u", kind, id, next);
}

int edit_check_add_subgraph(const struct edits *e, const struct edit_asked *x, struct err *err) {
  if (check_next('g', x->graph, e->m->n_graphs, err) || edit_check_graph(e, x->parent, err))
    return -1;
  if (e->m->graphs[x->parent].depth >= 100)
    return err_set(err, ERR_MODEL, "graph g%u is nested %u deep; the limit is 100", x->parent,
                   e->m->graphs[x->parent].depth);
  return check_text(x->name, "the name of a graph", err);
}

// Is the function of these names?
static bool is_function(const struct edits *e, const struct model_function *f,
                        const struct edit_asked *x) {
  return span_eq(model_name(e->m, f->domain), x->domain) &&
         span_eq(model_name(e->m, f->name), x->name);
}

// Attributes of a new function: no graphs or tensors, which would hang nowhere.
static int check_defaults(const struct edit_node *spec, struct err *err) {
  if (spec->n_attrs > UINT16_MAX)
    return err_set(err, ERR_MODEL, "%u attributes; the limit is %u", spec->n_attrs, UINT16_MAX);
  for (uint32_t i = 0; i < spec->n_attrs; i++) {
    const struct edit_attr *a = &spec->attrs[i];
    if (check_given(span_str(a->name), "the name of an attribute", err)) return -1;
    if (a->ref || a->type == ATTR_TENSOR || a->type == ATTR_GRAPH || a->type > ATTR_STRINGS)
      return err_set(err, ERR_MODEL,
                     "attribute '%s' of a function has a default that edits do not support",
                     quote_str(a->name).s);
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(spec->attrs[k].name, a->name) == 0)
        return err_set(err, ERR_MODEL, "attribute '%s' is given twice", quote_str(a->name).s);
  }
  return 0;
}

int edit_check_add_function(const struct edits *e, const struct edit_asked *x, struct err *err) {
  const struct model *m = e->m;
  if (check_next('f', x->function, m->n_functions, err)) return -1;
  if (check_next('g', x->graph, m->n_graphs, err)) return -1;
  if (check_text(x->domain, "the domain of a function", err)) return -1;
  if (check_given(x->name, "the name of a function", err)) return -1;
  for (uint32_t i = 0; i < m->n_functions; i++) {
    const struct model_function *f = &m->functions[i];
    if (!(f->flags & FUNCTION_DEAD) && f->overload == m->empty && is_function(e, f, x))
      return err_set(err, ERR_MODEL, "function '%s' of domain '%s' exists already",
                     quote(x->name).s, quote(x->domain).s);
  }
  return check_defaults(&x->spec, err);
}

static int check_function(const struct edits *e, uint32_t function, struct err *err) {
  if (function >= e->m->n_functions)
    return err_set(err, ERR_MODEL, "there is no function f%u", function);
  if (e->m->functions[function].flags & FUNCTION_DEAD)
    return err_set(err, ERR_MODEL, "function f%u was removed", function);
  return 0;
}

// The names that come with the number of a function must be the function's.
static int check_function_names(const struct edits *e, const struct edit_asked *x,
                                struct err *err) {
  const struct model *m = e->m;
  const struct model_function *f = &m->functions[x->function];
  if (f->graph == x->graph && is_function(e, f, x)) return 0;
  return err_set(err, ERR_MODEL, "function f%u is '%s' of domain '%s' with graph g%u", x->function,
                 quote(model_name(m, f->name)).s, quote(model_name(m, f->domain)).s, f->graph);
}

int edit_check_remove_function(const struct edits *e, const struct edit_asked *x, struct err *err) {
  return check_function(e, x->function, err) || check_function_names(e, x, err) ? -1 : 0;
}

// A list of n imports from the first one on; version 0 takes one away that must be there, and not ai.onnx.
static int check_opset(const struct edits *e, uint32_t first, uint32_t n, struct span domain,
                       int64_t version, struct err *err) {
  if (version < (model_domain_is_onnx(domain) ? 1 : 0))
    return err_set(err, ERR_MODEL, "opset version %s is less than 1", integer(version).s);
  if (check_text(domain, "the domain of an opset", err)) return -1;
  if (version > 0 || edit_opset_row(e->m, first, n, domain) < n) return 0;
  return err_set(err, ERR_MODEL, "domain '%s' is not imported", quote(domain).s);
}

int edit_check_set_opset(const struct edits *e, const struct edit_asked *x, struct err *err) {
  return check_opset(e, 0, e->m->n_model_opsets, x->domain, x->number, err);
}

int edit_check_set_function_opset(const struct edits *e, const struct edit_asked *x,
                                  struct err *err) {
  if (check_function(e, x->function, err)) return -1;
  const struct model_function *f = &e->m->functions[x->function];
  if (check_opset(e, f->opsets, f->n_opsets, x->import, x->number, err)) return -1;
  return check_function_names(e, x, err);
}

int edit_check_set_ir_version(const struct edits *e, const struct edit_asked *x, struct err *err) {
  (void)e;
  if (x->number >= 1) return 0;
  return err_set(err, ERR_MODEL, "IR version %s is less than 1", integer(x->number).s);
}

int edit_check_set_metadata(const struct edits *e, const struct edit_asked *x, struct err *err) {
  (void)e;
  if (check_given(x->key, "the key of a metadata entry", err)) return -1;
  return check_text(x->text, "a metadata value", err);
}
