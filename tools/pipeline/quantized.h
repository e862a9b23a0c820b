// Tensors that passes stored in another form: what they were, what they became, and how far from
// what they were they are. For reports of the commands that run passes.
#ifndef WEIR_QUANTIZED_H
#define WEIR_QUANTIZED_H

#include "figures.h"
#include "pass_job.h"

struct quantized_tensor {
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

// Zero-initialize; quantized_free frees.
struct quantized {
  TABLE(struct quantized_tensor, rows); // in order of their first sites
};

void quantized_list(struct quantized *q, struct job *job, const struct pass_job *pj);
void quantized_free(struct quantized *q);

// The member "tensors" of a step's object in the report.
void quantized_write(const struct quantized *q, const struct job *job, uint32_t step,
                     struct json_out *j);
// "4 bits in blocks of 64, symmetric": a literal, or in *a.
const char *quantized_scheme_words(const struct recipe_quantization *s, struct arena *a);
// The SQNR that weights usually have when they are stored so, in dB, as far as that can be said; else 0. And how they are stored: "4 bits",
// "int8 by channel"; a literal, or in *a.
double quantized_usual_db(const struct quantized_tensor *t);
const char *quantized_usual_words(const struct quantized_tensor *t, struct arena *a);
// The one with the least SQNR, the first of equals; NULL where no error is known. Not of a cast: numbers alone, and
// tensors with clipped elements.
const struct quantized_tensor *quantized_worst(const struct quantized *q);

#endif
