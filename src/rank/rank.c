// Who multiplies what with which weight is said by the model as a step finds it, since passes remove such nodes; by what was
// seen of the value, RANGES. A row's question is a pair of recipes: the codes, and what their error is weighed by,
//
//   Gram       tr(EᵀGE) / tr(WᵀGW), G = XᵀX of all rows that the value had in the samples
//   channels   the same with the diagonal of squared mean magnitudes: what calibration keeps of channels. The mean of squares
//              is larger by a factor that depends on how elements are spread, and cancels where that is alike in all channels
//   weight     G = 1
//
// and, where a QuantizeLinear of the result says the step s of the value, s²/12 for each of its elements as an error
// that knows nothing of others: tokens · s²/12 · tr(WᵀW).
//
// Files are opened once more: the companion of RANGES is no source of the run for being looked at here.
#include "rank/rank.h"

#include "passes/nbits/matmulnbits.h"
#include "passes/questions/weighings.h"
#include "stream/measure/measure_weighed.h"

#include <math.h>
#include <stdlib.h>

void rank_done(struct rank *k) {
  TABLES_FREE(k, products, rows);
  arena_free(&k->arena);
}

// Does the step do something with its RANGES itself?
static bool needs_ranges(const struct pass_values *v) {
  if (strcmp(v->pass->name, "dynamic") == 0) return false;
  if (strcmp(v->pass->name, "quantize") != 0) return true;
  const struct matmulnbits_options *o = v->options;
  return o->scheme.algorithm >= MATMULNBITS_GPTQ || o->budget > 0 || o->n_gates > 0;
}

int rank_check(const struct pipeline *p, bool asked, struct err *err) {
  for (uint32_t i = 0; i < p->n_steps && !asked; i++) {
    const struct pass_values *v = &p->steps[i].values;
    for (uint32_t o = 0; o < v->pass->n_options; o++) {
      if (v->pass->options[o].reads != PASS_READS_RANGES || !v->of[o].text || needs_ranges(v))
        continue;
      const bool quantize = strcmp(v->pass->name, "quantize") == 0;
      err_fill(err, ERR_USAGE, "--ranges needs --rank%s",
               quantize ? ", --budget, --gate or --algorithm gptq or awq" : "");
      return err_hint(err, "without one of these, %s considers only the weights", v->pass->name);
    }
  }
  return 0;
}

// ---- products ----------------------------------------------------------------------------------

// The constant that is a matrix's operand, and whether Transpose nodes turned it.
static bool constant_of(const struct model *m, uint32_t value, struct model_constant *c,
                        bool *turned) {
  enum { MOST = 8 };
  *turned = false;
  for (int i = 0; i < MOST && value != NO_ID; i++) {
    if (model_resolve_constant(m, value, c)) return true;
    if (m->values[value].kind != VALUE_NODE_OUTPUT) return false;
    const uint32_t node = m->values[value].def;
    const int64_t *perm;
    uint32_t n;
    const bool moves = model_op_is(m, node, "Transpose");
    if (!moves && !model_op_is(m, node, "Identity")) return false;
    if (moves && (!model_attr_ints(m, node, "perm", &perm, &n) || (n != 0 && n != 2))) return false;
    if (moves && (n == 0 || perm[0] == 1)) *turned = !*turned;
    value = model_input(m, &m->nodes[node], 0);
  }
  return false;
}

static bool is_product(const struct model *m, uint32_t node) {
  return model_op_is(m, node, "MatMul") || model_op_is(m, node, "Gemm") ||
         model_op_is(m, node, "Conv");
}

static const struct ranges_value *find_named(const struct side_inputs *g, struct span name,
                                             const struct side_input **file) {
  for (uint32_t i = 0; i < g->n; i++) {
    *file = g->list[i];
    if ((*file)->reads != PASS_READS_RANGES) continue;
    const struct ranges_value *v = ranges_find(&(*file)->ranges, name);
    if (v) return v;
  }
  return NULL;
}

