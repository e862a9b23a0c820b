// The files that a job writes beside its outputs: the edit log, the plan, the reports.
//
// A text grows under a temporary name (F.part) and takes its own when it is whole. What is no plain
// file (a device, a pipe, a link such as /dev/stdout) is written as it is: a rename would replace
// it. "-" is standard output, where no other text goes then.
//
// Their paths are the user's, and a slip of the shell's completion may name a model's own files:
// those are looked for before anything is opened for writing, the input's by inode, the output's by
// name. Neither may two of them have one name, temporary names included.
#include "job.h"

#include "again.h"
#include "given_files.h"
#include "report.h"
#include "table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- writing -----------------------------------------------------------------------------------

static int cannot_write(const char *path, struct err *err) {
  const bool astray = errno == ENOENT || errno == ENOTDIR || errno == EISDIR;
  err_fill_errno(err, errno, astray ? ERR_USAGE : ERR_IO, "'%s' cannot be written",
                 quote_str(path).s);
  return astray ? err_hint(err, "give the name of a file, in an existing folder") : -1;
}

static bool is_plain(const char *path) {
  struct stat st;
  if (path_is_stream(path)) return false;
  return lstat(path, &st) < 0 || S_ISREG(st.st_mode);
}

// With a slash behind it: a file is no folder then.
static const char *folder_of(const char *path, struct arena *a) {
  return arena_printf(a, "%s/", arena_folder(a, path));
}

int job_text_foresee(const char *path, struct err *err) {
  struct stat st;
  struct arena scratch = {0};
  if (path_is_stream(path)) return 0;
  bool bad = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
  if (bad)
    errno = EISDIR;
  else if (is_plain(path))
    bad = faccessat(AT_FDCWD, folder_of(path, &scratch), W_OK | X_OK, AT_EACCESS) < 0;
  else
    bad = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) < 0;
  const int rc = bad ? cannot_write(path, err) : 0;
  arena_free(&scratch);
  return rc;
}

static int open_text(struct job_text *t, const char *path) {
  t->file = again_create(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  t->is_open = t->file >= 0;
  return t->is_open ? 0 : -1;
}

static void close_text(struct job_text *t) {
  close(t->file);
  TABLE_FREE(t, bytes);
  t->n_bytes = 0;
  t->is_open = false;
}

// The C library's streams lose what they hold where a signal interrupts a write of theirs.
static int flush(struct job_text *t) {
  const size_t n = t->n_bytes;
  t->n_bytes = 0;
  return again_write_all(t->file, t->bytes, n);
}

static int put(struct job_text *t, struct span text) {
  enum { HELD_BYTES = 1 << 16 };
  if (t->n_bytes + text.n > HELD_BYTES && flush(t)) return -1;
  if (text.n > HELD_BYTES) return again_write_all(t->file, text.at, text.n);
  if (text.n == 0) return 0; // nothing has no address
  TABLE_ROOM(t, bytes, text.n);
  memcpy(t->bytes + t->n_bytes, text.at, text.n);
  t->n_bytes += text.n;
  return 0;
}

int job_text_open(struct job_text *t, const char *path, struct arena *a, struct err *err) {
  const bool plain = is_plain(path);
  t->path = path;
  t->temporary = plain ? arena_printf(a, "%s.part", path) : NULL;
  t->on_stdout = path_is_stream(path);
  if (t->on_stdout) return 0;
  if (open_text(t, plain ? t->temporary : path)) return cannot_write(path, err);
  if (plain) observer_remove(t->observer, t->temporary);
  return 0;
}

int job_text_reserve(struct job_text *t, const char *path, struct arena *a, struct err *err) {
  if (job_text_foresee(path, err)) return -1;
  if (is_plain(path) || path_is_stream(path)) return job_text_open(t, path, a, err);
  t->path = path;
  return 0;
}

bool job_text_is_open(const struct job_text *t) {
  return t->is_open || t->on_stdout;
}

int job_text_add(struct job_text *t, struct span piece) {
  if (t->on_stdout) {
    observer_data(t->observer, piece);
    return 0;
  }
  if (put(t, piece) == 0) return 0;
  if (!t->errnum) t->errnum = errno ? errno : EIO; // 0 would be success
  return -1;
}

int job_text_check(const struct job_text *t, struct err *err) {
  if (!t->errnum) return 0;
  errno = t->errnum;
  return cannot_write(t->path, err);
}

int job_text_start(struct job_text *t, struct err *err) {
  if (t->on_stdout || t->is_open || open_text(t, t->path) == 0) return 0;
  return cannot_write(t->path, err);
}

int job_text_end(struct job_text *t, struct span text, struct err *err) {
  if (t->on_stdout) return job_text_add(t, text);
  if (job_text_start(t, err)) return -1;
  if (put(t, text)) return cannot_write(t->path, err);
  return job_text_publish(t, err);
}

int job_text_publish(struct job_text *t, struct err *err) {
  if (t->on_stdout) return 0;
  int failed = flush(t);
  if (!failed) {
    AGAIN(failed, fsync(t->file));
    if (failed && (errno == EINVAL || errno == EROFS)) failed = 0; // pipes, devices
  }
  if (!failed && t->temporary) failed = rename(t->temporary, t->path);
  if (failed) return cannot_write(t->path, err);
  if (t->temporary) observer_keep(t->observer, t->temporary);
  close_text(t);
  return 0;
}

void job_text_drop(struct job_text *t) {
  if (!t->is_open) return;
  close_text(t);
  if (t->temporary) unlink(t->temporary);
  if (t->temporary) observer_keep(t->observer, t->temporary);
}

int job_write_file(const char *path, struct span text, struct err *err) {
  struct arena scratch = {0};
  struct job_text t = {0};
  int rc = job_text_open(&t, path, &scratch, err);
  if (rc == 0) rc = job_text_end(&t, text, err);
  job_text_drop(&t);
  arena_free(&scratch);
  return rc;
}

// ---- names -------------------------------------------------------------------------------------

// The .onnx, and what is written beside it under names made from its own.
static bool is_beside(const struct job *job, const char *base) {
  char manifest[256], tensors[256];
  manifest_name(manifest, job->out.onnx_name);
  manifest_tensors_name(tensors, job->out.onnx_name);
  return strcmp(base, job->out.onnx_name) == 0 || strcmp(base, manifest) == 0 ||
         strcmp(base, tensors) == 0;
}

static bool is_ours(const struct job *job, const char *base) {
  if (is_beside(job, base)) return true;
  if (job->layout.data_name && strcmp(base, job->layout.data_name) == 0) return true;
  for (uint32_t i = 0; job->planned && i < job->plan.n_outputs; i++)
    if (strcmp(base, job->plan.outputs[i].name) == 0) return true;
  return false;
}

static bool stat_folder(const char *path, struct stat *st) {
  struct arena scratch = {0};
  const bool there = stat(folder_of(path, &scratch), st) == 0;
  arena_free(&scratch);
  return there;
}

static bool is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool job_writes(const struct job *job, int folder, const char *name) {
  struct stat st, dest;
  return is_ours(job, name) && fstat(folder, &st) == 0 && fstat(job->out.dest, &dest) == 0 &&
         is_same(&st, &dest);
}

bool job_reads(const struct job *job, const struct stat *st) {
  const char *const beside[] = {job->request->edits, job->request->config};
  struct stat other;
  if (sources_find_inode(job->sources, st->st_dev, st->st_ino) != NO_ID) return true;
  for (size_t i = 0; i < sizeof beside / sizeof beside[0]; i++)
    if (beside[i] && !path_is_stream(beside[i]) && stat(beside[i], &other) == 0 &&
        S_ISREG(other.st_mode) && is_same(&other, st))
      return true;
  return job->request->given && given_files_has(job->request->given, st);
}

// A path that a record is written under, in the end or on the way.
struct record {
  const char *option, *path;
};

enum { RECORDS_MAX = 12 };

static uint32_t list_records(struct job *job, struct record out[RECORDS_MAX]) {
  const struct request_records *r = &job->request->records;
  const struct {
    const char *option, *path, *tail;
  } rows[] = {
      {"edit-log", r->edit_log, ""},       {"plan-out", r->plan, ""},
      {"plan-out", r->plan, ".bin"},       {"report-json", r->report_json, ""},
      {"report-html", r->report_html, ""}, {"provenance", r->provenance, ""},
  };
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (!rows[i].path || path_is_stream(rows[i].path)) continue;
    const char *path = arena_printf(&job->arena, "%s%s", rows[i].path, rows[i].tail);
    out[n++] = (struct record){rows[i].option, path};
    if (is_plain(path))
      out[n++] = (struct record){rows[i].option, arena_printf(&job->arena, "%s.part", path)};
  }
  return n;
}

