// Room: facts about a model, gathered once. Counts, weights, files, and what could be saved.
#ifndef WEIR_INSPECT_H
#define WEIR_INSPECT_H

#include "model/model.h"
#include "stream/io/sources.h"
#include "stream/load/tensor_map.h"

enum { INSPECT_LARGEST = 10, INSPECT_ADVICE = 12, INSPECT_QUANTIZED = 16 };

struct inspect_sum {
  uint64_t tensors, bytes; // bytes of elements in RAW form
};

struct inspect_op {
  uint32_t domain, op_type; // name ids
  uint64_t count;
};

struct inspect_file {
  const char *name;
  uint64_t size;
  struct tensor_map_use use;
  bool missing;
  const struct err *unreadable; // why it is there but may not be read, or NULL
  uint64_t needed;              // bytes, for all of its tensors
  const char *is;               // what it seems to be instead, where it is too short, or NULL
};

// Something that weir could do with the model.
struct inspect_advice {
  const char *command; // the command that does it
  uint64_t sites;      // how many places it would change
  char text[320];      // one line for a person
  uint64_t bytes;      // what all files would then take; 0: nobody looked
  const char *run;     // the command, for a shell; NULL: none, or it needs more than the model
};

// Weights that are codes already, of one operator and form.
struct inspect_quantized {
  const char *op_type;
  uint64_t bits;
  uint64_t block; // elements that share a scale; 0: by channel or tensor
  uint64_t weights, parameters;
};

struct inspect {
  const struct model *m;
  struct sources *sources;
  const char *path; // as it was typed
  bool allow_links; // and so was --allow-links
  struct arena arena;
  struct tensor_map map;
  const char *producer_name, *producer_version; // "" if the file does not say
  struct inspect_op *ops;                       // by count, then by name
  uint32_t n_ops;
  struct inspect_file *files; // as m->files: row 0 is the .onnx
  struct {
    struct inspect_sum all, unused, inlined, in_nodes,
        external; // unused: initializers that nothing uses
    struct inspect_sum by_dtype[256];
  } sums;
  uint32_t largest[INSPECT_LARGEST], n_largest; // tensor ids
  uint64_t n_nodes;
  uint32_t n_subgraphs, n_functions, n_training;
  uint64_t parameters; // elements of weights, quantized ones included
  struct inspect_quantized quantized[INSPECT_QUANTIZED];
  uint32_t n_quantized;
  struct inspect_advice advice[INSPECT_ADVICE];
  uint32_t n_advice;
  uint64_t packed; // bytes of all files after gzip -9, about; 0: not known
  struct {
    const char *command; // the best next thing, for a shell; NULL: there is none
    const char *check;   // what says how accurate that is; NULL: it loses nothing
    uint64_t bytes;      // what all files would then take, about
  } next;
};

// Fills *in from a loaded model. Reads at most a few KiB of the .onnx (who produced it). `path` and
// `allow_links` are for commands that are advised.
void inspect_gather(struct inspect *in, struct model *m, struct sources *sources, const char *path,
                    bool allow_links);
// What takes longer: the compressed size (at most GZIP_WHOLE bytes are read), and what weir could do.
void inspect_look_ahead(struct inspect *in, struct model *m);
void inspect_done(struct inspect *in);

// ---- facts of one tensor ----

// Uses of a tensor: of its initializer's value, or of the output of its Constant node; 1 in other
// attributes.
uint32_t inspect_uses(const struct model *m, uint32_t tensor);
// Where it begins: false for those that lie inline and were small enough to be kept in memory.
bool inspect_place(const struct model *m, uint32_t tensor, struct extent *at);
// Of all files together, those that are missing or too short as they should be.
uint64_t inspect_bytes(const struct inspect *in);
// Its name; for tensors of attributes "node.attribute" if they have none of their own.
const char *inspect_tensor_name(struct inspect *in, uint32_t tensor);

#endif
