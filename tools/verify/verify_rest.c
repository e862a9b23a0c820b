// Sites are what edits changed. The rest must be as it was, and the log, replayed, says what that is:
//
//   tensors     that no edit made or replaced: their bytes in the source, beside those of the output
//   nodes       that no edit made: operators, attributes and slots, as they are after the replay
//   the model   inputs and outputs, versions, functions
//
// Names of nodes, texts for people and metadata are nobody's numbers. Bytes are streamed, whatever their size; nothing is run.
#include "verify_rest.h"

#include "contrast.h"
#include "diff.h"
#include "fs.h"
#include "report.h"

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
  return sources_read(side == DIFF_A ? r->x->job.sources : r->w->sources, 0, off, buf, n, err);
}

static void differs(struct rest *r, const char *what) {
  struct verified *f = &r->v->found;
  if (f->rest_differs++ == 0) f->rest_first = arena_string(&f->arena, span_str(what));
}

// ---- nodes -------------------------------------------------------------------------------------

// Twins are those of the output that was matched (verify_written.h), whatever else might look like one.
static void pair_all(struct rest *r) {
  struct diff *d = &r->d;
  const struct model *const m[DIFF_SIDES] = {d->m[DIFF_A], d->m[DIFF_B]};
  memset(d->nodes[DIFF_B], 0xff, m[DIFF_B]->n_nodes * sizeof(uint32_t));
  memset(d->values[DIFF_B], 0xff, m[DIFF_B]->n_values * sizeof(uint32_t));
  for (uint32_t i = 0; i < m[DIFF_A]->n_nodes; i++) {
    const uint32_t twin = d->nodes[DIFF_A][i] = r->w->node_of[i];
    if (twin != NO_ID) d->nodes[DIFF_B][twin] = i;
  }
  for (uint32_t i = 0; i < m[DIFF_A]->n_values; i++) {
    const uint32_t twin = d->values[DIFF_A][i] = r->w->value_of[i];
    if (twin != NO_ID) d->values[DIFF_B][twin] = i;
  }
}

static bool counts(const struct rest *r, const struct diff_detail *x) {
  if (x->what == DIFF_RENAMED || x->what == DIFF_NOTES) return false;
  return x->what != DIFF_ATTR || x->a == NO_ID || !(r->d.m[DIFF_A]->attrs[x->a].flags & ATTR_DEAD);
}

static void look_at_nodes(struct rest *r) {
  static const char *const of_model[] = {"opset",  "input",   "inputs",
                                         "output", "outputs", "function"};
  const struct diff *d = &r->d;
  const struct model *m = d->m[DIFF_A];
  for (uint32_t i = 0; i < d->n_changes; i++) {
    const struct diff_change *c = &d->changes[i];
    bool other = false;
    for (uint32_t k = 0; k < c->n; k++)
      other = other || counts(r, &d->details[c->first + k]);
    if (other && !(m->nodes[c->node[DIFF_A]].flags & NODE_NEW))
      differs(r, model_node_words(m, c->node[DIFF_A]).s);
  }
  for (uint32_t i = 0; i < d->n_lines; i++)
    for (size_t k = 0; k < sizeof of_model / sizeof *of_model; k++)
      if (strcmp(d->lines[i].what, of_model[k]) == 0)
        differs(r, arena_printf(&r->arena, "%s '%s' of the model", d->lines[i].what,
                                quote_str(d->lines[i].name).s));
}

// ---- tensors -----------------------------------------------------------------------------------

static const char *tensor_words(struct rest *r, uint32_t tensor) {
  return arena_printf(&r->arena, "tensor '%s'", quote(diff_tensor_name(r->d.m[DIFF_A], tensor)).s);
}

