// What a calibration found, as members of an open object.
#ifndef WEIR_CALIBRATE_JSON_H
#define WEIR_CALIBRATE_JSON_H

#include "calibrate/calibrate.h"
#include "json/json.h"

// out: the path of the ranges; made_bytes: of temporary files.
void calibrate_json(const struct calibrate *c, const char *out, double seconds, uint64_t made_bytes,
                    struct json_out *j);

#endif
