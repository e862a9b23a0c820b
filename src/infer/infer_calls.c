// Calls of functions of the model: the body is inferred with the types of the call's operands, once for every
// kind of call of it.
//
//   memo    function, types and elements of its operands ──▶ types of its results
//
// What is known of a value of the body is what holds in all calls (join_call in infer_table.c). Two calls
// of one kind have results of one kind, but what a result depends on beyond its operands' types (how
// many elements are not zero) is each call's own: such dims are new symbols for each call.
//
// Functions that call each other are entered at most DEPTH deep, and for VISITS nodes in all and VISITS_EACH more
// for each node of the model; beyond, the results of a call are not known. (A function never calls itself: load refuses that.)
#include "infer/inside/infer_table.h"

enum { DEPTH = 64, VISITS = 1 << 18, VISITS_EACH = 16 };

struct memo_call {
  uint64_t hash;
  uint32_t function, n_in, n_out;
  uint32_t rows;  // of operands, then of results
  dim_id symbols; // symbols from this one on came with the call
};

struct infer_memo {
  TABLE(struct memo_call, calls);
  TABLE(struct infer_row, rows);
  TABLE(uint32_t, slots);
};

void infer_calls_done(struct infer *in) {
  if (!in->memo) return;
  TABLES_FREE(in->memo, calls, rows, slots);
}

static struct infer_row operand(struct infer_site *s, uint32_t slot) {
  struct infer_type t;
  if (!infer_has(s, slot)) return (struct infer_row){.kind = UINT8_MAX};
  infer_in(s, slot, &t);
  struct infer_row row = s->in->rows[model_input(s->m, &s->m->nodes[s->node], slot)];
  row.flags = 0;
  row.why = 0;
  return row;
}

static struct span list_of(const struct infer *in, const struct infer_row *row) {
  if (row->list == 0) return span_of(NULL, 0);
  const struct infer_elements *e = &in->lists[row->list - 1];
  return span_of(e->at, e->n * sizeof *e->at);
}

static bool same_operand(const struct infer *in, const struct infer_row *a,
                         const struct infer_row *b) {
  if (a->shape != b->shape || a->dtype != b->dtype || a->kind != b->kind) return false;
  const struct span x = list_of(in, a), y = list_of(in, b);
  return (a->list == 0) == (b->list == 0) && x.n == y.n &&
         (x.n == 0 || memcmp(x.at, y.at, x.n) == 0);
}

// A call with attributes is a kind of its own: bodies may speak of them.
static bool can_be_kept(const struct infer_site *s) {
  return s->m->nodes[s->node].n_attrs == 0;
}

static uint64_t hash_of(struct infer_site *s, uint32_t function, const struct infer_row *rows) {
  uint64_t h = function + 1;
  for (uint32_t i = 0; i < s->n_in; i++) {
    const uint64_t part[3] = {rows[i].shape, (uint64_t)rows[i].dtype << 8 | rows[i].kind,
                              span_hash(list_of(s->in, &rows[i]))};
    h = h * 0x9e3779b97f4a7c15u ^ span_hash(span_of(part, sizeof part));
  }
  return h;
}

static struct memo_call *find(struct infer_site *s, uint32_t function, const struct infer_row *rows,
                              uint64_t hash) {
  struct infer_memo *memo = s->in->memo;
  if (!memo || memo->n_slots == 0) return NULL;
  for (uint64_t at = hash;; at++) {
    const uint32_t slot = memo->slots[at & (memo->n_slots - 1)];
    if (slot == 0) return NULL;
    struct memo_call *c = &memo->calls[slot - 1];
    if (c->hash != hash || c->function != function || c->n_in != s->n_in || c->n_out != s->n_out)
      continue;
    bool same = true;
    for (uint32_t i = 0; i < s->n_in && same; i++)
      same = same_operand(s->in, &rows[i], &memo->rows[c->rows + i]);
    if (same) return c;
  }
}

static void grow_slots(struct infer_memo *memo) {
  const uint32_t n = memo->n_slots ? memo->n_slots * 2 : 64;
  TABLE_FREE(memo, slots);
  TABLE_ADD(memo, slots, n);
  for (uint32_t i = 0; i < memo->n_calls; i++) {
    uint64_t at = memo->calls[i].hash;
    while (memo->slots[at & (n - 1)])
      at++;
    memo->slots[at & (n - 1)] = i + 1;
  }
}

static void keep(struct infer_site *s, uint32_t function, const struct infer_row *rows,
                 uint64_t hash, dim_id symbols) {
  struct infer *in = s->in;
  if (!in->memo) in->memo = arena_zalloc(&in->kept, sizeof *in->memo);
  struct infer_memo *memo = in->memo;
  struct memo_call *c = TABLE_PUSH(memo, calls);
  *c = (struct memo_call){hash, function, s->n_in, s->n_out, memo->n_rows, symbols};
  for (uint32_t i = 0; i < s->n_in; i++)
    *TABLE_PUSH(memo, rows) = rows[i];
  for (uint32_t i = 0; i < s->n_out; i++) {
    const uint32_t value = model_output(in->m, &in->m->nodes[s->node], i);
    *TABLE_PUSH(memo, rows) =
        value == NO_ID ? (struct infer_row){.shape = 0} : *infer_row_at(in, value);
  }
  if (memo->n_calls * 2 > memo->n_slots) {
    grow_slots(memo);
    return;
  }
  uint64_t at = hash;
  while (memo->slots[at & (memo->n_slots - 1)])
    at++;
  memo->slots[at & (memo->n_slots - 1)] = memo->n_calls;
}

