// Decisions that need a look at the weights first: bits and block of every weight by a budget,
// weights that miss a gate, weights with NaN or infinities. What they need is asked for once, for
// all weights; then everything is decided from the figures.
//
//   per weight   allowed: the candidates (a budget) or the scheme it has, less what misses the gate;
//                none left: raise (8 bit), skip or fail
//                (candidates and 8 bits: those that there is an operator for)
//   all weights  the allowed one that the budget picks (size_budget.h), or the only one
//
// A weight with NaN or infinities has no figures: with --on-nonfinite skip it is left alone, else
// the run refuses it later.
//
// The budget is for all files of the output. What is not a quantized weight is counted as in the
// source, names and nodes at a flat rate, and where weights lie is not known. So the first round keeps
// room for alignment at its most; whoever runs the pass then plans, and says by how much the count
// was wrong (overcount in pass.h): that holds for the next round, padding included. A round for which
// nothing is small enough picks the smallest of all.
#include "base/table.h"
#include "passes/nbits/inside/nbits.h"
#include "passes/questions/measured.h"
#include "passes/questions/weighings.h"

enum {
  NAMES_BYTES = 300, // of a weight's three tensors, beside their own names
  NODE_BYTES = 100,  // of what becomes of a node that uses one
  NAMED = 8,         // weights that an error names
  DEPTH_MAX = 8,
};

struct option {
  struct matmulnbits_scheme scheme;
  uint32_t codes; // recipe: what is measured
  struct nbits_size size;
  uint32_t figures; // index of the answer
  uint32_t by;      // recipe that errors of the output are weighed by; NO_ID: none
  uint32_t weighed; // index of the answer about the output; NO_ID: none
};

// A weight as it is quantized, for all sites that quantize it alike and have the same schemes to
// choose from. Weights of equal bytes are one here: they have the same figures, and the same is picked
// for them. What is told counts them each, by the first site of each (is_first).
struct weight {
  uint32_t kind, next;    // of the same codes: weight + 1, 0 ends them
  const char *name;       // of the first of them
  struct option *options; // allowed ones first
  uint32_t n, n_allowed;
  bool has_raised;
  struct option raised;   // 8 bit, where a gate may ask for it
  const char *no_raise;   // why not; NULL: it may
  bool free;              // the budget may pick
  bool gated;             // raised
  bool still;             // and misses the gate with 8 bits too
  const char *left;       // the reason why it is left alone; NULL: it is not
  const char *weighed_by; // NULL: nothing is known of its value
  uint32_t picked;
};

struct choosing {
  struct nbits_work *work;
  const struct model *m;
  const struct matmulnbits_options *o;
  bool all; // measuring only: all candidates of every weight count
  struct nbits_site *sites;
  uint32_t n_sites;
  TABLE(struct weight, weights);
  TABLE(uint32_t, by_codes); // weight + 1, by the codes of its own scheme; 0: none
  uint32_t *weight_of;       // by site; NO_ID: none
  bool *is_first;            // by site: the first of its tensor with that weight
  uint32_t n_told;           // of these
  TABLE(uint32_t, questions);
  struct figures *answers;
  TABLE(uint32_t, pairs); // questions about the output: codes, and what they are weighed by
  struct output_error *outputs;
  struct arena arena;
};

// ---- what is asked -----------------------------------------------------------------------------

static struct option make_option(struct choosing *c, const struct nbits_site *site,
                                 struct matmulnbits_scheme scheme) {
  struct nbits_site as = *site;
  as.scheme = scheme;
  c->work->site = &as;
  return (struct option){.scheme = scheme,
                         .codes = nbits_measurable(c->work),
                         .size = nbits_size(c->work),
                         .by = NO_ID,
                         .weighed = NO_ID};
}

static void ask(struct choosing *c, struct option *o) {
  o->figures = TABLE_ADD(c, questions, 1);
  c->questions[o->figures] = o->codes;
}

// What --tensor says of a weight is not the budget's to change.
static bool is_free(const struct choosing *c, const struct nbits_site *s) {
  return (c->all || c->o->budget > 0) && !s->pinned;
}

