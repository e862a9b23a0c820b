// The report of a run as one page: no network, no other file, readable without scripts (docs/report.md). What a Content-
// Security-Policy in it allows is its own style and script, by digest.
#ifndef WEIR_HTML_PAGE_H
#define WEIR_HTML_PAGE_H

#include "render/html/html_out.h"
#include "report/run_report.h"

// Parts of which *r knows nothing are left out: of weir verify, which is no execution, the verification is there, the command
// and the names. The same report gives the same page; seconds and memory in it are of the run.
void html_page(const struct run_report *r, struct span_sink sink);

#endif
