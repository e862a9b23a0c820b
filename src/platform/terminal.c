#include "platform/terminal.h"

#include "platform/inside/variant.h"
#include "platform/machine.h"

#include <string.h>
#include <unistd.h>

static const int descriptors[] = {[TERMINAL_INPUT] = STDIN_FILENO,
                                  [TERMINAL_OUTPUT] = STDOUT_FILENO,
                                  [TERMINAL_ERRORS] = STDERR_FILENO};

bool terminal_is(enum terminal_stream s) {
  return isatty(descriptors[s]);
}

bool terminal_draws(enum terminal_stream s) {
  const char *kind = machine_variable("TERM");
  return terminal_is(s) && kind && strcmp(kind, "dumb") != 0;
}

bool terminal_is_plain(void) {
  return machine_variable("NO_COLOR") != NULL;
}

uint32_t terminal_columns(enum terminal_stream s) {
  return variant_columns(descriptors[s]);
}
