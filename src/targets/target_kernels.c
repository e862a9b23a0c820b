// Kernels of ONNX Runtime's CPU provider, by operator, version and types.
//
//   node ──▶ the version that its operator has at the opset ──▶ rows ──▶ the first release, or none
//
// The rows come from the runtimes themselves (target_kernels.def says how). Types count where they are told:
// a constant's, a declared one, one that an attribute says. Where the provider has no kernel for inputs in
// float16 and one for float, the runtime casts. Constants are no nodes there. Functions of the model are taken apart. com.microsoft has one
// version: of its operators only the first release is known; of other domains nothing.
#include "targets/inside/target_kernels.h"

#include "base/dtype.h"
#include "model/model_types.h"
#include "targets/targets.h"

#include <stdlib.h>
#include <string.h>

struct kernel {
  const char *op;
  uint8_t since, ort;
  const char *variable; // NULL: any types
  uint32_t dtypes;
  uint8_t from, to; // of a function: opsets; else 0
};

// In order of (operator, since, ort).
static const struct kernel kernels[] = {
#define KERNEL(op, since, ort, variable, dtypes) {op, since, ort, variable, dtypes, 0, 0},
#define FUNCTION(op, since, ort, from, to) {op, since, ort, NULL, 0, from, to},
#define OLDER(op, since, ort, taken)
#define MICROSOFT(op, ort)
#include "targets/target_kernels.def"
#undef MICROSOFT
#undef OLDER
#undef FUNCTION
#undef KERNEL
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

// Versions of operators that releases before `ort` do not know, which load such an opset.
static const struct {
  const char *op;
  uint8_t since, ort, taken; // for that version
} older[] = {
#define KERNEL(op, since, ort, variable, dtypes)
#define FUNCTION(op, since, ort, from, to)
#define OLDER(op, since, ort, taken) {op, since, ort, taken},
#define MICROSOFT(op, ort)
#include "targets/target_kernels.def"
#undef MICROSOFT
#undef OLDER
#undef FUNCTION
#undef KERNEL
};

// Of com.microsoft, by name: those that the oldest release lacks.
static const struct microsoft {
  const char *op;
  uint8_t ort;
} microsoft[] = {
#define KERNEL(op, since, ort, variable, dtypes)
#define FUNCTION(op, since, ort, from, to)
#define OLDER(op, since, ort, taken)
#define MICROSOFT(op, ort) {op, ort},
#include "targets/target_kernels.def"
#undef MICROSOFT
#undef OLDER
#undef FUNCTION
#undef KERNEL
};

void target_kernels_init(struct target_kernels *k, const struct model *m) {
  *k = (struct target_kernels){.m = m};
  schema_names_init(&k->names, m);
  model_calls_init(&k->calls, m);
}

void target_kernels_done(struct target_kernels *k) {
  schema_names_done(&k->names);
  model_calls_done(&k->calls);
}

enum dtype target_told_type(const struct model *m, uint32_t value) {
  const struct model_value *v = &m->values[value];
  struct model_type t;
  int64_t to;
  if (model_types_get(NULL, m, value, &t) && t.dtype != DTYPE_UNDEFINED) return t.dtype;
  if (v->kind != VALUE_NODE_OUTPUT || !model_op_is(m, v->def, "Cast")) return DTYPE_UNDEFINED;
  return model_attr_int(m, v->def, "to", DTYPE_UNDEFINED, &to) && dtype_known(to) ? (enum dtype)to
                                                                                  : DTYPE_UNDEFINED;
}

// The rows of an operator's version; none: *n is 0.
static const struct kernel *rows_of(const char *op, int64_t since, uint32_t *n) {
  uint32_t from = 0, to = KERNELS;
  while (from < to) {
    const uint32_t mid = from + (to - from) / 2;
    const int order = strcmp(kernels[mid].op, op);
    if (order < 0 || (order == 0 && kernels[mid].since < since))
      from = mid + 1;
    else
      to = mid;
  }
  *n = 0;
  while (from + *n < KERNELS && strcmp(kernels[from + *n].op, op) == 0 &&
         kernels[from + *n].since == since)
    *n += 1;
  return &kernels[from];
}

static bool row_takes(const struct kernel *row, enum dtype dtype, bool casts) {
  return row->dtypes >> dtype & 1 ||
         (casts && dtype == DTYPE_FLOAT16 && row->dtypes >> DTYPE_FLOAT & 1);
}

static uint32_t first_of_kernel(const struct kernel *rows, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (rows[i].from == 0) return rows[i].ort;
  return 0;
}

// The first release that takes the node apart; 0: none.
static uint32_t first_of_function(const struct kernel *rows, uint32_t n, int64_t opset) {
  for (uint32_t i = 0; i < n; i++)
    if (rows[i].from && opset >= rows[i].from && opset <= rows[i].to) return rows[i].ort;
  return 0;
}

// The first release in which the variable takes the type; 0: in none.
static uint32_t first_of_type(const struct kernel *rows, uint32_t n, const char *variable,
                              enum dtype dtype, bool casts) {
  bool is_said = false;
  for (uint32_t i = 0; i < n; i++) {
    if (!rows[i].variable || strcmp(rows[i].variable, variable) != 0) continue;
    is_said = true;
    if (row_takes(&rows[i], dtype, casts)) return rows[i].ort;
  }
  return is_said ? 0 : first_of_kernel(rows, n);
}

struct look {
  struct target_kernels *k;
  const struct kernel *rows;
  uint32_t n, ort;
  enum dtype dtype;
};

static void look_at(struct look *l, uint32_t node, const struct schema_signature *s,
                    const struct schema_formal *f, enum dtype dtype) {
  if (!f || f->variable == SCHEMA_NO_VARIABLE || l->ort == 0 || dtype == DTYPE_UNDEFINED) return;
  const char *variable = s->variables[f->variable].name;
  const uint32_t first =
      first_of_type(l->rows, l->n, variable, dtype, schema_output_follows(l->k->m, node, s, f));
  if (first == 0 || first > l->ort) {
    l->ort = first;
    l->dtype = dtype;
  }
}

static enum dtype told(const struct model *m, uint32_t value) {
  return value == NO_ID ? DTYPE_UNDEFINED : target_told_type(m, value);
}

// The first release that has a kernel for the node as of that version, or takes it apart; 0: none.
static uint32_t first_at(struct target_kernels *k, uint32_t node, const struct schema_operator *op,
                         const struct schema_signature *s, int64_t opset, enum dtype *dtype) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  struct look l = {.k = k};
  l.rows = rows_of(op->name, s->since, &l.n);
  l.ort = first_of_kernel(l.rows, l.n);
  for (uint32_t i = 0; i < n->n_in; i++)
    look_at(&l, node, s, schema_input(s, i), told(m, model_input(m, n, i)));
  for (uint32_t i = 0; i < n->n_out; i++) {
    const enum dtype said = schema_attribute_type(m, node, s, i);
    look_at(&l, node, s, schema_output(s, i), said ? said : told(m, model_output(m, n, i)));
  }
  const uint32_t apart = first_of_function(l.rows, l.n, opset);
  if (apart && (l.ort == 0 || apart <= l.ort)) return apart;
  *dtype = l.dtype;
  return l.ort;
}

