// A part of a model as a model of its own, written into a folder: what verification of sites runs.
//
//      model                       part
//   x ─▶ A ─▶ B ─▶ C ─▶ y       b ─▶ C' ─▶ …      nodes as they are (bodies and called functions too), inputs with
//            w ─┘                 w ─┘            types, constants by recipe, outputs
//
// Bytes of constants come from the sources by recipe, a piece at a time (eval.h); nothing is kept in memory.
#ifndef WEIR_PART_H
#define WEIR_PART_H

#include "model/model.h"
#include "platform/files.h"
#include "recipe/recipe.h"
#include "stream/io/sources.h"

struct part_input {
  uint32_t value;
  enum dtype dtype;
  const int64_t *dims; // of this run: inputs are declared with numbers
  uint32_t rank;
};

struct part {
  const struct model *m;
  uint32_t graph;        // that the nodes lie in: its imports hold
  const uint32_t *nodes; // in topological order
  uint32_t n_nodes;
  const struct part_input *inputs;
  uint32_t n_inputs;
  // Become initializers, named as constants[i].value: what nodes read, perhaps behind Identity nodes.
  const struct model_constant *constants;
  uint32_t n_constants;
  const uint32_t *outputs; // values; a constant or an input among them goes through an Identity
  const char *const *output_names; // as the part calls them; NULL: as part_output_name
  // As declared, one for each output: dtype UNDEFINED: as the model declares it, if it does; dims NULL: of
  // no known rank; -1: not known. NULL: nothing is known.
  const struct part_input *output_types;
  uint32_t n_outputs;
};

// The model's name of output i, where that is free: it is not of a constant or an input, or of an output
// before. Else "<name>_out<i>". In *a.
const char *part_output_name(const struct part *part, uint32_t i, struct arena *a);

// Memory of a model that cutting many parts of it needs: proportional to the model, once.
struct part_cutter;
// `r`: that the model's tensors speak of; gets rows for what the source has as it is.
int part_cutter_open(struct part_cutter **out, const struct model *m, struct recipes *r,
                     struct sources *sources, uint64_t memory, struct err *err);
void part_cutter_close(struct part_cutter *c);
// Writes <name>.onnx into the folder and, if its constants are larger than 16 MiB together, <name>.onnx.data. Nothing is synced.
// Bytes written go to *bytes. ERR_FAIL: it cannot be cut, *err says why in one sentence.
int part_write(struct part_cutter *c, const struct part *part, struct folder in, const char *name,
               uint64_t *bytes, struct err *err);

// The files of a whole model, by a plan over the cutter's table of recipes, into the folder.
struct plan;
int part_write_plan(struct part_cutter *c, const struct plan *plan, struct folder in,
                    struct err *err);

#endif
