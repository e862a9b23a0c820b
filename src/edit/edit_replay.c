// Replay: the lines of a log onto a model. One row of the table below for each kind of edit.
//
// A line is read whole, compared with the model (addresses, ids to come, recipes), and put to the
// same checks that the edit itself promises; only then is the edit made, by the same call that a
// pass uses, which also records it. So a replayed log, recorded again, is the same log.
#include "edit_check.h"
#include "edit_log.h"
#include "edit_read.h"

// The name beside a node's address is there for people, and must be the node's.
static int check_node_name(struct edit_reading *in, uint32_t node) {
  struct span name;
  if (edit_read_text(in, "name", false, &name)) return -1;
  if (name.n == 0) return 0;
  if (node != NO_ID && span_eq(name, model_name(in->e->m, in->e->m->nodes[node].name))) return 0;
  return err_set(in->err, ERR_MODEL, "the node is not named '%s'", quote(name).s);
}

static int replay_group(struct edit_reading *in) {
  int64_t number;
  uint32_t site;
  struct span pass, reason;
  if (edit_read_int(in, "group", &number) || edit_read_text(in, "pass", false, &pass) ||
      edit_read_node(in, "site", false, &site) || edit_read_text(in, "reason", false, &reason) ||
      check_node_name(in, site))
    return -1;
  if (number != (int64_t)in->e->group + 1)
    return err_set(in->err, ERR_MODEL, "group %lld follows group %u", (long long)number,
                   in->e->group);
  if (memchr(pass.at, 0, pass.n) || memchr(reason.at, 0, reason.n))
    return err_set(in->err, ERR_MODEL, "a group's pass or reason has a NUL in it");
  edit_group(in->e, (const char *)pass.at, site, (const char *)reason.at);
  return 0;
}

// ---- nodes -------------------------------------------------------------------------------------

static int read_outputs(struct edit_reading *in, struct edit_node *spec) {
  const struct json_value *list = json_get(in->line, "out");
  if (!json_is_array(list)) return err_set(in->err, ERR_MODEL, "'out' is not a list of values");
  struct edit_output *out = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *out);
  for (const struct json_value *v = json_first(list); v; v = json_next(v))
    if (edit_read_output(in, v, spec->graph, &out[spec->n_out++])) return -1;
  spec->out = out;
  return 0;
}

static int read_attrs(struct edit_reading *in, struct edit_node *spec) {
  const struct json_value *list = json_get(in->line, "attrs");
  if (!list) return 0;
  if (!json_is_object(list)) return err_set(in->err, ERR_MODEL, "'attrs' is not an object");
  struct edit_attr *attrs = arena_alloc(in->scratch, (json_count(list) + 1) * sizeof *attrs);
  for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
    struct edit_attr *a = &attrs[spec->n_attrs++];
    if (edit_read_attr(in, v, json_name(v), spec->graph, a)) return -1;
    if (a->type == ATTR_UNDEFINED)
      return err_set(in->err, ERR_MODEL, "attribute '%s' is null", quote_str(a->name).s);
  }
  spec->attrs = attrs;
  return 0;
}

static int replay_node_add(struct edit_reading *in) {
  struct edit_node spec = {0};
  uint32_t *inputs;
  if (edit_read_new_node(in, "node", &spec.graph) ||
      edit_read_text(in, "name", false, &spec.name) ||
      edit_read_text(in, "op", true, &spec.op_type) ||
      edit_read_text(in, "domain", false, &spec.domain) ||
      edit_read_inputs(in, "in", &inputs, &spec.n_in) || read_outputs(in, &spec) ||
      read_attrs(in, &spec) || edit_read_node(in, "before", false, &spec.before))
    return -1;
  spec.in = inputs;
  if (edit_check_add_node(in->e, &spec, in->err)) return -1;
  edit_add_node(in->e, &spec);
  return 0;
}

