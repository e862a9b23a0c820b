// Results: terms first, then edits.
//
// A result is built as terms in memory, operands before the nodes that use them. Anything may turn
// out unknown on the way (a dim, an element, an operator that the model's version does not have),
// and then nothing has happened. Only a whole result is placed:
//
//        x ──▶ Mul ──▶ u ──▶ Add ──▶ y            x ──▶ Add' ──▶ Mul' ──▶ y
//              a ┘           b ┘                   b/a ┘       a ┘
//
// The new root takes over the old one's output, so that names stay; what is matched and used
// elsewhere stays too (u), and what nothing uses any more is swept. A result that is a value (x)
// takes the place of y in all its uses; where names forbid that, since y is an output of the graph,
// an Identity stays.
//
// Nodes over constants do not become nodes: rules_fold.c.
#include "passes/kit/dead_ends.h"
#include "passes/rules/inside/rules_inside.h"
#include "schema/schema.h"

// ---- what is known of values and terms ----------------------------------------------------------

struct rules_type rules_type_of(struct rules_run *run, const struct rules_value *v) {
  struct rules_type out = {0};
  struct model_type t;
  if (v->kind == RULES_TERM) return run->terms[v->id].type;
  if (v->kind != RULES_TENSOR || !kit_type(&run->k, v->id, &t)) return out;
  out.dtype = t.dtype;
  out.ranked = t.ranked && t.rank <= RECIPE_MAX_RANK;
  if (!out.ranked) return out;
  out.rank = t.rank;
  int64_t *dims = arena_alloc(&run->match, (t.rank + 1) * sizeof *dims);
  for (uint32_t i = 0; i < t.rank; i++) {
    const struct model_dim d = model_type_dim(run->k.m, &t, i);
    dims[i] = d.value >= 0                                     ? d.value
              : d.param != NO_ID && d.param != run->k.m->empty ? rules_symbol(d.param)
                                                               : RULES_NO_DIM;
  }
  out.dims = dims;
  return out;
}

bool rules_is_constant(struct rules_run *run, const struct rules_value *v) {
  if (v->kind == RULES_TERM) return run->terms[v->id].what == RULES_IS_CONST;
  return v->kind == RULES_TENSOR && rules_const(run, v->id);
}

bool rules_elements(struct rules_run *run, const struct rules_value *v, struct rules_type *type,
                    struct span *raw) {
  if (!rules_is_constant(run, v)) return false;
  *type = rules_type_of(run, v);
  if (!type->ranked || !dtype_is_plain_number(type->dtype)) return false;
  uint64_t count, bytes;
  if (!dims_product(type->dims, type->rank, &count) || !dtype_bytes(type->dtype, count, &bytes))
    return false;
  if (v->kind == RULES_TERM) {
    *raw = run->terms[v->id].raw;
    return raw->n == bytes && raw->at != NULL;
  }
  enum dtype dtype;
  struct span at;
  if (!kit_elements(&run->k, v->id, &dtype, &at) || at.n != bytes) return false;
  // The kit's own copy is gone when the result is placed.
  *raw = span_of(arena_string(&run->match, at), at.n);
  return true;
}

uint32_t rules_recipe_of(struct rules_run *run, const struct rules_value *v) {
  if (v->kind == RULES_TENSOR) return kit_recipe(&run->k, v->id);
  if (v->kind != RULES_TERM) return NO_ID;
  struct rules_term *t = &run->terms[v->id];
  if (t->what != RULES_IS_CONST) return NO_ID;
  if (t->recipe == NO_ID)
    t->recipe = recipe_bytes(run->k.r, t->type.dtype, t->type.dims, t->type.rank, t->raw);
  return t->recipe;
}

// ---- terms --------------------------------------------------------------------------------------

static struct rules_value add_term(struct rules_run *run, struct rules_term term) {
  term.value = NO_ID;
  const uint32_t id = TABLE_ADD(run, terms, 1);
  run->terms[id] = term;
  return rules_term(id);
}

struct rules_value rules_new_const(struct rules_run *run, enum dtype dtype, const int64_t *dims,
                                   uint32_t rank, struct span raw) {
  const struct rules_type type = {dtype, true, rank, dims};
  return add_term(
      run, (struct rules_term){.what = RULES_IS_CONST, .type = type, .raw = raw, .recipe = NO_ID});
}

