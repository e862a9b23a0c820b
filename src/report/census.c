// Operators are counted by the ids of their names, which are distinct in a model, and the rows of the two counts are
// joined by name: a model may have as many kinds of operators as nodes.
#include "report/census.h"

#include <assert.h>
#include <stdlib.h>

struct kind {
  uint32_t op_type, domain;
};

static int by_kind(const void *a, const void *b) {
  const struct kind *x = a, *y = b;
  if (x->op_type != y->op_type) return x->op_type < y->op_type ? -1 : 1;
  return x->domain < y->domain ? -1 : x->domain > y->domain;
}

static const char *name_of(struct census *c, const struct model *m, struct kind kind) {
  const struct span op = model_name(m, kind.op_type), domain = model_name(m, kind.domain);
  const char *name = arena_string(&c->arena, op);
  return domain.n ? arena_printf(&c->arena, "%s (%s)", name, arena_string(&c->arena, domain))
                  : name;
}

static void count_nodes(struct census *c, const struct model *m, enum census_when when) {
  struct arena scratch = {0};
  struct kind *kinds = arena_alloc(&scratch, m->n_nodes * sizeof *kinds + 1);
  uint32_t n = 0;
  for (uint32_t i = 0; i < m->n_nodes; i++)
    if (!(m->nodes[i].flags & NODE_DEAD))
      kinds[n++] = (struct kind){m->nodes[i].op_type, m->nodes[i].domain};
  qsort(kinds, n, sizeof *kinds, by_kind);
  for (uint32_t i = 0, first; i < n;) {
    for (first = i; i < n && by_kind(&kinds[i], &kinds[first]) == 0;)
      i++;
    struct census_op row = {.name = name_of(c, m, kinds[first])};
    *(when == CENSUS_BEFORE ? &row.before : &row.after) = i - first;
    *TABLE_PUSH(c, ops) = row;
  }
  c->nodes[when] = n;
  arena_free(&scratch);
}

void census_count(struct census *c, const struct model *m, enum census_when when) {
  count_nodes(c, m, when);
  for (uint32_t i = 0; i < m->n_tensors; i++) {
    const struct model_tensor *t = &m->tensors[i];
    if (t->flags & TENSOR_DEAD) continue;
    assert(t->dtype < CENSUS_TYPES);
    c->types[t->dtype].tensors[when]++;
    c->types[t->dtype].bytes[when] += t->bytes;
    c->tensors[when]++;
  }
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct census_op *)a)->name, ((const struct census_op *)b)->name);
}

static uint64_t change(const struct census_op *op) {
  return max_u64(op->before, op->after) - min_u64(op->before, op->after);
}

static int by_change(const void *a, const void *b) {
  const struct census_op *x = a, *y = b;
  if (change(x) != change(y)) return change(x) > change(y) ? -1 : 1;
  if (x->after != y->after) return x->after > y->after ? -1 : 1;
  return strcmp(x->name, y->name);
}

void census_end(struct census *c) {
  uint32_t n = 0;
  if (c->n_ops > 0) qsort(c->ops, c->n_ops, sizeof *c->ops, by_name);
  for (uint32_t i = 0; i < c->n_ops; i++) {
    if (n && strcmp(c->ops[n - 1].name, c->ops[i].name) == 0) {
      c->ops[n - 1].before += c->ops[i].before;
      c->ops[n - 1].after += c->ops[i].after;
    } else {
      c->ops[n++] = c->ops[i];
    }
  }
  c->n_ops = n;
  if (n > 0) qsort(c->ops, n, sizeof *c->ops, by_change);
}

void census_free(struct census *c) {
  TABLE_FREE(c, ops);
  arena_free(&c->arena);
}
