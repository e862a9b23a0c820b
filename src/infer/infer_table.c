// The side table: rows by value, each shape and list once, and how results of rules are combined with declarations of the
// model.
//
//   rows     by value id   shape + 1, list + 1, dtype, kind, why not more
//   shapes   dims as ids of expressions; equal ones are one row, so that a value costs a few bytes
//   lists    elements of small values; only of very small ones once ELEMENTS is used up
//
// The declaration of an input holds: the caller promises it. An exporter wrote the others, and they may be wrong or old;
// inference wins where both are sure. A symbol that only such a declaration names is the exporter's word for a dim that it
// did not know: the result of inference replaces the symbol everywhere.
#include "infer/inside/infer_rules.h"
#include "infer/inside/infer_table.h"

#include <math.h>
#include <stdio.h>

enum { ELEMENTS = 4 << 20, FEW_ELEMENTS = 8 };

// ---- rows --------------------------------------------------------------------------------------

struct infer_row *infer_row_at(struct infer *in, uint32_t value) {
  if (value >= in->n_rows)
    TABLE_ADD(in, rows, (value < in->m->n_values ? in->m->n_values : value + 1) - in->n_rows);
  return &in->rows[value];
}

void infer_changed(struct infer *in, uint32_t value) {
  if (!in->fill_all) *TABLE_PUSH(in, changed) = value;
}

static void grow_shape_slots(struct infer *in) {
  const uint32_t n = in->n_shape_slots ? in->n_shape_slots * 2 : 256;
  TABLE_FREE(in, shape_slots);
  TABLE_ADD(in, shape_slots, n);
  for (uint32_t i = 0; i < in->n_shapes; i++) {
    uint32_t at = in->shapes[i].hash & (n - 1);
    while (in->shape_slots[at])
      at = (at + 1) & (n - 1);
    in->shape_slots[at] = i + 1;
  }
}

uint32_t infer_shape_of(struct infer *in, const dim_id *dims, uint32_t rank) {
  if (in->n_shapes >= in->n_shape_slots / 2) grow_shape_slots(in);
  const size_t bytes = rank * sizeof *dims;
  const uint32_t hash = (uint32_t)span_hash(span_of(dims, bytes)) + rank;
  uint32_t at = hash & (in->n_shape_slots - 1);
  for (; in->shape_slots[at]; at = (at + 1) & (in->n_shape_slots - 1)) {
    const struct infer_shape *s = &in->shapes[in->shape_slots[at] - 1];
    if (s->hash == hash && s->rank == rank && (rank == 0 || memcmp(s->dims, dims, bytes) == 0))
      return in->shape_slots[at];
  }
  dim_id *kept = arena_copy(&in->kept, dims, bytes);
  in->shape_dims += rank;
  *TABLE_PUSH(in, shapes) = (struct infer_shape){kept, rank, hash};
  return in->shape_slots[at] = in->n_shapes;
}

void infer_row_type(const struct infer *in, const struct infer_row *row, struct infer_type *out) {
  *out = (struct infer_type){.kind = (enum infer_kind)row->kind, .dtype = (enum dtype)row->dtype};
  if (row->shape == 0) return;
  const struct infer_shape *s = &in->shapes[row->shape - 1];
  out->ranked = true;
  out->rank = s->rank;
  out->dims = s->dims;
}

// Row + 1, or 0.
static uint32_t keep_list(struct infer *in, const struct infer_number *list, uint32_t n) {
  if (n > INFER_LIST || (in->elements + n > ELEMENTS && n > FEW_ELEMENTS)) return 0;
  struct infer_number *kept = arena_copy(&in->kept, list, n * sizeof *kept);
  in->elements += n;
  *TABLE_PUSH(in, lists) = (struct infer_elements){kept, n};
  return in->n_lists;
}

// ---- dims of declarations ----------------------------------------------------------------------

// Other tools write "?…" for a dim without a name.
bool infer_is_nameless(const struct model *m, struct model_dim d) {
  if (d.value >= 0) return false;
  return d.param == NO_ID || d.param == m->empty || model_name(m, d.param).at[0] == '?';
}

