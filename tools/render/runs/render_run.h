// What a writing command says of its run: JSON for programs, lines for people, a page.
#ifndef WEIR_RENDER_RUN_H
#define WEIR_RENDER_RUN_H

#include "execution.h"

// The report (--report-json, --json).
void render_run_json(struct execution *exec, struct json_out *j);
// Lines that end a run; those of a dry run are among them.
void render_run_text(struct execution *exec);
void render_dry_run(struct execution *exec);

// For request.render: all of this, and pages (html_page.h).
extern const struct execution_render render_run;

#endif
