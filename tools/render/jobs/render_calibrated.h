// What a calibration found: lines for people; a document.
#ifndef WEIR_RENDER_CALIBRATED_H
#define WEIR_RENDER_CALIBRATED_H

#include "calibrate_job.h"

void render_calibrated(const struct calibrate_job *j);
void render_calibrated_json(const struct calibrate_job *j);

#endif
