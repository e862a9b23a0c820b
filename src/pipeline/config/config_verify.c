// What a pipeline file says of verification.
//
//   verify: equality | tolerance | promise | off      of all passes, or of one
//   verify: {tolerance: {rtol: 1e-5, atol: 1e-8}}
//   verify: {metric: {cosine: [0.99, 1], max_abs: [0, 1e-3]}}
//   verify: {metrics: {accuracy: [0.9, 1]}}           of all: outputs of the whole model beside reference.out
//   reference: inputs.npz
//   reference: {inp: [a.npy, b.npy], out: [c.npy]}
//
// In a file of onnx-passes a tolerance is for those passes that promise less than the same numbers, as its classes have
// it; elsewhere it is for all of them. Which it is, is known at the end of the file.
#include "pipeline/config/inside/config.h"

#include "base/guess.h"

#include <math.h>
#include <string.h>

// ---- tolerance ---------------------------------------------------------------------------------

static int read_tolerance(struct config *c, struct compare_bounds *b) {
  b->rtol = 1e-5; // NumPy's
  b->atol = 1e-8;
  if (config_is_null(c)) return config_next(c);
  if (!config_is(c, CONFIG_MAPPING))
    return config_refuse_kind(c, "a mapping with 'rtol' and 'atol'");
  if (config_next(c)) return -1;
  bool given[3] = {false};
  while (!config_is(c, CONFIG_END_MAPPING)) {
    const bool rtol = config_is_word(c, "rtol"), nans = config_is_word(c, "equal_nan");
    bool equal = true;
    if (!rtol && !nans && !config_is_word(c, "atol"))
      return config_refuse(c, "a tolerance has 'rtol' and 'atol'");
    if (given[rtol ? 0 : nans ? 1 : 2]) return config_refuse(c, "it is given twice");
    given[rtol ? 0 : nans ? 1 : 2] = true;
    double *to = rtol ? &b->rtol : &b->atol;
    if (config_next(c)) return -1;
    const struct config_event *at = c->at;
    if (nans) {
      if (config_bool(c, &equal)) return -1;
      if (!equal)
        config_note(c, at, NULL, "'equal_nan' has no effect: a NaN is always equal to a NaN");
      continue;
    }
    if (config_number(c, to)) return -1;
    if (!isfinite(*to) || *to < 0)
      return config_refuse_at(c, at, "a tolerance is a number from 0 on");
  }
  return config_next(c);
}

// ---- metrics -----------------------------------------------------------------------------------

static int read_range(struct config *c, double range[2]) {
  if (!config_is(c, CONFIG_LIST)) return config_refuse_kind(c, "a list of minimum and maximum");
  if (config_next(c) || config_number(c, &range[0]) || config_number(c, &range[1])) return -1;
  if (!config_is(c, CONFIG_END_LIST)) return config_refuse_kind(c, "the end of the list");
  return config_next(c);
}

// A metric's name, and [least, most]: of those that are better when they are larger the least counts, of
// others the most.
static int read_metric(struct config *c, struct compare_bounds *b) {
  static const struct {
    const char *name, *ours;
    bool larger;
  } metrics[] = {{"cosine", "cosine", true},
                 {"sqnr", "sqnr", true},
                 {"top1", "top1", true},
                 {"accuracy", "top1", true},
                 {"relative", "relative", false},
                 {"p99", "p99", false},
                 {"p999", "p999", false},
                 {"max_abs", "max_abs", false},
                 {"max_abs_error", "max_abs", false},
                 {"mean_abs", "mean_abs", false}};
  const struct config_event *at = c->at;
  struct err why = {0};
  double range[2];
  size_t k = 0;
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "the name of a metric");
  while (k < sizeof metrics / sizeof *metrics && !config_is_word(c, metrics[k].name))
    k++;
  if (k == sizeof metrics / sizeof *metrics) {
    (void)config_refuse(c, "there is no metric '%s'", quote(c->at->word).s);
    return err_hint(c->err, "cosine, sqnr, top1, relative, p99, p999, max_abs, mean_abs");
  }
  if (config_next(c) || read_range(c, range)) return -1;
  const double bound = metrics[k].larger ? range[0] : range[1];
  if (!isfinite(bound))
    return config_refuse_at(c, at, "the range of '%s' has no %s, so it would allow everything",
                            metrics[k].name, metrics[k].larger ? "minimum" : "maximum");
  if (compare_take_metric(b, arena_printf(&c->p->arena, "%s=%.17g", metrics[k].ours, bound), &why))
    return config_refuse_word(c, at, &why);
  return 0;
}

