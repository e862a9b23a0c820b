// header.json, as a run leaves it for the one that resumes it:
//
//   {"weir_staging":2,"version":"0.2.0","plan_id":…,"output":"x.onnx","source_folder":…,"destination":…,
//    "unit_bytes":67108864,
//    "sources":[{"name":…,"size":…,"mtime_ns":…,"ctime_ns":…,"inode":…},…],
//    "resume":"weir conv2matmul …","asked":"…"}
//
// It is written last while a folder is set up, whole or not at all: a folder without it holds
// nothing that counts. Sources are compared by size, mtime, ctime and inode: bytes written by the
// interrupted run and bytes written now must come from the same files. The device number is left
// out, since it may change with a reboot. The folder was found on a disk, so the header is checked
// like any other input; what is malformed counts as absent, and then the run starts afresh.
//
// Versions may make other bytes of the same plan, and mean other things by what lies in the folder: one
// of another version is never gone on with. 0.1.0 wrote form 1, without a version.
#include "stream/staging/inside/staging_header.h"

#include "json/json.h"
#include "stream/staging/staging_join.h"
#include "stream/sys/fs.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADER_FORMAT = 2, HEADER_MAX_BYTES = 256 << 20 };

// The absolute form, where the system can tell it: the header is read from other folders.
static void put_path(struct json_out *j, const char *key, const char *path) {
  char full[PATH_BYTES];
  json_put_text(j, key, path_real(path, full) ? path : full);
}

