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
#include "passes/nbits/matmulnbits.h"
#include "passes/kit/weights.h"
#include "passes/nbits/inside/nbits.h"

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
  if (node != NO_ID) *TABLE_PUSH(w, visits) = (struct visit){.node = node, .index = index};
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
    const uint32_t op = nbits_looks_at(w->m, done.node, w->op_types);
    if (op)
      *TABLE_PUSH(w->list, sites) = (struct nbits_site){
          .node = done.node, .index = done.index, .op = (enum matmulnbits_op)op};
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

static void warn_unmatched(struct nbits_work *w, const struct list *list,
                           const struct name_pattern *p, const char *option) {
  struct kit *k = &w->k;
  struct name_pattern_nearest c = {0};
  if (p->matches) return;
  for (uint32_t i = 0; i < list->n_sites; i++) {
    name_pattern_consider(&c, p, model_name_str(k->m, k->m->nodes[list->sites[i].node].name));
    name_pattern_consider(&c, p, model_name_str(k->m, list->sites[i].name));
  }
  kit_warn(k,
           arena_printf(&k->site, "%s '%s' matches no weight and no node that can be quantized",
                        option, quote_str(p->text).s),
           name_pattern_hint(&c, &k->site));
}

// weights_says_sizes, asked once for each weight: it looks at all of its uses.
static bool says_sizes(struct nbits_work *w, const struct model_constant *of, uint8_t *known) {
  enum { YES = 1, NO };
  uint8_t *k = &known[of->tensor];
  if (*k == 0) *k = weights_says_sizes(&w->k, of->value, of->tensor) ? YES : NO;
  return *k == YES;
}

static void find_sites(struct nbits_work *w, struct matmulnbits_options *o, struct list *list) {
  collect(w->k.m, o->op_types, list);
  for (uint32_t i = 0; i < list->n_sites; i++)
    nbits_see(&w->k, list->sites[i].node, list->sites[i].op);
  uint8_t *known = arena_zalloc(w->k.env->scratch, w->k.m->n_tensors + (size_t)1);
  for (uint32_t i = 0; i < list->n_sites; i++) {
    struct nbits_site *s = &list->sites[i];
    nbits_match(w->k.m, o, s);
    if (!s->converts || !says_sizes(w, &s->weight, known)) continue;
    s->converts = false;
    s->reason = "size";
  }
  for (uint32_t i = 0; i < o->names.exclude.n; i++)
    warn_unmatched(w, list, &o->names.exclude.at[i], "--exclude");
  for (uint32_t i = 0; i < o->names.include.n; i++)
    warn_unmatched(w, list, &o->names.include.at[i], "--include");
  for (uint32_t i = 0; i < o->n_overrides; i++)
    warn_unmatched(w, list, &o->overrides[i].pattern, "--tensor");
}

// ---- rewrite -----------------------------------------------------------------------------------

static void report(struct nbits_work *w, const struct nbits_site *s, uint32_t codes) {
  struct kit_report r = {.node = s->node,
                         .reason = s->reason,
                         .skipped = !s->converts,
                         .place = s->index + 1,
                         .codes = codes + 1,
                         .of = s->weight.tensor};
  if (s->name != w->k.m->empty) r.tensor = model_name(w->k.m, s->name);
  if (s->chosen_by) {
    r.chosen_by = s->chosen_by;
    r.chosen = matmulnbits_scheme_text(&s->scheme, &w->k.site);
    r.figures = &s->figures;
    r.weighed_by = s->weighed_by;
    r.output_db = s->output_db;
  }
  kit_report(&w->k, &r);
}

static void rewrite_all(struct nbits_work *w, const struct list *list) {
  const uint32_t n = w->k.m->n_tensors;
  w->first = arena_alloc(w->k.env->scratch, (n + (size_t)1) * sizeof *w->first);
  memset(w->first, 0xff, n * sizeof *w->first);
  for (uint32_t i = 0; i < list->n_sites; i++)
    if (list->sites[i].converts && !nbits_stays(w->options, &list->sites[i]))
      kit_names_leave(&w->k.names, list->sites[i].node);
  for (uint32_t i = 0; i < list->n_sites; i++) {
    const struct nbits_site *s = &list->sites[i];
    report(w, s, s->converts ? nbits_rewrite(w, s) : NO_ID);
  }
}

