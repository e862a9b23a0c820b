// The report that a run keeps in its staging folder, for who completes its seal.
#ifndef WEIR_KEPT_REPORT_H
#define WEIR_KEPT_REPORT_H

#include "stream/staging/staging.h"

// Writes the page. write NULL: there is none to keep.
struct kept_page {
  void (*write)(void *ctx, struct span_sink sink);
  void *ctx;
};

// Keeps it durably under that name (STAGING_REPORT, STAGING_PROVENANCE), in place of what an earlier try kept.
// Nothing to keep (n 0): only that goes.
int kept_report_put(const struct staging *st, const char *name, struct span report,
                    struct err *err);
// The same of the page, which is written as it comes about.
int kept_report_put_page(const struct staging *st, const struct kept_page *page, struct err *err);
// Gives one of them back (also STAGING_PAGE), to be freed by fs_free: the very text, or at NULL. *changed:
// something is there, and it is not what was kept.
struct span kept_report_take(const struct staging *st, const char *name, bool *changed);

#endif
