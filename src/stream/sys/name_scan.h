// Which models of a folder name a data file? Asked before one is replaced or removed.
#ifndef WEIR_NAME_SCAN_H
#define WEIR_NAME_SCAN_H

#include "platform/files.h"

enum name_scan {
  NAME_SCAN_FREE,    // no model names it
  NAME_SCAN_NAMED,   // one does
  NAME_SCAN_UNKNOWN, // one could not be read
};

// Looks through every file of the folder (but `except`; NULL: none) that is called *.onnx, or that
// begins as a model does, for a location that is `name` or a path that ends in it. With NAMED and
// UNKNOWN, who[] receives that file. A doc string that looks like a location counts: the answer errs
// on the side of keeping.
enum name_scan name_scan_folder(struct folder in, const char *name, const char *except,
                                char who[256]);
// The same for one file. Bounded memory.
enum name_scan name_scan_file(struct folder in, const char *onnx, const char *name);

#endif
