// unique-names: nodes and values get names that say what they are and where.
//
//   t1 = MatMul(x, w) "blocks.0/mm"          MatMul_0_output_0 = MatMul(x, MatMul_0_input_1) "MatMul_0"
//   y = Add(t1, b) ""                  ──▶   y = Add(MatMul_0_output_0, Add_0_input_1) "Add_0"
//
// A node is called after its operator and the number of nodes of that operator before it, a graph inside a node
// coming right after it; what a node makes after the node and the slot; what no node makes after the first
// that uses it (of several slots the last). Inputs and outputs of the model are the caller's names, and stay
// unless asked for. A second run finds nothing to do. Functions are left alone: they have names of their own. So are
// graphs inside a node that has no row: its operator may know their inputs and outputs by name.
//
// Values change places (a is to be called b, and b a): whoever stands in the way of another first gets a
// name that nothing has.
#include "base/table.h"
#include "passes/kit/kit.h"
#include "passes/tidy/inside/tidy.h"

struct unique_options {
  bool interface;
};

struct naming {
  struct kit *k;
  bool interface;
  TABLE(uint32_t, order);    // nodes, as they are met
  TABLE(uint32_t, count);    // by name id of the operator
  TABLE(struct span, node);  // by node id: its name to be
  TABLE(struct span, value); // by value id: its name to be; empty: as it is
  TABLE(uint8_t, stays);     // by name id: a value that keeps it has it
  TABLE(uint8_t, wanted);    // by name id: a value is to get it
};

// The first node of the first graph with nodes that hangs on `node` behind the graph `behind` (NO_ID: of all).
static uint32_t enter(struct kit *k, uint32_t node, uint32_t behind) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  if (!kit_op_has(kit_op(k, node), KIT_GRAPHS)) return NO_ID;
  for (uint32_t a = n->attrs; a < n->attrs + n->n_attrs; a++) {
    const struct model_attr *attr = &m->attrs[a];
    if (attr->flags & ATTR_DEAD || (attr->type != ATTR_GRAPH && attr->type != ATTR_GRAPHS))
      continue;
    for (uint32_t g = attr->first; g < attr->first + attr->count; g++) {
      if (behind == NO_ID && m->graphs[g].first_node != NO_ID) return m->graphs[g].first_node;
      if (behind == g) behind = NO_ID;
    }
  }
  return NO_ID;
}

// The node that comes next in the main graph and those inside; NO_ID: that was the last.
static uint32_t following(struct kit *k, uint32_t node) {
  const struct model *m = k->m;
  uint32_t next = enter(k, node, NO_ID);
  while (next == NO_ID) {
    next = m->nodes[node].next;
    if (next != NO_ID) break;
    const uint32_t graph = m->nodes[node].graph;
    node = model_graph_node(m, graph);
    if (node == NO_ID) return NO_ID;
    next = enter(k, node, graph);
  }
  return next;
}

static struct span called(struct naming *x, struct span stem, const char *role, uint32_t i) {
  const char *text = arena_printf(&x->k->site, "%.*s_%s%s%u", (int)stem.n, (const char *)stem.at,
                                  role, role[0] ? "_" : "", i);
  return span_str(text);
}

static void name_nodes(struct naming *x) {
  const struct model *m = x->k->m;
  TABLE_ADD(x, node, m->n_nodes);
  for (uint32_t n = m->graphs[m->main_graph].first_node; n != NO_ID; n = following(x->k, n)) {
    const uint32_t op = m->nodes[n].op_type;
    if (op >= x->n_count) TABLE_ADD(x, count, op + 1 - x->n_count);
    x->node[n] = called(x, model_name(m, op), "", x->count[op]++);
    *TABLE_PUSH(x, order) = n;
  }
}

static bool is_promised(const struct naming *x, uint32_t value) {
  const struct model *m = x->k->m;
  const struct model_value *v = &m->values[value];
  return v->graph == m->main_graph && v->flags & (VALUE_IS_INPUT | VALUE_IS_OUTPUT);
}

static void name_value(struct naming *x, uint32_t value, struct span node, const char *role,
                       uint32_t i) {
  if (value == NO_ID || is_promised(x, value)) return;
  x->value[value] = called(x, node, role, i);
}

static void name_values(struct naming *x) {
  const struct model *m = x->k->m;
  TABLE_ADD(x, value, m->n_values);
  for (uint32_t at = x->n_order; at-- > 0;) {
    const struct model_node *n = &m->nodes[x->order[at]];
    const struct span node = x->node[x->order[at]];
    for (uint32_t i = 0; i < n->n_in; i++) {
      const uint32_t value = model_input(m, n, i);
      if (value != NO_ID && m->values[value].kind != VALUE_NODE_OUTPUT)
        name_value(x, value, node, "input", i);
    }
    for (uint32_t i = 0; i < n->n_out; i++)
      name_value(x, model_output(m, n, i), node, "output", i);
  }
}

