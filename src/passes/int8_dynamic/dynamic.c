// The pass `dynamic`: products with constant weights become products of codes. Weights are quantized here, once and for all;
// activations by the model itself, as they come.
//
//   nodes in order ──match──▶ site: its constants, or why it stays ──convert──▶ codes and new nodes
//                                                                └─▶ values in codes: DequantizeLinear after all
//
// The file of an operator says what its nodes become. The walk is that of quantize_dynamic, so that with --compat
// what is decided by what came before is decided likewise; without, no decision depends on it, but tensors are made once.
//
//   excluded, not_included    by name, of the node or of a weight
//   non_constant_weight, overridable_weight, weight_dtype, weight_rank, empty_weight    (dynamic_weights.c)
//   too_many_rows             sums of a column of codes might not fit int32
//   depthwise                 a Conv that would not be faster
//   factors                   a Gemm with alpha or beta
//
// Of the pass' versions: DynamicQuantizeLinear came with opset 11, to which a model is raised where it wants one, or wants a Cast and
// has an opset before 6.
#include "passes/int8_dynamic/inside/dynamic.h"
#include "base/table.h"
#include "passes/kit/dead_ends.h"
#include "passes/kit/weights.h"
#include "passes/opset/opset.h"

// From CAST_OPSET on a Cast names its type by number.
enum { LEAST_OPSET = 11, CAST_OPSET = 6 };

// ---- which nodes -------------------------------------------------------------------------------

static enum dynamic_op op_of(struct kit *k, uint32_t node) {
  switch (kit_op(k, node)) {
  case OP_MatMul: return DYNAMIC_MATMUL;
  case OP_Gemm: return DYNAMIC_GEMM;
  case OP_LSTM: return DYNAMIC_LSTM;
  case OP_Gather: return DYNAMIC_GATHER;
  case OP_Conv: return DYNAMIC_CONV;
  case OP_ms_Attention: return DYNAMIC_ATTENTION;
  case OP_ms_EmbedLayerNormalization: return DYNAMIC_EMBED;
  case OP_Transpose: return DYNAMIC_TRANSPOSE;
  default: return 0;
  }
}

static bool is_listed(const char *const *names, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (strcmp(names[i], name) == 0) return true;
  return false;
}

static const char *refused(const struct dynamic_options *o, const char *name) {
  if (o->n_only && !is_listed(o->only, o->n_only, name)) return "not_included";
  return is_listed(o->except, o->n_except, name) ? "excluded" : NULL;
}

// Does the pattern match the node or one of its weights? Looks at all of them, so that each gets its matches counted.
static bool is_meant(const struct dynamic *d, const struct dynamic_site *s,
                     struct name_pattern *p) {
  const struct model *m = d->k.m;
  bool matches = name_pattern_look(p, model_name_str(m, m->nodes[s->node].name));
  for (uint32_t i = 0; i < s->n_weights; i++)
    if (s->weights[i].named != NO_ID)
      matches |= name_pattern_look(p, model_name_str(m, m->values[s->weights[i].named].name));
  return matches;
}

static bool any_meant(const struct dynamic *d, const struct dynamic_site *s,
                      const struct name_patterns *p) {
  bool any = false;
  for (uint32_t i = 0; i < p->n; i++)
    any |= is_meant(d, s, &p->at[i]);
  return any;
}

// The last that matches wins.
static const struct dynamic_override *override_of(const struct dynamic *d,
                                                  const struct dynamic_site *s) {
  const struct dynamic_override *found = NULL;
  for (uint32_t i = 0; i < d->o->n_overrides; i++)
    if (is_meant(d, s, &d->o->overrides[i].pattern)) found = &d->o->overrides[i];
  return found;
}

static const char *match(struct dynamic *d, struct dynamic_site *s) {
  switch (s->op) {
  case DYNAMIC_MATMUL: return dynamic_matmul_match(d, s);
  case DYNAMIC_GEMM: return dynamic_matmul_match_gemm(d, s);
  case DYNAMIC_LSTM: return dynamic_lstm_match(d, s);
  case DYNAMIC_GATHER: return dynamic_codes_match_gather(d, s);
  case DYNAMIC_CONV: return dynamic_conv_match(d, s);
  case DYNAMIC_ATTENTION: return dynamic_attention_match(d, s);
  case DYNAMIC_EMBED: return dynamic_attention_match_embed(d, s);
  default: return dynamic_codes_match_transpose(d, s);
  }
}

