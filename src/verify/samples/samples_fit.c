// Does a sample fit the model? Every input that has no initializer is there once, under its name or in its place, with its
// type, its rank and the dims that are fixed; there is nothing else. Inputs with an initializer may be there.
#include "verify/samples/inside/samples_parts.h"

// An input by name, or by place among those that must be given; NO_ID.
static uint32_t input_of(const struct model *m, const struct array *x, uint32_t place) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  uint32_t k = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    const bool must = m->values[value].kind != VALUE_INITIALIZER;
    if (*x->name ? span_is(model_value_name(m, value), x->name) : must && k == place) return value;
    k += must;
  }
  return NO_ID;
}

// "'audio', 'length'": what must be given.
static const char *inputs_words(const struct model *m, struct arena *a) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  const char *words = "";
  uint32_t n = 0;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    if (m->values[value].kind == VALUE_INITIALIZER) continue;
    if (n++ == 8) return arena_printf(a, "%s …", words);
    words =
        arena_printf(a, "%s%s'%s'", words, n > 1 ? ", " : "", quote(model_value_name(m, value)).s);
  }
  return n ? words : "none";
}

static int no_such_input(const struct model *m, const char *sample, const struct arrays *has,
                         uint32_t i, struct arena *a, struct err *err) {
  if (*has->list[i].name)
    err_fill(err, ERR_INPUT, "the sample '%s' has an array '%s', but the model has no such input",
             quote_str(sample).s, quote_str(has->list[i].name).s);
  else
    err_fill(err, ERR_INPUT,
             "the sample '%s' has %u arrays without names, but the model has %u inputs",
             quote_str(sample).s, has->n, i);
  return err_hint(err, "the model's inputs: %s", inputs_words(m, a));
}

static int check_type(const char *sample, struct span name, const struct array *x,
                      const struct infer_type *t, struct err *err) {
  if (x->kind != ARRAY_TENSOR || x->optional)
    return err_set(err, ERR_INPUT, "the sample '%s' has no tensor for the input '%s'",
                   quote_str(sample).s, quote(name).s);
  if (t->dtype == DTYPE_UNDEFINED || t->dtype == x->dtype) return 0;
  err_fill(err, ERR_INPUT, "the sample '%s' has %s for the input '%s', but the model needs %s",
           quote_str(sample).s, dtype_name(x->dtype), quote(name).s, dtype_name(t->dtype));
  return err_hint(err, "in NumPy: x.astype(numpy.%s)",
                  t->dtype == DTYPE_FLOAT    ? "float32"
                  : t->dtype == DTYPE_DOUBLE ? "float64"
                                             : dtype_name(t->dtype));
}

static int check(struct infer *in, const char *sample, struct span name, uint32_t value,
                 const struct array *x, struct err *err) {
  struct infer_type t;
  if (!infer_type_of(in, value, &t)) return 0;
  if (t.kind != INFER_TENSOR) {
    err_fill(err, ERR_INPUT, "the model's input '%s' is not a tensor", quote(name).s);
    return err_hint(err, "weir cannot run models with sequences or optionals as inputs");
  }
  if (check_type(sample, name, x, &t, err)) return -1;
  if (t.ranked && t.rank != x->rank)
    return err_set(err, ERR_INPUT,
                   "the sample '%s' has %s for the input '%s', but the model needs %u dims",
                   quote_str(sample).s, array_words(x).s, quote(name).s, t.rank);
  for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
    int64_t n;
    if (t.dims[i] == NO_ID || !dims_value(infer_dims(in), t.dims[i], NULL, 0, &n)) continue;
    if (n != x->dims[i])
      return err_set(err, ERR_INPUT,
                     "the sample '%s' has %s for the input '%s', whose dim %u is %s in the model",
                     quote_str(sample).s, array_words(x).s, quote(name).s, i, integer(n).s);
  }
  return 0;
}

int samples_fit(const struct model *m, struct infer *in, const char *sample,
                const struct arrays *has, struct arena *a, struct arrays *out, struct err *err) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  struct array **by_input = arena_zalloc(a, (g->n_inputs + (size_t)1) * sizeof(struct array *));
  for (uint32_t i = 0; i < has->n; i++) {
    struct array *x = &has->list[i];
    const uint32_t value = input_of(m, x, i);
    if (value == NO_ID) return no_such_input(m, sample, has, i, a, err);
    const struct span name = model_value_name(m, value);
    uint32_t slot = 0;
    while (m->graph_io[g->inputs + slot] != value)
      slot++;
    if (by_input[slot])
      return err_set(err, ERR_INPUT, "the sample '%s' has two arrays for the input '%s'",
                     quote_str(sample).s, quote(name).s);
    by_input[slot] = x;
    x->name = arena_string(a, name);
    array_settle(x, false);
    if (check(in, sample, name, value, x, err)) return -1;
  }
  *out = (struct arrays){.list = arena_zalloc(a, (g->n_inputs + (size_t)1) * sizeof *out->list)};
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const uint32_t value = m->graph_io[g->inputs + i];
    if (by_input[i]) {
      out->list[out->n++] = *by_input[i];
    } else if (m->values[value].kind != VALUE_INITIALIZER) {
      err_fill(err, ERR_INPUT, "the sample '%s' has no array for the input '%s'",
               quote_str(sample).s, quote(model_value_name(m, value)).s);
      return err_hint(err, "the model's inputs: %s", inputs_words(m, a));
    }
  }
  return 0;
}