static void results_of(struct infer_site *s, const struct memo_call *c) {
  for (uint32_t i = 0; i < s->n_out; i++) {
    struct infer_type t;
    const struct infer_row row = s->in->memo->rows[c->rows + c->n_in + i];
    infer_row_type(s->in, &row, &t);
    dim_id dims[INFER_RANK_MAX];
    for (uint32_t d = 0; t.ranked && d < t.rank; d++)
      dims[d] = dims_uses_from(s->d, t.dims[d], c->symbols) ? NO_ID : t.dims[d];
    t.dims = dims;
    s->why = (enum infer_why)row.why;
    infer_out(s, i, &t);
    if (row.list == 0) continue;
    const struct infer_elements e = s->in->lists[row.list - 1];
    struct infer_number *list = arena_alloc(s->a, e.n * sizeof *list + 1);
    for (uint32_t k = 0; k < e.n; k++) {
      const bool own = e.at[k].num != NO_ID && dims_uses_from(s->d, e.at[k].num, c->symbols);
      list[k] = own ? (struct infer_number){NO_ID, 1} : e.at[k];
    }
    infer_out_list(s, i, list, e.n);
  }
}

static void bind_operands(struct infer_site *s, uint32_t graph) {
  for (uint32_t i = 0; i < s->m->graphs[graph].n_inputs; i++) {
    struct infer_type t;
    const struct infer_number *list;
    uint32_t n;
    const uint32_t value = infer_graph_input(s, graph, i);
    if (value == NO_ID) continue;
    infer_row_at(s->in, value)->flags &= (uint8_t)~ROW_LEFT_OUT;
    infer_in(s, i, &t);
    infer_bind(s, value, &t);
    if (!infer_has(s, i)) s->in->rows[value].flags |= ROW_LEFT_OUT;
    if (infer_list(s, i, &list, &n)) infer_bind_list(s, value, list, n);
  }
}

static uint32_t enter(struct infer_site *s, uint32_t function, dim_id symbols) {
  struct infer *in = s->in;
  const uint32_t outer = in->n_frames ? in->frames[in->n_frames - 1].call : 0;
  const uint32_t graph = in->m->functions[function].graph;
  if (graph == NO_ID || in->n_calls >= DEPTH ||
      in->call_visits > VISITS + (uint64_t)VISITS_EACH * in->m->n_nodes) {
    s->why = INFER_WHY_LIMIT;
    in->calls_limited = in->calls_limited || graph != NO_ID;
    return NO_ID;
  }
  // Values of the body belong to the call that is made, which joins them with other calls.
  *TABLE_PUSH(in, calls) = (struct infer_call){s->node, outer, function, symbols};
  in->frames[in->n_frames - 1].call = in->n_calls;
  bind_operands(s, graph);
  in->frames[in->n_frames - 1].call = outer;
  return graph;
}

static void leave(struct infer_site *s, uint32_t function) {
  const uint32_t graph = s->m->functions[function].graph;
  for (uint32_t i = 0; i < s->n_out; i++) {
    struct infer_type t;
    const struct infer_number *list;
    uint32_t n;
    const uint32_t value = infer_graph_output(s, graph, i);
    infer_value(s, value, &t);
    s->why = infer_why(s->in, value);
    infer_out(s, i, &t);
    if (infer_value_list(s, value, &list, &n)) infer_out_list(s, i, list, n);
  }
}

uint32_t infer_call_step(struct infer_site *s, uint32_t function, uint32_t step) {
  struct infer *in = s->in;
  struct infer_row *rows = arena_alloc(s->a, s->n_in * sizeof *rows + 1);
  for (uint32_t i = 0; i < s->n_in; i++)
    rows[i] = operand(s, i);
  const bool kept = can_be_kept(s);
  const uint64_t hash = hash_of(s, function, rows);
  if (step == 0) {
    const struct memo_call *known = kept ? find(s, function, rows, hash) : NULL;
    if (!known) return enter(s, function, dims_next(in->d));
    results_of(s, known);
    return NO_ID;
  }
  const struct infer_call call = in->calls[--in->n_calls];
  leave(s, function);
  if (kept) keep(s, function, rows, hash, call.symbols);
  return NO_ID;
}

static void put_row(struct infer *in, uint32_t value, struct infer_row row) {
  in->rows[value] = row;
  infer_changed(in, value);
}

void infer_calls_join(struct infer *in) {
  if (in->n_joined == 0 || (in->call_visits == in->calls_joined && !in->calls_limited)) return;
  in->calls_joined = in->call_visits;
  for (uint32_t i = 0; i < in->n_joined; i++)
    if (in->joined[i].flags & ROW_SEEN && !(in->rows[i].flags & ROW_SET))
      put_row(in, i, in->joined[i]);
  // Some calls were not entered: what holds in the others need not hold in them.
  for (uint32_t i = 0; in->calls_limited && i < in->n_rows; i++)
    if (in->rows[i].flags & ROW_SEEN && !(in->rows[i].flags & ROW_SET) &&
        model_function_around(in->m, in->m->values[i].graph) != NO_ID)
      put_row(in, i, (struct infer_row){.why = INFER_WHY_LIMIT, .flags = ROW_SEEN});
}