static bool same_form(const struct rest *r, uint32_t a, uint32_t b) {
  const struct model *ma = r->d.m[DIFF_A], *mb = r->d.m[DIFF_B];
  const struct model_tensor *p = &ma->tensors[a], *q = &mb->tensors[b];
  return p->dtype == q->dtype && p->rank == q->rank &&
         memcmp(model_dims(ma, p), model_dims(mb, q), p->rank * sizeof(int64_t)) == 0;
}

static void ask(struct rest *r, uint32_t tensor, uint32_t twin) {
  if (!same_form(r, tensor, twin)) {
    differs(r, tensor_words(r, tensor));
    return;
  }
  const bool known =
      edit_tensor_readable(&r->x->job.edits, tensor) && edit_tensor_readable(&r->theirs, twin);
  if (r->d.m[DIFF_A]->tensors[tensor].bytes == 0 && known) return;
  if (!known) { // strings
    r->v->found.rest_unread++;
    return;
  }
  const uint32_t a = edit_tensor_recipe(&r->x->job.edits, tensor),
                 b = edit_tensor_recipe(&r->theirs, twin);
  *TABLE_PUSH(r, pairs) = (struct contrast_pair){.of = {a, b}};
  *TABLE_PUSH(r, of) = tensor;
}

// Is it compared nowhere: not with the attributes (which have the small ones), nor by its value?
static bool is_left(const struct model *m, uint32_t tensor) {
  struct span small;
  return m->tensors[tensor].home != HOME_INITIALIZER && diff_tensor_value(m, tensor) == NO_ID &&
         (m->tensors[tensor].home == HOME_SPARSE_INITIALIZER ||
          !model_small_value(m, tensor, &small));
}

static int look_at_tensors(struct rest *r, struct err *err) {
  const struct model *m = r->d.m[DIFF_A];
  const struct contrast_side side[CONTRAST_SIDES] = {{&r->x->job.recipes, r->x->job.sources},
                                                     {&r->w->recipes, r->w->sources}};
  struct work_options options = {.memory = r->v->options.memory,
                                 .jobs = r->v->options.jobs,
                                 .stop = r->v->options.runtime.stop};
  struct contrast_stats stats;
  const char *why;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & (TENSOR_DEAD | TENSOR_NEW | TENSOR_REPLACED)) continue;
    const uint32_t value = diff_tensor_value(m, i);
    r->v->found.rest_unread += is_left(m, i);
    if (value == NO_ID) continue;
    const uint32_t there = r->w->value_of[value];
    const uint32_t twin = there == NO_ID ? NO_ID : diff_value_tensor(r->d.m[DIFF_B], there);
    if (twin == NO_ID)
      differs(r, tensor_words(r, i));
    else
      ask(r, i, twin);
  }
  if (r->n_pairs == 0) return 0;
  struct contrast_found *found = arena_zalloc(&r->arena, r->n_pairs * sizeof *found);
  if (io_choose(&options.mode, &why, err) ||
      contrast_run(side, r->pairs, r->n_pairs, &options, found, &stats, err))
    return -1;
  for (uint32_t i = 0; i < r->n_pairs; i++)
    if (found[i].differs) differs(r, tensor_words(r, r->of[i]));
  return 0;
}

int verify_rest(struct verify *v, struct verify_replay *x, struct verify_written *w,
                struct err *err) {
  struct rest r = {.v = v, .x = x, .w = w};
  r.d = (struct diff){.m = {&x->job.model, &w->model}, .read = read_onnx, .ctx = &r};
  edits_init(&r.theirs, &w->model, &w->recipes);
  v->found.rest_asked = true;
  v->found.rest_of = path_base(x->job.in_path);
  diff_match(&r.d);
  pair_all(&r);
  int rc = diff_compare(&r.d, err);
  if (rc == 0) look_at_nodes(&r);
  if (rc == 0) rc = look_at_tensors(&r, err);
  diff_done(&r.d);
  edits_free(&r.theirs);
  TABLE_FREE(&r, pairs);
  TABLE_FREE(&r, of);
  arena_free(&r.arena);
  return rc;
}
