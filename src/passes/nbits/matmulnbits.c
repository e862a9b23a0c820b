// The pass in four steps, of which only the last two change anything:
//
//   collect   the nodes of the chosen types, graph by graph: a node's subgraphs before the node itself,
//             functions last (the order in which the existing tool appends initializers)
//   match     what becomes of each, and why (nbits_match.c); patterns without a match are told
//   raise     opsets and the IR version, if all nodes of the model allow it (nbits_raise.c)
//   rewrite   tensors and nodes (nbits_tensors.c, nbits_nodes.c)
//
// All decisions fall before the first edit, so that a refusal leaves the model as it was. A weight
// goes with the last node that uses it.
#include "matmulnbits.h"
#include "nbits.h"

struct list {
  TABLE(struct nbits_site, sites);
};

// ---- collect -----------------------------------------------------------------------------------

// A node whose subgraphs are still to be walked: the next is number `graph` of attribute `attr`.
struct visit {
  uint32_t node, index, attr, graph;
};

struct walk {
  const struct model *m;
  uint32_t op_types;
  struct list *list;
  TABLE(struct visit, visits);
};

// The next subgraph of the node on top, or NO_ID.
static uint32_t next_subgraph(const struct model *m, struct visit *v) {
  const struct model_node *n = &m->nodes[v->node];
  for (; v->attr < n->n_attrs; v->attr++, v->graph = 0) {
    const struct model_attr *a = &m->attrs[n->attrs + v->attr];
    bool graphs = a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS;
    if (graphs && !(a->flags & ATTR_DEAD) && v->graph < a->count) return a->first + v->graph++;
  }
  return NO_ID;
}

static void push(struct walk *w, uint32_t node, uint32_t index) {
  if (node == NO_ID) return;
  uint32_t at = TABLE_ADD(w, visits, 1);
  w->visits[at] = (struct visit){.node = node, .index = index};
}

static void add_site(struct walk *w, const struct visit *v) {
  uint32_t op = nbits_looks_at(w->m, v->node, w->op_types);
  if (op == 0) return;
  uint32_t at = TABLE_ADD(w->list, sites, 1);
  w->list->sites[at] =
      (struct nbits_site){.node = v->node, .index = v->index, .op = (enum matmulnbits_op)op};
}

static void collect_graph(struct walk *w, uint32_t graph) {
  push(w, w->m->graphs[graph].first_node, 0);
  while (w->n_visits) {
    uint32_t inner = next_subgraph(w->m, &w->visits[w->n_visits - 1]);
    if (inner != NO_ID) {
      push(w, w->m->graphs[inner].first_node, 0);
      continue;
    }
    struct visit done = w->visits[--w->n_visits];
    add_site(w, &done);
    push(w, w->m->nodes[done.node].next, done.index + 1);
  }
}

static void collect(const struct model *m, uint32_t op_types, struct list *list) {
  struct walk w = {.m = m, .op_types = op_types, .list = list};
  if (m->main_graph != NO_ID) collect_graph(&w, m->main_graph);
  for (uint32_t i = 0; i < m->n_functions; i++)
    if (!(m->functions[i].flags & FUNCTION_DEAD)) collect_graph(&w, m->functions[i].graph);
  table_free(w.visits, w.visits_cap, sizeof *w.visits);
}

// ---- patterns without a match ------------------------------------------------------------------

static void warn_unmatched(struct pass_env *env, const struct list *list,
                           const struct name_pattern *p, const char *option) {
  const struct model *m = env->m;
  struct name_pattern_nearest c = {0};
  if (p->matches || env->warn == NULL) return;
  for (uint32_t i = 0; i < list->n_sites; i++) {
    name_pattern_consider(&c, p, model_name_str(m, m->nodes[list->sites[i].node].name));
    name_pattern_consider(&c, p, model_name_str(m, list->sites[i].name));
  }
  const char *sentence =
      arena_printf(env->scratch, "%s '%s' matches no weight and no node that could be quantized",
                   option, quote_str(p->text).s);
  env->warn(env->warn_ctx, sentence, name_pattern_hint(&c, env->scratch));
}

