// A model whose run was interrupted between its last renames, met by a command that only reads it.
#ifndef WEIR_UNFINISHED_H
#define WEIR_UNFINISHED_H

#include "base/err.h"

#include <stdbool.h>

// Was the run that wrote `model` interrupted while it moved its files into place? Then -1 with ERR_RETRY, which
// names the folder that they are in and says how to go on; 0: no. -1 also where the folder cannot be
// looked at.
int unfinished_refuse(const char *model, struct err *err);
// Puts that error in place of *err, if that says that a data file of `model` is a hard link: a data file
// that keeps its name has two names for a while (passage.c). Says whether it did.
bool unfinished_explains(const char *model, struct err *err);

#endif
