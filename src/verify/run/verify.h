// Room: verification: a model and its result run on the same inputs and are compared, whole or site by site.
//
//   verify_begin    the runtime is found and started: without it nothing else begins (ERR_RUNTIME)
//   verify_models   both models, one after the other, on every case (in src/verify/models)
//   verify_sites    what each group of edits changed, cut out of both models (sites.h; in src/verify/sites)
//   verify_judge    the verdict: did anything fail, and was enough looked at?
//   verify_end
//
// What is found goes to a struct verified, which renderers show.
//
// A site is found from the rows of both models: an edit needs only its group (edit_group), which gives a failure a name.
// Bounds: verify_bounds_of_site makes them from the promises of the passes (exactness, loosest, stores: pass.h); a
// pipeline file may set others (pipeline_verify_of). After a change of a pass: weir COMMAND IN OUT --verify
// --verify-require 100% on the exports.
#ifndef WEIR_VERIFY_H
#define WEIR_VERIFY_H

#include "base/observer.h"
#include "edit/edit_groups.h"
#include "execute/request.h"
#include "pipeline/pipeline.h"
#include "report/verified.h"
#include "stream/io/sources.h"
#include "verify/compare/compare.h"
#include "verify/draw/draw.h"
#include "verify/runtime/runtime.h"

#include <stdio.h>

// POINTS: whole models, where steps of `verify` stand.
enum verify_scope {
  VERIFY_NOTHING = 0,
  VERIFY_SITES = 1,
  VERIFY_MODEL = 2,
  VERIFY_ALL = 3,
  VERIFY_POINTS = 4,
};

// Do whole models have to meet the metrics of the pipeline, with the bounds or instead of them?
enum verify_metrics { VERIFY_METRICS_TOO, VERIFY_NO_METRICS, VERIFY_METRICS_ALONE };

struct verify_options {
  struct observer *observer;
  enum verify_scope scope;
  const char *inputs; // a file or folder of arrays; NULL: drawn
  int64_t *lengths;   // a case each
  uint32_t n_lengths;
  struct draw_shape *shapes;
  uint32_t n_shapes;
  uint64_t seed;
  struct compare_bounds bounds;
  const char *bounds_words; // as the user gave them; NULL: none, and defaults hold
  struct {
    const char *inputs, *metric, *lengths;
  } names;        // of options, as this command calls them: "--inputs"
  bool finite;    // an element that is not finite is a failure, on whichever side
  double require; // the least share that must have been verified, 0 to 1; < 0: not asked for
  bool layers;
  const char *save_case;
  const char *sites; // "all", a number, or a pattern of names; NULL: all
  // As onnx-conv2matmul has it.
  struct {
    const char *signal, *length; // names of inputs
    int64_t channels;            // 0: from the model
    int64_t output,
        length_output; // which outputs are compared, and which are lengths; -1: all, none
  } compatible;
  // Whose steps say how what they changed is verified; NULL: none does.
  const struct pipeline *pipeline;
  // Beside those of the catalogue, which names of passes in a log may mean; NULL: the pipeline's, if it has any.
  const struct own_passes *own;
  bool asked; // by --verify: steps that say nothing of it are verified too, by what they promise
  struct runtime_options runtime;
  uint64_t memory; // for reading weights
  uint32_t jobs;   // threads that look at sites, each with a runtime of its own
};

// Did the runtime refuse a model for a kernel that it does not have, on this processor? That says nothing of the model.
bool verify_lacks_kernel(const struct err *cause);

struct verify {
  struct verify_options options;
  struct runtime *runtime;
  const char *scratch; // a folder of its own
  struct folder scratch_at;
  const char *step;     // the pass after which whole models are compared; NULL: all of them
  uint32_t step_number; // of it in the pipeline, from 1; 0: it is not said
  enum verify_metrics metrics;
  bool unexpected; // outputs that the pipeline expects are not looked at: another model is meant
  bool loses;      // a pass that made the result of whole models stores less or quantizes
  bool knows;      // all passes that made it: the models are not asked what was lost
  bool rounds;     // with `knows`: one of them computes sums in another order
  FILE *log;       // of an execution: the lines of its edit log (verify_watch.h); NULL
  const char *log_path;
  const char *lacking; // an operator of the source that no runtime has (verify_import.h); NULL
  bool imports; // a source of whole models that lacks one is imported, without edits that say how
  struct verify_import *import; // what is compared with in its place; NULL: it is the source
  void (*import_close)(struct verify *v);
  struct arena arena; // of inputs and results
  struct verified found;
  double began;
};