// Evaluation goes down a recipe way by way, and so does its text in an edit log: what is shared counts
// for every use. A chain of folds would become as deep as the chain is long, and of x + x, again and
// again, a text of 2^n words.
static bool is_shallow(struct rules_run *run, uint32_t recipe) {
  const struct recipes *r = run->k.r;
  for (uint32_t id = run->n_sizes; id < r->n_rows; id++) { // operands come before
    struct rules_size size = {.depth = 1, .parts = 1};
    for (uint32_t i = 0; i < r->rows[id].n_args; i++) {
      const struct rules_size of = run->sizes[r->args[r->rows[id].args + i]];
      if (size.depth <= of.depth) size.depth = (uint16_t)min_u64(of.depth + 1u, RULES_DEEP + 1);
      size.parts = (uint16_t)min_u64((uint64_t)size.parts + of.parts, RULES_PARTS + 1);
    }
    *TABLE_PUSH(run, sizes) = size;
  }
  return run->sizes[recipe].depth <= RULES_DEEP && run->sizes[recipe].parts <= RULES_PARTS;
}

struct rules_value rules_new_recipe(struct rules_run *run, uint32_t recipe) {
  if (!is_shallow(run, recipe)) return rules_unknown();
  const struct recipe *row = &run->k.r->rows[recipe];
  int64_t *dims = arena_copy(&run->match, recipe_dims(run->k.r, recipe), row->rank * sizeof *dims);
  const struct rules_type type = {(enum dtype)row->dtype, true, row->rank, dims};
  return add_term(run, (struct rules_term){.what = RULES_IS_CONST, .type = type, .recipe = recipe});
}

struct rules_value rules_new_ints(struct rules_run *run, const int64_t *list, uint32_t n) {
  int64_t *copy = arena_alloc(&run->match, (n + 2) * sizeof *copy);
  copy[0] = n;
  for (uint32_t i = 0; i < n; i++) {
    if (!rules_is_number(list[i])) return rules_unknown();
    copy[1 + i] = list[i];
  }
  return rules_new_const(run, DTYPE_INT64, copy, 1, span_of(copy + 1, n * sizeof *copy));
}

// A number that the type does not have is none: 0.5 of integers, infinity, -1 of unsigned ones.
struct rules_value rules_new_scalar(struct rules_run *run, enum dtype dtype,
                                    const struct rules_literal *number) {
  uint8_t *raw = arena_zalloc(&run->match, 16);
  if (dtype_is_plain_float(dtype)) {
    if (number->kind == RULES_ONES) return rules_unknown();
    rules_number_put(dtype, raw, 0, number->d);
  } else {
    const int64_t x = number->kind == RULES_ONES ? -1 : number->i;
    if (number->kind == RULES_REAL) return rules_unknown();
    rules_number_put_int(dtype, raw, 0, x);
    if (number->kind != RULES_ONES && rules_number_get_int(dtype, raw, 0) != x)
      return rules_unknown();
  }
  return rules_new_const(run, dtype, NULL, 0, span_of(raw, dtype_bits(dtype) / 8));
}

const struct edit_attr *rules_attr(const struct rules_term *node, const char *name) {
  for (uint32_t i = 0; i < node->n_attrs; i++)
    if (strcmp(node->attrs[i].name, name) == 0) return &node->attrs[i];
  return NULL;
}

bool rules_attr_int(struct rules_run *run, const struct rules_term *node, const char *name,
                    int64_t fallback, int64_t *out) {
  const struct edit_attr *a = rules_attr(node, name);
  *out = a ? a->i : fallback;
  if (a) return a->type == ATTR_INT;
  return node->attrs_of == NO_ID || kit_attr_int(&run->k, node->attrs_of, name, fallback, out);
}

bool rules_constant_ints(struct rules_run *run, const struct rules_value *v, const int64_t **list,
                         uint32_t *n) {
  if (v->kind == RULES_TENSOR) return kit_const_ints(&run->k, v->id, list, n);
  struct rules_type t;
  struct span raw;
  if (!rules_elements(run, v, &t, &raw) || t.dtype != DTYPE_INT64) return false;
  *n = (uint32_t)(raw.n / 8);
  int64_t *copy = arena_copy(&run->match, raw.at, raw.n);
  *list = copy;
  return true;
}

