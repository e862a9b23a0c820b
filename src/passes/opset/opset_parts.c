// What rewrites are made of: attributes that become inputs, nodes put around one.
#include "passes/opset/inside/opset_raising.h"

enum kit_state opset_given(struct raising *r, const char *name, enum attr_type type,
                           struct kit_attr *a) {
  struct arena *site = &r->k->site;
  const enum kit_state state = kit_attr(r->k, r->node, name, a);
  if (state == KIT_UNKNOWN || (state == KIT_GIVEN && a->type != type)) {
    const char *of =
        kit_refers(r->k->m, r->node) ? "is set by the callers of a function" : "has the wrong type";
    r->why = arena_printf(site, "its attribute '%s' %s", name, of);
    return KIT_UNKNOWN;
  }
  if (state != KIT_GIVEN) return KIT_ABSENT;
  if (type == ATTR_INTS) {
    int64_t *copy = arena_copy(site, a->ints, a->n * sizeof *copy);
    a->ints = copy;
  } else if (type == ATTR_FLOATS) {
    float *copy = arena_copy(site, a->floats, a->n * sizeof *copy);
    a->floats = copy;
  } else if (type == ATTR_STRING) {
    a->s = span_of(arena_string(site, a->s), a->s.n);
  }
  return KIT_GIVEN;
}

void opset_drop(struct raising *r, const char *name) {
  if (!model_attr_named(r->k->m, r->node, name)) return;
  edit_set_attr(r->k->e, r->node, &(struct edit_attr){.name = name, .type = ATTR_UNDEFINED});
}

void opset_put_int(struct raising *r, const char *name, int64_t x) {
  edit_set_attr(r->k->e, r->node, &(struct edit_attr){.name = name, .type = ATTR_INT, .i = x});
}

void opset_put_text(struct raising *r, const char *name, const char *text) {
  edit_set_attr(r->k->e, r->node,
                &(struct edit_attr){.name = name, .type = ATTR_STRING, .s = span_str(text)});
}

void opset_put_input(struct raising *r, uint32_t slot, uint32_t value) {
  while (r->k->m->nodes[r->node].n_in < slot)
    edit_set_input(r->k->e, r->node, r->k->m->nodes[r->node].n_in, NO_ID);
  edit_set_input(r->k->e, r->node, slot, value);
}

uint32_t opset_new_floats(struct raising *r, const char *what, const float *list, uint32_t n) {
  const int64_t dim = n;
  const struct span raw = span_of(list, n * sizeof *list);
  return kit_new_tensor(r->k, what, recipe_bytes(r->k->r, DTYPE_FLOAT, &dim, 1, raw));
}

uint32_t opset_unsqueezed(struct raising *r, uint32_t value, const int64_t *axes, uint32_t n) {
  struct kit *k = r->k;
  if (r->to < 13) return kit_make(k, OP_Unsqueeze, KIT_IN(value), KIT_INTS("axes", axes, n));
  return kit_make(k, OP_Unsqueeze, KIT_IN(value, kit_new_ints(k, "axes", axes, n)));
}

uint32_t opset_rename_output(struct raising *r, uint32_t slot, const char *what) {
  struct kit *k = r->k;
  edit_set_output(k->e, r->node, slot, (struct edit_output){NO_ID, kit_name(k, what)});
  k->before = k->m->nodes[r->node].next;
  return kit_out(k, r->node, slot);
}
