// What the new nodes and types need of the model: com.microsoft for the operators of ONNX Runtime,
// opset 21 (2 bits: 25) for blockwise DequantizeLinear, an IR version that knows 4 and 2 bit types.
//
// The opset of ai.onnx is a promise about every node: the existing tool overwrites the number,
// which makes models that no longer load, or mean something else. Here every node of every graph is
// looked up in the table of operators first (schema.h), and one that would mean something else
// stops the pass. Function bodies import opsets of their own; they are raised with the model, since
// runtimes and the checker want operators of one version in both.
#include "nbits.h"

#include "schema.h"
#include "weights.h"

enum {
  DEQUANTIZE_OPSET = 21, // blockwise, (u)int4 and (u)int8
  DEQUANTIZE_2_OPSET = 25,
  IR_4_BITS = 10, // also that of opset 21
  IR_2_BITS = 13, // also that of opset 25
};

struct needs {
  int64_t opset, ir; // of ai.onnx; 0: as it is
  bool contrib;
  uint32_t first; // a site that needs the opset
};

static void need(int64_t *what, int64_t version) {
  if (*what < version) *what = version;
}

static void add_needs(const struct matmulnbits_options *o, const struct nbits_site *s,
                      struct needs *n) {
  if (!s->converts) return;
  need(&n->ir, WEIGHTS_FREE_IR);
  if (!o->qdq) {
    n->contrib = true;
    if (s->op == MATMULNBITS_GATHER && s->scheme.bits == 4) need(&n->ir, IR_4_BITS);
    return;
  }
  need(&n->opset, s->scheme.bits == 2 ? DEQUANTIZE_2_OPSET : DEQUANTIZE_OPSET);
  need(&n->ir, s->scheme.bits == 2 ? IR_2_BITS : IR_4_BITS);
}

// ---- can it be raised? -------------------------------------------------------------------------

static int refuse(const struct model *m, uint32_t node, int64_t from, int64_t to,
                  const struct schema_change *c, struct err *err) {
  const struct model_node *n = &m->nodes[node];
  struct quoted name = quote(model_name(m, n->name)), op = quote(model_name(m, n->op_type));
  if (c->since_version == 0)
    err_set(err, ERR_MODEL, "node '%s' (%s) keeps the model at opset %lld, %lld is needed: %s",
            name.s, op.s, (long long)from, (long long)to, c->why);
  else
    err_set(err, ERR_MODEL, "node '%s' (%s) changed between opset %lld and %lld, in %lld: %s",
            name.s, op.s, (long long)from, (long long)to, (long long)c->since_version, c->why);
  return err_hint(err,
                  "--format qoperator works with any opset; or export the model with opset %lld",
                  (long long)to);
}

static int check_graph(struct pass_env *env, uint32_t graph, int64_t to, struct err *err) {
  const struct model *m = env->m;
  int64_t from = model_opset_version(m, graph, span_str(""));
  if (from == 0 || from >= to) return 0;
  for (uint32_t i = m->graphs[graph].first_node; i != NO_ID; i = m->nodes[i].next) {
    struct schema_change change;
    if (!schema_same(m, i, from, to, env->scratch, &change))
      return refuse(m, i, from, to, &change, err);
  }
  return 0;
}

static int check_all(struct pass_env *env, int64_t to, struct err *err) {
  for (uint32_t g = 0; g < env->m->n_graphs; g++)
    if (!(env->m->graphs[g].flags & GRAPH_DEAD) && check_graph(env, g, to, err)) return -1;
  return 0;
}

// ---- imports -----------------------------------------------------------------------------------

static void import(struct pass_env *env, const char *domain, int64_t least, bool add) {
  struct model *m = env->m;
  int64_t have = model_opset_version(m, m->main_graph, span_str(domain));
  if (have ? have < least : add) edit_set_opset(env->edits, span_str(domain), least);
  for (uint32_t i = 0; i < m->n_functions; i++) {
    if (m->functions[i].flags & FUNCTION_DEAD) continue;
    have = model_opset_version(m, m->functions[i].graph, span_str(domain));
    if (have && have < least) edit_set_function_opset(env->edits, i, span_str(domain), least);
  }
}

// The function that a graph lies in, or NO_ID.
static uint32_t function_around(const struct model *m, uint32_t graph) {
  while (m->graphs[graph].kind == GRAPH_SUB && m->graphs[graph].parent != NO_ID)
    graph = m->graphs[graph].parent;
  return m->graphs[graph].kind == GRAPH_FUNCTION ? m->graphs[graph].owner : NO_ID;
}

// Functions that a site of theirs gives an operator of a domain they do not import yet.
static void import_in_functions(struct pass_env *env, const char *domain, int64_t version,
                                const struct nbits_site *sites, uint32_t n) {
  const struct model *m = env->m;
  for (uint32_t i = 0; i < n; i++) {
    if (!sites[i].converts) continue;
    uint32_t graph = m->nodes[sites[i].node].graph, f = function_around(m, graph);
    if (f != NO_ID && model_opset_version(m, graph, span_str(domain)) == 0)
      edit_set_function_opset(env->edits, f, span_str(domain), version);
  }
}

int nbits_raise(struct pass_env *env, const struct matmulnbits_options *options,
                const struct nbits_site *sites, uint32_t n, struct err *err) {
  struct needs needs = {0};
  for (uint32_t i = 0; i < n; i++)
    add_needs(options, &sites[i], &needs);
  if (needs.opset && check_all(env, needs.opset, err)) return -1;
  if (needs.ir == 0) return 0;
  edit_group(env->edits, "matmulnbits", NO_ID, "versions");
  if (needs.contrib) {
    import(env, "com.microsoft", 1, true);
    import_in_functions(env, "com.microsoft", 1, sites, n);
  }
  if (needs.opset) import(env, "", needs.opset, false);
  weights_raise_ir(env->edits, needs.ir);
  return 0;
}
