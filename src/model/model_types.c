// The side table of types, and what the model itself says of a value's type.
//
//   of    by value id   row + 1
//   rows  dtype, rank and where its dims begin
//   dims  never changed in place: a better type of the same value gets dims of its own
//
// Knowledge is only added: a note is joined with what was known before it is kept, so a question
// looks at one row. Sources in order: what was noted, the constant's own tensor, declarations.
#include "model/model_types.h"

void model_types_done(struct model_types *t) {
  table_free(t->rows, t->rows_cap, sizeof *t->rows);
  table_free(t->dims, t->dims_cap, sizeof *t->dims);
  table_free(t->of, t->of_cap, sizeof *t->of);
  *t = (struct model_types){0};
}

struct model_dim model_type_dim(const struct model *m, const struct model_type *t, uint32_t i) {
  const struct model_dim unknown = {-1, NO_ID};
  if (i >= t->rank) return unknown;
  if (t->sizes) return (struct model_dim){t->sizes[i], m->empty};
  if (!t->dims) return unknown;
  const struct model_dim d = t->dims[i];
  if (d.value >= 0) return (struct model_dim){d.value, m->empty};
  return d.param == m->empty ? unknown : d;
}

static bool of_constant(const struct model *m, uint32_t value, struct model_type *out) {
  struct model_constant c;
  if (!model_resolve_constant(m, value, &c)) return false;
  const struct model_tensor *t = &m->tensors[c.tensor];
  *out = (struct model_type){
      .dtype = (enum dtype)t->dtype, .ranked = true, .rank = t->rank, .sizes = model_dims(m, t)};
  return true;
}

static uint32_t sizes_known(const struct model *m, const struct model_info *info) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < info->rank; i++)
    n += m->info_dims[info->dims + i].value >= 0;
  return n;
}

static void of_declarations(const struct model *m, uint32_t value, struct model_type *out) {
  uint32_t most = 0;
  for (uint32_t i = m->values[value].info; i != NO_ID; i = m->infos[i].next) {
    const struct model_info *info = &m->infos[i];
    if (info->flags & INFO_DEAD) continue;
    if (info->flags & INFO_TENSOR && out->dtype == DTYPE_UNDEFINED)
      out->dtype = (enum dtype)info->dtype;
    if (!(info->flags & INFO_SHAPED)) continue;
    const uint32_t known = sizes_known(m, info);
    if (out->ranked && known <= most) continue;
    out->ranked = true;
    out->rank = info->rank;
    out->dims = m->info_dims + info->dims;
    most = known;
  }
}

bool model_types_get(const struct model_types *t, const struct model *m, uint32_t value,
                     struct model_type *out) {
  *out = (struct model_type){.dtype = DTYPE_UNDEFINED};
  if (value == NO_ID) return false;
  if (t && value < t->n_of && t->of[value] != 0) {
    const struct model_types_row *row = &t->rows[t->of[value] - 1];
    out->dtype = (enum dtype)row->dtype;
    out->ranked = row->ranked;
    out->rank = row->rank;
    if (row->ranked) out->dims = t->dims + row->dims;
  } else if (!of_constant(m, value, out)) {
    of_declarations(m, value, out);
  }
  return out->dtype != DTYPE_UNDEFINED || out->ranked;
}

// A dim of the table's own: unknown ones have no name.
static struct model_dim joined(const struct model *m, const struct model_type *from,
                               const struct model_type *before, uint32_t i) {
  struct model_dim d = model_type_dim(m, from, i);
  if (d.value < 0 && before->ranked && before->rank == from->rank) {
    const struct model_dim was = model_type_dim(m, before, i);
    if (was.value >= 0 || d.param == NO_ID) d = was;
  }
  if (d.value < 0 && d.param == NO_ID) d.param = m->empty;
  return d;
}

// Dims that lie in the table, as an offset into it; NO_ID: they lie elsewhere.
static uint32_t offset_in(const struct model_types *t, const struct model_type *type) {
  const uintptr_t base = (uintptr_t)t->dims, at = (uintptr_t)type->dims;
  if (!type->dims || at < base || at - base >= t->n_dims * sizeof *t->dims) return NO_ID;
  return (uint32_t)((at - base) / sizeof *t->dims);
}

static bool is_noted(const struct model_types *t, uint32_t value) {
  return value < t->n_of && t->of[value] != 0;
}

static void note(struct model_types *t, const struct model *m, uint32_t value,
                 const struct model_type *given, struct model_type before) {
  struct model_type type = *given;
  if (!type.ranked) {
    type.ranked = before.ranked;
    type.rank = before.rank;
    type.dims = before.dims;
    type.sizes = before.sizes;
  }
  if (type.dtype == DTYPE_UNDEFINED) type.dtype = before.dtype;
  const uint32_t type_at = offset_in(t, &type), before_at = offset_in(t, &before);
  const uint32_t dims = TABLE_ADD(t, dims, type.rank);
  if (type_at != NO_ID) type.dims = t->dims + type_at;
  if (before_at != NO_ID) before.dims = t->dims + before_at;
  for (uint32_t i = 0; i < type.rank; i++)
    t->dims[dims + i] = joined(m, &type, &before, i);
  if (value >= t->n_of) TABLE_ADD(t, of, value + 1 - t->n_of);
  if (t->of[value] == 0) t->of[value] = TABLE_ADD(t, rows, 1) + 1;
  t->rows[t->of[value] - 1] = (struct model_types_row){.dims = dims,
                                                       .rank = (uint16_t)type.rank,
                                                       .dtype = (uint8_t)type.dtype,
                                                       .ranked = type.ranked};
}

void model_types_note(struct model_types *t, const struct model *m, uint32_t value,
                      const struct model_type *type) {
  struct model_type before;
  model_types_get(t, m, value, &before);
  note(t, m, value, type, before);
}

void model_types_found(struct model_types *t, const struct model *m, uint32_t value,
                       const struct model_type *type) {
  struct model_type before;
  model_types_get(t, m, value, &before);
  if (!is_noted(t, value)) before = (struct model_type){.dtype = before.dtype};
  note(t, m, value, type, before);
}
