// Which nodes keep a stored weight that they share, and which get a copy of it, since room for their bias would take the codes of the
// others. Both forms ask here; each makes the copies in its own way.
#ifndef WEIR_STATIC_APART_H
#define WEIR_STATIC_APART_H

#include "passes/int8_static/inside/static.h"

// A bias beside a weight.
struct static_claim {
  uint32_t weight, row; // the caller's: of which weight, which bias
  uint32_t natural,
      roomy; // recipes of the weight's scales: as its elements want them, with room for this bias
  uint32_t copy; // 0: it keeps the weight; else which copy of it, from 1
};

// Decides `copy` of all claims, and sorts them by weight and copy: few copies, however many claims there are. `others`: by weight, do nodes
// take it that claim nothing? Asks a stage a few times, if at all: not where a weight is for one claim alone, nor where all of them want the
// same scales. Without weights at hand all keep the weight.
int static_part_claims(struct static_run *s, struct static_claim *claims, uint32_t n,
                       const bool *others, struct err *err);

#endif
