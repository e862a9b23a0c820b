// Sites are what edits changed. The rest must be unchanged, and the replay of the log says what that is:
//
//   tensors     that no edit made or replaced, in any place (initializers, attributes, sparse ones, strings): the bytes of
//               the source are compared with those of the output
//   nodes       that no edit made: operators, attributes, slots, names and texts, equal to those after the replay. Those of an import
//               too, and of functions that came with it, which are in no site (verify_import.h)
//   the model   inputs and outputs, declared types, versions, functions, training, who made it, texts, metadata
//
// Bytes are streamed, whatever their size; nothing is run.
#include "verify/sites/verify_replay.h"

#include "compare/diff.h"
#include "compare/values/contrast.h"
#include "verify/sites/verify_import.h"

#include <string.h>

struct rest {
  struct verify *v;
  struct verify_replay *x;
  struct verify_written *w;
  struct edits theirs; // of the output: none is made, they give its tensors their recipes
  struct diff d;
  struct arena arena;
  TABLE(struct contrast_pair, pairs);
  TABLE(uint32_t, of); // the tensor of the source of each
};

static int read_onnx(void *ctx, uint32_t side, uint64_t off, void *buf, size_t n, struct err *err) {
  struct rest *r = ctx;
  return sources_read(side == DIFF_A ? r->x->exec.sources : r->w->sources, 0, off, buf, n, err);
}

static void differs(struct rest *r, const char *what) {
  struct verified *f = &r->v->found;
  if (f->rest.differs++ == 0) f->rest.first = arena_string(&f->arena, span_str(what));
}

// ---- nodes -------------------------------------------------------------------------------------

// Did the import make it, or whoever gave its operators their functions? But for strings of Constants, which are tensors in a file alone.
static bool is_imported(const struct rest *r, uint32_t node) {
  const struct model *m = r->d.m[DIFF_A];
  if (!r->v->import ||
      (model_op_is(m, node, "Constant") && model_attr_named(m, node, "value_string")))
    return false;
  if (node < r->v->import->at.exec.model.n_nodes) return true;
  const struct model_graph *g = &m->graphs[model_root_graph(m, m->nodes[node].graph)];
  return g->kind == GRAPH_FUNCTION && m->functions[g->owner].flags & FUNCTION_NEW;
}

// Is it for sites to see?
static bool is_of_a_site(const struct rest *r, uint32_t node) {
  return (r->d.m[DIFF_A]->nodes[node].flags & NODE_NEW) && !is_imported(r, node);
}

static void look_at_nodes(struct rest *r) {
  const struct diff *d = &r->d;
  const struct model *m = d->m[DIFF_A];
  for (uint32_t i = 0; i < d->n_changes; i++) {
    const uint32_t node = d->changes[i].node[DIFF_A];
    if (!is_of_a_site(r, node)) differs(r, model_node_words(m, node).s);
  }
}

static void look_at_model(struct rest *r) {
  for (uint32_t i = 0; i < r->d.n_lines; i++) {
    const struct diff_line *l = &r->d.lines[i];
    differs(r, *l->name
                   ? arena_printf(&r->arena, "%s '%s' of the model", l->what, quote_str(l->name).s)
                   : arena_printf(&r->arena, "%s of the model", l->what));
  }
}

// ---- tensors -----------------------------------------------------------------------------------

static const char *tensor_words(struct rest *r, uint32_t side, uint32_t tensor) {
  const struct model *m = r->d.m[side];
  const struct span name = diff_tensor_name(m, tensor);
  const uint32_t owner = m->tensors[tensor].owner;
  const bool of_attribute = m->tensors[tensor].home == HOME_ATTRIBUTE && owner != NO_ID;
  if (name.n == 0 && of_attribute && m->attrs[owner].node != NO_ID)
    return arena_printf(&r->arena, "tensor in attribute '%s' of %s",
                        quote(model_name(m, m->attrs[owner].name)).s,
                        model_node_words(m, m->attrs[owner].node).s);
  return arena_printf(&r->arena, "tensor '%s'", quote(name).s);
}

static bool same_form(const struct rest *r, uint32_t a, uint32_t b) {
  const struct model *ma = r->d.m[DIFF_A], *mb = r->d.m[DIFF_B];
  const struct model_tensor *p = &ma->tensors[a], *q = &mb->tensors[b];
  return p->dtype == q->dtype && p->bytes == q->bytes && model_same_dims(ma, p, mb, q);
}

// All of its data: elements, or the fields of strings. NO_ID: it has no data.
static uint32_t data_of(struct edits *e, uint32_t tensor) {
  if (!edit_tensor_readable(e, tensor)) return edit_tensor_fields(e, tensor);
  return e->m->tensors[tensor].bytes ? edit_tensor_recipe(e, tensor) : NO_ID;
}

static int ask(struct rest *r, uint32_t tensor, uint32_t twin, struct err *err) {
  bool other = !same_form(r, tensor, twin);
  if (!other && diff_kept_differs(&r->d, KEPT_TENSOR, tensor, twin, &other, err)) return -1;
  const uint32_t a = other ? NO_ID : data_of(&r->x->exec.edits, tensor),
                 b = other ? NO_ID : data_of(&r->theirs, twin);
  other = other || (a == NO_ID) != (b == NO_ID) ||
          (a != NO_ID && r->x->exec.recipes.rows[a].bytes != r->w->recipes.rows[b].bytes);
  if (other) differs(r, tensor_words(r, DIFF_A, tensor));
  if (other || a == NO_ID) return 0;
  *TABLE_PUSH(r, pairs) = (struct contrast_pair){.of = {a, b}};
  *TABLE_PUSH(r, of) = tensor;
  return 0;
}