static int read_metrics(struct config *c, struct compare_bounds *b) {
  if (!config_is(c, CONFIG_MAPPING)) return config_refuse_kind(c, "a mapping of metrics");
  if (config_next(c)) return -1;
  if (config_is(c, CONFIG_END_MAPPING)) return config_refuse(c, "no metric is named");
  while (!config_is(c, CONFIG_END_MAPPING))
    if (read_metric(c, b)) return -1;
  return config_next(c);
}

// One of 'metrics': the outputs of the model beside those that are expected.
static int read_task_metric(struct config *c) {
  struct pipeline *p = c->p;
  struct guess g;
  struct pipeline_metric m = {.place = config_place(c, c->at)};
  double range[2];
  if (!config_is(c, CONFIG_WORD)) return config_refuse_kind(c, "the name of a metric");
  g = guess_start(arena_string(&p->arena, c->at->word));
  for (m.metric = 0; m.metric < TASK_METRICS; m.metric++) {
    if (config_is_word(c, task_metric_name(m.metric))) break;
    guess_try(&g, task_metric_name(m.metric));
  }
  if (m.metric == TASK_METRICS) {
    (void)config_refuse(c, "there is no metric '%s'", quote(c->at->word).s);
    if (g.best) return err_hint(c->err, "did you mean '%s'?", g.best);
    return err_hint(c->err, "the metrics are max_abs_error, accuracy, top_5_accuracy and "
                            "count_mispredictions; weir does not run Python functions");
  }
  const struct config_event *at = c->at;
  if (config_next(c) || read_range(c, range)) return -1;
  if (range[0] > range[1])
    return config_refuse_at(c, at, "the range of '%s' is empty: its minimum is above its maximum",
                            task_metric_name(m.metric));
  if (isinf(range[0]) && isinf(range[1]))
    return config_refuse_at(c, at, "the range of '%s' would allow everything",
                            task_metric_name(m.metric));
  for (uint32_t i = 0; i < p->n_metrics; i++)
    if (p->metrics[i].metric == m.metric)
      return config_refuse_at(c, at, "a second key '%s'", task_metric_name(m.metric));
  m.least = range[0];
  m.most = range[1];
  *TABLE_PUSH(p, metrics) = m;
  return 0;
}

static int read_task_metrics(struct config *c) {
  c->theirs = true;
  c->p->n_metrics = 0; // those of a file that this one imports
  if (config_is_null(c)) return config_next(c);
  if (!config_is(c, CONFIG_MAPPING)) return config_refuse_kind(c, "a mapping of metrics");
  if (config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_MAPPING))
    if (read_task_metric(c)) return -1;
  return config_next(c);
}

// ---- verify ------------------------------------------------------------------------------------

