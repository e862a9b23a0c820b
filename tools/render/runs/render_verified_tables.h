// Prints the tables of a verification on standard output.
#ifndef WEIR_RENDER_VERIFIED_TABLES_H
#define WEIR_RENDER_VERIFIED_TABLES_H

#include "report/verified.h"

// Sites and outputs that have figures: those that failed first, then by SQNR. *a: for texts.
void render_verified_rows(const struct verified *f, struct arena *a);
// All layers where they are few, else those that lose most, in the order of the model.
void render_verified_layers(const struct verified *f, struct arena *a);

#endif
