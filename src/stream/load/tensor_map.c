// Rows are sorted once by file and offset. Places may overlap (shared weights are legal), so "the
// first row that ends after x" cannot be searched by offset; the furthest end so far grows
// monotonously within a file, and can be.
//
//   rows    [0..40]  [32..64]  [100..120]
//   reach      40       64         120
#include "stream/load/tensor_map.h"

#include <stdlib.h>

enum { PADDING_MAX = 64 << 10 };

static int compare_spans(const void *pa, const void *pb) {
  const struct tensor_span *a = pa, *b = pb;
  if (a->file != b->file) return a->file < b->file ? -1 : 1;
  if (a->off != b->off) return a->off < b->off ? -1 : 1;
  return (a->tensor > b->tensor) - (a->tensor < b->tensor);
}

static void add_tensor(struct tensor_map *map, const struct model *m, uint32_t tensor, bool held) {
  const uint8_t flags = m->tensors[tensor].flags;
  const bool whole = held && !(flags & TENSOR_EXTERNAL);
  enum encoding encoding;
  uint32_t n = 1;
  const struct piece *p = whole ? NULL : model_pieces(m, tensor, &n);
  for (uint32_t i = 0; i < n && !(flags & TENSOR_DEAD); i++) {
    const struct extent at = whole ? model_tensor_holder(m, tensor, &encoding) : p[i].at;
    if (at.len > 0)
      *TABLE_PUSH(map, rows) =
          (struct tensor_span){.off = at.off, .len = at.len, .file = at.file, .tensor = tensor};
  }
}

void tensor_map_init(struct tensor_map *map, const struct model *m, bool held) {
  *map = (struct tensor_map){0};
  for (uint32_t t = 0; t < m->n_tensors; t++)
    add_tensor(map, m, t, held);
  if (map->n_rows == 0) return;
  qsort(map->rows, map->n_rows, sizeof *map->rows, compare_spans);
  for (size_t i = 0; i < map->n_rows; i++) {
    struct tensor_span *row = &map->rows[i];
    // Unchecked against the file if that was not opened.
    if (add_overflows(row->off, row->len, &row->reach)) row->reach = UINT64_MAX;
    if (i > 0 && row[-1].file == row->file) row->reach = max_u64(row->reach, row[-1].reach);
  }
}

void tensor_map_done(struct tensor_map *map) {
  TABLE_FREE(map, rows);
}

size_t tensor_map_first(const struct tensor_map *map, uint32_t file, uint64_t off) {
  const struct tensor_span *rows = map->rows;
  size_t i;
  BISECT(i, map->n_rows, rows[i].file < file || (rows[i].file == file && rows[i].reach <= off));
  return i;
}

struct tensor_map_use tensor_map_use(const struct tensor_map *map, uint32_t file) {
  struct tensor_map_use use = {0};
  uint64_t end = 0; // of what was counted so far
  for (size_t i = tensor_map_first(map, file, 0); i < map->n_rows && map->rows[i].file == file;
       i++) {
    const struct tensor_span *row = &map->rows[i];
    uint64_t gap = row->off > end ? row->off - end : 0;
    if (gap < PADDING_MAX) use.padding += gap;
    if (row->reach > end) use.used += row->reach - max_u64(end, row->off);
    end = max_u64(end, row->reach);
    use.places++;
  }
  return use;
}
