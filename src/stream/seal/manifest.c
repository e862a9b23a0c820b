// The manifest: written once, read back by whoever checks.
//
// The form is that of OpenSSF Model Signing, so that other people's verifiers accept it:
//
//   {"_type":"https://in-toto.io/Statement/v1",
//    "subject":[{"name":"x.onnx","digest":{"sha256":ROOT}}],
//    "predicateType":"https://model_signing/signature/v1.0",
//    "predicate":{"serialization":{"method":"shards","hash_type":"sha256","shard_size":67108864,
//                                  "allow_symlinks":false,"ignore_paths":[…]},
//                 "resources":[{"name":"x.onnx:0:1234","digest":…,
//                               "algorithm":"sha256-sharded-67108864"},…],
//                 "x_weir":{…}}}
//
// ROOT is the SHA-256 of the raw digests of the resources in list order: by name, then by start. A
// shard is a unit, so every digest was made while writing. Verifiers pass over x_weir, which holds
// what is needed to make the outputs again. Everything is a function of the plan and the bytes, so
// two runs give two equal manifests.
//
// Reading doubts the text: it may come from anywhere. Only base names are accepted, a file's shards
// must follow each other from 0 and be cut and hashed as the text says, the root digest must match, and
// subject, x_weir.output and one of the files must be one model, before a single file is opened.
#include "stream/seal/manifest.h"

#include "stream/seal/inside/manifest_form.h"
#include "stream/sys/fs.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { MANIFEST_MAX_BYTES = 1 << 30 };

bool manifest_can_name(const char *output) {
  return output[0] != '\0' && !strpbrk(output, ":/") && strcmp(output, ".") != 0 &&
         strcmp(output, "..") != 0;
}

struct manifest_names manifest_names(const char *onnx_name) {
  struct manifest_names n;
  snprintf(n.manifest, sizeof n.manifest, "%s.manifest.json", onnx_name);
  snprintf(n.tensors, sizeof n.tensors, "%s.tensors.jsonl", onnx_name);
  snprintf(n.signature, sizeof n.signature, "%s.sig", onnx_name);
  return n;
}

// ---- writing ----

struct shard_row {
  const char *name;
  uint32_t unit;
  uint64_t off, len;
};

static int by_name_and_start(const void *a, const void *b) {
  const struct shard_row *x = a, *y = b;
  const int names = strcmp(x->name, y->name);
  if (names != 0) return names;
  return x->off < y->off ? -1 : x->off > y->off;
}

static struct shard_row *sorted_shards(const struct plan *p, struct arena *a, uint32_t *n) {
  *n = plan_unit_count(p);
  struct shard_row *rows = arena_alloc(a, *n * sizeof *rows + 1);
  for (uint32_t unit = 0; unit < *n; unit++) {
    const struct plan_unit u = plan_unit_at(p, unit);
    rows[unit] = (struct shard_row){
        .name = p->outputs[u.output].name, .unit = unit, .off = u.off, .len = u.len};
  }
  qsort(rows, *n, sizeof *rows, by_name_and_start);
  return rows;
}

static void digest_root(const uint8_t (*units)[DIGEST_BYTES], const struct shard_row *rows,
                        uint32_t n, uint8_t root[DIGEST_BYTES]) {
  struct digest *d = digest_new();
  for (uint32_t i = 0; i < n; i++)
    digest_add(d, units[rows[i].unit], DIGEST_BYTES);
  digest_finish(d, root);
}

void manifest_root(const struct plan *p, const uint8_t (*units)[DIGEST_BYTES],
                   uint8_t root[DIGEST_BYTES]) {
  struct arena scratch = {0};
  uint32_t n;
  const struct shard_row *rows = sorted_shards(p, &scratch, &n);
  digest_root(units, rows, n, root);
  arena_free(&scratch);
}

void manifest_put_subject(struct json_out *out, const char *name,
                          const uint8_t root[DIGEST_BYTES]) {
  json_put_array(out, "subject");
  json_object(out);
  json_put_text(out, "name", name);
  json_put_object(out, "digest");
  json_put_hex(out, "sha256", root, DIGEST_BYTES);
  json_end_object(out);
  json_end_object(out);
  json_end_array(out);
}

