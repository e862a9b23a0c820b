// Where artifacts lie, and how a run that goes on finds them again.
//
//   .x.onnx.<request>.weir/                     .x.onnx.<plan>.weir/
//     lock  header.json  <sha256>     ──▶         …  artifacts/<sha256>
//     (while there is no plan)                    (from then on)
//
// An artifact is put in place whole, under the digest of its bytes: a file whose name is not its
// digest counts as absent, and so does one that answers another question. The header is that of a
// staging folder: it holds the identities of the sources, and an answer about other weights is
// refused.
#include "stream/staging/artifact.h"

#include "resources/resources.h"
#include "stream/staging/inside/staging_header.h"
#include "stream/staging/staging_folder.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARTIFACT_FORMAT = 1 };

static void add_text(struct digest *d, const void *at, size_t n) {
  const uint64_t length = n; // so that no two lists of texts run together alike
  digest_add(d, &length, sizeof length);
  if (n > 0) digest_add(d, at, n);
}

void artifact_request_id(const struct artifact_request *q, uint8_t id[DIGEST_BYTES]) {
  struct digest *d = digest_new();
  add_text(d, q->meta_sha256, DIGEST_BYTES);
  // The first file is the .onnx itself: what matters of it is in meta_sha256, and its name does
  // not.
  for (uint32_t i = 0; i < sources_count(q->sources); i++) {
    char size[24];
    if (i > 0) add_text(d, sources_name(q->sources, i), strlen(sources_name(q->sources, i)));
    const int n = snprintf(size, sizeof size, "%s", decimal(sources_size(q->sources, i)).s);
    add_text(d, size, (size_t)n);
  }
  add_text(d, q->stage, strlen(q->stage));
  add_text(d, q->options.at, q->options.n);
  digest_finish(d, id);
}

void artifact_begin(struct json_out *j, const struct artifact_request *q,
                    const uint8_t id[DIGEST_BYTES]) {
  json_object(j);
  json_put_uint(j, "weir_artifact", ARTIFACT_FORMAT);
  json_put_text(j, "stage", q->stage);
  json_put_hex(j, "request_id", id, DIGEST_BYTES);
  json_end_object(j);
  json_newline(j);
}

// ---- finding -----------------------------------------------------------------------------------

// Is this the first line of an answer to the question?
static bool answers(struct span text, const uint8_t id[DIGEST_BYTES]) {
  const uint8_t *end = text.n ? memchr(text.at, '\n', text.n) : NULL;
  struct err malformed = {0};
  struct span hex;
  uint8_t its[DIGEST_BYTES];
  uint64_t format;
  if (!end) return false;
  struct json_value *head =
      json_parse(span_of(text.at, (size_t)(end - text.at)), "artifact", &malformed);
  const bool same = head && json_as_uint(json_get(head, "weir_artifact"), &format) &&
                    format == ARTIFACT_FORMAT &&
                    json_as_string(json_get(head, "request_id"), &hex) &&
                    hex_decode(hex, its, sizeof its) && memcmp(its, id, sizeof its) == 0;
  if (head) json_free(head);
  return same;
}

struct finding {
  struct artifact *a;
  struct folder folder; // the one that is listed
};

// Takes the file if it is the answer: 1, so that the listing ends.
static int take_file(void *ctx, const char *name) {
  const struct finding *f = ctx;
  struct artifact *a = f->a;
  uint8_t named[DIGEST_BYTES], is[DIGEST_BYTES];
  struct err ignored = {0}; // what cannot be read is not there: the stage runs again
  struct span text;
  if (!hex_decode(span_str(name), named, sizeof named) ||
      fs_read_own(f->folder, name, ARTIFACT_BYTES_MAX, "artifacts", &text, &ignored))
    return 0;
  digest_of(text.at, text.n, is);
  if (memcmp(named, is, sizeof is) != 0 || !answers(text, a->id)) {
    fs_free(text);
    return 0;
  }
  memcpy(a->sha256, is, sizeof is);
  a->text = text;
  return 1;
}

// Looks in a folder of artifacts whose header lies in `folder`.
static int look_in(struct artifact *a, const struct artifact_request *q, struct folder folder,
                   struct folder artifacts, struct err *err) {
  struct finding f = {.a = a, .folder = artifacts};
  struct staging_header h;
  if (fs_list(artifacts, take_file, &f, "artifacts", err) < 0) return -1;
  if (!a->text.at) return 0;
  struct err changed = {0};
  int bad = staging_header_read(folder, q->version, &h, err);
  if (bad) return -1;
  const bool same = h.usable && staging_header_same_sources(&h, q->sources, STAGING_HEADER_MEASURED,
                                                            &changed) == 0;
  if (h.usable && !same && q->resume) {
    *err = changed;
    bad = -1;
  } else if (!same) { // of other sources, or whose nobody knows: as if it were not there
    fs_free(a->text);
    a->text = (struct span){0};
  }
  staging_header_free(&h);
  return bad;
}

struct search {
  struct artifact *a;
  const struct artifact_request *q;
  struct folder dest;
  struct err *err;
};

// One staging folder of OUT: 1 found, -1 failed.
static int search_entry(void *ctx, const char *name) {
  const struct search *s = ctx;
  if (!staging_name_is(name, s->q->onnx_name) ||
      staging_seal_in(s->dest, name) == STAGING_SEAL_FINISHED)
    return 0;
  struct folder folder = folder_open(s->dest, name, FILE_NO_LINK);
  if (!folder_is_open(folder)) return 0;
  struct folder artifacts = folder_open(folder, "artifacts", FILE_NO_LINK);
  int rc = 0;
  if (folder_is_open(artifacts)) {
    rc = look_in(s->a, s->q, folder, artifacts, s->err);
    folder_close(&artifacts);
  }
  folder_close(&folder);
  return rc ? rc : s->a->text.at != NULL;
}

