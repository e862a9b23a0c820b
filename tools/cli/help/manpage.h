// Manual pages, made from the same tables as --help.
#ifndef WEIR_MANPAGE_H
#define WEIR_MANPAGE_H

#include "base/err.h"

// Writes weir.1 and weir-<command>.1 into an existing folder. ERR_IO (or what the system says) with
// the file's name.
int manpage_write_all(const char *folder, struct err *err);

#endif
