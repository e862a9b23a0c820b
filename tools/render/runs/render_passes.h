// What passes did, as texts for people and as JSON. exec->forms.ctx is the pass_edits.
#ifndef WEIR_RENDER_PASSES_H
#define WEIR_RENDER_PASSES_H

#include "pass_edits.h"

// Begins one whose forms are those below.
void render_passes_init(struct pass_edits *pj, struct observer *observer);

// The member "passes" of the report (docs/files.md).
void render_passes_json(struct execution *exec, struct json_out *j);
// What all steps did together, the worst layer, and what was kept as it was.
void render_passes_summary(struct execution *exec, struct run_summary *told);
// Is it a node that was kept as it was, and that people are told of? Not one that a later round took, nor where there
// was nothing to take.
bool render_passes_keeps(const struct pass_edits *pj, const struct run_site *s, struct arena *a);
// Does the step infer types and shapes? It keeps nothing: it says what is not known.
bool render_passes_infers(const struct pass_edits *pj, uint32_t step);
// What else could be done, and is not.
void render_passes_hints(struct execution *exec);
// With the numbers of nodes before and after, bodies and functions included.
void render_passes_nodes(struct execution *exec, struct run_summary *told);
// A reason as people read it: a literal, or in *a. NULL: it is not said.
const char *render_passes_reason(const char *reason, struct arena *a);
// "27 Conv (kernel larger than 1x1), 3 MatMul (excluded)" in *arena; NULL where nothing was. Of all steps: but of those
// that infer, which keep nothing.
const char *render_passes_kept(const struct pass_edits *pj, uint32_t step, struct arena *arena);

#endif
