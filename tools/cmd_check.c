// weir check MODEL: every fault, not only the first.
//
// Loading reports what it meets to a sink and goes on where it can; what holds of a whole model
// (names, definitions, cycles) is looked at afterwards. A fault is one line on standard output:
//
//   error: node 'conv1': input 'w' is made nowhere
//
// and the last line counts them. Errors decide the exit code; warnings and notes do not.
#include "commands.h"
#include "load.h"
#include "hints.h"
#include "report.h"

#include <stdio.h>

struct check {
  bool json;
  struct json_out j;
  uint64_t count[FAULT_ERROR + 1]; // by enum fault_level
  char last_error[2048];           // the newest error's message
};

static const char *const level_names[] = {
    [FAULT_NOTE] = "note", [FAULT_WARNING] = "warning", [FAULT_ERROR] = "error"};

static void put_json(struct check *c, enum fault_level level, const char *place,
                     const char *message, const char *hint) {
  json_object(&c->j);
  json_put_text(&c->j, "level", level_names[level]);
  json_put_text(&c->j, "place", place);
  json_put_text(&c->j, "message", message);
  if (hint && *hint) json_put_text(&c->j, "hint", hint);
  json_end_object(&c->j);
  report_json_flush(&c->j);
}

static void report_fault(void *ctx, enum fault_level level, const char *place, const char *text,
                         const struct err *cause) {
  struct check *c = ctx;
  const struct hints_text hint = cause ? hints_of(cause) : (struct hints_text){""};
  char message[sizeof cause->msg + sizeof hint.s + 8];
  snprintf(message, sizeof message, hint.s[0] ? "%s (%s)" : "%s", text, hint.s);
  c->count[level]++;
  if (level == FAULT_ERROR) snprintf(c->last_error, sizeof c->last_error, "%s", message);
  if (c->json)
    put_json(c, level, place ? place : "", message, NULL);
  else
    printf("%s: %s%s%s\n", level_names[level], place ? place : "", place && *place ? ": " : "",
           message);
}

// The error that ended loading, unless the sink has had it.
static void report_end_of_load(struct check *c, const struct err *err) {
  if (strcmp(c->last_error, err->msg) == 0) return;
  const struct hints_text hint = hints_of(err);
  c->count[FAULT_ERROR]++;
  if (c->json) {
    put_json(c, FAULT_ERROR, "", err->msg, hint.s);
    return;
  }
  printf("error: %s\n", err->msg);
  if (hint.s[0]) printf("hint: %s\n", hint.s);
}

static void begin(struct check *c, const char *path) {
  if (!c->json) return;
  c->j.indent = 2;
  json_object(&c->j);
  json_put_text(&c->j, "model", path);
  json_put_array(&c->j, "faults");
}

static const char *plural(uint64_t n) {
  return n == 1 ? "" : "s";
}

static void end(struct check *c, const char *path) {
  const uint64_t *n = c->count;
  if (!c->json) {
    printf("%s: %lu error%s, %lu warning%s, %lu note%s\n", quote_str(path).s, n[FAULT_ERROR],
           plural(n[FAULT_ERROR]), n[FAULT_WARNING], plural(n[FAULT_WARNING]), n[FAULT_NOTE],
           plural(n[FAULT_NOTE]));
    return;
  }
  json_end_array(&c->j);
  json_put_uint(&c->j, "errors", n[FAULT_ERROR]);
  json_put_uint(&c->j, "warnings", n[FAULT_WARNING]);
  json_put_uint(&c->j, "notes", n[FAULT_NOTE]);
  json_end_object(&c->j);
  report_json_end(&c->j);
}

// True if the fault is the model's: a missing permission or a failing disk says nothing about it.
static bool is_verdict(const struct err *err) {
  return err->kind == ERR_MODEL || err->kind == ERR_INPUT;
}

int cmd_check(const struct cli_args *args, struct err *err) {
  const char *path = cli_operand(args, "MODEL");
  const struct sources_options opening = {.allow_links = cli_flag(args, OPT_ALLOW_LINKS)};
  struct sources *sources;
  if (sources_open(&sources, path, &opening, err) < 0) return -1;
  struct check c = {.json = cli_flag(args, OPT_JSON)};
  const struct fault_sink sink = {report_fault, &c};
  const struct load_options loading = {.faults = &sink};
  struct model m;
  model_init(&m);
  begin(&c, path);
  struct err found = {0};
  int rc = load_model(&m, sources, &loading, &found);
  if (rc < 0) report_end_of_load(&c, &found);
  model_free(&m);
  sources_close(sources);
  end(&c, path);
  if (rc < 0 && !is_verdict(&found)) return (int)found.kind;
  return c.count[FAULT_ERROR] > 0 ? ERR_MODEL : 0;
}
