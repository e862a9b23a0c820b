// What a pass says: sites for the report, and warnings.
//
// A node without a name is told by its operator and its position in its graph's source, or by the
// weight that the report is about. Positions are counted once, when one is first asked for: nodes
// were numbered in the order of the file, so those of a graph stand in order. A node that an edit
// made has none.
#include "passes/kit/inside/kit_inside.h"

static uint32_t source_index(struct kit *k, uint32_t node) {
  struct kit_inside *in = k->in;
  const struct model *m = k->m;
  if (node >= m->loaded_nodes) return NO_ID;
  if (in->n_source_index == 0) {
    TABLE_ADD(in, source_index, m->loaded_nodes);
    uint32_t *seen = NULL;
    size_t cap = 0;
    seen = table_grow(NULL, &cap, (size_t)m->n_graphs + 1, sizeof *seen);
    memset(seen, 0, (size_t)m->n_graphs * sizeof *seen);
    for (uint32_t i = 0; i < m->loaded_nodes; i++)
      in->source_index[i] = seen[m->nodes[i].graph]++;
    table_free(seen, cap, sizeof *seen);
  }
  return in->source_index[node];
}

// An initializer that is an input of a body nobody can make a constant.
static bool is_overridable(const struct model *m, const struct kit_report *r) {
  const bool inside = r->weight && m->values[r->weight - 1].graph != m->main_graph;
  return r->skipped && !inside &&
         (strcmp(r->reason, "graph_input") == 0 || strcmp(r->reason, "overridable_weight") == 0);
}

void kit_report_done(struct kit *k) {
  const uint64_t n = k->in->n_overridable;
  if (n == 0) return;
  kit_warn(k,
           arena_printf(&k->site,
                        "%s: %s not changed, because the model lists the weight as an input that "
                        "callers may override",
                        k->pass, decimal(n).s),
           "if no caller overrides it, --inputs-are-constant treats such weights as constants");
}

void kit_report(struct kit *k, const struct kit_report *r) {
  const struct model *m = k->m;
  k->in->n_overridable += is_overridable(m, r);
  if (!k->env->site) return;
  struct pass_site site = {.node = r->node,
                           .index = NO_ID,
                           .graph = k->graph,
                           .op_type = r->what ? r->what : "Initializer",
                           .status = r->skipped ? "skipped" : "converted",
                           .reason = r->reason,
                           .fact = r->fact,
                           .tensor = r->tensor,
                           .chosen = r->chosen,
                           .chosen_by = r->chosen_by,
                           .figures = r->figures,
                           .weighed_by = r->weighed_by,
                           .output_db = r->output_db,
                           .codes = r->codes ? r->codes - 1 : NO_ID,
                           .of = r->codes ? r->of : NO_ID,
                           .pass = k->pass};
  if (r->node != NO_ID) {
    const struct model_node *n = &m->nodes[r->node];
    site.graph = n->graph;
    site.op_type = model_name_str(m, n->op_type);
    site.node_name = model_name(m, n->name);
    if (r->place)
      site.index = r->place - 1;
    else if (n->name == m->empty && r->weight == 0)
      site.index = source_index(k, r->node);
  } else if (r->weight) {
    site.graph = m->values[r->weight - 1].graph;
  }
  if (r->weight && !r->tensor.at) site.tensor = model_value_name(m, r->weight - 1);
  if (r->weight && m->values[r->weight - 1].first_use != NO_ID) {
    const uint32_t user = m->refs[m->values[r->weight - 1].first_use].node;
    if (m->nodes[user].name != m->empty) site.layer = model_name(m, m->nodes[user].name);
  }
  k->env->site(k->env->site_ctx, &site);
}

void kit_converted(struct kit *k, uint32_t node, const char *reason) {
  kit_report(k, &(struct kit_report){.node = node, .reason = reason});
}

void kit_skipped(struct kit *k, uint32_t node, const char *reason) {
  kit_report(k, &(struct kit_report){.node = node, .reason = reason, .skipped = true});
}

bool kit_skips(struct kit *k, uint32_t node, const char *why) {
  if (why) kit_skipped(k, node, why);
  return why != NULL;
}

void kit_begin(struct kit *k, uint32_t node, const char *reason) {
  kit_site(k, node, reason);
  kit_converted(k, node, reason);
}

void kit_warn(struct kit *k, const char *sentence, const char *hint) {
  if (k->env->warn) k->env->warn(k->env->warn_ctx, sentence, hint);
}
