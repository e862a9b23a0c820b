// The forms that a run is shown in, as a table for the execution, which has none of its own.
#include "cli/report.h"
#include "render/html/html_page.h"
#include "render/runs/render_run.h"

// What is known of a run whose own report was not kept: outputs, manifest, plan.
static void write_known(const struct run_report *known, struct json_out *j) {
  report_json_begin(j);
  json_put_object(j, "weir");
  json_put_text(j, "manifest", known->files.manifest.name);
  json_put_array(j, "output");
  for (uint32_t i = 0; i < known->files.n_outputs; i++) {
    json_object(j);
    json_put_text(j, "name", known->files.outputs[i].name);
    json_put_uint(j, "size", known->files.outputs[i].size);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_text(j, "plan_id", known->digests.plan);
  json_put_text(j, "resumed", known->work.resumed);
  json_put_text(j, "version", known->version);
  json_end_object(j);
  json_end_object(j);
  json_newline(j);
}

// As this run would print it: a kept report is indented, a command of many models has lines.
static void print_document(const struct run_shown *shown, struct span text) {
  struct err ignored = {0};
  struct json_value *doc = shown->json_indent ? NULL : json_parse(text, "report", &ignored);
  struct json_out line = {.indent = 0};
  if (!doc) {
    report_document((const char *)text.at, text.n);
    return;
  }
  json_copy(&line, doc);
  report_json_print(&line);
  json_free(doc);
}

static void print_report(const struct run_report *r) {
  struct json_out report = {.indent = r->asked.shown->json_indent};
  render_run_json(r, &report);
  report_json_print(&report);
}

const struct run_render render_run = {.json = render_run_json,
                                      .known = write_known,
                                      .page = html_page,
                                      .print_report = print_report,
                                      .print_document = print_document,
                                      .print_lines = render_run_text};
