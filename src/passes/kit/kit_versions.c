// Versions that new operators need: opsets of the model and of functions, the IR version.
//
// The opset of ai.onnx is a promise about every node: a raise that only overwrites the number makes
// models that no longer load, or mean something else. Here every node of every graph is looked up in
// the table of operators first (schema.h), and one that would mean something else stops the pass; the
// pass `opset` (src/passes/opset) rewrites such nodes.
// Function bodies import opsets of their own; they are raised with the model, since runtimes and the
// checker want operators of one version in both.
//
// Other domains have one version at a time; importing them changes nothing for the nodes there are.
#include "passes/kit/inside/kit_inside.h"

#include "passes/kit/weights.h"
#include "schema/schema.h"

int64_t kit_opset(const struct kit *k, uint32_t graph) {
  return model_opset_version(k->m, graph, span_str(""));
}

int64_t kit_opset_of(const struct kit *k, const char *domain, uint32_t graph) {
  return model_opset_version(k->m, graph, span_str(domain));
}

int kit_refuse_raise(const struct kit *k, uint32_t node, int64_t from, int64_t to,
                     const struct schema_change *c, const char *hint, struct err *err) {
  const struct node_words words = model_node_words(k->m, node);
  if (c->since_version == 0)
    err_set(err, ERR_FAIL, "%s keeps the model at opset %s, but opset %s is needed: %s", words.s,
            integer(from).s, integer(to).s, c->why);
  else
    err_set(err, ERR_FAIL, "%s changed between opset %s and %s, in %s: %s", words.s,
            integer(from).s, integer(to).s, integer(c->since_version).s, c->why);
  if (hint) return err_hint(err, "%s; or export the model with opset %s", hint, integer(to).s);
  return err_hint(err, "export the model with opset %s", integer(to).s);
}

// Where the rank of an input decides, all is inferred first.
static bool means_same(struct kit *k, uint32_t node, int64_t from, int64_t version,
                       struct schema_change *change) {
  const bool same = schema_same(k->m, k->types, node, from, version, &k->site, change);
  if (!same || !change->asks_rank) return same;
  kit_infer(k);
  return schema_same(k->m, k->types, node, from, version, &k->site, change);
}

static int check_raise(struct kit *k, int64_t version, const char *hint, struct err *err) {
  const struct model *m = k->m;
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (m->graphs[g].flags & GRAPH_DEAD) continue;
    const int64_t from = kit_opset(k, g);
    if (from == 0 || from >= version) continue;
    for (uint32_t i = m->graphs[g].first_node; i != NO_ID; i = m->nodes[i].next) {
      struct schema_change change;
      if (!means_same(k, i, from, version, &change))
        return kit_refuse_raise(k, i, from, version, &change, hint, err);
    }
  }
  return 0;
}

// Functions that import the domain below the version are raised to it.
static void raise_functions(struct kit *k, const char *domain, int64_t version) {
  for (uint32_t i = 0; i < k->m->n_functions; i++) {
    const struct model_function *f = &k->m->functions[i];
    if (f->flags & FUNCTION_DEAD) continue;
    const int64_t have = kit_opset_of(k, domain, f->graph);
    if (have && have < version) edit_set_function_opset(k->e, i, span_str(domain), version);
  }
}

void kit_set_opset(struct kit *k, int64_t version) {
  const int64_t have = k->m->main_graph == NO_ID ? 0 : kit_opset(k, k->m->main_graph);
  if (have && have < version) edit_set_opset(k->e, span_str(""), version);
  raise_functions(k, "", version);
}

int kit_need_opset(struct kit *k, int64_t version, struct err *err) {
  const struct model *m = k->m;
  if (m->main_graph == NO_ID || kit_opset(k, m->main_graph) != 0) return 0;
  for (uint32_t i = 0; i < m->n_nodes; i++) {
    const struct model_node *n = &m->nodes[i];
    const struct span domain = model_name(m, n->domain);
    if (n->flags & NODE_DEAD || model_root_graph(m, n->graph) != m->main_graph ||
        !model_domain_is_onnx(domain))
      continue;
    err_set(err, ERR_MODEL,
            "%s is an operator of ai.onnx, but the model does not import ai.onnx (opset_import); "
            "version %s is needed",
            model_node_words(m, i).s, integer(version).s);
    return err_hint(err, "import the version that the model was made for");
  }
  kit_site(k, NO_ID, "versions");
  edit_set_opset(k->e, span_str(""), version);
  return 0;
}

int kit_raise(struct kit *k, int64_t version, const char *hint, struct err *err) {
  if (kit_need_opset(k, version, err)) return -1;
  if (check_raise(k, version, hint, err)) return -1;
  kit_set_opset(k, version);
  return 0;
}

void kit_import(struct kit *k, uint32_t graph, const char *domain, int64_t version) {
  const struct model *m = k->m;
  if (kit_opset_of(k, domain, graph) >= version) return;
  graph = model_root_graph(m, graph);
  // A runtime looks for the domain in the model too, whatever a function says.
  if (m->main_graph == NO_ID || kit_opset_of(k, domain, m->main_graph) < version)
    edit_set_opset(k->e, span_str(domain), version);
  raise_functions(k, domain, version);
  if (m->graphs[graph].kind == GRAPH_FUNCTION && kit_opset_of(k, domain, graph) == 0)
    edit_set_function_opset(k->e, m->graphs[graph].owner, span_str(domain), version);
}

void kit_raise_ir(struct kit *k, int64_t version) {
  weights_raise_ir(k->e, version);
}
