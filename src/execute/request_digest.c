#include "execute/request_digest.h"

#include "base/digest.h"
#include "platform/files.h"
#include "verify/arrays/array_files.h"

#include <stdio.h>

enum { FILES_MOST = 100000 }; // of a folder of arrays: a command that reads more is not known again

static void add_text(struct digest *d, const char *text) {
  digest_add(d, text, strlen(text) + 1);
}

enum { NS = 1000000000 };

static void add_stat(struct digest *d, const char *name, const struct entry_facts *st) {
  char line[160];
  add_text(d, name);
  snprintf(line, sizeof line, "%s %s.%s %s.%s %s", decimal(st->size).s,
           integer(st->modified_ns / NS).s, integer(st->modified_ns % NS).s,
           integer(st->changed_ns / NS).s, integer(st->changed_ns % NS).s, decimal(st->number).s);
  add_text(d, line);
}

static bool add_path(struct digest *d, const char *path) {
  struct entry_facts st;
  if (!path) return true;
  if (path_is_stream(path)) return false;
  if (entry_look(HERE, path, 0, &st) == 0)
    add_stat(d, path, &st); // else the command says so itself
  return true;
}

// A file, or a folder: of that only the files that are read count, since the command may write its model into it.
static bool add_arrays(struct digest *d, const char *path) {
  struct arena scratch = {0};
  struct array_paths files;
  struct entry_facts st;
  if (!path || entry_look(HERE, path, 0, &st) || st.kind != ENTRY_FOLDER) return add_path(d, path);
  add_text(d, path);
  const bool all = array_files_names(path, FILES_MOST, &scratch, &files);
  for (uint32_t i = 0; all && i < files.n; i++)
    (void)add_path(d, files.list[i]);
  arena_free(&scratch);
  return all;
}

static bool add_pipeline(struct digest *d, const struct pipeline *p) {
  static const uint8_t nothing[DIGEST_BYTES];
  if (memcmp(p->read_sha256, nothing, DIGEST_BYTES) != 0)
    digest_add(d, p->read_sha256, DIGEST_BYTES);
  for (uint32_t i = 0; p->own && i < p->own->n_texts; i++) {
    add_text(d, p->own->texts[i].name);
    digest_add(d, p->own->texts[i].text.at, p->own->texts[i].text.n);
  }
  for (uint32_t i = 0; i < p->files.n; i++)
    digest_add(d, p->files.list[i]->sha256, DIGEST_BYTES);
  for (uint32_t i = 0; i < p->inputs.n_list; i++)
    (void)add_path(d, p->inputs.list[i]);
  for (uint32_t i = 0; i < p->outputs.n_list; i++)
    (void)add_path(d, p->outputs.list[i]);
  return add_arrays(d, p->reference);
}

const char *request_digest(const struct pipeline *pipeline, const char *edits, const char *arrays,
                           struct arena *a) {
  uint8_t sha256[DIGEST_BYTES];
  struct digest *d = digest_new();
  const bool known =
      (!pipeline || add_pipeline(d, pipeline)) && add_path(d, edits) && add_arrays(d, arrays);
  digest_finish(d, sha256);
  return known ? digest_hex_in(a, sha256) : NULL;
}
