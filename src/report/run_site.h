// Sites that passes reported: a node or a weight each, what became of it, and why.
#ifndef WEIR_RUN_SITE_H
#define WEIR_RUN_SITE_H

#include "pass.h"

// What a pass said of a site (struct pass_site), kept for the report. There may be one for each of a million nodes.
struct run_site {
  const char *op_type, *status, *reason;
  const char *name; // of the node as reports say it: never empty
  // Of the first node that uses the weight, as far as it has a name; else as `name`.
  const char *layer;
  struct span tensor;
  const char *chosen, *chosen_by;
  const struct figures *figures; // where something was chosen; else NULL
  const char *weighed_by;        // as in struct pass_site
  double output_db;
  uint32_t node, index, graph, codes, of;
  uint32_t step;
  struct pass_fact fact;
  bool gone;            // a later round of a repeat looked at the node again
  uint32_t left_before; // 1 + the site before it that its step left alone too; 0: none
};

struct run_warning {
  uint32_t step;
  const char *sentence, *hint; // hint: or NULL
};

static inline bool run_site_converted(const struct run_site *s) {
  return strcmp(s->status, "converted") == 0;
}

#endif
