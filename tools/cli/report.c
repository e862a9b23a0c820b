// The one place that prints to people. Its state is what cannot be anything but global: the
// process's terminal, and whether a bar stands on its last line.
//
//   writing   42 %  1.02 GB of 2.44 GB  1.21 GB/s  0:01 left  encoder.layers.3.conv.weight
//
// A bar is one line, cut to the terminal's width and redrawn after a carriage return; a
// message removes it first. Rates and remaining times are of this process: they never
// reach a file that weir writes.
#include "cli/report.h"

#include "cli/hints.h"
#include "cli/progress.h"
#include "platform/machine.h"
#include "platform/stops.h"
#include "platform/terminal.h"

#include <errno.h>
#include <stdio.h>

static struct {
  bool screen, quiet, colour, bar;
  enum report_progress progress;
  bool bar_shown;
  const char *command, *model; // of documents
  bool documented;             // there was one
  const char *label;           // of the work that is going on; NULL: none is
  uint32_t lines;              // about it
  double began, last;          // seconds, of the work and of its last line
  struct work_told told;       // last
} talk;

// One buffer for all text of one moment. Where a write fails inside a printf, C libraries leave different values
// of errno; after a flush it is known.
static void hold_stdout(void) {
  static char buffer[1 << 16];
  setvbuf(stdout, buffer, terminal_is(TERMINAL_OUTPUT) ? _IOLBF : _IOFBF, sizeof buffer);
}

void report_start(void) {
  hold_stdout();
  talk.screen = terminal_draws(TERMINAL_ERRORS);
  talk.colour = talk.screen && !terminal_is_plain();
  report_open(false, REPORT_PROGRESS_AUTO);
}

void report_open(bool quiet, enum report_progress progress) {
  talk.quiet = quiet;
  talk.progress = progress;
  talk.bar = talk.screen && !quiet &&
             (progress == REPORT_PROGRESS_AUTO || progress == REPORT_PROGRESS_EAGER);
}

void report_colour(bool on) {
  talk.colour = on;
}

static void take_bar_away(void) {
  if (!talk.bar_shown) return;
  fputs("\r\033[K", stderr);
  talk.bar_shown = false;
}

// ---- messages -----------------------------------------------------------------------------------

static int stdout_errno; // of the first write to it that failed

static void look_at_stdout(bool failed) {
  if (failed && stdout_errno == 0) stdout_errno = errno ? errno : EIO;
}

// Where both go to one place (a log, a terminal), text keeps its order.
static void flush_stdout(void) {
  errno = 0;
  look_at_stdout(fflush(stdout) != 0);
}

// Kinds as an observer has them, and after them those of errors, which quiet does not silence.
enum { SAID_ERROR = OBSERVER_HINT + 1, SAID_ERROR_HINT };

static void say_line(unsigned kind, const char *sentence) {
  static const struct {
    const char *plain, *bright;
  } starts[] = {
      [OBSERVER_WARNING] = {"weir: warning: ", "\033[1mweir:\033[0m \033[1;33mwarning:\033[0m "},
      [OBSERVER_NOTICE] = {"weir: ", "weir: "},
      [OBSERVER_HINT] = {"hint: ", "\033[36mhint:\033[0m "},
      [SAID_ERROR] = {"weir: error: ", "\033[1mweir:\033[0m \033[1;31merror:\033[0m "},
      [SAID_ERROR_HINT] = {"hint: ", "\033[36mhint:\033[0m "},
  };
  if (talk.quiet && kind < SAID_ERROR) return;
  flush_stdout();
  take_bar_away();
  fprintf(stderr, "%s%s\n", talk.colour ? starts[kind].bright : starts[kind].plain, sentence);
}

static void say(void *ctx, enum observer_kind kind, const char *sentence) {
  (void)ctx;
  say_line(kind, sentence);
}

void report_error(const struct err *err) {
  const struct hints_text hint = hints_of(err);
  say_line(SAID_ERROR, err->msg);
  if (hint.s[0]) say_line(SAID_ERROR_HINT, hint.s);
}

// ---- progress -----------------------------------------------------------------------------------

static void begin(void *ctx, const char *label) {
  (void)ctx;
  talk.label = label;
  talk.lines = 0;
  talk.began = talk.last = machine_clock();
}

static struct progress progress_now(void) {
  return (struct progress){
      .label = talk.label, .told = talk.told, .seconds = machine_clock() - talk.began};
}

static void put_event(const char *event) {
  struct json_out line = {.indent = 0};
  const struct progress p = progress_now();
  progress_event(&line, event, talk.command, &p);
  fwrite(line.text, 1, line.n, stderr);
  json_done(&line);
}

static void end(void *ctx) {
  (void)ctx;
  take_bar_away();
  if (talk.label && talk.progress == REPORT_PROGRESS_JSON && talk.lines > 0) put_event("end");
  talk.label = NULL;
}

static size_t screen_columns(void) {
  const uint32_t n = terminal_columns(TERMINAL_ERRORS);
  return n >= 20 ? n : 80;
}

