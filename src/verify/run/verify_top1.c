// Which outputs are a choice among many, and the rows of all cases together: a case of one row says little, and a hundred of
// them as much as a batch.
#include "verify/run/verify_top1.h"

#include "model/model.h"

// The axis that the node works along, of `rank`; -1: not known, or several at once.
static int64_t axis_of(const struct model *m, uint32_t node, int64_t rank, int64_t unwritten) {
  int64_t axis;
  if (!model_attr_int(m, node, "axis", unwritten, &axis)) return -1;
  return axis < 0 ? axis + rank : axis;
}

enum verify_top1 verify_top1_of(const struct model *m, struct infer *in, uint32_t output) {
  const struct model_graph *g = &m->graphs[m->main_graph];
  uint32_t value = m->graph_io[g->outputs + output], node;
  struct infer_type t;
  for (;;) {
    if (m->values[value].kind != VALUE_NODE_OUTPUT) return VERIFY_TOP1_NONE;
    node = m->values[value].def;
    if (!model_op_is(m, node, "Identity") && !model_op_is(m, node, "Cast")) break;
    value = model_input(m, &m->nodes[node], 0);
    if (value == NO_ID) return VERIFY_TOP1_NONE;
  }
  const uint32_t read = m->nodes[node].n_in ? model_input(m, &m->nodes[node], 0) : NO_ID;
  if (read == NO_ID || !infer_type_of(in, read, &t) || t.kind != INFER_TENSOR || !t.ranked ||
      t.rank == 0)
    return VERIFY_TOP1_NONE;
  const int64_t last = (int64_t)t.rank - 1;
  if (model_op_is(m, node, "ArgMax"))
    return axis_of(m, node, t.rank, 0) == last ? VERIFY_TOP1_PLACES : VERIFY_TOP1_NONE;
  if (!model_op_is(m, node, "Softmax") && !model_op_is(m, node, "LogSoftmax"))
    return VERIFY_TOP1_NONE;
  // Before version 13 all axes from this one on are a row.
  const int64_t unwritten = model_opset_version(m, m->main_graph, span_str("")) >= 13 ? -1 : 1;
  return axis_of(m, node, t.rank, unwritten) == last ? VERIFY_TOP1_ROWS : VERIFY_TOP1_NONE;
}

int verify_top1_add(enum verify_top1 kind, const struct array *a, const struct array *b,
                    const struct compare_figures *f, const volatile int *stop,
                    struct compare_rows *one, struct compare_rows *sum, struct err *err) {
  *one = (struct compare_rows){0};
  if (kind == VERIFY_TOP1_PLACES)
    *one = (struct compare_rows){.counted = f->count, .changed = f->unequal};
  else if (verify_top1_has(kind, a) && compare_rows(a, b, f->max_abs, stop, one, err))
    return -1;
  sum->counted += one->counted;
  sum->changed += one->changed;
  sum->close += one->close;
  return 0;
}

bool verify_top1_has(enum verify_top1 kind, const struct array *x) {
  return kind == VERIFY_TOP1_PLACES || (kind == VERIFY_TOP1_ROWS && compare_rows_of(x) != NULL);
}

const char *verify_top1_few(const struct compare_rows *rows, struct arena *a) {
  const char *few = arena_printf(a, "top-1: too few rows (%s, %d wanted)", decimal(rows->counted).s,
                                 VERIFY_TOP1_LEAST);
  if (rows->close == 0) return few;
  return arena_printf(a,
                      "%s; in %s more the two largest elements are closer than the largest error",
                      few, decimal(rows->close).s);
}
