// Room: the parts of the evaluator that all kinds of recipes use: boxes, chunks of figures, leaves,
// views, joins, picks. Everything below eval_read works on *wide* elements: a type below 8 bits
// takes a byte an element (its bits in the low end), any other type its own bytes. Packing happens
// at the two ends only, in eval_bits.c.
#ifndef WEIR_EVAL_PARTS_H
#define WEIR_EVAL_PARTS_H

#include "kernels/kernels.h"
#include "recipe/recipe.h"
#include "stream/eval/shared/eval_turns.h"
#include "stream/eval/shared/eval_watcher.h"
#include "stream/io/io_queue.h"

enum {
  EVAL_BUDGET_MIN = 1 << 20,
  EVAL_DEPTH = 32,              // recipes within recipes
  EVAL_SCRATCH_BYTES = 8 << 10, // a level of depth
  EVAL_BOX_LINE = 64,           // boxes have a multiple of so many bytes
  EVAL_WALK_MOST = 256,         // recipes looked at to count boxes
  EVAL_STREAMS = 8,
  EVAL_STREAM_BYTES = 8 << 10,
  EVAL_CURSORS = 4,
  EVAL_CURSOR_BYTES = 4 << 10,
  EVAL_BOXES = 16,
  EVAL_BOX_STATE = 512, // bytes
  EVAL_CHUNK = 4096,    // elements that have their error figures together
  EVAL_PIECE = 256,     // elements of a line that are summed apart (eval_figures.h)
};

// A run of small reads that may be going through a file in order (eval_leaf.c).
struct eval_stream {
  uint8_t *buf;  // EVAL_STREAM_BYTES
  uint64_t at;   // file offset of buf[0]
  uint64_t next; // where a read would have to start to follow the last one
  size_t have, grow;
  uint64_t used; // stamp
  uint32_t file;
};

// A place in a varint piece where decoding can go on (eval_varint.c).
struct eval_cursor {
  uint8_t *buf; // EVAL_CURSOR_BYTES, holding bytes [at, at + have) of the piece
  uint64_t at;
  size_t have;
  uint64_t entry; // the next entry, counted from the piece's first
  uint64_t pos;   // its first byte (its tag, if it has one), relative to the piece
  uint64_t used;
  uint32_t piece; // index in the recipes' pieces, or NO_ID
};

// A recipe as a strided look at another one: element (c0, c1, …) is element base + Σ c·stride of
// `of`. Axes of length 1 are gone and axes that lie one behind the other are merged.
struct eval_view {
  uint32_t of;
  uint32_t rank;
  int64_t base;
  uint64_t count;
  uint64_t dims[RECIPE_MAX_RANK];
  int64_t strides[RECIPE_MAX_RANK];
};

// n fragments of `run` elements, `stride` apart, from element `at` of recipe `of`.
struct eval_fragments {
  uint32_t of, width;
  uint64_t at, n, run, stride;
};

// A stretch of a view's elements, held dense in the order of the source (eval_view.c).
struct eval_stripe_box {
  uint32_t id;   // of the viewing recipe, or NO_ID
  bool busy;     // being filled: not to be taken
  uint64_t used; // stamp
  uint8_t *data;
  uint64_t first, count; // which elements of the view; count 0: none yet
  struct eval_view view;
  struct eval_view dense; // the same elements within `data`: dims of the box, base in elements
  // What another kind knows of what it holds; count: 1 once that is set up.
  _Alignas(16) uint8_t state[EVAL_BOX_STATE];
};

// Error figures by columns (NBITS), as far as they have been told of.
struct eval_columns {
  uint64_t next, end;
  uint64_t next_block;      // of column `next`, if that is made in pieces:
  struct kernels_sums sums; // of its blocks before
};

// Sums of a piece of elements.
struct eval_piece {
  double vv, ee, ve, max_error;
};
// Sums of a chunk as far as its elements came.
struct eval_sums {
  struct kernels_lanes lanes; // of the piece that goes on
  struct eval_piece before;   // of those that ended
  uint32_t nonfinite, overflows;
};

// Error figures by chunks of elements (eval_figures.h).
struct eval_chunks {
  uint32_t id; // whose elements, or NO_ID
  bool open;   // elements that come now count
  uint64_t next, end;
  uint64_t
      line; // elements of a line, where chunks are summed piece by piece; 0: they are one piece
  struct eval_sums sums; // of the chunk that `next` is in, up to there
};