static int check_record(const struct job *job, const struct record *r, struct err *err) {
  struct stat st, dest;
  const char *whose = NULL;
  if (stat(r->path, &st) == 0 && job_reads(job, &st))
    whose = "input";
  else if (!job->out.folder_is_above && is_ours(job, path_base(r->path)) &&
           stat_folder(r->path, &st) && fstat(job->out.dest, &dest) == 0 && is_same(&st, &dest))
    whose = "output";
  if (!whose) return 0;
  err_set(err, ERR_USAGE, "--%s would overwrite '%s', which belongs to the %s", r->option,
          quote_str(r->path).s, whose);
  return err_hint(err, "give it another name");
}

// Would one replace the other? A device or a pipe takes both.
static bool collide(const struct record *a, const struct record *b) {
  struct stat x, y;
  if (a->option == b->option || !is_plain(a->path)) return false;
  return strcmp(path_base(a->path), path_base(b->path)) == 0 && stat_folder(a->path, &x) &&
         stat_folder(b->path, &y) && is_same(&x, &y);
}

int job_check_files(struct job *job, struct err *err) {
  struct record records[RECORDS_MAX];
  const uint32_t n = list_records(job, records);
  for (uint32_t i = 0; i < n; i++) {
    if (check_record(job, &records[i], err)) return -1;
    for (uint32_t k = 0; k < i; k++) {
      if (!collide(&records[k], &records[i])) continue;
      err_set(err, ERR_USAGE, "--%s and --%s would both write '%s'", records[k].option,
              records[i].option, quote_str(records[i].path).s);
      return err_hint(err, "give one of them another name");
    }
  }
  return 0;
}

// A data file by the name of something else that is written beside it would be lost under it.
int job_check_data_file(const struct job *job, struct err *err) {
  const char *name = job->layout.data_name;
  bool bad = name && (!*name || strchr(name, '/') || is_beside(job, name));
  for (uint32_t i = 0; job->planned && i + 1 < job->plan.n_outputs && !bad; i++) {
    name = job->plan.outputs[i].name;
    bad = is_beside(job, name);
  }
  if (!bad) return 0;
  err_set(err, ERR_USAGE, "the data file of '%s' cannot be named '%s'",
          quote_str(job->out.onnx_name).s, quote_str(name).s);
  return err_hint(err, "the model, its manifest or its digests have that name; choose another one");
}

int job_unnamed_file(void *ctx) {
  const char *in = getenv("TMPDIR");
  (void)ctx;
  return again_create(AT_FDCWD, in && *in ? in : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}