static const char *obstacle(const struct choosing *c, const struct nbits_site *s,
                            struct matmulnbits_scheme scheme) {
  const char *why = nbits_obstacle(c->m, c->o, s, &scheme);
  return why || !nbits_target_refuses(c->work, s, &scheme) ? why : "target";
}

// Sites of the same codes and kind write the same tensors, and have the same schemes to choose
// from. GatherBlockQuantized wants its codes in other dims than MatMulNBits, and a table may be
// gathered in two ways: along its rows, or not.
static uint32_t kind_of(const struct choosing *c, const struct nbits_site *s) {
  const struct matmulnbits_scheme packed = {.bits = 8, .block = 1};
  const bool gathers = s->op == MATMULNBITS_GATHER && !c->o->qdq;
  return (gathers ? 4u : 0u) | (is_free(c, s) ? 2u : 0u) |
         (nbits_obstacle(c->m, c->o, s, &packed) ? 0u : 1u);
}

static struct weight new_weight(struct choosing *c, uint32_t site, uint32_t kind,
                                struct option own) {
  const struct nbits_site *s = &c->sites[site];
  struct weight w = {.kind = kind,
                     .name = arena_string(&c->arena, model_name(c->m, s->name)),
                     .free = is_free(c, s)};
  w.options = arena_alloc(&c->arena, (c->o->n_candidates + (size_t)1) * sizeof *w.options);
  if (!w.free) w.options[w.n++] = own;
  const char *why = NULL;
  for (uint32_t i = 0; w.free && i < c->o->n_candidates; i++)
    if (!(why = obstacle(c, s, c->o->candidates[i])))
      w.options[w.n++] = make_option(c, s, c->o->candidates[i]);
  if (w.n == 0) w.left = why;
  for (uint32_t i = 0; i < w.n; i++)
    ask(c, &w.options[i]);
  w.n_allowed = w.n;
  if (w.n == 0 || c->o->n_gates == 0 || c->o->gate_action != MATMULNBITS_RAISE) return w;
  struct matmulnbits_scheme eight = s->scheme;
  eight.bits = 8;
  if (eight.algorithm == MATMULNBITS_HQQ) eight.algorithm = MATMULNBITS_DEFAULT;
  w.no_raise = obstacle(c, s, eight);
  if (w.no_raise) return w;
  w.raised = make_option(c, s, eight);
  w.has_raised = true;
  ask(c, &w.raised);
  return w;
}

static uint32_t weight_of_site(struct choosing *c, uint32_t site) {
  const struct nbits_site *s = &c->sites[site];
  const struct option own = make_option(c, s, s->scheme);
  const uint32_t kind = kind_of(c, s);
  if (c->n_by_codes <= own.codes) TABLE_ADD(c, by_codes, own.codes + 1 - c->n_by_codes);
  uint32_t at = c->by_codes[own.codes];
  while (at != 0 && c->weights[at - 1].kind != kind)
    at = c->weights[at - 1].next;
  if (at != 0) return at - 1;
  struct weight w = new_weight(c, site, kind, own);
  w.next = c->by_codes[own.codes];
  *TABLE_PUSH(c, weights) = w;
  c->by_codes[own.codes] = c->n_weights;
  return c->n_weights - 1;
}

static void find_weights(struct choosing *c) {
  const size_t n = c->n_sites + (size_t)1, n_tensors = c->m->n_tensors + (size_t)1;
  uint32_t *last = arena_zalloc(&c->arena, n_tensors * sizeof *last); // first site + 1, by tensor
  uint32_t *before = arena_alloc(&c->arena, n * sizeof *before); // of the tensor, by first site
  c->weight_of = arena_alloc(&c->arena, n * sizeof *c->weight_of);
  c->is_first = arena_zalloc(&c->arena, n * sizeof *c->is_first);
  for (uint32_t i = 0; i < c->n_sites; i++) {
    c->weight_of[i] = c->sites[i].converts ? weight_of_site(c, i) : NO_ID;
    if (c->weight_of[i] == NO_ID) continue;
    uint32_t *of_tensor = &last[c->sites[i].weight.tensor], at = *of_tensor;
    while (at && c->weight_of[at - 1] != c->weight_of[i])
      at = before[at - 1];
    if (at) continue;
    before[i] = *of_tensor;
    *of_tensor = i + 1;
    c->is_first[i] = true;
    c->n_told++;
  }
}

