// Room: passes in a row: which ones run, in which order, with which options, from words of the
// command line or a pipeline file. A run of steps may be repeated until it changes nothing any
// more.
#ifndef WEIR_PIPELINE_H
#define WEIR_PIPELINE_H

#include "base/digest.h"
#include "passes/catalogue/pass_values.h"
#include "pipeline/user_rules.h"
#include "side_inputs/side_inputs.h"
#include "targets/targets.h"
#include "verify/compare/compare.h"
#include "verify/compare/task_metric.h"

enum {
  PIPELINE_MAX_BYTES = 64 << 10, // of a file
  PIPELINE_TARGETS = 8,          // different ones that are looked at
  PIPELINE_ROUNDS = 64,          // of a repeat that says no limit of its own
  PIPELINE_DEPTH = 8,            // repeats inside one another
};

// How what passes changed is verified (the key "verify" of a file).
enum pipeline_proof {
  PIPELINE_PROOF_OPEN, // nothing said: what holds for all passes
  PIPELINE_PROOF_OFF,
  PIPELINE_PROOF_PROMISE, // by what the pass promises
  PIPELINE_PROOF_BOUNDS,
};
struct pipeline_verify {
  enum pipeline_proof proof;
  struct compare_bounds bounds; // of BOUNDS
};

struct pipeline_step {
  struct pass_values values;
  struct pipeline_verify verify;
  uint32_t repeat;  // the innermost that it belongs to; NO_ID: it runs once
  uint32_t named;   // how many steps, from this one on, its name stood for; 0: it is not the first
  const char *word; // of the first: that name
};

// Steps first … first + n - 1 run in order, again and again, until none of them changed anything in a
// round, at most `rounds` times. It has a step, and lies in another one or in none (NO_ID).
struct pipeline_repeat {
  uint32_t first, n, rounds, outer;
};

// A metric of a task: a number that says how well outputs of the whole model agree with those that are expected
// (task_metric.h), and the range that it must lie in.
struct pipeline_metric {
  enum task_metric metric;
  double least, most;
  const char *place; // "file:line:column"
};
// A value for all steps of a pass that do not say it themselves.
struct pipeline_setting {
  const char *pass, *option;
  const char **words; // one, or those of a list
  uint32_t n_words;
  const char *place, *key; // "file:line:column", "fold_constants.output_size_limit"
};
struct pipeline_note {
  const char *sentence, *hint; // hint: or NULL
};
struct pipeline_paths {
  TABLE(const char *, list);
};

// pipeline_init begins one, pipeline_free frees.
struct pipeline {
  const struct target *target; // of all steps that have one and name none; NULL: nobody said
  TABLE(struct pipeline_step, steps);
  TABLE(struct pipeline_repeat, repeats);
  enum exactness exactness;      // the cap
  struct pipeline_verify verify; // of steps that say nothing
  bool verify_models;            // whole models too ("verify_on: model")
  const char *reference;         // arrays to run them on ("reference"); NULL: drawn
  // Of passes that promise less than the same numbers; rtol < 0: as they promise.
  struct compare_bounds tolerance;
  struct pipeline_paths inputs, outputs; // arrays of the whole model, in order; files of them
  struct pipeline_paths read;            // files of steps and rules
  uint8_t read_sha256[DIGEST_BYTES]; // of their texts, also of standard input; zero: none was read
  TABLE(struct pipeline_metric, metrics);
  bool exhaustive, verbose;
  const char *checkpoint, *intermediates; // files of models on the way; NULL: none
  TABLE(struct pipeline_setting, settings);
  TABLE(struct pipeline_note, notes); // warnings, for when the run begins
  const char *nothing;                // what a file without passes lacks; NULL
  struct side_inputs files;           // that options of steps name
  const struct user_rules *own;       // where passes of a user's own are from; NULL: there are none
  uint32_t open;      // the innermost repeat that further steps go into; NO_ID: none
  struct arena arena; // of the values
};

