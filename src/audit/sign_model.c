// MANIFEST ──manifest_hash_files──▶ all of the model's files? ──▶ statement ──key──▶ OUT.onnx.sig.tmp ──▶ OUT.onnx.sig
//                                       │
//            the signature that is there says the same, by this key ──▶ it stays
//
// Two signatures of one statement differ, so one that is good is never made again: a second call changes nothing.
#include "audit/sign_model.h"

#include "audit/audit_files.h"
#include "audit/bundle.h"
#include "stream/seal/manifest_signed.h"
#include "stream/sys/fs.h"

#include <errno.h>
#include <stdio.h>

enum { KEY_MAX_BYTES = 1 << 20, SIGNATURE_MAX_BYTES = 64 << 20 };

int sign_model_key(struct sign_key **out, const char *path, enum sign_key_half half,
                   struct err *err) {
  struct span text;
  if (fs_read_file(HERE, path, KEY_MAX_BYTES, &text, err)) {
    if (err->kind != ERR_NONE) return -1;
    return err_set(err, ERR_INPUT, "there is no key '%s'", quote_path(path).s);
  }
  const int rc = sign_key_parse(out, text, half, path, err);
  span_wipe(text);
  fs_free(text);
  return rc;
}

static struct folder open_folder(const struct audit_target *t, struct err *err) {
  struct folder dir = folder_open(HERE, t->folder, 0);
  if (!folder_is_open(dir))
    err_fill_errno(err, errno, ERR_INPUT, "cannot open the folder of '%s'",
                   quote_path(t->manifest).s);
  return dir;
}

// What a rename would replace without having looked at it.
static int refuse_link(struct folder dir, const struct audit_target *t, bool *there,
                       struct err *err) {
  struct entry_facts at;
  *there = entry_look(dir, path_base(t->signature), FILE_NO_LINK, &at) == 0;
  if (!*there || at.kind == ENTRY_FILE) return 0;
  err_fill(err, ERR_PERMISSION, "'%s', where the signature belongs, is a %s",
           quote_path(t->signature).s,
           at.kind == ENTRY_LINK     ? "link"
           : at.kind == ENTRY_FOLDER ? "folder"
                                     : "device, a pipe or a socket");
  return err_hint(err, "move it away");
}

static bool is_signed(struct folder dir, const struct audit_target *t, const struct sign_key *key,
                      struct span statement) {
  struct span text;
  struct bundle b;
  struct err ignored = {0}; // it is replaced
  if (fs_read_file(dir, path_base(t->signature), SIGNATURE_MAX_BYTES, &text, &ignored))
    return false;
  const bool good = bundle_read(&b, text, t->signature, &ignored) == 0 &&
                    span_eq(b.payload, statement) && bundle_is_by(&b, key);
  bundle_free(&b);
  fs_free(text);
  return good;
}

static int read_manifest(struct manifest *m, struct folder dir, const struct audit_target *t,
                         const uint8_t *sha256, struct err *err) {
  const struct manifest_at at = {dir, path_base(t->manifest), t->manifest, t->about, sha256};
  return manifest_read(m, &at, err);
}

static int hash(const struct manifest *m, struct folder dir, const struct work_options *work,
                uint8_t (*sha256)[DIGEST_BYTES], struct err *err) {
  const struct reread_work check = {
      .jobs = work->jobs, .stop = work->stop, .tick = observer_tick_bytes, .ctx = work->observer};
  observer_begin(work->observer, "checking");
  const int rc = manifest_hash_files(m, dir, &check, sha256, err);
  observer_end(work->observer);
  return rc;
}

static int put(struct folder dir, const struct audit_target *t, const struct sign_key *key,
               struct span statement, struct err *err) {
  struct json_out text = {0};
  int rc = bundle_write(&text, key, statement, err);
  if (rc == 0) rc = fs_put_file(dir, path_base(t->signature), span_of(text.text, text.n), err);
  if (rc == 0) rc = fs_sync_folder(dir, t->folder, err);
  json_done(&text);
  return rc;
}

