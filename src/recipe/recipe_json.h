// Recipes as JSON. Two forms share one grammar:
//
//   rows    (plan file)  operands are recipe ids: {"transpose":3,"perm":[1,0]}
//   nested  (edit log)   operands are recipes in place: {"transpose":{"tensor":"g0/t12:w"},"perm":[1,0]}
//
//   {"extent":[[file,off,len],…],"encoding":"raw","dtype":"float","dims":[…]}
//       other encodings: [file,off,len,entries,tag_bytes], and for varint a list of checkpoints behind
//   {"bytes":"<hex>","dtype":…,"dims":…}   {"fill":"<hex>","dtype":…,"dims":…}
//   {"reshape":of,"dims":…}  {"transpose":of,"perm":…}  {"slice":of,"starts":…,"steps":…,"dims":…}
//   {"concat":[of,…],"axis":n}  {"pad":of,"befores":…,"afters":…,"value":"<hex>"}
//   {"gather":[of,indices],"axis":n}
//   {"cast":of,"to":dtype}
//       "clip":true where it clips, "saturate":false where it does not, "round":"down" where not "up"
//   {"quantize":of,"part":"codes","format":…,"bits":4,"symmetric":false,"axis":0,"block":64,"levels":256}
//       no axis: per tensor; levels only where the format has them
//   {"dequantize":[codes,scales,zeros],"axis":n,"block":n}
//       no zeros: symmetric; no axis: per tensor; no block: per index of the axis
//   {"map":[of,…],"op":"mul"}  {"reduce":of,"op":"sum","axes":[0,2]}
#ifndef WEIR_RECIPE_JSON_H
#define WEIR_RECIPE_JSON_H

#include "json/json.h"
#include "recipe/recipe.h"

// The nested form's leaves, where the caller knows better names than extents.
struct recipe_json_leaves {
  // Writes recipe `id` in the caller's own form and returns true, or returns false: write it out.
  bool (*write)(void *ctx, struct json_out *j, uint32_t id);
  // Reads a value of the caller's own form: 1 and *id set, 0: not of that form, -1: error.
  int (*read)(void *ctx, const struct json_value *v, uint32_t *id, struct err *err);
  void *ctx;
  uint32_t n_files;           // extents must name a file below this,
  const uint64_t *file_sizes; // and lie inside it
};

// Nested form.
void recipe_json_write(struct json_out *j, const struct recipes *r, uint32_t id,
                       const struct recipe_json_leaves *leaves);
// Row form, with numbers[of] for operand `of`; numbers NULL: its id.
void recipe_json_write_row(struct json_out *j, const struct recipes *r, uint32_t id,
                           const uint32_t *numbers);

// Nested form. Untrusted: every number is checked before a constructor sees it.
int recipe_json_read(struct recipes *r, const struct json_value *v,
                     const struct recipe_json_leaves *leaves, uint32_t *id, struct err *err);

// Row form: the next row of the table. Must come out as row r->n_rows: rows are canonical.
int recipe_json_read_row(struct recipes *r, const struct json_value *v, uint32_t n_files,
                         const uint64_t *file_sizes, struct err *err);

#endif
