// A report, and in a line behind it the digest of what is before:
//
//   {
//     "schema": …
//   }
//   {"sha256":"9f86d08…"}
//
// Days may lie between the run that keeps it and the one that gives it out as its own, and by then nobody
// else knows what was done: a report is believed whole or not at all. The digest is in the same file, since
// seal.json goes first when the folder of a finished seal is removed, and the report is wanted then too.
#include "kept_report.h"

#include "arena.h"
#include "fs.h"

#include <errno.h>
#include <stdio.h>

enum { REPORT_MAX_BYTES = 1 << 30 };

struct check {
  char line[2 * DIGEST_BYTES + 16];
  size_t n;
};

static struct check check_of(struct span report) {
  uint8_t sum[DIGEST_BYTES];
  char hex[DIGEST_HEX];
  struct check c;
  digest_of(report.at, report.n, sum);
  hex_encode(sum, sizeof sum, hex);
  c.n = (size_t)snprintf(c.line, sizeof c.line, "{\"sha256\":\"%s\"}\n", hex);
  return c;
}

int kept_report_put(const struct staging *st, struct span report, struct err *err) {
  if (report.n == 0) {
    if (fs_ops->unlinkat(st->folder, STAGING_REPORT, 0) == 0 || errno == ENOENT) return 0;
    return err_errno(err, errno, ERR_IO, "cannot remove '%s' in '%s'", STAGING_REPORT,
                     quote_str(st->name).s);
  }
  const struct check check = check_of(report);
  struct arena scratch = {0};
  uint8_t *text = arena_alloc(&scratch, report.n + check.n);
  memcpy(text, report.at, report.n);
  memcpy(text + report.n, check.line, check.n);
  const int rc = fs_put_file(st->folder, STAGING_REPORT, span_of(text, report.n + check.n), err);
  arena_free(&scratch);
  return rc;
}

// Cuts the check off a text, if it is the right one.
static bool is_whole(struct span *text) {
  const size_t n = check_of(*text).n; // all are as long
  if (text->n <= n) return false;
  const struct span report = span_of(text->at, text->n - n);
  if (memcmp(check_of(report).line, text->at + report.n, n) != 0) return false;
  *text = report;
  return true;
}

struct span kept_report_take(const struct staging *st, bool *changed) {
  struct err why = {0};
  struct span text;
  *changed = false;
  if (fs_read_own(st->folder, STAGING_REPORT, REPORT_MAX_BYTES, st->name, &text, &why)) {
    *changed = why.kind != ERR_NONE;
    return span_of(NULL, 0);
  }
  if (is_whole(&text)) return text;
  *changed = true;
  fs_free(text);
  return span_of(NULL, 0);
}
