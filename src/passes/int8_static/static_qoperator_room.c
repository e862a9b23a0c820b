// Room for biases that several operators on codes have next to one weight, or next to one that is computed.
//
//   QLinearConv(x, w, b)                w_scale as large as the codes of b in int32 need it
//   QLinearConv(y, w, c)                and those of c next to y
//   QLinearConv(x, QLinear…(v), b)      the scale of the codes that the weight is made of
//
// While nodes are looked at, a constant weight has room for the bias of the first that took it. Which others come is known in the end:
// then its scales grow once more, and all codes that were made by them, or by those of x, are made again: those of biases, and of the
// numbers that a Pad puts. A scale that is larger needs no
// other zero point: the codes come nearer to it. A weight that other nodes take too is copied where the room would take their codes
// (static_apart.c). (compat: the existing tool does this for the second at once, and leaves the codes of
// the first bias; here this is done where there are more of them.)
#include "passes/int8_static/inside/static_apart.h"
#include "passes/int8_static/inside/static_qoperator.h"

void static_qoperator_note_biased(struct static_qoperator_run *q, const struct static_held *x,
                                  const struct static_held *w,
                                  const struct static_biased *product) {
  struct kit *k = &q->s->k;
  struct static_biased *b = TABLE_PUSH(q, biased);
  struct model_constant c;
  *b = *product;
  b->x_scale = x->scale;
  b->w_scale = w->scale;
  b->x = x->known ? x->scale_is : 0;
  b->x_recipe = kit_recipe(k, x->scale);
  b->w_recipe = kit_recipe(k, w->scale);
  if (!w->constant || !model_resolve_constant(k->m, b->weight, &c) || c.tensor >= q->n_coded_of)
    return;
  for (uint32_t i = q->coded_of[c.tensor]; i && !b->coded; i = q->coded[i - 1].next)
    if (q->coded[i - 1].held.codes == w->codes) b->coded = i;
}

// The scale of x next to that bias: the number that it was, or a recipe.
static uint32_t x_scale_of(struct static_qoperator_run *q, const struct static_biased *b) {
  struct recipes *r = q->s->k.r;
  return b->x > 0 ? int8_floats(r, (enum dtype)r->rows[b->x_recipe].dtype, &b->x, NO_ID)
                  : recipe_reshape(r, b->x_recipe, NULL, 0);
}

// `scales` with room for all biases of a list.
static uint32_t with_room(struct static_qoperator_run *q, uint32_t scales, uint32_t list) {
  struct static_run *s = q->s;
  struct arena a = {0};
  uint32_t n = 0, count = 0;
  for (uint32_t i = list; i; i = q->biased[i - 1].next)
    n++;
  struct static_need *needs = arena_alloc(&a, (n + (size_t)1) * sizeof *needs);
  uint32_t *lists = arena_alloc(&a, (n + (size_t)1) * sizeof *lists);
  n = 0;
  for (uint32_t i = list; i; i = q->biased[i - 1].next, n++)
    needs[n] =
        (struct static_need){.bias = static_recipe(s, q->biased[i - 1].bias),
                             .row = i - 1,
                             .x = q->biased[i - 1].x * (s->o->compat ? 1 : q->biased[i - 1].reach)};
  if (n > STATIC_NESTED) n = static_least_needs(needs, n);
  for (uint32_t i = 0; i < n; i++) {
    const struct static_biased *b = &q->biased[needs[i].row];
    const double factor = s->o->compat ? 1 : b->reach;
    const uint32_t roomy = static_qoperator_roomy(q, scales, b->bias, x_scale_of(q, b), factor);
    if (roomy == NO_ID) continue;
    if (n <= STATIC_NESTED) scales = roomy;
    lists[count++] = roomy;
  }
  if (n > STATIC_NESTED && count > 0) scales = static_largest(s->k.r, lists, count);
  arena_free(&a);
  return scales;
}

// The scales of a constant weight that a product wants; NO_ID: no more than its elements do.
static uint32_t claimed(struct static_qoperator_run *q, const struct static_biased *b) {
  return static_qoperator_roomy(q, q->coded[b->coded - 1].found, b->bias, x_scale_of(q, b),
                                b->reach);
}

// Edits of this kind are about no node.
static void begin(struct static_qoperator_run *q) {
  kit_site(&q->s->k, NO_ID, "room_for_biases");
}

static void widen_coded(struct static_qoperator_run *q, struct static_coded *c, uint32_t list) {
  struct static_run *s = q->s;
  const bool theirs =
      c->entry.as.type == DTYPE_INT8 && c->entry.as.symmetric && s->o->weight == DTYPE_INT8;
  if (s->o->compat && !theirs) return;
  const uint32_t scales = with_room(q, c->found, list);
  if (scales == c->entry.scales) return;
  c->entry.scales = scales;
  c->codes_recipe = static_weight_codes(s, &c->entry);
  begin(q);
  static_qoperator_write_again(q, c);
}

static void widen_computed(struct static_qoperator_run *q, uint32_t scale, uint32_t list) {
  struct kit *k = &q->s->k;
  struct model_constant c;
  const uint32_t found = kit_recipe(k, scale);
  if (found == NO_ID || q->s->o->compat || !model_resolve_constant(k->m, scale, &c)) return;
  const uint32_t scales = with_room(q, found, list);
  if (scales == found) return;
  begin(q);
  edit_replace_tensor(k->e, c.tensor, scales);
}