static int replay_node_remove(struct edit_reading *in) {
  uint32_t node;
  struct span op;
  if (edit_read_node(in, "node", true, &node) || edit_read_text(in, "op", true, &op)) return -1;
  if (edit_check_node(in->e, node, in->err) || check_node_name(in, node)) return -1;
  const struct span is = model_name(in->e->m, in->e->m->nodes[node].op_type);
  if (!span_eq(op, is))
    return err_set(in->err, ERR_MODEL, "node n%u is a %s, not a %s", node, quote(is).s,
                   quote(op).s);
  edit_remove_node(in->e, node);
  return 0;
}

static int replay_node_move(struct edit_reading *in) {
  uint32_t node, before;
  if (edit_read_node(in, "node", true, &node) || edit_read_node(in, "before", false, &before))
    return -1;
  if (edit_check_move_node(in->e, node, before, in->err)) return -1;
  edit_move_node(in->e, node, before);
  return 0;
}

static int replay_set_input(struct edit_reading *in) {
  uint32_t node, slot, value;
  if (edit_read_node(in, "node", true, &node) || edit_read_index(in, "slot", &slot) ||
      edit_read_value(in, "value", false, &value))
    return -1;
  if (edit_check_set_input(in->e, node, slot, value, in->err)) return -1;
  edit_set_input(in->e, node, slot, value);
  return 0;
}

static int replay_set_output(struct edit_reading *in) {
  const struct json_value *v = json_get(in->line, "value");
  struct edit_output to = {.value = NO_ID, .name = span_of("", 0)};
  uint32_t node, slot;
  if (edit_read_node(in, "node", true, &node) || edit_read_index(in, "slot", &slot)) return -1;
  if (v && edit_read_output(in, v, in->e->m->nodes[node].graph, &to)) return -1;
  if (edit_check_set_output(in->e, node, slot, to, in->err)) return -1;
  edit_set_output(in->e, node, slot, to);
  return 0;
}

static int replay_set_attr(struct edit_reading *in) {
  const struct json_value *v = json_get(in->line, "value");
  uint32_t node;
  struct span name;
  struct edit_attr attr;
  if (edit_read_node(in, "node", true, &node) || edit_read_text(in, "attr", true, &name)) return -1;
  if (!v) return err_set(in->err, ERR_MODEL, "'value' is missing (null removes an attribute)");
  if (memchr(name.at, 0, name.n))
    return err_set(in->err, ERR_MODEL, "the name of an attribute has a NUL in it");
  if (edit_read_attr(in, v, (const char *)name.at, in->e->m->nodes[node].graph, &attr)) return -1;
  if (edit_check_set_attr(in->e, node, &attr, in->err)) return -1;
  edit_set_attr(in->e, node, &attr);
  return 0;
}

// ---- tensors -----------------------------------------------------------------------------------

static int replay_tensor_add(struct edit_reading *in) {
  uint32_t graph, node_graph, recipe;
  struct span name;
  if (edit_read_new_value(in, json_get(in->line, "value"), &graph, &name)) return -1;
  if (edit_check_graph(in->e, graph, in->err)) return -1;
  const bool constant = in->e->m->graphs[graph].kind == GRAPH_FUNCTION;
  if (constant && edit_read_new_node(in, "node", &node_graph)) return -1;
  if (constant ? node_graph != graph : json_get(in->line, "node") != NULL)
    return err_set(in->err, ERR_MODEL, "'node' does not belong to a tensor of graph g%u", graph);
  if (edit_read_new_tensor(in, in->line, graph, name, &recipe)) return -1;
  if (edit_check_add_tensor(in->e, graph, name, recipe, in->err)) return -1;
  edit_add_tensor(in->e, graph, name, recipe);
  return 0;
}

static int replay_tensor_replace(struct edit_reading *in) {
  uint32_t tensor, recipe;
  if (edit_read_tensor(in, &tensor) || edit_read_recipe(in, in->line, &recipe)) return -1;
  if (edit_check_replace_tensor(in->e, tensor, recipe, in->err)) return -1;
  edit_replace_tensor(in->e, tensor, recipe);
  return 0;
}

