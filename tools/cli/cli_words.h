// Words of a command line as text: numbers, quoting for a shell.
#ifndef WEIR_CLI_WORDS_H
#define WEIR_CLI_WORDS_H

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>

// Decimal digits and nothing else, below 2^63.
bool cli_words_number(const char *text, uint64_t *n);

// The word as a POSIX shell must see it to give it back: bare where that is safe, else in single
// quotes.
const char *cli_words_quote(const char *word, struct arena *arena);

#endif