dim_id infer_declared_dim(struct infer *in, struct model_dim d) {
  if (d.value >= 0) return dims_number(in->d, d.value);
  if (infer_is_nameless(in->m, d)) return NO_ID;
  infer_name_inputs(in); // symbols of inputs are made first and have their own bound
  if (d.param >= in->n_by_name) TABLE_ADD(in, by_name, d.param + 1 - in->n_by_name);
  if (in->by_name[d.param] == 0) {
    const struct span name = model_name(in->m, d.param);
    // Symbols of inputs were made first and have their own bound.
    in->by_name[d.param] = dims_parse_known(in->d, name, 0) + 1;
  }
  return in->by_name[d.param] - 1;
}

// A name for an expression, or for a symbol without a name: its text, changed until the model has no such name for something else.
static uint32_t name_for(struct infer *in, struct model *m, dim_id d) {
  struct arena a = {0};
  struct span name, text = dims_text(in->d, d, &a);
  uint32_t id;
  if (dims_is_symbol(in->d, d, &name) && name.at) text = name;
  for (;;) {
    id = model_find_name(m, text);
    const struct model_dim same = {-1, id};
    if (id == NO_ID || infer_declared_dim(in, same) == d) break;
    const char *other = arena_printf(&a, "%.*s'", (int)text.n, text.at);
    text = span_str(other);
  }
  id = model_intern(m, text);
  if (id >= in->n_by_name) TABLE_ADD(in, by_name, id + 1 - in->n_by_name);
  in->by_name[id] = d + 1;
  arena_free(&a);
  return id;
}

// A dim as a symbol of the model: a number, the symbol's own name, or a name that is the text of the expression.
static struct model_dim model_dim(struct infer *in, struct model *m, dim_id d) {
  int64_t n;
  if (d == NO_ID) return (struct model_dim){-1, NO_ID};
  d = dims_find(in->d, d);
  if (dims_is_number(in->d, d, &n) && n >= 0) return (struct model_dim){n, m->empty};
  if (d >= in->n_name_of) TABLE_ADD(in, name_of, d + 1 - in->n_name_of);
  if (in->name_of[d] == 0) {
    const uint32_t name = name_for(in, m, d);
    in->name_of[d] = name + 1;
  }
  return (struct model_dim){-1, in->name_of[d] - 1};
}

void infer_fill_anew(struct infer *in) {
  for (uint32_t value = 0; value < in->n_rows; value++)
    in->rows[value].flags &= (uint8_t)~ROW_FILLED;
  in->fill_all = true;
}

static void fill_value(struct infer *in, struct model *m, struct model_types *t, uint32_t value) {
  struct model_dim dims[INFER_RANK_MAX];
  struct infer_type known;
  const struct infer_row *row = &in->rows[value];
  if (!(row->flags & ROW_SEEN) || row->flags & ROW_FILLED || row->kind != INFER_TENSOR) return;
  in->rows[value].flags |= ROW_FILLED;
  in->fills++;
  if (m->values[value].flags & VALUE_DEAD || m->values[value].kind == VALUE_INITIALIZER) return;
  infer_row_type(in, row, &known);
  for (uint32_t i = 0; known.ranked && i < known.rank; i++)
    dims[i] = model_dim(in, m, known.dims[i]);
  const struct model_type type = {
      .dtype = known.dtype, .ranked = known.ranked, .rank = known.rank, .dims = dims};
  model_types_found(t, m, value, &type);
}

void infer_fill(struct infer *in, struct model *m, struct model_types *t) {
  if (in->fill_all)
    for (uint32_t value = 0; value < in->n_rows; value++)
      fill_value(in, m, t, value);
  else
    for (uint32_t i = 0; i < in->n_changed; i++)
      fill_value(in, m, t, in->changed[i]);
  TABLE_FREE(in, changed);
  in->fill_all = false;
}

