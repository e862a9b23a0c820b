// Files of weir's beside models.
#ifndef WEIR_FOLDER_KINDS_H
#define WEIR_FOLDER_KINDS_H

#include "model_folder.h"

// "manifest", "edit log", …: what weir wrote there, which is no file of a model; NULL: it is somebody else's.
const char *folder_kind(struct model_folder *b, const struct folder_file *f);

#endif
