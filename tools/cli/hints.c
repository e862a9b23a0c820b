// Hints in words of the command line. Modules below tools do not know that there is a command line:
// they give a reason (err.h), and hints.def has a row for each.
//
// A row may leave one thing open, %s: the part that only the place of the error knows, which is
// then the error's own hint. A hint without a reason is a sentence already, and stays as it is.
#include "hints.h"

#include <stdio.h>
#include <string.h>

static const char *const words[REASONS] = {
#define HINT(reason, words) [REASON_##reason] = (words),
#include "hints.def"
#undef HINT
};

struct hints_text hints_of(const struct err *err) {
  struct hints_text t;
  const char *text = words[err->reason] ? words[err->reason] : "%s";
  const char *open = strstr(text, "%s");
  if (open)
    snprintf(t.s, sizeof t.s, "%.*s%s%s", (int)(open - text), text, err->hint, open + 2);
  else
    snprintf(t.s, sizeof t.s, "%s", text);
  return t;
}
