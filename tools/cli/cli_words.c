// Words of a command line: sizes with their units, and what a shell must be given to say a word
// again.
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