// Is all that the node says in that version too?
static bool fits(const struct model *m, uint32_t node, const struct schema_signature *s) {
  const struct model_node *n = &m->nodes[node];
  for (uint32_t i = 0; i < n->n_attrs; i++) {
    const struct model_attr *a = &m->attrs[n->attrs + i];
    if (!(a->flags & ATTR_DEAD) && !schema_attribute_of(s, model_name(m, a->name))) return false;
  }
  return true;
}

// The first release that takes the node for one of the version before, which it has a kernel for; 0: none.
static uint32_t first_as_older(struct target_kernels *k, uint32_t node,
                               const struct schema_operator *op, const struct schema_signature *s,
                               int64_t opset) {
  for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
    if (strcmp(older[i].op, op->name) != 0 || older[i].since != s->since) continue;
    const struct schema_signature *before = schema_at(op, older[i].taken);
    enum dtype dtype;
    if (!before || !fits(k->m, node, before)) return 0;
    uint32_t ort = first_at(k, node, op, before, opset, &dtype);
    if (ort && ort < target_loads_opset(opset)) ort = target_loads_opset(opset);
    return ort < older[i].ort ? ort : 0;
  }
  return 0;
}

static int by_name(const void *name, const void *row) {
  return strcmp(name, ((const struct microsoft *)row)->op);
}

static uint32_t first_of_microsoft(const char *op) {
  const struct microsoft *row =
      bsearch(op, microsoft, sizeof microsoft / sizeof *microsoft, sizeof *microsoft, by_name);
  return row ? row->ort : TARGET_OLDEST;
}

uint32_t target_kernel_of(struct target_kernels *k, uint32_t node, int64_t opset,
                          enum dtype *dtype) {
  const struct model *m = k->m;
  const struct model_node *n = &m->nodes[node];
  const struct schema_operator *op = schema_of_node(&k->names, node);
  *dtype = DTYPE_UNDEFINED;
  if (!op || strcmp(op->name, "Constant") == 0 || model_calls_callee(&k->calls, node) != NO_ID)
    return TARGET_OLDEST;
  if (strcmp(op->domain, "com.microsoft") == 0) return first_of_microsoft(op->name);
  if (*op->domain) return TARGET_OLDEST;
  if (opset == 0) opset = model_opset_version(m, n->graph, model_name(m, n->domain));
  const struct schema_signature *s = schema_at(op, opset);
  if (!s || s->deprecated) return TARGET_OLDEST;
  const uint32_t ort = first_at(k, node, op, s, opset, dtype);
  const uint32_t before = first_as_older(k, node, op, s, opset);
  if (before == 0 || (ort && ort <= before)) return ort;
  *dtype = DTYPE_UNDEFINED;
  return before;
}

uint32_t target_loads_opset(int64_t opset) {
  static const struct {
    int64_t version;
    uint32_t ort;
  } rows[] = {
#define OPSET(version, ort) {version, ort},
#define IR_VERSION(version, ort)
#include "targets/target_versions.def"
  };
  uint32_t ort = TARGET_OLDEST;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].version <= opset) ort = rows[i].ort;
  return ort;
}
