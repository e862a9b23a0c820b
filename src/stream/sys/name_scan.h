// Which .onnx files of a folder name a data file? Asked before an old sidecar is unlinked.
#ifndef WEIR_NAME_SCAN_H
#define WEIR_NAME_SCAN_H

#include "err.h"
#include "span.h"

enum name_scan {
  NAME_SCAN_FREE,    // no .onnx names it
  NAME_SCAN_NAMED,   // one does
  NAME_SCAN_UNKNOWN, // one could not be read
};

// Looks through every *.onnx (or *.ONNX) in the folder (but `except`; NULL: none) for the bytes of
// `name`. With NAMED and UNKNOWN, who[] receives that .onnx. A name inside a longer one counts: the
// answer errs on the side of keeping.
enum name_scan name_scan_folder(int dir, const char *name, const char *except, char who[256]);
// The same for one file. Bounded memory.
enum name_scan name_scan_file(int dir, const char *onnx, const char *name);

#endif