// By node of the output: the one that an edit made in the edited model, or NO_ID.
static const uint32_t *made_nodes(struct rest *r) {
  const struct model *m = r->d.m[DIFF_A];
  const size_t bytes = (r->d.m[DIFF_B]->n_nodes + (size_t)1) * sizeof(uint32_t);
  uint32_t *made = arena_alloc(&r->arena, bytes);
  memset(made, 0xff, bytes);
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (m->nodes[i].flags & NODE_NEW && r->w->node_of[i] != NO_ID) made[r->w->node_of[i]] = i;
  return made;
}

// Is it what an edit gave a node that it made? A string is kept as a tensor only in a file. Sites see what it is.
static bool is_of_made(const struct rest *r, uint32_t tensor, const uint32_t *made) {
  const struct model *a = r->d.m[DIFF_A], *b = r->d.m[DIFF_B];
  const struct model_tensor *t = &b->tensors[tensor];
  if (t->home != HOME_ATTRIBUTE || t->owner == NO_ID || b->attrs[t->owner].node == NO_ID)
    return false;
  const uint32_t node = made[b->attrs[t->owner].node];
  return node != NO_ID && model_attr_named(a, node, model_name_str(b, b->attrs[t->owner].name));
}

static bool is_imported_tensor(const struct rest *r, const struct model_tensor *t) {
  const struct model *m = r->d.m[DIFF_A];
  return t->home == HOME_ATTRIBUTE && t->owner != NO_ID && m->attrs[t->owner].node != NO_ID &&
         is_imported(r, m->attrs[t->owner].node);
}

// Each of the output's tensors is one of the edited model's, and each of these that no edit made is as in the source.
static int pair_tensors(struct rest *r, struct err *err) {
  const struct model *const m[DIFF_SIDES] = {r->d.m[DIFF_A], r->d.m[DIFF_B]};
  for (uint32_t i = 0; i < m[DIFF_A]->n_tensors; i++) {
    const struct model_tensor *t = &m[DIFF_A]->tensors[i];
    const uint32_t twin = r->d.tensors[DIFF_A][i];
    if (t->flags & TENSOR_DEAD) continue;
    if (t->flags & (TENSOR_NEW | TENSOR_REPLACED) && !is_imported_tensor(r, t)) continue;
    if (twin == NO_ID)
      differs(r, tensor_words(r, DIFF_A, i));
    else if (ask(r, i, twin, err))
      return -1;
  }
  const uint32_t *made = made_nodes(r);
  for (uint32_t i = 0; i < m[DIFF_B]->n_tensors; i++)
    if (r->d.tensors[DIFF_B][i] == NO_ID && !is_of_made(r, i, made))
      differs(r, tensor_words(r, DIFF_B, i));
  return 0;
}

// Dims; the two tensors of each are compared as all others are.
static int look_at_sparse(struct rest *r, struct err *err) {
  const struct model *m = r->d.m[DIFF_A];
  for (uint32_t i = 0; i < m->n_sparses; i++) {
    bool other = false;
    const uint32_t twin = r->d.sparses[i], values = m->sparses[i].values;
    if (twin == NO_ID) continue; // its tensors have none either
    if (diff_kept_differs(&r->d, KEPT_SPARSE, i, twin, &other, err)) return -1;
    if (other)
      differs(r, values == NO_ID ? "dims of a sparse tensor" : tensor_words(r, DIFF_A, values));
  }
  return 0;
}

static int look_at_tensors(struct rest *r, struct err *err) {
  const struct contrast_side side[CONTRAST_SIDES] = {{&r->x->exec.recipes, r->x->exec.sources},
                                                     {&r->w->recipes, r->w->sources}};
  struct work_options options = {.memory = r->v->options.memory,
                                 .jobs = r->v->options.jobs,
                                 .stop = r->v->options.runtime.stop};
  struct contrast_stats stats;
  const char *why;
  if (pair_tensors(r, err) || look_at_sparse(r, err)) return -1;
  if (r->n_pairs == 0) return 0;
  struct contrast_found *found = arena_zalloc(&r->arena, r->n_pairs * sizeof *found);
  if (io_choose(&options.mode, &why, err) ||
      contrast_run(side, r->pairs, r->n_pairs, &options, found, &stats, err))
    return -1;
  for (uint32_t i = 0; i < r->n_pairs; i++)
    if (found[i].differs) differs(r, tensor_words(r, DIFF_A, r->of[i]));
  return 0;
}

int verify_rest(struct verify *v, struct verify_replay *x, struct verify_written *w,
                struct err *err) {
  struct rest r = {.v = v, .x = x, .w = w};
  r.d = (struct diff){.m = {&x->exec.model, &w->model}, .read = read_onnx, .ctx = &r};
  edits_init(&r.theirs, &w->model, &w->recipes);
  v->found.rest.asked = true;
  v->found.rest.of = path_base(x->exec.in_path);
  // Twins are those of the output that was matched (verify_written.h), even if another node looks like one.
  const struct diff_twins twins = {w->graph_of, w->node_of, w->value_of};
  diff_take(&r.d, &twins);
  int rc = diff_compare(&r.d, err);
  if (rc == 0) look_at_nodes(&r);
  if (rc == 0) look_at_model(&r);
  if (rc == 0) rc = look_at_tensors(&r, err);
  diff_done(&r.d);
  edits_free(&r.theirs);
  TABLES_FREE(&r, pairs, of);
  arena_free(&r.arena);
  return rc;
}
