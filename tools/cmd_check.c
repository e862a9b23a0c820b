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
#include "check.h"
#include "commands.h"
#include "load.h"
#include "hints.h"
#include "infer.h"
#include "report.h"
#include "unfinished.h"

#include <stdio.h>

struct check {
  const char *path;
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

static void put_json(struct json_out *j, enum fault_level level, const char *place,
                     const char *message, const char *hint) {
  json_object(j);
  json_put_text(j, "level", level_names[level]);
  json_put_text(j, "place", place);
  json_put_text(j, "message", message);
  if (*hint) json_put_text(j, "hint", hint);
  json_end_object(j);
  report_json_flush(j);
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
    put_json(&c->j, level, place ? place : "", message, "");
  else
    printf("%s: %s%s%s\n", level_names[level], place ? place : "", place && *place ? ": " : "",
           message);
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

int cmd_check(const struct cli_args *args, struct err *err) {
  const char *path = cli_operand(args, "MODEL");
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  struct sources *sources;
  if (sources_open(&sources, path, &opening, err) < 0) return -1;
  struct check c = {.path = path, .json = cli_flag(args, OPT_JSON), .j.indent = 2};
  const struct fault_sink sink = {report_fault, &c};
  const struct load_options loading = {.faults = &sink};
  struct model m;
  model_init(&m);
  report_json_begin(&c.j);
  json_put_array(&c.j, "faults");
  struct err found = {0};
  int rc = load_model(&m, sources, &loading, &found);
  if (rc == 0) rc = check_operators(&m, &sink, &found);
  if (rc == 0 && c.count[FAULT_ERROR] == 0) rc = check_shapes(&c, &m, &sink, &found);
  model_free(&m);
  sources_close(sources);
  // The error that ended loading, unless the sink has had it.
  if (rc < 0 && strcmp(c.last_error, found.msg) != 0) {
    const struct hints_text hint = hints_of(&found);
    c.count[FAULT_ERROR]++;
    count_error(&c, found.kind);
    if (c.json)
      put_json(&c.j, FAULT_ERROR, "", found.msg, hint.s);
    else
      printf(hint.s[0] ? "error: %s\nhint: %s\n" : "error: %s\n", found.msg, hint.s);
  }
  const uint64_t errors = c.count[FAULT_ERROR], warnings = c.count[FAULT_WARNING],
                 notes = c.count[FAULT_NOTE];
  json_end_array(&c.j);
  json_put_uint(&c.j, "errors", errors);
  json_put_uint(&c.j, "warnings", warnings);
  json_put_uint(&c.j, "notes", notes);
  json_end_object(&c.j);
  if (c.json)
    report_json_end(&c.j);
  else
    printf("%s: %lu error%s, %lu warning%s, %lu note%s\n", quote_str(path).s, errors,
           plural(errors), warnings, plural(warnings), notes, plural(notes));
  json_done(&c.j);
  // A missing permission or a failing disk says nothing about the model.
  if (rc < 0 && found.kind != ERR_MODEL && found.kind != ERR_INPUT) return (int)found.kind;
  return (int)c.code;
}
