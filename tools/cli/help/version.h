// Which weir this is, and what it was built with.
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#include <stdio.h>

// "2026-11-21": when that version was made, for manual pages; changes only with it.
extern const char version_date[];

// `weir --version`: "weir 0.2.0", then a line each for the libraries, the instruction set whose
// kernels run here, and the engine that --io auto takes here.
void version_print(FILE *to);

// `weir --version --licenses`: the licence of weir, and of every library that is linked into it.
void version_print_licenses(FILE *to);

#endif
