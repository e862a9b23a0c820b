// What a shell must be given to say a word again: for commands that the user is told to give (how to
// resume a run). Bare words stay bare, so that the usual line is readable.
#include "base/shell_words.h"

const char *shell_words_quote(const char *word, struct arena *arena) {
  static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "@%_+=:,./-";
  if (*word && word[strspn(word, safe)] == '\0') return word;
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