// What is asked for, and what has come of it: the first parameter of whatever makes elements.
struct eval_task {
  struct eval *ev;
  const struct recipes *r; // of ev
  uint32_t root;           // what is asked for
  struct {
    uint32_t id; // the same behind reshapes; NO_ID: nobody said how much is wanted
    uint64_t off, len;
  } wanted;
  struct eval_watcher watcher;
  bool measures;               // elements that are not finite are counted, not refused
  struct eval_columns columns; // of wanted.id
  struct eval_chunks chunks;
  uint32_t once; // codes that are made in their own order (eval_once.c), or NO_ID
};

// Codes that are wanted in another order than their own (eval_once.c): the task of making them.
struct eval_once {
  struct eval_task task; // wanted.id: of the codes
  bool goes_on;          // with chunk `next`, as far as the evaluator's box and this task know
  uint64_t next;
};

// A stretch of a recipe's elements that lies in memory for a while (eval_measure.c; eval_linear.c).
struct eval_hold {
  uint32_t of;
  uint64_t first, count; // 0: nothing is held
  const uint8_t *at;
};

// What evaluation knows of a kind of recipe.
struct eval;
typedef int eval_elements_fn(struct eval_task *t, uint32_t id, uint64_t first, uint64_t count,
                             uint8_t *out, struct err *err);
struct eval_kind {
  eval_elements_fn *elements;
  // How many boxes it and its operands need at once (eval_boxes_at_once says what `left` is), or
  // NULL: `own`, and those of its operands.
  uint32_t (*boxes)(const struct eval *ev, uint32_t id, uint32_t *left);
  uint32_t own;
  // As eval_leaf_gathers and eval_leaf_gather, of what lies above a leaf; or NULL.
  bool (*gathers)(struct eval_task *t, const struct eval_fragments *f);
  int (*gather)(struct eval_task *t, const struct eval_fragments *f, uint8_t *out, struct err *err);
};

struct eval {
  const struct eval_kind *kinds; // RECIPE_KINDS (eval.c)
  const struct recipes *r;
  struct io *io;
  size_t budget_bytes;
  uint64_t stamp;
  uint32_t root; // recipe of the last recipe_read: boxes are shared out for it
  uint32_t depth;
  bool refuses_overflow;
  uint8_t *memory; // all of the budget: scratch, streams, cursors, then boxes
  uint8_t *scratch;
  uint8_t *box_memory;
  size_t box_memory_bytes;
  size_t box_bytes; // of one box
  uint32_t n_boxes;
  struct eval_stripe_box *boxes; // EVAL_BOXES
  struct eval_task task;         // the last one begun
  struct eval_once once;         // of that task
  struct eval_hold hold;         // of an operand
  struct eval_hold found;        // of scales, while others are made of them
  struct eval_cache *cache;      // shared with other evaluators, or NULL
  struct eval_go_on go_on;
  struct eval_stream streams[EVAL_STREAMS];
  struct eval_cursor cursors[EVAL_CURSORS];
};

// Bytes of a wide element.
static inline uint32_t eval_width(const struct recipes *r, uint32_t id) {
  uint32_t bits = dtype_bits((enum dtype)r->rows[id].dtype);
  return bits < 8 ? 1 : bits / 8;
}

// Scratch of the current level of depth: EVAL_SCRATCH_BYTES, for one use at a time.
uint8_t *eval_scratch(struct eval *ev);

// The memory of the evaluator, shared out: all but the boxes, and these for a recipe that is asked for,
// unless they are.
void eval_share_memory(struct eval *ev);
void eval_share_boxes(struct eval *ev, uint32_t root);
// Bytes of it that are no boxes.
extern const size_t eval_fixed_bytes;

// Asks whether to go on: 0, or -1 with ERR_RETRY.
int eval_may_go_on(struct eval *ev, struct err *err);
// Tells of bytes that were read for a range (struct eval_go_on).
void eval_looked(struct eval *ev, uint32_t of, uint64_t bytes);
// A unit of the cache that takes a long read: `find` computes it, and puts it into the cache, in one
// worker; the others wait, and `know` looks it up. ERR_RETRY as eval_may_go_on. As eval_turns_wait says,
// `find` may wait for units of what the unit is made of, and no others.
int eval_find_once(struct eval_task *t, const struct eval_cache_key *key, uint64_t unit,
                   bool (*know)(void *ctx), int (*find)(void *ctx, struct err *err), void *ctx,
                   struct err *err);

