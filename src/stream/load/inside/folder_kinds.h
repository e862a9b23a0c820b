// Recognizes files that weir wrote next to models.
#ifndef WEIR_FOLDER_KINDS_H
#define WEIR_FOLDER_KINDS_H

#include "model_folder.h"

// "manifest", "edit log", …: the kind of record that weir wrote; NULL: it is another file.
const char *folder_kind(struct model_folder *b, const struct folder_file *f);

#endif
