// Runs the steps of a pipeline on a model: one after the other, repeats to their end, nothing above the
// cap on exactness, and a check of the model's structure behind every step.
#ifndef WEIR_PASS_RUN_H
#define WEIR_PASS_RUN_H

#include "pipeline/pipeline.h"

// What came of one step, over all of its rounds.
struct pass_run_step {
  uint32_t rounds;    // how often it ran; 0: the pass is held back
  uint64_t held_back; // rewrites that the cap kept from being made; a whole pass counts as one
  uint32_t half_empty, fitting_block; // of the last round that had some (pass_result)
  uint64_t changed_at; // edits when it last changed more than types and names; 0: never
  // Where it was stopped (pass_result), and does nothing in later rounds; in *arena.
  struct pass_graphs worn;
};

struct pass_run {
  const struct pipeline *pipeline;
  // Given by the caller, but for `pass`, `exactness` and the scratches: the model, the edits, what
  // passes may call.
  struct pass_env env;
  uint32_t flaws; // warnings of the model's structure, before the first step (load.h)
  // No functions are added for operators of onnx_passes.ops that passes made: cases show what a pass does alone.
  bool bare;
  // Told before a step runs, `round` from 0: sites and warnings that come now are its own, or of one
  // of several that were told one after the other (pass_site.pass says which). Or NULL.
  void (*begin)(void *ctx, uint32_t step, uint32_t round);
  void *ctx;
  struct model_types types; // what was inferred, from the first pass on that infers
  // pass_run sets them: no import of ai.onnx, or a format older than imports; how many imports it lacks then (check.h)
  bool unversioned;
  uint32_t unimported;
  // results
  struct pass_run_step *steps; // by step, in *arena
  uint64_t output_limit;       // that the step with one gave (pipeline_check); 0: there is none
  struct pass_counted counted; // in its first round: later ones find everything picked
};

// ERR_INTERNAL if a pass leaves a model that is not whole: that is a defect of the pass, which the
// message names. ERR_MODEL if what it lacks is an import, and it imported no ai.onnx before. The model has edits of the passes that ran, also after a failure.
int pass_run(struct pass_run *r, struct arena *arena, struct err *err);

#endif
