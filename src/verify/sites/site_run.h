// A run over the sites of an edited model: both sides, which sites are looked at, and what passes they come from.
#ifndef WEIR_SITE_RUN_H
#define WEIR_SITE_RUN_H

#include "passes/questions/name_pattern.h"
#include "verify/cut/part.h"
#include "verify/cut/sites.h"
#include "verify/run/verify.h"

enum { BEFORE, AFTER, SIDES };
enum { SITE_PASSES = 16 };

struct site_run {
  struct verify *v;
  const struct verify_edited *e;
  struct infer *infer[SIDES];
  struct draw *draw[SIDES];
  struct draw *of_one[SIDES]; // with a batch of one, where `draw` has another; NULL: not wanted yet
  struct recipes recipes[SIDES]; // copies: cutters add rows
  struct part_cutter *cutter[SIDES];
  struct sites sites;
  struct arena arena; // of the sites
  struct name_pattern pattern;
  bool has_pattern;
  uint64_t picked; // of the sites, this many, spread evenly; 0: all
  uint64_t bytes_done, bytes_total;
  uint64_t *all_done;     // of all threads; NULL: there is this one
  bool silent;            // another one tells of progress
  bool lacks_kernel;      // the runtime did, for the part that was run last
  bool ended;             // the runtime died or hung with it
  uint32_t n_ended;       // sites in a row of which that holds
  const uint32_t *groups; // sites of these alone; NULL: of all
  uint32_t n_groups;
  const char *passes[SITE_PASSES]; // of all groups
  uint32_t n_passes;
};

// Finds the sites and opens what looking at them takes; v, e and groups are set. Whatever it returns, site_run_close frees it.
// ERR_USAGE: the words of --sites are none. Otherwise -1 if weights cannot be read, or no sizes fit the models.
int site_run_open(struct site_run *r, struct err *err);
void site_run_close(struct site_run *r);

// A side is cut out of what was written, where something was.
const struct verify_written *site_run_written(const struct site_run *r, int side);
const struct model *site_run_model(const struct site_run *r, int side);
struct sources *site_run_sources(const struct site_run *r, int side);

// The graph of the edited model, on that side.
uint32_t site_run_graph(const struct site_run *r, int side, uint32_t graph);

// What inference knows of a value; DTYPE_UNDEFINED: nothing, or that it is no tensor.
enum dtype site_run_dtype(struct infer *in, uint32_t value);

// Does a group of its edits round activations elsewhere than before (verify_group_rounds)?
bool site_run_rounds(const struct site_run *r, const struct site *s);
// The passes of a site, each once. What changed its type alone has no group: it is the work of all.
uint32_t site_run_passes(const struct site_run *r, const struct site *s,
                         const char *names[SITE_PASSES]);

// Is site i, of that name, to be looked at?
bool site_run_chosen(struct site_run *r, uint32_t i, const char *name);

// Of the constants of a site, and one: what progress counts.
uint64_t site_run_bytes(const struct site_run *r, const struct site *s);

// Opens what draws inputs, for both sides, in a batch of that many; 0: as the models say.
int site_run_draws(struct site_run *r, int64_t batch, struct draw *out[SIDES], struct err *err);

// ---- what the two parts of a site are fed: arrays that both read alike (site_feeds.c) ----

struct site_feeds {
  struct arrays of[SIDES];
  struct part_input *inputs[SIDES];
};

// Draws an array for each input of the site; two values that are one on a side have the same elements. All is stored in *a.
// False: one cannot be drawn, or has no elements that both types hold; *why says which.
bool site_feeds_draw(struct site_run *r, const struct site *s, struct arena *a,
                     struct site_feeds *f, char why[256]);

#endif
