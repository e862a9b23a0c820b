// Types of values as passes ask for them: the side table (model_types.h), and the little that an
// operator says of its result whatever its operands are.
//
// Questions infer nothing: each looks at one value and its producer only. Inference (kit_infer) fills the
// side table, and then they are answered by it.
#include "passes/kit/inside/kit_inside.h"

static void of_operator(struct kit *k, uint32_t value, struct model_type *out) {
  const uint32_t node = kit_maker(k, value);
  const enum op op = kit_op(k, node);
  int64_t to;
  if (op == OP_NONE || kit_out(k, node, 0) != value || out->dtype != DTYPE_UNDEFINED) return;
  if (op == OP_Cast && kit_attr_int(k, node, "to", DTYPE_UNDEFINED, &to) && dtype_known(to))
    out->dtype = (enum dtype)to;
  if (kit_op_has(op, KIT_COMPARES) || op == OP_And || op == OP_Or || op == OP_Xor || op == OP_Not ||
      op == OP_IsNaN || op == OP_IsInf)
    out->dtype = DTYPE_BOOL;
  if (op == OP_Shape || op == OP_Size) {
    out->dtype = DTYPE_INT64;
    out->rank = op == OP_Shape;
    out->dims = NULL;
    out->ranked = true;
  }
}

// `tells`: as it may be told to a runtime.
static bool type_of(struct kit *k, uint32_t value, bool tells, struct model_type *out) {
  model_types_get(k->types, k->m, value, out);
  if (tells && out->ranked && k->env->infer && infer_dims_lead_to_stuck(k->env->infer, value))
    *out = (struct model_type){.dtype = out->dtype};
  if (value != NO_ID) of_operator(k, value, out);
  return out->dtype != DTYPE_UNDEFINED || out->ranked;
}

bool kit_type(struct kit *k, uint32_t value, struct model_type *out) {
  return type_of(k, value, !k->tells_no_dims, out);
}

void kit_note_type(struct kit *k, uint32_t value, const struct model_type *type) {
  model_types_note(k->types, k->m, value, type);
}

void kit_note_like(struct kit *k, uint32_t value, uint32_t other) {
  struct model_type type;
  if (kit_type(k, other, &type)) kit_note_type(k, value, &type);
}

enum dtype kit_dtype(struct kit *k, uint32_t value) {
  struct model_type type;
  kit_type(k, value, &type);
  return type.dtype;
}

bool kit_rank(struct kit *k, uint32_t value, uint32_t *rank) {
  struct model_type type;
  kit_type(k, value, &type);
  *rank = type.rank;
  return type.ranked;
}

bool kit_static_dims(struct kit *k, uint32_t value, int64_t *dims, uint32_t most, uint32_t *rank) {
  struct model_type type;
  kit_type(k, value, &type);
  *rank = type.rank;
  if (!type.ranked || type.rank > most) return false;
  for (uint32_t i = 0; i < type.rank; i++) {
    dims[i] = model_type_dim(k->m, &type, i).value;
    if (dims[i] < 0) return false;
  }
  return true;
}

bool kit_static(struct kit *k, uint32_t value) {
  struct model_type type;
  kit_type(k, value, &type);
  for (uint32_t i = 0; i < type.rank; i++)
    if (model_type_dim(k->m, &type, i).value < 0) return false;
  return type.ranked;
}

struct model_dim kit_dim(struct kit *k, uint32_t value, int64_t i) {
  struct model_type type;
  kit_type(k, value, &type);
  if (i < 0) i += type.rank;
  if (!type.ranked || i < 0 || i >= type.rank) return (struct model_dim){-1, NO_ID};
  return model_type_dim(k->m, &type, (uint32_t)i);
}

uint64_t kit_softmax_terms(struct kit *k, uint32_t node) {
  const uint32_t x = kit_in(k, node, 0);
  const bool old = kit_opset(k, k->m->nodes[node].graph) < 13;
  int64_t axis;
  uint32_t rank;
  uint64_t terms = 1;
  if (!kit_attr_int(k, node, "axis", old ? 1 : -1, &axis) || !kit_rank(k, x, &rank)) return 0;
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return 0;
  for (int64_t i = axis; i < (old ? (int64_t)rank : axis + 1); i++) {
    const int64_t dim = kit_dim(k, x, i).value;
    if (dim < 1 || __builtin_mul_overflow(terms, (uint64_t)dim, &terms)) return 0;
  }
  return terms;
}

// The quotients of scales that operators on codes take, from `least` up to below `most`. GlobalAveragePool refuses other quotients. The
// other operators round numbers of up to 255 times the quotient to int32: twice as much where two inputs are added, 255 times as much where
// they are multiplied.
static const struct {
  enum op op;
  double least, most;
} quotients[] = {
    {OP_ms_QLinearAdd, 0, 0x1p22},
    {OP_ms_QLinearAveragePool, 0, 0x1p23},
    {OP_ms_QLinearGlobalAveragePool, 0x1p-32, 0x1p8},
    {OP_ms_QLinearMul, 0, 0x1p15},
    {OP_ms_QLinearSigmoid, 0, 0x1p24},
};

