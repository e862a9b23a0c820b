// The terminal that a standard stream may lead to.
#ifndef WEIR_TERMINAL_H
#define WEIR_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

enum terminal_stream { TERMINAL_INPUT, TERMINAL_OUTPUT, TERMINAL_ERRORS };

// Does it lead to a terminal?
bool terminal_is(enum terminal_stream s);
// And to one that obeys "\r", "\033[K" and colours? TERM names its kind; "dumb" does not.
bool terminal_draws(enum terminal_stream s);
// Does the user want colours nowhere (NO_COLOR)?
bool terminal_is_plain(void);
// Characters in a line of it; 0: nobody says.
uint32_t terminal_columns(enum terminal_stream s);

#endif
