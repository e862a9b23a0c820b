// What the user can do about an error.
#ifndef WEIR_HINTS_H
#define WEIR_HINTS_H

#include "base/err.h"
#include "cli/cli.h"

struct hints_text {
  char s[640];
};
// Whom the words are for: an option that the environment gave is named by its variable from here on. Until
// then, and for NULL, all options are named as they are typed.
void hints_for(const struct cli_args *args);
// The words for the error's reason, or the hint it brought along; empty if it has neither.
struct hints_text hints_of(const struct err *err);

#endif
