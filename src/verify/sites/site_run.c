// What a run over sites is made of: the sides, what draws for them, the sites and which of them are looked at.
#include "verify/sites/site_run.h"

#include "verify/run/verify_written.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// A batch of one does not show a mix-up of its members, or takes it for another axis of one.
enum { BATCH = 2 };

const struct verify_written *site_run_written(const struct site_run *r, int side) {
  return side == BEFORE ? r->e->before : r->e->written;
}

const struct model *site_run_model(const struct site_run *r, int side) {
  const struct verify_written *w = site_run_written(r, side);
  return w ? &w->model : side == BEFORE ? r->e->source : r->e->result;
}

static const struct recipes *recipes_of(const struct site_run *r, int side) {
  const struct verify_written *w = site_run_written(r, side);
  return w ? &w->recipes : side == BEFORE ? r->e->source_recipes : r->e->recipes;
}

struct sources *site_run_sources(const struct site_run *r, int side) {
  const struct verify_written *w = site_run_written(r, side);
  return w ? w->sources : r->e->sources;
}

uint32_t site_run_graph(const struct site_run *r, int side, uint32_t graph) {
  const struct verify_written *w = site_run_written(r, side);
  return w ? w->graph_of[graph] : graph;
}

enum dtype site_run_dtype(struct infer *in, uint32_t value) {
  struct infer_type t;
  return infer_type_of(in, value, &t) && t.kind == INFER_TENSOR ? t.dtype : DTYPE_UNDEFINED;
}

// ---- which sites --------------------------------------------------------------------------------

static int read_choice(struct site_run *r, struct err *err) {
  const char *word = r->v->options.sites;
  char *end;
  if (!word || strcmp(word, "all") == 0) return 0;
  errno = 0;
  const uint64_t n = strtoull(word, &end, 10);
  if (*end == '\0' && *word >= '0' && *word <= '9' && !errno) {
    r->picked = n;
    return n ? 0 : err_set(err, ERR_USAGE, "--sites 0 verifies nothing");
  }
  if (name_pattern_compile(&r->pattern, word, "--sites", err)) return -1;
  r->has_pattern = true;
  return 0;
}

static const struct edit_group_row *row_of(const struct site_run *r, uint32_t group) {
  const struct edit_groups *g = r->e->groups;
  return &g->rows[group - 1 - g->first];
}

static const char *pass_of(const struct site_run *r, uint32_t group) {
  return row_of(r, group)->pass;
}

bool site_run_rounds(const struct site_run *r, const struct site *s) {
  for (uint32_t i = 0; i < s->n_groups; i++)
    if (verify_group_rounds(&r->v->options, row_of(r, s->groups[i]))) return true;
  return false;
}

// Adds it to those that are there, as far as there is room.
static void add_pass(const char *names[SITE_PASSES], uint32_t *n, const char *pass) {
  for (uint32_t k = 0; k < *n; k++)
    if (strcmp(names[k], pass) == 0) return;
  if (*n < SITE_PASSES) names[(*n)++] = pass;
}

uint32_t site_run_passes(const struct site_run *r, const struct site *s,
                         const char *names[SITE_PASSES]) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->n_groups; i++)
    add_pass(names, &n, pass_of(r, s->groups[i]));
  if (s->n_groups > 0) return n;
  memcpy(names, r->passes, r->n_passes * sizeof *names);
  return r->n_passes;
}

static bool has_group(const struct site_run *r, const struct site *s) {
  for (uint32_t i = 0, k = 0; i < s->n_groups && k < r->n_groups;) {
    if (s->groups[i] == r->groups[k]) return true;
    *(s->groups[i] < r->groups[k] ? &i : &k) += 1;
  }
  return false;
}

bool site_run_chosen(struct site_run *r, uint32_t i, const char *name) {
  const struct site *s = &r->sites.list[i];
  const char *names[SITE_PASSES];
  struct verify_bounds ignored;
  if (r->groups) return has_group(r, s);
  if (verify_proof_of(&r->v->options, names, site_run_passes(r, s, names), &ignored,
                      &r->v->found.arena) == PIPELINE_PROOF_OFF)
    return false;
  if (r->picked && r->picked < r->sites.n)
    return i * r->picked / r->sites.n != (i + (uint64_t)1) * r->picked / r->sites.n;
  if (!r->has_pattern || name_pattern_matches(&r->pattern, name)) return true;
  for (uint32_t k = 0; k < s->n_groups; k++)
    if (name_pattern_matches(&r->pattern, pass_of(r, s->groups[k]))) return true;
  return false;
}

uint64_t site_run_bytes(const struct site_run *r, const struct site *s) {
  uint64_t n = 0;
  for (int side = 0; side < SIDES; side++)
    for (uint32_t i = 0; i < s->n_constants[side]; i++)
      n += (side == BEFORE ? r->e->source : r->e->result)
               ->tensors[s->constants[side][i].tensor]
               .bytes;
  return n + 1;
}

// ---- inputs -------------------------------------------------------------------------------------

