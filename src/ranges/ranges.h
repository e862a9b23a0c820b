// Room: the results of calibration: ranges of values, and the statistics that some passes need. The model was run on
// samples once; what is kept of it is this, in memory and as a file, so that passes quantize activations without
// running anything.
//
//   RANGES       JSON Lines of our own: a head, a line a value in the model's order, an end (below)
//   RANGES.data  beside it, where there are Gram matrices: tiles of doubles (second_moments.h)
//   CACHE        the calibration cache of onnxruntime.quantization: read and written
//   TABLE        a calibration table of TensorRT: read
//
// ranges_read tells them apart by what is in them. Every number of a file is checked when it is read
// (docs/ranges.md says the form, ranges_read.c what is refused), so that who is given a struct ranges
// may trust it: least <= most, both finite; names are different; lists are as long as they say.
//
// Numbers of RANGES are hex floats in quotes ("-0x1.8p+1"), which read back as the same bits; lists of
// floats by channel are their bits, eight hex digits each, in one string.
//
// To add a method: a row of ranges_method with its words (ranges.c), its defaults and its branch of range_method_find
// (range_method.c); test_ranges.py compares with onnxruntime. To add a form: a reader with the declaration in
// ranges_in.h, which checks the file, and its first bytes in ranges_read.c. Refused files go into test_ranges.c, others
// into the corpus of fuzz_ranges.
#ifndef WEIR_RANGES_H
#define WEIR_RANGES_H

#include "base/digest.h"
#include "base/dtype.h"
#include "base/err.h"
#include "base/table.h"

enum { RANGES_FORMAT = 1 };
enum { RANGES_MOST_BINS = 1 << 20, RANGES_MOST_CHANNELS = 1 << 20 };

enum ranges_form { RANGES_OWN, RANGES_CACHE, RANGES_TENSORRT };

// How the range of a value comes of what was seen. RANGES_ANY: the file does not say.
enum ranges_method {
  RANGES_MINMAX,
  RANGES_PERCENTILE,
  RANGES_ENTROPY,
  RANGES_DISTRIBUTION,
  RANGES_ANY
};

// Counts in bins of equal width over [from, to] (range_method_edges says where they begin). n_bins 0: there is none.
struct ranges_histogram {
  uint32_t n_bins;
  bool magnitudes; // of |x|
  double from, to;
  const uint64_t *counts;
};

struct ranges_value {
  struct span name;
  // Of its elements: FLOAT, FLOAT16, BFLOAT16, DOUBLE; UNDEFINED: the file does not say.
  enum dtype type;
  double least, most;      // its range by the method; both exact in `type`
  uint64_t elements, nans; // seen over all samples, and NaN among them; 0, 0: the file does not say
  bool has_spread;         // mean and deviation are there (method distribution)
  double mean, deviation;  // exact in `type`
  struct ranges_histogram histogram;
  // Along `axis` (below 0: from the end), `n_channels` numbers each; n_channels 0: there are none. least and most
  // may be NULL where mean is there, and the other way round.
  int32_t axis;
  uint32_t n_channels;
  const float *channel_least, *channel_most;
  const float *channel_mean; // of |x|
  // The Gram matrix of its rows, XᵀX with K = gram_k columns along the last axis: bytes [gram_at,
  // gram_at + gram_bytes) of the companion, the tiles of the lower triangle, row of tiles by row, as second_moments.h has them.
  // gram_k 0: there is none.
  uint32_t gram_k;
  uint64_t gram_rows; // of X
  uint64_t gram_at, gram_bytes;
  uint8_t gram_sha256[DIGEST_BYTES]; // of these bytes
};

struct ranges {
  enum ranges_form form;
  const char *path;             // as it was given; NULL: not read from a file
  uint8_t sha256[DIGEST_BYTES]; // of the file
  // The head of RANGES; of the others what they say, else "" and zeros.
  const char *weir;                  // the version that wrote it
  const char *source;                // base name of the model
  bool has_model;                    // meta_sha256 is there
  uint8_t meta_sha256[DIGEST_BYTES]; // of the model's metadata (model.h)
  // A JSON array: what was done to the model before it was run, as plans have it; "[]".
  const char *passes;
  const char *runtime; // version of ONNX Runtime
  enum ranges_method method;
  double percentile; // of PERCENTILE
  uint32_t bins;     // of all that count
  bool symmetric, moving_average, cube_roots;
  // What else 'weir calibrate' was told: a JSON object {"exclude":["…"],"skip_infinite":true,"statistics":"gram",
  // "generate":{"n":2,"seed":102}}, of what is not as it is without a word. NULL: nothing.
  const char *options;
  bool smoothed; // a cache that says so: of a model that SmoothQuant had changed
  uint64_t samples;
  uint8_t samples_sha256[DIGEST_BYTES];
  uint64_t data_bytes; // of the companion; 0: there is none
  uint8_t data_sha256[DIGEST_BYTES];
  TABLE(struct ranges_value, values);
  TABLE(uint32_t, buckets);  // by hash of the name: 1 + which value
  TABLE(struct span, unfit); // names for which a cache has infinity or NaN: they are no values
  struct arena arena;        // of all that values point to
};

// ---- in memory ---------------------------------------------------------------------------------

void ranges_init(struct ranges *r);
void ranges_free(struct ranges *r);
// A further value, zeroed but for its name, which is copied. NULL: there is one of this name. Valid until the next
// one; what it points to is to lie in r->arena.
struct ranges_value *ranges_add(struct ranges *r, struct span name);
// NULL: there is none of this name.
const struct ranges_value *ranges_find(const struct ranges *r, struct span name);
// Is there no range of this name because it is infinite, or NaN, in the file?
bool ranges_is_unfit(const struct ranges *r, struct span name);
// Bytes of the tiles of a Gram matrix of k columns. k is at most RANGES_MOST_CHANNELS.
uint64_t ranges_gram_bytes(uint32_t k);
// "minmax", "percentile", "entropy", "distribution"; "" for ANY. Of a word: ANY where there is none of it.
const char *ranges_method_name(enum ranges_method m);
enum ranges_method ranges_method_by_name(struct span name);

// ---- files -------------------------------------------------------------------------------------

// Reads a file of any of the forms into *r, which is initialized; to be freed also after it failed. ERR_MODEL with file and line for what
// is malformed, truncated or beyond a limit; ERR_INPUT for a file, or companion, that is missing or has another size.
int ranges_read(struct ranges *r, const char *path, struct err *err);
// The same of a text in memory, called `path`; companions are not looked at.
int ranges_parse(struct ranges *r, struct span text, const char *path, struct err *err);
// The companion of a file: RANGES.data. In *a.
const char *ranges_data_path(const char *path, struct arena *a);
// Is the companion of a file that was read what its head says (its SHA-256)? Reads all of it. ERR_INPUT. Nothing to do where
// there is none.
int ranges_check_data(const struct ranges *r, struct err *err);

// Gives the lines of RANGES to `sink`, one by one, newline included; passes on the sink's -1. The same values give the same
// bytes.
int ranges_write(const struct ranges *r, int (*sink)(void *ctx, struct span text), void *ctx);
// What the head says of how they were found, as a JSON object in *a: of which model, by which runtime, method, samples.
const char *ranges_about(const struct ranges *r, struct arena *a);
// The same as the calibration cache of onnxruntime, as its save_tensors_data writes it.
int ranges_write_cache(const struct ranges *r, int (*sink)(void *ctx, struct span text), void *ctx);

#endif
