// What passes did, as texts for people. For programs: run_passes_json.h.
#ifndef WEIR_RENDER_PASSES_H
#define WEIR_RENDER_PASSES_H

#include "report/run_report.h"

// Of commands with passes: the member "passes" of the report (docs/files.md); what all steps did together, the worst layer,
// and what was kept as it was; what else could be done, and is not. nodes: with the numbers of nodes before and after.
extern const struct run_forms render_passes, render_passes_nodes;

// Is it a node that was kept as it was, and that people are told of? Not one that a later round took, nor where there
// was nothing to take.
bool render_passes_keeps(const struct run_passes *p, const struct run_site *s, struct arena *a);
// Does the step infer types and shapes? It keeps nothing: it says what is not known.
bool render_passes_infers(const struct run_passes *p, uint32_t step);
// A reason as people read it: a literal, or in *a. NULL: it is not said.
const char *render_passes_reason(const char *reason, struct arena *a);
// "27 Conv (kernel larger than 1x1), 3 MatMul (excluded)" in *arena; NULL where nothing was. NO_ID: of all steps but those
// that infer, which keep nothing.
const char *render_passes_kept(const struct run_passes *p, uint32_t step, struct arena *arena);

#endif