static enum graph_kind graph_around(const struct model *m, uint32_t value) {
  const uint32_t graph = m->values[value].graph;
  return graph == NO_ID ? GRAPH_MAIN : (enum graph_kind)m->graphs[graph].kind;
}

// The name of a dim in a body means another number each time that the body runs. Only names of the main graph's inputs mean
// the same in a body; in a function they do not, since functions have names of their own.
static bool same_in_bodies(const struct infer *in, dim_id d, enum graph_kind around) {
  int64_t n;
  if (d == NO_ID || dims_is_number(in->d, d, &n)) return true;
  return around == GRAPH_SUB && !dims_uses_from(in->d, d, in->input_dims);
}

// Does the declaration of a dim say as much as is known of it? What is declared as a symbol and known to be a number says less.
static bool says_dim(const struct infer *in, dim_id said, dim_id known, bool of_input) {
  int64_t a, b;
  if (known == NO_ID) return true;
  known = dims_find(in->d, known);
  if (dims_is_number(in->d, known, &b))
    return said != NO_ID && dims_is_number(in->d, said, &a) && a == b;
  // An input's dim without a name is a symbol of its own.
  return said == NO_ID ? of_input : dims_find(in->d, said) == known;
}

bool infer_declares(struct infer *in, uint32_t value, const struct infer_type *known) {
  struct model_type said;
  if (!known->ranked) return true;
  if (!model_types_get(NULL, in->m, value, &said) || !said.ranked || said.rank != known->rank)
    return false;
  const enum graph_kind around = graph_around(in->m, value);
  const bool of_input = in->m->values[value].kind == VALUE_INPUT && around == GRAPH_MAIN;
  for (uint32_t i = 0; i < said.rank; i++) {
    dim_id d = infer_declared_dim(in, model_type_dim(in->m, &said, i));
    if (around != GRAPH_MAIN && !same_in_bodies(in, d, around)) d = NO_ID;
    if (!says_dim(in, d, known->dims[i], of_input)) return false;
  }
  return true;
}

// A declared sequence or optional: the type of its elements.
static bool declared_to_hold(const struct infer *in, uint32_t value, struct infer_type *out,
                             struct model_type *t) {
  const struct model *m = in->m;
  MODEL_EACH_INFO (m, value, i) {
    const struct model_info *info = &m->infos[i];
    if (!(info->flags & (INFO_SEQUENCE | INFO_OPTIONAL))) continue;
    *t = (struct model_type){.dtype = (enum dtype)info->dtype,
                             .ranked = (info->flags & INFO_HELD_SHAPED) != 0,
                             .rank = info->rank,
                             .dims = m->info_dims + info->dims};
    out->kind = info->flags & INFO_SEQUENCE ? INFER_SEQUENCE : INFER_OPTIONAL;
    return true;
  }
  return false;
}

// The declared type of a value, with dims in the scratch. Elements of a sequence may differ in size, except where a dim is
// declared as a number.
static bool declared(struct infer *in, uint32_t value, struct infer_type *out) {
  struct model_type t;
  *out = (struct infer_type){.dtype = DTYPE_UNDEFINED};
  if (!model_types_get(NULL, in->m, value, &t) && !declared_to_hold(in, value, out, &t))
    return false;
  out->dtype = t.dtype;
  if (!t.ranked || t.rank > INFER_RANK_MAX) return true;
  dim_id *dims = arena_alloc(&in->scratch, t.rank * sizeof *dims + 1);
  const enum graph_kind around = graph_around(in->m, value);
  for (uint32_t i = 0; i < t.rank; i++) {
    dims[i] = infer_declared_dim(in, model_type_dim(in->m, &t, i));
    int64_t n;
    if (around != GRAPH_MAIN && !same_in_bodies(in, dims[i], around)) dims[i] = NO_ID;
    if (out->kind == INFER_SEQUENCE && dims[i] != NO_ID && !dims_is_number(in->d, dims[i], &n))
      dims[i] = NO_ID;
  }
  out->ranked = true;
  out->rank = t.rank;
  out->dims = dims;
  return true;
}

