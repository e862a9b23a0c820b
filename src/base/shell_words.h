// Words of a command line, quoted for a shell.
#ifndef WEIR_SHELL_WORDS_H
#define WEIR_SHELL_WORDS_H

#include "base/arena.h"

// The word as a POSIX shell must see it to give it back: bare where that is safe, else in single
// quotes.
const char *shell_words_quote(const char *word, struct arena *arena);

#endif
