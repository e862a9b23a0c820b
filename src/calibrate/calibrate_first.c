// The first read. What the model computes stays in the runtime; of a value it returns numbers:
//
//   v ─┬─▶ ReduceMin ─▶ least            (with --statistics: over all axes but the channels' one)
//      ├─▶ ReduceMax ─▶ largest
//      ├─▶ Abs ─▶ ReduceMin ─▶ least magnitude (for bins of magnitudes)
//      ├─▶ Size ─▶ elements
//      └─▶ ReduceSum ─▶ NaN, if v has one (where one can come about: calibrate_values.c)
//
// Small values of models with thousands of them come back themselves (calibrate_small.c).
//
// A value with a NaN in it, and those that it may have come into, are fetched, and looked at here. What is the same as
// another value in other dims is not looked at twice. Inputs are looked at here as well, since they are in memory.
#include "calibrate/calibrate.h"

#include "calibrate/calibrate_look.h"
#include "calibrate/sample_journal.h"
#include "kernels/convert/kernels_convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OPSET_FLATTEN_FROM_THE_END = 11 };

// What one sample gave of one value, as the record has it; channels' floats follow those of all values.
struct one {
  struct kernels_extremes of;
  uint64_t elements;
  uint32_t n_channels, pad;
};

struct first {
  struct calibrate *c;
  bool loaded, magnitudes;
  const char **wanted;
  uint32_t n_wanted;
  struct one *one;       // by value of the list
  float **least, **most; // channels of this sample
  bool *suspect;
  bool *fetched; // the elements themselves come back
  struct sample_journal log;
  uint32_t done; // samples
  TABLE_BIG(uint8_t, record);
  struct arena names, sample; // of the session; of the sample
};

int calibrate_failed(enum runtime_end end, const char *sample, struct err *err) {
  char why[sizeof err->msg];
  if (end == RUNTIME_STOPPED || end == RUNTIME_DONE) return -1;
  snprintf(why, sizeof why, "%s", err->msg);
  *err = (struct err){0};
  if (end == RUNTIME_REFUSED)
    return err_set(err, ERR_INPUT, "sample '%s': %.900s", quote_str(sample).s, why);
  err_set(err, ERR_RETRY, "sample '%s': %.900s", quote_str(sample).s, why);
  return err_hint(err, "the ranges found so far are kept; run the same command again to continue "
                       "with this sample");
}

static bool is_infinite(const struct kernels_extremes *x) {
  return x->infinities > 0 || (x->least <= x->most && (isinf(x->least) || isinf(x->most)));
}

static int refuse_infinite(const char *name, const struct kernels_extremes *x, const char *sample,
                           struct err *err) {
  const bool least = x->least <= x->most && isinf(x->least),
             most = x->least <= x->most && isinf(x->most);
  err_set(err, ERR_MODEL, "'%s' has an element that is %sinfinite in sample '%s'",
          quote_str(name).s, least && !most ? "minus " : "", quote_str(sample).s);
  return err_hint(err,
                  "--exclude '%s' leaves out this value; --skip-infinite leaves out every such "
                  "value, for example masks",
                  quote_str(name).s);
}

// ---- the session --------------------------------------------------------------------------------

static const char *wanted(struct first *f, const char *what, uint32_t i) {
  const char *name = calibrate_model_name(f->c->model, what, i, &f->names);
  f->wanted[f->n_wanted++] = name;
  calibrate_model_output(f->c->model, name);
  return name;
}

static bool is_run(const struct calibrate_value *x) {
  return !x->input && x->same == NO_ID;
}

// Infinities that are skipped may lead to a NaN in any value.
static bool is_checked(const struct first *f, uint32_t i) {
  return f->c->values.list[i].checked || f->c->options.skip_infinite;
}