// ---- findings ----------------------------------------------------------------------------------

void infer_say_node(struct infer *in, uint32_t node, const char *sentence) {
  if (!in->tells || !in->told || !in->told->say) return;
  *TABLE_PUSH(in, said) =
      (struct infer_said){.kind = INFER_SAID_NODE,
                          .node = node,
                          .value = NO_ID,
                          .sentence = arena_string(&in->kept, span_str(sentence))};
}

static void say_value(struct infer *in, uint32_t value, struct infer_said what) {
  if (!in->tells) return;
  if (value >= in->n_said_of) TABLE_ADD(in, said_of, value + 1 - in->n_said_of);
  if (in->said_of[value] == 0) in->said_of[value] = in->n_said + 1;
  what.node = NO_ID;
  what.value = value;
  *TABLE_PUSH(in, said) = what;
}

// Findings about a value are dropped when its row is made again: in the body of a Loop they were about the first trip. The
// first call of a function that finds something wrong reports it. False: an earlier call has reported.
static bool says_anew(struct infer *in, uint32_t value) {
  if (value >= in->n_said_of || in->said_of[value] == 0) return true;
  if (in->n_calls) return false;
  for (uint32_t i = in->said_of[value] - 1; i < in->n_said && in->said[i].value == value; i++)
    in->said[i].value = NO_ID;
  in->said_of[value] = 0;
  return true;
}

#define LEFT "left to the inputs"

void infer_is_against_words(char *sentence, size_t room, struct span said, struct span found) {
  const bool open = memchr(found.at, '?', found.n);
  snprintf(sentence, room, "a dim is declared as %.*s, but is %.*s", (int)said.n, said.at,
           open ? (int)sizeof LEFT - 1 : (int)found.n, open ? LEFT : (const char *)found.at);
}

static void tell_dims(struct infer *in, const struct infer_said *x, char *sentence, size_t room) {
  struct arena a = {0};
  const struct span f = dims_text(in->d, dims_find(in->d, x->found), &a),
                    s = dims_text(in->d, x->said, &a);
  infer_is_against_words(sentence, room, s, f);
  arena_free(&a);
}

static void tell_one(struct infer *in, const struct infer_said *x) {
  const struct infer_told *told = in->told;
  void (*say)(void *, uint32_t, uint32_t, const char *) = told->say;
  char sentence[640] = "";
  switch (x->kind) {
  case INFER_SAID_NODE: say(told->ctx, x->node, NO_ID, x->sentence); return;
  case INFER_SAID_DIM: tell_dims(in, x, sentence, sizeof sentence); break;
  case INFER_SAID_RANK:
    snprintf(sentence, sizeof sentence, "it is declared with %u dim%s, but has %u", x->said,
             plural(x->said), x->found);
    break;
  case INFER_SAID_DTYPE:
    if (told->mistyped) say = told->mistyped;
    snprintf(sentence, sizeof sentence, "it is declared as %s, but is %s",
             dtype_name((enum dtype)x->said), dtype_name((enum dtype)x->found));
    break;
  }
  if (say) say(told->ctx, NO_ID, x->value, sentence);
}

// The declaration of a dim as a number was right if inference found that number in the end.
void infer_tell(struct infer *in) {
  TABLE_FREE(in, misdeclared);
  for (uint32_t i = 0; i < in->n_said; i++) {
    const struct infer_said *x = &in->said[i];
    if (x->kind != INFER_SAID_NODE && x->value == NO_ID) continue;
    if (x->kind == INFER_SAID_DIM && !infer_is_against(in, x->found, x->said)) continue;
    if (in->told) tell_one(in, x);
    if (x->kind != INFER_SAID_DIM && x->kind != INFER_SAID_RANK) continue;
    if (in->n_misdeclared && in->misdeclared[in->n_misdeclared - 1] == x->value) continue;
    *TABLE_PUSH(in, misdeclared) = x->value;
  }
  TABLES_FREE(in, said, said_of);
  in->tells = false;
}