static int unknown_way(struct config *c) {
  struct guess g =
      guess_start(config_is(c, CONFIG_WORD) ? arena_string(&c->p->arena, c->at->word) : "");
  static const char *const ways[] = {"equality", "tolerance", "metric", "metrics", "promise"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    guess_try(&g, ways[i]);
  (void)config_refuse(c, "'verify' is equality, tolerance, metric, promise or off");
  return g.best ? err_hint(c->err, "did you mean '%s'?", g.best) : -1;
}

static int read_word(struct config *c, struct pipeline_verify *v, bool all) {
  bool on = false;
  v->bounds.equal = config_is_word(c, "equality");
  if (config_is_null(c)) {
    v->proof = PIPELINE_PROOF_OFF;
  } else if (config_is_word(c, "promise")) {
    v->proof = PIPELINE_PROOF_PROMISE;
  } else if (config_is_word(c, "tolerance")) {
    v->bounds.rtol = 1e-5, v->bounds.atol = 1e-8;
  } else if (!v->bounds.equal) {
    if (!config_is_bool(c, &on)) return unknown_way(c);
    c->theirs = c->theirs || (on && all);
    v->proof = on ? PIPELINE_PROOF_PROMISE : PIPELINE_PROOF_OFF;
  }
  return config_next(c);
}

// A key that is a truth, as {true: true}: nothing but "not empty", which turns verification on.
static int read_on(struct config *c) {
  bool key, value;
  if (!config_is_bool(c, &key)) return unknown_way(c);
  c->theirs = true;
  return config_next(c) ? -1 : config_bool(c, &value);
}

static int read_verify(struct config *c, struct pipeline_verify *v, bool all) {
  *v = (struct pipeline_verify){PIPELINE_PROOF_BOUNDS, compare_nothing()};
  bool bounded = false;
  if (config_is(c, CONFIG_WORD)) return read_word(c, v, all);
  if (!config_is(c, CONFIG_MAPPING)) return config_refuse_kind(c, "how to verify");
  if (config_next(c)) return -1;
  if (all && config_is(c, CONFIG_END_MAPPING)) {
    v->proof = PIPELINE_PROOF_OFF;
    return config_next(c);
  }
  if (config_is(c, CONFIG_END_MAPPING)) return unknown_way(c);
  while (!config_is(c, CONFIG_END_MAPPING)) {
    const bool tolerance = config_is_word(c, "tolerance"), metric = config_is_word(c, "metric");
    if (all && config_is_word(c, "metrics")) {
      if (config_next(c) || read_task_metrics(c)) return -1;
    } else if (tolerance || metric) {
      bounded = true;
      if (config_next(c) || (tolerance ? read_tolerance : read_metrics)(c, &v->bounds)) return -1;
    } else if (!all || !config_is(c, CONFIG_WORD)) {
      return unknown_way(c);
    } else if (read_on(c)) {
      return -1;
    }
  }
  if (!bounded) v->proof = PIPELINE_PROOF_PROMISE;
  return config_next(c);
}

int config_verify(struct config *c, struct pipeline_verify *v) {
  return read_verify(c, v, false);
}

int config_all_verify(struct config *c) {
  c->said_verify = true;
  return read_verify(c, &c->p->verify, true);
}

int config_verify_on(struct config *c) {
  const bool model = config_is_word(c, "model");
  if (!model && !config_is_word(c, "sites"))
    return config_refuse(c, "'verify_on' is sites or model");
  c->p->verify_models = model;
  return config_next(c);
}

// ---- reference ---------------------------------------------------------------------------------

static int read_paths(struct config *c, struct pipeline_paths *out) {
  const char *path;
  out->n_list = 0;
  if (config_is_null(c)) return config_next(c);
  const bool list = config_is(c, CONFIG_LIST);
  if (list && config_next(c)) return -1;
  while (!config_is(c, CONFIG_END_LIST)) {
    if (config_text(c, "the name of a .npy or .npz file", &path)) return -1;
    *TABLE_PUSH(out, list) = path;
    if (!list) return 0;
  }
  return config_next(c);
}

static int read_inp(struct config *c) {
  return read_paths(c, &c->p->inputs);
}

static int read_out(struct config *c) {
  return read_paths(c, &c->p->outputs);
}

int config_reference(struct config *c) {
  static const struct config_key keys[] = {{"inp", read_inp}, {"out", read_out}};
  if (config_is(c, CONFIG_MAPPING)) {
    c->theirs = true;
    return config_mapping(c, "'reference'", keys, 2, NULL);
  }
  if (!config_is(c, CONFIG_WORD) || c->at->word.n == 0)
    return config_refuse_kind(c, "a file or folder of arrays");
  return config_text(c, "a file or folder of arrays", &c->p->reference);
}

// ---- together ----------------------------------------------------------------------------------

// Does the key stand anywhere, be it as "off"?
static bool says_verify(const struct pipeline *p) {
  bool said = p->verify.proof != PIPELINE_PROOF_OPEN;
  for (uint32_t i = 0; i < p->n_steps && !said; i++)
    said = p->steps[i].verify.proof != PIPELINE_PROOF_OPEN || pipeline_point_of(p, i);
  return said;
}

int config_verify_end(struct config *c, const struct config_event *verify_on,
                      const struct config_event *reference) {
  struct pipeline *p = c->p;
  const bool one = reference && p->reference; // a list of theirs may be there for other files
  const struct config_event *needless = verify_on ? verify_on : one ? reference : NULL;
  if (needless && !says_verify(p)) {
    (void)config_refuse_at(c, needless, "'%s' has no effect without 'verify'",
                           verify_on ? "verify_on" : "reference");
    return err_hint(c->err, "'verify: promise' checks that every pass keeps its promise");
  }
  if (p->n_metrics && !p->outputs.n_list)
    config_note(c, c->at, "name .npy files with 'reference: {inp: [...], out: [...]}'",
                "the metrics have no effect: there are no expected outputs");
  if (p->outputs.n_list && !p->inputs.n_list)
    return config_refuse_at(c, reference ? reference : c->at,
                            "'reference' has expected outputs ('out'), but not the inputs "
                            "('inp') that belong to them");
  const struct compare_bounds *b = &p->verify.bounds;
  if (c->theirs && c->said_verify && p->verify.proof == PIPELINE_PROOF_BOUNDS && b->rtol >= 0) {
    p->tolerance = *b;
    p->verify.proof = PIPELINE_PROOF_PROMISE;
  }
  if (p->outputs.n_list && !p->n_metrics && p->tolerance.rtol < 0)
    config_note(c, c->at,
                "to compare the model's outputs with them, set 'verify: {tolerance: {rtol: "
                "1e-5}}' or 'verify: {metrics: {accuracy: [0.9, 1]}}'",
                "the expected outputs ('out') have no effect: there are no metrics, and no "
                "tolerance");
  return 0;
}