// All axes but the channels'. For a value of unknown rank: those of its rows, one after the other.
static const char *channel_axes(struct first *f, uint32_t i, const char *in, int64_t *axes,
                                uint32_t *n) {
  const struct calibrate_value *x = &f->c->values.list[i];
  *n = 0;
  if (!x->by_channel) return in;
  if (x->rank == NO_ID) {
    const struct calibrate_attr axis = {.name = "axis", .i = -1};
    const char *flat = calibrate_model_name(f->c->model, "flat", i, &f->names);
    calibrate_model_node(f->c->model, "Flatten", in, flat, &axis);
    axes[(*n)++] = 0;
    return flat;
  }
  const int64_t channels = x->axis < 0 ? (int64_t)x->rank + x->axis : x->axis;
  for (int64_t k = 0; k < (int64_t)x->rank; k++)
    if (k != channels) axes[(*n)++] = k;
  return in;
}

// A vector of channels alone is its own least and largest.
static void add_reduce(struct first *f, const char *op, const char *in, const char *out,
                       const int64_t *axes, uint32_t n, bool by_channel) {
  if (by_channel && n == 0)
    calibrate_model_node(f->c->model, "Identity", in, out, NULL);
  else
    calibrate_model_reduce(f->c->model, op, in, out, axes, n);
}

static void add_value(struct first *f, uint32_t i) {
  const struct calibrate_value *x = &f->c->values.list[i];
  f->wanted[f->n_wanted++] = x->name;
  if (!x->output) calibrate_model_output(f->c->model, x->name);
}

static void add_outputs(struct first *f, uint32_t i) {
  const struct calibrate_value *x = &f->c->values.list[i];
  const char *in = x->name;
  int64_t axes[ARRAY_MAX_RANK];
  uint32_t n;
  // What rounding to bfloat16 makes of a number the runtime might leave out before a Cast; the least float16 is that of the
  // numbers, rounded, whether it computes in float16 or not.
  if (x->type == DTYPE_BFLOAT16) {
    const struct calibrate_attr to = {.name = "to", .i = DTYPE_FLOAT};
    const char *cast = calibrate_model_name(f->c->model, "cast", i, &f->names);
    calibrate_model_node(f->c->model, "Cast", in, cast, &to);
    in = cast;
  }
  const char *of = channel_axes(f, i, in, axes, &n);
  add_reduce(f, "ReduceMin", of, wanted(f, "least", i), axes, n, x->by_channel);
  add_reduce(f, "ReduceMax", of, wanted(f, "most", i), axes, n, x->by_channel);
  calibrate_model_node(f->c->model, "Size", in, wanted(f, "size", i), NULL);
  if (f->magnitudes) {
    const char *abs = calibrate_model_name(f->c->model, "abs", i, &f->names);
    calibrate_model_node(f->c->model, "Abs", in, abs, NULL);
    calibrate_model_reduce(f->c->model, "ReduceMin", abs, wanted(f, "magnitude", i), NULL, 0);
  }
  if (is_checked(f, i))
    calibrate_model_reduce(f->c->model, "ReduceSum", in, wanted(f, "sum", i), NULL, 0);
}

static enum runtime_end load(struct first *f, struct err *err) {
  struct runtime_model got;
  const struct calibrate_values *v = &f->c->values;
  if (f->loaded) return RUNTIME_DONE;
  arena_reset(&f->names);
  f->wanted = arena_alloc(&f->names, (v->n_list + (size_t)1) * 5 * sizeof *f->wanted);
  f->n_wanted = 0;
  calibrate_model_begin(f->c->model);
  // The runtime begins with what leads to the last node without a reader: so the first value's come last, and no value has
  // to wait in memory until all is computed.
  for (uint32_t i = v->n_list; i-- > 0;)
    if (is_run(&v->list[i])) f->fetched[i] ? add_value(f, i) : add_outputs(f, i);
  const enum runtime_end end = calibrate_model_load(f->c->model, &got, err);
  f->loaded = end == RUNTIME_DONE;
  return end;
}

// ---- a sample -----------------------------------------------------------------------------------

// Zero has no sign: which of two zeros is the least depends on where they lie.
static float number(const struct array *x, uint64_t k) {
  const struct kernels_cast cast = {.from = DTYPE_FLOAT16, .to = DTYPE_FLOAT};
  float f;
  double d;
  if (x->dtype == DTYPE_FLOAT16) {
    kernels_convert(&f, x->at + 2 * k, 1, &cast);
    return f + 0.0f;
  }
  if (x->dtype == DTYPE_DOUBLE) {
    memcpy(&d, x->at + k * sizeof d, sizeof d);
    return (float)d + 0.0f;
  }
  memcpy(&f, x->at + k * sizeof f, sizeof f);
  return f + 0.0f;
}

