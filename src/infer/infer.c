// The walk: nodes in order, bodies where they are met, with a stack of our own.
//
//   frame      a graph that is being inferred: where in its list of nodes it is, whose body it is
//   pending    nodes of the frame on top that wait for one that stands behind them in the list
//
// A node with bodies (and a call of a function) is a rule that is asked again after each body: which graph
// comes next, until it needs none. Nothing is kept between: what a rule must know lies in the rows.
#include "base/table.h"
#include "infer/inside/infer_rules.h"
#include "infer/inside/infer_table.h"

const char *infer_why_code(enum infer_why why) {
  static const char *const codes[] = {
#define INFER_WHY(id, code, words) code,
#include "infer/infer_why.def"
  };
  return codes[why];
}

const char *infer_why_words(enum infer_why why) {
  static const char *const all[] = {
#define INFER_WHY(id, code, words) words,
#include "infer/infer_why.def"
  };
  return all[why];
}

struct infer *infer_new(const struct model *m, const struct infer_options *o) {
  struct arena kept = {0};
  struct infer *in = arena_zalloc(&kept, sizeof *in);
  *in = (struct infer){.m = m, .d = dims_new(), .kept = kept, .n_functions = UINT32_MAX};
  schema_names_init(&in->names, m);
  in->o = o ? *o : (struct infer_options){INFER_FACTS, 1, INT64_MAX, false};
  return in;
}

void infer_free(struct infer *in) {
  if (!in) return;
  infer_calls_done(in);
  model_calls_done(&in->callees);
  TABLES_FREE(in, rows, shapes, shape_slots, lists, visited, frames, pending, calls, joined,
              changed);
  schema_names_done(&in->names);
  TABLES_FREE(in, by_name, nameless, nameless_of, said, said_of, misdeclared, name_of, stuck);
  infer_leads_free(&in->leads);
  arena_free(&in->scratch);
  dims_free(in->d);
  struct arena kept = in->kept; // it holds *in too
  arena_free(&kept);
}

// ---- nodes -------------------------------------------------------------------------------------

static void push(struct infer *in, uint32_t graph, uint32_t node, uint32_t step, uint32_t call,
                 uint32_t state) {
  const dim_id around = in->n_frames ? in->frames[in->n_frames - 1].symbols : 0;
  const bool idle = in->n_frames && in->frames[in->n_frames - 1].may_be_idle;
  const bool body = graph != NO_ID && in->m->graphs[graph].kind == GRAPH_SUB;
  *TABLE_PUSH(in, frames) =
      (struct infer_frame){.graph = graph,
                           .next = graph == NO_ID ? NO_ID : in->m->graphs[graph].first_node,
                           .pending = in->n_pending,
                           .node = node,
                           .step = step,
                           .call = call,
                           .round = ++in->round,
                           .state = state,
                           .symbols = body ? dims_next(in->d) : around,
                           .may_be_idle = body || idle};
}

static void outputs_begin(struct infer *in, const struct model_node *n) {
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t value = model_output(in->m, n, i);
    if (value != NO_ID) infer_row_at(in, value)->flags &= (uint8_t)~ROW_SEEN;
  }
}

// What the rule did not speak of is as it is declared, or not known.
static void outputs_end(struct infer *in, struct infer_site *s) {
  const struct model_node *n = &in->m->nodes[s->node];
  const bool invalid = s->why == INFER_WHY_INVALID;
  if (invalid && in->m->graphs[n->graph].kind == GRAPH_SUB) *TABLE_PUSH(in, stuck) = s->node;
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t value = model_output(in->m, n, i);
    if (value == NO_ID) continue;
    const struct infer_row *row = infer_row_at(in, value);
    if (!invalid && row->flags & ROW_SEEN &&
        (row->dtype != DTYPE_UNDEFINED || row->kind != INFER_TENSOR))
      continue;
    struct infer_type t = {.dtype = DTYPE_UNDEFINED};
    if (!invalid && row->flags & ROW_SEEN) infer_row_type(in, row, &t);
    const uint32_t list = row->list;
    t.dtype = infer_dtype_by_signature(s, i);
    infer_settle(in, value, &t, s->why);
    if (!invalid) in->rows[value].list = list;
  }
}

static void without_rule(struct infer_site *s) {
  struct infer_type x;
  s->why = INFER_WHY_OPERATOR;
  if (!s->in->o.guess_rank || !infer_in(s, 0, &x)) return;
  if (x.ranked) infer_out_dims(s, 0, x.dtype, infer_dim_room(s, x.rank), x.rank);
}

