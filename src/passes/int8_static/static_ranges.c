// Ranges of values that are known before anything is marked: what a Softmax gives, what goes into a Relu or Clip.
//
//   x ─▶ Relu ─▶ y         x, if no other node sees it, needs no more range than y
//   s ─▶ Softmax ─▶ p      p: from 0 to 1, or what was seen, and no less than ONNX Runtime's operator can have
//
// What has no range since nobody was to look at it stays float: values that 'weir calibrate' was told to leave out (--exclude,
// --skip-infinite), all but those of --override where there are no RANGES, and what nodes make of constants alone, which it does not look at
// where it knows that.
#include "passes/int8_static/inside/static.h"

#include "json/json.h"
#include "platform/patterns.h"
#include "ranges/ranges.h"

#include <math.h>

bool static_is_of_softmax(const struct static_run *s, uint32_t value) {
  return value < s->n_of_softmax && s->of_softmax[value] > 0;
}

// Does nothing but the node see what it is given? The existing tool does not know that an output is seen.
static bool sees_alone(struct static_run *s, uint32_t value) {
  const uint32_t unseen = s->o->compat && kit_is_output(&s->k, value);
  return kit_use_count(&s->k, value, 3) - unseen == 1;
}

// Softmax gives [0, 1], but sums over many elements may be far below: then what was seen is the range. ONNX Runtime makes a
// QLinearSoftmax where there are a DQ and a Q, or could be after what moves elements, asked for or not; its codes are wrong where 1 / scale
// is more than 128 for each element of a sum. (Measured over sums of 1 to 4000 elements in 1.31.1.) So no range is smaller
// than this. (compat: [0, 1], and only where it is taken.)
static double softmax_least(struct static_run *s, uint32_t node) {
  enum { CODES = 255, LARGEST = 128 };
  const uint64_t terms = kit_softmax_terms(&s->k, node);
  return terms ? fmin((double)CODES / (double)LARGEST / (double)terms, 1) : 1;
}

// Takes the mean of its first input off, so that a step between elements that are nearly alike is as good as any other difference?
static bool is_norm(struct static_run *s, uint32_t node) {
  static const char *const names[] = {"GroupNormalization", "InstanceNormalization",
                                      "LayerNormalization", "MeanVarianceNormalization"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(static_op_type(s, node), names[i]) == 0) return true;
  return false;
}

// Does a norm take the value, or what only moves, clips or passes on its elements?
static bool goes_to_norm(struct static_run *s, uint32_t value) {
  struct kit *k = &s->k;
  struct {
    TABLE(uint32_t, values);
  } at = {0};
  bool found = false;
  *TABLE_PUSH(&at, values) = value;
  for (uint32_t i = 0; i < at.n_values && !found; i++)
    for (struct kit_use u = kit_uses(k, at.values[i]); kit_use(k, &u) && !found;) {
      const uint32_t out = kit_out(k, u.node, 0);
      const enum op op = kit_op(k, u.node);
      const bool moves = op == OP_Relu || op == OP_Clip || static_moves(s, u.node);
      if (out == NO_ID || k->m->nodes[u.node].graph != s->graph) continue;
      found = u.slot == 0 && is_norm(s, u.node);
      if ((u.slot == 0 && moves) || static_vanishes(s, u.node) == at.values[i])
        *TABLE_PUSH(&at, values) = out;
    }
  TABLE_FREE(&at, values);
  return found;
}

static void softmax_range(struct static_run *s, uint32_t node, bool taken) {
  const double hardly_codes = 1.0 / 16;
  struct int8_range *r = &s->range[kit_out(&s->k, node, 0)];
  const double seen = r->type ? r->most : 1;
  const bool is_whole = taken && seen >= hardly_codes && !goes_to_norm(s, kit_out(&s->k, node, 0));
  double most = 1;
  if (!s->o->compat && !is_whole) most = fmax(softmax_least(s, node), seen);
  *r = (struct int8_range){.type = kit_dtype(&s->k, kit_out(&s->k, node, 0)),
                           .most = most < 1 ? most : 1,
                           .has_deviation = r->has_deviation,
                           .mean = r->mean,
                           .deviation = r->deviation};
}

// ONNX Runtime drops a Relu or Clip before a Q whose codes hold no more than it lets through: what is not asked for has a range that is
// right after a Softmax too.
static void adjust_clipped(struct static_run *s, uint32_t node) {
  const uint32_t in = kit_in(&s->k, node, 0), out = kit_out(&s->k, node, 0);
  const char *why;
  if (s->o->compat || !static_is_of_softmax(s, in) || !static_holds_floats(s, out) ||
      static_takes(s, node, &why))
    return;
  s->of_softmax[out] = s->of_softmax[in];
  if (s->range[out].type && s->range[out].least >= 0 && s->range[out].most < s->of_softmax[out])
    s->range[out].most = s->of_softmax[out];
}

