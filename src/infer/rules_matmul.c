// Rules of inference for products of matrices: MatMul and what is like it, Gemm, Einsum.
#include "infer/inside/infer_rules.h"

// ---- MatMul --------------------------------------------------------------------------------------------

struct matrix {
  struct infer_type t; // with two dims at least
  bool vector;         // it had one, and got a 1 in front (or behind)
};

// False: the rank is not known, or it is a scalar.
static bool matrix_of(struct infer_site *s, uint32_t slot, bool left, struct matrix *m) {
  *m = (struct matrix){.vector = false};
  if (!infer_in(s, slot, &m->t) || !m->t.ranked) return false;
  if (infer_invalid_if(s, m->t.rank == 0, "an operand is a scalar")) return false;
  if (m->t.rank > 1) return true;
  dim_id *dims = infer_dim_room(s, 2);
  dims[left ? 1 : 0] = m->t.dims[0];
  dims[left ? 0 : 1] = infer_one(s);
  m->t.dims = dims;
  m->t.rank = 2;
  m->vector = true;
  return true;
}

static void swap_last(struct infer_site *s, struct infer_type *t) {
  dim_id *dims = infer_dim_room(s, t->rank);
  memcpy(dims, t->dims, t->rank * sizeof *dims);
  dims[t->rank - 2] = t->dims[t->rank - 1];
  dims[t->rank - 1] = t->dims[t->rank - 2];
  t->dims = dims;
}

// The first dim to the place before the last.
static void rotate(struct infer_site *s, struct infer_type *t) {
  if (t->rank < 3) return;
  dim_id *dims = infer_dim_room(s, t->rank);
  memcpy(dims, t->dims + 1, (t->rank - 2) * sizeof *dims);
  dims[t->rank - 2] = t->dims[0];
  dims[t->rank - 1] = t->dims[t->rank - 1];
  t->dims = dims;
}

static void product(struct infer_site *s, const struct matrix *a, const struct matrix *b) {
  const dim_id *batch;
  uint32_t rank;
  infer_same_dim(s, infer_dim(&a->t, -1), infer_dim(&b->t, -2));
  if (s->why == INFER_WHY_INVALID) return;
  struct infer_type both[2] = {a->t, b->t};
  both[0].rank -= 2;
  both[1].rank -= 2;
  if (!infer_broadcast(s, both, 2, &batch, &rank)) return;
  dim_id *dims = infer_dim_room(s, rank + 2);
  memcpy(dims, batch, rank * sizeof *dims);
  if (!a->vector) dims[rank++] = infer_dim(&a->t, -2);
  if (!b->vector) dims[rank++] = infer_dim(&b->t, -1);
  infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, rank);
}

static void matmul(struct infer_site *s, uint32_t left, uint32_t right) {
  struct matrix a, b;
  const bool known = matrix_of(s, left, true, &a);
  if (matrix_of(s, right, false, &b) && known) product(s, &a, &b);
}

void infer_matmul(struct infer_site *s) {
  matmul(s, 0, 1);
}

void infer_matmul_quantized(struct infer_site *s) {
  matmul(s, 0, 3);
}

void infer_matmul_fused(struct infer_site *s) {
  struct matrix a, b;
  int64_t trans_a, trans_b, batch_a, batch_b;
  const bool known = matrix_of(s, 0, true, &a);
  if (!matrix_of(s, 1, false, &b) || !known || !infer_attr_int(s, "transA", 0, &trans_a) ||
      !infer_attr_int(s, "transB", 0, &trans_b) || !infer_attr_int(s, "transBatchA", 0, &batch_a) ||
      !infer_attr_int(s, "transBatchB", 0, &batch_b))
    return;
  if (batch_a) rotate(s, &a.t);
  if (batch_b) rotate(s, &b.t);
  if (trans_a && !a.vector) swap_last(s, &a.t);
  if (trans_b && !b.vector) swap_last(s, &b.t);
  product(s, &a, &b);
}

