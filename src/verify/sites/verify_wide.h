// Sites, several at a time: threads that each have a runtime, and take the next site when they are done with one.
#ifndef WEIR_VERIFY_WIDE_H
#define WEIR_VERIFY_WIDE_H

#include "verify/sites/site_run.h"

// Calls `one` for every site of r, in `jobs` threads, each with a site_run of its own; `one` adds the site's row, if any, to
// run->v->found. Rows end up in r->v->found, in the order of sites, whichever thread made them; the memory of all runtimes is
// added up there. Threads that the system does not give are left out. -1 with the error of one thread, after all have ended.
int verify_wide_run(struct site_run *r, uint32_t jobs,
                    int (*one)(struct site_run *run, uint32_t site, struct err *err),
                    struct err *err);

#endif
