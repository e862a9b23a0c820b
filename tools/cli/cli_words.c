// Words of a command line: numbers, and what a shell must be given to say a word again.
//
// Numbers are decimal digits and nothing else: no sign, no blank, no 0x. Sizes with their units are
// base's (size_words.h), because passes read them too.
//
// Quoting is for commands that the user is told to give (how to resume a run): bare words stay
// bare, so that the usual line is readable.
#include "cli_words.h"

#include "cli.h"

#include <string.h>

bool cli_words_number(const char *text, uint64_t *n) {
  return span_decimal(span_str(text), n);
}

static bool is_bare(const char *word) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "@%_+=:,./-";
  return *word && word[strspn(word, safe)] == '\0';
}

const char *cli_words_quote(const char *word, struct arena *arena) {
  if (is_bare(word)) return word;
  size_t n = strlen(word);
  char *out = arena_alloc(arena, 4 * n + 3), *to = out;
  *to++ = '\'';
  for (; *word; word++) {
    if (*word == '\'') {
      memcpy(to, "'\\''", 4);
      to += 4;
    } else {
      *to++ = *word;
    }
  }
  *to++ = '\'';
  *to = '\0';
  return out;
}
