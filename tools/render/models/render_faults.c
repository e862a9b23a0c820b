// Faults as lines:
//
//   error: node 'conv1': input 'w' is not produced by any node
//
// and as members of the array "faults".
#include "render/models/render_faults.h"

#include "cli/hints.h"
#include "cli/report.h"
#include "render/models/render_model_folder.h"

#include <stdio.h>

static const char *const level_names[] = {
    [FAULT_NOTE] = "note", [FAULT_WARNING] = "warning", [FAULT_ERROR] = "error"};

void render_faults_begin(struct render_faults *r, bool json) {
  *r = (struct render_faults){.json = json};
  if (!json) return;
  r->j = report_json_open(2);
  json_put_array(&r->j, "faults");
}

// What ended the check has its hint apart, as all errors of commands have.
void render_fault(void *ctx, const struct model_check_fault *fault) {
  struct render_faults *r = ctx;
  const struct hints_text hint = fault->cause ? hints_of(fault->cause) : (struct hints_text){""};
  const bool apart = fault->ends && *hint.s, within = !fault->ends && *hint.s;
  char message[sizeof fault->cause->msg + sizeof hint.s + 8];
  snprintf(message, sizeof message, within ? "%s (%s)" : "%s", fault->text, hint.s);
  if (r->json) {
    struct json_out *j = &r->j;
    json_object(j);
    if (r->model) json_put_text(j, "model", r->model);
    json_put_text(j, "level", level_names[fault->level]);
    json_put_text(j, "place", fault->place);
    json_put_text(j, "message", message);
    if (apart) json_put_text(j, "hint", hint.s);
    json_end_object(j);
    json_flush(j);
    return;
  }
  printf("%s: ", level_names[fault->level]);
  if (r->model) printf("%s: ", quote_str(r->model).s);
  printf("%s%s%s\n", fault->place, *fault->place ? ": " : "", message);
  if (apart) printf("hint: %s\n", hint.s);
}

void render_faults_end(struct render_faults *r, const char *path,
                       const uint64_t count[FAULT_ERROR + 1], const struct model_folder *folder) {
  const uint64_t errors = count[FAULT_ERROR], warnings = count[FAULT_WARNING],
                 notes = count[FAULT_NOTE];
  if (r->json) {
    json_end_array(&r->j);
    json_put_uint(&r->j, "errors", errors);
    json_put_uint(&r->j, "warnings", warnings);
    json_put_uint(&r->j, "notes", notes);
    if (folder) render_model_folder_json(folder, &r->j);
    report_json_end(&r->j);
    return;
  }
  if (folder) render_model_folder(folder);
  if (folder) putchar('\n');
  printf("%s: %s error%s, %s warning%s, %s note%s\n", quote_str(path).s, decimal(errors).s,
         plural(errors), decimal(warnings).s, plural(warnings), decimal(notes).s, plural(notes));
}
