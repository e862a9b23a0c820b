// weir check MODEL: every fault, not only the first.
//
// Loading reports what it meets to a sink and goes on where it can; what holds of a whole model
// (names, definitions, cycles) is looked at afterwards. A fault is one line on standard output:
//
//   error: node 'conv1': input 'w' is not produced by any node
//
// and the last line counts them. Errors decide the exit code; warnings and notes do not. A model that
// only lacks a data file is not malformed: the code is then that of what keeps the file from being
// read.
//
// weir check DIR: every model in a folder; each fault names its model, and a line a model comes last (model_folder.h).
#include "check.h"
#include "commands.h"
#include "load.h"
#include "render_model_folder.h"
#include "hints.h"
#include "infer.h"
#include "report.h"
#include "unfinished.h"

#include <stdio.h>

struct check {
  const char *path;
  const char *model;     // of a folder: the path below it; else NULL
  bool json, unfinished; // unfinished: said that the model's own run was interrupted
  struct json_out j;
  uint64_t count[FAULT_ERROR + 1]; // by enum fault_level
  enum err_kind code;              // of the errors: of a malformed model, else of the first
  char last_error[2048];           // the newest error's message
};

static void count_error(struct check *c, enum err_kind kind) {
  if (c->code == ERR_NONE || kind == ERR_MODEL) c->code = kind;
}

static const char *const level_names[] = {
    [FAULT_NOTE] = "note", [FAULT_WARNING] = "warning", [FAULT_ERROR] = "error"};

static void put_json(struct check *c, enum fault_level level, const char *place,
                     const char *message, const char *hint) {
  struct json_out *j = &c->j;
  json_object(j);
  if (c->model) json_put_text(j, "model", c->model);
  json_put_text(j, "level", level_names[level]);
  json_put_text(j, "place", place);
  json_put_text(j, "message", message);
  if (*hint) json_put_text(j, "hint", hint);
  json_end_object(j);
  report_json_flush(j);
}

static void print_fault(const struct check *c, enum fault_level level, const char *place,
                        const char *message) {
  printf("%s: ", level_names[level]);
  if (c->model) printf("%s: ", quote_str(c->model).s);
  printf("%s%s%s\n", place, *place ? ": " : "", message);
}

static void report_fault(void *ctx, enum fault_level level, const char *place, const char *text,
                         const struct err *cause) {
  struct check *c = ctx;
  struct err why = cause ? *cause : (struct err){0};
  if (cause && unfinished_explains(c->path, &why)) {
    if (c->unfinished) return; // the same of every data file
    c->unfinished = true;
    place = "";
    text = why.msg;
    cause = &why;
  }
  const struct hints_text hint = cause ? hints_of(cause) : (struct hints_text){""};
  char message[sizeof cause->msg + sizeof hint.s + 8];
  snprintf(message, sizeof message, hint.s[0] ? "%s (%s)" : "%s", text, hint.s);
  c->count[level]++;
  if (level == FAULT_ERROR) {
    snprintf(c->last_error, sizeof c->last_error, "%s", message);
    count_error(c, cause ? cause->kind : ERR_MODEL);
  }
  if (c->json)
    put_json(c, level, place ? place : "", message, "");
  else
    print_fault(c, level, place ? place : "", message);
}

// What inference says: a node that cannot run with its inputs is an error; a declared shape that is not what comes out
// is one that runtimes warn of, or overlook.
struct shapes {
  struct check *c;
  const struct model *m;
};

static void report_shape(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  const struct shapes *s = ctx;
  const struct model *m = s->m;
  char place[448], message[640];
  if (node == NO_ID) {
    snprintf(place, sizeof place, "value '%s'", quote(model_value_name(m, value)).s);
    report_fault(s->c, FAULT_WARNING, place, sentence, NULL);
    return;
  }
  snprintf(message, sizeof message, "cannot run with these inputs: %s", sentence);
  report_fault(s->c, FAULT_ERROR, model_node_words(m, node).s, message, NULL);
}

// Readers that know the dtype too refuse the model.
static void report_dtype(void *ctx, uint32_t node, uint32_t value, const char *sentence) {
  const struct shapes *s = ctx;
  char place[448];
  (void)node;
  snprintf(place, sizeof place, "value '%s'", quote(model_value_name(s->m, value)).s);
  report_fault(s->c, FAULT_ERROR, place, sentence, NULL);
}

// Shapes, and the dtypes that follow from them.
static int check_shapes(struct check *c, struct model *m, const struct fault_sink *sink,
                        struct err *err) {
  struct model_types types = {0};
  struct shapes s = {c, m};
  struct infer *in = infer_new(m, NULL);
  infer_all(in, &(struct infer_told){report_shape, &s, report_dtype});
  infer_fill(in, m, &types);
  infer_free(in);
  const int rc = c->count[FAULT_ERROR] ? 0 : check_dtypes(m, &types, sink, err);
  model_types_done(&types);
  return rc;
}

