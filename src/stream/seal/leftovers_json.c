#include "stream/seal/leftovers_json.h"

void leftovers_json(const struct leftovers *c, const char *dir, struct json_out *j) {
  json_put_text(j, "folder", dir);
  json_put_array(j, "found");
  for (size_t i = 0; i < c->n_rows; i++) {
    const struct leftover *l = &c->rows[i];
    json_object(j);
    json_put_text(j, "name", l->name);
    json_put_uint(j, "bytes", l->bytes);
    json_put_bool(j, "locked", l->locked);
    json_put_bool(j, "half_sealed", l->half_sealed);
    json_put_bool(j, "plan", l->planned);
    json_put_text(j, "resume", l->resume);
    json_put_text(j, "orphan_of", l->orphan_of);
    json_put_array(j, "data_files");
    for (const struct leftover_file *f = l->files; f; f = f->next) {
      json_object(j);
      json_put_text(j, "name", f->name);
      json_put_uint(j, "bytes", f->bytes);
      json_end_object(j);
    }
    json_end_array(j);
    json_put_bool(j, "removed", l->removed);
    json_end_object(j);
  }
  json_end_array(j);
}
