// What a calibration found, for people. For programs: calibrate_json.h.
#ifndef WEIR_RENDER_CALIBRATED_H
#define WEIR_RENDER_CALIBRATED_H

#include "calibrate/calibrate.h"

// out: RANGES. seconds: of the command so far.
void render_calibrated(const struct calibrate *c, const char *out, double seconds);

#endif
