// What rules ask and say (infer_site.h).
#include "infer/inside/infer_table.h"

#include <stdarg.h>
#include <stdio.h>

struct infer_site infer_site_of(struct infer *in, uint32_t node) {
  const struct model_node *n = &in->m->nodes[node];
  return (struct infer_site){.in = in,
                             .m = in->m,
                             .d = in->d,
                             .a = &in->scratch,
                             .node = node,
                             .n_in = n->n_in,
                             .n_out = n->n_out,
                             .version =
                                 model_opset_version(in->m, n->graph, model_name(in->m, n->domain)),
                             .why = INFER_WHY_INPUT};
}

// ---- values ------------------------------------------------------------------------------------

bool infer_value(struct infer_site *s, uint32_t value, struct infer_type *out) {
  *out = (struct infer_type){.dtype = DTYPE_UNDEFINED};
  if (value == NO_ID) return false;
  const struct infer_row *row = infer_row_at(s->in, value);
  if (!(row->flags & (ROW_SEEN | ROW_SET)) && s->m->values[value].kind != VALUE_NODE_OUTPUT)
    infer_source(s->in, value);
  infer_row_type(s->in, &s->in->rows[value], out);
  return out->ranked || out->dtype != DTYPE_UNDEFINED;
}

bool infer_value_list(struct infer_site *s, uint32_t value, const struct infer_number **list,
                      uint32_t *n) {
  struct infer_type t;
  *list = NULL;
  *n = 0;
  if (!infer_value(s, value, &t)) return false;
  const uint32_t row = s->in->rows[value].list;
  if (row == 0) return false;
  *list = s->in->lists[row - 1].at;
  *n = s->in->lists[row - 1].n;
  return true;
}

uint32_t infer_graph_input(const struct infer_site *s, uint32_t graph, uint32_t i) {
  const struct model_graph *g = &s->m->graphs[graph];
  return i < g->n_inputs ? s->m->graph_io[g->inputs + i] : NO_ID;
}

uint32_t infer_graph_output(const struct infer_site *s, uint32_t graph, uint32_t i) {
  const struct model_graph *g = &s->m->graphs[graph];
  return i < g->n_outputs ? s->m->graph_io[g->outputs + i] : NO_ID;
}

void infer_bind(struct infer_site *s, uint32_t value, const struct infer_type *type) {
  infer_settle(s->in, value, type, INFER_WHY_INPUT);
}

void infer_bind_list(struct infer_site *s, uint32_t value, const struct infer_number *list,
                     uint32_t n) {
  infer_settle_list(s->in, value, list, n);
}

void infer_join(struct infer_site *s, const struct infer_type *a, const struct infer_type *b,
                struct infer_type *out) {
  struct infer_type t = {.kind = a->kind == b->kind ? a->kind : INFER_OTHER,
                         .dtype = a->dtype == b->dtype ? a->dtype : DTYPE_UNDEFINED};
  if (a->ranked && b->ranked && a->rank == b->rank) {
    dim_id *dims = infer_dim_room(s, a->rank);
    for (uint32_t i = 0; i < a->rank; i++)
      if (a->dims[i] != NO_ID && b->dims[i] != NO_ID &&
          dims_equal(s->d, a->dims[i], b->dims[i]) == DIMS_YES)
        dims[i] = a->dims[i];
    t.ranked = true;
    t.rank = a->rank;
    t.dims = dims;
  }
  *out = t;
}

void infer_leave(struct infer_site *s, struct infer_type *type, dim_id symbols) {
  if (!type->ranked) return;
  dim_id *dims = infer_dim_room(s, type->rank);
  for (uint32_t i = 0; i < type->rank; i++)
    if (type->dims[i] != NO_ID && !dims_uses_from(s->d, type->dims[i], symbols))
      dims[i] = type->dims[i];
  type->dims = dims;
}

uint32_t infer_depth(const struct infer_site *s) {
  return s->in->n_frames;
}

enum { VISITS_EACH = 16, VISITS_MORE = 1 << 16 };

bool infer_hurry(const struct infer_site *s) {
  return s->in->visits - s->in->visits_before > (uint64_t)s->m->n_nodes * VISITS_EACH + VISITS_MORE;
}

// ---- inputs ------------------------------------------------------------------------------------

static uint32_t slot_value(const struct infer_site *s, uint32_t slot) {
  return model_input(s->m, &s->m->nodes[s->node], slot);
}

bool infer_has(const struct infer_site *s, uint32_t slot) {
  const uint32_t value = slot_value(s, slot);
  return value != NO_ID && !(infer_row_at(s->in, value)->flags & ROW_LEFT_OUT);
}

bool infer_in(struct infer_site *s, uint32_t slot, struct infer_type *out) {
  return infer_value(s, slot_value(s, slot), out);
}

