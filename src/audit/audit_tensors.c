// Names the tensors in damaged ranges. Where the places of tensors and the damaged ones come from:
//
//   .onnx     digests per tensor     places from       damaged is
//   whole     none                   the .onnx         all in a damaged range
//   whole     there                  the .onnx         what differs
//   damaged   there                  the digests       what differs
//   damaged   none                   the .onnx         all that it still places there
//   unreadable, and none             –                no tensor is named
//
// The load does not open data files, since a damaged one may be short or missing. A notice says when names come from a
// damaged .onnx: a flipped bit may have changed a name or a place.
#include "audit/audit_tensors.h"

#include "stream/load/load.h"
#include "stream/load/tensor_map.h"

#include <stdio.h>
#include <stdlib.h>

// The files of a model in order of their names.
struct file_name {
  const char *name;
  uint32_t file;
};

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct file_name *)a)->name, ((const struct file_name *)b)->name);
}

// The name in the index may be that of a link's target, so the .onnx is compared by the given name.
static struct file_name *names_of(const struct model *m, const char *onnx_name,
                                  struct arena *arena) {
  struct file_name *rows = arena_alloc(arena, (m->n_files + (size_t)1) * sizeof *rows);
  for (uint32_t f = 0; f < m->n_files; f++)
    rows[f] = (struct file_name){f == 0 ? onnx_name : m->files[f].name, f};
  qsort(rows, m->n_files, sizeof *rows, by_name);
  return rows;
}

static uint32_t file_of(const struct model *m, const struct file_name *names, const char *name) {
  const struct file_name key = {.name = name};
  const struct file_name *row = bsearch(&key, names, m->n_files, sizeof key, by_name);
  return row ? row->file : NO_ID;
}

static const char *tensor_name(const struct model *m, uint32_t tensor, struct arena *arena) {
  const struct model_tensor *t = &m->tensors[tensor];
  if (t->name != m->empty) return arena_string(arena, model_name(m, t->name));
  return arena_printf(arena, "g%u/t%u", t->graph, tensor);
}

static void name_range(const struct model *m, uint32_t file, const struct tensor_map *map,
                       struct audit_found *f, struct arena *arena) {
  f->mapped = true;
  if (file == NO_ID) return;
  const struct tensor_span *rows = map->rows;
  const size_t first = tensor_map_first(map, file, f->off);
  size_t end = first;
  while (end < map->n_rows && rows[end].file == file &&
         (rows[end].off < f->off || rows[end].off - f->off < f->len))
    end++;
  f->tensors = arena_alloc(arena, (end - first) * sizeof *f->tensors);
  f->places = arena_alloc(arena, (end - first) * sizeof *f->places);
  for (size_t i = first; i < end; i++) {
    if (rows[i].off < f->off && f->off - rows[i].off >= rows[i].len) continue;
    f->tensors[f->n_tensors] = tensor_name(m, rows[i].tensor, arena);
    f->places[f->n_tensors++] = (struct audit_place){rows[i].off, rows[i].len};
  }
}

static void pass_over(void *ctx, enum fault_level level, const char *place, const char *message,
                      const struct err *cause) {
  (void)ctx, (void)level, (void)place, (void)message, (void)cause;
}

// Of a damaged one all is taken that its framing still allows.
static int load(struct model *m, const char *path, bool hurt, struct sources **sources,
                struct err *err) {
  static const struct fault_sink tolerant = {.report = pass_over};
  const struct load_options loading = {.no_external = true, .faults = hurt ? &tolerant : NULL};
  return load_model_at(m, sources, path, true, &loading, err);
}

static bool ends_before(const struct audit_found *f, const char *file, uint64_t off) {
  const int by = strcmp(f->file, file);
  return by < 0 || (by == 0 && f->off + f->len <= off);
}

bool audit_found_meets(const struct audit_found *found, size_t n, const char *file, uint64_t off,
                       uint64_t len) {
  size_t i;
  BISECT(i, n, ends_before(&found[i], file, off));
  return i < n && strcmp(found[i].file, file) == 0 &&
         ranges_meet(off, len, found[i].off, found[i].len);
}

static bool is_damaged(const struct audit_found *found, size_t n, const char *file) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(found[i].file, file) == 0) return true;
  return false;
}

void audit_tensors_name(struct folder dir, const struct manifest *manifest, const char *model_path,
                        struct audit_found *found, size_t n, struct observer *o,
                        struct arena *arena) {
  const char *name = path_base(model_path);
  const bool hurt = is_damaged(found, n, name);
  if (hurt && audit_companion_narrow(dir, manifest, NULL, found, n, o, arena)) return;
  struct model m;
  struct sources *sources = NULL;
  struct err why = {0};
  model_init(&m);
  if (load(&m, model_path, hurt, &sources, &why) < 0) {
    if (hurt && sources)
      observer_notice(o,
                      "'%s' is too damaged to be read as a model, so the tensors in the damaged "
                      "ranges cannot be named: %s",
                      quote_str(name).s, why.msg);
    else
      observer_notice(o, "the tensors in the damaged ranges cannot be named: %s", why.msg);
  } else {
    struct tensor_map map;
    const struct file_name *names = names_of(&m, name, arena);
    tensor_map_init(&map, &m, true);
    for (size_t i = 0; i < n; i++)
      name_range(&m, file_of(&m, names, found[i].file), &map, &found[i], arena);
    tensor_map_done(&map);
    if (hurt)
      observer_notice(o,
                      "'%s' is damaged: weir names the tensors in the damaged ranges by the part "
                      "of it that can still be read",
                      quote_str(name).s);
    else
      (void)audit_companion_narrow(dir, manifest, &m, found, n, o, arena);
  }
  model_free(&m);
  if (sources) sources_close(sources);
}