// The bodies of an operator without a rule: each once, with inputs that are not known.
static uint32_t unknown_bodies(struct infer_site *s, uint32_t step) {
  const struct model_node *n = &s->m->nodes[s->node];
  s->why = INFER_WHY_OPERATOR;
  for (uint32_t i = 0, at = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &s->m->attrs[n->attrs + i];
    if (a->flags & ATTR_DEAD || (a->type != ATTR_GRAPH && a->type != ATTR_GRAPHS)) continue;
    for (uint32_t g = 0; g < a->count; g++)
      if (at++ == step) return a->first + g;
  }
  return NO_ID;
}

static uint32_t callee(struct infer *in, uint32_t node) {
  if (in->m->n_functions == 0) return NO_ID;
  if (in->n_functions != in->m->n_functions) {
    model_calls_done(&in->callees);
    model_calls_init(&in->callees, in->m);
    in->n_functions = in->m->n_functions;
  }
  return model_calls_callee(&in->callees, node);
}

// ONNX Runtime has a few operators in the domain of ONNX that ONNX does not know.
static const struct schema_operator *operator_of(struct infer *in, uint32_t node) {
  const struct schema_operator *op = schema_of_node(&in->names, node);
  const struct model_node *n = &in->m->nodes[node];
  const struct span domain = model_name(in->m, n->domain);
  if (op || !model_domain_is_onnx(domain)) return op;
  return schema_operator_of(span_str(SCHEMA_RUNTIME_DOMAIN), model_name(in->m, n->op_type));
}

// Outside of a call it is not known which inputs of its function a node has.
static bool may_lack_inputs(const struct infer *in, const struct model_node *n) {
  if (in->m->n_functions == 0 || in->n_calls) return false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t value = model_input(in->m, n, i);
    if (value != NO_ID && in->m->values[value].flags & VALUE_LEFT_OUT) return true;
  }
  return false;
}

// A step of a node; its next body, or NO_ID when it is done.
static uint32_t step(struct infer *in, uint32_t node, uint32_t at, uint32_t *state) {
  const struct model_node *n = &in->m->nodes[node];
  struct infer_site s = infer_site_of(in, node);
  uint32_t body = NO_ID;
  s.state = *state;
  in->visits++;
  if (in->n_calls) in->call_visits++;
  outputs_begin(in, n);
  const uint32_t function = callee(in, node);
  struct infer_row_of_rules rule = {NULL, NULL};
  if (function == NO_ID) s.op = operator_of(in, node);
  if (s.op) {
    s.signature = schema_at(s.op, s.version);
    rule = infer_rule_of((enum schema_rule)s.op->rule);
  }
  if (may_lack_inputs(in, n))
    s.why = INFER_WHY_INPUT;
  else if (function != NO_ID)
    body = infer_call_step(&s, function, at);
  else if (rule.steps)
    body = rule.steps(&s, at);
  else if (rule.rule)
    rule.rule(&s);
  else if (model_has_bodies(in->m, node))
    body = unknown_bodies(&s, at);
  else
    without_rule(&s);
  if (body == NO_ID) outputs_end(in, &s);
  if (body == NO_ID && in->assumed && in->m->values[in->assumed - 1].def == node)
    infer_settle_list(in, in->assumed - 1,
                      &(const struct infer_number){dims_number(in->d, in->assumed_is), 1}, 1);
  *state = s.state;
  arena_reset(&in->scratch);
  return body;
}

// Nodes that came since stand in no frame of their own graph. Some may never run, and of the call
// that a function's node runs in nothing is known.
static void enter_graph_of(struct infer *in, uint32_t node) {
  struct infer_frame *f = &in->frames[in->n_frames - 1];
  if (f->graph != NO_ID) return;
  f->may_be_idle = in->m->nodes[node].graph != in->m->main_graph;
  f->symbols = f->may_be_idle ? dims_next(in->d) : 0;
}

static void visit(struct infer *in, uint32_t node, uint32_t at, uint32_t state) {
  const struct infer_frame *f = &in->frames[in->n_frames - 1];
  const uint32_t calls = in->n_calls, around = f->call;
  const uint32_t body = step(in, node, at, &state);
  if (body == NO_ID) return;
  push(in, body, node, at + 1, in->n_calls > calls ? in->n_calls : around, state);
}

// Nodes that stand behind one that needs them come first.
static bool wait_for_makers(struct infer *in, uint32_t node) {
  const struct infer_frame *f = &in->frames[in->n_frames - 1];
  const struct model_node *n = &in->m->nodes[node];
  bool waits = false;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const uint32_t value = model_input(in->m, n, i);
    if (value == NO_ID || in->m->values[value].kind != VALUE_NODE_OUTPUT) continue;
    const uint32_t maker = in->m->values[value].def;
    if (in->visited[maker] == f->round || in->m->nodes[maker].graph != n->graph) continue;
    if (in->only_new && infer_row_at(in, value)->flags & (ROW_SEEN | ROW_SET)) continue;
    *TABLE_PUSH(in, pending) = maker;
    waits = true;
  }
  return waits;
}

