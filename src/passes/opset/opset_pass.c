// The pass `opset`: the model under a newer opset of ai.onnx, with the same results.
//
//   opset 11                                  opset 21
//   ReduceMean<axes=[1]>(x)                   ReduceMean(x, axes)          axes = int64[1] {1}
//   Upsample<mode="nearest">(x, scales)       Resize<…, mode="nearest">(x, -, scales)
//
// The table of operators (schema.h) says at which versions a node's meaning changes, and in which steps
// (opset_rewrites.c) it then becomes what means the same; versions follow one another until the node is what it
// must be. New nodes around it are made as the version at the end wants them, and the number is raised last. A
// node that no steps are known for refuses the whole run.
//
// Ranks and types that rewrites need are inferred before the first edit: in between the nodes are
// neither of the old version nor of the new.
#include "passes/opset/opset.h"

#include "model/model_calls.h"
#include "passes/opset/inside/opset_raising.h"
#include "schema/schema.h"

struct opset_options {
  uint64_t version;
};

struct run {
  struct raising r;
  struct model_calls calls;
  struct arena look; // of the node at hand
};

// The first version above `have` at which the node means something else.
static bool next_change(struct run *w, uint32_t node, int64_t have, struct schema_change *change) {
  arena_reset(&w->look);
  if (schema_same(w->r.k->m, w->r.k->types, node, have, w->r.to, &w->look, change)) return false;
  // Functions of the model may have names in the domain of ONNX.
  return change->since_version || model_calls_callee(&w->calls, node) == NO_ID;
}

// The version with the steps that change the node; NULL: none are known.
static const struct schema_signature *steps_of(const struct model *m, uint32_t node, int64_t since,
                                               const struct schema_operator **op) {
  *op = schema_operator_of(span_str(""), model_name(m, m->nodes[node].op_type));
  const struct schema_signature *s = since ? schema_at(*op, since) : NULL;
  return s && *s->rewrite ? s : NULL;
}

static int raise_node(struct run *w, uint32_t node, struct err *err) {
  struct raising *r = &w->r;
  struct kit *k = r->k;
  struct schema_change change;
  bool begun = false;
  int64_t have = r->from;
  r->node = node;
  r->upsampled = false;
  for (; next_change(w, r->node, have, &change); have = change.since_version) {
    const struct schema_operator *op;
    const struct schema_signature *now = steps_of(k->m, r->node, change.since_version, &op);
    const char *why = NULL;
    if (now && !begun) {
      kit_site(k, node, "opset");
      kit_converted(k, node, opset_word(now->rewrite));
      begun = true;
    }
    k->before = r->node;
    r->why = NULL;
    if (now) why = opset_rewrite(r, op, now);
    if (why) change.why = why;
    if (!now || why) return kit_refuse_raise(k, r->node, r->from, r->to, &change, NULL, err);
  }
  return 0;
}

// Or might, if more were known.
static bool any_changes(struct run *w, int64_t version) {
  const struct model *m = w->r.k->m;
  struct schema_change change;
  w->r.to = version;
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (m->graphs[g].flags & GRAPH_DEAD) continue;
    const int64_t from = kit_opset(w->r.k, g);
    if (from == 0 || from >= version) continue;
    for (uint32_t n = m->graphs[g].first_node; n != NO_ID; n = m->nodes[n].next)
      if (next_change(w, n, from, &change) || change.asks_rank) return true;
  }
  return false;
}

static int raise_all(struct run *w, int64_t version, struct err *err) {
  const struct model *m = w->r.k->m;
  if (any_changes(w, version)) kit_infer(w->r.k);
  for (uint32_t g = 0; g < m->n_graphs; g++) {
    if (m->graphs[g].flags & GRAPH_DEAD) continue;
    w->r.from = kit_opset(w->r.k, g);
    if (w->r.from == 0 || w->r.from >= version) continue;
    for (uint32_t n = m->graphs[g].first_node, next; n != NO_ID; n = next) {
      next = m->nodes[n].next;
      if (raise_node(w, n, err)) return -1;
    }
  }
  kit_site(w->r.k, NO_ID, "versions");
  kit_set_opset(w->r.k, version);
  return 0;
}

int opset_raise(struct pass_env *env, int64_t version, struct err *err) {
  const struct model *m = env->m;
  struct run w = {0};
  struct kit k;
  kit_init(&k, env, env->pass->name);
  k.tells_no_dims = true;
  w.r.k = &k;
  model_calls_init(&w.calls, m);
  const int64_t have = m->main_graph == NO_ID ? 0 : kit_opset(&k, m->main_graph);
  if (have > version)
    kit_warn(&k,
             arena_printf(&k.site, "the model has opset %s, and weir cannot lower it to %s",
                          integer(have).s, integer(version).s),
             NULL);
  const int rc = kit_need_opset(&k, version, err) || raise_all(&w, version, err) ? -1 : 0;
  model_calls_done(&w.calls);
  arena_free(&w.look);
  return kit_done(&k, err) || rc ? -1 : 0;
}

static int run(struct pass_env *env, void *with, struct err *err) {
  const struct opset_options *o = with;
  const int64_t version = (int64_t)o->version, newest = schema_newest(span_str(""));
  if (version > newest) {
    err_fill(err, ERR_USAGE, "opset %s is unknown: the newest is %s", integer(version).s,
             integer(newest).s);
    return err_hint(err, "--opset 21 is what most runtimes load");
  }
  return opset_raise(env, version, err);
}

static const struct pass_option options[] = {
    {"version", PASS_COUNT, "N", NULL, "opset of ai.onnx that the model gets",
     PASS_MEMBER(opset_options, version), .required = true},
};

static int check(const void *with, const struct pass_value *values, struct err *err) {
  const struct opset_options *o = with;
  (void)values;
  if (o->version) return 0;
  err_fill(err, ERR_USAGE, "'opset' needs the version to raise the model to");
  return err_hint(err, "opset:version=21");
}

static const struct pass opset = {
    .name = "opset",
    .summary = "raise the opset, and rewrite the nodes that changed",
    .about =
        "Raises the opset of the model and of its functions. Nodes whose operator changed in "
        "between are rewritten: attributes become inputs, Upsample becomes Resize, a Softmax over "
        "several axes is placed between Flatten and Reshape. If weir cannot preserve the meaning "
        "of a node, the run fails and names the node.",
    .needs = "a known rank or type of the input, for some operators",
    .exactness = EXACTNESS_EXACT,
    PASS_OPTIONS(options, opset_options),
    .check = check,
    .run = run,
};

const struct pass *const opset_passes[] = {&opset, NULL};
