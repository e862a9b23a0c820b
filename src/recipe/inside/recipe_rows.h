// Inside the recipe room: what a kind of recipe is, and how its row comes into the table.
//
//   constructor ─┐                    ┌─ fits: may it be so?
//                ├─▶ recipe_asked ──▶─┤
//   JSON ────────┘                    └─ make: canonical form ──▶ recipe_rows_put ──▶ id
//
// Hash, equality, writing and reading know no kinds: they follow the rows of kinds.def.
#ifndef WEIR_RECIPE_ROWS_H
#define WEIR_RECIPE_ROWS_H

#include "recipe/recipe.h"

enum { RECIPE_NUMBERS = 2 * RECIPE_MAX_RANK };

// A row that is asked for. What its kind does not have is not looked at.
struct recipe_asked {
  enum recipe_kind kind;
  enum dtype dtype;
  enum encoding encoding;
  uint32_t rank;
  int64_t dims[RECIPE_MAX_RANK];
  // As they lie in the row; those per axis: `per_axis` lists of the operand's rank, one behind the
  // other.
  int64_t numbers[RECIPE_NUMBERS];
  const uint32_t *of;
  uint32_t n_of;
  struct span elements; // of BYTES; the one of FILL and PAD
  const struct piece *pieces;
  uint32_t n_pieces;
  const uint64_t *checkpoints;
};

enum recipe_holds {
  RECIPE_PIECES,
  RECIPE_ELEMENTS,
  RECIPE_ELEMENT,
  RECIPE_OPERAND,
  RECIPE_OPERANDS
};
enum recipe_where { RECIPE_AT, RECIPE_N };

// A member of a row's JSON object, behind the one that is named like the kind.
enum recipe_member_type {
  MEMBER_DIMS,     // the row's dims
  MEMBER_DTYPE,    // the row's dtype
  MEMBER_ENCODING, // of its pieces
  MEMBER_ELEMENT,  // hex, at row.n of r->bytes
  MEMBER_AXES,     // list `number` of those per axis
  MEMBER_NUMBER,   // from here on: further number `number`
  MEMBER_FLAG,     // true or false
  MEMBER_WORD,     // by its place among the words
  MEMBER_AXIS_SET, // a list of axes, ascending; the number has bit i for axis i
};
struct recipe_member {
  const char *key;
  enum recipe_member_type type;
  uint32_t number;
  bool may_lack;                   // is left out where it is `lacking`
  int64_t lacking;                 //
  const char *(*word)(uint32_t i); // NULL past the last one
};

struct recipe_kind_row {
  const char *name;
  enum recipe_holds holds;
  uint32_t per_axis, numbers;
  enum recipe_where where;
  // May there be such a row? Operands are ids of the table; all else is doubted. ERR_MODEL.
  int (*fits)(const struct recipes *r, const struct recipe_asked *x, struct err *err);
  // The row, or what it is in canonical form. It fits.
  uint32_t (*make)(struct recipes *r, const struct recipe_asked *x);
  struct recipe_member members[12]; // key NULL: no more
};
const struct recipe_kind_row *recipe_rows_kind(enum recipe_kind kind);

// Names of element types by their numbers (recipe_quantize.c).
const char *recipe_quantize_type_name(uint32_t i);

#define KIND(id, name, holds, per_axis, numbers, where, stem, ...)                                 \
  int stem##_fits(const struct recipes *r, const struct recipe_asked *x, struct err *err);         \
  uint32_t stem(struct recipes *r, const struct recipe_asked *x);
#include "recipe/kinds.def"

// Numbers of a row: list `i` of those per axis, and further number `i`.
const int64_t *recipe_rows_axes(const struct recipes *r, uint32_t id, uint32_t i);
int64_t recipe_rows_number(const struct recipes *r, uint32_t id, uint32_t i);

// The row as it stands in *x, with x->dims: a new one, or the equal one that there is.
uint32_t recipe_rows_put(struct recipes *r, const struct recipe_asked *x);
// What fits says, asserted, and make.
uint32_t recipe_rows_make(struct recipes *r, const struct recipe_asked *x);
bool recipe_rows_fit(const struct recipes *r, const struct recipe_asked *x);
// Asks for a row of one kind and one operand (*of lives as long as *x) with the operand's dtype and dims.
void recipe_rows_ask(struct recipe_asked *x, const struct recipes *r, enum recipe_kind kind,
                     const uint32_t *of);
void recipe_rows_set_dims(struct recipe_asked *x, const int64_t *dims, uint32_t rank);
// Have scales the dims that axis and block of a row that quantizes or dequantizes `of` say?
bool recipe_math_scales_fit(const struct recipes *r, uint32_t of, uint32_t scales, int64_t axis,
                            int64_t block);
// Do two recipes have the same dims but for axes of length 1? Then *axis of `a` becomes that of `b`;
// false too if it has no counterpart there.
bool recipe_quantize_same_axes(const struct recipes *r, uint32_t a, uint32_t b, uint32_t *axis);
// ERR_MODEL: "a recipe <what>".
static inline int recipe_rows_bad(struct err *err, const char *what) {
  return err_set(err, ERR_MODEL, "a recipe %s", what);
}
// Have dims and dtype a size? ERR_MODEL.
int recipe_rows_sized(const struct recipe_asked *x, struct err *err);

#endif
