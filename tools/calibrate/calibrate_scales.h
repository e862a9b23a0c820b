// Scales and zero points that a quantized model has, or a table, as a file for `weir static --override`.
#ifndef WEIR_CALIBRATE_SCALES_H
#define WEIR_CALIBRATE_SCALES_H

#include "cli.h"

// `weir calibrate --scales`: writes the file, and says how many it has. ERR_FAIL: there is none; ERR_INPUT for a table that is none.
int calibrate_scales(const struct cli_args *args, struct err *err);

#endif
