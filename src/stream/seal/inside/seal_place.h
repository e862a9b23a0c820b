// One staged file takes its final name, once or again.
#ifndef WEIR_SEAL_PLACE_H
#define WEIR_SEAL_PLACE_H

#include "seal_intent.h"
#include "staging.h"

// Has a file of the size of m the bytes of its units?
bool seal_same_bytes(int fd, const struct seal_move *m);
// Does the destination hold the bytes of this staged file under `name`? By inode where it is the
// one that was staged; by bytes, made durable now, where a copy was there first.
bool seal_is_there(const struct staging *st, const struct seal_move *m, const char *name);
// A rename that replaces nothing, on file systems without one too. -1 with errno (EEXIST: the name
// is taken).
int seal_rename_new(int from_dir, const char *from, int to_dir, const char *to);
// Puts the file in place, or sees that it is. With `over` whatever has the name is replaced.
// ERR_RETRY if something else has it.
int seal_place(const struct staging *st, const struct seal_move *m, bool over, struct err *err);

#endif
