// A user's rules around a command: read before any name of a pass is, kept in the log, gone in the end.
//
// A log has the texts themselves. They are not needed to replay it (its edits are), but they say what its
// passes were: to people, and to 'weir verify', which judges each change by what its rule promises.
#include "pipeline/user_rules.h"

#include "base/again.h"
#include "json/plain_file.h"

#include <errno.h>
#include <stdio.h>

// Names that mean something already. "family/name" of a user's own cannot be a set's or a group's, which have
// no slash.
static const char *objection(const char *name) {
  const struct pass *pass = passes_find(NULL, span_str(name));
  const bool taken =
      pass && (strcmp(pass->name, name) == 0 || (pass->also && strcmp(pass->also, name) == 0));
  return taken ? "a pass with this name exists already" : NULL;
}

static int take(struct user_rules *o, struct err *err) {
  const struct pass *const *list;
  if (rules_own(o->texts, o->n_texts, objection, &o->arena, &list, err)) return -1;
  own_passes_set(&o->passes, list);
  return 0;
}

static int refuse_file(const char *path, int errnum, struct err *err) {
  return err_errno(err, errnum, ERR_INPUT, "the rules '%s' cannot be read", quote_str(path).s);
}

static int read_file(struct user_rules *o, const char *path, struct err *err) {
  FILE *f = plain_file_open(path, "the rules ", err);
  if (!f) return -1;
  uint8_t *bytes = arena_alloc(&o->arena, RULES_TEXT_BYTES + 1);
  const size_t n = again_fread(bytes, RULES_TEXT_BYTES + 1, f);
  const int errnum = ferror(f) ? (errno ? errno : EIO) : 0;
  stream_close(f);
  if (errnum) return refuse_file(path, errnum, err);
  const char *name = arena_string(&o->arena, span_str(quote_path(path).s));
  *TABLE_PUSH(o, texts) = (struct rules_text){name, span_of(bytes, n)};
  return 0;
}

int user_rules_read(struct user_rules *o, const char *const *paths, uint32_t n, struct err *err) {
  for (uint32_t i = 0; i < n; i++)
    if (read_file(o, paths[i], err)) return -1;
  return n > 0 ? take(o, err) : 0;
}

void user_rules_read_log(struct user_rules *o, const struct json_value *options) {
  struct err ignored = {0};
  const struct json_value *list = json_get(options, "rules");
  for (const struct json_value *v = json_first(list); v; v = json_next(v)) {
    struct span name, text;
    if (!json_as_string(json_get(v, "name"), &name) || !json_as_string(json_get(v, "text"), &text))
      return;
    *TABLE_PUSH(o, texts) = (struct rules_text){arena_string(&o->arena, span_str(quote(name).s)),
                                                span_of(arena_string(&o->arena, text), text.n)};
  }
  if (o->n_texts > 0) (void)take(o, &ignored);
}

void user_rules_done(struct user_rules *o) {
  own_passes_free(&o->passes);
  TABLE_FREE(o, texts);
  arena_free(&o->arena);
  *o = (struct user_rules){.n_texts = 0};
}

void user_rules_write(const struct user_rules *o, struct json_out *j) {
  json_put_array(j, "rules");
  for (uint32_t i = 0; i < o->n_texts; i++) {
    json_object(j);
    json_put_text(j, "name", path_base(o->texts[i].name));
    json_key(j, "text");
    json_string(j, o->texts[i].text);
    json_end_object(j);
  }
  json_end_array(j);
}
