// Sections of a page, in the order in which they stand. Each writes nothing where the report has nothing for it.
//
// To add one: a function here that takes the report, and a call in html_page. It writes through html_out.h: markup
// unchanged, texts of files by html_text or as %s of html_put, which escape them. Long tables: html_table.h (rows from a
// function). Charts: html_chart.h. Style and script: page.css and page.js, which the build embeds with the digests of
// the page's policy; no style=, no on…=, no load. A page is the same after each run, except for times and memory. Tests:
// test_report_html.py (with tests/support/report_page.py, the elements of pages), and in chromium test_report_browser.py
// (tools/test --all; browser.picture(path) takes a picture).
#ifndef WEIR_HTML_PARTS_H
#define WEIR_HTML_PARTS_H

#include "render/html/html_out.h"
#include "report/run_report.h"

// html_verified.c: how far the outputs of whole models are apart; what a verification looked at, and the error layer by
// layer.
void html_outputs(struct html_out *o, const struct verified *v);
void html_verified(struct html_out *o, const struct verified *v);
// "verified", "failed" …, for the headline; and its class.
struct html_verdict {
  const char *word, *style;
} html_verdict(const struct verified *v);

// html_changes.c: steps, operators before and after, bytes by dtype, what was kept, every node that was looked at.
void html_changes(struct html_out *o, const struct run_report *r);
void html_types(struct html_out *o, const struct run_report *r);
void html_kept(struct html_out *o, const struct run_report *r);
void html_sites(struct html_out *o, const struct run_report *r);

// html_tensors.c: the error of every tensor in another form.
void html_tensors(struct html_out *o, const struct run_report *r);

// html_rank.c: sites by what they cost the output, where --rank asked for it.
void html_rank(struct html_out *o, const struct run_report *r);

// html_ranges.c: ranges of activations that passes were given, each with a small chart.
void html_ranges(struct html_out *o, const struct run_report *r);

#endif
