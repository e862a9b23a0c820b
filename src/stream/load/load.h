// Room: the loader, from disk to model; also folders of models, and where tensors are stored. The border: everything in
// the file is doubted here, once.
#ifndef WEIR_LOAD_H
#define WEIR_LOAD_H

#include "check/fault.h"
#include "model/model.h"
#include "stream/io/sources.h"

struct load_limits {
  uint32_t nesting;        // messages within messages (default 100)
  uint64_t rows;           // nodes, initializers, … of one kind (default 2^28)
  uint64_t metadata_bytes; // .onnx minus payloads (default 2^31 - 1)
};

struct load_options {
  struct load_limits limits;       // zero: defaults
  const struct fault_sink *faults; // NULL: errors end the load, notes and warnings are dropped
  bool no_external;                // do not open data files (tensors keep location and length)
  bool no_matter_the_data; // data files may be missing, not allowed to be read (or be links) or too
      // short: what lies in them keeps location and length, and the load goes on
  uint32_t *warnings; // how many the check of the structure has (check.h), or NULL
};

// Fills an initialized model from sources (file 0), adding data files as it meets them. Streams the
// .onnx through a window of 1 MiB: payloads are stepped over. ERR_MODEL, ERR_INPUT with file, place
// (byte offset or node/tensor name) and numbers. Leaves every tensor ≤ 1 KiB (integer and bool ≤ 64
// KiB) materialized, use lists threaded and names resolved.
//
// meta_sha256: SHA-256 of the bytes of the .onnx in which each payload that load did not
// materialize is replaced by its length as 8 bytes little-endian (payload ranges that touch count
// as one), then the materialized external and varint values in load order.
//
// With a fault sink, faults of single rows are reported and the load goes on (such a tensor has no
// data); a data file that is missing, cannot be opened or is too short for several tensors is one
// fault, with the error that it would be without a sink as its cause. What breaks the framing or passes a limit ends it all the same, with -1 and *err. The
// structure (check.h) is checked last. options NULL: as if all were zero.
int load_model(struct model *m, struct sources *s, const struct load_options *options,
               struct err *err);
// Opens the .onnx as well. *s is to be closed after a failure too; NULL: it could not be opened.
int load_model_at(struct model *m, struct sources **s, const char *path, bool allow_links,
                  const struct load_options *options, struct err *err);

// What a file of the sources seems to be that is not what it should be: "is a web page", and what the
// user can do about it (or NULL). For a data file fewer things are known than for a model. what is
// NULL where nothing is.
struct load_likeness {
  const char *what, *hint;
};
struct load_likeness load_looks_like(struct sources *s, uint32_t file);

#endif