// ---- the error of the output -------------------------------------------------------------------
//
// A weight that several values are multiplied with is judged by the first of them. Of one with NaN there are no figures at all.
// What errors are weighed by is found before anything is measured: it makes a source of the run, and an artifact names those
// that were there.

static int find_statistics(struct choosing *c, struct err *err) {
  bool *seen = arena_zalloc(&c->arena, c->n_weights + (size_t)1);
  if (!c->o->ranges || c->all) return 0;
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const uint32_t at = c->weight_of[i];
    if (at == NO_ID || seen[at]) continue;
    struct weight *w = &c->weights[at];
    seen[at] = true;
    for (uint32_t k = 0; k <= w->n; k++) {
      struct option *o = k < w->n ? &w->options[k] : &w->raised;
      if (k == w->n && !w->has_raised) continue;
      if (nbits_weighed_by(c->work, &c->sites[i], o->codes, &o->by, &w->weighed_by, err)) return -1;
    }
  }
  return 0;
}

static void pair_up(struct choosing *c, struct option *o) {
  if (o->by == NO_ID || c->answers[o->figures].nonfinite > 0) return;
  o->weighed = c->n_pairs / 2;
  *TABLE_PUSH(c, pairs) = o->codes;
  *TABLE_PUSH(c, pairs) = o->by;
}

static int weigh(struct choosing *c, struct err *err) {
  for (uint32_t i = 0; i < c->n_weights; i++) {
    struct weight *w = &c->weights[i];
    for (uint32_t k = 0; k < w->n; k++)
      pair_up(c, &w->options[k]);
    if (w->has_raised) pair_up(c, &w->raised);
  }
  if (c->n_pairs == 0) return 0;
  c->outputs = arena_alloc(&c->arena, c->n_pairs / 2 * sizeof *c->outputs);
  return answers_ask(&weighings_form, c->work->k.env, WEIGHINGS_STAGE, c->pairs, c->n_pairs / 2,
                     c->outputs, err);
}

static double db_of(const struct choosing *c, const struct option *o) {
  if (o->weighed == NO_ID) return figures_sqnr_db(&c->answers[o->figures]);
  const struct output_error *w = &c->outputs[o->weighed];
  return output_error_db(w->signal, w->error, w->nonfinite);
}

// What a budget makes small in sum: squared errors of weights, or with statistics shares of outputs that are error, since
// outputs of different sites are of different sizes.
static double cost_of(const struct choosing *c, const struct option *o) {
  const struct figures *f = &c->answers[o->figures];
  if (!c->o->ranges) return f->ee;
  const double signal = o->weighed == NO_ID ? f->vv : c->outputs[o->weighed].signal;
  const double error = o->weighed == NO_ID ? f->ee : c->outputs[o->weighed].error;
  return signal > 0 ? error / signal : 0;
}

// All questions, and their answers.
static int measure(struct choosing *c, struct err *err) {
  const struct pass_env *env = c->work->k.env;
  find_weights(c);
  if (!env->ask)
    return err_set(err, ERR_USAGE,
                   "--budget, --gate and --on-nonfinite need access to the weights, which this "
                   "run does not have");
  c->answers = arena_alloc(&c->arena, (c->n_questions + (size_t)1) * sizeof *c->answers);
  if (c->n_questions == 0) return 0;
  if (find_statistics(c, err)) return -1;
  if (measured_ask(env, c->questions, c->n_questions, c->answers, err)) return -1;
  return weigh(c, err);
}

// ---- weights that are not finite, gates ---------------------------------------------------------

static void skip_nonfinite(struct choosing *c) {
  for (uint32_t i = 0; i < c->n_weights; i++) {
    struct weight *w = &c->weights[i];
    if (!w->left && c->answers[w->options[0].figures].nonfinite > 0) w->left = "nonfinite";
  }
}