bool infer_list(struct infer_site *s, uint32_t slot, const struct infer_number **list,
                uint32_t *n) {
  return infer_value_list(s, slot_value(s, slot), list, n);
}

bool infer_whole(struct infer_site *s, uint32_t slot, const dim_id **list, uint32_t *n) {
  const struct infer_number *x;
  uint32_t count;
  *list = NULL;
  *n = 0;
  if (!infer_list(s, slot, &x, &count)) return false;
  dim_id *out = infer_dim_room(s, count);
  for (uint32_t i = 0; i < count; i++) {
    if (x[i].num == NO_ID || x[i].den != 1) return false;
    out[i] = x[i].num;
  }
  *list = out;
  *n = count;
  return true;
}

bool infer_ints(struct infer_site *s, uint32_t slot, const int64_t **list, uint32_t *n) {
  const struct infer_number *x;
  uint32_t count;
  *list = NULL;
  *n = 0;
  if (!infer_list(s, slot, &x, &count)) return false;
  int64_t *out = arena_alloc(s->a, count * sizeof *out + 1);
  for (uint32_t i = 0; i < count; i++)
    if (x[i].num == NO_ID || x[i].den != 1 || !dims_is_number(s->d, x[i].num, &out[i]))
      return false;
  *list = out;
  *n = count;
  return true;
}

bool infer_int(struct infer_site *s, uint32_t slot, int64_t *out) {
  const int64_t *list;
  uint32_t n;
  if (!infer_ints(s, slot, &list, &n) || n != 1) return false;
  *out = list[0];
  return true;
}

// ---- attributes --------------------------------------------------------------------------------

const struct model_attr *infer_attr(struct infer_site *s, const char *name) {
  const struct model_attr *a = model_attr_named(s->m, s->node, name);
  uint32_t call = s->in->n_frames ? s->in->frames[s->in->n_frames - 1].call : 0;
  while (a && a->ref_name != s->m->empty) {
    if (call == 0) return a;
    const struct infer_call *c = &s->in->calls[call - 1];
    const struct model_attr *given =
        model_attr_named(s->m, c->node, model_name_str(s->m, a->ref_name));
    if (!given) return model_function_default(s->m, c->function, model_name(s->m, a->ref_name));
    a = given;
    call = c->outer;
  }
  return a;
}

static bool usable(struct infer_site *s, const struct model_attr *a, enum attr_type type) {
  if (a->type == type && a->ref_name == s->m->empty) return true;
  s->why = INFER_WHY_ATTRIBUTE;
  return false;
}

bool infer_attr_int(struct infer_site *s, const char *name, int64_t fallback, int64_t *out) {
  const struct model_attr *a = infer_attr(s, name);
  *out = fallback;
  if (!a) return true;
  if (!usable(s, a, ATTR_INT)) return false;
  *out = a->u.i;
  return true;
}

bool infer_attr_float(struct infer_site *s, const char *name, float fallback, float *out) {
  const struct model_attr *a = infer_attr(s, name);
  *out = fallback;
  if (!a) return true;
  if (!usable(s, a, ATTR_FLOAT)) return false;
  *out = a->u.f;
  return true;
}

bool infer_attr_string(struct infer_site *s, const char *name, const char *fallback,
                       struct span *out) {
  const struct model_attr *a = infer_attr(s, name);
  *out = span_of(fallback, strlen(fallback));
  if (!a) return true;
  if (!usable(s, a, ATTR_STRING) || a->u.s == NO_ID) return false;
  *out = model_name(s->m, a->u.s);
  return true;
}

bool infer_attr_ints(struct infer_site *s, const char *name, const int64_t **list, uint32_t *n) {
  const struct model_attr *a = infer_attr(s, name);
  *list = NULL;
  *n = 0;
  if (!a) return true;
  if (!usable(s, a, ATTR_INTS)) return false;
  if (a->first == NO_ID || model_attr_is_constant(s->m, a)) return false;
  *list = s->m->longs + a->first;
  *n = a->count;
  return true;
}

bool infer_attr_floats(struct infer_site *s, const char *name, const float **list, uint32_t *n) {
  const struct model_attr *a = infer_attr(s, name);
  *list = NULL;
  *n = 0;
  if (!a) return true;
  if (!usable(s, a, ATTR_FLOATS)) return false;
  if (a->first == NO_ID || model_attr_is_constant(s->m, a)) return false;
  *list = s->m->floats + a->first;
  *n = a->count;
  return true;
}

uint32_t infer_attr_graph(struct infer_site *s, const char *name) {
  const struct model_attr *a = model_attr_named(s->m, s->node, name);
  return a && a->type == ATTR_GRAPH && a->ref_name == s->m->empty ? a->first : NO_ID;
}