// Wide elements [first, first + count) of recipe `id` into out. eval_elements is that of any recipe; a
// kind has one function of its own, in a file with what belongs to it, and a row in the table of
// eval.c. So a kind is added:
//
//   - its function asks eval_elements for what it needs of its operands, straight into `out` or
//     into eval_scratch(t->ev): EVAL_SCRATCH_BYTES of its own, which operands do not touch
//   - what it must look at more than once it keeps in the box that eval_box_for gives, marked busy
//     while operands are asked (they take boxes too); the row says how many it needs at once
//   - the task goes down unchanged; who changes elements in a way that has an error gives pairs to
//     eval_figures.h, where told_of (eval.c) says that it does
eval_elements_fn eval_elements;
eval_elements_fn eval_leaf_elements;                                       // eval_leaf.c
eval_elements_fn eval_join_fill_elements, eval_join_concat, eval_join_pad; // eval_join.c
eval_elements_fn eval_view_elements;                                       // eval_view.c
eval_elements_fn eval_pick_elements;                                       // eval_pick.c
// The error where recipes lie too deep within each other; -1.
int eval_too_deep(struct err *err);

// How many boxes a recipe needs at once; and all its operands do. `left` bounds the walk: parts that
// many recipes share are met once for every way to them. A count that is too small costs repeated
// reads, nothing else.
uint32_t eval_boxes_at_once(const struct eval *ev, uint32_t id, uint32_t *left);
uint32_t eval_boxes_of_operands(const struct eval *ev, uint32_t id, uint32_t *left);
uint32_t eval_view_boxes(const struct eval *ev, uint32_t id, uint32_t *left);
uint32_t eval_join_concat_boxes(const struct eval *ev, uint32_t id, uint32_t *left);

// Of an extent (eval_leaf.c): its RAW bytes, except of float6 in varints, whose bytes are entries;
// n bytes of a source, none of them at or past `end`; and advice that elements are wanted soon.
int eval_leaf_bytes(struct eval *ev, const struct recipe *x, uint64_t off, uint8_t *buf, size_t n,
                    struct err *err);
int eval_leaf_source(struct eval *ev, struct extent at, uint64_t end, uint8_t *buf,
                     struct err *err);
void eval_leaf_will_need(struct eval *ev, uint32_t id, uint64_t first, uint64_t count);
// Fragments so small and so close in a plain extent that windows over many of them are the better
// way (io_gather), and that way, one fragment behind the other into out.
bool eval_leaf_gathers(const struct eval *ev, const struct eval_fragments *f);
int eval_leaf_gather(struct eval *ev, const struct eval_fragments *f, uint8_t *out,
                     struct err *err);
// The piece (index in the recipes' pieces) that holds an entry of the extent x.
uint32_t eval_leaf_piece(const struct eval *ev, const struct recipe *x, uint64_t entry);

// Entries of a varint extent (eval_varint.c): the low bytes of each, as many as an element has, one
// for types below 8 bits.
int eval_varint_entries(struct eval *ev, const struct recipe *x, uint64_t first, uint64_t count,
                        uint8_t *out, struct err *err);

// Packed sub-byte elements, the first at bit `bit` of `in`, and back (eval_bits.c). eval_bits_pack
// starts at a byte and clears the bits behind the last element.
void eval_bits_unpack(uint8_t *out, const uint8_t *in, uint64_t bit, size_t count, uint32_t bits);
void eval_bits_pack(uint8_t *out, const uint8_t *in, size_t count, uint32_t bits);

// The box of this recipe, or the free one longest unused made its own, with count 0; NULL if all
// are being filled.
struct eval_stripe_box *eval_box_for(struct eval *ev, uint32_t id);
// Elements [first, first + count) of a view whose operand begins at `data` (eval_gather.c).
void eval_gather(const struct eval_view *v, const uint8_t *data, uint32_t width, uint64_t first,
                 uint64_t count, uint8_t *out);

#endif
