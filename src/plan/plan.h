// Room: plans: where bytes go, the .onnx that is emitted, the plan file. A plan is the complete
// description of the output files: lists of segments with fixed offsets, cut into units of
// PLAN_UNIT_BYTES of output. Every byte of every output is a pure function of the plan and of the
// source files it names.
//
// plan_build decides the layout (which tensors lie in a data file, where, how the .onnx is
// encoded); plan_file.h writes it as canonical JSON and reads it back; run.h carries it out.
#ifndef WEIR_PLAN_H
#define WEIR_PLAN_H

#include "base/digest.h"
#include "base/err.h"
#include "base/table.h"
#include "model/model.h"
#include "recipe/recipe.h"

enum { PLAN_FORMAT = 1 };
#define PLAN_UNIT_BYTES ((uint64_t)64 << 20)
enum {
  PLAN_DATA_FILES_MAX = 100,     // of one model; transformers.js takes no more
  PLAN_TENSOR_FILES_MAX = 16384, // with a file for each tensor
};

enum segment_kind {
  SEGMENT_ZERO,    // padding
  SEGMENT_LITERAL, // at: offset in plan->literals
  SEGMENT_EXTENT,  // ref: source file, at: offset in it
  SEGMENT_RECIPE,  // ref: recipe id, at: byte offset in its elements
};

struct segment {
  uint64_t off; // in the output file; segments are sorted and leave no hole
  uint64_t len;
  uint64_t at;
  uint32_t ref;
  uint32_t kind;
};

struct plan_output {
  const char *name; // final base name; staging uses the same
  uint64_t size;
  uint32_t first_segment, n_segments;
};

struct plan_source {
  const char *name; // location relative to the source folder (row 0: the .onnx's base name)
  uint64_t size;
};

// A tensor of the outputs, for audit and per-tensor digests.
struct plan_tensor {
  const char *name; // printable address for attribute tensors: "g0/n12.value"
  // The weight of the input that it stands for, where a pass said so; else NULL. Not in the plan's
  // file.
  const char *of;
  uint32_t output;
  uint64_t off, len; // in the output file (payload only)
  uint32_t dtype, rank;
  const int64_t *dims;
  uint32_t segment;  // the segment that makes it, or that it lies in
  uint32_t encoding; // enum encoding: RAW but in plan->small, see there
};

struct plan {
  struct arena arena;
  TABLE(struct plan_source, sources);
  TABLE(struct plan_output, outputs); // data first, the .onnx last: the order of the seal
  TABLE(struct segment, segments);
  TABLE_BIG(uint8_t, literals);
  TABLE(struct plan_tensor, tensors);
  // The tensors of the outputs that have no row in `tensors`, if plan_layout.small_tensors asked
  // for them: small ones, and those in encodings other than RAW. Of the latter the range is that of
  // what holds the elements: the whole TensorProto, the AttributeProto of a Constant's value_ints
  // and the like, the string_data fields of a renamed tensor. Not in the plan's file.
  TABLE(struct plan_tensor, small);
  // What segments are made of. A plan that was built shares the table of who built it, whose other
  // rows are none of its own; one that was read has its own table, of which it needs every row.
  struct recipes *recipes;
  bool owns_recipes;
  // Of a shared table: the rows that the plan needs, operands first, in the order of its file; and by
  // recipe id the place there, NO_ID for a row that is not needed.
  TABLE(uint32_t, used);
  TABLE(uint32_t, numbers);
  uint8_t meta_sha256[DIGEST_BYTES];
  const char *passes; // canonical JSON text: what was asked for (array of {name, options})
  // Canonical JSON text: by what the passes decided (array of {stage, sha256}); NULL: none.
  const char *artifacts;
  const char *layout; // canonical JSON text: resolved layout options
  bool moved_out;     // a sidecar that nobody asked for: the .onnx would have passed 2^31 - 1 bytes
  uint8_t id[DIGEST_BYTES]; // of the canonical JSON; set by plan_file_write and plan_file_read
};

enum plan_data_form {
  PLAN_DATA_DEFAULT,  // as the source: inline stays inline, anything else becomes one sidecar
                      // (with data_name or split: EXTERNAL)
  PLAN_DATA_EXTERNAL, // one sidecar, or several of `split` bytes, also for an inline source
  PLAN_DATA_INLINE,   // everything in the .onnx; refused past 2^31 - 1 bytes
};

struct plan_layout {
  enum plan_data_form form;
  const char *onnx_name; // base name of the output .onnx
  // Base name of the first sidecar; NULL: derived from onnx_name, in the style of the source; with
  // `split`, as transformers.js looks for them. The others have _1, _2, … behind it.
  const char *data_name;
  uint64_t split; // the most bytes that a sidecar may have; 0: there is one sidecar
  bool each;      // a sidecar for each tensor, named after it; without split and data_name
  // 0: the default ladder (64 B; 4 KiB from 64 KiB; 64 KiB from 1 MiB); else this for all.
  uint64_t align;
  uint64_t inline_below; // tensors smaller than this stay in the .onnx (default 1024)
  bool small_tensors;    // fill plan->small; changes nothing else
  // Is this base name taken in the output folder? Names are chosen while planning; NULL: none is.
  bool (*name_taken)(void *ctx, const char *name);
  void *name_ctx;
  const char *passes;    // JSON texts copied into the plan (may be NULL: "[]")
  const char *artifacts; // likewise; NULL: none
};

// Builds *p from the model as edited, over the table of recipes that the edits were made with, which
// gets rows for what the source has as it is, and outlives *p. Reads no payload. p->moved_out tells that the form had to
// differ from what was asked. ERR_FAIL where the form is impossible (with a hint), where a tensor is larger
// than `split` or there would be too many files, or where the tensors add up to more than 2^50 bytes;
// ERR_USAGE where data_name is taken.
int plan_build(struct plan *p, const struct model *m, struct recipes *r,
               const struct plan_layout *layout, struct err *err);
void plan_free(struct plan *p);
// Gives an empty plan a table of recipes of its own.
void plan_own_recipes(struct plan *p);
// The rows that the plan needs, in the order of its file. NULL: all *n rows of its table.
const uint32_t *plan_recipes(const struct plan *p, uint32_t *n);

// Of the name of a data file the part that all data files of a model share: without the "_<number>" of those
// behind the first one. Its length.
size_t plan_data_stem(const char *name);

// Units: numbered over the outputs in order.
struct plan_unit {
  uint32_t output;
  uint64_t off, len;
};
uint32_t plan_unit_count(const struct plan *p);
struct plan_unit plan_unit_at(const struct plan *p, uint32_t unit);
// The segment of an output that holds byte `off` of it.
uint32_t plan_segment_at(const struct plan *p, uint32_t output, uint64_t off);
// How messages name what a segment makes: by the weight that it stands for, else by its tensor. NULL if
// it makes none.
const char *plan_segment_weight(const struct plan *p, uint32_t segment);
uint64_t plan_total_bytes(const struct plan *p);

#endif