// Weights in blocks: their dims are attributes.
void infer_matmul_blocks(struct infer_site *s) {
  struct infer_type a;
  int64_t k, n, straight;
  infer_in(s, 0, &a);
  if (!infer_known(s,
                   a.ranked && infer_attr_int(s, "K", -1, &k) && infer_attr_int(s, "N", -1, &n) &&
                       infer_attr_int(s, "transB", 1, &straight),
                   a.dtype))
    return;
  if (infer_invalid_if(s, a.rank == 0, "an operand is a scalar")) return;
  if (k < 0 || n < 0) {
    s->why = INFER_WHY_ATTRIBUTE;
    return;
  }
  infer_same_dim(s, infer_dim(&a, -1), infer_size_of(s, straight ? k : n));
  if (s->why == INFER_WHY_INVALID) return;
  dim_id *dims = infer_dim_room(s, a.rank);
  memcpy(dims, a.dims, a.rank * sizeof *dims);
  dims[a.rank - 1] = infer_size_of(s, straight ? n : k);
  infer_out_dims(s, 0, a.dtype, dims, a.rank);
}

// ---- Gemm ----------------------------------------------------------------------------------------------

static void gemm(struct infer_site *s, uint32_t left, uint32_t right, enum dtype dtype) {
  struct infer_type a, b;
  int64_t trans_a, trans_b;
  infer_in(s, left, &a);
  infer_in(s, right, &b);
  if ((a.ranked && a.rank != 2) || (b.ranked && b.rank != 2)) {
    const uint32_t rank = a.ranked && a.rank != 2 ? a.rank : b.rank;
    infer_invalid(s, "an operand has %u dim%s, not 2", rank, plural(rank));
    return;
  }
  if (!infer_attr_int(s, "transA", 0, &trans_a) || !infer_attr_int(s, "transB", 0, &trans_b))
    return;
  infer_same_dim(s, infer_dim(&a, trans_a ? 0 : 1), infer_dim(&b, trans_b ? 1 : 0));
  const dim_id dims[2] = {infer_dim(&a, trans_a ? 1 : 0), infer_dim(&b, trans_b ? 0 : 1)};
  if (s->why != INFER_WHY_INVALID) infer_out_dims(s, 0, dtype, dims, 2);
}

void infer_gemm(struct infer_site *s) {
  gemm(s, 0, 1, DTYPE_UNDEFINED);
}

void infer_gemm_float8(struct infer_site *s) {
  int64_t dtype;
  if (infer_attr_int(s, "dtype", DTYPE_FLOAT, &dtype) && dtype_known(dtype))
    gemm(s, 0, 1, (enum dtype)dtype);
}

// Quantized where there is a zero point for the result.
void infer_gemm_quantized(struct infer_site *s) {
  struct infer_type zero;
  infer_in(s, 8, &zero);
  gemm(s, 0, 3, infer_has(s, 8) ? zero.dtype : DTYPE_FLOAT);
}

// Of each row of A to each row of B.
void infer_distances(struct infer_site *s) {
  struct infer_type a, b;
  infer_in(s, 0, &a);
  infer_in(s, 1, &b);
  infer_same_dim(s, infer_dim(&a, 1), infer_dim(&b, 1));
  if (s->why != INFER_WHY_INVALID)
    infer_out_dims(s, 0, a.dtype, (const dim_id[2]){infer_dim(&a, 0), infer_dim(&b, 0)}, 2);
}

// ---- Einsum --------------------------------------------------------------------------------------------

enum { LETTERS = 52 };

struct einsum {
  dim_id dims[LETTERS];
  uint32_t seen[LETTERS];      // how often a letter stands among the operands
  dim_id more[INFER_RANK_MAX]; // what the ellipsis stands for, from the right
  uint32_t n_more;
  bool ellipsis, unranked; // of some operand with an ellipsis the rank is not known
};

