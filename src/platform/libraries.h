// Files of shared libraries, before anybody loads them.
#ifndef WEIR_PLATFORM_LIBRARIES_H
#define WEIR_PLATFORM_LIBRARIES_H

#include "platform/files.h"

// Why the file is no shared library that a program of this machine can load, as a sentence without its full stop; NULL: nothing in its
// first bytes is against it.
const char *library_fault(struct file f);

#endif