static bool is_numbers(const struct array *x, enum dtype type) {
  return x->kind == ARRAY_TENSOR && x->at && x->dtype == type && x->count > 0;
}

// Results of many channels, and all of them once many have come, are in a file: they are read into the arena of the sample.
static int read_numbers(struct first *f, const struct array **x, struct err *err) {
  if ((*x)->kind != ARRAY_TENSOR || (*x)->at) return 0;
  struct array *read = arena_alloc(&f->sample, sizeof *read);
  *read = **x;
  if (array_load(*x, &f->sample, &read->at, err)) return -1;
  *x = read;
  return 0;
}

static float *take_channels(struct first *f, const struct array *x) {
  float *out = arena_alloc(&f->sample, (size_t)x->count * sizeof *out + 1);
  for (uint64_t k = 0; k < x->count; k++)
    out[k] = number(x, k);
  return out;
}

static int take_value(struct first *f, uint32_t i, const struct array **at, struct err *err) {
  const struct calibrate_value *x = &f->c->values.list[i];
  const struct array *least = (*at)++, *most = (*at)++, *size = (*at)++,
                     *magnitude = f->magnitudes ? (*at)++ : NULL,
                     *sum = is_checked(f, i) ? (*at)++ : NULL;
  struct one *one = &f->one[i];
  const enum dtype type = x->type == DTYPE_BFLOAT16 ? DTYPE_FLOAT : x->type;
  int64_t n = 0;
  if (read_numbers(f, &least, err) || read_numbers(f, &most, err) || read_numbers(f, &size, err) ||
      (magnitude && read_numbers(f, &magnitude, err)) || (sum && read_numbers(f, &sum, err)))
    return -1;
  if (!is_numbers(size, DTYPE_INT64)) goto wrong;
  memcpy(&n, size->at, sizeof n);
  one->elements = one->of.numbers = (uint64_t)n;
  f->suspect[i] = false;
  if (n <= 0) return 0;
  if (!is_numbers(least, type) || !is_numbers(most, type) || (sum && !is_numbers(sum, type)) ||
      (magnitude && !is_numbers(magnitude, type)) || least->count != most->count)
    goto wrong;
  if (magnitude) one->of.magnitude = number(magnitude, 0);
  f->suspect[i] = sum && isnan(number(sum, 0));
  if (x->by_channel) {
    one->n_channels = (uint32_t)least->count;
    f->least[i] = take_channels(f, least);
    f->most[i] = take_channels(f, most);
  }
  for (uint64_t k = 0; k < least->count; k++) {
    one->of.least = fminf(one->of.least, number(least, k));
    one->of.most = fmaxf(one->of.most, number(most, k));
  }
  return 0;
wrong:
  return err_set(err, ERR_FAIL, "ONNX Runtime returned no range of '%s'", quote_str(x->name).s);
}

static int look_at(struct first *f, uint32_t i, const struct array *x, struct err *err) {
  const struct calibrate_value *v = &f->c->values.list[i];
  struct one *one = &f->one[i];
  struct calibrate_along along;
  *one = (struct one){.of = kernels_tally_nothing(), .elements = x->count};
  f->least[i] = f->most[i] = NULL;
  if (v->by_channel && calibrate_along(x, v->axis, &along)) {
    f->least[i] = arena_alloc(&f->sample, along.channels * sizeof(float) + 1);
    f->most[i] = arena_alloc(&f->sample, along.channels * sizeof(float) + 1);
    one->n_channels = along.channels;
  }
  return calibrate_look_extremes(x, v->axis, &one->of, f->least[i], f->most[i], err);
}

// As the numbers that the runtime finds are taken (number).
static void drop_signs_of_zeros(struct first *f, uint32_t i) {
  for (uint32_t k = 0; k < f->one[i].n_channels; k++) {
    f->least[i][k] += 0.0f;
    f->most[i][k] += 0.0f;
  }
}

// ---- NaN ----------------------------------------------------------------------------------------

