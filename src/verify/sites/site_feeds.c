// Inputs of a site. A value that was cut on both sides is drawn once, as the source has it, and given to each side in the type
// that it has there: what differs then is the work of the nodes between, not of the elements.
#include "site_feeds.h"

#include "verify_codes.h"

#include <stdio.h>

// Elements for a value that one side alone reads: as the source has it, if it does.
static bool draw_alone(struct site_run *r, const struct site *s, int side, uint32_t value,
                       struct arena *a, struct array *x, char why[256]) {
  const struct model *m = site_run_model(r, side), *source = site_run_model(r, BEFORE);
  const uint32_t graph = site_run_graph(r, BEFORE, s->graph);
  const uint32_t name =
      side == BEFORE ? NO_ID : model_find_name(source, model_value_name(m, value));
  const uint32_t there = side == BEFORE  ? value
                         : name == NO_ID ? NO_ID
                                         : model_value_in(source, graph, name);
  if (there != NO_ID)
    return draw_value(r->draw[BEFORE], there, s->before, s->n_before, a, x, why) == DRAW_DONE;
  return draw_value(r->draw[AFTER], value, s->after, s->n_after, a, x, why) == DRAW_DONE;
}

static bool draw_pair(struct site_run *r, const struct site *s, const struct site_pair *p,
                      struct arena *a, struct array x[SIDES], char why[256]) {
  if (p->before == NO_ID || p->after == NO_ID) {
    const int side = p->before == NO_ID ? AFTER : BEFORE;
    if (!draw_alone(r, s, side, side == BEFORE ? p->before : p->after, a, &x[side], why))
      return false;
    x[!side] = x[side];
    return true;
  }
  if (draw_value(r->draw[BEFORE], p->before, s->before, s->n_before, a, &x[BEFORE], why) !=
      DRAW_DONE)
    return false;
  verify_codes_fit(site_run_model(r, AFTER), p->after, a, &x[BEFORE]);
  const enum dtype to = site_run_dtype(r->infer[AFTER], p->after);
  x[AFTER] = x[BEFORE];
  if (to == DTYPE_UNDEFINED || to == x[BEFORE].dtype) return true;
  // Elements that both types hold: through the other type and back.
  struct array there, back;
  if (!draw_retype(&x[BEFORE], to, a, &there) || !draw_retype(&there, x[BEFORE].dtype, a, &back)) {
    snprintf(why, 256, "a value is %s before and %s after", dtype_name(x[BEFORE].dtype),
             dtype_name(to));
    return false;
  }
  x[BEFORE] = back;
  x[AFTER] = there;
  return true;
}

static bool is_own(const struct site_run *r, int side, uint32_t value) {
  const struct model *m = site_run_model(r, side);
  struct model_constant found;
  return value == NO_ID || model_resolve_constant(m, value, &found) ||
         (m->values[value].kind == VALUE_INITIALIZER &&
          !(m->tensors[m->values[value].def].flags & TENSOR_SPARSE));
}

// An initializer that callers may override keeps its elements, on both sides: edits may hold for what it is alone, as where it
// is a constant from then on. Left out of what a part is given, it is a constant of the part.
static bool keeps_elements(const struct site_run *r, const struct site_pair *p) {
  return is_own(r, BEFORE, p->before) && is_own(r, AFTER, p->after);
}

// Of two values of the source that are one in the result, or the other way round, both have the same elements: the first
// pair before this one that has one of its values, or `i`.
static uint32_t fed_already(const struct site_run *r, const struct site *s, uint32_t i) {
  const struct site_pair *p = s->inputs;
  for (uint32_t k = 0; k < i; k++)
    if (!keeps_elements(r, &p[k]) && ((p[i].before != NO_ID && p[k].before == p[i].before) ||
                                      (p[i].after != NO_ID && p[k].after == p[i].after)))
      return k;
  return i;
}

// The arrays of pair `same`, for another pair: of the types that its values have.
static bool feed_again(const struct site_run *r, const struct site_pair *p,
                       const struct array fed[SIDES], struct array x[SIDES], char why[256]) {
  const uint32_t value[SIDES] = {p->before, p->after};
  for (int side = 0; side < SIDES; side++) {
    x[side] = fed[side];
    const enum dtype to =
        value[side] == NO_ID ? DTYPE_UNDEFINED : site_run_dtype(r->infer[side], value[side]);
    if (to == DTYPE_UNDEFINED || to == x[side].dtype) continue;
    snprintf(why, 256, "a value has two types, %s and %s", dtype_name(to),
             dtype_name(x[side].dtype));
    return false;
  }
  return true;
}

// Inputs of a side: those that it reads.
static void add_feed(const struct site_run *r, struct site_feeds *f, int side, uint32_t value,
                     struct array x, struct arena *a) {
  struct arrays *list = &f->of[side];
  if (value == NO_ID) return;
  x.name = arena_string(a, model_value_name(site_run_model(r, side), value));
  if (array_named(list, x.name)) return; // two pairs may share a value
  f->inputs[side][list->n] = (struct part_input){value, x.dtype, x.dims, x.rank};
  list->list[list->n++] = x;
}

bool site_feeds_draw(struct site_run *r, const struct site *s, struct arena *a,
                     struct site_feeds *f, char why[256]) {
  struct array(*drawn)[SIDES] = arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof *drawn);
  for (int side = 0; side < SIDES; side++) {
    f->of[side] =
        (struct arrays){arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof(struct array)), 0};
    f->inputs[side] = arena_zalloc(a, (s->n_inputs + (size_t)1) * sizeof(struct part_input));
  }
  for (uint32_t i = 0; i < s->n_inputs; i++) {
    const struct site_pair *p = &s->inputs[i];
    if (keeps_elements(r, p)) continue;
    const uint32_t same = fed_already(r, s, i);
    if (same < i ? !feed_again(r, p, drawn[same], drawn[i], why)
                 : !draw_pair(r, s, p, a, drawn[i], why))
      return false;
    add_feed(r, f, BEFORE, p->before, drawn[i][BEFORE], a);
    add_feed(r, f, AFTER, p->after, drawn[i][AFTER], a);
  }
  return true;
}
