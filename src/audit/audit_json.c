#include "audit/audit_json.h"

void audit_json_found(const struct audit_found *f, struct json_out *j) {
  json_object(j);
  json_put_text(j, "file", f->file);
  json_put_uint(j, "offset", f->off);
  json_put_uint(j, "length", f->len);
  json_put_text(j, "what", f->what);
  json_key(j, "tensors");
  if (f->mapped) {
    json_array(j);
    for (uint32_t k = 0; k < f->n_tensors; k++)
      json_text(j, f->tensors[k]);
    json_end_array(j);
  } else {
    json_null(j);
  }
  json_put_bool(j, "narrowed", f->narrowed);
  json_put_uint(j, "whole_tensors", f->n_whole);
  json_end_object(j);
}

static void put_place(struct json_out *j, const char *key, const struct audit_left *l,
                      struct audit_place at) {
  if (l->whole == 0) {
    json_put_null(j, key);
    return;
  }
  json_put_object(j, key);
  json_put_uint(j, "offset", at.off);
  json_put_uint(j, "length", at.len);
  json_end_object(j);
}

void audit_json(const struct audit *a, struct json_out *j) {
  const struct audit_target *t = &a->target;
  const struct audit_result *r = &a->result;
  json_put_text(j, "manifest", t->manifest);
  json_put_text(j, "subject", a->m.subject);
  json_put_text(j, "signature", a->key ? t->signature : NULL);
  json_put_text(j, "key", a->key ? sign_key_id(a->key) : NULL);
  json_put_bool(j, "whole", audit_is_whole(a));
  json_put_uint(j, "files", r->files);
  json_put_uint(j, "units", r->shards);
  json_put_uint(j, "damaged_units", r->damaged);
  json_put_uint(j, "bytes", r->bytes);
  json_put_array(j, "damage");
  for (size_t i = 0; i < a->n_found; i++) {
    audit_json_found(&a->found[i], j);
    json_flush(j);
  }
  json_end_array(j);
  json_put_array(j, "damaged_files");
  for (size_t i = 0; i < a->n_left; i++) {
    const struct audit_left *l = &a->left[i];
    json_object(j);
    json_put_text(j, "file", l->file);
    json_put_uint(j, "units", l->units);
    json_put_uint(j, "whole_units", l->whole);
    put_place(j, "first_whole", l, l->first);
    put_place(j, "last_whole", l, l->last);
    json_end_object(j);
  }
  json_end_array(j);
  json_put_array(j, "not_checked");
  for (uint32_t i = 0; i < a->files.n_unlisted; i++)
    json_text(j, a->files.unlisted[i]);
  json_end_array(j);
  json_put_bool(j, "digests_missing", a->lacks_digests);
}