// What takes in something suspicious is suspicious, unless its own sum says that it is not.
static bool spreads(struct first *f, uint32_t i) {
  const struct calibrate_value *x = &f->c->values.list[i];
  const struct model *m = f->c->m;
  if (f->suspect[i] || is_checked(f, i) || x->input ||
      m->values[x->value].kind != VALUE_NODE_OUTPUT)
    return false;
  const struct model_node *n = &m->nodes[m->values[x->value].def];
  for (uint32_t k = 0; k < n->n_in; k++) {
    const uint32_t value = model_input(m, n, k),
                   place = value == NO_ID ? 0 : f->c->values.place[value];
    if (place && f->suspect[place - 1]) return f->suspect[i] = true;
  }
  return false;
}

// Values [*at, …) that are suspicious, as many as may come back together.
static uint32_t gather_suspects(struct first *f, uint32_t *at, uint32_t *list) {
  const struct calibrate_values *v = &f->c->values;
  uint64_t bytes = 0;
  uint32_t n = 0;
  for (; *at < v->n_list; (*at)++) {
    const struct calibrate_value *x = &v->list[*at];
    if (!f->suspect[*at] || !is_run(x)) continue;
    const uint64_t more = f->one[*at].elements * dtype_bits(x->type) / 8;
    if (n > 0 && bytes + more > f->c->options.group_bytes) break;
    bytes += more;
    list[n++] = *at;
  }
  return n;
}

static int fetch(struct first *f, const struct arrays *inputs, const char *sample,
                 struct err *err) {
  const struct calibrate_values *v = &f->c->values;
  uint32_t *list = arena_alloc(&f->sample, (v->n_list + (size_t)1) * sizeof *list);
  const char **names = arena_alloc(&f->sample, (v->n_list + (size_t)1) * sizeof *names);
  uint32_t at = 0, n;
  while ((n = gather_suspects(f, &at, list)) > 0) {
    struct runtime_model got;
    struct arrays results;
    f->loaded = false;
    calibrate_model_begin(f->c->model);
    for (uint32_t k = 0; k < n; k++) {
      names[k] = v->list[list[k]].name;
      if (!v->list[list[k]].output) calibrate_model_output(f->c->model, names[k]);
    }
    if (calibrate_model_load(f->c->model, &got, err) != RUNTIME_DONE) return -1;
    const enum runtime_end end =
        runtime_run(f->c->runtime, inputs, names, n, &f->sample, &results, err);
    f->c->runs++;
    if (end != RUNTIME_DONE) return calibrate_failed(end, sample, err);
    for (uint32_t k = 0; k < n; k++)
      if (look_at(f, list[k], &results.list[k], err)) return -1;
    runtime_release(f->c->runtime);
  }
  return 0;
}

static int settle_suspects(struct first *f, const struct arrays *inputs, const char *sample,
                           struct err *err) {
  const uint32_t n = f->c->values.n_list;
  bool any = false, more = true;
  for (uint32_t i = 0; i < n; i++)
    any = any || f->suspect[i];
  if (!any) return 0;
  while (more) {
    more = false;
    for (uint32_t i = 0; i < n; i++)
      more = spreads(f, i) || more;
  }
  return fetch(f, inputs, sample, err);
}

// ---- records ------------------------------------------------------------------------------------

static void put(struct first *f, const void *at, size_t n) {
  if (n == 0) return;
  TABLE_ROOM(f, record, n);
  memcpy(f->record + f->n_record, at, n);
  f->n_record += n;
}

static void encode(struct first *f) {
  const uint32_t n = f->c->values.n_list;
  f->n_record = 0;
  put(f, &n, sizeof n);
  put(f, f->one, n * sizeof *f->one);
  for (uint32_t i = 0; i < n; i++) {
    put(f, f->least[i], f->one[i].n_channels * sizeof(float));
    put(f, f->most[i], f->one[i].n_channels * sizeof(float));
  }
}

