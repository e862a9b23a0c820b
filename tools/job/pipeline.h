// Which passes run, in which order, with which options: from words of the command line or from a
// pipeline file.
#ifndef WEIR_PIPELINE_H
#define WEIR_PIPELINE_H

#include "arena.h"
#include "err.h"
#include "pass.h"

enum {
  PIPELINE_MAX_STEPS = 64,
  PIPELINE_MAX_BYTES = 64 << 10, // of a file
};

struct pipeline_step {
  enum pass_id pass;
  struct pass_value values[PASS_OPTIONS];
};

// Zero-initialize; pipeline_free frees.
struct pipeline {
  struct pipeline_step *steps;
  uint32_t n;
  size_t cap;
  struct arena arena; // of the values
};

void pipeline_free(struct pipeline *p);

// A further step with the presets of its pass, to be filled. NULL and ERR_USAGE past
// PIPELINE_MAX_STEPS. Valid until the next step is added.
struct pipeline_step *pipeline_add(struct pipeline *p, enum pass_id pass, struct err *err);
// "NAME" or "NAME:key=value,…" (pass_values_parse); its values are checked (pass_row).
int pipeline_add_text(struct pipeline *p, const char *text, struct err *err);

// pipeline_yaml.c: appends the steps of a YAML text (docs/pipelines.md says what it may hold);
// `name` stands before the line and column of messages. Every pass has its values checked, and a
// refusal has the place of its name. ERR_USAGE for what does not fit.
int pipeline_parse(struct pipeline *p, struct span text, const char *name, struct err *err);
// The same for a file. ERR_INPUT if it cannot be read.
int pipeline_read(struct pipeline *p, const char *path, struct err *err);

// How edit logs and plans name what was done. One step: its pass and the pass's options. Several:
// "run" and {"passes":[{"name":…,"options":{…}},…]}. Strings lie in the pipeline or are literals.
const char *pipeline_command(const struct pipeline *p);
const char *pipeline_options(struct pipeline *p);

#endif
