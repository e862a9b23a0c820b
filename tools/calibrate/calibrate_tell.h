// What a calibration found: lines for people; a document.
#ifndef WEIR_CALIBRATE_TELL_H
#define WEIR_CALIBRATE_TELL_H

#include "calibrate_job.h"

void calibrate_tell(const struct calibrate_job *j);
void calibrate_tell_json(const struct calibrate_job *j);

#endif