const uint32_t *infer_misdeclared(struct infer *in, uint32_t *n) {
  *n = in->n_misdeclared;
  return in->misdeclared;
}

// ---- settling ----------------------------------------------------------------------------------

bool infer_unite(struct infer *in, dim_id a, dim_id b) {
  const struct infer_frame *f = in->n_frames ? &in->frames[in->n_frames - 1] : NULL;
  const dim_id first = f ? f->symbols : 0;
  if (dims_equal(in->d, a, b) == DIMS_NO) return false;
  const bool own = (a >= first && dims_is_symbol(in->d, a, NULL)) ||
                   (b >= first && dims_is_symbol(in->d, b, NULL));
  return f && f->may_be_idle && !own ? true : dims_unite(in->d, a, b);
}

static bool is_of_inputs(const struct infer *in, dim_id d) {
  return d < in->input_dims;
}

// Does it consist of dims of inputs only?
static bool follows(const struct infer *in, dim_id d) {
  return !dims_uses_from(in->d, d, in->input_dims);
}

bool infer_is_against(struct infer *in, dim_id found, dim_id said) {
  int64_t n;
  found = dims_find(in->d, found);
  said = dims_find(in->d, said);
  if (found == NO_ID || said == NO_ID) return false;
  switch (dims_equal(in->d, found, said)) {
  case DIMS_YES: return false;
  case DIMS_NO: return true;
  case DIMS_MAYBE: break;
  }
  return dims_is_number(in->d, said, &n) && follows(in, found);
}

bool infer_keep_facts(struct infer *in) {
  in->o.declared = INFER_FACTS;
  return !in->believed;
}

static dim_id believe(struct infer *in, dim_id said) {
  in->believed = true;
  return said;
}

// A declared number is no fact if the dim follows from the inputs: the caller chooses it.
static dim_id settle_dim(struct infer *in, uint32_t value, dim_id found, dim_id said) {
  const enum infer_declared mode = in->o.declared;
  int64_t n;
  if (found != NO_ID) found = dims_find(in->d, found);
  if (said != NO_ID) said = dims_find(in->d, said);
  if (said == NO_ID || found == said) return found;
  if (found == NO_ID) return mode == INFER_FACTS ? NO_ID : believe(in, said);
  const bool against = infer_is_against(in, found, said);
  if (against)
    say_value(in, value, (struct infer_said){.kind = INFER_SAID_DIM, .said = said, .found = found});
  if (mode == INFER_KEEP && dims_equal(in->d, found, said) != DIMS_YES) return believe(in, said);
  if (against || mode == INFER_FACTS || dims_equal(in->d, found, said) == DIMS_YES ||
      dims_is_number(in->d, found, &n))
    return found;
  const bool own = !is_of_inputs(in, found) && dims_is_symbol(in->d, found, NULL);
  if (dims_is_number(in->d, said, &n)) {
    if (own) infer_unite(in, found, said);
    return believe(in, said);
  }
  if (!is_of_inputs(in, said) && dims_is_symbol(in->d, said, NULL)) {
    in->believed = in->believed || !follows(in, found);
    infer_unite(in, said, found);
    return dims_find(in->d, found);
  }
  return own ? believe(in, said) : found;
}