static bool constant_ints(struct rules_run *run, const struct rules_term *node, uint32_t i,
                          const int64_t **list, uint32_t *n) {
  return i < node->n_args && rules_constant_ints(run, &node->args[i], list, n);
}

// Two dims side by side, broadcast.
static int64_t wider(int64_t a, int64_t b) {
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  if (rules_is_number(a) != rules_is_number(b))
    return rules_is_number(a) ? a : b; // a number above 1: the other is that, or 1
  return RULES_NO_DIM;
}

static void broadcast(struct rules_run *run, struct rules_type *to, const struct rules_type *t) {
  if (!to->ranked || !t->ranked) {
    to->ranked = false, to->rank = 0;
    return;
  }
  const uint32_t rank = to->rank > t->rank ? to->rank : t->rank;
  int64_t *dims = arena_alloc(&run->match, (rank + 1) * sizeof *dims);
  for (uint32_t i = 0; i < rank; i++) {
    const int64_t a = i + to->rank >= rank ? to->dims[i + to->rank - rank] : 1;
    const int64_t b = i + t->rank >= rank ? t->dims[i + t->rank - rank] : 1;
    dims[i] = wider(a, b);
  }
  to->rank = rank, to->dims = dims;
}

// The dims that a Reshape gives: 0 is the operand's, one -1 what is left.
static struct rules_type reshape_type(struct rules_run *run, const struct rules_term *node,
                                      struct rules_type x) {
  const int64_t *list;
  uint32_t n;
  struct rules_type out = {.dtype = x.dtype};
  int64_t keeps;
  if (!rules_attr_int(run, node, "allowzero", 0, &keeps)) return out;
  if (!constant_ints(run, node, 1, &list, &n) || n > RECIPE_MAX_RANK) return out;
  int64_t *dims = arena_alloc(&run->match, (n + 1) * sizeof *dims), product = 1;
  uint32_t open = n;
  for (uint32_t i = 0; i < n; i++) {
    dims[i] = list[i] == 0 && keeps == 0 && i < x.rank ? x.dims[i] : list[i];
    if (list[i] == -1)
      open = i;
    else if (!rules_is_number(dims[i]) || __builtin_mul_overflow(product, dims[i], &product))
      return out;
  }
  if (open < n) {
    uint64_t count;
    if (!x.ranked || product <= 0 || !dims_product(x.dims, x.rank, &count)) return out;
    dims[open] = (int64_t)count / product;
  }
  out.ranked = true, out.rank = n, out.dims = dims;
  return out;
}

// Two axes: those before `axis` as one, and the others.
static struct rules_type flatten_type(struct rules_run *run, const struct rules_term *node,
                                      struct rules_type x) {
  const struct rules_type out = {.dtype = x.dtype};
  uint64_t before, behind;
  int64_t axis, *dims = arena_alloc(&run->match, 2 * sizeof *dims);
  if (!x.ranked || !rules_attr_int(run, node, "axis", 1, &axis)) return out;
  if (axis < 0) axis += x.rank;
  if (axis < 0 || axis > x.rank) return out;
  if (!dims_product(x.dims, (uint32_t)axis, &before) ||
      !dims_product(x.dims + axis, x.rank - (uint32_t)axis, &behind) || before > INT64_MAX ||
      behind > INT64_MAX)
    return out;
  dims[0] = (int64_t)before, dims[1] = (int64_t)behind;
  return (struct rules_type){x.dtype, true, 2, dims};
}

static struct rules_type squeeze_type(struct rules_run *run, const struct rules_term *node,
                                      struct rules_type x) {
  const int64_t *axes;
  int64_t ones[RECIPE_MAX_RANK];
  uint32_t n = 0, m = 0;
  struct rules_type out = {.dtype = x.dtype};
  const bool adds = node->op == OP_Unsqueeze;
  if (!x.ranked) return out;
  if (!adds && node->n_args == 1) { // all of length 1
    for (uint32_t i = 0; i < x.rank; i++) {
      if (!rules_is_number(x.dims[i])) return out;
      if (x.dims[i] == 1) ones[n++] = i;
    }
    axes = ones;
  } else if (!constant_ints(run, node, 1, &axes, &n) || n > RECIPE_MAX_RANK) {
    return out;
  }
  const uint32_t full = adds ? x.rank + n : x.rank;
  if (full > RECIPE_MAX_RANK) return out;
  uint64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const int64_t axis = axes[i] < 0 ? axes[i] + full : axes[i];
    if (axis < 0 || axis >= full) return out;
    at |= (uint64_t)1 << axis;
  }
  int64_t *dims = arena_alloc(&run->match, (full + 1) * sizeof *dims);
  for (uint32_t i = 0, from = 0; i < full; i++)
    if (adds)
      dims[m++] = at >> i & 1 ? 1 : from < x.rank ? x.dims[from++] : 1;
    else if (!(at >> i & 1))
      dims[m++] = x.dims[i];
  out.ranked = true, out.rank = m, out.dims = dims;
  return out;
}

