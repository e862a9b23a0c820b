// {"_type":"https://in-toto.io/Statement/v1",
//  "subject":[{"name":"x.onnx","digest":{"sha256":ROOT}}],
//  "predicateType":"https://model_signing/signature/v1.0",
//  "predicate":{"serialization":{"method":"files","hash_type":"sha256","allow_symlinks":false,
//                                "ignore_paths":["x.onnx.manifest.json",…,"x.onnx.sig"]},
//               "resources":[{"name":"x.onnx","algorithm":"sha256","digest":…},…],
//               "x_weir":{"version":1,"manifest":{"name":"x.onnx.manifest.json","sha256":…},"plan_id":…}}}
//
// ROOT is the SHA-256 of the raw digests of the resources in list order, which is that of names. Files that lie in the
// same folder and are neither listed nor ignored are a verifier's to judge.
#include "stream/seal/manifest_signed.h"

#include "base/arena.h"
#include "stream/seal/inside/manifest_form.h"
#include "stream/sys/reread_files.h"

#include <errno.h>
#include <stdio.h>

// ---- hashing ------------------------------------------------------------------------------------

static int differs(const char *name, struct err *err, const char *how) {
  err_fill(err, ERR_FAIL, "'%s' does not match its manifest: %s", quote_str(name).s, how);
  return err_hint(err, "'weir audit' lists all damage; weir signs only undamaged models");
}

static int open_file(struct folder dir, const char *name, uint64_t size, struct file *fd,
                     struct err *err) {
  struct entry_facts at;
  char how[96];
  *fd = file_open(dir, name, FILE_NO_LINK | FILE_NO_WAIT);
  if (!file_is_open(*fd) && errno == ELOOP) {
    err_fill(err, ERR_PERMISSION,
             "'%s' is a link, and programs that verify signatures do not accept links",
             quote_str(name).s);
    return err_hint(err, "replace the link by the file");
  }
  if (!file_is_open(*fd))
    return err_errno(err, errno, ERR_INPUT, "cannot open '%s'", quote_str(name).s);
  if (file_look(*fd, &at))
    return err_errno(err, errno, ERR_IO, "cannot examine '%s'", quote_str(name).s);
  if (at.kind != ENTRY_FILE) return differs(name, err, "it is not a regular file");
  if (at.size == size) return 0;
  snprintf(how, sizeof how, "it has %s bytes instead of %s", decimal(at.size).s, decimal(size).s);
  return differs(name, err, how);
}

static int refuse_damage(const struct reread_file *files, uint32_t n, struct err *err) {
  char how[96];
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < files[i].n_parts; k++) {
      const struct reread_known *p = &files[i].parts[k];
      if (!p->differs) continue;
      snprintf(how, sizeof how, "bytes %s..%s differ", decimal(p->off).s,
               decimal(p->off + p->len).s);
      return differs(files[i].name, err, how);
    }
  return 0;
}

int manifest_hash_files(const struct manifest *m, struct folder dir, const struct reread_work *work,
                        uint8_t (*sha256)[DIGEST_BYTES], struct err *err) {
  struct arena scratch = {0};
  struct reread_file *files = arena_zalloc(&scratch, m->n_files * sizeof *files + 1);
  struct reread_known *parts = arena_zalloc(&scratch, m->n_shards * sizeof *parts + 1);
  struct file *fds = arena_alloc(&scratch, m->n_files * sizeof *fds + 1);
  uint32_t opened = 0;
  int rc = 0;
  while (rc == 0 && opened < m->n_files) {
    rc = open_file(dir, m->files[opened], m->sizes[opened], &fds[opened], err);
    opened += file_is_open(fds[opened]);
  }
  for (uint32_t i = 0; rc == 0 && i < m->n_shards; i++) {
    const struct manifest_shard *s = &m->shards[i];
    struct reread_file *f = &files[s->file];
    if (f->n_parts++ == 0)
      *f = (struct reread_file){.name = m->files[s->file], .parts = &parts[i], .n_parts = 1};
    parts[i] = (struct reread_known){
        .file = fds[s->file], .off = s->off, .len = s->len, .sha256 = s->digest};
  }
  if (rc == 0) rc = reread_files(files, m->n_files, work, err);
  if (rc == 0) rc = refuse_damage(files, m->n_files, err);
  for (uint32_t i = 0; i < m->n_files && rc == 0; i++)
    memcpy(sha256[i], files[i].sha256, DIGEST_BYTES);
  while (opened > 0)
    file_close(&fds[--opened]);
  arena_free(&scratch);
  return rc;
}

// ---- the statement ------------------------------------------------------------------------------

static void put_serialization(struct json_out *out, const struct manifest *m, const char *name,
                              const char *signature) {
  json_put_object(out, "serialization");
  json_put_text(out, "method", "files");
  json_put_text(out, "hash_type", "sha256");
  json_put_bool(out, "allow_symlinks", false);
  json_put_array(out, "ignore_paths");
  json_text(out, name);
  if (m->lists_tensors) json_text(out, manifest_names(m->subject).tensors);
  json_text(out, signature);
  json_end_array(out);
  json_end_object(out);
}

