// The steps that a manifest records (x_weir.passes), as a pipeline again.
#ifndef WEIR_RECORDED_H
#define WEIR_RECORDED_H

#include "json/json.h"
#include "pipeline/pipeline.h"
#include "rebuild/recalibrate.h"

// Where files that passes read are looked for, by name and digest: beside these two, in the folder, in the current one.
struct recorded_places {
  const char *manifest, *source;
  const char *folder;        // NULL: there is none
  struct recalibrate *again; // not NULL: ranges are not looked for, but found again
};

// Appends them, with their values read, and files found and read. Rules of the maker's own become passes until user_rules_done.
// ERR_MODEL for what this version does not know; ERR_INPUT for a file that is not there.
int recorded_take(struct pipeline *p, struct user_rules *own, const struct json_value *passes,
                  const struct recorded_places *places, struct err *err);

#endif