static bool decode(struct first *f, struct span from) {
  const uint32_t n = f->c->values.n_list;
  uint32_t its;
  size_t at = sizeof its + n * sizeof *f->one;
  if (from.n < at) return false;
  memcpy(&its, from.at, sizeof its);
  if (its != n) return false;
  memcpy(f->one, from.at + sizeof its, n * sizeof *f->one);
  for (uint32_t i = 0; i < n; i++) {
    const size_t bytes = f->one[i].n_channels * sizeof(float);
    if (bytes > (from.n - at) / 2) return false;
    f->least[i] = arena_alloc(&f->sample, bytes + 1);
    f->most[i] = arena_alloc(&f->sample, bytes + 1);
    if (bytes > 0) memcpy(f->least[i], from.at + at, bytes);
    if (bytes > 0) memcpy(f->most[i], from.at + at + bytes, bytes);
    at += 2 * bytes;
  }
  return at == from.n;
}

// ---- all samples together -----------------------------------------------------------------------

static void fold_channels(struct first *f, uint32_t i) {
  struct calibrate_seen *s = &f->c->seen[i];
  const uint32_t n = f->one[i].n_channels;
  if (n == 0 || s->ragged) return;
  if (!s->channel_least) {
    s->n_channels = n;
    s->channel_least = arena_alloc(&f->c->arena, n * sizeof(float));
    s->channel_most = arena_alloc(&f->c->arena, n * sizeof(float));
    memcpy(s->channel_least, f->least[i], n * sizeof(float));
    memcpy(s->channel_most, f->most[i], n * sizeof(float));
  } else if (s->n_channels != n) {
    s->ragged = true;
  } else {
    for (uint32_t k = 0; k < n; k++) {
      s->channel_least[k] = fminf(s->channel_least[k], f->least[i][k]);
      s->channel_most[k] = fmaxf(s->channel_most[k], f->most[i][k]);
    }
  }
}

static void fold(struct first *f) {
  const bool each = f->c->options.how.moving_average;
  for (uint32_t i = 0; i < f->c->values.n_list; i++) {
    struct calibrate_seen *s = &f->c->seen[i];
    const struct one *one = &f->one[i];
    if (is_infinite(&one->of)) s->infinite = true;
    if (s->infinite) continue;
    range_method_see(&s->of, &one->of);
    s->largest = max_u64(s->largest, one->elements);
    fold_channels(f, i);
    if (!each || one->of.least > one->of.most) continue;
    s->sample_least[s->of.n_samples] = one->of.least;
    s->sample_most[s->of.n_samples++] = one->of.most;
  }
  f->done++;
}

static bool take_record(void *ctx, struct span record) {
  struct first *f = ctx;
  arena_reset(&f->sample);
  if (f->done == f->c->n_samples || !decode(f, record)) return false;
  fold(f);
  return true;
}

static int run_sample(void *ctx, const struct arrays *inputs, const char *sample, struct err *err) {
  struct first *f = ctx;
  struct calibrate *c = f->c;
  const struct calibrate_values *v = &c->values;
  struct arrays results = {NULL, 0};
  arena_reset(&f->sample);
  for (uint32_t i = 0; i < v->n_list; i++)
    f->one[i] = (struct one){.of = kernels_tally_nothing()};
  if (calibrate_small_find(c, inputs, is_run, f->fetched)) f->loaded = false;
  enum runtime_end end = load(f, err);
  if (end != RUNTIME_DONE) return -1;
  if (f->n_wanted > 0)
    end = runtime_run(c->runtime, inputs, f->wanted, f->n_wanted, &f->sample, &results, err);
  c->runs++;
  if (end != RUNTIME_DONE) return calibrate_failed(end, sample, err);
  const struct array *at = results.list;
  for (uint32_t i = v->n_list; i-- > 0;) { // as they were added
    const struct calibrate_value *x = &v->list[i];
    const struct array *given = x->input ? array_named(inputs, x->name) : NULL; // at hand
    f->suspect[i] = false;
    if (f->fetched[i])
      given = at++;
    else if (is_run(x) && take_value(f, i, &at, err))
      return -1;
    if (given && given->kind == ARRAY_TENSOR && look_at(f, i, given, err)) return -1;
    if (f->fetched[i]) drop_signs_of_zeros(f, i);
    if (given) f->suspect[i] = f->one[i].of.nans > 0;
  }
  runtime_release(c->runtime);
  if (settle_suspects(f, inputs, sample, err)) return -1;
  for (uint32_t i = 0; i < v->n_list; i++) {
    const struct calibrate_value *x = &v->list[i];
    if (x->same != NO_ID) f->one[i] = f->one[x->same];
    if (x->same != NO_ID) f->one[i].n_channels = 0;
    if (is_infinite(&f->one[i].of) && !c->options.skip_infinite)
      return refuse_infinite(x->name, &f->one[i].of, sample, err);
  }
  encode(f);
  if (sample_journal_add(&f->log, span_of(f->record, f->n_record), err)) return -1;
  fold(f);
  return 0;
}

