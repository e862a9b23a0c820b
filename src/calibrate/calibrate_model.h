// The model that the runtime loads for calibration: a small .onnx in the scratch folder, whose weights are mapped from the
// files of the source (plan_refer.h). A read appends nodes and outputs to it.
//
//   calibrate_model_open      plans it; nothing is written
//   calibrate_model_write     the small .onnx, and the weights that passes changed
//   calibrate_model_begin, _node …, _output …, _load      with these nodes and outputs after its own; any number of times
//   calibrate_model_close     removes what was written
#ifndef WEIR_CALIBRATE_MODEL_H
#define WEIR_CALIBRATE_MODEL_H

#include "model/model.h"
#include "platform/files.h"
#include "recipe/recipe.h"
#include "stream/io/sources.h"
#include "verify/runtime/runtime.h"

struct calibrate_model_of {
  const struct model *m; // as passes left it
  struct recipes *recipes;
  struct sources *sources;
  uint64_t memory; // for reading weights
  struct runtime *runtime;
  const char *scratch; // folder
  struct folder scratch_at;
};

struct calibrate_model;
int calibrate_model_open(struct calibrate_model **out, const struct calibrate_model_of *of,
                         struct err *err);
void calibrate_model_close(struct calibrate_model *c); // may be NULL
// Bytes of the weights that passes changed, which write puts into the scratch folder.
uint64_t calibrate_model_made_bytes(const struct calibrate_model *c);
int calibrate_model_write(struct calibrate_model *c, struct err *err);

void calibrate_model_begin(struct calibrate_model *c);
// A name that the model does not have: "<prefix><what><number>". In *a.
const char *calibrate_model_name(const struct calibrate_model *c, const char *what, uint32_t number,
                                 struct arena *a);
// A node of ONNX's own operators with one input and one output, and an attribute: a number, or (n > 0) a list. NULL: none.
struct calibrate_attr {
  const char *name;
  int64_t i;
  const int64_t *list;
  uint32_t n;
};
void calibrate_model_node(struct calibrate_model *c, const char *op, const char *in,
                          const char *out, const struct calibrate_attr *attr);
// ReduceMin and the like, over these axes (n 0: all). Dims are kept: an older runtime reduces nothing of no elements
// otherwise.
void calibrate_model_reduce(struct calibrate_model *c, const char *op, const char *in,
                            const char *out, const int64_t *axes, uint32_t n);
void calibrate_model_output(struct calibrate_model *c, const char *name);
// *out: as runtime_load gives it; the added outputs follow the model's own.
enum runtime_end calibrate_model_load(struct calibrate_model *c, struct runtime_model *out,
                                      struct err *err);

#endif