// The usual block is longer than many weights of small models are: the rest of it is stored all the
// same. Who gave a block size is not told of another one; the report says it in any case.
static void tell_half_empty(struct nbits_work *w, const struct list *list) {
  struct nbits_half_empty found;
  nbits_half_empty(w->k.m, w->options, list->sites, list->n_sites, &found);
  w->k.env->result->half_empty = found.weights;
  w->k.env->result->fitting_block = found.block;
  if (!found.smaller || w->options->block_given) return;
  kit_warn(&w->k,
           arena_printf(&w->k.site, "%u weight%s fill%s at most half of a block of %u elements",
                        found.weights, plural(found.weights), found.weights == 1 ? "s" : "",
                        w->options->scheme.block),
           arena_printf(&w->k.site, "a block size of %u makes the output smaller and more accurate",
                        found.block));
}

// ONNX Runtime (1.31, 1.32) fuses DequantizeLinear along axis 0 with the product and packs 2-bit codes anew, wrongly where a row of
// them is no whole number of bytes; the numbers that come out are silently other ones.
static void tell_wrongly_packed(struct nbits_work *w, const struct list *list) {
  enum { CODES_OF_A_BYTE = 4 };
  uint32_t found = 0;
  for (uint32_t i = 0; w->options->qdq && i < list->n_sites; i++) {
    const struct nbits_site *s = &list->sites[i];
    uint64_t k, columns;
    bool transposed;
    if (!s->converts || s->scheme.bits != 2 || s->op == MATMULNBITS_GATHER) continue;
    w->site = s;
    if (nbits_form(w, &transposed) == NBITS_COLUMNS && nbits_shape(w->k.m, s, &k, &columns))
      found += columns % CODES_OF_A_BYTE != 0;
  }
  if (found == 0) return;
  kit_warn(&w->k,
           arena_printf(
               &w->k.site,
               "%u product%s with a 2-bit weight whose number of columns is not a multiple of 4: "
               "ONNX Runtime 1.31 and 1.32 compute wrong results for them, unless its "
               "optimizations are off",
               found, plural(found)),
           "use --format qoperator, or --bits 4 for these weights (--tensor)");
}

// Nodes are called as the existing tool calls them, or have no names: those of one graph differ,
// names of values do not matter to them.
static void begin(struct nbits_work *w, struct pass_env *env,
                  const struct matmulnbits_options *options) {
  *w = (struct nbits_work){.options = options};
  kit_init(&w->k, env, "quantize");
  w->k.tells_no_dims = true;
  w->k.node_names = KIT_NODES;
  w->k.nameless = true;
}

static int end(struct nbits_work *w, struct list *list, int rc, struct err *err) {
  TABLE_FREE(list, sites);
  TABLES_FREE(w, tensors, shares, share_of);
  return kit_done(&w->k, err) ? -1 : rc;
}

int pass_matmulnbits(struct pass_env *env, struct matmulnbits_options *options, struct err *err) {
  struct list list = {0};
  struct nbits_work w;
  if (matmulnbits_options_check(options, err)) return -1;
  begin(&w, env, options);
  find_sites(&w, options, &list);
  int rc = nbits_choose(&w, list.sites, list.n_sites, err);
  if (rc == 0) rc = nbits_gram(&w, list.sites, list.n_sites, err);
  if (rc == 0) rc = nbits_raise(&w, list.sites, list.n_sites, err);
  if (rc == 0) tell_half_empty(&w, &list);
  if (rc == 0) tell_wrongly_packed(&w, &list);
  if (rc == 0) rewrite_all(&w, &list);
  return end(&w, &list, rc, err);
}

int matmulnbits_measure(struct pass_env *env, struct matmulnbits_options *options,
                        const struct matmulnbits_listener *to, struct err *err) {
  struct list list = {0};
  struct nbits_work w;
  if (matmulnbits_options_check(options, err)) return -1;
  begin(&w, env, options);
  find_sites(&w, options, &list);
  const int rc = nbits_measure(&w, list.sites, list.n_sites, to, err);
  for (uint32_t i = 0; rc == 0 && i < list.n_sites; i++)
    report(&w, &list.sites[i], NO_ID);
  return end(&w, &list, rc, err);
}