// Is it a node that the options speak of? Then *s says what it becomes.
static bool site_of(struct dynamic *d, uint32_t node, struct dynamic_site *s) {
  const struct model *m = d->k.m;
  const char *name = model_name_str(m, m->nodes[node].name);
  *s = (struct dynamic_site){.node = node, .op = op_of(&d->k, node)};
  for (uint32_t i = 0; i < DYNAMIC_WEIGHTS; i++)
    s->weights[i] = dynamic_no_operand;
  if (!(s->op & d->o->op_types)) return false;
  s->why = match(d, s);
  const bool excluded = any_meant(d, s, &d->o->nodes.exclude);
  const bool included = any_meant(d, s, &d->o->nodes.include) || d->o->nodes.include.n == 0;
  const char *unwanted = refused(d->o, name);
  s->override = override_of(d, s);
  if (excluded || unwanted || !included)
    s->why = excluded ? "excluded" : unwanted ? unwanted : "not_included";
  return true;
}

static bool walks(const struct dynamic *d, uint32_t graph) {
  const struct model *m = d->k.m;
  if (!d->o->compat) return true;
  return graph == m->main_graph ||
         (d->o->enable_subgraph && model_root_graph(m, graph) == m->main_graph);
}

// ---- one node ----------------------------------------------------------------------------------

static void convert(struct dynamic *d, const struct dynamic_site *s) {
  switch (s->op) {
  case DYNAMIC_MATMUL: dynamic_matmul_convert(d, s); break;
  case DYNAMIC_GEMM: dynamic_matmul_convert_gemm(d, s); break;
  case DYNAMIC_LSTM: dynamic_lstm_convert(d, s); break;
  case DYNAMIC_GATHER: dynamic_codes_gather(d, s); break;
  case DYNAMIC_CONV: dynamic_conv_convert(d, s); break;
  case DYNAMIC_ATTENTION: dynamic_attention_convert(d, s); break;
  case DYNAMIC_EMBED: dynamic_attention_convert_embed(d, s); break;
  case DYNAMIC_TRANSPOSE: dynamic_codes_transpose(d, s); break;
  }
}

// Of a weight of the node; i = n_weights: of none.
static void report_one(struct dynamic *d, const struct dynamic_site *s, uint32_t i) {
  const struct model *m = d->k.m;
  struct kit_report r = {
      .node = s->node, .reason = s->why ? s->why : "quantized", .skipped = s->why != NULL};
  if (i < s->n_weights) {
    r.tensor = model_name(m, m->values[s->weights[i].named].name);
    r.of = s->weights[i].tensor;
    r.codes = s->why ? 0 : d->recipes[i] + 1;
  }
  kit_report(&d->k, &r);
}

// A node with several weights (LSTM) is reported with each of them that it has, one that stays once.
static void report(struct dynamic *d, const struct dynamic_site *s) {
  uint32_t told = 0;
  // Transposes that stay are no news: most have nothing to do with codes.
  if (s->why && s->op == DYNAMIC_TRANSPOSE) return;
  for (uint32_t i = 0; i < s->n_weights && !(s->why && told); i++) {
    if (s->weights[i].named == NO_ID) continue; // a table that is left out
    report_one(d, s, i);
    told++;
  }
  if (!told) report_one(d, s, s->n_weights);
}

static void take(struct dynamic *d, const struct dynamic_site *s) {
  struct kit *k = &d->k;
  const struct model_node *n = &k->m->nodes[s->node];
  kit_site(k, s->node, "quantized");
  d->site = s;
  for (uint32_t i = 0; i < DYNAMIC_WEIGHTS; i++)
    d->recipes[i] = NO_ID;
  d->node_name = span_str(arena_string(&k->site, model_name(k->m, n->name)));
  d->y_name = span_str(arena_string(&k->site, model_value_name(k->m, kit_out(k, s->node, 0))));
  convert(d, s);
  report(d, s);
}

static void visit(struct dynamic *d, uint32_t node) {
  struct dynamic_site s;
  const bool is_site = site_of(d, node, &s);
  if (is_site && !s.why) {
    take(d, &s);
    return;
  }
  if (is_site) report(d, &s);
  if (d->o->compat) dynamic_codes_want(d, node);
}

// ---- all of them -------------------------------------------------------------------------------

// Does the node need DynamicQuantizeLinear or DequantizeLinear?
static bool is_plain(const struct dynamic *d, const struct dynamic_site *s) {
  if (s->op & (DYNAMIC_MATMUL | DYNAMIC_GEMM))
    return d->o->form == DYNAMIC_FUSED && s->n_weights > 0;
  return s->op == DYNAMIC_LSTM || s->op == DYNAMIC_EMBED;
}

struct needs {
  bool any, opset;
};

// As site_of; with compat a Gemm too, which becomes a MatMul before nodes are quantized (dynamic_matmul_split_all).
static bool will_be_site(struct dynamic *d, uint32_t node, struct dynamic_site *s) {
  if (site_of(d, node, s)) return true;
  if (!d->o->compat || s->op != DYNAMIC_GEMM || !(d->o->op_types & DYNAMIC_MATMUL)) return false;
  s->why = dynamic_matmul_match_gemm(d, s);
  return true;
}

