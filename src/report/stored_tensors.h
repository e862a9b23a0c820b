// Tensors that passes stored in another form: what they were, what they became, and how far from
// what they were they are. For reports of the commands that run passes.
#ifndef WEIR_STORED_TENSORS_H
#define WEIR_STORED_TENSORS_H

#include "plan/plan.h"
#include "report/run_passes.h"
#include "stream/run/run.h"
#include "tensor_stats/figures.h"

struct stored_tensor {
  struct span name;
  const char *layer; // the first node that uses it
  uint32_t codes;    // recipe id, as its site says
  uint32_t next;     // row + 1 of the same tensor, stored in another form; 0 ends them
  uint32_t step;
  enum dtype stored;                  // of the codes
  uint32_t of;                        // recipe id of the source's elements
  uint64_t bytes_before, bytes_after; // after: codes, scales and zero points
  bool has_scheme;                    // it was quantized: `scheme` says how
  struct recipe_quantization scheme;
  uint32_t uses; // sites that share it
  // How far what is stored is from what was. Summed while the bytes were in hand: not known after a
  // dry run.
  bool has_figures;
  struct figures figures;
};

// Zero-initialize; stored_tensors_free frees.
struct stored_tensors {
  TABLE(struct stored_tensor, rows); // in order of their first sites
};

// The sites of a model of so many tensors, whose plan is made, and what the run found of errors (none: figures are not known).
struct stored_tensors_of {
  const struct run_site *sites;
  struct recipes *recipes;
  const struct plan *plan;
  const struct run_error *errors;
  uint32_t n_sites, n_tensors, n_errors;
};
void stored_tensors_list(struct stored_tensors *q, const struct stored_tensors_of *of);
void stored_tensors_free(struct stored_tensors *q);

// "4 bits in blocks of 64, symmetric": a literal, or in *a.
const char *stored_tensors_scheme_words(const struct recipe_quantization *s, struct arena *a);
// The SQNR that weights usually have when they are stored so, in dB, as far as that can be said; else 0. And how they are stored: "4 bits",
// "int8 by channel"; a literal, or in *a.
double stored_tensors_usual_db(const struct stored_tensor *t);
const char *stored_tensors_usual_words(const struct stored_tensor *t, struct arena *a);
// The one with the least SQNR, the first of equals; NULL where no error is known. Not of a cast: numbers alone, and
// tensors with clipped elements.
const struct stored_tensor *stored_tensors_worst(const struct stored_tensors *q);

#endif
