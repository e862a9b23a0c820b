// Functions of the rules that infer_rules.def names, and what families of them share.
#ifndef WEIR_INFER_RULES_H
#define WEIR_INFER_RULES_H

#include "infer/inside/infer_site.h"

#define RULE(id, function) infer_rule function;
#define STEPS(id, function) infer_steps function;
#include "infer/infer_rules.def"

// ---- numbers of small values ---------------------------------------------------------------------

// A number as lists hold it; NO_ID: not known.
struct infer_number infer_number_of(struct infer_site *s, int64_t n);
static inline struct infer_number infer_no_number(void) {
  return (struct infer_number){NO_ID, 1};
}
static inline struct infer_number *infer_number_room(struct infer_site *s, uint32_t n) {
  struct infer_number *out = arena_alloc(s->a, n * sizeof *out + 1);
  for (uint32_t i = 0; i < n; i++)
    out[i] = infer_no_number();
  return out;
}
// Is it the number n, is it not, is that not known?
enum dims_answer infer_is(struct infer_site *s, struct infer_number x, int64_t n);
// The elements that an operand of a broadcast has: element i of the result is at[of(i)]. Dims of both are
// numbers.
struct infer_spread {
  const int64_t *dims; // of the result
  uint32_t rank;
  int64_t step[INFER_RANK_MAX]; // of the operand for a step along each of them; 0 where it repeats
};
bool infer_spread(struct infer_site *s, const struct infer_type *operand, const int64_t *dims,
                  uint32_t rank, struct infer_spread *out);
uint32_t infer_spread_at(const struct infer_spread *p, uint32_t i);
// Dims as numbers; false if one is not. In s->a.
bool infer_static(struct infer_site *s, const struct infer_type *t, const int64_t **dims);
// The product of dims, if it is at most INFER_LIST.
bool infer_list_size(const int64_t *dims, uint32_t rank, uint32_t *n);

// The dim of a Reshape that is -1; of the others none is unknown. NO_ID: not known.
dim_id infer_open_dim(struct infer_site *s, const struct infer_type *x, const dim_id *dims,
                      uint32_t rank, uint32_t open);
// False, and the node is invalid, where both sizes are known and differ.
bool infer_same_size(struct infer_site *s, const struct infer_type *x, const dim_id *dims,
                     uint32_t rank);
// Type and elements of a tensor of the model; its first element.
void infer_of_tensor(struct infer_site *s, uint32_t slot, uint32_t tensor);
struct infer_number infer_tensor_number(struct infer_site *s, uint32_t tensor);
int64_t infer_to_end(const struct infer_site *s); // infer_options

// Of a Loop: is at least one trip proved?
bool infer_runs_once(struct infer_site *s);

#endif