// Names are those of the main graph.
static void find_seen(const struct side_inputs *g, const struct model *m, struct rank_product *p) {
  enum { MOST = 8 };
  uint32_t value = p->value, rank = 0;
  int64_t axis = p->conv ? 1 : -1;
  for (int i = 0; i < MOST && value != NO_ID && m->values[value].graph == m->main_graph; i++) {
    p->seen = find_named(g, model_value_name(m, value), &p->file);
    p->seen_axis = rank > 0 && axis == (int64_t)rank - 1 ? -1 : axis;
    p->moved = i > 0;
    if (p->seen || m->values[value].kind != VALUE_NODE_OUTPUT) return;
    const uint32_t node = m->values[value].def;
    const int64_t *perm;
    uint32_t n;
    if (model_op_is(m, node, "Transpose")) {
      if (!model_attr_ints(m, node, "perm", &perm, &n) || n == 0 || (rank > 0 && n != rank)) return;
      if (axis >= (int64_t)n) return;
      axis = perm[axis < 0 ? (int64_t)n - 1 : axis];
      rank = n;
      if (axis < 0 || axis >= (int64_t)n) return;
    } else if (!model_op_is(m, node, "Identity")) {
      return;
    }
    value = model_input(m, &m->nodes[node], 0);
  }
}

static void look_at(struct rank *k, const struct pipeline *pipeline, uint32_t step,
                    const struct model *m, uint32_t node) {
  const struct model_node *n = &m->nodes[node];
  struct rank_product p = {.step = step, .node = node, .value = model_input(m, n, 0)};
  struct model_constant c;
  bool turned;
  int64_t trans = 0, group = 1;
  if (p.value == NO_ID || !constant_of(m, model_input(m, n, 1), &c, &turned)) return;
  const struct model_tensor *t = &m->tensors[c.tensor];
  p.conv = model_op_is(m, node, "Conv");
  if (t->rank < 2 || (p.conv && turned) || (turned && t->rank != 2)) return;
  if (model_op_is(m, node, "Gemm") && !model_attr_int(m, node, "transB", 0, &trans)) return;
  if (p.conv && !model_attr_int(m, node, "group", 1, &group)) return;
  const bool last = (trans != 0) != turned;
  p.tensor = c.tensor;
  p.recipe = t->recipe;
  p.rank = t->rank;
  p.axis = p.conv ? 1 : t->rank - (last ? 1u : 2u);
  p.grouped = group != 1;
  p.dims = arena_alloc(&k->arena, p.rank * sizeof *p.dims);
  memcpy(p.dims, model_dims(m, t), p.rank * sizeof *p.dims);
  p.op_type = arena_string(&k->arena, model_name(m, n->op_type));
  p.value_name = arena_string(&k->arena, model_value_name(m, p.value));
  p.tensor_name = arena_string(&k->arena, model_value_name(m, c.value));
  p.name = n->name == m->empty ? arena_printf(&k->arena, "%s of %s", p.op_type, p.tensor_name)
                               : arena_string(&k->arena, model_name(m, n->name));
  find_seen(&pipeline->files, m, &p);
  *TABLE_PUSH(k, products) = p;
}

void rank_look(struct rank *k, const struct pipeline *p, uint32_t step, const struct model *m) {
  if (!k->asked || !p->steps[step].values.pass->stores) return;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD) && is_product(m, i)) look_at(k, p, step, m, i);
}

// ---- rows --------------------------------------------------------------------------------------

static bool is_of(const struct pipeline *pipeline, const struct rank_product *p,
                  const struct run_site *s) {
  if (p->step != s->step || p->tensor != s->of) return false;
  // Some passes report weights, and name no node or the first that uses one.
  return p->node == s->node || s->node == NO_ID ||
         strcmp(pipeline->steps[s->step].values.pass->name, "static") == 0;
}

static bool is_known(const struct rank *k, const struct rank_product *p, uint32_t codes) {
  for (uint32_t at = p->row; at; at = k->rows[at - 1].next)
    if (k->rows[at - 1].codes == codes) return true;
  return false;
}

static void list_rows(struct rank *k, const struct rank_of *of, struct recipes *r) {
  struct arena scratch = {0};
  const uint32_t n_tensors = of->exec->model.n_tensors;
  // By tensor: its last product + 1, and before each product that of the same tensor.
  uint32_t *last = arena_zalloc(&scratch, (n_tensors + (size_t)1) * sizeof *last);
  uint32_t *before = arena_alloc(&scratch, (k->n_products + (size_t)1) * sizeof *before);
  for (uint32_t i = 0; i < k->n_products; i++) {
    before[i] = last[k->products[i].tensor];
    last[k->products[i].tensor] = i + 1;
  }
  for (uint32_t i = 0; i < of->n_sites; i++) {
    const struct run_site *s = &of->sites[i];
    if (s->codes == NO_ID || s->gone || !run_site_converted(s)) continue;
    const uint32_t codes = recipe_unmoved(r, s->codes);
    // A cast has no codes; a form that nothing dequantizes is not ranked either.
    if (!recipe_quantizes(r, codes) && r->rows[codes].kind != RECIPE_QUANTIZE_LINEAR) continue;
    const uint32_t rank = r->rows[r->args[r->rows[codes].args]].rank;
    if (!measure_weighed_can(r, codes, weighings_alone(r, rank))) continue;
    for (uint32_t at = last[s->of]; at; at = before[at - 1]) {
      struct rank_product *p = &k->products[at - 1];
      if (!is_of(of->pipeline, p, s) || is_known(k, p, codes)) continue;
      *TABLE_PUSH(k, rows) = (struct rank_row){.product = at - 1, .codes = codes, .next = p->row};
      p->row = k->n_rows;
    }
  }
  arena_free(&scratch);
}