int verify_begin(struct verify *v, const struct verify_options *o, struct err *err);
void verify_end(struct verify *v);

// source, result: paths of models. Adds rows to v->found. -1: it could not be carried out at all.
int verify_models(struct verify *v, const char *source, const char *result, bool allow_links,
                  struct err *err);

// The model that edits were made of, loaded a second time, and the edited one (sites.h).
struct verify_edited {
  const struct model *source, *result;
  // A file of what the rows of `source` say, if they are no file's; NULL.
  const struct verify_written *before;
  const struct recipes *source_recipes, *recipes; // that their tensors speak of
  struct sources *sources;
  const struct edit_groups *groups; // of the edits between the two
  // The output itself (verify_written.h); NULL: what edits say of it.
  const struct verify_written *written;
  // Where these edits can be replayed from, to find out which of several groups is at fault; NULL: nowhere.
  const char *log, *model;
  const struct request *request;
};
int verify_sites(struct verify *v, const struct verify_edited *e, struct err *err);
// Only those that have edits of one of these groups (ascending), without a word on the terminal.
int verify_sites_of(struct verify *v, const struct verify_edited *e, const uint32_t *groups,
                    uint32_t n, struct err *err);

// The bounds where the user gave none, with their words.
struct verify_bounds {
  struct compare_bounds bounds;
  const char *words;
};
// Whole models. `source` and `result` are inferred in `in`, in that order.
struct verify_models_bounds {
  // In: of the passes, as in struct verify. Where they are not known the models say what was lost (loses then); and where they only
  // round, and one model has more places for a number between two codes to go to either.
  bool loses, knows, rounds;
  struct verify_bounds bounds;
  // Of models that have lost nothing, where the models alone say that they have; else no words.
  struct verify_bounds equal;
  const char *why; // they have, in the words of the bounds, where no passes are known; NULL
  bool more;       // both are quantized, the result more so: its operators alone do not show it
};
void verify_bounds_of_models(const struct model *source, const struct model *result,
                             struct infer *const in[2], struct verify_models_bounds *b,
                             struct arena *a);
// The narrowest weights that the result has and the source has not; 0: none are.
uint32_t verify_bits_of_models(const struct model *source, const struct model *result);
// What the bounds of a site depend on beside its passes.
struct verify_site {
  uint32_t bits; // of the narrowest weights that came; 0: none are narrower than they were
  bool uneven;   // last bits depend on the place of an element
  bool rounds;   // verify_group_rounds of a group of its edits
};
// passes: those of the site. before, after: what the output's type is.
struct verify_bounds verify_bounds_of_site(const struct verify_options *o,
                                           const char *const *passes, uint32_t n,
                                           const struct verify_site *site, enum dtype before,
                                           enum dtype after, struct arena *a);

// Whether one of these passes stores weights in fewer bits or quantizes activations.
bool verify_loses(const struct verify_options *o, const char *const *passes, uint32_t n);

// Does a group of edits round activations elsewhere than before? Or lose, in this way or as its pass does?
struct edit_group_row;
bool verify_group_rounds(const struct verify_options *o, const struct edit_group_row *g);
bool verify_group_loses(const struct verify_options *o, const struct edit_group_row *g);
// The same of all groups up to number `last`. g: NULL: no group was kept.
bool verify_groups_lose(const struct verify_options *o, const struct edit_groups *g, uint32_t last);
// Sets what *v knows of the passes, which are those of all groups up to number `last`.
void verify_know_groups(struct verify *v, const struct edit_groups *g, uint32_t last);

// How the pipeline wants to have verified what these passes changed: the loosest bounds that it gives one of them
// (*out then), else by what they promise, else not at all (OFF). Words are stored in *a.
enum pipeline_proof verify_proof_of(const struct verify_options *o, const char *const *passes,
                                    uint32_t n, struct verify_bounds *out, struct arena *a);

// Does the pipeline (NULL: there is none) say which metrics there are, and what is expected?
bool verify_has_metrics(const struct pipeline *p);

// "max abs 3e-05, cosine 0.99"
const char *verify_bounds_words(const struct compare_bounds *b, struct arena *a);

// The verdict: 0, or -1 with ERR_FAIL: something failed, nothing was looked at, or less than was asked for.
int verify_judge(const struct verify *v, struct err *err);
#endif
