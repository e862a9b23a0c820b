// Whole files hashed, and in the same read compared with what their parts were.
#ifndef WEIR_REREAD_FILES_H
#define WEIR_REREAD_FILES_H

#include "stream/sys/reread.h"

struct reread_file {
  const char *name; // for messages
  // One behind the other, from 0 to the end of the file, all of one file. sha256 NULL: a part
  // that is not compared.
  struct reread_known *parts;
  uint32_t n_parts;
  uint8_t sha256[DIGEST_BYTES]; // the answer
};

// A file is read in order by one worker, several files at once. ERR_RETRY if it was stopped; what cannot be read is
// ERR_INPUT.
int reread_files(struct reread_file *files, uint32_t n, const struct reread_work *work,
                 struct err *err);

#endif
