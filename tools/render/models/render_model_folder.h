// What weir inspect DIR and weir check DIR say of a folder of models (model_folder.h).
#ifndef WEIR_RENDER_MODEL_FOLDER_H
#define WEIR_RENDER_MODEL_FOLDER_H

#include "json/json.h"
#include "stream/load/model_folder.h"

// Lines for people; the member "folder".
void render_model_folder(const struct model_folder *b);
void render_model_folder_json(const struct model_folder *b, struct json_out *j);

#endif
