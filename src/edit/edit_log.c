// The edit log's head: what the edits were made of, and what they were made for. And its last line.
//
//   {"weir_edit_log":2,"command":"conv2matmul","options":{…},
//    "source":{"name":"x.onnx","meta_sha256":"…","files":[{"name":"x.onnx.data","size":123}]},
//    "layout":{…},"output":"y.onnx"}
//
// (one line in the file). meta_sha256 covers every byte of the .onnx that is not a large payload,
// so a log meets the model it was made for or is refused; data files are named with their sizes.
// Nothing in it is a time, a path or a machine.
//
//   {"edit":"end","edits":276,"sha256":"…"}
//
// says that the log is whole: how many edits there are, and the digest of all lines before it.
#include "edit/edit_log.h"

static void write_object(struct json_out *j, const char *key, const char *object) {
  json_put_raw(j, key, span_str(object ? object : "{}"));
}

int edit_log_begin(struct edits *e, const struct edit_log_head *head, struct err *err) {
  struct json_out *j = &e->line;
  if (!e->sink) return 0;
  json_object(j);
  json_put_uint(j, "weir_edit_log", EDIT_LOG_VERSION);
  json_put_text(j, "command", head->command);
  write_object(j, "options", head->options);
  json_put_object(j, "source");
  json_put_text(j, "name", e->m->n_files > 0 ? e->m->files[0].name : "");
  json_put_hex(j, "meta_sha256", e->m->meta_sha256, DIGEST_BYTES);
  json_put_array(j, "files");
  for (uint32_t i = 1; i < e->m->n_files && !e->m->files[i].companion; i++) {
    json_object(j);
    json_put_text(j, "name", e->m->files[i].name);
    json_put_uint(j, "size", e->m->files[i].size);
    json_end_object(j);
  }
  json_end_array(j);
  json_end_object(j);
  write_object(j, "layout", head->layout);
  json_put_text(j, "output", head->output);
  json_end_object(j);
  json_newline(j);
  if (e->sink(e->sink_ctx, span_of(j->text, j->n)) < 0) e->failed = true;
  j->n = 0;
  return edits_finish(e, err);
}

void edit_log_end(struct edits *e, const uint8_t sha256[DIGEST_BYTES]) {
  struct json_out *j = &e->line;
  if (!e->sink) return;
  json_object(j);
  json_put_text(j, "edit", "end");
  json_put_uint(j, "edits", e->n);
  json_put_hex(j, "sha256", sha256, DIGEST_BYTES);
  json_end_object(j);
  json_newline(j);
  if (e->sink(e->sink_ctx, span_of(j->text, j->n)) < 0) e->failed = true;
  j->n = 0;
}

bool edit_log_read_end(struct span line, struct edit_log_ending *out) {
  static const char begins[] = "{\"edit\":\"end\",";
  const size_t n = sizeof begins - 1;
  if (line.n < n || memcmp(line.at, begins, n) != 0) return false;
  struct err ignored = {0};
  struct span hex;
  struct json_value *doc = json_parse(line, "the last line", &ignored);
  const bool is =
      doc && json_count(doc) == 3 && json_as_uint(json_get(doc, "edits"), &out->edits) &&
      json_as_string(json_get(doc, "sha256"), &hex) && hex_decode(hex, out->sha256, DIGEST_BYTES);
  json_free(doc);
  return is;
}

static int check_head(struct edit_log_info *out, struct err *err) {
  const struct json_value *doc = out->doc, *source = json_get(doc, "source");
  if (!json_as_uint(json_get(doc, "weir_edit_log"), &out->version))
    return err_set(err, ERR_MODEL, "the first line is not the header of an edit log");
  if (out->version < EDIT_LOG_OLDEST || out->version > EDIT_LOG_VERSION)
    return err_set(err, ERR_MODEL,
                   "edit log version %s is not supported (this version of weir reads %d to %d)",
                   decimal(out->version).s, EDIT_LOG_OLDEST, EDIT_LOG_VERSION);
  uint8_t digest[32];
  if (!json_as_string(json_get(doc, "command"), &out->command) ||
      !json_as_string(json_get(doc, "output"), &out->output) ||
      !json_as_string(json_get(source, "name"), &out->source_name) ||
      !json_as_string(json_get(source, "meta_sha256"), &out->meta_sha256) ||
      !hex_decode(out->meta_sha256, digest, sizeof digest))
    return err_set(err, ERR_MODEL,
                   "the header of the edit log lacks one of: command, output, source.name, "
                   "source.meta_sha256 (64 hex digits)");
  out->options = json_get(doc, "options");
  out->layout = json_get(doc, "layout");
  if (!json_is_object(out->options) || !json_is_object(out->layout) ||
      !json_is_array(json_get(source, "files")))
    return err_set(err, ERR_MODEL,
                   "the header of the edit log lacks one of: layout, options, source.files");
  return 0;
}

int edit_log_read_head(struct span line, struct edit_log_info *out, struct err *err) {
  *out = (struct edit_log_info){.doc = json_parse(line, "edit log, line 1", err)};
  if (!out->doc) return -1;
  if (check_head(out, err) == 0) return 0;
  json_free(out->doc);
  *out = (struct edit_log_info){0};
  return -1;
}
