// A text on its way to a file of the user's choice: whole or not at all.
#ifndef WEIR_RECORD_FILE_H
#define WEIR_RECORD_FILE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/observer.h"
#include "platform/files.h"

struct run_report; // run_report.h

struct record_file {
  struct file file;
  bool is_open;   // false: not yet (in place, not before record_file_end), or no longer
  uint8_t *bytes; // not written yet
  size_t n_bytes, bytes_cap;
  struct observer *observer; // knows of `temporary`, and gets what goes to standard output
  const char *path;          // NULL: never opened
  // Its name until it is whole; NULL: written in place (a pipe, a device, a link).
  const char *temporary;
  int errnum;     // of the first write that failed; 0: none did
  bool on_stdout; // path is "-": what fails there is known when the program ends (report_close)
};

// A text is at `path` whole or not at all, unless that is no
// plain file. `path` is kept; the temporary name is in the arena. publish closes on success; drop
// closes what is open and removes it.
int record_file_open(struct record_file *t, const char *path, struct observer *o, struct arena *a,
                     struct err *err);
int record_file_publish(struct record_file *t, struct err *err);
bool record_file_is_open(const struct record_file *t);
// A piece of an open text. What failed is kept, and record_file_check says it: -1, with *err.
int record_file_add(struct record_file *t, struct span piece);
int record_file_check(const struct record_file *t, struct err *err);
void record_file_drop(struct record_file *t);
int record_file_write(const char *path, struct span text, struct observer *o, struct err *err);
// Opens a plain file early, so that nothing but the disk can keep it from being written later. What
// is no plain file is only looked at, and opened when its text is there: a link's target keeps its
// old content until then.
int record_file_reserve(struct record_file *t, const char *path, struct observer *o,
                        struct arena *a, struct err *err);
// Gives a text that was opened or reserved its only content, and publishes it.
int record_file_end(struct record_file *t, struct span text, struct err *err);
// The same with a page of a report (html_page.h), which is written piece by piece.
int record_file_page(struct record_file *t,
                     void (*page)(const struct run_report *r, struct span_sink sink),
                     const struct run_report *r, struct err *err);
// Would a text at `path`, or on its way there, replace a file that is read: `file`, or one that this model's tensors are
// stored in? ERR_USAGE, by the name of the option. A model that cannot be loaded has no other files.
int record_file_spares(const char *path, const char *option, const char *file, bool is_model,
                       bool allow_links, struct err *err);
// ERR_USAGE, with a hint: the option's text would replace it, and it belongs to the `whose` ("input").
int record_file_refuse(const char *option, const char *path, const char *whose, struct err *err);
// Could it be opened? Makes nothing.
int record_file_foresee(const char *path, struct err *err);
// Will it be renamed into place? False for a device, a pipe, a link and "-".
bool record_file_is_plain(const char *path);

#endif