static bool passes(const struct choosing *c, const struct option *o) {
  const bool output = o->weighed != NO_ID;
  return size_budget_passes(c->o->gates, c->o->n_gates, &c->answers[o->figures],
                            output ? &(double){db_of(c, o)} : NULL);
}

// The weight of this site, if it is the first of its tensor.
static const struct weight *told_at(const struct choosing *c, uint32_t site) {
  return c->is_first[site] ? &c->weights[c->weight_of[site]] : NULL;
}

static struct span name_at(const struct choosing *c, uint32_t site) {
  return model_name(c->m, c->sites[site].name);
}

// What people know it by: the node that uses it, as far as it has a name.
static struct span layer_at(const struct choosing *c, uint32_t site) {
  const uint32_t name = c->m->nodes[c->sites[site].node].name;
  return name == c->m->empty ? name_at(c, site) : model_name(c->m, name);
}

static int fail_gate(const struct choosing *c, struct err *err) {
  const struct pass_env *env = c->work->k.env;
  char list[700] = "";
  struct err why = {0};
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const struct weight *w = told_at(c, i);
    if (!w || w->left || w->n_allowed > 0) continue;
    const size_t at = strlen(list);
    if (n++ < NAMED)
      snprintf(list + at, sizeof list - at, "%s'%.60s' (%.2f dB)", at ? ", " : "",
               quote(layer_at(c, i)).s, db_of(c, &w->options[0]));
  }
  if (n == 0) return 0;
  err_fill(&why, ERR_FAIL, "%u of %u weight%s %s the gate: %s%s", n, c->n_told, plural(c->n_told),
           n == 1 ? "misses" : "miss", list, n > NAMED ? ", …" : "");
  err_fill_hint(&why, "--gate-action raise uses 8 bits for them; --gate-action skip leaves them "
                      "unchanged");
  return pass_refuse(env, &why, err);
}

// After a refusal that a dry run goes on from: all is quantized as if there were no gate.
static void forget_gates(struct choosing *c) {
  for (uint32_t i = 0; i < c->n_weights; i++)
    if (c->weights[i].n_allowed == 0) c->weights[i].n_allowed = c->weights[i].n;
}

static void raise_weight(struct choosing *c, struct weight *w) {
  w->left = w->no_raise;
  if (w->left) return;
  w->still = !passes(c, &w->raised);
  w->options[0] = w->raised;
  w->n_allowed = 1;
  w->gated = true;
}

static void warn_still(struct choosing *c) {
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const struct weight *w = told_at(c, i);
    if (w && w->still)
      kit_warn(
          &c->work->k,
          arena_printf(&c->arena, "'%s' misses the gate with 8 bits too", quote(layer_at(c, i)).s),
          NULL);
  }
}

static int apply_gates(struct choosing *c, struct err *err) {
  if (c->o->n_gates == 0) return 0;
  for (uint32_t i = 0; i < c->n_weights; i++) {
    struct weight *w = &c->weights[i];
    if (w->left) continue;
    w->n_allowed = 0; // what passes moves to the front, in order
    for (uint32_t k = 0; k < w->n; k++)
      if (passes(c, &w->options[k])) w->options[w->n_allowed++] = w->options[k];
    if (w->n_allowed > 0) continue;
    if (c->o->gate_action == MATMULNBITS_RAISE) raise_weight(c, w);
    if (c->o->gate_action == MATMULNBITS_SKIP) w->left = "gate";
  }
  warn_still(c);
  if (c->o->gate_action != MATMULNBITS_FAIL) return 0;
  if (fail_gate(c, err)) return -1;
  forget_gates(c);
  return 0;
}

// ---- the budget --------------------------------------------------------------------------------

static bool is_quantized_use(const struct choosing *c, const uint8_t *quantized, uint32_t value,
                             unsigned depth);