static void warn_all(struct pass_env *env, const struct matmulnbits_options *o,
                     const struct list *list) {
  for (uint32_t i = 0; i < o->n_exclude; i++)
    warn_unmatched(env, list, &o->exclude[i], "--exclude");
  for (uint32_t i = 0; i < o->n_include; i++)
    warn_unmatched(env, list, &o->include[i], "--include");
  for (uint32_t i = 0; i < o->n_overrides; i++)
    warn_unmatched(env, list, &o->overrides[i].pattern, "--tensor");
}

static int find_sites(struct pass_env *env, struct matmulnbits_options *o, struct list *list,
                      struct err *err) {
  if (matmulnbits_options_check(o, err)) return -1;
  collect(env->m, o->op_types, list);
  for (uint32_t i = 0; i < list->n_sites; i++)
    nbits_match(env->m, o, &list->sites[i]);
  warn_all(env, o, list);
  return 0;
}

// ---- rewrite -----------------------------------------------------------------------------------

static void report(struct pass_env *env, const struct nbits_site *s, uint32_t codes) {
  const struct model *m = env->m;
  const struct model_node *n = &m->nodes[s->node];
  struct span tensor = model_name(m, s->name);
  struct pass_site out = {.node = s->node,
                          .index = s->index,
                          .graph = n->graph,
                          .op_type = model_name_str(m, n->op_type),
                          .status = s->converts ? "converted" : "skipped",
                          .reason = s->reason,
                          .node_name = model_name(m, n->name),
                          .tensor = tensor.n ? tensor : (struct span){NULL, 0},
                          .codes = codes};
  if (s->chosen_by) {
    out.chosen_by = s->chosen_by;
    out.chosen = matmulnbits_scheme_text(&s->scheme, env->site_scratch);
    out.figures = &s->figures;
  }
  if (env->site) env->site(env->site_ctx, &out);
}

static void rewrite_all(struct pass_env *env, const struct matmulnbits_options *options,
                        const struct list *list, struct matmulnbits_result *result) {
  struct nbits_work w = {.env = env, .options = options, .n_first = env->m->n_tensors};
  size_t cap = 0;
  w.first = table_grow(NULL, &cap, (size_t)w.n_first + 1, sizeof *w.first);
  memset(w.first, 0xff, w.n_first * sizeof *w.first);
  for (uint32_t i = 0; i < list->n_sites; i++)
    if (list->sites[i].converts && !nbits_stays(options, &list->sites[i]))
      nbits_names_leave(&w.names, env->m, list->sites[i].node);
  for (uint32_t i = 0; i < list->n_sites; i++) {
    const struct nbits_site *s = &list->sites[i];
    report(env, s, s->converts ? nbits_rewrite(&w, s) : NO_ID);
    result->converted += s->converts;
    result->skipped += !s->converts;
  }
  table_free(w.first, cap, sizeof *w.first);
  table_free(w.tensors, w.tensors_cap, sizeof *w.tensors);
  fresh_done(&w.fresh);
  nbits_names_done(&w.names);
}

int pass_matmulnbits(struct pass_env *env, struct matmulnbits_options *options,
                     struct matmulnbits_result *result, struct err *err) {
  struct list list = {0};
  *result = (struct matmulnbits_result){0};
  if (find_sites(env, options, &list, err)) return -1;
  int rc = nbits_choose(env, options, list.sites, list.n_sites, &result->output_limit, err);
  if (rc == 0) rc = nbits_raise(env, options, list.sites, list.n_sites, err);
  if (rc == 0) rewrite_all(env, options, &list, result);
  table_free(list.sites, list.sites_cap, sizeof *list.sites);
  return rc;
}

int matmulnbits_measure(struct pass_env *env, struct matmulnbits_options *options,
                        const struct matmulnbits_listener *to, struct err *err) {
  struct list list = {0};
  if (find_sites(env, options, &list, err)) return -1;
  int rc = nbits_measure(env, options, list.sites, list.n_sites, to, err);
  for (uint32_t i = 0; rc == 0 && i < list.n_sites; i++)
    report(env, &list.sites[i], NO_ID);
  table_free(list.sites, list.sites_cap, sizeof *list.sites);
  return rc;
}