// The passes beside those of the catalogue that names of steps may mean; NULL: there are none.
static inline const struct own_passes *pipeline_own(const struct pipeline *p) {
  return p->own ? &p->own->passes : NULL;
}
// Is one of them among the steps? Then a log keeps their rules.
bool pipeline_has_own_steps(const struct pipeline *p);
void pipeline_init(struct pipeline *p);
void pipeline_free(struct pipeline *p);

// Further steps, with the presets of their passes: those that the name stands for, a pass or a family.
// Gives the first; *n: how many. NULL and ERR_USAGE for a name that none has. Valid until the next
// step is added. Each is to be given to pass_values_read once its values are there.
struct pipeline_step *pipeline_add(struct pipeline *p, struct span name, uint32_t *n,
                                   struct err *err);
// Sets it, for steps that are there and that come. The first one given stays.
int pipeline_take_target(struct pipeline *p, const struct target *target, struct err *err);
// The target of a step, its own or that of all; NULL: it has none.
const struct target *pipeline_step_target(const struct pipeline *p, uint32_t step);
// The values of n steps, as pass_values_*_family take them.
struct pass_values **pipeline_values(struct pipeline *p, struct pipeline_step *steps, uint32_t n);
// What follows up to pipeline_end is repeated, inside the repeat that is open. One without a step is none.
void pipeline_begin(struct pipeline *p, uint32_t rounds);
void pipeline_end(struct pipeline *p);
// How many repeats are open.
uint32_t pipeline_depth(const struct pipeline *p);
// All steps from `first` on, which stand in no repeat that begins before it, are repeated.
void pipeline_repeat_all(struct pipeline *p, uint32_t first, uint32_t rounds);
// Of the repeats of step i the outermost inside `open` (NO_ID: of all), which it lies in; NO_ID: none.
uint32_t pipeline_next_repeat(const struct pipeline *p, uint32_t open, uint32_t i);
// "NAME", "NAME:key=value,…" (pass_values_parse; a family's options go to those of its passes that have
// them), or a repeat of such: "repeat(NAME,NAME)", with
// semicolons between them where their options have commas, and "repeat=ROUNDS(…)" for another
// limit. Values are read and checked.
int pipeline_add_text(struct pipeline *p, const char *text, struct err *err);

// Does any step ask to be verified?
bool pipeline_verifies(const struct pipeline *p);
// How steps of that pass are verified, the loosest of them.
struct pipeline_verify pipeline_verify_of(const struct pipeline *p, const char *pass);

// What a file says of all passes reaches them, once all are there, those of the command line too: settings, and `exhaustive`
// (or repeat: the same). first: the steps before it are not repeated. ERR_USAGE, with the place of a setting.
int pipeline_settle(struct pipeline *p, uint32_t first, bool repeat, struct err *err);

// Steps that change nothing, but look at the model there ("verify/VerifyTolerance").
enum pipeline_point { POINT_NONE, POINT_EQUALITY, POINT_TOLERANCE, POINT_METRIC };
enum pipeline_point pipeline_point_of(const struct pipeline *p, uint32_t step);

// What steps mean together, once all are there: two must not have the same option about all of the
// output (pass_option.of_output). ERR_USAGE.
int pipeline_check(const struct pipeline *p, struct err *err);

// Reads the files that options of steps name, from the folder (NULL: the one we are in). Records of the pipeline have their
// digests from then on.
int pipeline_read_files(struct pipeline *p, const char *folder, struct err *err);

// How edit logs and plans name what was done. One step under the usual cap: its pass and the pass's
// options. Anything else: "run" and {"passes":[{"name":…,"options":{…}},…]}, where a repeat is
// {"repeat":[…],"rounds":…}, with "exactness" where the cap is not the usual one, and "rules" where there are passes
// of a user's own (user_rules.h). Strings lie in the
// pipeline or are literals.
const char *pipeline_command(const struct pipeline *p);
const char *pipeline_options(struct pipeline *p);

#endif
