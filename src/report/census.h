// What a model is made of, counted before the edits and after them.
#ifndef WEIR_CENSUS_H
#define WEIR_CENSUS_H

#include "model/model.h"

struct census_op {
  const char *name; // with its domain, where it has one
  uint64_t before, after;
};

struct census_type {
  uint64_t tensors[2], bytes[2]; // before, after
};

enum { CENSUS_TYPES = 64 }; // more than there are dtypes

// Zero-initialize; census_free frees.
struct census {
  TABLE(struct census_op, ops);
  struct census_type types[CENSUS_TYPES]; // by dtype
  uint64_t nodes[2], tensors[2];
  struct arena arena;
};

enum census_when { CENSUS_BEFORE, CENSUS_AFTER };
// Live nodes and tensors of all graphs, bodies and functions included.
void census_count(struct census *c, const struct model *m, enum census_when when);
// One row an operator: those that changed most first, then the most frequent.
void census_end(struct census *c);
void census_free(struct census *c);

#endif
