// The model's metadata is loaded as for any command, so a reference is what load takes for one: a location in the external data of
// any tensor. Its data files are not opened.
//
// The index is in memory beside that of the job, at times at which the job has none of its --memory in use: while names of data files are
// chosen, and when all units are done. So it may take as much. A row (a node, a tensor, a name) takes 60 to 70 bytes, in tables that
// double, and what is in it up to eight times what it has in the file.
#include "seal_refers.h"

#include "beneath.h"
#include "load.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *pa, const void *pb) {
  return strcmp(*(const char *const *)pa, *(const char *const *)pb);
}

static void take_names(struct seal_refers *r, const struct model *m) {
  char path[BENEATH_MAX + 1];
  r->names = arena_alloc(&r->arena, (m->n_files + (size_t)1) * sizeof *r->names);
  for (uint32_t i = 1; i < m->n_files; i++) { // after the .onnx itself
    struct err none = {0};
    if (beneath_normalize(span_str(m->files[i].name), path, &none) == 0)
      r->names[r->n++] = arena_string(&r->arena, span_str(path));
  }
  qsort(r->names, r->n, sizeof *r->names, by_name);
}

enum { INDEX_OF_BYTE = 8, INDEX_OF_ROW = 256 };

static struct load_limits limits_of(uint64_t memory) {
  struct load_limits limits = {0};
  if (memory) {
    limits.metadata_bytes = memory / INDEX_OF_BYTE + 1;
    limits.rows = memory / INDEX_OF_ROW + 1;
  }
  return limits;
}

static void load_names(struct seal_refers *r, const char *folder, const char *onnx) {
  const struct load_options options = {.no_external = true, .limits = limits_of(r->memory)};
  struct sources *sources = NULL;
  struct model m;
  struct err none = {0};
  model_init(&m);
  const char *path = arena_printf(&r->arena, "%s/%s", *folder ? folder : ".", onnx);
  if (sources_open(&sources, path, NULL, &none) == 0 &&
      load_model(&m, sources, &options, &none) == 0)
    take_names(r, &m);
  else
    r->unread = true;
  model_free(&m);
  sources_close(sources);
}

void seal_refers_ask(struct seal_refers *r, const char *folder, const char *onnx) {
  if (!r->asked) load_names(r, folder, onnx);
  r->asked = true;
}

bool seal_refers_to(struct seal_refers *r, const char *folder, const char *onnx, const char *name) {
  seal_refers_ask(r, folder, onnx);
  return r->n > 0 && bsearch(&name, r->names, r->n, sizeof *r->names, by_name);
}

void seal_refers_done(struct seal_refers *r) {
  arena_free(&r->arena);
  *r = (struct seal_refers){.n = 0};
}