static void put_x_weir(struct json_out *out, const struct manifest_input *in) {
  const struct plan *p = in->plan;
  json_newline(out);
  json_put_object(out, "x_weir");
  json_put_uint(out, "version", X_WEIR_VERSION);
  json_put_text(out, "weir", in->weir_version);
  json_put_hex(out, "plan_id", p->id, DIGEST_BYTES);
  json_put_raw(out, "passes", span_str(p->passes ? p->passes : "[]"));
  json_put_raw(out, "layout", span_str(p->layout ? p->layout : "{}"));
  json_put_text(out, "output", p->outputs[p->n_outputs - 1].name);
  json_put_object(out, "source");
  json_put_text(out, "name", p->n_sources > 0 ? p->sources[0].name : "");
  json_put_hex(out, "meta_sha256", p->meta_sha256, DIGEST_BYTES);
  json_put_array(out, "files");
  for (uint32_t i = 0; i < p->n_sources; i++) {
    json_newline(out);
    json_object(out);
    json_put_text(out, "name", p->sources[i].name);
    json_put_uint(out, "size", p->sources[i].size);
    json_put_text(out, "sha256", in->source_sha256 ? in->source_sha256[i] : NULL);
    json_end_object(out);
  }
  json_end_array(out);
  json_end_object(out);
  json_put_raw(out, "layout_asked", span_str(in->layout_asked ? in->layout_asked : "null"));
  json_put_text(out, "edits_sha256", in->edits_sha256);
  json_put_text(out, "tensors_sha256", in->tensors_sha256);
  json_put_raw(out, "artifacts", span_str(p->artifacts ? p->artifacts : "[]"));
  json_end_object(out);
}

int manifest_write(struct json_out *out, const struct manifest_input *in, struct err *err) {
  const struct plan *p = in->plan;
  assert(p->n_outputs > 0);
  for (uint32_t i = 0; i < p->n_outputs; i++)
    if (!manifest_can_name(p->outputs[i].name)) {
      err_set(err, ERR_USAGE,
              "the output name '%s' cannot be used in a manifest (it contains a ':')",
              quote_str(p->outputs[i].name).s);
      return err_because(err, REASON_MANIFEST_NAME);
    }
  struct arena scratch = {0};
  uint32_t n;
  uint8_t root[DIGEST_BYTES];
  const struct shard_row *rows = sorted_shards(p, &scratch, &n);
  json_object(out);
  json_put_text(out, "_type", MANIFEST_STATEMENT_TYPE);
  digest_root(in->unit_digests, rows, n, root);
  manifest_put_subject(out, p->outputs[p->n_outputs - 1].name, root);
  json_put_text(out, "predicateType", MANIFEST_PREDICATE_TYPE);
  json_put_object(out, "predicate");
  json_put_object(out, "serialization");
  json_put_text(out, "method", "shards");
  json_put_text(out, "hash_type", "sha256");
  json_put_uint(out, "shard_size", PLAN_UNIT_BYTES);
  json_put_bool(out, "allow_symlinks", false);
  if (in->n_ignore_paths > 0) {
    json_put_array(out, "ignore_paths");
    for (uint32_t i = 0; i < in->n_ignore_paths; i++)
      json_text(out, in->ignore_paths[i]);
    json_end_array(out);
  }
  json_end_object(out);
  char algorithm[48], name[320];
  snprintf(algorithm, sizeof algorithm, "sha256-sharded-%s", decimal(PLAN_UNIT_BYTES).s);
  json_put_array(out, "resources");
  for (uint32_t i = 0; i < n; i++) {
    snprintf(name, sizeof name, "%s:%s:%s", rows[i].name, decimal(rows[i].off).s,
             decimal(rows[i].off + rows[i].len).s);
    json_newline(out);
    json_object(out);
    json_put_text(out, "name", name);
    json_put_text(out, "algorithm", algorithm);
    json_put_hex(out, "digest", in->unit_digests[rows[i].unit], DIGEST_BYTES);
    json_end_object(out);
  }
  json_end_array(out);
  put_x_weir(out, in);
  json_end_object(out);
  json_end_object(out);
  json_newline(out);
  arena_free(&scratch);
  return 0;
}

// ---- reading ----

struct reading {
  struct manifest *m;
  const char *shown;
  const char *algorithm; // of every resource
  struct err *err;
};

static int no_manifest(const struct reading *r, const char *why) {
  return err_set(r->err, ERR_MODEL, "'%s' is not a manifest written by weir: %s",
                 quote_str(r->shown).s, why);
}

static int check_form(const struct reading *r, const struct json_value *doc) {
  const struct json_value *predicate = json_get(doc, "predicate");
  const struct json_value *how = json_get(predicate, "serialization");
  if (!json_is_text(json_get(doc, "_type"), MANIFEST_STATEMENT_TYPE) ||
      !json_is_text(json_get(doc, "predicateType"), MANIFEST_PREDICATE_TYPE))
    return no_manifest(r, "it is not an in-toto statement about a model");
  if (!json_is_text(json_get(how, "method"), "shards") ||
      !json_is_text(json_get(how, "hash_type"), "sha256"))
    return no_manifest(r, "its method is not SHA-256 over shards");
  if (!json_is_object(json_get(predicate, "x_weir")) ||
      !json_is_array(json_get(predicate, "resources")) || json_count(json_get(doc, "subject")) != 1)
    return no_manifest(r, "its subject, its resources or x_weir is missing");
  return 0;
}