struct rules_type rules_infer(struct rules_run *run, const struct rules_term *node) {
  const struct rules_type none = {0};
  if (node->n_args == 0) return none;
  struct rules_type t = rules_type_of(run, &node->args[0]);
  const struct edit_attr *attr;
  if (kit_op_has(node->op, KIT_ELEMENTWISE)) {
    if (node->op == OP_Clip) return t;
    for (uint32_t i = 1; i < node->n_args; i++) {
      const struct rules_type other = rules_type_of(run, &node->args[i]);
      broadcast(run, &t, &other);
      if (node->op == OP_Where && i == 1) t.dtype = other.dtype;
    }
    if (kit_op_has(node->op, KIT_COMPARES) || node->op == OP_IsNaN || node->op == OP_IsInf)
      t.dtype = DTYPE_BOOL;
    if (node->op == OP_Cast)
      t.dtype = (attr = rules_attr(node, "to")) && dtype_known(attr->i) ? (enum dtype)attr->i
                                                                        : DTYPE_UNDEFINED;
    return t;
  }
  switch (node->op) {
  case OP_Transpose: {
    attr = rules_attr(node, "perm");
    if (!t.ranked || !attr || attr->n != t.rank) return (struct rules_type){.dtype = t.dtype};
    int64_t *dims = arena_alloc(&run->match, (t.rank + 1) * sizeof *dims);
    for (uint32_t i = 0; i < t.rank; i++) {
      if (attr->ints[i] < 0 || attr->ints[i] >= t.rank)
        return (struct rules_type){.dtype = t.dtype};
      dims[i] = t.dims[attr->ints[i]];
    }
    t.dims = dims;
    return t;
  }
  case OP_Reshape: return reshape_type(run, node, t);
  case OP_Flatten: return flatten_type(run, node, t);
  case OP_Squeeze:
  case OP_Unsqueeze: return squeeze_type(run, node, t);
  case OP_Expand: {
    struct rules_type to = {.ranked = true};
    if (!constant_ints(run, node, 1, &to.dims, &to.rank))
      return (struct rules_type){.dtype = t.dtype};
    broadcast(run, &t, &to);
    return t;
  }
  case OP_MatMul: {
    const struct rules_type w = rules_type_of(run, &node->args[1]);
    if (t.rank < 2 || w.rank != 2) return (struct rules_type){.dtype = t.dtype};
    int64_t *dims = arena_copy(&run->match, t.dims, t.rank * sizeof *dims);
    dims[t.rank - 1] = w.dims[1];
    t.dims = dims;
    return t;
  }
  case OP_Shape: {
    int64_t *dims = arena_alloc(&run->match, sizeof *dims);
    dims[0] = t.ranked ? (int64_t)t.rank : RULES_NO_DIM;
    return (struct rules_type){DTYPE_INT64, true, 1, dims};
  }
  default:
    return (struct rules_type){.dtype = kit_op_row(node->op)->domain == KIT_ONNX ? t.dtype
                                                                                 : DTYPE_UNDEFINED};
  }
}