static int32_t letter(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

// How many letters a term has, and whether there is an ellipsis. False: it is no term.
static bool term_of(struct span term, uint32_t *letters, bool *ellipsis) {
  *letters = 0;
  *ellipsis = false;
  for (size_t i = 0; i < term.n; i++) {
    if (term.at[i] == ' ') continue;
    if (term.at[i] == '.') {
      if (*ellipsis || i + 2 >= term.n || term.at[i + 1] != '.' || term.at[i + 2] != '.')
        return false;
      *ellipsis = true;
      i += 2;
    } else if (letter((char)term.at[i]) < 0)
      return false;
    else
      ++*letters;
  }
  return true;
}

static void einsum_meet(struct infer_site *s, dim_id *to, bool first, dim_id d) {
  *to = first ? d : infer_meet(s, *to, d);
}

// False, with a reason: the operand has not the dims of its term.
static bool einsum_operand(struct infer_site *s, struct einsum *e, struct span term,
                           uint32_t slot) {
  struct infer_type t;
  uint32_t letters, at = 0;
  bool ellipsis;
  infer_in(s, slot, &t);
  if (infer_invalid_if(s, !term_of(term, &letters, &ellipsis), "its equation cannot be read"))
    return false;
  if (infer_invalid_if(s, t.ranked && (ellipsis ? t.rank < letters : t.rank != letters),
                       "operand %u has %u dim%s, its term %u", slot, t.rank, plural(t.rank),
                       letters))
    return false;
  e->ellipsis = e->ellipsis || ellipsis;
  e->unranked = e->unranked || (ellipsis && !t.ranked);
  const uint32_t more = t.ranked && ellipsis ? t.rank - letters : 0;
  for (size_t i = 0; i < term.n; i++) {
    if (term.at[i] == ' ') continue;
    if (term.at[i] == '.') {
      for (uint32_t k = 0; k < more; k++) {
        const uint32_t from_end = more - 1 - k;
        while (from_end >= e->n_more)
          e->more[e->n_more++] = infer_one(s);
        einsum_meet(s, &e->more[from_end], false, t.dims[at++]);
      }
      i += 2;
      continue;
    }
    const int32_t l = letter((char)term.at[i]);
    einsum_meet(s, &e->dims[l], e->seen[l]++ == 0, t.ranked ? t.dims[at] : NO_ID);
    at++;
  }
  return s->why != INFER_WHY_INVALID;
}

static uint32_t einsum_more(const struct einsum *e, dim_id *dims, uint32_t rank) {
  for (uint32_t k = e->n_more; k-- > 0;)
    dims[rank++] = e->more[k];
  return rank;
}

void infer_einsum(struct infer_site *s) {
  struct span equation;
  struct einsum e = {.n_more = 0};
  if (!infer_attr(s, "equation") || !infer_attr_string(s, "equation", "", &equation)) {
    s->why = INFER_WHY_ATTRIBUTE;
    return;
  }
  size_t end = 0;
  while (end + 1 < equation.n && !(equation.at[end] == '-' && equation.at[end + 1] == '>'))
    end++;
  const bool arrow = end + 1 < equation.n;
  if (!arrow) end = equation.n;
  uint32_t slot = 0;
  for (size_t begin = 0; begin <= end;) {
    size_t stop = begin;
    while (stop < end && equation.at[stop] != ',')
      stop++;
    if (infer_invalid_if(s, slot >= s->n_in, "its equation has more terms than operands")) return;
    if (!einsum_operand(s, &e, span_of(equation.at + begin, stop - begin), slot++)) return;
    begin = stop + 1;
  }
  if (infer_invalid_if(s, slot != s->n_in, "its equation has %u term%s for %u operands", slot,
                       plural(slot), s->n_in))
    return;
  dim_id *dims = infer_dim_room(s, (uint32_t)equation.n + INFER_RANK_MAX + LETTERS);
  uint32_t rank = 0, letters;
  bool ellipsis = e.ellipsis;
  if (!arrow) { // the ellipsis, and letters that stand once, in their order
    rank = einsum_more(&e, dims, rank);
    for (uint32_t l = 0; l < LETTERS; l++)
      if (e.seen[l] == 1) dims[rank++] = e.dims[l];
  } else {
    const struct span out = span_of(equation.at + end + 2, equation.n - end - 2);
    if (infer_invalid_if(s, !term_of(out, &letters, &ellipsis), "its equation cannot be read"))
      return;
    for (size_t i = 0; i < out.n; i++) {
      if (out.at[i] == ' ') continue;
      if (out.at[i] == '.') {
        rank = einsum_more(&e, dims, rank);
        i += 2;
        continue;
      }
      const int32_t l = letter((char)out.at[i]);
      if (infer_invalid_if(s, !e.seen[l], "its equation has a letter that no operand has")) return;
      dims[rank++] = e.dims[l];
    }
  }
  if (ellipsis && e.unranked)
    infer_out_dtype(s, 0, DTYPE_UNDEFINED);
  else
    infer_out_dims(s, 0, DTYPE_UNDEFINED, dims, rank);
}
