// Steps of gathering that are files of their own.
#ifndef WEIR_INSPECT_STEPS_H
#define WEIR_INSPECT_STEPS_H

#include "inspect/inspect.h"

// Fills in->advice and in->next from the rows of the model and what was gathered. A new pass adds its
// line here.
void inspect_advise(struct inspect *in, struct model *m);
// Fills in->parameters and in->quantized.
void inspect_weights(struct inspect *in);

#endif
