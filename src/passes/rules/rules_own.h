// Passes of a user's own: files of rules, compiled while weir runs, become rows as the catalogue has them.
#ifndef WEIR_RULES_OWN_H
#define WEIR_RULES_OWN_H

#include "passes/pass.h"
#include "passes/rules/compile/rules_compile.h"

// Makes passes of n texts: a NULL-terminated list in *a. Their rules are one book: lists, sets and
// spellings of one text hold in those behind it. A pass is called FAMILY/NAME, and rules that are in no
// set are in that of their family. `objection` says why a pass cannot have a name (a sentence), or NULL;
// it may be NULL itself. ERR_USAGE with file, line and column.
int rules_own(const struct rules_text *texts, uint32_t n,
              const char *(*objection)(const char *name), struct arena *a,
              const struct pass *const **passes, struct err *err);

// May both be one walk? Rules of the catalogue: always. Of a user's: where some set has both, so that it
// is proved that they do not undo each other.
bool rules_own_together(const struct pass *a, const struct pass *b);
// Are they rules of a user in the same sets? Each then goes together with what the other does.
bool rules_own_alike(const struct pass *a, const struct pass *b);

#endif
