#include "rebuild/rebuild_json.h"

#include "audit/audit_json.h"

void rebuild_json(const struct rebuild *r, struct json_out *j) {
  json_put_text(j, "manifest", r->target.manifest);
  json_put_text(j, "subject", r->m.subject);
  json_put_text(j, "source", r->source);
  json_put_text(j, "made_by", r->version);
  json_put_text(j, "key", r->key ? sign_key_id(r->key) : NULL);
  json_put_bool(j, "same", r->n_found == 0);
  json_put_bool(j, "same_plan", r->same_plan);
  json_put_uint(j, "ranges_found_again", r->again.n_files);
  json_put_uint(j, "artifacts", r->answers);
  json_put_uint(j, "artifacts_taken", r->taken);
  json_put_uint(j, "files", r->m.n_files);
  json_put_uint(j, "units", r->units);
  json_put_uint(j, "different_units", r->different);
  json_put_uint(j, "bytes", r->bytes);
  json_put_bool(j, "files_there", r->beside);
  json_put_uint(j, "damaged_units", r->audited.damaged);
  json_put_text(j, "output", r->n_found == 0 ? r->write_to : NULL);
  json_put_array(j, "differences");
  for (size_t i = 0; i < r->n_found; i++) {
    audit_json_found(&r->found[i], j);
    json_flush(j);
  }
  json_end_array(j);
  json_put_array(j, "notes");
  for (size_t i = 0; i < r->n_reasons; i++)
    json_text(j, r->reasons[i]);
  json_end_array(j);
}