// Does this node quantize the value, or only hand it on to nodes that do?
static bool goes_with(const struct choosing *c, const uint8_t *quantized, uint32_t node,
                      unsigned depth) {
  const struct model *m = c->m;
  if (quantized[node]) return true;
  const bool simple = model_op_is(m, node, "Identity") || model_op_is(m, node, "Transpose");
  return simple && depth < DEPTH_MAX && m->nodes[node].n_out == 1 &&
         is_quantized_use(c, quantized, model_output(m, &m->nodes[node], 0), depth + 1);
}

static bool is_quantized_use(const struct choosing *c, const uint8_t *quantized, uint32_t value,
                             unsigned depth) {
  const struct kit *k = &c->work->k;
  if (value == NO_ID || kit_is_output(k, value)) return false;
  for (struct kit_use u = kit_uses(k, value); kit_use(k, &u);)
    if (!goes_with(c, quantized, u.node, depth)) return false;
  return true;
}

// All of the output but the quantized weights: the .onnx as it is, and every tensor outside it,
// less the weights that go.
static uint64_t other_bytes(struct choosing *c) {
  const struct model *m = c->m;
  uint8_t *quantized = arena_zalloc(&c->arena, m->n_nodes + (size_t)1); // by node
  for (uint32_t i = 0; i < c->n_sites; i++)
    if (c->weight_of[i] != NO_ID && !c->weights[c->weight_of[i]].left)
      quantized[c->sites[i].node] = 1;
  uint8_t *gone = arena_zalloc(&c->arena, m->n_tensors + (size_t)1);
  for (uint32_t i = 0; i < c->n_sites; i++)
    if (quantized[c->sites[i].node] && is_quantized_use(c, quantized, c->sites[i].weight.value, 0))
      gone[c->sites[i].weight.tensor] = 1;
  uint64_t sum = m->n_files ? m->files[0].size : 0;
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    uint32_t n;
    const struct piece *pieces = model_pieces(m, i, &n);
    const bool inside = t->recipe == NO_ID && (n == 0 || pieces[0].at.file == 0);
    const bool goes = gone[i] || t->flags & TENSOR_DEAD;
    if (goes && inside) sum -= min_u64(sum, t->bytes);
    if (!goes && !inside) sum += t->bytes + model_data_alignment(t->bytes);
  }
  return sum;
}

// What quantizing adds to the nodes is the same whatever is picked.
static uint64_t node_bytes(const struct choosing *c) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i < c->n_sites; i++)
    if (c->weight_of[i] != NO_ID && !c->weights[c->weight_of[i]].left) sum += NODE_BYTES;
  return sum;
}

// The budget as the count has it; what is not to be picked from is taken off.
static uint64_t room(const struct choosing *c, uint64_t other) {
  const int64_t *const known = c->work->k.env->overcount, over = known ? *known : 0;
  const uint64_t budget = c->o->budget, off = over < 0 ? -(uint64_t)over : 0;
  const uint64_t all = over < 0 ? budget - min_u64(budget, off) : budget + (uint64_t)over;
  return all > other ? all - other : 0;
}

static uint64_t padding(const struct choosing *c, const struct option *o) {
  return c->work->k.env->overcount ? 0 : o->size.room;
}

static uint64_t bytes_of(const struct choosing *c, const struct weight *w, const struct option *o) {
  return o->size.bytes + padding(c, o) + NAMES_BYTES + 8 * (uint64_t)strlen(w->name);
}

static void apply_budget(struct choosing *c, struct pass_counted *out) {
  struct size_budget_tensor *list = arena_alloc(&c->arena, (c->n_weights + 1) * sizeof *list);
  uint32_t *which = arena_alloc(&c->arena, (c->n_weights + 1) * sizeof *which), n = 0;
  for (uint32_t i = 0; i < c->n_weights; i++) {
    const struct weight *w = &c->weights[i];
    if (w->left) continue;
    struct size_budget_option *options = arena_alloc(&c->arena, w->n_allowed * sizeof *options);
    for (uint32_t k = 0; k < w->n_allowed; k++) {
      const struct option *o = &w->options[k];
      options[k] = (struct size_budget_option){.bytes = bytes_of(c, w, o), .error = cost_of(c, o)};
    }
    which[n] = i;
    list[n++] = (struct size_budget_tensor){.name = w->name, .options = options, .n = w->n_allowed};
  }
  const uint64_t other = other_bytes(c) + node_bytes(c);
  uint64_t bytes;
  out->smallest = !size_budget_budget(list, n, room(c, other), &bytes);
  out->bytes = other;
  for (uint32_t i = 0; i < n; i++) {
    struct weight *w = &c->weights[which[i]];
    w->picked = list[i].picked;
    out->bytes += bytes_of(c, w, &w->options[w->picked]) - padding(c, &w->options[w->picked]);
    out->error += list[i].options[list[i].picked].error;
  }
}

