// What weir inspect DIR and weir check DIR say of a folder of models (model_folder.h).
#ifndef WEIR_MODEL_FOLDER_TELL_H
#define WEIR_MODEL_FOLDER_TELL_H

#include "json.h"
#include "model_folder.h"

void model_folder_print(const struct model_folder *b);                     // lines for people
void model_folder_write(const struct model_folder *b, struct json_out *j); // the member "folder"

#endif