// Does the operator take its operands together at the version of the graph at hand? Neg takes int16 before Mul does.
static bool takes_types(struct rules_run *run, enum op op, const struct rules_value *args,
                        uint32_t n_args) {
  const struct kit_op_row *row = kit_op_row(op);
  const struct schema_signature *s =
      row->domain == KIT_ONNX ? schema_signature_of(span_str(""), span_str(row->name), run->opset)
                              : NULL;
  enum dtype bound[SCHEMA_VARIABLES_MAX] = {DTYPE_UNDEFINED};
  for (uint32_t i = 0; s && i < n_args; i++) {
    const struct schema_formal *f = schema_input(s, i);
    const enum dtype dtype = rules_type_of(run, &args[i]).dtype;
    if (!f || args[i].kind == RULES_ABSENT || !dtype_known(dtype)) continue;
    if (!schema_takes(f->types, dtype)) return false;
    if (f->variable == SCHEMA_NO_VARIABLE || !f->same) continue;
    if (bound[f->variable] == DTYPE_UNDEFINED) bound[f->variable] = dtype;
    if (bound[f->variable] != dtype) return false;
  }
  return true;
}

struct rules_value rules_new_node(struct rules_run *run, enum op op, const struct rules_value *args,
                                  uint32_t n_args, uint32_t attrs_of, const struct edit_attr *attrs,
                                  uint32_t n_attrs) {
  // What a rule says of older versions of its operators holds of those that it makes, too.
  bool meant = false;
  for (uint32_t i = 0; run->rule->since && i < run->n_nodes; i++)
    meant = meant || op == kit_op(&run->k, run->nodes[i]);
  if (!meant &&
      !rules_floor(run, op, n_args > 0 ? rules_type_of(run, &args[0]).dtype : DTYPE_UNDEFINED))
    return rules_unknown();
  if (attrs_of != NO_ID && !kit_attrs_copyable(&run->k, attrs_of)) return rules_unknown();
  while (n_args > 0 && args[n_args - 1].kind == RULES_ABSENT)
    n_args--;
  struct rules_value *copies = arena_alloc(&run->match, (n_args + 1) * sizeof *copies);
  bool constant = n_args > 0;
  for (uint32_t i = 0; i < n_args; i++) {
    if (args[i].kind == RULES_UNKNOWN) return args[i];
    copies[i] = args[i];
    constant = constant && (args[i].kind == RULES_ABSENT || rules_is_constant(run, &args[i]));
  }
  struct edit_attr *given = arena_copy(&run->match, attrs, n_attrs * sizeof *given);
  struct rules_term node = {.what = RULES_IS_NODE,
                            .op = op,
                            .args = copies,
                            .n_args = n_args,
                            .attrs = given,
                            .n_attrs = n_attrs,
                            .attrs_of = attrs_of,
                            .recipe = NO_ID};
  struct rules_value folded;
  if (constant) {
    const enum rules_folded how = rules_fold(run, &node, &folded);
    if (how != RULES_LEFT) return how == RULES_FOLDED ? folded : rules_unknown();
  }
  if (!takes_types(run, op, copies, n_args)) return rules_unknown();
  node.type = rules_infer(run, &node);
  return add_term(run, node);
}

// ---- edits --------------------------------------------------------------------------------------

static void note_type(struct rules_run *run, uint32_t value, const struct rules_type *t) {
  struct model_dim dims[RECIPE_MAX_RANK];
  for (uint32_t i = 0; i < t->rank; i++)
    dims[i] = rules_is_number(t->dims[i]) ? (struct model_dim){t->dims[i], NO_ID}
              : t->dims[i] == RULES_NO_DIM
                  ? (struct model_dim){-1, NO_ID}
                  : (struct model_dim){-1, (uint32_t)(t->dims[i] - rules_symbol(0))};
  const struct model_type type = {
      .dtype = t->dtype, .ranked = t->ranked, .rank = t->rank, .dims = dims};
  kit_note_type(&run->k, value, &type);
}

static uint32_t value_of(const struct rules_run *run, const struct rules_value *v) {
  return v->kind == RULES_TENSOR ? v->id : v->kind == RULES_TERM ? run->terms[v->id].value : NO_ID;
}