// What only moves the elements of a Softmax has its range, and what passes them on and goes.
static void adjust_moved(struct static_run *s, uint32_t node) {
  const uint32_t in = static_moves(s, node) ? kit_in(&s->k, node, 0) : static_vanishes(s, node);
  if (s->o->compat || !static_is_of_softmax(s, in)) return;
  for (uint32_t i = 0; i < kit_n_out(&s->k, node); i++) {
    const uint32_t out = kit_out(&s->k, node, i);
    if (out == NO_ID || !static_holds_floats(s, out)) continue;
    s->of_softmax[out] = s->of_softmax[in];
    if (s->range[out].type) s->range[out] = s->range[in];
  }
}

// What goes into a Relu or Clip, and only there, needs no more range than the output. The output of a Softmax keeps its own. (compat: a
// Clip may let less through.)
void static_adjust_ranges(struct static_run *s) {
  struct kit *k = &s->k;
  TABLE_ADD(s, of_softmax, k->m->n_values);
  uint32_t *nodes;
  const uint32_t n_nodes = static_nodes(s, &nodes);
  for (uint32_t i = 0; i < n_nodes; i++) {
    const uint32_t n = nodes[i];
    const char *why, *op = static_op_type(s, n);
    const uint32_t in = kit_in(k, n, 0), out = kit_out(k, n, 0);
    const bool clips = strcmp(op, "Relu") == 0 || strcmp(op, "Clip") == 0;
    if (in == NO_ID || out == NO_ID) continue;
    adjust_moved(s, n);
    if (clips) adjust_clipped(s, n);
    if (!clips && strcmp(op, "Softmax") != 0) continue;
    const bool taken = static_takes(s, n, &why);
    if (!clips && (taken || (!s->o->compat && s->range[out].type))) {
      softmax_range(s, n, taken);
      s->of_softmax[out] = s->o->compat ? 0 : softmax_least(s, n);
    } else if (clips && taken && !static_is_of_softmax(s, in) && sees_alone(s, in) &&
               s->range[in].type && s->range[out].type) {
      s->range[in] = s->range[out];
    }
  }
}

// ---- without a range -----------------------------------------------------------------------------

struct left_out {
  const struct json_value *patterns; // NULL: none
  bool all;
};

static bool is_left_out(const struct static_run *s, const struct left_out *by, uint32_t value) {
  const char *name = model_name_str(s->k.m, s->k.m->values[value].name);
  for (const struct json_value *p = json_first(by->patterns); p; p = json_next(p)) {
    struct span pattern;
    if (json_as_string(p, &pattern) && pattern_glob((const char *)pattern.at, name)) return true;
  }
  return by->all;
}

// Floats that nodes or callers give, of which nothing is known: no constants, none by overrides, none that a DequantizeLinear made.
static bool lacks_range(struct static_run *s, uint32_t value) {
  struct static_params p;
  const enum op op = kit_maker_op(&s->k, value);
  return static_holds_floats(s, value) && !static_is_constant(s, value) &&
         op != OP_DequantizeLinear && op != OP_ms_DequantizeLinear &&
         !static_params_of(s, value, &p);
}

static void leave_unseen(struct static_run *s, const struct left_out *by, uint32_t value) {
  struct model_constant c;
  if (value == NO_ID || static_is_left(s, value) || !lacks_range(s, value)) return;
  if (is_left_out(s, by, value) || static_is_folded(s, value) ||
      model_resolve_constant(s->k.m, value, &c))
    static_leave_value(s, value, "no_range");
}

void static_leave_unseen(struct static_run *s) {
  struct kit *k = &s->k;
  const struct model_graph *g = &k->m->graphs[s->graph];
  const char *options = s->ranges->options;
  struct err err = {.kind = ERR_NONE};
  struct json_value *told = options ? json_parse(span_str(options), "options", &err) : NULL;
  const struct json_value *skips = json_get(told, "skip_infinite");
  const struct left_out by = {json_get(told, "exclude"),
                              !s->o->ranges || (skips && json_as_bool(skips, &(bool){0}))};
  for (uint32_t i = 0; i < g->n_inputs; i++)
    leave_unseen(s, &by, k->m->graph_io[g->inputs + i]);
  for (uint32_t n = g->first_node; n != NO_ID; n = k->m->nodes[n].next)
    for (uint32_t i = 0; i < kit_n_out(k, n); i++)
      leave_unseen(s, &by, kit_out(k, n, i));
  json_free(told);
}