// ---- back to the sites -------------------------------------------------------------------------

static void settle(struct choosing *c) {
  for (uint32_t i = 0; i < c->n_sites; i++) {
    if (c->weight_of[i] == NO_ID) continue;
    const struct weight *w = &c->weights[c->weight_of[i]];
    struct nbits_site *s = &c->sites[i];
    if (w->left) {
      s->converts = false;
      s->reason = w->left;
      continue;
    }
    const struct option *o = &w->options[w->picked];
    s->scheme = o->scheme;
    s->chosen_by = w->gated ? "gate" : w->free ? "budget" : NULL;
    s->figures = c->answers[o->figures];
    s->weighed_by = o->weighed == NO_ID ? NULL : w->weighed_by;
    s->output_db = db_of(c, o);
  }
}

static void done(struct choosing *c) {
  TABLES_FREE(c, weights, by_codes, questions, pairs);
  arena_free(&c->arena);
}

int nbits_choose(struct nbits_work *w, struct nbits_site *sites, uint32_t n, struct err *err) {
  const struct matmulnbits_options *options = w->options;
  if (options->budget == 0 && options->n_gates == 0 && !options->skip_nonfinite) return 0;
  struct choosing c = {.work = w, .m = w->k.m, .o = options, .sites = sites, .n_sites = n};
  if (options->target) nbits_target_tell(w);
  int rc = measure(&c, err);
  if (rc == 0) {
    if (options->skip_nonfinite) skip_nonfinite(&c);
    rc = apply_gates(&c, err);
  }
  if (rc == 0 && options->budget > 0) {
    apply_budget(&c, &w->k.env->result->counted);
    w->k.env->result->output_limit = options->budget;
  }
  if (rc == 0) settle(&c);
  done(&c);
  return rc;
}

// ---- measuring only ----------------------------------------------------------------------------

static void tell_rows(const struct choosing *c, const struct matmulnbits_listener *to) {
  for (uint32_t i = 0; i < c->n_sites; i++) {
    const struct weight *w = told_at(c, i);
    if (!w) continue;
    const struct model_tensor *t = &c->m->tensors[c->sites[i].weight.tensor];
    for (uint32_t k = 0; k < w->n; k++) {
      const struct matmulnbits_measurement row = {
          .tensor = name_at(c, i),
          .first = k == 0,
          .dims = model_dims(c->m, t),
          .rank = t->rank,
          .dtype = (enum dtype)t->dtype,
          .source_bytes = t->bytes,
          .scheme = w->options[k].scheme,
          .bytes = w->options[k].size.bytes,
          .figures = c->answers[w->options[k].figures],
      };
      to->each(to->ctx, &row);
    }
  }
}

int nbits_measure(struct nbits_work *w, struct nbits_site *sites, uint32_t n,
                  const struct matmulnbits_listener *to, struct err *err) {
  struct choosing c = {
      .work = w, .m = w->k.m, .o = w->options, .all = true, .sites = sites, .n_sites = n};
  w->measures = true;
  if (w->options->target) nbits_target_tell(w);
  const int rc = measure(&c, err);
  for (uint32_t i = 0; rc == 0 && i < n; i++) {
    if (c.weight_of[i] == NO_ID || !c.weights[c.weight_of[i]].left) continue;
    sites[i].converts = false;
    sites[i].reason = c.weights[c.weight_of[i]].left;
  }
  if (rc == 0) tell_rows(&c, to);
  done(&c);
  return rc;
}