static bool next_node(struct infer *in, uint32_t *node, bool *waiting) {
  struct infer_frame *f = &in->frames[in->n_frames - 1];
  *waiting = in->n_pending > f->pending;
  *node = *waiting ? in->pending[in->n_pending - 1] : f->next;
  if (*node == NO_ID) return false;
  if (!*waiting) f->next = in->m->nodes[*node].next;
  return true;
}

static void run(struct infer *in) {
  in->visits_before = in->visits;
  if (in->n_visited < in->m->n_nodes) TABLE_ADD(in, visited, in->m->n_nodes - in->n_visited);
  while (in->n_frames) {
    uint32_t node;
    bool waiting;
    if (!next_node(in, &node, &waiting)) {
      const struct infer_frame done = in->frames[--in->n_frames];
      if (done.node != NO_ID) visit(in, done.node, done.step, done.state);
      continue;
    }
    const uint32_t round = in->frames[in->n_frames - 1].round;
    if (in->visited[node] == round) {
      if (waiting) in->n_pending--;
      continue;
    }
    const uint32_t before = in->n_pending;
    if (wait_for_makers(in, node)) {
      // It comes again when they are done: from the list it has been taken.
      if (waiting) continue;
      TABLE_ADD(in, pending, 1);
      memmove(in->pending + before + 1, in->pending + before,
              (in->n_pending - 1 - before) * sizeof *in->pending);
      in->pending[before] = node;
      continue;
    }
    if (waiting) in->n_pending--;
    in->visited[node] = round;
    enter_graph_of(in, node);
    visit(in, node, 0, 0);
  }
  infer_calls_join(in);
}

// ---- the model ---------------------------------------------------------------------------------

// A name as exporters give to a dim, and no expression.
static bool is_plain(struct span name) {
  for (size_t i = 0; i < name.n; i++)
    if (memchr("+-*/%() ", name.at[i], 8)) return false;
  return name.n > 0 && name.at[0] != '?';
}

static void name_dims(struct infer *in, bool plain) {
  const struct model_graph *g = &in->m->graphs[in->m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    struct model_type t;
    model_types_get(NULL, in->m, in->m->graph_io[g->inputs + i], &t);
    for (uint32_t d = 0; t.ranked && d < t.rank; d++) {
      const struct model_dim dim = model_type_dim(in->m, &t, d);
      if (dim.value >= 0 || dim.param == NO_ID) continue;
      const struct span name = model_name(in->m, dim.param);
      if (is_plain(name) == plain && name.n > 0 && name.at[0] != '?')
        dims_parse_known(in->d, name, in->o.least_dim);
    }
  }
}

// Dims without a name are symbols too, each its own.
static void name_nameless_dims(struct infer *in) {
  const struct model_graph *g = &in->m->graphs[in->m->main_graph];
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    struct model_type t;
    const uint32_t value = in->m->graph_io[g->inputs + i], first = in->n_nameless;
    if (value == NO_ID || in->m->values[value].kind != VALUE_INPUT) continue;
    model_types_get(NULL, in->m, value, &t);
    for (uint32_t d = 0; t.ranked && d < t.rank; d++)
      if (infer_is_nameless(in->m, model_type_dim(in->m, &t, d)))
        *TABLE_PUSH(in, nameless) = dims_fresh(in->d, in->o.least_dim);
    if (in->n_nameless == first) continue;
    if (value >= in->n_nameless_of) TABLE_ADD(in, nameless_of, value + 1 - in->n_nameless_of);
    in->nameless_of[value] = first + 1;
  }
}

// Symbols of the inputs come first: they have the bound of an input's dims, and are told by their ids. Names
// before expressions of them.
void infer_name_inputs(struct infer *in) {
  if (in->input_dims != 0 || in->m->main_graph == NO_ID) return;
  name_dims(in, true);
  name_dims(in, false);
  name_nameless_dims(in);
  in->input_dims = dims_next(in->d);
}

bool infer_set_input(struct infer *in, uint32_t value, const dim_id *dims, uint32_t rank) {
  struct model_type t;
  model_types_get(NULL, in->m, value, &t);
  if (t.ranked && t.rank != rank) return false;
  struct infer_row *row = infer_row_at(in, value);
  for (uint32_t i = 0; t.ranked && i < rank; i++) {
    const dim_id said = infer_declared_dim(in, model_type_dim(in->m, &t, i));
    if (said != NO_ID && !dims_unite(in->d, said, dims[i])) return false;
  }
  const uint32_t shape = infer_shape_of(in, dims, rank);
  *row = (struct infer_row){.shape = shape, .dtype = (uint8_t)t.dtype, .flags = ROW_SET | ROW_SEEN};
  return true;
}