// Makes one term; the last takes over the outputs of `as`.
static void make(struct rules_run *run, struct rules_term *t, uint32_t as) {
  struct kit *k = &run->k;
  if (t->what == RULES_IS_CONST) {
    if (t->recipe == NO_ID)
      t->recipe = recipe_bytes(k->r, t->type.dtype, t->type.dims, t->type.rank, t->raw);
    t->value = kit_new_tensor(k, "constant", t->recipe);
    return;
  }
  uint32_t *in = arena_alloc(&run->match, (t->n_args + 1) * sizeof *in);
  for (uint32_t i = 0; i < t->n_args; i++)
    in[i] = value_of(run, &t->args[i]);
  const struct kit_op_row *row = kit_op_row(t->op);
  if (row->domain != KIT_ONNX)
    kit_import(k, run->graph, kit_domain_name((enum kit_domain)row->domain), 1);
  const uint32_t node =
      kit_replace(k, as, t->op, KIT_INPUTS(in, t->n_args), KIT_ATTRS(t->attrs, t->n_attrs),
                  KIT_ATTRS_OF(t->attrs_of), KIT_OUTPUTS(1));
  t->value = kit_out(k, node, 0);
  // An old output keeps what is known of it.
  struct model_type known;
  if (!kit_type(k, t->value, &known) || !known.ranked || known.dtype == DTYPE_UNDEFINED)
    note_type(run, t->value, &t->type);
}

// Marks what a term is made of, from the end: operands come before their users.
static void mark_needed(struct rules_run *run, uint32_t last, bool *needed) {
  needed[last] = true;
  for (uint32_t t = last + 1; t-- > 0;)
    for (uint32_t i = 0;
         needed[t] && run->terms[t].what == RULES_IS_NODE && i < run->terms[t].n_args; i++)
      if (run->terms[t].args[i].kind == RULES_TERM) needed[run->terms[t].args[i].id] = true;
}

static void make_needed(struct rules_run *run, uint32_t last, uint32_t as) {
  bool *needed = arena_zalloc(&run->match, run->n_terms * sizeof *needed);
  mark_needed(run, last, needed);
  for (uint32_t t = 0; t <= last; t++)
    if (needed[t]) make(run, &run->terms[t], t == last ? as : NO_ID);
}

// Node `n` is gone or is not used: so may be what it alone used.
static void sweep_value(struct rules_run *run, uint32_t value) {
  struct kit *k = &run->k;
  if (k->m->values[value].flags & VALUE_DEAD || !kit_unused(k, value)) return;
  const uint32_t maker = kit_maker(k, value);
  if (maker != NO_ID)
    kit_sweep(k, maker);
  else
    dead_ends_drop(k->e, value);
}

bool rules_place(struct rules_run *run, const struct rules_value *result) {
  struct kit *k = &run->k;
  const uint32_t root = run->nodes[0], old = kit_out(k, root, 0), n_in = kit_n_in(k, root);
  if (old == NO_ID || (result->kind != RULES_TENSOR && result->kind != RULES_TERM)) return false;
  for (uint32_t i = 1; i < kit_n_out(k, root); i++)
    if (kit_out(k, root, i) != NO_ID && !kit_unused(k, kit_out(k, root, i))) return false;
  const bool constant = rules_is_constant(run, result) && result->kind == RULES_TERM;
  const bool node = result->kind == RULES_TERM && !constant;
  bool bypass = !node && (constant ? !kit_is_output(k, old) : kit_can_bypass(k, root, result->id));
  if (!node && !bypass && kit_op(k, root) == OP_Identity) return false;
  if (result->kind == RULES_TENSOR && result->id == old) return false;

  uint32_t *in = arena_alloc(&run->match, (n_in + 1) * sizeof *in);
  for (uint32_t i = 0; i < n_in; i++)
    in[i] = kit_in(k, root, i);
  const struct rules_book *b = run->book;
  const char *pass =
      b->passes[rules_cell(run, (uint16_t)(RULES_COLUMN | (run->rule->n_columns - 1)))].name;
  k->pass = pass; // the site and the edits are this rule's
  kit_begin(k, root, pass);
  if (node) {
    make_needed(run, result->id, root);
  } else {
    if (constant) make_needed(run, result->id, NO_ID);
    const uint32_t value = value_of(run, result);
    if (bypass) bypass = kit_bypass(k, root, value);
    if (!bypass) kit_replace(k, root, OP_Identity, KIT_IN(value), KIT_OUTPUTS(1));
  }
  for (uint32_t i = 1; i < run->n_nodes; i++)
    if (run->nodes[i] != NO_ID && !(k->m->nodes[run->nodes[i]].flags & NODE_DEAD))
      kit_sweep(k, run->nodes[i]);
  for (uint32_t i = 0; i < n_in; i++)
    if (in[i] != NO_ID) sweep_value(run, in[i]);
  return true;
}
