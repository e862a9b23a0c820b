// From an old data file to a new one of the same name, with a whole model at every call.
#ifndef WEIR_PASSAGE_H
#define WEIR_PASSAGE_H

#include "seal_intent.h"
#include "staging.h"

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