static struct needs look(struct dynamic *d, struct dynamic_questions *questions) {
  struct needs needs = {0};
  struct dynamic_site s;
  for (uint32_t g = 0; kit_graph(&d->k, &g); g++)
    for (uint32_t n = d->k.m->graphs[g].first_node; walks(d, g) && n != NO_ID;
         n = d->k.m->nodes[n].next)
      if (will_be_site(d, n, &s) && !s.why) {
        needs.any = true;
        if (questions) dynamic_choose_ask(d, &s, questions);
        needs.opset |= kit_opset(&d->k, g) < (!is_plain(d, &s) ? LEAST_OPSET
                                              : s.half         ? CAST_OPSET
                                                               : 0);
      }
  return needs;
}

static void begin(struct dynamic *d, struct pass_env *env, const struct dynamic_options *o) {
  *d = (struct dynamic){.o = o};
  kit_init(&d->k, env, "dynamic");
  d->k.tells_no_dims = true;
  d->k.node_names = KIT_NODES;
  d->k.nameless = true;
}

static int end(struct dynamic *d, struct err *err) {
  TABLES_FREE(d, of_value, codes, of_tensor, stored, products, of_scale);
  TABLES_FREE(d, hollow, wanted, turned, turned_of, wants_zeros);
  return kit_done(&d->k, err);
}

static void warn_unmatched(struct dynamic *d, const struct name_pattern *p, const char *option) {
  struct kit *k = &d->k;
  struct name_pattern_nearest nearest = {0};
  if (p->matches) return;
  for (uint32_t i = 0; i < k->m->n_nodes; i++)
    name_pattern_consider(&nearest, p, model_name_str(k->m, k->m->nodes[i].name));
  kit_warn(k,
           arena_printf(&k->site, "%s '%s' matches no weight and no node that can be quantized",
                        option, quote_str(p->text).s),
           name_pattern_hint(&nearest, &k->site));
}

static void warn_all_unmatched(struct dynamic *d) {
  const struct dynamic_options *o = d->o;
  for (uint32_t i = 0; i < o->nodes.exclude.n; i++)
    warn_unmatched(d, &o->nodes.exclude.at[i], "--exclude");
  for (uint32_t i = 0; i < o->nodes.include.n; i++)
    warn_unmatched(d, &o->nodes.include.at[i], "--include");
  for (uint32_t i = 0; i < o->n_overrides; i++)
    warn_unmatched(d, &o->overrides[i].pattern, "--tensor");
}

// Looks before it changes anything: the opset is raised for what will be quantized.
static int prepare(struct pass_env *env, const struct dynamic_options *o, struct needs *needs,
                   struct err *err) {
  struct dynamic d;
  begin(&d, env, o);
  *needs = look(&d, NULL);
  if (end(&d, err)) return -1;
  return needs->opset ? opset_raise(env, LEAST_OPSET, err) : 0;
}

static void rewrite(struct dynamic *d) {
  for (uint32_t g = 0; kit_graph(&d->k, &g); g++) {
    if (!walks(d, g)) continue;
    struct arena a = {0};
    uint32_t *nodes;
    const uint32_t n =
        d->o->compat ? kit_listed(&d->k, g, &a, &nodes) : kit_running(&d->k, g, &a, &nodes);
    for (uint32_t i = 0; i < n; i++)
      if (!(d->k.m->nodes[nodes[i]].flags & NODE_DEAD)) visit(d, nodes[i]);
    arena_free(&a);
  }
  dynamic_codes_finish(d);
  if (!d->o->compat) return;
  kit_site(&d->k, NO_ID, "unused"); // quantize_dynamic leaves none
  dead_ends_drop_all(d->k.e);
}

static bool has_conv(const struct model *m) {
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD) && model_op_is(m, i, "Conv")) return true;
  return false;
}

static int choose(struct dynamic *d, struct err *err) {
  struct dynamic_questions q = {0};
  (void)look(d, &q);
  const int rc = dynamic_choose(d, &q, err);
  TABLES_FREE(&q, tensors, codes);
  return rc;
}

int dynamic_run(struct pass_env *env, const struct dynamic_options *options, struct err *err) {
  struct dynamic_options own = *options, *o = &own;
  struct needs needs;
  struct dynamic d;
  if (o->by_conv && has_conv(env->m)) o->weight_type = DYNAMIC_UINT8;
  if (prepare(env, o, &needs, err)) return -1;
  begin(&d, env, o);
  if (o->weight_type == DYNAMIC_AUTO && choose(&d, err)) {
    (void)end(&d, err);
    return -1;
  }
  if (o->compat) {
    kit_infer(&d.k);
    dynamic_matmul_split_all(&d);
  }
  const bool scans = kit_has_scan(&d.k);
  if (scans) kit_infer(&d.k);
  if (needs.any) {
    kit_site(&d.k, NO_ID, "versions");
    weights_free_initializers(env->edits);
  }
  rewrite(&d);
  if (scans) kit_declare_made(&d.k);
  warn_all_unmatched(&d);
  return end(&d, err);
}
