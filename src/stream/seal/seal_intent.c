// seal.json, the intent of a seal:
//
//   {"weir_seal":1,"plan_id":…,"replace":false,
//    "moves":[{"name":"x.onnx.data","role":"data","via":null,"kept":false,"size":…,"inode":…,
//              "units":[<sha256>,…]},
//             {"name":"x.onnx","role":"onnx",…},{"name":"x.onnx.sum","role":"companion",…}],
//    "old":[{"name":"x.onnx.data","listed":true},…],
//    "stale":["x.onnx.tensors.jsonl"],
//    "check":<sha256>}
//
// It is written after every file it names is durable and before the first rename. Who finds it can
// complete the seal without the plan, the sources, or the command line. inode and units tell a file
// that this seal has moved already from a stranger under the same name. What is read back was on a
// disk: names are checked to be base names, since they are going to be renamed and unlinked, and `check`
// is the SHA-256 of the text before it, so that a damaged name never has another file unlinked.
#include "stream/seal/seal_intent.h"

#include "json/json.h"
#include "stream/staging/staging.h"
#include "stream/sys/fs.h"

enum { SEAL_FORMAT = 1, SEAL_MAX_BYTES = 256 << 20 };
static const char *const role_names[] = {"data", "onnx", "companion"};

static void put_move(struct json_out *j, const struct seal_move *m) {
  json_object(j);
  json_put_text(j, "name", m->name);
  json_put_text(j, "role", role_names[m->role]);
  json_put_text(j, "via", m->via);
  json_put_bool(j, "kept", m->kept);
  json_put_uint(j, "size", m->size);
  json_put_uint(j, "inode", m->inode);
  json_put_array(j, "units");
  for (uint32_t k = 0; k < m->n_units; k++)
    json_hex(j, m->units[k], DIGEST_BYTES);
  json_end_array(j);
  json_end_object(j);
}

int seal_intent_write(const struct seal_intent *s, struct folder folder, struct err *err) {
  struct json_out j = {0};
  json_object(&j);
  json_put_uint(&j, "weir_seal", SEAL_FORMAT);
  json_put_hex(&j, "plan_id", s->plan_id, DIGEST_BYTES);
  json_put_bool(&j, "replace", s->replace);
  json_put_array(&j, "moves");
  for (uint32_t i = 0; i < s->n_moves; i++) {
    json_newline(&j);
    put_move(&j, &s->moves[i]);
  }
  json_end_array(&j);
  if (s->passage.name) {
    json_key(&j, "passage");
    put_move(&j, &s->passage);
  }
  json_put_array(&j, "old");
  for (uint32_t i = 0; i < s->n_old; i++) {
    const struct seal_old *old = &s->old[i];
    json_object(&j);
    json_put_text(&j, "name", old->name);
    json_put_bool(&j, "listed", old->listed);
    if (old->unsure) json_put_bool(&j, "unsure", true);
    json_end_object(&j);
  }
  json_end_array(&j);
  json_put_array(&j, "stale");
  for (uint32_t i = 0; i < s->n_stale; i++)
    json_text(&j, s->stale[i]);
  json_end_array(&j);
  uint8_t check[DIGEST_BYTES];
  digest_of(j.text, j.n, check);
  json_put_hex(&j, "check", check, DIGEST_BYTES);
  json_end_object(&j);
  json_newline(&j);
  int bad = fs_put_file(folder, STAGING_INTENT, span_of(j.text, j.n), err);
  if (!bad) bad = fs_sync_folder(folder, "staging folder", err);
  json_done(&j);
  return bad;
}

// ---- reading ----

static const char *base_name(struct arena *a, const struct json_value *v) {
  struct span s;
  if (!json_as_string(v, &s) || s.n == 0 || s.n > 255) return NULL;
  if (memchr(s.at, '/', s.n) || span_has_nul(s)) return NULL;
  return span_is(s, ".") || span_is(s, "..") ? NULL : arena_string(a, s);
}

static bool read_units(struct arena *a, const struct json_value *rows, struct seal_move *m) {
  if (!json_is_array(rows)) return false;
  m->n_units = 0;
  uint8_t(*units)[DIGEST_BYTES] = arena_alloc(a, json_count(rows) * DIGEST_BYTES + 1);
  for (const struct json_value *row = json_first(rows); row; row = json_next(row)) {
    struct span hex;
    if (!json_as_string(row, &hex) || !hex_decode(hex, units[m->n_units++], DIGEST_BYTES))
      return false;
  }
  m->units = (const uint8_t(*)[DIGEST_BYTES])units;
  return true;
}

// Seals of 0.1.0 kept nothing, and knew no other names.
static bool read_kept(const struct json_value *row, struct seal_move *m) {
  const struct json_value *kept = json_get(row, "kept");
  return !kept || json_as_bool(kept, &m->kept);
}