static int replay_tensor_remove(struct edit_reading *in) {
  uint32_t tensor;
  if (edit_read_tensor(in, &tensor)) return -1;
  if (edit_check_remove_tensor(in->e, tensor, in->err)) return -1;
  edit_remove_tensor(in->e, tensor);
  return 0;
}

// ---- values ------------------------------------------------------------------------------------

static int replay_rename(struct edit_reading *in) {
  uint32_t value;
  struct span to;
  if (edit_read_value(in, "value", true, &value) || edit_read_text(in, "to", true, &to)) return -1;
  if (edit_check_rename_value(in->e, value, to, in->err)) return -1;
  edit_rename_value(in->e, value, to);
  return 0;
}

static int replay_retype(struct edit_reading *in) {
  uint32_t value, rank;
  enum dtype dtype;
  struct model_dim *dims;
  if (edit_read_value(in, "value", true, &value) || edit_read_type(in, &dtype, &dims, &rank))
    return -1;
  if (edit_check_retype_value(in->e, value, dims, rank, in->err)) return -1;
  edit_retype_value(in->e, value, dtype, dims, rank);
  return 0;
}

static int replay_replace_uses(struct edit_reading *in) {
  uint32_t from, to;
  if (edit_read_value(in, "from", true, &from) || edit_read_value(in, "to", true, &to)) return -1;
  if (edit_check_replace_uses(in->e, from, to, in->err)) return -1;
  edit_replace_uses(in->e, from, to);
  return 0;
}

static int replay_add_input(struct edit_reading *in) {
  uint32_t graph, same, rank;
  struct span name;
  enum dtype dtype;
  struct model_dim *dims;
  if (edit_read_graph(in, "graph", &graph) ||
      edit_read_new_value(in, json_get(in->line, "value"), &same, &name) ||
      edit_read_type(in, &dtype, &dims, &rank))
    return -1;
  if (same != graph)
    return err_set(in->err, ERR_MODEL, "'value' is of graph g%u, not g%u", same, graph);
  if (edit_check_add_graph_input(in->e, graph, name, dims, rank, in->err)) return -1;
  edit_add_graph_input(in->e, graph, name, dtype, dims, rank);
  return 0;
}

static int replay_remove_input(struct edit_reading *in) {
  uint32_t value;
  if (edit_read_value(in, "value", true, &value)) return -1;
  if (edit_check_remove_graph_input(in->e, value, in->err)) return -1;
  edit_remove_graph_input(in->e, value);
  return 0;
}

static int replay_graph_output(struct edit_reading *in) {
  uint32_t graph, position, value;
  if (edit_read_graph(in, "graph", &graph) || edit_read_index(in, "position", &position) ||
      edit_read_value(in, "value", true, &value))
    return -1;
  if (edit_check_set_graph_output(in->e, graph, position, value, in->err)) return -1;
  edit_set_graph_output(in->e, graph, position, value);
  return 0;
}

// ---- the model ---------------------------------------------------------------------------------

static int expect_next(struct edit_reading *in, char kind, uint32_t id, uint32_t next) {
  if (id == next) return 0;
  return err_set(in->err, ERR_MODEL, "%c%u is new, and must have the number %u", kind, id, next);
}

static int replay_subgraph_add(struct edit_reading *in) {
  uint32_t graph, parent;
  struct span name;
  if (edit_read_graph(in, "graph", &graph) || edit_read_graph(in, "parent", &parent) ||
      edit_read_text(in, "name", false, &name))
    return -1;
  if (expect_next(in, 'g', graph, in->e->m->n_graphs)) return -1;
  if (edit_check_add_subgraph(in->e, parent, name, in->err)) return -1;
  edit_add_subgraph(in->e, parent, name);
  return 0;
}

static int read_function(struct edit_reading *in, uint32_t *function, uint32_t *graph,
                         struct span *domain, struct span *name) {
  if (edit_read_function(in, "function", function) || edit_read_graph(in, "graph", graph))
    return -1;
  if (edit_read_text(in, "domain", true, domain)) return -1;
  return edit_read_text(in, "name", true, name);
}