// The number of elements of each mean of a GlobalAveragePool; 1 if it is not known.
static double pool_terms(struct kit *k, uint32_t node) {
  const uint32_t x = kit_in(k, node, 0);
  uint32_t rank = 0;
  double terms = 1;
  for (uint32_t i = 2; kit_rank(k, x, &rank) && i < rank; i++) {
    const int64_t dim = kit_dim(k, x, i).value;
    if (dim < 1) return 1;
    terms *= (double)dim;
  }
  return terms;
}

bool kit_takes_scales(struct kit *k, uint32_t node, enum op on_codes, double x, double y) {
  const double rounding = 1e-6, pool_most = 0x1p24;
  const bool is_mean = on_codes == OP_ms_QLinearGlobalAveragePool;
  const double terms = is_mean ? pool_terms(k, node) : 1, quotient = x / (y * terms);
  if (terms >= pool_most) return false;
  for (size_t i = 0; i < sizeof quotients / sizeof *quotients; i++)
    if (quotients[i].op == on_codes)
      return quotient >= quotients[i].least * (1 + rounding) &&
             quotient < quotients[i].most * (1 - rounding);
  return true;
}

bool kit_dim_equal(struct model_dim a, struct model_dim b) {
  if (a.value >= 0 || b.value >= 0) return a.value == b.value;
  return a.param == b.param && a.param != NO_ID;
}

bool kit_same_dims(struct kit *k, uint32_t a, uint32_t b) {
  struct model_type x, y;
  kit_type(k, a, &x);
  kit_type(k, b, &y);
  if (!x.ranked || !y.ranked || x.rank != y.rank) return false;
  for (uint32_t i = 0; i < x.rank && a != b; i++)
    if (!kit_dim_equal(model_type_dim(k->m, &x, i), model_type_dim(k->m, &y, i))) return false;
  return true;
}

bool kit_broadcasts(struct kit *k, uint32_t a, uint32_t to) {
  struct model_type x, y;
  kit_type(k, a, &x);
  kit_type(k, to, &y);
  if (!x.ranked) return false;
  // One element of rank 0 never adds a dim, whatever it meets.
  if (x.rank == 0) return true;
  if (!y.ranked || x.rank > y.rank) return false;
  for (uint32_t i = 0; i < x.rank; i++) {
    const struct model_dim d = model_type_dim(k->m, &x, i);
    if (d.value == 1) continue;
    if (!kit_dim_equal(d, model_type_dim(k->m, &y, y.rank - x.rank + i))) return false;
  }
  return true;
}

struct infer *kit_facts(struct kit *k) {
  if (!k->env->infer) {
    k->env->infer = infer_new(k->m, NULL);
    infer_all(k->env->infer, NULL);
  }
  return k->env->infer;
}

struct infer *kit_infer(struct kit *k) {
  // A pass may have more than one kit, and without a table for all passes each has its own.
  if (k->env->infer && (k->env->types || k->in->types_filled)) return k->env->infer;
  k->in->types_filled = true;
  if (k->env->infer) infer_fill_anew(k->env->infer);
  infer_fill(kit_facts(k), k->m, k->types);
  return k->env->infer;
}

void kit_infer_more(struct kit *k) {
  infer_more(kit_infer(k));
  infer_fill(k->env->infer, k->m, k->types);
}

static bool is_of_main(const struct kit *k, uint32_t graph) {
  return k->m->graphs[model_root_graph(k->m, graph)].kind == GRAPH_MAIN;
}

bool kit_has_scan(struct kit *k) {
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node; n != NO_ID; n = k->m->nodes[n].next)
      if (is_of_main(k, g) && kit_op(k, n) == OP_Scan) return true;
  return false;
}

enum { DECLARED_RANK = 16 };

static void declare(struct kit *k, uint32_t value) {
  struct model_dim dims[DECLARED_RANK];
  struct model_type t;
  if (value == NO_ID || model_live_info(k->m, k->m->values[value].info) != NO_ID ||
      !type_of(k, value, true, &t) || !t.ranked || t.dtype == DTYPE_UNDEFINED ||
      t.rank > DECLARED_RANK)
    return;
  for (uint32_t i = 0; i < t.rank; i++) {
    dims[i] = model_type_dim(k->m, &t, i);
    dims[i].param = k->m->empty; // names of the model are for those who declared them
    if (dims[i].value < 0) dims[i].value = -1;
  }
  kit_site(k, k->m->values[value].def, "declared");
  edit_retype_value(k->e, value, t.dtype, dims, t.rank);
}

void kit_declare_made(struct kit *k) {
  for (uint32_t g = 0; kit_graph(k, &g); g++)
    for (uint32_t n = k->m->graphs[g].first_node; n != NO_ID; n = k->m->nodes[n].next)
      for (uint32_t i = 0;
           is_of_main(k, g) && k->m->nodes[n].flags & NODE_NEW && i < kit_n_out(k, n); i++)
        declare(k, kit_out(k, n, i));
}