static void name_interface(struct naming *x) {
  const struct model *m = x->k->m;
  const struct model_graph *g = &m->graphs[m->main_graph];
  for (uint32_t i = 0; i < g->n_outputs; i++)
    x->value[m->graph_io[g->outputs + i]] = called(x, span_str("global"), "output", i);
  for (uint32_t i = 0; i < g->n_inputs; i++)
    x->value[m->graph_io[g->inputs + i]] = called(x, span_str("global"), "input", i);
}

// ---- making it so --------------------------------------------------------------------------------

static void mark(uint8_t *marks, uint32_t n, uint32_t name) {
  if (name < n) marks[name] = 1;
}

// Names that are to be given and that a value keeps get a line behind them.
static void make_room(struct naming *x) {
  const struct model *m = x->k->m;
  TABLE_ADD(x, stays, m->n_name_at);
  TABLE_ADD(x, wanted, m->n_name_at);
  for (uint32_t v = 0; v < m->n_values; v++)
    if (!(m->values[v].flags & VALUE_DEAD) && x->value[v].n == 0) x->stays[m->values[v].name] = 1;
  for (uint32_t v = 0; v < m->n_values; v++) {
    if (x->value[v].n == 0) continue;
    for (uint32_t id; (id = model_find_name(m, x->value[v])) != NO_ID && x->stays[id];)
      x->value[v] = kit_names_join(x->value[v], "_", &x->k->site);
    if (span_eq(x->value[v], model_value_name(m, v)))
      x->value[v].n = 0;
    else
      mark(x->wanted, x->n_wanted, model_find_name(m, x->value[v]));
  }
}

static void rename_values(struct naming *x) {
  struct kit *k = x->k;
  const uint32_t n = x->n_value;
  for (uint32_t v = 0; v < n; v++)
    if (x->value[v].n > 0 && x->wanted[k->m->values[v].name])
      edit_rename_value(k->e, v,
                        kit_names_take(&k->names, KIT_EVERYWHERE, k->m->values[v].graph,
                                       span_str("weir_renaming"), &k->site));
  for (uint32_t v = 0; v < n; v++)
    if (x->value[v].n > 0) edit_rename_value(k->e, v, x->value[v]);
}

static void rename_nodes(struct naming *x) {
  struct kit *k = x->k;
  for (uint32_t i = 0; i < x->n_order; i++) {
    const uint32_t node = x->order[i];
    if (span_eq(x->node[node], model_name(k->m, k->m->nodes[node].name))) continue;
    kit_converted(k, node, "renamed");
    edit_rename_node(k->e, node, x->node[node]);
  }
}

// Names that stand where no rows do.
static const char *obstacle(const struct model *m) {
  if (m->n_trainings > 0) return "training";
  for (uint32_t g = 0; g < m->n_graphs; g++)
    if (m->graphs[g].flags & GRAPH_ANNOTATED) return "annotation";
  return NULL;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct unique_options *o = with;
  struct kit k;
  struct naming x = {.k = &k};
  kit_init(&k, env, env->pass->name);
  const char *reason = obstacle(k.m);
  if (reason) {
    kit_report(&k, &(struct kit_report){
                       .node = NO_ID, .skipped = true, .reason = reason, .what = "Graph"});
    return kit_done(&k, err);
  }
  kit_site(&k, NO_ID, "renamed");
  name_nodes(&x);
  name_values(&x);
  if (o->interface) name_interface(&x);
  make_room(&x);
  rename_nodes(&x);
  rename_values(&x);
  TABLES_FREE(&x, order, count, node, value, stays, wanted);
  return kit_done(&k, err);
}

static const struct pass_option options[] = {
    {"interface", PASS_FLAG, NULL, NULL,
     "also rename inputs and outputs of the model\n"
     "They become global_input_0, global_output_0 and so on. Callers must then use these names.",
     PASS_MEMBER(unique_options, interface)},
};

const struct pass tidy_unique_names = {
    .name = "unique-names",
    .keys = "cleanup unique-names",
    .classes = "GiveUniqueNames",
    .summary = "name nodes after their operator, and values after their node",
    .about = "Names every node <operator>_<number>, its outputs <node>_output_<slot>, and "
             "initializers <node>_input_<slot> after the first node that uses them. The inputs "
             "and outputs of the model, subgraphs of operators that are not ONNX's, and functions "
             "keep their names.",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, unique_options),
    .run = run,
};
