// What a calibration found: lines for people; a document.
#ifndef WEIR_RENDER_CALIBRATED_H
#define WEIR_RENDER_CALIBRATED_H

#include "calibrate/calibrate.h"

// out: RANGES. seconds: of the command so far. made_bytes: of temporary files.
void render_calibrated(const struct calibrate *c, const char *out, double seconds);
void render_calibrated_json(const struct calibrate *c, const char *out, double seconds,
                            uint64_t made_bytes);

#endif
