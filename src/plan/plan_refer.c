// Placement as for an external layout, and then each tensor that is a copy of bytes of one file is put where these lie, in
// a data file that is the source's own. Emission knows nothing of it: it writes a location, an offset and a length. What no file
// has (other forms of bytes, what edits made) is laid out in a file of the plan.
#include "plan/plan_refer.h"

#include "plan/emit_parts.h"
#include "plan/placement.h"
#include "plan/rope.h"

#define ONNX_MAX_BYTES ((uint64_t)INT32_MAX)

struct referring {
  struct plan *p;
  const struct model *m;
  const struct plan_refer *how;
  struct placement x;
  struct rope_pool pool;
  uint64_t end; // of the data file
};

static bool is_small(const struct referring *f, uint32_t tensor) {
  struct span elements;
  const struct model_tensor *t = &f->m->tensors[tensor];
  return t->bytes < f->how->inline_below ||
         (t->recipe == NO_ID && model_small_value(f->m, tensor, &elements));
}

// Where an earlier tensor has the same bytes lies this one too: they had one place in the layout before.
static void lay_out(struct referring *f, struct arena *a) {
  struct placement *x = &f->x;
  const uint32_t own = f->m->n_files;
  const struct recipes *r = f->p->recipes;
  uint64_t *moved = arena_alloc(a, (r->n_rows + (size_t)1) * sizeof *moved); // by recipe
  memset(moved, 0xff, (r->n_rows + (size_t)1) * sizeof *moved);
  const char **names = arena_alloc(&x->arena, (own + (size_t)1) * sizeof *names);
  for (uint32_t i = 0; i < own; i++)
    names[i] = f->how->locations[i];
  names[own] = f->how->data_location;
  x->data_names = names;
  x->n_data = own + 1;
  for (uint32_t i = 0; i < f->m->n_tensors; i++) {
    struct extent at;
    if (x->of[i] != PLACE_SIDECAR) continue;
    const uint32_t recipe = x->recipe[i];
    if (is_small(f, i)) {
      x->of[i] = PLACE_INLINE;
    } else if (recipe_is_copy(r, recipe, &at)) {
      x->data[i] = at.file;
      x->off[i] = at.off;
    } else {
      x->data[i] = own;
      if (moved[recipe] == UINT64_MAX) {
        const uint64_t to = round_up(f->end, model_data_alignment(f->m->tensors[i].bytes));
        struct plan *p = f->p;
        if (to > f->end)
          *TABLE_PUSH(p, segments) =
              (struct segment){.off = f->end, .len = to - f->end, .kind = SEGMENT_ZERO};
        *TABLE_PUSH(p, segments) = (struct segment){
            .off = to, .len = r->rows[recipe].bytes, .ref = recipe, .kind = SEGMENT_RECIPE};
        moved[recipe] = to;
        f->end = to + r->rows[recipe].bytes;
      }
      x->off[i] = moved[recipe];
    }
  }
}

int plan_refer_build(struct plan *p, const struct model *m, struct recipes *r,
                     const struct plan_refer *how, struct err *err) {
  const struct plan_layout layout = {
      .form = PLAN_DATA_EXTERNAL, .onnx_name = how->onnx_name, .inline_below = how->inline_below};
  struct referring f = {.p = p, .m = m, .how = how};
  struct arena a = {0};
  *p = (struct plan){.recipes = r};
  f.pool.plan = p;
  int rc = placement_decide(&f.x, p, m, &layout, true, err);
  if (rc == 0) {
    lay_out(&f, &a);
    if (f.end > 0) rope_end_output(p, 0, how->data_name, f.end);
    const struct rope body = emit_model(&f.pool, m, &f.x);
    rope_output(&f.pool, how->onnx_name, body);
    if (body.len > ONNX_MAX_BYTES)
      rc = err_set(err, ERR_FAIL,
                   "the model has %s bytes without its weights, more than ONNX Runtime can read",
                   decimal(body.len).s);
  }
  rope_pool_free(&f.pool);
  placement_free(&f.x);
  arena_free(&a);
  if (rc) plan_free(p);
  return rc;
}
