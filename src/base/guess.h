// Guesses at misspelt names: which of some known words was meant.
#ifndef WEIR_GUESS_H
#define WEIR_GUESS_H

#include <stdbool.h>
#include <stdint.h>

// Edits (one letter added, dropped, changed, or two neighbours swapped) between two words; words
// past 47 letters are infinitely far.
uint32_t guess_distance(const char *a, const char *b);

// The nearest of some candidates to a word: the one with the fewest edits, if they are at most a
// third of its letters (and at least one slip is always forgiven), or the only one that starts with
// the word. - and _ count as the same letter. Words are kept by reference.
struct guess {
  const char *word;
  const char *best; // NULL: none is near
  uint32_t edits;   // of best
};
// Does the word say the opposite of the candidate: no-force, asymmetric? Such a candidate is never a
// guess.
bool guess_is_opposite(const char *word, const char *candidate);
// The same letters in the same order, whatever their case and however many - and _ are among them?
bool guess_same_letters(const char *a, const char *b);
struct guess guess_start(const char *word);
void guess_try(struct guess *g, const char *candidate);

#endif
