// What a writing command says of its run: JSON for programs, lines for people, a page.
#ifndef WEIR_RENDER_RUN_H
#define WEIR_RENDER_RUN_H

#include "report/run_report.h"

// The report (--report-json, --json).
void render_run_json(const struct run_report *r, struct json_out *j);
// Lines that end a run; those of a dry run are among them.
void render_run_text(const struct run_report *r);
void render_dry_run(const struct run_report *r);
// A file of the output, from where the user is: "int4/m.onnx_data".
struct quoted render_run_path(const struct run_report *r, const char *name);

// For request.render: all of this, and pages (html_page.h).
extern const struct run_render render_run;

#endif
