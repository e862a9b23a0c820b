// What the two parts of a site are fed: arrays that both read alike.
#ifndef WEIR_SITE_FEEDS_H
#define WEIR_SITE_FEEDS_H

#include "site_run.h"

struct site_feeds {
  struct arrays of[SIDES];
  struct part_input *inputs[SIDES];
};

// Draws an array for each input of the site; two values that are one on a side have the same elements. All is stored in *a.
// False: one cannot be drawn, or has no elements that both types hold; *why says which.
bool site_feeds_draw(struct site_run *r, const struct site *s, struct arena *a,
                     struct site_feeds *f, char why[256]);

#endif