static int replay_function_add(struct edit_reading *in) {
  uint32_t function, graph;
  struct span domain, name;
  if (read_function(in, &function, &graph, &domain, &name)) return -1;
  if (expect_next(in, 'f', function, in->e->m->n_functions) ||
      expect_next(in, 'g', graph, in->e->m->n_graphs))
    return -1;
  if (edit_check_add_function(in->e, domain, name, in->err)) return -1;
  edit_add_function(in->e, domain, name);
  return 0;
}

// Is the function the line names the one of that number?
static int expect_function(struct edit_reading *in, uint32_t function, uint32_t graph,
                           struct span domain, struct span name) {
  const struct model *m = in->e->m;
  const struct model_function *f = &m->functions[function];
  if (f->graph != graph || !span_eq(model_name(m, f->domain), domain) ||
      !span_eq(model_name(m, f->name), name))
    return err_set(in->err, ERR_MODEL, "function f%u is '%s' of domain '%s' with graph g%u",
                   function, quote(model_name(m, f->name)).s, quote(model_name(m, f->domain)).s,
                   f->graph);
  return 0;
}

static int replay_function_remove(struct edit_reading *in) {
  uint32_t function, graph;
  struct span domain, name;
  if (read_function(in, &function, &graph, &domain, &name)) return -1;
  if (edit_check_remove_function(in->e, function, in->err)) return -1;
  if (expect_function(in, function, graph, domain, name)) return -1;
  edit_remove_function(in->e, function);
  return 0;
}

static int replay_function_opset(struct edit_reading *in) {
  uint32_t function, graph;
  struct span domain, name, import;
  int64_t version;
  if (read_function(in, &function, &graph, &domain, &name) ||
      edit_read_text(in, "import", true, &import) || edit_read_int(in, "version", &version))
    return -1;
  if (edit_check_set_function_opset(in->e, function, import, version, in->err)) return -1;
  if (expect_function(in, function, graph, domain, name)) return -1;
  edit_set_function_opset(in->e, function, import, version);
  return 0;
}

static int replay_opset(struct edit_reading *in) {
  struct span domain;
  int64_t version;
  if (edit_read_text(in, "domain", true, &domain) || edit_read_int(in, "version", &version))
    return -1;
  if (edit_check_set_opset(in->e, domain, version, in->err)) return -1;
  edit_set_opset(in->e, domain, version);
  return 0;
}

static int replay_ir_version(struct edit_reading *in) {
  int64_t version;
  if (edit_read_int(in, "version", &version)) return -1;
  if (edit_check_set_ir_version(in->e, version, in->err)) return -1;
  edit_set_ir_version(in->e, version);
  return 0;
}

static int replay_metadata(struct edit_reading *in) {
  struct span key, value;
  if (edit_read_text(in, "key", true, &key) || edit_read_text(in, "value", true, &value)) return -1;
  if (edit_check_set_metadata(in->e, key, value, in->err)) return -1;
  edit_set_metadata(in->e, key, value);
  return 0;
}

static int replay_artifact(struct edit_reading *in) {
  struct edit_artifact a = {0};
  struct span stage, sha256;
  uint32_t *of;
  if (edit_read_text(in, "stage", true, &stage) || edit_read_text(in, "sha256", true, &sha256) ||
      edit_read_recipes(in, "of", &of, &a.n))
    return -1;
  if (memchr(stage.at, 0, stage.n)) return err_set(in->err, ERR_MODEL, "'stage' has a NUL in it");
  if (!hex_decode(sha256, a.sha256, sizeof a.sha256))
    return err_set(in->err, ERR_MODEL, "'sha256' is not of 64 hex digits");
  a.stage = (const char *)stage.at;
  a.of = of;
  if (in->e->artifact && in->e->artifact(in->e->artifact_ctx, &a, in->err)) return -1;
  edit_artifact(in->e, &a);
  return 0;
}

