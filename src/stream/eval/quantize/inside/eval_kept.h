// Inside the evaluator: elements that are looked at for a range and then wanted again for codes. They come a tile at a
// time, and as many as there is room for are kept while a look goes by, so that those need no second read.
#ifndef WEIR_EVAL_KEPT_H
#define WEIR_EVAL_KEPT_H

#include "stream/eval/core/eval_parts.h"

enum { EVAL_KEPT_TILE_MOST = 512 << 10 }; // bytes

// Places [from, to) are there.
struct eval_kept_held {
  uint64_t from, to;
};

// The place of an element is its number; or of a stripe of the operand, lines of `run` elements from `base` on, `step`
// apart, its number among those of the stripe.
struct eval_kept_stripe {
  uint64_t base, run, step; // run 0: no stripe
};

struct eval_kept {
  struct eval_task *t;
  uint32_t of, width;
  struct extent at; // of an operand that is nothing but source bytes
  bool direct;
  struct eval_kept_stripe stripe;
  uint8_t *tile;          // elements as they come,
  uint64_t tile_elements; // so many at most
  uint8_t *kept;          // and those that stay
  uint64_t room;          //
  bool keeps;             // do those that come now stay?
  struct eval_kept_held *held;
};

// Of operand `of`; no memory yet.
void eval_kept_of(struct eval_kept *k, struct eval_task *t, uint32_t of);
// The tile and what is kept: bytes at a multiple of an element's size. With less than two scratches the tile is the
// scratch of the level, or what of it is given (`spare`), and nothing is kept. Tiles have a multiple of `step` elements.
void eval_kept_share(struct eval_kept *k, uint8_t *at, uint64_t bytes, uint64_t step, size_t spare);
// Those that come from `first` on are to stay, in place of those that did.
void eval_kept_begin(struct eval_kept *k, uint64_t first);
// At most *n elements from place `first` on, wherever they are: *n of them at *at.
int eval_kept_find(struct eval_kept *k, uint64_t first, size_t *n, const uint8_t **at,
                   struct err *err);
// -1: of `count` elements that were looked at, `bad` are not finite.
int eval_kept_refuse(uint64_t count, uint64_t bad, struct err *err);

#endif
