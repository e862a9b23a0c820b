// Parts of the seal that are files of their own.
#ifndef WEIR_SEAL_PARTS_H
#define WEIR_SEAL_PARTS_H

#include "plan/plan.h"
#include "stream/seal/seal.h"
#include "stream/seal/seal_intent.h"
#include "stream/staging/staging.h"

// ---- one staged file takes its final name, once or again (seal_place.c) ----

// Has a file of the size of m the bytes of its units?
bool seal_same_bytes(struct file fd, const struct seal_move *m);
// Does the destination hold the bytes of this staged file under `name`? By inode where it is the
// one that was staged; by bytes, made durable now, where a copy was there first.
bool seal_is_there(const struct staging *st, const struct seal_move *m, const char *name);
// A rename that replaces nothing, on file systems without one too. -1 with errno (EEXIST: the name
// is taken).
int seal_rename_new(struct folder from_dir, const char *from, struct folder to_dir, const char *to);
// Puts the file in place, or sees that it is. With `over` whatever has the name is replaced.
// ERR_RETRY if something else has it.
int seal_place(const struct staging *st, const struct seal_move *m, bool over, struct err *err);

// ---- what the model that is about to be replaced consists of (seal_old.c) ----

// Fills s->old and s->stale: sidecars of the .onnx that the destination has under the name of s's, and
// companions that will describe a model that is no more. Files that s itself puts in place are not
// among them.
int seal_old_find(struct seal_intent *s, const struct staging *st, const struct plan *p,
                  struct err *err);

// ---- what is in place of an unfinished seal that is given up, and stays (seal_left.c) ----

// Fills known and left of *out. Nothing is touched.
void seal_left_find(const struct staging *st, struct seal_given_up *out);
// Adds a file of the destination, with its size, to out->left, if it is there.
void seal_left_add(const struct staging *st, const char *name, struct seal_given_up *out);

// ---- from an old data file to a new one of the same name, with a whole model at every call (passage.c) ----

// The data file m takes the place of one of the replaced model: chooses m->via, a name of the same
// length that nothing has.
int passage_plan(struct seal_intent *s, const struct staging *st, struct seal_move *m,
                 struct err *err);
// Is `name` one that passage_plan could have chosen for the data file `of`?
bool passage_is_name(const uint8_t plan_id[DIGEST_BYTES], const char *of, const char *name);
// Writes the .onnx that names data by their `via` names into the staging folder, durably, and fills
// s->passage. Nothing where no data file has one. ERR_INTERNAL if the .onnx names one of them
// nowhere.
int passage_write(struct seal_intent *s, const struct staging *st, struct err *err);
// Up to the commit point and through it: new data under their `via` names, then the .onnx that says
// so. Repeatable. Nothing where s has no passage.
int passage_enter(const struct seal_intent *s, const struct staging *st, struct err *err);
// Once data and .onnx have their own names: the `via` names go. Repeatable.
int passage_leave(const struct seal_intent *s, const struct staging *st, struct err *err);

#endif
