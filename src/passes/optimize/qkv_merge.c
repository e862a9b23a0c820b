// The pass optimize/qkv-merge: MatMuls of one value by several weights become one.
//
//   x ─┬─▶ MatMul(Wq) ─▶ Add(bq) ─▶ q          x ─▶ MatMul(Wq|Wk|Wv) ─▶ Add(bq|bk|bv) ─▶ Split ─▶ q, k, v
//      ├─▶ MatMul(Wk) ─▶ Add(bk) ─▶ k    ──▶
//      └─▶ MatMul(Wv) ─▶ Add(bv) ─▶ v
//
// The weights [K, N] are constants of one type, and are joined along N by a recipe while they are written. Each is used
// once; otherwise it would be stored twice. The Adds are merged if each MatMul has one, with a constant bias [N]. The pass
// acts only where it saves nodes: with biases from two MatMuls on, without from three. q, k and v keep their names.
//
// It does not run before quantizing: there each weight has a range of its own, and lists of exceptions name the weights.
#include "passes/kit/dead_ends.h"
#include "passes/kit/kit.h"
#include "passes/optimize/optimize.h"

enum { MOST = 64 }; // MatMuls of one value that are merged at once

struct branch {
  uint32_t matmul, weight; // the weight's value
  uint32_t add, bias;      // NO_ID: no such Add
  uint32_t recipe, bias_recipe;
  int64_t columns;
};

struct group {
  struct branch list[MOST];
  uint32_t n;
  enum dtype dtype;
  int64_t rows;
  bool biased;
};

// The Add of a constant bias after a MatMul.
static void find_bias(struct kit *k, struct branch *b, enum dtype dtype) {
  const uint32_t y = kit_out(k, b->matmul, 0), add = kit_sole_user(k, y);
  uint32_t rank;
  b->add = NO_ID;
  if (kit_op(k, add) != OP_Add || k->m->nodes[add].graph != k->m->nodes[b->matmul].graph) return;
  const uint32_t bias = kit_in(k, add, kit_in(k, add, 0) == y ? 1 : 0);
  const uint32_t recipe = bias == y ? NO_ID : kit_recipe(k, bias);
  uint32_t tensor;
  if (recipe == NO_ID || !kit_constant(k, bias, &tensor)) return;
  const struct recipe *row = &k->r->rows[recipe];
  if (row->dtype != dtype || row->rank == 0 || row->count != (uint64_t)b->columns ||
      recipe_dims(k->r, recipe)[row->rank - 1] != b->columns)
    return;
  if (row->rank > 1 && (!kit_rank(k, y, &rank) || rank < row->rank)) return;
  b->add = add;
  b->bias = bias;
  b->bias_recipe = recipe;
}

// NULL, or why the MatMul is not merged; "": it does not multiply by a constant matrix.
static const char *find_branch(struct kit *k, const struct name_filter *nodes, uint32_t node,
                               struct branch *b) {
  uint32_t tensor;
  *b = (struct branch){.matmul = node, .weight = kit_in(k, node, 1), .add = NO_ID};
  if (kit_op(k, node) != OP_MatMul || !kit_constant(k, b->weight, &tensor) ||
      kit_constant(k, kit_in(k, node, 0), &tensor))
    return "";
  b->recipe = kit_recipe(k, b->weight);
  if (b->recipe == NO_ID || k->r->rows[b->recipe].rank != 2) return "";
  const struct recipe *row = &k->r->rows[b->recipe];
  if (!dtype_is_plain_float((enum dtype)row->dtype) || row->count == 0) return "";
  b->columns = recipe_dims(k->r, b->recipe)[1];
  const char *why = name_filter_refuses(nodes, model_name_str(k->m, k->m->nodes[node].name));
  if (why) return why;
  if (kit_constant_use_count(k, b->weight, 2) > 1) return "shared_weight";
  if (!recipe_can_grow(k->r, b->recipe)) return "many_before";
  find_bias(k, b, (enum dtype)row->dtype);
  return NULL;
}

// The MatMuls of `x` in the order of the graph, with weights like those of the first.
static void find_group(struct kit *k, const struct name_filter *nodes, uint32_t first,
                       struct group *g) {
  const uint32_t x = kit_in(k, first, 0), graph = k->m->nodes[first].graph;
  struct branch b;
  *g = (struct group){.biased = true};
  if (find_branch(k, nodes, first, &b)) return;
  g->dtype = (enum dtype)k->r->rows[b.recipe].dtype;
  g->rows = recipe_dims(k->r, b.recipe)[0];
  for (struct kit_use u = kit_uses(k, x); kit_use(k, &u) && g->n < MOST;) {
    if (u.slot != 0 || k->m->nodes[u.node].graph != graph || find_branch(k, nodes, u.node, &b))
      continue;
    if ((enum dtype)k->r->rows[b.recipe].dtype != g->dtype ||
        recipe_dims(k->r, b.recipe)[0] != g->rows)
      continue;
    uint32_t at = g->n++;
    while (at > 0 && kit_before(k, b.matmul, g->list[at - 1].matmul)) {
      g->list[at] = g->list[at - 1];
      at--;
    }
    g->list[at] = b;
    g->biased = g->biased && b.add != NO_ID;
  }
}