// Where the ranks differ, one of the two types wins with all of its dims.
static void join_declared(struct infer *in, uint32_t value, struct infer_type *t, dim_id *dims,
                          enum infer_why why) {
  struct infer_type said;
  const enum infer_declared mode = in->o.declared;
  if (!says_anew(in, value)) in->tells = false;
  if (mode == INFER_OVERRIDE || !declared(in, value, &said)) return;
  if (said.kind != INFER_TENSOR) return;
  const bool keep = mode == INFER_KEEP;
  if (said.dtype != DTYPE_UNDEFINED && said.dtype != t->dtype) {
    if (t->dtype != DTYPE_UNDEFINED)
      say_value(
          in, value,
          (struct infer_said){.kind = INFER_SAID_DTYPE, .said = said.dtype, .found = t->dtype});
    if (keep || t->dtype == DTYPE_UNDEFINED) t->dtype = said.dtype;
  }
  if (!said.ranked) return;
  if (t->ranked && t->rank != said.rank) {
    say_value(in, value,
              (struct infer_said){.kind = INFER_SAID_RANK, .said = said.rank, .found = t->rank});
    if (!keep) return;
    t->ranked = false;
  }
  if (!t->ranked && mode == INFER_FACTS && why == INFER_WHY_DATA) return;
  if (!t->ranked) in->believed = true;
  for (uint32_t i = 0; i < said.rank; i++)
    dims[i] = settle_dim(in, value, t->ranked ? t->dims[i] : NO_ID, said.dims[i]);
  t->ranked = true;
  t->rank = said.rank;
  t->dims = dims;
}

// What holds in both of two calls of the function that has the value.
static struct infer_row join_rows(struct infer *in, const struct infer_row *a,
                                  const struct infer_row *b) {
  struct infer_row out = *a;
  struct infer_type x, y;
  if (a->why == INFER_WHY_INVALID) out.why = b->why; // that it cannot run holds in one call only
  infer_row_type(in, a, &x);
  infer_row_type(in, b, &y);
  if (x.kind != y.kind) out.kind = INFER_OTHER;
  if (x.dtype != y.dtype) out.dtype = DTYPE_UNDEFINED;
  if (a->list != b->list) {
    const struct infer_elements *p = a->list ? &in->lists[a->list - 1] : NULL;
    const struct infer_elements *q = b->list ? &in->lists[b->list - 1] : NULL;
    if (!p || !q || p->n != q->n || memcmp(p->at, q->at, p->n * sizeof *p->at) != 0) out.list = 0;
  }
  if (a->shape == b->shape) return out;
  out.shape = out.list = 0;
  if (!x.ranked || !y.ranked || x.rank != y.rank) return out;
  dim_id dims[INFER_RANK_MAX];
  for (uint32_t i = 0; i < x.rank; i++)
    dims[i] = x.dims[i] == y.dims[i] ? x.dims[i] : dims_fresh(in->d, 0);
  out.shape = infer_shape_of(in, dims, x.rank);
  return out;
}

static void join_call(struct infer *in, uint32_t value) {
  if (in->n_frames == 0 || in->frames[in->n_frames - 1].call == 0) return;
  if (value >= in->n_joined) TABLE_ADD(in, joined, in->m->n_values - in->n_joined);
  struct infer_row *old = &in->joined[value];
  *old = old->flags & ROW_SEEN ? join_rows(in, old, &in->rows[value]) : in->rows[value];
}

// Nothing else keeps the dims of `type`, which may be in the scratch.
void infer_settle(struct infer *in, uint32_t value, const struct infer_type *type,
                  enum infer_why why) {
  if (value == NO_ID) return;
  struct infer_type t = *type;
  dim_id dims[INFER_RANK_MAX];
  struct infer_row *row = infer_row_at(in, value);
  if (row->flags & ROW_SET) return;
  if (t.ranked && t.rank > INFER_RANK_MAX) {
    t.ranked = false;
    why = INFER_WHY_LIMIT;
  }
  const bool tells = in->tells;
  if (t.kind == INFER_TENSOR && why != INFER_WHY_INVALID) join_declared(in, value, &t, dims, why);
  in->tells = tells;
  bool open = false;
  if (t.ranked) {
    if (t.rank && t.dims != dims) memcpy(dims, t.dims, t.rank * sizeof *dims);
    for (uint32_t i = 0; i < t.rank; i++) {
      int64_t n;
      if (dims_is_number(in->d, dims[i], &n) && n < 0) dims[i] = NO_ID; // it cannot run
      open = open || dims[i] == NO_ID;
      if (dims[i] != NO_ID)
        dims[i] = dims_find(in->d, dims[i]);
      else if (t.kind == INFER_TENSOR) // the elements of a sequence have dims of their own
        dims[i] = dims_fresh(in->d, 0);
    }
  }
  const bool known = t.ranked && !open && t.dtype != DTYPE_UNDEFINED;
  *row = (struct infer_row){.shape = t.ranked ? infer_shape_of(in, dims, t.rank) : 0,
                            .dtype = (uint8_t)t.dtype,
                            .kind = (uint8_t)t.kind,
                            .why = (uint8_t)(known ? INFER_WHY_KNOWN : why),
                            .flags = ROW_SEEN};
  infer_changed(in, value);
  join_call(in, value);
}