// The last ':'-separated field of *text, which loses it.
static bool take_last_number(struct span *text, uint64_t *out) {
  const struct span last = span_behind(*text, ':');
  if (last.n == text->n || last.n == 0 || last.n > 19) return false;
  *out = 0;
  for (size_t i = 0; i < last.n; i++) {
    if (last.at[i] < '0' || last.at[i] > '9') return false;
    *out = *out * 10 + (uint64_t)(last.at[i] - '0');
  }
  text->n -= last.n + 1;
  return true;
}

// A number, and not the digits of one in a text. Every shard is named after it.
static bool take_shard_size(struct reading *r, const struct json_value *size) {
  struct span text;
  if (json_as_string(size, &text) || !json_as_uint(size, &r->m->shard_bytes)) return false;
  r->algorithm = arena_printf(&r->m->arena, "sha256-sharded-%s", decimal(r->m->shard_bytes).s);
  return r->m->shard_bytes > 0;
}

// A new file row, or the last one's if the name is the same: shards of a file stand together.
static bool take_file(struct manifest *m, struct span name, uint64_t start) {
  if (start > 0) return m->n_files > 0 && span_is(name, m->files[m->n_files - 1]);
  if (name.n > 255 || span_has_nul(name)) return false;
  const char *own = arena_string(&m->arena, name);
  if (!manifest_can_name(own)) return false;
  if (m->n_files > 0 && strcmp(own, m->files[m->n_files - 1]) <= 0) return false;
  m->files[m->n_files] = own;
  m->first[m->n_files] = m->n_shards;
  m->sizes[m->n_files++] = 0;
  return true;
}

// Does a shard end where its file does, or where the next one of its size begins?
static bool is_cut_there(const struct manifest *m, const struct manifest_shard *last,
                         uint32_t next_file) {
  return last->len == m->shard_bytes || (last->len < m->shard_bytes && next_file != last->file);
}

static int take_resource(const struct reading *r, const struct json_value *row) {
  struct manifest *m = r->m;
  struct manifest_shard *shard = &m->shards[m->n_shards];
  struct span name, hex;
  uint64_t start, end;
  if (!json_as_string(json_get(row, "name"), &name) || !take_last_number(&name, &end) ||
      !take_last_number(&name, &start) || end <= start)
    return no_manifest(r, "a resource's name is not of the form path:start:end");
  if (!json_as_string(json_get(row, "digest"), &hex) ||
      !hex_decode(hex, shard->digest, DIGEST_BYTES))
    return no_manifest(r, "a resource's digest is not 64 hexadecimal digits");
  if (!json_is_text(json_get(row, "algorithm"), r->algorithm))
    return no_manifest(r, "a resource's algorithm is not SHA-256 over shards of its shard_size");
  if (!take_file(m, name, start) || m->sizes[m->n_files - 1] != start)
    return no_manifest(r, "its resources are out of order, have a gap, or are not base names");
  shard->file = m->n_files - 1;
  shard->off = start;
  shard->len = end - start;
  m->sizes[shard->file] = end;
  if (m->n_shards > 0 && !is_cut_there(m, shard - 1, shard->file))
    return no_manifest(r, "a resource does not start or end at a multiple of its shard_size");
  m->n_shards++;
  return 0;
}

static int take_resources(struct reading *r, const struct json_value *predicate) {
  struct manifest *m = r->m;
  const struct json_value *rows = json_get(predicate, "resources");
  const size_t n = json_count(rows);
  if (!take_shard_size(r, json_get(json_get(predicate, "serialization"), "shard_size")))
    return no_manifest(r, "its shard_size is not a number of bytes");
  m->shards = arena_alloc(&m->arena, n * sizeof *m->shards + 1);
  m->files = arena_alloc(&m->arena, n * sizeof *m->files + 1);
  m->sizes = arena_alloc(&m->arena, n * sizeof *m->sizes + 1);
  m->first = arena_alloc(&m->arena, (n + 1) * sizeof *m->first);
  for (const struct json_value *row = json_first(rows); row; row = json_next(row))
    if (take_resource(r, row)) return -1;
  m->first[m->n_files] = m->n_shards;
  if (m->n_shards > 0 && !is_cut_there(m, &m->shards[m->n_shards - 1], NO_ID))
    return no_manifest(r, "a resource does not start or end at a multiple of its shard_size");
  return 0;
}

