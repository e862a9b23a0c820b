// Rows are sorted once. Places may overlap (shared weights are legal), so "the first row that ends
// after x" cannot be searched by offset; the furthest end so far grows monotonously within a file,
// and can be.
#include "tensor_map.h"

#include <stdlib.h>

enum { PADDING_MAX = 64 << 10 };

static int compare_places(const void *pa, const void *pb) {
  const struct tensor_place *a = pa, *b = pb;
  if (a->file != b->file) return a->file < b->file ? -1 : 1;
  if (a->off != b->off) return a->off < b->off ? -1 : 1;
  return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static void add_tensor(struct tensor_map *map, const struct model *m, uint32_t tensor) {
  uint32_t n;
  const struct piece *p = model_pieces(m, tensor, &n);
  map->rows = table_grow(map->rows, &map->cap, map->n + n, sizeof *map->rows);
  for (uint32_t i = 0; i < n; i++) {
    if (p[i].at.len == 0) continue;
    map->rows[map->n++] = (struct tensor_place){
        .off = p[i].at.off, .len = p[i].at.len, .file = p[i].at.file, .tensor = tensor};
  }
}

void tensor_map_init(struct tensor_map *map, const struct model *m) {
  *map = (struct tensor_map){0};
  for (uint32_t t = 0; t < m->n_tensors; t++)
    if (!(m->tensors[t].flags & TENSOR_DEAD)) add_tensor(map, m, t);
  if (map->n == 0) return;
  qsort(map->rows, map->n, sizeof *map->rows, compare_places);
  for (size_t i = 0; i < map->n; i++) {
    struct tensor_place *row = &map->rows[i];
    // Unchecked against the file if that was not opened.
    if (add_overflows(row->off, row->len, &row->reach)) row->reach = UINT64_MAX;
    if (i > 0 && row[-1].file == row->file) row->reach = max_u64(row->reach, row[-1].reach);
  }
}

void tensor_map_done(struct tensor_map *map) {
  table_free(map->rows, map->cap, sizeof *map->rows);
}

size_t tensor_map_first(const struct tensor_map *map, uint32_t file, uint64_t off) {
  size_t lo = 0, hi = map->n;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    const struct tensor_place *row = &map->rows[mid];
    if (row->file < file || (row->file == file && row->reach <= off))
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo;
}

struct tensor_map_use tensor_map_use(const struct tensor_map *map, uint32_t file) {
  struct tensor_map_use use = {0};
  uint64_t end = 0; // of what was counted so far
  for (size_t i = tensor_map_first(map, file, 0); i < map->n && map->rows[i].file == file; i++) {
    const struct tensor_place *row = &map->rows[i];
    uint64_t gap = row->off > end ? row->off - end : 0;
    if (gap < PADDING_MAX) use.padding += gap;
    if (row->reach > end) use.used += row->reach - max_u64(end, row->off);
    end = max_u64(end, row->reach);
    use.places++;
  }
  return use;
}
