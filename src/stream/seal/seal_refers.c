// The model's metadata is loaded as for any command, so a reference is what load takes for one: a location in the external data of
// any tensor. Its data files are not opened.
#include "stream/seal/seal_refers.h"

#include "stream/io/beneath.h"
#include "stream/load/load.h"

#include <stdlib.h>
#include <string.h>

static void take_names(struct seal_refers *r, const struct model *m) {
  char path[BENEATH_MAX + 1];
  r->names = arena_alloc(&r->arena, (m->n_files + (size_t)1) * sizeof *r->names);
  for (uint32_t i = 1; i < m->n_files; i++) { // after the .onnx itself
    struct err none = {0};
    if (beneath_normalize(span_str(m->files[i].name), path, &none) == 0)
      r->names[r->n++] = arena_string(&r->arena, span_str(path));
  }
  qsort(r->names, r->n, sizeof *r->names, str_order);
}

static void load_names(struct seal_refers *r, const char *path) {
  const struct load_options options = {.no_external = true};
  struct sources *sources = NULL;
  struct model m;
  struct err none = {0};
  model_init(&m);
  const bool open = sources_open(&sources, path, NULL, &none) == 0;
  if (open) r->print = sources_fingerprint(sources, 0);
  if (open && load_model(&m, sources, &options, &none) == 0)
    take_names(r, &m);
  else
    r->unread = true;
  model_free(&m);
  sources_close(sources);
}

void seal_refers_ask(struct seal_refers *r, const char *folder, const char *onnx) {
  struct arena scratch = {0};
  struct entry_facts at;
  const char *path = arena_printf(&scratch, "%s/%s", *folder ? folder : ".", onnx);
  if (!entry_is_file(HERE, path, &at)) {
    seal_refers_done(r);
  } else if (!fingerprint_same(r->print, fingerprint_of(&at))) {
    seal_refers_done(r);
    load_names(r, path);
  }
  arena_free(&scratch);
}

bool seal_refers_to(struct seal_refers *r, const char *folder, const char *onnx, const char *name) {
  seal_refers_ask(r, folder, onnx);
  return r->n > 0 && bsearch(&name, r->names, r->n, sizeof *r->names, str_order);
}

void seal_refers_done(struct seal_refers *r) {
  arena_free(&r->arena);
  *r = (struct seal_refers){.n = 0};
}