// ---- what errors are weighed by ----------------------------------------------------------------

struct asking {
  struct execution *exec;
  struct rank *rank;
  const struct pipeline *pipeline;
  struct sources *sources;
  const struct side_input **files; // whose companions are open
  uint32_t *file_ids, n_files;
  struct arena arena;
};

// Axes that are longer than 1, which is all that a change of dims may leave as it is.
struct long_axes {
  int64_t lengths[RECIPE_MAX_RANK];
  uint32_t n, at; // at: which of them an axis is; n: none
};

static struct long_axes long_axes(const int64_t *dims, uint32_t rank, uint32_t axis) {
  struct long_axes l = {.n = 0};
  uint32_t at = UINT32_MAX;
  for (uint32_t i = 0; i < rank; i++) {
    if (dims[i] == 1) continue;
    if (i == axis) at = l.n;
    l.lengths[l.n++] = dims[i];
  }
  l.at = at == UINT32_MAX ? l.n : at;
  return l;
}

static bool same_lengths(const struct long_axes *a, const struct long_axes *b) {
  return a->n == b->n && memcmp(a->lengths, b->lengths, a->n * sizeof *a->lengths) == 0;
}

// The axis of a recipe, followed down to what only moves nothing: as one of its long axes.
static bool axis_below(const struct recipes *r, uint32_t id, uint32_t axis, struct long_axes *out) {
  *out = long_axes(recipe_dims(r, id), r->rows[id].rank, axis);
  for (; out->at < out->n; id = r->args[r->rows[id].args]) {
    const struct recipe *x = &r->rows[id];
    if (x->kind != RECIPE_TRANSPOSE && x->kind != RECIPE_RESHAPE && x->kind != RECIPE_CAST)
      return true;
    const uint32_t in = r->args[x->args], rank = r->rows[in].rank;
    const int64_t *dims = recipe_dims(r, in);
    uint32_t now = axis;
    if (x->kind == RECIPE_TRANSPOSE) now = (uint32_t)r->longs[x->at + axis];
    if (x->kind == RECIPE_RESHAPE)
      for (now = 0; now < rank && long_axes(dims, rank, now).at != out->at;)
        now++;
    const struct long_axes there = long_axes(dims, rank, now);
    if (x->kind == RECIPE_RESHAPE && !same_lengths(out, &there)) return false;
    *out = there;
    axis = now;
  }
  return false;
}

// The axis of the codes' operand that is multiplied: that of the tensor, which may lie otherwise.
static bool axis_of(const struct recipes *r, uint32_t codes, const struct rank_product *p,
                    uint32_t *axis) {
  const uint32_t operand = r->args[r->rows[codes].args], rank = r->rows[operand].rank;
  struct long_axes of, there;
  if (recipe_quantizes(r, codes) && recipe_is_nbits(recipe_quantization_of(r, codes).format)) {
    *axis = recipe_quantization_of(r, codes).axis; // that along which blocks run
    return true;
  }
  if (rank == p->rank && recipe_has_dims(r, operand, p->dims, rank) && p->recipe == NO_ID) {
    *axis = p->axis;
    return true;
  }
  if (p->recipe != NO_ID) {
    if (!axis_below(r, p->recipe, p->axis, &of)) return false;
  } else {
    of = long_axes(p->dims, p->rank, p->axis);
  }
  for (*axis = 0; *axis < rank && of.at < of.n; *axis += 1)
    if (axis_below(r, operand, *axis, &there) && there.at == of.at && same_lengths(&of, &there))
      return true;
  return false;
}

static int misfit(const struct side_input *file, const struct rank_product *p, const char *what,
                  uint32_t has, uint64_t wants, struct err *err) {
  err_fill(err, ERR_INPUT,
           "'%s' has %s of the value '%s' for %u columns, but the weight '%s' of '%s', which it "
           "is multiplied with, has %s rows",
           quote_path(file->path).s, what, quote_str(p->value_name).s, has,
           quote_str(p->tensor_name).s, quote_str(p->name).s, decimal(wants).s);
  return err_hint(
      err,
      "calibrate the model with the passes that run before this one: 'weir calibrate --pass …'");
}