void infer_assume(struct infer *in, uint32_t value, bool is) {
  in->assumed = value + 1;
  in->assumed_is = is;
}

bool infer_contradicted(const struct infer *in) {
  return in->contradicted;
}

void infer_all(struct infer *in, const struct infer_told *told) {
  if (in->m->main_graph == NO_ID) return;
  infer_name_inputs(in);
  in->told = told;
  in->tells = true;
  in->believed = in->only_new = false;
  TABLE_FREE(in, changed);
  in->n_stuck = in->n_followed = 0;
  infer_leads_free(&in->leads);
  in->fill_all = true;
  for (uint32_t i = 0; i < in->n_rows; i++)
    if (!(in->rows[i].flags & ROW_SET)) in->rows[i] = (struct infer_row){.shape = 0};
  if (in->n_joined) memset(in->joined, 0, in->n_joined * sizeof *in->joined);
  push(in, in->m->main_graph, NO_ID, 0, 0, 0);
  run(in);
  in->first_new = in->m->n_nodes;
  infer_tell(in);
  in->told = NULL;
}

void infer_more(struct infer *in) {
  if (in->m->main_graph == NO_ID) return;
  infer_name_inputs(in);
  in->only_new = true;
  push(in, NO_ID, NO_ID, 0, 0, 0);
  for (uint32_t node = in->m->n_nodes; node-- > in->first_new;) {
    const struct model_node *n = &in->m->nodes[node];
    if (!(n->flags & NODE_DEAD)) *TABLE_PUSH(in, pending) = node;
  }
  in->first_new = in->m->n_nodes;
  run(in);
}

// ---- questions ---------------------------------------------------------------------------------

bool infer_type_of(struct infer *in, uint32_t value, struct infer_type *out) {
  struct infer_site s = {.in = in, .m = in->m, .d = in->d, .a = &in->scratch};
  return infer_value(&s, value, out);
}

bool infer_may_be_idle(struct infer *in, uint32_t loop) {
  struct infer_site s = infer_site_of(in, loop);
  const bool runs = infer_runs_once(&s);
  arena_reset(&in->scratch);
  return !runs;
}

bool infer_numbers(struct infer *in, uint32_t value, const struct infer_number **list,
                   uint32_t *n) {
  struct infer_site s = {.in = in, .m = in->m, .d = in->d, .a = &in->scratch};
  return infer_value_list(&s, value, list, n);
}

enum infer_why infer_why(const struct infer *in, uint32_t value) {
  if (value == NO_ID || value >= in->n_rows || !(in->rows[value].flags & ROW_SEEN))
    return INFER_WHY_NOT_SEEN;
  return (enum infer_why)in->rows[value].why;
}

bool infer_cannot_run(const struct infer *in, uint32_t node) {
  const struct model_node *n = &in->m->nodes[node];
  for (uint32_t i = 0; i < n->n_out; i++) {
    const uint32_t value = model_output(in->m, n, i);
    if (value != NO_ID) return infer_why(in, value) == INFER_WHY_INVALID;
  }
  return false;
}

bool infer_leads_to_stuck(struct infer *in, uint32_t value) {
  for (; in->n_followed < in->n_stuck; in->n_followed++) {
    const uint32_t node = in->stuck[in->n_followed];
    if (!(in->m->nodes[node].flags & NODE_DEAD) && infer_cannot_run(in, node))
      infer_leads_add_node(&in->leads, in->m, node);
  }
  infer_leads_follow(&in->leads, in->m);
  return infer_leads_has(&in->leads, value);
}

bool infer_dims_lead_to_stuck(struct infer *in, uint32_t value) {
  struct infer_type known;
  return infer_leads_to_stuck(in, value) && infer_type_of(in, value, &known) &&
         !infer_declares(in, value, &known);
}

struct dims *infer_dims(struct infer *in) {
  return in->d;
}

uint64_t infer_visits(const struct infer *in) {
  return in->visits;
}

uint64_t infer_fills(const struct infer *in) {
  return in->fills;
}

uint64_t infer_bytes(const struct infer *in) {
  return in->rows_cap * sizeof *in->rows + in->shapes_cap * sizeof *in->shapes +
         in->visited_cap * sizeof *in->visited + in->lists_cap * sizeof *in->lists +
         in->elements * sizeof(struct infer_number) +
         in->shape_slots_cap * sizeof *in->shape_slots + in->shape_dims * sizeof(dim_id) +
         dims_bytes(in->d);
}
