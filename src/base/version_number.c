#include "base/version_number.h"

#ifndef WEIR_VERSION
#error "WEIR_VERSION is set by the build"
#endif

const char version_number[] = WEIR_VERSION;