// One model is what all of it is about, and it is the one that was asked for.
static int check_model(const struct reading *r, const char *wanted) {
  const struct manifest *m = r->m;
  if (!json_is_text(json_get(m->x_weir, "output"), m->subject))
    return no_manifest(r, "its subject and its x_weir.output are different models");
  if (wanted && strcmp(m->subject, wanted) != 0) {
    err_fill(r->err, ERR_MODEL, "the manifest '%s' is for '%s'", quote_path(r->shown).s,
             quote_str(m->subject).s);
    return err_hint(r->err, "a manifest is valid only for the model that it names, not for a copy "
                            "under another name");
  }
  if (manifest_file_named(m, span_str(m->subject)) == NO_ID)
    return no_manifest(r, "its model is not among its resources");
  return 0;
}

static int take_document(struct reading *r, const struct json_value *doc) {
  struct manifest *m = r->m;
  if (check_form(r, doc)) return -1;
  const struct json_value *predicate = json_get(doc, "predicate");
  if (take_resources(r, predicate)) return -1;
  struct span id;
  if (!json_as_string(json_get(json_get(predicate, "x_weir"), "plan_id"), &id) ||
      !hex_decode(id, m->plan_id, DIGEST_BYTES))
    return no_manifest(r, "x_weir has no plan_id");
  const struct json_value *tensors = json_get(json_get(predicate, "x_weir"), "tensors_sha256");
  m->lists_tensors = tensors && !json_is_null(tensors);
  if (m->lists_tensors &&
      (!json_as_string(tensors, &id) || !hex_decode(id, m->tensors_sha256, DIGEST_BYTES)))
    return no_manifest(r, "x_weir.tensors_sha256 is not 64 hexadecimal digits");
  const struct json_value *subject = json_first(json_get(doc, "subject"));
  struct span name, hex;
  uint8_t stated[DIGEST_BYTES], root[DIGEST_BYTES];
  if (!json_as_string(json_get(subject, "name"), &name) || span_has_nul(name) ||
      !json_as_string(json_get(json_get(subject, "digest"), "sha256"), &hex) ||
      !hex_decode(hex, stated, DIGEST_BYTES))
    return no_manifest(r, "its subject has no name or no SHA-256");
  m->subject = arena_string(&m->arena, name);
  struct digest *d = digest_new();
  for (uint32_t i = 0; i < m->n_shards; i++)
    digest_add(d, m->shards[i].digest, DIGEST_BYTES);
  digest_finish(d, root);
  if (memcmp(root, stated, DIGEST_BYTES) == 0) return 0;
  return err_set(r->err, ERR_MODEL,
                 "manifest '%s' is inconsistent: its root digest is %.64s, but its resources give "
                 "%s",
                 quote_str(r->shown).s, (const char *)hex.at, digest_hex(root).s);
}

static int refuse_unsigned(const char *shown, struct err *err) {
  err_fill(err, ERR_FAIL, "the manifest '%s' is not the one that was signed", quote_path(shown).s);
  return err_hint(err, "the manifest was changed, or the model was written again; the owner of "
                       "the key can sign it again with 'weir sign'");
}

int manifest_read(struct manifest *m, const struct manifest_at *at, struct err *err) {
  memset(m, 0, sizeof *m);
  struct span text;
  if (fs_read_file(at->dir, at->name, MANIFEST_MAX_BYTES, &text, err)) {
    if (err->kind != ERR_NONE) return -1;
    return err_set(err, ERR_INPUT, "manifest '%s' does not exist", quote_str(at->shown).s);
  }
  digest_of(text.at, text.n, m->sha256);
  if (at->sha256 && memcmp(at->sha256, m->sha256, DIGEST_BYTES) != 0) {
    fs_free(text);
    return refuse_unsigned(at->shown, err);
  }
  struct json_value *doc = json_parse(text, at->shown, err);
  fs_free(text);
  if (!doc) return -1;
  struct reading r = {.m = m, .shown = at->shown, .err = err};
  m->doc = doc;
  m->x_weir = json_get(json_get(doc, "predicate"), "x_weir");
  const int bad = take_document(&r, doc) || check_model(&r, at->model) ? -1 : 0;
  if (bad) manifest_free(m);
  return bad;
}

static bool is_less(const char *file, struct span name) {
  const size_t n = strlen(file);
  const int by = memcmp(file, name.at, n < name.n ? n : name.n);
  return by < 0 || (by == 0 && n < name.n);
}

// Files are in order of their names (take_file).
uint32_t manifest_file_named(const struct manifest *m, struct span name) {
  uint32_t i;
  BISECT(i, m->n_files, is_less(m->files[i], name));
  return i < m->n_files && span_is(name, m->files[i]) ? i : NO_ID;
}

void manifest_free(struct manifest *m) {
  if (m->doc) json_free(m->doc);
  arena_free(&m->arena);
  memset(m, 0, sizeof *m);
}
