// Words of a command line: sizes with their units, and what a shell must be given to say a word again.
#include "cli_words.h"

#include "cli.h"

#include <string.h>

bool cli_words_number(const char *text, uint64_t *n) {
  return span_decimal(span_str(text), n);
}

// The factor that a unit stands for, 0 for what is none.
static uint64_t unit_factor(const char *unit) {
  static const char letters[] = "KMGT";
  if (*unit == '\0' || strcmp(unit, "B") == 0) return 1;
  char first = unit[0] == 'k' ? 'K' : unit[0];
  const char *at = strchr(letters, first);
  if (!at) return 0;
  bool decimal = strcmp(unit + 1, "B") == 0;
  if (!decimal && unit[1] != '\0' && strcmp(unit + 1, "iB") != 0 && strcmp(unit + 1, "i") != 0)
    return 0;
  uint64_t factor = 1;
  for (const char *l = letters; l <= at; l++)
    factor *= decimal ? 1000 : 1024;
  return factor;
}

bool cli_parse_size(const char *text, uint64_t *bytes) {
  char digits[24];
  size_t n = strspn(text, "0123456789");
  if (n == 0 || n >= sizeof digits) return false;
  memcpy(digits, text, n);
  digits[n] = '\0';
  uint64_t factor = unit_factor(text + n), count;
  if (factor == 0 || !cli_words_number(digits, &count)) return false;
  return !mul_overflows(count, factor, bytes) && *bytes <= INT64_MAX;
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
