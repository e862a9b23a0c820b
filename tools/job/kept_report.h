// The report that a run keeps in its staging folder, for who completes its seal.
#ifndef WEIR_KEPT_REPORT_H
#define WEIR_KEPT_REPORT_H

#include "staging.h"

// Keeps it durably, in place of what an earlier try kept. Nothing to keep (n 0): only that goes.
int kept_report_put(const struct staging *st, struct span report, struct err *err);
// Gives it back, to be freed by fs_free: the very text, or at NULL. *changed: something is there, and it is
// not what was kept.
struct span kept_report_take(const struct staging *st, bool *changed);

#endif