// Are there as many elements as the dims say? If not, a declaration is wrong, and the elements are not used.
static bool holds(const struct infer *in, const struct infer_row *row, uint32_t n) {
  struct infer_type t;
  uint64_t size = 1;
  infer_row_type(in, row, &t);
  for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
    int64_t dim;
    if (!dims_is_number(in->d, t.dims[i], &dim) || dim < 0) return false;
    if (__builtin_mul_overflow(size, (uint64_t)dim, &size)) size = UINT64_MAX;
  }
  // A product that is too large stays so, unless a later dim is 0.
  return t.ranked && size == n;
}

void infer_settle_list(struct infer *in, uint32_t value, const struct infer_number *list,
                       uint32_t n) {
  if (value == NO_ID) return;
  struct infer_row *row = infer_row_at(in, value);
  uint32_t known = 0;
  for (uint32_t i = 0; i < n; i++)
    known += list[i].num != NO_ID;
  if (row->flags & ROW_SET || (n > 0 && known == 0) || !holds(in, row, n)) return;
  row->list = keep_list(in, list, n);
  join_call(in, value);
}

// ---- sources -----------------------------------------------------------------------------------

// A float as a whole number over a power of two, if it is one that shape arithmetic in floats keeps.
static bool whole_over(double x, int64_t *num, int64_t *den) {
  *den = 1;
  while (*den < 1 << 24 && x != trunc(x)) {
    x *= 2;
    *den *= 2;
  }
  if (!(fabs(x) < 1 << 24) || x != trunc(x)) return false;
  *num = (int64_t)x;
  return !(x == 0 && signbit(x));
}

static double half_to_double(uint16_t h) {
  const int e = h >> 10 & 31, f = h & 1023;
  const double x = e == 31 ? (f ? NAN : INFINITY) : e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
  return h >> 15 ? -x : x;
}

static bool element(enum dtype dtype, const uint8_t *raw, uint32_t i, int64_t *num, int64_t *den) {
  *den = 1;
  switch (dtype) {
#define WHOLE(DTYPE, type)                                                                         \
  case DTYPE_##DTYPE: {                                                                            \
    type x;                                                                                        \
    memcpy(&x, raw + (size_t)i * sizeof x, sizeof x);                                              \
    *num = (int64_t)x;                                                                             \
    return true;                                                                                   \
  }
    WHOLE(INT64, int64_t)
    WHOLE(INT32, int32_t)
    WHOLE(INT16, int16_t)
    WHOLE(INT8, int8_t)
    WHOLE(UINT8, uint8_t)
    WHOLE(UINT16, uint16_t)
    WHOLE(UINT32, uint32_t)
#undef WHOLE
  case DTYPE_BOOL: *num = raw[i] != 0; return true;
  case DTYPE_UINT64: {
    uint64_t x;
    memcpy(&x, raw + (size_t)i * sizeof x, sizeof x);
    *num = (int64_t)x;
    return x <= INT64_MAX;
  }
  case DTYPE_FLOAT: {
    float x;
    memcpy(&x, raw + (size_t)i * sizeof x, sizeof x);
    return whole_over((double)x, num, den);
  }
  case DTYPE_DOUBLE: {
    double x;
    memcpy(&x, raw + (size_t)i * sizeof x, sizeof x);
    return whole_over(x, num, den);
  }
  case DTYPE_FLOAT16: {
    uint16_t x;
    memcpy(&x, raw + (size_t)i * sizeof x, sizeof x);
    return whole_over(half_to_double(x), num, den);
  }
  default: return false;
  }
}

