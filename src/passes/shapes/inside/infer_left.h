// Values of which nothing is to be declared, though much is known: what runtimes make of them would change.
#ifndef WEIR_INFER_LEFT_H
#define WEIR_INFER_LEFT_H

#include "infer/infer.h"
#include "infer/infer_leads.h"

// Adds them. Linear in nodes and their operands.
void infer_left_find(struct infer_leads *l, const struct model *m, struct infer *in);

#endif
