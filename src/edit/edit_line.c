// One edit, one line, one JSON object. Keys come in a fixed order and nothing in a line depends on
// anything but the edits, so two runs that decide the same write the same bytes.
//
// Addresses carry the name for the reader: g0/v17:x. Recipes are written in place; where one only
// reads a tensor of the source, it is named by address instead of by its extents, so that logs of
// the same edits on two layouts of a model (inline, sidecar) differ in their heads alone.
#include "edit_line.h"

#include "recipe_json.h"

#include <math.h>
#include <stdlib.h>

bool edit_line_begin(struct edits *e, const char *kind) {
  if (!e->sink) return false;
  json_object(&e->line);
  json_put_text(&e->line, "edit", kind);
  return true;
}

void edit_line_end(struct edits *e) {
  if (!e->sink) return;
  json_end_object(&e->line);
  json_newline(&e->line);
  if (!e->failed && e->sink(e->sink_ctx, span_of(e->line.text, e->line.n)) < 0) e->failed = true;
  e->line.n = 0;
}

// ---- addresses ---------------------------------------------------------------------------------

static void put_address(struct edits *e, struct json_out *j, char kind, uint32_t graph, uint32_t id,
                        uint32_t name) {
  const char *text = name == NO_ID ? arena_printf(&e->scratch, "g%u/%c%u", graph, kind, id)
                                   : arena_printf(&e->scratch, "g%u/%c%u:%s", graph, kind, id,
                                                  model_name_str(e->m, name));
  json_text(j, text);
}

static void put_value(struct edits *e, uint32_t value) {
  const struct model_value *v = &e->m->values[value];
  put_address(e, &e->line, 'v', v->graph, value, v->name);
}

static void put_tensor(struct edits *e, struct json_out *j, uint32_t tensor) {
  const struct model_tensor *t = &e->m->tensors[tensor];
  put_address(e, j, 't', t->graph == NO_ID ? 0 : t->graph, tensor, t->name);
}

void edit_line_node(struct edits *e, const char *key, uint32_t node) {
  if (!e->sink || node == NO_ID) return;
  json_key(&e->line, key);
  put_address(e, &e->line, 'n', e->m->nodes[node].graph, node, NO_ID);
}

void edit_line_node_name(struct edits *e, uint32_t node) {
  if (node == NO_ID || e->m->nodes[node].name == e->m->empty) return;
  edit_line_string(e, "name", model_name(e->m, e->m->nodes[node].name));
}

void edit_line_value(struct edits *e, const char *key, uint32_t value) {
  if (!e->sink || value == NO_ID) return;
  json_key(&e->line, key);
  put_value(e, value);
}

void edit_line_graph(struct edits *e, const char *key, uint32_t graph) {
  if (!e->sink || graph == NO_ID) return;
  json_put_text(&e->line, key, arena_printf(&e->scratch, "g%u", graph));
}

void edit_line_string(struct edits *e, const char *key, struct span text) {
  if (!e->sink) return;
  json_put_string(&e->line, key, text);
}

void edit_line_text(struct edits *e, const char *key, struct span text) {
  if (text.n > 0) edit_line_string(e, key, text);
}

void edit_line_int(struct edits *e, const char *key, int64_t x) {
  if (!e->sink) return;
  json_put_int(&e->line, key, x);
}

void edit_line_slots(struct edits *e, const char *key, uint32_t first_ref, uint32_t n) {
  if (!e->sink) return;
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

static void put_dims(struct json_out *j, const int64_t *dims, uint32_t rank) {
  json_put_ints(j, "dims", dims, rank);
}

// A recipe that is a source tensor's own elements is written as {"tensor":…,"dims":…}.
static bool put_leaf(void *ctx, struct json_out *j, uint32_t recipe) {
  struct edits *e = ctx;
  if (recipe >= e->n_origin || e->origin[recipe] == 0) return false;
  json_object(j);
  json_key(j, "tensor");
  put_tensor(e, j, e->origin[recipe] - 1);
  put_dims(j, recipe_dims(e->r, recipe), e->r->rows[recipe].rank);
  json_end_object(j);
  return true;
}

void edit_line_recipe(struct edits *e, struct json_out *j, uint32_t recipe) {
  const struct recipe_json_leaves leaves = {.write = put_leaf, .ctx = e};
  recipe_json_write(j, e->r, recipe, &leaves);
}

void edit_line_tensor_address(struct edits *e, uint32_t tensor) {
  if (!e->sink) return;
  json_key(&e->line, "tensor");
  put_tensor(e, &e->line, tensor);
}

void edit_line_tensor(struct edits *e, uint32_t tensor) {
  if (!e->sink) return;
  const struct model_tensor *t = &e->m->tensors[tensor];
  edit_line_tensor_address(e, tensor);
  json_put_text(&e->line, "dtype", dtype_name((enum dtype)t->dtype));
  put_dims(&e->line, model_dims(e->m, t), t->rank);
  json_key(&e->line, "recipe");
  edit_line_recipe(e, &e->line, t->recipe);
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

void edit_line_attr_value(struct edits *e, uint32_t attr) {
  const struct model_attr *a = &e->m->attrs[attr];
  struct json_out *j = &e->line;
  if (!e->sink) return;
  if (a->flags & ATTR_DEAD) {
    json_null(j);
    return;
  }
  json_object(j);
  switch ((enum attr_type)a->type) {
  case ATTR_INT: json_put_int(j, "int", a->u.i); break;
  case ATTR_FLOAT:
    json_key(j, "float");
    put_float(j, a->u.f);
    break;
  case ATTR_STRING: json_put_string(j, "string", model_name(e->m, a->u.s)); break;
  case ATTR_INTS:
  case ATTR_FLOATS:
    json_key(j, a->type == ATTR_INTS ? "ints" : "floats");
    json_array(&e->line);
    for (uint32_t i = 0; i < a->count; i++)
      if (a->type == ATTR_INTS)
        json_int(&e->line, e->m->longs[a->first + i]);
      else
        put_float(&e->line, e->m->floats[a->first + i]);
    json_end_array(&e->line);
    break;
  case ATTR_TENSOR: edit_line_tensor(e, a->first); break;
  default: edit_line_graph(e, "graph", a->first);
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

void edit_line_type(struct edits *e, enum dtype dtype, const struct model_dim *dims,
                    uint32_t rank) {
  struct json_out *j = &e->line;
  if (!e->sink) return;
  json_key(j, "dtype");
  if (dtype == DTYPE_UNDEFINED)
    json_null(j);
  else
    json_text(j, dtype_name(dtype));
  if (rank == NO_ID) return;
  json_put_array(j, "dims");
  for (uint32_t i = 0; i < rank; i++)
    if (dims[i].value >= 0)
      put_size(j, dims[i].value);
    else if (dims[i].param == e->m->empty)
      json_null(j);
    else
      json_string(j, model_name(e->m, dims[i].param));
  json_end_array(j);
}