static int replay_look(struct edit_reading *in) {
  struct edit_look look;
  struct span sha256;
  if (edit_read_tensor(in, &look.tensor) || edit_read_text(in, "sha256", true, &sha256)) return -1;
  if (edit_check_tensor(in->e, look.tensor, in->err)) return -1;
  if (edit_looked(in->e, look.tensor))
    return err_set(in->err, ERR_MODEL, "tensor t%u was looked at already", look.tensor);
  if (!hex_decode(sha256, look.sha256, sizeof look.sha256))
    return err_set(in->err, ERR_MODEL, "'sha256' is not of 64 hex digits");
  if (in->e->look && in->e->look(in->e->look_ctx, &look, in->err)) return -1;
  edit_look(in->e, &look);
  return 0;
}

// ---- the table ---------------------------------------------------------------------------------

static const struct replay {
  const char *kind;
  int (*replay)(struct edit_reading *in);
  const char *keys;
} replays[] = {
    {"group", replay_group, "edit group pass site name reason"},
    {"node.add", replay_node_add, "edit node name op domain in out attrs before"},
    {"node.remove", replay_node_remove, "edit node name op"},
    {"node.move", replay_node_move, "edit node before"},
    {"node.set_input", replay_set_input, "edit node slot value"},
    {"node.set_output", replay_set_output, "edit node slot value"},
    {"node.set_attr", replay_set_attr, "edit node attr value"},
    {"tensor.add", replay_tensor_add, "edit value node tensor dtype dims recipe"},
    {"tensor.replace", replay_tensor_replace, "edit tensor dtype dims recipe"},
    {"tensor.remove", replay_tensor_remove, "edit tensor"},
    {"value.rename", replay_rename, "edit value to"},
    {"value.retype", replay_retype, "edit value dtype dims"},
    {"value.replace_uses", replay_replace_uses, "edit from to"},
    {"graph.add_input", replay_add_input, "edit graph value dtype dims"},
    {"graph.remove_input", replay_remove_input, "edit value"},
    {"graph.set_output", replay_graph_output, "edit graph position value"},
    {"subgraph.add", replay_subgraph_add, "edit graph parent name"},
    {"function.add", replay_function_add, "edit function graph domain name"},
    {"function.remove", replay_function_remove, "edit function graph domain name"},
    {"function.opset", replay_function_opset, "edit function graph domain name import version"},
    {"opset", replay_opset, "edit domain version"},
    {"ir_version", replay_ir_version, "edit version"},
    {"metadata", replay_metadata, "edit key value"},
    {"artifact", replay_artifact, "edit stage of sha256"},
    {"look", replay_look, "edit tensor sha256"},
};
enum { N_REPLAYS = sizeof replays / sizeof replays[0] };

static int replay_parsed(struct edit_reading *in) {
  struct span kind;
  if (!json_as_string(json_get(in->line, "edit"), &kind))
    return err_set(in->err, ERR_MODEL, "the line is not an object with the key 'edit'");
  for (int i = 0; i < N_REPLAYS; i++) {
    if (!span_is(kind, replays[i].kind)) continue;
    if (edit_read_keys(in, in->line, replays[i].keys)) return -1;
    return replays[i].replay(in);
  }
  return err_set(in->err, ERR_MODEL, "'%s' is no kind of edit", quote(kind).s);
}

int edit_log_replay_line(struct edits *e, struct span line, uint64_t line_number, struct err *err) {
  char what[48];
  snprintf(what, sizeof what, "edit log, line %llu", (unsigned long long)line_number);
  struct json_value *doc = json_parse(line, what, err);
  if (!doc) return -1;
  struct arena scratch = {0};
  struct err cause = {0};
  struct edit_reading in = {.e = e,
                            .line = doc,
                            .scratch = &scratch,
                            .err = &cause,
                            .next_node = e->m->n_nodes,
                            .next_value = e->m->n_values,
                            .next_tensor = e->m->n_tensors};
  const int rc = replay_parsed(&in);
  if (rc < 0) {
    err_fill(err, cause.kind, "%s: %.900s", what, cause.msg);
    if (cause.hint[0]) err_fill_hint(err, "%s", cause.hint);
  }
  arena_free(&scratch);
  json_free(doc);
  return rc;
}
