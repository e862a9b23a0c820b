// Tensors that passes stored in another form: what they were, what they became, and how far from
// what they were they are. For reports of the commands that run passes.
#ifndef WEIR_QUANTIZED_H
#define WEIR_QUANTIZED_H

#include "figures.h"
#include "pass_job.h"

struct quantized_tensor {
  struct span name;
  uint32_t codes; // recipe id, as its site says
  uint32_t step;
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

// Zero-initialize; quantized_free frees.
struct quantized {
  TABLE(struct quantized_tensor, rows); // in order of their first sites
};

void quantized_list(struct quantized *q, struct job *job, const struct pass_job *pj);
void quantized_free(struct quantized *q);

// The member "tensors" of a step's object in the report.
void quantized_write(const struct quantized *q, const struct job *job, uint32_t step,
                     struct json_out *j);
// The worst tensors by SQNR, a line each, at most `most`; nothing where no error is known.
void quantized_print_worst(const struct quantized *q, uint32_t most);
// Tensors with elements that were too large for their type, a line each, at most `most`, and how
// many more.
void quantized_print_clipped(const struct quantized *q, uint32_t most);
// "2.44 GB -> 336 MB; 267 tensors quantized, worst: 'x' SQNR 18.2 dB; left alone: 77 (55 small, …)"
void quantized_print_closing(const struct quantized *q, struct job *job, const struct pass_job *pj);

#endif