// The result has the sizes that fit the source. What they do not fit is perhaps why it is wrong; but where it cannot have them
// (dims were set), the source has those that fit the result, and at last both get what fits each.
int site_run_draws(struct site_run *r, int64_t batch, struct draw *out[SIDES], struct err *err) {
  const struct verify_options *o = &r->v->options;
  struct draw_options draw = {.seed = o->seed,
                              .length = o->n_lengths ? o->lengths[0] : 0,
                              .batch = batch,
                              .shapes = o->shapes,
                              .n_shapes = o->n_shapes};
  const struct model *const m[SIDES] = {site_run_model(r, BEFORE), site_run_model(r, AFTER)};
  struct err why = {0};
  if (draw_open_alike(out, r->infer, m, BEFORE, &draw, &r->arena, &why)) return 0;
  if (why.kind != ERR_NONE) {
    *err = why;
    return -1;
  }
  if (draw_open_alike(out, r->infer, m, AFTER, &draw, &r->arena, &why)) return 0;
  draw.batch = 0;
  for (int side = 0; side < SIDES; side++)
    if (draw_open(&out[side], r->infer[side], site_run_model(r, side), &draw, err)) return -1;
  return 0;
}

static void close_draws(struct draw *draw[SIDES]) {
  for (int side = 0; side < SIDES; side++) {
    draw_close(draw[side]);
    draw[side] = NULL;
  }
}

// ---- all of it ----------------------------------------------------------------------------------

// By value of the source: does the result compute it in another type?
static const bool *find_retyped(struct site_run *r) {
  const struct model *m = r->e->source;
  const struct verify_written *w = r->e->written, *b = r->e->before;
  bool *retyped = arena_zalloc(&r->arena, m->n_values + (size_t)1);
  for (uint32_t i = 0; i < m->n_values; i++) {
    const uint32_t before = b ? b->value_of[i] : i, after = w ? w->value_of[i] : i;
    if (r->e->result->values[i].flags & VALUE_DEAD || before == NO_ID || after == NO_ID) continue;
    const enum dtype was = site_run_dtype(r->infer[BEFORE], before),
                     is = site_run_dtype(r->infer[AFTER], after);
    retyped[i] = was != DTYPE_UNDEFINED && is != DTYPE_UNDEFINED && was != is;
  }
  return retyped;
}

// What is computed in 16 bits in a part is rounded where it leaves it, and nowhere between.
static void find_halves(struct site_run *r) {
  const struct model *m = r->e->result;
  bool *found = &r->v->found.half_unseen;
  for (uint32_t i = 0; i < r->sites.n && !*found; i++)
    for (uint32_t k = 0; k < r->sites.list[i].n_after && !*found; k++) {
      const uint32_t node = r->sites.list[i].after[k];
      if (model_op_is(m, node, "Cast") || model_op_is(m, node, "Constant")) continue;
      for (uint32_t o = 0; o < m->nodes[node].n_out && !*found; o++) {
        const uint32_t value = model_output(m, &m->nodes[node], o);
        const uint32_t there = value == NO_ID   ? NO_ID
                               : !r->e->written ? value
                                                : r->e->written->value_of[value];
        const enum dtype t =
            there == NO_ID ? DTYPE_UNDEFINED : site_run_dtype(r->infer[AFTER], there);
        *found = t == DTYPE_FLOAT16 || t == DTYPE_BFLOAT16;
      }
    }
}

int site_run_open(struct site_run *r, struct err *err) {
  const struct verify_options *o = &r->v->options;
  const struct infer_options infer = {INFER_REFINE, 1, INT64_MAX, false};
  if (read_choice(r, err)) return -1;
  for (int side = 0; side < SIDES; side++) {
    r->infer[side] = infer_new(site_run_model(r, side), &infer);
    infer_all(r->infer[side], NULL);
    recipes_copy(&r->recipes[side], recipes_of(r, side));
    if (part_cutter_open(&r->cutter[side], site_run_model(r, side), &r->recipes[side],
                         site_run_sources(r, side), o->memory, err))
      return -1;
  }
  if (site_run_draws(r, BATCH, r->draw, err)) return -1;
  if (!r->v->found.drawn.sizes)
    r->v->found.drawn.sizes = draw_words(r->draw[BEFORE], &r->v->found.arena);
  for (uint32_t i = 0; i < r->e->groups->n_rows; i++)
    add_pass(r->passes, &r->n_passes, r->e->groups->rows[i].pass);
  sites_find(r->e->source, r->e->result, r->e->groups, find_retyped(r), &r->arena, &r->sites);
  find_halves(r);
  for (uint32_t i = 0; i < r->sites.n; i++)
    r->bytes_total += site_run_bytes(r, &r->sites.list[i]);
  return 0;
}

void site_run_close(struct site_run *r) {
  close_draws(r->draw);
  close_draws(r->of_one);
  for (int side = 0; side < SIDES; side++) {
    if (r->cutter[side]) part_cutter_close(r->cutter[side]);
    recipes_free(&r->recipes[side]);
    if (r->infer[side]) infer_free(r->infer[side]);
  }
  sites_done(&r->sites);
  if (r->has_pattern) name_pattern_done(&r->pattern);
  arena_free(&r->arena);
}
