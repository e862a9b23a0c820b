// The index of one model: life, access to rows, attribute values.
//
// A model is nothing but tables (growable arrays of plain rows) tied together by ids. This file
// opens and closes them and answers the simple questions; names and values have hash tables and
// live in model_names.c and model_values.c, constant resolution in model_constant.c, operator sets in
// model_opsets.c.
//
// Nothing here changes a loaded row and nothing looks at a file: whatever it asserts was promised
// by load or by an edit, never by the file itself.
#include "model/inside/model_memory.h"

#include <assert.h>

void model_init(struct model *m) {
  memset(m, 0, sizeof *m);
  m->memory = arena_zalloc(&m->arena, sizeof *m->memory);
  m->memory->age = 1;
  m->main_graph = NO_ID;
  m->empty = model_intern(m, span_of("", 0));
}

void model_free(struct model *m) {
  TABLE_FREE(m, name_bytes);
#define MODEL_TABLE(type, name) TABLE_FREE(m, name);
#include "model/model_tables.def"
  model_view_free(m);
}

void model_view(struct model *view, const struct model *m) {
  *view = *m;
  view->arena = (struct arena){0};
  view->memory = arena_zalloc(&view->arena, sizeof *view->memory);
  view->memory->age = 1;
  TABLE_COPY(view->memory, m->memory, seen);
}

void model_view_free(struct model *view) {
  if (view->memory) TABLES_FREE(view->memory, shortcuts, seen, opset_slots, listed, listings);
  arena_free(&view->arena);
  memset(view, 0, sizeof *view);
}

void model_trim(struct model *m) {
  TABLE_TRIM(m, name_bytes);
#define MODEL_TABLE(type, name) TABLE_TRIM(m, name);
#include "model/model_tables.def"
}

// ---- pieces and kept fields --------------------------------------------------------------------

// piece_counts holds (tensor id, count) pairs in id order.
static uint32_t long_piece_count(const struct model *m, uint32_t tensor) {
  uint32_t i;
  BISECT(i, m->n_piece_counts / 2, m->piece_counts[2 * i] < tensor);
  assert(2 * i < m->n_piece_counts && m->piece_counts[2 * i] == tensor);
  return m->piece_counts[2 * i + 1];
}

const struct piece *model_pieces(const struct model *m, uint32_t tensor, uint32_t *count) {
  const struct model_tensor *t = &m->tensors[tensor];
  *count = t->n_pieces == UINT16_MAX ? long_piece_count(m, tensor) : t->n_pieces;
  return *count ? m->pieces + t->pieces : NULL;
}

// Packed fields of fixed-size entries are RAW but for their name.
static bool is_plain(const struct model_tensor *t, const struct piece *piece) {
  if (t->encoding == ENCODING_RAW) return true;
  return (t->encoding == ENCODING_FIXED32 || t->encoding == ENCODING_FIXED64) &&
         piece->tag_bytes == 0;
}

bool model_plain_place(const struct model *m, uint32_t tensor, struct extent *at) {
  const struct model_tensor *t = &m->tensors[tensor];
  uint32_t n;
  const struct piece *pieces = model_pieces(m, tensor, &n);
  if (t->recipe != NO_ID || t->bytes == 0) return false;
  if (n == 0) {
    *at = (struct extent){t->src.off + t->pieces, t->bytes, 0};
    return t->pieces != 0;
  }
  *at = pieces[0].at;
  return n == 1 && is_plain(t, pieces) && at->len == t->bytes;
}

struct extent model_tensor_holder(const struct model *m, uint32_t tensor, enum encoding *encoding) {
  const struct model_tensor *t = &m->tensors[tensor];
  struct extent at;
  *encoding = ENCODING_RAW;
  if (model_plain_place(m, tensor, &at)) return at;
  const struct place src = t->src.len || t->owner == NO_ID ? t->src : m->attrs[t->owner].src;
  *encoding = (enum encoding)t->encoding;
  return (struct extent){src.off, src.len, 0};
}

const struct model_kept_field *model_kept_fields(const struct model *m, enum kept_of of,
                                                 uint32_t id, uint32_t *count) {
  const struct model_kept_field *f = m->kept_fields;
  uint32_t first;
  BISECT(first, m->n_kept_fields, f[first].of < of || (f[first].of == of && f[first].id < id));
  uint32_t end = first;
  while (end < m->n_kept_fields && f[end].of == of && f[end].id == id)
    end++;
  *count = end - first;
  return *count ? f + first : NULL;
}

bool model_small_value(const struct model *m, uint32_t tensor, struct span *out) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->small == NO_ID) return false;
  *out = span_of(m->small_bytes + (size_t)t->small * 8, (size_t)t->bytes);
  return true;
}

// ---- attributes --------------------------------------------------------------------------------

bool model_has_bodies(const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (!(a->flags & ATTR_DEAD) && (a->type == ATTR_GRAPH || a->type == ATTR_GRAPHS)) return true;
  }
  return false;
}

const struct model_attr *model_attr_named(const struct model *m, uint32_t node, const char *name) {
  const struct model_node *n = &m->nodes[node];
  const struct span wanted = span_str(name);
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (!(a->flags & ATTR_DEAD) && span_eq(model_name(m, a->name), wanted)) return a;
  }
  return NULL;
}

const struct model_attr *model_function_default(const struct model *m, uint32_t function,
                                                struct span name) {
  const struct model_function *f = &m->functions[function];
  for (uint32_t i = f->attrs; i < f->attrs + f->n_attrs; i++)
    if (m->attrs[i].type != ATTR_UNDEFINED && span_eq(model_name(m, m->attrs[i].name), name))
      return &m->attrs[i];
  return NULL;
}

// An attribute that refers to one of the enclosing function's has no value of its own.
static bool has_value(const struct model *m, const struct model_attr *a, enum attr_type type) {
  return a->type == type && a->ref_name == m->empty;
}

bool model_attr_int(const struct model *m, uint32_t node, const char *name, int64_t fallback,
                    int64_t *out) {
  const struct model_attr *a = model_attr_named(m, node, name);
  *out = fallback;
  if (!a) return true;
  if (!has_value(m, a, ATTR_INT)) return false;
  *out = a->u.i;
  return true;
}

bool model_attr_ints(const struct model *m, uint32_t node, const char *name, const int64_t **list,
                     uint32_t *n) {
  const struct model_attr *a = model_attr_named(m, node, name);
  *list = NULL;
  *n = 0;
  if (!a) return true;
  if (!has_value(m, a, ATTR_INTS) || model_attr_is_constant(m, a)) return false;
  if (a->count > 0 && a->first == NO_ID) return false;
  *n = a->count;
  *list = a->count ? m->longs + a->first : NULL;
  return true;
}

bool model_attr_string(const struct model *m, uint32_t node, const char *name, const char *fallback,
                       struct span *out) {
  const struct model_attr *a = model_attr_named(m, node, name);
  *out = span_str(fallback);
  if (!a) return true;
  if (!has_value(m, a, ATTR_STRING) || a->u.s == NO_ID) return false;
  *out = model_name(m, a->u.s);
  return true;
}

// ---- operators ------------------------------------------------------------------------------

bool model_op_is(const struct model *m, uint32_t node, const char *op_type) {
  const struct model_node *n = &m->nodes[node];
  if (!span_is(model_name(m, n->op_type), op_type)) return false;
  return n->domain == m->empty || model_domain_is_onnx(model_name(m, n->domain));
}

uint64_t model_data_alignment(uint64_t bytes) {
  return bytes >= 1 << 20 ? 64 << 10 : bytes >= 64 << 10 ? 4 << 10 : 64;
}