// Cuts text to so many characters; a cut never goes through one.
static void cut_to_columns(char *line, size_t columns) {
  for (char *at = line; *at; at++) {
    bool begins = ((unsigned char)*at & 0xc0) != 0x80;
    if (begins && columns-- == 0) {
      *at = '\0';
      return;
    }
  }
}

// Is a line due? The last one always comes where lines were asked for.
static bool is_due(bool last) {
  const bool eager =
      talk.progress == REPORT_PROGRESS_PLAIN || talk.progress == REPORT_PROGRESS_EAGER;
  const double now = machine_clock();
  if (talk.progress == REPORT_PROGRESS_JSON && now - talk.last < 1) return false;
  if (talk.progress != REPORT_PROGRESS_JSON && !(eager && last) &&
      now - talk.last < progress_interval(talk.lines + (eager ? 0 : PROGRESS_SPARED)))
    return false;
  talk.last = now;
  return true;
}

static void tick(void *ctx, const struct work_told *told) {
  const bool last = told->bytes_done == told->bytes_total;
  (void)ctx;
  talk.told = *told;
  if (talk.progress == REPORT_PROGRESS_NEVER) return;
  if (talk.progress == REPORT_PROGRESS_JSON) {
    if (talk.lines == 0 || is_due(last)) put_event(talk.lines ? "progress" : "start");
    talk.lines += talk.lines == 0;
    return;
  }
  if (talk.quiet || (!talk.bar && !is_due(last))) return;
  const struct progress p = progress_now();
  char line[512];
  progress_line(line, sizeof line, &p);
  talk.lines++;
  if (talk.bar) cut_to_columns(line, screen_columns() - 1);
  fprintf(stderr, talk.bar ? "\r%s\033[K" : "weir: %s\n", line);
  talk.bar_shown = talk.bar;
}

// ---- standard output ----------------------------------------------------------------------------

bool report_stdout_alive(void) {
  look_at_stdout(ferror(stdout) != 0);
  return stdout_errno == 0;
}

void report_text(const char *text, size_t n) {
  if (n == 0 || stdout_errno != 0) return;
  errno = 0;
  look_at_stdout(fwrite(text, 1, n, stdout) != n);
}

static const volatile int *stop(void *ctx) {
  (void)ctx;
  return stops_watch();
}

static void remove_file(void *ctx, const char *path) {
  (void)ctx;
  stops_removes(path);
}

static void keep_file(void *ctx, const char *path) {
  (void)ctx;
  stops_keeps(path);
}

static void data(void *ctx, struct span bytes) {
  (void)ctx;
  report_text((const char *)bytes.at, bytes.n);
}

struct observer report_observer = {.say = say,
                                   .begin = begin,
                                   .tick = tick,
                                   .end = end,
                                   .stop = stop,
                                   .remove = remove_file,
                                   .keep = keep_file,
                                   .data = data};

void report_about(const char *command, const char *model) {
  talk.command = command;
  talk.model = model;
  talk.documented = false;
}

void report_json_begin(struct json_out *j) {
  json_object(j);
  json_put_uint(j, "schema", REPORT_SCHEMA);
  json_put_text(j, "command", talk.command);
  if (talk.model) json_put_text(j, "model", talk.model);
}

static void put(void *ctx, const char *text, size_t n) {
  (void)ctx;
  report_document(text, n);
}

static bool alive(void *ctx) {
  (void)ctx;
  return report_stdout_alive();
}

struct json_out report_json_open(int indent) {
  static const struct json_sink to_stdout = {put, alive, NULL};
  struct json_out j = {.indent = indent, .sink = &to_stdout};
  report_json_begin(&j);
  return j;
}

void report_json_put_error(struct json_out *j, const struct err *err) {
  const struct hints_text hint = hints_of(err);
  json_put_object(j, "error");
  json_put_uint(j, "code", (uint64_t)err->kind);
  json_put_text(j, "message", err->msg);
  json_put_text(j, "hint", hint.s[0] ? hint.s : NULL);
  json_end_object(j);
}

void report_json_error(const struct err *err, int indent) {
  struct json_out j = {.indent = indent};
  if (talk.documented) return;
  report_json_begin(&j);
  report_json_put_error(&j, err);
  report_json_end(&j);
}

void report_document(const char *text, size_t n) {
  report_text(text, n);
  talk.documented = true;
}

void report_json_print(struct json_out *j) {
  json_newline(j);
  report_document(j->text, j->n);
  json_done(j);
}

void report_json_end(struct json_out *j) {
  json_end_object(j);
  report_json_print(j);
}

int report_close(struct err *err) {
  errno = 0;
  bool failed = ferror(stdout) != 0;
  if (fflush(stdout) != 0) failed = true;
  look_at_stdout(failed);
  if (stdout_errno == 0 || stdout_errno == EPIPE) return 0;
  return err_errno(err, stdout_errno, ERR_IO, "standard output cannot be written");
}
