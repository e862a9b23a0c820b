// orders.json: what those who carry out a plan are told that is not in the plan:
//
//   {"weir_orders":1,"header_sha256":…,"shards":64,"null":false,"replace":false,"manifest":true,
//    "tensor_digests":false,"hash_inputs":false,"allow_links":false,"edits_sha256":…,"layout_asked":…,"companions":[…],
//    "small_sha256":null,"check":"<16 hex>"}
//
// one line, which knows whether it is whole (checked_line.h). It is written last.
#include "stream/staging/inside/staging_orders.h"

#include "plan/plan_file.h"
#include "stream/staging/inside/checked_line.h"
#include "stream/sys/fs.h"

#include <limits.h>
#include <stdlib.h>

enum { ORDERS_FORMAT = 1, ORDERS_MAX_BYTES = 16 << 20 };

struct text {
  TABLE_BIG(char, bytes);
};

static int put_text(void *ctx, struct span piece) {
  struct text *t = ctx;
  TABLE_ROOM(t, bytes, piece.n);
  memcpy(t->bytes + t->n_bytes, piece.at, piece.n);
  t->n_bytes += piece.n;
  return 0;
}

static int put_small(const struct staging *st, const struct plan *p, uint8_t sha256[DIGEST_BYTES],
                     struct err *err) {
  struct text text = {.n_bytes = 0};
  int bad = plan_file_write_small(p, put_text, &text, sha256, err);
  if (!bad) bad = fs_put_file(st->folder, "small.jsonl", span_of(text.bytes, text.n_bytes), err);
  TABLE_FREE(&text, bytes);
  return bad;
}

// From any folder it is the same file. Its own name stays, also of a link: it is that of the source's row.
static void put_companion(struct json_out *j, const char *path) {
  struct arena scratch = {0};
  char full[PATH_BYTES];
  const char *folder = strchr(path, '/') ? arena_folder(&scratch, path) : ".";
  json_text(j, path_real(folder, full)
                   ? path
                   : arena_printf(&scratch, "%s/%s", strcmp(full, "/") == 0 ? "" : full,
                                  path_base(path)));
  arena_free(&scratch);
}

int staging_give_orders(const struct staging *st, const struct plan *p,
                        const struct staging_orders *orders, struct err *err) {
  uint8_t small[DIGEST_BYTES];
  struct json_out j = {0};
  const bool lists_small = orders->tensor_digests;
  if (lists_small && put_small(st, p, small, err)) return -1;
  json_object(&j);
  json_put_uint(&j, "weir_orders", ORDERS_FORMAT);
  json_put_hex(&j, "header_sha256", st->header_sha256, DIGEST_BYTES);
  json_put_uint(&j, "shards", orders->shards);
  json_put_bool(&j, "null", orders->null);
  json_put_bool(&j, "replace", orders->replace);
  json_put_bool(&j, "manifest", orders->manifest);
  json_put_bool(&j, "tensor_digests", orders->tensor_digests);
  json_put_bool(&j, "hash_inputs", orders->hash_inputs);
  json_put_bool(&j, "allow_links", orders->allow_links);
  json_put_text(&j, "edits_sha256", orders->edits_sha256);
  json_put_text(&j, "layout_asked", orders->layout_asked);
  json_put_array(&j, "companions");
  for (uint32_t i = 0; i < orders->n_companions; i++)
    put_companion(&j, orders->companions[i]);
  json_end_array(&j);
  if (lists_small)
    json_put_hex(&j, "small_sha256", small, DIGEST_BYTES);
  else
    json_put_null(&j, "small_sha256");
  checked_line_end(&j);
  int bad = fs_put_file(st->folder, STAGING_ORDERS, span_of(j.text, j.n), err);
  json_done(&j);
  return bad ? -1 : fs_sync_folder(st->folder, st->name, err);
}

// ---- reading -----------------------------------------------------------------------------------

