// One edit, one line, one JSON object. Keys come in a fixed order and nothing in a line depends on
// anything but the edits, so two runs that decide the same write the same bytes.
//
// Addresses carry the name for the reader: g0/v17:x. Recipes are written in place; where one only
// reads a tensor of the source, it is named by address instead of by its extents, so that logs of
// the same edits on two layouts of a model (inline, sidecar) differ in their heads alone.
#include "edit/edit_asked.h"
#include "recipe/recipe_json.h"

#include <math.h>
#include <stdlib.h>

// ---- addresses ---------------------------------------------------------------------------------

static char *put_digits(char *at, uint32_t id) {
  char room[SPAN_DIGITS];
  const struct span digits = span_digits(id, false, room);
  memcpy(at, digits.at, digits.n);
  return at + digits.n;
}

// Nearly every line has addresses: they are put together by hand.
static void put_address(struct edits *e, struct json_out *j, char kind, uint32_t graph, uint32_t id,
                        uint32_t name) {
  const struct span words = name == NO_ID ? span_of("", 0) : span_str(model_name_str(e->m, name));
  char *text = arena_alloc(&e->scratch, 2 * SPAN_DIGITS + 4 + words.n), *at = text;
  *at++ = 'g';
  at = put_digits(at, graph);
  *at++ = '/';
  *at++ = kind;
  at = put_digits(at, id);
  if (name != NO_ID) *at++ = ':';
  memcpy(at, words.at, words.n);
  json_string(j, span_of(text, (size_t)(at - text) + words.n));
}

static void put_value(struct edits *e, uint32_t value) {
  const struct model_value *v = &e->m->values[value];
  put_address(e, &e->line, 'v', v->graph, value, v->name);
}

static void put_tensor(struct edits *e, struct json_out *j, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  put_address(e, j, 't', t->graph == NO_ID ? 0 : t->graph, tensor, t->name);
}

static void put_slots(struct edits *e, const char *key, uint32_t first_ref, uint32_t n) {
  json_put_array(&e->line, key);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t value = e->m->refs[first_ref + i].value;
    if (value == NO_ID)
      json_null(&e->line);
    else
      put_value(e, value);
  }
  json_end_array(&e->line);
}

// ---- tensors and recipes -----------------------------------------------------------------------

// A recipe that is a source tensor's own elements is written as {"tensor":…,"dims":…}.
static bool put_leaf(void *ctx, struct json_out *j, uint32_t recipe) {
  struct edits *e = ctx;
  if (recipe >= e->n_origin || e->origin[recipe] == 0) return false;
  json_object(j);
  json_key(j, "tensor");
  put_tensor(e, j, e->origin[recipe] - 1);
  json_put_ints(j, "dims", recipe_dims(e->r, recipe), e->r->rows[recipe].rank);
  json_end_object(j);
  return true;
}

static void put_recipe(struct edits *e, struct json_out *j, uint32_t recipe) {
  if (e->r->rows[recipe].depth > RECIPE_MAX_DEPTH) {
    if (!e->deep) e->deep = e->r->rows[recipe].depth;
    json_null(j);
    return;
  }
  const struct recipe_json_leaves leaves = {.write = put_leaf, .ctx = e};
  recipe_json_write(j, e->r, recipe, &leaves);
}

void edit_artifact_recipe(struct edits *e, struct json_out *j, uint32_t recipe) {
  put_recipe(e, j, recipe);
  arena_reset(&e->scratch);
}

// "tensor", "dtype", "dims", "recipe" of a tensor made by an edit.
static void put_data(struct edits *e, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  json_key(&e->line, "tensor");
  put_tensor(e, &e->line, tensor);
  json_put_text(&e->line, "dtype", dtype_name((enum dtype)t->dtype));
  json_put_ints(&e->line, "dims", model_dims(e->m, t), t->rank);
  json_key(&e->line, "recipe");
  put_recipe(e, &e->line, t->recipe);
}

