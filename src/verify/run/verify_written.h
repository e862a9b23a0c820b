// The model that was written, and the edited one in memory that it was written from: what sites are cut out of, so that it
// is the bytes of the output that are verified, and not a second computation of them.
#ifndef WEIR_VERIFY_WRITTEN_H
#define WEIR_VERIFY_WRITTEN_H

#include "verify/cut/sites.h"

struct verify_written {
  struct sources *sources;
  struct model model;
  struct recipes recipes;
  // By id in the edited model: the id in this one, or NO_ID.
  uint32_t *graph_of, *node_of, *value_of;
  struct arena arena;
};

// ERR_FAIL if the file is not what the edited model is written as: other nodes, or in another order. Close it in any case.
int verify_written_open(struct verify_written *w, const char *path, bool allow_links,
                        const struct model *edited, struct err *err);
void verify_written_close(struct verify_written *w);
// The site with everything of that side (0: before, 1: after) numbered as in the written model; false: it has what is not there.
bool verify_written_site(const struct verify_written *w, int side, const struct site *s,
                         struct arena *a, struct site *out);

#endif