static bool take_text(const struct json_value *v, struct arena *a, const char **out) {
  struct span text;
  *out = NULL;
  if (v && json_is_null(v)) return true;
  if (!json_as_string(v, &text) || span_has_nul(text)) return false;
  *out = arena_string(a, text);
  return true;
}

// Text that becomes part of a manifest: a digest, or nothing.
static bool take_hex(const struct json_value *v, struct arena *a, const char **out,
                     uint8_t sha256[DIGEST_BYTES]) {
  return take_text(v, a, out) && (!*out || hex_decode(span_str(*out), sha256, DIGEST_BYTES));
}

static bool take_companions(const struct json_value *list, struct staging_orders *o,
                            struct arena *a) {
  if (!json_is_array(list)) return false;
  const char **paths = arena_alloc(a, json_count(list) * sizeof *paths + 1);
  for (const struct json_value *x = json_first(list); x; x = json_next(x)) {
    struct span path;
    if (!json_as_string(x, &path) || path.n == 0 || span_has_nul(path)) return false;
    paths[o->n_companions++] = arena_string(a, path);
  }
  o->companions = paths;
  return true;
}

static bool take(const struct json_value *doc, struct staging_orders_found *f, struct arena *a) {
  struct staging_orders *o = &f->orders;
  uint64_t format = 0, shards = 0;
  struct span text;
  if (!json_as_uint(json_get(doc, "weir_orders"), &format) || format != ORDERS_FORMAT ||
      !json_as_uint(json_get(doc, "shards"), &shards) || shards == 0 || shards > UINT32_MAX)
    return false;
  o->shards = (uint32_t)shards;
  if (!json_as_string(json_get(doc, "header_sha256"), &text) ||
      !hex_decode(text, f->header_sha256, DIGEST_BYTES))
    return false;
  if (!json_as_bool(json_get(doc, "null"), &o->null) ||
      !json_as_bool(json_get(doc, "replace"), &o->replace) ||
      !json_as_bool(json_get(doc, "manifest"), &o->manifest) ||
      !json_as_bool(json_get(doc, "tensor_digests"), &o->tensor_digests) ||
      !json_as_bool(json_get(doc, "hash_inputs"), &o->hash_inputs) ||
      !json_as_bool(json_get(doc, "allow_links"), &o->allow_links))
    return false;
  const char *small;
  uint8_t edits[DIGEST_BYTES];
  if (!take_hex(json_get(doc, "edits_sha256"), a, &o->edits_sha256, edits) ||
      !take_text(json_get(doc, "layout_asked"), a, &o->layout_asked) ||
      !take_hex(json_get(doc, "small_sha256"), a, &small, f->small_sha256))
    return false;
  f->lists_small = small != NULL;
  if (f->lists_small != o->tensor_digests) return false;
  return take_companions(json_get(doc, "companions"), o, a);
}

int staging_orders_read(const struct staging *st, struct staging_orders_found *found,
                        struct arena *a, struct err *err) {
  struct span text;
  *found = (struct staging_orders_found){.lists_small = false};
  if (fs_read_own(st->folder, STAGING_ORDERS, ORDERS_MAX_BYTES, st->name, &text, err)) {
    if (err->kind != ERR_NONE) return -1;
    err_fill(err, ERR_INPUT, "'%s' in '%s' is not ready for members: it has no '%s'",
             quote_str(st->name).s, quote_str(st->dest_path).s, STAGING_ORDERS);
    return err_hint(err, "'weir plan' writes that file last: run the 'weir plan' command (again)");
  }
  struct err malformed = {0};
  const struct span line = span_of(text.at, text.n > 0 ? text.n - 1 : 0);
  struct json_value *doc = checked_line_is(line) ? json_parse(line, "orders", &malformed) : NULL;
  const bool taken = doc && take(doc, found, a);
  json_free(doc);
  fs_free(text);
  if (taken) return 0;
  err_fill(err, ERR_INPUT, "'%s' in '%s' was damaged or changed since 'weir plan' wrote it",
           STAGING_ORDERS, quote_str(st->name).s);
  return err_hint(err, "run the 'weir plan' command again: finished units are kept");
}