// All weights, or all biases, joined along the last axis; NO_ID: there can be no such recipe.
static uint32_t joined(struct kit *k, const struct group *g, bool biases) {
  uint32_t of[MOST];
  for (uint32_t i = 0; i < g->n; i++) {
    const struct branch *b = &g->list[i];
    of[i] = biases ? recipe_reshape(k->r, b->bias_recipe, &b->columns, 1) : b->recipe;
  }
  const uint32_t axis = biases ? 0 : 1;
  return recipe_can_concat(k->r, of, g->n, axis) ? recipe_concat(k->r, of, g->n, axis) : NO_ID;
}

static void merge(struct kit *k, const struct group *g, uint32_t weight, uint32_t bias) {
  const uint32_t first = g->list[0].matmul, x = kit_in(k, first, 0);
  int64_t lengths[MOST];
  kit_site(k, first, "qkv_merge");
  for (uint32_t i = 0; i < g->n; i++) {
    kit_converted(k, g->list[i].matmul, "qkv_merge");
    lengths[i] = g->list[i].columns;
  }
  uint32_t y = kit_make(k, OP_MatMul, KIT_IN(x, kit_new_tensor(k, "weight", weight)));
  if (g->biased) y = kit_make(k, OP_Add, KIT_IN(y, kit_new_tensor(k, "bias", bias)));
  const uint32_t parts = kit_make(k, OP_Split, KIT_IN(y, kit_new_ints(k, "split", lengths, g->n)),
                                  KIT_INT("axis", -1), KIT_OUTPUTS(g->n));
  const uint32_t split = kit_maker(k, parts);
  // Its outputs take the names of the removed ones.
  for (uint32_t i = 0; i < g->n; i++) {
    const struct branch *b = &g->list[i];
    const uint32_t last = g->biased ? b->add : b->matmul;
    const struct edit_output out = {.value = kit_out(k, last, 0)};
    edit_remove_node(k->e, last);
    edit_set_output(k->e, split, i, out);
    if (g->biased) {
      dead_ends_drop(k->e, b->bias);
      kit_sweep(k, b->matmul);
    } else {
      dead_ends_drop(k->e, b->weight);
    }
  }
}

struct run {
  struct kit k; // first member: a visit gets its address
  const struct name_filter *nodes;
  TABLE(uint32_t, matmuls);
  TABLE(bool, seen); // by value: its MatMuls are done
};

// A merge removes later MatMuls too, so all are collected first.
static void gather(struct kit *k, uint32_t node) {
  struct run *r = (struct run *)k;
  if (kit_op(k, node) == OP_MatMul && kit_in(k, node, 0) != NO_ID) *TABLE_PUSH(r, matmuls) = node;
}

// *seen: the other MatMuls of the same value need no visit.
static void visit(struct kit *k, const struct name_filter *nodes, uint32_t node, bool *seen) {
  struct group g;
  find_group(k, nodes, node, &g);
  if (g.n > 0) *seen = g.n < MOST;
  if (g.n < (g.biased ? 2 : 3)) return;
  const char *why = k->m->n_trainings > 0 ? "training" : NULL;
  if (!why && kit_opset(k, k->m->nodes[node].graph) < 13) why = "opset_too_old";
  const uint32_t weight = why ? NO_ID : joined(k, &g, false);
  const uint32_t bias = why || !g.biased ? NO_ID : joined(k, &g, true);
  if (!why && (weight == NO_ID || (g.biased && bias == NO_ID))) why = "too_large";
  if (!why) merge(k, &g, weight, bias);
  for (uint32_t i = 0; why && i < g.n; i++)
    kit_skipped(k, g.list[i].matmul, why);
}

static int run(struct pass_env *env, void *with, struct err *err) {
  struct run r = {.nodes = with};
  struct kit *k = &r.k;
  kit_init(k, env, env->pass->name);
  kit_infer(k);
  kit_visit(k, with, gather);
  TABLE_ADD(&r, seen, k->m->n_values);
  for (uint32_t i = 0; i < r.n_matmuls; i++) {
    const uint32_t node = r.matmuls[i];
    if (k->m->nodes[node].flags & NODE_DEAD || r.seen[kit_in(k, node, 0)]) continue;
    visit(k, r.nodes, node, &r.seen[kit_in(k, node, 0)]);
  }
  TABLES_FREE(&r, matmuls, seen);
  return kit_done(k, err);
}

const struct pass optimize_qkv_merge = {
    .name = "optimize/qkv-merge",
    .summary = "merge MatMuls of the same value by constant weights into one",
    .about = "Joins the weights of MatMuls that multiply the same value, and the biases added "
             "after them, and splits the result, if this saves nodes. Weights with other users "
             "are left unchanged.",
    .promises = "all outputs of the model are the same up to rounding",
    .exactness = EXACTNESS_ROUNDING,
    NAME_FILTER_ALONE,
    .run = run,
};
