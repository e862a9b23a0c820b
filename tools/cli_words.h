// Words of a command line as text: numbers, guesses at misspelt names, quoting for a shell.
#ifndef WEIR_CLI_WORDS_H
#define WEIR_CLI_WORDS_H

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>

// Decimal digits and nothing else, below 2^63.
bool cli_words_number(const char *text, uint64_t *n);

// The nearest of some candidates to a word: the one with the fewest edits, if they are at most a
// third of its letters (and at least one slip is always forgiven), or the only one that starts with
// the word.
struct cli_guess {
  const char *word;
  const char *best; // NULL: none is near
  uint32_t edits;   // of best
};
struct cli_guess cli_guess_start(const char *word);
void cli_guess_try(struct cli_guess *g, const char *candidate);

// The word as a POSIX shell must see it to give it back: bare where that is safe, else in single
// quotes.
const char *cli_words_quote(const char *word, struct arena *arena);

#endif