// The error that ended loading, unless the sink has had it.
static void report_end_of(struct check *c, const struct err *found) {
  if (strcmp(c->last_error, found->msg) == 0) return;
  const struct hints_text hint = hints_of(found);
  c->count[FAULT_ERROR]++;
  count_error(c, found->kind);
  if (c->json) {
    put_json(c, FAULT_ERROR, "", found->msg, hint.s);
    return;
  }
  print_fault(c, FAULT_ERROR, "", found->msg);
  if (hint.s[0]) printf("hint: %s\n", hint.s);
}

// -1: it could not be loaded as far as it should be, and *found says why; that is among the faults. `sources` are the
// caller's to close, NULL where the model could not be opened.
static int check_model(struct check *c, const struct cli_args *args, struct sources **sources,
                       struct err *found) {
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  const struct fault_sink sink = {report_fault, c};
  const struct load_options loading = {.faults = &sink};
  if (sources_open(sources, c->path, &opening, found) < 0) return -1;
  struct model m;
  model_init(&m);
  int rc = load_model(&m, *sources, &loading, found);
  if (rc == 0) rc = check_operators(&m, &sink, found);
  if (rc == 0 && c->count[FAULT_ERROR] == 0) rc = check_shapes(c, &m, &sink, found);
  model_free(&m);
  return rc;
}

static void begin(struct check *c) {
  c->j.indent = 2;
  report_json_begin(&c->j);
  json_put_array(&c->j, "faults");
}

static void put_counts(struct check *c) {
  json_end_array(&c->j);
  json_put_uint(&c->j, "errors", c->count[FAULT_ERROR]);
  json_put_uint(&c->j, "warnings", c->count[FAULT_WARNING]);
  json_put_uint(&c->j, "notes", c->count[FAULT_NOTE]);
}

static void print_counts(const struct check *c) {
  const uint64_t errors = c->count[FAULT_ERROR], warnings = c->count[FAULT_WARNING],
                 notes = c->count[FAULT_NOTE];
  printf("%s: %lu error%s, %lu warning%s, %lu note%s\n", quote_str(c->path).s, errors,
         plural(errors), warnings, plural(warnings), notes, plural(notes));
}

// A missing permission or a failing disk says nothing about the model.
static int code_of(const struct check *c, int rc, const struct err *found) {
  return rc < 0 && found->kind != ERR_MODEL && found->kind != ERR_INPUT ? (int)found->kind
                                                                        : (int)c->code;
}

// ---- a folder -----------------------------------------------------------------------------------

// Its faults, and what they add to those of the folder.
static void check_one(struct check *all, const struct cli_args *args, struct model_folder *b,
                      struct folder_model *model, int *code) {
  struct check c = {.path = model->given, .model = model->path, .json = all->json, .j = all->j};
  struct sources *sources = NULL;
  struct err found = {0};
  const int rc = check_model(&c, args, &sources, &found);
  if (rc < 0) report_end_of(&c, &found);
  if (sources)
    model_folder_take(b, model, sources);
  else
    model_folder_skip(b, model, &found);
  sources_close(sources);
  model->errors = c.count[FAULT_ERROR];
  model->warnings = c.count[FAULT_WARNING];
  model->notes = c.count[FAULT_NOTE];
  for (int level = FAULT_NOTE; level <= FAULT_ERROR; level++)
    all->count[level] += c.count[level];
  all->j = c.j;
  const int is = code_of(&c, rc, &found);
  if (*code == 0 || (is == ERR_MODEL && *code == ERR_INPUT)) *code = is;
}

// The code is that of the first model with errors; a malformed one counts for more than one that lacks a file.
static int check_folder(const struct cli_args *args, struct err *err) {
  struct check all = {.path = cli_operand(args, "MODEL|DIR"), .json = cli_flag(args, OPT_JSON)};
  struct model_folder b;
  int code = 0;
  if (model_folder_list(&b, all.path, err) < 0) {
    model_folder_done(&b);
    return -1;
  }
  b.checked = true;
  begin(&all);
  for (uint32_t i = 0; i < b.n_models; i++)
    check_one(&all, args, &b, &b.models[i], &code);
  model_folder_sum(&b);
  put_counts(&all);
  if (all.json) {
    render_model_folder_json(&b, &all.j);
    json_end_object(&all.j);
    report_json_end(&all.j);
  } else {
    render_model_folder(&b);
    putchar('\n');
    print_counts(&all);
  }
  json_done(&all.j);
  model_folder_done(&b);
  return code;
}

int cmd_check(const struct cli_args *args, struct err *err) {
  struct check c = {.path = cli_operand(args, "MODEL|DIR"), .json = cli_flag(args, OPT_JSON)};
  if (model_folder_is(c.path)) return check_folder(args, err);
  struct sources *sources = NULL;
  struct err found = {0};
  begin(&c);
  const int rc = check_model(&c, args, &sources, &found);
  if (!sources) { // the model itself could not be opened: no document of its faults
    json_done(&c.j);
    *err = found;
    return -1;
  }
  sources_close(sources);
  if (rc < 0) report_end_of(&c, &found);
  put_counts(&c);
  json_end_object(&c.j);
  if (c.json)
    report_json_end(&c.j);
  else
    print_counts(&c);
  json_done(&c.j);
  return code_of(&c, rc, &found);
}