bool infer_axis(struct infer_site *s, int64_t axis, uint32_t rank, uint32_t *out) {
  const int64_t at = axis < 0 ? axis + rank : axis;
  *out = (uint32_t)at;
  if (at >= 0 && at < rank) return true;
  infer_invalid(s, "axis %s of %u dim%s", integer(axis).s, rank, plural(rank));
  return false;
}

bool infer_axes(struct infer_site *s, uint32_t slot, bool *given, const int64_t **axes,
                uint32_t *n) {
  *given = infer_attr(s, "axes") != NULL;
  if (*given) return infer_attr_ints(s, "axes", axes, n);
  *axes = NULL;
  *n = 0;
  if (slot == NO_ID || !infer_has(s, slot)) return true;
  *given = true;
  return infer_ints(s, slot, axes, n);
}

// ---- outputs -----------------------------------------------------------------------------------

// Of outputs whose type is that of no input: what an attribute says.
static enum dtype dtype_by_attribute(struct infer_site *s) {
  for (uint32_t i = 0; i < s->signature->n_attributes; i++) {
    const struct schema_attribute *a = &s->signature->attributes[i];
    int64_t dtype;
    if (!a->says || a->type != ATTR_INT) continue;
    if (!infer_attr_int(s, a->name, a->kind == SCHEMA_INT ? a->u.i : DTYPE_UNDEFINED, &dtype))
      return DTYPE_UNDEFINED;
    return dtype_known(dtype) ? (enum dtype)dtype : DTYPE_UNDEFINED;
  }
  return DTYPE_UNDEFINED;
}

// The type of an output follows from its type variable, where an input has that variable or only one type can be.
enum dtype infer_dtype_by_signature(struct infer_site *s, uint32_t slot) {
  const struct schema_formal *out = s->signature ? schema_output(s->signature, slot) : NULL;
  if (!out) return DTYPE_UNDEFINED;
  const uint32_t only = out->types->dtypes[SCHEMA_TENSOR];
  for (uint32_t kind = SCHEMA_TENSOR + 1; kind < SCHEMA_KINDS; kind++)
    if (out->types->dtypes[kind]) return DTYPE_UNDEFINED;
  if (only && (only & (only - 1)) == 0) return (enum dtype)__builtin_ctz(only);
  if (out->variable == SCHEMA_NO_VARIABLE) return DTYPE_UNDEFINED;
  for (uint32_t i = 0; i < s->n_in; i++) {
    struct infer_type t;
    const struct schema_formal *in = schema_input(s->signature, i);
    if (in && in->variable == out->variable && (in->option != SCHEMA_VARIADIC || in->same) &&
        infer_in(s, i, &t) && t.kind == INFER_TENSOR && t.dtype != DTYPE_UNDEFINED)
      return t.dtype;
  }
  return schema_output_follows(s->m, s->node, s->signature, out) ? DTYPE_UNDEFINED
                                                                 : dtype_by_attribute(s);
}

void infer_out(struct infer_site *s, uint32_t slot, const struct infer_type *type) {
  struct infer_type t = *type;
  int64_t n;
  for (uint32_t i = 0; t.ranked && i < t.rank; i++)
    if (t.dims[i] != NO_ID && dims_is_number(s->d, t.dims[i], &n) && n < 0)
      infer_invalid(s, "dim %u of its output is %s", i, integer(n).s);
  if (s->why == INFER_WHY_INVALID) return;
  if (t.kind == INFER_TENSOR && t.dtype == DTYPE_UNDEFINED)
    t.dtype = infer_dtype_by_signature(s, slot);
  infer_settle(s->in, model_output(s->m, &s->m->nodes[s->node], slot), &t, s->why);
}

void infer_out_dims(struct infer_site *s, uint32_t slot, enum dtype dtype, const dim_id *dims,
                    uint32_t rank) {
  infer_out(s, slot,
            &(struct infer_type){.dtype = dtype, .ranked = true, .rank = rank, .dims = dims});
}

void infer_out_dtype(struct infer_site *s, uint32_t slot, enum dtype dtype) {
  infer_out(s, slot, &(struct infer_type){.dtype = dtype});
}

void infer_out_list(struct infer_site *s, uint32_t slot, const struct infer_number *list,
                    uint32_t n) {
  infer_settle_list(s->in, model_output(s->m, &s->m->nodes[s->node], slot), list, n);
}