static bool read_move(struct arena *a, const struct json_value *row, struct seal_move *m) {
  const struct json_value *via = json_get(row, "via");
  struct span role;
  *m = (struct seal_move){.name = base_name(a, json_get(row, "name"))};
  if (!m->name || !json_as_string(json_get(row, "role"), &role)) return false;
  while (m->role <= SEAL_COMPANION && !span_is(role, role_names[m->role]))
    m->role++;
  if (via && !json_is_null(via) && !(m->via = base_name(a, via))) return false;
  return m->role <= SEAL_COMPANION && read_kept(row, m) &&
         json_as_uint(json_get(row, "size"), &m->size) &&
         json_as_uint(json_get(row, "inode"), &m->inode) &&
         read_units(a, json_get(row, "units"), m);
}

static bool read_moves(struct seal_intent *s, const struct json_value *rows) {
  if (!json_is_array(rows)) return false;
  s->moves = arena_alloc(&s->arena, json_count(rows) * sizeof *s->moves + 1);
  unsigned onnx = 0;
  for (const struct json_value *row = json_first(rows); row; row = json_next(row)) {
    struct seal_move *m = &s->moves[s->n_moves++];
    if (!read_move(&s->arena, row, m)) return false;
    onnx += m->role == SEAL_ONNX;
  }
  return onnx == 1;
}

static bool read_passage(struct seal_intent *s, const struct json_value *row) {
  return !row || (read_move(&s->arena, row, &s->passage) && s->passage.role == SEAL_ONNX);
}

static bool read_old(struct seal_intent *s, const struct json_value *rows) {
  if (!json_is_array(rows)) return false;
  s->old = arena_alloc(&s->arena, json_count(rows) * sizeof *s->old + 1);
  for (const struct json_value *row = json_first(rows); row; row = json_next(row)) {
    struct seal_old *old = &s->old[s->n_old++];
    old->name = base_name(&s->arena, json_get(row, "name"));
    if (!old->name || !json_as_bool(json_get(row, "listed"), &old->listed)) return false;
    const struct json_value *unsure = json_get(row, "unsure");
    if (unsure && !json_as_bool(unsure, &old->unsure)) return false;
  }
  return true;
}

static bool read_stale(struct seal_intent *s, const struct json_value *rows) {
  if (!json_is_array(rows)) return false;
  s->stale = arena_alloc(&s->arena, json_count(rows) * sizeof *s->stale + 1);
  for (const struct json_value *row = json_first(rows); row; row = json_next(row))
    if (!(s->stale[s->n_stale++] = base_name(&s->arena, row))) return false;
  return true;
}

static bool read_intent(struct seal_intent *s, const struct json_value *doc) {
  uint64_t format;
  struct span id;
  return json_as_uint(json_get(doc, "weir_seal"), &format) && format == SEAL_FORMAT &&
         json_as_string(json_get(doc, "plan_id"), &id) &&
         hex_decode(id, s->plan_id, DIGEST_BYTES) &&
         json_as_bool(json_get(doc, "replace"), &s->replace) &&
         read_moves(s, json_get(doc, "moves")) && read_passage(s, json_get(doc, "passage")) &&
         read_old(s, json_get(doc, "old")) && read_stale(s, json_get(doc, "stale"));
}

// Is the text what its check says?
static bool is_whole(struct span text) {
  static const char key[] = ",\"check\":\"";
  const size_t tail = sizeof key - 1 + 2 * DIGEST_BYTES + 3; // ,"check":"…"} and a line break
  uint8_t was[DIGEST_BYTES], is[DIGEST_BYTES];
  if (text.n <= tail) return false;
  const uint8_t *at = text.at + text.n - tail;
  if (memcmp(at, key, sizeof key - 1) != 0 ||
      !hex_decode(span_of(at + sizeof key - 1, 2 * DIGEST_BYTES), was, DIGEST_BYTES))
    return false;
  digest_of(text.at, text.n - tail, is);
  return memcmp(is, was, DIGEST_BYTES) == 0;
}

int seal_intent_read(struct seal_intent *s, struct folder folder, const char *shown,
                     struct err *err) {
  memset(s, 0, sizeof *s);
  struct span text;
  int bad = fs_read_own(folder, STAGING_INTENT, SEAL_MAX_BYTES, shown, &text, err);
  if (bad && err->kind == ERR_NONE)
    bad = fs_read_own(folder, STAGING_FINISHED, SEAL_MAX_BYTES, shown, &text, err);
  if (bad && err->kind == ERR_NONE)
    return err_set(err, ERR_INPUT, "'%s' has no seal.json", quote_str(shown).s);
  if (bad) return -1;
  struct err malformed = {0};
  const bool whole = is_whole(text);
  struct json_value *doc = json_parse(text, "seal.json", &malformed);
  fs_free(text);
  if (!whole || !doc || !read_intent(s, doc)) {
    err_set(err, ERR_INPUT, "'seal.json' in '%s' changed since the interrupted run",
            quote_str(shown).s);
    bad = err_because(err, REASON_STAGED_OTHER);
  }
  json_free(doc);
  if (bad) seal_intent_free(s);
  return bad;
}

void seal_intent_free(struct seal_intent *s) {
  arena_free(&s->arena);
  memset(s, 0, sizeof *s);
}

const char *seal_intent_onnx(const struct seal_intent *s) {
  for (uint32_t i = 0; i < s->n_moves; i++)
    if (s->moves[i].role == SEAL_ONNX) return s->moves[i].name;
  return "";
}
