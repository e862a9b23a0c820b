// Hints in words of the command line. Modules below tools do not know that there is a command line:
// they give a reason (err.h), and hints.def has a row for each.
//
// Who set WEIR_JOBS and never typed --jobs is told of the variable.
//
// A row may leave one thing open, %s: the part that only the place of the error knows, which is
// then the error's own hint. A hint without a reason is a sentence already, and stays as it is.
#include "cli/hints.h"

#include <stdio.h>
#include <string.h>

static const char *const words[REASONS] = {
#define HINT(reason, words) [REASON_##reason] = (words),
#include "cli/hints.def"
#undef HINT
};

static const struct cli_args *reader;

void hints_for(const struct cli_args *args) {
  reader = args;
}

// Options are named by where the reader's values of them come from.
static struct hints_text in_words_of_reader(const char *text) {
  struct hints_text to = {""};
  size_t at = 0;
  while (*text && at + 1 < sizeof to.s) {
    const size_t n = strncmp(text, "--", 2) == 0 ? 2 + strcspn(text + 2, " ,=:;)") : 1;
    const enum cli_option o =
        n > 2 && reader ? cli_option_named(reader->command, span_of(text + 2, n - 2)) : CLI_NONE;
    const struct cli_source source =
        o == CLI_NONE ? (struct cli_source){""} : cli_source(reader, o);
    at += (size_t)snprintf(to.s + at, sizeof to.s - at, "%.*s",
                           o == CLI_NONE ? (int)n : (int)sizeof source.s,
                           o == CLI_NONE ? text : source.s);
    text += n;
  }
  return to;
}

struct hints_text hints_of(const struct err *err) {
  struct hints_text t;
  const struct hints_text of_reason =
      words[err->reason] ? in_words_of_reader(words[err->reason]) : (struct hints_text){"%s"};
  const char *text = of_reason.s, *open = strstr(text, "%s");
  if (open)
    snprintf(t.s, sizeof t.s, "%.*s%s%s", (int)(open - text), text, err->hint, open + 2);
  else
    snprintf(t.s, sizeof t.s, "%s", text);
  return t;
}