// The companion of a file of ranges, open; read once to see that it is the one that was written.
static int companion(struct asking *a, const struct side_input *file, uint32_t *id,
                     struct err *err) {
  for (uint32_t i = 0; i < a->n_files; i++)
    if (a->files[i] == file) {
      *id = a->file_ids[i];
      return 0;
    }
  if (ranges_check_data(&file->ranges, err) ||
      sources_add_companion(a->sources, ranges_data_path(file->ranges.path, &a->arena), id, err))
    return -1;
  a->files[a->n_files] = file;
  a->file_ids[a->n_files++] = *id;
  return 0;
}

static int weigh_by(struct asking *a, struct rank_row *row, struct measure_weighing *q,
                    struct err *err) {
  struct recipes *r = &a->exec->recipes;
  const struct rank_product *p = &a->rank->products[row->product];
  const uint32_t operand = r->args[r->rows[row->codes].args], rank = r->rows[operand].rank;
  const struct side_input *file = p->file;
  const struct ranges_value *v = p->seen;
  uint32_t axis = 0, by = NO_ID, id;
  const bool lies = axis_of(r, row->codes, p, &axis);
  const uint64_t k = lies ? (uint64_t)recipe_dims(r, operand)[axis] : 0;
  row->by = RANK_WEIGHT;
  row->tokens = 1;
  if (!v) {
    row->why = a->pipeline->files.n ? "no_range" : "no_ranges";
  } else if (p->grouped) {
    row->why = "group_not_1";
  } else if (!lies || (rank > 2 && axis != 1)) {
    row->why = "rank";
  } else if (v->gram_k > 0 && !p->conv && p->seen_axis < 0) {
    if (v->gram_k != k) return misfit(file, p, "second moments", v->gram_k, k, err);
    if (companion(a, file, &id, err)) return -1;
    by = weighings_gram(r, id, v->gram_at, v->gram_k, axis, rank);
    row->by = RANK_GRAM;
    row->tokens = (double)v->gram_rows;
  } else if (!v->n_channels || !v->channel_mean) {
    row->why = "no_means";
  } else if (v->axis != p->seen_axis || (p->moved && v->n_channels != k)) {
    row->why = "other_channels";
  } else {
    if (v->n_channels != k) return misfit(file, p, "means by channel", v->n_channels, k, err);
    by = weighings_channels(r, v->channel_mean, v->n_channels, axis, rank);
    row->by = RANK_CHANNELS;
  }
  if (by == NO_ID) by = weighings_alone(r, rank);
  *q = (struct measure_weighing){row->codes, by};
  if (row->by == RANK_WEIGHT || measure_weighed_can(r, q->codes, q->by)) return 0;
  row->by = RANK_WEIGHT;
  row->why = "rank";
  row->tokens = 1;
  q->by = weighings_alone(r, rank);
  return 0;
}

// ---- activations -------------------------------------------------------------------------------

static bool literal(const struct execution *exec, uint32_t value, double *out, enum dtype *type) {
  const struct model *m = &exec->model;
  struct model_constant c;
  struct span bytes = {0};
  if (value == NO_ID || !model_resolve_constant(m, value, &c)) return false;
  const struct model_tensor *t = &m->tensors[c.tensor];
  *type = (enum dtype)t->dtype;
  if (t->recipe != NO_ID && exec->recipes.rows[t->recipe].count == 1)
    bytes = recipe_elements(&exec->recipes, t->recipe);
  else if (t->recipe != NO_ID || !model_small_value(m, c.tensor, &bytes))
    return false;
  float x;
  if (*type != DTYPE_FLOAT || bytes.n < sizeof x) return bytes.n > 0 && out == NULL;
  memcpy(&x, bytes.at, sizeof x);
  if (out) *out = (double)x;
  return true;
}

// The step by which a QuantizeLinear of the result stores the value in integers.
static bool step_of(const struct execution *exec, uint32_t value, double *step) {
  const struct model *m = &exec->model;
  for (uint32_t u = m->values[value].first_use; u != NO_ID; u = m->refs[u].next) {
    const uint32_t node = m->refs[u].node;
    enum dtype scale, zero;
    if (!model_op_is(m, node, "QuantizeLinear") || model_input(m, &m->nodes[node], 0) != value)
      continue;
    if (literal(exec, model_input(m, &m->nodes[node], 1), step, &scale) && scale == DTYPE_FLOAT &&
        literal(exec, model_input(m, &m->nodes[node], 2), NULL, &zero) && dtype_is_integer(zero))
      return true;
  }
  return false;
}

