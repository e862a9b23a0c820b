// The .onnx of a model that no file has: rows made by hand, as those of text cases (graph_text.h).
#ifndef WEIR_MADE_FILE_H
#define WEIR_MADE_FILE_H

#include "model/model.h"

// Elements that are not at hand, as they would lie in a data file, are small floats. In *a.
struct span made_file(const struct model *m, struct arena *a);

#endif