static int run_samples(struct first *f, struct err *err) {
  struct calibrate *c = f->c;
  if (sample_journal_open(&f->log, c->kept, "first", take_record, f, err)) return -1;
  c->resumed_runs += f->done;
  return calibrate_each_sample(c, f->done, true, run_sample, f, err);
}

static void leave_out_infinite(struct calibrate *c) {
  struct calibrate_values *v = &c->values;
  for (uint32_t i = 0; i < v->n_list; i++)
    if (c->seen[i].infinite)
      *TABLE_PUSH(v, uncovered) = (struct calibrate_uncovered){v->list[i].name, CALIBRATE_INFINITE};
}

int calibrate_first(struct calibrate *c, struct err *err) {
  const uint32_t n = c->values.n_list;
  struct arena a = {0};
  struct first f = {.c = c,
                    .one = arena_zalloc(&a, (n + (size_t)1) * sizeof *f.one),
                    .least = arena_zalloc(&a, (n + (size_t)1) * sizeof *f.least),
                    .most = arena_zalloc(&a, (n + (size_t)1) * sizeof *f.most),
                    .suspect = arena_zalloc(&a, (n + (size_t)1) * sizeof *f.suspect),
                    .fetched = arena_zalloc(&a, (n + (size_t)1) * sizeof *f.fetched),
                    .magnitudes =
                        c->options.how.method == RANGES_PERCENTILE && c->options.how.symmetric};
  c->seen = arena_zalloc(&c->arena, (n + (size_t)1) * sizeof *c->seen);
  for (uint32_t i = 0; i < n; i++) {
    struct calibrate_seen *s = &c->seen[i];
    s->of = range_method_nothing();
    if (!c->options.how.moving_average) continue;
    s->of.sample_least = s->sample_least = arena_alloc(&c->arena, c->n_samples * sizeof(float) + 1);
    s->of.sample_most = s->sample_most = arena_alloc(&c->arena, c->n_samples * sizeof(float) + 1);
  }
  const int rc = run_samples(&f, err);
  sample_journal_close(&f.log);
  TABLE_FREE(&f, record);
  arena_free(&f.names);
  arena_free(&f.sample);
  arena_free(&a);
  for (uint32_t i = 0; i < n && rc == 0; i++)
    c->nans += c->seen[i].of.nans > 0;
  if (rc == 0) leave_out_infinite(c);
  return rc;
}

// ---- types ---------------------------------------------------------------------------------------

int calibrate_find_types(struct calibrate *c, struct err *err) {
  struct calibrate_values *v = &c->values;
  struct runtime_model got;
  bool any = false;
  calibrate_model_begin(c->model);
  for (uint32_t i = 0; i < v->n_list; i++)
    if (v->list[i].type == DTYPE_UNDEFINED) {
      if (!v->list[i].output && !v->list[i].input)
        calibrate_model_output(c->model, v->list[i].name);
      any = true;
    }
  if (!any) return 0;
  const enum runtime_end end = calibrate_model_load(c->model, &got, err);
  if (end != RUNTIME_DONE) return -1;
  for (uint32_t i = 0; i < v->n_list; i++) {
    struct calibrate_value *x = &v->list[i];
    for (uint32_t k = 0; k < got.n_outputs && x->type == DTYPE_UNDEFINED; k++)
      if (strcmp(got.outputs[k].name, x->name) == 0 && got.outputs[k].known &&
          got.outputs[k].kind == ARRAY_TENSOR)
        x->type = got.outputs[k].dtype;
  }
  calibrate_values_drop(v);
  return 0;
}