void manifest_signed_write(struct json_out *out, const struct manifest *m, const char *name,
                           const char *signature, const uint8_t (*sha256)[DIGEST_BYTES]) {
  uint8_t root[DIGEST_BYTES];
  digest_of(sha256, m->n_files * (size_t)DIGEST_BYTES, root);
  json_object(out);
  json_put_text(out, "_type", MANIFEST_STATEMENT_TYPE);
  manifest_put_subject(out, m->subject, root);
  json_put_text(out, "predicateType", MANIFEST_PREDICATE_TYPE);
  json_put_object(out, "predicate");
  put_serialization(out, m, name, signature);
  json_put_array(out, "resources");
  for (uint32_t i = 0; i < m->n_files; i++) {
    json_object(out);
    json_put_text(out, "name", m->files[i]);
    json_put_text(out, "algorithm", "sha256");
    json_put_hex(out, "digest", sha256[i], DIGEST_BYTES);
    json_end_object(out);
  }
  json_end_array(out);
  json_put_object(out, "x_weir");
  json_put_uint(out, "version", X_WEIR_VERSION);
  json_put_object(out, "manifest");
  json_put_text(out, "name", name);
  json_put_hex(out, "sha256", m->sha256, DIGEST_BYTES);
  json_end_object(out);
  json_put_hex(out, "plan_id", m->plan_id, DIGEST_BYTES);
  json_end_object(out);
  json_end_object(out);
  json_end_object(out);
}

static const struct json_value *own_part(const struct manifest_signed *s) {
  return json_get(json_get(s->doc, "predicate"), "x_weir");
}

int manifest_signed_read(struct manifest_signed *s, struct span statement, const char *shown,
                         struct err *err) {
  struct span hex;
  *s = (struct manifest_signed){.doc = json_parse(statement, shown, err), .shown = shown};
  if (!s->doc) return -1;
  const bool about_model = json_is_text(json_get(s->doc, "_type"), MANIFEST_STATEMENT_TYPE) &&
                           json_is_text(json_get(s->doc, "predicateType"), MANIFEST_PREDICATE_TYPE);
  const bool names = json_as_string(json_get(json_get(own_part(s), "manifest"), "sha256"), &hex) &&
                     hex_decode(hex, s->manifest_sha256, DIGEST_BYTES);
  if (about_model && names) return 0;
  manifest_signed_free(s);
  err_fill(err, ERR_MODEL, "the signature '%s' is for %s", quote_path(shown).s,
           about_model ? "a model without a manifest" : "something that is not a model");
  return err_hint(err, "'weir sign' makes a signature that names the manifest");
}

void manifest_signed_free(struct manifest_signed *s) {
  json_free(s->doc);
  s->doc = NULL;
}

static int about_other(const struct manifest_signed *s, const struct json_value *what,
                       const char *wanted, struct err *err) {
  struct span is = span_str("");
  (void)json_as_string(what, &is);
  err_fill(err, ERR_MODEL, "the signature '%s' is for '%s', not for '%s'", quote_path(s->shown).s,
           quote(is).s, quote_str(wanted).s);
  return err_hint(
      err,
      "a signature is valid only for the model that it names, not for a copy under another name");
}

static int inconsistent(const struct manifest_signed *s, const char *file, struct err *err) {
  return err_set(err, ERR_MODEL, "the signature '%s' and the manifest disagree about '%s'",
                 quote_path(s->shown).s, quote_str(file).s);
}

// A file of one shard has one digest in both.
static bool agrees(const struct manifest *m, uint32_t file, const struct json_value *row) {
  uint8_t sha256[DIGEST_BYTES];
  struct span hex;
  const struct manifest_shard *shard = &m->shards[m->first[file]];
  return json_is_text(json_get(row, "name"), m->files[file]) &&
         json_is_text(json_get(row, "algorithm"), "sha256") &&
         json_as_string(json_get(row, "digest"), &hex) && hex_decode(hex, sha256, DIGEST_BYTES) &&
         (m->first[file + 1] - m->first[file] > 1 ||
          memcmp(sha256, shard->digest, DIGEST_BYTES) == 0);
}

int manifest_signed_is_about(const struct manifest_signed *s, const struct manifest *m,
                             const char *name, struct err *err) {
  const struct json_value *manifest = json_get(json_get(own_part(s), "manifest"), "name");
  const struct json_value *subjects = json_get(s->doc, "subject");
  const struct json_value *subject = json_get(json_first(subjects), "name");
  const struct json_value *rows = json_get(json_get(s->doc, "predicate"), "resources");
  const struct json_value *row = json_first(rows);
  if (!json_is_text(manifest, name)) return about_other(s, manifest, name, err);
  if (json_count(subjects) != 1 || !json_is_text(subject, m->subject))
    return about_other(s, subject, m->subject, err);
  for (uint32_t f = 0; f < m->n_files; f++, row = json_next(row))
    if (!row || !agrees(m, f, row)) return inconsistent(s, m->files[f], err);
  return row || !json_is_array(rows) ? inconsistent(s, m->subject, err) : 0;
}
