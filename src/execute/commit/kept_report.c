// A report, followed by a line with its digest:
//
//   {
//     "schema": …
//   }
//   {"sha256":"9f86d08…"}
//
// A later run may publish the report days after the run that stored it, and has no other record of that run: it uses the
// report only if the digest matches.
#include "execute/commit/kept_report.h"

#include "base/arena.h"
#include "json/json.h"
#include "stream/seal/companion.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>

enum { REPORT_MAX_BYTES = 1 << 30 };

struct check {
  char line[2 * DIGEST_BYTES + 16];
  size_t n;
};

static struct check check_for(const uint8_t sum[DIGEST_BYTES]) {
  struct check c;
  c.n = (size_t)snprintf(c.line, sizeof c.line, "{\"sha256\":\"%s\"}\n", digest_hex(sum).s);
  return c;
}

static struct check check_of(struct span report) {
  uint8_t sum[DIGEST_BYTES];
  digest_of(report.at, report.n, sum);
  return check_for(sum);
}

static int remove_if_there(const struct staging *st, const char *name, struct err *err) {
  struct entry_facts at;
  if (entry_look(st->folder, name, FILE_NO_LINK, &at) || file_remove(st->folder, name) == 0 ||
      errno == ENOENT)
    return 0;
  return err_errno(err, errno, ERR_IO, "cannot remove '%s' in '%s'", name, quote_str(st->name).s);
}

int kept_report_put(const struct staging *st, const char *name, struct span report,
                    struct err *err) {
  if (report.n == 0) return remove_if_there(st, name, err);
  const struct check check = check_of(report);
  struct arena scratch = {0};
  uint8_t *text = arena_alloc(&scratch, report.n + check.n);
  memcpy(text, report.at, report.n);
  memcpy(text + report.n, check.line, check.n);
  const int rc = fs_put_file(st->folder, name, span_of(text, report.n + check.n), err);
  arena_free(&scratch);
  return rc;
}

// A page on its way.
struct page_file {
  struct companion *file;
  struct digest *sum; // of what went there
  struct err err;     // the first
};

static void put_piece(void *ctx, struct span piece) {
  struct page_file *to = ctx;
  digest_add(to->sum, piece.at, piece.n);
  if (to->err.kind == ERR_NONE) (void)companion_add(to->file, piece, &to->err);
}

int kept_report_put_page(const struct staging *st, const struct kept_page *page, struct err *err) {
  struct page_file to = {.err = {0}};
  uint8_t sum[DIGEST_BYTES];
  if (!page->write) return remove_if_there(st, STAGING_PAGE, err);
  if (companion_open(&to.file, st->folder, STAGING_PAGE, err)) return -1;
  to.sum = digest_new();
  page->write(page->ctx, (struct span_sink){put_piece, &to});
  digest_finish(to.sum, sum);
  const struct check check = check_for(sum);
  int rc = to.err.kind == ERR_NONE ? 0 : -1;
  if (rc) *err = to.err;
  if (rc == 0) rc = companion_add(to.file, span_of(check.line, check.n), err);
  if (rc == 0) rc = companion_end(to.file, err);
  companion_close(to.file);
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

// An altered file can have a matching digest, so a JSON report is parsed before it is published.
static bool is_of_kind(struct span text, const char *name) {
  struct err ignored = {0};
  if (strcmp(name, STAGING_PAGE) == 0) return true;
  struct json_value *v = json_parse(text, name, &ignored);
  const bool is = json_is_object(v);
  json_free(v);
  return is;
}

struct span kept_report_take(const struct staging *st, const char *name, bool *changed) {
  struct err why = {0};
  struct span text;
  *changed = false;
  if (fs_read_own(st->folder, name, REPORT_MAX_BYTES, st->name, &text, &why)) {
    *changed = why.kind != ERR_NONE;
    return span_of(NULL, 0);
  }
  if (is_whole(&text) && is_of_kind(text, name)) return text;
  *changed = true;
  fs_free(text);
  return span_of(NULL, 0);
}