// ---- attributes and types ----------------------------------------------------------------------

// The shortest decimal that reads back as this float (through a double, as json_as_double does);
// NaN by its bits, because its payload has no decimal.
static void put_float(struct json_out *j, float f) {
  if (isnan(f)) {
    uint32_t bits;
    char hex[9];
    memcpy(&bits, &f, 4);
    snprintf(hex, sizeof hex, "%08x", (unsigned)bits);
    json_object(j);
    json_put_text(j, "bits", hex);
    json_end_object(j);
    return;
  }
  char digits[40];
  double x = (double)f;
  for (int n = 1; n <= 9 && !isinf(f); n++) {
    snprintf(digits, sizeof digits, "%.*g", n, (double)f);
    x = strtod(digits, NULL);
    if ((float)x == f) break;
  }
  json_double(j, (float)x == f ? x : (double)f);
}

const char *const edit_attr_words[] = {
    [ATTR_UNDEFINED] = NULL,  [ATTR_FLOAT] = "float",   [ATTR_INT] = "int",
    [ATTR_STRING] = "string", [ATTR_TENSOR] = "tensor", [ATTR_GRAPH] = "graph",
    [ATTR_FLOATS] = "floats", [ATTR_INTS] = "ints",     [ATTR_STRINGS] = "strings"};

// {"int":1}, {"tensor":…}, … of an attribute row; null for a dead one, and for one of a function that has no default.
static void put_attr(struct edits *e, const struct model_attr *a) {
  struct json_out *j = &e->line;
  if (a->flags & ATTR_DEAD || (a->type == ATTR_UNDEFINED && a->ref_name == e->m->empty)) {
    json_null(j);
    return;
  }
  json_object(j);
  if (a->ref_name != e->m->empty) {
    json_put_string(j, "ref", model_name(e->m, a->ref_name));
    json_put_text(j, "type", edit_attr_words[a->type]);
    json_end_object(j);
    return;
  }
  switch ((enum attr_type)a->type) {
  case ATTR_INT: json_put_int(j, "int", a->u.i); break;
  case ATTR_FLOAT:
    json_key(j, "float");
    put_float(j, a->u.f);
    break;
  case ATTR_STRING: json_put_string(j, "string", model_name(e->m, a->u.s)); break;
  case ATTR_INTS: json_put_ints(j, "ints", e->m->longs + a->first, a->count); break;
  case ATTR_FLOATS:
    json_put_array(j, "floats");
    for (uint32_t i = 0; i < a->count; i++)
      put_float(j, e->m->floats[a->first + i]);
    json_end_array(j);
    break;
  case ATTR_STRINGS:
    json_put_array(j, "strings");
    for (uint32_t i = 0; i < a->count; i++)
      json_string(j, model_name(e->m, e->m->strings[a->first + i]));
    json_end_array(j);
    break;
  case ATTR_TENSOR: put_data(e, a->first); break;
  default: json_put_text(j, "graph", arena_printf(&e->scratch, "g%u", a->first));
  }
  json_end_object(j);
}

// A size past 2^53 would be a string, as a name is: it gets a form of its own.
static void put_size(struct json_out *j, int64_t size) {
  const bool large = size > (int64_t)1 << 53;
  if (large) {
    json_object(j);
    json_key(j, "size");
  }
  json_int(j, size);
  if (large) json_end_object(j);
}

static void put_type(struct edits *e, const struct edit_asked *x) {
  struct json_out *j = &e->line;
  json_put_text(j, "dtype", x->dtype == DTYPE_UNDEFINED ? NULL : dtype_name(x->dtype));
  if (x->rank == NO_ID) return;
  json_put_array(j, "dims");
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dims[i].value >= 0)
      put_size(j, x->dims[i].value);
    else if (x->dims[i].param == e->m->empty)
      json_null(j);
    else
      json_string(j, model_name(e->m, x->dims[i].param));
  json_end_array(j);
}

