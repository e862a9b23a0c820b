// All that weir says. Data goes to standard output; errors, notices and progress go to standard
// error, each line behind all that was printed before it. Colour and the moving bar appear only on a terminal, colour not if NO_COLOR is set.
//
//   weir: error: tensor 'w3': bytes 8192..12288 are past the end of 'w.bin' (10000 bytes)
//   hint: …
//
// Names from files must come through quote(); nothing is quoted here again.
#ifndef WEIR_REPORT_H
#define WEIR_REPORT_H

#include "base/err.h"
#include "base/observer.h"
#include "json/json.h"

#include <stdbool.h>
#include <stdint.h>

// How progress is told (--progress): a bar on a terminal, elsewhere a line now and then; nothing; lines
// also on a terminal; JSON; or a bar, and elsewhere lines from the first second on.
enum report_progress {
  REPORT_PROGRESS_AUTO,
  REPORT_PROGRESS_NEVER,
  REPORT_PROGRESS_PLAIN,
  REPORT_PROGRESS_JSON,
  REPORT_PROGRESS_EAGER,
};

// Before anything is printed. Until report_open is called, reports work as if nothing was asked for.
void report_start(void);
// quiet: errors only.
void report_open(bool quiet, enum report_progress progress);
// Whatever the terminal and NO_COLOR say.
void report_colour(bool on);

// "weir: error: <msg>" and its hint.
void report_error(const struct err *err);
// What the command line prints of work: sentences as "weir: warning: …", "weir: …" and "hint: …", none of them with quiet;
// progress; and the signals that interrupt it (stops.h). On a terminal progress is a bar that is redrawn in place; elsewhere
// lines, less and less often (progress_interval), the first after 10 s unless asked for, so that short runs print none
// and a log of a long one stays short. As JSON: an event when the work begins, one a second, one when it ends.
extern struct observer report_observer;
// For commands themselves.
#define report_warning(...) observer_warning(&report_observer, __VA_ARGS__)
#define report_notice(...) observer_notice(&report_observer, __VA_ARGS__)
#define report_hint(...) observer_hint(&report_observer, __VA_ARGS__)

// A long text on standard output. What the system says of a failure is known only now, and kept for
// report_close.
void report_text(const char *text, size_t n);
// Documents on standard output, and the files of --report-json: an object that begins with
//   "schema": 1, "command": "quantize", "model": "models/encoder.onnx"
// and where the command failed has a member "error" (docs/schema). begin opens it. report_about names
// what the next document is about (NULL: there is no "model"); main calls it once, a command of many
// models once for each.
enum { REPORT_SCHEMA = 1 };
void report_about(const char *command, const char *model);
void report_json_begin(struct json_out *j);
struct json_out report_json_open(int indent); // begun; json_flush writes it to standard output
void report_json_put_error(struct json_out *j, const struct err *err);
// Writes a document that says nothing but the error, unless there was one already since report_about.
// `indent` as in struct json_out.
void report_json_error(const struct err *err, int indent);
// A whole document, as text.
void report_document(const char *text, size_t n);
// Writes what *j holds to standard output with a line break, and frees *j; report_json_end: once the object that begin opened is
// closed.
void report_json_print(struct json_out *j);
void report_json_end(struct json_out *j);
// A whole document: put(…, &json_out) adds its members.
#define report_json(put, ...)                                                                      \
  do {                                                                                             \
    struct json_out report_json_out = report_json_open(2);                                         \
    put(__VA_ARGS__, &report_json_out);                                                            \
    report_json_end(&report_json_out);                                                             \
  } while (0)

// False once standard output is gone (a closed pipe, a full disk): long listings stop then.
bool report_stdout_alive(void);
// Flushes standard output. A reader that went away is no failure; anything else is ERR_IO or
// ERR_NOSPACE.
int report_close(struct err *err);

#endif
