// weir check MODEL: every fault, not only the first (model_check.h).
//
// A fault is one line on standard output, and the last line counts them. Errors decide the exit code; warnings and notes do
// not. A model that only lacks a data file is not malformed: the code is then that of what keeps the file from being
// read.
//
// weir check DIR: every model in a folder; each fault names its model, and a line a model comes last (model_folder.h).
#include "cli/commands.h"
#include "platform/files.h"
#include "render/models/render_faults.h"

static struct model_check check_of(const struct cli_args *args, const char *path,
                                   struct render_faults *shown) {
  return (struct model_check){.path = path,
                              .allow_links = cli_flag(args, OPT_ALLOW_LINKS),
                              .tell = render_fault,
                              .ctx = shown};
}

// ---- a folder -----------------------------------------------------------------------------------

// Its faults, and what they add to those of the folder.
static void check_one(struct render_faults *shown, const struct cli_args *args,
                      struct model_folder *b, struct folder_model *model,
                      uint64_t count[FAULT_ERROR + 1], int *code) {
  struct model_check c = check_of(args, model->given, shown);
  struct sources *sources;
  struct err found = {0};
  shown->model = model->path;
  const int rc = model_check_run(&c, &sources, &found);
  if (rc < 0) model_check_tell_end(&c, &found);
  if (sources)
    model_folder_take(b, model, sources);
  else
    model_folder_skip(b, model, &found);
  sources_close(sources);
  model->errors = c.count[FAULT_ERROR];
  model->warnings = c.count[FAULT_WARNING];
  model->notes = c.count[FAULT_NOTE];
  for (int level = FAULT_NOTE; level <= FAULT_ERROR; level++)
    count[level] += c.count[level];
  const int is = model_check_code(&c, rc, &found);
  if (*code == 0 || (is == ERR_MODEL && *code == ERR_INPUT)) *code = is;
}

// The code is that of the first model with errors; a malformed one counts for more than one that lacks a file.
static int check_folder(const struct cli_args *args, const char *path, struct err *err) {
  struct render_faults shown;
  struct model_folder b;
  uint64_t count[FAULT_ERROR + 1] = {0};
  int code = 0;
  if (model_folder_list(&b, path, err) < 0) {
    model_folder_done(&b);
    return -1;
  }
  b.checked = true;
  render_faults_begin(&shown, cli_flag(args, OPT_JSON));
  for (uint32_t i = 0; i < b.n_models; i++)
    check_one(&shown, args, &b, &b.models[i], count, &code);
  model_folder_sum(&b);
  render_faults_end(&shown, path, count, &b);
  model_folder_done(&b);
  return code;
}

// ---- a model ------------------------------------------------------------------------------------

int cmd_check(const struct cli_args *args, struct err *err) {
  const char *path = cli_operand(args, "MODEL|DIR");
  if (path_is_folder(path)) return check_folder(args, path, err);
  struct render_faults shown;
  struct model_check c = check_of(args, path, &shown);
  struct sources *sources;
  struct err found = {0};
  render_faults_begin(&shown, cli_flag(args, OPT_JSON));
  const int rc = model_check_run(&c, &sources, &found);
  if (!sources) { // the model itself could not be opened: no document of its faults
    json_done(&shown.j);
    *err = found;
    return -1;
  }
  sources_close(sources);
  if (rc < 0) model_check_tell_end(&c, &found);
  render_faults_end(&shown, path, c.count, NULL);
  return model_check_code(&c, rc, &found);
}