// The elements of a small tensor, in the scratch.
static bool elements_of(struct infer *in, uint32_t tensor, const struct infer_number **out,
                        uint32_t *count) {
  const struct model_tensor *t = &in->m->tensors[tensor];
  struct span raw;
  uint64_t n;
  const enum dtype dtype = (enum dtype)t->dtype;
  const uint32_t bytes = dtype_bits(dtype) / 8;
  if (!model_small_value(in->m, tensor, &raw) || bytes == 0) return false;
  if (!dims_product(model_dims(in->m, t), t->rank, &n) || n > INFER_LIST || raw.n < n * bytes)
    return false;
  struct infer_number *list = arena_alloc(&in->scratch, n * sizeof *list + 1);
  for (uint32_t i = 0; i < n; i++) {
    int64_t num, den;
    const bool known = element(dtype, raw.at, i, &num, &den);
    list[i] = known ? (struct infer_number){dims_number(in->d, num), den}
                    : (struct infer_number){NO_ID, 1};
  }
  *out = list;
  *count = (uint32_t)n;
  return true;
}

struct infer_number infer_tensor_number(struct infer_site *s, uint32_t tensor) {
  const struct infer_number *list;
  uint32_t n;
  if (!elements_of(s->in, tensor, &list, &n) || n == 0) return (struct infer_number){NO_ID, 1};
  return list[0];
}

void infer_of_tensor(struct infer_site *s, uint32_t slot, uint32_t tensor) {
  const struct model_tensor *t = &s->m->tensors[tensor];
  const struct infer_number *list;
  uint32_t n;
  dim_id *dims = infer_dim_room(s, t->rank);
  for (uint32_t i = 0; i < t->rank; i++)
    dims[i] = dims_number(s->d, model_dims(s->m, t)[i]);
  infer_out_dims(s, slot, (enum dtype)t->dtype, dims, t->rank);
  if (elements_of(s->in, tensor, &list, &n)) infer_out_list(s, slot, list, n);
}

int64_t infer_to_end(const struct infer_site *s) {
  return s->in->o.to_end;
}

void infer_source(struct infer *in, uint32_t value) {
  struct model_constant c;
  struct infer_type t = {.dtype = DTYPE_UNDEFINED};
  struct infer_row *row = infer_row_at(in, value);
  if (row->flags & (ROW_SEEN | ROW_SET)) return;
  const bool constant = model_resolve_constant(in->m, value, &c);
  declared(in, value, &t); // a constant's own type, where it is one
  dim_id dims[INFER_RANK_MAX];
  uint32_t own = value < in->n_nameless_of ? in->nameless_of[value] : 0;
  for (uint32_t i = 0; t.ranked && i < t.rank; i++) {
    dims[i] = t.dims[i];
    if (dims[i] != NO_ID || t.kind != INFER_TENSOR) continue;
    dims[i] = own ? dims_find(in->d, in->nameless[own++ - 1]) : dims_fresh(in->d, in->o.least_dim);
  }
  const bool known = t.ranked && t.dtype != DTYPE_UNDEFINED;
  row = infer_row_at(in, value);
  *row = (struct infer_row){.shape = t.ranked ? infer_shape_of(in, dims, t.rank) : 0,
                            .dtype = (uint8_t)t.dtype,
                            .kind = (uint8_t)t.kind,
                            .why = known ? INFER_WHY_KNOWN : INFER_WHY_NO_TYPE,
                            .flags = ROW_SEEN};
  infer_changed(in, value);
  const struct infer_number *list;
  uint32_t n;
  if (!constant || !elements_of(in, c.tensor, &list, &n)) return;
  const uint32_t kept = keep_list(in, list, n);
  infer_row_at(in, value)->list = kept;
}