static int sign_in(struct folder dir, const struct audit_target *t, const struct sign_key *key,
                   const struct work_options *work, struct sign_model *out, struct err *err) {
  struct manifest m;
  struct json_out statement = {0};
  bool there;
  *out = (struct sign_model){0};
  if (refuse_link(dir, t, &there, err) || read_manifest(&m, dir, t, NULL, err)) return -1;
  uint8_t(*sha256)[DIGEST_BYTES] = arena_alloc(&m.arena, m.n_files * sizeof *sha256 + 1);
  int rc = hash(&m, dir, work, sha256, err);
  if (rc == 0) rc = audit_files_refuse(t, &m, err);
  if (rc == 0) {
    manifest_signed_write(&statement, &m, path_base(t->manifest), path_base(t->signature),
                          (const uint8_t(*)[DIGEST_BYTES])sha256);
    const struct span text = span_of(statement.text, statement.n);
    out->was_signed = there && is_signed(dir, t, key, text);
    out->replaced = there && !out->was_signed;
    if (!out->was_signed) rc = put(dir, t, key, text, err);
  }
  out->files = m.n_files;
  for (uint32_t i = 0; i < m.n_files; i++)
    out->bytes += m.sizes[i];
  json_done(&statement);
  manifest_free(&m);
  return rc;
}

int sign_model(const struct audit_target *t, const struct sign_key *key,
               const struct work_options *work, struct sign_model *out, struct err *err) {
  struct folder dir = open_folder(t, err);
  if (!folder_is_open(dir)) return -1;
  const int rc = sign_in(dir, t, key, work, out, err);
  folder_close(&dir);
  return rc;
}

// ---- checking -----------------------------------------------------------------------------------

static int judge(const struct bundle *b, const struct audit_target *t, const struct sign_key *key,
                 struct manifest_signed *out, struct err *err) {
  if (b->key_id.n > 0 && !span_is(b->key_id, sign_key_id(key)))
    return err_set(err, ERR_FAIL, "'%s' was signed with another key: %.16s... instead of %.16s...",
                   quote_path(t->signature).s, quote(b->key_id).s, sign_key_id(key));
  if (!bundle_is_by(b, key))
    return err_set(
        err, ERR_FAIL,
        "the signature in '%s' is not valid: it, or the statement that it signs, was changed",
        quote_path(t->signature).s);
  return manifest_signed_read(out, b->payload, t->signature, err);
}

static int read_signature(struct manifest_signed *out, const struct audit_target *t,
                          const struct sign_key *key, struct err *err) {
  struct span text;
  struct bundle b;
  if (fs_read_file(HERE, t->signature, SIGNATURE_MAX_BYTES, &text, err)) {
    if (err->kind != ERR_NONE) return -1;
    err_fill(err, ERR_INPUT, "there is no signature '%s'", quote_path(t->signature).s);
    return err_hint(err, "'weir sign' makes it");
  }
  int rc = bundle_read(&b, text, t->signature, err);
  if (rc == 0) rc = judge(&b, t, key, out, err);
  bundle_free(&b);
  fs_free(text);
  return rc;
}

int sign_model_read(struct manifest *m, struct folder *dir, const struct sign_model_reader *who,
                    const struct audit_target *t, struct sign_key **key, struct err *err) {
  const char *path = who->public_key;
  struct manifest_signed was = {.doc = NULL};
  struct arena scratch = {0};
  *m = (struct manifest){.n_files = 0};
  if (path &&
      (sign_model_key(key, path, SIGN_KEY_PUBLIC, err) || read_signature(&was, t, *key, err)))
    return -1;
  *dir = open_folder(t, err);
  int rc = -1;
  if (folder_is_open(*dir)) rc = read_manifest(m, *dir, t, path ? was.manifest_sha256 : NULL, err);
  if (rc && err->kind == ERR_INPUT) audit_target_hint(who->operand, who->command, &scratch, err);
  if (rc == 0 && path) rc = manifest_signed_is_about(&was, m, path_base(t->manifest), err);
  manifest_signed_free(&was);
  arena_free(&scratch);
  return rc;
}
