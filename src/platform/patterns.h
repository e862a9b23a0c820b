// Patterns of texts, as the system knows them. Texts are bytes: weir sets no locale.
#ifndef WEIR_PLATFORM_PATTERNS_H
#define WEIR_PLATFORM_PATTERNS_H

#include <stdbool.h>
#include <stddef.h>

// Is the whole text as the glob says? * ? [a-z] and a backslash before one of these; slashes and dots are as other characters.
bool pattern_glob(const char *glob, const char *text);

// A POSIX extended regular expression.
struct pattern_regex;

// NULL and *fault, which is not 0: it is none, or there is no memory for it. Both may grow with its repetitions written out, and
// groups may nest as deep as the stack: who takes one from a user measures it first. pattern_free after success.
struct pattern_regex *pattern_compile(const char *expression, int *fault);
void pattern_free(struct pattern_regex *p); // NULL: nothing
// What a fault is, in the words of the system.
void pattern_fault_words(int fault, char *words, size_t n);
// Is it anywhere in the text? Any number of threads may ask at once.
bool pattern_finds(const struct pattern_regex *p, const char *text);

#endif