// ---- the line ----------------------------------------------------------------------------------

static void put_attrs(struct edits *e, uint32_t first, uint32_t n) {
  if (n == 0) return;
  json_put_object(&e->line, "attrs");
  for (uint32_t i = 0; i < n; i++) {
    const struct model_attr *a = &e->m->attrs[first + i];
    json_key(&e->line, model_name_str(e->m, a->name));
    put_attr(e, a);
  }
  json_end_object(&e->line);
}

static void put_field(struct edits *e, const struct edit_asked *x, const struct edit_field *f) {
  struct json_out *j = &e->line;
  const struct model *m = e->m;
  const void *at = (const uint8_t *)x + f->at;
  const uint32_t *id = at;
  const struct span *text = at;
  switch (f->type) {
  case FIELD_NUMBER: json_put_int(j, f->keys, *(const int64_t *)at); break;
  case FIELD_POSITION: json_put_uint(j, f->keys, *id); break;
  case FIELD_TEXT:
    if (text->n > 0) json_put_string(j, f->keys, *text);
    break;
  case FIELD_STRING: json_put_string(j, f->keys, *text); break;
  case FIELD_DIGEST: json_put_hex(j, f->keys, at, sizeof x->sha256); break;
  case FIELD_NODE:
  case FIELD_NEW_NODE:
  case FIELD_MAKER:
    if (*id == NO_ID) break;
    json_key(j, f->keys);
    put_address(e, j, 'n', m->nodes[*id].graph, *id, NO_ID);
    break;
  case FIELD_VALUE:
  case FIELD_NEW_VALUE:
  case FIELD_OUTPUT:
    if (*id == NO_ID) break;
    json_key(j, f->keys);
    put_value(e, *id);
    break;
  case FIELD_TENSOR:
    json_key(j, f->keys);
    put_tensor(e, j, *id);
    break;
  case FIELD_GRAPH: json_put_text(j, f->keys, arena_printf(&e->scratch, "g%u", *id)); break;
  case FIELD_FUNCTION: json_put_text(j, f->keys, arena_printf(&e->scratch, "f%u", *id)); break;
  case FIELD_NEW_TENSOR:
  case FIELD_SEEN_TENSOR:
  case FIELD_DATA: put_data(e, *id); break;
  case FIELD_TYPE: put_type(e, x); break;
  case FIELD_INPUTS: put_slots(e, f->keys, m->nodes[x->node].refs, x->spec.n_in); break;
  case FIELD_OUTPUTS:
    put_slots(e, f->keys, m->nodes[x->node].refs + x->spec.n_in, x->spec.n_out);
    break;
  case FIELD_ATTRS: put_attrs(e, m->nodes[x->node].attrs, m->nodes[x->node].n_attrs); break;
  case FIELD_DEFAULTS:
    put_attrs(e, m->functions[x->function].attrs, m->functions[x->function].n_attrs);
    break;
  case FIELD_ATTR:
    json_key(j, f->keys);
    put_attr(e, &m->attrs[*id]);
    break;
  case FIELD_RECIPES:
    json_put_array(j, f->keys);
    for (uint32_t i = 0; i < x->n_of; i++)
      put_recipe(e, j, x->of[i]);
    json_end_array(j);
    break;
  }
}

void edit_line(struct edits *e, const struct edit_asked *x) {
  const struct edit_kind_row *kind = &edit_kinds[x->kind];
  struct json_out *j = &e->line;
  if (!e->sink) return;
  json_object(j);
  json_put_text(j, "edit", kind->word);
  for (const struct edit_field *f = kind->fields; f->keys; f++)
    put_field(e, x, f);
  json_end_object(j);
  json_newline(j);
  if (!e->failed && e->sink(e->sink_ctx, span_of(j->text, j->n)) < 0) e->failed = true;
  j->n = 0;
}
