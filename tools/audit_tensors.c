// From bytes to names. The .onnx tells where its tensors lie, but only a whole one can be believed:
// if a damaged range lies in it, nothing is said about tensors. Data files are not opened for this,
// since a damaged one may be short or gone.
#include "audit_tensors.h"

#include "audit_companion.h"
#include "load.h"
#include "report.h"
#include "tensor_map.h"

#include <stdio.h>

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static uint32_t file_of(const struct model *m, const char *name) {
  for (uint32_t f = 1; f < m->n_files; f++)
    if (strcmp(m->files[f].name, name) == 0) return f;
  return NO_ID;
}

static const char *tensor_name(const struct model *m, uint32_t tensor, struct arena *arena) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->name != m->empty) return arena_string(arena, model_name(m, t->name));
  return arena_printf(arena, "g%u/t%u", t->graph, tensor);
}

static void name_range(const struct model *m, const struct tensor_map *map, struct audit_found *f,
                       struct arena *arena) {
  f->mapped = true;
  uint32_t file = file_of(m, f->file);
  if (file == NO_ID) return;
  size_t first = tensor_map_first(map, file, f->off), n = 0;
  for (size_t pass = 0; pass < 2; pass++) {
    const char **names = pass ? arena_alloc(arena, (n + 1) * sizeof *names) : NULL;
    struct audit_place *places = pass ? arena_alloc(arena, (n + 1) * sizeof *places) : NULL;
    n = 0;
    for (size_t i = first; i < map->n && map->rows[i].file == file; i++) {
      const struct tensor_place *row = &map->rows[i];
      if (row->off >= f->off && row->off - f->off >= f->len) break;
      if (row->off < f->off && f->off - row->off >= row->len) continue;
      if (names) names[n] = tensor_name(m, row->tensor, arena);
      if (places) places[n] = (struct audit_place){row->off, row->len};
      n++;
    }
    f->tensors = names;
    f->places = places;
  }
  f->n_tensors = (uint32_t)n;
}

static int load(struct model *m, const char *path, struct sources **sources, struct err *err) {
  const struct sources_options opening = {.allow_links = true};
  const struct load_options loading = {.no_external = true};
  if (sources_open(sources, path, &opening, err) < 0) return -1;
  return load_model(m, *sources, &loading, err);
}

void audit_tensors_name(const char *folder, const char *model_path, struct audit_found *found,
                        size_t n, struct arena *arena) {
  for (size_t i = 0; i < n; i++) {
    if (strcmp(found[i].file, base_name(model_path)) != 0) continue;
    report_notice("the .onnx itself is damaged, so the tensors of damaged ranges cannot be named");
    return;
  }
  struct model m;
  struct sources *sources = NULL;
  struct err why = {0};
  model_init(&m);
  if (load(&m, model_path, &sources, &why) < 0) {
    report_notice("the tensors of damaged ranges cannot be named: %s", why.msg);
  } else {
    struct tensor_map map;
    tensor_map_init(&map, &m);
    for (size_t i = 0; i < n; i++)
      name_range(&m, &map, &found[i], arena);
    tensor_map_done(&map);
    audit_companion_narrow(folder, base_name(model_path), &m, found, n, arena);
  }
  model_free(&m);
  if (sources) sources_close(sources);
}
