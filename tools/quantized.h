// Tensors that passes stored in another form: what they were, what they became, and how far from what
// they were they are. For reports of the commands that run passes.
#ifndef WEIR_QUANTIZED_H
#define WEIR_QUANTIZED_H

#include "pass_job.h"

// How far the values that codes stand for are from those of the source. Computed while the bytes were
// in hand: not known after a dry run, nor for units that an interrupted run had finished.
struct quantized_error {
  bool known;
  double sqnr_db;   // 10 log10(sum v^2 / sum e^2); infinite where nothing is lost
  double rmse;      // sqrt(mean e^2)
  double cosine;    // of the angle between the two; 1 where both are all zero
  double max_error; // largest |e|
};

struct quantized_tensor {
  struct span name;
  uint32_t codes; // recipe id, as its site says
  uint32_t step;
  uint32_t of;                        // recipe id of the source's elements
  uint64_t bytes_before, bytes_after; // after: codes, scales and zero points
  bool has_scheme;                    // it was quantized: `scheme` says how
  struct recipe_quantization scheme;
  uint32_t uses; // sites that share it
  struct quantized_error error;
};

// Zero-initialize; quantized_free frees.
struct quantized {
  struct quantized_tensor *rows; // in order of their first sites
  uint32_t n;
  size_t cap;
};

void quantized_list(struct quantized *q, struct job *job, const struct pass_job *pj);
void quantized_free(struct quantized *q);
// From sums over elements: v the source's, e the difference. A count of 0 loses nothing.
struct quantized_error quantized_error_of(uint64_t elements, double vv, double ee, double ve,
                                          double max_error);

// The member "tensors" of a step's object in the report.
void quantized_write(const struct quantized *q, const struct job *job, uint32_t step,
                     struct json_out *j);
// The worst tensors by SQNR, a line each, at most `most`; nothing where no error is known.
void quantized_print_worst(const struct quantized *q, uint32_t most);
// "2.44 GB -> 336 MB; 267 tensors quantized, worst: 'x' SQNR 18.2 dB; left alone: 77 (55 small, …)"
void quantized_print_closing(const struct quantized *q, struct job *job, const struct pass_job *pj);

#endif