static int search_plans(struct artifact *a, const struct artifact_request *q, struct err *err) {
  struct search s = {.a = a, .q = q, .err = err};
  if (staging_open_dest(q->dest_folder, &s.dest, err)) return -1;
  const int rc = fs_list(s.dest, search_entry, &s, q->dest_folder, err);
  folder_close(&s.dest);
  return rc < 0 ? -1 : 0;
}

// ---- a stage -----------------------------------------------------------------------------------

static int set_up(struct artifact *a, const struct artifact_request *q, struct err *err) {
  const struct staging_options options = {.dest_folder = q->dest_folder,
                                          .onnx_name = q->onnx_name,
                                          .resume_command = q->resume_command,
                                          .version = q->version};
  uint8_t unused[DIGEST_BYTES];
  if (staging_empty(a->at.folder, a->at.name, err)) return -1;
  return staging_header_write(a->at.folder, a->id, q->sources, &options, unused, err);
}

// Opens the stage's own folder, with `how` as staging_enter has it.
static int open_own(struct artifact *a, const struct artifact_request *q, enum staging_entry how,
                    bool *made, struct err *err) {
  return staging_open_bare(&a->at, q->dest_folder, q->onnx_name, a->id, how, made, err);
}

void artifact_open_null(struct artifact *a, const struct artifact_request *q) {
  *a = (struct artifact){.text = {0}};
  artifact_request_id(q, a->id);
}

int artifact_open(struct artifact *a, const struct artifact_request *q, struct err *err) {
  bool made;
  artifact_open_null(a, q);
  if (!q->fresh && search_plans(a, q, err)) goto fail;
  if (a->text.at) {
    // A run that ended between the move of its artifact and the removal of the folder left that: it
    // goes at the end, as our own would. Another run may have it.
    struct err ignored = {0};
    (void)open_own(a, q, STAGING_FOUND, &made, &ignored);
    return 0;
  }
  if (open_own(a, q, STAGING_MAKE, &made, err)) goto fail;
  if (!q->fresh && !made &&
      (staging_check_version(&a->at, q->version, err) || staging_check_entries(&a->at, err) ||
       look_in(a, q, a->at.folder, a->at.folder, err)))
    goto fail;
  if (!a->text.at && set_up(a, q, err)) goto fail;
  return 0;
fail:
  artifact_end(a, true);
  return -1;
}

// Is what lies in the folder of this request, and of the sources as they are?
static int look_at_header(struct artifact *a, const struct artifact_request *q, bool *same,
                          struct err *err) {
  struct staging_header h;
  struct err changed = {0};
  if (staging_header_read(a->at.folder, q->version, &h, err)) return -1;
  *same = staging_header_is_of(&h, a->id) &&
          staging_header_same_sources(&h, q->sources, STAGING_HEADER_MEASURED, &changed) == 0;
  const int bad = h.usable && !*same && q->resume && changed.kind != ERR_NONE ? -1 : 0;
  if (bad) *err = changed;
  staging_header_free(&h);
  return bad;
}

int artifact_open_parts(struct artifact *a, const struct artifact_request *q, bool *kept,
                        struct err *err) {
  bool made;
  *kept = false;
  artifact_open_null(a, q);
  if (open_own(a, q, STAGING_MAKE, &made, err)) goto fail;
  if (!q->fresh && !made &&
      (staging_check_version(&a->at, q->version, err) || staging_check_entries(&a->at, err) ||
       look_at_header(a, q, kept, err)))
    goto fail;
  if (!*kept && set_up(a, q, err)) goto fail;
  return 0;
fail:
  artifact_end(a, true);
  return -1;
}

int artifact_put(struct artifact *a, struct span text, struct err *err) {
  uint8_t *copy = arena_must(resources_alloc(text.n + 1), text.n + 1);
  memcpy(copy, text.at, text.n);
  a->text = span_of(copy, text.n);
  digest_of(text.at, text.n, a->sha256);
  if (!folder_is_open(a->at.folder)) return 0;
  if (fs_put_file(a->at.folder, digest_hex(a->sha256).s, text, err)) return -1;
  return fs_sync_folder(a->at.folder, a->at.name, err);
}

int artifact_move(struct artifact *a, const struct staging *st, struct err *err) {
  const struct digest_hex hex = digest_hex(a->sha256);
  if (!folder_is_open(st->folder)) return 0;
  if (folder_make(st->folder, "artifacts", 0777) && errno != EEXIST)
    return err_errno(err, errno, ERR_IO, "cannot make 'artifacts' in '%s'", quote_str(st->name).s);
  struct folder to = folder_open(st->folder, "artifacts", FILE_NO_LINK);
  if (!folder_is_open(to))
    return err_errno(err, errno, ERR_IO, "cannot open 'artifacts' in '%s'", quote_str(st->name).s);
  int bad = 0;
  if (!staging_has(to, hex.s)) bad = fs_put_file(to, hex.s, a->text, err);
  if (!bad) bad = fs_sync_folder(to, "artifacts", err);
  folder_close(&to);
  if (!bad) bad = fs_sync_folder(st->folder, st->name, err);
  return bad;
}

void artifact_end(struct artifact *a, bool keep) {
  struct err ignored = {0}; // a folder that stays is listed by clean
  if (folder_is_open(a->at.folder) && !keep) staging_remove(&a->at, &ignored);
  if (folder_is_open(a->at.folder)) staging_close(&a->at);
  if (a->text.at) fs_free(a->text);
  *a = (struct artifact){.text = {0}};
}
