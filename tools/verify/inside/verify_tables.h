// Prints the tables of a verification on standard output.
#ifndef WEIR_VERIFY_TABLES_H
#define WEIR_VERIFY_TABLES_H

#include "verified.h"

// Sites and outputs that have figures: those that failed first, then by SQNR. *a: for texts.
void verify_tables_rows(const struct verified *f, struct arena *a);
// All layers where they are few, else those that lose most, in the order of the model.
void verify_tables_layers(const struct verified *f, struct arena *a);

#endif