// The codes of a bias by the scales that there are now.
static void renew_bias(struct static_qoperator_run *q, const struct static_biased *b) {
  struct kit *k = &q->s->k;
  const uint32_t x = kit_recipe(k, b->x_scale), w = kit_recipe(k, b->w_scale);
  struct model_constant codes;
  if (b->codes == NO_ID || (x == b->x_recipe && w == b->w_recipe) ||
      !model_resolve_constant(k->m, b->codes, &codes))
    return;
  const struct int8_parts parts = static_qoperator_bias_parts(q, b->bias, x, w, b->factor);
  if (parts.codes == NO_ID) return;
  begin(q);
  edit_replace_tensor(k->e, codes.tensor, parts.codes);
}

// The code of the number that a Pad puts, by the scale that there is now.
static void renew_padded(struct static_qoperator_run *q, const struct static_padded *p) {
  struct kit *k = &q->s->k;
  const struct int8_weight_as as = {.type = p->type, .axis = RECIPE_PER_TENSOR};
  const uint32_t scale = kit_recipe(k, p->scale);
  struct model_constant c;
  if (scale == p->made_by || !model_resolve_constant(k->m, p->codes, &c)) return;
  const uint32_t codes = int8_given(k->r, p->number, &as, scale, kit_recipe(k, p->zero)).codes;
  if (codes == NO_ID) return;
  begin(q);
  edit_replace_tensor(k->e, c.tensor, codes);
}

// ---- copies --------------------------------------------------------------------------------------

enum { WEIGHT_AT = 3 }; // of QLinearConv and QGemm: codes, scale, zero point

// The product takes that row's codes.
static void take_copy(struct static_qoperator_run *q, struct static_biased *b, uint32_t coded) {
  const struct static_held *w = &q->coded[coded - 1].held;
  const uint32_t in[3] = {w->codes, w->scale, w->zero};
  for (uint32_t i = 0; i < 3; i++)
    edit_set_input(q->s->k.e, b->node, WEIGHT_AT + i, in[i]);
  b->coded = coded;
  b->w_scale = w->scale;
}

static uint32_t copy_coded(struct static_qoperator_run *q, uint32_t of) {
  struct static_coded *c = TABLE_PUSH(q, coded);
  *c = q->coded[of];
  c->entry.scales = c->found;
  c->codes_recipe = static_weight_codes(q->s, &c->entry);
  c->alone = true;
  static_qoperator_write(q, c);
  return q->n_coded;
}

static int part_weights(struct static_qoperator_run *q) {
  struct kit *k = &q->s->k;
  struct arena a = {0};
  struct static_claim *list = arena_alloc(&a, (q->n_biased + (size_t)1) * sizeof *list);
  bool *others = arena_alloc(&a, (q->n_coded + (size_t)1) * sizeof *others);
  uint32_t *taken = arena_zalloc(&a, (q->n_coded + (size_t)1) * sizeof *taken), n = 0;
  const uint32_t n_coded = q->n_coded;
  for (uint32_t i = 0; i < q->n_biased; i++) {
    const struct static_biased *b = &q->biased[i];
    if (!b->coded) continue;
    const uint32_t with = claimed(q, b);
    if (with == NO_ID) continue;
    list[n++] = (struct static_claim){
        .weight = b->coded - 1, .row = i, .natural = q->coded[b->coded - 1].found, .roomy = with};
    taken[b->coded - 1]++;
  }
  for (uint32_t i = 0; i < n_coded; i++)
    others[i] = taken[i] && kit_use_count(k, q->coded[i].held.codes, taken[i] + 1) > taken[i];
  const int rc = static_part_claims(q->s, list, n, others, q->err);
  for (uint32_t i = 0, made = 0; i < n && rc == 0; i++) {
    struct static_biased *b = &q->biased[list[i].row];
    if (list[i].copy == 0) continue;
    if (i == 0 || list[i - 1].weight != list[i].weight || list[i - 1].copy != list[i].copy) {
      kit_site(k, b->node, "own_weight");
      made = copy_coded(q, list[i].weight);
      q->coded[list[i].weight].alone = true;
    }
    take_copy(q, b, made);
  }
  arena_free(&a);
  return rc;
}

// Has the list more products than one took care of while it looked?
static bool has_more(const struct static_qoperator_run *q, uint32_t list) {
  const uint32_t seen = q->s->o->compat ? STATIC_NESTED : 1;
  uint32_t n = 0;
  for (uint32_t i = list; i && n <= seen; i = q->biased[i - 1].next)
    n++;
  return n > seen;
}

int static_qoperator_make_room(struct static_qoperator_run *q) {
  struct kit *k = &q->s->k;
  if (!q->s->o->compat && part_weights(q)) return -1;
  struct arena a = {0};
  const size_t room = q->n_coded + (size_t)k->m->n_values + 1;
  uint32_t *first = arena_zalloc(&a, room * sizeof *first); // by weight: 1 + its first product
  for (uint32_t i = q->n_biased; i > 0; i--) {
    struct static_biased *b = &q->biased[i - 1];
    const size_t at = b->coded ? b->coded - 1 : q->n_coded + (size_t)b->w_scale;
    b->next = first[at];
    first[at] = i;
  }
  for (uint32_t i = 0; i < q->n_coded; i++)
    if (q->coded[i].alone || has_more(q, first[i])) widen_coded(q, &q->coded[i], first[i]);
  for (size_t v = 0; v < k->m->n_values; v++)
    if (first[q->n_coded + v]) widen_computed(q, (uint32_t)v, first[q->n_coded + v]);
  for (uint32_t i = 0; i < q->n_biased; i++) {
    const struct static_biased *b = &q->biased[i];
    if (!q->s->o->compat || (b->coded && has_more(q, first[b->coded - 1]))) renew_bias(q, b);
  }
  for (uint32_t i = 0; i < q->n_padded && !q->s->o->compat; i++)
    renew_padded(q, &q->padded[i]);
  arena_free(&a);
  return 0;
}
