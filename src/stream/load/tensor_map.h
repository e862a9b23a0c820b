// Which tensors lie where: the pieces of a model's tensors in order of (file, offset), to be asked
// for what lies in a byte range, and for the bytes that no tensor uses.
#ifndef WEIR_TENSOR_MAP_H
#define WEIR_TENSOR_MAP_H

#include "model/model.h"

struct tensor_span {
  uint64_t off, len;
  uint64_t reach; // the furthest end of this place and all before it in the same file
  uint32_t file, tensor;
};

struct tensor_map {
  TABLE(struct tensor_span, rows);
};

// Tensors that lie inline and are small have no pieces (model_pieces) and are not in it; `held`: with
// each inline tensor, small or not, at the place of what holds it (model_tensor_holder).
void tensor_map_init(struct tensor_map *map, const struct model *m, bool held);
void tensor_map_done(struct tensor_map *map);

// The first row of `file` that could touch bytes from `off` on: from there, rows with
// row.off < off + len that end after `off` are the ones in [off, off+len). map->n_rows: none.
size_t tensor_map_first(const struct tensor_map *map, uint32_t file, uint64_t off);

// How much of a file its tensors use. Overlaps count once in `used`. Gaps of less than 64 KiB
// between or before tensors are padding: writers align to that.
struct tensor_map_use {
  uint64_t places; // tensor pieces in the file
  uint64_t used, padding;
};
struct tensor_map_use tensor_map_use(const struct tensor_map *map, uint32_t file);

#endif