// ---- all of it ---------------------------------------------------------------------------------

static int by_cost(const void *pa, const void *pb) {
  const struct rank_row *a = pa, *b = pb;
  const double x = isnan(a->db) ? -(double)INFINITY : a->db;
  const double y = isnan(b->db) ? -(double)INFINITY : b->db;
  if (x != y) return x < y ? -1 : 1;
  if (a->product != b->product) return a->product < b->product ? -1 : 1;
  return a->codes < b->codes ? -1 : a->codes > b->codes;
}

static void conclude(const struct execution *exec, struct rank *k,
                     const struct output_error *found) {
  for (uint32_t i = 0; i < k->n_rows; i++) {
    struct rank_row *row = &k->rows[i];
    const struct output_error *f = &found[i];
    row->found = *f;
    row->has_step =
        row->by != RANK_WEIGHT && step_of(exec, k->products[row->product].value, &row->step);
    if (row->has_step) row->noise = row->tokens * row->step * row->step / 12 * f->plain;
    row->weight_db = output_error_db(f->signal, f->error, f->nonfinite);
    row->activation_db =
        row->has_step ? output_error_db(f->signal, row->noise, f->nonfinite) : (double)NAN;
    row->db = output_error_db(f->signal, f->error + row->noise, f->nonfinite);
  }
  if (k->n_rows) qsort(k->rows, k->n_rows, sizeof *k->rows, by_cost);
}

// The files of the model as the execution has them, and companions behind them.
static int open_sources(struct asking *a, struct err *err) {
  const struct sources_options how = {.allow_links = a->exec->request->allow_links};
  const struct sources *of = a->exec->sources;
  const struct side_inputs *g = &a->pipeline->files;
  if (sources_open(&a->sources, a->exec->in_path, &how, err)) return -1;
  for (uint32_t i = 1; i < sources_count(of); i++) {
    uint32_t id = NO_ID;
    const struct span name = span_str(sources_name(of, i));
    if (sources_is_companion(of, i)) {
      for (uint32_t f = 0; f < g->n && id == NO_ID; f++) {
        if (g->list[f]->reads != PASS_READS_RANGES || !g->list[f]->ranges.data_bytes) continue;
        const char *path = ranges_data_path(g->list[f]->ranges.path, &a->arena);
        if (strcmp(path_base(path), (const char *)name.at) == 0 &&
            sources_add_companion(a->sources, path, &id, err))
          return -1;
      }
    } else if (sources_is_absent(of, i) ? sources_add_name(a->sources, name, &id, err)
                                        : sources_add(a->sources, name, &id, err)) {
      return -1;
    }
    if (id != i)
      return err_set(err, ERR_INTERNAL, "source %u is not found again as file %u of it", i, id);
  }
  return 0;
}

static int ask(struct asking *a, struct err *err) {
  struct rank *k = a->rank;
  struct measure_stats stats;
  struct measure_weighing *q = arena_alloc(&a->arena, (k->n_rows + (size_t)1) * sizeof *q);
  struct output_error *found = arena_alloc(&a->arena, (k->n_rows + (size_t)1) * sizeof *found);
  const uint32_t n_files = a->pipeline->files.n;
  a->files = arena_alloc(&a->arena, (n_files + (size_t)1) * sizeof *a->files);
  a->file_ids = arena_alloc(&a->arena, (n_files + (size_t)1) * sizeof *a->file_ids);
  for (uint32_t i = 0; i < k->n_rows; i++)
    if (weigh_by(a, &k->rows[i], &q[i], err)) return -1;
  if (execution_choose_io(a->exec, err)) return -1;
  const struct work_options work = execution_work(a->exec);
  observer_begin(a->exec->request->observer, "ranking");
  const struct eval_cache_file file = {execution_unnamed_file, NULL};
  const int rc = measure_weighed_run(&a->exec->recipes, a->sources, q, k->n_rows, &work, file,
                                     found, &stats, err);
  observer_end(a->exec->request->observer);
  if (rc) return -1;
  k->source_bytes_read = stats.source_bytes_read;
  conclude(a->exec, k, found);
  return 0;
}

int rank_sites(struct rank *k, const struct rank_of *of, struct err *err) {
  if (!k->asked) return 0;
  struct asking a = {.exec = of->exec, .rank = k, .pipeline = of->pipeline};
  list_rows(k, of, &of->exec->recipes);
  int rc = open_sources(&a, err);
  if (rc == 0) rc = ask(&a, err);
  if (a.sources) sources_close(a.sources);
  arena_free(&a.arena);
  return rc;
}