static void say_invalid(struct infer_site *s, const char *fmt, va_list args) {
  char sentence[256];
  if (s->why == INFER_WHY_INVALID) return;
  s->why = INFER_WHY_INVALID;
  if (s->in->assumed && s->m->nodes[s->node].graph == s->m->values[s->in->assumed - 1].graph)
    s->in->contradicted = true;
  // A body may never run: a branch for another rank than the one at hand is no fault of the model.
  if (s->in->n_frames && s->in->frames[s->in->n_frames - 1].may_be_idle) return;
  vsnprintf(sentence, sizeof sentence, fmt, args);
  infer_say_node(s->in, s->node, sentence);
}

void infer_invalid(struct infer_site *s, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  say_invalid(s, fmt, args);
  va_end(args);
}

bool infer_invalid_if(struct infer_site *s, bool is, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  if (is) say_invalid(s, fmt, args);
  va_end(args);
  return is;
}

bool infer_known(struct infer_site *s, bool is, enum dtype dtype) {
  if (!is) infer_out_dtype(s, 0, dtype);
  return is;
}

// ---- what rules share --------------------------------------------------------------------------

dim_id *infer_dim_room(struct infer_site *s, uint32_t n) {
  dim_id *dims = arena_alloc(s->a, n * sizeof *dims + 1);
  for (uint32_t i = 0; i < n; i++)
    dims[i] = NO_ID;
  return dims;
}

static const char *words(struct infer_site *s, dim_id d) {
  const struct span text = dims_text(s->d, d, s->a);
  return arena_string(s->a, text);
}

dim_id infer_same_dim(struct infer_site *s, dim_id a, dim_id b) {
  if (a == NO_ID || b == NO_ID) return a == NO_ID ? b : a;
  if (infer_unite(s->in, a, b)) return dims_find(s->d, a);
  infer_invalid(s, "dims must be equal, but are %s and %s", words(s, a), words(s, b));
  return NO_ID;
}

// One of the literals 1 gives way; a dim that is at least 2 is the result whatever the other is; else
// the greater one of both, since in a valid run one of them is 1 or both are equal.
dim_id infer_meet(struct infer_site *s, dim_id a, dim_id b) {
  int64_t x, y;
  if (a == b) return a;
  const bool p = a != NO_ID && dims_is_number(s->d, a, &x);
  const bool q = b != NO_ID && dims_is_number(s->d, b, &y);
  if (p && x == 1) return b;
  if (q && y == 1) return a;
  if (p && q) {
    if (x == y) return a;
    infer_invalid(s, "dims %s and %s do not broadcast", integer(x).s, integer(y).s);
    return NO_ID;
  }
  if (a == NO_ID || b == NO_ID) {
    const dim_id known = a == NO_ID ? b : a;
    return known != NO_ID && (p || q || dims_least(s->d, known) >= 2) ? known : NO_ID;
  }
  if (dims_equal(s->d, a, b) == DIMS_YES) return p ? a : q ? b : dims_find(s->d, a);
  const bool wide_a = dims_least(s->d, a) >= 2 || (p && x == 0);
  const bool wide_b = dims_least(s->d, b) >= 2 || (q && y == 0);
  if (wide_a && wide_b) {
    // Neither is 1: they are equal in every valid run.
    if (infer_unite(s->in, a, b)) return dims_find(s->d, a);
    infer_invalid(s, "dims %s and %s do not broadcast", words(s, a), words(s, b));
    return NO_ID;
  }
  if (wide_a || wide_b) return wide_a ? a : b;
  // Dims that may be 0 have no simple answer.
  if (dims_least(s->d, a) < 1 || dims_least(s->d, b) < 1) return NO_ID;
  return dims_max(s->d, a, b);
}

bool infer_broadcast(struct infer_site *s, const struct infer_type *types, uint32_t n,
                     const dim_id **dims, uint32_t *rank) {
  *rank = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!types[i].ranked) return false;
    if (types[i].rank > *rank) *rank = types[i].rank;
  }
  dim_id *out = infer_dim_room(s, *rank);
  for (uint32_t d = 0; d < *rank; d++)
    out[d] = infer_one(s);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t d = 0; d < types[i].rank; d++) {
      dim_id *to = &out[*rank - types[i].rank + d];
      *to = infer_meet(s, *to, types[i].dims[d]);
      if (s->why == INFER_WHY_INVALID) return false;
    }
  *dims = out;
  return true;
}

dim_id infer_dim(const struct infer_type *t, int32_t i) {
  const int64_t at = i < 0 ? (int64_t)i + t->rank : i;
  return t->ranked && at >= 0 && at < t->rank ? t->dims[at] : NO_ID;
}

dim_id infer_product(struct infer_site *s, const dim_id *dims, uint32_t n) {
  dim_id product = infer_one(s);
  for (uint32_t i = 0; i < n && product != NO_ID; i++)
    product = dims[i] == NO_ID ? NO_ID : dims_mul(s->d, product, dims[i]);
  return product;
}
