// The distance is that of "optimal string alignment": rows of the usual edit matrix, with one more
// step for two neighbours swapped, which is what fingers do. Names are short, so three rows of 48
// cells are enough, and longer words have no near name.
//
// A candidate that begins with the word given is near as well, if it is the only one.
#include "base/guess.h"

#include <ctype.h>
#include <string.h>

enum { WORD_MAX = 47 };

static uint32_t min_u32(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

static bool same(char a, char b) {
  return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

static const char *next_letter(const char *at) {
  return at + strspn(at, "-_");
}

bool guess_same_letters(const char *a, const char *b) {
  for (a = next_letter(a), b = next_letter(b); *a && *b; a = next_letter(a), b = next_letter(b))
    if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++)) return false;
  return *a == *b;
}

uint32_t guess_distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > WORD_MAX || nb > WORD_MAX) return UINT32_MAX;
  uint32_t row[3][WORD_MAX + 1];
  for (uint32_t j = 0; j <= nb; j++)
    row[0][j] = j;
  for (size_t i = 1; i <= na; i++) {
    uint32_t *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
    now[0] = (uint32_t)i;
    for (size_t j = 1; j <= nb; j++) {
      uint32_t best = up[j - 1] + !same(a[i - 1], b[j - 1]);
      best = min_u32(best, min_u32(up[j], now[j - 1]) + 1);
      bool swapped = i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]);
      if (swapped) best = min_u32(best, up2[j - 2] + 1);
      now[j] = best;
    }
  }
  return row[na % 3][nb];
}

struct guess guess_start(const char *word) {
  return (struct guess){.word = word, .edits = UINT32_MAX};
}

static bool starts_with(const char *text, const char *start) {
  for (; *start; text++, start++)
    if (*text == '\0' || !same(*text, *start)) return false;
  return true;
}

bool guess_is_opposite(const char *word, const char *candidate) {
  static const char *const prefixes[] = {"no-", "not-", "non-", "dont-", "no", "non", "un", "a"};
  for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
    const char *rest = word + strlen(prefixes[i]);
    if (starts_with(word, prefixes[i]) && starts_with(rest, candidate) &&
        strlen(rest) == strlen(candidate))
      return true;
  }
  return false;
}

void guess_try(struct guess *g, const char *candidate) {
  size_t n = strlen(g->word);
  uint32_t edits = guess_distance(g->word, candidate);
  uint32_t allowed = n < 6 ? 1 : (uint32_t)n / 3;
  // The start of a name is nearer than any slip: it counts as one.
  if (n >= 2 && starts_with(candidate, g->word)) edits = 1;
  if (edits > allowed || edits >= g->edits || guess_is_opposite(g->word, candidate)) return;
  g->best = candidate;
  g->edits = edits;
}
