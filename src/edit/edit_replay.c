// Replay: the lines of a log onto a model. One row of the table below for each kind of edit.
//
// A line is read whole, compared with the model (addresses, ids to come, recipes), and put to the
// same checks that the edit itself promises; only then is the edit made, by the same call that a
// pass uses, which also records it. So a replayed log, recorded again, is the same log.
//
// The readers keep the first failure (edit_read.h), so a replay reads its members one by one and
// asks once, before it looks into the model with what it read.
#include "edit_check.h"
#include "edit_log.h"
#include "edit_read.h"

// The name beside a node's address is there for people, and must be the node's.
static void check_node_name(struct edit_reading *in, uint32_t node) {
  const struct span name = edit_read_text(in, "name", false);
  if (!edit_read_ok(in) || name.n == 0) return;
  if (node == NO_ID || !span_eq(name, model_name(in->e->m, in->e->m->nodes[node].name)))
    err_fill(in->err, ERR_MODEL, "the node is not named '%s'", quote(name).s);
}

static void replay_group(struct edit_reading *in) {
  const int64_t number = edit_read_int(in, "group");
  const struct span pass = edit_read_text(in, "pass", false);
  const uint32_t site = edit_read_node(in, "site", false);
  const struct span reason = edit_read_text(in, "reason", false);
  check_node_name(in, site);
  if (number != (int64_t)in->e->group + 1)
    err_fill(in->err, ERR_MODEL, "group %lld follows group %u", (long long)number, in->e->group);
  if (memchr(pass.at, 0, pass.n) || memchr(reason.at, 0, reason.n))
    err_fill(in->err, ERR_MODEL, "a group's pass or reason has a NUL in it");
  if (edit_read_ok(in)) edit_group(in->e, (const char *)pass.at, site, (const char *)reason.at);
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

static void replay_node_add(struct edit_reading *in) {
  struct edit_node spec = {.before = NO_ID};
  uint32_t *inputs;
  if (edit_read_new_node(in, "node", &spec.graph)) return;
  spec.name = edit_read_text(in, "name", false);
  spec.op_type = edit_read_text(in, "op", true);
  spec.domain = edit_read_text(in, "domain", false);
  if (!edit_read_ok(in) || edit_read_inputs(in, "in", &inputs, &spec.n_in)) return;
  if (read_outputs(in, &spec) || read_attrs(in, &spec)) return;
  spec.before = edit_read_node(in, "before", false);
  spec.in = inputs;
  if (edit_read_ok(in) && !edit_check_add_node(in->e, &spec, in->err)) edit_add_node(in->e, &spec);
}

static void replay_node_remove(struct edit_reading *in) {
  const uint32_t node = edit_read_node(in, "node", true);
  const struct span op = edit_read_text(in, "op", true);
  if (!edit_read_ok(in) || edit_check_node(in->e, node, in->err)) return;
  const struct span is = model_name(in->e->m, in->e->m->nodes[node].op_type);
  check_node_name(in, node);
  if (!span_eq(op, is))
    err_fill(in->err, ERR_MODEL, "node n%u is a %s, not a %s", node, quote(is).s, quote(op).s);
  if (edit_read_ok(in)) edit_remove_node(in->e, node);
}

static void replay_node_move(struct edit_reading *in) {
  const uint32_t node = edit_read_node(in, "node", true);
  const uint32_t before = edit_read_node(in, "before", false);
  if (edit_read_ok(in) && !edit_check_move_node(in->e, node, before, in->err))
    edit_move_node(in->e, node, before);
}

static void replay_set_input(struct edit_reading *in) {
  const uint32_t node = edit_read_node(in, "node", true);
  const uint32_t slot = edit_read_index(in, "slot");
  const uint32_t value = edit_read_value(in, "value", false);
  if (edit_read_ok(in) && !edit_check_set_input(in->e, node, slot, value, in->err))
    edit_set_input(in->e, node, slot, value);
}

static void replay_set_output(struct edit_reading *in) {
  const struct json_value *v = json_get(in->line, "value");
  struct edit_output to = {.value = NO_ID, .name = span_of("", 0)};
  const uint32_t node = edit_read_node(in, "node", true);
  const uint32_t slot = edit_read_index(in, "slot");
  if (!edit_read_ok(in)) return;
  if (v && edit_read_output(in, v, in->e->m->nodes[node].graph, &to)) return;
  if (!edit_check_set_output(in->e, node, slot, to, in->err))
    edit_set_output(in->e, node, slot, to);
}

static void replay_set_attr(struct edit_reading *in) {
  const struct json_value *v = json_get(in->line, "value");
  const uint32_t node = edit_read_node(in, "node", true);
  const struct span name = edit_read_text(in, "attr", true);
  struct edit_attr attr;
  if (!v) err_fill(in->err, ERR_MODEL, "'value' is missing (null removes an attribute)");
  if (memchr(name.at, 0, name.n))
    err_fill(in->err, ERR_MODEL, "the name of an attribute has a NUL in it");
  if (!edit_read_ok(in)) return;
  if (edit_read_attr(in, v, (const char *)name.at, in->e->m->nodes[node].graph, &attr)) return;
  if (!edit_check_set_attr(in->e, node, &attr, in->err)) edit_set_attr(in->e, node, &attr);
}

// ---- tensors -----------------------------------------------------------------------------------

static void replay_tensor_add(struct edit_reading *in) {
  uint32_t graph, node_graph, recipe;
  struct span name;
  if (edit_read_new_value(in, json_get(in->line, "value"), &graph, &name)) return;
  if (edit_check_graph(in->e, graph, in->err)) return;
  const bool constant = in->e->m->graphs[graph].kind == GRAPH_FUNCTION;
  if (constant && edit_read_new_node(in, "node", &node_graph)) return;
  if (constant ? node_graph != graph : json_get(in->line, "node") != NULL)
    err_fill(in->err, ERR_MODEL, "'node' does not belong to a tensor of graph g%u", graph);
  if (edit_read_ok(in) && !edit_read_new_tensor(in, in->line, graph, name, &recipe) &&
      !edit_check_add_tensor(in->e, graph, name, recipe, in->err))
    edit_add_tensor(in->e, graph, name, recipe);
}

static void replay_tensor_replace(struct edit_reading *in) {
  const uint32_t tensor = edit_read_tensor(in);
  uint32_t recipe;
  if (edit_read_ok(in) && !edit_read_recipe(in, in->line, &recipe) &&
      !edit_check_replace_tensor(in->e, tensor, recipe, in->err))
    edit_replace_tensor(in->e, tensor, recipe);
}

static void replay_tensor_remove(struct edit_reading *in) {
  const uint32_t tensor = edit_read_tensor(in);
  if (edit_read_ok(in) && !edit_check_remove_tensor(in->e, tensor, in->err))
    edit_remove_tensor(in->e, tensor);
}

// ---- values ------------------------------------------------------------------------------------

static void replay_rename(struct edit_reading *in) {
  const uint32_t value = edit_read_value(in, "value", true);
  const struct span to = edit_read_text(in, "to", true);
  if (edit_read_ok(in) && !edit_check_rename_value(in->e, value, to, in->err))
    edit_rename_value(in->e, value, to);
}

static void replay_retype(struct edit_reading *in) {
  const uint32_t value = edit_read_value(in, "value", true);
  uint32_t rank;
  enum dtype dtype;
  struct model_dim *dims;
  if (edit_read_ok(in) && !edit_read_type(in, &dtype, &dims, &rank) &&
      !edit_check_retype_value(in->e, value, dims, rank, in->err))
    edit_retype_value(in->e, value, dtype, dims, rank);
}

static void replay_replace_uses(struct edit_reading *in) {
  const uint32_t from = edit_read_value(in, "from", true);
  const uint32_t to = edit_read_value(in, "to", true);
  if (edit_read_ok(in) && !edit_check_replace_uses(in->e, from, to, in->err))
    edit_replace_uses(in->e, from, to);
}

static void replay_add_input(struct edit_reading *in) {
  const uint32_t graph = edit_read_graph(in, "graph");
  uint32_t same, rank;
  struct span name;
  enum dtype dtype;
  struct model_dim *dims;
  if (!edit_read_ok(in)) return;
  if (edit_read_new_value(in, json_get(in->line, "value"), &same, &name)) return;
  if (edit_read_type(in, &dtype, &dims, &rank)) return;
  if (same != graph) err_fill(in->err, ERR_MODEL, "'value' is of graph g%u, not g%u", same, graph);
  if (edit_read_ok(in) && !edit_check_add_graph_input(in->e, graph, name, dims, rank, in->err))
    edit_add_graph_input(in->e, graph, name, dtype, dims, rank);
}

static void replay_remove_input(struct edit_reading *in) {
  const uint32_t value = edit_read_value(in, "value", true);
  if (edit_read_ok(in) && !edit_check_remove_graph_input(in->e, value, in->err))
    edit_remove_graph_input(in->e, value);
}

static void replay_graph_output(struct edit_reading *in) {
  const uint32_t graph = edit_read_graph(in, "graph");
  const uint32_t position = edit_read_index(in, "position");
  const uint32_t value = edit_read_value(in, "value", true);
  if (edit_read_ok(in) && !edit_check_set_graph_output(in->e, graph, position, value, in->err))
    edit_set_graph_output(in->e, graph, position, value);
}

// ---- the model ---------------------------------------------------------------------------------

static void expect_next(struct edit_reading *in, char kind, uint32_t id, uint32_t next) {
  if (id != next)
    err_fill(in->err, ERR_MODEL, "%c%u is new, and must have the number %u", kind, id, next);
}

static void replay_subgraph_add(struct edit_reading *in) {
  const uint32_t graph = edit_read_graph(in, "graph"), parent = edit_read_graph(in, "parent");
  const struct span name = edit_read_text(in, "name", false);
  expect_next(in, 'g', graph, in->e->m->n_graphs);
  if (edit_read_ok(in) && !edit_check_add_subgraph(in->e, parent, name, in->err))
    edit_add_subgraph(in->e, parent, name);
}

// How a line names a function: its number and that of its body, domain and name.
struct function_line {
  uint32_t function, graph;
  struct span domain, name;
};

static struct function_line read_function(struct edit_reading *in) {
  struct function_line f;
  f.function = edit_read_function(in, "function");
  f.graph = edit_read_graph(in, "graph");
  f.domain = edit_read_text(in, "domain", true);
  f.name = edit_read_text(in, "name", true);
  return f;
}

static void replay_function_add(struct edit_reading *in) {
  const struct function_line f = read_function(in);
  expect_next(in, 'f', f.function, in->e->m->n_functions);
  expect_next(in, 'g', f.graph, in->e->m->n_graphs);
  if (edit_read_ok(in) && !edit_check_add_function(in->e, f.domain, f.name, in->err))
    edit_add_function(in->e, f.domain, f.name);
}

// Is the function that the line names the one of that number?
static bool is_function(struct edit_reading *in, const struct function_line *line) {
  const struct model *m = in->e->m;
  const struct model_function *f = &m->functions[line->function];
  if (f->graph == line->graph && span_eq(model_name(m, f->domain), line->domain) &&
      span_eq(model_name(m, f->name), line->name))
    return true;
  err_fill(in->err, ERR_MODEL, "function f%u is '%s' of domain '%s' with graph g%u", line->function,
           quote(model_name(m, f->name)).s, quote(model_name(m, f->domain)).s, f->graph);
  return false;
}

static void replay_function_remove(struct edit_reading *in) {
  const struct function_line f = read_function(in);
  if (edit_read_ok(in) && !edit_check_remove_function(in->e, f.function, in->err) &&
      is_function(in, &f))
    edit_remove_function(in->e, f.function);
}

static void replay_function_opset(struct edit_reading *in) {
  const struct function_line f = read_function(in);
  const struct span import = edit_read_text(in, "import", true);
  const int64_t version = edit_read_int(in, "version");
  if (edit_read_ok(in) &&
      !edit_check_set_function_opset(in->e, f.function, import, version, in->err) &&
      is_function(in, &f))
    edit_set_function_opset(in->e, f.function, import, version);
}

static void replay_opset(struct edit_reading *in) {
  const struct span domain = edit_read_text(in, "domain", true);
  const int64_t version = edit_read_int(in, "version");
  if (edit_read_ok(in) && !edit_check_set_opset(in->e, domain, version, in->err))
    edit_set_opset(in->e, domain, version);
}

static void replay_ir_version(struct edit_reading *in) {
  const int64_t version = edit_read_int(in, "version");
  if (edit_read_ok(in) && !edit_check_set_ir_version(in->e, version, in->err))
    edit_set_ir_version(in->e, version);
}

static void replay_metadata(struct edit_reading *in) {
  const struct span key = edit_read_text(in, "key", true);
  const struct span value = edit_read_text(in, "value", true);
  if (edit_read_ok(in) && !edit_check_set_metadata(in->e, key, value, in->err))
    edit_set_metadata(in->e, key, value);
}

static void replay_artifact(struct edit_reading *in) {
  struct edit_artifact a = {0};
  const struct span stage = edit_read_text(in, "stage", true);
  const struct span sha256 = edit_read_text(in, "sha256", true);
  uint32_t *of;
  if (!edit_read_ok(in) || edit_read_recipes(in, "of", &of, &a.n)) return;
  if (memchr(stage.at, 0, stage.n)) err_fill(in->err, ERR_MODEL, "'stage' has a NUL in it");
  if (!hex_decode(sha256, a.sha256, sizeof a.sha256))
    err_fill(in->err, ERR_MODEL, "'sha256' is not of 64 hex digits");
  a.stage = (const char *)stage.at;
  a.of = of;
  if (!edit_read_ok(in)) return;
  if (!in->e->artifact || !in->e->artifact(in->e->artifact_ctx, &a, in->err))
    edit_artifact(in->e, &a);
}

static void replay_look(struct edit_reading *in) {
  struct edit_look look = {.tensor = edit_read_tensor(in)};
  const struct span sha256 = edit_read_text(in, "sha256", true);
  if (!edit_read_ok(in) || edit_check_tensor(in->e, look.tensor, in->err)) return;
  if (edit_looked(in->e, look.tensor))
    err_fill(in->err, ERR_MODEL, "tensor t%u was looked at already", look.tensor);
  if (!hex_decode(sha256, look.sha256, sizeof look.sha256))
    err_fill(in->err, ERR_MODEL, "'sha256' is not of 64 hex digits");
  if (!edit_read_ok(in)) return;
  if (!in->e->look || !in->e->look(in->e->look_ctx, &look, in->err)) edit_look(in->e, &look);
}

// ---- the table ---------------------------------------------------------------------------------

static const struct replay {
  const char *kind;
  void (*replay)(struct edit_reading *in);
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
    replays[i].replay(in);
    return edit_read_ok(in) ? 0 : -1;
  }
  return err_set(in->err, ERR_MODEL, "'%s' is no kind of edit", quote(kind).s);
}

int edit_log_replay_line(struct edits *e, struct span line, uint64_t line_number, struct err *err) {
  char what[48];
  snprintf(what, sizeof what, "edit log, line %lu", line_number);
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
    err_fill_hint_of(err, &cause);
  }
  arena_free(&scratch);
  json_free(doc);
  return rc;
}
