#include "calibrate/calibrate.h"

// Fewer values cost the runtime less than to hand them out. Bytes: of a value, and of all of them.
enum { FROM_VALUES = 1000, MOST_BYTES = 16 << 10, ALL_BYTES = 16 << 20 };

struct sizes {
  const struct calibrate *c;
  struct dims *d;
  TABLE(struct dims_binding, of);
};

static bool is_bound(const struct sizes *s, dim_id symbol) {
  for (uint32_t i = 0; i < s->n_of; i++)
    if (s->of[i].symbol == symbol) return true;
  return false;
}

// The symbols that dims of the model's inputs are, as the sample has them.
static void bind_sizes(struct sizes *s, const struct arrays *inputs) {
  const struct calibrate *c = s->c;
  const struct model_graph *g = &c->m->graphs[c->m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = c->m->graph_io[g->inputs + i];
    struct infer_type t;
    if (value == NO_ID || !infer_type_of(c->infer, value, &t) || !t.ranked) continue;
    const struct array *x = array_named(inputs, model_name_str(c->m, c->m->values[value].name));
    if (!x || x->kind != ARRAY_TENSOR || x->rank != t.rank) continue;
    for (uint32_t k = 0; k < t.rank; k++) {
      const dim_id d = dims_find(s->d, t.dims[k]);
      if (dims_is_symbol(s->d, d, NULL) && !is_bound(s, d))
        *TABLE_PUSH(s, of) = (struct dims_binding){d, x->dims[k]};
    }
  }
}

// Bytes of a value in this run; UINT64_MAX: nobody knows.
static uint64_t bytes_of(const struct sizes *s, const struct calibrate_value *x) {
  struct infer_type t;
  uint64_t bytes = dtype_bits(x->type) / 8;
  if (!infer_type_of(s->c->infer, x->value, &t) || !t.ranked) return UINT64_MAX;
  for (uint32_t k = 0; k < t.rank; k++) {
    int64_t n;
    const dim_id d = t.dims[k] == NO_ID ? NO_ID : dims_find(s->d, t.dims[k]);
    if (!dims_value(s->d, d, s->of, s->n_of, &n) || n < 0) return UINT64_MAX;
    if (__builtin_mul_overflow(bytes, (uint64_t)n, &bytes)) return UINT64_MAX;
  }
  return bytes;
}

static bool still_fit(const struct sizes *s, const bool *fetched) {
  const struct calibrate_values *v = &s->c->values;
  uint64_t all = 0;
  bool any = false;
  for (uint32_t i = 0; i < v->n_list; i++) {
    if (!fetched[i]) continue;
    const uint64_t bytes = bytes_of(s, &v->list[i]);
    if (bytes > ALL_BYTES - all) return false;
    all += bytes;
    any = true;
  }
  return any;
}

static bool find(const struct sizes *s, bool (*runs)(const struct calibrate_value *x),
                 bool *fetched) {
  const struct calibrate_values *v = &s->c->values;
  uint64_t all = 0;
  bool changed = false;
  for (uint32_t i = 0; i < v->n_list; i++) {
    const uint64_t bytes = runs(&v->list[i]) ? bytes_of(s, &v->list[i]) : UINT64_MAX;
    const bool small = bytes <= MOST_BYTES && bytes <= ALL_BYTES - all;
    if (small) all += bytes;
    changed = changed || small != fetched[i];
    fetched[i] = small;
  }
  return changed;
}

bool calibrate_small_find(const struct calibrate *c, const struct arrays *inputs,
                          bool (*runs)(const struct calibrate_value *x), bool *fetched) {
  if (c->values.n_list < FROM_VALUES) return false;
  struct sizes s = {.c = c, .d = infer_dims(c->infer)};
  bind_sizes(&s, inputs);
  const bool changed = !still_fit(&s, fetched) && find(&s, runs, fetched);
  TABLE_FREE(&s, of);
  return changed;
}
