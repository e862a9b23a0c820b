// A source beside the model is one of its files in all respects but two: the user names it, at any place, and it is
// no part of what identifies the model (meta_sha256). So its digest is in the edit log, before the first recipe that
// reads it, and a replay takes no other file, whatever its name:
//
//   RANGES.data ──▶ row of the sources ──▶ row of the model's files ──▶ extents of recipes, the plan, the manifest
//        └──▶ digest ──▶ {"edit":"source",…}
//
// A log holds no folders. A replay looks where such a file is likely to lie; what it finds is judged by size and
// digest alone.
#include "execute/execution_source.h"

#include "execute/execution.h"
#include "stream/io/hash_source.h"
#include "stream/sys/file_lookup.h"

int execution_source(void *ctx, const char *path, const uint8_t sha256[DIGEST_BYTES],
                     uint32_t *file, struct err *err) {
  struct execution *exec = ctx;
  struct edit_source source = {0};
  if (sources_add_companion(exec->sources, path, file, err)) return -1;
  if (edit_source_is_known(&exec->edits, *file)) return 0;
  source.file = *file;
  source.name = sources_name(exec->sources, *file);
  source.size = sources_size(exec->sources, *file);
  if (hash_source(exec->sources, *file, observer_stop(exec->request->observer), source.sha256, err))
    return -1;
  if (memcmp(source.sha256, sha256, DIGEST_BYTES) != 0) {
    err_set(err, ERR_INPUT, "'%s' does not match the SHA-256 in the file that refers to it",
            sources_shown(exec->sources, *file).s);
    return err_hint(err, "copy both files again, or calibrate again");
  }
  edit_source(&exec->edits, &source);
  return 0;
}

int execution_source_replay(void *ctx, const struct edit_source *source, struct err *err) {
  struct execution *exec = ctx;
  const char *log = exec->replays ? exec->replays : "", *other;
  const char *const places[] = {file_lookup_beside(&exec->arena, log, source->name),
                                file_lookup_beside(&exec->arena, exec->in_path, source->name),
                                source->name};
  const struct file_lookup wanted = {source->name, source->size, source->sha256};
  const char *at = file_lookup_in(&wanted, places, sizeof places / sizeof *places, &other);
  uint32_t file;
  if (at) {
    if (sources_add_companion(exec->sources, at, &file, err)) return -1;
    if (file == source->file) return 0;
    return err_set(err, ERR_MODEL, "source %u is file %u of this model", source->file, file);
  }
  err_set(err, ERR_INPUT,
          other ? "the file '%s' is not the one that the log was made with (%s bytes)"
                : "the file '%s' (%s bytes), which the edits of the log read, was not found",
          quote_str(source->name).s, decimal(source->size).s);
  return err_hint(err, "put it next to the log, next to the model or into the current folder");
}