int staging_header_write(struct folder folder, const uint8_t id[DIGEST_BYTES], struct sources *s,
                         const struct staging_options *options, uint8_t sha256[DIGEST_BYTES],
                         struct err *err) {
  struct json_out j = {0};
  json_object(&j);
  json_put_uint(&j, "weir_staging", HEADER_FORMAT);
  json_put_text(&j, "version", options->version);
  json_put_hex(&j, "plan_id", id, DIGEST_BYTES);
  json_put_text(&j, "output", options->onnx_name);
  put_path(&j, "source_folder", sources_folder(s));
  put_path(&j, "destination", options->dest_folder);
  json_put_uint(&j, "unit_bytes", PLAN_UNIT_BYTES);
  json_put_array(&j, "sources");
  for (uint32_t file = 0; file < sources_count(s); file++) {
    const struct fingerprint at = sources_fingerprint(s, file);
    json_newline(&j);
    json_object(&j);
    json_put_text(&j, "name", sources_name(s, file));
    json_put_uint(&j, "size", at.size);
    json_put_int(&j, "mtime_ns", at.mtime_ns);
    json_put_int(&j, "ctime_ns", at.ctime_ns);
    json_put_uint(&j, "inode", at.ino);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_put_text(&j, "resume", options->resume_command ? options->resume_command : "");
  if (options->asked) json_put_text(&j, "asked", options->asked);
  json_end_object(&j);
  json_newline(&j);
  digest_of(j.text, j.n, sha256);
  const int bad = fs_put_file(folder, "header.json", span_of(j.text, j.n), err);
  json_done(&j);
  return bad;
}

static void see_who_made(struct staging_header *h, uint64_t format, const char *version) {
  struct span its = {0};
  const bool named = json_as_string(json_get(h->doc, "version"), &its);
  if (format == HEADER_FORMAT && named && span_is(its, version)) return;
  if (named && !span_is(its, version))
    snprintf(h->made_by, sizeof h->made_by, "weir %.40s", quote(its).s);
  else
    snprintf(h->made_by, sizeof h->made_by, format == 1 ? "weir 0.1.0" : "another build of weir");
}

int staging_header_read(struct folder folder, const char *version, struct staging_header *h,
                        struct err *err) {
  memset(h, 0, sizeof *h);
  struct span text;
  if (fs_read_own(folder, "header.json", HEADER_MAX_BYTES, "the staging folder", &text, err))
    return err->kind == ERR_NONE ? 0 : -1;
  digest_of(text.at, text.n, h->sha256);
  struct err malformed = {0};
  h->doc = json_parse(text, "header.json", &malformed);
  fs_free(text);
  uint64_t format = 0, unit = 0;
  if (!h->doc || !json_as_uint(json_get(h->doc, "weir_staging"), &format)) return 0;
  see_who_made(h, format, version);
  h->usable = !h->made_by[0] && json_as_uint(json_get(h->doc, "unit_bytes"), &unit) &&
              unit == PLAN_UNIT_BYTES && json_is_array(json_get(h->doc, "sources"));
  return 0;
}

void staging_header_free(struct staging_header *h) {
  if (h->doc) json_free(h->doc);
  memset(h, 0, sizeof *h);
}

bool staging_header_is_of(const struct staging_header *h, const uint8_t id[DIGEST_BYTES]) {
  struct span text;
  uint8_t its[DIGEST_BYTES];
  return h->usable && json_as_string(json_get(h->doc, "plan_id"), &text) &&
         hex_decode(text, its, DIGEST_BYTES) && memcmp(its, id, DIGEST_BYTES) == 0;
}

static bool read_source(const struct json_value *row, struct span *name, struct fingerprint *f) {
  return json_as_string(json_get(row, "name"), name) &&
         json_as_uint(json_get(row, "size"), &f->size) &&
         json_as_int(json_get(row, "mtime_ns"), &f->mtime_ns) &&
         json_as_int(json_get(row, "ctime_ns"), &f->ctime_ns) &&
         json_as_uint(json_get(row, "inode"), &f->ino);
}

static int source_changed(const struct sources *s, uint32_t file, const char *how,
                          enum staging_header_left left, struct err *err) {
  const bool measured = left == STAGING_HEADER_MEASURED;
  err_set(err, ERR_INPUT, "source '%s' changed since %s (%s)", sources_shown(s, file).s,
          measured ? "its weights were measured" : "the interrupted run", how);
  if (measured) return err_because(err, REASON_MEASURED_OLD);
  return err_because(err, REASON_WRITTEN_OLD);
}

static int same_source(const struct json_value *row, const struct sources *s, uint32_t file,
                       enum staging_header_left left, struct err *err) {
  struct span name;
  struct fingerprint then = {0};
  const struct fingerprint now = sources_fingerprint(s, file);
  const char *is = sources_name(s, file);
  if (!read_source(row, &name, &then) || !span_is(name, is))
    return source_changed(s, file, "another file, or it has no record", left, err);
  char sizes[80];
  snprintf(sizes, sizeof sizes, "%s bytes then, %s now", decimal(then.size).s, decimal(now.size).s);
  if (then.size != now.size) return source_changed(s, file, sizes, left, err);
  if (then.mtime_ns != now.mtime_ns)
    return source_changed(s, file, "same size, different mtime", left, err);
  if (then.ino != now.ino)
    return source_changed(s, file, "same size and mtime, different inode", left, err);
  if (then.ctime_ns != now.ctime_ns)
    return source_changed(s, file, "same size and mtime, different ctime", left, err);
  return 0;
}

int staging_header_same_sources(const struct staging_header *h, const struct sources *s,
                                enum staging_header_left left, struct err *err) {
  const struct json_value *rows = json_get(h->doc, "sources");
  if (json_count(rows) != sources_count(s))
    return source_changed(s, 0, "it refers to other data files", left, err);
  uint32_t file = 0;
  for (const struct json_value *row = json_first(rows); row; row = json_next(row))
    if (same_source(row, s, file++, left, err)) return -1;
  return 0;
}

const char *staging_header_resume(const struct staging_header *h) {
  struct span text;
  if (!h->doc || !json_as_string(json_get(h->doc, "resume"), &text) || text.n == 0) return NULL;
  return (const char *)text.at; // json strings are NUL-terminated
}

struct span staging_header_source_folder(const struct staging_header *h) {
  struct span text = {0};
  json_as_string(json_get(h->doc, "source_folder"), &text);
  return text;
}

struct staging_source *staging_header_sources(const struct staging_header *h, struct arena *a,
                                              uint32_t *n) {
  const struct json_value *rows = json_get(h->doc, "sources");
  struct staging_source *list = arena_alloc(a, json_count(rows) * sizeof *list + 1);
  *n = 0;
  for (const struct json_value *row = json_first(rows); row; row = json_next(row)) {
    struct span name = {0};
    struct fingerprint then = {0};
    (void)read_source(row, &name, &then); // what is none is no file of the plan's either
    list[(*n)++] = (struct staging_source){
        .name = arena_string(a, name), .size = then.size, .mtime_ns = then.mtime_ns};
  }
  return list;
}

// Is a file of the folder what a row says?
static bool is_as_it_was(struct folder folder, const struct json_value *row) {
  struct span name;
  struct fingerprint then;
  struct entry_facts now;
  return read_source(row, &name, &then) &&
         entry_look(folder, (const char *)name.at, 0, &now) == 0 && now.number == then.ino &&
         now.size == then.size && now.modified_ns == then.mtime_ns;
}

bool staging_header_is_same_job(const struct staging_header *h, const struct staging_job *job) {
  struct span text;
  char full[PATH_BYTES];
  const char *its = staging_header_resume(h);
  if (!h->usable || !its || strcmp(its, job->command) != 0) return false;
  if (!job->asked || !json_as_string(json_get(h->doc, "asked"), &text) ||
      !span_is(text, job->asked))
    return false;
  if (path_real(job->source_folder, full) ||
      !json_as_string(json_get(h->doc, "source_folder"), &text) || !span_is(text, full))
    return false;
  if (job->inplace) return true; // its input may be its output by now
  struct folder folder = folder_open(HERE, full, 0);
  bool same = folder_is_open(folder);
  const struct json_value *rows = json_get(h->doc, "sources");
  for (const struct json_value *row = json_first(rows); same && row; row = json_next(row))
    same = is_as_it_was(folder, row);
  folder_close(&folder);
  return same;
}
